"""Study files: what they may say, and what is reported about mistakes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import pytest

from rldyno.errors import Problem
from rldyno.study import hyper as study_hyper
from rldyno.study.file import Study, differences, load_study
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.hyper import CNN_LARGE, CNN_SMALL


@dataclass(frozen=True)
class FakeToolchain:
    modes: dict[str, tuple[str, ...]]
    collectives: dict[str, tuple[str, ...]] = field(default_factory=dict)


CATALOGUE = {
    "numpy": FakeToolchain({"eager": ("cpu",)}),
    "torch": FakeToolchain(
        {"eager": ("cpu", "cuda"), "compile": ("cpu", "cuda"), "cudagraph": ("cuda",)},
        {"native": ("cpu", "cuda")},
    ),
}

GOOD = {
    "contestants": '["numpy:eager", "torch:eager"]',
    "algorithms": '["dqn", "ppo"]',
    "environments": '"CartPole-v1"',
    "seeds": "3",
}


@pytest.fixture
def load(tmp_path):
    """Load a study made of the good keys, some of them replaced (None: left out), and more text below."""

    def load_text(tail: str = "[budget]\nsteps = 1000\n", **keys: str | None) -> Study:
        lines = [f"{key} = {value}\n" for key, value in (GOOD | keys).items() if value is not None]
        path = tmp_path / "x.toml"
        path.write_text("".join(lines) + tail, encoding="utf-8")
        return load_study(path, CATALOGUE)

    return load_text


@pytest.fixture
def mistakes(load):
    """The lines reported about a bad study, without the file's name."""

    def report(*args: str, **keys: str | None) -> list[str]:
        with pytest.raises(Problem) as caught:
            load(*args, **keys)
        problem = caught.value
        lines = problem.detail.splitlines() if problem.detail else [problem.message]
        assert all("x.toml:" in line for line in lines)
        assert problem.fix
        return [line.partition("x.toml:")[2] for line in lines]

    return report


def test_scalars_and_defaults(load) -> None:
    study = load(cores="2", contestants='"numpy:eager"')
    assert study.contestants == ("numpy:eager",)
    assert study.environments == ("CartPole-v1",)
    assert (study.cores, study.workers, study.devices) == ((2,), (1,), ("cpu",))
    assert study.max_episode_steps == (None,)
    assert (study.dtype, study.division, study.order_seed) == ("float32", "closed", 0)
    assert study.seeds == (0, 1, 2)
    assert study.budget.steps == 1000
    assert study.budget.stop is None


def test_budget_and_seed_forms(load) -> None:
    budget = "[budget]\nsteps = 1e6\nwall_s = 60\nstop = { return = 475 }\n"
    study = load(budget, seeds="[7, 3]", max_episode_steps="[100, 1000]")
    assert study.seeds == (7, 3)
    assert study.max_episode_steps == (100, 1000)
    assert study.budget.steps == 1_000_000
    assert study.budget.stop.return_ == 475
    assert study.budget.stop.episodes == 100


def test_tf32_is_for_gpus(load, mistakes) -> None:
    assert load(dtype='"tf32"', contestants='"torch:eager"', devices='"cuda"').dtype == "tf32"
    (line,) = mistakes(dtype='"tf32"')
    assert "tf32 is a precision of GPUs" in line


