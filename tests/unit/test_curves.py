"""Learning curves of others: read, kept with results, drawn beside ours, and what claims are judged by."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rldyno.answers.analysis import Analysis
from rldyno.claims.decide import ClaimVerdict, judge_claim
from rldyno.claims.effects import HOLDS, REFUTED, UNDECIDED
from rldyno.claims.evidence import gather
from rldyno.claims.form import Check, Claim, shipped_claims
from rldyno.claims.show import lines
from rldyno.cli import app
from rldyno.curves.curve import read_curves
from rldyno.curves.store import keep, known_curves, shipped_curves
from rldyno.errors import Problem
from rldyno.report.figures import charts_of, tables_of
from rldyno.report.page import render
from rldyno.results.load import load_results
from rldyno.sharing.pack import pack_directory
from rldyno.sharing.unpack import unpack_file
from synthetic import TORCH, Shape, write_results

GAME = {"algorithms": ["a2c"], "environments": ["ALE/Pong-v5"], "sample_hz": 2}
HEADER = "step,return,spread\n"
PAPER = "step,return,spread,name,algorithm,environment\n"
KNOWN = "known: step, return, spread, name, source, algorithm, environment"
FOLLOWED = next(claim for claim in shipped_claims() if claim.id == "lizarralde-1")


def results(root: Path, seeds: int = 3, **shape: object) -> Path:
    return write_results(root, Shape(contestants=[TORCH], seeds=seeds, **{**GAME, **shape}))  # type: ignore[arg-type]


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# --- the file -----------------------------------------------------------------------------------------------


def test_a_file_may_hold_several_curves(tmp_path: Path) -> None:
    rows = "0,-21,1,rlpyt,a2c,ALE/Pong-v5\n10,3,,rlpyt,a2c,ALE/Pong-v5\n5,1,2,other,,\n"
    rlpyt, other = read_curves(written(tmp_path / "c.csv", "\ufeff# from figure 3\n" + PAPER + rows))
    assert (rlpyt.name, rlpyt.source, rlpyt.step.tolist()) == ("rlpyt", "c.csv", [0.0, 10.0])
    assert np.isnan(rlpyt.spread[1])
    assert rlpyt.mean_at(np.array([5.0])).tolist() == [-9.0]
    assert rlpyt.is_about("a2c", "PongNoFrameskip-v4")
    assert not rlpyt.is_about("ppo", "ALE/Pong-v5")
    assert not rlpyt.is_about("a2c", "ALE/Breakout-v5")
    assert other.is_end_point
    assert other.is_about("dqn", "CartPole-v1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "c.csv holds no row"),
        (HEADER, "c.csv holds no row"),
        ("step,return\n1,2\n", "c.csv:1: no column spread"),
        (
            "step,return,spread,mean\n",
            f"c.csv:1: unknown column 'mean'; {KNOWN}",
        ),
        ("step,step,return,spread\n", "c.csv:1: column step is given twice"),
        (HEADER + "1,2\n", "c.csv:2: 2 fields, but the header has 3"),
        (HEADER + "1,x,1\n", "c.csv:2: return is 'x': it must be a number"),
        (HEADER + "1,nan,1\n", "c.csv:2: return is 'nan': it must be a number"),
        (HEADER + "1e999,1,1\n", "c.csv:2: step is '1e999': it must be a number from 0"),
        (HEADER + "-1,1,1\n", "c.csv:2: step is '-1': it must be a number from 0"),
        (HEADER + "1,1,-2\n", "c.csv:2: spread is '-2': it must be a number from 0, or nothing"),
        (HEADER + "2,1,1\n2,1,1\n", "c.csv:3: step 2 does not rise above 2"),
        (HEADER + '"1,1,1\n', "c.csv:2: it is no line of a CSV file"),
        (HEADER + "1," + "9" * 200_000 + ",1\n", "c.csv:2: it is no line of a CSV file"),
        (HEADER + "1,1,1\n" * 2, "c.csv:3: step 1 does not rise above 1"),
        (PAPER + "1,1,1,\x1b[2Jx,,\n", "c.csv:2: name is longer than 200 letters, or holds unprintable ones"),
        (PAPER + "1,1,1,x,a3c,\n", "c.csv:2: unknown algorithm 'a3c', did you mean 'a2c'?"),
        (b"\xff\xfe\x00step", "c.csv is no text in UTF-8"),
        (
            b"\x00" * 5000,
            "c.csv:1: unknown column '"
            + "\x00" * 40
            + "…'; known: step, return, spread, name, source, algorithm, environment",
        ),
    ],
)
def test_a_damaged_file_gives_one_message(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = written(tmp_path / "c.csv", text)
    with pytest.raises(Problem) as caught:
        read_curves(path)
    assert str(caught.value) == f"{tmp_path}/{message}"
    assert caught.value.fix


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "absent", "."):
        with pytest.raises(Problem):
            read_curves(tmp_path / name)


def test_shipped_end_points_are_those_of_the_documentation() -> None:
    assert {(one.algorithm, one.environment): (one.mean[0], one.spread[0]) for one in shipped_curves()} == {
        ("ppo", "PongNoFrameskip-v4"): (20.36, 0.20),
        ("ppo", "BreakoutNoFrameskip-v4"): (414.66, 28.09),
        ("ppo", "BeamRiderNoFrameskip-v4"): (1915.93, 484.58),
        ("dqn", "PongNoFrameskip-v4"): (20.25, 0.41),
        ("dqn", "BreakoutNoFrameskip-v4"): (366.93, 39.89),
        ("dqn", "BeamRiderNoFrameskip-v4"): (6673.24, 1434.37),
    }
    assert {one.step[0] for one in shipped_curves()} == {10_000_000}


# --- kept with the results, and drawn -----------------------------------------------------------------------


@pytest.mark.slow
def test_the_report_keeps_the_curve_and_can_be_made_elsewhere(tmp_path: Path) -> None:
    root = results(tmp_path / "r")
    file = written(
        tmp_path / "my curve.csv", PAPER + "0,10,2,rlpyt,a2c,Pong-v4\n1000000,20,2,rlpyt,a2c,Pong-v4\n"
    )
    made = CliRunner().invoke(app, ["report", str(root), "--curve", str(file)])
    assert made.exit_code == 0, made.output
    file.unlink()
    (tmp_path / "elsewhere").mkdir()
    moved = root.rename(tmp_path / "elsewhere" / "r")
    assert [path.name for path in (moved / "curves").iterdir()] == ["my-curve.csv"]
    page = render(Analysis.load(moved))
    assert "external: rlpyt" in page
    assert "never ranked" in page
    chart = charts_of(Analysis.load(moved))["a2c-on-ale-pong-v5--learning-steps"]
    rows = [row for row in chart.to_dict()["datasets"]["rows"] if "external" in row]
    last = max(row["x"] for row in chart.to_dict()["datasets"]["rows"] if "x" in row)
    assert rows[0] == {"external": "external: rlpyt", "at": 0, "mean": 10, "from": 8, "to": 12}
    assert rows[-1]["at"] == pytest.approx(last, rel=1e-3)
    assert not any("contestant" in row for row in rows)


def test_a_pack_has_the_curve_unless_it_is_anonymous(tmp_path: Path) -> None:
    """Its source may name somebody."""
    root = results(tmp_path / "r", seeds=1)
    keep(root, written(tmp_path / "c.csv", HEADER + "0,10,2\n5,11,2\n"))
    for anonymous, curves in ((False, 1), (True, 0)):
        pack = pack_directory(root, tmp_path / f"{anonymous}.tar.gz", anonymous=anonymous).path
        unpack_file(pack, tmp_path / f"unpacked-{anonymous}")
        found = known_curves(tmp_path / f"unpacked-{anonymous}")
        assert len(found) - len(shipped_curves()) == curves


@pytest.mark.slow
def test_a_damaged_copy_is_named_with_its_line(tmp_path: Path) -> None:
    root = results(tmp_path / "r")
    keep(root, written(tmp_path / "c.csv", HEADER + "0,10,2\n5,11,2\n"))
    written(root / "curves" / "c.csv", HEADER + "0,10,2\n5,11")
    made = CliRunner().invoke(app, ["report", str(root)])
    assert isinstance(made.exception, Problem)
    assert made.exception.message == f"{root}/curves/c.csv:3: 2 fields, but the header has 3"
    assert made.exception.code == 1


def test_a_wrong_file_leaves_nothing_behind(tmp_path: Path) -> None:
    root = results(tmp_path / "r")
    with pytest.raises(Problem, match="no column spread"):
        keep(root, written(tmp_path / "c.csv", "step,return\n"))
    assert not (root / "curves").exists()


def test_links_in_a_directory_of_somebody_else_are_not_followed(tmp_path: Path) -> None:
    root = results(tmp_path / "r")
    (root / "curves").symlink_to(tmp_path)
    with pytest.raises(Problem, match="is a link"):
        load_results(root)
    (root / "curves").unlink()
    (root / "curves").mkdir()
    (root / "curves" / "c.csv").symlink_to(written(tmp_path / "c.csv", HEADER + "0,1,1\n"))
    with pytest.raises(Problem, match=r"c\.csv cannot be read"):
        known_curves(root)


@pytest.mark.slow
def test_an_end_point_far_beyond_our_runs_is_in_the_table_alone(tmp_path: Path) -> None:
    analysis = Analysis.load(results(tmp_path / "r", algorithms=["ppo"]))
    assert "external" not in str(
        charts_of(analysis)["ppo-on-ale-pong-v5--learning-steps"].to_dict()["datasets"]
    )
    (row,) = tables_of(analysis)["external-curves"].rows
    assert row[0] == "CleanRL"
    assert row[5] == "20.4 ± 0.200"
    root = results(tmp_path / "near", algorithms=["ppo"], environments=["CartPole-v1"])
    keep(root, written(tmp_path / "end.csv", HEADER + "60000,400,20\n"))
    drawn = charts_of(Analysis.load(root))["ppo-on-cartpole-v1--learning-steps"].to_dict()["datasets"]["rows"]
    ends = [row for row in drawn if "external" in row]
    assert [row["mean"] for row in ends] == [400, 400]
    assert ends[0]["at"] == 0
    assert ends[1]["label"] == "external: end, 400 at 60,000 steps"


def test_results_without_curves_have_no_table_of_them(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(algorithms=["ppo"]))
    assert "external-curves" not in tables_of(Analysis.load(root))


# --- lizarralde-1 -------------------------------------------------------------------------------------------


def judged(root: Path, from_step: int = 10_000) -> ClaimVerdict:
    """With fewer steps than the paper's, since the synthetic runs are short."""
    check: Check = FOLLOWED.check[0].model_copy(update={"from_step": from_step})
    claim: Claim = FOLLOWED.model_copy(update={"check": (check,)})
    return judge_claim(claim, gather([load_results(root)]))


