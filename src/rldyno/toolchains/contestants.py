"""Which contestants a person means."""

from __future__ import annotations

from collections.abc import Iterable

from rldyno.errors import Problem
from rldyno.study_placement import check_contestant
from rldyno.toolchains.catalogue import catalogue


def chosen_contestants(names: Iterable[str], device: str) -> list[str]:
    """`framework:mode` as given, `framework` for all its modes on this device, nothing for everything."""
    chains = catalogue()
    given = list(names)
    chosen: dict[str, None] = {}
    for name in given or chains:
        framework, _, mode = name.partition(":")
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
        chosen.update(dict.fromkeys(f"{framework}:{mode}" for mode in usable))
    return list(chosen)
