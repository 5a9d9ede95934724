"""Adds a revision of this repository to the code that `rldyno board` knows.

`python tests/known_code.py REVISION [NAME]`, for every release: trials that ran its code are not marked then.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from rldyno.sharing.known_code import KNOWN_FILE

ROOT = Path(__file__).parents[1]
HASHES = """
import json
from rldyno_rig import identity
found = [identity.hashes(str(path)) for path in sorted((identity.HERE / "backends").glob("*_.py"))]
backends = sorted({hashes["backend_sha256"] for hashes in found})
print(json.dumps([found[0]["reference_sha256"], found[0]["rig_sha256"], backends]))
"""


def entry(revision: str, name: str) -> str:
    """As TOML. The revision's own code computes its hashes: how they are made may have changed."""
    command = ["git", "-C", str(ROOT), "archive", revision, "src/rldyno_rig"]
    packed = subprocess.run(command, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        asked = [sys.executable, "-P", "-c", HASHES]
        environment = {"PYTHONPATH": f"{folder}/src", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(asked, capture_output=True, text=True, check=True, env=environment)
    reference, rig, backends = json.loads(done.stdout)
    lines = "".join(f'    "{backend}",\n' for backend in backends)
    return (
        f'\n[[source]]\nname = "{name}"\nreference = "{reference}"\nrig = "{rig}"\nbackends = [\n{lines}]\n'
    )


def main(revision: str, name: str = "") -> None:
    with KNOWN_FILE.open("a", encoding="utf-8") as file:
        file.write(entry(revision, name or revision))


if __name__ == "__main__":
    main(*sys.argv[1:])
