"""A contestant's trial again, for a few seconds, under py-spy or perf. It measures and keeps nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rldyno.errors import Problem
from rldyno.processes import caches
from rldyno.processes.rig import RIG, Runtime, end, failed, start_command
from rldyno.profiling.stacks import Hot, by_phase, collapsed, hottest
from rldyno.records.files import Json
from rldyno.records.trial_records import read_trial
from rldyno.toolchains.placed import placed_file
from rldyno.toolchains.resolve import resolve
from rldyno_rig import schema
from rldyno_rig.contestant import WHEEL
from rldyno_rig.envs.atari_rules import ATARI, is_atari
from rldyno_rig.result_file import WorkerResult
from rldyno_rig.trial_file import Budget, TrialFile

SECONDS = 10.0
"""Of the training loop."""
RATE = 50
"""Per second. A sampler that falls behind takes the samples that it missed all at once."""
BEHIND = "behind in sampling"
"""What py-spy says then."""
LIMIT_S = 600.0
FUNCTIONS = 5
PY_SPY, PERF = "py-spy", "perf"
SAMPLES_FILE = "profile.samples"


@dataclass(frozen=True)
class Profile:
    contestant: str
    tool: str
    phase: str | None
    """None: the functions are those of the whole training loop."""
    samples: int
    """Of the training loop."""
    share: float
    """Of them in the phase."""
    functions: tuple[Hot, ...]
    late: bool = False
    """The sampler could not keep up: shares are not exact."""


def profile_words(found: Profile) -> list[str]:
    """What was sampled, then a line per function."""
    in_phase = f"{100 * found.share:.0f} % of them in `{found.phase}`"
    place = "of the whole training loop" if found.phase is None else in_phase
    first = f"`{found.contestant}`, {SECONDS:.0f} s under {found.tool}: {found.samples} samples, {place}"
    late = ["The machine is busy: the profiler could not keep up, and the shares are not exact."]
    functions = (f"{100 * one.share:3.0f} %  {one.name}" for one in found.functions)
    return [first, *functions, *(late if found.late else [])]


def profile_json(found: Profile) -> Json:
    return asdict(found)


def find_tool() -> tuple[str, Path]:
    """py-spy, which knows Python's functions, else perf; a Problem that says how to get one."""
    beside = Path(sys.executable).with_name(PY_SPY)
    if found := shutil.which(PY_SPY) or (str(beside) if beside.exists() else None):
        return PY_SPY, Path(found)
    if found := shutil.which(PERF):
        return PERF, Path(found)
    raise Problem(
        "a profile needs py-spy or perf, and neither is installed",
        fix="pip install py-spy (in any environment on the PATH), or install your system's package of perf",
        code=1,
    )


def profile(trial_dir: Path, phase: str, overrides: Mapping[str, Path] | None = None) -> Profile:
    """Of the contestant of this trial, in this phase where the tool can tell phases apart."""
    tool, program = find_tool()
    trial = on_this_machine(read_trial(trial_dir), overrides)
    with tempfile.TemporaryDirectory(prefix="rldyno-profile-") as folder:
        home = Path(folder)
        result, spawn_ns = run_sampled(trial, home, tool, program)
        if tool == PY_SPY:
            found = by_phase(collapsed((home / SAMPLES_FILE).read_text("utf-8", errors="replace")))
            late = BEHIND in (home / schema.LOG_FILE).read_text("utf-8", errors="replace")
            return replace(of_phase(str(trial.contestant), found, phase), late=late)
        window = (spawn_ns + (result.train_start_ns or 0), result.train_ns)
        counts = symbols(perf_script(program, home), window[0], window[0] + window[1])
    return Profile(str(trial.contestant), tool, None, counts.total(), 1.0, hottest(counts, FUNCTIONS))


def on_this_machine(trial: TrialFile, overrides: Mapping[str, Path] | None = None) -> TrialFile:
    """With the toolchain that is here: what the record names may be anybody's program."""
    if trial.workers > 1 or trial.guest is not None or trial.contestant.release.endswith(WHEEL):
        raise Problem(f"no profile of {trial.trial}: it needs a trial of one worker with a toolchain", code=1)
    needs = [ATARI] if is_atari(trial.environment) else []
    try:
        return placed_file(trial, resolve(trial.framework, overrides, needs))
    except (KeyError, TypeError, ValueError) as error:
        raise Problem(f"no profile of {trial.trial}: its trial.json is damaged: {error!r}", code=1) from error


def of_phase(contestant: str, found: dict[str, Counter[str]], phase: str) -> Profile:
    whole = sum(counts.total() for counts in found.values())
    counts = found.get(phase, Counter())
    share = counts.total() / whole if whole else 0.0
    return Profile(contestant, PY_SPY, phase, whole, share, hottest(counts, FUNCTIONS))


def run_sampled(trial: TrialFile, home: Path, tool: str, program: Path) -> tuple[WorkerResult, int]:
    """The end of the trial, and when it was started."""
    short = replace(trial, budget=Budget(wall_s=SECONDS))
    (home / schema.TRIAL_FILE).write_text(json.dumps(short.to_json()), encoding="utf-8")
    place = home / "caches"
    place.mkdir()
    caches.make(place, trial.variables)
    runtime = Runtime.of_trial(trial, place)
    spawn_ns = time.monotonic_ns()
    log = home / schema.LOG_FILE
    with log.open("wb") as stream:
        command = [*sampler(tool, program, home), *runtime.command([str(RIG), "train", str(home)])]
        process = start_command(command, home, runtime.environment(spawn_ns), stdout=stream)
        try:
            code: int | None = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end(process)
    ended = home / schema.RESULT_FILE
    if code != 0 or not ended.exists() or not (home / SAMPLES_FILE).exists():
        raise failed(
            f"the profile of {trial.contestant} with {tool}", code, log.read_text("utf-8", "replace"), LIMIT_S
        )
    return WorkerResult.from_json(json.loads(ended.read_text("utf-8"))), spawn_ns


def sampler(tool: str, program: Path, home: Path) -> list[str]:
    """The command before the one that it watches."""
    out = str(home / SAMPLES_FILE)
    if tool == PY_SPY:
        # Without stopping the process at each sample: it trains at nearly its own speed.
        options = ["--format", "raw", "--rate", str(RATE), "--nonblocking", "--output", out]
        return [str(program), "record", *options, "--"]
    clock = ["-e", "cpu-clock", "-F", str(RATE), "-k", "CLOCK_MONOTONIC"]
    return [str(program), "record", *clock, "-o", out, "--"]


def perf_script(program: Path, home: Path) -> str:
    command = [str(program), "script", "-i", str(home / SAMPLES_FILE), "-F", "time,ip,sym,dso"]
    ended = subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False)
    if ended.returncode:
        raise failed("reading the samples of perf", ended.returncode, ended.stderr.decode("utf-8", "replace"))
    return ended.stdout.decode("utf-8", "replace")


def symbols(script: str, start_ns: int, end_ns: int) -> Counter[str]:
    """Symbols of compiled code in this time, from lines of `seconds: address symbol (library)`."""
    counts: Counter[str] = Counter()
    for line in script.splitlines():
        stamp, _, rest = line.strip().partition(":")
        symbol, _, library = rest.strip().partition(" ")[2].rpartition(" (")
        try:
            when_ns = float(stamp) * 1e9
        except ValueError:
            continue
        if symbol and start_ns <= when_ns <= end_ns:
            counts[f"{symbol} ({Path(library.rstrip(')')).name})"] += 1
    return counts
