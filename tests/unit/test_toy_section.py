"""One module adds a section: it is in the navigation, the page, the pictures, the index and the export."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from report_parts import html_of, material_of
from rldyno.answers.analysis import Analysis
from rldyno.cli import app
from rldyno.report import sections
from rldyno.report.figures import charts_of, tables_of, write_figures
from synthetic import NUMPY, TORCH, Shape, write_results

TOY = '''
from functools import partial

from rldyno.report.charts import draw_against_axis
from rldyno.report.section import Chart, Panel, Section
from rldyno.report.series import Curve, band_while_running
from rldyno.text.tables import Table

THREADS = Curve(
    id="toy-threads", title="Threads against time", caption="As many as there are.",
    x_title="seconds since start", y_title="threads",
    points=lambda run: run.sampled("threads"), join=band_while_running,
    samples=("time_ns", "cpu_user_ns", "cpu_system_ns", "rss_bytes", "threads"),
)


def charts(material):
    values = {"x": 1, "y": 2, "low": 1, "high": 3}
    rows = [{"contestant": style.contestant, **values} for style in material.styles]
    draw = partial(draw_against_axis, x_title="toys", y_title="joy, %")
    yield Panel("run", "All trials", (Chart("toy-joy", "Joy of toys", "Toys give joy.", draw, rows),))
    yield from material.panels(lambda place: [place.bands(THREADS)])


def tables(material):
    return [Table("toy-table", "Toys", ("Toy", "Joy, %"), (("<b>bear</b>", "97"),))]


SECTION = Section(
    id="toy", order=55, title="Toys & joy", short="Toys", charts=charts, tables=tables, curves=(THREADS,),
    context=lambda material: {"owner": "`numpy:eager` owns <them>"},
    template="""<p>{{ words(owner) }}</p>
{% for panel in panels %}{% for one in panel.charts %}{{ chart(panel, one) }}{% endfor %}{% endfor %}
{% for made in tables() %}{{ table(made) }}{% endfor %}""",
)
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if toy.py lay in the folder of sections."""
    folder = tmp_path / "sections"
    folder.mkdir()
    (folder / "toy.py").write_text(TOY)
    monkeypatch.setattr(sections, "__path__", [*sections.__path__, str(folder)])
    yield
    sys.modules.pop("rldyno.report.sections.toy", None)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=1, sample_hz=5, steps=4000)
    return write_results(tmp_path_factory.mktemp("toy") / "r", shape)


@pytest.mark.slow
@pytest.mark.usefixtures("toy")
def test_it_is_in_the_navigation_and_on_the_page(results: Path) -> None:
    html = html_of(results)
    page = re.sub(r"<script.*?</script>", "", html, flags=re.S)
    links = re.findall(r'<a href="#(\w+)">', page)
    assert links.index("toy") == links.index("learning") + 1
    assert '<a href="#toy">Toys</a>' in page
    section = page[page.index('<section id="toy"') :]
    section = section[: section.index("</section>")]
    assert "<h2>Toys &amp; joy</h2>" in section
    assert "<code>numpy:eager</code> owns &lt;them&gt;" in section
    assert "&lt;b&gt;bear&lt;/b&gt;" in section
    assert 'data-panel="run" data-chart="toy-joy"' in section
    found = re.search(r'id="data">(.*?)</script>', html, re.S)
    assert found is not None
    data = json.loads(found[1])
    assert data["charts"]["toy-joy"]["description"] == "Joy of toys"
    assert len(data["panels"]["run"]["toy-joy"]["rows"]) == 2
    assert data["panels"]["group-0"]["toy-threads"]["bands"].keys() == {"numpy:eager", "torch:eager"}


@pytest.mark.slow
@pytest.mark.usefixtures("toy")
def test_it_is_among_the_pictures_tables_and_in_their_index(results: Path, tmp_path: Path) -> None:
    write_figures(Analysis.load(results), tmp_path / "out", ["svg", "csv", "md", "tex"])
    out = tmp_path / "out"
    assert "joy, %" in (out / "all-trials--toy-joy.svg").read_text()
    assert (out / "dqn-on-cartpole-v1--toy-threads.svg").exists()
    assert list(csv.reader((out / "toy-table.csv").open())) == [["Toy", "Joy, %"], ["<b>bear</b>", "97"]]
    index = (out / "index.md").read_text()
    assert "- All trials: Joy of toys: [svg](all-trials--toy-joy.svg)" in index
    assert "Toys give joy." in index
    assert "- Toys: [csv](toy-table.csv), [md](toy-table.md), [tex](toy-table.tex)" in index


@pytest.mark.usefixtures("toy")
def test_it_is_in_the_export(results: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["export", str(results), "--out", str(tmp_path), "--tables"])
    assert done.exit_code == 0, done.output
    assert "bear" in (tmp_path / "tables" / "toy-table.csv").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("toy")
def test_python_code_gets_it_as_objects(results: Path) -> None:
    analysis = Analysis.load(results)
    assert charts_of(analysis)["all-trials--toy-joy"].to_dict()["title"]["text"] == "Joy of toys"
    assert tables_of(analysis)["toy-table"].rows == (("<b>bear</b>", "97"),)


def test_without_its_module_it_is_gone(results: Path) -> None:
    assert "toy" not in [section.id for section in material_of(results).sections]
