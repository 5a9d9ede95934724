"""`rldyno hyper ALGORITHM ENVIRONMENT`: the hyper-parameters, their meaning and their shipped values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console


def hyper(
    algorithm: Annotated[
        str | None,
        typer.Argument(metavar="[ALGORITHM]", help="For example ppo. Default: list all.", show_default=False),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Argument(
            metavar="[ENVIRONMENT]",
            help="For example CartPole-v1. Default: the generic values.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the hyper-parameters of an algorithm: value, unit, meaning, and whether they were tuned."""
    from rich.console import Console

    plain = Console(highlight=False, markup=False)
    console = Console(width=None if plain.is_terminal else 140, highlight=False, markup=False)
    if algorithm is None:
        _print_algorithms(console, as_json)
        return
    _check_names(algorithm, environment)
    if as_json:
        print(json.dumps(_as_json(algorithm, environment), indent=2, ensure_ascii=False))
    else:
        _print_fields(console, algorithm, environment)


def _check_names(algorithm: str, environment: str | None) -> None:
    from rldyno.errors import Problem
    from rldyno.toml.suggestions import did_you_mean, nearest, suggest
    from rldyno_rig.algorithms import ALGORITHMS
    from rldyno_rig.envs import BUILT_IN

    if algorithm not in ALGORITHMS:
        raise Problem(
            f"unknown algorithm '{algorithm}'{suggest(algorithm, ALGORITHMS)}",
            fix="`rldyno hyper` lists the algorithms",
        )
    tuned = (name for known in ALGORITHMS.values() for name in known.tuned)
    known = dict.fromkeys([*BUILT_IN, *tuned])
    meant = None if environment is None or environment in known else nearest(environment, known)
    if meant and not _other_version(environment or "", meant):
        raise Problem(
            f"unknown environment '{environment}'{did_you_mean([meant])}",
            fix=f"rldyno hyper {algorithm} {meant}",
        )


def _other_version(name: str, known: str) -> bool:
    """`MountainCar-v1` beside `MountainCar-v0`: Gymnasium may have it."""
    return name.rpartition("-v")[0] == known.rpartition("-v")[0]


def _as_json(algorithm: str, environment: str | None) -> dict[str, Any]:
    from rldyno.study.hyper_fields import hyper_fields, is_tuned

    return {
        "algorithm": algorithm,
        "environment": environment,
        "tuned": is_tuned(algorithm, environment),
        "hyper_parameters": [field.to_json() for field in hyper_fields(algorithm, environment)],
    }


def _print_algorithms(console: Console, as_json: bool) -> None:
    from rldyno_rig.algorithms import ALGORITHMS

    tuned = {name: list(algorithm.tuned) for name, algorithm in ALGORITHMS.items()}
    if as_json:
        print(json.dumps([{"algorithm": name, "tuned_for": tuned[name]} for name in tuned], indent=2))
        return
    for name, environments in tuned.items():
        console.print(f"{name:<9} tuned for {', '.join(environments) or 'no environment'}")
    console.print("Atari games (ALE/Pong-v5, …) get published values, other environments generic ones.")
    console.print("`rldyno hyper ppo CartPole-v1` shows the values.")


def _print_fields(console: Console, algorithm: str, environment: str | None) -> None:
    from rich import box
    from rich.table import Table

    from rldyno.study.hyper_fields import hyper_fields, is_tuned
    from rldyno.text.terminal import print_fitting
    from rldyno_rig.algorithms import title_of
    from rldyno_rig.envs.atari_rules import is_preprocessed

    tuned = is_tuned(algorithm, environment)
    title = title_of(algorithm)
    if environment and is_preprocessed(environment):
        console.print(
            f"{title} on {environment}: published for Atari games (* marks values that differ). "
            "docs/learning.md names the sources."
        )
    elif tuned:
        console.print(f"{title} on {environment}: tuned for this environment (* marks values that differ).")
    elif environment:
        console.print(f"{title} on {environment}: generic values, not tuned for {environment}.")
    else:
        console.print(f"{title}: generic values, for environments without tuned ones.")
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("hyper-parameter", no_wrap=True)
    table.add_column("value", justify="right")
    if tuned:
        table.add_column("generic", justify="right")
    table.add_column("unit")
    table.add_column("meaning", overflow="fold", ratio=1)
    for field in hyper_fields(algorithm, environment):
        differs = "*" if field.value != field.generic else ""
        generic = [_spell(field.generic)] if tuned else []
        table.add_row(field.name, _spell(field.value) + differs, *generic, field.unit or "–", field.meaning)
    print_fitting(table, console, ("value", "meaning"), "a wider terminal, or --json")
    first = hyper_fields(algorithm, environment)[1]
    console.print(
        f"A study changes them so (a list becomes an axis):\n"
        f"  [hyper.{algorithm}]\n  {first.name} = {_spell(first.value)}"
    )


def _spell(value: Any) -> str:
    """As a study file writes it."""
    return json.dumps(value)
