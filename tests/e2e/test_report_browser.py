"""The report in a real browser, opened from disk."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request

from report_parts import report_of
from rldyno.answers.analysis import Analysis
from rldyno.report.figures import write_figures
from synthetic import COMPILE, TORCH, ZOO, Shape, write_results

pytestmark = pytest.mark.browser
EVIL = "</script><script>window.pwned=1</script><img src=x onerror='window.pwned=1'>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("report") / "results"
    shape = Shape(
        contestants=ZOO, algorithms=["dqn", "ppo"], cores=(1, 2), seeds=3, title=EVIL, pending=1, limits=True
    )
    write_results(root, shape)
    done = subprocess.run(
        [sys.executable, "-m", "rldyno", "report", str(root)], capture_output=True, text=True, check=True
    )
    path = Path(done.stdout.strip())
    assert path == root / "report.html"
    return path


class Opened:
    """A page with everything it complained about and asked for; unless `folded`, with every chart drawn."""

    def __init__(self, browser: Browser, path: Path, folded: bool = False, **context: object) -> None:
        self.page: Page = browser.new_page(**context)  # type: ignore[arg-type]
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._asked)
        self.page.goto(path.as_uri())
        self.page.locator(".chart svg").first.wait_for()
        if not folded:
            self.page.evaluate("dispatchEvent(new Event('beforeprint'))")
            self.page.locator(".chart:not(:has(svg))").first.wait_for(state="detached")

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Opened]:
    opened = Opened(browser, report)
    yield opened
    opened.page.close()


def test_no_complaint_no_outside_request_and_a_script_in_the_title_does_nothing(
    opened: Opened, report: Path
) -> None:
    assert opened.complaints == []
    assert opened.requests == [report.as_uri()]
    assert opened.page.evaluate("window.pwned") is None
    assert opened.page.locator("h1").inner_text() == EVIL
    assert EVIL in opened.page.title()
    assert opened.page.locator("header img").count() == 0


def test_sorting_by_a_column_and_back(opened: Opened) -> None:
    table = opened.page.locator("table.sortable").first
    heading = table.locator("thead th", has_text="Peak memory")
    column = heading.evaluate("cell => cell.cellIndex") + 1

    def memory() -> list[float]:
        cells = table.locator(f"tbody tr td:nth-child({column})").all()
        return [float(cell.get_attribute("data-sort") or "nan") for cell in cells]

    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert memory() == sorted(memory())
    heading.locator("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert memory() == sorted(memory(), reverse=True)
    names = table.locator("thead th").first
    names.locator("button").click()
    shown = [cell.get_attribute("data-sort") or "" for cell in table.locator("tbody th").all()]
    assert shown == sorted(shown)
    assert heading.get_attribute("aria-sort") is None


def test_names_that_stay_in_view_share_no_border(opened: Opened) -> None:
    """A cell that stays in view is painted over a border that it shares with its neighbours."""
    shared = opened.page.evaluate(
        """() => [...document.querySelectorAll("th, td")].filter(cell =>
            getComputedStyle(cell).position === "sticky"
            && getComputedStyle(cell.closest("table")).borderCollapse !== "separate").length"""
    )
    assert opened.page.locator("table.sortable").count() > 0
    assert shared == 0


def test_a_legend_button_hides_its_contestant_in_every_chart(opened: Opened) -> None:
    labels = opened.page.locator(".chart[data-chart=phases] svg text", has_text="numpy:eager")
    before = labels.count()
    assert before > 0
    button = opened.page.locator(".legend button[data-contestant='numpy:eager']")
    button.click()
    opened.page.wait_for_timeout(300)
    assert button.get_attribute("aria-pressed") == "false"
    assert labels.count() == 0
    button.click()
    opened.page.wait_for_timeout(300)
    assert labels.count() == before


def test_filtering_by_text_and_by_choice(opened: Opened) -> None:
    page = opened.page
    rows = page.locator(".comparison tbody tr:visible")
    before = rows.count()
    box = page.locator("form.filter input[name=text]")
    box.fill("TORCH compile")
    assert [row.locator("th").get_attribute("data-sort") for row in rows.all()] == ["torch:compile"] * 4
    assert page.locator("form.filter output").inner_text() == f"4 of {before} rows"
    box.fill("torch:compile 2 cores")
    assert rows.count() == 2
    page.locator("form.filter select[name=algorithm]").select_option("PPO")
    assert rows.count() == 1
    assert page.locator(".comparison:visible caption").inner_text().startswith("PPO on CartPole-v1, 2 cores")
    box.fill("nobody")
    assert rows.count() == 0
    box.fill("")
    page.locator("form.filter select[name=algorithm]").select_option("")
    assert rows.count() == before
    box.press("Enter")
    assert page.url.endswith("report.html")


def test_every_section_is_there_and_linked(opened: Opened) -> None:
    page = opened.page
    names = [link.get_attribute("href") or "" for link in page.locator("nav a").all()]
    assert {"#scaling", "#limits", "#utilisation"} <= set(names)
    order = page.locator("main section[id]").evaluate_all("found => found.map((one) => `#${one.id}`)")
    assert names == [name for name in order if name in names]
    for name in names:
        assert page.locator(f"section{name}").count() == 1
    for link in page.locator("main a[href^='#']").all():
        assert page.locator(link.get_attribute("href") or "").count() == 1
    found = page.locator("#pitfalls li.found strong").all_inner_texts()
    assert "Too few seeds" in found
    assert "Uncertified contestants" in found


def test_a_report_of_gpu_runs(browser: Browser, tmp_path: Path) -> None:
    shape = Shape(
        contestants=[TORCH, COMPILE],
        algorithms=["ppo"],
        devices=["cpu", "cuda"],
        seeds=2,
        sample_hz=2,
        limits=True,
    )
    opened = Opened(browser, report_of(write_results(tmp_path / "r", shape)))
    assert opened.complaints == []
    power = opened.page.locator("#gpu .chart[data-chart=power] svg")
    assert power.count() == 1
    assert "180" in opened.page.locator("#utilisation table", has_text="How runs used the GPU").inner_text()
    overtaking = opened.page.locator("#startup table").first.inner_text()
    assert "torch:compile" in overtaking
    assert opened.page.locator("#answer .chart svg").count() == 1
    opened.page.close()


def test_it_prints_on_a4_with_every_fold_open_and_every_chart_drawn(browser: Browser, report: Path) -> None:
    """718 px lie between the margins of the paper."""
    opened = Opened(browser, report, folded=True, viewport={"width": 718, "height": 1000})
    page = opened.page
    assert page.locator("details.fold[open]").count() == 0
    # Charts are drawn between the request to print and the first sheet.
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert page.locator(".chart:not(:has(svg))").count() == 0
    assert page.locator("details.fold[open]").count() == 0
    page.emulate_media(media="print")
    assert page.locator("nav").is_hidden()
    assert page.locator("details:not([open])").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_follow_the_colour_scheme(browser: Browser, report: Path, scheme: str) -> None:
    opened = Opened(browser, report, color_scheme=scheme)
    colour = "getComputedStyle(document.querySelector('.chart svg text[fill]')).fill"
    red = int(opened.page.evaluate(colour).split("(")[1].split(",")[0])
    opened.page.close()
    assert (red > 128) == (scheme == "dark")


@pytest.mark.parametrize("folded", [True, False])
def test_nothing_overflows_a_phone(browser: Browser, report: Path, folded: bool) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    opened = Opened(browser, report, folded, **phone)
    assert opened.page.evaluate("document.scrollingElement.scrollWidth") <= 390
    assert opened.page.evaluate("innerWidth") == 390
    opened.page.close()


def test_what_is_read_first_comes_first_and_the_rest_is_folded(browser: Browser, report: Path) -> None:
    opened = Opened(browser, report, folded=True, viewport={"width": 1280, "height": 900})
    page = opened.page
    headings = page.locator("h2").evaluate_all("found => found.map((one) => one.textContent)")
    assert headings[:6] == ["Question", "Answer", "Can it be trusted?", "Comparison", "Why", "Advice"]
    folded = page.locator("section:has(> details.fold)").evaluate_all("found => found.map((one) => one.id)")
    assert {"learning", "phases", "proof", "machine", "reproduce"} <= set(folded)
    assert page.locator("details.fold[open]").count() == 0
    assert page.locator("details.fold .chart svg").count() == 0
    assert page.evaluate("document.scrollingElement.scrollHeight") <= 5000
    page.close()


def test_links_open_their_fold_and_the_navigation_marks_the_section(browser: Browser, report: Path) -> None:
    opened = Opened(browser, report, folded=True, viewport={"width": 1280, "height": 900})
    page, current = opened.page, opened.page.locator("nav a[aria-current]")
    assert current.all_inner_texts() == ["Answer"]
    page.locator("nav a[href='#phases']").click()
    page.locator("#phases .chart svg").first.wait_for()
    assert current.all_inner_texts() == ["Phases"]
    page.locator("#comparison").scroll_into_view_if_needed()
    page.mouse.wheel(0, -100)
    page.evaluate("document.getElementById('comparison').scrollIntoView({behavior: 'instant'})")
    page.locator("nav a[href='#comparison'][aria-current]").wait_for()
    page.close()
    linked = browser.new_page()
    linked.goto(f"{report.as_uri()}#proof")
    assert linked.locator("#proof > details[open]").count() == 1
    assert linked.locator("#proof table").first.is_visible()
    linked.close()


def test_the_menu_of_a_phone(browser: Browser, report: Path) -> None:
    opened = Opened(browser, report, folded=True, viewport={"width": 390, "height": 844}, has_touch=True)
    page = opened.page
    menu, link = page.locator("nav .menu"), page.locator("nav a[href='#machine']")
    assert link.is_hidden()
    menu.click()
    assert menu.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")
    assert link.is_hidden()
    menu.click()
    link.click()
    assert link.is_hidden()
    assert page.locator("#machine > details[open]").count() == 1
    assert menu.inner_text().endswith("Machine")
    page.close()


def test_folds_open_from_the_keyboard(browser: Browser, report: Path) -> None:
    opened = Opened(browser, report, folded=True)
    opened.page.locator("#learning > details > summary").focus()
    opened.page.keyboard.press("Enter")
    opened.page.locator("#learning .chart svg").first.wait_for()
    opened.page.close()


def test_each_caption_is_written_once_in_a_section(opened: Opened) -> None:
    captions = opened.page.locator("#learning figcaption").all_inner_texts()
    assert captions
    assert len(captions) == len(set(captions))


def test_it_can_be_used_without_a_mouse_or_eyes(opened: Opened) -> None:
    page = opened.page
    labels = [chart.get_attribute("aria-label") for chart in page.locator(".chart").all()]
    assert all(labels)
    assert "Memory against time" in labels
    assert page.locator("table").count() == page.locator("table > caption").count()
    assert page.locator("thead th:not([scope])").count() == 0
    assert page.locator("html[lang=en]").count() == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the answer"


CUT_OFF = """(charts) => charts.flatMap((chart) => {
  const svg = chart.matches("svg") ? chart : chart.querySelector("svg");
  const height = svg.getBoundingClientRect();
  const width = chart.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter((text) => {
    const box = text.getBoundingClientRect();
    const inside = box.left >= width.left - 1 && box.right <= width.right + 1
      && box.top >= height.top - 1 && box.bottom <= height.bottom + 1;
    return box.width && (!inside || text.textContent.includes("…"));
  }).map((text) => `${chart.dataset.chart}: ${text.textContent}`);
})"""
"""Texts of charts that reach beyond their picture, or are shortened."""


@pytest.mark.parametrize("width", [1200, 390])
def test_no_text_of_a_chart_is_cut_off(browser: Browser, report: Path, width: int) -> None:
    opened = Opened(browser, report, folded=True, viewport={"width": width, "height": 900})
    opened.page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    opened.page.locator(".chart:not(:has(svg))").first.wait_for(state="detached")
    assert opened.page.locator(".chart").evaluate_all(CUT_OFF) == []
    opened.page.close()


def test_no_text_of_a_picture_is_cut_off(browser: Browser, tmp_path: Path) -> None:
    shape = Shape(contestants=ZOO, algorithms=["dqn"], cores=(1, 2), seeds=2, sample_hz=2, limits=True)
    analysis = Analysis.load(write_results(tmp_path / "r", shape))
    pictures = [path for path in write_figures(analysis, tmp_path / "out", ["svg"]) if path.suffix == ".svg"]
    page = browser.new_page()
    page.set_content("".join(f"<p>{path.read_text()}</p>" for path in pictures))
    assert page.locator("svg").count() == len(pictures) > 20
    assert page.locator("svg").evaluate_all(CUT_OFF) == []
    page.close()


def test_an_axis_survives_hidden_contestants(opened: Opened) -> None:
    """With only the best or nobody left, a logarithmic axis has no range of its own."""
    page = opened.page
    ticks = page.locator(".chart[data-chart=distance]").first.locator(".role-axis-label text")
    for button in page.locator(".legend button").all():
        button.dispatch_event("click")
        page.wait_for_timeout(200)
        labels = [text for text in ticks.all_text_contents() if text.endswith("×")]
        assert labels[:2] == ["1×", "2×"]
        assert "500k×" not in labels
    odd = page.locator(".chart svg text", has_text=re.compile("NaN|undefined|Infinity"))
    assert odd.count() == 0


def test_a_foreign_directory_is_a_clear_problem(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rldyno", "report", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    message, fix = done.stderr.splitlines()
    assert message == f"rldyno: {tmp_path} is not a results directory: it has no manifest.json"
    assert fix.startswith("fix: ")
