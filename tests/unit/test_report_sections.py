"""The parts of the report that appear when their data is there."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from report_parts import charts_by_panel, html_of, material_of, report_of, tables
from rldyno.errors import Problem
from rldyno.nets.work import net_named
from rldyno.report.material import Material
from rldyno.report.section import Chart
from rldyno.report.sections.advice import task_advice
from rldyno.report.sections.phases import cost_band
from rldyno.report.sections.startup import length_words
from rldyno.report.sections.utilisation import not_measured, use
from rldyno.report.series import Points
from rldyno.stats.estimates import point_of
from rldyno.text.numbers import number
from rldyno.text.tables import Table
from rldyno_rig import schema
from synthetic import COMPILE, NUMPY, TORCH, ZOO, Contestant, Shape, write_results

JAX = ZOO[3]


def small(**changes: object) -> Shape:
    shape = {"contestants": [TORCH, COMPILE], "algorithms": ["ppo"], "seeds": 3, "sample_hz": 2} | changes
    return Shape(**shape)  # type: ignore[arg-type]


def made(path: Path, **changes: object) -> Material:
    return material_of(write_results(path / "r", small(**changes)))


def table(material: Material, name: str) -> Table:
    return tables(material)[name]


def charts(material: Material, panel: str = "group-0") -> dict[str, Chart]:
    return charts_by_panel(material)[panel]


def test_one_picture_over_all_comparisons(tmp_path: Path) -> None:
    material = made(tmp_path, contestants=[NUMPY, TORCH], cores=(1, 2))
    rows = charts(material, "run")["overview"].rows
    (best, other) = [row for row in rows if row["comparison"] is None]
    assert (best["contestant"], best["value"]) == ("numpy:eager", 1.0)
    ticks = [row["value"] for row in rows if row["contestant"] == "torch:eager" and row["comparison"]]
    assert len(ticks) == 2
    assert other["value"] == pytest.approx((ticks[0] * ticks[1]) ** 0.5, rel=1e-3)


def test_one_comparison_is_its_own_picture(tmp_path: Path) -> None:
    assert "overview" not in charts(made(tmp_path), "run")


def test_who_overtakes_whom(tmp_path: Path) -> None:
    found = table(made(tmp_path), "ppo-on-cartpole-v1--overtaking")
    ((faster, slower, steps, updates),) = found.rows
    assert (faster, slower) == ("torch:compile", "torch:eager")

    def first(cell: str) -> float:
        return float(cell.split()[0].replace(",", ""))

    # 14.2 s of later start at 1/3100 − 1/3900 s gained per step; an update every fourth step.
    assert first(steps) == pytest.approx(14.2 / (1 / 3100 - 1 / 3900), rel=0.5)
    assert first(updates) == pytest.approx(first(steps) / 4, rel=0.02)
    assert "–" in steps


def test_time_and_steps_to_the_threshold(tmp_path: Path) -> None:
    material = made(tmp_path, contestants=[TORCH, replace(COMPILE, learns=0.3)])
    whole, censored = table(material, "to-threshold").rows
    assert whole[:3] == ("torch:eager", "PPO on CartPole-v1", "3 of 3")
    runs = material.groups[0].runs["torch:eager"]

    def figures(cell: str) -> list[float]:
        return [float(part.replace(",", "")) for part in re.findall(r"[\d,.]+", cell)]

    for cell, column in zip(
        whole[3:],
        ("threshold_steps", "threshold_episodes", "threshold_train_s", "threshold_s"),
        strict=True,
    ):
        middle, low, high = figures(cell)
        assert middle == pytest.approx(point_of(runs[column]), rel=0.01)
        assert low <= middle <= high
    assert censored[:3] == ("torch:compile", "PPO on CartPole-v1", "1 of 3")
    assert set(censored[3:]) == {"not reached by half"}
    assert "to-threshold" not in tables(made(tmp_path / "open", stop_return=None))


def test_phases_are_drawn_as_far_as_all_runs_went() -> None:
    def run(seconds: int) -> Points:
        steps = np.arange(1, seconds + 1) * 1000.0
        return steps, steps * 10_000

    band = cost_band("torch:eager", [run(3), run(4), run(40)], points=100)
    assert band.x.tolist() == [500, 1500, 2500]
    assert band.y.tolist() == pytest.approx([10, 10, 10])


@pytest.mark.slow
def test_time_in_the_framework_stands_apart_from_what_all_share(tmp_path: Path) -> None:
    material = made(tmp_path)
    found = table(material, "framework-time")
    (group,) = material.groups
    for row, (name, _, framework, shared, share) in zip(group.rows, found.rows, strict=True):
        middle = group.runs[name].middle
        assert row.contestant == name
        assert framework.startswith(number(row.figures["framework_step_s"].estimate.point * 1e6))
        assert shared == number((middle("shared_step_s") or 0) * 1e6)
        assert 0 < int(share.rstrip("%")) < 100
    (torch, *_) = {row["contestant"] for row in charts(material)["phases"].rows}
    bar = [row for row in charts(material)["phases"].rows if row["contestant"] == torch]
    assert [row["part"] for row in bar] == [*schema.FRAMEWORK_PHASES, *schema.SHARED_PHASES]
    whole = 1e6 * float(np.mean(group.runs[torch]["train_s"]) / np.mean(group.runs[torch]["steps"]))
    assert sum(row["us"] for row in bar) == pytest.approx(whole, rel=0.01)


@pytest.mark.slow
def test_what_a_step_costs_in_each_phase_as_training_goes_on(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", small())
    for path in root.glob("trials/torch-*/progress.csv"):
        eager = "torch-eager" in path.parent.name
        # 10 µs of update per step up to step 2,000, then 30 µs; 5 µs of everything else but read.
        rows = [(1000, 10_000), (2000, 20_000), (3000, 50_000), (4000, 80_000)][: 4 if eager else 2]
        lines = [",".join(schema.PROGRESS_COLUMNS)]
        for step, update_us in rows:
            spent = dict.fromkeys(schema.PHASES, 5 * step * 1000)
            spent |= {"update": update_us * 1000, "read": 1000}
            lines.append(
                ",".join(map(str, [step * 50_000, step, 1, step // 4, 20.0, 0.5, *spent.values(), ""]))
            )
        path.write_text("\n".join(lines) + "\n")
    drawn = charts(material_of(root))
    assert "phase-read" not in drawn
    bands = drawn["phase-update"].packed["bands"]
    assert "torch:compile" not in bands
    assert bands["torch:eager"]["x"] == [500, 1500, 2500, 3500]
    assert bands["torch:eager"]["y"] == [10, 10, 30, 30]
    assert drawn["phase-act"].packed["bands"]["torch:eager"]["high"] == [5, 5, 5, 5]
    assert 'data-chart="phase-update"' in report_of(root).read_text()


def test_memory_by_stage_adds_up_to_the_peak(tmp_path: Path) -> None:
    material = made(tmp_path)
    rows = charts(material)["memory-split"].rows
    torch = {row["part"]: row["mb"] for row in rows if row["contestant"] == "torch:eager"}
    assert list(torch) == ["framework", "learner", "first calls", "training", "peak"]
    assert torch["framework"] == pytest.approx(0.7 * 290)
    peak = material.groups[0].runs["torch:eager"].middle("peak_rss_bytes")
    assert peak is not None
    assert sum(torch.values()) == pytest.approx(peak / 1e6, rel=0.02)


def test_a_leak_is_listed_first(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", small())
    for path in root.glob("trials/torch-compile*/outcome.json"):
        outcome = json.loads(path.read_text())
        outcome["memory"] |= {"growth_bytes_per_s": 2e6, "growth_low": 1.5e6, "leak": True}
        path.write_text(json.dumps(outcome))
    first, second = table(material_of(root), "memory-growth").rows
    assert (first[0], first[4], first[-1]) == ("torch:compile", "+2,000.0", "3 of 3 runs")
    steady, used = (float(cell) for cell in first[2:4])
    assert used == pytest.approx(steady * 0.8 / 0.99, rel=0.01)
    assert (second[0], second[-1]) == ("torch:eager", "none")


def test_a_gpu_has_its_own_charts_and_tables(tmp_path: Path) -> None:
    material = made(tmp_path, devices=("cpu", "cuda"))
    on_gpu = {"gpu", "gpu-memory", "gpu-memory-percent", "power"}
    assert not on_gpu & charts(material, "group-0").keys()
    assert on_gpu <= charts(material, "group-1").keys()
    # 700 MB of 2,800 MB.
    assert {row["y"] for row in charts(material, "group-1")["gpu-memory-percent"].all_rows} == {25.0}
    shares = charts(material, "task-0")["gpu-memory-share"].rows
    assert [(row["label"], row["value"]) for row in shares] == [
        ("torch:eager, cuda", 25.0),
        ("torch:compile, cuda", 25.0),
    ]
    gpu = table(material, "gpu-use-of-runs")
    assert {row[1] for row in gpu.rows} == {"PPO on CartPole-v1, cuda"}
    assert dict(zip(gpu.columns, gpu.rows[0], strict=True))[use("gpu_power_mean_w").title] == "180"
    energy = table(material, "energy-of-runs")
    assert use("cpu_energy_joules").title not in energy.columns
    assert use("energy_to_threshold_joules").title in energy.columns
    assert {"power-use", "energy-use", "energy-to-threshold"} <= charts(material, "task-0").keys()


def test_a_share_of_a_gpu_whose_size_is_unknown_is_not_drawn(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", small(devices=("cuda",)))
    manifest = json.loads((root / "manifest.json").read_text())
    manifest["machine"]["gpus"].append({"name": "A larger one", "memory_total_bytes": 4_000_000_000})
    (root / "manifest.json").write_text(json.dumps(manifest))
    drawn = charts(material_of(root))
    assert "gpu-memory" in drawn
    assert "gpu-memory-percent" not in drawn


def test_the_whole_machine_against_time(tmp_path: Path) -> None:
    drawn = charts(made(tmp_path))
    for name, percent in (("machine-cpu", 51.0), ("machine-memory", 20.0)):
        rows = drawn[name].all_rows
        assert {row["contestant"] for row in rows} == {"torch:eager", "torch:compile"}
        assert {row["y"] for row in rows} == {percent}
        # It goes on as long as the shortest run, start-up included.
        assert max(row["x"] for row in rows if row["contestant"] == "torch:compile") > 14


def test_the_area_by_time_tells_fast_from_slow_and_that_by_steps_does_not(tmp_path: Path) -> None:
    material = made(tmp_path, contestants=[NUMPY, TORCH], seeds=5)
    by_steps, by_time = (
        {row["contestant"]: row for row in charts(material)[name].rows}
        for name in ("area-by-steps", "area-by-time")
    )
    fast, slow = by_time["numpy:eager"], by_time["torch:eager"]
    assert fast["low"] > slow["high"]
    fast, slow = by_steps["numpy:eager"], by_steps["torch:eager"]
    assert fast["low"] < slow["high"]
    assert slow["low"] < fast["high"]
    rows = table(material, "learning-areas").rows
    assert [row[-1] for row in rows] == ["yes", "yes"]
    assert rows[0][2].startswith(number(by_steps["numpy:eager"]["value"])[:3])


def test_what_was_not_measured_has_a_reason(tmp_path: Path) -> None:
    material = made(tmp_path)
    assert "energy-of-runs" not in tables(material)
    reasons = dict(not_measured(material.results, material.groups))
    assert f"CPU: {use('instructions_per_cycle').title}" in reasons["no hardware counters here"]
    assert f"energy: {use('energy_joules').title}" in reasons["no counter here"]
    assert f"GPU: {use('gpu_utilisation_percent').title}" in reasons["the trial runs on the CPU"]


def test_what_one_contestant_lacks_and_others_have_has_a_reason_too(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", small())
    for path in root.glob("trials/torch-eager*/outcome.json"):
        outcome = json.loads(path.read_text())
        outcome["machine"] |= {"cpu_percent": None, "reasons": {"cpu_percent": "too short"}}
        outcome["memory"] |= {"growth_bytes_per_s": None, "reasons": {"growth_bytes_per_s": "few samples"}}
        path.write_text(json.dumps(outcome))
    material = material_of(root)
    reasons = dict(not_measured(material.results, material.groups))
    assert reasons["too short"] == (f"CPU: {use('machine_cpu_percent').title} of torch:eager",)
    assert reasons["few samples"] == (f"memory: {use('memory_growth_bytes_per_s').title} of torch:eager",)


@pytest.mark.slow
def test_an_empty_cell_says_why(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", small())
    for path in root.glob("trials/torch-eager*/outcome.json"):
        outcome = json.loads(path.read_text())
        outcome["peak_rss_bytes"] = outcome["memory"]["peak_bytes"] = None
        outcome["reasons"] |= {"peak_rss_bytes": "the kernel <hides> it"}
        path.write_text(json.dumps(outcome))
    html = report_of(root).read_text()
    assert "the kernel &lt;hides&gt; it" in html


def test_distance_from_the_limit_only_where_limits_are_known(tmp_path: Path) -> None:
    assert "limits" not in tables(made(tmp_path / "without"))
    material = made(tmp_path / "with", limits=True, cores=(1, 2))
    rows = charts(material)["distance"].rows
    assert [row["contestant"] for row in rows] == ["torch:compile", "torch:eager"]
    assert 1 < rows[0]["value"] < rows[1]["value"]
    assert "bound by" in rows[0]["text"]
    limits = table(material, "limits")
    assert len(limits.rows) == 4
    assert limits.rows[0][:2] == ("torch:compile", "PPO on CartPole-v1, 1 core")


NETS = {
    "asked": {
        "algorithm": "classifier",
        "device": "cpu",
        "cores": 1,
        "dtype": "float32",
        "nets": [asdict(net_named("small"))],
    },
    "machine": {"cpu": "a CPU", "gpus": []},
    "limits": None,
    "complete": True,
    "absent": [],
    "gpu_percent_reason": "the network runs on the CPU",
    "workers": [{"contestant": "torch:eager", "certificate": "absent"}],
    "measurements": [
        {
            "contestant": "torch:eager",
            "net": "small",
            "measure": "update",
            "rows": 128,
            "data": "pageable",
            "error": None,
            "rounds": [
                {
                    "round": 1,
                    "calls": 10,
                    "wall_ns": 20_000_000,
                    "median_ns": 2_000_000,
                    "p10_ns": 1_900_000,
                    "p90_ns": 2_100_000,
                    "gpu_percent": None,
                }
            ],
        }
    ],
}


@pytest.mark.slow
def test_the_paper_s_networks_beside_ours(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", small())
    (root / "nets.json").write_text(json.dumps(NETS))
    found = table(material_of(root), "stooke2017-small")
    assert found.rows[0][0] == "torch:eager"
    # 500 updates of 2 ms each.
    assert "1.00" in found.rows[0]
    assert any(row[0].startswith("Theano") and "2017" in row[0] for row in found.rows[1:])
    assert "Not proven here to compute the same: torch:eager" in html_of(root)


@pytest.mark.parametrize("text", ["{", "{}"])
def test_networks_that_cannot_be_read_are_a_problem_with_a_fix(tmp_path: Path, text: str) -> None:
    root = write_results(tmp_path / "r", small())
    (root / "nets.json").write_text(text)
    with pytest.raises(Problem, match=r"nets\.json is damaged") as found:
        tables(material_of(root))
    assert found.value.fix


@pytest.mark.slow
def test_limits_of_a_busy_machine_are_reported_beside_the_multiples(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", small(limits=True))
    assert "While the machine is idle" not in html_of(root)
    manifest = json.loads((root / "manifest.json").read_text())
    for one in manifest["limits"]["devices"]:
        one["taken_percent"] = 42.0
    (root / "manifest.json").write_text(json.dumps(manifest))
    html = html_of(root)
    assert "measured while others used 42 % of these CPUs" in html
    assert "rldyno run of this study measures it again" in html


def test_names_of_charts_and_tables_are_used_once(tmp_path: Path) -> None:
    material = made(tmp_path, devices=("cpu", "cuda"), limits=True)
    names = [
        {chart.id for panel in section.charts(material) for chart in panel.charts}
        for section in material.sections
    ]
    assert sum(map(len, names)) == len(set().union(*names))
    files = [found.name for section in material.sections for found in section.tables(material)]
    assert len(files) == len(set(files))


def test_advice_that_is_the_same_everywhere_is_said_once(tmp_path: Path) -> None:
    fast = Contestant("numpy:eager", 9000, (0.05, 0.04, 0.01, 0.01))
    shape = small(contestants=[fast, JAX], cores=(1, 2, 4), seeds=10)
    (advice,) = task_advice(material_of(write_results(tmp_path / "r", shape)))
    (sentence,) = advice.picks
    assert sentence.startswith("Take `numpy:eager` in all 3 settings: it learns fastest; ")
    assert sentence.endswith("Confidence: high.")
    assert not [text for text in advice.changes if "stays the choice" in text]


def test_no_break_even_is_named_where_nothing_may_be_said(tmp_path: Path) -> None:
    material = made(tmp_path, seeds=1)
    assert length_words(material, material.groups[0]).startswith("No break-even is named. With one seed")
    assert not [name for name in tables(material) if name.endswith("--overtaking")]
