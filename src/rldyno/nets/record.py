"""Reading nets.json."""

from __future__ import annotations

from pathlib import Path

from rldyno.errors import Problem
from rldyno.nets.work import NETS_FILE
from rldyno.records import files as records
from rldyno.records.files import Json

PARTS = ("asked", "machine", "workers", "measurements")


def read_record(directory: Path) -> Json | None:
    """None where networks were not timed."""
    path = directory / NETS_FILE
    if not path.exists():
        return None
    record = records.read_json(path)
    missing = [name for name in PARTS if name not in record]
    if missing:
        raise Problem(
            f"{path} is damaged: it has no {' and no '.join(missing)}",
            fix=f"delete it, or measure again: rldyno nets -o {directory}",
            code=1,
        )
    return record
