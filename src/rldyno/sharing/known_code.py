"""Which code is known: this rldyno, and the sources whose hashes are kept beside this file.

A hash that is not among them says that somebody changed the code: perhaps a new backend, perhaps a trick.
`python tests/known_code.py REVISION` adds a source; every release is one.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

from rldyno.processes.rig import RIG
from rldyno.sharing.index import RanCode
from rldyno_rig import identity

KNOWN_FILE = Path(__file__).with_name("known_code.toml")
THIS = "this rldyno"


@dataclass(frozen=True)
class Source:
    name: str
    reference: str
    rig: str
    backends: frozenset[str]

    def has(self, code: RanCode) -> bool:
        return (code.reference, code.rig) == (self.reference, self.rig) and code.backend in self.backends


@functools.cache
def sources() -> tuple[Source, ...]:
    entries = tomllib.loads(KNOWN_FILE.read_text(encoding="utf-8"))["source"]
    kept = (
        Source(entry["name"], entry["reference"], entry["rig"], frozenset(entry["backends"]))
        for entry in entries
    )
    return (installed(), *kept)


def installed() -> Source:
    """The code beside this file, as it is now."""
    backends = sorted((RIG / "backends").glob("*_.py"))
    found = [identity.hashes(str(backend)) for backend in backends]
    return Source(
        THIS,
        found[0]["reference_sha256"],
        found[0]["rig_sha256"],
        frozenset(hashes["backend_sha256"] for hashes in found),
    )


def source_of(code: RanCode) -> str | None:
    """The name of the source that has this code; None for unknown code."""
    return next((source.name for source in sources() if source.has(code)), None)
