"""The network micro-benchmark: the protocol with its workers, the rounds, the figures, the tables."""

from __future__ import annotations

import csv
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.nets import measure, show, tables
from rldyno.nets.figures import Kind, figures
from rldyno.nets.remarks import remarks
from rldyno.nets.timer import Timer, TimerGone
from rldyno.nets.utilisation import Utilisation
from rldyno.nets.work import ACT, PAGEABLE, PINNED, RESIDENT, UPDATE, Asked, least_bytes, net_named, time_job
from rldyno.processes.rig import Runtime
from rldyno.toolchains.resolve import Interpreter

FAKE_RIG = Path(__file__).parents[1] / "workers" / "fake_timer"
FAKE = Interpreter("numpy", Path(sys.executable), "built", "3", {"some": "1.0"}, None)
MLP = net_named("mlp64")
ACT_REQUEST = {"measure": ACT, "rows": 16, "data": PAGEABLE, "seconds": 0.01}


def timer(mode: str) -> Timer:
    return Timer({"mode": mode}, Runtime(FAKE.path, True, {}), None, rig=FAKE_RIG)


@pytest.fixture
def fake_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every contestant is a fake worker that behaves like its mode's name."""

    def start(asked: Asked, contestant: str, net: object, interpreter: Interpreter, cpus: object) -> Timer:
        return timer(contestant.partition(":")[2])

    def resolved(framework: str, overrides: object) -> Interpreter:
        if framework == "missing":
            raise Problem("the missing toolchain is not built", fix="rldyno setup missing")
        return FAKE

    monkeypatch.setattr(measure, "start", start)
    monkeypatch.setattr(measure, "resolve", resolved)
    monkeypatch.setattr(measure, "machine_limits", lambda asked, overrides, say: None)
    monkeypatch.setattr(
        measure,
        "worker_facts",
        lambda asked, contestant, net, interpreter, said: {
            "contestant": contestant,
            "net": net.name,
            "certificate": "valid",
            **said,
        },
    )


def ask(*contestants: str, **changes: object) -> Asked:
    return Asked(contestants, (MLP,), rounds=3, seconds=0.01, **changes)  # type: ignore[arg-type]


def test_a_worker_gets_ready_and_answers():
    worker = timer("fast")
    try:
        assert worker.ready()["facts"] == {"mode": "fast"}
        assert worker.ask(ACT_REQUEST)["calls"] == 10
        assert worker.ask({**ACT_REQUEST, "data": PINNED}) == {"error": "no device memory"}
    finally:
        worker.close()


def test_a_worker_that_dies_says_why():
    worker = timer("broken")
    with pytest.raises(TimerGone, match="process ended: ImportError: no such framework"):
        worker.ready()
    worker.close()
    worker = timer("mortal")
    worker.ready()
    worker.ask(ACT_REQUEST)
    worker.ask(ACT_REQUEST)
    with pytest.raises(TimerGone, match="out of memory"):
        worker.ask(ACT_REQUEST)
    worker.close()


def test_a_worker_that_talks_nonsense_or_nothing_is_gone():
    worker = timer("chatty")
    with pytest.raises(TimerGone, match="not JSON: hello"):
        worker.ready()
    worker.close()
    worker = timer("fast")
    worker.ready()
    with pytest.raises(TimerGone, match="no answer within"):
        worker._read(0.01)
    worker.close()


def test_rounds_figures_and_those_left_out(fake_workers: None, tmp_path: Path):
    lines: list[str] = []
    asked = ask(
        "numpy:fast", "numpy:slow", "numpy:broken", "numpy:mortal", "missing:eager", copies=(PAGEABLE, PINNED)
    )
    record = measure.run(asked, tmp_path / "nets.json", lines.append)
    assert record["measurements"] == json.loads((tmp_path / "nets.json").read_text())["measurements"]
    assert record["complete"]
    assert record["toolchains"] == {"numpy": {"python": "3", "versions": {"some": "1.0"}}}
    assert [(one["net"], one["round"]) for one in record["disturbed"]] == [("mlp64", n) for n in (1, 2, 3)]
    assert {(gone["contestant"], gone["net"]) for gone in record["absent"]} == {
        ("missing:eager", None),
        ("numpy:broken", "mlp64"),
        ("numpy:mortal", "mlp64"),
    }
    assert any("left out: missing:eager" in line and "rldyno setup missing" in line for line in lines)
    of = {(one["contestant"], one["measure"], one["data"]): one for one in record["measurements"]}
    assert [one["round"] for one in of["numpy:fast", UPDATE, PAGEABLE]["rounds"]] == [1, 2, 3]
    assert of["numpy:fast", ACT, PINNED]["error"] == "no device memory"
    assert of["numpy:fast", ACT, PINNED]["rounds"] == []
    assert of["numpy:fast", ACT, PAGEABLE]["rounds"][0]["gpu_percent"] is None


