"""A contestant: a framework in one of its execution modes, written `framework:mode`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Contestant:
    framework: str
    mode: str

    @staticmethod
    def parse(text: str) -> Contestant:
        """`torch:eager` → Contestant("torch", "eager"); the mode is empty where none is named."""
        framework, _, mode = text.partition(":")
        return Contestant(framework, mode)

    def __str__(self) -> str:
        return "{}:{}".format(self.framework, self.mode)

    @property
    def file_name(self) -> str:
        """For files and directories: `torch-eager`."""
        return "{}-{}".format(self.framework, self.mode)
