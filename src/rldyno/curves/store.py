"""Curves that belong to results: files in the results directory, and what comes with rldyno."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

from rldyno.curves.curve import ExternalCurve, parse_curves, read_curves, read_file
from rldyno.errors import Problem, problem_of
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import write_atomically


def keep(directory: Path, file: Path) -> Path:
    """Copy a file of curves into a results directory: one of the same name is replaced."""
    data = read_file(file.resolve())
    parse_curves(file, data)
    folder = ResultsDirectory(directory).curves
    copy = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', file.stem)[:100].strip('-.') or 'curve'}.csv"
    try:
        folder.mkdir(exist_ok=True)
        write_atomically(copy, data)
    except OSError as error:
        raise problem_of(error) from error
    return copy


def known_curves(directory: Path) -> tuple[ExternalCurve, ...]:
    """Those that were kept with the results, then the shipped ones."""
    return (*kept_curves(directory), *shipped_curves())


def kept_curves(directory: Path) -> tuple[ExternalCurve, ...]:
    files = sorted(ResultsDirectory(directory).curves.glob("[!.]*.csv"))
    return tuple(curve for file in files for curve in _kept(file))


def _kept(file: Path) -> tuple[ExternalCurve, ...]:
    try:
        return read_curves(file)
    except Problem as problem:
        raise Problem(problem.message, fix="correct the file, or delete it", code=1) from problem


@cache
def shipped_curves() -> tuple[ExternalCurve, ...]:
    with resources.as_file(resources.files(__package__) / "cleanrl.csv") as path:
        return tuple(replace(curve, shipped=True) for curve in read_curves(path))