def test_the_open_division_is_no_part_of_studies(load, mistakes) -> None:
    assert load(division='"closed"').division == "closed"
    (line,) = mistakes(division='"open"')
    assert "`rldyno open`" in line


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            {"contestants": '[\n"numpy:eager",\n"torch:complie"]'},
            "3: contestants: unknown contestant 'torch:complie', did you mean 'torch:compile'?",
        ),
        (
            {"contestants": '["numpi:eager"]'},
            "1: contestants: unknown contestant 'numpi:eager', did you mean 'numpy:eager'?",
        ),
        (
            {"contestants": '["jax:jit"]'},
            "1: contestants: unknown contestant 'jax:jit'; known: "
            "numpy:eager, torch:eager, torch:compile, torch:cudagraph",
        ),
        (
            {"contestants": '["torch"]'},
            "1: contestants: 'torch' names no mode; write one of torch:eager, torch:compile, torch:cudagraph",
        ),
        (
            {"contestants": '["torch:xla"]'},
            "1: contestants: torch has no mode 'xla'; it has torch:eager, torch:compile, torch:cudagraph",
        ),
        ({"contestants": "[]"}, "1: contestants: no value: give at least one"),
        ({"contestants": "[3]"}, "1: contestants: must be a text, not 3"),
        (
            {"contestants": '[\n"numpy:eager",\n"torch:eager",\n"numpy:eager"]'},
            "4: contestants: 'numpy:eager' is given twice",
        ),
        (
            {"contestants": "[\"numpy:eager\",\n'torch:cudagraph']"},
            "2: contestants: torch:cudagraph on cpu: it runs on cuda only",
        ),
        (
            {"contestants": '"numpy:eager"', "workers": "2"},
            "1: contestants: numpy:eager with several workers: numpy has no collective on cpu",
        ),
        (
            {"contestants": '"numpy:eager"', "devices": '["cpu", "cuda"]'},
            "5: devices: no contestant of this study runs on cuda",
        ),
        ({"contestants": None}, "1: contestants: missing: a study must give it"),
        ({"contestant": '"numpy:eager"'}, "5: contestant: unknown key, did you mean 'contestants'?"),
        ({"algorithms": '["dqn", "poo"]'}, "2: algorithms: unknown algorithm 'poo', did you mean 'ppo'?"),
        (
            {"environments": '["CartPol-v1"]'},
            "3: environments: unknown environment 'CartPol-v1', did you mean 'CartPole-v1'?",
        ),
        (
            {"environments": '["cartpole-v0"]'},
            "3: environments: unknown environment 'cartpole-v0', did you mean 'CartPole-v0'?",
        ),
        (
            {"environments": '["CartPole"]'},
            "3: environments: unknown environment 'CartPole', did you mean 'CartPole-v1'?",
        ),
        (
            {"environments": '["a b"]'},
            "3: environments: 'a b' is no environment id; write Name-v0, Namespace/Name-v0 or module:Name-v0",
        ),
        ({"devices": '"gpu"'}, "5: devices: must be 'cpu' or 'cuda', not 'gpu'"),
        ({"cores": "true"}, "5: cores: must be a whole number, not true"),
        ({"cores": "[1,\n0]"}, "6: cores: must be at least 1, not 0"),
        ({"cores": "1.5"}, "5: cores: must be a whole number, not 1.5"),
        ({"seeds": "0"}, "4: seeds: must be between 1 and 10000 seeds, not 0"),
        ({"seeds": "[1, -1]"}, "4: seeds: must be at least 0, not -1"),
        ({"seeds": "{ min = 9, max = 3 }"}, "4: seeds.max: must be at least min, 9, not 3"),
        ({"seeds": "{ min = 5 }"}, "4: seeds.max: missing: a study must give it"),
        ({"seeds": "{ max = 9, untl = 1 }"}, "4: seeds.untl: unknown key, did you mean 'until'?"),
        ({"seeds": "{ max = 9, until = 'x' }"}, "4: seeds.until: must be 'resolved' or 'winner', not 'x'"),
        ({"seeds": "{ max = 9, within = 2 }"}, "4: seeds.within: must be below 1, not 2"),
        ({"seeds": '"three"'}, "4: seeds: must be a whole number, not 'three'"),
        ({"seeds": "10_000"}, "1: the axes cross to 40,000 trials; the limit is 10,000"),
        ({"dtype": '"float16"'}, "5: dtype: must be 'float32', 'float64' or 'tf32', not 'float16'"),
        ({"title": "3"}, "5: title: must be a text, not 3"),
        ({"max_episode_steps": "[100, 100]"}, "5: max_episode_steps: 100 is given twice"),
        ({"hyper": "3"}, "5: hyper: must be a table of hyper-parameters"),
        ({"wall_s": "3"}, "5: wall_s: unknown key; it belongs in [budget]"),
        ({"budgets": "3"}, "5: budgets: unknown key, did you mean 'budget'?"),
    ],
)
def test_one_mistake_in_the_keys(mistakes, keys, expected) -> None:
    assert mistakes(**keys) == [expected]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ("[budget]", "5: budget: a trial would never end: give steps, episodes or wall_s"),
        ("", "1: budget: missing: a study must give it"),
        ("budget = 3", "5: budget: must be a table, not 3"),
        (
            "[budget]\nstop.return = 475",
            "5: budget: a stop rule alone may never end a trial: give steps, episodes or wall_s",
        ),
        (
            "[budget]\nepisodes = 50\nstop = {return = 1, episodes = 51}",
            "7: budget.stop.episodes: 51 episodes can never be averaged when budget.episodes is 50",
        ),
        ("[budget]\nsteps = 0", "6: budget.steps: must be at least 1, not 0"),
        ("[budget]\nwall_s = -1", "6: budget.wall_s: must be above 0, not -1"),
        ("[budget]\nwall_s = inf", "6: budget.wall_s: must be a finite number, not inf"),
        (
            "[budget]\nsteps = 9\nstop.retrun = 475\nstop.return = 3",
            "7: budget.stop.retrun: unknown key, did you mean 'return'?",
        ),
        ("[budget]\nsteps = 9\nwall = 475", "7: budget.wall: unknown key, did you mean 'wall_s'?"),
        ("[budget]\nsteps = 9\nstop.return = 'a'", "7: budget.stop.return: must be a number, not 'a'"),
    ],
)
def test_one_mistake_in_the_budget(mistakes, budget, expected) -> None:
    assert mistakes(budget) == [expected]


