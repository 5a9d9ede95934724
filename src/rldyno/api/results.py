"""The results of a study, loaded once, as tables, answers and charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl

from rldyno.api.answer import Answer, sentence_html, to_pandas
from rldyno.api.frames import (
    advice_frame,
    advice_text,
    axes_frame,
    claims_frame,
    claims_text,
    comparison_frame,
)
from rldyno.api.html import comparison_html
from rldyno.errors import Problem
from rldyno.libraries import needed_for

with needed_for("answers"):
    from rldyno.answers.analysis import Analysis
    from rldyno.answers.wording import headline, sentence

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

    from rldyno.answers.advice import Advice
    from rldyno.answers.axes import AxisAnswer
    from rldyno.answers.groups import Group
    from rldyno.claims.decide import ClaimVerdict

Series = Literal["episodes", "progress", "samples"]
Table = Literal["trials", "episodes", "progress", "samples"]


class StudyResults:
    """What a study found. `rldyno.load` and `rldyno.run` make it.

    Files are read once, when they are first needed. After more trials have ended, load the results again.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis

    @property
    def directory(self) -> Path:
        return self._analysis.directory

    @property
    def title(self) -> str:
        return self._analysis.results.title

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        return headline(self._analysis.comparisons)

    @property
    def trials(self) -> pl.DataFrame:
        """One row per trial; `rldyno export` writes what each column means."""
        return self._analysis.results.trials

    @cached_property
    def episodes(self) -> pl.DataFrame:
        """One row per finished episode of every trial."""
        return self.series("episodes")

    @cached_property
    def progress(self) -> pl.DataFrame:
        """One row per second of training of every trial."""
        return self.series("progress")

    @cached_property
    def samples(self) -> pl.DataFrame:
        """What the probe read during every trial, 20 rows per second."""
        return self.series("samples")

    def series(self, name: Series, trials: str | Iterable[str] | None = None) -> pl.DataFrame:
        """`episodes`, `progress` or `samples` of some trials, or of all; `trial` is its first column."""
        known = self.trials["trial"].to_list()
        chosen = known if trials is None else [trials] if isinstance(trials, str) else list(trials)
        unknown = [trial for trial in chosen if trial not in known]
        if unknown:
            raise Problem(f"no trial is called '{unknown[0]}'", fix="`.trials` has the column `trial`")
        read = getattr(self._analysis.results, name)
        parts = [read(trial).select(pl.lit(trial).alias("trial"), pl.all()) for trial in chosen]
        frame: pl.DataFrame = pl.concat(parts, how="vertical_relaxed")
        return frame

    def to_pandas(self, table: Table = "trials") -> pd.DataFrame:
        """One of the tables as a pandas DataFrame."""
        frame: pl.DataFrame = getattr(self, table)
        return to_pandas(frame)

    def compare(self) -> Answer[Group]:
        """Contestants × metrics, with 95 % intervals and the ratio to the best of each comparison."""
        groups = self._analysis.comparisons
        text = "\n".join(f"{group.label}: {sentence(group)}" for group in groups)
        return Answer(groups, comparison_frame(groups), text, comparison_html(groups))

    def advise(
        self, goal: str | None = None, algorithm: str | None = None, environment: str | None = None
    ) -> Answer[Advice]:
        """Which contestant to choose, one item per algorithm and environment: as `rldyno advise`."""
        found = self._analysis.advice(goal, algorithm, environment)
        return Answer(found, advice_frame(found), advice_text(found))

    def axes(self) -> Answer[AxisAnswer]:
        """What each setting that varies (cores, batch size …) does to each contestant."""
        found = self._analysis.axis_answers
        return Answer(found, axes_frame(found), "\n".join(answer.words for answer in found))

    def claims(self, file: Path | str | None = None) -> Answer[ClaimVerdict]:
        """Which published claims these results support, or those of a file: as `rldyno claims`."""
        from rldyno.claims.decide import judge
        from rldyno.claims.evidence import beside_trials, gather
        from rldyno.claims.form import load_claims, shipped_claims

        claims = shipped_claims() if file is None else load_claims(Path(file))
        results = self._analysis.results
        found = judge(claims, gather([results], *beside_trials(results.directory)))
        return Answer(found, claims_frame(found), claims_text(found))

    def report(self, path: Path | str | None = None, curves: Iterable[Path | str] = ()) -> Path:
        """Write the HTML report, to DIR/report.html unless a path is given; return its path.

        `curves` are CSV files with learning curves of others: as `rldyno report --curve`.
        """
        from rldyno.curves.store import keep
        from rldyno.report.page import write_report

        for file in curves:
            keep(self.directory, Path(file))
        return write_report(self._analysis, None if path is None else Path(path))

    @cached_property
    def charts(self) -> Mapping[str, alt.Chart]:
        """The charts of the report by name; each holds its data, and a notebook shows it."""
        from rldyno.report.figures import charts_of

        return charts_of(self._analysis)

    def __repr__(self) -> str:
        counts = self.trials["status"].value_counts(sort=True).iter_rows()
        trials = ", ".join(f"{count} {status}" for status, count in counts)
        return f"<StudyResults {self.title!r} in {self.directory}: trials: {trials}>"

    def _repr_html_(self) -> str:
        return (
            f"<div><h3>{escape(self.title)}</h3><p>{sentence_html(self.headline)}</p>"
            f"{comparison_html(self._analysis.comparisons)}</div>"
        )


def load(directory: Path | str) -> StudyResults:
    """The results in a directory that `rldyno run` wrote, finished or not."""
    return StudyResults(Analysis.load(Path(directory)))
