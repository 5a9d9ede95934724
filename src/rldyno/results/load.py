"""A results directory as tables: one row per trial, and its series on demand."""

from __future__ import annotations

import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rldyno.columns import Kind
from rldyno.errors import Problem
from rldyno.limits.trials import MachineLimits
from rldyno.machine.noise import judged_by, quickest_calibrations
from rldyno.probe.metrics import sample_columns
from rldyno.proofs.certificate import ABSENT as ABSENT
from rldyno.proofs.certificate import FAILED as FAILED
from rldyno.proofs.certificate import STALE as STALE
from rldyno.proofs.certificate import VALID as VALID
from rldyno.proofs.certificate import Certificate, Code, Subject, best_validity, read_certificates
from rldyno.records import files as records
from rldyno.records.files import Json
from rldyno.results.columns import COLUMNS
from rldyno.results.rows import PENDING, RowReader
from rldyno_rig import schema
from rldyno_rig.hyper import network_kind

# What makes two trials comparable. Hyper-parameters that vary are appended as `hyper.<name>`.
AXES = (
    "division",
    "algorithm",
    "environment",
    "max_episode_steps",
    "device",
    "cores",
    "workers",
    "dtype",
)

CODE = ("backend", "reference", "rig")

DTYPES: Mapping[Kind, type[pl.DataType]] = {
    int: pl.Int64,
    float: pl.Float64,
    str: pl.String,
    bool: pl.Boolean,
}


@dataclass(frozen=True)
class Results:
    directory: Path
    title: str
    study: str
    """The study file, verbatim; empty when it is missing."""
    manifest: Json
    trials: pl.DataFrame
    facts: Mapping[str, Json]
    """facts.json of one trial per contestant."""
    versions: Mapping[str, tuple[Mapping[str, str], ...]]
    """The distinct sets of package versions, Python's included, that a contestant's trials ran with."""
    codes: Mapping[str, tuple[Mapping[str, str], ...]]
    """The distinct sets of code, as hashes of backend, reference and rig, that they ran."""
    hypers: Mapping[str, Json]
    """Trial → all its hyper-parameters; those that vary are columns of `trials` too."""
    reasons: Mapping[str, Mapping[str, str]]
    """Trial → column → why it is empty, for every figure of ended trials."""
    certificates: tuple[Certificate, ...]
    pending: tuple[str, ...]
    """Planned trials that have not ended, in the order of the plan."""
    unreadable: tuple[str, ...]
    """Files that could not be read, relative to the directory."""

    @property
    def axes(self) -> tuple[str, ...]:
        return AXES + tuple(name for name in self.trials.columns if name.startswith("hyper."))

    @property
    def ended(self) -> pl.DataFrame:
        return self.trials.filter(pl.col("status") != PENDING)

    def why_empty(self, column: str, trials: Iterable[str] | None = None) -> str | None:
        """What most of these trials, or of all, say of why they have no such figure; None if none says."""
        chosen = self.reasons if trials is None else trials
        said = Counter(why for trial in chosen if (why := self.reasons.get(trial, {}).get(column)))
        return said.most_common(1)[0][0] if said else None

    def episodes(self, trial: str) -> pl.DataFrame:
        return records.read_csv(self._file(trial, schema.EPISODES_FILE), schema.EPISODE_COLUMNS)

    def progress(self, trial: str) -> pl.DataFrame:
        return records.read_csv(self._file(trial, schema.PROGRESS_FILE), schema.PROGRESS_COLUMNS)

    def samples(self, trial: str) -> pl.DataFrame:
        return records.read_csv(self._file(trial, schema.SAMPLES_FILE), sample_columns())

    def _file(self, trial: str, name: str) -> Path:
        return records.Results(self.directory).trial(trial) / name


