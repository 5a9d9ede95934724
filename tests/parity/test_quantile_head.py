"""A head of quantiles in every framework: QR-DQN, with one loss each, climbs the ladder."""

from __future__ import annotations

from pathlib import Path

import pytest

import quantile
from closed_runs import CONTESTANTS, EVERYTHING, SLOW_TO_COMPILE
from rldyno.toolchains.catalogue import toolchain
from rldyno_rig.contestant import Contestant
from rldyno_rig.hyper import CNN, MLP
from toolchain_scripts import run_script

FIRST = [name for name in CONTESTANTS if EVERYTHING or name not in SLOW_TO_COMPILE]
NETWORKS = (MLP, CNN) if EVERYTHING else (MLP,)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("contestant", FIRST)
def test_qr_dqn_is_proven_with_one_loss_per_framework(contestant: str) -> None:
    backend = toolchain(Contestant.parse(contestant).framework).backend
    run_script(
        contestant,
        f"""
        sys.path.insert(0, {str(Path(quantile.__file__).parent)!r})
        import quantile
        for network in {NETWORKS!r}:
            proof = quantile.proof_of({backend!r}, mode, network, ("float64",))
            assert proof["passed"], (network, quantile.failing(proof))
        """,
    )
