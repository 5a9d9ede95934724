"""Writes result directories that look like real ones: known speeds, logistic learning curves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from rldyno_rig import hyper, schema
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.hyper import MLP, network_kind
from rldyno_rig.proof.forms import shape_of
from rldyno_rig.shape import Shape as LearnerShape
from synthetic_outcome import gpu_json, memory_json, outcome_json, threshold_json, write_failure, write_json
from synthetic_series import (
    STOP_EPISODES,
    nanoseconds,
    write_episodes,
    write_progress,
    write_samples,
)
from synthetic_team import Team
from whole_proofs import whole_rungs


@dataclass(frozen=True)
class Contestant:
    """What a contestant is made to look like."""

    name: str
    steps_per_s: float
    startup_s: tuple[float, float, float, float] = (0.05, 0.3, 0.02, 0.05)
    rss_mb: float = 120
    certificate: str = "valid"
    """valid, failed, absent, or stale."""
    outcome: str = "done"
    """done, or a failed reason for every trial; `some:<reason>` fails the first seed only."""
    learns: float = 1.0
    """Share of the seeds that reach the threshold."""
    needs: float = 1.0
    """How many times the usual number of steps it needs to learn."""

    @property
    def framework(self) -> str:
        return self.name.split(":")[0]


NUMPY = Contestant("numpy:eager", 9000, (0.05, 0.04, 0.01, 0.01), rss_mb=48)
TORCH = Contestant("torch:eager", 3100, (0.05, 0.94, 0.05, 0.08), rss_mb=290)
COMPILE = Contestant("torch:compile", 3900, (0.05, 0.95, 0.3, 14.0), rss_mb=370)
QUICKSTART = (NUMPY, TORCH, COMPILE)
ZOO = (
    *QUICKSTART,
    Contestant("jax:jit", 6800, (0.05, 0.4, 0.1, 0.6), rss_mb=280),
    Contestant("tensorflow:graph", 2600, (0.05, 1.75, 0.2, 0.5), rss_mb=510, certificate="stale"),
    Contestant("tensorflow:xla", 2900, (0.05, 1.75, 0.2, 0.9), rss_mb=610, learns=0.4),
    Contestant("chainer:eager", 1500, (0.05, 0.31, 0.02, 0.05), rss_mb=63, certificate="failed"),
    Contestant("mxnet:hybrid", 1300, (0.05, 0.9, 0.1, 0.2), rss_mb=155, outcome="some:crashed"),
    Contestant("theano:graph", 4200, outcome="absent"),
)


@dataclass(frozen=True)
class Shape:
    """The axes of the synthetic study."""

    contestants: Sequence[Contestant] = QUICKSTART
    algorithms: Sequence[str] = ("dqn", "ppo")
    environments: Sequence[str] = ("CartPole-v1",)
    max_episode_steps: int | None = None
    cores: Sequence[int] = (1,)
    devices: Sequence[str] = ("cpu",)
    workers: Sequence[int] = (1,)
    collectives: Sequence[str] = ("host",)
    scalings: Sequence[str] = ("weak",)
    unproven: Sequence[str] = ()
    """Collectives without a certificate."""
    seeds: int = 3
    hyper: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    steps: int = 30_000
    stop_return: float | None = 475.0
    title: str = "Quickstart"
    pending: int = 0
    """How many trials, from the end of the plan, have not run."""
    sample_hz: float = 20
    limits: bool = False
    """Whether the machine's limits were measured."""


def write_results(directory: Path, shape: Shape | None = None, seed: int = 0) -> Path:
    shape = shape or Shape()
    rng = np.random.default_rng(seed)
    (directory / "certificates").mkdir(parents=True)
    (directory / "trials").mkdir()
    names = [contestant.name for contestant in shape.contestants]
    study = (
        f'title = {json.dumps(shape.title)}\nquestion = "Which framework learns fastest?"\n'
        f"contestants = {json.dumps(names)}\nalgorithms = {json.dumps(list(shape.algorithms))}\n"
        f"environments = {json.dumps(list(shape.environments))}\nseeds = {shape.seeds}\n"
        f"[budget]\nsteps = {shape.steps}\n"
    )
    (directory / "study.toml").write_text(study)
    asked = [
        trial_json(contestant, algorithm, environment, place, trial_seed, values, shape)
        for trial_seed, algorithm, environment, place, values, contestant in product(
            range(shape.seeds),
            shape.algorithms,
            shape.environments,
            list(product(shape.devices, shape.cores, teams(shape))),
            settings(shape.hyper),
            shape.contestants,
        )
    ]
    by_name = {contestant.name: contestant for contestant in shape.contestants}
    for index, trial in enumerate(asked):
        home = directory / "trials" / trial["trial"]
        home.mkdir()
        write_json(home / schema.TRIAL_FILE, trial)
        if index < len(asked) - shape.pending:
            write_trial(home, trial, by_name[trial["contestant"]], rng, shape)
    for contestant, algorithm, device in product(shape.contestants, shape.algorithms, shape.devices):
        shapes = {shape_that_ran(trial) for trial in asked if trial["algorithm"] == algorithm}
        for network in {network_of(one) for one in shapes}:
            write_certificate(directory, contestant, algorithm, device, network)
        for proven in shapes:
            write_certificate(directory, contestant, algorithm, device, network_of(proven), proven)
        for collective in set(shape.collectives) - set(shape.unproven) if max(shape.workers) > 1 else ():
            write_certificate(directory, contestant, algorithm, device, MLP, None, collective)
    write_json(
        directory / "manifest.json",
        manifest_json(asked, study) | (limits_json(shape) if shape.limits else {}),
    )
    return directory


