"""`make bench-peers`: whole libraries beside contestants of their own framework, on the same work.

It runs the shipped study `peers` (`rldyno studies peers`): libraries are guests, in the same random order,
on the same core and with the same probe as contestants. A guest may compile while it trains, contestants
compile before; so speeds are those of the second half of a trial, of everybody alike: from the first episode
that ends after half of the steps to the end. Speeds of the whole training stand beside them. `--quick` runs
the quick size; `--results DIR` only reads a finished run.
"""

from __future__ import annotations

import argparse
import math
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness import HOME, median, report
from rldyno.answers.trust import TOO_NOISY
from rldyno.peers.catalogue import peers
from rldyno.results.load import Results, load_results
from rldyno.stats.estimates import Estimate, as_factor
from rldyno.stats.moments import paired_difference
from rldyno_rig.contestant import Contestant
from rldyno_rig.guest.file import GUEST
from rldyno_rig.hyper import tuples

GOALS = {"dqn": 3.0, "ppo": 5.0}
"""Algorithm → the best contestant of a library's framework is at least so many times as fast."""
OUT = HOME / ".bench" / "peers"


class Rate(NamedTuple):
    """Steps per second of one trial."""

    late: float
    """Of the second half of its steps."""
    whole: float


Rates = Mapping[tuple[str, str], Mapping[int, Rate]]
"""(algorithm, contestant) → block → rate."""


def main() -> None:
    given = options()
    if given.results is None:
        shutil.rmtree(OUT, ignore_errors=True)
        quick = ["--quick"] if given.quick else []
        command = [Path(sys.executable).parent / "rldyno", "run", "peers", *quick, "--out", OUT]
        subprocess.run(command)  # what failed is in the records
    results = load_results(given.results or OUT)
    found = rates(results)
    blocks = max((len(of) for of in found.values()), default=0)
    report(
        "peers",
        f"steps per second beside other libraries, CartPole-v1, one core, seeds: {blocks}",
        rows(found),
        [*verdicts(found), *differences(results), *disturbed(results), *failures(results)],
    )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the quick size of the study")
    parser.add_argument("--results", type=Path, metavar="DIR", help="read this results directory")
    return parser.parse_args()


def rates(results: Results) -> Rates:
    found: dict[tuple[str, str], dict[int, Rate]] = {}
    for trial in results.trials.filter(status="done").iter_rows(named=True):
        episodes = results.episodes(trial["trial"])
        steps, ends = episodes["step"].to_list(), (episodes["time_ns"] / 1e9).to_list()
        late = late_rate(steps, ends, trial["steps"], trial["watched_s"])
        if late is not None:
            of = found.setdefault((trial["algorithm"], trial["contestant"]), {})
            of[trial["block"]] = Rate(late, trial["steps_per_s"])
    return dict(sorted(found.items()))


def late_rate(steps: list[int], ends: list[float], all_steps: int, end_s: float) -> float | None:
    """From the first episode that ends after half of the steps; None where there is none.

    `steps` and `ends`: steps and seconds at the end of each episode.
    """
    first = next((pair for pair in zip(steps, ends, strict=True) if pair[0] >= all_steps / 2), None)
    if first is None or first[0] >= all_steps or first[1] >= end_s:
        return None
    return (all_steps - first[0]) / (end_s - first[1])


def rows(found: Rates) -> list[dict[str, Any]]:
    made = []
    for (algorithm, name), of in found.items():
        row: dict[str, Any] = {
            "algorithm": algorithm,
            "contestant": name,
            "steps_per_s": median([rate.late for rate in of.values()]),
            "whole_training": median([rate.whole for rate in of.values()]),
        }
        library = library_of(name)
        best = library and best_of(found, algorithm, peers()[library].framework)
        if best:
            ratio = ratio_to(found, algorithm, best, name)
            row |= {"best_of_its_framework": best, "ratio": ratio.point, "interval": interval(ratio)}
        made.append(row)
    return made


def library_of(contestant: str) -> str | None:
    parsed = Contestant.parse(contestant)
    return parsed.mode if parsed.framework == GUEST and parsed.mode in peers() else None


def best_of(found: Rates, algorithm: str, framework: str) -> str | None:
    """Our fastest contestant of the framework."""
    speeds = {
        name: median([rate.late for rate in of.values()])
        for (task, name), of in found.items()
        if task == algorithm and Contestant.parse(name).framework == framework
    }
    return max(speeds, key=lambda name: speeds[name], default=None)


def ratio_to(found: Rates, algorithm: str, name: str, library: str) -> Estimate:
    """Of the speeds in the same blocks, with 95 %."""
    ours, theirs = found[algorithm, name], found[algorithm, library]
    shared = sorted(ours.keys() & theirs.keys())
    logs = [np.log([of[block].late for block in shared]) for of in (ours, theirs)]
    if len(shared) < 2:
        point = math.exp(float(logs[0][0] - logs[1][0])) if shared else math.nan
        return Estimate(point, None, None, len(shared))
    return as_factor(paired_difference(*logs), len(shared))


def interval(ratio: Estimate) -> str:
    return "–" if ratio.low is None or ratio.high is None else f"{ratio.low:.2f} – {ratio.high:.2f}"


def verdicts(found: Rates) -> list[str]:
    """One line for each library and algorithm: met or MISSED by the whole interval, else open."""
    lines = []
    for row in rows(found):
        if "ratio" not in row:
            continue
        algorithm, goal = row["algorithm"], GOALS[row["algorithm"]]
        best, name = row["best_of_its_framework"], row["contestant"]
        ratio = ratio_to(found, algorithm, best, name)
        library = peers()[library_of(name) or ""].library
        lines.append(
            f"{verdict(ratio, goal)}: {algorithm}, {best} is {ratio.point:.2f}× as fast as {library} "
            f"({interval(ratio)}, goal {goal:g}×)"
        )
    return lines


def verdict(ratio: Estimate, goal: float) -> str:
    """One seed alone decides nothing."""
    if ratio.low is None or ratio.high is None or ratio.low < goal <= ratio.high:
        return "open"
    return "met" if ratio.low >= goal else "MISSED"


def differences(results: Results) -> list[str]:
    """What each library has instead of the study's values."""
    lines = {}
    for trial, algorithm, name in results.trials.select("trial", "algorithm", "contestant").iter_rows():
        library = library_of(name)
        if library:
            values = {key: tuples(value) for key, value in results.hypers[trial].items()}
            other = peers()[library].differences(algorithm, values)
            words = ", ".join(f"{key} {value}, not {values[key]}" for key, value in other.items())
            if words:
                lines[f"{algorithm}, {peers()[library].library} has instead: {words}"] = None
    return sorted(lines)


def disturbed(results: Results) -> list[str]:
    """A busy machine slows whoever happens to run."""
    scores = results.trials["noise_score"].drop_nulls().to_list()
    noisy = sum(score > TOO_NOISY for score in scores)
    words = f"{noisy} of {len(scores)} trials ran on a disturbed machine: run it again while it is idle"
    return [words] if noisy else []


def failures(results: Results) -> list[str]:
    failed = results.trials.filter(status="failed").select("trial", "message").iter_rows()
    return [f"FAILED: {trial}: {message}" for trial, message in failed]


if __name__ == "__main__":
    main()
