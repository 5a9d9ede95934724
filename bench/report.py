"""`make bench-report`: how long does the report of ten thousand trials take?

Synthetic records: 5 contestants × 2 algorithms × 5 tasks × 4 numbers of cores × 5 discounts × 10 seeds.
The report is written in a process of its own, whose time and peak memory are those that a user would see.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import HOME, report

sys.path.insert(0, str(HOME / "tests"))

from synthetic import ZOO, Shape, write_results

GOALS = {"seconds": 30.0, "peak_memory_mib": 2048.0, "html_mb": 15.0}
SHAPE = Shape(
    contestants=[contestant for contestant in ZOO if contestant.outcome == "done"][:5],
    environments=[f"Task{number}-v0" for number in range(1, 6)],
    cores=(1, 2, 4, 8),
    hyper={"gamma": [0.9, 0.95, 0.97, 0.98, 0.99]},
    seeds=10,
    limits=True,
)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="rldyno-bench-") as home:
        started = time.monotonic()
        directory = write_results(Path(home) / "results", SHAPE)
        print(f"wrote 10,000 synthetic trials in {time.monotonic() - started:.0f} s", flush=True)
        figures = measure(directory)
    missed = [name for name, goal in GOALS.items() if figures[name] > goal]
    verdict = "missed: " + ", ".join(missed) if missed else "yes"
    goals = ", ".join(f"{name} ≤ {goal:g}" for name, goal in GOALS.items())
    report("report", "report of 10,000 trials", [{**figures, "within_goals": verdict}], [f"goals: {goals}"])


def measure(directory: Path) -> dict[str, float]:
    started = time.monotonic()
    command = [sys.executable, "-m", "rldyno", "report", str(directory)]
    subprocess.run(command, check=True, capture_output=True)
    seconds = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": seconds,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak_memory_mib": used.ru_maxrss / 1024,
        "html_mb": (directory / "report.html").stat().st_size / 1e6,
    }


if __name__ == "__main__":
    main()
