"""A results directory: where its files are, and whether this process may work in it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rldyno.errors import Problem
from rldyno.records.attempts import ATTEMPTS
from rldyno.records.files import is_temporary, refuse_link
from rldyno.records.locks import LockedError, locked
from rldyno.records.manifest import Manifest
from rldyno.records.seal import read_record, write_record
from rldyno.records.slurm_jobs import SlurmFolder
from rldyno.records.typed import damaged, typed
from rldyno_rig import schema
from rldyno_rig.team.names import SUBDIRECTORY

STUDY_FILE = "study.toml"
MANIFEST_FILE = "manifest.json"
NETS_FILE = "nets.json"
"""Networks timed alone: beside trials, or in a directory without any."""
RUN_LOCK = "run.lock"
CERTIFICATES = "certificates"
TRIALS = "trials"
CURVES = "curves"

MIN_FREE_BYTES = 100_000_000
_ELSEWHERE = "choose another directory with --out"
_OURS = {STUDY_FILE, MANIFEST_FILE, RUN_LOCK, CERTIFICATES, TRIALS}


@dataclass(frozen=True)
class ResultsDirectory:
    """Paths of a results directory, and its manifest."""

    root: Path

    @property
    def study(self) -> Path:
        return self.root / STUDY_FILE

    @property
    def manifest(self) -> Path:
        return self.root / MANIFEST_FILE

    @property
    def lock(self) -> Path:
        return self.root / RUN_LOCK

    @property
    def certificates(self) -> Path:
        return self.root / CERTIFICATES

    @property
    def trials(self) -> Path:
        return self.root / TRIALS

    @property
    def curves(self) -> Path:
        """Learning curves of others, which `rldyno report --curve` copies here."""
        return self.root / CURVES

    def trial(self, trial_id: str) -> Path:
        """A Problem when the id is more than one component of a path: it could lead elsewhere."""
        # U+FFFD: what a control character is read as.
        if trial_id in ("", ".", "..") or any(sign in trial_id for sign in ("/", "\0", os.sep, "\ufffd")):
            raise Problem(f"{self.root}: {trial_id[:100]!a} is no id of a trial", code=1)
        return self.trials / trial_id

    def has_outcomes(self) -> bool:
        """Whether any trial has ended."""
        return any(self.trials.glob(f"*/{schema.OUTCOME_FILE}"))

    def read_manifest(self) -> Manifest:
        """The manifest, or a Problem when this is not a results directory."""
        if not self.manifest.is_file():
            if (self.root / NETS_FILE).is_file():
                raise Problem(
                    f"{self.root} holds networks timed alone and no trials",
                    fix=f"see them with rldyno nets show {shlex.quote(str(self.root))}",
                )
            raise Problem(
                f"{self.root} is not a results directory: it has no {MANIFEST_FILE}",
                fix="give the directory that `rldyno run` wrote, for example results/quickstart. For one "
                "whose manifest was lost: rldyno check DIR --repair",
            )
        self.check_links()
        try:
            manifest = typed(self.manifest, read_record(self.manifest), Manifest.from_json)
        except Problem as problem:
            fix = f"rebuild it from the trials: rldyno check {shlex.quote(str(self.root))} --repair"
            raise Problem(problem.message, fix=fix if problem.code == 1 else problem.fix, code=1) from problem
        repeated = len(manifest.trials) - len(set(manifest.trials))
        if repeated:
            raise damaged(self.manifest, f"{repeated} of its trials are named twice")
        for trial_id in manifest.trials:
            self.trial(trial_id)
        return manifest

    def check_links(self) -> None:
        """Somebody else's directory may lead elsewhere: no directory below it may be a link."""
        slurm = SlurmFolder(self.root)
        for path in (self.trials, self.certificates, self.curves, slurm.home, slurm.logs):
            refuse_link(path)
        for path in (*slurm.home.glob("*"), *slurm.logs.glob("*")):
            refuse_link(path)  # jobs write there
        for trial in self.trials.glob("*"):
            for path in (trial, trial / ATTEMPTS, trial / SUBDIRECTORY):
                refuse_link(path)
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                for attempt in os.scandir(trial / ATTEMPTS):
                    refuse_link(Path(attempt))

    def write_manifest(self, manifest: Manifest) -> None:
        write_record(self.manifest, manifest.to_json())


def run_command(
    root: Path, *, seeds: int | str | None = None, out: Path | None = None, max_noise: float | None = None
) -> str:
    """The command that continues the run in a results directory, `rldyno run results/x --seeds 10`.

    With `out` it runs the same study again in another directory. `seeds` are what `--seeds` takes. The study
    comes from the manifest: no file has to be edited or found again.
    """
    words = ["rldyno", "run", str(root)]
    words += ["--launcher", "slurm"] if SlurmFolder(root).jobs_file.exists() else []
    words += ["--out", str(out)] if out else []
    words += ["--seeds", str(seeds)] if seeds is not None else []
    words += ["--max-noise", f"{max_noise:g}"] if max_noise is not None else []
    return shlex.join(words)


@contextlib.contextmanager
def working_in(directory: ResultsDirectory, lost_manifest: bool = False) -> Iterator[None]:
    """Hold the directory's lock, after a check that files can be written there.

    Reports and exports beside the trials look foreign where the manifest was lost.
    """
    if lost_manifest:
        check_free(directory.root, "copy the directory to a disk with space that you may write to")
    else:
        check_writable(directory.root)
    try:
        with locked(directory.lock):
            remove_temporary_files(directory.root)
            yield
    except LockedError as error:
        raise Problem(
            f"another rldyno run ({error}) is working in {directory.root}",
            fix="wait for it (`rldyno status` shows its progress), or choose another directory with --out",
        ) from None


def check_writable(root: Path) -> None:
    check_free(root)
    foreign = sorted(
        entry.name for entry in root.iterdir() if entry.name not in _OURS and not is_temporary(entry)
    )
    if foreign and not (root / MANIFEST_FILE).exists():
        raise Problem(
            f"{root} is not empty and is not a results directory of rldyno (it contains {foreign[0]})",
            fix="choose another directory with --out",
        )


def remove_temporary_files(root: Path) -> None:
    """What a killed run left beside its own files. Those of a trial are removed before its next attempt."""
    for entry in root.iterdir():
        if is_temporary(entry):
            entry.unlink()


def check_free(root: Path, elsewhere: str = _ELSEWHERE) -> None:
    """Make the directory; a Problem when it cannot be written or its disk is full."""
    test_file = root / f".write-test.{time.monotonic_ns()}.tmp"
    try:
        root.mkdir(parents=True, exist_ok=True)
        test_file.write_bytes(b"x" * 4096)
        test_file.unlink()
    except OSError as error:
        with contextlib.suppress(OSError):
            test_file.unlink()
        raise Problem(f"cannot write to {root}: {error.strerror}", fix=elsewhere) from error
    free = shutil.disk_usage(root).free
    if free < MIN_FREE_BYTES:
        raise Problem(
            f"only {free / 1e6:.0f} MB are free in {root}, a run needs {MIN_FREE_BYTES / 1e6:.0f} MB",
            fix=f"free some space, or {elsewhere}",
        )
