"""A study made in code, with the keys, checks and messages of a study file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypedDict, Unpack

from rldyno.errors import Problem
from rldyno.studies.given import given_study
from rldyno.study.file import check_study
from rldyno.study.plan import make_plan
from rldyno.toml.source import Source
from rldyno.toml.write import plain, toml_text

Several = Sequence[str] | str
Numbers = Sequence[int] | int


class StudyKeys(TypedDict, total=False):
    """The keys of a study file; docs/studies.md explains each."""

    title: str
    question: str
    contestants: Several
    algorithms: Several
    environments: Several
    max_episode_steps: Numbers | None
    devices: Several
    cores: Numbers
    workers: Numbers
    collective: Several
    scaling: Several
    share_gpu: bool
    max_cpus: int
    seeds: Numbers | Mapping[str, Any]
    dtype: str
    division: str
    caches: str
    order_seed: int
    tensorboard: bool
    atari: Mapping[str, Any]
    script: Mapping[str, Any]
    script_sha256: Mapping[str, str]
    budget: Mapping[str, Any]
    hyper: Mapping[str, Any]


class Study:
    """One question: which contestants to compare, on what, for how long.

        Study(
            contestants=["numpy:eager", "torch:eager"],
            algorithms="dqn",
            environments="CartPole-v1",
            seeds=5,
            budget={"steps": 20_000},
            hyper={"dqn": {"batch_size": [32, 256]}},
        )

    Keyword arguments are the keys of a study file; None is the same as leaving the key out.
    """

    toml: str
    """The study as a study file."""
    name: str
    """Names the results directory unless the user gives one."""

    def __init__(self, **keys: Unpack[StudyKeys]) -> None:
        table = plain({key: value for key, value in keys.items() if value is not None})
        self._checked = check_study(Source("rldyno.Study", table))
        self.toml = toml_text(table)
        self.name = "study"

    @classmethod
    def read(cls, path: Path | str) -> Study:
        """From a study file, a shipped study by its name, or the results directory of a run."""
        given = given_study(Path(path))
        study = cls.__new__(cls)
        study._checked, study.toml, study.name = given.study, given.text, given.name
        return study

    @property
    def title(self) -> str:
        return self._checked.title

    @property
    def question(self) -> str:
        return self._checked.question

    @property
    def contestants(self) -> tuple[str, ...]:
        return self._checked.contestants

    @property
    def trials(self) -> int:
        """How many trials the study has; with adaptive seeds, at most."""
        return len(make_plan(self._checked).trials)

    @property
    def sha256(self) -> str:
        """Of everything that shapes the trials: two studies with the same hash ask the same question."""
        return self._checked.sha256

    def write(self, path: Path | str) -> Path:
        """Write the study file, for `rldyno run FILE`."""
        path = Path(path)
        try:
            path.write_text(self.toml, encoding="utf-8")
        except OSError as error:
            raise Problem(
                f"cannot write {path}: {error.strerror}", fix="choose another path", code=1
            ) from error
        return path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Study) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __repr__(self) -> str:
        return f"<Study {self.title or self.name!r}: {', '.join(self.contestants)}; {self.trials} trials>"

    def _repr_html_(self) -> str:
        question = f"<p>{escape(self.question)}</p>" if self.question else ""
        heading = f"<strong>{escape(self.title or self.name)}</strong>"
        return f"<div>{heading}{question}<pre>{escape(self.toml)}</pre></div>"
