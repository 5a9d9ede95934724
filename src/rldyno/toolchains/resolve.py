"""From a framework's name to the interpreter its trials run in: one that was built, or one the user has."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from packaging.version import Version

from rldyno.config import config_path, interpreter_path, load_config
from rldyno.errors import Problem
from rldyno.machine.facts import machine_variant
from rldyno.toolchains.build import build
from rldyno.toolchains.build_part import build_part, place_of
from rldyno.toolchains.catalogue import Toolchain, read_catalogue, toolchain, unknown
from rldyno.toolchains.installing import OnProgress
from rldyno.toolchains.interpreters import OLDEST, find_python, inspect
from rldyno.toolchains.parts import InstalledPart, find_part, recipe_of
from rldyno.toolchains.store import Built, all_built, find_built, find_damaged
from rldyno_rig.contestant import Contestant
from rldyno_rig.schema import PARTS_VARIABLE

_UNUSABLE = {
    "missing": "is not built",
    "outdated": "is outdated: its pins or its Python changed",
    "damaged": "is damaged: it has lost a package",
}


@dataclass(frozen=True)
class Interpreter:
    framework: str
    path: Path
    origin: Literal["built", "given"]
    python: str
    """Its version."""
    versions: dict[str, str]
    """Package → version, of everything installed."""
    variant: str | None
    """cpu or cuda for a built one."""
    parts: Mapping[str, InstalledPart] = field(default_factory=dict)
    """The optional parts that were asked for."""

    @property
    def isolated(self) -> bool:
        """Whether it ignores PYTHONPATH and the user's site. Given interpreters may rely on them."""
        return self.origin == "built"

    def variables_for(self, collective: str | None) -> dict[str, str]:
        """With these a worker finds the part that its team's collective needs, and those of environments."""
        found: dict[str, str] = {}
        for name, part in self.parts.items():
            serves = toolchain(self.framework).parts[name]
            if serves.environments or collective in serves.collectives:
                paths = (found.get(PARTS_VARIABLE), part.variables.get(PARTS_VARIABLE))
                found |= part.variables
                found[PARTS_VARIABLE] = os.pathsep.join(filter(None, paths))
        return found

    def part_for(self, collective: str) -> InstalledPart | None:
        """What workers that use this collective need besides; None where that is nothing."""
        name = toolchain(self.framework).part_of(collective)
        return None if name is None else self.parts[name]

    def has(self, collective: str | None) -> bool:
        """Whether workers can use it here."""
        name = toolchain(self.framework).part_of(collective) if collective else None
        return name is None or name in self.parts


@dataclass(frozen=True)
class State:
    """Where a toolchain stands. Outdated: only builds of other pins or another Python exist. Damaged: it has
    lost a package since it was built.
    """

    status: Literal["ready", "missing", "outdated", "damaged", "given"]
    variant: str
    built: Built | None = None
    given: Path | None = None


def parse_overrides(texts: Iterable[str]) -> dict[str, Path]:
    """`["torch=/path/to/python", "jax=python3"]` as framework → interpreter."""
    overrides: dict[str, Path] = {}
    for text in texts:
        name, separator, path = (part.strip() for part in text.partition("="))
        if not (name and separator and path):
            raise Problem(
                f"--toolchain {text!r} is not of the form NAME=PYTHON",
                fix="for example --toolchain torch=/path/to/python",
            )
        if name in overrides:
            raise Problem(f"--toolchain {name} is given twice", fix="give it once")
        try:
            overrides[name] = interpreter_path(path)
        except ValueError as error:
            raise Problem(
                f"--toolchain {text}: {error}", fix="give the path of a Python interpreter, or a name on PATH"
            ) from None
    _require_known(overrides, "--toolchain")
    return overrides


def given_interpreters(overrides: Mapping[str, Path] | None = None) -> dict[str, Path]:
    """Framework → interpreter of the user's: from the command line, else from the config file."""
    configured = load_config().toolchains
    _require_known(configured, str(config_path()))
    return {**configured, **(overrides or {})}


def chosen_variant(chain: Toolchain) -> str:
    """The config's variant, else the one that fits the machine, as far as the toolchain has it."""
    if len(chain.variants) == 1:
        return chain.variants[0]
    return load_config().variant or machine_variant()


def state(chain: Toolchain, overrides: Mapping[str, Path] | None = None) -> State:
    variant = chosen_variant(chain)
    given = given_interpreters(overrides).get(chain.framework)
    if given is not None:
        return State("given", variant, given=given)
    built = find_built(chain, variant, load_config().pip_args)
    if built is not None:
        return State("ready", variant, built=built)
    if find_damaged(chain, variant, load_config().pip_args):
        return State("damaged", variant)
    others = [built for built in all_built() if built.recipe.name == chain.framework]
    same_variant = [built for built in others if built.recipe.variant == variant]
    return State("outdated" if same_variant else "missing", variant)


@dataclass(frozen=True)
class PartState:
    """Where an optional part of a toolchain stands. One that is absent is built when a study asks for it."""

    name: str
    summary: str
    serves: tuple[str, ...]
    """Collectives and families of environments."""
    status: Literal["ready", "absent", "given"]
    size_bytes: int | None
    lacks: tuple[str, ...]
    """What its build needs and this machine does not have."""


def part_states(chain: Toolchain, found: State) -> list[PartState]:
    return [_part_state(chain, name, found) for name in chain.parts]


def _part_state(chain: Toolchain, name: str, found: State) -> PartState:
    part = chain.parts[name]
    ready = find_part(recipe_of(chain, name, found.built)) if found.built else None
    lacking = (
        () if ready or found.given else (need for need in part.needs if not need.met(_python(chain, found)))
    )
    return PartState(
        name,
        part.summary,
        part.serves,
        "given" if found.given else "ready" if ready else "absent",
        ready.size_bytes if ready else None,
        tuple(need.what for need in lacking),
    )


