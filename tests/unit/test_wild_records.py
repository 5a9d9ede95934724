"""What the fuzz of records found: each case ends with a message or an answer, never with a traceback."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fuzz_calls import Report, call
from report_parts import material_of, tables
from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.records.csv_files import read_csvs
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import printable, read_json
from rldyno.records.locks import locked
from rldyno.records.outcome import Outcome
from rldyno.records.trial_state import log_tail
from rldyno.records.typed import checks_of
from rldyno.results.check import check_directory
from rldyno.results.load import load_results
from rldyno.results.tensorboard import points
from rldyno.sharing.pack import pack_directory
from rldyno.stats.moments import Moments, difference
from rldyno_rig.shape import Shape
from synthetic import COMPILE, TORCH, write_results
from synthetic import Shape as Results

SHAPE: dict[str, Any] = {
    "observation_shape": [4],
    "observation_dtype": "float32",
    "actions": 2,
    "act_rows": 1,
    "update_rows": 64,
    "updates": 1,
    "hyper": {"hidden": [64], "activation": "tanh", "convolutions": []},
}


@pytest.mark.parametrize(
    "change",
    [
        {"actions": {}},
        {"observation_shape": ["4"]},
        {"hyper": {"hidden": 64}},
        {"hyper": {"gamma": {}}},
        {"hyper": {"convolutions": [[1, 2]]}},
        {"hyper": {"convolutions": [7]}},
        {"hyper": []},
    ],
)
def test_what_is_no_shape_is_refused(change: dict[str, Any]) -> None:
    assert str(Shape.from_json(SHAPE)).startswith("4 → 64 tanh → 2")
    with pytest.raises((TypeError, ValueError, AttributeError)):
        Shape.from_json(SHAPE | change)


def test_a_pipe_in_the_place_of_a_lock_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.lock")
    with pytest.raises(Problem, match=r"run\.lock is no plain file"), locked(tmp_path / "run.lock"):
        pass


@pytest.mark.parametrize("text", ["\\ud800", "a\\uDfFFb"])
def test_half_of_a_pair_is_replaced(text: str, tmp_path: Path) -> None:
    path = tmp_path / "trial.json"
    path.write_text(f'{{"title": "{text}", "smile": "\\ud83d\\ude00"}}')
    values = read_json(path)
    json.dumps(values, ensure_ascii=False).encode()
    assert "\N{REPLACEMENT CHARACTER}" in values["title"]
    assert values["smile"] == "\N{GRINNING FACE}"


@pytest.mark.parametrize("number", ["1e400", "-2.5E+309", "0.1e0999", "9" * 400 + ".0"])
def test_a_number_larger_than_any_float_is_damage(number: str, tmp_path: Path) -> None:
    path = tmp_path / "outcome.json"
    path.write_text(f'{{"wall_s": {number}}}')
    with pytest.raises(Problem, match="larger than any number of a record"):
        read_json(path)
    path.write_text('{"wall_s": 1e308, "small": 1e-400, "digits": "1e999"}')
    assert read_json(path) == {"wall_s": 1e308, "small": 0.0, "digits": "1e999"}


@pytest.mark.parametrize("count", [308, 309, 400])
def test_a_whole_number_counts_as_a_float_while_it_fits_into_one(count: int) -> None:
    check = checks_of(Outcome)["wall_s"]
    assert check(10**count) == (count == 308)
    assert check(1.5)
    assert not check(True)


@pytest.mark.parametrize("field", [b"499. ", b"1_0", b"99999999999999999999"])
def test_numbers_that_only_python_reads_are_damage(field: bytes, tmp_path: Path) -> None:
    whole, damaged = tmp_path / "a.csv", tmp_path / "b.csv"
    whole.write_bytes(b"step,return\n1,2.5\n")
    damaged.write_bytes(b"step,return\n" + (b"1," + field if b"." in field else field + b",1.0") + b"\n")
    frame, lengths, problems = read_csvs([whole, damaged], {"step": int, "return": float})
    assert (lengths, len(frame)) == ([1, 0], 1)
    assert [str(damaged) in problem.message for problem in problems] == [True]


def test_the_smallest_spreads_are_compared() -> None:
    tiny = Moments(1.0, 1e-200, 2)
    assert difference(tiny, tiny).degrees == pytest.approx(2.0)


def test_a_spread_that_no_float_holds_shows_no_difference() -> None:
    wild = difference(Moments(1e200, math.inf, 2), Moments(1.0, 1.0, 3))
    assert (wild.error, wild.degrees) == (math.inf, 3)
    assert wild.p_nonzero() == 1


def test_a_linked_study_is_named(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Results(algorithms=("dqn",), steps=1000))
    assert not any("study.toml" in flaw for flaw in check_directory(root))
    (root / "study.toml").rename(tmp_path / "elsewhere.toml")
    (root / "study.toml").symlink_to(tmp_path / "elsewhere.toml")
    assert any("study.toml is a link" in flaw for flaw in check_directory(root))


def test_the_end_of_an_endless_log_is_read(tmp_path: Path) -> None:
    with (tmp_path / "worker.log").open("wb") as log:
        log.seek(2**31)
        log.write(b"\nlast words")
    assert log_tail(tmp_path / "worker.log", 1) == "last words"


def test_an_integer_that_no_table_holds_is_named(tmp_path: Path) -> None:
    root = write_results(
        tmp_path / "r", Results(contestants=[TORCH], algorithms=["ppo"], seeds=2, sample_hz=2)
    )
    path = min(root.glob("trials/*/outcome.json"))
    outcome = json.loads(path.read_text())
    outcome["memory"]["after_build_bytes"] = -1e308
    path.write_text(json.dumps(outcome))
    (flaw,) = load_results(root).flaws
    assert "`memory_after_build_bytes` is too large" in flaw


def test_comparisons_of_the_same_name_keep_their_limits_apart(tmp_path: Path) -> None:
    shape = Results(contestants=[TORCH, COMPILE], algorithms=["ppo"], seeds=2, sample_hz=2, limits=True)
    root = write_results(tmp_path / "r", shape)
    path = min(root.glob("trials/torch-compile*/trial.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"scaling": "weaj"}))
    rows = tables(material_of(root))["limits"].rows
    assert len({row[1] for row in rows}) == 1, "one worker has no scaling, so the labels are equal"
    assert sorted(row[0] for row in rows) == ["torch:compile", "torch:compile", "torch:eager"]


def test_a_control_character_is_no_part_of_a_trials_name(tmp_path: Path) -> None:
    """Texts of records are read without them; what is left in their place is no name either."""
    with pytest.raises(Problem, match="is no id of a trial") as refused:
        ResultsDirectory(tmp_path).trial(printable("\0"))
    assert refused.value.message.isascii()


def test_names_on_the_disk_do_not_control_the_terminal(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Results(algorithms=("dqn",), steps=1000))
    for name in ("certificates/\x1b[31mred.json", "trials/\x07bell"):
        (root / name).mkdir()
    for command in ("check", "advise", "claims", "status"):
        output = CliRunner().invoke(app, [command, str(root)]).output
        assert all(sign.isprintable() or sign in "\n\t" for sign in output), command
    checked = CliRunner().invoke(app, ["check", str(root)])
    assert checked.exit_code == 1
    assert checked.output.count("\N{REPLACEMENT CHARACTER}") == 2


@pytest.mark.slow
def test_the_name_of_a_pack_is_text_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_results(tmp_path / "r", Results(algorithms=("dqn",), steps=1000, seeds=1))
    monkeypatch.chdir(tmp_path)
    name = "\x1b[31m<script>fuzz()"
    pack_directory(root, tmp_path / f"{name}.rldyno.tar.gz")
    for command in ("unpack", "board"):
        output = CliRunner().invoke(app, [command, f"{name}.rldyno.tar.gz"]).output
        assert output
        assert all(sign.isprintable() or sign in "\n\t" for sign in output), command
    assert "<script>fuzz()" not in (tmp_path / "site" / "index.html").read_text()


def test_a_terminal_gets_only_characters_that_it_has(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Results(algorithms=("dqn",), steps=1000))
    (root / "trials" / "é").mkdir()
    ended = call(["check", str(root)], report := Report(), "ascii", encoding="ascii")
    assert report.failures == []
    assert "trials/? is no trial" in ended.output.replace("??", "?")


@pytest.mark.slow
def test_a_guest_has_event_files_too(tmp_path: Path) -> None:
    """It has no phases: only its steps and its time are known."""
    root = write_results(
        tmp_path / "r", Results(contestants=[TORCH], algorithms=["dqn"], seeds=1, steps=30_000)
    )
    (progress,) = root.glob("trials/*/progress.csv")
    lines = progress.read_text().splitlines()
    first = lines[0].split(",").index("environment_ns")
    guests = [
        ",".join([*line.split(",")[:first], *[""] * line.count(",")][: line.count(",") + 1])
        for line in lines[1:]
    ]
    progress.write_text("\n".join([lines[0], *guests, ""]))
    found = list(points(progress.parent))
    speeds = [point.values["speed/steps_per_s"] for point in found if "speed/steps_per_s" in point.values]
    assert len(speeds) == len(guests) - 1 > 0
    assert all(speed > 0 for speed in speeds)
    assert not any(tag.startswith("phases/") for point in found for tag in point.values)
