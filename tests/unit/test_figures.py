from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rldyno.answers.algorithms import FINAL
from rldyno.answers.analysis import Analysis
from rldyno.answers.groups import THRESHOLD
from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.report import theme
from rldyno.report.figures import charts_of, write_figures
from rldyno.report.section import slug
from rldyno.report.sections import all_sections
from rldyno.report.sections.algorithms import DRAWN
from rldyno.report.sections.learning import AREAS
from rldyno.report.sections.proof import divergences, proof_summary, rung_tables
from rldyno.report.sections.scaling import COMPARED, MEASURES
from rldyno.report.sections.utilisation import BARS
from rldyno.report.systems import CURVES
from rldyno.text.tables import Table, comma_separated, latex, markdown
from synthetic import NUMPY, TORCH, Contestant, Shape, write_results

SMALL = Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=2, sample_hz=2, steps=8000)
TABLE = Table("t", "50 % & more", ("Contestant", "Speed, steps/s"), (("a_b:c", "1,200, 1.5×"), ("d|e", "–")))


HOSTILE = Table(
    "h",
    "<script>alert(1)</script> *x*",
    ("`name` | <img src=x>", "Text"),
    (
        ("a|b\\input{/etc/passwd}\n| c |", "[click](javascript:alert(1))"),
        ("$x^2$ & ~ # % {}", "_em_ a_b"),
        ("[9cm]", "*"),
    ),
)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_markdown_table() -> None:
    title, _, *lines = markdown(TABLE).splitlines()
    assert title == "**50 % &amp; more**"
    assert [cells(line) for line in (lines[0], *lines[2:])] == [
        ["Contestant", "Speed, steps/s"],
        ["a_b:c", "1,200, 1.5×"],
        ["d\\|e", "–"],
    ]
    left, right = cells(lines[1])
    assert not left.endswith(":")
    assert right.endswith(":")


def test_latex_table_escapes_what_latex_would_obey() -> None:
    text = latex(TABLE)
    assert r"\caption{50 \% \& more}" in text
    assert re.search(r"^ *a\\_b:c +& +1,200, 1\.5\$\\times\$ \\\\$", text, re.M)
    assert r"\begin{tabular}{lr}" in text
    assert r"\toprule" in text


def test_hostile_names_stay_inert_in_every_text() -> None:
    text = markdown(HOSTILE)
    assert "<" not in text
    assert not re.search(r"(?<!\\)[*`\[]", text.replace("**", ""))
    assert {len(cells(line)) for line in text.splitlines()[2:]} == {2}
    assert len(text.splitlines()) == 2 + 2 + len(HOSTILE.rows)
    tex = latex(HOSTILE)
    body = re.sub(r"\\textbackslash\{\}", "", tex)
    assert r"\input" not in body
    assert not re.search(r"(?<!\\)[$#%~]", body.replace(r"\ensuremath", ""))
    rows = [line for line in tex.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 1 + len(HOSTILE.rows)
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {1}
    assert not [row for row in rows if row.lstrip().startswith("[")]
    assert list(csv.reader(comma_separated(HOSTILE).splitlines(keepends=True)))[1:] == [
        list(row) for row in HOSTILE.rows
    ]


def test_csv_table() -> None:
    assert list(csv.reader(comma_separated(TABLE).splitlines()))[1] == ["a_b:c", "1,200, 1.5×"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_results(tmp_path_factory.mktemp("figures") / "r", SMALL)


@pytest.fixture
def analysis(directory: Path) -> Analysis:
    return Analysis.load(directory)


@pytest.mark.slow
def test_every_chart_and_table_in_every_format_it_has(analysis: Analysis, tmp_path: Path) -> None:
    out = tmp_path / "out"
    index, *files = write_figures(analysis, out, ["svg", "csv", "md", "tex"])
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in (index, *files))
    stem = "dqn-on-cartpole-v1"
    for chart in ("learning-steps", "cpu", "break-even", "training-time"):
        assert (out / f"{stem}--{chart}.svg").read_text().startswith("<svg")
    rows = list(csv.DictReader((out / f"{stem}--learning-time.csv").open()))
    assert {row["contestant"] for row in rows} == {"", "numpy:eager", "torch:eager"}
    assert rows[0]["threshold"] == "475.0"
    for suffix in ("csv", "md", "tex"):
        assert "torch:eager" in (out / f"{stem}--comparison.{suffix}").read_text()
        assert (out / f"pitfalls.{suffix}").exists()
    assert all(path.name in index.read_text() for path in files)


@pytest.mark.slow
def test_pictures_of_both_other_kinds(analysis: Analysis, tmp_path: Path) -> None:
    files = write_figures(analysis, tmp_path, ["png", "pdf"])
    heads = {path.suffix: path.read_bytes()[:4] for path in files}
    assert heads[".png"] == b"\x89PNG"
    assert heads[".pdf"] == b"%PDF"


@pytest.mark.slow
def test_charts_are_altair_objects_with_their_data(analysis: Analysis) -> None:
    import altair as alt

    charts = charts_of(analysis)
    assert all(isinstance(chart, alt.TopLevelMixin) for chart in charts.values())
    spec = charts["dqn-on-cartpole-v1--cpu"].to_dict()
    rows = [row for row in spec["datasets"]["rows"] if "contestant" in row]
    assert {row["contestant"] for row in rows} == {"numpy:eager", "torch:eager"}


@pytest.mark.slow
def test_a_picture_alone_says_what_it_is_of(directory: Path) -> None:
    """Algorithm, environment and setting stand below the title of every chart of a comparison."""
    specs = {name: chart.to_dict() for name, chart in charts_of(Analysis.load(directory)).items()}
    said = {name: " ".join(spec["title"]["subtitle"]) for name, spec in specs.items()}
    assert said["dqn-on-cartpole-v1--cpu"] == "DQN on CartPole-v1"
    assert said["all-trials--noise"] == "All trials"


def test_no_colour_means_a_contestant_and_a_part() -> None:
    """On white and on black, every two of them are far apart in red, green and blue."""
    contestants = [*theme.toolchain_colours().values(), *theme.OTHER_COLOURS]
    for scheme in (0, 1):
        for part in theme.PART_COLOURS:
            for contestant in contestants:
                apart = [channel(part[scheme], at) - channel(contestant[scheme], at) for at in (1, 3, 5)]
                assert sum(step**2 for step in apart) ** 0.5 > 25, (part, contestant)


def channel(colour: str, at: int) -> int:
    return int(colour[at : at + 2], 16)


def test_the_command_writes_figures(directory: Path, tmp_path: Path) -> None:
    arguments = ["report", str(directory), "--figures", str(tmp_path), "--format", "csv, md"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0
    assert done.output.startswith(f"{tmp_path}/index.md: ")
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv", ".md"}


def test_every_chart_that_the_documentation_names_exists() -> None:
    text = (Path(__file__).parents[2] / "docs" / "report.md").read_text()
    table = text[text.index("| figure | what it shows |") : text.index("## Separate files")]
    rows = [line.split("|") for line in table.splitlines() if re.match(r"\| (liu2022|seong2024) ", line)]
    named = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row[4])}
    axes = ("cpu-cores", "gpus-one-per-worker")
    scaled = {f"{axis}-{name.replace('_', '-')}" for axis in axes for name in (*COMPARED, *MEASURES)}
    curves = {curve.id for section in all_sections() for curve in section.curves}
    algorithms = {f"algorithms-{curve.id}" for curve in DRAWN} | {
        f"algorithms-{metric.key}" for metric in (FINAL, THRESHOLD)
    }
    areas = {slug(name) for name in AREAS}
    systems = {f"systems-{curve.id}" for curve in CURVES}
    assert named <= scaled | curves | BARS.keys() | algorithms | areas | systems
    numbers = [number for row in rows for number in figure_numbers(row[1])]
    assert sorted(numbers) == sorted([*((5, n) for n in range(1, 40)), *((0, n) for n in range(1, 14))])


