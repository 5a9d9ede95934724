"""The limits of this machine: measured once, kept, and marked when the machine was busy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from closed_runs import trial
from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.limits import host, measure, study
from rldyno.limits.disturbance import Watch, warnings
from rldyno.limits.trials import MachineLimits
from rldyno.processes.rig import Ended, Runtime
from rldyno.records.machine_limits import DeviceLimits, EnvironmentRate, StudyLimits
from rldyno.records.manifest import Manifest
from rldyno.session import session
from rldyno_rig.algorithms.dqn import Dqn
from rldyno_rig.job_files import LIMITS_FILE, EnvironmentCase, LimitsJob
from rldyno_rig.limits import job as rig_limits
from rldyno_rig.trial_file import TrialFile

DEVICE = DeviceLimits("cpu", 1, {"float32": 1e9}, 1e9, None)
RATE = EnvironmentRate(EnvironmentCase("CartPole-v1"), 1e5)


def test_limits_are_measured_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    rates = {"flops_per_s": {"float32": 5e9}, "copy_bytes_per_s": 1e9}
    host_rates = measure._host_rates
    calls: list[list[str]] = []

    def printed(command: list[str], directory: Path, runtime: Runtime, **options: object) -> Ended:
        calls.append(command)
        assert runtime.variables["OMP_NUM_THREADS"] == command[-1]
        return Ended(0, 1.0, json.dumps(rates), "")

    busy_machine(monkeypatch, 0.0, 0.0, 0.0)
    monkeypatch.setattr(measure, "_host_rates", host_rates)
    monkeypatch.setattr(measure, "run", printed)
    first = measure.limits_of("cpu", 1)
    assert first == measure.limits_of("cpu", 1)
    assert len(calls) == 1
    assert first.flops_per_s == {"float32": 5e9}
    assert first.transfer_bytes_per_s is None
    assert "transfer_bytes_per_s" in first.reasons
    rates["flops_per_s"]["float32"], rates["copy_bytes_per_s"] = 4e9, 2e9
    again = measure.limits_of("cpu", 1, again=True)
    assert (again.flops_per_s["float32"], again.copy_bytes_per_s) == (5e9, 2e9)
    rates["flops_per_s"]["float32"] = 1e9
    both = measure.limits_of("cpu", 2)
    assert len(calls) == 3
    assert both.flops_per_s["float32"] == 5e9, "two cores can do what one can"


def busy_machine(monkeypatch: pytest.MonkeyPatch, *taken: float) -> None:
    """Others take these percentages of the CPUs, one measurement after the other."""
    percentages = iter(taken)

    class FakeWatch(Watch):
        def __exit__(self, *exception: object) -> None:
            self.taken_percent = next(percentages)

    monkeypatch.setattr(measure, "Watch", FakeWatch)
    monkeypatch.setattr(
        measure, "_host_rates", lambda cores: {"flops_per_s": {"float32": 5e9}, "copy_bytes_per_s": 1e9}
    )


def test_a_limit_of_a_busy_machine_says_so_until_it_was_measured_quietly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    busy_machine(monkeypatch, 40.0, 60.0, 3.0, 60.0)
    (line,) = warnings([measure.limits_of("cpu", 1)])
    assert "others used 40 %" in line
    assert warnings([measure.limits_of("cpu", 1)]) == [line], "measured again, but no quieter"
    assert warnings([measure.limits_of("cpu", 1)]) == []
    assert warnings([measure.limits_of("cpu", 1, again=True)]) == [], "the quiet one decides"


def test_a_quiet_core_does_not_excuse_two_busy_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    busy_machine(monkeypatch, 1.0, 50.0)
    assert warnings([measure.limits_of("cpu", 1)]) == []
    (line,) = warnings([measure.limits_of("cpu", 2)])
    assert "cpu with 2 cores" in line


@pytest.mark.slow
def test_a_neighbour_is_seen_while_limits_are_measured():
    """A process of somebody else's on the same CPU takes half of it; our own children take nothing."""
    cpu = min(os.sched_getaffinity(0))
    burn = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
