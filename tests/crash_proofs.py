"""A proof that is killed at changes of a file: the next one leaves nothing of it in the cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from crash import Case
from rldyno.proofs import prove, store
from rldyno.proofs.certificate import Subject
from rldyno.toolchains.resolve import Interpreter
from whole_proofs import whole_proof

WANTED = [Subject.of("numpy:eager", algorithm, "mlp", "cpu") for algorithm in ("dqn", "ppo")]
RIG = """#!{python}
import json, os, sys
print("proving")
folder = sys.argv[-1]
proofs = [{proofs!r}[subject["algorithm"]] for subject in json.load(open(folder + "/job.json"))["subjects"]]
json.dump({{"versions": {{}}, "proofs": proofs}}, open(folder + "/partial", "w"))
os.replace(folder + "/partial", folder + "/proofs.json")
"""


def proof(folder: Path) -> Case:
    """Its "interpreter" writes whole proofs of what is wanted."""
    python = folder / "python"
    proofs = {subject.algorithm: whole_proof(subject.algorithm) for subject in WANTED}
    python.write_text(RIG.format(python=sys.executable, proofs=proofs))
    python.chmod(0o755)
    interpreters = {"numpy": Interpreter("numpy", python, "given", "3.11.7", {"numpy": "2.0"}, None)}

    def action(home: Path) -> None:
        os.environ["RLDYNO_CACHE_DIR"] = str(home / "cache")
        prove.prove(WANTED, interpreters, lambda _: None)

    def flaws(home: Path) -> list[str]:
        os.environ["RLDYNO_CACHE_DIR"] = str(home / "cache")
        missing = [str(subject) for subject in WANTED if store.find(subject, interpreters["numpy"]) is None]
        left = [path.name for path in (home / "cache").rglob("*") if path.suffix not in (".json", ".log")]
        left = [name for name in left if name not in ("proofs", "certificates")]
        return [f"no certificate of {name}" for name in missing] + [f"left over: {name}" for name in left]

    return Case(action, flaws)
