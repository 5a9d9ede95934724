"""Speaks the protocol of the `time` job. The job's `mode` says how it behaves; a call takes `NAP_NS`."""

import json
import sys
import time
from pathlib import Path

CALLS = 10
NAP_NS = {"fast": 1_000, "slow": 3_000}
BUSY_S = 0.1
"""CPU time that `busy` uses before it is ready: several ticks of any kernel's clock."""


def main() -> None:
    job = json.loads((Path(sys.argv[2]) / "time.json").read_text())
    mode = job["mode"]
    if mode == "broken":
        sys.exit("ImportError: no such framework")
    if mode == "chatty":
        print("hello", flush=True)
    while mode == "busy" and time.process_time() < BUSY_S:
        pass
    print(json.dumps({"ready": True, "facts": {"mode": mode}, "startup_ns": {"import": 5}}), flush=True)
    for number, line in enumerate(sys.stdin, 1):
        request = json.loads(line)
        if mode == "mortal" and number > 2:
            sys.exit("out of memory")
        if request["data"] == "pinned":
            print(json.dumps({"error": "no device memory"}), flush=True)
            continue
        nap = NAP_NS.get(mode, 2_000) * (100 if request["measure"] == "update" else 1) + number
        answer = {"calls": CALLS, "wall_ns": CALLS * nap, "median_ns": nap, "p10_ns": nap, "p90_ns": nap}
        print(json.dumps(answer), flush=True)


main()
