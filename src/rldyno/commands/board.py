"""`rldyno board`: packs of many people as one web page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def board(
    packs: Annotated[list[Path], typer.Argument(metavar="PACKS...", help="Files that `rldyno pack` wrote.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where to write index.html and board.json.")
    ] = Path("site"),
) -> None:
    """Write a page that shows who is fastest per algorithm, environment and machine.

    It opens from disk and needs no network. Machines are never pooled. A pack that was altered, or made by
    unknown code, is marked.
    """
    from rldyno.records.files import printable
    from rldyno.sharing.board import gather
    from rldyno.sharing.board_page import write_board
    from rldyno.text.numbers import counted

    found = gather(packs, out)
    path = write_board(found, out)
    for pack in found.packs:
        for mark in pack.warnings:
            print(printable(f"Marked: {pack.file}: {mark.kind}: {mark.words}"), file=sys.stderr)
    print(f"{path}: {counted(len(found.packs), 'pack')}, {counted(len(found.contests), 'comparison')}")
