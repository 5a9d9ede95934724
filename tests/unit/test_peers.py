"""Ready-made guests: their names in studies, what their scripts take, and who may start them."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from rldyno.errors import Problem
from rldyno.guests.start import find_guests
from rldyno.peers.catalogue import peers, script, script_sha256
from rldyno.studies.given import given_study
from rldyno.study.file import check_study
from rldyno.study.plan import Plan, make_plan
from rldyno.study.scripts import FILLED_IN
from rldyno.toml.source import parse
from rldyno.toolchains.catalogue import peers as toolchains
from rldyno_rig.algorithms import ALGORITHMS

STUDY = """
contestants = ["script:sb3", "numpy:eager"]
algorithms = ["dqn", "ppo"]
environments = "CartPole-v1"
seeds = 1

[budget]
steps = 100
"""
NAMED = "script:sb3"
TASKS = [(name, algorithm) for name, peer in peers().items() for algorithm in peer.algorithms]


def plan_of(text: str) -> Plan:
    return make_plan(check_study(parse("study.toml", text)))


def arguments_of(plan: Plan, algorithm: str) -> list[str]:
    (found,) = (
        trial.to_file().guest
        for trial in plan.trials
        if trial.cell.algorithm == algorithm and trial.cell.contestant == NAMED
    )
    assert found is not None
    return list(found.arguments)


def written(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    return path


def test_every_peer_has_a_toolchain_and_a_script() -> None:
    assert peers().keys() == toolchains().keys()
    assert all(script(name).is_file() for name in peers())
    assert {peer.framework for peer in peers().values()} == {"torch", "jax"}


@pytest.mark.parametrize(("name", "algorithm"), TASKS)
def test_every_hyper_parameter_is_taken_or_listed_as_a_difference(name: str, algorithm: str) -> None:
    peer = peers()[name]
    known = {field.name for field in fields(ALGORITHMS[algorithm].hyper)}
    taken = {*peer.passes["every"], *peer.passes[algorithm]}
    assert known - taken - peer.instead_of(algorithm).keys() == set()
    assert (taken | peer.instead_of(algorithm).keys()) - known - set(FILLED_IN) == set()


@pytest.mark.parametrize(("name", "algorithm"), TASKS)
def test_a_script_has_the_options_that_it_gets(name: str, algorithm: str) -> None:
    peer, text = peers()[name], script(name).read_text(encoding="utf-8")
    options = [*peer.arguments[::2], *peer.algorithm_arguments[algorithm][::2]]
    assert [option for option in options if f'add_argument("{option}"' not in text] == []


@pytest.mark.parametrize("name", sorted(peers()))
def test_the_documentation_lists_every_difference(name: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / "guests.md").read_text(encoding="utf-8")
    (row,) = (line for line in text.splitlines() if line.startswith(f"| `script:{name}` |"))
    peer = peers()[name]
    for cell, of in zip(row.split(" | ")[2:], ("every", *peer.algorithms), strict=True):
        listed = [f"`{key}` {value}" for key, value in peer.instead[of].items()]
        assert cell.removesuffix(" |") == ", ".join(listed), of
    version = next(pin for step in toolchains()[name].cpu.steps for pin in step).partition("==")[2]
    assert f"{peer.library} {version}," in row


def test_differences_are_those_of_the_study_s_values() -> None:
    values = vars(ALGORITHMS["dqn"].defaults("CartPole-v1"))
    assert peers()["sb3"].differences("dqn", {**values, "double": True}) == {"double": "False"}
    assert peers()["sb3"].differences("dqn", {**values, "double": False}) == {}
    sbx = {**values, "hidden": (120, 84), "learning_rate": 0.5, "learning_rate_end": 0.1}
    found = peers()["sbx"].differences("dqn", sbx)
    assert (found["hidden"], found["learning_rate_end"]) == ("(120, 120)", "0.5")
    assert "hidden" not in peers()["sbx"].differences("dqn", {**values, "hidden": (64, 64)})
    assert peers()["sbx"].differences("dqn", {"hidden": (), "double": True}) == {"double": "False"}


def test_a_peer_needs_no_table() -> None:
    plan = plan_of(STUDY + "[hyper.ppo]\nclip_range = 0.3\n")
    ppo, dqn = arguments_of(plan, "ppo"), arguments_of(plan, "dqn")
    assert ppo[ppo.index("--clip-range") + 1] == "0.3"
    assert ppo[ppo.index("--steps") + 1] == "100"
    assert "--clip-range" not in dqn
    assert dqn[dqn.index("--algorithm") + 1] == "dqn"
    assert plan.study.script_sha256["sb3"] == script_sha256("sb3")


def test_a_table_changes_what_it_names_and_nothing_else() -> None:
    plan = plan_of(STUDY + '[script.sb3]\nalgorithms = "dqn"\nvariables = { MINE = "1" }\n')
    table = plan.study.script["sb3"]
    assert (table.toolchain, table.variables) == ("sb3", {"MINE": "1"})
    assert "--train-every" in arguments_of(plan, "dqn")
    guests = [trial.cell.algorithm for trial in plan.trials if trial.cell.contestant == NAMED]
    assert guests == ["dqn"]


def test_an_interpreter_of_one_s_own_replaces_the_toolchain() -> None:
    table = plan_of(STUDY + '[script.sb3]\ninterpreter = "python3"\n').study.script["sb3"]
    assert (table.toolchain, table.interpreter) == (None, "python3")


def test_algorithms_and_games_that_a_peer_cannot_train_are_left_to_others() -> None:
    plan = plan_of(STUDY.replace('["dqn", "ppo"]', '["dqn", "rainbow"]'))
    guests = [trial.cell.algorithm for trial in plan.trials if trial.cell.contestant == NAMED]
    assert guests == ["dqn"]
    for old, new in (('["dqn", "ppo"]', '"rainbow"'), ("CartPole-v1", "ALE/Pong-v5")):
        with pytest.raises(Problem, match="`script:sb3` trains none of"):
            plan_of(STUDY.replace(old, new))


@pytest.mark.parametrize(
    ("given", "words"), [("script:sb4", "did you mean 'sb3'"), ("script:rllib", "known: sb3, sbx, skrl")]
)
def test_an_unknown_name_gives_the_list(given: str, words: str) -> None:
    with pytest.raises(Problem, match=words):
        plan_of(STUDY.replace(NAMED, given))


@pytest.mark.parametrize(
    "more", ["", '[script.sb3]\nalgorithms = "dqn"\n', '[script."sb3"]\nvariables.A = "1"\n']
)
def test_the_study_that_is_kept_holds_table_and_hash(tmp_path: Path, more: str) -> None:
    given = given_study(written(tmp_path, STUDY + more))
    kept = tomllib.loads(given.text)
    assert kept["script_sha256"] == {"sb3": script_sha256("sb3")}
    assert "sb3" in kept["script"]
    assert check_study(parse("study.toml", given.text)).sha256 == given.study.sha256
    assert given_study(written(tmp_path, given.text)).text == given.text


def test_a_script_table_in_one_line_is_completed(tmp_path: Path) -> None:
    text = STUDY.replace('"numpy:eager"', '"script:t.py"').replace(
        "seeds = 1", 'seeds = 1\nscript = { "t.py" = { toolchain = "numpy", arguments = "{algorithm}" } }'
    )
    (tmp_path / "t.py").write_text("")
    given = given_study(written(tmp_path, text))
    assert sorted(given.study.script) == ["sb3", "t.py"]
    assert sorted(given.study.script_sha256) == ["sb3", "t.py"]


def test_a_peer_starts_from_any_results_directory_but_only_as_it_is_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    found = find_guests(plan_of(STUDY), None, {NAMED})
    assert found[NAMED].script == script("sb3")
    for more in (
        '[script.sb3]\nvariables = { LD_PRELOAD = "x" }\n',
        '[script.sb3]\ninterpreter = "./python"\n',
        '[script.sb3]\nalgorithm_arguments.ppo = ["--sneaky"]\n',
        '[script_sha256]\nsb3 = "abc"\n',
    ):
        with pytest.raises(Problem, match="not started"):
            find_guests(plan_of(STUDY + more), None, {NAMED})


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('dqn = ["{clip_range}"]', "nothing is known as `{clip_range}`"),
        ('a2c = ["x"]', "`a2c` is not in `algorithms`"),
    ],
)
def test_arguments_of_an_algorithm_are_checked(more: str, words: str) -> None:
    with pytest.raises(Problem, match=words):
        plan_of(STUDY + f"[script.sb3.algorithm_arguments]\n{more}\n")


@pytest.mark.parametrize(
    "contestants", ['["script:sb3", 5]', '["script:sb3", "script:sb3"]', '[["script:sb3"]]']
)
@pytest.mark.parametrize(
    "script", ["", "script = 5", "script = { sb3 = 5 }", "script = { sb3 = { algorithms = [] } }"]
)
@pytest.mark.parametrize("algorithms", ['"dqn"', "5", "[]", '["dqn", 3]'])
def test_wild_values_are_mistakes_of_the_study(contestants: str, script: str, algorithms: str) -> None:
    text = STUDY.replace('["script:sb3", "numpy:eager"]', contestants)
    with pytest.raises(Problem):
        plan_of(text.replace('["dqn", "ppo"]', algorithms).replace("seeds = 1", f"seeds = 1\n{script}"))
