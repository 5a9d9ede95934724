"""Certificates of collectives: what makes one, what it is judged by, and trials that lack it.

The "interpreters" here are scripts that write proofs: one process for each rank of a team.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.proofs import prove, store, team_jobs
from rldyno.proofs.certificate import (
    ABSENT,
    FAILED,
    STALE,
    VALID,
    Certificate,
    Code,
    Subject,
    trial_validity,
)
from rldyno.proofs.jobs import log_path
from rldyno.results.load import subject_of, team_of
from rldyno.study.file import load_study
from rldyno.study.plan import make_plan
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.facts_file import WorkerFacts
from rldyno_rig.job_files import EnvironmentFacts
from rldyno_rig.proof.standard import team_sizes
from whole_proofs import whole_rungs

ALONE = Subject.of("torch:eager", "dqn", "cnn", "cpu")
TEAM = ALONE.in_a_team("native")
WANTED = [replace(TEAM, algorithm=algorithm) for algorithm in ("dqn", "ppo")]
CODE = Code("b" * 64, "r" * 64, {"torch": "2.5"})
FACTS = WorkerFacts(
    backend_sha256=CODE.backend_sha256, reference_sha256=CODE.reference_sha256, versions=CODE.versions
)
WHOLE = Certificate(TEAM, CODE, whole_rungs(collective="native"))


def test_a_team_is_proven_with_a_small_network() -> None:
    assert (TEAM.network, TEAM.collective, TEAM.device) == ("mlp", "native", "cpu")
    assert str(TEAM) == "torch:eager dqn collective native"


def test_a_certificate_of_a_team_survives_being_written() -> None:
    again = Certificate.from_json(json.loads(json.dumps(WHOLE.to_json())))
    assert again == WHOLE
    assert again.proven
    assert "collective" not in again.circumstances
    assert "collective" not in ALONE.to_json()


@pytest.mark.parametrize("place", range(len(WHOLE.rungs)))
def test_every_rung_of_a_team_is_required(place: int) -> None:
    rungs = WHOLE.rungs
    lacking = replace(WHOLE, rungs=rungs[:place] + rungs[place + 1 :])
    assert "it lacks the rung" in str(lacking.incomplete)
    if rungs[place].tolerance is not None:
        wide = replace(rungs[place], tolerance=1.0)
        assert "not ours" in str(replace(WHOLE, rungs=(*rungs[:place], wide, *rungs[place + 1 :])).incomplete)


def test_workers_that_differ_in_a_bit_refute_it() -> None:
    rungs = tuple(
        replace(one, error=1e-17) if one.name == "3 workers: equal on all workers" else one
        for one in WHOLE.rungs
    )
    assert replace(WHOLE, rungs=rungs).refuted


def test_a_trial_of_a_team_needs_the_proof_of_its_collective() -> None:
    alone = {ALONE: [Certificate(ALONE, CODE, whole_rungs(network="cnn"))]}
    proven = {**alone, TEAM: [WHOLE]}
    assert trial_validity(alone, ALONE, FACTS).state == VALID
    assert trial_validity(proven, ALONE, FACTS, TEAM).state == VALID
    by_host = ALONE.in_a_team("host")
    for certificates, team, state in (
        (alone, TEAM, ABSENT),
        (proven, by_host, ABSENT),
        ({TEAM: [WHOLE]}, TEAM, ABSENT),
        ({**alone, TEAM: [replace(WHOLE, error="it broke")]}, TEAM, FAILED),
        ({**alone, TEAM: [replace(WHOLE, code=replace(CODE, backend_sha256="c"))]}, TEAM, STALE),
        ({**alone, TEAM: [replace(WHOLE, subject=ALONE, rungs=whole_rungs())]}, TEAM, STALE),
    ):
        assert trial_validity(certificates, ALONE, FACTS, team).state == state
    assert "the collective host" in str(trial_validity(proven, ALONE, FACTS, by_host).reason)


def test_workers_that_share_a_gpu_prove_nothing_of_those_that_have_one_each() -> None:
    """PyTorch averages through the host where they share one, and by NCCL where they do not."""
    on_gpu = replace(ALONE, device="cuda")
    shared, apart = (on_gpu.in_a_team("native", share_gpu=share) for share in (True, False))
    assert str(apart) == "torch:eager dqn collective native, a GPU each"
    assert Subject.from_json(json.loads(json.dumps(apart.to_json()))) == apart
    assert "own_gpus" not in shared.to_json()
    rungs = whole_rungs(device="cuda", collective="native")
    certificates = {
        on_gpu: [Certificate(on_gpu, CODE, whole_rungs(network="cnn", device="cuda"))],
        shared: [Certificate(shared, CODE, rungs)],
    }
    assert trial_validity(certificates, on_gpu, FACTS, shared).state == VALID
    found = trial_validity(certificates, on_gpu, FACTS, apart)
    assert found == (ABSENT, "the collective native, a GPU each: never proven")


STUDY = """
contestants = ["numpy:eager"]
algorithms = ["dqn"]
environments = ["CartPole-v1"]
workers = [1, 2]
scaling = ["weak", "strong"]
seeds = 1
[budget]
steps = 100
"""


def test_a_study_needs_its_collectives_and_the_shapes_of_shares(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(STUDY)
    plan = make_plan(load_study(path))
    found = EnvironmentFacts("CartPole-v1", None, (4,), "float32", 2)
    wanted = prove.subjects(plan.cells, {("numpy", "CartPole-v1"): found})
    assert [one.collective for one in wanted if one.collective] == ["host"]
    assert sorted(one.shape.update_rows for one in wanted if one.shape) == [32, 64]
    files = [trial.to_file() for trial in plan.trials]
    team = Subject.of("numpy:eager", "dqn", "mlp", "cpu").in_a_team("host")
    assert {team_of(file) for file in files} == {None, team}
    apart = replace(files[0], workers=2, device="cuda")
    assert [(one := team_of(file)) and one.own_gpus for file in (apart, replace(apart, share_gpu=True))] == [
        True,
        False,
    ]
    assert {subject_of(file) for file in files} == {Subject.of("numpy:eager", "dqn", "mlp", "cpu")}


RIG = """#!{python}
import json, os, sys
folder, rank = sys.argv[-1], int(os.environ["RLDYNO_RANK"])
job = json.load(open(folder + "/job.json"))
subjects, size = [subject["algorithm"] for subject in job["subjects"]], job["workers"]
print("worker", rank, "of", size)
mine = folder if rank == 0 else folder + "/workers/" + str(rank)
proofs, code = [], 0
for algorithm in subjects:
    label = "{{}} workers: ".format(size)
    rungs = [rung for rung in {rungs!r} if rung["rung"].startswith(label)]
    proof = {{"error": None, "rungs": rungs if rank == 0 else []}}
    {trouble}
    proofs.append(proof)
    if proof["error"]:
        code = 1
        break
