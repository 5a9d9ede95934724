"""`python -m rldyno_rig.open jax --device cuda`: open loops with one framework and NumPy alone."""

from __future__ import annotations

import argparse
import json
import sys

from rldyno_rig import hyper
from rldyno_rig.hyper import tuples
from rldyno_rig.open.job import measure, prove
from rldyno_rig.open.job_file import OpenJob
from rldyno_rig.open.problem import OPEN_ALGORITHMS, Unsupported, shipped
from rldyno_rig.open.tasks import TASKS


def main() -> int:
    options = argparse.ArgumentParser(prog="rldyno_rig.open", description=__doc__)
    options.add_argument("framework")
    options.add_argument("--algorithm", default="ppo", choices=OPEN_ALGORITHMS)
    options.add_argument("--environment", default="CartPole-v1", choices=tuple(TASKS))
    options.add_argument("--environments", default="4,2048")
    options.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    options.add_argument("--agents", type=int, default=1)
    options.add_argument("--seconds", type=float, default=1.0)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--prove", action="store_true", help="compare with the closed division instead")
    options.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="changes")
    given = options.parse_args()
    changes = {
        name: tuples(json.loads(value)) for name, value in (one.split("=", 1) for one in given.changes)
    }
    for count in map(int, given.environments.split(",")):
        try:
            values = shipped(given.algorithm, given.environment, **{**changes, "environments": count})
        except Unsupported as error:
            options.error(str(error))
        job = OpenJob(
            backend=given.framework + "_",
            algorithm=given.algorithm,
            environment=given.environment,
            hyper=hyper.to_json(values),
            device=given.device,
            dtype="float64" if given.prove else given.dtype,
            agents=given.agents,
            seconds=given.seconds,
            repeats=given.repeats,
            prove=given.prove,
        )
        found = prove(job) if given.prove else measure(job).to_json()
        what = {"framework": given.framework, "algorithm": given.algorithm, "environments": count}
        print(json.dumps({**what, "agents": given.agents, **found}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
