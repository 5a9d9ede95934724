"""calibrations.json of a results directory: the shortest calibration of each machine so far.

The lab updates it from outcomes and puts it into the trial.json of the trials that follow, so that a trial
never reads outside its own directory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from rldyno.errors import Problem
from rldyno.records.attempts import ATTEMPTS
from rldyno.records.files import read_json, write_json
from rldyno.records.outcome import Outcome
from rldyno.records.trial_records import read_outcome
from rldyno_rig.schema import OUTCOME_FILE

CALIBRATIONS_FILE = "calibrations.json"

BestCalibrations = dict[str, int]
"""Machine (hash of its name) → shortest calibration in nanoseconds."""


def best_calibrations(root: Path) -> BestCalibrations:
    """Of a results directory; empty where none were kept."""
    with contextlib.suppress(Problem):
        kept = read_json(root / CALIBRATIONS_FILE)
        return {host: ns for host, ns in kept.items() if isinstance(ns, int) and ns > 0}
    return {}


def collect_calibrations(root: Path) -> BestCalibrations:
    """With the outcomes of all attempts: trials that were started by hand have not updated the file."""
    paths = [
        *root.glob(f"trials/*/{OUTCOME_FILE}"),
        *root.glob(f"trials/*/{ATTEMPTS}/*/{OUTCOME_FILE}"),
    ]
    return with_outcomes(best_calibrations(root), _readable(paths))


def with_outcomes(best: BestCalibrations, outcomes: Iterable[Outcome]) -> BestCalibrations:
    """The best calibrations when these outcomes are counted, too."""
    found = dict(best)
    for outcome in outcomes:
        noise = outcome.noise
        if noise and noise.host and noise.calibration_ns:
            found[noise.host] = min(noise.calibration_ns, found.get(noise.host, noise.calibration_ns))
    return found


def write_calibrations(root: Path, best: BestCalibrations) -> None:
    write_json(root / CALIBRATIONS_FILE, dict(best))


def _readable(paths: Iterable[Path]) -> Iterable[Outcome]:
    for path in paths:
        with contextlib.suppress(Problem):
            yield read_outcome(path.parent)
