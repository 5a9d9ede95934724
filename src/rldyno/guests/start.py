"""How the scripts of a study are started on this machine.

A study file is the user's word: the scripts beside it run. A results directory is not, it may come from
somebody else: it names its scripts by their hashes only, and those run that this user has run from a study
file before, from where they were then. Peers that start as shipped always run: they are rldyno's own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from rldyno.config import cache_dir, interpreter_path
from rldyno.errors import Problem
from rldyno.peers import catalogue as peers
from rldyno.records.files import read_bytes, write_atomically
from rldyno.study.plan import Plan, Trial
from rldyno.study.scripts import ScriptTable, is_shipped, script_of, script_path
from rldyno.toolchains.catalogue import CACHE_VARIABLES, COMMON_THREAD_VARIABLES, GPU_ORDER, toolchain
from rldyno.toolchains.interpreters import OLDEST, inspect
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.guest.file import GUEST
from rldyno_rig.trial_file import TrialFile


@dataclass(frozen=True)
class Start:
    script: Path
    table: ScriptTable

    @property
    def toolchain(self) -> str | None:
        return self.table.toolchain

    def interpreter(self, built: Mapping[str, Interpreter], absent: Mapping[str, Problem]) -> Interpreter:
        """That of its toolchain, or the one that the study names; a Problem when there is none."""
        if self.toolchain is not None:
            if self.toolchain in absent:
                raise absent[self.toolchain]
            return built[self.toolchain]
        return _given(self.script, self.table.interpreter or "")


def find_guests(plan: Plan, folder: Path | None, to_run: Collection[str]) -> dict[str, Start]:
    """Contestant → its script. `folder`: that of the study file; None where a results directory was given.

    A Problem where a results directory would start a script that this user has not run before.
    """
    study = plan.study
    found: dict[str, Start] = {}
    for contestant in study.contestants:
        name = script_of(contestant)
        if name is None:
            continue
        table, mark = study.script[name], _mark(name, study.script[name], study.script_sha256[name])
        home = folder
        if is_shipped(name, table, study.script_sha256[name]):
            home = peers.HOME
        elif home is not None:
            mark.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(mark, f"{home}\n")
        elif mark.is_file():
            home = Path(read_bytes(mark).decode().rstrip("\n"))
        elif contestant in to_run:
            raise Problem(
                f"the results directory names the script {name}, which you have not run from a study file "
                "on this machine: it is not started",
                fix="read the script and its study; then: rldyno run STUDY.toml --out DIR",
            )
        if home is not None:
            found[contestant] = Start(script_path(name, home), table)
    return found


def placed(plan: Plan, found: Mapping[str, Start]) -> Plan:
    """The plan with the places of its scripts."""
    if not found:
        return plan
    cells = {
        cell: cell
        if cell.guest is None or cell.contestant not in found
        else replace(cell, guest=replace(cell.guest, script=str(found[cell.contestant].script)))
        for cell in plan.cells
    }
    trials = tuple(Trial(cells[trial.cell], trial.seed, trial.block) for trial in plan.trials)
    return replace(plan, cells=tuple(cells.values()), trials=trials)


def guest_file(trial: Trial, interpreter: Interpreter) -> TrialFile:
    """The complete trial.json of a guest, but for the conditions right before the start."""
    cores, file = trial.cell.cores, trial.to_file()
    if interpreter.framework == GUEST:
        own = GPU_ORDER | dict.fromkeys(COMMON_THREAD_VARIABLES, str(cores)) | CACHE_VARIABLES
    else:
        chain = toolchain(interpreter.framework)
        own = chain.worker_variables(cores) | CACHE_VARIABLES | chain.caches
    return replace(
        file,
        interpreter=str(interpreter.path),
        isolated=interpreter.isolated,
        variables={**own, **dict(file.guest.variables if file.guest else ())},
    )


def _mark(name: str, table: ScriptTable, sha256: str) -> Path:
    """A file of this user's that says: this script was run, started like this. It holds the folder."""
    content = json.dumps([name, sha256, table.content], sort_keys=True)
    return cache_dir() / "guests" / hashlib.sha256(content.encode()).hexdigest()


def _given(script: Path, text: str) -> Interpreter:
    beside = script.parent / text
    try:
        python = beside if beside.is_file() else interpreter_path(text)
        found = inspect(python, ["numpy"], isolated=False)
    except (OSError, ValueError) as error:
        raise Problem(f"the interpreter of {script.name} does not run: {text}: {error}") from error
    if Version(found.python) < OLDEST:
        raise Problem(f"the interpreter of {script.name} is Python {found.python}; {OLDEST} is the oldest")
    if found.failed is not None:
        raise Problem(f"the interpreter of {script.name} has no NumPy: {text}", detail=found.error)
    return Interpreter(GUEST, python, "given", found.python, found.versions, None)
