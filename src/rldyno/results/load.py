"""A results directory as tables: one row per trial, and its series on demand."""

from __future__ import annotations

import json
import os
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from rldyno.columns import Kind
from rldyno.errors import Problem
from rldyno.limits.trials import MachineLimits
from rldyno.machine.noise import rescored
from rldyno.probe.metrics import sample_columns
from rldyno.proofs.certificate import (
    A_GUEST,
    GUEST,
    Certificate,
    Subject,
    Validity,
    read_certificates,
    trial_validity,
)
from rldyno.records.calibrations import BestCalibrations, known_calibrations
from rldyno.records.csv_files import read_csv
from rldyno.records.directory import ResultsDirectory, run_command
from rldyno.records.files import printable
from rldyno.records.machine_facts import MachineFacts
from rldyno.records.manifest import Manifest
from rldyno.records.outcome import Outcome
from rldyno.records.status import PENDING
from rldyno.records.trial_records import read_trial_records
from rldyno.results.columns import COLUMNS
from rldyno.results.order import in_study_order
from rldyno.results.rows import Row, RowReader
from rldyno.results.trial_columns import ATARI
from rldyno.study.recorded import recorded_study
from rldyno_rig import schema
from rldyno_rig.facts_file import WorkerFacts
from rldyno_rig.guest.file import GUEST as GUEST_FRAMEWORK
from rldyno_rig.hyper import network_kind
from rldyno_rig.trial_file import TrialFile

# What makes two trials comparable. Hyper-parameters that vary are appended as `hyper.<name>`.
AXES = (
    "division",
    "algorithm",
    "environment",
    "max_episode_steps",
    *(column.name for column in ATARI),
    "device",
    "cores",
    "workers",
    "collective",
    "scaling",
    "dtype",
    "caches",
)

PROCESSOR = "processor"
"""Its model: the kind of a machine; with the GPU's where trials used several models of it."""
GPU_TOTAL = "gpu_memory_total_bytes"
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
    """The study that ran, as a study file; empty when an older record has lost it."""
    study_note: str
    """That the copy of the study in the directory was edited, or cannot be checked; else empty."""
    manifest: Manifest
    trials: pl.DataFrame
    facts: Mapping[str, WorkerFacts]
    """facts.json of one trial per contestant."""
    versions: Mapping[str, tuple[Mapping[str, str], ...]]
    """The distinct sets of package versions, Python's included, that a contestant's trials ran with."""
    codes: Mapping[str, tuple[Mapping[str, str], ...]]
    """The distinct sets of code, as hashes of backend, reference and rig, that they ran."""
    hypers: Mapping[str, Mapping[str, Any]]
    """Trial → all its hyper-parameters; those that vary are columns of `trials` too."""
    reasons: Mapping[str, Mapping[str, str]]
    """Trial → column → why it is empty, for every figure of ended trials."""
    certificates: tuple[Certificate, ...]
    pending: tuple[str, ...]
    """Planned trials that have not ended, in the order of the plan."""
    flaws: tuple[str, ...]
    """What is wrong with records, one sentence each. Trials and certificates with a flaw do not count."""

    @property
    def axes(self) -> tuple[str, ...]:
        """What trials of one comparison have in common. Machines of several kinds are never pooled."""
        varied = tuple(name for name in self.trials.columns if name.startswith("hyper."))
        kinds = self.trials[PROCESSOR].drop_nulls().n_unique()
        return AXES + varied + ((PROCESSOR,) if kinds > 1 else ())

    @property
    def ended(self) -> pl.DataFrame:
        return self.trials.filter(pl.col("status") != PENDING)

    def why_empty(self, column: str, trials: Iterable[str] | None = None) -> str | None:
        """What most of these trials, or of all, say of why they have no such figure; None if none says."""
        chosen = self.reasons if trials is None else trials
        said = Counter(why for trial in chosen if (why := self.reasons.get(trial, {}).get(column)))
        return said.most_common(1)[0][0] if said else None

    def episodes(self, trial: str) -> pl.DataFrame:
        return read_csv(self._file(trial, schema.EPISODES_FILE), schema.EPISODE_COLUMNS)

    def progress(self, trial: str) -> pl.DataFrame:
        return read_csv(self._file(trial, schema.PROGRESS_FILE), schema.PROGRESS_COLUMNS)

    def samples(self, trial: str) -> pl.DataFrame:
        return read_csv(self._file(trial, schema.SAMPLES_FILE), sample_columns())

    def _file(self, trial: str, name: str) -> Path:
        return ResultsDirectory(self.directory).trial(trial) / name


