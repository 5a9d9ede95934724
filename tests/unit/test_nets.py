"""The network micro-benchmark: the protocol with its workers, the rounds, the options."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.nets import measure, show, workers
from rldyno.nets.record import Kind, TimedWorker, read_record
from rldyno.nets.remarks import remarks
from rldyno.nets.timer import Timer, TimerGone
from rldyno.nets.utilisation import Utilisation
from rldyno.nets.work import ACT, PAGEABLE, PINNED, UPDATE, Benchmark, least_bytes, net_named, time_job
from rldyno.processes.rig import Runtime
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.contestant import Contestant

FAKE_RIG = Path(__file__).parents[1] / "workers" / "fake_timer"
FAKE = Interpreter("numpy", Path(sys.executable), "built", "3", {"some": "1.0"}, None)
MLP = net_named("mlp64")
ACT_CALL = Kind("mlp64", ACT, 16, PAGEABLE)


def timer(mode: str) -> Timer:
    job = replace(time_job(bench("numpy:eager"), "numpy:eager", net_named("small")), mode=mode)
    return Timer(job, Runtime(FAKE.path, True, {}), None, rig=FAKE_RIG)


@pytest.fixture
def fake_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every contestant is a fake worker that behaves like its mode's name."""

    def start(benchmark: Benchmark, contestant: str, *rest: object) -> Timer:
        return timer(Contestant.parse(contestant).mode)

    def resolved(framework: str, overrides: object) -> Interpreter:
        if framework == "missing":
            raise Problem("the missing toolchain is not built", fix="rldyno setup missing")
        return FAKE

    monkeypatch.setattr(workers, "start", start)
    monkeypatch.setattr(workers, "resolve", resolved)
    monkeypatch.setattr(measure, "machine_limits", lambda *given: None)
    monkeypatch.setattr(
        workers,
        "describe",
        lambda benchmark, contestant, net, *rest: TimedWorker(contestant, net.name, "valid"),
    )


def bench(*contestants: str, **changes: object) -> Benchmark:
    return Benchmark(contestants, (MLP,), rounds=3, seconds=0.01, **changes)  # type: ignore[arg-type]


def test_a_worker_gets_ready_and_answers():
    worker = timer("fast")
    try:
        assert worker.ready()["facts"] == {"mode": "fast"}
        assert worker.measure(ACT_CALL, 0.01)["calls"] == 10
        assert worker.measure(ACT_CALL._replace(data=PINNED), 0.01) == {"error": "no device memory"}
    finally:
        worker.close()


def test_a_worker_that_dies_says_why():
    worker = timer("broken")
    with pytest.raises(TimerGone, match="process ended: ImportError: no such framework"):
        worker.ready()
    worker.close()
    worker = timer("mortal")
    worker.ready()
    worker.measure(ACT_CALL, 0.01)
    worker.measure(ACT_CALL, 0.01)
    with pytest.raises(TimerGone, match="out of memory"):
        worker.measure(ACT_CALL, 0.01)
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
    benchmark = bench(
        "numpy:fast", "numpy:slow", "numpy:broken", "numpy:mortal", "missing:eager", copies=(PAGEABLE, PINNED)
    )
    record = measure.run(benchmark, tmp_path / "nets.json", lines.append)
    assert read_record(tmp_path) == record
    kept = json.loads((tmp_path / "nets.json").read_text())
    assert record.complete
    assert kept["toolchains"] == {"numpy": {"python": "3", "versions": {"some": "1.0"}}}
    assert [(one.net, one.round) for one in record.disturbed] == [("mlp64", number) for number in (1, 2, 3)]
    assert {(gone.contestant, gone.net) for gone in record.absent} == {
        ("missing:eager", None),
        ("numpy:broken", "mlp64"),
        ("numpy:mortal", "mlp64"),
    }
    assert any("left out: missing:eager" in line and "rldyno setup missing" in line for line in lines)
    of = {(one.contestant, one.kind.measure, one.kind.data): one for one in record.measurements}
    assert [one.round for one in of["numpy:fast", UPDATE, PAGEABLE].rounds] == [1, 2, 3]
    assert of["numpy:fast", ACT, PINNED].error == "no device memory"
    assert of["numpy:fast", ACT, PINNED].rounds == ()
    assert of["numpy:fast", ACT, PAGEABLE].rounds[0].gpu_percent is None


def test_an_interruption_keeps_the_finished_rounds(
    fake_workers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = measure.measure_round

    def interrupted(number: int, *rest: object) -> None:
        if number == 2:
            raise KeyboardInterrupt
        whole(number, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(measure, "measure_round", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure.run(bench("numpy:fast", "numpy:slow"), tmp_path / "nets.json", lambda line: None)
    record = show.read(tmp_path)
    assert not record.complete
    assert all(len(one.rounds) == 1 for one in record.measurements)
    assert any("Interrupted" in line for line in remarks(record))


def test_nothing_to_measure_is_a_problem_that_leaves_nothing_behind(fake_workers: None, tmp_path: Path):
    with pytest.raises(Problem, match="none of these contestants can be measured here") as found:
        measure.run(bench("missing:eager"), tmp_path / "new" / "nets.json", lambda line: None)
    assert found.value.fix == "rldyno setup missing"
    assert not (tmp_path / "new").exists()


def test_what_cannot_fit_is_refused_before_anything_starts(fake_workers: None, tmp_path: Path):
    benchmark = bench("numpy:fast", "numpy:slow", update_rows=(10**12,))
    with pytest.raises(Problem, match=r"mlp64: 2 workers at once hold .* GB at least") as found:
        measure.run(benchmark, tmp_path / "nets.json", lambda line: None)
    assert "--batch-train" in (found.value.fix or "")
    assert not list(tmp_path.iterdir())


def test_the_least_memory_of_a_worker():
    weights = (4 * 64 + 64) + (64 * 64 + 64) + (64 * 2 + 2)
    held = 16 * 4 * 4 + 128 * (4 + 1) * 4
    assert least_bytes(bench("numpy:fast"), MLP) == 2 * weights * 4 + held


def test_a_directory_that_cannot_be_written_is_a_problem(fake_workers: None, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Problem, match="cannot write to") as found:
        measure.run(bench("numpy:fast"), tmp_path / "file" / "nets.json", lambda line: None)
    assert found.value.fix == "choose another directory with --out"


def test_versions_are_stored_once_not_with_every_worker():
    ready = {"facts": {}, "startup_ns": {}}
    worker = workers.describe(bench("numpy:eager"), "numpy:eager", MLP, FAKE, ready).to_json()
    assert worker["backend_sha256"]
    assert "versions" not in worker


def test_a_workers_own_cpu_time_is_not_taken_by_others():
    worker = timer("busy")
    try:
        worker.ready()
        used = worker.cpu_s()
        assert used > 0.05, "it used 0.1 s before it was ready; the kernel counts in ticks"
    finally:
        worker.close()
    assert worker.cpu_s() == used, "one that died does not take its time back"


def test_an_interruption_before_the_first_figure_leaves_no_record(
    fake_workers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(*rest: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "measure_round", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure.run(bench("numpy:fast"), tmp_path / "nets.json", lambda line: None)
    assert not list(tmp_path.iterdir()), "the same command can be given again"


def test_what_a_network_is_made_of():
    job = time_job(bench("numpy:eager", algorithm="dqn"), "numpy:eager", net_named("small"))
    assert (job.observation, job.observation_dtype, job.actions) == ((4, 84, 84), "uint8", 10)
    assert job.hyper["convolutions"] == ((16, 8, 4), (32, 4, 2))
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


@pytest.mark.slow
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
