"""What a column of figures is: where it comes from, what it means, how it is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

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
    """Dotted path of the value in outcome.json, or in trial.json behind `trial:`; empty where the column is
    derived from others."""
    missing: str = ""
    """Why the value is empty where the record itself gives no reason."""
    parts: tuple[str, ...] = ()
    """Columns it is computed from. They stand before it in the table."""
    parts_may_miss: bool = False
    """Computed from what is known: `derive` gets None for the rest."""
    derive: Callable[..., Any] | None = None
    """Value from the one at `source`, if there is one, and those of `parts`; called when all are known."""
    aliases: tuple[str, ...] = ()
    """Shorter names in claims, goals and options. The first one also names charts."""
    censored_at: str = ""
    """For a figure that a run may never reach: the column with the end of observation."""
    needs: str = ""
    """What a study must have for anyone to measure this; said when no trial has the value."""
    charted: bool = False
    """Drawn in the report beside the charts that its sections choose themselves."""
    may_be_empty: bool = False
    """Empty has a meaning of its own here: no reason is kept."""

    @property
    def heading(self) -> str:
        return self.title or self.name.replace("_", " ").capitalize()

    @property
    def words(self) -> str:
        """The heading within a sentence: `time to threshold`, but `CPU time`."""
        head = self.heading
        return head if head[:2].isupper() else head[:1].lower() + head[1:]

    @property
    def key(self) -> str:
        """The short name."""
        return self.aliases[0] if self.aliases else self.name

    @property
    def more_is_better(self) -> bool:
        return self.better == "higher"

    @property
    def numeric(self) -> bool:
        return self.kind is not str
