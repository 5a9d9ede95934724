"""What installing a framework brings: its distribution, everything that requires, and their files."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from rldyno.errors import Problem
from rldyno.toolchains.catalogue import Toolchain
from rldyno.toolchains.resolve import Interpreter, state

Json = dict[str, Any]
Installed = Mapping[str, Distribution]
_WAYS = {
    "from the network": r"^\s+Downloading ",
    "from pip's cache": r"^\s+Using cached ",
    "from a local index": r"^\s*Processing ",
}


def installed(interpreter: Interpreter) -> Installed:
    """Canonical name → distribution, of all that the interpreter finds; the first on its path wins."""
    isolation = ["-I"] if interpreter.isolated else []
    code = "import json, sys; print(json.dumps([entry for entry in sys.path if entry]))"
    done = subprocess.run(
        [str(interpreter.path), *isolation, "-c", code],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=interpreter.path.anchor,  # no file of the working directory is a module
    )
    if done.returncode != 0:
        raise Problem(
            f"{interpreter.path} does not run", detail=done.stderr, fix="see `rldyno doctor`", code=1
        )
    found: dict[str, Distribution] = {}
    for distribution in distributions(path=json.loads(done.stdout)):
        if distribution.metadata["Name"]:
            found.setdefault(canonicalize_name(distribution.metadata["Name"]), distribution)
    return found


def distribution_of(names: Iterable[str], among: Installed) -> str | None:
    return next((canonicalize_name(name) for name in names if canonicalize_name(name) in among), None)


def extras_of(name: str, chain: Toolchain) -> frozenset[str]:
    """`cpu` of the pin `mlx[cpu]==0.32.4`, in any variant."""
    arguments = [text for variant in chain.variants for step in chain.steps(variant) for text in step]
    found: set[str] = set()
    for text in arguments:
        with contextlib.suppress(InvalidRequirement):
            requirement = Requirement(text)
            found |= requirement.extras if canonicalize_name(requirement.name) == name else set()
    return frozenset(found)


def dependencies(name: str, among: Installed, python: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """What the distribution and those of its extras that are pinned require on this Python, directly and
    indirectly, as far as it is installed.
    """
    environment = {
        **{key: str(value) for key, value in default_environment().items()},
        "python_version": ".".join(python.split(".")[:2]),
        "python_full_version": python,
    }
    seen: set[tuple[str, frozenset[str]]] = set()
    pending = [(name, extras)]
    while pending:
        package, wanted = pending.pop()
        if (package, wanted) in seen or package not in among:
            continue
        seen.add((package, wanted))
        for text in among[package].requires or []:
            with contextlib.suppress(InvalidRequirement):
                requirement = Requirement(text)
                marker = requirement.marker
                chosen = [{**environment, "extra": extra} for extra in ("", *wanted)]
                if marker is None or any(marker.evaluate(one) for one in chosen):
                    pending.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return {package for package, _ in seen} - {name}


def size_of(distribution: Distribution) -> int:
    """Bytes of the files that it installed and that still exist."""
    total = 0
    for file in distribution.files or []:
        with contextlib.suppress(OSError):
            total += Path(str(distribution.locate_file(file))).stat().st_size
    return total


def measure(name: str, interpreter: Interpreter, chain: Toolchain, among: Installed) -> Json:
    needed = sorted(dependencies(name, among, interpreter.python, extras_of(name, chain)))
    sizes = {package: size_of(among[package]) for package in (name, *needed)}
    return {
        "package": name,
        "version": among[name].version,
        "python": interpreter.python,
        "dependencies": needed,
        "own_bytes": sizes[name],
        "size_bytes": sum(sizes.values()),
        **install_time(interpreter, chain),
    }


def install_time(interpreter: Interpreter, chain: Toolchain) -> Json:
    """Seconds that building the toolchain took, and where its packages came from."""
    built = state(chain).built
    if interpreter.origin == "given" or built is None:
        reason = "an interpreter of yours: rldyno did not install it"
        return {"install_s": None, "install_reason": reason, "packages_from": {}}
    try:
        log = built.recipe.log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        log = ""
    return {"install_s": built.install_s, "install_reason": None, "packages_from": ways(log)}


def ways(log: str) -> dict[str, int]:
    """How many packages pip got in which way; metadata that it only looked at is not one."""
    counts = {way: len(re.findall(pattern, log, re.MULTILINE)) for way, pattern in _WAYS.items()}
    return {way: count for way, count in counts.items() if count}
