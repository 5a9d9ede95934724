"""A results directory whose code has moved on: what is refused, what is reported, what is proven again."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from rldyno.errors import Problem
from rldyno.proofs.certificate import Certificate, Code, Subject
from rldyno.proofs.prove import subjects
from rldyno.proofs.store import code_hashes
from rldyno.records.directory import ResultsDirectory
from rldyno.session import code_changes
from rldyno.study.file import load_study
from rldyno.study.plan import Plan, make_plan
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.schema import FACTS_FILE, OUTCOME_FILE, SCHEMA_VERSION, TRIAL_FILE
from whole_proofs import whole_rungs

STUDY = """
contestants = ["numpy:eager", "torch:eager"]
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 2
[budget]
steps = 100
"""
NUMPY, TORCH = (Subject.of(name, "dqn", "mlp", "cpu") for name in ("numpy:eager", "torch:eager"))
INTERPRETERS = {
    name: Interpreter(name, Path("python"), "given", "3.11.7", {}, None) for name in ("numpy", "torch")
}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return make_plan(load_study(path))


@pytest.fixture
def results(tmp_path: Path, plan: Plan) -> ResultsDirectory:
    """Every trial done, by the code of now, without a certificate."""
    results = ResultsDirectory(tmp_path / "out")
    results.trials.mkdir(parents=True)
    ids = [trial.id for trial in plan.trials]
    results.manifest.write_text(json.dumps({"schema": SCHEMA_VERSION, "trials": ids}))
    for trial in plan.trials:
        home = results.trial(trial.id)
        home.mkdir()
        (home / TRIAL_FILE).write_text(json.dumps(trial.to_json()))
        outcome = {"status": "done", "reason": "steps", "message": "", "wall_s": 1.0}
        (home / OUTCOME_FILE).write_text(json.dumps(outcome))
        ran = code_hashes(trial.cell.framework)
        (home / FACTS_FILE).write_text(json.dumps({**ran, "versions": {}}))
    return results


def rewrite(results: ResultsDirectory, contestant: str, **facts: str) -> None:
    """As if these trials had been run by other code."""
    for path in results.trials.glob(f"{contestant.replace(':', '-')}.*/{FACTS_FILE}"):
        path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


def certify(results: ResultsDirectory, subject: Subject) -> None:
    certificate = Certificate(
        subject,
        Code.from_json(code_hashes(subject.framework)),
        rungs=whole_rungs(subject.algorithm),
    )
    results.certificates.mkdir(exist_ok=True)
    (results.certificates / f"{subject.framework}.json").write_text(json.dumps(certificate.to_json()))


def reported(results: ResultsDirectory, plan: Plan, *to_run: str) -> str:
    stream = io.StringIO()
    code_changes.report_changes(
        results, code_changes.changed_code(results, plan), set(to_run), Console(file=stream, width=300)
    )
    return stream.getvalue()


def test_unchanged_code_is_not_named(results: ResultsDirectory, plan: Plan) -> None:
    assert code_changes.changed_code(results, plan) == {}
    assert reported(results, plan) == ""


def test_resuming_with_other_code_is_refused_for_those_it_concerns(
    results: ResultsDirectory, plan: Plan
) -> None:
    rewrite(results, "torch:eager", backend_sha256="old", rig_sha256="old")
    changed = code_changes.changed_code(results, plan)
    assert changed == {"torch:eager": ["its backend", "the rig's shared code"]}
    code_changes.check_same_code(results, changed, {"numpy:eager"})
    with pytest.raises(Problem, match="the code has changed") as caught:
        code_changes.check_same_code(results, changed, {"numpy:eager", "torch:eager"})
    assert caught.value.detail == "torch:eager: its backend, the rig's shared code"
    assert "--amend" in str(caught.value.fix)


def test_half_of_the_trials_by_other_code_is_a_change_too(results: ResultsDirectory, plan: Plan) -> None:
    first = next(trial for trial in plan.trials if trial.cell.contestant == "numpy:eager")
    path = results.trial(first.id) / FACTS_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "backend_sha256": "old"}))
    assert code_changes.changed_code(results, plan) == {"numpy:eager": ["its backend"]}


def test_what_ran_unproven_is_proven_while_its_code_is_there(results: ResultsDirectory, plan: Plan) -> None:
    def to_prove(changed: dict[str, list[str]], *to_run: str) -> list[Subject]:
        planned, finished = subjects(plan.cells, {}), code_changes.unproven(results)
        return code_changes.to_prove(planned, finished, changed, to_run, INTERPRETERS)

    assert to_prove({}) == [NUMPY, TORCH]
    certify(results, TORCH)
    assert to_prove({}) == [NUMPY]
    assert to_prove({}, "torch:eager") == [NUMPY, TORCH]
    assert to_prove({"numpy:eager": ["its backend"]}) == []
    assert to_prove({"numpy:eager": [code_changes.PARTS["rig_sha256"]]}) == [NUMPY]


def test_a_finished_directory_says_what_became_of_its_proofs(results: ResultsDirectory, plan: Plan) -> None:
    certify(results, TORCH)
    rewrite(results, "numpy:eager", backend_sha256="old")
    lost = reported(results, plan)
    assert lost.startswith("numpy:eager: its backend has changed since its trials ran")
    assert "can no longer be proven: run it again with --out NEW" in lost
    rewrite(results, "numpy:eager", **code_hashes("numpy"))
    certify(results, NUMPY)
    (results.certificates / "numpy.json").write_text(
        (results.certificates / "numpy.json")
        .read_text()
        .replace(code_hashes("numpy")["backend_sha256"], "old")
    )
    rewrite(results, "numpy:eager", backend_sha256="old")
    assert "its trials are kept" in reported(results, plan)
    assert "run the new code" in reported(results, plan, "numpy:eager")
