"""Packs and searches for a release that are killed at changes of a file: the same command goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from crash import Case, in_child
from fuzz_packs import contents
from rldyno.bisection import record
from rldyno.bisection.question import Question
from rldyno.bisection.run import search
from rldyno.bisection.search import Finding, Round
from rldyno.sharing.pack import pack_directory
from rldyno.sharing.unpack import unpack_file
from synthetic import NUMPY, Shape, write_results

RELEASES = ("1.0", "1.1", "1.2", "1.3")
QUESTION = Question("numpy", "eager", most_rounds=6)
PACK = "results.rldyno.tar.gz"


def results(folder: Path) -> Path:
    return write_results(
        folder / "results", Shape(contestants=[NUMPY], algorithms=("dqn",), seeds=1, steps=500, sample_hz=2)
    )


def made_pack(folder: Path) -> Path:
    """In a child: polars, which checks the records, does not survive a fork."""
    root, home = results(folder), folder / "whole"
    home.mkdir()
    assert in_child(lambda: pack(root, home), home, None, folder / "points") == 0
    return home / PACK


def pack(root: Path, home: Path) -> None:
    pack_directory(root, home / PACK)


def packing(folder: Path) -> Case:
    expected = made_pack(folder).read_bytes()

    def flaws(home: Path) -> list[str]:
        found = [f"left over: {path.name}" for path in home.iterdir() if path.name != PACK]
        return found + (["another pack"] if (home / PACK).read_bytes() != expected else [])

    return Case(lambda home: pack(folder / "results", home), flaws)


def unpacking(folder: Path) -> Case:
    """A directory that is there is whole; what the killed process left beside it goes with the next one."""
    given = made_pack(folder)
    expected: dict[str, bytes] = {}

    def action(home: Path) -> None:
        unpack_file(given, home / ("again" if (home / "out").exists() else "out"))

    def flaws(home: Path) -> list[str]:
        expected.update({} if expected else contents(home / "out"))
        found = [path.name for path in home.iterdir() if path.name not in ("out", "again")]
        torn = [path.name for path in home.iterdir() if path.name not in found and contents(path) != expected]
        return [f"left over: {name}" for name in found] + [f"torn: {name}" for name in torn]

    return Case(action, flaws)


class SlowerFrom12:
    def round(self, old: str, new: str, number: int) -> Round:
        times = {name: 1.5 if name >= "1.2" else 1.0 for name in RELEASES}
        return Round(old, new, times[old] * (1 + 0.001 * (number % 3)), times[new])


def bisecting(folder: Path) -> Case:
    def action(home: Path) -> None:
        path = home / record.BISECT_FILE
        evidence = record.resume(path, QUESTION, RELEASES)
        _, finding = search(evidence, SlowerFrom12(), path, lambda _: None, lambda *_: None)
        assert isinstance(finding, Finding)

    def flaws(home: Path) -> list[str]:
        found = record.read(home / record.BISECT_FILE).evidence
        again = record.read(folder / "counted" / record.BISECT_FILE).evidence
        left = [path.name for path in home.iterdir() if path.suffix not in (".json", ".lock")]
        other = (
            [] if replace(found, question=again.question) == again else ["other rounds than without the kill"]
        )
        return other + [f"left over: {name}" for name in left]

    return Case(action, flaws)
