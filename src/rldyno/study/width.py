"""Crossings of cores and workers that are wider than a study allows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rldyno.toml.source import Source


def fits(cores: int, workers: int, most: int | None) -> bool:
    """Cores are those of each worker."""
    return most is None or cores * workers <= most


def too_wide(source: Source, cores: Sequence[int], workers: Sequence[int], most: int | None) -> list[str]:
    """Why each such crossing is left out. A number of cores or workers that has no other is a mistake."""
    crossed = list(itertools.product(workers, cores))
    wide = [(team, each) for team, each in crossed if not fits(each, team, most)]
    for index, (key, values) in enumerate((("workers", workers), ("cores", cores))):
        kept = {pair[index] for pair in crossed if pair not in wide}
        for value in values:
            if value not in kept:
                source.mistake((key,), f"all trials with {value} need more CPUs than max_cpus = {most}")
    return [f"workers {team} with cores {each}: more CPUs than max_cpus = {most}" for team, each in wide]
