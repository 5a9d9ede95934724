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
from rldyno.records.outcome import Outcome
from rldyno.records.seal import read_record, write_record
from rldyno.records.trial_records import read_outcome
from rldyno.records.typed import damaged
from rldyno_rig.schema import OUTCOME_FILE

CALIBRATIONS_FILE = "calibrations.json"

BestCalibrations = dict[str, int]
"""Machine (hash of its name) → shortest calibration in nanoseconds."""


def best_calibrations(root: Path) -> BestCalibrations:
    """Of a results directory; empty where none were kept."""
    with contextlib.suppress(Problem):
        return read_calibrations(root / CALIBRATIONS_FILE)
    return {}


def read_calibrations(path: Path) -> BestCalibrations:
    """A Problem when the file is missing, damaged or altered."""
    kept = read_record(path)
    found = kept.get("best_ns", kept)  # older files hold nothing else
    if not isinstance(found, dict):
        raise damaged(path, "`best_ns` is no object")
    return {host: ns for host, ns in found.items() if type(ns) is int and 0 < ns < 2**63}


def collect_calibrations(root: Path) -> BestCalibrations:
    """With the outcomes of all attempts: trials that were started by hand have not updated the file."""
    return with_outcomes(known_calibrations(root, ()), _readable(root.glob(f"trials/*/{OUTCOME_FILE}")))


def known_calibrations(root: Path, outcomes: Iterable[Outcome]) -> BestCalibrations:
    """Those of the file, of these outcomes and of attempts put aside: a lost file changes no noise score."""
    aside = _readable(root.glob(f"trials/*/{ATTEMPTS}/*/{OUTCOME_FILE}"))
    return with_outcomes(best_calibrations(root), (*outcomes, *aside))


def with_outcomes(best: BestCalibrations, outcomes: Iterable[Outcome]) -> BestCalibrations:
    """The best calibrations when these outcomes are counted, too."""
    found = dict(best)
    for outcome in outcomes:
        noise = outcome.noise
        if noise and noise.host and noise.calibration_ns:
            found[noise.host] = min(noise.calibration_ns, found.get(noise.host, noise.calibration_ns))
    return found


def write_calibrations(root: Path, best: BestCalibrations) -> None:
    write_record(root / CALIBRATIONS_FILE, {"best_ns": dict(best)})


def _readable(paths: Iterable[Path]) -> Iterable[Outcome]:
    for path in paths:
        with contextlib.suppress(Problem):
            yield read_outcome(path.parent)
