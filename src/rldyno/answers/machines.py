"""Whether the contestants of a comparison ran on machines of the same kind, and equally often on each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from rldyno.records.status import DONE

if TYPE_CHECKING:
    from rldyno.answers.groups import Group


@dataclass(frozen=True)
class MixedMachines:
    apart: bool
    """Whether two contestants have no kind of machine in common: nothing can be said about the two."""
    words: str


def kinds_of_machines(group: Group) -> MixedMachines | None:
    """None where all ranked contestants ran on one kind, or where older records do not say."""
    names = [row.contestant for row in group.ranked]
    ran: dict[str, Counter[str]] = {name: Counter() for name in names}
    for trial in group.trials.select("contestant", "status", "processor").iter_rows(named=True):
        if trial["status"] == DONE and trial["processor"] is not None and trial["contestant"] in ran:
            ran[trial["contestant"]][trial["processor"]] += 1
    kinds = sorted({kind for counts in ran.values() for kind in counts})
    if len(names) < 2 or len(kinds) < 2:
        return None
    listed = f"Trials ran on {len(kinds)} kinds of machines ({', '.join(kinds)})"
    known = [counts for counts in ran.values() if counts]
    if any(not counts.keys() & others.keys() for counts, others in combinations(known, 2)):
        return MixedMachines(True, f"{listed}, and some contestants have none in common.")
    if all(counts == known[0] for counts in known):
        return MixedMachines(False, f"{listed}, each contestant equally often: the spread is theirs, too.")
    return MixedMachines(False, f"{listed}, and contestants not equally often: it may be their difference.")
