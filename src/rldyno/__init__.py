"""The lab: it asks a question, runs trials, keeps their records and answers.

    import rldyno

    results = rldyno.run(rldyno.Study.read("quickstart"), out="results/quickstart")
    results = rldyno.load("results/quickstart")     # later, from the same directory
    results.trials                                  # one row per trial, a polars DataFrame
    results.compare()                               # contestants × metrics, with intervals

docs/python.md describes everything. Importing rldyno is cheap: each name is imported when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which every process that starts a trial would have to import

if TYPE_CHECKING:
    from rldyno.api.answer import Answer
    from rldyno.api.results import StudyResults, load
    from rldyno.api.run import run
    from rldyno.api.study import Study
    from rldyno.errors import Problem

__version__ = "0.1.0"
__all__ = ["Answer", "Problem", "Study", "StudyResults", "__version__", "load", "run"]

_HOMES = {
    "Answer": "rldyno.api.answer",
    "Problem": "rldyno.errors",
    "Study": "rldyno.api.study",
    "StudyResults": "rldyno.api.results",
    "load": "rldyno.api.results",
    "run": "rldyno.api.run",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'rldyno' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
