"""Every link of the documentation leads somewhere, and every command it shows exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rldyno.cli import app

HOME = Path(__file__).parents[2]
PAGES = [HOME / "README.md", *sorted((HOME / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(?:^\$ |^|`)rldyno ([a-z]+)\b", re.MULTILINE)
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
    blocks = "\n".join(re.findall(r"```(?:console|bash|sh)?\n(.*?)```", text, re.DOTALL))
    shown = set(COMMAND.findall(blocks)) | set(re.findall(r"`rldyno ([a-z]+)\b", text))
    assert shown <= known, shown - known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (HOME / "Makefile").read_text(), re.MULTILINE))
    code = "\n".join(re.findall(r"`+([^`]+)`+", page.read_text(encoding="utf-8")))
    assert set(TARGET.findall(code)) <= targets


def test_the_readme_fits_one_screen() -> None:
    assert len((HOME / "README.md").read_text(encoding="utf-8").splitlines()) <= 70
