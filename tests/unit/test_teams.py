"""What several workers cost and give: columns, speed-ups, claims and the report, against known truths."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from report_parts import material_of
from rldyno.answers.analysis import Analysis
from rldyno.answers.axes import FASTER, SLOWER, UNCLEAR
from rldyno.answers.teams import Against
from rldyno.claims.decide import judge
from rldyno.claims.evidence import gather
from rldyno.claims.form import Claim, shipped_claims
from rldyno.limits.floor import floor
from rldyno.limits.trials import update_floor
from rldyno.records.machine_limits import DeviceLimits
from rldyno.report.material import Material
from rldyno.report.sections import phases, utilisation, workers
from rldyno.results.load import load_results
from rldyno_rig.algorithms import ALGORITHMS, update_rows
from rldyno_rig.contestant import Contestant
from rldyno_rig.hyper import to_json
from rldyno_rig.trial_file import Budget, TrialFile
from synthetic import NUMPY, TORCH, Shape, write_results
from synthetic_team import BYTES, COMMUNICATION

SHAPE = Shape(
    contestants=[NUMPY, TORCH],
    algorithms=["dqn"],
    cores=(1, 2),
    workers=(1, 2),
    collectives=("native", "host"),
    scalings=("weak", "strong"),
    seeds=5,
    steps=8_000,
    sample_hz=1,
)

HOST_TEAM = "2 workers, collective host, weak scaling"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_results(tmp_path_factory.mktemp("teams") / "r", SHAPE)


@pytest.fixture(scope="module")
def analysis(directory: Path) -> Analysis:
    return Analysis.load(directory)


@pytest.fixture(scope="module")
def material(directory: Path) -> Material:
    return material_of(directory)


def one_of(found: tuple[Against, ...], collective: str, scaling: str, cores: int = 1) -> Against:
    (one,) = [
        one
        for one in found
        if one.contestant == "torch:eager"
        and (one.team.axes["collective"], one.team.axes["scaling"], one.team.axes["cores"])
        == (collective, scaling, cores)
    ]
    return one


def test_columns_say_what_communication_took(analysis: Analysis) -> None:
    row = analysis.results.trials.filter(workers=2, collective="host").row(0, named=True)
    assert row["communication_share"] == pytest.approx(COMMUNICATION, rel=1e-3)
    assert row["phase_communicate_s"] == pytest.approx(COMMUNICATION * row["train_s"], rel=1e-3)
    assert row["means"] == "mpi"
    assert row["reduction_bytes"] == BYTES
    # Half of the communication of one of two workers is waiting; the reductions are a quarter.
    assert row["waiting_share"] == pytest.approx(COMMUNICATION / 4, rel=1e-3)
    assert row["reduction_s"] == pytest.approx(row["phase_communicate_s"] / 4 / row["reductions"], rel=1e-3)
    without = sum(row[f"phase_{phase}_s"] for phase in ("act", "transfer", "update", "read"))
    assert row["framework_step_s"] == pytest.approx(without / row["steps"])


def test_one_worker_has_no_collective_and_says_why_it_has_no_figures(analysis: Analysis) -> None:
    row = analysis.results.trials.filter(workers=1).row(0, named=True)
    assert row["collective"] == "none"
    for name in ("phase_communicate_s", "communication_share", "reduction_s"):
        assert row[name] is None
    assert analysis.results.reasons[row["trial"]]["reduction_s"].startswith("one worker alone")


def test_a_damaged_team_is_a_flaw_of_its_trial(tmp_path: Path) -> None:
    shape = replace(SHAPE, contestants=[NUMPY], cores=(1,), collectives=("host",), scalings=("weak",))
    root = write_results(tmp_path / "r", shape)
    first, second = sorted((root / "trials").glob("*.w2.*"))[:2]
    outcome = json.loads((first / "outcome.json").read_text())
    outcome["result"]["team"] = {"size": "two"}
    (first / "outcome.json").write_text(json.dumps(outcome))
    results = load_results(root)
    assert [first.name in flaw for flaw in results.flaws] == [True]
    assert second.name in set(results.trials.filter(status="done")["trial"])


def test_speed_up_and_efficiency_are_those_of_the_truth(analysis: Analysis) -> None:
    for collective, scaling, truth in (
        ("native", "weak", 1.8),
        ("host", "weak", 1.6),
        ("native", "strong", 0.9),
    ):
        for cores in (1, 2):
            one = one_of(analysis.speedups, collective, scaling, cores)
            assert one.ratio is not None
            assert one.ratio.point == pytest.approx(truth, rel=0.12)
            assert one.alone.axes["cores"] == cores
            assert one.ranked
            assert one.efficiency is not None
            assert one.efficiency.point == one.ratio.point / 2
            assert one.efficiency.low is not None
            assert one.efficiency.high is not None
            assert one.efficiency.low < one.efficiency.point < one.efficiency.high
    assert len(analysis.speedups) == 16
    assert one_of(analysis.speedups, "native", "weak").state == FASTER


def test_cores_are_worth_more_in_one_worker_or_in_two(analysis: Analysis) -> None:
    """Two cores make the one worker 2 ** 0.3 times as fast."""
    assert {(one.team.axes["cores"], one.alone.axes["cores"]) for one in analysis.core_equal} == {(1, 2)}
    weak, strong = (one_of(analysis.core_equal, "native", scaling) for scaling in ("weak", "strong"))
    assert weak.ratio is not None
    assert weak.ratio.point == pytest.approx(1.8 / 2**0.3, rel=0.12)
    assert (weak.state, strong.state) == (FASTER, SLOWER)


def test_one_seed_gives_no_speed_up_and_no_certificate_no_rank(tmp_path: Path) -> None:
    unproven = replace(TORCH, certificate="absent")
    shape = replace(SHAPE, contestants=[unproven], cores=(1,), seeds=1)
    found = Analysis.load(write_results(tmp_path / "r", shape)).speedups
    assert [one.ratio for one in found] == [None] * 4
    assert {one.state for one in found} == {UNCLEAR}
    assert not any(one.ranked for one in found)
    assert all(one.trust.words for one in found)


def test_a_collective_without_a_certificate_is_shown_but_not_ranked(tmp_path: Path) -> None:
    shape = replace(SHAPE, cores=(1,), scalings=("weak",), unproven=("host",))
    analysis = Analysis.load(write_results(tmp_path / "r", shape))
    ranked = {(one.contestant, one.team.axes["collective"]): one.ranked for one in analysis.speedups}
    assert ranked == {
        (name, collective): collective == "native"
        for name in ("numpy:eager", "torch:eager")
        for collective in ("native", "host")
    }
    along = [answer for answer in analysis.axis_answers if answer.axis == "workers"]
    assert ["native" in answer.place for answer in along] == [True]


def test_answers_along_workers_begin_with_one(analysis: Analysis) -> None:
    along = [answer for answer in analysis.axis_answers if answer.axis == "workers"]
    assert {(answer.base, answer.level) for answer in along} == {(1, 2)}
    assert len({answer.place for answer in along}) == 8
    assert any("collective native, weak scaling" in answer.place for answer in along)
    assert not any(answer.axis == "scaling" for answer in analysis.axis_answers)


def test_claims_may_ask_for_a_collective_and_follow_the_workers(analysis: Analysis) -> None:
    def verdict(**check: object) -> str:
        claim = Claim.model_validate({"id": "a", "statement": "b", "check": [check]})
        return judge([claim], gather([analysis.results]))[0].verdict

    native = {"framework": "torch", "collective": "native", "scaling": "weak"}
    host = native | {"collective": "host"}
    assert verdict(kind="ratio", metric="throughput", a=native, b=host, at_least=1.0) == "holds"
    several, alone = {"workers": 2, "collective": "native", "scaling": "weak"}, {"workers": 1}
    assert verdict(kind="ratio", metric="throughput", a=several, b=alone, at_least=1.5) == "holds"
    trend = {"kind": "trend", "metric": "throughput", "axis": "workers"}
    assert verdict(**trend, where={"scaling": ["weak"], "workers": 2}, at_least=1.0) == "undecided"
    assert verdict(**trend, at_least=1.0) == "holds"
    assert verdict(kind="value", metric="communication", a={"workers": 2}, at_most=0.21) == "holds"


def test_the_claim_about_gpus_follows_the_workers(tmp_path: Path) -> None:
    graph = replace(TORCH, name="tensorflow:graph")
    shape = replace(SHAPE, contestants=[TORCH, graph], algorithms=["ppo"], devices=("cuda",), cores=(1,))
    shape = replace(shape, environments=["CartPole-v0"], max_episode_steps=100)
    evidence = gather([load_results(write_results(tmp_path / "r", shape))])
    (claim,) = [claim for claim in shipped_claims() if claim.id == "liu-10"]
    (found,) = judge([claim], evidence)
    parts = [part.label for check in found.checks for part in check.parts]
    assert all("workers 1 → 2" in label for label in parts)
    assert len(parts) == 3 * 2 * 4
    cpu, memory, _ = found.checks
    assert (cpu.verdict, memory.verdict) == ("holds", "holds")


def test_the_floor_is_that_of_a_worker_s_batch() -> None:
    dqn = ALGORITHMS["dqn"]
    values = dqn.defaults("CartPole-v1")
    limits = DeviceLimits("cpu", 1, {"float32": 1e9}, 1e9, None)
    half = dqn.spec(replace(values, batch_size=values.batch_size // 2), (4,), "float32", 2)
    alone = TrialFile("t", Contestant("numpy", "eager"), "dqn", "CartPole-v1", 0, to_json(values), Budget())
    for trial, expected in (
        (replace(alone, workers=2, scaling="strong"), half),
        (replace(alone, workers=2), dqn.spec(values, (4,), "float32", 2)),
    ):
        assert update_floor(trial, [4], 2, limits) == floor(expected, update_rows(expected), limits)


@pytest.mark.slow
def test_the_section_draws_speed_up_the_ideal_and_what_a_step_takes(material: Material) -> None:
    panels = workers.charts(material)
    assert [panel.label for panel in panels] == ["DQN on CartPole-v1, 1 core", "DQN on CartPole-v1, 2 cores"]
    drawn = {chart.id: chart for chart in panels[0].charts}
    assert set(drawn) == {
        *(f"speedup-{scaling}-{name}" for scaling in ("weak", "strong") for name in ("native", "host")),
        "team-step-weak",
        "team-step-strong",
    }
    rows = drawn["speedup-weak-native"].all_rows
    assert [row for row in rows if "ideal" in row] == [{"x": 1, "ideal": 1}, {"x": 2, "ideal": 2}]
    assert {(row["contestant"], row["x"]) for row in rows if "contestant" in row} == {
        (name, count) for name in ("numpy:eager", "torch:eager") for count in (1, 2)
    }
    bars = drawn["team-step-weak"].all_rows
    assert {row["label"] for row in bars if row["contestant"] == "torch:eager"} == {
        "torch:eager, 1 worker",
        "torch:eager, 2 workers native",
        "torch:eager, 2 workers host",
    }
    two = {row["part"]: row["us"] for row in bars if row["label"] == "torch:eager, 2 workers host"}
    assert two["wait"] / two["reduce"] == pytest.approx(3, rel=0.01)
    speedup, equal = workers.tables(material)
    assert (len(speedup.rows), len(equal.rows)) == (16, 8)
    assert ("torch:eager", "2, native (gloo), weak") in {row[:2] for row in speedup.rows}
    assert ("2 × 1 core, host (mpi), weak", "1 × 2 cores") in {row[1:3] for row in equal.rows}


@pytest.mark.slow
def test_cpu_is_a_share_of_the_cores_of_all_workers(material: Material) -> None:
    """A synthetic trial uses 98 % of one core, whatever it has."""
    (table,) = [table for table in utilisation.tables(material) if "CPU, % of its cores" in table.columns]
    shown = {row[1]: float(row[2]) for row in table.rows if row[0] == "torch:eager"}
    one, two = (shown[f"DQN on CartPole-v1, 1 core, {team}"] for team in ("1 worker", HOST_TEAM))
    assert one / two == pytest.approx(2, rel=0.05)
    (panel,) = utilisation.charts(material)
    (bars,) = [chart for chart in panel.charts if chart.id == "cpu-use"]
    drawn = {row["label"]: row["value"] for row in bars.all_rows}
    two = drawn[f"torch:eager, 1 core, {HOST_TEAM}"]
    assert drawn["torch:eager, 1 core, 1 worker"] / two == pytest.approx(2, rel=0.05)


@pytest.mark.slow
def test_the_phases_show_communication_where_there_is_any(material: Material, tmp_path: Path) -> None:
    parts = {
        (place.group.axes["workers"], row["part"])
        for place in material.places
        for row in phases.step_chart(place.group, True).all_rows
    }
    assert (2, "communicate") in parts
    assert (1, "communicate") not in parts
    alone = material_of(
        write_results(tmp_path / "r", Shape(contestants=[NUMPY], algorithms=["dqn"], seeds=1))
    )
    assert not workers.charts(alone)
    assert not workers.tables(alone)
    assert all("workers" not in panel.charts[0].caption for panel in phases.charts(alone))
