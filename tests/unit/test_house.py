"""House rules that a linter does not know: sizes, rooms, one home for each idea, plain English."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAB = ROOT / "src" / "rldyno"
RIG = ROOT / "src" / "rldyno_rig"
LONGEST_FILE = 400
LONGEST_FUNCTION = 60
FLAT_MODULES = 8
"""Modules of the lab that belong to no room: entry points and what every room shares."""
OLD_WORDS = re.compile(
    r"\b(?:is|are|was|were|be|been|being) told\b|\bmend(?:s|ed|ing)?\b|\bdearer\b|\boftener\b|for want of"
    r"|\bwhomever\b|\bwhilst\b|\bheed\b|\bsooner than\b|\bin vain\b|\blest\b",
    re.IGNORECASE,
)


@functools.cache
def python_files() -> list[Path]:
    return sorted(path for part in ("src", "tests", "bench") for path in (ROOT / part).rglob("*.py"))


def written_for_people() -> Iterator[Path]:
    yield from (path for path in python_files() if path != Path(__file__))
    for pattern in ("*.md", "docs/*.md", "src/**/*.toml", "src/**/*.j2", "src/**/*.js"):
        yield from ROOT.glob(pattern)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def occurrences(pattern: str) -> list[str]:
    """Files of both packages that contain the pattern, once for each place."""
    found = []
    for path in (*LAB.rglob("*.py"), *RIG.rglob("*.py")):
        found += [relative(path)] * len(re.findall(pattern, path.read_text(encoding="utf-8")))
    return found


def test_files_can_be_read_in_one_sitting() -> None:
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_functions_fit_on_a_screen() -> None:
    long = {}
    for path in python_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    long[f"{relative(path)}:{node.name}"] = lines
    assert long == {}


def test_every_room_says_in_one_sentence_what_it_is_for() -> None:
    for room in sorted(path.parent for path in (*LAB.rglob("__init__.py"), *RIG.rglob("__init__.py"))):
        text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8")))
        assert text, relative(room)
        assert text.strip().split("\n")[0].endswith("."), relative(room)


def test_modules_live_in_rooms() -> None:
    flat = sorted(path.name for path in LAB.glob("*.py"))
    assert len(flat) <= FLAT_MODULES, flat
    assert not [path for path in python_files() if path.stem in ("utils", "util", "helpers", "common")]


@pytest.mark.parametrize(
    ("idea", "pattern"),
    [
        ("splitting framework:mode", r"partition\(\":\"\)|split\(\":\"\)"),
        ("which network is convolutional", r"\"cnn\" if|\"mlp\" if"),
        ("what a finished trial is called", r"== \"done\"|!= \"done\""),
    ],
)
def test_an_idea_has_one_home(idea: str, pattern: str) -> None:
    assert len(occurrences(pattern)) <= 1, (idea, occurrences(pattern))


def test_nothing_is_called_by_an_old_word() -> None:
    found = {
        relative(path): sorted(set(OLD_WORDS.findall(path.read_text(encoding="utf-8"))))
        for path in written_for_people()
    }
    assert {name: words for name, words in found.items() if words} == {}
