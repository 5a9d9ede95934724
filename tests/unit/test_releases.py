"""Releases of frameworks as contestants: `jax@0.7.0:jit`, and wheels by path."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from rldyno.errors import Problem
from rldyno.proofs.certificate import Subject
from rldyno.proofs.store import path_of
from rldyno.study.file import Study, load_study
from rldyno.study.plan import make_plan
from rldyno.toolchains import build as building
from rldyno.toolchains import installing
from rldyno.toolchains.catalogue import read_catalogue, toolchain
from rldyno.toolchains.contestants import chosen_contestants
from rldyno.toolchains.packages import Package, packages_of, remember
from rldyno.toolchains.releases import Versions, When, pinned_package, release_of, released_steps
from rldyno.toolchains.resolve import Interpreter, parse_overrides
from rldyno.toolchains.store import built_releases, make_recipe, superseded
from rldyno_rig.contestant import Contestant
from rldyno_rig.trial_file import TrialFile

STEPS = (("--no-deps", "setuptools==1.0"), ("fw[gpu]==2.0", "fwlib==2.0", "numpy==2.4.6"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


def write_wheel(name: str, content: bytes = b"first") -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


# --- names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "family", "release", "mode"),
    [
        ("jax:jit", "jax", "", "jit"),
        ("jax", "jax", "", ""),
        ("jax@0.7.0:jit", "jax", "0.7.0", "jit"),
        ("jax@0.7.0", "jax", "0.7.0", ""),
        ("torch@./a:b/torch-2-py3-none-any.whl:eager", "torch", "./a:b/torch-2-py3-none-any.whl", "eager"),
        ("torch@./a:b/torch-2-py3-none-any.whl", "torch", "./a:b/torch-2-py3-none-any.whl", ""),
        ("torch@2.14.dev1#1a2b3c4d:eager", "torch", "2.14.dev1#1a2b3c4d", "eager"),
        ("script:train@home.py", "script", "", "train@home.py"),
    ],
)
def test_names_are_split_into_family_release_and_mode(text, family, release, mode) -> None:
    found = Contestant.parse(text)
    assert (found.family, found.release, found.mode) == (family, release, mode)
    assert str(found) == (text if mode else text + ":")


def test_file_names_of_releases_are_safe() -> None:
    assert Contestant.parse("torch:eager").file_name == "torch-eager"
    assert Contestant.parse("torch@2.14.dev1#1a2b3c4d:eager").file_name == "torch-2.14.dev1-1a2b3c4d-eager"


# --- steps --------------------------------------------------------------------------------------------------


def test_a_release_replaces_the_pin_and_keeps_the_others() -> None:
    found = released_steps("fw", STEPS, Versions(), release_of("1.5rc1"))
    assert found == (STEPS[0], ("fw[gpu]==1.5rc1", "fwlib==2.0", "numpy==2.4.6"))


def test_packages_that_belong_to_a_release_lose_their_pins() -> None:
    found = released_steps("fw", STEPS, Versions(free=("fwlib", "setuptools")), release_of("1.5"))
    assert found == (("fw[gpu]==1.5", "numpy==2.4.6"),)


def test_rules_hold_for_their_releases_only() -> None:
    rules = Versions(when=(When(versions="<1.0", pins=("NumPy==1.26.4",), free=("fwlib",)),))
    assert released_steps("fw", STEPS, rules, release_of("0.9"))[1] == ("fw[gpu]==0.9", "NumPy==1.26.4")
    assert released_steps("fw", STEPS, rules, release_of("1.0"))[1][1:] == STEPS[1][1:]


def test_a_toolchain_without_a_pin_of_the_framework_says_so() -> None:
    with pytest.raises(Problem, match="pins none of other"):
        released_steps("other", STEPS, Versions(), release_of("1.0"))


def test_every_shipped_contestant_has_releases_in_every_variant() -> None:
    for chain in (chain for chain in read_catalogue().values() if chain.kind == "contestant"):
        other = chain.at("1.2.3")
        for variant in chain.variants:
            package = pinned_package(chain.framework, chain.steps(variant), chain.versions)
            named = [item for step in other.steps(variant) for item in step if item.endswith("==1.2.3")]
            assert [item.partition("=")[0].partition("[")[0] for item in named] == [package]
        assert (other.backend, other.modes, other.parts) == (chain.backend, chain.modes, chain.parts)


def test_jaxlib_follows_jax() -> None:
    assert toolchain("jax@0.7.0").steps("cpu") == (("jax==0.7.0", "numpy==2.4.6", "gymnasium==1.4.0"),)


# --- wheels -------------------------------------------------------------------------------------------------


def test_a_wheel_is_known_by_its_version_and_hash_and_not_by_its_path(cache: Path) -> None:
    wheel = write_wheel("dist/torch-2.14.0.dev1+cpu-cp311-cp311-linux_x86_64.whl")
    chain = toolchain(f"torch@./{wheel}")
    name, _, digits = chain.framework.partition("#")
    assert name == "torch@2.14.0.dev1+cpu"
    assert len(digits) == 8
    kept = cache / "wheels" / digits / wheel.name
    assert kept.read_bytes() == b"first"
    assert chain.steps("cpu")[0][0] == f"torch @ {kept.as_uri()}"
    wheel.unlink()
    assert toolchain(chain.framework) == chain


def test_the_same_file_name_with_other_content_is_another_toolchain() -> None:
    names = []
    for content in (b"first", b"second", b"first"):
        write_wheel("torch-2.14-cp311-cp311-linux_x86_64.whl", content)
        names.append(make_recipe(toolchain("torch@torch-2.14-cp311-cp311-linux_x86_64.whl"), "cpu")[0])
    assert names[0].directory == names[2].directory != names[1].directory


def test_wheels_that_cannot_be_used_say_why() -> None:
    write_wheel("nightly.whl")
    write_wheel("numpy-2.0-py3-none-any.whl")
    for name, words in (
        ("torch@./gone-1.0-py3-none-any.whl", "there is no wheel"),
        ("torch@./nightly.whl", "keep the name that its build gave it"),
        ("torch@./numpy-2.0-py3-none-any.whl", "is a wheel of numpy, not of torch"),
        ("torch@2.14#1a2b3c4d", "is not in the cache"),
        ("torch@2.14#xyz", "first 8 digits"),
        ("torch@newest", "neither a version"),
        ("torch@", "neither a version"),
    ):
        with pytest.raises(Problem, match=words) as caught:
            toolchain(name)
        assert caught.value.fix


# --- studies ------------------------------------------------------------------------------------------------


def study(contestants: str) -> Study:
    path = Path("study.toml")
    path.write_text(
        f"contestants = {contestants}\nalgorithms = 'dqn'\nenvironments = 'CartPole-v1'\nseeds = 1\n"
        "[budget]\nsteps = 100\n"
    )
    return load_study(path)


def test_a_release_is_a_contestant_with_trials_of_its_own() -> None:
    old, pinned = make_plan(study('["jax@0.7.0:jit", "jax:jit"]')).trials
    if old.cell.contestant == "jax:jit":
        old, pinned = pinned, old
    assert old.cell.framework == "jax@0.7.0"
    assert old.id.startswith("jax-0-7-0-jit.dqn.")
    assert old.id.rpartition(".")[2] != pinned.id.rpartition(".")[2]
    recorded = TrialFile.from_json(old.to_file().to_json())
    assert str(recorded.contestant) == "jax@0.7.0:jit"
    assert recorded.backend == "jax_"
    # Trials of contestants without a release keep the ids of versions that knew no releases.
    assert pinned.id == make_plan(study('["jax:jit"]')).trials[0].id


def test_a_study_names_a_wheel_by_its_hash() -> None:
    wheel = write_wheel("torch-2.14-cp311-cp311-linux_x86_64.whl")
    found = study(f'["torch@./{wheel}:eager"]').contestants
    assert found[0].startswith("torch@2.14#")
    assert study(f'["{found[0]}"]').contestants == found
    with pytest.raises(Problem, match="given twice"):
        study(f'["torch@./{wheel}:eager", "{found[0]}"]')


def test_mistakes_in_releases_are_mistakes_of_the_study() -> None:
    for name, words in (
        ("jax@new:jit", "neither a version"),
        ("jax@0.7.0:jitt", "did you mean 'jax@0.7.0:jit'"),
        ("jacks@0.7.0:jit", "unknown contestant"),
        ("jax@0.7.0", "names no mode"),
    ):
        with pytest.raises(Problem) as caught:
            study(f'["{name}"]')
        assert words in caught.value.message + (caught.value.detail or "")


def test_commands_take_releases_as_contestants() -> None:
    assert chosen_contestants(["jax@0.7.0:jit"], "cpu") == ["jax@0.7.0:jit"]
    assert chosen_contestants(["jax@0.7.0"], "cpu") == ["jax@0.7.0:eager", "jax@0.7.0:jit"]
    with pytest.raises(Problem, match="neither a version"):
        chosen_contestants(["jax@new"], "cpu")
    assert list(parse_overrides(["jax@0.7.0=/bin/python3"])) == ["jax@0.7.0"]


def test_a_proof_of_one_release_is_none_of_another() -> None:
    def certificate(framework: str) -> Path:
        interpreter = Interpreter(framework, Path("python"), "built", "3.11.7", {}, "cpu")
        return path_of(Subject.of(f"{framework}:jit", "dqn", "mlp", "cpu"), interpreter)

    assert len({certificate(name) for name in ("jax", "jax@0.7.0", "jax@0.7.1")}) == 3


# --- builds -------------------------------------------------------------------------------------------------


def test_packages_of_a_family_are_those_of_its_releases_too() -> None:
    remember("jax", [Package("my-environment")])
    assert packages_of("jax@0.7.0") == (Package("my-environment"),)
    remember("jax@0.7.0", [Package("other")])
    assert packages_of("jax@0.7.0") == (Package("other"),)


def test_built_releases_stay_until_they_are_asked_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = [make_recipe(toolchain(name), "cpu")[0] for name in ("numpy@2.2.0", "numpy@2.3.0")]
    changed = dataclasses.replace(recipes[1], steps=(("numpy==2.3.0", "gymnasium==0.1"),))
    builds = []
    for recipe in (recipes[0], changed):
        recipe.directory.mkdir(parents=True)
        builds.append(building._finish(recipe, {}, 1.0))
    monkeypatch.setattr("rldyno.toolchains.store.Built.lost", ())
    kept = [built for _, built in built_releases()]
    assert [built.recipe.name for built in kept] == ["numpy@2.2.0"]
    assert superseded(kept) == [changed.directory]


def build_with_log(name: str, log: str, monkeypatch: pytest.MonkeyPatch) -> Problem:
    """What a build says whose pip leaves this log."""
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, stdout, **_: _Pip(stdout, log, 1 if "install" in command else 0)
    )
    with pytest.raises(Problem) as caught:
        building.build(toolchain(name), "cpu")
    return caught.value


class _Pip:
    pid = 0

    def __init__(self, stdout, log: str, code: int) -> None:
        stdout.write(log.encode() if code else b"")
        self.returncode = code

    def poll(self) -> int:
        return self.returncode

    wait = poll


def test_a_version_that_does_not_exist_is_one_message_with_its_neighbours(monkeypatch) -> None:
    log = (
        "ERROR: Could not find a version that satisfies the requirement jax==0.7.9 "
        "(from versions: 0.6.0, 0.6.1, 0.6.2, 0.7.0, 0.7.2, 0.8.0, 0.9.0, 0.10.0, 0.10.1)\n"
        "ERROR: No matching distribution found for jax==0.7.9\n"
    )
    problem = build_with_log("jax@0.7.9", log, monkeypatch)
    assert "pip finds no jax 0.7.9" in problem.message
    assert "choose from: 0.6.2, 0.7.0, 0.7.2, 0.8.0, 0.9.0, 0.10.0;" in (problem.fix or "")


def test_other_reasons_have_fixes_of_their_own(monkeypatch) -> None:
    for log, words in (
        ("ERROR: x.whl is not a supported wheel on this platform.", "built for this Python"),
        ("ERROR: ResolutionImpossible: for help visit …", "[versions]"),
        ("ERROR: Could not find … jax==1 (from versions: none)", "check the network"),
    ):
        assert words in (build_with_log("jax@0.7.9", log, monkeypatch).fix or "")


def test_neighbours_are_sorted_by_version_not_by_text() -> None:
    assert installing._around("1.0", ["0.9", "1.1", "1.2", "1.3", "1.10"]) == ["0.9", "1.1", "1.2", "1.3"]