def nothing_to_answer_from(directory: Path, flaws: Sequence[str]) -> Problem:
    if flaws:
        return Problem(
            f"no trial in {directory} has records that can be used: there is nothing to answer from",
            detail="\n".join(flaws[:5]),
            fix=f"see all that is wrong: rldyno check {directory}",
            code=1,
        )
    return Problem(
        f"no trial in {directory} has ended yet: there is nothing to answer from",
        fix=f"run the study to its end, or at least its first trials: {run_command(directory)}",
        code=1,
    )


def load_results(directory: Path) -> Results:
    """Read everything but the series. A half-done directory is read as far as it goes."""
    paths = ResultsDirectory(directory)
    manifest = paths.read_manifest()
    flaws: list[str] = []
    certificates = read_certificates(paths.certificates, flaws)
    recorded = recorded_study(paths, manifest)
    planned = manifest.trials
    records = {trial: read_trial_records(paths.trial(trial)) for trial in planned}
    best = known_calibrations(directory, [found.outcome for found in records.values() if found.outcome])
    table = _TableBuilder(certificates, manifest, best)
    flaws += [flaw for found in records.values() for flaw in found.flaws]
    requested = {trial: found.file for trial, found in records.items() if found.file is not None}
    for trial in in_study_order(requested, study_values(recorded.text)):
        try:
            table.add(trial, requested[trial], records[trial].facts, records[trial].outcome)
        except Problem as problem:
            flaws.append(f"{paths.trial(trial) / schema.OUTCOME_FILE} is damaged: {problem.message}")
            table.add(trial, requested[trial], records[trial].facts, None)
    ended = {row["trial"] for row in table.rows if row["status"] != PENDING}
    if not ended:
        raise nothing_to_answer_from(directory, flaws)
    return Results(
        directory=directory,
        title=study_title(recorded.text) or directory.resolve().name,
        study=recorded.text,
        study_note=recorded.note,
        manifest=manifest,
        trials=trials_frame(table.rows, list(table.hypers.values())),
        facts=table.facts,
        hypers=table.hypers,
        versions={name: tuple(found) for name, found in table.versions.items()},
        codes={name: tuple(found) for name, found in table.codes.items()},
        reasons=table.reasons,
        certificates=ordered_certificates(certificates, table.rows),
        pending=tuple(trial for trial in planned if trial not in ended),
        flaws=tuple(printable(flaw.replace(f"{directory}{os.sep}", "")) for flaw in flaws),
    )


class _TableBuilder:
    """The rows of the result table, and what else is kept of each trial."""

    def __init__(
        self, certificates: Iterable[Certificate], manifest: Manifest, best: BestCalibrations
    ) -> None:
        self._reader = RowReader(COLUMNS.values())
        self._limits, self._best_calibrations = MachineLimits(manifest.limits), best
        self._machine = manifest.machine
        self._certificates: dict[Subject, list[Certificate]] = defaultdict(list)
        for certificate in certificates:
            self._certificates[certificate.subject].append(certificate)
        self.rows: list[Row] = []
        self.hypers: dict[str, Mapping[str, Any]] = {}
        self.facts: dict[str, WorkerFacts] = {}
        self.reasons: dict[str, dict[str, str]] = {}
        self.versions: dict[str, list[dict[str, str]]] = defaultdict(list)
        self.codes: dict[str, list[dict[str, str]]] = defaultdict(list)

    def add(
        self, trial: str, requested: TrialFile, facts: WorkerFacts | None, outcome: Outcome | None
    ) -> None:
        row = self._reader.settings(trial, requested)
        if outcome is not None:
            rescored_outcome = with_noise_rescored(outcome, self._best_calibrations)
            row, self.reasons[trial] = self._reader.measured(row, rescored_outcome)
        row |= self._limits.figures(requested, facts, row)
        row[GPU_TOTAL] = gpu_memory_total(self._machine, requested, row.get(PROCESSOR))
        if outcome is not None:
            self.reasons[trial] |= self._limits.reasons(row)
            self.reasons[trial] |= {} if row[GPU_TOTAL] else {GPU_TOTAL: COLUMNS[GPU_TOTAL].missing}
        row["certificate"], row["certificate_detail"] = self._validity(requested, facts)
        self.rows.append(row)
        self.hypers[trial] = requested.hyper
        if facts is not None:
            self._add_facts(str(requested.contestant), facts)

    def _validity(self, requested: TrialFile, facts: WorkerFacts | None) -> Validity:
        if requested.framework == GUEST_FRAMEWORK:
            return Validity(GUEST, A_GUEST)
        return trial_validity(self._certificates, subject_of(requested), facts, team_of(requested))

    def _add_facts(self, contestant: str, facts: WorkerFacts) -> None:
        self.facts.setdefault(contestant, facts)
        ran_with = {"python": facts.python or "unknown", **facts.versions}
        if ran_with not in self.versions[contestant]:
            self.versions[contestant].append(ran_with)
        hashes = (facts.backend_sha256, facts.reference_sha256, facts.rig_sha256)
        ran = {name: found for name, found in zip(CODE, hashes, strict=True) if found}
        if ran not in self.codes[contestant]:
            self.codes[contestant].append(ran)


