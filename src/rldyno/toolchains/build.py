"""Building a toolchain: a virtual environment and its `pip install` steps, one process at a time.

Virtual environments cannot be moved: one is built where it will stay, and counts once `ready.json` is there.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rldyno.errors import Problem
from rldyno.records.locks import LockedError, locked
from rldyno.toolchains.catalogue import Toolchain
from rldyno.toolchains.contents import contents
from rldyno.toolchains.interpreters import Python, inspect
from rldyno.toolchains.packages import Package, packages_of
from rldyno.toolchains.store import (
    READY_FILE,
    Built,
    Recipe,
    discard,
    lock_file,
    make_recipe,
    pins,
    processes_in,
    python_in,
    read_finished,
    read_ready,
    size_of,
    stop,
    stop_leftovers,
    toolchains_dir,
)

_TAIL_LINES = 15
# "from versions: none": pip reached no index that knows the package at all.
_NO_NETWORK = ("NewConnectionError", "NameResolutionError", "Max retries exceeded", "(from versions: none)")


@dataclass(frozen=True)
class Progress:
    """What a build is doing: sent about five times a second."""

    name: str
    step: str
    line: str
    """The last line pip wrote."""
    seconds: float
    size_bytes: int
    note: str = ""
    """What the user should still see when the build has ended."""


OnProgress = Callable[[Progress], None]


def build(
    toolchain: Toolchain,
    variant: str,
    pip_args: Sequence[str] = (),
    on_progress: OnProgress = lambda progress: None,
    packages: Sequence[Package] | None = None,
) -> Built:
    """The finished toolchain, built now unless it exists. One process builds; others wait for it.

    `packages`: what the user adds; None for what was added before.
    """
    added = packages_of(toolchain.framework) if packages is None else packages
    recipe, python = make_recipe(toolchain, variant, pip_args, added)
    ready = read_ready(recipe.directory)
    if ready:
        return ready
    with _problems_of_the_disk(recipe):
        recipe.log.parent.mkdir(parents=True, exist_ok=True)
        with _locked(recipe, on_progress):
            ready = read_ready(recipe.directory)
            return ready or _build_locked(toolchain, recipe, python, added, on_progress)


def _build_locked(
    toolchain: Toolchain,
    recipe: Recipe,
    python: Python,
    packages: Sequence[Package],
    on_progress: OnProgress,
) -> Built:
    directory = recipe.directory
    damaged = read_finished(directory)
    if damaged:
        _check_unused(damaged)
        on_progress(Progress(recipe.name, "", "", 0.0, 0, note=f"{damaged.lost_words}: building it again"))
    stop_leftovers(directory)
    discard(directory)
    recipe.log.unlink(missing_ok=True)
    started = time.monotonic()
    watch = _Watch(recipe, started, on_progress)
    try:
        create = [str(python.path), "-I", "-m", "venv", str(directory)]
        _run(toolchain, recipe, create, "creating the environment", watch)
        steps = [*recipe.steps, *_package_steps(recipe, packages)]
        for number, step in enumerate(steps, start=1):
            install = [str(python_in(directory)), "-I", "-m", "pip", "install"]
            install += ["--disable-pip-version-check", "--no-input", *recipe.pip_args, *step]
            label = "installing" if len(steps) == 1 else f"installing {number}/{len(steps)}"
            _run(toolchain, recipe, install, label, watch)
        versions = _checked_versions(toolchain, directory)
        return _finish(recipe, versions, time.monotonic() - started)
    except BaseException:
        discard(directory)
        raise


def _check_unused(damaged: Built) -> None:
    """What runs in a toolchain that was finished are trials of somebody else, not leftovers of a build."""
    if any(processes_in(damaged.directory)):
        raise Problem(
            f"{damaged.lost_words}, and something still runs in it",
            fix="wait for the run to end, then run the same command again: it builds the toolchain again",
            code=1,
        )


def _package_steps(recipe: Recipe, packages: Sequence[Package]) -> list[tuple[str, ...]]:
    """The user's packages, together with the pins: pip refuses a package that would change one."""
    if not packages:
        return []
    return [(*(package.source for package in packages), *map(str, pins(recipe)))]


