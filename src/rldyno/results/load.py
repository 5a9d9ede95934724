"""A results directory as tables: one row per trial, and its series on demand."""

from __future__ import annotations

import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rldyno.errors import Problem
from rldyno.limits.trials import MachineLimits
from rldyno.machine.noise import judged_by, quickest_calibrations
from rldyno.records import files as records
from rldyno.records.files import Json
from rldyno.results.measured_columns import MEASURED_COLUMNS, measured_row
from rldyno.results.missing import missing_reasons
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
VALID, STALE, ABSENT, FAILED = "valid", "stale", "absent", "failed"

TRIAL_COLUMNS: dict[str, tuple[type[pl.DataType], str]] = {
    "trial": (pl.String, "id of the trial, the name of its directory"),
    "contestant": (pl.String, "framework:mode"),
    "framework": (pl.String, "framework"),
    "mode": (pl.String, "execution mode of the framework"),
    "division": (
        pl.String,
        "closed: only the framework differs; open: each framework's best whole-loop form",
    ),
    "algorithm": (pl.String, "algorithm"),
    "environment": (pl.String, "environment id"),
    "max_episode_steps": (pl.Int64, "time limit of an episode; empty: the environment's own"),
    "device": (pl.String, "device"),
    "cores": (pl.Int64, "CPU cores the worker may use"),
    "workers": (pl.Int64, "data-parallel worker processes"),
    "dtype": (pl.String, "floating-point type of the network"),
    "seed": (pl.Int64, "seed"),
    "block": (pl.Int64, "randomised block the trial ran in"),
    "status": (pl.String, "done, failed, or pending: not ended yet"),
    "reason": (pl.String, "the budget that ended it, or why it failed"),
    "message": (pl.String, "one sentence"),
    "started_at": (pl.String, "ISO time of the worker's spawn"),
    "steps": (pl.Int64, "environment steps"),
    "episodes": (pl.Int64, "finished episodes"),
    "updates": (pl.Int64, "gradient updates"),
    "wall_s": (pl.Float64, "spawn to end of the worker"),
    **{f"startup_{part}_s": (pl.Float64, f"start-up: {part}") for part in schema.STARTUP},
    "startup_s": (pl.Float64, "spawn to the first training step"),
    "train_s": (pl.Float64, "training loop: the steady state"),
    "watched_s": (pl.Float64, "spawn to the end of training"),
    "learning_start_s": (
        pl.Float64,
        "start of training to the first update, where replay memory fills before it; else 0",
    ),
    "learning_start_steps": (pl.Int64, "environment steps until then"),
    "steps_per_s": (pl.Float64, "steps / train_s"),
    "updates_per_s": (pl.Float64, "updates / train_s"),
    "update_us": (pl.Float64, "transfer, update and read phases per update, in microseconds"),
    "update_floor_us": (pl.Float64, "the least time of one update on this machine: its arithmetic and bytes"),
    "update_floor_bound": (pl.String, "what sets the floor: arithmetic, memory or transfer"),
    "update_over_floor": (pl.Float64, "update_us / update_floor_us"),
    "environment_alone_steps_per_s": (pl.Float64, "steps per second of the environments without an agent"),
    "cpu_s": (pl.Float64, "user and system time of the worker's process tree"),
    "cpu_percent": (pl.Float64, "cpu_s / wall_s in percent of one core"),
    "peak_rss_bytes": (pl.Int64, "highest resident set of the process tree"),
    "baseline_rss_bytes": (pl.Int64, "resident set after importing the framework"),
    **{f"phase_{phase}_s": (pl.Float64, f"training time spent in: {phase}") for phase in schema.PHASES},
    "stop_return": (pl.Float64, "threshold: mean return to be reached"),
    "stop_episodes": (pl.Int64, "episodes the threshold's mean is taken over"),
    "threshold_reached": (pl.Boolean, "whether the threshold was reached; empty without one"),
    "threshold_s": (pl.Float64, "spawn to the threshold; empty when not reached (censored)"),
    "threshold_train_s": (pl.Float64, "first training step to the threshold"),
    "threshold_steps": (pl.Int64, "environment steps to the threshold"),
    "threshold_episodes": (pl.Int64, "episodes to the threshold"),
    "final_return": (pl.Float64, "mean return of the last 100 episodes"),
    "noise_score": (pl.Float64, "how disturbed the machine was; higher is worse"),
    "calibration_ns": (pl.Int64, "time a fixed piece of work took right before the trial"),
    "probe_core_percent": (pl.Float64, "cost of watching, in percent of one core"),
    **{name: (column.dtype, column.meaning) for name, column in MEASURED_COLUMNS.items()},
    "warnings": (pl.String, "what a reader of the figures must know: a leak, for instance"),
    "certificate": (pl.String, "valid, stale, absent or failed"),
    "certificate_detail": (pl.String, "why the certificate is not valid"),
    "log_tail": (pl.String, "last lines of a failed worker's log"),
}


