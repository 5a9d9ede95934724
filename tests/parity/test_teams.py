"""Real processes that train together through the collective of their framework."""

from __future__ import annotations

import subprocess
import textwrap
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

import pytest

from rldyno.errors import Problem
from rldyno.toolchains.resolve import resolve
from rldyno_rig.team.names import HOROVOD, MEETING_VARIABLE, NATIVE, RANK_VARIABLE
from toolchain_scripts import finish_below_mpi, finish_script

MEANS = {
    "torch": "gloo",
    "jax": "gloo",
    "tensorflow": "grpc ring",
    "mxnet": "ps-lite",
    "chainer": "chainermn, mpi",
}
MODES = {
    "torch": ["eager", "compile", "aot"],
    "jax": ["eager", "jit"],
    "tensorflow": ["eager", "graph", "xla"],
    "mxnet": ["eager", "hybrid"],
    "chainer": ["eager", "static"],
}
TWO = [(f"{framework}:{mode}", 2) for framework, modes in MODES.items() for mode in modes]
THREE = [("torch:eager", 3), ("tensorflow:graph", 3), ("mxnet:eager", 3), ("chainer:eager", 3)]
BELOW_MPI = "chainer"
JOINING = """
    import os
    from rldyno_rig.clock import Clock
    from rldyno_rig.reference.learner import ReferenceLearner
    from rldyno_rig.team.link import TeamError
    from rldyno_rig.team.team import join

    SIZE, ROWS, PATIENCE_S = {size}, 12, 600.0
    team = join(SIZE, {collective!r}, Clock(), PATIENCE_S)
    learner = make("float64")
"""
LEARNING = """
    learner.join(team)
    reference = ReferenceLearner(spec, params, "float64")
    rng, first = np.random.default_rng(0), ROWS * team.rank
    for _ in range(100):
        batch = synthetic_batch(spec, rng, "float64", backend.INDEX_DTYPE, ROWS * SIZE)
        handle = update(learner, tuple(part[first : first + ROWS] for part in batch))
        reference.update(batch, 1e-2)
    learner.read(handle)
    assert backend.facts()["versions"], "every record has these"
    state, wanted = learner.state(), reference.state()
    for kind in ("params", "m", "v"):
        for name, array in wanted[kind].items():
            np.testing.assert_allclose(state[kind][name], array, rtol=0, atol=1e-10)
    bits = [state[kind][name].tobytes().hex() for kind in ("params", "m", "v") for name in params]
    result = team.finish()
    assert result is None or result.reductions == 100, result
    print("means", result and result.means)
    print("weights", *bits, flush=True)
    os._exit(0)
"""
"""Each on its part of a batch; what it ends with is compared with the reference on the whole."""


def train_together(
    contestant: str,
    size: int,
    meeting: Path,
    script: str,
    collective: str = NATIVE,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """What each rank prints; its traceback is the failure."""
    whole = textwrap.dedent(JOINING.format(size=size, collective=collective)) + textwrap.dedent(script)

    places = [{RANK_VARIABLE: str(rank), MEETING_VARIABLE: str(meeting)} for rank in range(size)]
    ranks = [{**variables, **place} for place in places]

    def one(own: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return finish_script(contestant, whole, variables=own)

    if contestant.startswith(BELOW_MPI):
        ended = finish_below_mpi(contestant, whole, "native", ranks, meeting.parent)
    else:
        with ThreadPoolExecutor(size) as pool:
            ended = list(pool.map(one, ranks))
    for done in ended:
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return [done.stdout for done in ended]


@pytest.mark.slow
@pytest.mark.parametrize(("contestant", "size"), TWO + THREE)
def test_workers_on_parts_of_a_batch_learn_as_one_on_the_whole(
    contestant: str, size: int, tmp_path: Path
) -> None:
    """And stay the same to the last bit, over 100 updates."""
    printed = train_together(contestant, size, tmp_path / "meeting", LEARNING)
    check_alike(printed, MEANS[contestant.partition(":")[0]])


@pytest.mark.slow
@pytest.mark.parametrize("contestant", ["torch:eager", "tensorflow:graph", "mxnet:hybrid"])
def test_they_do_so_with_horovod(contestant: str, tmp_path: Path) -> None:
    """Where it is built: that takes minutes."""
    framework = contestant.partition(":")[0]
    try:
        variables = resolve(framework, needs=[HOROVOD]).variables_for(HOROVOD)
    except Problem as problem:
        pytest.skip(f"{problem.message}: {problem.fix}")
    printed = train_together(contestant, 2, tmp_path / "meeting", LEARNING, HOROVOD, variables)
    check_alike(printed, "horovod, gloo")


def check_alike(printed: list[str], means: str) -> None:
    weights = {line for text in printed for line in text.splitlines() if line.startswith("weights")}
    assert len(weights) == 1
    assert f"means {means}" in printed[0]


@pytest.mark.slow
@pytest.mark.parametrize("contestant", ["torch:eager", "jax:jit", "tensorflow:graph"])
def test_a_worker_that_is_gone_ends_the_others(contestant: str, tmp_path: Path) -> None:
    first, second = train_together(
        contestant,
        2,
        tmp_path / "meeting",
        """
        learner.join(team)
        (batch, *_) = given("float64")
        for step in range(10):
            if (team.rank, step) == (1, 5):
                os._exit(0)
            try:
                update(learner, batch)
            except TeamError as error:
                print("gone after", step, error, flush=True)
                os._exit(0)
        raise SystemExit("nobody noticed")
        """,
    )
    assert "gone after 5 worker 0 lost another worker" in first
    assert "gone" not in second


@pytest.mark.slow
@pytest.mark.parametrize(
    ("contestant", "text"),
    [
        ("jax:jit", "worker 0 cannot meet the others through jax.distributed"),
        ("tensorflow:graph", "worker 0 cannot listen for the others"),
        ("mxnet:eager", "MXNet's scheduler cannot listen"),
    ],
)
def test_a_port_that_is_taken_is_named(contestant: str, text: str, tmp_path: Path) -> None:
    """They cannot be given a socket, only the number of a port."""
    (printed,) = train_together(
        contestant,
        1,
        tmp_path / "meeting",
        """
        import contextlib
        import socket
        from rldyno_rig.team import ports
        taken = socket.create_server(("127.0.0.1", 0))
        ports.reserved = lambda team, shared=0: contextlib.nullcontext(taken.getsockname()[1])
        try:
            learner.join(team)
        except TeamError as error:
            print(error, flush=True)
            os._exit(0)
        """,
    )
    assert text in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("contestant", "text"),
    [
        ("torch:eager", "worker 0 cannot meet the others through gloo: wait timeout"),
        ("jax:jit", "worker 0 lost another worker"),
        ("tensorflow:graph", "worker 0 lost another worker"),
        ("mxnet:eager", "worker 0 lost another worker"),
    ],
)
def test_a_worker_that_does_not_come_to_the_collective_is_noticed(
    contestant: str, text: str, tmp_path: Path
) -> None:
    """The workers know each other already."""
    first, _ = train_together(
        contestant,
        2,
        tmp_path / "meeting",
        """
        team.patience_s = 5.0
        if team.rank:
            os._exit(0)
        try:
            learner.join(team)
        except TeamError as error:
            print(error, flush=True)
            os._exit(0)
        """,
    )
    assert text in first
