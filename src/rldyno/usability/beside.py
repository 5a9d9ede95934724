"""Packages that a part needs beside the framework. They never enter a measured toolchain.

They are installed into a directory of their own, which comes last on the path of the process that needs
them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from rldyno.config import cache_dir, load_config
from rldyno.errors import Problem
from rldyno.toolchains.resolve import Interpreter

_PIP = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "import runpy; runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)
"""`-m pip`, without the working directory on its path, where any file may be called as a module is."""


def beside(interpreter: Interpreter, pins: tuple[str, ...]) -> Path:
    """The directory that holds these packages for this interpreter, made now unless it exists."""
    content = json.dumps([list(pins), interpreter.python, interpreter.versions], sort_keys=True)
    key = hashlib.sha256(content.encode()).hexdigest()[:12]
    home = cache_dir() / "usability" / "packages"
    finished = home / f"{interpreter.framework}-{key}"
    if finished.is_dir():
        return finished
    home.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=home, prefix=f".{finished.name}-"))
    try:
        isolation = ["-I"] if interpreter.isolated else []
        command = [str(interpreter.path), *isolation, "-c", _PIP, "install", "--disable-pip-version-check"]
        command += ["--no-input", "--no-deps", "--target", str(partial), *load_config().pip_args, *pins]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PIP_USER": "0"},
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            raise Problem(
                f"pip could not install {' '.join(pins)}",
                detail=lines[-1] if lines else None,
                fix="check the network; the config file's `pip_args` are used",
                code=1,
            )
        if not finished.is_dir():
            partial.replace(finished)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return finished