@dataclass(frozen=True)
class Certificate:
    """Proof that a contestant computes what the reference computes, for one algorithm and network."""

    contestant: str
    algorithm: str
    network: str
    device: str
    passed: bool
    backend_sha256: str
    reference_sha256: str
    versions: Mapping[str, str]
    rungs: tuple[Json, ...]
    error: str | None
    """Why the proof could not be finished."""
    made_at: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.contestant, self.algorithm, self.network, self.device)


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
        return self.trials.filter(pl.col("status") != "pending")

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
        return records.read_csv(self._file(trial, schema.SAMPLES_FILE), schema.SAMPLE_COLUMNS)

    def _file(self, trial: str, name: str) -> Path:
        return records.Results(self.directory).trial(trial) / name


def load_results(directory: Path) -> Results:
    """Read everything but the series. A half-done directory is read as far as it goes."""
    paths = records.Results(directory)
    manifest = paths.read_manifest()
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
    by_key: dict[tuple[str, str, str, str], list[Certificate]] = defaultdict(list)
    for certificate in certificates:
        by_key[certificate.key].append(certificate)

    limits = MachineLimits(manifest.get("limits"))
    quickest = quickest_calibrations(directory)
    rows: list[Json] = []
    hypers: list[Json] = []
    facts_of: dict[str, Json] = {}
    reasons: dict[str, dict[str, str]] = {}
    versions: dict[str, list[dict[str, str]]] = defaultdict(list)
    codes: dict[str, list[dict[str, str]]] = defaultdict(list)
    planned = paths.trial_ids()
    for trial in planned:
        home = paths.trial(trial)
        asked = read(home / schema.TRIAL_FILE)
        if asked is None:
            continue
        facts = read(home / schema.FACTS_FILE)
        outcome = with_noise_judged(read(home / schema.OUTCOME_FILE), quickest)
        row = trial_row(trial, asked, outcome)
        row |= limits.figures(asked, facts, row)
        if outcome is not None:
            reasons[trial] = missing_reasons(outcome, row, TRIAL_COLUMNS) | limits.reasons(row)
        row["certificate"], row["certificate_detail"] = certificate_state(asked, facts, by_key)
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

    ended = {row["trial"] for row in rows if row["status"] != "pending"}
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


def trial_row(trial: str, asked: Json, outcome: Json | None) -> Json:
    budget = asked.get("budget") or {}
    row: Json = {
        name: asked.get(name) for name in (*AXES, "contestant", "framework", "mode", "seed", "block")
    }
    row |= {
        "trial": trial,
        "status": "pending",
        "stop_return": budget.get("stop_return"),
        "stop_episodes": budget.get("stop_episodes"),
    }
    if outcome is None:
        return row
    row |= {name: outcome.get(name) for name in ("status", "reason", "message", "started_at", "log_tail")}
    row |= {name: outcome.get(name) for name in ("wall_s", "cpu_s", "peak_rss_bytes", "baseline_rss_bytes")}
    row["cpu_percent"] = over(times(outcome.get("cpu_s"), 100), outcome.get("wall_s"))
    noise = outcome.get("noise") or {}
    row["noise_score"], row["calibration_ns"] = noise.get("score"), noise.get("calibration_ns")
    row["probe_core_percent"] = (outcome.get("probe") or {}).get("core_percent")
    row |= measured_row(outcome)
    result = outcome.get("result")
    return row | result_row(result) if result else row


