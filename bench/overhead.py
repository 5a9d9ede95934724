"""`make bench-overhead`: is it the framework that is measured, or the thing that measures?

For DQN and PPO on CartPole-v1 with one core:
- outside: share of the training loop that is neither environment nor framework (storing, sampling, counting),
  and its microseconds per environment step: the share rises when a framework becomes faster,
- probe: what sampling at 20 Hz costs, in percent of one core (another one, where there is one),
- lab: seconds of `rldyno trial` that are neither importing the framework, building, compiling nor training.
"""

from __future__ import annotations

from harness import Json, median, report, run_trial

ROUNDS = 3
STEPS = {"dqn": 60_000, "ppo": 122_880}
CONTESTANTS = ("numpy:eager", "torch:eager", "jax:jit")
GOALS = {"outside_percent": 5.0, "probe_core_percent": 0.5, "lab_s": 0.5}


def main() -> None:
    seen: dict[tuple[str, str], list[dict[str, float]]] = {}
    for seed in range(ROUNDS):
        for algorithm in STEPS:
            for contestant in CONTESTANTS:
                outcome, wall_s = run_trial(contestant, algorithm, "CartPole-v1", STEPS[algorithm], seed)
                seen.setdefault((algorithm, contestant), []).append(figures(outcome, wall_s))
    rows = []
    for (algorithm, contestant), trials in seen.items():
        medians = {name: median([trial[name] for trial in trials]) for name in trials[0]}
        missed = [name for name, goal in GOALS.items() if medians[name] > goal]
        verdict = "missed: " + ", ".join(missed) if missed else "yes"
        rows.append({"algorithm": algorithm, "contestant": contestant, **medians, "within_goals": verdict})
    goals = ", ".join(f"{name} ≤ {goal:g}" for name, goal in GOALS.items())
    report("overhead", f"cost of measuring, median of {ROUNDS} trials", rows, [f"goals: {goals}"])


def figures(outcome: Json, wall_s: float) -> dict[str, float]:
    result = outcome["result"]
    phases, startup = result["phases_ns"], result["startup_ns"]
    inside_s = (result["train_start_ns"] - startup["interpreter"] + result["train_ns"]) / 1e9
    return {
        "steps_per_s": result["steps"] / (result["train_ns"] / 1e9),
        "outside_percent": 100 * (phases["store"] + phases["other"]) / result["train_ns"],
        "outside_us_per_step": (phases["store"] + phases["other"]) / result["steps"] / 1e3,
        "probe_core_percent": outcome["probe"]["core_percent"],
        "lab_s": wall_s - inside_s,
    }


if __name__ == "__main__":
    main()
