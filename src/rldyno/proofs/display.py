"""Proofs as they are made: a line for each, and on a terminal one that says what is being proven now."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from rldyno.proofs.jobs import log_path

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from rldyno.proofs.certificate import Certificate, Subject
    from rldyno.proofs.prove import Progress

# Without a terminal: how often a line says that a long proof still runs.
_QUIET_S = 30.0


class ProofDisplay:
    def __init__(self, console: Console, total: int, whole: bool = True) -> None:
        self._console = console
        self._total = total
        self._whole = whole
        self._made = 0
        self._failed: list[Subject] = []
        self._began = self._said = time.monotonic()
        self._stack = ExitStack()
        self._status: Status | None = None

    def __enter__(self) -> ProofDisplay:
        if self._total and self._console.is_terminal:
            self._status = self._stack.enter_context(self._console.status("proving"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
        for path in dict.fromkeys(map(log_path, self._failed)):
            if path.exists():
                self._print(f"what its process printed: {path}")

    def proven(self, certificate: Certificate) -> None:
        self._made += 1
        spent = time.monotonic() - self._began
        sentence = certificate.sentence() if self._whole else certificate.part_sentence()
        self._print(f"[{self._made}/{self._total}, {spent:.0f} s] {sentence}")
        if certificate.refuted or (self._whole and not certificate.proven):
            self._failed.append(certificate.subject)

    def progress(self, progress: Progress) -> None:
        if self._status is not None:
            self._status.update(progress.sentence())
        elif progress.running and time.monotonic() - self._said > _QUIET_S:
            self._print(progress.sentence())

    def _print(self, line: str) -> None:
        self._said = time.monotonic()
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)
