"""`python <this directory> train|prove DIR`: one job in a fresh process of a toolchain's interpreter.

Run as a directory, so that nothing but the rig becomes importable: putting the rig's parent on the path would
let the lab's own packages shadow the toolchain's.
"""

import os
import sys
import time

STARTED_NS = time.perf_counter_ns()

if not __package__:
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]  # noqa: PTH100
    spec = importlib.util.spec_from_file_location(
        "rldyno_rig",
        os.path.join(here, "__init__.py"),  # noqa: PTH118
        submodule_search_locations=[here],
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules["rldyno_rig"] = package
    spec.loader.exec_module(package)

from rldyno_rig.jobs import run  # noqa: E402

if __name__ == "__main__":
    code = run(sys.argv[1:], STARTED_NS)
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is on disk. Tearing a framework down takes up to half a second, and some abort while at it.
    os._exit(code)
