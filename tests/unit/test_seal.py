"""Sealed records: what was altered, mixed up or put there by somebody else is found."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rldyno.errors import Problem, print_problem
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import read_bytes, read_json, write_atomically, write_json
from rldyno.records.outcome import Outcome
from rldyno.records.seal import altered_files, file_hashes, read_record, write_record
from rldyno.records.typed import typed
from rldyno.trial.runner import _done_outcome
from rldyno_rig.result_file import WorkerResult

RECORD = {"status": "done", "wall_s": 2.5, "steps": 8100, "é": ["x", None, True]}


def test_a_record_comes_back_without_its_seal(tmp_path: Path) -> None:
    write_record(tmp_path / "a.json", RECORD)
    assert read_record(tmp_path / "a.json") == {**RECORD, "schema": 2}


def test_every_single_bit_of_a_record_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_record(path, RECORD)
    original, whole = path.read_bytes(), read_record(path)
    accepted = []
    for bit in range(8 * len(original)):
        changed = bytearray(original)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            if read_record(path) != whole:
                accepted.append(bytes(changed))
        except Problem:
            pass
    assert accepted == []


def test_records_from_before_there_were_seals_are_read(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"schema": 1, "status": "done"})
    assert read_record(tmp_path / "a.json")["status"] == "done"


@pytest.mark.parametrize("version", [0, 3, 999, "2", None, [2], True, 2.0])
def test_an_unknown_schema_is_a_problem(version: object, tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"schema": version})
    with pytest.raises(Problem, match="schema"):
        read_record(tmp_path / "a.json")


def test_a_record_without_its_seal_is_a_problem(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {**RECORD, "schema": 2})
    with pytest.raises(Problem, match="altered"):
        read_record(tmp_path / "a.json")


def test_files_of_an_attempt_are_hashed_and_compared(tmp_path: Path) -> None:
    for name in ("samples.csv", "facts.json", "episodes.csv", "worker.log", "outcome.json"):
        (tmp_path / name).write_text(name)
    (tmp_path / "left by a framework").mkdir()
    hashes = file_hashes(tmp_path)
    assert sorted(hashes) == ["episodes.csv", "facts.json", "samples.csv"]
    assert altered_files(tmp_path, hashes) == []
    (tmp_path / "samples.csv").write_text("other text")
    (tmp_path / "facts.json").unlink()
    (tmp_path / "episodes.csv").unlink()
    (tmp_path / "episodes.csv").symlink_to("/etc/hostname")
    found = altered_files(tmp_path, hashes)
    assert [flaw.split()[0] for flaw in found] == list(hashes)
    assert {" ".join(flaw.split()[1:3]) for flaw in found} == {"was altered", "is missing", "cannot be"}


def test_a_hostile_name_of_a_file_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_text("x")
    home = tmp_path / "trial"
    home.mkdir()
    hashes = file_hashes(tmp_path)
    assert altered_files(home, {"../facts.json": hashes["facts.json"]}) == ["../facts.json is missing"]


@pytest.mark.parametrize("kind", ["link", "pipe", "device", "directory"])
def test_only_plain_files_are_opened(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    (tmp_path / "other.json").write_text("{}")
    match kind:
        case "link":
            path.symlink_to(tmp_path / "other.json")
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "directory":
            path.mkdir()
    with pytest.raises(OSError, match=r"plain file|Too many levels"):
        read_bytes(path)
    with pytest.raises(Problem, match=r"a\.json is damaged"):
        read_json(path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": NaN}', '{"a": -Infinity}', "1", ""])
def test_text_that_is_no_object_is_a_problem(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    with pytest.raises(Problem, match="damaged"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"reason": 5},
        {"reason": "steps", "steps": "8"},
        {"reason": "steps", "steps": 2**63},
        {"reason": "steps", "startup_ns": {"import": "x"}},
        {"reason": "steps", "phases_ns": []},
    ],
)
def test_values_of_the_wrong_kind_are_a_problem(values: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(Problem, match="damaged"):
        typed(tmp_path / "a.json", values, WorkerResult.from_json)


@pytest.mark.parametrize("trial", ["../x", "/etc", "..", "", ".", "a/b"])
def test_a_trial_id_is_one_component_of_a_path(trial: str, tmp_path: Path) -> None:
    with pytest.raises(Problem, match="no id of a trial"):
        ResultsDirectory(tmp_path).trial(trial)
    write_record(tmp_path / "manifest.json", {"trials": [trial]})
    with pytest.raises(Problem, match="no id of a trial"):
        ResultsDirectory(tmp_path).read_manifest()


def test_a_trial_named_twice_and_a_linked_directory_are_problems(tmp_path: Path) -> None:
    write_record(tmp_path / "manifest.json", {"trials": ["a", "a"]})
    with pytest.raises(Problem, match="named twice"):
        ResultsDirectory(tmp_path).read_manifest()
    write_record(tmp_path / "manifest.json", {"trials": ["a"]})
    (tmp_path / "trials").mkdir()
    (tmp_path / "trials" / "a").symlink_to("/tmp")
    with pytest.raises(Problem, match="is a link"):
        ResultsDirectory(tmp_path).read_manifest()


def test_the_seal_is_part_of_the_file_as_text(tmp_path: Path) -> None:
    write_record(tmp_path / "a.json", RECORD)
    assert len(json.loads((tmp_path / "a.json").read_text())["sha256"]) == 64


def test_escape_sequences_of_a_record_never_reach_a_terminal(tmp_path: Path) -> None:
    write_record(tmp_path / "a.json", {"message": "\x1b[31mred\x9b0m\x07\nend\tx\x7f", "\x1bkey": ["\x1b"]})
    read = read_record(tmp_path / "a.json")
    assert read["message"] == "\ufffd[31mred\ufffd0m\ufffd\nend\tx\ufffd"
    assert "\x1b" not in json.dumps(read, ensure_ascii=False)


def test_a_problem_is_printed_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_problem(Problem("bad \x1b[2J", detail="log \x07\nnext", fix="do \x9b this"))
    assert capsys.readouterr().err == "rldyno: bad \ufffd[2J\n  | log \ufffd\n  | next\nfix: do \ufffd this\n"


def test_a_file_takes_the_place_of_a_link_and_leaves_its_target(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / "report.html").symlink_to(tmp_path / "target")
    write_atomically(tmp_path / "report.html", b"<html>")
    assert (tmp_path / "target").read_text() == "precious"
    assert not (tmp_path / "report.html").is_symlink()


def test_a_damaged_manifest_names_the_command_that_rebuilds_it(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"trials": ["a"')
    with pytest.raises(Problem, match="damaged") as caught:
        ResultsDirectory(tmp_path).read_manifest()
    assert caught.value.fix is not None
    assert caught.value.fix.endswith(f"rldyno check {tmp_path} --repair")


def test_the_outcome_of_another_trial_is_not_its_own_end(tmp_path: Path) -> None:
    write_record(tmp_path / "outcome.json", Outcome(trial="other", status="done", reason="steps").to_json())
    assert _done_outcome(tmp_path, "mine") is None
    assert _done_outcome(tmp_path, "other") is not None
