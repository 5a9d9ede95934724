"""Options that several sub-commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Place(StrEnum):
    LOCAL = "local"
    SLURM = "slurm"


Seeds = Annotated[
    str | None,
    typer.Option(
        metavar="N|MIN..MAX",
        help="Seeds instead of the study's: 10, or 5..30 to add seeds where comparisons are open.",
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="The quick size of the study: its table [quick] says what it changes.")
]
Toolchains = Annotated[
    list[str] | None,
    typer.Option(
        "--toolchain",
        metavar="NAME=PYTHON",
        help="Use this interpreter (a path, or a name on PATH) for a framework; repeatable.",
    ),
]