json.dump({{"versions": {{}}, "proofs": proofs}}, open(mine + "/partial", "w"))
os.replace(mine + "/partial", mine + "/proofs.json")
sys.exit(code)
"""


@pytest.fixture
def interpreters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Interpreter]:
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(team_jobs, "_GRACE_S", 1.0)
    return {"torch": Interpreter("torch", tmp_path / "python", "given", "3.11.7", {"torch": "2.0"}, None)}


def says(interpreters: dict[str, Interpreter], trouble: str = "pass") -> None:
    rungs = [rung.to_json() for rung in whole_rungs(collective="native")]
    script = interpreters["torch"].path
    script.write_text(RIG.format(python=sys.executable, rungs=rungs, trouble=trouble))
    script.chmod(0o755)


def test_teams_of_every_size_make_one_certificate(interpreters) -> None:
    says(interpreters)
    made = prove.prove(WANTED, interpreters, lambda _: None)
    assert [one.subject for one in made] == WANTED
    assert all(one.proven for one in made)
    sizes = {int(rung.name.split()[0]) for one in made for rung in one.rungs}
    assert sizes == set(team_sizes("cpu"))
    for subject in WANTED:
        assert store.find(subject, interpreters["torch"]) is not None
        assert "-native-" in store.path_of(subject, interpreters["torch"]).name
    left = list((interpreters["torch"].path.parent / "cache" / "proofs").rglob("*"))
    assert [path for path in left if path.suffix != ".log"] == []


def test_an_error_leaves_the_other_subjects_provable(interpreters) -> None:
    says(interpreters, 'proof["error"] = "it broke" if algorithm == "dqn" and size == 3 else None')
    dqn, ppo = prove.prove(WANTED, interpreters, lambda _: None)
    assert ppo.proven
    assert "with 3 workers, worker 0: it broke" in dqn.sentence()
    assert store.find(WANTED[0], interpreters["torch"]) is None
    assert "worker 1 of 3" in log_path(WANTED[0]).read_text()


def test_the_worker_that_failed_first_is_named(interpreters) -> None:
    says(interpreters, 'proof["error"] = ["worker 0 lost another worker: x", "no memory", "y"][rank]')
    found = prove.prove(WANTED, interpreters, lambda _: None)
    assert ["with 2 workers, worker 1: no memory" in one.sentence() for one in found] == [True, True]


ON_GPUS = [replace(ALONE, device="cuda").in_a_team("native")]


def test_each_worker_is_proven_on_a_gpu_of_its_own(interpreters, monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6,7")
    rungs = [rung.to_json() for rung in whole_rungs(device="cuda", collective="native")]
    seen = 'proof["error"] = None if os.environ["CUDA_VISIBLE_DEVICES"] == "46"[rank] else "another GPU"'
    interpreters["torch"].path.write_text(RIG.format(python=sys.executable, rungs=rungs, trouble=seen))
    interpreters["torch"].path.chmod(0o755)
    (made,) = prove.prove(ON_GPUS, interpreters, lambda _: None)
    assert made.sentence().startswith("torch:eager dqn collective native, a GPU each: proven")
    assert store.find(ON_GPUS[0], interpreters["torch"]) is not None


def test_one_gpu_cannot_prove_workers_with_one_each(interpreters, monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    says(interpreters)
    seen: list[Certificate] = []
    with pytest.raises(Problem, match="in a team failed"):
        prove.prove(ON_GPUS, interpreters, seen.append)
    assert "2 workers need a GPU each, 1 can be seen" in seen[0].sentence()
    assert store.find(ON_GPUS[0], interpreters["torch"]) is None


def test_verify_proves_both_where_there_are_several_gpus(monkeypatch) -> None:
    def teams(gpus: int, device: str = "cuda") -> set[bool]:
        monkeypatch.setattr(prove, "usable_gpus", lambda: (gpus, None))
        return {one.own_gpus for one in prove.every_team(["torch:eager"], device, ["native"])}

    assert (teams(1), teams(2), teams(2, "cpu")) == ({False}, {False, True}, {False})


def test_a_worker_that_dies_ends_the_others(interpreters) -> None:
    """Rank 1 dies; rank 0 would wait for ever."""
    says(interpreters, "import time; os.abort() if rank == 1 else time.sleep(1000)")
    seen: list[Certificate] = []
    with pytest.raises(Problem, match="in a team failed"):
        prove.prove(WANTED[:1], interpreters, seen.append)
    assert "worker 1: crashed: SIGABRT" in seen[0].sentence()


def test_verify_refuses_what_has_no_such_collective() -> None:
    result = CliRunner().invoke(app, ["verify", "numpy", "--collective", "nativ"])
    assert "did you mean 'native'" in str(result.exception)
