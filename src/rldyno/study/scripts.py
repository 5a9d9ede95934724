"""`[script."train.py"]` of a study: training scripts of the user's that are contestants as they are.

A study file names scripts beside it, or peers, whose scripts and tables come with rldyno. The hashes of
scripts and the tables of peers are added to the text of the study when it is read, so that a results
directory says which script ran, and an edited one makes another study.
"""

from __future__ import annotations

import hashlib
import re
import string
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, field_validator

from rldyno.peers import catalogue as peers
from rldyno.toml.lines import key_name
from rldyno.toml.source import Source, read_plain
from rldyno.toml.suggestions import suggest
from rldyno.toml.write import toml_text
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.contestant import Contestant
from rldyno_rig.envs.atari_rules import is_atari
from rldyno_rig.guest.file import GUEST, Guest

SCRIPT, HASHES = "script", "script_sha256"
FILLED_IN = ("seed", "steps", "algorithm", "environment", "device", "cores")
"""What arguments may name in braces, besides hyper-parameters."""
MOST_BYTES = 10**7
"""Of a script."""
_DEVICES = ("cpu", "cuda")


def _several(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else (value,) if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_several)]


class ScriptTable(BaseModel):
    """How a script is started."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    arguments: Texts = ()
    """Of its command line; `{seed}`, `{steps}` and others are filled in."""
    algorithm_arguments: dict[str, Texts] = {}
    """Algorithm → more of them, after the others."""
    interpreter: str | None = None
    toolchain: str | None = None
    variables: dict[str, str] = {}
    algorithms: Texts | None = None
    """Those of the study that it trains with; None: all."""
    environments: Texts | None = None
    """Those of the study that it plays; None: all."""

    @field_validator("variables")
    @classmethod
    def _names(cls, variables: dict[str, str]) -> dict[str, str]:
        for name in variables:
            if not name or "=" in name:
                raise ValueError(f"'{name}' is no name of a variable")
        return variables

    def runs(self, algorithm: str, environment: str) -> bool:
        return (self.algorithms is None or algorithm in self.algorithms) and (
            self.environments is None or environment in self.environments
        )

    def arguments_for(self, algorithm: str) -> tuple[str, ...]:
        """With braces."""
        return self.arguments + self.algorithm_arguments.get(algorithm, ())

    def guest(self, sha256: str, algorithm: str) -> Guest:
        """With braces still in its arguments."""
        return Guest(sha256, self.arguments_for(algorithm), tuple(sorted(self.variables.items())))

    @property
    def content(self) -> dict[str, Any]:
        """As JSON. Older versions had no arguments by algorithm: tables without any keep their hash."""
        newer = set() if self.algorithm_arguments else {"algorithm_arguments"}
        return self.model_dump(mode="json", exclude=newer)


@dataclass(frozen=True)
class _Scripts:
    """The scripts of a study in the place of a toolchain: each is a mode."""

    modes: Mapping[str, tuple[str, ...]]
    collectives: Mapping[Any, tuple[str, ...]]


def with_scripts(catalogue: Mapping[str, Any], table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The catalogue with the scripts that the table of a study describes."""
    named = table.get(SCRIPT)
    modes = dict.fromkeys(named, _DEVICES) if isinstance(named, dict) else {}
    return {**catalogue, GUEST: _Scripts(modes, {})} if modes else catalogue


