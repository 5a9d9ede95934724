"""Parts of pages that are the output of a command: `<!-- $ rldyno … -->`, the output, `<!-- end -->`.

`python tests/command_blocks.py` runs the commands again and writes what they print into the pages.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from rldyno.cli import app

HOME = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- \$ rldyno (?P<command>.+?) -->\n\n)(?P<output>.*?)(\n<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: Path
    command: str
    output: str

    @property
    def now(self) -> str:
        """What the command prints today. It runs in the checkout, where its paths lead."""
        with contextlib.chdir(HOME):
            done = CliRunner().invoke(app, shlex.split(self.command), env=os.environ, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout


def blocks() -> list[Block]:
    return [
        Block(page, found["command"], found["output"])
        for page in sorted((HOME / "docs").rglob("*.md"))
        for found in BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]


def main() -> None:
    for block in blocks():
        text = block.page.read_text(encoding="utf-8")
        head = f"<!-- $ rldyno {block.command} -->\n\n"
        text = text.replace(f"{head}{block.output}\n<!-- end -->", f"{head}{block.now}\n<!-- end -->")
        block.page.write_text(text, encoding="utf-8")
        print(f"{block.page.relative_to(HOME)}: rldyno {block.command}")


if __name__ == "__main__":
    main()
