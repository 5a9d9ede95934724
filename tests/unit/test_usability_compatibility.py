"""Earlier releases of a framework: which are tried, and what is said of each."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.version import Version

from rldyno.commands.usability import chosen_parts
from rldyno.errors import Problem
from rldyno.toolchains.catalogue import toolchain
from rldyno.usability import compatibility, index
from rldyno.usability.compatibility import TriedRelease, earlier
from rldyno.usability.index import Indexes, IndexFile, index_file
from rldyno.usability.measure import EARLIER, ON_DEMAND, PARTS, is_kept
from rldyno.usability.record import UsabilityRecord
from rldyno.usability.tables import compatibility_table, notes

NAMES = (
    "numpy-2.4.6-cp311-cp311-any.whl",
    "numpy-2.4.0-cp311-cp311-any.whl",
    "numpy-2.3.1-cp311-cp311-any.whl",
    "numpy-2.3.10-cp311-cp311-any.whl",
    "numpy-2.3.11rc1-cp311-cp311-any.whl",
    "numpy-2.2.0-py3-none-any.whl",
    "numpy-2.1.0-cp39-cp39-any.whl",
    "numpy-2.1.0.tar.gz",
    "numpy-1.26.4-cp311-cp311-any.whl",
    "numpy-1.25.0-cp311-cp311-any.whl",
)


def files_of(names: tuple[str, ...]) -> list[IndexFile]:
    found = [index_file(name, "2025-05-01T00:00:00Z", yanked=False) for name in names]
    withdrawn = index_file("numpy-2.2.9-py3-none-any.whl", None, yanked=True)
    return [file for file in (*found, withdrawn) if file]


def test_the_newest_release_of_each_earlier_series_is_tried() -> None:
    files = files_of(NAMES)
    found = earlier(files, Version("2.4.6"), "3.11.7", 3)
    assert [str(version) for version in found] == ["2.3.10", "2.2.0", "1.26.4"]
    assert len(earlier(files, Version("2.4.6"), "3.11.7", 9)) == 4
    assert earlier(files, Version("1.25.0"), "3.11.7", 3) == []


def test_source_archives_count_where_there_is_nothing_else() -> None:
    files = files_of(("theano-1.0.4.tar.gz", "theano-1.1.0.tar.gz"))
    sources = [file for file in files if file.pythons is None]
    assert earlier(sources, Version("1.2.0"), "3.11.7", 3) == [Version("1.1.0"), Version("1.0.4")]


PROVEN = SimpleNamespace(proven=True, error=None, sentence=lambda: "proven")
WRONG = SimpleNamespace(proven=False, error=None, sentence=lambda: "NOT PROVEN, update: 0.1 > 1e-9")
CRASHED = SimpleNamespace(proven=False, error="no may_alias", sentence=lambda: "NOT PROVEN, no may_alias")


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """2.3.10 runs, 2.2.0 computes something else, 1.26.4 does not install."""
    certificates = {"numpy@2.3.10": PROVEN, "numpy@2.2.0": WRONG, "numpy@1.25.0": CRASHED}

    def ensure(names: list[str]) -> dict[str, Any]:
        if names == ["numpy@1.26.4"]:
            raise Problem("pip cannot install it")
        return dict.fromkeys(names, SimpleNamespace(framework=names[0]))

    def prove(subjects: list[Any], interpreters: dict[str, Any], on_proven: Any) -> list[Any]:
        assert [subject.algorithm for subject in subjects] == ["dqn"]
        return [certificates[name] for name in interpreters]

    turns: list[str] = []
    # The machine gets slower: only times of one turn are comparable.
    times = iter([5e-5, 4e-5, 6e-5, 5e-5, 9e-5, 8e-5])

    def rig(interpreter: Any, chain: Any, job: Any, work: Path, cores: int) -> dict[str, Any]:
        assert (job.part, job.mode, cores) == ("update", "eager", 1)
        turns.append("earlier" if "@" in chain.framework else "installed")
        return {"error": None, "update_s": next(times)}

    monkeypatch.setattr(compatibility, "ensure", ensure)
    monkeypatch.setattr(compatibility, "prove", prove)
    monkeypatch.setattr(compatibility, "rig", rig)
    monkeypatch.setattr(index, "project_files", lambda *_: files_of(NAMES))
    said: list[str] = []
    interpreter: Any = SimpleNamespace(python="3.11.7")
    given = toolchain("numpy"), interpreter, ("numpy", "2.4.6"), Indexes(("http://index",))
    found = compatibility.measure(*given, 4, tmp_path, said.append)
    assert turns == ["earlier", "installed"] * 3
    assert said == ["numpy 2.3.10", "numpy 2.2.0", "numpy 1.26.4", "numpy 1.25.0"]
    return found


def test_each_release_has_an_answer_and_its_reason(tried: dict[str, Any]) -> None:
    states = {one.version: one.state for one in map(TriedRelease.from_json, tried["releases"])}
    assert states == {
        "2.3.10": "runs",
        "2.2.0": "computes something else",
        "1.26.4": "does not install",
        "1.25.0": "does not run",
    }
    record = UsabilityRecord("numpy", "NumPy", "3.11.7", {}, "", {"compatibility": tried})
    rows = compatibility_table({"numpy": record}).rows
    assert rows[0] == ("numpy:eager", "2.3.10", "2025-05-01", "yes", "60.0", "50.0")
    assert rows[2][3:] == ("no: it does not install", "–", "–")
    said = [text for _, text in notes({"numpy": record})]
    assert "1.26.4 does not install: pip cannot install it" in said
    assert any(text.startswith("2.2.0 computes something else: NOT PROVEN, update") for text in said)


@pytest.mark.parametrize(
    ("indexes", "words"),
    [(Indexes(()), "pip uses no index here"), (Indexes(("http://index",)), "index did not answer for numpy")],
)
def test_without_an_index_nothing_is_tried_and_the_reason_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, indexes: Indexes, words: str
) -> None:
    def silent(*_: object) -> list[IndexFile]:
        raise OSError("connection refused")

    monkeypatch.setattr(index, "project_files", silent)
    interpreter: Any = SimpleNamespace(python="3.11.7")
    given = toolchain("numpy"), interpreter, ("numpy", "2.4.6"), indexes
    found = compatibility.measure(*given, 3, tmp_path, print)
    assert found["releases"] == []
    assert words in found["reason"]
    record = UsabilityRecord("numpy", "NumPy", "3.11.7", {}, "", {"compatibility": found})
    assert [text for _, text in notes({"numpy": record})] == [
        f"earlier releases were not tried: {found['reason']}"
    ]


def test_it_is_measured_only_if_asked_for() -> None:
    usual = [part for part in PARTS if part not in ON_DEMAND]
    assert chosen_parts([]) == usual
    assert chosen_parts([], compatibility=True) == [*usual, "compatibility"]
    assert chosen_parts(["compatibility", "code"]) == ["code", "compatibility"]
    assert chosen_parts(["code"], compatibility=True) == ["code", "compatibility"]


def test_another_number_of_releases_is_measured_again() -> None:
    subject: Any = SimpleNamespace(earlier=EARLIER)
    assert is_kept(subject, {"asked": EARLIER, "releases": []})
    assert not is_kept(subject, {"asked": 1, "releases": []})
    assert is_kept(subject, {"lines": 3})
    assert not is_kept(subject, {"passing": True})
    assert not is_kept(subject, None)
