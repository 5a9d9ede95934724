"""In a narrow terminal tables leave columns out and say so; no word is cut."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.text.terminal import print_fitting
from synthetic import Shape, write_results

NOTE = "Too wide for this terminal"


def wide_table() -> Table:
    table = Table(box=None)
    for name in ("name", "important", "detail", "remark"):
        table.add_column(name, no_wrap=True)
    table.add_row("torch:compile", "12.5", "a-long-detail-0123", "a-long-remark-0123")
    return table


def printed(width: int) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=True, color_system=None)
    print_fitting(wide_table(), console, ["important"], "--json")
    return stream.getvalue()


@pytest.mark.parametrize("width", [30, 40, 60])
def test_columns_that_do_not_fit_are_left_out_and_named(width: int) -> None:
    text = printed(width)
    assert max(map(len, text.splitlines())) <= width
    assert "torch:compile" in text
    assert "12.5" in text
    assert "…" not in text
    assert NOTE.split()[0] in text
    assert ("remark" in text, "a-long-remark-0123" in text) == (True, False)


def test_a_wide_terminal_shows_everything() -> None:
    text = printed(100)
    assert "a-long-remark-0123" in text
    assert NOTE not in text


def test_a_file_gets_long_lines_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    stream = io.StringIO()
    print_fitting(wide_table(), Console(file=stream, width=40), [], "--json")
    assert "a-long-remark-0123" in stream.getvalue()
    assert NOTE not in stream.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 60])
def test_commands_keep_to_a_narrow_terminal(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of tables keep to the width, and at 40 columns a note names what is left out."""
    first, second = (
        write_results(tmp_path / name, Shape(seeds=2, steps=2000), seed=seed)
        for seed, name in enumerate(("a", "b"))
    )
    monkeypatch.setenv("COLUMNS", str(columns))
    for command in (["plan", "quickstart"], ["compare", str(first), str(second)]):
        output = CliRunner().invoke(app, command).output
        rows = [line for line in output.splitlines() if "torch:eager " in line]
        assert rows, command
        assert max(map(len, rows)) <= columns, command
        assert "…" not in "".join(rows), command
        assert columns > 40 or " ".join(NOTE.split()[:2]) in output, command