def gpu_memory_total(machine: MachineFacts, trial: TrialFile, processor: str | None) -> int | None:
    """Of the trial's GPUs, one for each worker unless they share one; None where it is not certain."""
    sizes = {gpu.memory_total_bytes for gpu in machine.gpus}
    (size,) = sizes if len(sizes) == 1 else (None,)
    if trial.device == "cpu" or size is None or processor not in (None, machine.cpu):
        return None
    return size if trial.share_gpu else size * trial.workers


def with_noise_rescored(outcome: Outcome, best: BestCalibrations) -> Outcome:
    """With the noise score that follows from all trials of the directory, not only from those before it."""
    noise = outcome.noise
    if noise is None or noise.host not in best:
        return outcome
    return replace(outcome, noise=rescored(noise, best))


def trials_frame(rows: list[Row], hypers: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    columns = {name: DTYPES[column.kind] for name, column in COLUMNS.items()}
    frame = pl.from_dicts(rows, schema=columns, strict=False)
    if frame["gpu_model"].drop_nulls().n_unique() > 1:
        with_gpu = pl.concat_str(PROCESSOR, "gpu_model", separator=", ", ignore_nulls=True)
        frame = frame.with_columns(
            pl.when(pl.col(PROCESSOR).is_null()).then(None).otherwise(with_gpu).alias(PROCESSOR)
        )
    for name, values in varying_hypers(rows, hypers).items():
        frame = frame.with_columns(pl.Series(f"hyper.{name}", values, strict=False))
    return frame


def varying_hypers(rows: list[Row], hypers: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
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


def subject_of(requested: TrialFile) -> Subject:
    network = network_kind(requested.hyper.get("convolutions") or ())
    return Subject(requested.contestant, requested.algorithm, network, requested.device)


def team_of(requested: TrialFile) -> Subject | None:
    """What must be proven of a team; None for one worker."""
    if requested.workers == 1:
        return None
    return subject_of(requested).in_a_team(requested.collective, share_gpu=requested.share_gpu)


def ordered_certificates(found: Iterable[Certificate], rows: Iterable[Row]) -> tuple[Certificate, ...]:
    """In the order of their trials: by algorithm, then by contestant."""
    algorithms: dict[str, int] = {}
    contestants: dict[str, int] = {}
    for row in rows:
        algorithms.setdefault(row["algorithm"], len(algorithms))
        contestants.setdefault(row["contestant"], len(contestants))

    def place(certificate: Certificate) -> tuple[int, int]:
        algorithm, contestant = certificate.subject.algorithm, certificate.contestant
        return (
            algorithms.get(algorithm, len(algorithms)),
            contestants.get(contestant, len(contestants)),
        )

    return tuple(sorted(found, key=place))


def study_values(study: str) -> dict[str, Any]:
    """The keys of a study file; none where it is missing or damaged."""
    try:
        return tomllib.loads(study)
    except tomllib.TOMLDecodeError:
        return {}


def study_title(study: str) -> str | None:
    raw = study_values(study)
    title = raw.get("title") or raw.get("name")
    return title if isinstance(title, str) else None
