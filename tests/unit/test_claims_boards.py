"""liu-18: what watching TensorBoard costs, from usability.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rldyno
from report_parts import material_of
from rldyno.claims.decide import judge_claim
from rldyno.claims.effects import HOLDS, REFUTED, UNDECIDED
from rldyno.claims.evidence import gather_in
from rldyno.claims.form import shipped_claims
from rldyno.records.machine_facts import MachineFacts
from rldyno.report.sections.claims import views
from rldyno.usability import store
from rldyno.usability.record import UsabilityFile, UsabilityRecord

(LIU_18,) = (claim for claim in shipped_claims() if claim.id == "liu-18")
MODES = {"torch": "eager", "tensorflow": "graph"}


def usability(
    home: Path, watched: dict[str, float], load: float = 0.2, modes: dict[str, str] = MODES
) -> Path:
    """A directory with usability.json: eight rounds around these slow-downs."""
    home.mkdir()
    frameworks = {}
    for name, factor in watched.items():
        rounds: list[dict[str, Any]] = [
            {
                "plain": 1e-3,
                "logged": 1e-3 * (1.01 + noise),
                "watched": 1.01e-3 * (factor + noise),
            }
            for noise in (-0.003, 0.002, 0.004, -0.001, 0.0, 0.001, -0.002, 0.003)
        ]
        part = {"error": None, "mode": modes[name], "rounds": rounds, "load_before": load}
        frameworks[name] = UsabilityRecord(name, name, "3.11.7", {}, "now", {"visualisation": part})
    store.write_beside(home / store.FILE, UsabilityFile("now", MachineFacts(cores_usable=2), frameworks))
    return home


@pytest.mark.parametrize(("factor", "verdict"), [(1.2, HOLDS), (1.01, REFUTED)])
def test_watching_decides_by_five_percent(tmp_path: Path, factor: float, verdict: str) -> None:
    home = usability(tmp_path / "u", dict.fromkeys(MODES, factor))
    found = judge_claim(LIU_18, gather_in([home]))
    assert found.verdict == verdict
    assert found.deciding[0].effect is not None
    assert found.deciding[0].effect.point == pytest.approx(factor, abs=0.01)
    (reading,) = found.readings
    assert reading.verdict == REFUTED, "writing alone is another reading"


def test_a_busy_machine_decides_nothing(tmp_path: Path) -> None:
    home = usability(tmp_path / "u", dict.fromkeys(MODES, 1.5), load=6.0)
    found = judge_claim(LIU_18, gather_in([home]))
    assert found.verdict == UNDECIDED
    assert found.missing == ("needs runs on a quiet machine: the machine was busy (load 6.0)",)


def test_one_framework_or_another_mode_does_not_decide(tmp_path: Path) -> None:
    alone = judge_claim(LIU_18, gather_in([usability(tmp_path / "one", {"torch": 1.5})]))
    assert alone.verdict == UNDECIDED
    assert alone.missing == ("needs two frameworks (has 1)",)
    eager = usability(tmp_path / "eager", dict.fromkeys(MODES, 1.5), modes=dict.fromkeys(MODES, "eager"))
    assert judge_claim(LIU_18, gather_in([eager])).verdict == UNDECIDED


def test_without_the_figure_the_command_that_makes_it_is_named(tmp_path: Path) -> None:
    from synthetic import Contestant, Shape, write_results

    contestants = tuple(Contestant(f"{name}:{mode}", 1000.0) for name, mode in MODES.items())
    home = write_results(tmp_path / "results", Shape(contestants=contestants, seeds=1))
    found = judge_claim(LIU_18, gather_in([home]))
    assert found.verdict == UNDECIDED
    assert "rldyno usability torch tensorflow --part visualisation" in found.missing[0]
    usability(tmp_path / "u", dict.fromkeys(MODES, 1.2))
    (tmp_path / "u" / store.FILE).rename(home / store.FILE)
    assert judge_claim(LIU_18, gather_in([home])).verdict == HOLDS, "beside the results"
    (shown,) = (view for view in views(material_of(home)) if view.id == "liu-18")
    assert shown.verdict == HOLDS, "the report says the same"
    (same,) = (item for item in rldyno.load(home).claims() if item.claim.id == "liu-18")
    assert same.verdict == HOLDS, "so does Python"
