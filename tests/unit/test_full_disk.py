"""A full disk is one message with the path and a fix, in every command that writes; nothing is damaged.

A limit on the size of files stands for the full disk: the system refuses the same writes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz_beside import CURVE, RELEASES
from fuzz_calls import Report, call, without_training
from rldyno.errors import problem_of
from rldyno.sharing.pack import pack_directory
from rldyno.toolchains import skeleton
from synthetic import NUMPY, Shape, write_results

STUDY = """
contestants = "numpy:eager"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 1
budget.steps = 300
"""
RUN = ("--no-verify", "--no-limits", "--no-report", "--toolchain", f"numpy={sys.executable}")
COMMANDS = (
    ("report", "{}/results"),
    ("report", "{}/results", "--out", "{}/new.html"),
    ("report", "{}/results", "--figures", "{}/figures", "--format", "csv,md,tex"),
    ("export", "{}/results", "--format", "csv"),
    ("export", "{}/results", "--format", "parquet"),
    ("export", "{}/results", "--out", "{}/export", "--tables"),
    ("tensorboard", "{}/results"),
    ("pack", "{}/results", "--out", "{}/new.tar.gz"),
    ("pack", "{}/results", "--out", "{}/new.tar.gz", "--anonymous"),
    ("board", "{}/results.tar.gz", "--out", "{}/site"),
    ("unpack", "{}/results.tar.gz", "--out", "{}/unpacked"),
    ("check", "{}/lost", "--repair"),
    ("compare", "{}/results", "{}/results", "--figures", "{}/figures", "--format", "csv"),
    ("report", "{}/results", "--curve", "{}/theirs.csv"),
    ("tensorboard", "{}/results", "--follow"),
    (
        "bisect",
        "numpy",
        "--releases",
        ",".join(RELEASES),
        "--mode",
        "eager",
        "--out",
        "{}/new",
        "--no-verify",
    ),
    ("usability", "numpy", "--part", "code", "--toolchain", f"numpy={sys.executable}", "--out", "{}/u.json"),
    ("run", "{}/study.toml", "--out", "{}/new", *RUN),
    ("run", "{}/results", *RUN),
)


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("disk")
    shape = Shape(contestants=[NUMPY], algorithms=("dqn",), seeds=2, steps=2000, sample_hz=2)
    for name in ("results", "lost"):
        write_results(folder / name, shape)
    (folder / "lost" / "manifest.json").write_text("{")
    pack_directory(folder / "results", folder / "results.tar.gz")
    (folder / "study.toml").write_text(STUDY)
    (folder / "theirs.csv").write_text(CURVE)
    return folder


def contents(folder: Path) -> dict[Path, bytes]:
    """An empty lock may stay."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {path: path.read_bytes() for path in files}


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", COMMANDS, ids=lambda command: "-".join(command).replace("/", "").replace("{}", "")
)
def test_a_command_that_writes_says_what_it_cannot_write(
    command: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(folder / "cache"))
    before = contents(folder)
    report = Report()
    with without_training(), full_disk():
        ended = call([part.format(folder) for part in command], report, "full disk")
    assert ended.code != 0
    assert [failure for failure in report.failures if "CPU time" not in failure] == []
    *_, message, fix = ended.output.strip().splitlines()
    assert message.startswith("rldyno: cannot write")
    assert str(folder) in message
    assert fix.startswith("fix: ")
    assert contents(folder) == before


def test_a_new_backend_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(OSError, match="too large") as caught:
        skeleton.write_skeleton("mlx", toolchains=tmp_path, backends=tmp_path)
    assert Path(caught.value.filename).parent == tmp_path
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_what_the_system_refuses_is_one_message_with_a_fix(code: int) -> None:
    problem = problem_of(OSError(code, os.strerror(code), "/data/x"))
    assert "/data/x" in problem.message
    assert os.strerror(code) in problem.message
    assert problem.fix
    assert problem.code == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_that_cannot_be_written_is_one_message() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "rldyno", "studies"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("rldyno: cannot write the output: No space left on device\nfix: ")
    assert "Traceback" not in done.stderr
