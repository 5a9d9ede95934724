"""`make bench-contestants`: microseconds per act and per update of every contestant, side by side.

All contestants of one algorithm and network are started and warmed up first; then each is measured in turn,
several rounds, on one core, while the others sleep. Ratios are to the fastest and to NumPy of the same round.

    python bench/contestants.py [--networks mlp,cnn] [--algorithms dqn,ppo] [--contestants torch:eager,…]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rldyno_rig
from harness import median, report
from rldyno.errors import Problem
from rldyno.launch.cpus import available_cpus, place
from rldyno.toolchains.catalogue import catalogue, toolchain
from rldyno.toolchains.resolve import resolve
from rldyno_rig import hyper

ROUNDS = 5
SECONDS = 0.6
BASE = "numpy:eager"
SHAPES: dict[str, dict[str, Any]] = {
    "mlp": {
        "observation": [4],
        "observation_dtype": "float32",
        "actions": 2,
        "act_rows": 1,
        "update_rows": 32,
        "changes": {"hidden": [128, 128]},
    },
    "cnn": {
        "observation": [4, 84, 84],
        "observation_dtype": "uint8",
        "actions": 6,
        "act_rows": 16,
        "update_rows": 128,
        "changes": {"hidden": [256], "convolutions": [list(layer) for layer in hyper.CNN_SMALL]},
    },
}


def main() -> None:
    every = [
        f"{name}:{mode}"
        for name, chain in catalogue().items()
        for mode, devices in chain.modes.items()
        if "cpu" in devices
    ]
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--networks", default="mlp,cnn")
    options.add_argument("--algorithms", default=",".join(hyper.ALGORITHMS))
    options.add_argument("--contestants", default=",".join(every))
    chosen = options.parse_args()
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for network in chosen.networks.split(","):
        for algorithm in chosen.algorithms.split(","):
            with contextlib.ExitStack() as stack:
                timers = {}
                for contestant in dict.fromkeys([BASE, *chosen.contestants.split(",")]):
                    try:
                        timers[contestant] = stack.enter_context(timer(contestant, algorithm, network))
                    except (Problem, EOFError) as problem:
                        notes.append(f"absent: {contestant} {algorithm} {network}: {problem}")
                rounds = [{name: ask(process) for name, process in timers.items()} for _ in range(ROUNDS)]
            rows += table(network, algorithm, rounds)
            print(f"{network} {algorithm}: {len(timers)} contestants measured", file=sys.stderr)
    notes.append("update: host arrays in, loss out; act: observations in, actions out; one core, medians")
    report("contestants", "time per act and update", rows, notes)


def table(network: str, algorithm: str, rounds: list[dict[str, dict[str, float]]]) -> list[dict[str, Any]]:
    rows = []
    for contestant in rounds[0]:
        row: dict[str, Any] = {"network": network, "algorithm": algorithm, "contestant": contestant}
        for name in ("update_us", "act_us"):
            row[name] = median([measured[contestant][name] for measured in rounds])
            fastest = [
                measured[contestant][name] / min(m[name] for m in measured.values()) for measured in rounds
            ]
            to_base = [measured[contestant][name] / measured[BASE][name] for measured in rounds]
            row[name.replace("_us", "_to_fastest")] = median(fastest)
            row[name.replace("_us", "_to_numpy")] = median(to_base)
        rows.append(row)
    return sorted(rows, key=lambda row: row["update_us"])


@contextlib.contextmanager
def timer(contestant: str, algorithm: str, network: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is warmed up and answers each line with its times."""
    framework, _, mode = contestant.partition(":")
    chain, interpreter = toolchain(framework), resolve(framework)
    shape = SHAPES[network]
    values = {**hyper.to_json(hyper.ALGORITHMS[algorithm]()), **shape["changes"]}
    job = {**shape, "framework": framework, "mode": mode, "algorithm": algorithm, "hyper": values}
    job.update(device="cpu", dtype="float32")
    _, cpus = place(available_cpus(), 1)
    cpu = cpus[0] if cpus else None
    isolation = ["-I"] if interpreter.isolated else []
    with tempfile.TemporaryDirectory() as name, (Path(name) / "log").open("w") as log:
        (Path(name) / "time.json").write_text(json.dumps(job))
        process = subprocess.Popen(
            [str(interpreter.path), *isolation, str(Path(rldyno_rig.__file__).parent), "time", name],
            env={**os.environ, **chain.worker_variables(1)},
            preexec_fn=None if cpu is None else lambda: os.sched_setaffinity(0, {cpu}),  # noqa: PLW1509
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            if process.stdout is None or process.stdout.readline().strip() != "ready":
                raise EOFError((Path(name) / "log").read_text()[-300:].strip().splitlines()[-1])
            yield process
        finally:
            process.kill()
            process.wait()


def ask(process: subprocess.Popen[str]) -> dict[str, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{SECONDS}\n")
    process.stdin.flush()
    answer: dict[str, float] = json.loads(process.stdout.readline())
    return answer


if __name__ == "__main__":
    main()
