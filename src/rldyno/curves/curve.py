"""An external curve: mean return against environment steps, by somebody else."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rldyno.errors import Problem
from rldyno.records.files import open_record
from rldyno.stats.moments import Floats
from rldyno.toml.suggestions import suggest
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.envs.atari_games import atari_game

NUMBERS = ("step", "return", "spread")
WORDS = ("name", "source", "algorithm", "environment")
MOST_BYTES = 10_000_000
MOST_ROWS = 100_000
MOST_CURVES = 500
"""Of one file: each is a line in a chart."""
LONGEST_WORD = 200
LARGEST = 1e15
FIX = "correct the file; docs/report.md explains its columns"


@dataclass(frozen=True)
class ExternalCurve:
    name: str
    source: str
    """Whose it is: what the file says, otherwise the name of the file."""
    algorithm: str
    """Empty: of any."""
    environment: str
    """Empty: on any. An Atari game may be spelled in another way than in the study."""
    step: Floats
    mean: Floats
    spread: Floats
    """NaN where the file has none."""
    shipped: bool = False
    """It came with rldyno."""

    @property
    def key(self) -> tuple[str | bytes, ...]:
        """Two of the same are one, wherever they were kept."""
        return self.name, self.algorithm, self.environment, self.step.tobytes(), self.mean.tobytes()

    @property
    def is_end_point(self) -> bool:
        """One value at one step: no curve."""
        return len(self.step) == 1

    def is_about(self, algorithm: str, environment: str) -> bool:
        if self.algorithm not in ("", algorithm):
            return False
        game = atari_game(self.environment)
        same_game = game is not None and game == atari_game(environment)
        return self.environment in ("", environment) or same_game

    def mean_at(self, steps: Floats) -> Floats:
        return np.interp(steps, self.step, self.mean)

    def spread_at(self, steps: Floats) -> Floats:
        return np.interp(steps, self.step, self.spread)


def read_curves(path: Path) -> tuple[ExternalCurve, ...]:
    """The curves of a file, one per name, algorithm and environment; a Problem names the first bad line."""
    return parse_curves(path, read_file(path))


def read_file(path: Path) -> bytes:
    try:
        with open_record(path, MOST_BYTES) as stream:
            return stream.read()
    except FileNotFoundError:
        raise Problem(f"{path} does not exist") from None
    except OSError as error:
        why = error.strerror or f"it is no plain file, or larger than {MOST_BYTES // 1_000_000} MB"
        raise Problem(f"{path} cannot be read: {why}") from error


def parse_curves(path: Path, data: bytes) -> tuple[ExternalCurve, ...]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Problem(f"{path} is no text in UTF-8", fix=FIX) from None
    rows: dict[tuple[str, ...], list[tuple[float, ...]]] = {}
    for number, row in enumerate(_rows(path, text)):
        line, values = row
        if number >= MOST_ROWS:
            raise _mistake(path, line, f"more than {MOST_ROWS:,} rows")
        words = tuple(_word(path, line, name, values.get(name, "")) for name in WORDS)
        figures = _figures(path, line, values)
        if words not in rows and len(rows) == MOST_CURVES:
            raise _mistake(path, line, f"more than {MOST_CURVES} curves")
        points = rows.setdefault(words, [])
        if points and figures[0] <= points[-1][0]:
            raise _mistake(path, line, f"step {figures[0]:,.0f} does not rise above {points[-1][0]:,.0f}")
        points.append(figures)
    if not rows:
        raise Problem(f"{path} holds no row", fix=FIX)
    return tuple(_curve(path, words, points) for words, points in rows.items())


def _curve(path: Path, words: tuple[str, ...], points: list[tuple[float, ...]]) -> ExternalCurve:
    name, source, algorithm, environment = words
    step, mean, spread = np.array(points, dtype=np.float64).T
    return ExternalCurve(name or path.stem, source or path.name, algorithm, environment, step, mean, spread)


def _rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """(line, column → field) below the header; empty lines and lines that begin with # are left out."""
    lines = text.splitlines()
    header: list[str] = []
    for line, written in enumerate(lines, start=1):
        if not written.strip() or written.startswith("#"):
            continue
        try:
            fields = [field.strip() for field in next(csv.reader([written], strict=True))]
        except (csv.Error, StopIteration):
            raise _mistake(path, line, "it is no line of a CSV file") from None
        if not header:
            header = _header(path, line, fields)
        elif len(fields) != len(header):
            raise _mistake(path, line, f"{len(fields)} fields, but the header has {len(header)}")
        else:
            yield line, dict(zip(header, fields, strict=True))


def _header(path: Path, line: int, fields: list[str]) -> list[str]:
    known = (*NUMBERS, *WORDS)
    for name in fields:
        if name not in known:
            raise _mistake(path, line, f"unknown column {_shown(name)}" + suggest(name, known))
        if fields.count(name) > 1:
            raise _mistake(path, line, f"column {name} is given twice")
    missing = [name for name in NUMBERS if name not in fields]
    if missing:
        raise _mistake(path, line, f"no column {' and no column '.join(missing)}")
    return fields


def _figures(path: Path, line: int, values: Mapping[str, str]) -> tuple[float, ...]:
    rules: dict[str, tuple[Callable[[float], bool], str]] = {
        "step": (lambda value: 0 <= value <= LARGEST, "a number from 0"),
        "return": (lambda value: abs(value) <= LARGEST, "a number"),
        "spread": (lambda value: 0 <= value <= LARGEST, "a number from 0, or nothing"),
    }
    found = []
    for name, (admits, words) in rules.items():
        if name == "spread" and not values[name]:
            found.append(math.nan)
            continue
        try:
            value = float(values[name])
        except ValueError:
            value = math.nan
        if not admits(value):
            raise _mistake(path, line, f"{name} is {_shown(values[name])}: it must be {words}")
        found.append(value)
    return tuple(found)


def _word(path: Path, line: int, name: str, value: str) -> str:
    if len(value) > LONGEST_WORD or not value.isprintable():
        raise _mistake(path, line, f"{name} is longer than {LONGEST_WORD} letters, or holds unprintable ones")
    if name == "algorithm" and value and value not in ALGORITHMS:
        raise _mistake(path, line, f"unknown algorithm {_shown(value)}" + suggest(value, ALGORITHMS))
    return value


def _shown(text: str) -> str:
    return f"'{text[:40]}…'" if len(text) > 40 else f"'{text}'"


def _mistake(path: Path, line: int, what: str) -> Problem:
    return Problem(f"{path}:{line}: {what}", fix=FIX)