def figure_numbers(cell: str) -> list[tuple[int, int]]:
    """`5.9–5.12` as (5, 9) … (5, 12); seong2024's plain numbers have chapter 0."""
    found = []
    for part in cell.split(maxsplit=1)[1].split(","):
        ends = [tuple(map(int, f"0.{end.strip()}".split(".")[-2:])) for end in part.split("–")]
        found += [(ends[0][0], number) for number in range(ends[0][1], ends[-1][1] + 1)]
    return found


def test_unknown_format_is_a_problem(analysis: Analysis, tmp_path: Path) -> None:
    with pytest.raises(Problem, match="unknown format `gif`"):
        write_figures(analysis, tmp_path, ["png", "gif"])
    assert not list(tmp_path.iterdir())


def test_the_proof_shows_the_worst_error_of_every_rung(tmp_path: Path) -> None:
    wrong = Contestant("chainer:eager", 1500, certificate="failed")
    shape = Shape(contestants=[NUMPY, wrong], algorithms=["dqn"], seeds=1, sample_hz=2, steps=3000)
    found = Analysis.load(write_results(tmp_path / "r", shape)).results
    double = {table.label: table for table in rung_tables(found)}["DQN, mlp, cpu, float64"]
    numpy, chainer = double.rows
    assert (chainer.contestant, chainer.state, numpy.state) == ("chainer:eager", "failed", "valid")
    assert chainer.rungs["gradients"].error == 3e-2
    assert not chainer.rungs["gradients"].passed
    summary = proof_summary(found)
    assert summary.rows["chainer:eager"]["DQN, mlp, cpu"] == ("failed", "3e-02 / 2e-07")
    assert summary.rows["numpy:eager"]["DQN, mlp, cpu"] == ("valid", "4e-15 / 2e-07")


def test_first_divergence(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", SMALL)
    for path in root.glob("trials/*"):
        seed, torch = json.loads((path / "trial.json").read_text())["seed"], "torch" in path.name
        actions = ["0", "1", "1", "1" if torch and seed == 1 else "0"]
        (path / "actions.csv").write_text("\n".join(actions) + "\n")
    found = Analysis.load(root)
    ((label, only),) = divergences(found.results, found.comparisons)
    assert label == "DQN on CartPole-v1"
    assert (only.contestant, only.reference, only.steps) == ("torch:eager", "numpy:eager", {0: None, 1: 4})
