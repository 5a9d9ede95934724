"""The peers: what the script of each takes from a study, and what its library does instead.

A script `scripts/train_x.py` is written as users of library x write it. `x.toml` names the values of a trial
that it takes, each as an option of the same name, `--learning-rate {learning_rate}`, and for every
hyper-parameter that the library does not have, or not fully, what it has instead.

The scripts repeat their options: each is one file, as a user's is, and its hash covers all that it runs.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from rldyno.toml import models

HOME = Path(__file__).parent
EVERY = "every"
NO_LIBRARY = {"dqn": {"members": "1", "vote": "{vote}", "mask": "{mask}"}}
"""Of `instead`, what all have: no ensembles. How members vote and learn then makes no difference."""


class Peer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    library: str
    """Its name in texts."""
    framework: str
    """That of the library: contestants of the same one are compared with it first."""
    passes: dict[str, tuple[str, ...]]
    """Algorithm, or `every` → values of a trial that the script takes."""
    instead: dict[str, dict[str, str]]
    """Algorithm, or `every` → hyper-parameter that the library does not have, or not fully → the value it has
    instead. Braces name the study's values: `{learning_rate}`."""

    @property
    def algorithms(self) -> tuple[str, ...]:
        return tuple(name for name in self.passes if name != EVERY)

    @property
    def arguments(self) -> tuple[str, ...]:
        return options(self.passes[EVERY])

    @property
    def algorithm_arguments(self) -> dict[str, tuple[str, ...]]:
        return {name: options(self.passes[name]) for name in self.algorithms}

    def instead_of(self, algorithm: str) -> dict[str, str]:
        own = self.instead.get(EVERY, {}) | self.instead.get(algorithm, {})
        return NO_LIBRARY.get(algorithm, {}) | own

    def differences(self, algorithm: str, hyper: Mapping[str, Any]) -> dict[str, str]:
        """Hyper-parameter → what the library has instead of the study's value, where it differs.

        Values that a damaged or older record does not have are left out.
        """
        found = {}
        for name, text in self.instead_of(algorithm).items():
            with contextlib.suppress(KeyError, IndexError, TypeError):
                value = text.format_map(hyper)
                if value != str(hyper[name]):
                    found[name] = value
        return found


def options(names: Iterable[str]) -> tuple[str, ...]:
    """`--learning-rate {learning_rate} …`"""
    return tuple(text for name in names for text in (f"--{name.replace('_', '-')}", f"{{{name}}}"))


@functools.cache
def peers() -> dict[str, Peer]:
    """Name → peer. The toolchain of a peer has its name."""
    return {path.stem: models.load(Peer, path, "a peer file") for path in sorted(HOME.glob("*.toml"))}


def script(name: str) -> Path:
    return HOME / "scripts" / f"train_{name}.py"


def script_sha256(name: str) -> str:
    return hashlib.sha256(script(name).read_bytes()).hexdigest()
