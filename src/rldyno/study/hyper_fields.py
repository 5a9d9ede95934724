"""The hyper-parameters of an algorithm with meaning, unit and value: what `rldyno hyper` shows."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from dataclasses import dataclass
from typing import Any

from rldyno_rig import hyper
from rldyno_rig.algorithms import ALGORITHMS

_UNIT = re.compile(r"\s*\[([^\]]+)\]$")


@dataclass(frozen=True)
class HyperField:
    name: str
    value: Any
    """The one that a study gets unless it sets another."""
    generic: Any
    """The one on environments for which the algorithm was not tuned."""
    unit: str
    """Empty for a ratio, a choice or a number without a unit."""
    meaning: str

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def is_tuned(algorithm: str, environment: str | None) -> bool:
    return environment is not None and ALGORITHMS[algorithm].chosen_for(environment) is not None


def hyper_fields(algorithm: str, environment: str | None = None) -> list[HyperField]:
    """All of them, in the order of the dataclass. Without an environment, values are the generic ones."""
    chosen = ALGORITHMS[algorithm]
    generic = hyper.to_json(chosen.hyper(**chosen.generic))
    values = hyper.to_json(chosen.defaults(environment)) if environment else generic
    described = _docstrings(chosen.hyper)
    return [HyperField(name, values[name], generic[name], *described.get(name, ("", ""))) for name in generic]


def _docstrings(declared: type[Any]) -> dict[str, tuple[str, str]]:
    """Name → (unit, meaning) of the fields, from the strings below them; a subclass outranks its base."""
    found: dict[str, tuple[str, str]] = {}
    for owner in reversed([base for base in declared.__mro__ if dataclasses.is_dataclass(base)]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = _split(text)
    return found


def _split(text: str) -> tuple[str, str]:
    """`Updates in one round. [updates]` → ("updates", "Updates in one round.")."""
    unit = _UNIT.search(text)
    return unit.group(1) if unit else "", _UNIT.sub("", text)
