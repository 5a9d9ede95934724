"""Options that several sub-commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Toolchains = Annotated[
    list[str] | None,
    typer.Option(
        "--toolchain",
        metavar="NAME=PYTHON",
        help="Use this interpreter (a path, or a name on PATH) for a framework; repeatable.",
    ),
]
