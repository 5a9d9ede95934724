"""Which contestants a person means: the one place that checks their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from rldyno.errors import Problem
from rldyno.toml.suggestions import did_you_mean, nearest
from rldyno.toolchains.catalogue import catalogue
from rldyno_rig.contestant import Contestant


class Toolchain(Protocol):
    """What a study must know of a framework."""

    @property
    def modes(self) -> Mapping[str, tuple[str, ...]]:
        """Mode → devices it runs on."""

    @property
    def collectives(self) -> Mapping[Any, tuple[str, ...]]:
        """Collective → devices it works on."""


Catalogue = Mapping[str, Toolchain]


def check_contestant(name: str, catalogue: Catalogue) -> None:
    """ValueError for what is not `framework:mode`."""
    given = Contestant.parse(name)
    framework, mode = given.framework, given.mode
    toolchain = catalogue.get(framework)
    if toolchain and mode in toolchain.modes:
        return
    if toolchain is None:
        meant = nearest(framework, catalogue)
        if meant:
            modes = list(catalogue[meant].modes)
            hint = did_you_mean([str(Contestant(meant, mode if mode in modes else modes[0]))])
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
        if not mode and framework in chains:
            usable = [mode for mode, devices in chains[framework].modes.items() if device in devices]
        else:
            try:
                check_contestant(name, chains)
            except ValueError as error:
                every = [one for chain in chains for one in _contestants(chain, chains[chain].modes)]
                raise Problem(str(error), fix=f"choose from: {', '.join(every)}") from None
            usable = [mode] if device in chains[framework].modes[mode] else []
        if given and not usable:
            raise Problem(f"{name} does not run on {device}", fix="choose another --device")
        chosen.update(dict.fromkeys(_contestants(framework, usable)))
    return list(chosen)
