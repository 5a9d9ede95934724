"""Whether rungs are all that a proof must show, each with our limit: by our list, not by what a file says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rldyno_rig.algorithms import LEARNERS
from rldyno_rig.job_files import ProofSubject
from rldyno_rig.proof.rung import MANY, Rung
from rldyno_rig.proof.standard import GATE, Limit, required

Key = tuple[str, str]
"""Precision, and name of a rung."""


def incomplete(
    subject: ProofSubject, device: str, rungs: Sequence[Rung], without_limit: Mapping[str, str], many: bool
) -> str | None:
    """What is missing, foreign or too wide; None where nothing is. Errors are judged elsewhere.

    `without_limit`: precisions that do not work here. Only those whose errors have no limit may be missing.
    `many`: several updates were made in one call.
    """
    if subject.algorithm not in LEARNERS:
        return f"the algorithm `{subject.algorithm}` is unknown"
    limits = required(subject, device, many or proves_many(rungs))
    found = Counter((rung.dtype, rung.name) for rung in rungs)
    missing = [
        key for key in limits if key not in found and not (key[0] in without_limit and GATE[key[0]] is None)
    ]
    for keys, fault in (
        (missing, "it lacks the rung {}"),
        ([key for key in found if key not in limits], "the rung {} is unknown"),
        ([key for key, count in found.items() if count > 1], "the rung {} is there twice"),
        (_too_wide(rungs, limits), "the rung {} has a limit that is not ours"),
    ):
        if keys:
            precision, name = keys[0]
            others = f" (and {len(keys) - 1} more)" if len(keys) > 1 else ""
            return fault.format(f"`{name}` in {precision or 'no precision'}") + others
    return None


def proves_many(rungs: Iterable[Rung]) -> bool:
    """Whether the learner has `update_many`: then every form and precision must prove it."""
    return any(rung.name.rpartition(": ")[2] == MANY for rung in rungs)


def _too_wide(rungs: Sequence[Rung], limits: Mapping[Key, Limit]) -> list[Key]:
    def is_within(given: Limit, ours: Limit) -> bool:
        return ours is None or (given is not None and 0 <= given <= ours)

    keys = (((rung.dtype, rung.name), rung.tolerance) for rung in rungs)
    return [key for key, given in keys if not is_within(given, limits.get(key))]
