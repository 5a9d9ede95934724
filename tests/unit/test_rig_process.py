"""Starting rig processes: command, environment, time limit, children, and what is reported when one dies."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from rldyno.errors import Problem
from rldyno.processes import rig
from rldyno.processes.rig import Ended, Runtime
from rldyno_rig.job_files import LIMITS_FILE, EnvironmentCase, LimitsJob
from rldyno_rig.schema import PARTS_VARIABLE

HERE = Runtime(Path(sys.executable), False, {"GIVEN": "1"})
JAX_NOTE = (
    "For simplicity, JAX has removed its internal frames from the traceback of the following exception. "
    "Set JAX_TRACEBACK_FILTERING=off to include these."
)


def test_isolated_processes_see_no_python_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    isolated = Runtime(Path("/py"), True, {"OMP_NUM_THREADS": "1"})
    environment = isolated.environment(123)
    assert "PYTHONPATH" not in environment
    assert (environment["OMP_NUM_THREADS"], environment["RLDYNO_SPAWN_NS"]) == ("1", "123")
    assert environment["HOME"] == os.environ["HOME"]
    assert isolated.command(["x"]) == ["/py", "-I", "x"]
    given = Runtime(Path("/py"), False, {})
    assert given.environment(1)["PYTHONPATH"] == "/somewhere"
    assert given.command(["x"]) == ["/py", "x"]


def test_a_process_runs_in_its_directory_and_session_with_the_variables(tmp_path: Path) -> None:
    code = "import os; print(os.getcwd(), os.environ['GIVEN'], os.getsid(0) == os.getpid())"
    ended = rig.run(["-c", code], tmp_path, HERE)
    assert (ended.code, ended.out.split()) == (0, [str(tmp_path.resolve()), "1", "True"])
    assert 0 < ended.seconds < 60
    assert ended.cpu_s > 0


def test_the_rig_finds_packages_of_parts_behind_those_of_its_interpreter(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    runtime = Runtime(Path(sys.executable), True, {PARTS_VARIABLE: f"{first}{os.pathsep}{second}"})
    begin = f"import runpy, sys; runpy.run_path({str(rig.RIG / '__main__.py')!r}); print(sys.path[-2:])"
    ended = rig.run(["-c", begin], tmp_path, runtime)
    assert ended.out.strip() == str([str(first), str(second)]), ended.err


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no CPU affinity on this system")
def test_a_process_is_pinned_to_its_cpus(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    ended = rig.run(["-c", "import os; print(os.sched_getaffinity(0))"], tmp_path, HERE, cpus=[cpu])
    assert ended.out.strip() == str({cpu})


@pytest.mark.slow
def test_the_time_limit_ends_the_process_and_its_children(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time; "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
        "print(child.pid, flush=True); time.sleep(600)"
    )
    ended = rig.run(["-c", code], tmp_path, HERE, limit_s=5.0)
    assert ended.code is None
    assert ended.last_words(5.0) == "no answer within 5 s"
    child = int(ended.out)
    deadline = time.monotonic() + 60
    while _lives(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _lives(child)


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Ended(1, 0.1, "", "Traceback\n  File\nImportError: no x\n\n"), "ImportError: no x"),
        (Ended(3, 0.1, "", ""), "it ended with status 3 and printed nothing"),
        (Ended(-11, 0.1, "", "some line"), "crashed: SIGSEGV"),
        (Ended(1, 0.1, "", f"TypeError: no y\n{'-' * 20}\n{JAX_NOTE}\n"), "TypeError: no y"),
    ],
)
def test_how_a_process_ended_is_one_line(ended: Ended, words: str) -> None:
    assert ended.last_words() == words


def test_the_answer_of_a_job_is_read(tmp_path: Path) -> None:
    job = LimitsJob("numpy_", (EnvironmentCase("CartPole-v1"),))
    (tmp_path / LIMITS_FILE).write_text(json.dumps(job.to_json()))
    (rate,) = rig.answer_of("limits", tmp_path, HERE, "limits_found.json", what="stepping")
    assert rate["environment"] == "CartPole-v1"
    assert rate["steps_per_s"] > 0


def test_a_job_that_dies_is_one_problem_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"^stepping failed: FileNotFoundError: .*limits\.json") as caught:
        rig.answer_of("limits", tmp_path, HERE, "limits_found.json", what="stepping")
    lines = str(caught.value.detail).splitlines()
    assert len(lines) == rig.LOG_LINES
    assert lines[-1].startswith("FileNotFoundError")
    assert caught.value.code == 1
    assert caught.value.fix


def test_an_interpreter_that_cannot_start_is_a_problem(tmp_path: Path) -> None:
    nowhere = Runtime(tmp_path / "python", True, {})
    with pytest.raises(Problem, match=r"stepping failed: .*No such file"):
        rig.answer_of("limits", tmp_path, nowhere, "limits_found.json", what="stepping")


def test_a_trials_process_imports_nothing_heavy_to_start_a_rig() -> None:
    heavy = {"pydantic", "polars", "typer", "rich", "numpy", "scipy", "altair"}
    code = f"import sys, rldyno.processes.rig; print(sorted({heavy} & set(sys.modules)))"
    ended = rig.run(["-c", code], Path.cwd(), HERE)
    assert ended.out.strip() == "[]", ended.err
