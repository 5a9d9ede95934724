"""The results directory: where things are, atomic writing, tolerant reading, the state of each trial.

Only the standard library is imported here: `rldyno trial` starts once per trial and pays for every import.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rldyno.errors import Problem
from rldyno_rig import schema

if TYPE_CHECKING:
    import polars as pl

STUDY_FILE = "study.toml"
MANIFEST_FILE = "manifest.json"
RUN_LOCK = "run.lock"
TRIAL_LOCK = "trial.lock"
ATTEMPTS = "attempts"

PENDING, RUNNING, DONE, FAILED, INTERRUPTED = "pending", "running", "done", "failed", "interrupted"
STATES = (DONE, FAILED, RUNNING, INTERRUPTED, PENDING)

Json = dict[str, Any]


@dataclass(frozen=True)
class Results:
    """Paths of a results directory."""

    root: Path

    @property
    def study(self) -> Path:
        return self.root / STUDY_FILE

    @property
    def manifest(self) -> Path:
        return self.root / MANIFEST_FILE

    @property
    def lock(self) -> Path:
        return self.root / RUN_LOCK

    @property
    def certificates(self) -> Path:
        return self.root / "certificates"

    @property
    def trials(self) -> Path:
        return self.root / "trials"

    def trial(self, trial_id: str) -> Path:
        return self.trials / trial_id

    def read_manifest(self) -> Json:
        """The manifest, or a Problem when this is no results directory of ours."""
        if not self.manifest.is_file():
            raise Problem(
                f"{self.root} is not a results directory: it has no {MANIFEST_FILE}",
                fix="give the directory that `rldyno run` wrote, for example results/quickstart",
            )
        manifest = read_json(self.manifest)
        if manifest.get("schema") != schema.SCHEMA_VERSION:
            raise Problem(
                f"{self.manifest} has schema {manifest.get('schema')}, not {schema.SCHEMA_VERSION}",
                fix="use the rldyno version that wrote it, or run the study again into a new directory",
            )
        return manifest

    def trial_ids(self) -> list[str]:
        """The trials of the plan, in its order."""
        return [str(trial) for trial in self.read_manifest()["trials"]]


def now_iso() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


# --- JSON ---------------------------------------------------------------------------------------------------


def write_json(path: Path, value: Json) -> None:
    """Write so that readers, also after a power cut, see the old file or the new one, never a part."""
    write_atomically(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path) -> Json:
    """The object in the file; a Problem that names the file if it is missing or damaged."""
    try:
        with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 (half the time of Path.open)
            value = json.loads(stream.read())
    except FileNotFoundError:
        raise Problem(f"{path} does not exist", code=1) from None
    except (ValueError, OSError) as error:
        raise Problem(
            f"{path} is damaged: {error}", fix="delete the file and run its study again", code=1
        ) from error
    if not isinstance(value, dict):
        raise Problem(
            f"{path} is damaged: it holds no JSON object",
            fix="delete the file and run its study again",
            code=1,
        )
    return value


# --- CSV ----------------------------------------------------------------------------------------------------

_REAL_COLUMNS = ("return", "return_mean", "loss", "threads_runnable")
_REAL_SUFFIXES = ("_percent", "_w", "_joules")


def is_real(column: str) -> bool:
    """Whether a column holds real numbers; all others hold integers."""
    return column in _REAL_COLUMNS or column.endswith(_REAL_SUFFIXES)


def complete_lines(data: bytes) -> bytes:
    """Without a torn last line, and without the zeros a file system may append when power is lost."""
    data = data.rstrip(b"\0")
    return data[: data.rfind(b"\n") + 1]


def read_csv(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """The rows of a record file. A missing file has none, a torn last line is dropped, damage is told."""
    frame, _, problems = read_csvs([path], columns)
    if problems:
        raise problems[0]
    return frame


def read_csvs(
    paths: Sequence[Path], columns: Sequence[str], wanted: Sequence[str] | None = None
) -> tuple[pl.DataFrame, list[int], list[Problem]]:
    """The rows of many record files as one table, how many each has, and what is damaged: that has none.

    One parse of many small files is ten times faster than a parse of each.
    """
    import polars as pl

    bodies: list[bytes] = []
    lengths: list[int] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            body = _body(path, columns)
        except Problem as problem:
            problems.append(problem)
            body = b""
        bodies.append(body)
        lengths.append(body.count(b"\n"))
    types = {name: pl.Float64 if is_real(name) else pl.Int64 for name in columns}
    chosen = list(columns if wanted is None else wanted)
    if not any(lengths):
        return pl.DataFrame(schema={name: types[name] for name in chosen}), lengths, problems
    try:
        text = b"".join([",".join(columns).encode(), b"\n", *bodies])
        return pl.read_csv(text, schema=types, columns=chosen), lengths, problems
    except pl.exceptions.PolarsError:
        found = [_damaged_line(path, body, columns) for path, body in zip(paths, bodies, strict=True)]
        if not any(found):
            raise
        whole = [path for path, problem in zip(paths, found, strict=True) if problem is None]
        frame, counts, _ = read_csvs(whole, columns, wanted)
        rest = iter(counts)
        lengths = [0 if problem else next(rest) for problem in found]
        return frame, lengths, problems + [problem for problem in found if problem]


def _body(path: Path, columns: Sequence[str]) -> bytes:
    """The complete lines below the header, each with as many fields as there are columns."""
    try:
        with path.open("rb", buffering=0) as stream:
            data = complete_lines(stream.readall())
    except FileNotFoundError:
        return b""
    if not data:
        return b""
    found = _header(path, data, columns)
    body = data[data.index(b"\n") + 1 :]
    if body.count(b",") != body.count(b"\n") * (len(found) - 1):
        raise _damaged_line(path, body, found) or Problem(f"{path} is damaged", code=1)
    if found == list(columns):
        return body
    if problem := _damaged_line(path, body, found):
        raise problem
    return _widened(body, found, columns)


def _header(path: Path, data: bytes, columns: Sequence[str]) -> list[str]:
    """The file's columns: ours, or fewer of them in a file from before the others were added."""
    header = data[: data.index(b"\n")].decode(errors="replace").strip()
    found = header.split(",")
    if columns[0] not in found or not set(found) <= set(columns) or len(set(found)) < len(found):
        raise Problem(
            f"{path}:1: the header is not the one of schema {schema.SCHEMA_VERSION}",
            detail=f"found    {header[:200]}\nexpected {','.join(columns)}",
            code=1,
        )
    return found


