"""CSV files of a trial: tolerant of torn writes and of older files with fewer columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rldyno.errors import Problem
from rldyno.records.files import open_record, read_bytes
from rldyno_rig import schema

if TYPE_CHECKING:
    import polars as pl

Kind = type[int] | type[float]
Columns = Sequence[str] | Mapping[str, Kind]
"""Names of a file's columns. Without kinds, all but _REAL_COLUMNS hold whole numbers."""
_REAL_COLUMNS = ("return", "return_mean", "loss")


def column_kinds(columns: Columns) -> dict[str, Kind]:
    if isinstance(columns, Mapping):
        return dict(columns)
    return {name: float if name in _REAL_COLUMNS else int for name in columns}


def complete_lines(data: bytes) -> bytes:
    """Without a torn last line, and without the zeros a file system may append when power is lost."""
    data = data.rstrip(b"\0")
    return data[: data.rfind(b"\n") + 1]


def read_csv(path: Path, columns: Columns) -> pl.DataFrame:
    """The rows of a file; none of a missing file. A torn last line is dropped; damage raises a Problem."""
    frame, _, problems = read_csvs([path], columns)
    if problems:
        raise problems[0]
    return frame


def read_csvs(
    paths: Sequence[Path], columns: Columns, wanted: Sequence[str] | None = None
) -> tuple[pl.DataFrame, list[int], list[Problem]]:
    """The rows of many record files as one table, how many each has, and what is damaged: that has none.

    One parse of many small files is ten times faster than a parse of each.
    """
    import polars as pl

    kinds = column_kinds(columns)
    bodies: list[bytes] = []
    lengths: list[int] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            body = _body(path, kinds)
        except Problem as problem:
            problems.append(problem)
            body = b""
        bodies.append(body)
        lengths.append(body.count(b"\n"))
    types = {name: pl.Float64 if kind is float else pl.Int64 for name, kind in kinds.items()}
    chosen = list(kinds if wanted is None else wanted)
    if not any(lengths):
        return pl.DataFrame(schema={name: types[name] for name in chosen}), lengths, problems
    try:
        text = b"".join([",".join(kinds).encode(), b"\n", *bodies])
        return pl.read_csv(text, schema=types, columns=chosen), lengths, problems
    except pl.exceptions.PolarsError:
        found = [_damage(path, body, kinds, types) for path, body in zip(paths, bodies, strict=True)]
        whole = [path for path, problem in zip(paths, found, strict=True) if problem is None]
        frame, counts, _ = read_csvs(whole, kinds, wanted)
        rest = iter(counts)
        lengths = [0 if problem else next(rest) for problem in found]
        return frame, lengths, problems + [problem for problem in found if problem]


class GrowingCsv:
    """A record file that is still being written, read in portions."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._path = path
        self._kinds = column_kinds(columns)
        self._found: dict[str, Kind] = {}
        self._read_bytes = 0

    def new_rows(self) -> pl.DataFrame:
        """The complete rows that were added since the last call; damage raises a Problem."""
        import polars as pl

        types = {name: pl.Float64 if kind is float else pl.Int64 for name, kind in self._kinds.items()}
        try:
            with open_record(self._path) as stream:
                stream.seek(self._read_bytes)
                data = complete_lines(stream.read())
        except FileNotFoundError:
            data = b""
        self._read_bytes += len(data)
        if data and not self._found:
            self._found = _header(self._path, data, self._kinds)
            data = data[data.index(b"\n") + 1 :]
        if not data:
            return pl.DataFrame(schema=types)
        body = _rows(self._path, data, self._found, self._kinds)
        try:
            return pl.read_csv(b"".join([",".join(self._kinds).encode(), b"\n", body]), schema=types)
        except pl.exceptions.PolarsError:
            raise _damaged_line(self._path, body, self._kinds) or Problem(
                f"{self._path} is damaged"
            ) from None


def _body(path: Path, columns: Mapping[str, Kind]) -> bytes:
    """The complete lines below the header, each with as many fields as there are columns."""
    try:
        data = complete_lines(read_bytes(path))
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error}", code=1) from error
    if not data:
        return b""
    found = _header(path, data, columns)
    return _rows(path, data[data.index(b"\n") + 1 :], found, columns)


def _rows(path: Path, body: bytes, found: Mapping[str, Kind], columns: Mapping[str, Kind]) -> bytes:
    if body.count(b",") != body.count(b"\n") * (len(found) - 1):
        raise _damaged_line(path, body, found) or Problem(f"{path} is damaged", code=1)
    if list(found) == list(columns):
        return body
    if problem := _damaged_line(path, body, found):
        raise problem
    return _widened(body, list(found), columns)


def _header(path: Path, data: bytes, columns: Mapping[str, Kind]) -> dict[str, Kind]:
    """The file's columns: ours, or fewer of them in a file from before the others were added."""
    header = data[: data.index(b"\n")].decode(errors="replace").strip()
    found = header.split(",")
    if next(iter(columns)) not in found or not set(found) <= set(columns) or len(set(found)) < len(found):
        raise Problem(
            f"{path}:1: the header is not the one of schema {schema.SCHEMA_VERSION}",
            detail=f"found    {header[:200]}\nexpected {','.join(columns)}",
            code=1,
        )
    return {name: columns[name] for name in found}


def _widened(body: bytes, found: Sequence[str], columns: Iterable[str]) -> bytes:
    """Rows with all of our columns; those that the file does not have are empty: not measured."""
    places = [found.index(name) if name in found else len(found) for name in columns]
    rows = ([*line.split(b","), b""] for line in body.splitlines())
    return b"".join(b",".join(row[place] for place in places) + b"\n" for row in rows)


def _damage(path: Path, body: bytes, columns: Mapping[str, Kind], types: Mapping[str, Any]) -> Problem | None:
    """What is wrong with these rows; None when they can be read."""
    import polars as pl

    if problem := _damaged_line(path, body, columns):
        return problem
    try:
        pl.read_csv(b"".join([",".join(columns).encode(), b"\n", body]), schema=types)
    except pl.exceptions.PolarsError:
        return Problem(f"{path} is damaged", code=1)
    return None


def _damaged_line(path: Path, body: bytes, columns: Mapping[str, Kind]) -> Problem | None:
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


def _is_row(line: bytes, columns: Mapping[str, Kind]) -> bool:
    fields = line.split(b",")
    if len(fields) != len(columns):
        return False
    try:
        for field, kind in zip(fields, columns.values(), strict=True):
            if field:
                kind(field)
                if field.strip() != field:
                    return False
    except ValueError:
        return False
    return True


def last_rows(path: Path, columns: Columns, count: int) -> list[dict[str, float]]:
    """The last complete rows of a CSV file that is still being written, oldest first; no Problem, ever.

    Fields that were not measured are left out of a row's dict.
    """
    kinds = column_kinds(columns)
    window = 400 * (count + 1)
    try:
        with open_record(path) as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - window))
            lines = complete_lines(stream.read()).splitlines()[1:]
    except OSError:
        return []
    return [
        {name: float(field) for name, field in zip(kinds, line.split(b","), strict=True) if field}
        for line in lines[-count:]
        if _is_row(line, kinds)
    ]
