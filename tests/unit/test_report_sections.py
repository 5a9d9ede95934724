"""The parts of the report that appear when their data is there."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from rldyno.answers.table import compare
from rldyno.errors import Problem
from rldyno.nets.work import net_named
from rldyno.report import write_report
from rldyno.report.content import Content, gather
from rldyno.report.figures import all_tables
from rldyno.report.hardware import not_measured
from rldyno.report.phases import cost_band
from rldyno.report.verdicts import task_advice
from rldyno.report.write import render
from rldyno.results.load import load_results
from rldyno.stats.bootstrap import Floats
from rldyno.text.tables import Table
from rldyno_rig import schema
from synthetic import COMPILE, NUMPY, TORCH, ZOO, Contestant, Shape, write_results

JAX = ZOO[3]


def small(**changes: object) -> Shape:
    shape = {"contestants": [TORCH, COMPILE], "algorithms": ["ppo"], "seeds": 3, "sample_hz": 2} | changes
    return Shape(**shape)  # type: ignore[arg-type]


def content_of(path: Path, **changes: object) -> Content:
    return gather(load_results(write_results(path / "r", small(**changes))))


def table(content: Content, name: str) -> Table:
    return next(found for found in all_tables(content) if found.name == name)


def test_one_picture_over_all_comparisons(tmp_path: Path) -> None:
    content = content_of(tmp_path, contestants=[NUMPY, TORCH], cores=(1, 2))
    rows = content.run.charts["overview"]["rows"]
    (best, other) = [row for row in rows if row["comparison"] is None]
    assert (best["contestant"], best["value"]) == ("numpy:eager", 1.0)
    ticks = [row["value"] for row in rows if row["contestant"] == "torch:eager" and row["comparison"]]
    assert len(ticks) == 2
    assert other["value"] == pytest.approx((ticks[0] * ticks[1]) ** 0.5, rel=1e-3)


def test_one_comparison_is_its_own_picture(tmp_path: Path) -> None:
    assert "overview" not in content_of(tmp_path).run.charts


def test_who_overtakes_whom(tmp_path: Path) -> None:
    found = table(content_of(tmp_path), "ppo-on-cartpole-v1--overtaking")
    ((faster, slower, steps, updates),) = found.rows
    assert (faster, slower) == ("torch:compile", "torch:eager")

    def first(cell: str) -> float:
        return float(cell.split()[0].replace(",", ""))

    # 14.2 s of later start at 1/3100 − 1/3900 s gained per step; an update every fourth step.
    assert first(steps) == pytest.approx(14.2 / (1 / 3100 - 1 / 3900), rel=0.5)
    assert first(updates) == pytest.approx(first(steps) / 4, rel=0.02)
    assert "–" in steps


def test_time_and_steps_to_the_threshold(tmp_path: Path) -> None:
    content = content_of(tmp_path, contestants=[TORCH, replace(COMPILE, learns=0.3)])
    whole, censored = table(content, "to-threshold").rows
    assert whole[:3] == ("torch:eager", "PPO on CartPole-v1", "3 of 3")
    runs = compare(content.results)[0].runs["torch:eager"]

    def figures(cell: str) -> list[float]:
        return [float(part.replace(",", "")) for part in re.findall(r"[\d,.]+", cell)]

    for cell, column in zip(
        whole[3:],
        ("threshold_steps", "threshold_episodes", "threshold_train_s", "threshold_s"),
        strict=True,
    ):
        middle, low, high = figures(cell)
        assert middle == pytest.approx(runs.middle(column), rel=0.01)
        assert low <= middle <= high
    assert censored[:3] == ("torch:compile", "PPO on CartPole-v1", "1 of 3")
    assert set(censored[3:]) == {"not reached by half"}
    assert not content_of(tmp_path / "open", stop_return=None).tables["threshold"]


def test_one_long_run_does_not_thin_out_the_phases_of_the_others() -> None:
    def run(seconds: int) -> dict[str, Floats]:
        steps = np.arange(1, seconds + 1) * 1000.0
        return {"step": steps, "update_ns": steps * 10_000}

    band = cost_band("torch:eager", [run(3), run(4), run(40)], "update", points=100)
    assert band.x.tolist() == [500, 1500, 2500, 3500]
    assert band.y.tolist() == pytest.approx([10, 10, 10, 10])


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
            lines.append(",".join(map(str, [step * 50_000, step, 1, step // 4, 20.0, 0.5, *spent.values()])))
        path.write_text("\n".join(lines) + "\n")
    content = gather(load_results(root))
    drawn = content.comparisons[0].charts
    assert "phase-read" not in drawn
    bands = drawn["phase-update"]["bands"]
    assert "torch:compile" not in bands
    assert bands["torch:eager"]["x"] == [500, 1500, 2500, 3500]
    assert bands["torch:eager"]["y"] == [10, 10, 30, 30]
    assert drawn["phase-act"]["bands"]["torch:eager"]["high"] == [5, 5, 5, 5]
    assert 'data-chart="phase-update"' in write_report(root).read_text()


def test_memory_by_stage_adds_up_to_the_peak(tmp_path: Path) -> None:
    content = content_of(tmp_path)
    rows = content.comparisons[0].charts["memory-split"]["rows"]
    torch = {row["part"]: row["mb"] for row in rows if row["contestant"] == "torch:eager"}
    assert list(torch) == ["framework", "learner", "first calls", "training", "peak"]
    assert torch["framework"] == pytest.approx(0.7 * 290)
    peak = compare(content.results)[0].runs["torch:eager"].middle("peak_rss_bytes")
    assert peak is not None
    assert sum(torch.values()) == pytest.approx(peak / 1e6, rel=0.02)


def test_a_leak_is_listed_first(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", small())
    for path in root.glob("trials/torch-compile*/outcome.json"):
        outcome = json.loads(path.read_text())
        outcome["memory"] |= {"growth_bytes_per_s": 2e6, "growth_low": 1.5e6, "leak": True}
        path.write_text(json.dumps(outcome))
    first, second = table(gather(load_results(root)), "memory-growth").rows
    assert (first[0], first[4], first[-1]) == ("torch:compile", "+2,000.0", "3 of 3 runs")
    steady, used = (float(cell) for cell in first[2:4])
    assert used == pytest.approx(steady * 0.8 / 0.99, rel=0.01)
    assert (second[0], second[-1]) == ("torch:eager", "none")


def test_a_gpu_has_its_own_charts_and_tables(tmp_path: Path) -> None:
    content = content_of(tmp_path, devices=("cpu", "cuda"))
    on_cpu, on_gpu = (scope.charts for scope in content.comparisons)
    charts = {"gpu", "gpu-memory", "power"}
    assert not charts & on_cpu.keys()
    assert charts <= on_gpu.keys()
    assert charts <= content.definitions.keys()
    gpu = table(content, "gpu-use-of-runs")
    assert {row[1] for row in gpu.rows} == {"PPO on CartPole-v1, cuda"}
    assert dict(zip(gpu.columns, gpu.rows[0], strict=True))["Power, W"] == "180"
    energy = table(content, "energy-of-runs")
    assert "CPU, J" not in energy.columns
    assert "To threshold, J" in energy.columns
    assert {"power-use", "energy-use", "energy-to-threshold"} <= content.tasks[0].charts.keys()


def test_what_was_not_measured_has_a_reason(tmp_path: Path) -> None:
    content = content_of(tmp_path)
    assert not [found for found in all_tables(content) if found.name == "energy-of-runs"]
    reasons = dict(not_measured(content.results, content.groups))
    assert "CPU: Instructions per cycle" in reasons["no hardware counters here"]
    assert "energy: Together, J" in reasons["no counter here"]
    assert "GPU: GPU, %" in reasons["the trial runs on the CPU"]


def test_what_one_contestant_lacks_and_others_have_has_a_reason_too(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", small())
    for path in root.glob("trials/torch-eager*/outcome.json"):
        outcome = json.loads(path.read_text())
        outcome["machine"] |= {"cpu_percent": None, "reasons": {"cpu_percent": "too short"}}
        outcome["memory"] |= {"growth_bytes_per_s": None, "reasons": {"growth_bytes_per_s": "few samples"}}
        path.write_text(json.dumps(outcome))
    results = load_results(root)
    reasons = dict(not_measured(results, gather(results).groups))
    assert reasons["too short"] == ("CPU: Machine, % CPU of torch:eager",)
    assert reasons["few samples"] == ("memory: Growth, kB/s of torch:eager",)


def test_an_empty_cell_says_why(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", small())
    for path in root.glob("trials/torch-eager*/outcome.json"):
        outcome = json.loads(path.read_text())
        outcome["peak_rss_bytes"] = outcome["memory"]["peak_bytes"] = None
        outcome["reasons"] |= {"peak_rss_bytes": "the kernel <hides> it"}
        path.write_text(json.dumps(outcome))
    html = write_report(root).read_text()
    assert "the kernel &lt;hides&gt; it" in html


def test_distance_from_the_limit_only_where_limits_are_known(tmp_path: Path) -> None:
    assert content_of(tmp_path / "without").tables["limits"] == ()
    content = content_of(tmp_path / "with", limits=True, cores=(1, 2))
    rows = content.comparisons[0].charts["distance"]["rows"]
    assert [row["contestant"] for row in rows] == ["torch:compile", "torch:eager"]
    assert 1 < rows[0]["value"] < rows[1]["value"]
    assert "bound by" in rows[0]["text"]
    limits = table(content, "limits")
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


def test_the_paper_s_networks_beside_ours(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", small())
    (root / "nets.json").write_text(json.dumps(NETS))
    found = table(gather(load_results(root)), "stooke2017-small")
    assert found.rows[0][0] == "torch:eager"
    # 500 updates of 2 ms each.
    assert "1.00" in found.rows[0]
    assert any(row[0].startswith("Theano") and "2017" in row[0] for row in found.rows[1:])
    assert "Not proven here to compute the same: torch:eager" in render(load_results(root))


@pytest.mark.parametrize("text", ["{", "{}"])
def test_networks_that_cannot_be_read_are_a_problem_with_a_fix(tmp_path: Path, text: str) -> None:
    root = write_results(tmp_path / "r", small())
    (root / "nets.json").write_text(text)
    with pytest.raises(Problem, match=r"nets\.json is damaged") as found:
        gather(load_results(root))
    assert found.value.fix


def test_limits_of_a_busy_machine_are_told_beside_the_multiples(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", small(limits=True))
    assert "When the machine is quiet" not in render(load_results(root))
    manifest = json.loads((root / "manifest.json").read_text())
    for one in manifest["limits"]["devices"]:
        one["taken_percent"] = 42.0
    (root / "manifest.json").write_text(json.dumps(manifest))
    html = render(load_results(root))
    assert "measured while others used 42 % of these CPUs" in html
    assert "rldyno run of this study measures it again" in html


def test_names_of_charts_are_used_once(tmp_path: Path) -> None:
    content = content_of(tmp_path, devices=("cpu", "cuda"), limits=True)
    kinds = [{name for scope in scopes for name in scope.charts} for scopes in scopes_by_kind(content)]
    assert sum(map(len, kinds)) == len(set().union(*kinds))


def scopes_by_kind(content: Content) -> list[tuple[object, ...]]:
    return [content.comparisons, content.tasks, content.axes, (content.run,)]


def test_advice_that_is_the_same_everywhere_is_said_once(tmp_path: Path) -> None:
    fast = Contestant("numpy:eager", 9000, (0.05, 0.04, 0.01, 0.01))
    shape = small(contestants=[fast, JAX], cores=(1, 2, 4), seeds=6)
    results = load_results(write_results(tmp_path / "r", shape))
    (advice,) = task_advice(results, compare(results))
    (sentence,) = advice.picks
    assert sentence.startswith("Take `numpy:eager` in all 3 settings: it learns soonest, ")
    assert sentence.endswith("Confidence: high.")
    assert not [turn for turn in advice.turns if "stays the choice" in turn]
