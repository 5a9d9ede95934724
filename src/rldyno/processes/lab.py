"""How the lab starts a module of its own in a new process."""

from __future__ import annotations

OWN_MODULE = ("-P", "-m")
"""Without the working directory on the path: a `statistics.py` that lies there must not run as our code."""
PER_NODE = "--per-node"
"""Option of a trial's process whose workers run on several nodes of a cluster: how many on each."""
