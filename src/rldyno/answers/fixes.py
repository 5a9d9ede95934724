"""What to do about an objection. Commands stand in backticks, to be copied. Records are never edited."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from rldyno.records.directory import run_command
from rldyno.results.load import Results
from rldyno.stats.estimates import ENOUGH_RUNS

# Adaptive seeds stop by themselves once everything is decided: the largest number is only a limit.
MOST_SEEDS = 30
# What a rule that allows for interim checks needs, over a number of seeds fixed beforehand.
CHECKS_COST = 1.5
MORE_SEEDS = "For more seeds: "


def folded(found: Iterable[str]) -> tuple[str, ...]:
    """Each once; of the commands that add seeds only the one with most of them, which does for all."""
    lines = list(dict.fromkeys(filter(None, found)))
    seeds = [line for line in lines if line.startswith(MORE_SEEDS)]
    most = max(seeds, key=lambda line: int(line.rstrip("`").rpartition("..")[2]), default="")
    return tuple(line for line in lines if line not in seeds or line == most)


def study_words(results: Results) -> str:
    path = results.manifest.study_path
    return path if path.endswith(".toml") else "your study file"


def code(command: str) -> str:
    return f"`{command}`"


def resume(results: Results) -> str:
    return code(run_command(results.directory))


def again(results: Results) -> str:
    """The same study, measured anew: the one in the record, wherever its file is now."""
    return code(run_command(results.directory, out=anew(results)))


def anew(results: Results) -> Path:
    return Path(f"{results.directory}-again")


def changed(results: Results, few_seeds: bool = False) -> str:
    """The study file after the user has changed it."""
    path = results.manifest.study_path
    study = Path(path if path.endswith(".toml") else "STUDY.toml")
    return code(run_command(study, out=anew(results), seeds=seeds_anew(results, few_seeds)))


def seeds_anew(results: Results, few_seeds: bool) -> str | None:
    """For a run in a new directory."""
    return f"{ENOUGH_RUNS}..{MOST_SEEDS}" if few_seeds and results.manifest.adaptive is None else None


def quieter(results: Results, few_seeds: bool) -> str:
    command = run_command(results.directory, out=anew(results), seeds=seeds_anew(results, few_seeds))
    return f"Run it again while the machine is idle (`rldyno doctor` shows other load): {code(command)}"


def one_kind_of_machine(results: Results) -> str:
    return f"Run it again on machines of one kind (on a cluster: --slurm constraint=KIND): {again(results)}"


def repeat_disturbed(results: Results, max_noise: float) -> str:
    """The trials that were quiet stay."""
    command = run_command(results.directory, max_noise=max_noise)
    return f"To repeat disturbed trials while the machine is idle: {code(command)}"


def larger_budget(results: Results, few_seeds: bool) -> str:
    return f"Raise [budget] in {study_words(results)}, then: {changed(results, few_seeds)}"


def go_on(results: Results) -> str:
    return f"Add `ends = false` to the stop rule in {study_words(results)}, then: {changed(results)}"


def one_budget(results: Results) -> str:
    return f"Give {study_words(results)} one limit that every run can reach, then: {changed(results)}"


def learnable(results: Results) -> str:
    return (
        f"Raise [budget] or change the hyper-parameters in {study_words(results)}, then: {changed(results)}"
    )


def stop_rule(results: Results) -> str:
    return (
        f"Use `--goal throughput`, or add a stop rule to [budget] in {study_words(results)}: "
        f"`stop = {{ return = 475, episodes = 20 }}`, then: {changed(results)}"
    )


def prove(results: Results, stale: bool) -> str:
    """A run proves its contestants first, on the device that it uses."""
    if stale:
        return f"To prove and measure them anew: {again(results)}"
    return f"To prove what has run: {resume(results)}"


def repeat_failed(results: Results) -> str:
    """A run begins with the trials that failed."""
    return f"Remove what made trials fail (the report has their logs), then: {resume(results)}"


def more_contestants(results: Results, unlike: bool) -> str:
    wanted = "contestants that learn alike" if unlike else "a second contestant"
    return f"Add {wanted} to {study_words(results)}, then: {changed(results)}"


def enough_seeds(results: Results) -> str:
    return adaptive_seeds(results, ENOUGH_RUNS, MOST_SEEDS)


def deciding_seeds(results: Results, have: int, more: int) -> str:
    most = max(have + math.ceil(CHECKS_COST * more), MOST_SEEDS)
    return adaptive_seeds(results, max(have, ENOUGH_RUNS), most)


def adaptive_seeds(results: Results, fewest: int, most: int) -> str:
    """More seeds after results were seen, by the rule whose tests allow for it; none is dropped."""
    adaptive, highest = results.manifest.adaptive, results.trials["seed"].max()
    assert isinstance(highest, int)
    most = max(most, highest + 1, adaptive.max if adaptive else 0)
    return f"{MORE_SEEDS}{code(run_command(results.directory, seeds=f'{fewest}..{most}'))}"


def finish(results: Results) -> str:
    return f"To run the rest: {resume(results)}"


def measurable() -> str:
    return (
        "Run the study where it can be measured (energy counters may need root), or choose another `--goal`."
    )