def settings(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(values, point, strict=True)) for point in product(*values.values())]


def teams(shape: Shape) -> list[Team]:
    """One worker has no collective; several have each."""
    several = [count for count in shape.workers if count > 1]
    alone = [Team()] if 1 in shape.workers else []
    return alone + [Team(*team) for team in product(several, shape.collectives, shape.scalings)]


def manifest_json(asked: Sequence[Mapping[str, Any]], study: str) -> dict[str, Any]:
    on_gpu = any(trial["device"] != "cpu" for trial in asked)
    return {
        "schema": schema.SCHEMA_VERSION,
        "study_sha256": "5" * 64,
        "study_text": study,
        "machine": {
            "os": "Linux 6.1",
            "cpu": "Example CPU @ 2.5 GHz",
            "cores_usable": 2,
            "memory_total_bytes": 8 << 30,
            "gpus": [{"name": "Example GPU", "memory_total_bytes": 2_800_000_000}] if on_gpu else [],
        },
        "versions": {"rldyno": "0.1.0", "python": "3.11.7"},
        "git_revision": "0123abcd",
        "trials": [trial["trial"] for trial in asked],
    }


def limits_json(shape: Shape) -> dict[str, Any]:
    """A machine of 10 GFLOP/s and 5 GB/s per core."""
    devices = [
        {
            "device": device,
            "cores": cores,
            "flops_per_s": {"float32": 1e10 * cores},
            "copy_bytes_per_s": 5e9 * cores,
            "transfer_bytes_per_s": None if device == "cpu" else 1e9,
        }
        for device, cores in product(shape.devices, shape.cores)
    ]
    return {"limits": {"devices": devices, "environments": []}}


def trial_json(
    contestant: Contestant,
    algorithm: str,
    environment: str,
    place: tuple[str, int, Team],
    seed: int,
    values: dict[str, Any],
    shape: Shape,
) -> dict[str, Any]:
    device, cores, team = place
    numbers = hyper.to_json(ALGORITHMS[algorithm].defaults(environment)) | values
    slug = f"{contestant.name.replace(':', '-')}.{algorithm}.{environment.replace('/', '_')}.c{cores}"
    slug += ("" if device == "cpu" else f".{device}") + team.slug
    slug += "".join(f".{name}{value}" for name, value in values.items())
    return {
        "schema": schema.SCHEMA_VERSION,
        "trial": f"{slug}.s{seed}",
        "contestant": contestant.name,
        "framework": contestant.framework,
        "mode": contestant.name.split(":")[1],
        "algorithm": algorithm,
        "environment": environment,
        "max_episode_steps": shape.max_episode_steps,
        "device": device,
        "cores": cores,
        **team.trial_json(),
        "dtype": "float32",
        "division": "closed",
        "caches": "cold",
        "seed": seed,
        "block": seed,
        "hyper": numbers,
        "budget": {
            "steps": shape.steps,
            "episodes": None,
            "wall_s": None,
            "stop_return": shape.stop_return,
            "stop_episodes": STOP_EPISODES if shape.stop_return is not None else None,
        },
        "interpreter": "/opt/python",
        "isolated": True,
        "variables": {},
        "hang_timeout_s": 60,
        "sample_hz": shape.sample_hz,
    }


def shape_that_ran(trial: Mapping[str, Any]) -> LearnerShape:
    algorithm = ALGORITHMS[trial["algorithm"]]
    known = {entry.name for entry in fields(algorithm.hyper)}
    values = {name: value for name, value in trial["hyper"].items() if name in known}
    seen = ((4, 84, 84), "uint8") if values.get("convolutions") else ((4,), "float32")
    return shape_of(algorithm.spec(algorithm.hyper_from_json(values), *seen, 2))


def network_of(shape: LearnerShape) -> str:
    return network_kind(shape.to_json()["hyper"].get("convolutions") or ())


