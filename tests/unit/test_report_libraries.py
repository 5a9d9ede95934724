"""Without a library of reports, whatever does not need it works, and the rest is one clear message."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from synthetic import NUMPY, Shape, write_results

BLOCKED = """
import sys
from rldyno.cli import main

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
sys.argv[0] = "rldyno"
main()
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = Shape(contestants=[NUMPY], algorithms=["dqn"], seeds=1, sample_hz=2, steps=3000)
    return write_results(tmp_path_factory.mktemp("libraries") / "r", shape)


def without(blocked: set[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCKED.format(blocked=blocked), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "package", "arguments"),
    [
        ("altair", "altair", []),
        ("jinja2", "jinja2", []),
        ("vl_convert", "vl-convert-python", []),
        ("vl_convert", "vl-convert-python", ["--figures", "OUT", "--format", "svg"]),
        ("tabulate", "tabulate", ["--figures", "OUT", "--format", "md"]),
    ],
)
def test_a_missing_library_is_one_message_with_its_fix(
    results: Path, tmp_path: Path, library: str, package: str, arguments: list[str]
) -> None:
    given = [str(tmp_path) if word == "OUT" else word for word in arguments]
    done = without({library}, "report", str(results), *given)
    assert done.returncode == 1
    message, fix = done.stderr.splitlines()
    assert message.startswith(f"rldyno: {package} is needed for ")
    assert fix == f"fix: pip install {package}"


@pytest.mark.slow
def test_data_and_tables_need_none_of_them(results: Path, tmp_path: Path) -> None:
    arguments = ["report", str(results), "--figures", str(tmp_path), "--format", "csv"]
    done = without({"altair", "jinja2", "vl_convert", "tabulate"}, *arguments)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "dqn-on-cartpole-v1--learning-steps.csv").exists()
    assert (tmp_path / "pitfalls.csv").exists()


@pytest.mark.slow
def test_trials_run_and_continue_without_the_libraries_of_answers(tmp_path: Path) -> None:
    """A machine with a GPU may have little more than its frameworks; the answer is made elsewhere."""
    study = tmp_path / "study.toml"
    study.write_text(
        'title = "t"\nquestion = "q?"\ncontestants = ["numpy:eager"]\nalgorithms = ["a2c"]\n'
        'environments = ["CartPole-v1"]\ncores = 1\nseeds = 2\n[budget]\nsteps = 100\n'
    )
    arguments = ["run", str(study), "--out", str(tmp_path / "r"), "--no-limits"]
    arguments += ["--toolchain", f"numpy={sys.executable}"]
    trials = tmp_path / "r" / "trials"
    for _ in range(2):
        done = without({"polars", "scipy", "altair"}, *arguments)
        assert done.returncode == 0, done.stderr
        assert "polars is needed for the answer" in done.stdout
        assert len(list(trials.glob("*/outcome.json"))) == 2
        shutil.rmtree(next(trials.iterdir()))
