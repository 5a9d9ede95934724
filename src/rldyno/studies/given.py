"""The study that a user gives: a file, the name of a shipped study, or a results directory to go on with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rldyno.errors import Problem
from rldyno.records.directory import STUDY_FILE, ResultsDirectory, run_command
from rldyno.studies.shipped import find_study, shipped_studies
from rldyno.study.file import Study, check_study
from rldyno.study.quick import quick_text
from rldyno.study.recorded import recorded_study, refuse_wheels
from rldyno.study.scripts import with_hashes
from rldyno.study.seeds import with_seeds
from rldyno.toml.source import Source, parse, read
from rldyno.toml.write import with_value

LOST = "give a file with the study that ran, and this directory with --out"


@dataclass(frozen=True)
class GivenStudy:
    study: Study
    text: str
    """The study file, with the seeds of `--seeds`."""
    path: str
    """As records keep it: a name or a relative path."""
    name: str
    """Names the results directory unless the user gives one."""
    directory: Path | None = None
    """The results directory that was given instead of a study."""
    seeds_given: bool = False
    """By `--seeds`."""
    folder: Path | None = None
    """Of the study file, where its scripts are; None of a results directory, which may be somebody else's."""


def given_study(typed: Path, seeds: str | None = None, quick: bool = False) -> GivenStudy:
    """Read and check it; `seeds` and `quick` are the options `--seeds` and `--quick`."""
    if typed.is_dir() and str(typed) not in shipped_studies():
        source, path = _of_directory(ResultsDirectory(typed))
        name, directory, file = typed.resolve().name, typed, typed
    else:
        file = find_study(typed)
        _refuse_edited_copy(file)
        source, path, name, directory = read(file), _shown(typed), file.stem, None
    folder = None if directory or _is_record(file) else file.resolve().parent
    text = (source.text or "") if folder is None else with_hashes(source, folder)
    if text != source.text:
        source = parse(source.path, text)
    if quick and directory is None:
        text = quick_text(source.table, name)
        source, path, name = parse(f"{source.path} --quick", text), f"{path} --quick", f"{name}-quick"
    if seeds is not None:
        text = with_seeds(text, source.table, seeds)
        source = parse(f"{source.path} with --seeds {seeds}", text)
    if folder is None:
        refuse_wheels(source)
    study = check_study(source)
    text = with_hashes_of_wheels(text, source, study)
    return GivenStudy(study, text, path, name, directory, seeds is not None, folder)


def with_hashes_of_wheels(text: str, source: Source, study: Study) -> str:
    """The text with wheels as records name them, by version and hash: a path may lead elsewhere tomorrow."""
    given = source.table["contestants"]
    named = given if isinstance(given, list) else [given]
    return (
        text
        if tuple(named) == study.contestants
        else with_value(text, "contestants", list(study.contestants))
    )


def _of_directory(directory: ResultsDirectory) -> tuple[Source, str]:
    manifest = directory.read_manifest()
    recorded = recorded_study(directory, manifest)
    if not recorded.certain:
        raise Problem(recorded.note, fix=LOST)
    return parse(directory.study, recorded.text), manifest.study_path


def _refuse_edited_copy(file: Path) -> None:
    """`study.toml` of a results directory is a record: an edit of it would change what seems to have run."""
    directory = ResultsDirectory(file.parent)
    if not _is_record(file):
        return
    recorded = recorded_study(directory, directory.read_manifest())
    if recorded.note:
        going_on = (
            f"continue with the study that ran: {run_command(directory.root)} (--seeds N adds seeds); "
            "or save the edited file elsewhere and run it with --out NEW"
        )
        raise Problem(recorded.note, fix=going_on if recorded.certain else LOST)


def _is_record(file: Path) -> bool:
    return file.name == STUDY_FILE and ResultsDirectory(file.parent).manifest.is_file()


def _shown(typed: Path) -> str:
    """Without folders of this machine's users: a record may be published."""
    return typed.name if typed.is_absolute() else str(typed)
