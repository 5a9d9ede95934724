"""Whether the environments of the trials to run can be made, before anything is proven or measured."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rldyno.errors import Problem
from rldyno.processes.rig import Runtime, answer_of
from rldyno.proofs.prove import Environments
from rldyno.records.files import write_json
from rldyno.study.plan import Cell
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.envs import BUILT_IN
from rldyno_rig.envs.job import FOUND_FILE, try_one
from rldyno_rig.job_files import ENVIRONMENTS_FILE, EnvironmentFacts, EnvironmentsJob

TIME_LIMIT_S = 120.0


def check_environments(
    cells: Iterable[Cell], interpreters: Mapping[str, Interpreter], say: Callable[[str], None]
) -> Environments:
    """What toolchains found. A Problem when an environment runs in none; a line when only some lack it.

    Built-in environments need no toolchain, and no time.
    """
    made: dict[tuple[str, str], EnvironmentFacts] = {}
    wanted: dict[str, dict[str, list[Cell]]] = {}
    for cell in cells:
        if cell.environment in BUILT_IN:
            made[cell.framework, cell.environment] = try_one(cell.environment)
        elif cell.framework in interpreters:
            wanted.setdefault(cell.framework, {}).setdefault(cell.environment, []).append(cell)
    reasons: dict[str, dict[str, str | None]] = {}
    for framework, tasks in wanted.items():
        found = try_environments(interpreters[framework], tuple(tasks))
        made |= {(framework, name): facts for name, facts in found.items()}
        for environment, of_environment in tasks.items():
            reasons.setdefault(environment, {})[framework] = why_not(found[environment], of_environment)
    impossible = [environment for environment, by in reasons.items() if all(by.values())]
    if impossible:
        raise _impossible({environment: reasons[environment] for environment in impossible})
    for environment, by in reasons.items():
        for framework, reason in by.items():
            if reason:
                say(f"{environment} cannot run with {framework}, whose trials will fail: {reason}")
    return made


def try_environments(interpreter: Interpreter, names: tuple[str, ...]) -> dict[str, EnvironmentFacts]:
    """Environment → what the toolchain found when it made it."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        write_json(directory / ENVIRONMENTS_FILE, EnvironmentsJob(names).to_json())
        what = f"making the environments in the toolchain of {interpreter.framework}"
        try:
            answer = answer_of(
                "environments",
                directory,
                Runtime.of(interpreter, 1, None),
                FOUND_FILE,
                what=what,
                limit_s=TIME_LIMIT_S,
            )
        except Problem as problem:
            return {name: EnvironmentFacts(name, error=problem.message) for name in names}
    return {facts.name: facts for facts in map(EnvironmentFacts.from_json, answer)}


def why_not(facts: EnvironmentFacts, cells: Iterable[Cell]) -> str | None:
    """Why these cells cannot run; None when they can."""
    if facts.error:
        return facts.error
    for cell in cells:
        try:
            ALGORITHMS[cell.algorithm].spec(
                cell.hyper, facts.observation_shape, facts.observation_dtype, facts.actions
            )
        except ValueError as error:
            return f"{cell.algorithm}: {error}"
    return None


def _impossible(reasons: Mapping[str, Mapping[str, str | None]]) -> Problem:
    lines = [
        f"{environment}: {reason}"
        for environment, by in reasons.items()
        for reason in dict.fromkeys(filter(None, by.values()))
    ]
    return Problem(
        f"{' and '.join(reasons)} cannot run: nothing was measured",
        detail="\n".join(lines),
        fix="correct `environments` of the study, or install what is missing in every toolchain "
        "(docs/studies.md, Environments)",
    )
