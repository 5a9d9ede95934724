"""Showing a build: one live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from rldyno.toolchains.installing import OnProgress, Progress

_PLAIN_EVERY_S = 10.0


@contextlib.contextmanager
def shown_progress(console: Console) -> Iterator[OnProgress]:
    """A function that shows the progress it is given, for as long as the context lasts."""
    if console.is_terminal:
        with Status("", console=console) as status:
            yield _with_notes(console, lambda progress: status.update(_live(progress, console.width)))
    else:
        yield _with_notes(console, _PlainLines(console))


def _with_notes(console: Console, show: OnProgress) -> OnProgress:
    """A note is printed once and stays; everything else is shown as usual."""

    def on_progress(progress: Progress) -> None:
        if progress.note:
            console.print(progress.note, style="yellow", markup=False, highlight=False, soft_wrap=True)
        else:
            show(progress)

    return on_progress


class _PlainLines:
    """Prints when the step changes, and every ten seconds within one."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.step = ("", "")
        self.next_s = 0.0

    def __call__(self, progress: Progress) -> None:
        step = (progress.name, progress.step)
        if step != self.step or progress.seconds >= self.next_s:
            self.step = step
            self.next_s = progress.seconds + _PLAIN_EVERY_S
            self.console.print(_headline(progress), markup=False, highlight=False)


def megabytes(size_bytes: int | None) -> str:
    """Decimal units, as disks are sold."""
    if size_bytes is None:
        return "unknown size"
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.0f} MB"


def _headline(progress: Progress) -> str:
    size = f", {megabytes(progress.size_bytes)}" if progress.size_bytes else ""
    return f"{progress.name}: {progress.step} ({progress.seconds:.0f} s{size})"


def _live(progress: Progress, width: int) -> str:
    """The headline, and beside it as much of pip's last line as fits on one line."""
    headline = _headline(progress)
    room = max(0, width - len(headline) - 6)
    line = "" if progress.line.startswith("$ ") else progress.line[:room]
    return f"{escape(headline)} [dim]{escape(line)}[/dim]"
