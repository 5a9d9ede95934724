"""What commands leave beside the trials of a results directory, to be damaged as the other records are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rldyno.bisection import record as bisection
from rldyno.bisection.question import Question
from rldyno.bisection.search import Evidence, Round
from rldyno.division.record import OPEN_RECORD, OpenRecord, OpenRow, write_open
from rldyno.records.directory import CURVES, NETS_FILE, ResultsDirectory
from rldyno.records.machine_facts import MachineFacts
from rldyno.records.slurm_jobs import SLURM_FOLDER, SlurmFolder, SlurmJobs
from rldyno.usability import store
from rldyno.usability.record import UsabilityFile, UsabilityRecord
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.hyper import NETWORKS, to_json
from rldyno_rig.open.job_file import OpenFound

MORE_LOOPS = "open-more"
SINGLE = (NETS_FILE, OPEN_RECORD, store.FILE, bisection.BISECT_FILE)
RELEASES = ("2.2.0", "2.3.0", "2.4.0")
TIMES = {"file_bytes": 9000, "save_s": 0.01, "load_s": 0.02, "exact": True, "difference": 1e-7}
SERVED = {"import_s": 0.2, "median_s": 1e-4, "p99_s": 3e-4, "file_bytes": 9000}
PATH = {"title": "ONNX", "works": True, "reason": None, "packages": ["onnx==1"], "lines": 4, "runtime": "ORT"}
PARTS: dict[str, Any] = {
    "install": {"version": "2.4", "install_s": 3.1, "size_bytes": 6e7, "dependencies": ["x"]},
    "start": {"import_s": 0.1, "first_update": {"eager": {"median_s": 0.2, "reason": None}}},
    "code": {
        "lines": 90,
        "complexity": 30,
        "most_complex": {"complexity": 9},
        "transfer_statements": 1,
        "losses": {"dqn": {"lines": 9, "complexity": 2}},
    },
    "mistakes": {
        kind: {
            "verdict": "raised",
            "type": "ValueError",
            "names": 2,
            "traceback_lines": 3,
            "message": "bad",
            "result": None,
        }
        for kind in ("shape", "dtype", "device")
    },
    "data": {"loaders": {"own": {"title": "arrays", "own": True, "lines": 3, "items_per_s": 1e5}}},
    "visualisation": {
        "mode": "eager",
        "title": "tensorboardX",
        "own": False,
        "lines": 2,
        "update_s": 1e-3,
        "scalar_cpu_s": 1e-5,
        "logged_ratio": 1.1,
        "watched_ratio": 1.2,
        "load_before": 0.1,
        "rounds": [{"plain": 1e-3, "logged": 1.1e-3, "watched": 1.2e-3}],
    },
    "parallel": {
        "mode": "eager",
        "lines": {"join": 1, "team": 2},
        "alone_s": 1.0,
        "collectives": {"host": {"means": "sockets", "first_reduction_s": 2.0, "reason": None}},
    },
    "save": {"by": "numpy", "networks": dict.fromkeys(NETWORKS, TIMES)},
    "export": {
        "paths": {"onnx": {**PATH, "networks": dict.fromkeys(NETWORKS, TIMES)}},
        "missing": {"X": "no"},
    },
    "deployment": {"paths": {"onnx": {**PATH, "networks": dict.fromkeys(NETWORKS, SERVED)}}},
    "release": {
        "wheels_for": ["3.11", "3.12"],
        "released": "2026-01-01",
        "latest": "2.5",
        "latest_released": "2026-02-01",
        "requires_python": ">=3.11",
    },
    "community": {
        "status": "stable",
        "languages": ["C"],
        "licence": "BSD",
        "releases": 9,
        "recent": 3,
        "first": "2006",
        "last": "2026",
        "read_on": "2026-01-01",
    },
    "compatibility": {
        "mode": "eager",
        "update_s": 1e-3,
        "releases": [
            {"version": "2.3", "released": None, "state": "runs", "reason": None, "update_s": 2e-3},
            {"version": "2.2", "released": None, "state": "does not run", "reason": "old", "update_s": None},
        ],
    },
}
CURVE = "name,source,algorithm,environment,step,return,spread\n" + "".join(
    f"theirs,a paper,dqn,CartPole-v1,{step},{step / 10},1.5\n" for step in range(0, 300, 30)
)


def is_beside(path: Path, root: Path) -> bool:
    """Whether no trial, no proof and no figure depends on the file."""
    parts = path.relative_to(root).parts
    return parts[0] in (*SINGLE, CURVES, SLURM_FOLDER, MORE_LOOPS)


def add_beside(root: Path) -> None:
    """To the results of numpy:eager with DQN on CartPole-v1."""
    manifest = ResultsDirectory(root).read_manifest()
    write_single(root, manifest.machine.host_sha256)
    (root / bisection.BISECT_FILE).unlink()
    (root / MORE_LOOPS).mkdir()
    write_open(root / MORE_LOOPS / OPEN_RECORD, loops(manifest.machine.host_sha256, 2048))
    (root / CURVES).mkdir()
    (root / CURVES / "theirs.csv").write_text(CURVE)
    folder = SlurmFolder(root)
    folder.make()
    jobs, submission = SlurmJobs("1a2b3c4d").with_new(manifest.trials)
    folder.write(jobs.with_job(submission.name, "17").with_lost({"17_0": "NODE_FAIL"}).with_new(())[0])


def write_single(root: Path, host: str | None) -> None:
    """Files that also stand in directories without trials."""
    write_open(root / OPEN_RECORD, loops(host, 4))
    framework = UsabilityRecord("numpy", "NumPy", "3.11.7", {"numpy": "2.4"}, "2026-01-01", PARTS)
    store.write_beside(
        root / store.FILE, UsabilityFile("2026-01-01", MachineFacts(host), {"numpy": framework})
    )
    rounds = tuple(Round("2.2.0", "2.4.0", 1.0 + 0.01 * number, 1.5) for number in range(4))
    question = Question("numpy", "eager", most_rounds=6)
    bisection.write(root / bisection.BISECT_FILE, Evidence(question, RELEASES, rounds, {}))


def loops(host: str | None, environments: int) -> OpenRecord:
    values = json.loads(json.dumps(to_json(ALGORITHMS["dqn"].defaults("CartPole-v1"))))
    found = OpenFound(1.5, (1e6, 9e5), 1000, (20.0, None), {"numpy": "2"}, "cpu", {"acting": 1.5})
    rows = (
        OpenRow("numpy", environments, found, None, "numpy:eager", 1e4, 1e8),
        OpenRow("jax", environments, None, "it is not built"),
    )
    return OpenRecord("now", host, "dqn", "CartPole-v1", "cpu", "float32", 1, values, rows)
