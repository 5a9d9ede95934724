"""From a framework's name to the interpreter its trials run in: one that was built, or one the user has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.version import Version

from rldyno.config import config_path, interpreter_path, load_config
from rldyno.errors import Problem
from rldyno.machine.facts import machine_variant
from rldyno.toolchains.build import OnProgress, build
from rldyno.toolchains.catalogue import Toolchain, read_catalogue, toolchain, unknown
from rldyno.toolchains.interpreters import OLDEST, inspect
from rldyno.toolchains.store import Built, all_built, find_built, find_damaged

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

    @property
    def isolated(self) -> bool:
        """Whether it ignores PYTHONPATH and the user's site. Given interpreters may rely on them."""
        return self.origin == "built"


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


def resolve(framework: str, overrides: Mapping[str, Path] | None = None) -> Interpreter:
    """The interpreter that runs this framework's trials; a Problem if there is none yet."""
    chain = toolchain(framework)
    found = state(chain, overrides)
    if found.given is not None:
        return check_given(chain, found.given)
    if found.built is None:
        raise Problem(
            f"the {framework} toolchain {_UNUSABLE[found.status]}", fix=f"rldyno setup {framework}", code=1
        )
    return _interpreter(framework, found.built)


def ensure(
    frameworks: Iterable[str],
    overrides: Mapping[str, Path] | None = None,
    pip_args: Sequence[str] | None = None,
    on_progress: OnProgress = lambda progress: None,
) -> dict[str, Interpreter]:
    """Framework → interpreter, building what is missing. Without `pip_args` the config's are used."""
    chains = {name: toolchain(name) for name in dict.fromkeys(frameworks)}
    given = given_interpreters(overrides)
    interpreters = {name: check_given(chains[name], given[name]) for name in chains if name in given}
    arguments = load_config().pip_args if pip_args is None else pip_args
    for name, chain in chains.items():
        if name not in interpreters:
            variant = chosen_variant(chain)
            interpreters[name] = _interpreter(name, _ensure_built(chain, variant, arguments, on_progress))
    return {name: interpreters[name] for name in chains}


def _ensure_built(chain: Toolchain, variant: str, pip_args: Sequence[str], on_progress: OnProgress) -> Built:
    """One that is damaged is built again from where its packages came from."""
    ready = find_built(chain, variant, pip_args)
    if ready:
        return ready
    damaged = find_damaged(chain, variant, pip_args)
    return build(chain, variant, damaged.recipe.pip_args if damaged else pip_args, on_progress)


def check_given(chain: Toolchain, python: Path) -> Interpreter:
    """Start the user's interpreter the way a trial will, and see that it has what the framework needs."""
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
    modules = list(dict.fromkeys(["numpy", chain.import_name]))
    try:
        found = inspect(python, modules, isolated=False, variables=chain.variables)
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
    return Interpreter(name, python, "given", found.python, found.versions, None)


def _interpreter(framework: str, built: Built) -> Interpreter:
    recipe = built.recipe
    return Interpreter(framework, built.python, "built", recipe.python, built.versions, recipe.variant)


def _require_known(given: Mapping[str, Path], source: str) -> None:
    known = read_catalogue()
    for name in given:
        if name not in known:
            problem = unknown(name, known)
            raise Problem(f"{source}: {problem.message}", fix=problem.fix)
