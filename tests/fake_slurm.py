"""A Slurm that runs nothing: its programs with one state file that tests read and edit."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

STATE = "state.json"
_NAMES = ("sbatch", "squeue", "scontrol", "scancel")


class FakeSlurm:
    """The programs in `folder`, and their state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.write({"next": 1, "jobs": {}, "mode": "", "room": 10**6})
        for name in _NAMES:
            program = folder / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {__file__} {name} {folder} "$@"\n')
            program.chmod(0o755)

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / STATE).read_text())
        return found

    def write(self, state: dict[str, Any]) -> None:
        (self.folder / STATE).write_text(json.dumps(state))

    def change(self, **values: Any) -> None:
        """`mode`: empty works, `down` answers nothing, `mute` takes jobs and does not answer, else an error.
        `room`: elements that may be live at a time.
        """
        self.write({**self.read(), **values})

    def call(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """What the programs do, without the time that a process takes to start."""
        said, complained = io.StringIO(), io.StringIO()
        with redirect_stdout(said), redirect_stderr(complained):
            code = act(self.folder, *command)
        return subprocess.CompletedProcess(list(command), code, said.getvalue(), complained.getvalue())

    @property
    def jobs(self) -> dict[str, dict[str, str]]:
        """By id, as squeue shows it."""
        found: dict[str, dict[str, str]] = self.read()["jobs"]
        return found

    def live(self) -> list[str]:
        return [id_ for id_, job in self.jobs.items() if job["state"] in ("PENDING", "RUNNING")]

    def set(self, id_: str, state: str, reason: str = "None", node: str = "") -> None:
        whole = self.read()
        whole["jobs"][id_] |= {"state": state, "reason": reason, "node": node}
        self.write(whole)

    def forget(self, id_: str) -> None:
        """As Slurm does minutes after the end of a job."""
        whole = self.read()
        del whole["jobs"][id_]
        self.write(whole)


def fail(words: str) -> int:
    print(f"error: {words}", file=sys.stderr)
    return 1


def sbatch(state: dict[str, Any], arguments: list[str]) -> int:
    if state["mode"] not in ("", "mute"):
        return fail("Unable to contact slurm controller" if state["mode"] == "down" else state["mode"])
    options = {
        line.split()[1].partition("=")[0]: line.split()[1].partition("=")[2]
        for line in Path(arguments[-1]).read_text().splitlines()
        if line.startswith("#SBATCH ")
    }
    last = options.get("--array", "").partition("%")[0].partition("-")[2]
    number = str(state["next"])
    ids = [f"{number}_{index}" for index in range(int(last) + 1)] if last else [number]
    live = sum(job["state"] in ("PENDING", "RUNNING") for job in state["jobs"].values())
    if live + len(ids) > state["room"]:
        return fail("Batch job submission failed: Job violates accounting/QOS policy (job submit limit)")
    given_options = [word for word in arguments if word.startswith(("--dependency=", "--begin="))]
    if any(number in word.split(":") for word in given_options):  # it would wait for itself
        return fail("Batch job submission failed: Job dependency problem")
    for id_ in ids:
        job = {"state": "PENDING", "reason": "None", "node": "", "name": options["--job-name"]}
        state["jobs"][id_] = {**job, "after": "".join(given_options)}
    state["next"] += 1
    if state["mode"] == "mute":
        return fail("Batch job submission failed: Socket timed out on send/recv operation")
    print(number)
    return 0


def squeue(state: dict[str, Any], arguments: list[str]) -> int:
    if state["mode"] == "down":
        return fail("Unable to contact slurm controller (connect failure)")
    for id_, job in state["jobs"].items():
        print("|".join((id_, job["state"], job["node"], job["name"], job["reason"])))
    return 0


def scontrol(state: dict[str, Any], arguments: list[str]) -> int:
    """`update` of a job that waits."""
    if state["mode"] == "down":
        return fail("Unable to contact slurm controller (connect failure)")
    told = dict(word.split("=", 1) for word in arguments[1:])
    job = state["jobs"].get(told["JobId"])
    if job is None or job["state"] != "PENDING":
        return fail("Job/step already completing or completed")
    job["after"] = f"--dependency={told['Dependency']}"
    return 0


def scancel(state: dict[str, Any], arguments: list[str]) -> int:
    if state["mode"] == "down":
        return fail("Unable to contact slurm controller (connect failure)")
    for id_, job in state["jobs"].items():
        if {id_, id_.split("_")[0]} & set(arguments) and job["state"] in ("PENDING", "RUNNING"):
            job["state"] = "CANCELLED"
    return 0


def act(folder: Path, called: str, *rest: str) -> int:
    state = json.loads((folder / STATE).read_text())
    code = {"sbatch": sbatch, "squeue": squeue, "scontrol": scontrol, "scancel": scancel}[called](
        state, list(rest)
    )
    (folder / STATE).write_text(json.dumps(state))
    return code


if __name__ == "__main__":
    program, place, *given = sys.argv[1:]
    sys.exit(act(Path(place), program, *given))
