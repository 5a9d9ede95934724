"""Several workers of one trial: meeting, agreeing, sharing, and averaging. Threads stand for processes."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.clock import COMMUNICATE, Clock
from rldyno_rig.parts.streams import streams
from rldyno_rig.recorder import Recorder
from rldyno_rig.team.link import LOCAL, Link, TeamError
from rldyno_rig.team.names import HOST, NATIVE
from rldyno_rig.team.result import TeamResult
from rldyno_rig.team.share import STRONG, WEAK, UnevenError, share, share_of_budget
from rldyno_rig.team.team import AGREE_EVERY, Team
from rldyno_rig.trial_file import Budget

PATIENCE_S = 60.0


def together(size: int, folder: Path, work: Callable[[Link], Any]) -> list[Any]:
    """What each rank returns, in their order."""

    def one(rank: int) -> Any:
        link = Link.open(rank, size, folder / "meeting", LOCAL, PATIENCE_S)
        try:
            return work(link)
        finally:
            link.close()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, range(size)))


def test_messages_go_to_rank_0_and_back(tmp_path: Path) -> None:
    def work(link: Link) -> tuple[Any, bytes, int]:
        gathered = link.gather(b"x" * (link.rank + 1) * 100_000)
        said = link.broadcast(b"port" if link.rank == 0 else None)
        return gathered and [len(data) for data in gathered], said, link.agree(link.rank * 2)

    assert together(3, tmp_path, work) == [
        ([100_000, 200_000, 300_000], b"port", 4),
        (None, b"port", 4),
        (None, b"port", 4),
    ]


def test_a_stranger_does_not_take_the_place_of_a_worker(tmp_path: Path) -> None:
    meeting = tmp_path / "meeting"
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(Link.open, 0, 2, meeting, LOCAL, PATIENCE_S)
        while not meeting.exists():
            pass
        _, port, secret = meeting.read_text().split()
        with socket.create_connection((LOCAL, int(port))) as stranger:
            stranger.sendall(b"0" * len(secret) + b"\0\0\0\1")
        second = Link.open(1, 2, meeting, LOCAL, PATIENCE_S)
        third = pool.submit(first.result().broadcast, b"hello")
        assert second.broadcast(None) == b"hello"
        third.result()
    assert meeting.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("rank", "text"), [(0, "workers 1, 2"), (1, "cannot reach worker 0")])
def test_workers_that_do_not_come_are_named(rank: int, text: str, tmp_path: Path) -> None:
    with pytest.raises(TeamError, match=text):
        Link.open(rank, 3, tmp_path / "meeting", LOCAL, 0.1)


def test_a_worker_that_is_gone_is_noticed(tmp_path: Path) -> None:
    def work(link: Link) -> str:
        if link.rank:
            return "gone"
        with pytest.raises(TeamError, match="lost another worker"):
            link.agree(0)
        return "noticed"

    assert together(2, tmp_path, work) == ["noticed", "gone"]


def test_weak_scaling_keeps_the_batch_and_strong_scaling_divides_it() -> None:
    whole = ALGORITHMS["dqn"].defaults("CartPole-v1")
    weak, strong = share(whole, 2, WEAK), share(whole, 2, STRONG)
    assert (weak.batch_size, weak.train_every, weak.target_sync) == (64, 4, 250)
    assert (strong.batch_size, strong.train_every, strong.target_sync) == (32, 2, 125)
    for one in (weak, strong):
        assert one.epsilon_steps * 2 == whole.epsilon_steps
        assert one.schedule_steps * 2 == whole.schedule_steps
    rollout = share(ALGORITHMS["ppo"].defaults("CartPole-v1"), 4, STRONG)
    assert (rollout.environments, rollout.rollout_steps) == (2, 32)
    assert share(whole, 1, STRONG) == whole


@pytest.mark.parametrize(("algorithm", "size"), [("dqn", 3), ("ppo", 16)])
def test_what_does_not_divide_is_refused(algorithm: str, size: int) -> None:
    with pytest.raises(UnevenError, match="does not divide by"):
        share(ALGORITHMS[algorithm].defaults("CartPole-v1"), size, STRONG)


def test_the_steps_of_all_workers_count() -> None:
    assert share_of_budget(Budget(steps=1001), 2).steps == 501
    assert share_of_budget(Budget(episodes=7), 2) == Budget(episodes=7)


def test_workers_draw_the_same_weights_and_nothing_else_the_same() -> None:
    first, second = streams(5), streams(5, rank=1)
    drawn = [[one.random() for one in of] for of in (first, second)]
    assert drawn[0][0] == drawn[1][0]
    assert not set(drawn[0][1:]) & set(drawn[1][1:])


def test_all_workers_stop_after_the_same_update(tmp_path: Path) -> None:
    """Rank 0 reaches its stop rule at once; rank 1 learns of it where both agree, and no step later."""
    for rank in (0, 1):
        (tmp_path / str(rank)).mkdir()

    def work(link: Link) -> tuple[str | None, int, int]:
        clock = Clock()
        team = Team(link.rank, 2, NATIVE, link, clock)
        budget = Budget(stop_return=10.0, stop_episodes=1)
        recorder = Recorder(tmp_path / str(link.rank), budget, clock, 0, team)
        average = team.timed(lambda gradient: gradient, "none", 8)
        team.begin()
        recorder.start()
        if link.rank == 0:
            recorder.episode(0, 5, 1, 99.0, 5, True)
        updates = 0
        while recorder.reason is None:
            average(None)
            updates += 1
        recorder.close(1, 7, None)
        team.finish()
        rows = (tmp_path / str(link.rank) / "progress.csv").read_text().splitlines()
        return recorder.reason, updates, int(rows[-1].split(",")[1])

    assert together(2, tmp_path, work) == [("return", AGREE_EVERY, 14)] * 2


def test_a_nan_of_any_worker_stops_all(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / str(rank)).mkdir()

    def work(link: Link) -> str | None:
        team = Team(link.rank, 2, NATIVE, link, Clock())
        recorder = Recorder(tmp_path / str(link.rank), Budget(), Clock(), 0, team)
        if link.rank == 1:
            recorder.beat(1, 1, math.nan)
        recorder.close(2, 1, None)
        return recorder.reason

    assert together(2, tmp_path, work) == ["nan", "nan"]


def test_waiting_for_the_slowest_is_told_from_communication(tmp_path: Path) -> None:
    """A reduction takes 5 ns; rank 1 comes 40 ns later to the first one, rank 0 10 ns later to the second."""
    spent = {0: (45, 5), 1: (5, 15)}

    def work(link: Link) -> TeamResult | None:
        ticks = iter([0, *(tick for took in spent[link.rank] for tick in (0, took))])
        now = 0

        def tick() -> int:
            nonlocal now
            now += next(ticks)
            return now

        team = Team(link.rank, 2, HOST, link, Clock(tick))
        average = team.timed(lambda gradient: gradient, "mpi", 80)
        for _ in spent[link.rank]:
            average(None)
        team.collective = NATIVE  # nothing to finalise
        return team.finish()

    result, other = together(2, tmp_path, work)
    assert other is None
    assert (result.communicate_ns, result.wait_ns) == ((50, 20), (40, 10))
    assert (result.reductions, result.bytes, result.means) == (2, 80, "mpi")
    assert TeamResult.from_json(result.to_json()) == result


def test_a_collective_leaves_when_all_have_made_their_last_reduction(tmp_path: Path) -> None:
    finished: list[int] = []

    def work(link: Link) -> int:
        team = Team(link.rank, 2, NATIVE, link, Clock())
        team.on_finish(lambda: finished.append(link.rank))
        team.finish()
        return len(finished)

    assert max(together(2, tmp_path, work)) == 2


def test_a_broken_collective_is_a_lost_worker(tmp_path: Path) -> None:
    def work(link: Link) -> None:
        def broken(gradient: Any) -> Any:
            raise RuntimeError("Connection closed by peer")

        team = Team(link.rank, 1, NATIVE, link, Clock())
        with pytest.raises(TeamError, match="worker 0 lost another worker: Connection closed"):
            team.timed(broken, "none", 8)(None)

    together(1, tmp_path, work)


def test_communication_is_a_phase_of_its_own(tmp_path: Path) -> None:
    clock = Clock(iter(range(0, 1000, 10)).__next__)

    def work(link: Link) -> None:
        team = Team(link.rank, 1, NATIVE, link, clock)
        team.timed(lambda gradient: gradient, "none", 8)(None)

    together(1, tmp_path, work)
    assert clock.spent[COMMUNICATE] == 10
    assert "communicate" not in clock.phases()


def test_two_learners_on_halves_of_a_batch_learn_as_one_on_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rldyno_rig import spec
    from rldyno_rig.algorithms import synthetic_batch
    from rldyno_rig.backends import numpy_
    from rldyno_rig.team import host

    monkeypatch.setattr(host, "averaging", InMemory(2).averaging)
    algorithm = ALGORITHMS["dqn"]
    one = algorithm.spec(algorithm.defaults("CartPole-v1"), (4,), "float32", 2)
    params = spec.draw_params(one, np.random.default_rng(0))
    batches = [
        synthetic_batch(one, np.random.default_rng(n), "float64", "int64", 64) for n in range(AGREE_EVERY + 1)
    ]

    def work(link: Link) -> Any:
        learner = numpy_.Learner(one, params, "float64")
        team = Team(link.rank, 2, HOST, link, Clock())
        learner.join(team)
        for batch in batches:
            learner.update(tuple(part[32 * link.rank : 32 * link.rank + 32] for part in batch), 1e-3)
        return learner.state()["params"]

    alone = numpy_.Learner(one, params, "float64")
    for batch in batches:
        alone.update(batch, 1e-3)
    first, second = together(2, tmp_path, work)
    for name, weights in alone.state()["params"].items():
        np.testing.assert_allclose(first[name], weights, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(first[name], second[name])


class InMemory:
    """Threads average their arrays as MPI would those of processes."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size, timeout=PATIENCE_S)
        self.given: dict[int, np.ndarray] = {}

    def averaging(self, rank: int, size: int) -> Callable[[np.ndarray], np.ndarray]:
        def average(gradient: np.ndarray) -> np.ndarray:
            self.given[rank] = gradient.copy()
            self.barrier.wait()
            total = sum(self.given[one] for one in range(size))
            self.barrier.wait()
            gradient[...] = total / size
            return gradient

        return average