def _python(chain: Toolchain, found: State) -> Path:
    return found.built.python if found.built else find_python(chain.python).path


def resolve(
    framework: str, overrides: Mapping[str, Path] | None = None, needs: Iterable[str] = ()
) -> Interpreter:
    """The interpreter that runs this framework's trials, with the parts for these collectives and families of
    environments; a Problem if something is not there yet.
    """
    chain = toolchain(framework)
    found = state(chain, overrides)
    names = _parts_of(chain, needs)
    if found.given is not None:
        return check_given(chain, found.given, names)
    if found.built is None:
        raise Problem(
            f"the {framework} toolchain {_UNUSABLE[found.status]}", fix=f"rldyno setup {framework}", code=1
        )
    return replace(
        _interpreter(framework, found.built),
        parts={name: _resolve_part(chain, name, found.built) for name in names},
    )


def _resolve_part(chain: Toolchain, name: str, built: Built) -> InstalledPart:
    recipe = recipe_of(chain, name, built)
    part = find_part(recipe)
    if part is None:
        place = place_of(recipe)
        raise Problem(f"{place.title} is not built", fix=place.setup, code=1)
    return part


def ensure(
    frameworks: Iterable[str],
    overrides: Mapping[str, Path] | None = None,
    pip_args: Sequence[str] | None = None,
    on_progress: OnProgress = lambda progress: None,
    needs: Mapping[str, Collection[str]] | None = None,
) -> dict[str, Interpreter]:
    """Framework → interpreter, building what is missing. Without `pip_args` the config's are used.

    `needs`: framework → collectives and families of environments of its trials; their parts are built, too.
    """
    chains = {name: toolchain(name) for name in dict.fromkeys(frameworks)}
    parts = {name: _parts_of(chain, (needs or {}).get(name, ())) for name, chain in chains.items()}
    given = given_interpreters(overrides)
    found = {name: check_given(chains[name], given[name], parts[name]) for name in chains if name in given}
    arguments = load_config().pip_args if pip_args is None else pip_args
    for name, chain in chains.items():
        if name not in found:
            built = _ensure_built(chain, chosen_variant(chain), arguments, on_progress)
            added = {part: build_part(chain, part, built, arguments, on_progress) for part in parts[name]}
            found[name] = replace(_interpreter(name, built), parts=added)
    return {name: found[name] for name in chains}


def _parts_of(chain: Toolchain, needs: Iterable[str]) -> list[str]:
    return sorted({name for name in map(chain.part_of, needs) if name is not None})


def _ensure_built(chain: Toolchain, variant: str, pip_args: Sequence[str], on_progress: OnProgress) -> Built:
    """One that is damaged is built again from where its packages came from."""
    ready = find_built(chain, variant, pip_args)
    if ready:
        return ready
    damaged = find_damaged(chain, variant, pip_args)
    return build(chain, variant, damaged.recipe.pip_args if damaged else pip_args, on_progress)


def check_given(chain: Toolchain, python: Path, parts: Sequence[str] = ()) -> Interpreter:
    """Start the user's interpreter the way a trial will, and see that it has what the framework and these
    parts need.
    """
    name = chain.framework
    if not python.exists():
        raise Problem(
            f"the interpreter given for {name} does not exist: {python}",
            fix="give the path of a Python interpreter",
        )
    if python.is_dir():
        raise Problem(
            f"the interpreter given for {name} is a directory: {python}",
            fix=f"give the interpreter inside it, for example {python / 'bin' / 'python'}",
        )
    modules = ["numpy", chain.import_name, *(chain.parts[part].import_name for part in parts)]
    try:
        found = inspect(python, list(dict.fromkeys(modules)), isolated=False, variables=chain.variables)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Problem(
            f"the interpreter given for {name} does not run: {python}",
            detail=reason,
            fix="give the path of a Python interpreter that starts from this shell",
        ) from error
    if Version(found.python) < OLDEST:
        raise Problem(
            f"the interpreter given for {name} is Python {found.python}: {python}",
            fix=f"give one of Python {OLDEST} or newer",
        )
    if found.failed is not None:
        raise Problem(
            f"the interpreter given for {name} cannot import {found.failed}: {python}",
            detail=found.error,
            fix=f"install it there ({python} -m pip install …), or load its module before starting rldyno",
        )
    own = {part: _given_part(chain, part, python) for part in parts}
    return Interpreter(name, python, "given", found.python, found.versions, None, own)


def _given_part(chain: Toolchain, name: str, python: Path) -> InstalledPart:
    """As the user's interpreter has it. MPI's launcher is that of its environment, else that on PATH."""
    if not chain.parts[name].brings_mpi:
        return InstalledPart(name, {}, {})
    beside, on_path = python.parent / "mpiexec", shutil.which("mpiexec")
    if not beside.is_file() and on_path is None:
        raise Problem(
            f"the interpreter given for {chain.framework} has mpi4py, but there is no mpiexec: {python}",
            fix=f"put the mpiexec of its MPICH on PATH, or beside it ({beside})",
        )
    return InstalledPart(name, {}, {}, beside if on_path is None or beside.is_file() else Path(on_path))


def _interpreter(framework: str, built: Built) -> Interpreter:
    recipe = built.recipe
    return Interpreter(framework, built.python, "built", recipe.python, built.versions, recipe.variant)


def _require_known(given: Mapping[str, Path], source: str) -> None:
    known = read_catalogue()
    for name in given:
        family = Contestant(name, "").family
        if family not in known:
            problem = unknown(family, known)
            raise Problem(f"{source}: {problem.message}", fix=problem.fix)
