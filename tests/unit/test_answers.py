from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from report_parts import html_of
from rldyno.answers import fixes
from rldyno.answers.analysis import Analysis
from rldyno.answers.comparison import compare
from rldyno.answers.groups import Group
from rldyno.answers.terminal import print_answer
from rldyno.answers.trust import CHANCE
from rldyno.answers.wording import headline, sentence
from rldyno.results.load import load_results
from rldyno.stats.estimates import Estimate
from rldyno.text.numbers import factor, interval, number, span
from synthetic import NUMPY, TORCH, ZOO, Contestant, Shape, write_results


def groups_of(path: Path, shape: Shape) -> tuple[Group, ...]:
    return compare(load_results(write_results(path, shape)))


def one(path: Path, **shape: object) -> Group:
    (group,) = groups_of(path, Shape(algorithms=["dqn"], **shape))  # type: ignore[arg-type]
    return group


def test_numbers_read_well() -> None:
    assert [number(value) for value in (6.1278, 0.01234, 12345.6, 61.27, float("inf"))] == [
        "6.13",
        "0.0123",
        "12,346",
        "61.3",
        "∞",
    ]
    assert interval(Estimate(6.1278, 5.0, 7.512, 3)) == "[5.00, 7.51]"
    assert span(Estimate(48.2e6, 47e6, 50e6, 3), 1e-6) == "47.0–50.0"
    assert interval(Estimate(6.1, None, None, 1)) is None
    assert factor(3.24) == "3.2×"
    assert factor(136.2) == "136×"
    assert [factor(near) for near in (1.05, 0.95, 1.004, 1.0, 1.14)] == [
        "1.05×",
        "0.95×",
        "1.00×",
        "1.0×",
        "1.1×",
    ]
    assert [factor(small) for small in (0.25, 0.0123)] == ["0.25×", "0.012×"]


def test_rows_are_ranked_and_ratios_are_to_the_best(tmp_path: Path) -> None:
    group = one(tmp_path / "r", seeds=5)
    assert [row.contestant for row in group.rows] == ["numpy:eager", "torch:eager", "torch:compile"]
    best, second, last = group.rows
    first = best.figures[group.primary.name]
    assert first.best
    assert first.ratio is not None
    assert first.ratio.point == 1
    # Speeds of 9,000 and 3,100 steps/s, to within the generator's 4 % of noise.
    ratio = second.figures["steps_per_s"].ratio
    assert ratio is not None
    assert ratio.point == pytest.approx(9000 / 3100, rel=0.1)
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < ratio.point < ratio.high
    assert last.figures["peak_rss_bytes"].estimate.point == pytest.approx(370e6, rel=0.05)
    assert best.reached == best.done == 5


def test_the_same_results_give_the_same_intervals(tmp_path: Path) -> None:
    results = load_results(write_results(tmp_path / "r"))
    first, again = compare(results), compare(results)
    assert [group.rows for group in first] == [group.rows for group in again]


def test_groups_are_split_and_labelled_by_what_varies(tmp_path: Path) -> None:
    shape = Shape(cores=(1, 2), hyper={"batch_size": [32, 64]}, algorithms=["dqn"], seeds=1)
    labels = [group.label for group in groups_of(tmp_path / "r", shape)]
    assert labels == [
        "DQN on CartPole-v1, 1 core, batch_size 32",
        "DQN on CartPole-v1, 1 core, batch_size 64",
        "DQN on CartPole-v1, 2 cores, batch_size 32",
        "DQN on CartPole-v1, 2 cores, batch_size 64",
    ]


def test_the_sentence_says_who_by_how_much_and_how_sure(tmp_path: Path) -> None:
    text = sentence(one(tmp_path / "r", seeds=3))
    assert text.startswith("`numpy:eager` learned CartPole-v1 with DQN fastest: 1.")
    assert "] as long. 3 seeds are too few to be sure." in text
    assert "too few" not in sentence(one(tmp_path / "s", seeds=5))


