"""The ladder of a team: right collectives pass, wrong ones do not. Threads stand for processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rldyno_rig.algorithms import LEARNERS
from rldyno_rig.backends import in_place, numpy_
from rldyno_rig.clock import Clock
from rldyno_rig.job_files import ProofSubject
from rldyno_rig.proof.rung import EQUAL, Rung
from rldyno_rig.proof.standard import TEAM_PRECISIONS, required
from rldyno_rig.proof.team import TeamClimb, unequal
from rldyno_rig.team import host
from rldyno_rig.team.link import LOCAL, Link, TeamError
from rldyno_rig.team.team import HOST, Team

PATIENCE_S = 120.0
Reduce = Callable[[list[np.ndarray], int], np.ndarray]
"""What all ranks gave, and a rank → what this rank gets."""


def mean(given: list[np.ndarray], rank: int) -> np.ndarray:
    total: np.ndarray = sum(given[1:], given[0].copy())
    return total / len(given)


def total(given: list[np.ndarray], rank: int) -> np.ndarray:
    return mean(given, rank) * len(given)


def own_order(given: list[np.ndarray], rank: int) -> np.ndarray:
    """A mean whose terms each rank adds in another order: equal but for the last bit."""
    return mean(given[rank:] + given[:rank], 0)


def halved(given: list[np.ndarray], rank: int) -> np.ndarray:
    """Right for two workers only."""
    return mean(given, rank) * len(given) / 2


def nothing(given: list[np.ndarray], rank: int) -> np.ndarray:
    return given[rank]


class InMemory:
    """Averages the arrays of threads as MPI would those of processes."""

    def __init__(self, size: int, reduce: Reduce) -> None:
        self.barrier, self.reduce = threading.Barrier(size, timeout=PATIENCE_S), reduce
        self.given: list[np.ndarray] = [np.zeros(0)] * size

    def averaging(self, rank: int, size: int) -> Callable[[np.ndarray], np.ndarray]:
        def average(gradient: np.ndarray) -> np.ndarray:
            self.given[rank] = gradient.copy()
            self.barrier.wait()
            gradient[...] = self.reduce(self.given, rank)
            self.barrier.wait()
            return gradient

        return average


@pytest.fixture
def climbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Rung]]:
    """The rungs of a team of numpy:eager with some reduction."""

    def climb(
        size: int, reduce: Reduce, algorithm: str = "dqn", dtype: str = "float64", kind: Any = numpy_.Learner
    ) -> list[Rung]:
        monkeypatch.setattr(host, "averaging", InMemory(size, reduce).averaging)

        def one(rank: int) -> list[Rung]:
            link = Link.open(rank, size, tmp_path / "meeting", LOCAL, PATIENCE_S)
            team = Team(rank, size, HOST, link, Clock())
            found = list(TeamClimb(algorithm, kind, dtype, "int64", team).rungs())
            link.close()
            return found

        with ThreadPoolExecutor(size) as pool:
            first, *others = pool.map(one, range(size))
        assert not any(others)
        return first

    return climb


def broken(rungs: list[Rung]) -> set[str]:
    return {rung.name.rpartition(": ")[2] for rung in rungs if not rung.passed}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", LEARNERS)
def test_a_mean_passes_every_rung(climbed, algorithm: str) -> None:
    found = [
        rung for size in (2, 3) for dtype in TEAM_PRECISIONS for rung in climbed(size, mean, algorithm, dtype)
    ]
    limits = required(ProofSubject(algorithm, "mlp", collective="host"), "cpu")
    assert {(rung.dtype, rung.name): rung.tolerance for rung in found} == limits
    assert broken(found) == set()


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_a_sum_is_no_mean(climbed, algorithm: str) -> None:
    moments = "weights" if algorithm == "classifier" else "optimiser"  # Adam hides the scale in its weights
    assert f"{moments} after 1" in broken(climbed(2, total, algorithm))


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_gradients_must_be_averaged_before_they_are_clipped(climbed, algorithm: str) -> None:
    assert "weights after 10" in broken(climbed(2, mean, algorithm, kind=ClippedFirst))


def test_workers_that_do_not_average_differ(climbed) -> None:
    assert {"weights after 1", EQUAL} <= broken(climbed(2, nothing))


def test_workers_must_agree_to_the_last_bit(climbed) -> None:
    """Two numbers have the same sum in either order; of three it shows."""
    assert broken(climbed(2, own_order)) == set()
    for dtype in TEAM_PRECISIONS:
        assert broken(climbed(3, own_order, dtype=dtype)) == {EQUAL}


def test_a_mean_of_two_is_not_enough(climbed) -> None:
    assert broken(climbed(2, halved)) == set()
    assert "optimiser after 1" in broken(climbed(3, halved))


def test_a_learner_that_cannot_join_is_named(climbed) -> None:
    with pytest.raises(TeamError, match="no `join`"):
        climbed(1, mean, kind=Alone)


def test_unequal_bits_of_equal_numbers_count() -> None:
    plus, minus = np.array([0.0, 1.0]), np.array([-0.0, 1.0])
    assert unequal([plus.tobytes(), plus.tobytes()], "float64").error == 0
    found = unequal([plus.tobytes(), minus.tobytes()], "float64")
    assert found.error == np.inf
    assert "worker 1" in found.detail


class ClippedFirst(numpy_.Learner):
    """Averages gradients that are clipped already."""

    def join(self, team: Team) -> None:
        super().join(team)
        average = self.average
        assert average is not None

        def clipped_average(gradient: np.ndarray) -> np.ndarray:
            in_place.clip(self.model, gradient)
            return average(gradient)

        self.average = clipped_average


class Alone:
    def __init__(self, *given: Any) -> None:
        pass
