"""The index of a pack: every file in it with its hash, and which code made the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rldyno.records.directory import MANIFEST_FILE
from rldyno.records.files import MOST_BYTES, Json
from rldyno.sharing.layout import may_travel

INDEX_FILE = "pack.json"
"""The first file of a pack. An unpacked directory keeps it: it says what was done to the records."""
FORMAT = 1
MOST_MEMBERS = 200_000
MOST_INDEX_BYTES = 64 * 2**20
MOST_UNPACKED_BYTES = 16 * 2**30
MOST_TIMES_LARGER = 100
"""Unpacked, in units of the packed size. Records are about 4 times larger, a bomb is 1,000 times."""


@dataclass(frozen=True)
class Member:
    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class RanCode:
    """The code that trials of a contestant ran, as hashes; empty where a record does not say."""

    contestant: str
    backend: str = ""
    reference: str = ""
    rig: str = ""


@dataclass(frozen=True)
class PackIndex:
    members: tuple[Member, ...]
    rldyno: str = ""
    """Version that packed."""
    ran_with: str = ""
    """Version that ran the study."""
    git_revision: str | None = None
    """Of the checkout that ran the study; None outside one."""
    code: tuple[RanCode, ...] = ()
    anonymous: bool = False
    """Whether paths and names were removed."""
    resealed: tuple[str, ...] = ()
    """Members that were changed for that, and sealed again by the packer."""
    flaws: tuple[str, ...] = ()
    """What `rldyno check` found in the directory; it was packed all the same."""

    @property
    def unpacked_bytes(self) -> int:
        return sum(member.bytes for member in self.members)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> PackIndex:
        if values.get("format") != FORMAT:
            raise ValueError(f"it has format {str(values.get('format'))[:20]}, this rldyno reads {FORMAT}")
        known = {name: values[name] for name in ("rldyno", "ran_with", "git_revision", "anonymous")}
        return PackIndex(
            members=tuple(Member(**entry) for entry in values["members"]),
            code=tuple(RanCode(**entry) for entry in values["code"]),
            resealed=tuple(values["resealed"]),
            flaws=tuple(values["flaws"]),
            **known,
        )

    def to_json(self) -> Json:
        return {
            "format": FORMAT,
            "rldyno": self.rldyno,
            "ran_with": self.ran_with,
            "git_revision": self.git_revision,
            "anonymous": self.anonymous,
            "resealed": list(self.resealed),
            "flaws": list(self.flaws),
            "code": [asdict(one) for one in self.code],
            "members": [asdict(member) for member in self.members],
        }


def objection_to(index: PackIndex, packed_bytes: int) -> str | None:
    """Why a pack with this index is not unpacked; None where nothing speaks against it."""
    names = [member.name for member in index.members]
    if len(names) > MOST_MEMBERS:
        return f"it has more than {MOST_MEMBERS:,} files"
    strange = [name for name in names if not may_travel(name)]
    if strange:
        return f"it has a file with the name {strange[0][:100]!r}, which no record has"
    if len({name.casefold() for name in names}) < len(names):
        return f"it has two files with the name {_repeated(names)[:100]!r}"
    if MANIFEST_FILE not in names:
        return f"it has no {MANIFEST_FILE}"
    if any(not 0 <= member.bytes <= MOST_BYTES for member in index.members):
        return "it has a file of impossible size"
    if index.unpacked_bytes > MOST_UNPACKED_BYTES:
        return f"it would take {index.unpacked_bytes / 2**30:,.0f} GiB, more than any study"
    if index.unpacked_bytes > MOST_TIMES_LARGER * packed_bytes:
        times = index.unpacked_bytes / max(1, packed_bytes)
        return f"it would become {times:,.0f} times larger, which no record does"
    return None


def _repeated(names: Iterable[str]) -> str:
    counts = Counter(name.casefold() for name in names)
    return max(counts, key=lambda name: counts[name])
