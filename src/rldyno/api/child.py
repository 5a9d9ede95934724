"""`python -m rldyno.api.child FILE ARGUMENT…`: a command of rldyno whose problem goes to FILE as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.libraries import needed_for


def main() -> None:
    file, *arguments = sys.argv[1:]
    try:
        with needed_for("this command"):
            app(arguments, prog_name="rldyno")
    except Problem as problem:
        content = {name: getattr(problem, name) for name in ("message", "fix", "detail", "code")}
        Path(file).write_text(json.dumps(content), encoding="utf-8")
        sys.exit(problem.code)


if __name__ == "__main__":
    main()
