"""slurm/jobs.json of somebody else: its words become lines of batch scripts and names of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldyno.config import SlurmSettings
from rldyno.errors import Problem
from rldyno.launch.slurm_script import command_script
from rldyno.records.seal import SEAL, seal_of
from rldyno.records.slurm_jobs import SlurmFolder, SlurmJobs


def written(root: Path, **changes: object) -> SlurmFolder:
    """Sealed by whoever wrote it."""
    folder = SlurmFolder(root)
    folder.make()
    folder.write(SlurmJobs().with_new(("a", "b"))[0])
    values = json.loads(folder.jobs_file.read_text()) | changes
    del values[SEAL]
    folder.jobs_file.write_text(json.dumps(values | {SEAL: seal_of(values)}))
    return folder


def test_what_the_lab_writes_is_read(tmp_path: Path) -> None:
    jobs = written(tmp_path).read()
    assert jobs is not None
    assert jobs.submissions[0].trials == ("a", "b")
    assert jobs.with_new(())[1].name == f"rldyno-{jobs.token}-0002"


@pytest.mark.parametrize(
    "token", ["x\nexec evil\n#", "a/../../evil", "", "a b", "$(evil)", "a" * 33, 7, None]
)
def test_a_token_is_no_line_of_a_script_and_no_path(token: object, tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"jobs\.json is damaged"):
        written(tmp_path, token=token, submissions=[]).read()


@pytest.mark.parametrize("made", [-1, 10**9, "1", None])
def test_a_number_of_submissions_is_one(made: object, tmp_path: Path) -> None:
    with pytest.raises(Problem, match=r"jobs\.json is damaged"):
        written(tmp_path, made=made).read()


@pytest.mark.parametrize("name", ["rldyno-other-0001", "../../evil", "rldyno-{token}-1\nevil", "my-own-job"])
def test_a_submission_has_the_name_that_the_lab_gave(name: str, tmp_path: Path) -> None:
    """Others would be jobs of the user that this directory has no part in."""
    jobs = written(tmp_path).read()
    assert jobs is not None
    submission = jobs.submissions[0].to_json() | {"name": name.format(token=jobs.token)}
    with pytest.raises(Problem, match="is no name of a job"):
        written(tmp_path, token=jobs.token, submissions=[submission]).read()


def test_a_folder_cannot_add_lines_to_a_script(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="is no line of a batch script"):
        command_script("rldyno-a-0001", ["true"], tmp_path / "x\nevil", SlurmSettings())
