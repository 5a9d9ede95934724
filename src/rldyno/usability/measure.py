"""Measures the usability of frameworks one by one, and keeps the results as long as they are valid."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from rldyno.config import cache_dir, load_config
from rldyno.errors import Problem
from rldyno.machine.facts import machine_facts
from rldyno.records import files as records
from rldyno.records.scratch import remove_abandoned_scratch, scratch_directory
from rldyno.toolchains.catalogue import Toolchain, toolchain
from rldyno.toolchains.resolve import Interpreter, resolve, state
from rldyno.usability import (
    community,
    compatibility,
    data,
    deployment,
    exports,
    mistakes,
    package,
    parallel,
    process,
    releases,
    source,
    starting,
    store,
    visualisation,
)
from rldyno.usability.frameworks import Description, describe, description_path
from rldyno.usability.index import Indexes, pip_indexes
from rldyno.usability.record import Absent, Part, UsabilityFile, UsabilityRecord
from rldyno_rig import identity
from rldyno_rig.job_files import UsabilityJob

Json = dict[str, Any]
OnPart = Callable[[str, str], None]
EARLIER = 3


@dataclass(frozen=True)
class MeasuredFramework:
    """One framework as it is installed here."""

    chain: Toolchain
    interpreter: Interpreter
    description: Description
    installed: package.Installed
    distribution: str
    """Canonical name of the framework's own package."""
    earlier: int = EARLIER
    """Series of releases before this one that are tried."""
    say: Callable[[str], None] = lambda line: None
    """Tells what is tried now, of parts that take minutes."""

    @property
    def key(self) -> str:
        """A hash of everything that a record describes, and of the code that measures."""
        backend = self.chain.backend
        code = [*identity.sources(Path(__file__).parent), *identity.sources(identity.HERE / "usability")]
        content = {
            "code": identity.digest([*code, description_path(backend)]),
            "sources": identity.digest(self.description.files),
            "interpreter": [str(self.interpreter.path), self.interpreter.python],
            "versions": self.interpreter.versions,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def find(framework: str, overrides: Mapping[str, Path]) -> MeasuredFramework:
    """The framework as it is installed here; a Problem, with the fix, if it is not."""
    chain = toolchain(framework)
    interpreter = resolve(framework, overrides)
    description = describe(chain.backend)
    if description is None:
        raise Problem(
            f"no usability file for {framework}",
            fix=f"write {description_path(chain.backend).name} beside those in rldyno/usability/frameworks",
        )
    among = package.installed(interpreter)
    distribution = package.distribution_of(description.packages, among)
    if distribution is None:
        raise Problem(
            f"{interpreter.path} has no package {' or '.join(description.packages)}",
            fix="install the framework with pip, so that its metadata can be read",
            code=1,
        )
    return MeasuredFramework(chain, interpreter, description, among, distribution)


def record(subject: MeasuredFramework, parts: Sequence[str], fresh: bool, on_part: OnPart) -> UsabilityRecord:
    """The parts of the framework's record: from the cache, else measured now and put there."""
    name = subject.chain.framework
    path = store.record_path(name, subject.key)
    found = store.read(path) or new_record(subject)
    # What failed for a temporary reason, such as no network, is measured again.
    wanted = [part for part in parts if fresh or not is_kept(subject, found.parts.get(part))]
    for part in wanted:
        on_part(name, part)
        found = found.with_part(part, measured(subject, part), records.now_iso())
        store.write(path, found)
    return found.only(parts)


def is_kept(subject: MeasuredFramework, part: Part | None) -> bool:
    """Whether what is known of a part is what is asked for, and nothing that it lacked has come since."""
    if part is None or part.get("passing") or part.get("asked") not in (None, subject.earlier):
        return False
    lacked = part.get("lacks", ())
    return not any(parallel.has_part(subject.chain, subject.interpreter, name) for name in lacked)


def new_record(subject: MeasuredFramework) -> UsabilityRecord:
    interpreter = subject.interpreter
    version = subject.installed[subject.distribution].version
    return UsabilityRecord(
        subject.chain.framework,
        subject.chain.summary,
        interpreter.python,
        {**interpreter.versions, subject.chain.top_module: version},
        records.now_iso(),
    )


def measured(subject: MeasuredFramework, part: str) -> Json:
    """One part. If it fails, the failure is its result, and the other parts are still measured."""
    home = cache_dir() / "usability"
    remove_abandoned_scratch(home)
    load = psutil.getloadavg()[0]
    with scratch_directory(home) as work:
        try:
            found = PARTS[part](subject, Path(work))
        except (OSError, RuntimeError, ValueError) as error:
            found = {"error": f"{type(error).__name__}: {error}"}
    return {"error": None, **found, "load_before": round(load, 2)}


def measure_install(subject: MeasuredFramework, work: Path) -> Json:
    return package.measure(subject.distribution, subject.interpreter, subject.chain, subject.installed)


def measure_start(subject: MeasuredFramework, work: Path) -> Json:
    imported = starting.measure_import(subject.interpreter, subject.chain, work)
    modes = dict(starting.measure_first_update(subject.interpreter, subject.chain, work))
    return {**imported, "first_update": modes}


def measure_code(subject: MeasuredFramework, work: Path) -> Json:
    files = subject.description.files
    texts = [file.read_text(encoding="utf-8") for file in files]
    names = [file.relative_to(identity.HERE).as_posix() for file in files]
    return {"files": names, **source.measure(texts, subject.description.transfers)}


def measure_mistakes(subject: MeasuredFramework, work: Path) -> Json:
    made = subject.description.mistakes
    return {
        kind: mistakes.make(kind, getattr(made, kind), subject.interpreter, subject.chain, work)
        for kind in mistakes.SIDES
    }


def measure_save(subject: MeasuredFramework, work: Path) -> Json:
    job = UsabilityJob(subject.chain.backend, "save", process.first_mode(subject.chain))
    return process.rig(subject.interpreter, subject.chain, job, work)


def measure_data(subject: MeasuredFramework, work: Path) -> Json:
    return {"loaders": each(subject, subject.description.loaders, data.measure, work)}


def measure_visualisation(subject: MeasuredFramework, work: Path) -> Json:
    board = subject.description.board
    if board is None:
        return {"error": "its usability file has no [board]"}
    return visualisation.measure(board, subject.interpreter, subject.chain, work)


def measure_parallel(subject: MeasuredFramework, work: Path) -> Json:
    return parallel.measure(subject.chain, subject.interpreter, subject.description.files, work)


def measure_export(subject: MeasuredFramework, work: Path) -> Json:
    found = each(subject, subject.description.exports, exports.measure, work)
    return {
        "paths": found,
        "passing": any(path.get("passing") for path in found.values()),
        "missing": dict(subject.description.missing),
        "tolerance": exports.TOLERANCE,
    }


def measure_deployment(subject: MeasuredFramework, work: Path) -> Json:
    found = each(subject, subject.description.exports, deployment.measure, work)
    return {"paths": found, "passing": any(path.get("passing") for path in found.values())}


def each(
    subject: MeasuredFramework, ways: Mapping[str, Any], measure: Callable[..., Json], work: Path
) -> Json:
    """What is measured of each way that the framework's file names, in a directory of its own."""
    found = {}
    for name, way in ways.items():
        home = work / name
        home.mkdir()
        found[name] = measure(name, way, subject.interpreter, subject.chain, home)
    return found


def measure_release(subject: MeasuredFramework, work: Path) -> Json:
    return releases.measure(subject.installed[subject.distribution], indexes_of(subject))


def measure_community(subject: MeasuredFramework, work: Path) -> Json:
    today = datetime.now(UTC).date()
    return community.measure(subject.installed[subject.distribution], indexes_of(subject), today)


def measure_compatibility(subject: MeasuredFramework, work: Path) -> Json:
    chain, interpreter = subject.chain, subject.interpreter
    package = subject.distribution, subject.installed[subject.distribution].version
    return compatibility.measure(
        chain, interpreter, package, indexes_of(subject), subject.earlier, work, subject.say
    )


def indexes_of(subject: MeasuredFramework) -> Indexes:
    built = state(subject.chain).built
    arguments = load_config().pip_args if built is None else built.recipe.pip_args
    return pip_indexes(subject.interpreter.path, arguments)


PARTS: dict[str, Callable[[MeasuredFramework, Path], Json]] = {
    "install": measure_install,
    "start": measure_start,
    "code": measure_code,
    "mistakes": measure_mistakes,
    "data": measure_data,
    "visualisation": measure_visualisation,
    "parallel": measure_parallel,
    "save": measure_save,
    "export": measure_export,
    "deployment": measure_deployment,
    "release": measure_release,
    "community": measure_community,
    "compatibility": measure_compatibility,
}
ON_DEMAND = ("compatibility",)
"""Installs gigabytes, so it is measured only if it is asked for."""


def gather(
    frameworks: Sequence[str],
    overrides: Mapping[str, Path],
    parts: Sequence[str],
    fresh: bool,
    on_part: OnPart,
    earlier: int = EARLIER,
) -> UsabilityFile:
    """The record of each framework, and those that are not installed."""
    found: dict[str, UsabilityRecord] = {}
    absent: dict[str, Absent] = {}
    for name in frameworks:
        try:
            subject = replace(find(name, overrides), earlier=earlier, say=partial(on_part, name))
            found[name] = record(subject, parts, fresh, on_part)
        except Problem as problem:
            absent[name] = Absent(problem.message, problem.fix)
    return UsabilityFile(records.now_iso(), machine_facts(), found, absent)