def test_an_interruption_keeps_the_finished_rounds(
    fake_workers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = measure.one_round

    def interrupted(number: int, *rest: object) -> None:
        if number == 2:
            raise KeyboardInterrupt
        whole(number, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(measure, "one_round", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure.run(ask("numpy:fast", "numpy:slow"), tmp_path / "nets.json", lambda line: None)
    record = show.read(tmp_path)
    assert not record["complete"]
    assert all(len(one["rounds"]) == 1 for one in record["measurements"])
    assert any("Interrupted" in line for line in remarks(record))


def test_nothing_to_measure_is_a_problem_that_leaves_nothing_behind(fake_workers: None, tmp_path: Path):
    with pytest.raises(Problem, match="none of these contestants can be measured here") as found:
        measure.run(ask("missing:eager"), tmp_path / "new" / "nets.json", lambda line: None)
    assert found.value.fix == "rldyno setup missing"
    assert not (tmp_path / "new").exists()


def test_what_cannot_fit_is_told_before_anything_starts(fake_workers: None, tmp_path: Path):
    asked = ask("numpy:fast", "numpy:slow", update_rows=(10**12,))
    with pytest.raises(Problem, match=r"mlp64: 2 workers at once hold .* GB at least") as found:
        measure.run(asked, tmp_path / "nets.json", lambda line: None)
    assert "--batch-train" in (found.value.fix or "")
    assert not list(tmp_path.iterdir())


def test_the_least_memory_of_a_worker():
    weights = (4 * 64 + 64) + (64 * 64 + 64) + (64 * 2 + 2)
    held = 16 * 4 * 4 + 128 * (4 + 1) * 4
    assert least_bytes(ask("numpy:fast"), MLP) == 2 * weights * 4 + held


def test_a_directory_that_cannot_be_written_is_a_problem(fake_workers: None, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Problem, match="cannot write to") as found:
        measure.run(ask("numpy:fast"), tmp_path / "file" / "nets.json", lambda line: None)
    assert found.value.fix == "choose another directory with --out"


def test_versions_are_stored_once_not_with_every_worker():
    said = {"facts": {}, "startup_ns": {}}
    facts = measure.worker_facts(ask("numpy:eager"), "numpy:eager", MLP, FAKE, said)
    assert "versions" not in facts


def test_a_busy_machine_is_told_beside_the_figures():
    record = record_of()
    record["disturbed"] = [
        {"net": "small", "round": number, "taken_percent": taken}
        for number, taken in enumerate((2.0, 48.0, None))
    ]
    assert any("busy in 1 of 3 rounds: others used up to 48 %" in line for line in remarks(record))
    record["disturbed"] = []
    record["limits"] = {"device": "cpu", "cores": 1, "taken_percent": 30.0}
    assert any("limits of cpu with 1 core: measured while others used 30 %" in o for o in remarks(record))


def test_a_workers_own_cpu_time_is_not_taken_by_others():
    worker = timer("fast")
    try:
        worker.ready()
        used = worker.cpu_s()
        assert used > 0
    finally:
        worker.close()
    assert worker.cpu_s() == used, "one that died does not take its time back"


def test_an_interruption_before_the_first_figure_leaves_no_record(
    fake_workers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(*rest: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "one_round", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure.run(ask("numpy:fast"), tmp_path / "nets.json", lambda line: None)
    assert not list(tmp_path.iterdir()), "the same command can be given again"


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


def record_of(*measurements: dict[str, object], algorithm: str = "classifier") -> dict[str, object]:
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


SMALL_ACT = Kind("small", ACT, 16, PAGEABLE)


def test_ratios_are_taken_within_a_round():
    """A machine that slows down tenfold moves no ratio: each round's is exactly 2."""
    record = record_of(
        made("torch:eager", [2 * 10**9, 4 * 10**9, 20 * 10**9], SMALL_ACT, 50.0),
        made("jax:jit", [10**9, 2 * 10**9, 10 * 10**9], SMALL_ACT),
        algorithm="dqn",
    )
    record["limits"] = {
        "device": "cuda",
        "cores": 2,
        "flops_per_s": {"float32": 1e30},
        "copy_bytes_per_s": 1e30,
        "transfer_bytes_per_s": 16 * 4 * 84 * 84 / 5e-7,
    }
    fastest, other = figures(record)
    assert fastest.floor == (5e-7, "transfer")
    assert (fastest.contestant, fastest.fastest, fastest.ratio.point) == ("jax:jit", True, 1.0)
    assert (other.ratio.point, other.ratio.low, other.ratio.high) == (2.0, 2.0, 2.0)
    assert other.seconds.low < other.seconds.point < other.seconds.high  # type: ignore[operator]
    assert other.multiple == pytest.approx(other.seconds.point / 5e-7)
    assert (other.gpu_percent, fastest.gpu_percent) == (50.0, None)
    assert other.spread == (0.2, 0.8)


def test_utilisation_of_a_short_round_is_not_told():
    """NVML's figure is a mean over a second: of less it would speak of something else."""
    (figure,) = figures(record_of(made("jax:jit", [10**9] * 3, SMALL_ACT, 0.0)))
    assert figure.gpu_percent is None
    record = record_of()
    record["asked"]["seconds"] = 0.25  # type: ignore[index]
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


def test_an_agents_network_is_not_held_against_the_paper():
    record = record_of(made("jax:jit", [10_000], SMALL_ACT), algorithm="dqn")
    assert tables.paper_tables(record, figures(record)) == []
    assert len(tables.kinds_beside_paper(record, figures(record))) == 1


def test_one_reason_is_told_once():
    figure = {**SMALL_ACT._asdict(), "rounds": [], "error": "no device memory"}
    record = record_of({**figure, "contestant": "a:b"}, {**figure, "contestant": "c:d", "measure": UPDATE})
    assert tables.errors(record) == [
        "Not measured: act pageable, update pageable of a:b, c:d: no device memory"
    ]


def test_show_prints_and_writes_the_tables(tmp_path: Path):
    other = Kind("mlp64", UPDATE, 32, PAGEABLE)
    record = record_of(made("jax:jit", [10_000_000] * 3, SMALL_ACT), made("jax:jit", [5_000] * 3, other))
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


def test_what_a_network_is_made_of():
    job = time_job(ask("numpy:eager", algorithm="dqn"), "numpy:eager", net_named("small"))
    assert (job["observation"], job["observation_dtype"], job["actions"]) == ((4, 84, 84), "uint8", 10)
    assert job["hyper"]["convolutions"] == ((16, 8, 4), (32, 4, 2))
    assert net_named("mlp100").hidden == (100, 100)
    with pytest.raises(Problem, match="unknown network `huge`"):
        net_named("huge")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--nets", "huge"], "unknown network `huge`"),
        (["--device", "tpu"], "--device tpu"),
        (["--dtype", "tf32"], "--dtype tf32"),
        (["--batch-act", "16,x"], "not a list of sizes"),
        (["--contestants", "trch:eager"], "did you mean 'torch:eager'"),
        (["--contestants", "torch:cudagraph"], "does not run on cpu"),
        (["--copies", "warp"], "--copies warp"),
        (["--copies", "pinned,resident"], "on a CPU nothing is copied"),
        (["--dtype", "tf32"], "a precision of GPUs"),
        (["--nets", ","], "--nets ',' names nothing"),
        (["--contestants", " "], "--contestants ' ' names nothing"),
    ],
)
def test_a_wrong_option_is_one_clear_problem(options: list[str], message: str):
    done = CliRunner().invoke(app, ["nets", *options])
    assert isinstance(done.exception, Problem)
    assert message in done.exception.message


def test_utilisation_is_the_mean_of_settled_readings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rldyno.nets.utilisation.PERIOD_S", 0.001)
    monkeypatch.setattr("rldyno.nets.utilisation.SETTLE_S", 0.01)
    with Utilisation(lambda: 40.0) as busy:
        busy._stop.wait(0.05)
    assert busy.percent == 40.0
    with Utilisation(None) as idle:
        pass
    assert idle.percent is None


def test_it_runs_without_the_heavy_packages():
    """On a GPU machine only typer, rich, pydantic, psutil, numpy and small ones may be there."""
    script = """
import sys
for name in ("polars", "gymnasium", "altair", "platformdirs", "jinja2", "vl_convert"):
    sys.modules[name] = None
import rldyno.cli, rldyno.proofs.prove
import rldyno.nets.measure, rldyno.nets.show, rldyno.toolchains.contestants
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_directory_without_a_record_is_a_problem(tmp_path: Path):
    with pytest.raises(Problem, match=r"holds no nets\.json"):
        show.show(tmp_path, Console())
