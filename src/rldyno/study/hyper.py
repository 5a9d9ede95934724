"""The `[hyper]` tables of a study, checked against the hyper-parameters of the algorithms."""

from __future__ import annotations

import dataclasses
import itertools
import math
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rldyno.study.hyper_names import suggest_hyper
from rldyno.toml.lines import Location
from rldyno.toml.source import Source, spelled
from rldyno.toml.suggestions import suggest
from rldyno_rig import hyper
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.algorithms.ensemble import MAJORITY, MEAN

NAMED_CONVOLUTIONS = {"small": hyper.CNN_SMALL, "large": hyper.CNN_LARGE}

# A study with more is too large to run; the plan reports that.
MOST_COMBINATIONS = 100_000

Axes = dict[str, tuple[Any, ...]]
"""Hyper-parameter → the values a study gives it; more than one makes it an axis."""


MOST_WHOLE = 10**12
LARGEST = 1e30
"""Of whole and of other numbers: records, tables and 32-bit floats hold them, and no trial comes near."""


class Rule(NamedTuple):
    says: str
    holds: Callable[[Any], bool]


POSITIVE = Rule("above 0", lambda value: 0 < value < math.inf)
NOT_NEGATIVE = Rule("at least 0", lambda value: 0 <= value < math.inf)
AT_LEAST_ONE = Rule("at least 1", lambda value: value >= 1)
AT_LEAST_TWO = Rule("at least 2", lambda value: value >= 2)
FRACTION = Rule("between 0 and 1", lambda value: 0 <= value <= 1)
BELOW_ONE = Rule("at least 0 and below 1", lambda value: 0 <= value < 1)
FINITE = Rule("finite", math.isfinite)

# The others: whole numbers at least 1, other numbers at least 0.
RULES = {
    "gamma": FRACTION,
    "learning_rate": POSITIVE,
    "activation": Rule("'relu' or 'tanh'", lambda value: value in ("relu", "tanh")),
    "adam_beta1": BELOW_ONE,
    "adam_beta2": BELOW_ONE,
    "adam_eps": POSITIVE,
    "learning_starts": NOT_NEGATIVE,
    "epsilon_start": FRACTION,
    "epsilon_end": FRACTION,
    "huber_delta": POSITIVE,
    "vote": Rule("'mean' or 'majority'", lambda value: value in (MEAN, MAJORITY)),
    "mask": Rule("above 0 and at most 1", lambda value: 0 < value <= 1),
    "atoms": AT_LEAST_TWO,
    "v_min": FINITE,
    "v_max": FINITE,
    "priority_exponent": FRACTION,
    "priority_beta_start": FRACTION,
    "priority_beta_end": FRACTION,
    "gae_lambda": FRACTION,
    "clip_range": POSITIVE,
}


class Given(NamedTuple):
    values: tuple[Any, ...]
    location: Location


def read(
    source: Source, table: Any, algorithms: Sequence[str], environments: Sequence[str]
) -> dict[tuple[str, str], Axes]:
    """(algorithm, environment) → what the study sets there; mistakes go to `source`.

    `[hyper.dqn."CartPole-v1"]` outranks `[hyper.dqn]`, which outranks `[hyper]`.
    """
    if not isinstance(table, dict):
        source.mistake(("hyper",), "must be a table of hyper-parameters")
        return {}
    everywhere = _read_everywhere(source, table, algorithms)
    resolved = {}
    for algorithm, environment in itertools.product(algorithms, environments):
        own_fields = field_types(algorithm)
        inherited = {name: given for name, given in everywhere.items() if name in own_fields}
        resolved[algorithm, environment] = inherited
    for algorithm, value in table.items():
        if not isinstance(value, dict):
            continue
        if algorithm not in ALGORITHMS:
            source.mistake(("hyper", algorithm), "unknown algorithm" + suggest(algorithm, ALGORITHMS))
            continue
        _read_algorithm(source, algorithm, value, environments, resolved)
    for (algorithm, environment), given in resolved.items():
        _check_together(source, algorithm, environment, given)
    return {task: _in_field_order(task[0], given) for task, given in resolved.items()}


