"""`make bench-peers`: environment steps per second beside Stable-Baselines3 and SBX, on the same work.

CleanRL's settings: same network, batch, update frequency, environments and steps; one core; contestants
interleaved. Only the training loop is timed on either side. What a library compiles is not: its clock starts
when every kind of call has been made. Ours starts after the warm-up, at step 0; trials of a contestant share
what it compiled, so that each program is compiled once and not in every round. About 7 minutes on two idle
cores; `--short` does one round of a tenth of the steps.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import Json, extent, median, report, run_trial, values_of, warm_results
from rldyno.machine.cpus import available_cpus, place
from rldyno.toolchains.catalogue import peers
from rldyno.toolchains.resolve import resolve
from rldyno_rig import hyper

ROUNDS = 3
ENVIRONMENT = "CartPole-v1"
STEPS = {"dqn": 24_000, "ppo": 49_152}
SETTINGS: dict[str, Json] = {
    "dqn": {
        "hidden": (120, 84),
        "activation": "relu",
        "learning_rate": 2.5e-4,
        "learning_rate_end": 2.5e-4,
        "batch_size": 128,
        "capacity": 10_000,
        "learning_starts": 128,
        "train_every": 10,
        "target_sync": 500,
        "epsilon_start": 1.0,
        "epsilon_end": 0.05,
        "epsilon_steps": 12_000,
        "double": False,
        "n_step": 1,
        "environments": 1,
    },
    "ppo": {
        "hidden": (64, 64),
        "activation": "tanh",
        "learning_rate": 2.5e-4,
        "learning_rate_end": 2.5e-4,
        "environments": 4,
        "rollout_steps": 128,
        "minibatches": 4,
        "epochs": 4,
        "clip_range": 0.2,
        "gae_lambda": 0.95,
        "gamma": 0.99,
        "entropy_coefficient": 0.01,
        "value_coefficient": 0.5,
        "max_grad_norm": 0.5,
    },
}
"""CleanRL's dqn.py and ppo.py, but DQN learns from step 128 on, not 10,000, so that every step counts in a
short run, and ε falls over half of it. No learning-rate schedule: each library
would need a function of its own for it."""
WARM = {"dqn": 400, "ppo": 1_024}
"""Steps of a library before its clock starts: all is compiled by then."""
GOALS = {
    ("sb3", "dqn"): (("torch:eager", "torch:compile", "torch:aot"), 4.5),
    ("sb3", "ppo"): (("torch:eager", "torch:compile", "torch:aot"), 8.0),
    ("sbx", "dqn"): (("jax:jit",), 5.0),
    ("sbx", "ppo"): (("jax:jit",), 10.0),
}
"""(library, algorithm) → the best of these contestants is at least so many times as fast."""
Rates = dict[tuple[str, str], list[float]]
"""(algorithm, library or contestant) → steps per second of each round."""
OURS = ("numpy:eager", *dict.fromkeys(name for names, _ in GOALS.values() for name in names))


def main() -> None:
    rounds, share = extent(__doc__, ROUNDS)
    rates: Rates = {}
    notes: dict[str, None] = {}
    with warm_results(OURS) as results:
        for seed in range(rounds):
            for algorithm, steps in STEPS.items():
                print(f"round {seed + 1} of {rounds}: {algorithm}", file=sys.stderr)
                one_round(algorithm, int(share * steps), seed, results, rates, notes)
    rows = [row(rates, algorithm, name) for algorithm, name in rates]
    report(
        "peers",
        f"steps per second beside other libraries, rounds: {rounds}",
        rows,
        [*notes, *verdicts(rates)],
    )


def one_round(
    algorithm: str, steps: int, seed: int, results: Path, rates: Rates, notes: dict[str, None]
) -> None:
    for library in peers():
        found = peer_figures(library, algorithm, steps, seed)
        rates.setdefault((algorithm, library), []).append(found["steps_per_s"])
        if found["not_taken"]:
            notes[f"{library} {algorithm} has no setting for: {', '.join(found['not_taken'])}"] = None
    for contestant in OURS:
        outcome, _ = run_trial(
            contestant, algorithm, ENVIRONMENT, steps, seed, warm=results, **SETTINGS[algorithm]
        )
        result = outcome["result"]
        rate = result["steps"] / (result["train_ns"] / 1e9)
        rates.setdefault((algorithm, contestant), []).append(rate)


def row(rates: Rates, algorithm: str, name: str) -> dict[str, Any]:
    made = {"algorithm": algorithm, "contestant": name, "steps_per_s": median(rates[algorithm, name])}
    for library in peers():
        ratios = ratios_to(rates, algorithm, name, library)
        made |= {
            f"ratio_to_{library}": median(ratios),
            "lowest_" + library: min(ratios),
            "highest_" + library: max(ratios),
        }
    return made


def ratios_to(rates: Rates, algorithm: str, name: str, library: str) -> list[float]:
    """Of the same round."""
    pairs = zip(rates[algorithm, name], rates[algorithm, library], strict=True)
    return [rate / base for rate, base in pairs]


def verdicts(rates: Rates) -> list[str]:
    lines = []
    for (library, algorithm), (names, goal) in GOALS.items():
        found = {name: median(ratios_to(rates, algorithm, name, library)) for name in names}
        best = max(found, key=lambda name: found[name])
        verdict = "met" if found[best] >= goal else "MISSED"
        lines.append(
            f"{verdict}: {algorithm}, {best} is {found[best]:.2f}× as fast as {library} (goal {goal:g}×)"
        )
    return lines


def peer_figures(library: str, algorithm: str, steps: int, seed: int) -> Json:
    """A library's steps per second, in its own toolchain and process, on one core."""
    _, (cpu, *_) = place(available_cpus(), 1, 1)
    job = {
        "library": library,
        "algorithm": algorithm,
        "environment": ENVIRONMENT,
        "steps": steps,
        "warm": WARM[algorithm],
        "seed": seed,
        "hyper": hyper.to_json(values_of(algorithm, ENVIRONMENT, SETTINGS[algorithm])),
    }
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "job.json"
        path.write_text(json.dumps(job))
        done = subprocess.run(
            [str(resolve(library).path), "-I", str(Path(__file__).parent / "peer_worker.py"), str(path)],
            env={**os.environ, **peers()[library].worker_variables(1)},
            preexec_fn=None if cpu is None else lambda: os.sched_setaffinity(0, {cpu}),
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(f"{library} {algorithm} failed:\n{done.stderr}")
    figures: Json = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main()