def _finish(recipe: Recipe, versions: dict[str, str], install_s: float) -> Built:
    directory = recipe.directory
    built = Built(
        directory,
        recipe,
        versions,
        size_of(directory),
        round(install_s, 3),
        time.time(),
        reused=False,
        contents=contents(directory),
    )
    ready = {
        "fingerprint": recipe.fingerprint,
        "recipe": asdict(recipe),
        "python": recipe.python,
        "versions": versions,
        "size_bytes": built.size_bytes,
        "install_s": built.install_s,
        "built_at": built.built_at,
        "contents": built.contents,
    }
    partial = directory / (READY_FILE + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(ready, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(directory / READY_FILE)
    return built


class _Watch:
    """Reports progress at a pace that costs nothing: measuring the size takes at most 5 % of the time."""

    def __init__(self, recipe: Recipe, started: float, on_progress: OnProgress) -> None:
        self.recipe = recipe
        self.started = started
        self.on_progress = on_progress
        self.size_bytes = 0
        self.measure_at = started

    def report(self, step: str) -> None:
        now = time.monotonic()
        if now >= self.measure_at:
            self.size_bytes = size_of(self.recipe.directory)
            after = time.monotonic()
            self.measure_at = after + max(1.0, 20 * (after - now))
        line = (_tail(self.recipe.log, 1) or [""])[0].strip()
        self.on_progress(Progress(self.recipe.name, step, line, now - self.started, self.size_bytes))


def _run(toolchain: Toolchain, recipe: Recipe, command: list[str], step: str, watch: _Watch) -> None:
    with recipe.log.open("ab") as log:
        log.write(f"$ {shlex.join(command)}\n".encode())
        log.flush()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PIP_USER": "0", "PYTHONUNBUFFERED": "1"},
        )
        try:
            while process.poll() is None:
                watch.report(step)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
        finally:
            if process.poll() is None:
                stop(process.pid)
            process.wait()
    if process.returncode != 0:
        raise Problem(
            f"the {toolchain.framework} toolchain could not be built: {step} failed",
            detail="\n".join([*_tail(recipe.log, _TAIL_LINES), f"whole log: {recipe.log}"]),
            fix=_fix_for(recipe.log.read_text(errors="replace"), recipe),
            code=1,
        )


def _fix_for(log: str, recipe: Recipe) -> str:
    if "No space left on device" in log or "Disk quota exceeded" in log:
        return "free some disk space, or set RLDYNO_CACHE_DIR to a directory on a larger disk"
    if "ensurepip" in log and "pip install" not in log:
        return "install Python's venv module (Debian, Ubuntu: apt install python3-venv)"
    if "ResolutionImpossible" in log and recipe.packages:
        return "choose versions of your packages that work with the pins of this toolchain"
    if any(sign in log for sign in _NO_NETWORK):
        return (
            "check the network or the proxy, or install from a directory of wheels: "
            f'rldyno setup {recipe.name} --pip-args "--no-index --find-links DIR"'
        )
    return (
        f"read the lines above; `rldyno setup {recipe.name}` tries again, --pip-args passes arguments on, "
        f"--toolchain {recipe.name}=PYTHON uses an interpreter that has it already"
    )


def _checked_versions(toolchain: Toolchain, directory: Path) -> dict[str, str]:
    """Versions of what was installed, once the framework imports."""
    try:
        found = inspect(
            python_in(directory), [toolchain.import_name], isolated=True, variables=toolchain.variables
        )
        error = found.error
    except ValueError as failure:
        error = str(failure)
    if error is not None:
        raise Problem(
            f"the {toolchain.framework} toolchain was installed, but `import {toolchain.import_name}` fails",
            detail=error,
            fix=f"see what it needs with `rldyno doctor`, then `rldyno setup {toolchain.framework}` again",
            code=1,
        )
    return found.versions


@contextlib.contextmanager
def _locked(recipe: Recipe, on_progress: OnProgress) -> Iterator[None]:
    """Hold the toolchain's lock; while another process holds it, say that this one waits."""
    started = time.monotonic()
    with contextlib.ExitStack() as held:
        while True:
            try:
                held.enter_context(locked(lock_file(recipe.directory), patience_s=0.2))
                break
            except LockedError as busy:
                waited = time.monotonic() - started
                builder = f"waiting: another process builds it ({busy})"
                on_progress(Progress(recipe.name, builder, "", waited, 0))
        yield


@contextlib.contextmanager
def _problems_of_the_disk(recipe: Recipe) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise Problem(
            f"cannot build the {recipe.name} toolchain in {toolchains_dir()}: {error.strerror or error}",
            fix="set RLDYNO_CACHE_DIR to a directory "
            + ("on a disk with more space" if full else "you can write to"),
            code=1,
        ) from error


def _tail(path: Path, lines: int) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 8192))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.replace("\r", "\n").splitlines() if line.strip()][-lines:]
