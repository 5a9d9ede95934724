"""Records without paths and without the names of users and machines.

What the records say of the measurement stays as it is. A record that changes is sealed again, and the index
of the pack names it. The hash that tells machines apart stays: it names none.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from rldyno.records.directory import MANIFEST_FILE, STUDY_FILE, TRIALS
from rldyno.records.files import Json, read_bytes, read_json, write_atomically, write_json
from rldyno.records.seal import SEAL, hash_of, read_record, write_record
from rldyno.sharing.guest_records import masked_manifest, masked_study, masked_trial, new_id
from rldyno.study.secrets import MASK, PATH, looks_secret, to_mask
from rldyno_rig.schema import CACHES_PLACE, OUTCOME_FILE, TRIAL_FILE

_KEPT = ("/sys/", "/proc/")
"""Files of the system: why something could not be measured is said with their names."""
_NAME_NOBODY = {
    *("admin", "debian", "docker", "guest", "host", "localhost", "node", "nobody", "root", "runner"),
    *("ubuntu", "user", "users", "work", "worker"),
}
_HOME = re.compile(r"/(?:home|Users)/([^/\s\"'`:;,]+)")
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'`<>]+", re.IGNORECASE)
_QUOTED = re.compile(r"([\"'`])~?/[^\"'`\n]+\1")
_BARE = re.compile(r"(?<![\w/.}~])~?/[^\s\"'`,;:()\[\]{}<>|*=]+")
_LONG = 8
_FREE_TEXT = re.compile(r"[\s/@]")
"""A string without any of these is a value with a meaning, such as `steps`, whoever is called so."""


@dataclass(frozen=True)
class Anonymous:
    names: list[str]
    """Of all records."""
    changed: list[str]
    moved: dict[str, str]
    """Old → new name of each record whose trial has a new id."""
    renamed: int
    """Trials with a new id."""


def make_anonymous(folder: Path, names: Sequence[str], owner_of: Path) -> Anonymous:
    """Rewrite the records of a folder of our own, named by `names`.

    `owner_of`: names of its owner are removed, and of this user and machine.
    """
    records = {name: read_json(folder / name) for name in names if name.endswith(".json")}
    scrub, ids = _scrub(records, study_text(folder, names), owner_of)
    changed: list[str] = []
    # An outcome holds hashes of the other files of its trial: it is the last of them.
    for name in sorted(records, key=lambda name: name.endswith(OUTCOME_FILE)):
        if _rewrite(folder, name, scrub, changed):
            changed.append(name)
    changed += _study(folder, names, scrub)
    for old, new in ids.items():
        (folder / TRIALS / old).rename(folder / TRIALS / new)
    moved = {name: new for name in names if (new := _moved(name, ids)) != name}
    names, changed = ([moved.get(name, name) for name in each] for each in (names, changed))
    return Anonymous(names, changed, moved, len(ids))


def _scrub(records: Mapping[str, Json], study: str, owner_of: Path) -> tuple[Scrub, dict[str, str]]:
    """Also the new ids of trials, by their old ones."""
    homes = (home for record in records.values() for text in _strings(record) for home in _HOME.findall(text))
    nodes = (node for record in records.values() for node in _nodes(record))
    names = {*_names_here(owner_of), *homes, *nodes}
    masks = to_mask([*records.values(), {"study_text": study}])
    scrub = Scrub(names, masks)
    ids = {}
    for name, record in records.items():
        if PurePath(name).name == TRIAL_FILE and (
            new := new_id(record, masked_trial(record, scrub.argument))
        ):
            ids[PurePath(name).parent.name] = new
    return Scrub(names, masks | ids), ids


def _moved(name: str, ids: Mapping[str, str]) -> str:
    parts = PurePath(name).parts
    if parts[0] != TRIALS:
        return name
    return PurePath(TRIALS, ids.get(parts[1], parts[1]), *parts[2:]).as_posix()


class Scrub:
    """`masks`: other texts that must not be found, and what stands in their place."""

    def __init__(self, names: Iterable[str], masks: Mapping[str, str] | None = None) -> None:
        self._masks = dict(masks or {})
        self._masked = _any_of(self._masks) if self._masks else None
        told = sorted(name for name in set(names) if len(name) > 2 and name.lower() not in _NAME_NOBODY)
        self._stand_ins = {name.lower(): f"name-{number}" for number, name in enumerate(told, 1)}
        longest_first = sorted(map(re.escape, told), key=len, reverse=True)
        self._names = re.compile(rf"(?<!\w)(?:{'|'.join(longest_first)})(?!\w)", re.IGNORECASE)

    def text(self, text: str) -> str:
        """Without paths, addresses and names."""
        if self._masked:
            text = self._masked.sub(lambda found: self._masks[found[0]], text)
        text = _ADDRESS.sub("removed", text)
        text = _QUOTED.sub(lambda found: _replaced(found[0], found[0][1:-1], found[1]), text)
        text = _BARE.sub(lambda found: _replaced(found[0], found[0]), text)
        return self.names(text) if _FREE_TEXT.search(text) else text

    def argument(self, text: str) -> str:
        """Of a command line: a word alone may be a name, too."""
        return self.names(self.text(text))

    def names(self, text: str) -> str:
        if not self._stand_ins:
            return text
        return self._names.sub(lambda found: self._stand_ins[found[0].lower()], text)

    def value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {name: self.value(item) for name, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list) else value


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Short ones as whole words only."""
    longest_first = sorted(texts, key=len, reverse=True)
    ends = {text: ("", "") if len(text) >= _LONG else (r"(?<!\w)", r"(?!\w)") for text in longest_first}
    return re.compile("|".join(ends[text][0] + re.escape(text) + ends[text][1] for text in longest_first))


