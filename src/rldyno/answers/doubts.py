"""What speaks against the answers of a study, each doubt once over all comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rldyno.answers import fixes
from rldyno.answers.groups import Group
from rldyno.answers.trust import ALONE, BARRED, KINDS, UNLEARNED, UNSURE, UNTUNED, Objection
from rldyno.text.numbers import first_and_more


@dataclass(frozen=True)
class Doubt:
    """One kind of objection, over all comparisons."""

    level: str
    kind: str
    name: str
    lines: tuple[str, ...]
    """Its words, with the comparison in front unless they hold for all."""
    comparisons: int
    fixes: tuple[str, ...]


def every_objection(group: Group) -> tuple[Objection, ...]:
    return group.trust.objections


def worth_a_line(group: Group) -> tuple[Objection, ...]:
    """What a short answer must add: not who is alone, which it says, nor doubts where there is no answer."""
    asides = [group.trust.about(kind) for kind in (UNLEARNED, UNTUNED)] if group.trust.barred else []
    said = dict.fromkeys([*group.trust.reasons, *filter(None, asides)])
    return tuple(objection for objection in said if objection.kind != ALONE)


def doubts(
    groups: Sequence[Group], chosen: Callable[[Group], Sequence[Objection]] = every_objection
) -> list[Doubt]:
    """Those that bar an answer first, then by the number of comparisons they concern."""
    found: dict[tuple[bool, str], list[tuple[Group, Objection]]] = {}
    for group in groups:
        for objection in chosen(group):
            useful = objection.fix in group.trust.fixes
            said = objection if useful else replace(objection, fix="")
            found.setdefault((objection.bars, objection.kind), []).append((group, said))
    ordered = sorted(found.items(), key=lambda item: (not item[0][0], -len(item[1])))
    return [doubt(kind, bars, said, len(groups)) for (bars, kind), said in ordered]


def doubt(kind: str, bars: bool, said: Sequence[tuple[Group, Objection]], groups: int) -> Doubt:
    alike: dict[str, list[str]] = {}
    for group, objection in said:
        alike.setdefault(objection.words, []).append(group.label)
    lines = (
        words if len(labels) == groups else f"{first_and_more(labels)}: {words}"
        for words, labels in alike.items()
    )
    return Doubt(
        level=BARRED if bars else UNSURE,
        kind=kind,
        name=KINDS.get(kind, kind),
        lines=tuple(lines),
        comparisons=len(said),
        fixes=fixes.folded(objection.fix for _, objection in said)[:1],
    )
