"""An answer from code: typed items, and the same as a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import polars as pl

from rldyno.libraries import needed_for

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item")
# Rows that a notebook shows of a table.
ROWS_SHOWN = 60


class Answer(Sequence[Item], Generic[Item]):
    """A sequence of typed items. `frame` has the same content as a polars DataFrame, `str()` as sentences."""

    def __init__(self, items: Sequence[Item], frame: pl.DataFrame, text: str, html: str = "") -> None:
        self._items = tuple(items)
        self._text = text
        self._html = html
        self.frame = frame

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self)} items>\n{self._text}"

    def _repr_html_(self) -> str:
        sentences = "".join(f"<p>{sentence_html(line)}</p>" for line in self._text.splitlines() if line)
        return f"<div>{sentences}{self._html or html_table(self.frame.columns, self.frame.iter_rows())}</div>"

    def to_pandas(self) -> pd.DataFrame:
        return to_pandas(self.frame)


def to_pandas(frame: pl.DataFrame) -> pd.DataFrame:
    """A polars table as a pandas one. Column by column: polars' own way needs PyArrow too."""
    with needed_for("pandas tables"):
        import pandas as pd
    return pd.DataFrame({column.name: column.to_numpy() for column in frame})


def sentence_html(text: str) -> str:
    """Escaped; names of contestants stand in backticks and become code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """With every text escaped; a long table is cut, which its last line says."""
    rows = list(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell_text(value))}</td>' for value in row)}</tr>"
        for row in rows[:ROWS_SHOWN]
    )
    rest = len(rows) - ROWS_SHOWN
    more = f"<p>… and {rest} more rows.</p>" if rest > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def cell_text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
