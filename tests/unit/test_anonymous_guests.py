"""Packs of scripts: keys, paths with blanks and variables that they were given do not travel by accident."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edited_records import edit
from fuzz_calls import Report, call
from rldyno.answers.analysis import Analysis
from rldyno.errors import Problem
from rldyno.records.attempts import put_aside
from rldyno.records.seal import file_hashes, write_record
from rldyno.report.page import render
from rldyno.results.check import check_directory
from rldyno.results.load import load_results
from rldyno.sharing.board import gather
from rldyno.sharing.board_page import write_board
from rldyno.sharing.guest_records import masked_study
from rldyno.sharing.pack import pack_directory
from rldyno.sharing.unpack import unpack_file
from rldyno.study.file import check_study
from rldyno.study.plan import make_plan
from rldyno.study.secrets import looks_secret, secret_arguments
from rldyno.toml.source import parse
from synthetic import NUMPY, Contestant, Shape, write_results

HASH = "ab" * 32
STUDY = f"""
title = "Mine"
contestants = ["script:train.py", "numpy:eager"]
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 2

[budget]
steps = 1500

# once it was sk-comment-1234
[script."train.py"]
arguments = ["--seed", "{{seed}}", "--out=/data/my carla/out", "--token", "arg-5678", "--x", "sk-live-1234",
             "--user", "carla"]
interpreter = "/opt/carla envs/bin/python"
variables = {{ MY_API_KEY = "sk-live-1234", DATA = "/mnt/big disk/carla", MODE = "offline" }}

