"""`rldyno pack --anonymous`: no path and no name is left, and no figure changes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from edited_records import edit
from rldyno.errors import Problem
from rldyno.records.files import Json
from rldyno.records.seal import file_hashes, write_record
from rldyno.records.trial_id import trial_id
from rldyno.results.check import check_directory
from rldyno.results.load import load_results
from rldyno.sharing import anonymous
from rldyno.sharing.anonymous import Scrub
from rldyno.sharing.pack import pack_directory
from rldyno.sharing.unpack import unpack_file
from rldyno_rig.trial_file import TrialFile
from synthetic import NUMPY, TORCH, Shape, write_results

SECRETS = ("alice", "secret", "gpu17", "cluster.example", "/opt/python", "/data")


def sealed_results(root: Path) -> Path:
    """As a real run leaves them: ids that are hashes, and every record sealed."""
    made = write_results(
        root, Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=2, steps=1500, sample_hz=2)
    )
    ids = []
    for home in sorted((made / "trials").iterdir()):
        file = TrialFile.from_json(json.loads((home / "trial.json").read_text()))
        ids.append(trial_id(file))
        write_record(home / "trial.json", {**file.to_json(), "trial": ids[-1]})
        outcome = json.loads((home / "outcome.json").read_text()) | {"trial": ids[-1]}
        write_record(home / "outcome.json", {**outcome, "files": file_hashes(home)})
        home.rename(home.with_name(ids[-1]))
    manifest = json.loads((made / "manifest.json").read_text())
    write_record(made / "manifest.json", {**manifest, "trials": ids})
    return made


def with_secrets(root: Path) -> Path:
    made = sealed_results(root)
    home = sorted((made / "trials").iterdir())[0]
    values: Json = json.loads((home / "trial.json").read_text())
    variables = values["variables"] | {"LD_LIBRARY_PATH": "/data/my secret/lib:/opt/x", "A": "{caches}/a"}
    edit(
        home / "trial.json",
        interpreter="/home/alice/my secret project/bin/python",
        variables=variables | {"OMP_NUM_THREADS": "2"},
    )
    facts = json.loads((home / "facts.json").read_text())
    facts["backend"]["library"] = "/home/alice/secret/lib.so"
    (home / "facts.json").write_text(json.dumps(facts))
    (home / "worker.log").write_text("alice@gpu17: /home/alice/secret")
    edit(
        home / "outcome.json",
        files=file_hashes(home),
        warnings=["alice left '/data/my secret/x' on gpu17.cluster.example; see https://cluster.example/a"],
        log_tail="Traceback of alice",
        affinity={"worker": [0], "probe": None, "nodes": ["gpu17.cluster.example", "gpu18.cluster.example"]},
        reasons={"gpu": "no counter (/sys/class/powercap/intel-rapl:*), 3 steps/s and/or 1/2"},
    )
    study = (
        json.loads((made / "manifest.json").read_text())["study_text"] + "# made by alice in /data/secret\n"
    )
    edit(made / "manifest.json", study_text=study, study_path="/home/alice/secret.toml", title="of alice")
    (made / "study.toml").write_text(study)
    return made


def test_no_secret_is_left_and_no_figure_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "alice")
    root = with_secrets(tmp_path / "r")
    assert check_directory(root) == []
    made = pack_directory(root, tmp_path / "p", anonymous=True)
    there = unpack_file(made.path, tmp_path / "there").directory
    text = "\n".join(path.read_text() for path in there.rglob("*") if path.is_file()).lower()
    assert [secret for secret in SECRETS if secret in text.replace("secret.toml", "")] == []
    assert made.index.anonymous
    home = sorted((there / "trials").iterdir())[0]
    assert f"trials/{home.name}/facts.json" in made.index.resealed
    assert check_directory(there) == []
    before, after = (load_results(each).trials.drop("warnings", "log_tail") for each in (root, there))
    assert [name for name in before.columns if not after[name].equals(before[name])] == []
    outcome = json.loads((home / "outcome.json").read_text())
    assert outcome["reasons"] == {
        "gpu": "no counter (/sys/class/powercap/intel-rapl:*), 3 steps/s and/or 1/2"
    }
    assert len(set(outcome["affinity"]["nodes"])) == 2
    variables = json.loads((home / "trial.json").read_text())["variables"]
    assert (variables["A"], variables["OMP_NUM_THREADS"]) == ("{caches}/a", "2")
    assert not (home / "worker.log").exists()


def test_what_needs_no_change_keeps_its_seal(tmp_path: Path) -> None:
    root = with_secrets(tmp_path / "r")
    made = pack_directory(root, tmp_path / "p", anonymous=True)
    there = unpack_file(made.path, tmp_path / "there").directory
    other = sorted((root / "trials").iterdir())[1] / "outcome.json"
    assert (there / other.relative_to(root)).read_bytes() == other.read_bytes()
    again = pack_directory(there, tmp_path / "again")
    assert (again.index.anonymous, again.index.resealed) == (True, made.index.resealed)


def test_a_name_that_identifies_trials_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = sealed_results(tmp_path / "r")

    def wild(self: Scrub, value: Any) -> Any:
        return {**value, "environment": "removed"} if "hyper" in value else value

    monkeypatch.setattr(anonymous.Scrub, "value", wild)
    with pytest.raises(Problem, match="would not match"):
        pack_directory(root, tmp_path / "p", anonymous=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("cannot open /home/bob/x.py: no", "cannot open /removed: no"),
        ('File "/home/bob/My Documents/x.py", line 3', 'File "/removed", line 3'),
        ("in ~/work/x (and /tmp)", "in /removed (and /removed)"),
        ("bob ran it on Node7", "name-1 ran it on name-2"),
        ("bobsled and node77", "bobsled and node77"),
        ("steps", "steps"),
        ("root and 3 steps/s, 1/2, a/b", "root and 3 steps/s, 1/2, a/b"),
        ("reads /proc/self/stat", "reads /proc/self/stat"),
        ("from file:///home/bob/wheel.whl", "from removed"),
        ("{caches}/numba", "{caches}/numba"),
        ("/removed", "/removed"),
    ],
)
def test_what_counts_as_a_path_or_a_name(before: str, after: str) -> None:
    assert Scrub(["bob", "node7", "root", "steps"]).text(before) == after.replace("3 steps", "3 name-3")


def test_names_of_this_machine_and_its_users_are_known(tmp_path: Path) -> None:
    assert os.uname().nodename in set(anonymous._names_here(tmp_path))
