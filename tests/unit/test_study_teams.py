"""Studies with several workers: which cells they make, what is refused, and what trials are called."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.machine import cpus, devices
from rldyno.records.trial_id import trial_id
from rldyno.session import room
from rldyno.study.file import load_study
from rldyno.study.plan import Plan, make_plan
from rldyno_rig.trial_file import TrialFile


@dataclass(frozen=True)
class FakeToolchain:
    modes: dict[str, tuple[str, ...]]
    collectives: dict[str, tuple[str, ...]]


BOTH = ("cpu", "cuda")
CATALOGUE = {
    "numpy": FakeToolchain({"eager": ("cpu",)}, {"host": ("cpu",)}),
    "torch": FakeToolchain({"eager": BOTH}, {"native": BOTH, "horovod": ("cpu",), "host": ("cpu",)}),
    "theano": FakeToolchain({"graph": ("cpu",)}, {}),
}
STUDY = """
algorithms = "{algorithm}"
environments = ["CartPole-v1"]
seeds = 1
"""
PlanOf = Callable[..., Plan]


@pytest.fixture
def plan_of(tmp_path: Path) -> PlanOf:
    def make(contestants: str, *lines: str, tail: str = "", algorithm: str = "dqn") -> Plan:
        path = tmp_path / "x.toml"
        text = "\n".join((f"contestants = {contestants}", *lines))
        keys = STUDY.format(algorithm=algorithm)
        path.write_text(f"{text}\n{keys}[budget]\nsteps = 1000\n{tail}", encoding="utf-8")
        return make_plan(load_study(path, CATALOGUE))

    return make


def teams(plan: Plan) -> list[tuple[str, int, str, str]]:
    return [(cell.contestant, cell.workers, cell.collective, cell.scaling) for cell in plan.cells]


def refusal(plan_of: PlanOf, *lines: str, **options: str) -> str:
    with pytest.raises(Problem) as caught:
        plan_of(*lines, **options)
    assert caught.value.fix
    return caught.value.detail or caught.value.message


def test_one_worker_is_not_multiplied(plan_of) -> None:
    lines = 'workers = [1, 2, 4]\ncollective = ["native", "host"]\nscaling = ["weak", "strong"]'
    assert teams(plan_of('"torch:eager"', lines, tail="[hyper]\ntarget_sync = 500\n")) == [
        ("torch:eager", 1, "none", "weak"),
        *(
            ("torch:eager", workers, collective, scaling)
            for workers in (2, 4)
            for collective in ("native", "host")
            for scaling in ("weak", "strong")
        ),
    ]


def test_the_default_is_native_where_there_is_one(plan_of) -> None:
    assert teams(plan_of('["numpy:eager", "torch:eager"]', "workers = 2")) == [
        ("numpy:eager", 2, "host", "weak"),
        ("torch:eager", 2, "native", "weak"),
    ]


def test_a_collective_that_some_lack_is_left_out(plan_of) -> None:
    plan = plan_of(
        '["numpy:eager", "torch:eager", "theano:graph"]',
        'workers = [1, 2]\ncollective = ["horovod", "host"]\ndevices = ["cpu"]',
    )
    assert teams(plan)[-1] == ("theano:graph", 1, "none", "weak")
    assert plan.study.left_out == (
        "numpy:eager with the collective horovod on cpu: numpy has host on cpu",
        "theano:graph with several workers: theano has no collective on cpu",
    )


def test_collectives_follow_the_device(plan_of) -> None:
    plan = plan_of('"torch:eager"', 'workers = 2\ndevices = ["cpu", "cuda"]\ncollective = ["native", "host"]')
    assert [(cell.device, cell.collective) for cell in plan.cells] == [
        ("cpu", "native"),
        ("cpu", "host"),
        ("cuda", "native"),
    ]


@pytest.mark.parametrize(
    ("contestants", "lines", "expected"),
    [
        ('"theano:graph"', "workers = 2", "x.toml:1: contestants: theano:graph with several workers: theano"),
        ('"theano:graph"', "workers = [1,\n8]", "x.toml:3: workers: no contestant of this study runs with 8"),
        ('"numpy:eager"', 'workers = 2\ncollective = "native"', "numpy has host on cpu"),
        (
            '["numpy:eager", "torch:eager"]',
            'workers = 2\ncollective = ["host",\n"gloo"]',
            "x.toml:4: collective: must be 'native', 'horovod' or 'host', not 'gloo'",
        ),
        (
            '"numpy:eager"',
            'workers = [1, 2]\ncollective = ["host",\n"horovod"]',
            "x.toml:4: collective: no contestant of this study has the collective horovod",
        ),
        ('"numpy:eager"', 'collective = "host"', "x.toml:2: collective: is for several workers"),
        ('"numpy:eager"', 'workers = 2\nscaling = "both"', "scaling: must be 'weak' or 'strong', not 'both'"),
        (
            '"numpy:eager"',
            'workers = [2, 3]\nscaling = "strong"',
            "x.toml:3: scaling: strong: dqn on CartPole-v1: batch_size = 64 does not divide by 3 workers",
        ),
    ],
)
def test_what_cannot_run_is_refused(plan_of, contestants: str, lines: str, expected: str) -> None:
    assert expected in refusal(plan_of, contestants, lines)


def test_what_divides_must_also_make_sense(plan_of) -> None:
    """Six rows divide into two minibatches; the three of each worker do not."""
    tail = "[hyper.ppo]\nenvironments = 2\nrollout_steps = 3\nminibatches = 2\n"
    said = refusal(plan_of, '"numpy:eager"', 'workers = 2\nscaling = "strong"', tail=tail, algorithm="ppo")
    assert "each of 2 workers has 1 environments × 3 rollout_steps do not divide into 2 minibatches" in said


def test_crossings_of_more_cpus_are_left_out(plan_of) -> None:
    lines = "cores = [1, 2]\nworkers = [1, 2]"
    plan = plan_of('"numpy:eager"', f"{lines}\nmax_cpus = 2")
    assert [(cell.workers, cell.cores) for cell in plan.cells] == [(1, 1), (2, 1), (1, 2)]
    assert plan.study.left_out == ("workers 2 with cores 2: more CPUs than max_cpus = 2",)
    whole = plan_of('"numpy:eager"', lines)
    assert len(whole.cells) == 4
    assert "max_cpus" not in whole.study.content
    said = refusal(plan_of, '"numpy:eager"', "cores = [1, 2, 4]\nmax_cpus = 2")
    assert "x.toml:2: cores: all trials with 4 need more CPUs than max_cpus = 2" in said


@pytest.fixture
def file(plan_of) -> TrialFile:
    return plan_of('"torch:eager"').trials[0].to_file()


def test_ids_of_one_worker_are_as_they_were(file: TrialFile) -> None:
    """The samples in docs/ are older than teams; test_plan.py compares with their ids."""
    assert trial_id(replace(file, collective="host", scaling="strong", share_gpu=True)) == trial_id(file)


def test_ids_of_teams_name_their_collective(file: TrialFile) -> None:
    team = replace(file, workers=2, collective="host")
    assert ".cpu.2-host.s0." in trial_id(team)
    others = [
        replace(team, workers=4),
        replace(team, collective="native"),
        replace(team, scaling="strong"),
        replace(team, share_gpu=True),
    ]
    assert ".cpu.2-host-strong.s0." in trial_id(others[2])
    assert len({trial_id(one) for one in (file, team, *others)}) == 6


def test_studies_of_one_worker_keep_their_hash(plan_of) -> None:
    content = plan_of('"torch:eager"').study.content
    assert content["workers"] == [1]
    assert not {"collective", "scaling", "share_gpu"} & set(content)
    hashes = {
        plan_of('"torch:eager"', "workers = 2", *more).study.sha256
        for more in ((), ('collective = "host"',), ('scaling = "strong"',), ("share_gpu = true",))
    }
    assert len(hashes) == 4


def test_only_teams_on_gpus_share_one(plan_of) -> None:
    plan = plan_of('"torch:eager"', 'workers = [1, 2]\ndevices = ["cpu", "cuda"]\nshare_gpu = true')
    sharing = [(cell.device, cell.workers) for cell in plan.cells if cell.share_gpu]
    assert sharing == [("cuda", 2)]
    trial = next(trial for trial in plan.trials if trial.cell.share_gpu)
    assert trial.to_json()["share_gpu"] is True


def test_every_worker_needs_its_cores() -> None:
    def free() -> None:
        return None

    assert cpus.place((0, 1, 2), 1, 1, free, workers=2) == (0, (1, 2))
    assert cpus.place((0, 1), 1, 1, free, workers=2) == (None, (0, 1))
    with pytest.raises(Problem, match="2 workers of 2 cores need 4 CPUs, this process may use 2") as caught:
        cpus.place((0, 1), 2, 1, free, workers=2)
    assert "fewer `workers`" in str(caught.value.fix)
    with pytest.raises(Problem, match="2 jobs of 2 workers of 1 core need 4 CPUs") as caught:
        cpus.place((0, 1, 2), 1, 2, free, workers=2)
    assert caught.value.fix == "use --jobs 1"


def test_every_worker_needs_its_gpu(plan_of, monkeypatch) -> None:
    monkeypatch.setattr(devices, "usable_gpus", lambda: (2, None))
    lines = 'devices = "cuda"\nworkers = [1, 4]'
    with pytest.raises(Problem, match="4 workers need 4 GPUs, this process may use 2") as caught:
        room.check_devices(plan_of('"torch:eager"', lines).cells)
    assert "share_gpu = true" in str(caught.value.fix)
    room.check_devices(plan_of('"torch:eager"', lines, "share_gpu = true").cells)
    room.check_devices(plan_of('"torch:eager"', 'devices = "cuda"\nworkers = 2').cells)


SHOWN = """contestants = ["numpy:eager"]
algorithms = ["dqn"]
environments = ["CartPole-v1"]
workers = [1, {workers}]
scaling = ["weak", "strong"]
seeds = 1
[budget]
steps = 1000
[hyper]
target_sync = 500
"""


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """What `rldyno plan` answers on a machine with two CPUs."""
    monkeypatch.setattr(room, "available_cpus", lambda: (0, 1))
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))

    def invoke(workers: int, *options: str) -> Any:
        path = tmp_path / "x.toml"
        path.write_text(SHOWN.format(workers=workers))
        return CliRunner().invoke(app, ["plan", str(path), *options], terminal_width=120)

    return invoke


def test_the_plan_shows_teams(shown) -> None:
    lines = shown(2).stdout.splitlines()
    assert any("workers" in line and "collective" in line and "scaling" in line for line in lines)
    assert any("host" in line and "strong" in line for line in lines)
    trials = json.loads(shown(2, "--json").stdout)["trials"]
    found = {(trial["workers"], trial["collective"], trial["scaling"]) for trial in trials}
    assert found == {(1, "none", "weak"), (2, "host", "weak"), (2, "host", "strong")}


def test_the_plan_refuses_more_workers_than_cpus(shown) -> None:
    problem = shown(4).exception
    assert isinstance(problem, Problem)
    assert "4 workers of 1 core need 4 CPUs" in problem.message


def test_a_login_node_plans_for_larger_nodes(shown) -> None:
    done = shown(4, "--launcher", "slurm")
    assert done.exit_code == 0, done.output
    assert "3 trials" in done.output
