"""The board as one HTML file that needs no network, and its figures as JSON beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from rldyno import __version__
from rldyno.records.files import Json, write_atomically
from rldyno.report.libraries import jinja2
from rldyno.report.page import content_policy, read, sentence_parts
from rldyno.sharing.shown import METRICS, Board, Contest

TEMPLATES = Path(__file__).parent / "templates"
PAGE, DATA = "index.html", "board.json"


def write_board(board: Board, folder: Path) -> Path:
    """Write index.html and board.json into a folder, which is made if it is missing."""
    page, data = render(board), json.dumps(board_json(board), indent=1, allow_nan=False) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / PAGE, page)
    write_atomically(folder / DATA, data)
    return folder / PAGE


def board_json(board: Board) -> Json:
    """For programs: what the page shows."""
    return {
        "format": 1,
        "rldyno": __version__,
        "packs": [asdict(pack) for pack in board.packs],
        "comparisons": [asdict(contest) for contest in board.contests],
    }


def render(board: Board) -> str:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["parts"] = sentence_parts
    script = (TEMPLATES / "board.js").read_text(encoding="utf-8")
    page: str = made.get_template("board.html.j2").render(
        board=board,
        packs={pack.number: pack for pack in board.packs},
        metrics=METRICS,
        choices=choices(board),
        marked=[pack for pack in board.packs if pack.warnings],
        machines={contest.machine.key: contest.machine for contest in board.contests},
        version=__version__,
        policy=content_policy(script),
        style=read("style.css") + (TEMPLATES / "board.css").read_text(encoding="utf-8"),
        script=script,
        percent=percent,
    )
    return page


def choices(board: Board) -> dict[str, list[str]]:
    """What each filter offers."""
    contests = board.contests
    return {
        "algorithm": _distinct(contest.algorithm for contest in contests),
        "environment": _distinct(contest.environment for contest in contests),
        "machine": _distinct(contest.machine.label for contest in contests),
        "device": _distinct(contest.device for contest in contests),
        "contestant": _distinct(entry.contestant for contest in contests for entry in contest.entries),
    }


def _distinct(values: Iterable[str]) -> list[str]:
    return sorted(set(values))


def percent(value: float, contest: Contest) -> str:
    """A place on the bar of a speed, whose whole length is the highest speed of the comparison."""
    share = value / contest.longest if contest.longest else 0.0
    return f"{100 * min(1.0, max(0.0, share)):.1f}%"
