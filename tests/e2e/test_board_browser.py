"""The board in a real browser, opened from disk."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from rldyno.sharing.pack import pack_directory
from synthetic import NUMPY, TORCH, ZOO, Shape, write_results

pytestmark = pytest.mark.browser
EVIL = "</script><script>window.pwned=1</script><img src=x onerror='window.pwned=1'>"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two machines, a title that is a script, a file name that is one, and a pack that was cut off."""
    folder = tmp_path_factory.mktemp("board")
    shapes = {
        "zoo": Shape(
            contestants=ZOO, algorithms=["dqn", "ppo"], seeds=3, steps=6000, title=EVIL, sample_hz=2
        ),
        "two": Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=3, steps=6000, stop_return=None),
    }
    for name, shape in shapes.items():
        root = write_results(folder / name, shape)
        manifest = json.loads((root / "manifest.json").read_text())
        machine = manifest["machine"] | {"host_sha256": name, "cpu": f"{name} <b>CPU</b>"}
        (root / "manifest.json").write_text(json.dumps(manifest | {"machine": machine}))
        pack_directory(root, folder / f"{name}.rldyno.tar.gz")
    cut = folder / "<img src=x onerror='window.pwned=1'>.gz"
    cut.write_bytes((folder / "two.rldyno.tar.gz").read_bytes()[:-99])
    packs = [str(path) for path in (folder / "zoo.rldyno.tar.gz", folder / "two.rldyno.tar.gz", cut)]
    command = [sys.executable, "-m", "rldyno", "board", *packs, "--out", str(folder / "site")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "3 packs, 3 comparisons" in done.stdout
    return folder / "site" / "index.html"


class Opened:
    """The page, with everything it complained about and asked for."""

    def __init__(self, browser: Browser, path: Path, **context: object) -> None:
        self.page: Page = browser.new_page(**context)  # type: ignore[arg-type]
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def rows(self, table: str) -> list[str]:
        """The first cells of the rows that are shown."""
        return self.page.locator(f"#{table}-table tbody tr:visible > :first-child").all_inner_texts()


@pytest.fixture
def opened(browser: Browser, site: Path) -> Iterator[Opened]:
    opened = Opened(browser, site)
    yield opened
    opened.page.close()


def test_no_script_of_a_pack_runs_and_nothing_is_fetched(opened: Opened, site: Path) -> None:
    assert opened.complaints == []
    assert opened.requests == [site.as_uri()]
    assert opened.page.evaluate("window.pwned") is None
    assert opened.page.locator("img, b").count() == 0
    assert EVIL in opened.page.locator("#pack-1 h3").inner_text()
    assert "onerror" in opened.page.locator("#pack-3 h3").inner_text()


def test_the_policy_stops_a_script_that_gets_in(opened: Opened) -> None:
    """Were a name not escaped, the page would still not run it."""
    made = "Object.assign(document.createElement('script'), {textContent: 'window.pwned = 1'})"
    opened.page.evaluate(f"document.body.append({made})")
    assert opened.page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in complaint for complaint in opened.complaints)


def test_doubtful_packs_are_marked_first_and_where_they_are_used(opened: Opened) -> None:
    said = opened.page.locator("#marked").inner_text()
    assert "3 of 3 packs are marked" in said
    assert "unknown code" in said
    assert "refused" in said
    assert "unknown code" in opened.page.locator("#fastest-table tbody tr").first.inner_text()
    assert opened.page.locator("#pack-3 .notice").count() == 1


def test_filtering_both_tables(opened: Opened) -> None:
    page = opened.page
    everything = opened.rows("contestants")
    page.select_option("[name=algorithm]", "PPO")
    assert len(opened.rows("fastest")) == 1
    assert page.locator("[data-counts=fastest-table]").inner_text() == "(1 of 3)"
    page.get_by_role("button", name="Show all").click()
    page.locator("[data-counts=fastest-table]", has_text="(3)").wait_for()
    assert opened.rows("contestants") == everything
    machine = page.locator("[name=machine] option").nth(1).inner_text()
    page.select_option("[name=machine]", machine)
    assert len(opened.rows("fastest")) in (1, 2)
    page.select_option("[name=machine]", "")
    page.select_option("[name=contestant]", "numpy:eager")
    assert all(name.startswith("numpy:eager") for name in opened.rows("contestants"))
    page.select_option("[name=contestant]", "")
    page.get_by_label("Ranked only").check()
    assert len(opened.rows("contestants")) < len(everything)
    page.get_by_label("Text").fill("no such thing")
    assert opened.rows("contestants") == []
    assert page.locator("#contestants .none").is_visible()
    page.get_by_role("button", name="Show all").click()
    page.get_by_label("Without marked packs").check()
    assert opened.rows("fastest") == []


def test_sorting_by_a_column_and_back_with_empty_cells_last(opened: Opened) -> None:
    page = opened.page
    table = page.locator("#contestants-table")
    heading = table.locator("thead th", has_text="Speed")
    column = heading.evaluate("cell => cell.cellIndex") + 1

    def speeds() -> list[str]:
        cells = table.locator(f"tbody tr > :nth-child({column})").all()
        return [cell.get_attribute("data-sort") or "" for cell in cells]

    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    found = [float(value) for value in speeds() if value]
    assert found == sorted(found, reverse=True)
    heading.locator("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    found = [float(value) for value in speeds() if value]
    assert found == sorted(found)
    assert speeds()[: len(found)] == [value for value in speeds() if value]


def test_intervals_certificates_and_how_it_ran_are_there(opened: Opened) -> None:
    page = opened.page
    row = page.locator("#contestants-table tbody tr", has_text="numpy:eager").first
    assert "–" in row.locator("small.span").first.inner_text()
    assert "certified" in row.inner_text()
    assert "cpu, 1 core" in row.inner_text()
    width = row.locator(".bar span").first.evaluate("bar => bar.getBoundingClientRect().width")
    assert width > 10
    page.locator("#pack-2 summary", has_text="The study").click()
    assert "contestants = " in page.locator("#pack-2 pre").inner_text()
    page.locator("#pack-2 summary", has_text="Versions").click()
    assert "backend bbbb" in page.locator("#pack-2 table").inner_text()


@pytest.mark.parametrize("width", [360, 390, 800, 1440])
def test_nothing_overflows(browser: Browser, site: Path, width: int) -> None:
    phone = {"is_mobile": True, "has_touch": True} if width < 500 else {}
    opened = Opened(browser, site, viewport={"width": width, "height": 844}, **phone)
    assert opened.page.evaluate("document.scrollingElement.scrollWidth") <= width
    assert opened.page.evaluate("innerWidth") == width
    opened.page.close()
