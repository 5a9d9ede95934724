"""Libraries that only some commands need: a missing one becomes one clear message with its fix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rldyno.errors import Problem

# Module → the name under which pip installs it.
PACKAGES = {
    "altair": "altair",
    "jinja2": "jinja2",
    "pandas": "pandas",
    "polars": "polars",
    "pyarrow": "pyarrow",
    "radon": "radon",
    "scipy": "scipy",
    "tabulate": "tabulate",
    "tensorboardX": "tensorboardX",
    "vl_convert": "vl-convert-python",
}


class MissingLibrary(Problem):
    """A library that this part of rldyno needs cannot be imported."""


@contextmanager
def needed_for(purpose: str) -> Iterator[None]:
    """What is imported inside serves `purpose`, for example "HTML reports"."""
    try:
        yield
    except ImportError as error:
        package = PACKAGES.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        raise MissingLibrary(
            f"{package} is needed for {purpose}, but cannot be imported: {error}",
            fix=f"pip install {package}",
            code=1,
        ) from error
