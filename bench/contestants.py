"""`make bench-contestants`: microseconds per act and per update of every contestant, side by side.

The shapes of a training run, timed as `rldyno nets` does it: all contestants are warm; each is measured in
turn, in random order, while the others sleep. Ratios are to NumPy of the same round.

    python bench/contestants.py [--networks mlp,tanh,cnn] [--algorithms dqn] [--contestants a,b] [--cores N]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness import report
from rldyno.nets.figures import figures, ratio, seconds_by_round
from rldyno.nets.measure import run
from rldyno.nets.record import NetsRecord
from rldyno.nets.work import PAGEABLE, Benchmark, Net
from rldyno.toolchains.contestants import chosen_contestants
from rldyno_rig import hyper
from rldyno_rig.algorithms import ALGORITHMS

ROUNDS = 5
SECONDS = 0.2
BASE = "numpy:eager"
NETS = {
    "mlp": (Net("mlp", (4,), 2, (), (120, 84)), (1, 8), (64, 128)),
    "tanh": (Net("tanh", (4,), 2, (), (64, 64), "tanh"), (4,), (128, 512)),
    "cnn": (Net("cnn", (4, 84, 84), 6, hyper.CNN_SMALL, (256,)), (1, 8), (32,)),
}
"""Network, rows of an act, rows of an update."""
TOGETHER = {"ppo": 16}
"""Updates that a loop makes at once: `updates`, per update."""
ALLOWED = 1.05
"""A compiled mode may take so many times as long as its eager mode: two measurements differ by chance."""


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--networks", default=",".join(NETS))
    options.add_argument("--algorithms", default=",".join(ALGORITHMS))
    options.add_argument("--contestants", default="")
    options.add_argument("--cores", type=int, default=1)
    chosen = options.parse_args()
    names = chosen_contestants(filter(None, chosen.contestants.split(",")), "cpu")
    contestants = tuple(dict.fromkeys([BASE, *names]))
    notes: list[str] = []
    for network in chosen.networks.split(","):
        made: list[dict[str, Any]] = []
        for algorithm in chosen.algorithms.split(","):
            record = measured(contestants, network, algorithm, chosen.cores)
            made += table(record, algorithm)
            notes += [
                f"absent: {one.contestant} {algorithm} {network}: {one.reason}" for one in record.absent
            ]
        notes += slower_than_eager(made, network)
        cores = f"{chosen.cores} core{'s' if chosen.cores > 1 else ''}"
        report(f"contestants-{network}", f"µs per call, and ratio to NumPy: {network}, {cores}", made)
    for note in notes:
        print(note)
    print("host arrays in; act: actions out; update: to the end of its work; medians over rounds")


def measured(contestants: tuple[str, ...], network: str, algorithm: str, cores: int) -> NetsRecord:
    net, act_rows, update_rows = NETS[network]
    benchmark = Benchmark(
        contestants,
        (net,),
        algorithm,
        cores=cores,
        act_rows=act_rows,
        update_rows=update_rows,
        copies=(PAGEABLE,),
        rounds=ROUNDS,
        seconds=SECONDS,
        together=TOGETHER.get(algorithm, 1),
    )
    with tempfile.TemporaryDirectory() as home:
        return run(benchmark, Path(home) / "nets.json", lambda line: print(algorithm, line, file=sys.stderr))


def table(record: NetsRecord, algorithm: str) -> list[dict[str, Any]]:
    rounds = {(one.contestant, one.kind): seconds_by_round(one.rounds) for one in record.measurements}
    rows: dict[str, dict[str, Any]] = {}
    for figure in sorted(figures(record), key=lambda one: (one.kind.measure, one.kind.rows)):
        name, kind = figure.contestant, figure.kind
        row = rows.setdefault(name, {"algorithm": algorithm, "contestant": name})
        row[f"{kind.measure}_{kind.rows}"] = figure.seconds.point * 1e6
        row[f"× {kind.measure}_{kind.rows}"] = ratio(rounds[name, kind], rounds[BASE, kind]).point
    order = list(next(iter(rows.values())))
    return sorted(rows.values(), key=lambda row: float(row[order[-1]]))


def slower_than_eager(rows: Iterable[Mapping[str, Any]], network: str) -> list[str]:
    """No compiled mode should be slower than its eager mode."""
    rows = list(rows)
    eager = {
        (row["algorithm"], row["contestant"].split(":")[0]): row
        for row in rows
        if row["contestant"].endswith(":eager")
    }
    lines = []
    for row in rows:
        base = eager.get((row["algorithm"], row["contestant"].split(":")[0]), row)
        worse = [
            f"{name.removeprefix('× ').replace('_', ' ')} {value / base[name]:.2f}×"
            for name, value in row.items()
            if name.startswith("× ") and value > ALLOWED * base[name]
        ]
        if worse:
            lines.append(
                f"slower than eager: {row['contestant']} {row['algorithm']} {network}: {', '.join(worse)}"
            )
    return lines


if __name__ == "__main__":
    main()
