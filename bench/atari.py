"""`make bench-atari`: environment steps per second on Pong, on one core, beside Stable-Baselines3.

The published values that rldyno ships for Atari, on either side: same network, batch, update frequency,
environments, preprocessing and rules of the game; contestants interleaved. Only the training loop is timed.
DQN learns from the first batch on, so that every step counts in a short run, with a memory of 10,000 steps,
since the library keeps each frame eight times. About ten minutes on two idle cores; `--quick` does one round
of few steps.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import Json, median, report, run_trial, values_of, warm_results
from rldyno.machine.cpus import available_cpus, place
from rldyno.toolchains.catalogue import peers
from rldyno.toolchains.resolve import Interpreter, ensure
from rldyno_rig import hyper
from rldyno_rig.envs.atari_rules import ATARI, AtariRules

PEER = "sb3"
ROUNDS = 3
ENVIRONMENT = "ALE/Pong-v5"
STEPS = {"ppo": 2_048, "dqn": 1_200}
QUICK = {"ppo": 1_024, "dqn": 200}
"""PPO takes 1,024 steps for each rollout."""
SETTINGS: dict[str, Json] = {
    "ppo": {"learning_rate_end": 2.5e-4},
    "dqn": {"capacity": 10_000, "learning_starts": 32},
}
"""What differs from the shipped values. No learning-rate schedule: the library needs code for it."""
WARM = {"ppo": 1_024, "dqn": 64}
"""Steps of the library before its clock starts, taken beside those that are timed: it has learned by then."""
GOAL = 1.5
"""The best PyTorch contestant is at least so many times as fast."""
FRAMEWORK = "torch:"
Rates = dict[tuple[str, str], list[float]]
"""(algorithm, library or contestant) → steps per second of each round."""
OURS = ("torch:eager", "torch:compile", "torch:aot", "jax:jit", "tensorflow:graph", "numpy:eager")


def main() -> None:
    given = options()
    steps, rounds = (QUICK, 1) if given.quick else (STEPS, ROUNDS)
    rates: Rates = {}
    notes: dict[str, None] = {}
    with warm_results(given.contestants) as results:
        for seed in range(rounds):
            for algorithm in steps:
                print(f"round {seed + 1} of {rounds}: {algorithm}", file=sys.stderr)
                found = peer_figures(algorithm, steps[algorithm], seed)
                rates.setdefault((algorithm, PEER), []).append(found["steps_per_s"])
                if found["not_taken"]:
                    notes[f"{PEER} {algorithm} has no setting for: {', '.join(found['not_taken'])}"] = None
                for contestant in given.contestants:
                    rate = our_rate(contestant, algorithm, steps[algorithm], seed, results)
                    rates.setdefault((algorithm, contestant), []).append(rate)
    report(
        "atari",
        f"steps per second on {ENVIRONMENT}, one core, rounds: {rounds}",
        [row(rates, algorithm, name) for algorithm, name in rates],
        [*notes, *verdicts(rates)],
    )


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one round of few steps")
    parser.add_argument(
        "--contestants",
        type=lambda text: tuple(text.split(",")),
        default=OURS,
        metavar="LIST",
        help=f"separated by commas; default: {','.join(OURS)}",
    )
    return parser.parse_args()


def our_rate(contestant: str, algorithm: str, steps: int, seed: int, results: Path) -> float:
    settings = SETTINGS[algorithm]
    outcome, _ = run_trial(contestant, algorithm, ENVIRONMENT, steps, seed, warm=results, **settings)
    result = outcome["result"]
    return float(result["steps"] / (result["train_ns"] / 1e9))


def row(rates: Rates, algorithm: str, name: str) -> dict[str, Any]:
    ratios = ratios_to(rates, algorithm, name, PEER)
    return {
        "algorithm": algorithm,
        "contestant": name,
        "steps_per_s": median(rates[algorithm, name]),
        f"ratio_to_{PEER}": median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
    }


def ratios_to(rates: Rates, algorithm: str, name: str, library: str) -> list[float]:
    """Of the same round."""
    pairs = zip(rates[algorithm, name], rates[algorithm, library], strict=True)
    return [rate / base for rate, base in pairs]


def verdicts(rates: Rates) -> list[str]:
    lines = []
    for algorithm in dict.fromkeys(algorithm for algorithm, _ in rates):
        found = {
            name: median(ratios_to(rates, algorithm, name, PEER))
            for task, name in rates
            if task == algorithm and name.startswith(FRAMEWORK)
        }
        if found:
            best = max(found, key=lambda name: found[name])
            verdict = "met" if found[best] >= GOAL else "MISSED"
            ratio = f"{best} is {found[best]:.2f}× as fast as {PEER}"
            lines.append(f"{verdict}: {algorithm}, {ratio} (goal {GOAL:g}×)")
    return lines


def peer_figures(algorithm: str, steps: int, seed: int) -> Json:
    """The library's steps per second."""
    interpreter = ensure([PEER], needs={PEER: {ATARI}})[PEER]
    job = {
        "algorithm": algorithm,
        "environment": ENVIRONMENT,
        "rules": AtariRules().to_json(),
        "steps": steps + WARM[algorithm],
        # PPO's first update comes between these steps and the next.
        "warm": WARM[algorithm] + 1,
        "seed": seed,
        "hyper": hyper.to_json(values_of(algorithm, ENVIRONMENT, SETTINGS[algorithm])),
    }
    return ask(interpreter, job)


def ask(interpreter: Interpreter, job: Json) -> Json:
    """What the library prints in its toolchain, in a process of its own, on one core."""
    _, (cpu, *_) = place(available_cpus(), 1, 1)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "job.json"
        path.write_text(json.dumps(job))
        done = subprocess.run(
            [str(interpreter.path), "-I", str(Path(__file__).parent / "atari_peer.py"), str(path)],
            env={**os.environ, **peers()[PEER].worker_variables(1), **interpreter.variables_for(None)},
            preexec_fn=None if cpu is None else lambda: os.sched_setaffinity(0, {cpu}),
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(f"{PEER} {job['algorithm']} failed:\n{done.stderr}")
    figures: Json = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main()
