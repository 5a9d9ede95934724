"""The pages of the papers say what their committed records say."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_blocks import HOME, Block, blocks
from rldyno.results.check import check_directory
from rldyno.studies.given import given_study
from rldyno.studies.papers import PAPERS
from rldyno.study.plan import make_plan

SAMPLES = HOME / "docs" / "samples" / "papers"
RECORDS = sorted(path.parent for path in SAMPLES.glob("*/manifest.json"))


@pytest.mark.parametrize("block", blocks(), ids=lambda block: f"{block.page.stem}: {block.command[:20]}")
def test_a_page_has_what_its_command_prints(block: Block) -> None:
    assert block.output == block.now, "run: python tests/command_blocks.py"


@pytest.mark.parametrize("name", [paper.name for paper in PAPERS])
def test_every_paper_has_verdicts_of_its_own_records(name: str) -> None:
    (found,) = [one for one in blocks() if one.page == HOME / "docs" / "papers" / f"{name}.md"]
    assert found.command.startswith(f"claims docs/samples/papers/{name}")
    assert f"--source {name}" in found.command


@pytest.mark.parametrize("records", RECORDS, ids=lambda path: path.name)
def test_the_records_are_those_of_the_shipped_quick_size(records: Path) -> None:
    """A study that was changed after its records were made says other things than its page."""
    trials = make_plan(given_study(Path(records.name), None, True).study).trials
    assert {trial.id for trial in trials} == {path.name for path in (records / "trials").iterdir()}


@pytest.mark.parametrize("records", RECORDS, ids=lambda path: path.name)
def test_the_records_have_no_flaw(records: Path) -> None:
    assert check_directory(records) == []