def with_peers(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a study, complete: what it does not say of its peers, such as `script:sb3`, is added."""
    named = _peers_of(table)
    if not named:
        return dict(table)
    written, hashes = table.get(SCRIPT, {}), table.get(HASHES, {})
    if not isinstance(written, dict) or not isinstance(hashes, dict):
        return dict(table)
    complete = {}
    for name in named:
        own = written.get(name, {})
        if isinstance(own, dict):
            shipped = _peer_table(name, table)
            if "interpreter" in own:
                del shipped["toolchain"]
            complete[name] = {**shipped, **own}
    known = {name: peers.script_sha256(name) for name in named}
    return {**table, SCRIPT: {**written, **complete}, HASHES: {**known, **hashes}}


def _peers_of(table: Mapping[str, Any]) -> list[str]:
    given = table.get("contestants")
    names = [script_of(text) for text in _listed(given) if isinstance(text, str)]
    return [name for name in names if name in peers.peers()]


def _peer_table(name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """What its TOML file says, for the algorithms and environments that it can train."""
    peer = peers.peers()[name]
    algorithms, environments = _listed(table.get("algorithms")), _listed(table.get("environments"))
    trained = [one for one in algorithms if one in peer.algorithms]
    played = [one for one in environments if not (isinstance(one, str) and is_atari(one))]
    made: dict[str, Any] = {"toolchain": name, "arguments": list(peer.arguments)}
    if trained != algorithms:
        made["algorithms"] = trained
    if played != environments:
        made["environments"] = played
    made["algorithm_arguments"] = {
        one: list(more) for one, more in peer.algorithm_arguments.items() if one in trained
    }
    return made


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def is_shipped(name: str, table: ScriptTable, sha256: str) -> bool:
    """Whether this is a peer that starts as its TOML file says: nobody else has a part in it."""
    peer = peers.peers().get(name)
    return (
        peer is not None
        and sha256 == peers.script_sha256(name)
        and (table.toolchain, table.interpreter, table.variables) == (name, None, {})
        and table.arguments == peer.arguments
        and table.algorithm_arguments.items() <= peer.algorithm_arguments.items()
    )


def script_of(contestant: str) -> str | None:
    """`train.py` of `script:train.py`; None of other contestants."""
    parsed = Contestant.parse(contestant)
    return parsed.mode if parsed.framework == GUEST else None


def check_has_table(contestant: str, catalogue: Mapping[str, Any]) -> None:
    """ValueError for a script without a table that says how to start it."""
    name = script_of(contestant)
    known = catalogue[GUEST].modes if GUEST in catalogue else {}
    if name is not None and name not in known:
        message = f"no table {key_name((SCRIPT, name))} says how to start it"
        raise ValueError(message + suggest(name, dict.fromkeys([*known, *peers.peers()])))


def filled_in(guest: Guest, values: Mapping[str, Any]) -> Guest:
    """Of one trial. `values`: what arguments may name."""
    return replace(guest, arguments=tuple(text.format_map(values) for text in guest.arguments))


class Checked(Protocol):
    """What scripts depend on in the rest of a study."""

    contestants: tuple[str, ...]
    algorithms: tuple[str, ...]
    environments: tuple[str, ...]
    script: dict[str, ScriptTable]
    script_sha256: dict[str, str]


def check_scripts(source: Source, study: Checked) -> None:
    """Every table belongs to a contestant and can be started."""
    tasks = study.algorithms, study.environments
    has_steps = "steps" in source.table.get("budget", {})
    for name, table in study.script.items():
        place = (SCRIPT, name)
        if str(Contestant(GUEST, name)) not in study.contestants:
            source.mistake(place, f"no contestant `{Contestant(GUEST, name)}` in this study")
        if (table.interpreter is None) == (table.toolchain is None):
            source.mistake(place, "give either `interpreter`, a Python, or `toolchain`, a name")
        if table.toolchain is not None:
            _check_toolchain(source, (*place, "toolchain"), table.toolchain)
        if not study.script_sha256.get(name):
            source.mistake(place, "the script is looked for beside a study file: write the study to one")
        chosen = zip(
            ("algorithms", "environments"), tasks, (table.algorithms, table.environments), strict=True
        )
        for key, known, given in chosen:
            for one in given or ():
                if one not in known:
                    source.mistake((*place, key), f"`{one}` is not in `{key}` of this study")
            if given == ():
                peer = peers.peers().get(name)
                can = f"{', '.join(peer.algorithms)}, no Atari games" if peer else "nothing"
                message = (
                    f"`{Contestant(GUEST, name)}` trains none of the {key} of this study; it trains {can}"
                )
                source.mistake(("contestants",), message)
            _check_told(source, (*place, "arguments"), key, given or known, table)
        for algorithm in table.algorithm_arguments:
            if algorithm not in study.algorithms:
                message = f"`{algorithm}` is not in `algorithms` of this study"
                source.mistake((*place, "algorithm_arguments"), message)
        _check_arguments(source, place, table, table.algorithms or tasks[0], has_steps)


def _check_toolchain(source: Source, place: tuple[str, ...], name: str) -> None:
    from rldyno.toolchains.catalogue import read_catalogue

    known = read_catalogue()
    if name not in known:
        source.mistake(place, f"unknown toolchain '{name}'" + suggest(name, known))


def _check_told(
    source: Source, place: tuple[str, ...], key: str, several: Sequence[str], table: ScriptTable
) -> None:
    name = key.removesuffix("s")
    if len(several) > 1 and name not in _names(table.arguments):
        message = f"the study has several {key}: pass `{{{name}}}` on, or name one in `{key}` of the script"
        source.mistake(place, message)


def _check_arguments(
    source: Source, place: tuple[str, ...], table: ScriptTable, algorithms: Iterable[str], has_steps: bool
) -> None:
    hyper = [
        {entry.name for entry in fields(ALGORITHMS[name].hyper)} for name in algorithms if name in ALGORITHMS
    ]
    shared = sorted(set.intersection(*hyper) if hyper else ())
    _check_names(source, (*place, "arguments"), table.arguments, shared, has_steps)
    for algorithm, arguments in table.algorithm_arguments.items():
        if algorithm in ALGORITHMS:
            own = [entry.name for entry in fields(ALGORITHMS[algorithm].hyper)]
            _check_names(source, (*place, "algorithm_arguments", algorithm), arguments, own, has_steps)


def _check_names(
    source: Source, place: tuple[str, ...], arguments: Iterable[str], hyper: Iterable[str], has_steps: bool
) -> None:
    known = [*FILLED_IN, *hyper]
    for name in _names(arguments):
        if name is None:
            source.mistake(place, "a brace that is not closed; `{{` is a brace itself")
        elif name not in known:
            bare = re.split("[!:]", name)[0]
            hint = f"; write `{{{bare}}}` alone" if bare in known else suggest(name, known)
            source.mistake(place, f"nothing is known as `{{{name}}}`{hint}")
        elif name == "steps" and not has_steps:
            source.mistake(place, "`{steps}` needs `steps` in [budget]")


def _names(arguments: Iterable[str]) -> list[str | None]:
    """The fields in braces; None for what cannot be read."""
    found: list[str | None] = []
    for argument in arguments:
        try:
            for _, name, form, conversion in string.Formatter().parse(argument):
                if name is not None:
                    found.append(
                        f"{name}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}"
                    )
        except ValueError:
            found.append(None)
    return found


def with_hashes(source: Source, folder: Path) -> str:
    """The text of the study with the hashes of its scripts, which are beside its file or come with rldyno,
    and with the tables of peers that it does not have.
    """
    text = source.text or ""
    table = with_peers(source.table)
    named = table.get(SCRIPT)
    if not isinstance(named, dict) or not named:
        return text
    given = source.table.get(HASHES)
    found: dict[str, str] = {}
    for name in named:
        path = script_path(name, folder)
        try:
            found[name] = hashlib.sha256(_content(path)).hexdigest()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            source.mistake((SCRIPT, name), f"cannot read the script {path}: {reason}")
            continue
        if isinstance(given, dict) and given.get(name, found[name]) != found[name]:
            source.mistake(
                (HASHES, name), f"{name} is another script now: its hash begins {found[name][:12]}"
            )
    if source.mistakes:
        raise source.problem("correct the study; docs/guests.md explains scripts")
    written = source.table.get(SCRIPT, {})
    new = {name: named[name] for name in named if name not in written}
    added = ({SCRIPT: new} if new else {}) | ({} if isinstance(given, dict) else {HASHES: found})
    if not added:
        return text
    longer = f"{text.rstrip()}\n\n# Added by rldyno: the scripts that ran.\n{toml_text(added)}"
    try:
        tomllib.loads(longer)
    except tomllib.TOMLDecodeError:  # `script` is written in one line, to which no table can be added
        return toml_text({**source.table, SCRIPT: named, HASHES: found})
    return longer


def _content(path: Path) -> bytes:
    found = read_plain(path, MOST_BYTES + 1)
    if len(found) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES // 10**6} MB")
    return found


def script_path(name: str, folder: Path) -> Path:
    """Of a peer the script that comes with rldyno, of others the one beside the study file."""
    return peers.script(name) if name in peers.peers() else folder / name
