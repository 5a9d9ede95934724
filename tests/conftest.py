"""Settings that every test shares."""

from __future__ import annotations

import os

# Tests run beside each other: thread pools that each take the whole machine only get in each other's way.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from hypothesis import settings  # noqa: E402

# A busy machine is slow, not wrong.
settings.register_profile("rldyno", deadline=None)
settings.load_profile("rldyno")