def _widened(body: bytes, found: Sequence[str], columns: Sequence[str]) -> bytes:
    """Rows with all of our columns; those that the file does not have are empty: not measured."""
    places = [found.index(name) if name in found else len(found) for name in columns]
    rows = ([*line.split(b","), b""] for line in body.splitlines())
    return b"".join(b",".join(row[place] for place in places) + b"\n" for row in rows)


def _damaged_line(path: Path, body: bytes, columns: Sequence[str]) -> Problem | None:
    """The first line below the header that is no row; None when all are."""
    for number, line in enumerate(body.splitlines(), start=2):
        if not _is_row(line, columns):
            return Problem(
                f"{path}:{number}: damaged line",
                detail=line.decode(errors="replace")[:200],
                fix=f"delete {path.parent} and run the study again: only this trial is repeated",
                code=1,
            )
    return None


def _is_row(line: bytes, columns: Sequence[str]) -> bool:
    fields = line.split(b",")
    if len(fields) != len(columns):
        return False
    try:
        for field, column in zip(fields, columns, strict=True):
            if field:
                float(field) if is_real(column) else int(field)
    except ValueError:
        return False
    return True


def last_rows(path: Path, columns: Sequence[str], count: int) -> list[dict[str, float]]:
    """The last complete rows of a CSV file that is still being written, oldest first; no Problem, ever.

    Fields that were not measured are left out of a row's dict.
    """
    window = 400 * (count + 1)
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - window))
            lines = complete_lines(stream.read()).splitlines()[1:]
    except OSError:
        return []
    return [
        {name: float(field) for name, field in zip(columns, line.split(b","), strict=True) if field}
        for line in lines[-count:]
        if _is_row(line, columns)
    ]