def changed(option: str, algorithm: str, environment: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Values that an option of the command line gives, checked and completed like those of a study.

    One value each; a Problem with all mistakes.
    """
    source = Source(option, dict(table))
    given = _read_fields(source, algorithm, dict(table), ())
    for name, found in given.items():
        if len(found.values) > 1:
            source.mistake((name,), "one value, not several")
    if not source.mistakes:
        _check_together(source, algorithm, environment, given)
    if source.mistakes:
        raise source.problem(f"rldyno hyper {algorithm} lists what can be set")
    return next(combinations({name: found.values for name, found in given.items()}))


def field_types(algorithm: str) -> dict[str, Any]:
    """Name → type of each hyper-parameter, in the order of the dataclass."""
    declared = ALGORITHMS[algorithm].hyper
    hints = typing.get_type_hints(declared)
    return {field.name: hints[field.name] for field in dataclasses.fields(declared)}


def combinations(axes: Axes) -> Iterator[dict[str, Any]]:
    """The crossed values, the last axis fastest.

    A learning rate without an end stays: the shipped end belongs to the shipped rate.
    """
    for values in itertools.product(*axes.values()):
        crossed = dict(zip(axes, values, strict=True))
        if "learning_rate" in crossed:
            crossed.setdefault("learning_rate_end", crossed["learning_rate"])
        yield crossed


def _read_everywhere(source: Source, table: dict[str, Any], algorithms: Sequence[str]) -> dict[str, Given]:
    """The keys of `[hyper]` itself: they hold for every algorithm that has the field."""
    types = {algorithm: field_types(algorithm) for algorithm in ALGORITHMS}
    read_here = {}
    for name, raw in table.items():
        if isinstance(raw, dict):
            continue
        owners = [algorithm for algorithm, fields in types.items() if name in fields]
        location = ("hyper", name)
        if not owners:
            known = {field: None for fields in types.values() for field in fields}
            source.mistake(location, "unknown hyper-parameter" + suggest_hyper(name, known))
        elif algorithms and not set(owners) & set(algorithms):
            having = ", ".join(owners)
            source.mistake(location, f"no algorithm of this study has this hyper-parameter, only {having}")
        elif given := _values(source, types[owners[0]][name], name, raw, location):
            read_here[name] = given
    return read_here


def _read_algorithm(
    source: Source,
    algorithm: str,
    table: dict[str, Any],
    environments: Sequence[str],
    resolved: dict[tuple[str, str], dict[str, Given]],
) -> None:
    location: Location = ("hyper", algorithm)
    own = _read_fields(source, algorithm, table, location)
    for (of_algorithm, _), given in resolved.items():
        if of_algorithm == algorithm:
            given.update(own)
    for environment, value in table.items():
        if not isinstance(value, dict):
            continue
        if environments and environment not in environments:
            hint = suggest(environment, environments)
            source.mistake((*location, environment), f"no environment of this study{hint}")
        own = _read_fields(source, algorithm, value, (*location, environment), innermost=True)
        if (algorithm, environment) in resolved:
            resolved[algorithm, environment].update(own)


def _read_fields(
    source: Source, algorithm: str, table: dict[str, Any], location: Location, *, innermost: bool = False
) -> dict[str, Given]:
    types = field_types(algorithm)
    read_here = {}
    for name, raw in table.items():
        if isinstance(raw, dict) and not innermost:
            continue
        if name not in types:
            owners = [other for other in ALGORITHMS if name in field_types(other)]
            hint = f", only {', '.join(owners)}" if owners else suggest_hyper(name, types)
            source.mistake((*location, name), f"{algorithm} has no such hyper-parameter{hint}")
        elif given := _values(source, types[name], name, raw, (*location, name)):
            read_here[name] = given
    return read_here


def _values(source: Source, kind: Any, name: str, raw: Any, location: Location) -> Given | None:
    """One value, or one per element of an axis; None after a mistake."""
    is_axis = isinstance(raw, list) and _is_axis(kind, raw)
    values: list[Any] = []
    for index, item in enumerate(raw if is_axis else [raw]):
        place = (*location, index) if is_axis else location
        try:
            value = _convert(kind, item)
            _check(name, value)
        except ValueError as error:
            source.mistake(place, str(error))
            continue
        if value in values:
            source.mistake(place, f"{spelled(item)} is given twice")
        values.append(value)
    if is_axis and not raw:
        source.mistake(location, "no value: give at least one")
    return Given(tuple(values), location) if values else None


def _is_axis(kind: Any, raw: list[Any]) -> bool:
    depth = _depth_of_type(kind)
    return depth == 0 or any(isinstance(item, str) or _depth_of_value(item) >= depth for item in raw)


def _depth_of_type(kind: Any) -> int:
    return 1 + _depth_of_type(typing.get_args(kind)[0]) if typing.get_origin(kind) is tuple else 0


def _depth_of_value(value: Any) -> int:
    return 1 + max(map(_depth_of_value, value), default=0) if isinstance(value, list) else 0


def _convert(kind: Any, raw: Any) -> Any:
    """`raw` as read from TOML, as the field's type; ValueError says what it must be."""
    if typing.get_origin(kind) is tuple:
        return _convert_tuple(kind, raw)
    is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
    if is_number and kind in (int, float):
        most = MOST_WHOLE if kind is int else LARGEST
        if abs(raw) > most:
            raise ValueError(f"must be at most {most:g} in size, not {spelled(raw):.40}")
    if kind is int and is_number and math.isfinite(raw) and raw == int(raw):
        return int(raw)
    if kind is float and is_number:
        return float(raw)
    if kind in (bool, str) and isinstance(raw, kind):
        return raw
    wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[kind]
    raise ValueError(f"must be {wanted}, not {spelled(raw)}")


def _convert_tuple(kind: Any, raw: Any) -> tuple[Any, ...]:
    items = typing.get_args(kind)
    if kind == hyper.Convolutions and isinstance(raw, str):
        if raw not in NAMED_CONVOLUTIONS:
            raise ValueError(f"unknown convolutions '{raw}'" + suggest(raw, NAMED_CONVOLUTIONS))
        return NAMED_CONVOLUTIONS[raw]
    if not isinstance(raw, list):
        raise ValueError(f"must be a list, not {spelled(raw)}")
    if items[-1] is not Ellipsis and len(raw) != len(items):
        raise ValueError(f"must hold {len(items)} numbers (filters, kernel, stride), not {spelled(raw)}")
    kinds = itertools.repeat(items[0], len(raw)) if items[-1] is Ellipsis else items
    return tuple(_convert(of, item) for of, item in zip(kinds, raw, strict=True))


def _check(name: str, value: Any) -> None:
    if isinstance(value, tuple):
        for item in value:
            _check(name, item)
        return
    if isinstance(value, bool) or (isinstance(value, str) and name not in RULES):
        return
    rule = RULES.get(name, AT_LEAST_ONE if isinstance(value, int) else NOT_NEGATIVE)
    if not rule.holds(value):
        raise ValueError(f"must be {rule.says}, not {spelled(value)}")


def _check_together(source: Source, algorithm: str, environment: str, given: dict[str, Given]) -> None:
    """Fields that only make sense together: reports the first combination of the study that does not."""
    joint = {name: given[name].values for name in _JOINT_FIELDS if name in given}
    shipped = hyper.to_json(ALGORITHMS[algorithm].defaults(environment))
    for values in itertools.islice(combinations(joint), MOST_COMBINATIONS):
        for names, message in contradictions(shipped | values):
            places = [given[name].location for name in names if name in given]
            if places:
                source.mistake(places[-1], f"{algorithm} on {environment}: {message}")
                return


_JOINT_FIELDS = ("environments", "rollout_steps", "minibatches", "batch_size", "capacity", "v_min", "v_max")


def contradictions(values: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """(fields, what is wrong between them) of complete hyper-parameters."""
    if "minibatches" in values:
        names = ("environments", "rollout_steps", "minibatches")
        environments, rollout_steps, minibatches = (values[name] for name in names)
        if environments * rollout_steps % minibatches:
            product = f"{environments} environments × {rollout_steps} rollout_steps"
            yield names, f"{product} do not divide into {minibatches} minibatches"
    if "capacity" in values and values["batch_size"] > values["capacity"]:
        message = f"batch_size {values['batch_size']} exceeds capacity {values['capacity']}"
        yield ("batch_size", "capacity"), message
    if "v_min" in values and values["v_min"] >= values["v_max"]:
        yield ("v_min", "v_max"), f"v_min {values['v_min']} is not below v_max {values['v_max']}"


def _in_field_order(algorithm: str, given: dict[str, Given]) -> Axes:
    return {name: given[name].values for name in field_types(algorithm) if name in given}
