"""The network micro-benchmark: its record, figures and tables."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.nets import show, tables
from rldyno.nets.figures import figures
from rldyno.nets.record import Kind, NetsRecord
from rldyno.nets.remarks import remarks
from rldyno.nets.work import ACT, PAGEABLE, RESIDENT, UPDATE, net_named
from rldyno.records.machine_limits import DeviceLimits

SAMPLES = Path(__file__).parents[2] / "docs" / "samples"


def made(
    contestant: str, walls: list[int], kind: Kind, gpu: float | None = None, calls: int = 10
) -> dict[str, object]:
    rounds = [
        {
            "round": number,
            "calls": calls,
            "wall_ns": wall,
            "median_ns": wall / calls,
            "p10_ns": wall / calls / 2,
            "p90_ns": wall / calls * 2,
            "gpu_percent": gpu,
        }
        for number, wall in enumerate(walls, 1)
    ]
    return {"contestant": contestant, **kind._asdict(), "rounds": rounds, "error": None}


def test_interruptions_of_calls_and_of_rounds_do_not_move_a_figure() -> None:
    """Two of five rounds are disturbed as a whole, and in the others a few calls took most of the time."""
    kind = Kind("small", UPDATE, 128, PAGEABLE)
    quiet, busy = made("a", [1000] * 5, kind), made("b", [1000] * 5, kind)
    walls, medians = [9000, 5000, 8000, 90_000, 70_000], [100, 101, 99, 400, 300]
    busy["rounds"] = [
        {"round": number, "calls": 10, "wall_ns": wall, "median_ns": median}
        for number, (wall, median) in enumerate(zip(walls, medians, strict=True), 1)
    ]
    found = {figure.contestant: figure for figure in figures(record_of(quiet, busy))}
    assert found["b"].seconds.point == pytest.approx(101e-9)
    assert found["b"].ratio.point == pytest.approx(1.01)


def raw_record(*measurements: dict[str, object], algorithm: str = "classifier") -> dict[str, Any]:
    return {
        "asked": {
            "algorithm": algorithm,
            "device": "cuda",
            "cores": 2,
            "dtype": "float32",
            "seconds": 2.0,
            "nets": [dataclasses.asdict(net_named(name)) for name in ("small", "mlp64")],
        },
        "machine": {"cpu": "a CPU", "gpus": [{"name": "a GPU"}]},
        "measurements": list(measurements),
        "absent": [],
        "workers": [{"contestant": "jax:jit", "certificate": "absent"}],
        "gpu_percent_reason": None,
        "complete": True,
        "limits": None,
    }


def record_of(*measurements: dict[str, object], **changes: object) -> NetsRecord:
    return NetsRecord.from_json({**raw_record(*measurements), **changes})


SMALL_ACT = Kind("small", ACT, 16, PAGEABLE)


def test_ratios_are_taken_within_a_round():
    """A machine that slows down tenfold moves no ratio: each round's is exactly 2."""
    limits = DeviceLimits("cuda", 2, {"float32": 1e30}, 1e30, 16 * 4 * 84 * 84 / 5e-7)
    record = record_of(
        made("torch:eager", [2 * 10**9, 4 * 10**9, 20 * 10**9], SMALL_ACT, 50.0),
        made("jax:jit", [10**9, 2 * 10**9, 10 * 10**9], SMALL_ACT),
        asked=raw_record(algorithm="dqn")["asked"],
        limits=limits.to_json(),
    )
    fastest, other = figures(record)
    assert fastest.floor == (5e-7, "transfer")
    assert (fastest.contestant, fastest.fastest, fastest.ratio.point) == ("jax:jit", True, 1.0)
    assert (other.ratio.point, other.ratio.low, other.ratio.high) == (2.0, 2.0, 2.0)
    assert other.seconds.low < other.seconds.point < other.seconds.high  # type: ignore[operator]
    assert other.multiple == pytest.approx(other.seconds.point / 5e-7)
    assert (other.gpu_percent, fastest.gpu_percent) == (50.0, None)
    assert other.spread == (0.2, 0.8)


def test_utilisation_of_a_short_round_is_not_shown():
    """NVML's figure is a mean over a second: of a shorter round it would describe something else."""
    (figure,) = figures(record_of(made("jax:jit", [10**9] * 3, SMALL_ACT, 0.0)))
    assert figure.gpu_percent is None
    record = record_of(asked={**raw_record()["asked"], "seconds": 0.25})
    assert any("--seconds 1.5" in line for line in remarks(record))


