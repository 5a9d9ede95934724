"""Kills commands at every change of a file: `python tests/crash_points.py --help`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import crash_proofs
import crash_sessions as sessions
import crash_setup
import crash_sharing as sharing
import crash_trial
from crash import SAMPLED, Case, try_points

CASES: dict[str, Callable[[Path], Case]] = {
    "run": sessions.plain,
    "max-noise": sessions.max_noise,
    "resume-early": lambda folder: sessions.resume(folder, 0.5),
    "resume-late": lambda folder: sessions.resume(folder, 0.8),
    "adaptive": sessions.adaptive,
    "trial": crash_trial.trial,
    "proof": crash_proofs.proof,
    "pack": sharing.packing,
    "unpack": sharing.unpacking,
    "bisect": sharing.bisecting,
    "setup": crash_setup.setup,
    "setup-again": lambda folder: crash_setup.again(folder, crash_setup.lose_package),
}


def try_case(name: str, everywhere: bool) -> bool:
    """True when no point is bad."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, sessions.known_machine():
        result = try_points(CASES[name](Path(folder)), Path(folder), everywhere)
    print(
        f"{name}: killed at {result.tried} of {result.points} changes of a file, "
        f"{len(result.bad)} flaws, {time.monotonic() - began:.0f} s",
        flush=True,
    )
    for flaw in result.bad[:50]:
        print(f"  {flaw}")
    return not result.bad and result.tried >= min(SAMPLED, result.points) > 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], help="by default all")
    parser.add_argument("--all", action="store_true", help="every point, not a sample of them")
    given = parser.parse_args()
    good = [try_case(name, given.all) for name in given.cases or CASES]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
