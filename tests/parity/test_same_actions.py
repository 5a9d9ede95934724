"""Same seed, same actions: in float64 a closed-division run of 2,000 steps is one run in every framework."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from closed_runs import CONTESTANTS, EVERYTHING, trained_actions
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.algorithms import ALGORITHMS

STEPS = 2_000
REFERENCE = "numpy:eager"
# Compared on all four algorithms even in a short test run.
QUICK = {"torch:eager", "jax:jit"}


@pytest.fixture(scope="session")
def expected(
    interpreters: dict[str, Interpreter], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[int]]:
    home = tmp_path_factory.mktemp("reference")
    return {
        algorithm: trained_actions(
            REFERENCE, interpreters["numpy"], algorithm, "float64", STEPS, home / algorithm
        )
        for algorithm in ALGORITHMS
    }


def cases() -> list[tuple[str, str]]:
    """Every contestant with every algorithm; in a short test run one algorithm each, in turn."""
    others = [name for name in CONTESTANTS if name != REFERENCE]
    crossed = [(contestant, algorithm) for contestant in others for algorithm in ALGORITHMS]
    turn = dict(zip(others, itertools.cycle(ALGORITHMS), strict=False))
    return [
        (contestant, algorithm)
        for contestant, algorithm in crossed
        if EVERYTHING or contestant in QUICK or algorithm == turn[contestant]
    ]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("contestant", "algorithm"), cases())
def test_same_seed_same_actions(
    contestant: str,
    algorithm: str,
    interpreters: dict[str, Interpreter],
    expected: dict[str, list[int]],
    tmp_path: Path,
) -> None:
    interpreter = interpreters[contestant.partition(":")[0]]
    got = trained_actions(contestant, interpreter, algorithm, "float64", STEPS, tmp_path / "trial")
    assert len(got) == STEPS
    first = next(
        (step for step, pair in enumerate(zip(got, expected[algorithm], strict=True)) if len(set(pair)) > 1),
        None,
    )
    assert first is None, f"{contestant} takes another action than {REFERENCE} at step {first}"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("vote", ["mean", "majority"])
@pytest.mark.parametrize("contestant", sorted(QUICK))
def test_ensembles_take_the_same_actions(
    contestant: str, vote: str, interpreters: dict[str, Interpreter], tmp_path: Path
) -> None:
    runs = [
        trained_actions(
            name,
            interpreters[name.partition(":")[0]],
            "dqn",
            "float64",
            STEPS,
            tmp_path / name.replace(":", "-"),
            members=3,
            vote=vote,
        )
        for name in (REFERENCE, contestant)
    ]
    assert runs[0] == runs[1]


def test_the_reference_run_is_not_trivial(expected: dict[str, list[int]]) -> None:
    """Both actions are taken, and every algorithm takes others."""
    for actions in expected.values():
        assert 0.05 < sum(actions) / len(actions) < 0.95
    assert len({tuple(actions) for actions in expected.values()}) == len(expected)
