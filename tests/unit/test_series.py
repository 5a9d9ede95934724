"""How the runs of a contestant become one curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rldyno.report.charts import band_chart
from rldyno.report.sections import resources
from rldyno.report.sections.learning import areas
from rldyno.report.series import (
    Band,
    Run,
    band,
    band_while_running,
    coincident,
    quartiles,
    rate_band,
    running_mean,
)


def learned(steps: list[float], returns: list[float]) -> Run:
    columns = {
        "step": np.array(steps),
        "time_ns": np.array(steps) * 2e9,
        "return": np.array(returns),
    }
    return Run("t", columns, {}, {}, window=1, wall_s=None, steps=None)


def test_areas_below_learning_curves_of_one_width() -> None:
    """Worked out by hand: the width is 10 steps, or 20 s, of the longest run."""
    long, short, none = areas([learned([2, 10], [1, 9]), learned([4, 5], [2, 4]), learned([], [])])
    # 1 until step 2, then rising to 9: 2 + 40.
    assert long == {"area_by_steps": pytest.approx(4.2), "area_by_time": pytest.approx(4.2)}
    # 2 until step 4, 3 on the way to step 5, and 4 kept to the end: 8 + 3 + 20.
    assert short == {"area_by_steps": pytest.approx(3.1), "area_by_time": pytest.approx(3.1)}
    assert none == {"area_by_steps": None, "area_by_time": None}


def test_running_mean_of_the_last_window() -> None:
    assert running_mean(np.array([1.0, 3, 5, 7]), 2).tolist() == [1, 2, 4, 6]


def test_band_is_median_and_quartiles_and_ended_runs_hold() -> None:
    x = np.array([0.0, 10.0])
    runs = [
        (x, np.array([0.0, 10.0])),
        (x, np.array([0.0, 20.0])),
        (np.array([0.0, 5.0]), np.array([0.0, 30.0])),
    ]
    assert band_chart(resources.CURVES[1], [band("a", runs, 3)]).all_rows[2] == {
        "contestant": "a",
        "x": 10.0,
        "y": 20.0,
        "low": 15.0,
        "high": 25.0,
    }


RISING = st.lists(
    st.tuples(
        st.floats(0, 100), st.lists(st.tuples(st.floats(0.1, 50), st.floats(0, 50)), min_size=1, max_size=8)
    ),
    min_size=1,
    max_size=6,
)


@given(RISING)
def test_runs_that_rise_never_make_a_median_that_falls(drawn: list[Any]) -> None:
    """Whenever they start and end: a late or a short run must not pull the others' median down."""
    runs = []
    for start, steps in drawn:
        gaps, rises = np.array(steps).T
        runs.append((start + np.cumsum(gaps) - gaps[0], np.cumsum(rises)))
    whole, common = band("a", runs, 50), band_while_running("a", runs, 50)
    for found in (whole, common):
        for curve in (found.low, found.y, found.high) if found is not None else ():
            assert np.all(np.diff(curve) >= -1e-9)
    assert whole.x[0] == max(x[0] for x, _ in runs), "before, a run is missing"
    assert whole.x[-1] == max(x[-1] for x, _ in runs)


def test_a_late_run_does_not_join_the_median_of_the_others() -> None:
    early = np.array([0.0, 10.0]), np.array([100.0, 200.0])
    late = np.array([6.0, 10.0]), np.array([0.0, 50.0])
    found = band("a", [early, late], 3)
    assert found.x.tolist() == [6.0, 8.0, 10.0]
    assert found.y.tolist() == [80.0, 102.5, 125.0]


def test_what_runs_use_is_drawn_while_all_of_them_run() -> None:
    """A small run that goes on alone would look like memory that was given back."""
    large = np.array([1.0, 4.0]), np.array([900.0, 900.0])
    small = np.array([2.0, 20.0]), np.array([100.0, 100.0])
    held = band_while_running("a", [large, small], 3)
    assert held is not None
    assert held.x.tolist() == [2.0, 3.0, 4.0]
    assert held.y.tolist() == [500.0] * 3
    assert rate_band("a", [large, small], 4).x[-1] < 4.0
    assert band_while_running("a", [large, (np.array([5.0, 6.0]), np.array([1.0, 1.0]))], 3) is None


def test_cpu_rate_is_growth_in_percent_of_one_core() -> None:
    time = np.linspace(0.1, 10, 100)
    rates = rate_band("a", [(time, 0.5 * time)], 4)
    assert rates.y.tolist() == pytest.approx([50.0] * 4)
    assert rates.x.tolist() == [1.25, 3.75, 6.25, 8.75]


def test_quartiles_are_numpy_s() -> None:
    rng = np.random.default_rng(0)
    for runs in (1, 2, 3, 7):
        values = rng.normal(size=(runs, 40))
        assert np.allclose(quartiles(values), np.quantile(values, [0.25, 0.5, 0.75], axis=0))


def line(contestant: str, *levels: float) -> Band:
    y = np.array(levels)
    return Band(contestant, np.linspace(0, 10, len(y)), y, y, y)


def test_lines_that_lie_on_one_another_are_found() -> None:
    rising = line("a", 0, 100, 400)
    assert coincident([rising, line("b", 0, 200, 400), line("c", 1, 102, 401)]) == [("a", "c")]
    assert coincident([rising, line("b", 0, 110, 400)]) == []
    # Together at zero for most of the time, then apart: these are two lines.
    assert coincident([line("a", *[0] * 20, 30), line("b", *[0] * 20, 10)]) == []
    assert coincident([line("a", -500, -100), line("b", -500, -100.5)]) == [("a", "b")]
    assert coincident([]) == []


def test_all_lines_that_lie_on_one_another_can_be_seen_and_are_named() -> None:
    same = [line(name, 0, 100, 400) for name in ("a", "b", "c")]
    chart = band_chart(resources.CURVES[1], [*same, line("d", 0, 0, 1)])
    widths = {row["contestant"]: row["width"] for row in chart.drawn_rows if "contestant" in row}
    assert list(widths) == ["a", "b", "c", "d"], "drawn in this order"
    assert widths["a"] > widths["b"] > widths["c"] == widths["d"]
    notes = [row for row in chart.drawn_rows if "note" in row]
    assert [(row["note"], row["line"]) for row in notes] == [("same line: a, b,", 1), ("c", 0)]
    assert not any("width" in row or "note" in row for row in chart.all_rows), "the data hold neither"
    packed = chart.packed
    assert {name: columns["width"] for name, columns in packed["bands"].items()} == widths
    assert packed["notes"] == [row["note"] for row in notes]
