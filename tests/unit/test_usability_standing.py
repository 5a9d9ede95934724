"""Advice by usability: topics, ranks, ties, and what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.records.machine_facts import MachineFacts
from rldyno.usability import store
from rldyno.usability.record import UsabilityFile, UsabilityRecord
from rldyno.usability.standing import TOPICS, sentences, standing, standing_table


def record(name: str, **parts: Any) -> UsabilityRecord:
    return UsabilityRecord(name, name, "3.11.7", {}, "now", parts)


def of(name: str, size: float, import_s: float, lines: int) -> UsabilityRecord:
    return record(name, install={"size_bytes": size}, start={"import_s": import_s}, code={"lines": lines})


RECORDS = {
    "torch": of("torch", 900e6, 1.0, 500),
    "jax": of("jax", 300e6, 1.05, 450),
    "numpy": of("numpy", 60e6, 0.1, 450),
}


def test_each_topic_ranks_by_itself_and_near_times_tie() -> None:
    found = standing(RECORDS)
    ranks = {topic.topic.name: {name: topic.rank(name) for name in topic.values} for topic in found.topics}
    assert ranks["installing"] == {"torch": 3, "jax": 2, "numpy": 1}
    assert ranks["starting"] == {"torch": 2, "jax": 2, "numpy": 1}, "5 % are no difference"
    assert ranks["writing"] == {"torch": 3, "jax": 1, "numpy": 1}, "counts tie when they are equal"
    assert found.wins == {"numpy": 3, "jax": 1, "torch": 0}
    assert found.leaders == ("numpy",)
    assert found.compared == 3
    assert found.missing["deployment"] == ("torch", "jax", "numpy")


def test_where_all_tie_or_one_is_alone_nobody_is_best() -> None:
    same = standing({name: record(name, code={"lines": 10}) for name in ("torch", "jax")})
    assert same.leaders == ()
    assert next(iter(sentences(same))) == "No framework is better than another on any topic."
    alone = standing({"torch": RECORDS["torch"], "jax": record("jax")})
    assert alone.leaders == ()
    assert alone.missing["installing"] == ("jax",)
    assert "Not known of jax: installing, starting, writing." in list(sentences(alone))


def test_times_of_a_busy_machine_are_named() -> None:
    """Sizes and lines do not depend on it."""
    loads = {"torch": 0.4, "jax": 7.0, "numpy": 7.0}
    parts = {
        name: record(
            name,
            install={"size_bytes": 1e6, "load_before": load},
            start={"import_s": 1.0 + load, "load_before": load},
            save={"networks": {"cnn": {"save_s": 1.0, "load_s": load}}, "load_before": load},
        )
        for name, load in loads.items()
    }
    found = standing(parts)
    assert found.busy == {"starting": ("jax", "numpy"), "serialisation": ("jax", "numpy")}
    said = list(sentences(found))
    assert sum(line.startswith("Doubt:") for line in said) == 1
    assert any("when starting, serialisation of jax, numpy was measured" in line for line in said)
    assert not any(line.startswith("Doubt:") for line in sentences(standing(RECORDS)))


def test_a_failed_part_is_missing_not_worst() -> None:
    found = standing({**RECORDS, "torch": record("torch", code={"error": "OSError: gone"})})
    assert "torch" in found.missing["writing"]
    (row,) = (row for row in standing_table(found).rows if row[0] == "writing")
    assert row[2:] == ("–", "450 (1)", "450 (1)")


def test_every_part_that_is_measured_by_default_has_a_topic() -> None:
    from rldyno.usability.measure import PARTS

    assert {topic.part for topic in TOPICS} == set(PARTS) - {"release"}


def write(home: Path, frameworks: dict[str, UsabilityRecord]) -> None:
    store.write_beside(home / store.FILE, UsabilityFile("now", MachineFacts(), frameworks))


def test_advise_uses_it_only_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from synthetic import Contestant, Shape, write_results

    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    contestants = tuple(Contestant(f"{name}:eager", 1000.0) for name in ("torch", "jax"))
    home = write_results(tmp_path / "results", Shape(contestants=contestants, seeds=2))

    def call(*more: str) -> Any:
        return CliRunner().invoke(app, ["advise", str(home), *more], env={"COLUMNS": "200"})

    missing = call("--goal", "usability")
    assert missing.exit_code != 0
    assert missing.exception is not None
    assert "the usability of torch, jax is not known here" in str(missing.exception)
    assert f"rldyno usability torch jax -o {home / store.FILE}" in (missing.exception.fix or "")  # type: ignore[attr-defined]

    write(home, {"jax": RECORDS["jax"]})
    partly = call("--goal", "usability")
    assert "Not measured: torch. Fix: rldyno usability jax torch" in partly.output.replace("\n", " ")

    write(home, RECORDS)
    found = call("--goal", "usability")
    assert "jax 2, torch 0" in found.output
    assert "numpy" not in found.output, "no contestant of the study"
    (item,) = json.loads(call("--goal", "usability", "--json").output)
    assert item["best_on"] == {"jax": 2, "torch": 0}
    assert item["picks"] == []
    assert "usability" not in call().output.lower()


def test_a_directory_with_nothing_else_is_asked_about_all_in_it(tmp_path: Path) -> None:
    write(tmp_path, RECORDS)
    found = CliRunner().invoke(app, ["advise", str(tmp_path), "--goal", "usability"], env={"COLUMNS": "200"})
    assert found.exit_code == 0
    assert "numpy leads" in found.output
