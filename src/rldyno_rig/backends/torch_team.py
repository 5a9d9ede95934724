"""How PyTorch averages a flat gradient over the workers of a team.

`native` is torch.distributed: gloo on CPUs, NCCL between GPUs. Where workers share a GPU, which NCCL refuses,
gloo averages copies on the host; so do MPI, the collective `host`, and Horovod.
"""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import Callable, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

from rldyno_rig.team import horovod_, host, ports
from rldyno_rig.team.link import LOCAL, TeamError
from rldyno_rig.team.team import HOST, NATIVE, Team

Reduce = Callable[[Tensor], Tensor]
GLOO, NCCL = "gloo", "nccl"


def averaging(team: Team, like: Tensor) -> Reduce:
    """In place: a flat gradient like this vector → the mean of those of all ranks. Raises TeamError.

    NCCL works in the device's own time: phase `communicate` is then what the host takes to ask for it.
    """
    if team.collective == NATIVE:
        reduce, means = native(team, like.is_cuda)
    else:
        reduce, means = by_mpi(team) if team.collective == HOST else by_horovod(team)
    if not like.is_cuda or means == NCCL:
        return team.timed(reduce, means, like.nbytes)
    average = team.timed(through_host(reduce, like), means, like.nbytes)

    def settled(gradient: Tensor) -> Tensor:
        # The copy to the host would wait for it: that is the update's time.
        torch.cuda.current_stream().synchronize()
        return average(gradient)

    return settled


def by_mpi(team: Team) -> Tuple[Reduce, str]:
    average = host.averaging(team.rank, team.size)

    def reduce(gradient: Tensor) -> Tensor:
        average(gradient.numpy())
        return gradient

    return reduce, host.MEANS


def by_horovod(team: Team) -> Tuple[Reduce, str]:
    horovod = horovod_.begin(team, "torch")

    def reduce(gradient: Tensor) -> Tensor:
        averaged: Tensor = horovod.allreduce_(gradient, name="gradient", op=horovod.Average)
        return averaged

    return reduce, horovod_.MEANS


def native(team: Team, on_gpu: bool) -> Tuple[Reduce, str]:
    means = NCCL if on_gpu and not shares_gpu(team) else GLOO
    if not dist.is_initialized():  # proofs join with several learners
        begin(team, means)
    return summing(team.size, means), means


def begin(team: Team, means: str) -> None:
    patience = timedelta(seconds=team.patience_s)
    interface = ports.interface(team)
    if interface is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    try:
        store = meet(team, patience)
        dist.init_process_group(
            means, store=store, rank=team.rank, world_size=team.size, timeout=2 * patience
        )
    except RuntimeError as error:
        text = "worker {} cannot meet the others through {}: {}"
        raise TeamError(text.format(team.rank, means, error)) from error
    # At the end of a process gloo aborts without it, in one of three runs.
    team.on_finish(dist.destroy_process_group)


def summing(size: int, means: str) -> Reduce:
    """The process group's own method: `dist.all_reduce` looks up the group at each call."""
    group = dist.group.WORLD
    assert group is not None
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.AVG if means == NCCL else dist.ReduceOp.SUM
    allreduce, share = group.allreduce, 1.0 / size

    def reduce(gradient: Tensor) -> Tensor:
        allreduce([gradient], options).wait()
        return gradient if means == NCCL else gradient.mul_(share)

    return reduce


def meet(team: Team, patience: timedelta) -> dist.TCPStore:
    """A store at rank 0, on a port that is free for sure: rank 0 listens before it tells the others."""
    if team.rank:
        port = int(team.link.broadcast(None))
        return dist.TCPStore(team.address, port, team.size, False, patience)
    with socket.socket() as listener:
        listener.bind((LOCAL if team.address == LOCAL else "", 0))
        listener.listen(team.size)
        port = listener.getsockname()[1]
        store = dist.TCPStore(
            team.address,
            port,
            team.size,
            True,
            patience,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )
    team.link.broadcast(str(port).encode())
    return store


def shares_gpu(team: Team) -> bool:
    """Whether any two workers use the same GPU."""
    own = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
    used = team.link.gather(own.encode())
    shared = None if used is None else bytes([len(set(used)) < len(used)])
    return bool(team.link.broadcast(shared)[0])


def through_host(reduce: Reduce, like: Tensor) -> Reduce:
    """The same for a gradient on the GPU."""
    here = torch.empty(like.shape, dtype=like.dtype, pin_memory=True)

    def reduced(gradient: Tensor) -> Tensor:
        here.copy_(gradient)
        return gradient.copy_(reduce(here), non_blocking=True)

    return reduced
