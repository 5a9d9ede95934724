"""Settings that every test shares."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

# Tests run beside each other: thread pools that each take the whole machine only get in each other's way.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from hypothesis import settings  # noqa: E402

from rldyno.session.estimate import rates_file  # noqa: E402

# A busy machine is slow, not wrong.
settings.register_profile("rldyno", deadline=None)
settings.load_profile("rldyno")


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Leave the rates of `rldyno plan` as they were: trials of tests are short, or only play a worker."""
    if hasattr(session.config, "workerinput"):  # the process that starts the others does it
        return (yield)
    path = rates_file()
    kept = path.read_bytes() if path.exists() else None
    try:
        return (yield)
    finally:
        if kept is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(kept)
