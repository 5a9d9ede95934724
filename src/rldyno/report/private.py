"""Results as pages show them: without what looks like a secret among what scripts were given."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from rldyno.answers.analysis import Analysis
from rldyno.study.secrets import MASK, secret_values

_TEXTS = ("message", "log_tail")
"""Columns in which a script may have printed them."""


def without_secrets(analysis: Analysis) -> Analysis:
    """The same analysis where there are none."""
    results = analysis.results
    amended = results.manifest.amended
    values = secret_values([results.study, *(change.text_before for change in amended)])
    if not values:
        return analysis

    def hidden(text: str) -> str:
        for value in values:
            text = text.replace(value, MASK)
        return text

    changed = tuple(
        replace(change, changes=tuple(map(hidden, change.changes)), text_before=hidden(change.text_before))
        for change in amended
    )
    texts = [name for name in _TEXTS if name in results.trials.columns]
    trials = results.trials.with_columns(pl.col(texts).str.replace_many(values, [MASK]))
    text = hidden(results.manifest.study_text)
    manifest = replace(results.manifest, study_text=text, amended=changed)
    return Analysis(replace(results, study=hidden(results.study), manifest=manifest, trials=trials))
