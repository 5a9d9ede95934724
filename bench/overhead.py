"""`make bench-overhead`: is it the framework that is measured, or the thing that measures?

On CartPole-v1 with one core:
- outside: share of the training loop that is neither environment nor framework (storing, sampling, counting),
  and its microseconds per environment step: the share rises when a framework becomes faster. DQN and PPO have
  a goal; A2C and Rainbow are shown for comparison,
- probe: what sampling at 20 Hz costs, in percent of one core (another one, where there is one),
- lab: seconds of `rldyno trial` that are neither importing the framework, building, compiling nor training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness import Json, extent, median, report, run_trial

ROUNDS = 3
STEPS = {"dqn": 60_000, "ppo": 122_880, "a2c": 80_000, "rainbow": 15_000}
JUDGED = ("dqn", "ppo")
CONTESTANTS = ("numpy:eager", "torch:eager", "jax:jit")
OUTSIDE = "outside_percent"
GOALS = {OUTSIDE: 5.0, "probe_core_percent": 0.5, "lab_s": 0.5}


def main() -> None:
    rounds, share = extent(__doc__, ROUNDS)
    seen: dict[tuple[str, str], list[dict[str, float]]] = {}
    for seed in range(rounds):
        for algorithm, steps in STEPS.items():
            for contestant in CONTESTANTS:
                outcome, wall_s = run_trial(contestant, algorithm, "CartPole-v1", int(share * steps), seed)
                seen.setdefault((algorithm, contestant), []).append(figures(outcome, wall_s))
    rows = []
    for (algorithm, contestant), trials in seen.items():
        medians = {name: median([trial[name] for trial in trials]) for name in trials[0]}
        rows.append(
            {
                "algorithm": algorithm,
                "contestant": contestant,
                **medians,
                "goals": verdict(algorithm, medians),
            }
        )
    goals = ", ".join(f"{name} ≤ {goal:g}" for name, goal in GOALS.items())
    notes = [f"goals: {goals} (outside: of {' and '.join(JUDGED)})", *shares(rows)]
    report("overhead", f"cost of measuring, medians; rounds: {rounds}", rows, notes)


def verdict(algorithm: str, figures: Mapping[str, float]) -> str:
    judged = {name: goal for name, goal in GOALS.items() if name != OUTSIDE or algorithm in JUDGED}
    missed = [name for name, goal in judged.items() if figures[name] > goal]
    return "MISSED: " + ", ".join(missed) if missed else "met"


def shares(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """One line for each goal of the loop: what contestants need outside environment and framework."""
    return [
        f"{'met' if row[OUTSIDE] <= GOALS[OUTSIDE] else 'MISSED'}: {row['algorithm']}, {row['contestant']} "
        f"spends {row[OUTSIDE]:.1f} % outside environment and framework (goal {GOALS[OUTSIDE]:g} %)"
        for row in rows
        if row["algorithm"] in JUDGED
    ]


def figures(outcome: Json, wall_s: float) -> dict[str, float]:
    result = outcome["result"]
    phases, startup = result["phases_ns"], result["startup_ns"]
    inside_s = (result["train_start_ns"] - startup["interpreter"] + result["train_ns"]) / 1e9
    return {
        "steps_per_s": result["steps"] / (result["train_ns"] / 1e9),
        OUTSIDE: 100 * (phases["store"] + phases["other"]) / result["train_ns"],
        "outside_us_per_step": (phases["store"] + phases["other"]) / result["steps"] / 1e3,
        "probe_core_percent": outcome["probe"]["core_percent"],
        "lab_s": wall_s - inside_s,
    }


if __name__ == "__main__":
    main()
