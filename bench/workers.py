"""`make bench-workers`: what do two workers give, and what does averaging their gradients cost?

DQN on CartPole-v1, one core for each worker, every contestant with each of its collectives. Trials with one
worker and with several alternate; a speed-up is that of trials of the same round.
- step: microseconds of training per environment step of all workers,
- communication, waiting: shares of the training time in reductions, and of that for the slowest worker,
- reduction: microseconds of one averaging of gradients, waiting excluded,
- speed-up: times as many steps per second as one worker; efficiency: speed-up / workers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from harness import ALONE, Json, Team, median, report, run_trial
from rldyno.toolchains.catalogue import toolchain
from rldyno_rig.contestant import Contestant
from rldyno_rig.team.result import TeamResult
from rldyno_rig.team.share import SCALINGS, WEAK

CONTESTANTS = ("numpy:eager", "torch:eager", "tensorflow:graph", "jax:jit", "mxnet:hybrid")
ROUNDS = 3
STEPS = 16_000
HYPER = {"learning_starts": 128}
"""Each worker fills a replay memory of its own: a long filling would look like speed."""


class Place(NamedTuple):
    contestant: str
    team: Team


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--contestants", default=",".join(CONTESTANTS))
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--scaling", choices=SCALINGS, default=WEAK)
    options.add_argument("--steps", type=int, default=STEPS)
    options.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = options.parse_args()
    places = list(places_of(chosen.contestants.split(","), chosen.workers, chosen.scaling))
    seen: dict[Place, list[dict[str, float]]] = {place: [] for place in places}
    for seed in range(chosen.rounds):
        for place in places:
            outcome, _ = run_trial(
                place.contestant, "dqn", "CartPole-v1", chosen.steps, seed, team=place.team, **HYPER
            )
            seen[place].append(figures(outcome))
    title = f"{chosen.workers} workers, {chosen.scaling} scaling, median of {chosen.rounds} rounds"
    report("workers", title, rows(seen), ["speed-ups are of trials of the same round"])


def places_of(contestants: Iterable[str], workers: int, scaling: str) -> Iterator[Place]:
    """One worker of each contestant, then several with each collective that it has on the CPU."""
    for name in contestants:
        yield Place(name, ALONE)
        for collective, devices in toolchain(Contestant.parse(name).framework).collectives.items():
            if "cpu" in devices:
                yield Place(name, Team(workers, collective, scaling))


def figures(outcome: Json) -> dict[str, float]:
    result = outcome["result"]
    train_ns = result["train_ns"]
    found = {"step_us": train_ns / result["steps"] / 1e3}
    if result.get("team"):
        team = TeamResult.from_json(result["team"])
        waiting = sum(team.wait_ns) / team.size
        reducing = sum(team.communicate_ns) / team.size - waiting
        found |= {
            "communication_percent": 100 * result["phases_ns"]["communicate"] / train_ns,
            "waiting_percent": 100 * waiting / train_ns,
            "reduction_us": reducing / max(1, team.reductions) / 1e3,
        }
    return found


def rows(seen: Mapping[Place, Sequence[Mapping[str, float]]]) -> list[Json]:
    made = []
    for (contestant, team), trials in seen.items():
        medians = {name: median([one[name] for one in trials]) for name in trials[0]}
        row: Json = {
            "contestant": contestant,
            "workers": team.workers,
            "collective": team.collective,
        } | medians
        if team.workers > 1:
            pairs = zip(seen[Place(contestant, ALONE)], trials, strict=True)
            row["speedup"] = median([one["step_us"] / several["step_us"] for one, several in pairs])
            row["efficiency"] = row["speedup"] / team.workers
        made.append(row)
    return made


if __name__ == "__main__":
    main()