[script_sha256]
"train.py" = "{HASH}"
"""
BEFORE = STUDY.replace("sk-live-1234", "sk-older-1234")
HIDDEN = (
    *(
        "sk-live",
        "sk-older",
        "sk-comment",
        "arg-5678",
        "carla",
        "big disk",
        "offline",
        "/data",
        "/mnt",
        "/opt",
    ),
    "my work",
)


def results(root: Path, study: str = STUDY) -> Path:
    """As a real run of this study leaves them."""
    guest = Contestant("script:train.py", 40_000, certificate="absent")
    shape = Shape(contestants=[guest, NUMPY], algorithms=["dqn"], seeds=2, steps=1500, sample_hz=2)
    made = write_results(root, shape)
    plan = make_plan(check_study(parse("study.toml", study)))
    homes = sorted((made / "trials").iterdir())
    for trial in plan.trials:
        file = trial.to_file()
        home = next(
            home
            for home in homes
            if home.name.startswith(str(file.contestant).split(":")[0]) and f".s{file.seed}" in home.name
        )
        if file.guest:
            given = replace(file.guest, script="/home/carla/my work/train.py")
            file = replace(file, guest=given, variables=dict(given.variables) | {"OMP_NUM_THREADS": "1"})
            file = replace(file, interpreter="/opt/carla envs/bin/python")
        write_record(home / "trial.json", file.to_json())
        outcome = json.loads((home / "outcome.json").read_text()) | {"trial": file.trial}
        if file.guest and file.seed == 1:
            outcome["message"] = (
                "the script failed: Denied: sk-live-1234 in /data/my carla/out/x of /mnt/big disk/carla"
            )
        write_record(home / "outcome.json", {**outcome, "files": file_hashes(home)})
        home.rename(home.with_name(file.trial))
    changes = ["script.\"train.py\".variables: {'MY_API_KEY': 'sk-older-1234'} → …", "seeds: 1 → 2"]
    amended = [{"at": "t", "changes": changes, "text_before": BEFORE, "trials_ended": 1}]
    manifest = json.loads((made / "manifest.json").read_text()) | {"study_text": study, "amended": amended}
    sha256, trials = plan.study.sha256, [trial.id for trial in plan.trials]
    write_record(made / "manifest.json", {**manifest, "study_sha256": sha256, "trials": trials})
    (made / "study.toml").write_text(study)
    assert check_directory(made) == []
    return made


def test_nothing_that_a_script_was_given_is_left(tmp_path: Path) -> None:
    root = results(tmp_path / "r")
    home = sorted((root / "trials").glob("script*"))[0]
    (home / "attempts" / "1").mkdir(parents=True)
    (home / "attempts" / "1" / "outcome.json").write_bytes((home / "outcome.json").read_bytes())
    made = pack_directory(root, tmp_path / "p", anonymous=True)
    there = unpack_file(made.path, tmp_path / "there").directory
    text = "\n".join(path.read_text() for path in there.rglob("*") if path.is_file())
    assert [hidden for hidden in HIDDEN if hidden in text] == []
    assert [old.name for old in (root / "trials").glob("script*") if old.name in text] == []
    assert check_directory(there) == []
    assert made.renamed == 2
    before, after = (
        load_results(each).trials.drop("trial", "message", "log_tail").sort("contestant", "seed")
        for each in (root, there)
    )
    assert [name for name in before.columns if not after[name].equals(before[name])] == []


def test_the_study_that_is_left_has_these_trials(tmp_path: Path) -> None:
    there = unpack_file(
        pack_directory(results(tmp_path / "r"), tmp_path / "p", anonymous=True).path, tmp_path / "there"
    ).directory
    manifest = json.loads((there / "manifest.json").read_text())
    study = check_study(parse("study.toml", manifest["study_text"]))
    assert manifest["study_sha256"] == study.sha256
    assert manifest["trials"] == [trial.id for trial in make_plan(study).trials]
    assert (there / "study.toml").read_text() == manifest["study_text"]
    assert study.script["train.py"].variables == dict.fromkeys(["MY_API_KEY", "DATA", "MODE"], "removed")
    assert study.script["train.py"].arguments[:3] == ("--seed", "{seed}", "--out=/removed")
    (change,) = manifest["amended"]
    assert change["changes"] == ['script."train.py".variables: removed', "seeds: 1 → 2"]
    again = pack_directory(there, tmp_path / "again", anonymous=True)
    assert (again.renamed, again.sha256) == (0, pack_directory(there, tmp_path / "plain").sha256)


def test_a_plain_pack_of_keys_is_refused_and_names_them(tmp_path: Path) -> None:
    root = results(tmp_path / "r")
    with pytest.raises(Problem, match=r"secrets: --token, MY_API_KEY\n") as caught:
        pack_directory(root, tmp_path / "p")
    assert "--anonymous" in (caught.value.fix or "")
    assert not (tmp_path / "p").exists()
    made = pack_directory(root, tmp_path / "p", with_secrets=True)
    assert made.secrets == ("--token", "MY_API_KEY")
    harmless = results(tmp_path / "h", STUDY.replace("MY_API_KEY", "KEYBOARD").replace("--token", "--name"))
    old = json.loads((harmless / "manifest.json").read_text())["amended"]
    with pytest.raises(Problem, match=r": --token, MY_API_KEY\n"):
        pack_directory(harmless, tmp_path / "q")
    edit(harmless / "manifest.json", amended=[{**old[0], "text_before": ""}])
    assert pack_directory(harmless, tmp_path / "q").secrets == ()


def test_an_attempt_that_was_put_aside_moves_with_its_trial(tmp_path: Path) -> None:
    root = results(tmp_path / "r")
    put_aside(sorted((root / "trials").glob("script*"))[0])
    names = [member.name for member in pack_directory(root, tmp_path / "p", anonymous=True).index.members]
    (attempt,) = [name for name in names if "attempts/1/outcome" in name]
    home = attempt.split("/attempts")[0]
    assert f"{home}/trial.json" in names
    assert not (root / home).exists()


def test_a_script_that_is_named_by_a_path_is_not_anonymous(tmp_path: Path) -> None:
    root = results(tmp_path / "r", STUDY.replace("train.py", "/home/carla/train.py"))
    with pytest.raises(Problem, match="cannot be made anonymous"):
        pack_directory(root, tmp_path / "p", anonymous=True)


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("API_KEY", "abcd", True),
        ("AWS_ACCESS_KEY_ID", "AKIA0123", True),
        ("OPENAI_APIKEY", "abcd", True),
        ("--wandb-token", "abcd", True),
        ("apiKey", "abcd", True),
        ("DATABASE", "postgres://me:secret@host/x", True),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("MAX_TOKENS", "4096", False),
        ("USE_AUTH", "true", False),
        ("API_KEY", "", False),
        ("API_KEY", "removed", False),
        ("--key", "{seed}", False),
        ("OMP_NUM_THREADS", "1234", False),
    ],
)
def test_what_looks_like_a_secret(name: str, value: str, secret: bool) -> None:
    assert looks_secret(name, value) == secret


def test_options_and_their_values() -> None:
    given = ["--token", "abcd", "--token=efgh", "wandb.key=ijkl", "--token", "--other", "x", "--key"]
    assert [found[1:] for found in secret_arguments(given)] == [
        ("--token", "abcd"),
        ("--token", "efgh"),
        ("wandb.key", "ijkl"),
    ]


@pytest.mark.parametrize(
    ("argument", "after"),
    [
        ("/my data/x y", "/removed"),
        ("--out=~/my data", "--out=/removed"),
        ("~carla/my data", "/removed"),
        ("paths:/a b:/c d", "paths:/removed"),
        ("ALE/Pong-v5", "ALE/Pong-v5"),
        ("--lr={learning_rate}", "--lr={learning_rate}"),
    ],
)
def test_paths_in_arguments_go_up_to_the_end(argument: str, after: str) -> None:
    text = f"[script.x]\narguments = [{json.dumps(argument)}]\n"
    assert masked_study(text, str) == text.replace(argument, after)


def test_a_study_without_scripts_keeps_every_byte() -> None:
    text = "# mine\nseeds   = 3\n"
    assert masked_study(text, str) == text


@pytest.mark.slow
def test_report_and_board_do_not_show_them(tmp_path: Path) -> None:
    """Neither in the study, its changes and messages, nor in what a script printed."""
    root = results(tmp_path / "r")
    home = sorted((root / "trials").glob("script*"))[0]
    edit(
        home / "outcome.json",
        status="failed",
        reason="crashed",
        message="no sk-live-1234",
        log_tail="arg-5678",
    )
    analysis = Analysis.load(root)
    html = render(analysis)
    pack = pack_directory(root, tmp_path / "p.rldyno.tar.gz", with_secrets=True).path
    write_board(gather([pack], tmp_path / "site"), tmp_path / "site")
    board = "".join(path.read_text() for path in (tmp_path / "site").iterdir())
    for page in (html, board):
        assert [hidden for hidden in ("sk-live", "sk-older", "arg-5678") if hidden in page] == []
        assert "removed" in page
    assert "sk-live-1234" in analysis.results.study


@pytest.mark.slow
def test_what_the_terminal_says(tmp_path: Path) -> None:
    root, report = results(tmp_path / "r"), Report()
    said = call(["pack", str(root), "--out", str(tmp_path / "p")], report, "pack")
    assert (said.code, "--token, MY_API_KEY" in said.output) == (1, True)
    for option, words in (("--with-secrets", "looks like secrets"), ("--anonymous", "new ids for 2 trials")):
        said = call(["pack", str(root), option, "--out", str(tmp_path / "p")], report, "pack")
        assert (said.code, words in said.output) == (0, True)
    assert report.failures == []
