"""Scripts of the user's beside the proven contestants: their values and how they learn, without a rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rldyno.answers.groups import THROUGHPUT, Group, Row, badness
from rldyno.answers.learning import LearningParity
from rldyno.answers.wording import amount, ran_as_guest, task_words
from rldyno.columns import Column
from rldyno.peers.catalogue import peers
from rldyno.stats.equivalence import DIFFERENT, EQUAL
from rldyno_rig.hyper import tuples

_LEARNS = {EQUAL: "learns like", DIFFERENT: "learns differently from"}


Hypers = Mapping[str, Mapping[str, Any]]
"""Trial → its hyper-parameters."""


def guest_lines(groups: Sequence[Group], hypers: Hypers) -> list[str]:
    """One line for each guest of each comparison."""
    return [guest_words(group, row, hypers) for group in groups for row in group.rows if ran_as_guest(row)]


def guest_words(group: Group, row: Row, hypers: Hypers) -> str:
    """`script:train.py` took 950 steps/s; `torch:eager` took 8,100 steps/s …"""
    said = [f"{metric.heading} {values(group, row, metric)}" for metric in _metrics(group, row)]
    said += [learning_words(row.parity)] if row.parity is not None else []
    said += other_values(group, row, hypers)
    return f"Guest, not ranked, on {task_words(group)}: `{row.contestant}`, {'; '.join(said)}."


def other_values(group: Group, row: Row, hypers: Hypers) -> list[str]:
    """What the library of a peer has instead of the study's values."""
    trials = group.trials.filter(contestant=row.contestant)["trial"].to_list()
    peer = peers().get(row.mode)
    if peer is None or not trials or trials[0] not in hypers:
        return []
    study = {name: tuples(value) for name, value in hypers[trials[0]].items()}
    found = peer.differences(group.axes["algorithm"], study)
    words = ", ".join(f"{name} {value} (the study: {study[name]})" for name, value in found.items())
    return [f"{peer.library} has instead: {words}"] if words else []


def values(group: Group, row: Row, metric: Column) -> str:
    """Its own, then that of the best proven contestant."""
    proven = [other for other in group.ranked if metric.name in other.figures]
    best = min(proven, key=lambda other: badness(other, metric), default=None)
    beside = "" if best is None else f" (`{best.contestant}`: {amount(best, metric)})"
    return f"{amount(row, metric)}{beside}"


def learning_words(parity: LearningParity) -> str:
    found = _LEARNS.get(parity.state)
    if found is None:
        return f"too few seeds to tell whether it learns like `{parity.reference}`"
    return f"{found} `{parity.reference}` ({parity.detail})"


def _metrics(group: Group, row: Row) -> list[Column]:
    """By which guests are compared: speed, and the time to the threshold where there is one."""
    wanted = [THROUGHPUT, *(metric for metric in group.metrics if metric.name == "threshold_s")]
    return [metric for metric in wanted if metric.name in row.figures]
