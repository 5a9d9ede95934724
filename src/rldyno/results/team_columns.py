"""Columns of the result table about what several workers take to average gradients; empty for one worker."""

from __future__ import annotations

from collections.abc import Sequence

from rldyno.columns import Column
from rldyno_rig.schema import COMMUNICATE

ALONE = "one worker alone, or a team that made no update"


def mean_s(nanoseconds: Sequence[int]) -> float | None:
    """Over the workers, in seconds."""
    return sum(nanoseconds) / len(nanoseconds) / 1e9 if nanoseconds else None


TEAM = (
    Column(
        f"phase_{COMMUNICATE}_s",
        float,
        f"training time of worker 0 spent in: {COMMUNICATE}; empty for one worker",
        unit="s",
        source=f"result.phases_ns.{COMMUNICATE}",
        derive=lambda nanoseconds: nanoseconds / 1e9,
        missing=ALONE,
    ),
    Column(
        "communication_share",
        float,
        "phase_communicate_s / train_s: averaging gradients and waiting for the other workers",
        title="Communication",
        unit="% of training",
        scale=100,
        better="lower",
        parts=(f"phase_{COMMUNICATE}_s", "train_s"),
        derive=lambda spent_s, train_s: spent_s / train_s if train_s else None,
        missing=ALONE,
        aliases=("communication",),
    ),
    Column(
        "reductions",
        int,
        "how often the workers averaged their gradients",
        source="result.team.reductions",
        missing=ALONE,
    ),
    Column(
        "reduction_bytes",
        int,
        "size of the gradient that each worker gives",
        title="Size of a gradient",
        unit="kB",
        scale=1e-3,
        source="result.team.bytes",
        missing=ALONE,
    ),
    Column(
        "means",
        str,
        "what carried the gradients: gloo, nccl, mpi …; empty for one worker",
        source="result.team.means",
        missing=ALONE,
    ),
    Column(
        "reducing_s",
        float,
        "inside reductions, waiting included; mean over the workers",
        unit="s",
        source="result.team.communicate_ns",
        derive=mean_s,
        missing=ALONE,
    ),
    Column(
        "waiting_s",
        float,
        "of that, waiting for the slowest worker; mean over the workers",
        unit="s",
        source="result.team.wait_ns",
        derive=mean_s,
        missing=ALONE,
    ),
    Column(
        "waiting_share",
        float,
        "waiting_s / train_s",
        title="Waiting for the slowest worker",
        unit="% of training",
        scale=100,
        better="lower",
        parts=("waiting_s", "train_s"),
        derive=lambda waiting_s, train_s: waiting_s / train_s if train_s else None,
        missing=ALONE,
        aliases=("waiting",),
    ),
    Column(
        "reduction_s",
        float,
        "one reduction without waiting: (reducing_s - waiting_s) / reductions",
        title="Time of a reduction",
        unit="µs",
        scale=1e6,
        better="lower",
        # The worker that comes last does not wait, so the difference is the same for all of them.
        parts=("reducing_s", "waiting_s", "reductions"),
        derive=lambda reducing_s, waiting_s, count: (reducing_s - waiting_s) / count if count else None,
        missing=ALONE,
        aliases=("reduction",),
    ),
)
