"""`make bench-contestants`: microseconds per act and per update of every contestant, side by side.

The shapes of a training run, timed as `rldyno nets` does it: all contestants are warm; each is measured in
turn, in random order, on one core, while the others sleep. Ratios are to the fastest and to NumPy of the
same round.

    python bench/contestants.py [--networks mlp,cnn] [--algorithms dqn,ppo] [--contestants torch:eager,…]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import report
from rldyno.nets.figures import figures, ratio, seconds_by_round
from rldyno.nets.measure import run
from rldyno.nets.record import NetsRecord
from rldyno.nets.work import ACT, PAGEABLE, UPDATE, UPDATES, Benchmark, Net
from rldyno.toolchains.contestants import chosen_contestants
from rldyno_rig import hyper
from rldyno_rig.algorithms import ALGORITHMS

ROUNDS = 5
SECONDS = 0.3
BASE = "numpy:eager"
NETS = {
    "mlp": (Net("mlp", (4,), 2, (), (128, 128)), 1, 32),
    "cnn": (Net("cnn", (4, 84, 84), 6, hyper.CNN_SMALL, (256,)), 16, 128),
}
"""Network, rows of an act, rows of an update."""
TOGETHER = {"ppo": 16}
"""Updates that a loop makes at once: `updates`, per update."""


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--networks", default=",".join(NETS))
    options.add_argument("--algorithms", default=",".join(ALGORITHMS))
    options.add_argument("--contestants", default="")
    chosen = options.parse_args()
    names = chosen_contestants(filter(None, chosen.contestants.split(",")), "cpu")
    contestants = tuple(dict.fromkeys([BASE, *names]))
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for network in chosen.networks.split(","):
        for algorithm in chosen.algorithms.split(","):
            record = measured(contestants, network, algorithm)
            rows += table(record, network, algorithm)
            notes += [
                f"absent: {one.contestant} {algorithm} {network}: {one.reason}" for one in record.absent
            ]
    notes.append("host arrays in; act: actions out; update: not waited for; one core, means over rounds")
    report("contestants", "time per act and update", rows, notes)


def measured(contestants: tuple[str, ...], network: str, algorithm: str) -> NetsRecord:
    net, act_rows, update_rows = NETS[network]
    benchmark = Benchmark(
        contestants,
        (net,),
        algorithm,
        act_rows=(act_rows,),
        update_rows=(update_rows,),
        copies=(PAGEABLE,),
        rounds=ROUNDS,
        seconds=SECONDS,
        together=TOGETHER.get(algorithm, 1),
    )
    with tempfile.TemporaryDirectory() as home:
        return run(benchmark, Path(home) / "nets.json", lambda line: print(algorithm, line, file=sys.stderr))


def table(record: NetsRecord, network: str, algorithm: str) -> list[dict[str, Any]]:
    rounds = {(one.contestant, one.kind.measure): seconds_by_round(one.rounds) for one in record.measurements}
    rows: dict[str, dict[str, Any]] = {}
    for measure in (UPDATE, UPDATES, ACT):
        for figure in figures(record):
            if figure.kind.measure == measure:
                name = figure.contestant
                row = rows.setdefault(name, {"network": network, "algorithm": algorithm, "contestant": name})
                row[f"{measure}_us"] = figure.seconds.point * 1e6
                row[f"{measure}_to_fastest"] = figure.ratio.point
                row[f"{measure}_to_numpy"] = ratio(rounds[name, measure], rounds[BASE, measure]).point
    return sorted(rows.values(), key=lambda row: row["update_us"])


if __name__ == "__main__":
    main()
