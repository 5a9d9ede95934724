"""`make bench-peers`: environment steps per second beside Stable-Baselines3, on the same work.

Same network, batch, update frequency, environments and steps; one core; contestants interleaved; only the
training loop is timed on either side, not imports or start-up. Our DQN does a little more: its shipped values
add double Q-learning (one more forward pass per update) and n-step returns.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from harness import median, report, run_trial
from rldyno.machine.cpus import available_cpus, place
from rldyno.toolchains.catalogue import peers
from rldyno.toolchains.resolve import resolve
from rldyno_rig import hyper
from rldyno_rig.algorithms import ALGORITHMS

ROUNDS = 3
ENVIRONMENT = "CartPole-v1"
STEPS = {"dqn": 20_000, "ppo": 40_960}
OURS = ("numpy:eager", "torch:eager")
GOAL = 2.0


def main() -> None:
    rates: dict[tuple[str, str], list[float]] = {}
    for seed in range(ROUNDS):
        for algorithm, steps in STEPS.items():
            rates.setdefault((algorithm, "sb3"), []).append(peer_rate(algorithm, steps, seed))
            for contestant in OURS:
                outcome, _ = run_trial(contestant, algorithm, ENVIRONMENT, steps, seed)
                result = outcome["result"]
                rate = result["steps"] / (result["train_ns"] / 1e9)
                rates.setdefault((algorithm, contestant), []).append(rate)
    rows: list[dict[str, Any]] = []
    for (algorithm, contestant), seen in rates.items():
        ratios = [rate / base for rate, base in zip(seen, rates[algorithm, "sb3"], strict=True)]
        rows.append(
            {
                "algorithm": algorithm,
                "contestant": contestant,
                "steps_per_s": median(seen),
                "ratio_to_sb3": median(ratios),
                "lowest_ratio": min(ratios),
                "highest_ratio": max(ratios),
            }
        )
    notes = [f"goal: torch:eager at least {GOAL:g}× SB3 for both algorithms"]
    missed = [
        f"missed: {row['contestant']} {row['algorithm']} is {row['ratio_to_sb3']:.2f}× SB3"
        for row in rows
        if row["contestant"] == "torch:eager" and row["ratio_to_sb3"] < GOAL
    ]
    report("peers", f"steps per second beside Stable-Baselines3, {ROUNDS} rounds", rows, notes + missed)


def peer_rate(algorithm: str, steps: int, seed: int) -> float:
    """SB3's environment steps per second, in its own toolchain and process, on one core."""
    chain = peers()["sb3"]
    values = hyper.to_json(ALGORITHMS[algorithm].defaults(ENVIRONMENT))
    _, (cpu, *_) = place(available_cpus(), 1, 1)
    job = {"algorithm": algorithm, "environment": ENVIRONMENT, "steps": steps, "seed": seed, "hyper": values}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "job.json"
        path.write_text(json.dumps(job))
        done = subprocess.run(
            [str(resolve("sb3").path), "-I", str(Path(__file__).parent / "sb3_worker.py"), str(path)],
            env={**os.environ, **chain.worker_variables(1)},
            preexec_fn=None if cpu is None else lambda: os.sched_setaffinity(0, {cpu}),
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(f"sb3 {algorithm} failed:\n{done.stderr}")
    return float(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
