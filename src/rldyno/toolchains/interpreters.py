"""Python interpreters: which ones this machine has, and what one of them can import."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from rldyno.errors import Problem
from rldyno_rig.schema import PARTS_VARIABLE

OLDEST = Version("3.9")  # what the rig runs on
_NEWEST_MINOR = 15
_IMPORT_TIMEOUT_S = 120
_MARK = "rldyno-inspection "

# Runs in any Python, version 2 included, so that an old one is named instead of failing on syntax.
# Frameworks may print while they are imported: the answer is the line with the mark.
_INSPECTION = """
import json, os, re, sys
sys.path += filter(None, os.environ.get("PARTS", "").split(os.pathsep))
found = {"python": "%d.%d.%d" % sys.version_info[:3], "failed": None, "error": None, "versions": {}}
if sys.version_info >= (3, 9):
    import importlib, importlib.metadata
    for name in sys.argv[1:]:
        try:
            importlib.import_module(name)
        except BaseException as error:
            found["failed"] = name
            found["error"] = "%s: %s" % (type(error).__name__, error)
            break
    for package in importlib.metadata.distributions():
        if package.metadata["Name"]:
            name = re.sub("[-_.]+", "-", package.metadata["Name"]).lower()
            found["versions"].setdefault(name, package.version)
sys.stdout.write("\\n" + "MARK" + json.dumps(found) + "\\n")
""".replace("MARK", _MARK).replace("PARTS", PARTS_VARIABLE)


@dataclass(frozen=True)
class Python:
    path: Path
    version: str


@dataclass(frozen=True)
class Inspection:
    """What an interpreter reported about itself; `failed` names the module it could not import."""

    python: str
    failed: str | None
    error: str | None
    versions: dict[str, str]


def find_python(specifier: str) -> Python:
    """The running interpreter if the range admits it, else the newest one on this machine that it admits."""
    admitted = SpecifierSet(specifier)
    own = Python(Path(sys.executable), platform.python_version())
    if admitted.contains(own.version, prereleases=True):
        return own
    matching = [found for found in installed_pythons() if admitted.contains(found.version)]
    if not matching:
        raise Problem(
            f"no Python {specifier} on this machine (this is {own.version})",
            fix="install one (its `pythonX.Y` on PATH, or with pyenv), then run the command again",
            code=1,
        )
    return max(matching, key=lambda found: Version(found.version))


def installed_pythons() -> list[Python]:
    """Interpreters that start: this one, `pythonX.Y` on PATH, and pyenv's."""
    found = {platform.python_version(): Python(Path(sys.executable), platform.python_version())}
    for path in _candidates():
        version = _version(path)
        if version is not None and Version(version) >= OLDEST:
            found.setdefault(version, Python(path, version))
    return sorted(found.values(), key=lambda python: Version(python.version))


def inspect(
    python: Path, imports: Sequence[str] = (), *, isolated: bool, variables: Mapping[str, str] | None = None
) -> Inspection:
    """Start the interpreter, import the modules, list the installed packages.

    It starts in the root directory, where no folder can be mistaken for a framework.
    Raises OSError if it cannot be started and ValueError, with its last words, if it gives no answer.
    """
    command = [str(python), *(["-I"] if isolated else []), "-c", _INSPECTION, *imports]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_IMPORT_TIMEOUT_S,
            cwd=python.anchor,
            env={**os.environ, **(variables or {})},
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"no answer within {_IMPORT_TIMEOUT_S} s") from None
    answers = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if not answers:
        words = [line[:200] for line in (done.stderr or done.stdout).strip().splitlines()[-5:]]
        raise ValueError("\n".join(words) or f"it ended with status {done.returncode} and printed nothing")
    return Inspection(**json.loads(answers[-1].removeprefix(_MARK)))


def has_headers(python: Path) -> bool:
    """Whether Python.h is installed for this interpreter."""
    include = _ask(python, "import sysconfig; print(sysconfig.get_path('include'))")
    return include is not None and (Path(include) / "Python.h").is_file()


def _candidates() -> Iterator[Path]:
    for minor in range(OLDEST.minor, _NEWEST_MINOR + 1):
        found = shutil.which(f"python3.{minor}")
        if found:
            yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob("versions/*/bin/python"))


def _version(python: Path) -> str | None:
    """None for what does not start: a pyenv shim exists for versions that are not switched on."""
    try:
        return str(Version(_ask(python, "import platform; print(platform.python_version())") or ""))
    except InvalidVersion:
        return None


def _ask(python: Path, code: str) -> str | None:
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", code],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