print(flush=True)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    pass
"""
    command = [sys.executable, "-c", burn, str(cpu)]
    neighbour = subprocess.Popen([*command, "600"], stdout=subprocess.PIPE)
    assert neighbour.stdout is not None
    try:
        neighbour.stdout.readline()
        with Watch([cpu]) as watch:
            subprocess.run([*command, "1.2"], check=True)
    finally:
        neighbour.kill()
        neighbour.communicate()
    assert watch.taken_percent is not None
    assert watch.taken_percent > 30.0


@pytest.mark.parametrize(("to_run", "taken", "times"), [(True, 0.0, 1), (False, 0.0, 0), (False, 40.0, 1)])
def test_a_finished_study_takes_over_limits_that_were_measured_again(
    to_run: bool, taken: float, times: int, monkeypatch: pytest.MonkeyPatch
):
    better = StudyLimits((replace(DEVICE, copy_bytes_per_s=2e9),))
    measured: list[object] = []
    monkeypatch.setattr(study, "study_limits", lambda *given: measured.append(given) or better)
    monkeypatch.setattr(session, "idle_cpu_percent", lambda: 1.0)
    earlier = StudyLimits((replace(DEVICE, taken_percent=taken),))
    written: list[Manifest] = []
    run = SimpleNamespace(
        options=session.Options(),
        contestants_to_run={"numpy:eager"} if to_run else set(),
        manifest=Manifest(limits=earlier),
        plan=None,
        print_line=print,
        directory=SimpleNamespace(write_manifest=written.append),
    )
    session.Session.measure_machine(run)  # type: ignore[arg-type]
    assert len(measured) == times
    assert written[-1].limits == (better if times else earlier)
    idle = written[-1].idle_cpu_percent
    assert idle == (1.0 if to_run else None), "of the machine before its trials, not after"


def test_limits_of_older_records_are_not_called_busy():
    assert warnings([DeviceLimits.from_json({"device": "cpu", "cores": 1})], [RATE]) == []
    assert not StudyLimits.from_json(None).is_busy
    assert StudyLimits((), (replace(RATE, taken_percent=50.0),)).is_busy


def test_limits_survive_json():
    busy = replace(
        DEVICE, taken_percent=1.5, reasons={"transfer_bytes_per_s": "a CPU"}, by="numpy 2", load=0.5
    )
    failed = EnvironmentRate(EnvironmentCase("Acrobot-v1", 4, 100), None, reason="not built")
    whole = StudyLimits((DEVICE, busy), (RATE, failed))
    assert StudyLimits.from_json(json.loads(json.dumps(whole.to_json()))) == whole
    assert StudyLimits.from_json(None) == StudyLimits()


def test_a_gpu_without_a_toolchain_gives_reasons_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))

    def resolve(framework: str, overrides: object, needs: object = ()) -> None:
        raise Problem(f"the {framework} toolchain is not built")

    monkeypatch.setattr(measure, "resolve", resolve)
    found = measure.limits_of("cuda", 1)
    assert found.copy_bytes_per_s is None
    assert found.reasons["copy_bytes_per_s"] == (
        "the torch toolchain is not built; the jax toolchain is not built"
    )
    assert not list(tmp_path.rglob("*.json"))


def test_the_host_is_measured(monkeypatch: pytest.MonkeyPatch):
    """Tiny sizes: the figures are real and of a sane order, between a calculator and a cluster."""
    monkeypatch.setattr(host, "MATRICES", (64,))
    monkeypatch.setattr(host, "COPIES", (2**16,))
    monkeypatch.setattr(host, "SECONDS", 0.01)
    assert 1e7 < host.peak_flops("float32") < 1e14
    assert 1e7 < host.copy_bandwidth(2) < 1e13


def test_environments_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rig_limits, "SECONDS", 0.03)
    job = LimitsJob("numpy_", (EnvironmentCase("CartPole-v1", 2),))
    (tmp_path / LIMITS_FILE).write_text(json.dumps(job.to_json()))
    assert rig_limits.find(tmp_path) == 0
    (found,) = json.loads((tmp_path / rig_limits.FOUND_FILE).read_text())
    assert found["environments"] == 2
    assert found["steps_per_s"] > 1000


def test_games_are_stepped_alone_on_the_cores_of_their_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The emulator uses the cores of a trial: with fewer, an agent could be faster than its limit."""
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    busy_machine(monkeypatch, 0.0, 0.0)
    asked: list[tuple[int, tuple[str, ...]]] = []

    def run_job(job: LimitsJob, interpreter: object, cores: int) -> list[dict]:
        asked.append((cores, tuple(case.environment for case in job.environments)))
        return [{**case.to_json(), "steps_per_s": 100.0 * cores} for case in job.environments]

    monkeypatch.setattr(measure, "resolve", lambda framework, overrides, needs: None)
    monkeypatch.setattr(measure, "run_job", run_job)
    monkeypatch.setattr(measure, "_cpus", lambda cores: None)
    wanted = [EnvironmentCase.of(name, 8, None, 4) for name in ("CartPole-v1", "ALE/Pong-v5")]
    rates = measure.environment_rates(wanted)
    assert asked == [(1, ("CartPole-v1",)), (4, ("ALE/Pong-v5",))]
    assert [rate.steps_per_s for rate in rates] == [100.0, 400.0]
    known, values = MachineLimits(StudyLimits((), tuple(rates))), trial("numpy", "eager", "ppo", "float32", 9)
    values |= {"environment": "ALE/Pong-v5", "hyper": values["hyper"] | {"environments": 8}}
    files = [TrialFile.from_json(values | {"cores": cores}) for cores in (4, 2)]
    found = [known.figures(file, None, {})["environment_alone_steps_per_s"] for file in files]
    assert found == [400.0, None], "never those of other cores"