def load_results(directory: Path) -> Results:
    """Read everything but the series. A half-done directory is read as far as it goes."""
    paths = records.Results(directory)
    manifest = paths.read_manifest().to_json()
    unreadable: list[str] = []

    def read(path: Path) -> Json | None:
        """The file's object; None when it is missing, and when it is damaged, which is noted."""
        try:
            return records.read_json(path)
        except Problem:
            if path.exists():
                unreadable.append(str(path.relative_to(directory)))
            return None

    certificates = read_certificates(paths.certificates, read)
    of_subject: dict[Subject, list[Certificate]] = defaultdict(list)
    for certificate in certificates:
        of_subject[certificate.subject].append(certificate)

    limits = MachineLimits(manifest.get("limits"))
    quickest = quickest_calibrations(directory)
    rows: list[Json] = []
    hypers: list[Json] = []
    facts_of: dict[str, Json] = {}
    reasons: dict[str, dict[str, str]] = {}
    versions: dict[str, list[dict[str, str]]] = defaultdict(list)
    codes: dict[str, list[dict[str, str]]] = defaultdict(list)
    reader = RowReader(COLUMNS.values())
    planned = paths.trial_ids()
    for trial in planned:
        home = paths.trial(trial)
        asked = read(home / schema.TRIAL_FILE)
        if asked is None:
            continue
        facts = read(home / schema.FACTS_FILE)
        outcome = with_noise_judged(read(home / schema.OUTCOME_FILE), quickest)
        row = reader.row(trial, asked, outcome)
        row |= limits.figures(asked, facts, row)
        if outcome is not None:
            reasons[trial] = reader.reasons(outcome, row) | limits.reasons(row)
        row["certificate"], row["certificate_detail"] = best_validity(
            of_subject[subject_of(asked)], None if facts is None else Code.from_json(facts)
        )
        if facts is not None:
            facts_of.setdefault(row["contestant"], facts)
            ran_with = {"python": facts.get("python"), **(facts.get("versions") or {})}
            if ran_with not in versions[row["contestant"]]:
                versions[row["contestant"]].append(ran_with)
            ran = {name: str(facts[f"{name}_sha256"]) for name in CODE if facts.get(f"{name}_sha256")}
            if ran not in codes[row["contestant"]]:
                codes[row["contestant"]].append(ran)
        rows.append(row)
        hypers.append(asked.get("hyper") or {})

    ended = {row["trial"] for row in rows if row["status"] != PENDING}
    if not ended:
        raise Problem(
            f"no trial in {directory} has ended yet: there is nothing to answer from",
            fix="run the study to its end, or at least its first trials: rldyno run STUDY",
            code=1,
        )
    study = read_text(paths.study)
    return Results(
        directory=directory,
        title=study_title(study) or directory.resolve().name,
        study=study,
        manifest=manifest,
        trials=trials_frame(rows, hypers),
        facts=facts_of,
        hypers={row["trial"]: values for row, values in zip(rows, hypers, strict=True)},
        versions={name: tuple(found) for name, found in versions.items()},
        codes={name: tuple(found) for name, found in codes.items()},
        reasons=reasons,
        certificates=certificates,
        pending=tuple(trial for trial in planned if trial not in ended),
        unreadable=tuple(unreadable),
    )


def with_noise_judged(outcome: Json | None, quickest: Mapping[str, int]) -> Json | None:
    """Its noise by what all trials of the directory tell, not only those before it."""
    if outcome is None or not outcome.get("noise"):
        return outcome
    return {**outcome, "noise": judged_by(outcome["noise"], quickest)}


def trials_frame(rows: list[Json], hypers: list[Json]) -> pl.DataFrame:
    columns = {name: DTYPES[column.kind] for name, column in COLUMNS.items()}
    frame = pl.from_dicts(rows, schema=columns, strict=False)
    for name, values in varying_hypers(rows, hypers).items():
        frame = frame.with_columns(pl.Series(f"hyper.{name}", values, strict=False))
    return frame


def varying_hypers(rows: list[Json], hypers: list[Json]) -> dict[str, list[Any]]:
    """The hyper-parameters that a study varies: those with two values within one algorithm and environment.

    Trials of a task in which a field does not vary have None there.
    """
    seen: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row, hyper in zip(rows, hypers, strict=True):
        for name, value in hyper.items():
            seen[row["algorithm"], row["environment"]][name].add(repr(value))
    varying: dict[str, list[Any]] = {}
    for task, fields in seen.items():
        for name in (name for name, values in fields.items() if len(values) > 1):
            column = varying.setdefault(name, [None] * len(rows))
            for index, (row, hyper) in enumerate(zip(rows, hypers, strict=True)):
                if (row["algorithm"], row["environment"]) == task and name in hyper:
                    value = hyper[name]
                    column[index] = json.dumps(value) if isinstance(value, list) else value
    return varying


def subject_of(asked: Json) -> Subject:
    network = network_kind((asked.get("hyper") or {}).get("convolutions") or ())
    return Subject.from_json({**asked, "network": network})


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def study_title(study: str) -> str | None:
    try:
        raw = tomllib.loads(study)
    except tomllib.TOMLDecodeError:
        return None
    title = raw.get("title") or raw.get("name")
    return title if isinstance(title, str) else None
