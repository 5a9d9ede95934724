"""Loading data: the same transitions through each input pipeline of a framework, in shuffled minibatches."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from rldyno.toolchains.catalogue import Toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno.usability.frameworks import Loader
from rldyno.usability.process import first_mode, rig
from rldyno.usability.source import code_lines
from rldyno_rig.job_files import UsabilityJob

Json = dict[str, Any]


def measure(name: str, loader: Loader, interpreter: Interpreter, chain: Toolchain, directory: Path) -> Json:
    job = UsabilityJob(chain.backend, "data", first_mode(chain), loader=name)
    answer = rig(interpreter, chain, job, directory)
    source = answer.pop("source", None)
    lines = None if source is None else snippet_lines(source)
    return {"title": loader.title, "own": loader.own, "lines": lines, **answer}


def snippet_lines(source: str) -> int:
    """Lines of a function that hold code."""
    return len(code_lines(textwrap.dedent(source)))