@pytest.mark.parametrize(
    ("hyper", "expected"),
    [
        ("gama = 0.9", "8: hyper.gama: unknown hyper-parameter, did you mean 'gamma'?"),
        (
            "ppo.whatever = 0.1",
            "8: hyper.ppo.whatever: ppo has no such hyper-parameter; `rldyno hyper ALGORITHM` lists them",
        ),
        ("lr = 0.1", "8: hyper.lr: unknown hyper-parameter, did you mean 'learning_rate'?"),
        ("dqn.bs = 32", "8: hyper.dqn.bs: dqn has no such hyper-parameter, did you mean 'batch_size'?"),
        (
            "dqn.eps = 0.1",
            "8: hyper.dqn.eps: dqn has no such hyper-parameter, did you mean 'adam_eps' or 'epsilon_end'?",
        ),
        ("n_envs = 8", "8: hyper.n_envs: unknown hyper-parameter, did you mean 'environments'?"),
        ("sac.gamma = 0.9", "8: hyper.sac: unknown algorithm; known: a2c, dqn, ppo, rainbow"),
        ("gamma = 1.5", "8: hyper.gamma: must be between 0 and 1, not 1.5"),
        ("gamma = nan", "8: hyper.gamma: must be between 0 and 1, not nan"),
        ("gamma = [0.9,\n0.8,\n2]", "10: hyper.gamma: must be between 0 and 1, not 2.0"),
        ("gamma = []", "8: hyper.gamma: no value: give at least one"),
        ("gamma = [0.9, 0.9]", "8: hyper.gamma: 0.9 is given twice"),
        ("gamma = '1'", "8: hyper.gamma: must be a number, not '1'"),
        ("learning_rate = 0", "8: hyper.learning_rate: must be above 0, not 0.0"),
        ("activation = 'gelu'", "8: hyper.activation: must be 'relu' or 'tanh', not 'gelu'"),
        ("hidden = 64", "8: hyper.hidden: must be a list, not 64"),
        ("hidden = [64, 0]", "8: hyper.hidden: must be at least 1, not 0"),
        ("convolutions = 'huge'", "8: hyper.convolutions: unknown convolutions 'huge'; known: small, large"),
        (
            "convolutions = [[16, 8]]",
            "8: hyper.convolutions: must hold 3 numbers (filters, kernel, stride), not [16, 8]",
        ),
        (
            "noisy_sigma = 0.4",
            "8: hyper.noisy_sigma: no algorithm of this study has this hyper-parameter, only rainbow",
        ),
        ("dqn.batch_size = true", "8: hyper.dqn.batch_size: must be a whole number, not true"),
        ("dqn.double = 1", "8: hyper.dqn.double: must be true or false, not 1"),
        ("dqn.clip_range = 0.2", "8: hyper.dqn.clip_range: dqn has no such hyper-parameter, only ppo"),
        (
            "dqn.batchsize = 2",
            "8: hyper.dqn.batchsize: dqn has no such hyper-parameter, did you mean 'batch_size'?",
        ),
        (
            "dqn.'CartPole-v0'.gamma = 0.9",
            "8: hyper.dqn.CartPole-v0: no environment of this study, did you mean 'CartPole-v1'?",
        ),
        ("dqm.gamma = 0.9", "8: hyper.dqm: unknown algorithm, did you mean 'dqn'?"),
        ("dqn.capacity = 10", "8: hyper.dqn.capacity: dqn on CartPole-v1: batch_size 64 exceeds capacity 10"),
        (
            "ppo.environments = [4, 3]\nppo.rollout_steps = 5",
            "9: hyper.ppo.rollout_steps: ppo on CartPole-v1: "
            "3 environments × 5 rollout_steps do not divide into 4 minibatches",
        ),
    ],
)
def test_one_mistake_in_the_hyper_parameters(mistakes, hyper, expected) -> None:
    assert mistakes(f"[budget]\nsteps = 9\n[hyper]\n{hyper}\n") == [expected]


