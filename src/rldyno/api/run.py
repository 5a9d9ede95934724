"""Running a study from code, in a process of its own: nothing that the caller has loaded disturbs it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from rldyno.api.results import StudyResults, load
from rldyno.api.study import Study
from rldyno.errors import Problem
from rldyno.processes.lab import OWN_MODULE
from rldyno.studies.given import given_study

INTERRUPTED = 130
# Lines of output that a failed run shows.
TAIL = 20


def run(
    study: Study | Path | str,
    out: Path | str | None = None,
    *,
    seeds: int | str | None = None,
    toolchains: Mapping[str, Path | str] | None = None,
    jobs: int = 1,
    hours: float | None = None,
    max_noise: float | None = None,
    keep_failed: bool = False,
    amend: bool = False,
    verify: bool = True,
    limits: bool = True,
    report: bool = False,
    progress: bool = False,
) -> StudyResults:
    """Run a study, or continue it, and load its results: what `rldyno run` does, with the same options.

    `study` is a Study, the path of a study file, the name of a shipped study, or the results directory of a
    run to continue. `out` is the results directory, results/<name of the study> unless given. `seeds`
    replaces the study's seeds: 10, or "5..30" to add seeds where comparisons are open. `toolchains` maps a
    framework to the interpreter to use for it. `progress` prints what `rldyno run` prints; without it only
    trials that fail are reported, as a warning.
    """
    out = Path(out or home_of(study))
    options = [
        *([] if seeds is None else [f"--seeds={seeds}"]),
        *(f"--toolchain={framework}={python}" for framework, python in (toolchains or {}).items()),
        f"--jobs={jobs}",
        *([] if hours is None else [f"--hours={hours}"]),
        *([] if max_noise is None else [f"--max-noise={max_noise}"]),
        *(["--keep-failed"] if keep_failed else []),
        *(["--amend"] if amend else []),
        *([] if verify else ["--no-verify"]),
        *([] if limits else ["--no-limits"]),
        *([] if report else ["--no-report"]),
    ]
    with tempfile.TemporaryDirectory() as folder:
        given = study
        if isinstance(study, Study):
            given = study.write(Path(folder) / f"{study.name}.toml")
        code, tail = call(["run", str(given), "--out", str(out), *options], Path(folder), progress)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    results = load(out)
    missing = results.trials.height - results.trials["status"].to_list().count("done")
    if code and not missing:
        raise Problem("the run ended with an error", detail=tail, code=code)
    if missing:
        message = f"{missing} of {results.trials.height} trials are not done: see `.trials` for the reasons"
        warnings.warn(message, stacklevel=2)
    return results


def home_of(study: Study | Path | str) -> Path:
    """The results directory unless the user gives one."""
    if isinstance(study, Study):
        return Path("results") / study.name
    given = given_study(Path(study))
    return given.directory or Path("results") / given.name


def call(arguments: list[str], folder: Path, progress: bool) -> tuple[int, str]:
    """Run a command of rldyno; (exit code, the last lines it printed). A problem there is raised here."""
    problem = folder / "problem.json"
    command = [sys.executable, *OWN_MODULE, "rldyno.api.child", str(problem), *arguments]
    tail: deque[str] = deque(maxlen=TAIL)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            for line in process.stdout or ():
                tail.append(line)
                if progress:
                    print(line, end="", flush=True)
            code = process.wait()
        except KeyboardInterrupt:
            process.terminate()  # it ends its trials first
            process.wait()
            raise
    if problem.exists():
        raise Problem(**json.loads(problem.read_text(encoding="utf-8")))
    return code, "".join(tail)
