"""What trial.json says of a guest: a script of the user's that runs in place of the rig's own training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Tuple

GUEST = "script"
"""The framework of contestants such as `script:train.py`."""


@dataclass(frozen=True)
class Guest:
    sha256: str
    """Of the script's file. Modules that it imports are not in it."""
    arguments: Tuple[str, ...] = ()
    """With seed, steps and the like filled in."""
    variables: Tuple[Tuple[str, str], ...] = ()
    """Environment variables that the study gives."""
    script: str = ""
    """Where it is on this machine; added when the trial is prepared."""

    @property
    def computation(self) -> Dict[str, Any]:
        """What the id of the trial depends on: not the place of the file."""
        return {name: value for name, value in self.to_json().items() if name != "script"}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Guest:
        return Guest(
            sha256=str(values.get("sha256", "")),
            arguments=tuple(map(str, values.get("arguments") or ())),
            variables=tuple(
                (str(name), str(value)) for name, value in sorted((values.get("variables") or {}).items())
            ),
            script=str(values.get("script", "")),
        )

    def to_json(self) -> Dict[str, Any]:
        return {
            "sha256": self.sha256,
            "arguments": list(self.arguments),
            "variables": dict(self.variables),
            "script": self.script,
        }
