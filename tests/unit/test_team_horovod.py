"""Horovod without `horovodrun`: two processes of a team meet through the server that rank 0 runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rldyno.errors import Problem
from rldyno.processes.rig import Runtime
from rldyno.toolchains.resolve import resolve
from rldyno_rig.schema import PARTS_VARIABLE

SOURCES = Path(__file__).parents[2] / "src"
PATIENCE_S = 300.0

# What `begin` uses of Horovod. `init` tells the server who is there, as the real one does.
FAKE = {
    "__init__.py": "",
    "runner/__init__.py": "",
    "runner/common/__init__.py": "",
    "runner/common/util/__init__.py": "",
    "runner/common/util/hosts.py": "def SlotInfo(*values): return values\n",
    "runner/http/__init__.py": "",
    "runner/http/http_server.py": """
import http.server
class RendezvousHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(repr(self.server.plan).encode())
    def log_message(self, *_):
        pass
class RendezvousHTTPServer(http.server.ThreadingHTTPServer):
    def __init__(self, address, handler, verbose):
        super().__init__(address, handler)
    def init(self, plan):
        self.plan = plan
""",
    "toy.py": """
import os, urllib.request
def url():
    return "http://{HOROVOD_GLOO_RENDEZVOUS_ADDR}:{HOROVOD_GLOO_RENDEZVOUS_PORT}/".format(**os.environ)
def init():
    global plan
    plan = urllib.request.urlopen(url()).read().decode()
def rank(): return int(os.environ["HOROVOD_RANK"])
def size(): return int(os.environ["HOROVOD_SIZE"])
def shutdown(): print("left", flush=True)
""",
}

WORKER = """
import json, os, sys, urllib.request
from pathlib import Path
if {fake!r}:
    sys.path[:0] = [{sources!r}, {fake!r}]
else:
    sys.path += [{sources!r}, *os.environ[{variable!r}].split(os.pathsep)]
from rldyno_rig.clock import Clock
from rldyno_rig.team import horovod_, team
joined = team.join(2, team.HOROVOD, Clock(), {patience})
"""

TOY = """
module = horovod_.begin(joined, "toy")
joined.link.meet()
try:
    urllib.request.urlopen(module.url())
    served = True
except OSError:
    served = False
print(json.dumps([module.rank(), module.plan, served]))
joined.finish()
"""

REAL = """
import numpy as np
def torch():
    import torch
    return lambda x: hvd.allreduce(torch.from_numpy(x), op=hvd.Average, name="g").numpy()
def tensorflow():
    import tensorflow
    return lambda x: hvd.allreduce(tensorflow.constant(x), op=hvd.Average, name="g").numpy()
def mxnet():
    import mxnet
    return lambda x: hvd.allreduce(mxnet.nd.array(x, dtype=x.dtype), average=True, name="g").asnumpy()
hvd = horovod_.begin(joined, "FRAMEWORK")
reduce = FRAMEWORK()
mine = np.random.default_rng(joined.rank).standard_normal(1000)
for _ in range(20):
    averaged = reduce(mine)
print(json.dumps(averaged.tolist()))
joined.finish()
sys.stdout.flush()
os._exit(0)
"""


def run_team(command: list[str], environment: dict[str, str], folder: Path) -> list[str]:
    """What each of two ranks prints."""
    ranks = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **environment,
                "RLDYNO_RANK": str(rank),
                "RLDYNO_MEETING": str(folder / "meeting"),
            },
        )
        for rank in range(2)
    ]
    try:
        ended = [process.communicate(timeout=PATIENCE_S) for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0, 0], ended
    return [printed for printed, _ in ended]


def worker(text: str, fake: str = "") -> str:
    given = {"sources": str(SOURCES), "fake": fake, "variable": PARTS_VARIABLE, "patience": PATIENCE_S}
    return WORKER.format(**given) + text


def test_the_ranks_meet_through_a_server_that_is_gone_afterwards(tmp_path: Path) -> None:
    for name, text in FAKE.items():
        path = tmp_path / "horovod" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    code = worker(TOY, fake=str(tmp_path))
    printed = run_team([sys.executable, "-c", code], dict(os.environ), tmp_path)
    plan = repr([("localhost", rank, rank, 0, 2, 2, 1) for rank in range(2)])
    for rank, text in enumerate(printed):
        said, left = text.splitlines()
        assert json.loads(said) == [rank, plan, False]
        assert left == "left"


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", "tensorflow", "mxnet"])
def test_two_processes_average_with_horovod(framework: str, tmp_path: Path) -> None:
    try:
        interpreter = resolve(framework, needs=["horovod"])
    except Problem as problem:
        pytest.skip(f"{problem.message}: {problem.fix}")
    runtime = Runtime.of(interpreter, 1, None, "horovod")
    code = worker(REAL.replace("FRAMEWORK", framework))
    printed = run_team(runtime.command(["-c", code]), runtime.environment(), tmp_path)
    first, second = (json.loads(text.splitlines()[-1]) for text in printed)
    assert first == second
    import numpy as np

    whole = [np.random.default_rng(rank).standard_normal(1000) for rank in range(2)]
    np.testing.assert_allclose(first, (whole[0] + whole[1]) / 2, rtol=0, atol=1e-15)