def test_the_papers_table_stands_beside_ours():
    update = Kind("small", UPDATE, 128, RESIDENT)
    record = record_of(
        made("jax:jit", [2 * 10**9] * 3, SMALL_ACT, 33.3, calls=2000),
        made("jax:jit", [20_000_000] * 3, update),
    )
    (table,) = tables.paper_tables(record, figures(record))
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    assert rows["jax:jit", "included"] == ("4.00", "1 (fastest)", "–", "33", *["–"] * 4)
    assert rows["jax:jit", "excluded"] == (*["–"] * 4, "1.00", "1 (fastest)", "–", "–")
    assert rows["Theano, GTX 1080 (2017)", "included"] == (
        "1.8",
        "1.0×",
        "–",
        "64",
        "1.5",
        "1.0×",
        "–",
        "91",
    )
    assert "a GPU, 2 cores, float32" in table.title
    assert not tables.kinds_beside_paper(record, figures(record))


def test_an_agents_network_is_not_compared_with_the_paper():
    record = record_of(made("jax:jit", [10_000], SMALL_ACT), asked=raw_record(algorithm="dqn")["asked"])
    assert tables.paper_tables(record, figures(record)) == []
    assert len(tables.kinds_beside_paper(record, figures(record))) == 1


def test_one_reason_is_reported_once():
    figure = {**SMALL_ACT._asdict(), "rounds": [], "error": "no device memory"}
    record = record_of({**figure, "contestant": "a:b"}, {**figure, "contestant": "c:d", "measure": UPDATE})
    assert tables.errors(record) == [
        "Not measured: act pageable, update pageable of a:b, c:d: no device memory"
    ]


def test_show_prints_and_writes_the_tables(tmp_path: Path):
    other = Kind("mlp64", UPDATE, 32, PAGEABLE)
    record = raw_record(made("jax:jit", [10_000_000] * 3, SMALL_ACT), made("jax:jit", [5_000] * 3, other))
    (tmp_path / "nets.json").write_text(json.dumps(record))
    done = CliRunner().invoke(app, ["nets", "show", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "stooke2017" in done.output
    assert "Not proven here to compute the same: jax:jit" in done.output
    small, mlp = csv.DictReader((tmp_path / "nets.csv").open())
    assert (mlp["network"], mlp["call"], mlp["rows"], mlp["data"]) == ("mlp64", "update", "32", "pageable")
    assert float(small["seconds"]) == pytest.approx(1e-3)
    assert float(mlp["seconds"]) == pytest.approx(5e-7)
    assert (mlp["rounds"], mlp["to_limit"], mlp["gpu_percent"]) == ("3", "", "")
    assert r"\toprule" in (tmp_path / "nets.tex").read_text()
    assert "| jax:jit | included | 4.00 |" in " ".join((tmp_path / "nets.md").read_text().split())
    assert (tmp_path / "stooke2017-small.csv").exists()


def test_a_busy_machine_is_reported_beside_the_figures():
    disturbed = [
        {"net": "small", "round": number, "taken_percent": taken}
        for number, taken in enumerate((2.0, 48.0, None))
    ]
    lines = remarks(record_of(disturbed=disturbed))
    assert any("busy in 1 of 3 rounds: others used up to 48 %" in line for line in lines)
    limits = DeviceLimits("cpu", 1, {}, None, None, taken_percent=30.0)
    lines = remarks(record_of(limits=limits.to_json()))
    assert any("limits of cpu with 1 core: measured while others used 30 %" in line for line in lines)


def test_a_record_survives_json():
    record = record_of(
        made("jax:jit", [10**9] * 3, SMALL_ACT, 50.0),
        absent=[{"contestant": "a:b", "net": None, "reason": "not built"}],
        toolchains={"jax": {"python": "3"}},
    )
    assert NetsRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_the_shipped_record_is_read_and_written_unchanged():
    raw = json.loads((SAMPLES / "h200" / "nets" / "nets.json").read_text())
    raw["limits"]["taken_percent"], raw["disturbed"] = None, []  # the version that wrote it had none of these
    raw["asked"]["together"] = 1
    for net in raw["asked"]["nets"]:
        net["activation"] = "relu"
    assert json.loads(json.dumps(NetsRecord.from_json(raw).to_json())) == raw


def test_a_directory_without_a_record_is_a_problem(tmp_path: Path):
    with pytest.raises(Problem, match=r"holds no nets\.json"):
        show.show(tmp_path, Console())
