"""Whether anybody learned, from the episodes at both ends of runs with environments side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rldyno.answers.analysis import Analysis
from rldyno.answers.groups import Group
from rldyno.answers.learned import rounds
from rldyno_rig import schema
from synthetic import NUMPY, TORCH, Shape, write_results

ENVIRONMENTS = 16


def played(root: Path, steps_each: int) -> Group:
    """Nobody learns: the lengths of all episodes, which are their returns, are from one distribution."""
    write_results(
        root,
        Shape(contestants=(NUMPY, TORCH), algorithms=["a2c"], seeds=5, sample_hz=2, stop_return=None),
    )
    rng = np.random.default_rng(5)
    for path in sorted(root.glob("trials/*/episodes.csv")):
        ended = []
        for environment in range(ENVIRONMENTS):
            lengths = 1 + rng.geometric(1 / 100, size=steps_each)
            ends = np.cumsum(lengths)
            ended += [
                (int(end), environment, int(length))
                for end, length in zip(ends, lengths, strict=True)
                if end <= steps_each
            ]
        rows = [
            f"{number},{environment},{end * ENVIRONMENTS},{end * 1000},{float(length)},{length},1"
            for number, (end, environment, length) in enumerate(sorted(ended), 1)
        ]
        path.write_text("\n".join([",".join(schema.EPISODE_COLUMNS), *rows]) + "\n")
    (group,) = Analysis.load(root).comparisons
    return group


def test_short_episodes_that_end_first_are_no_start_of_learning(tmp_path: Path) -> None:
    group = played(tmp_path / "r", steps_each=600)
    assert group.unlearned is not None


def test_the_first_episode_of_each_environment_tells_nothing_of_learning(tmp_path: Path) -> None:
    group = played(tmp_path / "r", steps_each=200)
    assert group.unlearned is None
    assert group.few_episodes


def test_rounds_count_the_episodes_of_each_environment() -> None:
    assert rounds(np.array([2, 0, 2, 1, 0, 2])).tolist() == [0, 0, 1, 0, 1, 2]
    assert rounds(np.array([], dtype=np.int64)).tolist() == []
