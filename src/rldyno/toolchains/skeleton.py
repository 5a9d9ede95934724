"""The files of a new framework, to be filled in: its toolchain, its learner and its maths."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from string import Template

from packaging.requirements import InvalidRequirement, Requirement

import rldyno_rig
from rldyno.errors import Problem
from rldyno.records.files import write_atomically
from rldyno.toolchains.catalogue import Toolchain, read_catalogue

HOME = Path(__file__).parent
BACKENDS = Path(rldyno_rig.__file__).parent / "backends"
TEMPLATES = HOME.parent / "data" / "skeleton"


def write_skeleton(
    name: str, module: str = "", package: str = "", toolchains: Path = HOME, backends: Path = BACKENDS
) -> list[Path]:
    """Write the files and return them; a Problem, and no file, where the name is taken or is none."""
    module, package = module or name, package or f"{name}==0.0.0"
    distribution = _check(name, module, package)
    files = {
        toolchains / f"{name}.toml": "toolchain.toml.txt",
        backends / f"{name}_.py": "backend.py.txt",
        backends / f"{name}_maths.py": "maths.py.txt",
    }
    for path in files:
        if path.exists():
            raise Problem(f"{path} exists already", fix="choose another name, or delete the file")
    words = {
        "name": name,
        "backend": f"{name}_",
        "maths": f"{name}_maths",
        "module": module,
        "package": package,
        "distribution": distribution,
        # In the order in which the linter wants them.
        "imports": "\n".join(sorted([f"import {module}", "import numpy as np"])),
        **_pins(read_catalogue()["numpy"]),
    }
    texts = {path: (TEMPLATES / template).read_text(encoding="utf-8") for path, template in files.items()}
    try:
        for path, text in texts.items():
            write_atomically(path, Template(text).substitute(words))
    except OSError:
        for path in files:  # a part of a backend would be in the way of the next try
            path.unlink(missing_ok=True)
        raise
    return list(files)


def _check(name: str, module: str, package: str) -> str:
    """The canonical name of the distribution."""
    if not re.fullmatch(r"[a-z][a-z0-9]*", name) or keyword.iskeyword(name):
        raise Problem(
            f"'{name}' cannot be the name of a backend",
            fix="take small letters and digits, such as mlx: files, contestants and charts are called so",
        )
    if name in read_catalogue():
        raise Problem(f"there is a toolchain called {name} already", fix="choose another name")
    parts = module.split(".")
    if not all(part.isidentifier() and not keyword.iskeyword(part) for part in parts):
        raise Problem(f"'{module}' is no module", fix="give what follows `import`, such as mlx.core")
    try:
        return Requirement(package).name
    except InvalidRequirement:
        raise Problem(
            f"'{package}' is nothing that pip can install", fix='for example "mlx[cpu]==0.32.4"'
        ) from None


def _pins(chain: Toolchain) -> dict[str, str]:
    """NumPy's and Gymnasium's, as the NumPy toolchain has them."""
    arguments = [argument for step in chain.steps("cpu") for argument in step]
    return {Requirement(argument).name: argument for argument in arguments}
