"""One trial of a guest: run the script as Python would, with a watch around its environments."""

from __future__ import annotations

import hashlib
import os
import platform
import runpy
import sys
import time
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any, Dict, Optional

from rldyno_rig import footprint, schema
from rldyno_rig.facts_file import WorkerFacts
from rldyno_rig.guest import hooks, report
from rldyno_rig.guest.file import Guest
from rldyno_rig.guest.watch import BudgetSpentError, Watch, finish, new_watch
from rldyno_rig.result_file import crashed
from rldyno_rig.trial_file import TrialFile

WORK = "work"
"""Folder in the trial's directory in which the script runs: what it writes stays there."""
_PACKAGES = {
    "gymnasium": "gymnasium",
    "torch": "torch",
    "jax": "jax",
    "flax": "flax",
    "tensorflow": "tensorflow",
    "stable_baselines3": "stable-baselines3",
    "sbx": "sbx-rl",
    "tianshou": "tianshou",
    "skrl": "skrl",
    "torchrl": "torchrl",
    "ale_py": "ale-py",
}
"""Module → the package whose version facts.json names, if the script has imported it."""


def run_guest(directory: Path, started_ns: int) -> int:
    """0 when the trial is done, 1 when it is not; result.json says why."""
    trial = TrialFile.read(directory)
    spawn_ns = int(os.environ.get(schema.SPAWN_VARIABLE, started_ns))
    watch = new_watch(directory, trial, spawn_ns)
    guest = trial.guest
    result = crashed("trial.json names no script") if guest is None else _unusable(guest)
    script_ns = time.perf_counter_ns()
    if guest is None or result is not None:
        _write(directory, watch, result or {})
        return 1

    def end(fault: str = "") -> int:
        ended_ns = time.perf_counter_ns()
        watch.silence()
        watch.recorder.close(watch.stopped_ns or ended_ns, watch.steps, None)
        result = crashed(fault) if fault else finish(watch, script_ns, ended_ns)
        _write(directory, watch, result)
        return int(result["reason"] not in schema.DONE_REASONS)

    def leave() -> None:
        code = end()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)

    watch.leave = leave
    return end(_run(guest, directory, watch))


def _unusable(guest: Guest) -> Optional[Dict[str, Any]]:
    """The study was checked when the run began: the file may be another one now."""
    script = Path(guest.script)
    try:
        found = hashlib.sha256(script.read_bytes()).hexdigest()
    except OSError as error:
        return crashed("cannot read {}: {}".format(script.name, error.strerror))
    if found != guest.sha256:
        return crashed("{} has changed since the run began".format(script.name))
    return None


def _run(guest: Guest, directory: Path, watch: Watch) -> str:
    """What went wrong, in one sentence; empty where the script ended well, or was ended at its budget."""
    place = directory / WORK
    place.mkdir(exist_ok=True)
    os.chdir(place)
    sys.argv = [guest.script, *guest.arguments]
    sys.path.insert(0, str(Path(guest.script).parent))
    hooks.install(watch)
    report.connect(watch)
    try:
        runpy.run_path(guest.script, run_name="__main__")
    except BudgetSpentError:
        pass
    except SystemExit as error:
        if error.code not in (None, 0) and watch.stopped_ns is None:
            return _exit_words(error.code)
    except BaseException as error:
        if watch.stopped_ns is None:
            traceback.print_exc()
            said = str(error).strip().split("\n")[0]
            return "the script failed: {}{}".format(type(error).__name__, ": " + said if said else "")
    return ""


def _exit_words(code: Any) -> str:
    if isinstance(code, int):
        return "the script exited with code {}".format(code)
    return "the script exited: {}".format(str(code).strip().split("\n")[0])


def _write(directory: Path, watch: Watch, result: Dict[str, Any]) -> None:
    from rldyno_rig.training import write_json  # with all the algorithms: not while the script runs

    place = directory / WORK
    if place.is_dir() and not any(place.iterdir()):
        os.chdir(directory)
        place.rmdir()
    if watch.steps:
        write_json(directory / schema.FACTS_FILE, _facts(watch).to_json())
    if result.get("reason") in schema.DONE_REASONS:
        result["memory"] = {"used_bytes": footprint.used_bytes()}
    write_json(directory / schema.RESULT_FILE, result)


def _facts(watch: Watch) -> WorkerFacts:
    numpy: Any = sys.modules.get("numpy")
    found = {}
    for module, package in _PACKAGES.items():
        if module in sys.modules:
            try:
                found[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                continue
    return WorkerFacts(
        python=platform.python_version(),
        numpy=getattr(numpy, "__version__", None),
        versions=found,
        observation_shape=tuple(watch.observation_shape),
        actions=watch.actions,
    )