def facts_json(contestant: Contestant) -> dict[str, Any]:
    return {
        "python": "3.11.7",
        "numpy": "2.3.1",
        "versions": {contestant.framework: "1.2.3", "numpy": "2.3.1"},
        "backend": {"device": "cpu", "threads": 1},
        "backend_sha256": "b" * 64,
        "reference_sha256": "c" * 64,
        "rig_sha256": "d" * 64,
        "observation_shape": [4],
        "actions": 2,
        "parameters": 17410,
    }


def write_certificate(
    directory: Path,
    contestant: Contestant,
    algorithm: str,
    device: str,
    network: str,
    shape: LearnerShape | None = None,
    collective: str | None = None,
) -> None:
    if contestant.certificate == "absent":
        return
    failed = contestant.certificate == "failed"
    facts = facts_json(contestant)
    wrong = ("gradients", "float64") if failed and shape is None else None
    rungs = [
        replace(rung, error=3e-2) if (rung.name, rung.dtype) == wrong else rung
        for rung in whole_rungs(algorithm, network, device, shape, collective=collective)
    ]
    certificate = {
        "contestant": contestant.name,
        "algorithm": algorithm,
        "network": network,
        "device": device,
        **({} if shape is None else {"shape": shape.to_json()}),
        **({} if collective is None else {"collective": collective}),
        **({"own_gpus": True} if collective is not None and device != "cpu" else {}),
        "mode": contestant.name.split(":")[1],
        "passed": not failed,
        "backend_sha256": "0" * 64 if contestant.certificate == "stale" else facts["backend_sha256"],
        "reference_sha256": facts["reference_sha256"],
        "versions": facts["versions"],
        "rungs": [rung.to_json() for rung in rungs],
        "made_at": "2026-01-02T03:04:05+00:00",
    }
    key = f"-{collective}" if collective else "" if shape is None else f"-{shape.key}"
    name = f"{contestant.name.replace(':', '-')}-{algorithm}-{network}-{device}{key}.json"
    write_json(directory / "certificates" / name, certificate)


def write_trial(
    home: Path, trial: dict[str, Any], contestant: Contestant, rng: np.random.Generator, shape: Shape
) -> None:
    reason = contestant.outcome
    if reason.startswith("some:"):
        reason = reason.removeprefix("some:") if trial["seed"] == 0 else "done"
    if reason != "done":
        write_failure(home, trial, reason)
        return
    ran = shape_that_ran(trial).to_json()
    write_json(home / schema.FACTS_FILE, {**facts_json(contestant), "shape": ran})
    team = Team.of(trial)
    speed = contestant.steps_per_s * team.speedup * trial["cores"] ** 0.3 * rng.lognormal(0, 0.04)
    *early, calls = (part * rng.lognormal(0, 0.05) for part in contestant.startup_s)
    startup = [*early, 0.75 * calls, 0.25 * calls]
    start_s = sum(startup)
    learns = trial["seed"] < contestant.learns * shape.seeds
    episodes = write_episodes(home, speed, start_s, learns, contestant.needs, rng, shape)
    steps, count, end_s, reached, last_return = episodes
    train_s = end_s - start_s
    phases = np.array([0.12, 0.22, 0.08, 0.05, 0.43, 0.06, 0.04]) * rng.lognormal(0, 0.05, 7)
    phases = phases / phases.sum() * train_s
    communicating = team.split(phases)
    write_progress(home, speed, start_s, end_s, phases, communicating)
    write_samples(home, trial, contestant, start_s, end_s, rng)
    reason = "return" if reached else "steps"
    result = {
        "reason": reason,
        "message": f"ended by its {reason} budget",
        "steps": steps,
        "episodes": count,
        "updates": steps // 4,
        "startup_ns": {name: nanoseconds(value) for name, value in zip(schema.STARTUP, startup, strict=True)},
        "train_start_ns": nanoseconds(start_s),
        "train_ns": nanoseconds(train_s),
        "phases_ns": {name: nanoseconds(value) for name, value in zip(schema.PHASES, phases, strict=True)}
        | team.phase_json(communicating),
        "threshold": threshold_json(reached, steps, count, end_s) if shape.stop_return is not None else None,
        "final_return": last_return,
        "team": team.result_json(communicating, steps // 4),
    }
    write_json(home / schema.RESULT_FILE, result)
    write_json(
        home / schema.OUTCOME_FILE,
        outcome_json(trial, "done", reason, result["message"])
        | {
            "exit_code": 0,
            "wall_s": end_s + 0.05,
            "cpu_s": end_s * 0.98,
            "peak_rss_bytes": int(contestant.rss_mb * 1e6 * rng.lognormal(0, 0.02)),
            "baseline_rss_bytes": int(contestant.rss_mb * 0.7e6),
            "memory": memory_json(contestant.rss_mb),
            "result": result,
        }
        | (gpu_json(train_s) if trial["device"] != "cpu" else {}),
    )