def test_equals_are_not_called_different(tmp_path: Path) -> None:
    twin = Contestant("jax:jit", NUMPY.steps_per_s, NUMPY.startup_s)
    group = one(tmp_path / "r", contestants=[NUMPY, twin], seeds=5)
    assert group.trust.about(CHANCE) is not None
    assert sentence(group).startswith("No clear winner on CartPole-v1 with DQN: ")


@pytest.mark.parametrize("state", ["absent", "stale", "failed"])
def test_the_fastest_without_a_valid_certificate_is_named_but_not_ranked(tmp_path: Path, state: str) -> None:
    cheat = Contestant("jax:jit", 50_000, certificate=state)
    group = one(tmp_path / "r", contestants=[cheat, NUMPY, TORCH], seeds=5)
    assert [row.contestant for row in group.ranked] == ["numpy:eager", "torch:eager"]
    assert group.rows[-1].figures["steps_per_s"].ratio is None
    text = sentence(group)
    assert text.startswith("`numpy:eager` learned CartPole-v1 with DQN fastest of those that can be ranked: ")
    assert "`jax:jit` (" in text
    assert "has the better value but does not count: " in text
    assert not any(figure.best for row in group.rows for figure in [row.figures["steps_per_s"]])


def test_a_contestant_with_a_failed_trial_is_not_ranked(tmp_path: Path) -> None:
    broken = Contestant("jax:jit", 50_000, outcome="some:crashed")
    group = one(tmp_path / "r", contestants=[broken, NUMPY, TORCH])
    assert "does not count: 1 of 3 trials failed: the worker exited with code 1" in sentence(group)
    assert group.ranked[0].contestant == "numpy:eager"


def test_an_interrupted_trial_is_to_go_not_failed(tmp_path: Path) -> None:
    stopped = Contestant("jax:jit", 5_000, outcome="some:interrupted")
    row = next(
        row for row in one(tmp_path / "r", contestants=[stopped, NUMPY]).rows if row.framework == "jax"
    )
    assert (row.failed, row.pending, row.unranked) == (0, 1, None)


def test_thresholds_never_reached(tmp_path: Path) -> None:
    never = Contestant("jax:jit", 50_000, learns=0)
    text = sentence(one(tmp_path / "r", contestants=[never, NUMPY, TORCH], seeds=5))
    assert text.startswith("`numpy:eager`")
    assert (
        "Not ranked: `jax:jit` (learns differently from numpy:eager: 0 of 5 runs reached the threshold"
        in text
    )
    alone = one(tmp_path / "s", contestants=[never], seeds=5)
    assert sentence(alone).startswith("Only `jax:jit` (not reached in 5 of 5) can be ranked on CartPole-v1")
    two = one(tmp_path / "t", contestants=[never, replace(TORCH, learns=0)], seeds=5)
    assert "No contestant reached a mean return of 475 within the budget." in sentence(two)


def test_without_a_threshold_speed_decides(tmp_path: Path) -> None:
    text = sentence(one(tmp_path / "r", stop_return=None, seeds=5))
    assert text.startswith("`numpy:eager` ran CartPole-v1 with DQN fastest: ")
    assert "] as fast as `torch:compile`" in text


def test_nothing_certified_nothing_ranked(tmp_path: Path) -> None:
    bare = Contestant("torch:eager", 3000, certificate="absent")
    assert sentence(one(tmp_path / "r", contestants=[bare])).startswith(
        "No contestant can be ranked on CartPole-v1"
    )


def test_headline_counts_wins(tmp_path: Path) -> None:
    shape = Shape(contestants=[NUMPY, TORCH], seeds=10)
    assert headline(groups_of(tmp_path / "r", shape)) == (
        "`numpy:eager` learned fastest in both comparisons; the difference is clear in all of them."
    )
    few = headline(groups_of(tmp_path / "s", Shape(seeds=3)))
    assert "; doubts remain in 2: too few seeds (2)" in few


