"""trial.json with what starts its worker on this machine, whatever stood there before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rldyno.toolchains import native
from rldyno.toolchains.catalogue import toolchain
from rldyno_rig.hyper import network_kind
from rldyno_rig.trial_file import TrialFile

if TYPE_CHECKING:
    from rldyno.toolchains.resolve import Interpreter


def placed_file(file: TrialFile, interpreter: Interpreter) -> TrialFile:
    """Of a framework's trial: a guest is started otherwise."""
    chain, part = toolchain(file.framework), interpreter.part_for(file.collective)
    return replace(
        file,
        backend=chain.backend,
        interpreter=str(interpreter.path),
        isolated=interpreter.isolated,
        mpiexec=str(part.mpiexec) if part and part.mpiexec else None,
        variables={
            **chain.trial_variables(file.cores, network_kind(file.hyper["convolutions"])),
            **native.variables(),
            **interpreter.variables_for(file.collective),
        },
    )