def result_row(result: Json) -> Json:
    startup = result.get("startup_ns") or {}
    phases = result.get("phases_ns") or {}
    threshold = result.get("threshold") or {}
    start_ns, train_ns = result.get("train_start_ns"), result.get("train_ns")
    train_s = seconds(train_ns)
    reached_ns = threshold.get("time_ns") if threshold.get("reached") else None
    learning = result.get("learning") or {}
    return {
        **{name: result.get(name) for name in ("steps", "episodes", "updates", "final_return")},
        **{f"startup_{part}_s": seconds(startup.get(part)) for part in schema.STARTUP},
        **{f"phase_{phase}_s": seconds(phases.get(phase)) for phase in schema.PHASES},
        "startup_s": seconds(start_ns),
        "train_s": train_s,
        "watched_s": None if start_ns is None or train_ns is None else seconds(start_ns + train_ns),
        "steps_per_s": over(result.get("steps"), train_s),
        "updates_per_s": over(result.get("updates"), train_s),
        "learning_start_s": since(start_ns, learning.get("time_ns")),
        "learning_start_steps": learning.get("step"),
        "threshold_reached": threshold.get("reached"),
        "threshold_s": seconds(reached_ns),
        "threshold_train_s": since(start_ns, reached_ns),
        "threshold_steps": None if reached_ns is None else threshold.get("step"),
        "threshold_episodes": None if reached_ns is None else threshold.get("episode"),
    }


def seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e9


def since(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else seconds(end_ns - start_ns)


def times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def over(value: float | None, divisor: float | None) -> float | None:
    return None if value is None or not divisor else value / divisor


def trials_frame(rows: list[Json], hypers: list[Json]) -> pl.DataFrame:
    columns = {name: dtype for name, (dtype, _) in TRIAL_COLUMNS.items()}
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


def read_certificates(home: Path, read: Callable[[Path], Json | None]) -> tuple[Certificate, ...]:
    found = (read(path) for path in sorted(home.glob("*.json")))
    return tuple(
        Certificate(
            contestant=raw.get("contestant", ""),
            algorithm=raw.get("algorithm", ""),
            network=raw.get("network", ""),
            device=raw.get("device", ""),
            passed=bool(raw.get("passed")),
            backend_sha256=raw.get("backend_sha256", ""),
            reference_sha256=raw.get("reference_sha256", ""),
            versions=raw.get("versions") or {},
            rungs=tuple(raw.get("rungs") or ()),
            error=raw.get("error"),
            made_at=raw.get("made_at", ""),
        )
        for raw in found
        if raw is not None
    )


def certificate_state(
    asked: Json, facts: Json | None, certificates: Mapping[tuple[str, str, str, str], Iterable[Certificate]]
) -> tuple[str, str | None]:
    """State of the best certificate for this trial, and what is wrong with it."""
    network = network_kind((asked.get("hyper") or {}).get("convolutions") or ())
    key = (str(asked.get("contestant")), str(asked.get("algorithm")), network, str(asked.get("device")))
    states = [judged(certificate, facts) for certificate in certificates.get(key, ())]
    order = (VALID, FAILED, STALE)
    return min(states, key=lambda state: order.index(state[0]), default=(ABSENT, "never proven"))


def judged(certificate: Certificate, facts: Json | None) -> tuple[str, str | None]:
    if facts is None:
        return STALE, "the trial left no facts to compare the certificate with"
    for name in ("backend_sha256", "reference_sha256"):
        if getattr(certificate, name) != facts.get(name):
            return STALE, f"the {name.removesuffix('_sha256')} changed since it was proven"
    versions = facts.get("versions") or {}
    for package in sorted(certificate.versions.keys() | versions.keys()):
        proven, ran = certificate.versions.get(package), versions.get(package)
        if proven != ran:
            return STALE, f"proven with {package} {proven or '(none)'}, ran with {ran or '(none)'}"
    if not certificate.passed:
        broken = [rung.get("rung", "?") for rung in certificate.rungs if not rung.get("passed")]
        return FAILED, certificate.error or f"disagrees with the reference at {', '.join(broken)}"
    return VALID, None


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
