"""The progress of trials from half-written files, and the time that is left."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from rldyno.probe.metrics import sample_columns
from rldyno.session import progress
from rldyno.session.progress import Snapshot, TrialProgress, duration, open_display, read_progress
from rldyno_rig import schema
from rldyno_rig.trial_file import Budget

BUDGET = Budget(steps=1000, wall_s=100.0)


def write(path: Path, columns: tuple[str, ...], rows: list[dict[str, float]]) -> None:
    lines = [",".join(columns)] + [",".join(str(row.get(c, "")) for c in columns) for row in rows]
    path.write_text("\n".join(lines) + "\n12,torn")


def test_figures_of_a_running_trial(tmp_path: Path) -> None:
    second = 1_000_000_000
    write(
        tmp_path / schema.PROGRESS_FILE,
        schema.PROGRESS_COLUMNS,
        [
            {"time_ns": 1 * second, "step": 100, "episode": 2, "update": 1, "act_ns": second},
            {
                "time_ns": 3 * second,
                "step": 500,
                "episode": 9,
                "update": 9,
                "return_mean": 42.5,
                "act_ns": 3 * second,
            },
        ],
    )
    write(
        tmp_path / schema.SAMPLES_FILE,
        sample_columns(),
        [
            {"time_ns": 0, "cpu_user_ns": 0, "cpu_system_ns": 0, "rss_bytes": 5},
            {"time_ns": 2 * second, "cpu_user_ns": second, "cpu_system_ns": second // 2, "rss_bytes": 2**20},
        ],
    )
    assert read_progress(tmp_path, BUDGET) == TrialProgress(42.5, 200.0, 75.0, 2**20, 0.5)


def test_nothing_is_known_before_the_first_line(tmp_path: Path) -> None:
    assert read_progress(tmp_path, BUDGET) == TrialProgress()
    assert progress.progress_texts(TrialProgress()) == ("–",) * 5


def test_the_budget_nearest_its_end_counts() -> None:
    rows = [{"time_ns": 1.0, "step": 100.0, "episode": 1.0, "act_ns": 90e9}]
    assert progress.budget_share(rows, BUDGET) == 0.9
    assert progress.budget_share(rows, Budget()) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.24, "0.2 s"), (9.96, "10 s"), (59, "59 s"), (61, "1 min 01 s"), (3725, "1 h 02 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("terminal", [True, False])
def test_displays_show_the_trial_and_what_is_left(terminal: bool) -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=120)
    snapshot = Snapshot(
        1, 1, 5, {"torch-eager.s0": TrialProgress(42.5, 1234.0, 99.0, 2**28, 0.25)}, 30.0, 90.0, queued=2
    )
    with open_display(console) as display:
        if not terminal:
            display._next = 0.0
        display.update(snapshot)
        display.print_line("[2/5] a trial: done")
    text = output.getvalue()
    for part in (
        "torch-eager.s0",
        "42.5",
        "1,234",
        "99 %",
        "256 MiB",
        "25%",
        "1 min 30 s",
        "2 queued",
        "[2/5] a trial: done",
    ):
        assert part in text
