"""The progress of running trials, read from the files they write, and its display while a study runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rldyno.probe.metrics import sample_columns
from rldyno.records.csv_files import last_rows
from rldyno.text.terminal import fit
from rldyno_rig import schema
from rldyno_rig.trial_file import Budget

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@dataclass(frozen=True)
class TrialProgress:
    """The last second or so of a running trial; None is not known yet."""

    return_mean: float | None = None
    steps_per_s: float | None = None
    cpu_percent: float | None = None
    rss_bytes: float | None = None
    budget_share: float | None = None


def read_progress(trial_dir: Path, budget: Budget) -> TrialProgress:
    progress = last_rows(trial_dir / schema.PROGRESS_FILE, schema.PROGRESS_COLUMNS, 5)
    samples = last_rows(trial_dir / schema.SAMPLES_FILE, sample_columns(), 40)
    cpu = _slope(samples, "cpu_user_ns", "cpu_system_ns")
    steps = _slope(progress, "step")
    return TrialProgress(
        return_mean=progress[-1].get("return_mean") if progress else None,
        steps_per_s=None if steps is None else steps * 1e9,
        cpu_percent=None if cpu is None else cpu * 100.0,
        rss_bytes=samples[-1].get("rss_bytes") if samples else None,
        budget_share=budget_share(progress, budget),
    )


def _slope(rows: Sequence[Mapping[str, float]], *columns: str) -> float | None:
    """Growth of the columns' sum per nanosecond, from the first row to the last."""
    if len(rows) < 2:
        return None
    first, last = rows[0], rows[-1]
    elapsed = last["time_ns"] - first["time_ns"]
    if elapsed <= 0 or not all(column in row for row in (first, last) for column in columns):
        return None
    return sum(last[column] - first[column] for column in columns) / elapsed


def budget_share(progress: Sequence[Mapping[str, float]], budget: Budget) -> float | None:
    """The spent share, 0 to 1, of the limit that is nearest. Wall time is the time of training alone."""
    if not progress:
        return None
    last = progress[-1]
    trained_s = sum(last.get(f"{phase}_ns", 0.0) for phase in schema.PHASES) / 1e9
    spent = [
        (last.get("step", 0.0), budget.steps),
        (last.get("episode", 0.0), budget.episodes),
        (trained_s, budget.wall_s),
    ]
    shares = [used / limit for used, limit in spent if limit]
    return min(1.0, max(shares)) if shares else None


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def size(count: float) -> str:
    return f"{count / 2**20:,.0f} MiB" if count < 2**30 else f"{count / 2**30:.2f} GiB"


def progress_texts(shown: TrialProgress) -> tuple[str, str, str, str, str]:
    """return, steps/s, CPU, memory and budget as text."""

    def text(value: float | None, template: str) -> str:
        return "–" if value is None else template.format(value)

    return (
        text(shown.return_mean, "{:.1f}"),
        text(shown.steps_per_s, "{:,.0f}"),
        text(shown.cpu_percent, "{:.0f} %"),
        "–" if shown.rss_bytes is None else size(shown.rss_bytes),
        text(shown.budget_share, "{:.0%}"),
    )


@dataclass(frozen=True)
class Snapshot:
    """What is shown at one moment."""

    done: int
    failed: int
    total: int
    running: Mapping[str, TrialProgress]
    elapsed_s: float
    eta_s: float | None
    queued: int = 0
    """Trials that wait for a cluster."""


class Display(Protocol):
    def __enter__(self) -> Display: ...

    def __exit__(self, *details: object) -> None: ...

    def update(self, snapshot: Snapshot) -> None: ...

    def print_line(self, line: str) -> None:
        """A line that stays."""
        ...


def open_display(console: Console) -> Display:
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


class PlainDisplay:
    """For logs: a line per finished trial, and one every so often in between."""

    def __init__(self, console: Console, every_s: float = 30.0) -> None:
        self._console = console
        self._every_s = every_s
        self._next = time.monotonic() + every_s

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, *details: object) -> None:
        pass

    def update(self, snapshot: Snapshot) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._every_s
        left = "" if snapshot.eta_s is None else f", about {duration(snapshot.eta_s)} left"
        left += f", {snapshot.queued} queued" if snapshot.queued else ""
        self.print_line(f"{snapshot.done + snapshot.failed} of {snapshot.total} trials{left}")
        for trial, shown in snapshot.running.items():
            reward, speed, cpu, memory, share = progress_texts(shown)
            self.print_line(
                f"  {trial}: return {reward}, {speed} steps/s, CPU {cpu}, {memory}, budget {share}"
            )

    def print_line(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class LiveDisplay:
    """For terminals: an overall bar and a line per running trial, redrawn by `update` only (no thread of its
    own: this process starts others by forking).
    """

    def __init__(self, console: Console) -> None:
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._console = console
        self._bar = Progress(
            TextColumn("trials"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            auto_refresh=False,
            expand=True,
        )
        self._task = self._bar.add_task("trials", total=1, left="")
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._live.stop()

    def update(self, snapshot: Snapshot) -> None:
        from rich.console import Group

        left = duration(snapshot.elapsed_s)
        if snapshot.eta_s is not None:
            left += f", about {duration(snapshot.eta_s)} left"
        if snapshot.queued:
            left += f", {snapshot.queued} queued"
        if snapshot.failed:
            left += f", [red]{snapshot.failed} failed[/red]"
        self._bar.update(
            self._task, completed=snapshot.done + snapshot.failed, total=snapshot.total, left=left
        )
        table = progress_table(snapshot.running)
        fit(table, self._console, ("budget",))
        self._live.update(Group(table, self._bar), refresh=True)

    def print_line(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False)


def progress_table(running: Mapping[str, TrialProgress]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("running", overflow="fold")
    for name in ("return", "steps/s", "CPU", "memory", "budget"):
        table.add_column(name, justify="right", no_wrap=True)
    for trial, shown in running.items():
        table.add_row(trial, *progress_texts(shown))
    return table
