"""Every link of the documentation leads somewhere, and every command it shows exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from documentation import python_blocks
from rldyno.cli import app
from rldyno.commands.plan import spell_seconds
from rldyno.session.estimate import estimate, load_rates
from rldyno.studies.shipped import shipped_study
from rldyno.study.file import StudyFile, load_study
from rldyno.study.plan import make_plan
from rldyno.study.seeds import Adaptive
from rldyno.toolchains.catalogue import catalogue
from rldyno_rig.algorithms import ALGORITHMS
from synthetic import Shape, write_results

HOME = Path(__file__).parents[2]
PAGES = [HOME / "README.md", *sorted((HOME / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(?:^\$ |^|`)rldyno ([a-z][a-z-]*)\b", re.MULTILINE)
TARGET = re.compile(r"\bmake ([a-z][a-z-]*)\b")


def anchors(page: Path) -> set[str]:
    """The anchors that headings get, as the usual renderers make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("http:", "https:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    known = {
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    }
    known |= {group.name for group in app.registered_groups}
    text = page.read_text(encoding="utf-8")
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    blocks = "\n".join(code for language, code in fenced if language in ("", "console", "bash", "sh"))
    shown = set(COMMAND.findall(blocks)) | set(re.findall(r"`rldyno ([a-z][a-z-]*)\b", text))
    assert shown <= known, shown - known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (HOME / "Makefile").read_text(), re.MULTILINE))
    code = "\n".join(re.findall(r"`+([^`]+)`+", page.read_text(encoding="utf-8")))
    assert set(TARGET.findall(code)) <= targets


@pytest.mark.slow
def test_the_python_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On made-up results; the block that runs trials is executed in tests/e2e/test_api_run.py."""
    monkeypatch.chdir(tmp_path)
    write_results(tmp_path / "results/quickstart", Shape(title="Quickstart"))
    names: dict[str, object] = {}
    blocks = python_blocks((HOME / "docs/python.md").read_text(encoding="utf-8"))
    assert any(block.runs_trials for block in blocks)
    for block in blocks:
        if not block.runs_trials:
            exec(compile(block.code, "docs/python.md", "exec"), names)
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "batch-size.toml").exists()


def test_the_readme_fits_one_screen() -> None:
    assert len((HOME / "README.md").read_text(encoding="utf-8").splitlines()) <= 70


def test_the_readme_lists_every_framework_mode_and_algorithm() -> None:
    text = (HOME / "README.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in text.splitlines() if re.match(r"\|.*\(`\w+`\)", line)]
    listed: dict[str, str] = {}
    for named, modes, on_gpu in rows:
        (name,) = re.findall(r"`(\w+)`", named)
        listed[name] = modes
        chain = catalogue()[name]
        devices = {device for usable in chain.modes.values() for device in usable}
        assert ("yes" in on_gpu) == ("cuda" in devices), name
        assert ("3.10 or 3.11" in named) == (not SpecifierSet(chain.python).contains("3.12.0")), name
    assert listed.keys() == catalogue().keys()
    for name, chain in catalogue().items():
        shown = {mode.strip() for mode in listed[name].partition(":")[0].split(",")}
        assert shown == set(chain.modes), name
    assert re.search(r"Algorithms: (.*?)\.", text)[1].split(", ") == [  # type: ignore[index]
        ALGORITHMS[name].title for name in ("dqn", "rainbow", "a2c", "ppo")
    ]
    assert len(ALGORITHMS) == 4


def test_the_readme_gives_the_time_that_the_plan_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without a history: from the rates that come with rldyno."""
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    plan = make_plan(load_study(shipped_study("quickstart")))
    given = re.search(r"at most (\d+) min of trials", (HOME / "README.md").read_text(encoding="utf-8"))
    assert given
    assert spell_seconds(estimate(plan, load_rates()).total_s) == f"{given[1]} min"


def test_the_study_of_the_readme_loads(tmp_path: Path) -> None:
    (study,) = re.findall(r"```toml\n(.*?)```", (HOME / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "my-study.toml"
    path.write_text(study)
    assert load_study(path).axes("dqn", "CartPole-v1") == {"batch_size": (32, 256)}


def test_every_key_of_a_study_is_documented_and_the_example_loads(tmp_path: Path) -> None:
    text = (HOME / "docs" / "studies.md").read_text(encoding="utf-8")

    def documented(section: str) -> set[str]:
        table = text.partition(f"## {section}")[2].partition("\n## ")[0]
        rows = "\n".join(re.findall(r"^\| (.*?) \|", table, re.MULTILINE))
        return set(re.findall(r"`\[?(\w+)\]?`", rows))

    assert documented("Keys") == {*StudyFile.model_fields, "hyper", "quick"} - {"adaptive"}
    assert documented("Seeds") == set(Adaptive.model_fields)
    example, *parts = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    example = example.replace('"CartPole-v1"', '"CartPole-v1", "MountainCar-v0"')
    for index, part in enumerate(["", *parts]):
        path = tmp_path / f"{index}.toml"
        path.write_text(example.replace("seeds = 5\n", part) if part.startswith("seeds") else example + part)
        load_study(path)
