"""`python <this directory> train|prove DIR`: one job in a fresh process of a toolchain's interpreter.

Run as a directory, so that nothing but the rig becomes importable: putting the rig's parent on the path would
let the lab's own packages shadow the toolchain's.
"""

import os
import sys
import time
from pathlib import Path

STARTED_NS = time.perf_counter_ns()

if not __package__:
    import importlib.util

    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]
    spec = importlib.util.spec_from_file_location(
        "rldyno_rig",
        here / "__init__.py",
        submodule_search_locations=[str(here)],
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["rldyno_rig"] = package
    spec.loader.exec_module(package)

from rldyno_rig.schema import CPUS_VARIABLE, PARTS_VARIABLE  # noqa: E402 (there is no such package before)

if CPUS_VARIABLE in os.environ:  # before a library counts the CPUs, or starts a thread
    os.sched_setaffinity(0, map(int, os.environ[CPUS_VARIABLE].split(",")))

# Behind the toolchain's own packages, which stay what they are. An isolated interpreter ignores PYTHONPATH.
sys.path += filter(None, os.environ.get(PARTS_VARIABLE, "").split(os.pathsep))

from rldyno_rig.jobs import run  # noqa: E402 (there is no such package before)

if __name__ == "__main__":
    code = run(sys.argv[1:], STARTED_NS)
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is on disk. Tearing a framework down takes up to half a second, and some abort while at it.
    os._exit(code)
