"""Records changed on purpose and sealed anew, for tests of what follows from their content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rldyno.records.seal import SEAL, file_hashes, write_record
from rldyno_rig.schema import OUTCOME_FILE


def edit(path: Path, **changes: Any) -> None:
    """Change keys of a sealed record."""
    values = {**json.loads(path.read_text()), **changes}
    del values[SEAL]
    write_record(path, values)


def edit_facts(trial: Path, **changes: Any) -> None:
    """Change keys of facts.json, as if the worker had written them."""
    path = trial / "facts.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    edit(trial / OUTCOME_FILE, files=file_hashes(trial))
