"""Damaged and forged records and packs, and wild studies, through commands: `python tests/fuzz.py --help`.

Each case changes something and runs the commands as a user would, in this process. Exit codes and messages
are right; tracebacks are not, nor long waits, nor an answer that counts an altered trial. `make fuzz` runs
many cases, the unit tests few. Case n of a seed is the same on every machine, whatever the jobs:
`--first n --count 1 --jobs 0` repeats it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from fuzz_calls import Report, without_training
from fuzz_packs import PackFuzzer
from fuzz_records import Originals, RecordFuzzer, make_originals
from fuzz_studies import StudyFuzzer

KINDS = ("records", "studies", "packs")
CHUNK = 25
SHOWN = 500
THREADS = (
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)


@functools.cache
def fuzzer(kind: str, folder: Path, through: int) -> RecordFuzzer | StudyFuzzer | PackFuzzer:
    """One for each process, which works in a folder of its own below `folder`."""
    home = folder / f"job-{os.getpid()}-{kind}"
    made: RecordFuzzer | StudyFuzzer | PackFuzzer
    match kind:
        case "records":
            made = RecordFuzzer(Originals(folder), home, through)
        case "packs":
            made = PackFuzzer(Originals(folder), home)
        case _:
            made = StudyFuzzer(home)
    made.warm_up()
    return made


def run_cases(kind: str, folder: Path, first: int, count: int, seed: int, through: int = 0) -> Report:
    """Case `first` and those after it. `folder` has the originals."""
    report = Report()
    with without_training():
        case = fuzzer(kind, folder, through).case
        for number in range(first, first + count):
            case(number, seed, report)
    return report


def fuzz(kind: str, folder: Path, first: int, count: int, seed: int, jobs: int, through: int = 0) -> Report:
    """With so many processes; 0: in this one."""
    if kind != "studies":
        make_originals(folder)
    if jobs == 0:
        return run_cases(kind, folder, first, count, seed, through)
    report = Report()
    with contextlib.suppress(KeyboardInterrupt):  # what has run counts
        for one in _in_parallel(kind, folder, range(first, first + count), seed, jobs, through):
            report.add(one)
            for failure in one.failures[:SHOWN]:  # now: a long run may be stopped before its end
                print(f"\nFAILED {failure}", file=sys.stderr)
            print(f"\r{kind}: {report.cases:,} of {count:,} cases", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return report


def _in_parallel(
    kind: str, folder: Path, cases: range, seed: int, jobs: int, through: int
) -> Iterator[Report]:
    os.environ.update(dict.fromkeys(THREADS, "1"))
    context = multiprocessing.get_context("spawn")
    # Ctrl-C reaches the processes of the pool too: they finish the cases that they have.
    pool = ProcessPoolExecutor(jobs, context, signal.signal, (signal.SIGINT, signal.SIG_IGN))
    parts = [cases[place : place + CHUNK] for place in range(0, len(cases), CHUNK)]
    futures = [pool.submit(run_cases, kind, folder, part[0], len(part), seed, through) for part in parts]
    try:
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        ended = Report()
        were_at = [path.read_text() for path in sorted(folder.glob("job-*/now"))]
        ended.failures.append("a process was killed or crashed; the jobs were at: " + "; ".join(were_at))
        yield ended
    finally:
        pool.shutdown(cancel_futures=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=[*KINDS, "all"])
    parser.add_argument("--count", type=int, default=1000, help="cases of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes; by default one per CPU"
    )
    parser.add_argument(
        "--through",
        type=int,
        default=0,
        help="reading commands for each damaged record, drawn by lot; 0: all",
    )
    parser.add_argument(
        "--folder", type=Path, help="work here, and use the undamaged records of an earlier run"
    )
    given = parser.parse_args()
    failed = 0
    for kind in KINDS if given.what == "all" else [given.what]:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
            folder = given.folder or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
            report = fuzz(kind, folder, given.first, given.count, given.seed, given.jobs, given.through)
        minutes = (time.monotonic() - began) / 60
        print(f"{kind}: seed {given.seed}, {given.jobs} jobs, {minutes:.1f} minutes: {report}")
        for failure in report.failures[:SHOWN]:
            print(f"  FAILED {failure}")
        failed += len(report.failures)
        if report.cases < given.count:
            print(f"  STOPPED before its {given.count:,} cases")
            return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
