"""Other releases of a framework than the pinned one: `jax@0.7.0` is the toolchain of `jax` with other steps.

A release is a version, or a wheel. A wheel is copied to the cache and then known by its version and its
hash, `torch@2.14.0.dev1#1a2b3c4d`, so that results say what ran and not where a file lay.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict, Field, field_validator

from rldyno.config import cache_dir
from rldyno.errors import Problem
from rldyno_rig.contestant import RELEASE_SIGN, WHEEL

HASH_SIGN = "#"
HASH_DIGITS = 8

Step = Annotated[tuple[str, ...], Field(min_length=1)]


def check_range(text: str) -> str:
    """ValueError for what is no range of versions."""
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise ValueError(f'{text!r} is not a version range such as ">=3.10,<3.14"') from None
    return text


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class When(_Table):
    """What some releases need otherwise than the pinned one."""

    versions: str
    """Of these releases, `<2.3`."""
    pins: tuple[str, ...] = ()
    """Replace the pins of the same packages."""
    free: tuple[str, ...] = ()
    """More packages that lose their pins."""

    _range = field_validator("versions")(check_range)


class Versions(_Table):
    """How the toolchain of another release differs from the one that is pinned."""

    packages: tuple[str, ...] = ()
    """Names under which the framework is published: the pin of one of them gets the release that is asked
    for. Empty: the name of the framework."""
    free: tuple[str, ...] = ()
    """Packages that lose their pins, because each release has its own: pip takes what it asks for."""
    when: tuple[When, ...] = ()


@dataclass(frozen=True)
class Release:
    text: str
    """As names have it: `0.7.0`, `2.14.0.dev1#1a2b3c4d`."""
    version: Version
    wheel: Path | None = None


def canonical_release(text: str) -> str:
    """`0.7.0` as it is; of `./torch-2.14.0.dev1-….whl` its version and hash, after a copy to the cache.

    ValueError for what is neither.
    """
    if text.endswith(WHEEL):
        return _keep_wheel(Path(text).expanduser())
    version, sign, digits = text.partition(HASH_SIGN)
    try:
        Version(version)
    except InvalidVersion:
        raise ValueError(f"'{text}' is neither a version such as 0.7.0 nor the path of a wheel") from None
    if sign and not re.fullmatch(f"[0-9a-f]{{{HASH_DIGITS}}}", digits):
        raise ValueError(f"'{text}' is not a version and the first {HASH_DIGITS} digits of a wheel's SHA-256")
    return text


def release_of(text: str) -> Release:
    """A Problem where it names a wheel that is not in the cache."""
    try:
        text = canonical_release(text)
    except ValueError as error:
        raise Problem(str(error), fix="for example jax@0.7.0, or jax@./jax-0.7.0-py3-none-any.whl") from None
    version, sign, digits = text.partition(HASH_SIGN)
    if not sign:
        return Release(text, Version(version))
    wheel = next(iter((wheels_dir() / digits).glob(f"*{WHEEL}")), None)
    if wheel is None:
        raise Problem(
            f"the wheel with hash {digits} of version {version} is not in the cache of this machine",
            fix=f"name the file once: rldyno setup FRAMEWORK{RELEASE_SIGN}./FILE{WHEEL}",
            code=1,
        )
    return Release(text, Version(version), wheel)


def released_steps(
    framework: str, steps: tuple[Step, ...], rules: Versions, release: Release
) -> tuple[Step, ...]:
    """The pip arguments for another release; pins of the toolchain stay where no rule says otherwise."""
    names = {canonicalize_name(name) for name in rules.packages or (framework,)}
    if release.wheel is not None:
        _check_wheel(framework, release.wheel, names)
    free = {canonicalize_name(name) for name in rules.free}
    pins: dict[str, str] = {}
    for rule in rules.when:
        if SpecifierSet(rule.versions).contains(release.version, prereleases=True):
            free |= {canonicalize_name(name) for name in rule.free}
            pins |= {canonicalize_name(Requirement(pin).name): pin for pin in rule.pins}
    replaced = 0

    def changed(arguments: Step) -> Iterator[str]:
        nonlocal replaced
        for argument in arguments:
            pin = _requirement(argument)
            name = canonicalize_name(pin.name) if pin else ""
            if pin and name in names:
                replaced += 1
                yield _with_release(pin, release)
            elif name not in free:
                yield pins.get(name, argument)

    found = tuple(tuple(changed(step)) for step in steps)
    if not replaced:
        raise Problem(
            f"the {framework} toolchain pins none of {', '.join(sorted(names))}: it has no other releases",
            fix="name the framework's package in its toolchain file: [versions] packages = [...]",
        )
    return tuple(step for step in found if any(map(_requirement, step)))


def pinned_package(framework: str, steps: tuple[Step, ...], rules: Versions) -> str:
    """The name under which these steps install the framework: `tensorflow-cpu`."""
    names = {canonicalize_name(name) for name in rules.packages or (framework,)}
    for pin in (pin for step in steps for argument in step if (pin := _requirement(argument))):
        if canonicalize_name(pin.name) in names:
            return pin.name
    return framework


def wheels_dir() -> Path:
    return cache_dir() / "wheels"


def _with_release(pin: Requirement, release: Release) -> str:
    extras = f"[{','.join(sorted(pin.extras))}]" if pin.extras else ""
    if release.wheel is None:
        return f"{pin.name}{extras}=={release.version}"
    name = parse_wheel_filename(release.wheel.name)[0]
    return f"{name}{extras} @ {release.wheel.as_uri()}"


def _requirement(argument: str) -> Requirement | None:
    """None for options of pip."""
    with contextlib.suppress(InvalidRequirement):
        return Requirement(argument)
    return None


def _check_wheel(framework: str, wheel: Path, names: Collection[str]) -> None:
    name = parse_wheel_filename(wheel.name)[0]
    if name not in names:
        raise Problem(
            f"{wheel.name} is a wheel of {name}, not of {framework}",
            fix=f"give a wheel of {' or '.join(sorted(names))}",
        )


def _keep_wheel(path: Path) -> str:
    if not path.is_file():
        raise ValueError(f"there is no wheel {path} (seen from {Path.cwd()})")
    try:
        version = parse_wheel_filename(path.name)[1]
    except InvalidWheelFilename:
        raise ValueError(
            f"{path.name} is not the name of a wheel: keep the name that its build gave it"
        ) from None
    with path.open("rb") as file:
        digits = hashlib.file_digest(file, "sha256").hexdigest()[:HASH_DIGITS]
    kept = wheels_dir() / digits / path.name
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=kept.parent, suffix=".partial")
        os.close(handle)
        shutil.copyfile(path, partial)
        Path(partial).replace(kept)
    return f"{version}{HASH_SIGN}{digits}"
