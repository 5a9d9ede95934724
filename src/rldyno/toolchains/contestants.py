"""Which contestants a person means: the one place that checks their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from rldyno.errors import Problem
from rldyno.toml.suggestions import did_you_mean, nearest
from rldyno.toolchains.catalogue import catalogue
from rldyno.toolchains.releases import canonical_release
from rldyno_rig.contestant import RELEASE_SIGN, Contestant
from rldyno_rig.guest.file import GUEST


class Toolchain(Protocol):
    """What a study must know of a framework."""

    @property
    def modes(self) -> Mapping[str, tuple[str, ...]]:
        """Mode → devices it runs on."""

    @property
    def collectives(self) -> Mapping[Any, tuple[str, ...]]:
        """Collective → devices it works on."""


Catalogue = Mapping[str, Toolchain]


def check_contestant(name: str, catalogue: Catalogue) -> str:
    """`framework:mode`, with the hash of a wheel instead of its path; ValueError for anything else."""
    given = Contestant.parse(name)
    framework, mode = given.framework, given.mode
    toolchain = catalogue.get(given.family)
    if toolchain and mode in toolchain.modes:
        return str(Contestant(canonical_framework(framework), mode))
    if toolchain is None:
        meant = nearest(given.family, catalogue)
        if meant:
            modes = list(catalogue[meant].modes)
            exact = framework.replace(given.family, meant, 1)
            hint = did_you_mean([str(Contestant(exact, mode if mode in modes else modes[0]))])
        else:
            hint = "; known: " + ", ".join(
                name for of in catalogue for name in _contestants(of, catalogue[of].modes)
            )
        raise ValueError(f"unknown contestant '{name}'{hint}")
    names = ", ".join(_contestants(framework, toolchain.modes))
    if not mode:
        raise ValueError(f"'{name}' names no mode; write one of {names}")
    close = nearest(mode, toolchain.modes)
    if close:
        raise ValueError(f"unknown contestant '{name}'{did_you_mean([str(Contestant(framework, close))])}")
    raise ValueError(f"{framework} has no mode '{mode}'; it has {names}")


def canonical_framework(name: str) -> str:
    """`jax@0.7.0` as it is, `jax@./jax-0.7.0-….whl` as `jax@0.7.0#1a2b3c4d`; ValueError for neither."""
    if RELEASE_SIGN not in name:
        return name
    given = Contestant(name, "")
    return f"{given.family}{RELEASE_SIGN}{canonical_release(given.release)}"


def _contestants(framework: str, modes: Iterable[str]) -> list[str]:
    return [str(Contestant(framework, mode)) for mode in modes]


def chosen_contestants(names: Iterable[str], device: str) -> list[str]:
    """`framework:mode` as given, `framework` for all its modes on this device, nothing for everything."""
    chains = catalogue()
    given = list(names)
    chosen: dict[str, None] = {}
    for name in given or chains:
        contestant = Contestant.parse(name)
        framework, mode = contestant.framework, contestant.mode
        if framework == GUEST:
            raise Problem(
                f"`{name}` is a guest: nothing of it can be proven or timed alone",
                fix="name it in a study: docs/guests.md",
            )
        try:
            if not mode and contestant.family in chains:
                framework = canonical_framework(framework)
            else:
                framework = Contestant.parse(check_contestant(name, chains)).framework
        except ValueError as error:
            every = [one for chain in chains for one in _contestants(chain, chains[chain].modes)]
            raise Problem(str(error), fix=f"choose from: {', '.join(every)}") from None
        known = chains[contestant.family].modes
        usable = [one for one, devices in known.items() if device in devices and mode in ("", one)]
        if given and not usable:
            raise Problem(f"{name} does not run on {device}", fix="choose another --device")
        chosen.update(dict.fromkeys(_contestants(framework, usable)))
    return list(chosen)
