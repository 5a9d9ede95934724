"""The `time` job: how calls are fed, and what is clocked."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any

import numpy as np
import pytest

from rldyno_rig import hyper, timing
from rldyno_rig.algorithms.classifier import Classifier
from rldyno_rig.backends import numpy_
from rldyno_rig.job_files import EnvironmentCase, LimitsJob, ProofJob, ProofSubject, TimingJob, UsabilityJob

JOB = TimingJob(
    backend="numpy_",
    mode="eager",
    device="cpu",
    dtype="float32",
    algorithm="classifier",
    hyper=hyper.to_json(Classifier(hidden=(8,))),
    observation=(4,),
    observation_dtype="float32",
    actions=3,
    act_rows=(2,),
    update_rows=(5,),
)


class Noting:
    """A learner on a device that only notes its calls, in their order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.batches = itertools.count()

    def host(self, *arrays: Any) -> tuple[Any, ...]:
        return arrays

    def put(self, *arrays: Any) -> tuple[int]:
        number = next(self.batches)
        self.log.append(f"put {number}")
        return (number,)

    def act(self, batch: int) -> None:
        self.log.append(f"act {batch}")

    def update(self, batch: tuple[int], lr: float) -> None:
        self.log.append(f"update {batch[0]}")

    def drain(self) -> None:
        self.log.append("drain")


def test_job_files_survive_json() -> None:
    proof = ProofJob("numpy_", "eager", "cpu", ("float64",), (ProofSubject("dqn", "mlp"),))
    limits = LimitsJob("numpy_", (EnvironmentCase("CartPole-v1", 8, 100), EnvironmentCase("Acrobot-v1")))
    usability = UsabilityJob("torch_", "export", "eager", "mlp", "onnx", ("/extra",))
    for job in (JOB, proof, limits, LimitsJob("jax_"), usability, UsabilityJob("torch_", "save", "eager")):
        text = json.dumps(job.to_json())
        assert job == JOB or type(job).from_json(json.loads(text)) == job
        assert json.dumps(type(job).from_json(json.loads(text)).to_json()) == text


@pytest.fixture
def bench() -> timing.Bench:
    made = timing.Bench(JOB, 0)
    made.job = dataclasses.replace(JOB, device="cuda")
    made.learner = Noting()
    return made


def test_ordinary_memory_is_put_and_used_one_by_one(bench: timing.Bench) -> None:
    bench._clock("act", 2, "pageable", 3)
    assert bench.learner.log == ["drain", "put 0", "act 0", "put 1", "act 1", "put 2", "act 2"]


def test_from_page_locked_memory_the_next_batch_is_on_its_way(bench: timing.Bench) -> None:
    bench._clock("act", 2, "pinned", 3)
    assert bench.learner.log == ["put 0", "drain", "put 1", "act 0", "put 2", "act 1", "put 3", "act 2"]


def test_a_resident_batch_is_put_once(bench: timing.Bench) -> None:
    bench._clock("act", 2, "resident", 3)
    assert bench.learner.log == ["put 0", "drain", "act 0", "act 0", "act 0"]


def test_updates_are_clocked_with_the_device_drained(bench: timing.Bench) -> None:
    spent = bench._clock("update", 5, "pageable", 4)
    assert len(spent) == 4
    assert (bench.learner.log[0], bench.learner.log[-1]) == ("drain", "drain")
    assert [line for line in bench.learner.log if line.startswith("update")] == [
        f"update {number}" for number in range(4)
    ]


class NotingMany(Noting):
    def update_many(self, batches: tuple[int], lr: float) -> None:
        self.log.append(f"update_many {batches[0]}")


def test_updates_at_once_are_one_call_where_the_learner_has_it(bench: timing.Bench) -> None:
    bench.job = dataclasses.replace(bench.job, together=3)
    bench.learner = NotingMany()
    shapes = [array.shape for array in bench._batches("updates", 5, "pageable")[0]]
    assert shapes == [(3, 5, 4), (3, 5)]
    spent = bench._clock("updates", 5, "pageable", 6)
    assert len(spent) == 6, "one figure per update"
    assert len(set(spent[:3])) == len(set(spent[3:])) == 1
    assert [line for line in bench.learner.log if "update" in line] == ["update_many 0", "update_many 1"]


def test_updates_at_once_are_single_ones_for_other_learners(bench: timing.Bench) -> None:
    bench.job = dataclasses.replace(bench.job, together=3)
    assert len(bench._clock("updates", 5, "pageable", 2)) == 2
    assert [line for line in bench.learner.log if "update" in line] == ["update 0", "update 1"]


class InterruptedClock:
    """Each update takes 0.1 ms; after every 4 ms of them others take the CPU for 8 ms."""

    def __init__(self) -> None:
        self.now_ns = self.own_ns = 0

    def update(self) -> None:
        before = self.own_ns // 4_000_000
        self.own_ns += 100_000
        self.now_ns += 100_000 + 8_000_000 * (self.own_ns // 4_000_000 - before)


@pytest.mark.parametrize(("device", "holds"), [("cpu", True), ("cuda", False)])
def test_runs_are_short_enough_for_a_median_without_interruptions(
    monkeypatch: pytest.MonkeyPatch, device: str, holds: bool
) -> None:
    """Runs of 20 ms, which a GPU needs, would all be interrupted here; most updates are not."""
    clock = InterruptedClock()
    monkeypatch.setattr(timing.time, "perf_counter_ns", lambda: clock.now_ns)
    spent = timing.clocked_runs(
        5_000, timing.RUN_NS[device], lambda: (), lambda batch: clock.update(), lambda: None
    )
    assert len(spent) == 5_000
    assert np.mean(spent) > 290_000, "the mean is dominated by interruptions"
    assert (np.median(spent) == 100_000) == holds


def test_figures_are_of_the_calls_that_were_made() -> None:
    bench = timing.Bench(JOB, 0)
    bench.warm_up()
    assert isinstance(bench.learner, numpy_.Learner)
    found = bench.measure("update", 5, "pageable", 0.01)
    assert found["calls"] >= timing.VARIED
    assert found["p10_ns"] <= found["median_ns"] <= found["p90_ns"]
    assert set(bench.startup_ns) == {"import", "build", "first_call"}


def test_slow_first_calls_do_not_shorten_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = timing.Bench(JOB, 0)
    asked: list[int] = []

    def clock(measure: str, rows: int, data: str, calls: int) -> list[int]:
        asked.append(calls)
        return [10_000_000 if len(asked) == 1 else 1_000_000] * calls

    monkeypatch.setattr(bench, "_clock", clock)
    figures = bench.measure("act", 2, "pageable", 1.0)
    assert asked == [timing.VARIED, 100, 900]
    assert figures["calls"] == 1000
    assert figures["wall_ns"] == 1_000_000_000


def test_no_two_batches_are_the_same(bench: timing.Bench) -> None:
    given = bench._batches("act", 2, "pageable")
    assert len({batch[0].tobytes() for batch in given}) == timing.VARIED


@pytest.mark.parametrize("data", ["pinned", "resident"])
def test_a_cpu_has_no_device_memory(data: str) -> None:
    bench = timing.Bench(JOB, 0)
    with pytest.raises(ValueError, match=r"no page-locked memory|no device memory"):
        bench.measure("act", 2, data, 0.01)
