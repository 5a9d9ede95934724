"""Variables of a toolchain that depend on the network: whoever starts a process for one, sets its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rldyno.errors import Problem
from rldyno.nets import workers
from rldyno.nets.work import Benchmark, net_named
from rldyno.processes.rig import Runtime
from rldyno.proofs import prove, store
from rldyno.proofs.certificate import Subject
from rldyno.session.preparation import trial_file
from rldyno.study.file import load_study
from rldyno.study.plan import make_plan
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter
from whole_proofs import whole_proof

TINY = """
framework = "tiny"
backend = "numpy_"
import_name = "numpy"
summary = "for tests"
python = ">=3.9"

[modes]
eager = ["cpu"]

[variables]
FUSE = "no"
KEPT = "yes"

[network_variables.mlp]
FUSE = "dense"

[network_variables.cnn]
FUSE = "images"

[cpu]
steps = [["tiny==1.0"]]
"""
STUDY = """
contestants = "tiny:eager"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 1
budget = {{ steps = 9 }}
hyper = {{ convolutions = {} }}
"""


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The toolchain file of `tiny`, in a directory of the user's."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "config.toml").write_text(f'toolchain_dirs = ["{tmp_path}/mine"]\n')
    monkeypatch.setenv("RLDYNO_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "mine" / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture
def interpreter(tmp_path: Path) -> Interpreter:
    return Interpreter("tiny", tmp_path / "python", "given", "3.11.7", {"tiny": "1.0"}, None)


def test_those_of_the_network_replace_those_of_all() -> None:
    chain = toolchain("tiny")
    fused = {network: chain.worker_variables(1, network)["FUSE"] for network in (None, "mlp", "cnn")}
    assert fused == {None: "no", "mlp": "dense", "cnn": "images"}
    assert chain.worker_variables(1, "cnn")["KEPT"] == "yes"


def test_a_kind_of_network_that_does_not_exist_is_a_mistake(file: Path) -> None:
    file.write_text(TINY.replace("network_variables.cnn", "network_variables.rnn"))
    with pytest.raises(Problem, match="rnn"):
        toolchain("tiny")


@pytest.mark.parametrize(("convolutions", "expected"), [("[]", "dense"), ('"small"', "images")])
def test_a_trial_gets_those_of_its_network(
    convolutions: str, expected: str, tmp_path: Path, interpreter: Interpreter
) -> None:
    (tmp_path / "x.toml").write_text(STUDY.format(convolutions))
    (trial, *_) = make_plan(load_study(tmp_path / "x.toml")).trials
    assert trial_file(trial, interpreter).variables["FUSE"] == expected


@pytest.mark.parametrize(("name", "expected"), [("mlp8", "dense"), ("small", "images")])
def test_a_network_timed_alone_gets_its_own(
    name: str,
    expected: str,
    interpreter: Interpreter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Runtime] = []
    monkeypatch.setattr(workers, "Timer", lambda job, runtime, cpus: started.append(runtime))
    net = net_named(name)
    workers.start(Benchmark(("tiny:eager",), (net,)), "tiny:eager", net, interpreter, None)
    assert started[0].variables["FUSE"] == expected


def test_a_proof_runs_with_those_of_its_network(interpreter: Interpreter, tmp_path: Path) -> None:
    """And what a process of the one network printed does not replace what the other's did."""
    proof = {**whole_proof(), "passed": False, "error": "ValueError: no"}
    body = f"""#!{sys.executable}
import json, os, sys
wanted = json.load(open(sys.argv[-1] + "/job.json"))["subjects"]
print(os.environ["FUSE"], sorted({{subject['network'] for subject in wanted}}))
report = {{"versions": {{}}, "proofs": [{proof!r}] * len(wanted)}}
open(sys.argv[-1] + "/partial", "w").write(json.dumps(report))
os.replace(sys.argv[-1] + "/partial", sys.argv[-1] + "/proofs.json")
"""
    interpreter.path.write_text(body)
    interpreter.path.chmod(0o755)
    wanted = [Subject.of("tiny:eager", "dqn", network, "cpu") for network in ("mlp", "cnn")]
    prove.prove(wanted, {"tiny": interpreter}, lambda _: None)
    logs = {path.name: path.read_text() for path in (tmp_path / "cache" / "proofs").glob("*.log")}
    assert logs == {
        "tiny-eager-mlp-cpu.log": "dense ['mlp']\n",
        "tiny-eager-cnn-cpu.log": "images ['cnn']\n",
    }


def test_a_certificate_holds_for_the_variables_it_was_made_with(interpreter: Interpreter, file: Path) -> None:
    mlp, cnn = (Subject.of("tiny:eager", "dqn", network, "cpu") for network in ("mlp", "cnn"))
    before = [store.path_of(subject, interpreter) for subject in (mlp, cnn)]
    file.write_text(TINY.replace('"images"', '"other"'))
    after = [store.path_of(subject, interpreter) for subject in (mlp, cnn)]
    assert before[0] == after[0]
    assert before[1] != after[1]