# --- locks --------------------------------------------------------------------------------------------------


class LockedError(Exception):
    """Another living process holds the lock; `holder` is what it wrote about itself."""

    def __init__(self, holder: Json) -> None:
        super().__init__("locked")
        self.holder = holder

    def __str__(self) -> str:
        pid, since = self.holder.get("pid"), self.holder.get("since")
        return f"pid {pid}, since {since}" if pid else "its pid is not known yet"


@contextlib.contextmanager
def locked(path: Path, patience_s: float = 0.5) -> Iterator[None]:
    """Hold `path` exclusively. The system releases it however the process ends.

    flock and not the filelock package: that one empties the file it fails to lock, and with it the name of
    the holder. The patience outlasts somebody who only looks whether the lock is held.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        deadline = time.monotonic() + patience_s
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                raise LockedError(_holder(descriptor))
            time.sleep(0.02)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "since": now_iso()}).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def lock_holder(path: Path) -> Json | None:
    """What the process that holds the lock wrote about itself; None when nobody holds it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return None if _try_lock(descriptor) else _holder(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> Json:
    try:
        value = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


# --- trials -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrialState:
    """Where a trial stands; `outcome` only when it has ended, `note` when something about it needs saying."""

    name: str
    outcome: Json | None = None
    note: str = ""


def trial_state(trial_dir: Path) -> TrialState:
    """From the files and the lock alone, so that it holds after any crash."""
    if lock_holder(trial_dir / TRIAL_LOCK) is not None:
        return TrialState(RUNNING)
    if (trial_dir / schema.OUTCOME_FILE).exists():
        try:
            outcome = read_json(trial_dir / schema.OUTCOME_FILE)
        except Problem as problem:
            return TrialState(INTERRUPTED, note=problem.message)
        return TrialState(DONE if outcome.get("status") == DONE else FAILED, outcome)
    return TrialState(INTERRUPTED if leftovers(trial_dir) else PENDING)


def leftovers(trial_dir: Path) -> list[Path]:
    """What an attempt has written, the outcome first."""
    keep = {schema.TRIAL_FILE, TRIAL_LOCK, ATTEMPTS}
    if not trial_dir.is_dir():
        return []
    files = [entry for entry in trial_dir.iterdir() if entry.name not in keep]
    return sorted(files, key=lambda entry: (entry.name != schema.OUTCOME_FILE, entry.name))


def next_attempt(trial_dir: Path) -> int:
    """Number of the attempt about to start, from 1."""
    attempts = trial_dir / ATTEMPTS
    if not attempts.is_dir():
        return 1
    return 1 + max((int(entry.name) for entry in attempts.iterdir() if entry.name.isdigit()), default=0)


def put_aside(trial_dir: Path) -> int:
    """Move what an earlier attempt left into attempts/<n>/; return the number of the one about to start."""
    attempt = next_attempt(trial_dir)
    files = leftovers(trial_dir)
    if not files:
        return attempt
    folder = trial_dir / ATTEMPTS / str(attempt)
    folder.mkdir(parents=True)
    for file in files:
        file.replace(folder / file.name)
    return attempt + 1


def log_tail(path: Path, lines: int = 20) -> str:
    """The last lines of a log, safe to print whatever the worker wrote there."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - 16_384))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    printable = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    return "\n".join(line[:500].rstrip() for line in printable.rstrip().split("\n")[-lines:])
