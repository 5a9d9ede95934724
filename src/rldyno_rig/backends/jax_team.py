"""How JAX averages a flat gradient over the workers of a team.

`native` is `jax.distributed`: one program over a device of each process, with gloo between CPUs and NCCL
between GPUs. `host` is MPI on a copy.
"""

from __future__ import annotations

import socket
from typing import Any, Callable

import jax
import numpy as np
from jax import Array, lax
from jax.extend import backend
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from rldyno_rig.team import host, ports
from rldyno_rig.team.link import LOCAL, TeamError
from rldyno_rig.team.team import HOST, Team

Reduce = Callable[[Array], Any]
WORKERS = "workers"


def meet(team: Team) -> None:
    """Become one JAX of several processes. Arrays and programs that were made before are lost.

    Raises TeamError.
    """
    platform = jax.config.jax_platforms
    jax.config.update("jax_default_device", None)
    backend.clear_backends()
    # A collective that runs in the thread which calls it takes ten times as long where a worker has one core.
    jax.config.update("jax_cpu_enable_async_dispatch", True)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        with ports.reserved(team, socket.SO_REUSEPORT) as own_port:
            port = ports.of_first(team, own_port)
            if team.rank == 0:
                require_free(port)
            # Where one does not come, `initialize` ends the others with SIGABRT, without a word to Python.
            team.link.meet()
            address = "{}:{}".format(team.address, port)
            jax.distributed.initialize(
                address,
                team.size,
                team.rank,
                coordinator_bind_address=address if team.address == LOCAL else None,
                initialization_timeout=int(team.patience_s),
            )
        jax.config.update("jax_default_device", jax.local_devices(backend=platform)[0])
    except (RuntimeError, OSError) as error:
        text = "worker {} cannot meet the others through jax.distributed: {}"
        raise TeamError(text.format(team.rank, error)) from error
    team.on_finish(jax.distributed.shutdown)


def require_free(port: int) -> None:
    """Raises OSError. JAX may end with a segmentation fault where it cannot listen."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        probe.bind((LOCAL, port))


def averaging(team: Team, like: Array) -> Reduce:
    """A flat gradient like this vector → the mean of those of all ranks.

    Between GPUs JAX works in their own time: phase `communicate` is then what the host takes to ask for it.
    """
    on_host = team.collective == HOST
    reduce = by_mpi(team) if on_host else native(like)
    on_cpu = like.device.platform == "cpu"
    means = host.MEANS if on_host else "gloo" if on_cpu else "nccl"
    average = team.timed(reduce, means, like.nbytes)
    if not on_cpu and not on_host:
        return average

    def settled(gradient: Array) -> Any:
        # The reduction would wait for it: that is the update's time.
        return average(gradient.block_until_ready())

    return settled


def by_mpi(team: Team) -> Reduce:
    average = host.averaging(team.rank, team.size)
    return lambda gradient: average(np.array(gradient))


def native(like: Array) -> Reduce:
    """One program on a vector whose parts are the gradients of the ranks."""
    devices = np.array(jax.devices())
    mesh = Mesh(devices, (WORKERS,))
    split, whole = PartitionSpec(WORKERS), PartitionSpec()
    mean = jax.jit(
        jax.shard_map(lambda part: lax.pmean(part, WORKERS), mesh=mesh, in_specs=split, out_specs=whole)
    )
    shape, sharding = (len(devices) * like.size,), NamedSharding(mesh, split)
    assemble = jax.make_array_from_single_device_arrays
    waits = like.device.platform == "cpu"

    def reduce(gradient: Array) -> Array:
        try:
            averaged = mean(assemble(shape, sharding, [gradient])).addressable_data(0)
            return averaged.block_until_ready() if waits else averaged
        except ValueError as error:  # of a broken connection
            raise RuntimeError(str(error)) from error

    return reduce
