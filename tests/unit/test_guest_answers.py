"""A guest that is faster than everybody: shown apart, never ranked, and nobody loses a place to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_answers import printed

from rldyno.answers.analysis import Analysis
from rldyno.answers.groups import THROUGHPUT
from rldyno.answers.guests import guest_lines
from rldyno.answers.why_pairs import Question, pairs
from rldyno.errors import Problem
from rldyno.report.sections.phases import step_rows
from rldyno.report.sections.pitfalls import uncertified
from rldyno.report.sections.proof import unproven
from rldyno.report.sections.trust import certificate_words
from synthetic import NUMPY, TORCH, Contestant, Shape, write_results

FAST = Contestant("script:train.py", 40_000, certificate="absent")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guests") / "r"
    return write_results(
        folder, Shape(contestants=(FAST, NUMPY, TORCH), algorithms=("dqn",), seeds=5, sample_hz=2)
    )


@pytest.fixture(scope="module")
def analysis(root: Path) -> Analysis:
    return Analysis.load(root)


def test_a_guest_is_not_ranked_and_takes_no_place(analysis: Analysis) -> None:
    (group,) = analysis.comparisons
    assert [row.contestant for row in group.ranked] == ["numpy:eager", "torch:eager"]
    guest = group.rows[-1]
    assert (guest.contestant, guest.guest, guest.certified) == ("script:train.py", True, False)
    assert str(guest.unranked).startswith("guest: ")
    assert group.ranked[0].figures[THROUGHPUT.name].best
    assert guest.figures[THROUGHPUT.name].ratio is None
    assert group.trust.about("certificate") is None


def test_the_answer_has_a_line_for_it(analysis: Analysis, root: Path) -> None:
    (line,) = guest_lines(analysis.comparisons, analysis.results.hypers)
    assert "`script:train.py`" in line
    assert "`numpy:eager`: " in line
    assert "learn" in line
    said = printed(root)
    assert "○ script:train.py" in said
    assert "Not ranked" not in said


def test_the_line_of_a_peer_says_what_its_library_has_instead(tmp_path: Path) -> None:
    peer = Contestant("script:skrl", 4_000, certificate="absent")
    shape = Shape(contestants=(peer, FAST, NUMPY), algorithms=("dqn",), seeds=2, sample_hz=2)
    analysis = Analysis.load(write_results(tmp_path / "r", shape))
    lines = guest_lines(analysis.comparisons, analysis.results.hypers)
    (line,) = (line for line in lines if "`script:skrl`" in line)
    assert "skrl has instead: " in line
    assert "huber_delta inf (the study: 1.0)" in line
    assert sum("has instead" in one for one in lines) == 1


def test_nobody_is_asked_to_prove_a_guest(analysis: Analysis) -> None:
    assert unproven(analysis.results, analysis.comparisons) == []
    assert "script" not in uncertified(analysis.results, analysis.comparisons).evidence
    assert certificate_words(analysis.comparisons) == "both contestants"


def test_a_time_that_cannot_be_split_is_not_split(analysis: Analysis) -> None:
    (group,) = analysis.comparisons
    assert {row["contestant"] for row in step_rows(group)} == {"numpy:eager", "torch:eager"}
    with pytest.raises(Problem, match="is a guest"):
        pairs(analysis, Question.of(None, None, (), ("script:train.py", "numpy:eager")))
    (found,) = pairs(analysis, Question())
    assert "script:train.py" not in {found.fast, found.slow}


def test_one_contestant_beside_a_guest_has_nobody_to_be_compared_with(tmp_path: Path) -> None:
    shape = Shape(contestants=(FAST, NUMPY), algorithms=("dqn",), seeds=2, sample_hz=2)
    analysis = Analysis.load(write_results(tmp_path / "r", shape))
    with pytest.raises(Problem, match="of two contestants; the time of a guest cannot be split"):
        pairs(analysis, Question())