def _replaced(found: str, path: str, quote: str = "") -> str:
    return found if path.startswith(_KEPT) or path == PATH else f"{quote}{PATH}{quote}"


def _rewrite(folder: Path, name: str, scrub: Scrub, changed: Sequence[str]) -> bool:
    """`changed`: what was rewritten before it."""
    path, file = folder / name, PurePath(name).name
    sealed = SEAL in read_json(path)
    before = read_record(path) if sealed else read_json(path)
    after = _special(file, scrub.value(_without_guests(file, before, scrub)), scrub)
    if file == OUTCOME_FILE and isinstance(hashes := before.get("files"), dict):
        places = {entry: (PurePath(name).parent / entry).as_posix() for entry in hashes}
        renewed = {entry: hash_of(folder / place) for entry, place in places.items() if place in changed}
        after = {**after, "files": {**hashes, **renewed}}
    if after == before:
        return False
    (write_record if sealed else write_json)(path, after)
    return True


def _without_guests(file: str, values: Json, scrub: Scrub) -> Json:
    """Before anything else changes: their paths and keys must be found as they were written."""
    if file == TRIAL_FILE:
        return masked_trial(values, scrub.argument)
    return masked_manifest(values, scrub.argument) if file == MANIFEST_FILE else values


def _special(file: str, values: Json, scrub: Scrub) -> Json:
    """What is a path or a name as a whole, also where it has blanks in it."""
    if file == TRIAL_FILE:
        values = {**values, "variables": _variables(values.get("variables") or {})}
        for name in ("interpreter", "mpiexec"):
            if values.get(name):
                values[name] = PATH
    if file == OUTCOME_FILE:
        if values.get("log_tail"):
            values = {**values, "log_tail": None}
        if _nodes(values):
            named = [scrub.names(str(node)) for node in values["affinity"]["nodes"]]
            values = {**values, "affinity": {**values["affinity"], "nodes": named}}
    if file == MANIFEST_FILE:
        values = {**values, "study_path": PurePath(str(values.get("study_path") or "")).name}
        values["title"] = scrub.names(str(values.get("title") or ""))
    return values


def _variables(values: Mapping[str, str]) -> dict[str, str]:
    """Without a place on this machine, or several, and without what looks like a key."""
    return {
        name: PATH
        if "/" in value and not value.startswith(CACHES_PLACE)
        else MASK
        if looks_secret(name, value)
        else value
        for name, value in values.items()
    }


def _study(folder: Path, names: Sequence[str], scrub: Scrub) -> list[str]:
    """The copy of the study says what the manifest says."""
    if STUDY_FILE not in names:
        return []
    before = study_text(folder, names)
    recorded = read_json(folder / MANIFEST_FILE).get("study_text")
    if isinstance(recorded, str) and recorded:
        after = recorded
    else:
        after = scrub.text(masked_study(before, scrub.argument))
    if after == before:
        return []
    write_atomically(folder / STUDY_FILE, after)
    return [STUDY_FILE]


def study_text(folder: Path, names: Sequence[str]) -> str:
    return read_bytes(folder / STUDY_FILE).decode(errors="replace") if STUDY_FILE in names else ""


def _names_here(owner_of: Path) -> Iterator[str]:
    machine = os.uname().nodename
    yield from (machine, machine.partition(".")[0])
    for user in {os.geteuid(), owner_of.stat().st_uid}:
        with contextlib.suppress(KeyError):
            yield pwd.getpwuid(user).pw_name
    yield from filter(None, map(os.environ.get, ("USER", "LOGNAME", "SUDO_USER")))


def _nodes(values: Mapping[str, Any]) -> list[str]:
    """Names of the machines of a team, as an outcome has them."""
    affinity = values.get("affinity")
    nodes = affinity.get("nodes") if isinstance(affinity, Mapping) else None
    return [str(node) for node in nodes] if isinstance(nodes, list) else []


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
