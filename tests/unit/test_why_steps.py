"""Forms of one framework: which levels a study holds, what each saves, and when nothing is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_trust import disturb, edit_outcomes, written
from typer.testing import CliRunner

from report_parts import material_of
from rldyno.answers.analysis import Analysis
from rldyno.answers.why_steps import Waterfall, waterfall_json, waterfall_words, waterfalls
from rldyno.cli import app
from rldyno.division.record import OPEN_RECORD, OpenRecord, OpenRow
from rldyno.report.sections import why
from rldyno_rig import schema
from rldyno_rig.open.job_file import OpenFound
from synthetic import COMPILE, NUMPY, TORCH

AXES: dict[str, Any] = {"stop_return": None, "algorithms": ["ppo"], "hyper": {"environments": [4, 64]}}


def with_speeds(root: Path) -> Path:
    """Compiling saves 20 of 60 µs of an update, 64 environments half of everything."""

    def change(_: int, outcome: dict[str, Any]) -> None:
        result, trial = outcome["result"], outcome["trial"]
        update = 40 if "compile" in trial else 60
        shrink = 2 if "environments64" in trial else 1
        spent = dict.fromkeys(schema.PHASES, 10 / shrink) | {"update": update / shrink}
        # A little of each seed, so that no interval is a point.
        unit = result["steps"] * (1000 + int(trial[-1]))
        result["phases_ns"] = {phase: int(us * unit) for phase, us in spent.items()}
        result["train_ns"] = sum(result["phases_ns"].values())

    edit_outcomes(root, change)
    return root


def with_open(root: Path, counts: tuple[int, ...] = (4, 64), **changes: Any) -> Path:
    """As `rldyno open --out DIR` writes it: 2 µs per step with four environments, 3 with more."""
    trial = json.loads(next(root.glob("trials/torch-compile*/trial.json")).read_text())
    rows = []
    for count in counts:
        rates = tuple(1e6 / (2 if count == 4 else 3) * (1 + repeat / 100) for repeat in (-1, 0, 1))
        rows.append(OpenRow("torch", count, OpenFound(5.0, rates, 1000, (None,), {}, "cpu")))
    values = {
        "made_at": "",
        "host_sha256": Analysis.load(root).results.manifest.host,
        "dtype": "float32",
        "algorithm": "ppo",
        "environment": "CartPole-v1",
        "device": "cpu",
        "agents": 1,
        "hyper": {**trial["hyper"], "environments": counts[0]},
        "rows": tuple(rows),
    }
    record = OpenRecord(**{**values, **changes})
    (root / OPEN_RECORD).write_text(json.dumps(record.to_json()))
    return root


def found_in(root: Path, framework: str) -> Waterfall:
    analysis = Analysis.load(root)
    made = waterfalls(analysis.results, analysis.comparisons)
    return next(one for one in made if one.framework == framework)


def test_levels_follow_one_another_and_each_split_is_exact(tmp_path: Path) -> None:
    found = found_in(with_speeds(written(tmp_path / "r", NUMPY, TORCH, COMPILE, **AXES)), "torch")
    assert found.first.words == "`torch:eager`"
    assert [step.level.words for step in found.steps] == ["`torch:compile`", "64 environments"]
    assert [round(step.split.fast_us) for step in found.steps] == [100, 50]
    for step in found.steps:
        saved = sum(phase.gap.difference.point for phase in step.split.phases)
        assert saved == pytest.approx(step.split.slow_us - step.split.fast_us)
    (compiled, *_), (wider, *_) = (step.split.phases for step in found.steps)
    assert (compiled.name, round(compiled.gap.difference.point)) == ("update", 20)
    assert (wider.name, round(wider.gap.difference.point)) == ("update", 20)
    assert "100 % of it `update`" in waterfall_words(found)
    assert "2.0× " in waterfall_words(found)


@pytest.fixture
def torch_study(tmp_path: Path) -> Path:
    return with_speeds(written(tmp_path / "r", TORCH, COMPILE, seeds=3, **AXES))


def test_the_open_division_is_the_last_level(torch_study: Path) -> None:
    found = found_in(with_open(torch_study), "torch")
    assert [step.level.words for step in found.steps] == [
        "`torch:compile`",
        "64 environments",
        "open division, 64 environments",
    ]
    last = found.steps[-1]
    assert round(last.split.fast_us) == 3
    named = {phase.name: phase.gap.difference.point for phase in last.split.phases}
    assert named["not split"] == pytest.approx(-3, rel=0.01)
    assert sum(named.values()) == pytest.approx(last.split.slow_us - last.split.fast_us)
    assert "open division, 64 environments 3.00, 17× [" in waterfall_words(found)
    assert waterfall_json(found)["levels"][-1]["comparison"] == "open division"
    bars = [
        row.get("label") for panel in why.charts(material_of(torch_study)) for row in panel.charts[0].rows
    ]
    assert "open division, 64 environments" in bars


def test_the_most_environments_stand_for_the_open_division_where_none_are_the_same(torch_study: Path) -> None:
    found = found_in(with_open(torch_study, (4, 2048)), "torch")
    assert found.steps[-1].level.words == "open division, 2,048 environments"


def test_records_in_directories_of_their_own_are_found(torch_study: Path) -> None:
    own = torch_study / "open-ppo"
    own.mkdir()
    with_open(torch_study)
    (torch_study / OPEN_RECORD).rename(own / OPEN_RECORD)
    with_open(torch_study, algorithm="dqn")
    assert found_in(torch_study, "torch").steps[-1].level.is_open


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"host_sha256": "other"}, "another machine"),
        ({"hyper": {"learning_rate": 7.0}}, "with learning_rate 7.0, not 0.0"),
        ({"rows": 3}, "open.json is damaged"),
        ({"algorithm": "dqn"}, ""),
        ({"device": "cuda"}, ""),
        ({"agents": 16}, ""),
    ],
)
def test_an_open_loop_on_other_terms_is_no_step(
    torch_study: Path, changes: dict[str, Any], reason: str
) -> None:
    """One of another task is not mentioned."""
    path = with_open(torch_study) / OPEN_RECORD
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    found = found_in(torch_study, "torch")
    assert [step.level.is_open for step in found.steps] == [False, False]
    assert reason in found.no_open
    assert bool(found.no_open) == ("open division is not shown" in waterfall_words(found)) == bool(reason)


def test_one_level_is_no_waterfall(tmp_path: Path) -> None:
    analysis = Analysis.load(written(tmp_path / "r", NUMPY, TORCH, stop_return=None))
    assert waterfalls(analysis.results, analysis.comparisons) == []


def test_noise_bars_ratios_and_charts(tmp_path: Path) -> None:
    root = disturb(with_speeds(written(tmp_path / "r", TORCH, COMPILE, **AXES)), 20)
    found = found_in(root, "torch")
    assert found.trust.barred
    assert "as fast" not in waterfall_words(found)
    assert all("times_as_fast" not in level for level in waterfall_json(found)["levels"])
    assert not [panel for panel in why.charts(material_of(root)) if panel.id.startswith("waterfall")]


@pytest.mark.parametrize(("score", "barred"), [(0.5, False), (1.5, True)])
def test_steps_that_noise_cannot_explain_keep_their_ratios(
    tmp_path: Path, score: float, barred: bool
) -> None:
    """With 64 environments it is twice as fast."""
    root = disturb(with_speeds(written(tmp_path / "r", NUMPY, TORCH, **AXES)), 20, score)
    found = found_in(root, "torch")
    assert found.trust.barred == barred
    assert ("2.0× " in waterfall_words(found)) == (not barred)
    assert ("larger than that explains" in found.trust.words) == (not barred)


def test_the_bars_of_the_chart_meet(tmp_path: Path) -> None:
    root = with_speeds(written(tmp_path / "r", NUMPY, TORCH, COMPILE, **AXES))
    panels = {panel.label: panel for panel in why.charts(material_of(root))}
    rows = panels["torch, PPO on CartPole-v1"].charts[0].rows
    ends = {row["order"]: row["end"] for row in rows}
    starts = {order: next(row["start"] for row in rows if row["order"] == order) for order in ends}
    assert (starts[0], starts[2], starts[4]) == (0, 0, 0)
    # What changes begins where the bar before ends, and ends where the bar after does.
    assert (starts[1], ends[1]) == pytest.approx((ends[0], ends[2]), rel=1e-3)
    assert (starts[3], ends[3]) == pytest.approx((ends[2], ends[4]), rel=1e-3)


def test_the_command_shows_the_frameworks_that_were_named(tmp_path: Path) -> None:
    root = with_speeds(written(tmp_path / "r", NUMPY, TORCH, COMPILE, **AXES))
    shown = CliRunner().invoke(app, ["why", str(root), "torch:eager", "torch:compile", "--json"])
    assert [one["framework"] for one in json.loads(shown.output)["waterfalls"]] == ["torch"]
    printed = CliRunner().invoke(app, ["why", str(root)]).output
    assert "`numpy`, PPO on CartPole-v1" in " ".join(printed.split())
