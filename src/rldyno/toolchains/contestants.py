"""Which contestants a person means: the one place that checks their names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Protocol

from rldyno.errors import Problem
from rldyno.toolchains.catalogue import catalogue
from rldyno_rig.contestant import Contestant


class Toolchain(Protocol):
    """What a study must know of a framework."""

    @property
    def modes(self) -> Mapping[str, tuple[str, ...]]:
        """Mode → devices it runs on."""

    @property
    def max_workers(self) -> int:
        """Data-parallel workers of one trial; 1 for none."""


Catalogue = Mapping[str, Toolchain]


def check_contestant(name: str, catalogue: Catalogue) -> None:
    """ValueError for what is not `framework:mode`."""
    given = Contestant.parse(name)
    framework, mode = given.framework, given.mode
    toolchain = catalogue.get(framework)
    if toolchain and mode in toolchain.modes:
        return
    if toolchain is None:
        meant = difflib.get_close_matches(framework, catalogue, n=1)
        modes = list(catalogue[meant[0]].modes) if meant else []
        guess = Contestant(meant[0], mode if mode in modes else modes[0]) if meant else None
        known = ", ".join(name for of in catalogue for name in _contestants(of, catalogue[of].modes))
        hint = f", did you mean '{guess}'?" if guess else f"; known: {known}"
        raise ValueError(f"unknown contestant '{name}'{hint}")
    names = ", ".join(_contestants(framework, toolchain.modes))
    if not mode:
        raise ValueError(f"'{name}' names no mode; write one of {names}")
    close = difflib.get_close_matches(mode, toolchain.modes, n=1)
    if close:
        raise ValueError(f"unknown contestant '{name}', did you mean '{Contestant(framework, close[0])}'?")
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
                raise Problem(str(error), fix="`rldyno setup --list` shows every contestant") from None
            usable = [mode] if device in chains[framework].modes[mode] else []
        if given and not usable:
            raise Problem(f"{name} does not run on {device}", fix="choose another --device")
        chosen.update(dict.fromkeys(_contestants(framework, usable)))
    return list(chosen)