def test_v_min_below_v_max(mistakes) -> None:
    lines = mistakes("[budget]\nsteps = 9\n[hyper.rainbow]\nv_min = 300\n", algorithms="'rainbow'")
    assert lines == ["8: hyper.rainbow.v_min: rainbow on CartPole-v1: v_min 300.0 is not below v_max 100.0"]


def test_all_mistakes_are_reported_at_once_in_order(mistakes) -> None:
    tail = "[budget]\nstop.return = 1\n[hyper]\ngama = 1\n[hyper.ppo]\nminibatches = 7\n"
    lines = mistakes(tail, titel='"x"', contestants='["numpi:eager", "torch:cudagraph"]')
    assert [line.partition(":")[0] for line in lines] == ["1", "1", "5", "6", "9", "11"]
    assert "numpy:eager" in lines[0] or "numpy:eager" in lines[1]


def test_crossings_that_cannot_run_are_left_out_with_a_reason(load) -> None:
    study = load(
        contestants='["numpy:eager", "torch:cudagraph"]', devices='["cpu", "cuda"]', workers="[1, 2]"
    )
    assert [placement[:3] for placement in study.placements] == [
        ("numpy:eager", "cpu", 1),
        ("torch:cudagraph", "cuda", 1),
        ("torch:cudagraph", "cuda", 2),
    ]
    assert study.left_out == (
        "numpy:eager with several workers: numpy has no collective on cpu",
        "numpy:eager on cuda: it runs on cpu only",
        "torch:cudagraph on cpu: it runs on cuda only",
    )


HYPER = """
[budget]
steps = 9
[hyper]
gamma = [0.9, 1]
hidden = [64, 64]
epochs = 3
[hyper.dqn]
gamma = 0.8
hidden = [[], [32]]
capacity = 1e4
[hyper.dqn."MountainCar-v0"]
gamma = 0.7
[hyper.rainbow]
atoms = 11
"""


