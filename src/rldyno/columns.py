"""What a column of figures is: where it comes from, what it means, how it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = type[int] | type[float] | type[str] | type[bool]


@dataclass(frozen=True)
class Column:
    """One figure of a trial. Tables, answers, claims, charts, exports and advice select columns by name."""

    name: str
    kind: Kind
    meaning: str
    """One sentence, for readers of the exported table."""
    title: str = ""
    """For charts and headings; the name in words where it is empty."""
    unit: str = ""
    """As shown, after scaling."""
    scale: float = 1.0
    """Shown value = stored value × scale."""
    better: Literal["lower", "higher"] | None = None
    source: str = ""
    """Dotted path of the value in outcome.json; empty where the column is derived from others."""
    missing: str = ""
    """Why the value is empty where the record itself gives no reason."""