def our_curve(root: Path, shift: float, spread: str) -> str:
    """The mean curve of the runs themselves, moved."""
    runs = [load_results(root).episodes(trial) for trial in load_results(root).trials["trial"]]
    text = PAPER
    for step in range(5_000, 30_001, 500):
        means = []
        for run in runs:
            ended = run["return"].to_numpy()[run["step"].to_numpy() <= step]
            means.append(ended[-100:].mean())
        text += f"{step},{np.mean(means) + shift},{spread},rlpyt,a2c,PongNoFrameskip-v4\n"
    return text


def test_the_claim_asks_for_the_published_curve(tmp_path: Path) -> None:
    root = results(tmp_path / "r", seeds=5, stop_return=None)
    asked = judged(root)
    assert asked.verdict == UNDECIDED
    assert asked.missing == (
        "needs the published curve of a2c on ALE/Pong-v5: rldyno report DIR --curve FILE",
    )


def test_runs_that_follow_the_curve_and_runs_that_do_not(tmp_path: Path) -> None:
    root = results(tmp_path / "r", seeds=6, stop_return=None)
    keep(root, written(tmp_path / "c.csv", our_curve(root, 0.0, "60")))
    same = judged(root)
    assert same.verdict == HOLDS, lines(same)
    assert len(same.checks[0].parts) == 5
    assert "spreads" in lines(same)[0]
    keep(root, written(tmp_path / "c.csv", our_curve(root, 300.0, "60")))
    assert judged(root).verdict == REFUTED
    keep(root, written(tmp_path / "c.csv", our_curve(root, 0.0, "")))
    assert "needs a curve with its spread" in judged(root).missing[0]


def test_short_runs_and_short_curves_decide_nothing(tmp_path: Path) -> None:
    root = results(tmp_path / "r", seeds=5, stop_return=None)
    keep(root, written(tmp_path / "c.csv", PAPER + "0,1,1,rlpyt,a2c,Pong-v4\n9000,2,1,rlpyt,a2c,Pong-v4\n"))
    assert "needs a curve that goes on beyond 3,000,000 steps" in judged(root, 3_000_000).missing[0]
    long = PAPER + "0,1,1,rlpyt,a2c,Pong-v4\n9000000,2,1,rlpyt,a2c,Pong-v4\n"
    keep(root, written(tmp_path / "c.csv", long))
    assert "needs runs of more than 3,000,000 steps" in judged(root, 3_000_000).missing[0]
    keep(root, written(tmp_path / "c.csv", PAPER + "20000,1,1,rlpyt,a2c,Pong-v4\n"))
    assert "needs the published curve" in judged(root).missing[0]
