"""Columns of what a run used: CPU, memory, and training time by phase."""

from __future__ import annotations

from rldyno.columns import Column
from rldyno.results.trial_columns import ratio, seconds
from rldyno_rig import schema


def per_step(steps: int, *spent_s: float) -> float | None:
    return ratio(sum(spent_s), steps)


UNCOUNTED = "the version of rldyno that ran it did not count the calls"

USE = (
    Column(
        "cpu_s",
        float,
        "user and system time of the worker's process tree",
        title="CPU time",
        unit="s",
        better="lower",
        source="cpu_s",
        aliases=("cpu_time",),
    ),
    Column(
        "cpu_percent",
        float,
        "cpu_s / wall_s in percent of one core",
        title="CPU use",
        unit="% of a core",
        parts=("cpu_s", "wall_s"),
        derive=lambda cpu_s, wall_s: ratio(100 * cpu_s, wall_s),
        aliases=("cpu",),
    ),
    Column(
        "cpu_of_cores_percent",
        float,
        "cpu_s / wall_s in percent of the CPUs that the trial may use",
        title="CPU use of its cores",
        unit="% of its cores",
        parts=("cpu_s", "wall_s", "cores", "workers"),
        derive=lambda cpu_s, wall_s, cores, workers: ratio(100 * cpu_s, wall_s * cores * workers),
        aliases=("cpu_of_cores",),
    ),
    Column(
        "cpu_step_s",
        float,
        "cpu_s / steps",
        title="CPU time per step",
        unit="µs",
        scale=1e6,
        better="lower",
        parts=("cpu_s", "steps"),
        derive=ratio,
        aliases=("cpu_time_per_step",),
    ),
    Column(
        "peak_rss_bytes",
        int,
        "highest resident set of the process tree",
        title="Peak memory",
        unit="MB",
        scale=1e-6,
        better="lower",
        source="peak_rss_bytes",
        aliases=("memory",),
    ),
    Column(
        "baseline_rss_bytes",
        int,
        "resident set after importing the framework",
        unit="MB",
        scale=1e-6,
        source="baseline_rss_bytes",
    ),
    *(
        Column(
            f"phase_{phase}_s",
            float,
            f"training time spent in: {phase}",
            unit="s",
            source=f"result.phases_ns.{phase}",
            derive=seconds,
        )
        for phase in schema.PHASES
    ),
    *(
        Column(f"calls_{phase}", int, meaning, source=f"result.calls.{phase}", missing=UNCOUNTED)
        for phase, meaning in (
            ("environment", "steps of all environments of worker 0 at once"),
            ("act", "calls of the learner's act"),
            ("transfer", "calls that place observations or batches on the device"),
            ("read", "losses or priorities that were read"),
        )
    ),
    Column(
        "framework_step_s",
        float,
        "phases act, transfer, update and read per environment step: what the contestant itself takes",
        title="Framework time per step",
        unit="µs",
        scale=1e6,
        better="lower",
        parts=("steps", *(f"phase_{phase}_s" for phase in schema.FRAMEWORK_PHASES)),
        derive=per_step,
        aliases=("framework_time",),
    ),
    Column(
        "shared_step_s",
        float,
        "phases environment, store and other per environment step: the same code for all contestants",
        title="Shared time per step",
        unit="µs",
        scale=1e6,
        parts=("steps", *(f"phase_{phase}_s" for phase in schema.SHARED_PHASES)),
        derive=per_step,
    ),
)
