"""The page: what stands at its head, in which order, and what its trust box says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_trust import disturb, written

from report_parts import html_of, material_of
from rldyno.answers.wording import sentence
from rldyno.records.machine_facts import GpuFacts, MachineFacts
from rldyno.report.heading import budget_words, date_words, heading_of, machine_words
from rldyno.report.sections import all_sections, comparison, trust, why
from rldyno.report.sections.advice import task_advice
from rldyno.results.columns import column
from rldyno_rig import schema
from synthetic import COMPILE, NUMPY, TORCH, Contestant, Shape, write_results

SLOW = Contestant("torch:eager", 300, (0.05, 0.94, 0.05, 0.08))


def text_of(html: str) -> str:
    """What a reader sees of a page."""
    return re.sub(
        r"\s+", " ", re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", html, flags=re.S)
    )


@pytest.mark.slow
def test_question_answer_trust_comparison_why_and_advice_come_first(tmp_path: Path) -> None:
    html = html_of(written(tmp_path / "r", NUMPY, SLOW))
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", html)
    assert headings[:6] == ["Question", "Answer", "Can it be trusted?", "Comparison", "Why", "Advice"]
    page = text_of(html)
    assert "Which framework learns fastest?" in page
    assert "5 seeds" in page
    assert "at most 30,000 steps" in page


def test_every_section_that_is_folded_says_what_is_inside() -> None:
    assert [section.id for section in all_sections() if not section.open and not section.about] == []
    first = [section.id for section in all_sections() if section.open]
    assert first == [section.id for section in all_sections()][: len(first)]


@pytest.mark.slow
def test_a_question_is_text_whatever_it_holds(tmp_path: Path) -> None:
    root = written(tmp_path / "r", seeds=1)
    manifest = json.loads((root / "manifest.json").read_text())
    manifest["study_text"] = 'question = "<script>window.pwned=1</script>"\n'
    (root / "manifest.json").write_text(json.dumps(manifest))
    html = html_of(root)
    assert "&lt;script&gt;window.pwned" in html
    assert "<script>window.pwned" not in html


def test_machine_and_date_in_words() -> None:
    gpu = GpuFacts(name="H200")
    machine = MachineFacts(cpu="A CPU", cores_usable=4, gpus=(gpu, gpu))
    assert machine_words(machine, {2}) == "A CPU, 2 of 4 cores, H200"
    assert machine_words(machine, {1, 4}) == "A CPU, 4 cores, H200"
    assert machine_words(MachineFacts(), {1}) == ""
    assert date_words("2026-11-16T02:34:21+00:00") == "16 November 2026"
    assert date_words("") == ""


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"steps": 60_000}, "at most 60,000 steps"),
        ({"steps": 10, "wall_s": 2.5}, "at most 10 steps or 2.5 s"),
        (
            {"episodes": 300, "stop": {"return": 400}},
            "at most 300 episodes, until a mean return of 400 over 100 episodes",
        ),
        ({"steps": True, "stop": 3}, ""),
        (None, ""),
    ],
)
def test_a_budget_in_words(budget: Any, words: str) -> None:
    assert budget_words(budget) == words


def test_a_heading_without_a_study_file(tmp_path: Path) -> None:
    root = written(tmp_path / "r", seeds=1)
    manifest = json.loads((root / "manifest.json").read_text())
    del manifest["study_text"]
    (root / "manifest.json").write_text(json.dumps(manifest))
    (root / "study.toml").unlink()
    material = material_of(root)
    heading = heading_of(material.results, material.groups)
    assert (heading.title, heading.question) == ("r", "")
    assert "2 of 2 trials" in heading.facts


@pytest.mark.slow
def test_the_trust_box_names_every_objection_and_its_fix(tmp_path: Path) -> None:
    root = disturb(written(tmp_path / "r", NUMPY, SLOW, algorithms=["dqn", "ppo"], seeds=3), 12, score=60.0)
    material = material_of(root)
    box = trust.doubts(material.groups)
    said = {objection.words for group in material.groups for objection in group.trust.objections}
    shown = " ".join(line for doubt in box for line in doubt.lines)
    assert all(words in shown for words in said)
    assert [doubt.level for doubt in box] == sorted(
        (doubt.level for doubt in box), key=("barred", "unsure").index
    )
    assert box[0].level == "barred"
    assert box[0].comparisons == 2
    html = html_of(root)
    section = text_of(html[html.index('<section id="trust"') : html.index('<section id="comparison"')])
    for doubt in box:
        assert all(
            fix.replace("`", "")[:30] in section.replace("&#34;", '"')
            for fix in doubt.fixes
            if "`" not in fix
        )
    for name in ("Seeds", "Noise", "Certificates", "Pitfalls", "no winner: 2 of 2 comparisons"):
        assert name in section


def test_nobody_is_best_where_no_winner_may_be_named(tmp_path: Path) -> None:
    clear = material_of(written(tmp_path / "clear", NUMPY, SLOW))
    barred = material_of(disturb(written(tmp_path / "barred", NUMPY, SLOW), 10, score=60.0))

    def marks(material: Any) -> set[str | None]:
        (group,) = material.groups
        rows = comparison.entry_rows(material.results, group)
        return {entry.ratio for row in rows for entry in row.entries}

    assert "best" in marks(clear)
    assert marks(barred) == {None}
    assert trust.badge(barred.groups[0]) == ("barred", "no winner")


def test_a_walkover_is_marked(tmp_path: Path) -> None:
    alone = Contestant("jax:jit", 50_000, certificate="stale")
    material = material_of(written(tmp_path / "r", NUMPY, alone))
    assert trust.badge(material.groups[0]) == ("barred", "walkover: nobody else is ranked")
    assert "not jax:jit" in trust.certificate_words(material.groups)


def test_why_names_the_phase_that_differs_most(tmp_path: Path) -> None:
    root = written(tmp_path / "r", NUMPY, TORCH)
    assert why.reasons(material_of(disturb(written(tmp_path / "barred", NUMPY, TORCH), 10))) == []
    for path in root.glob("trials/*/outcome.json"):
        outcome = json.loads(path.read_text())
        torch = "torch" in path.parent.name
        result = outcome["result"]
        result["phases_ns"] = {
            phase: (60_000 if torch and phase == "update" else 10_000) * result["steps"]
            for phase in result["phases_ns"]
        }
        result["train_ns"] = sum(result["phases_ns"].values())
        path.write_text(json.dumps(outcome))
    ((label, words),) = why.reasons(material_of(root))
    assert label == "DQN on CartPole-v1"
    assert "as fast as `torch:eager`: 100 % of the difference is `update`." in words
    step_words = r"`(.+?)` (.+?) µs \(framework (.+?), shared (.+?)\)"
    found = re.search(rf"takes {step_words} and {step_words}", words)
    assert found is not None
    first, step, framework, shared, second, other_step, other_framework, _ = found.groups()
    assert (first, second) == ("numpy:eager", "torch:eager")
    assert float(framework) + float(shared) == pytest.approx(float(step), rel=0.01)
    others = 10 * (len(schema.PHASES) - 1)
    assert (float(step), float(other_step)) == pytest.approx((others + 10, others + 60), rel=0.01)
    assert float(other_framework) - float(framework) == pytest.approx(50, rel=0.01)


def test_why_draws_differences_that_sum_to_the_whole(tmp_path: Path) -> None:
    material = material_of(written(tmp_path / "r", NUMPY, TORCH, COMPILE, stop_return=None))
    (panel,) = (panel for panel in why.charts(material) if panel.charts[0].id == "why")
    (_, known), *_ = why.found_in(material)
    for one in known:
        lost = sum(row["us"] for row in panel.charts[0].rows if row["contestant"] == one.slow)
        assert lost == pytest.approx(one.split.slow_us - one.split.fast_us, rel=0.01)
    table = next(table for table in why.tables(material) if table.name == "why")
    assert {row[2] for row in table.rows} == {"torch:eager", "torch:compile"}


def test_few_tables_are_open_and_the_others_are_folded(tmp_path: Path) -> None:
    material = material_of(write_results(tmp_path / "r", Shape(cores=(1, 2, 4, 8), seeds=1, sample_hz=2)))
    assert [len(group.rows) for group in material.groups] == [3] * 8
    assert comparison.open_tables(material.groups[:2]) == 2
    assert comparison.open_tables(material.groups) == comparison.OPEN_ROWS // 3


def test_a_doubt_is_in_the_trust_box_and_not_repeated_in_cards_and_advice(tmp_path: Path) -> None:
    material = material_of(written(tmp_path / "r", NUMPY, SLOW, seeds=3))
    (group,) = material.groups
    assert group.trust.words
    assert group.trust.words in sentence(group)
    (card,) = comparison.context(material)["sentences"]
    (told,) = task_advice(material)
    for text in (card, *told.picks):
        assert "`numpy:eager`" in text
        assert not [objection for objection in group.trust.objections if objection.words in text]


def test_cpu_use_before_a_run_is_not_called_idle() -> None:
    assert column("idle_cpu_percent").heading == "CPU use before the run"


@pytest.mark.slow
def test_commands_are_code_and_refusals_name_their_setting(tmp_path: Path) -> None:
    shape = Shape(contestants=[TORCH, NUMPY], algorithms=["dqn"], cores=(1, 2), seeds=1, steps=8000)
    root = disturb(write_results(tmp_path / "r", shape), 2)
    html = html_of(root)
    assert f"<code>rldyno run {root} --seeds 5..30</code>" in html
    assert not re.search(r"[^>]rldyno run /", re.sub(r"<(script|pre).*?</\1>", "", html, flags=re.S))
    (task,) = task_advice(material_of(root))
    assert [words.split(":")[0] for words in task.refusals] == ["1 core; 2 cores"]


@pytest.mark.slow
def test_the_legend_is_in_the_order_of_the_study(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[TORCH, NUMPY], seeds=1, steps=8000))
    assert re.findall(r'data-contestant="(.*?)"', html_of(root)) == ["torch:eager", "numpy:eager"]
