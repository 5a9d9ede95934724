"""Files that commands leave beside trials: sealed, typed, and named by `rldyno check` when damaged."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fuzz_mutations import WILD, _places
from rldyno.answers.why_open import open_records
from rldyno.bisection import record as bisection
from rldyno.bisection.question import Question
from rldyno.bisection.search import Evidence, Finding, Round, next_pair
from rldyno.cli import app
from rldyno.curves.curve import MOST_CURVES, read_curves
from rldyno.division.record import OPEN_RECORD, OpenRecord, OpenRow, read_open, write_open
from rldyno.errors import Problem
from rldyno.records.seal import SEAL, seal_of
from rldyno.records.slurm_jobs import SlurmFolder, SlurmJobs
from rldyno.report.sources import flaws_beside
from rldyno_rig.open.job_file import OpenFound
from synthetic import NUMPY, Shape, write_results

QUESTION = Question("numpy", "eager")
RELEASES = ("2.2", "2.3", "2.4")
ROUNDS = tuple(Round("2.2", "2.4", 1.0 + 0.01 * number, 1.5) for number in range(4))
FOUND = OpenFound(1.5, (1e6, 2e6), 1000, (20.0, None), {"torch": "2"}, "cpu", {"acting": 1.5})
OPEN = OpenRecord(
    "now",
    "host",
    "ppo",
    "CartPole-v1",
    "cpu",
    "float32",
    1,
    {"gamma": 0.9},
    (OpenRow("torch", 4, FOUND, None),),
)


def write_bisect(root: Path) -> Path:
    path = root / bisection.BISECT_FILE
    bisection.write(path, Evidence(QUESTION, RELEASES, ROUNDS, {"2.3": "it does not build"}))
    return path


def write_loops(root: Path) -> Path:
    write_open(root / OPEN_RECORD, OPEN)
    return root / OPEN_RECORD


def write_jobs(root: Path) -> Path:
    folder = SlurmFolder(root)
    folder.make()
    folder.write(SlurmJobs("abcd", 1).with_new(("a",))[0])
    return folder.jobs_file


WRITERS = (write_bisect, write_loops, write_jobs)


@pytest.mark.parametrize("write", WRITERS)
def test_every_bit_is_sealed(write: Callable[[Path], Path], tmp_path: Path) -> None:
    path = write(tmp_path)
    whole, before = path.read_bytes(), json.loads(path.read_text())
    assert list(flaws_beside(tmp_path)) == []
    rng = random.Random(1)
    for _ in range(150):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        try:
            same = json.loads(bytes(data)) == before
        except (ValueError, RecursionError):
            same = False
        assert bool(list(flaws_beside(tmp_path))) != same


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITERS)
def test_forged_values_are_named_or_harmless(write: Callable[[Path], Path], tmp_path: Path) -> None:
    path = write(tmp_path)
    whole = path.read_text()
    for place in range(len(_places(json.loads(whole)))):
        for wild in WILD:
            values = json.loads(whole)
            holder, key = _places(values)[place]
            holder[key] = wild
            values.pop(SEAL, None)
            path.write_text(json.dumps(values | {SEAL: seal_of(values)}))
            if not list(flaws_beside(tmp_path)):
                use(path)


def use(path: Path) -> None:
    """What commands do with a file that reading has accepted."""
    match path.name:
        case bisection.BISECT_FILE:
            evidence = bisection.read(path).evidence
            assert isinstance(next_pair(replace(evidence, question=QUESTION)), tuple | Finding)
        case name if name == OPEN_RECORD:
            record = read_open(path.parent)
            assert record is not None
            for row in record.rows:
                assert row.found is None or row.found.best > 0
                assert row.share_of_limit is None or row.share_of_limit > 0
        case _:
            SlurmFolder(path.parent.parent).read()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device"])
@pytest.mark.parametrize("write", WRITERS)
def test_only_plain_files_are_read(write: Callable[[Path], Path], kind: str, tmp_path: Path) -> None:
    path = write(tmp_path)
    match kind:
        case "link":
            path.rename(tmp_path / "elsewhere")
            path.symlink_to(tmp_path / "elsewhere")
        case "pipe":
            path.unlink()
            os.mkfifo(path)
        case "folder":
            path.unlink()
            path.mkdir()
        case "device":
            path.unlink()
            path.symlink_to("/dev/zero")
    assert len(list(flaws_beside(tmp_path))) == 1


def test_a_linked_folder_of_loops_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    write_loops(tmp_path / "away")
    (tmp_path / "open-mine").symlink_to(tmp_path / "away")
    assert open_records(tmp_path) == []
    (tmp_path / "open-mine").unlink()
    (tmp_path / "away").rename(tmp_path / "open-mine")
    assert open_records(tmp_path) == [replace(OPEN, schema=2)]


def check(root: Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", str(root)])
    return done.exit_code, done.output


@pytest.mark.parametrize("trials", [False, True])
def test_check_names_them_with_trials_and_without(trials: bool, tmp_path: Path) -> None:
    root = tmp_path / "r"
    if trials:
        write_results(root, Shape(contestants=[NUMPY], algorithms=("dqn",), seeds=1, steps=500, sample_hz=2))
    root.mkdir(exist_ok=True)
    path = write_loops(root)
    assert check(root) == (0, f"{root}: no flaw\n")
    path.write_text(path.read_text().replace("1000", "1001"))
    code, output = check(root)
    assert code == 1
    assert "open.json was altered" in output
    assert "no trial depends on them" in output


def test_earlier_versions_had_no_seals(tmp_path: Path) -> None:
    values: dict[str, Any] = OPEN.to_json()
    (tmp_path / OPEN_RECORD).write_text(json.dumps(values))
    assert read_open(tmp_path) == OPEN
    (tmp_path / OPEN_RECORD).write_text(json.dumps(values | {"schema": 999}))
    with pytest.raises(Problem, match="schema 999"):
        read_open(tmp_path)


def test_a_file_holds_no_more_curves_than_a_chart_can_show(tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    rows = [f"{number},1,1,0" for number in range(MOST_CURVES)]
    path.write_text("\n".join(["name,step,return,spread", *rows]))
    assert len(read_curves(path)) == MOST_CURVES
    path.write_text("\n".join(["name,step,return,spread", *rows, "more,1,1,0"]))
    with pytest.raises(Problem, match=f"many.csv:{MOST_CURVES + 2}: more than {MOST_CURVES} curves"):
        read_curves(path)