def test_cores_that_are_not_there_cost_other_environments_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    busy_machine(monkeypatch, 0.0, 0.0)

    def cpus(cores: int) -> None:
        if cores > 2:
            raise Problem(f"no {cores} cores")

    monkeypatch.setattr(measure, "resolve", lambda framework, overrides, needs: None)
    monkeypatch.setattr(measure, "_cpus", cpus)
    monkeypatch.setattr(
        measure,
        "run_job",
        lambda job, *_: [case.to_json() | {"steps_per_s": 9.0} for case in job.environments],
    )
    wanted = [EnvironmentCase.of("ALE/Pong-v5", 8, None, cores) for cores in (4, 1)]
    found = measure.environment_rates(wanted)
    assert [(rate.steps_per_s, rate.reason) for rate in found] == [(None, "no 4 cores"), (9.0, None)]


def test_the_limits_job_steps_games_with_their_threads(monkeypatch: pytest.MonkeyPatch):
    class Made(Exception):
        pass

    def make(*given: object, threads: int) -> None:
        raise Made(threads)

    monkeypatch.setattr(rig_limits.envs, "make", make)
    with pytest.raises(Made, match="4"):
        rig_limits.steps_per_s(EnvironmentCase.of("ALE/Pong-v5", 8, None, 4))


def test_environment_rates_are_kept_and_only_rise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    rates = iter([100.0, 80.0, 120.0])
    monkeypatch.setattr(measure, "resolve", lambda framework, overrides, needs: None)
    monkeypatch.setattr(
        measure,
        "run_job",
        lambda job, interpreter, cores: [
            {**case.to_json(), "steps_per_s": next(rates)} for case in job.environments
        ],
    )
    busy_machine(monkeypatch, 0.0, 0.0, 0.0)
    seen = [
        measure.environment_rates([RATE.case], again=again)[0].steps_per_s
        for again in (False, False, True, True)
    ]
    assert seen == [100.0, 100.0, 100.0, 120.0]


def test_an_environments_rate_of_a_busy_machine_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    rates = iter([50.0, 100.0])
    monkeypatch.setattr(measure, "resolve", lambda framework, overrides, needs: None)
    monkeypatch.setattr(measure, "run_job", lambda *a: [{**wanted.to_json(), "steps_per_s": next(rates)}])
    busy_machine(monkeypatch, 50.0, 2.0)
    wanted = EnvironmentCase("CartPole-v1", 8)
    (line,) = warnings([], measure.environment_rates([wanted]))
    assert line.startswith("8 × CartPole-v1 without an agent: measured while others used 50 %")
    for _ in range(2):
        (found,) = measure.environment_rates([wanted])
        assert (found.steps_per_s, warnings([], [found])) == (100.0, [])


def test_an_environment_that_cannot_be_stepped_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def resolve(framework: str, overrides: object, needs: object = ()) -> None:
        raise Problem("the numpy toolchain is not built")

    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    busy_machine(monkeypatch, 0.0)
    monkeypatch.setattr(measure, "resolve", resolve)
    done = CliRunner().invoke(app, ["limits", "--cores", "1", "--environment", "CartPole-v1"])
    assert "CartPole-v1: not measured: the numpy toolchain is not built" in done.output


def test_a_study_asks_for_each_device_and_environment_once(monkeypatch: pytest.MonkeyPatch):
    def limits_of(device: str, cores: int, overrides: object) -> DeviceLimits:
        if cores == 2:
            raise Problem("too busy")
        return replace(DEVICE, device=device, cores=cores)

    monkeypatch.setattr(study, "limits_of", limits_of)
    monkeypatch.setattr(
        study, "environment_rates", lambda wanted, overrides: [EnvironmentRate(case, 1.0) for case in wanted]
    )
    cells = [
        SimpleNamespace(
            device="cpu", cores=cores, environment="CartPole-v1", max_episode_steps=None, hyper=Dqn()
        )
        for cores in (1, 1, 2)
    ]
    lines: list[str] = []
    found = study.study_limits(SimpleNamespace(cells=cells), None, lines.append)  # type: ignore[arg-type]
    assert found == StudyLimits((DEVICE,), (EnvironmentRate(EnvironmentCase("CartPole-v1"), 1.0),))
    assert lines == ["no limits of cpu with 2 cores: too busy"]