def printed(directory: Path, width: int = 100) -> str:
    stream = io.StringIO()
    print_answer(Analysis.load(directory), Console(file=stream, width=width, color_system=None))
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_figure_is_cut_off_in_the_terminal(tmp_path: Path, width: int) -> None:
    text = printed(write_results(tmp_path / "r", Shape(contestants=ZOO, algorithms=["dqn"])), width)
    lines = [line for line in text.splitlines() if not line.startswith("  rldyno ")]
    assert max(map(len, lines)) <= min(width, 112)
    assert "…" not in text
    assert " Seeds" in text
    assert "1 failed" in " ".join(text.split())
    assert ("Too wide for this terminal, in the report: CPU time" in text) == (width == 80)


def test_terminal_says_what_is_absent_and_what_is_to_come(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=ZOO, seeds=5, algorithms=["dqn"], pending=2))
    text = printed(root)
    assert "✗ chainer:eager" in text
    assert "Absent: `theano:graph`: toolchain theano is not built: run `rldyno setup theano`" in text
    assert "2 of 45 trials have not ended" in text
    assert text.index("Contestant") < text.index("learned CartPole-v1")


def test_terminal_says_where_a_contestant_is_absent(tmp_path: Path) -> None:
    """A part that cannot be built takes away some settings, each for its own reason."""
    shape = Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=2)
    root = write_results(tmp_path / "r", replace(shape, workers=(1, 2), collectives=("host", "horovod")))
    for path in root.glob("trials/*.w2.*/outcome.json"):
        outcome = json.loads(path.read_text())
        part = "horovod" if ".horovod." in path.parent.name else "mpi"
        outcome |= {"status": "failed", "reason": "absent", "message": f"part {part} is not built"}
        path.write_text(json.dumps(outcome | {"result": None}))
    text = printed(root)
    for name in ("numpy:eager", "torch:eager"):
        assert f"Absent: `{name}` (2 workers, collective host): part mpi is not built" in text
        assert f"Absent: `{name}` (2 workers, collective horovod): part horovod is not built" in text
    assert text.count("Contestant") == 1, "comparisons without a run have no table"
    shown = re.sub(r"<[^>]*>", "", html_of(root))
    assert "torch:eager (2 workers, collective host: part mpi is not built)" in shown


def test_terminal_says_who_compares_algorithms(tmp_path: Path) -> None:
    """A study of one contestant may ask for nothing else."""
    several = write_results(tmp_path / "r", Shape(contestants=[TORCH], algorithms=["dqn", "ppo"], seeds=2))
    one = write_results(tmp_path / "s", Shape(contestants=[TORCH], algorithms=["dqn"], seeds=2))
    pointer = "`rldyno advise` and the report compare the algorithms"
    assert pointer in printed(several)
    assert pointer not in printed(one)


def test_terminal_prints_names_as_they_are(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(environments=["[bold]Env[/bold]-v0"], seeds=1))
    assert "[bold]Env[/bold]-v0" in printed(root)


def test_the_terminal_says_each_doubt_once(tmp_path: Path) -> None:
    """Two comparisons share their doubt about seeds, one command is enough, and the winners come first."""
    text = " ".join(printed(write_results(tmp_path / "r", Shape(seeds=3))).split())
    assert text.count("3 seeds are too few to be sure.") == 1
    assert text.count("--seeds") == 1
    assert text.index("learned CartPole-v1 with PPO fastest") < text.index("Doubt: ")


def test_the_legend_has_only_what_the_tables_show(tmp_path: Path) -> None:
    certified = Shape(contestants=[NUMPY, TORCH], seeds=6, algorithms=["dqn"])
    text = printed(write_results(tmp_path / "r", certified))
    assert "3.2×: that many times worse" in text
    assert "✗" not in text
    assert "range" not in text
    single = printed(write_results(tmp_path / "s", Shape(contestants=[NUMPY, TORCH], seeds=1)))
    assert "95 % interval" not in single
    assert "times worse" not in single


def test_commands_that_add_seeds_become_one() -> None:
    more = [f"{fixes.MORE_SEEDS}rldyno run r --seeds 5..{most}" for most in (30, 42, 9)]
    assert fixes.folded(["Take either.", *more, "", "Take either."]) == ("Take either.", more[1])
