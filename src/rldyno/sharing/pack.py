"""A results directory as one file."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rldyno import __version__
from rldyno.errors import Problem
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import Json, naming, read_bytes, read_json, replacing
from rldyno.records.manifest import Manifest
from rldyno.records.seal import read_record
from rldyno.records.trial_records import read_facts, read_trial
from rldyno.records.typed import typed
from rldyno.results.check import check_directory
from rldyno.sharing.anonymous import make_anonymous, study_text
from rldyno.sharing.archive import read_index, write_archive
from rldyno.sharing.beside import folder_beside
from rldyno.sharing.index import INDEX_FILE, Member, PackIndex, RanCode
from rldyno.sharing.layout import may_travel, names_people, travelling
from rldyno.study.secrets import secret_names
from rldyno.text.numbers import counted

SUFFIX = ".rldyno.tar.gz"
_FLAWS_KEPT = 100
_FLAWS_SHOWN = 5


@dataclass(frozen=True)
class Packed:
    path: Path
    index: PackIndex
    trials: int
    sha256: str
    """Of the file: to compare with what somebody else received."""
    renamed: int = 0
    """Trials that have another id in it: their scripts were started with something that was removed."""
    secrets: tuple[str, ...] = ()
    """Variables and options in it that look like secrets."""


def pack_name(directory: Path) -> Path:
    """In the current directory: results/quickstart → quickstart.rldyno.tar.gz."""
    return Path(f"{directory.resolve().name or 'results'}{SUFFIX}")


def pack_directory(
    root: Path, path: Path, *, anonymous: bool = False, with_flaws: bool = False, with_secrets: bool = False
) -> Packed:
    directory = ResultsDirectory(root)
    manifest = directory.read_manifest()
    flaws = [flaw.replace(f"{root}/", "") for flaw in check_directory(root)]
    _refuse_flaws(root, flaws, anonymous, with_flaws)
    with folder_beside(path) as folder:
        names = _copy(directory, manifest, folder, anonymous)
        before = _packed_before(root)
        resealed = set(before.resealed if before else ())
        secrets = _secrets(folder, names)
        renamed = 0
        if anonymous:
            made = make_anonymous(folder, names, owner_of=root)
            names, renamed = made.names, made.renamed
            resealed = {made.moved.get(name, name) for name in resealed} | set(made.changed)
        elif secrets and not with_secrets:
            raise _refused_secrets(root, secrets)
        if not flaws and (found := check_directory(folder)):
            raise _changed_meanwhile(root, found, folder, anonymous)
        index = PackIndex(
            members=tuple(_member(folder, name) for name in sorted(names)),
            rldyno=__version__,
            ran_with=manifest.rldyno,
            git_revision=manifest.git_revision,
            code=_code(directory, manifest),
            anonymous=anonymous or (before is not None and before.anonymous),
            resealed=tuple(sorted(resealed & set(names))),
            flaws=tuple(flaws[:_FLAWS_KEPT]),
        )
        with replacing(path) as temporary:
            write_archive(folder, index, temporary)
            (folder / INDEX_FILE).unlink()
            read_index(temporary, folder)  # what nobody could unpack is not left behind
            sha256 = hashlib.sha256(temporary.read_bytes()).hexdigest()
    return Packed(path, index, len(manifest.trials), sha256, renamed, () if anonymous else tuple(secrets))


def _refuse_flaws(root: Path, flaws: list[str], anonymous: bool, with_flaws: bool) -> None:
    if not flaws:
        return
    if not with_flaws:
        raise Problem(
            f"{root} has {counted(len(flaws), 'flaw')}: it was not packed",
            detail="\n".join(flaws[:_FLAWS_SHOWN]),
            fix="run again what does not count (`rldyno run DIR`), or pack it as it is, and marked, with "
            "--with-flaws",
            code=1,
        )
    if anonymous:
        raise Problem(
            f"{root} has flaws: it cannot be packed with --anonymous",
            detail="\n".join(flaws[:_FLAWS_SHOWN]),
            fix="pack it without --anonymous: sealing its records again would hide what is wrong with them",
            code=1,
        )


def _secrets(folder: Path, names: Sequence[str]) -> list[str]:
    records: list[Json] = []
    for name in names:
        with contextlib.suppress(Problem):  # it is damaged, and named as a flaw
            if name.endswith(".json"):
                records.append(read_json(folder / name))
    return secret_names([*records, {"study_text": study_text(folder, names)}])


def _refused_secrets(root: Path, secrets: list[str]) -> Problem:
    return Problem(
        f"{root} was not packed: what its scripts were given looks like secrets: {', '.join(secrets)}",
        fix="remove them, with paths and names, with --anonymous; or pack them as they are: --with-secrets",
        code=1,
    )


def _changed_meanwhile(root: Path, found: list[str], folder: Path, anonymous: bool) -> Problem:
    fix = "pack it when no run works in it"
    if anonymous:
        fix += "; or without --anonymous: a name or a path may be part of what identifies a trial"
    said = "\n".join(flaw.replace(f"{folder}/", "") for flaw in found[:_FLAWS_SHOWN])
    return Problem(f"{root} cannot be packed: its records would not match", detail=said, fix=fix, code=1)


def _copy(directory: ResultsDirectory, manifest: Manifest, folder: Path, anonymous: bool) -> list[str]:
    """Into a folder of our own: what is checked there is what is packed. Return the names."""
    names = []
    for path in travelling(directory, manifest):
        name = path.relative_to(directory.root).as_posix()
        if anonymous and names_people(name):
            continue
        if not may_travel(name):
            raise Problem(f"{path} cannot be packed: its name is not one of rldyno's", code=1)
        try:
            content = read_bytes(path)
        except FileNotFoundError:
            continue  # a run has just put it aside
        except OSError as error:
            raise Problem(f"{path} cannot be packed: {error.strerror or error}", code=1) from error
        target = folder / name
        with naming(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        names.append(name)
    return names


def _member(folder: Path, name: str) -> Member:
    content = (folder / name).read_bytes()
    return Member(name, len(content), hashlib.sha256(content).hexdigest())


def _packed_before(root: Path) -> PackIndex | None:
    """The index of a directory that was unpacked: what was done to its records then stays known."""
    path = root / INDEX_FILE
    if not path.exists():
        return None
    try:
        return typed(path, read_record(path), PackIndex.from_json)
    except Problem as problem:
        raise Problem(problem.message, fix=f"remove {path} if it is not from rldyno", code=1) from problem


def _code(directory: ResultsDirectory, manifest: Manifest) -> tuple[RanCode, ...]:
    found = set()
    for trial in manifest.trials:
        home = directory.trial(trial)
        try:
            name, facts = str(read_trial(home).contestant), read_facts(home)
        except Problem:  # it has not run, or the flaw was named
            continue
        found.add(RanCode(name, facts.backend_sha256, facts.reference_sha256, facts.rig_sha256))
    return tuple(sorted(found, key=lambda one: (one.contestant, one.rig, one.backend, one.reference)))