def test_the_most_specific_hyper_parameter_holds(load) -> None:
    study = load(HYPER, environments='["CartPole-v1", "MountainCar-v0"]')
    on_cartpole = {"gamma": (0.8,), "hidden": ((), (32,)), "capacity": (10_000,)}
    assert study.axes("dqn", "CartPole-v1") == on_cartpole
    assert study.axes("dqn", "MountainCar-v0") == on_cartpole | {"gamma": (0.7,)}
    of_ppo = {"gamma": (0.9, 1.0), "hidden": ((64, 64),), "epochs": (3,)}
    assert study.axes("ppo", "CartPole-v1") == study.axes("ppo", "MountainCar-v0") == of_ppo
    assert isinstance(study.axes("dqn", "CartPole-v1")["capacity"][0], int)


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("[]", ((),)),
        ("'small'", (CNN_SMALL,)),
        ("[[16, 8, 4], [32, 4, 2]]", (CNN_SMALL,)),
        ("['small', 'large']", (CNN_SMALL, CNN_LARGE)),
        ("[[[8, 3, 1]], 'large', []]", (((8, 3, 1),), CNN_LARGE, ())),
    ],
)
def test_convolutions(load, written, values) -> None:
    study = load(f"[budget]\nsteps = 9\n[hyper]\nconvolutions = {written}\n")
    assert study.axes("dqn", "CartPole-v1")["convolutions"] == values


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_shipped_values_pass_their_own_checks(load, algorithm) -> None:
    def toml(value) -> str:
        return (
            str(value).lower()
            if isinstance(value, bool)
            else repr(list(value) if isinstance(value, tuple) else value)
        )

    shipped = ALGORITHMS[algorithm].hyper()
    written = "".join(f"{field.name} = {toml(getattr(shipped, field.name))}\n" for field in fields(shipped))
    study = load(f"[budget]\nsteps = 9\n[hyper.{algorithm}]\n{written}", algorithms=f"'{algorithm}'")
    assert len(study.axes(algorithm, "CartPole-v1")) == len(fields(shipped))


def test_rules_are_of_fields_that_exist() -> None:
    known = {name for algorithm in ALGORITHMS for name in study_hyper.field_types(algorithm)}
    assert set(study_hyper.RULES) <= known


def test_the_hash_is_of_the_question(load) -> None:
    plain = load()
    spelled_otherwise = load(
        "# note\nbudget.steps = 1e3\n", title="'t'", question="'q'", seeds="[0, 1, 2]", cores="[1]"
    )
    assert plain.sha256 == spelled_otherwise.sha256
    assert differences(plain, spelled_otherwise) == []
    assert plain.sha256 != load(seeds="4").sha256
    assert plain.sha256 != load("[budget]\nsteps = 1000\n[hyper]\ngamma = 0.9\n").sha256


def test_differences_are_spelled_out(load) -> None:
    tail = "[budget]\nsteps = 500\nstop = {return = 475}\n[hyper.dqn]\ngamma = [0.9, 0.8]\n"
    assert differences(load(), load(tail, seeds="5", contestants="'numpy:eager'")) == [
        "contestants: numpy:eager, torch:eager → numpy:eager",
        "seeds: 3 → 5",
        "budget.steps: 1000 → 500",
        "budget.stop.return: none → 475.0",
        "budget.stop.episodes: none → 100",
        "hyper.dqn.CartPole-v1.gamma: default → 0.9, 0.8",
    ]
    assert differences(load(), load(seeds="[4, 5]")) == ["seeds: 3 → [4, 5]"]


def test_adaptive_seeds_are_all_that_may_be_needed(load) -> None:
    study = load(seeds="{ max = 8, until = 'winner' }")
    assert study.seeds == tuple(range(8))
    assert study.adaptive is not None
    assert (study.adaptive.min, study.adaptive.until, study.adaptive.within) == (5, "winner", 0.02)
    assert study.sha256 != load(seeds="8").sha256
    assert "adaptive" not in load(seeds="8").content
    assert differences(load(), study) == ["seeds: 3 → { min = 5, max = 8, until = winner, within = 0.02 }"]
