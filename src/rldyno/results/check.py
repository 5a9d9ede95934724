"""Everything that is wrong with a results directory, without changing it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rldyno.errors import Problem
from rldyno.probe.metrics import sample_columns
from rldyno.proofs.certificate import read_certificates
from rldyno.records.attempts import ATTEMPTS
from rldyno.records.calibrations import CALIBRATIONS_FILE, read_calibrations
from rldyno.records.csv_files import Columns, read_csvs
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import is_temporary
from rldyno.records.manifest import Manifest
from rldyno.records.trial_records import read_trial_records
from rldyno.study.recorded import recorded_study
from rldyno_rig import schema


def check_directory(root: Path) -> list[str]:
    """One sentence for each flaw; empty when there is none."""
    directory = ResultsDirectory(root)
    try:
        manifest = directory.read_manifest()
    except Problem as problem:
        return [problem.message]
    flaws: list[str] = []
    read_certificates(directory.certificates, flaws)
    flaws += _study_flaws(directory, manifest)
    flaws += _calibration_flaws(root / CALIBRATIONS_FILE)
    for trial in manifest.trials:
        flaws += read_trial_records(directory.trial(trial)).flaws
    flaws += _series_flaws(directory, manifest)
    flaws += _strangers(directory, manifest)
    return flaws


def _study_flaws(directory: ResultsDirectory, manifest: Manifest) -> list[str]:
    note = recorded_study(directory, manifest).note
    if directory.study.is_symlink():
        note = f"{directory.study} is a link, which is not followed"
    elif manifest.study_text and not directory.study.is_file():
        note = note or f"{directory.study} is missing; it is only a copy, and the next run writes it"
    return [note] if note else []


def _calibration_flaws(path: Path) -> list[str]:
    """Trials run without it; noise scores of a directory with a damaged one are those of each trial alone."""
    try:
        read_calibrations(path)
    except Problem as problem:
        return [problem.message] if path.exists() or path.is_symlink() else []
    return []


def _series_flaws(directory: ResultsDirectory, manifest: Manifest) -> Iterator[str]:
    """Damaged lines; what a hash already named is named twice, with the line."""
    files: dict[str, Columns] = {
        schema.EPISODES_FILE: schema.EPISODE_COLUMNS,
        schema.PROGRESS_FILE: schema.PROGRESS_COLUMNS,
        schema.SAMPLES_FILE: sample_columns(),
    }
    for name, columns in files.items():
        paths = [directory.trial(trial) / name for trial in manifest.trials]
        yield from (problem.message for problem in read_csvs(paths, columns)[2])


def _strangers(directory: ResultsDirectory, manifest: Manifest) -> Iterator[str]:
    """Directories that are no trial of the study, and what a killed run left half done."""
    known = set(manifest.trials)
    if directory.trials.is_dir():
        for path in sorted(directory.trials.iterdir()):
            if path.name not in known:
                yield f"{path} is no trial of the manifest"
    for path in directory.root.glob("**/.*"):
        if is_temporary(path) or path.parent.name == ATTEMPTS:
            yield f"{path} was left by a run that was killed; the next run removes it"
