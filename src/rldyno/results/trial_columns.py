"""The columns of the result table that the probe does not sample, in the order of the table."""

from __future__ import annotations

from rldyno.columns import Column
from rldyno_rig import schema

NO_THRESHOLD = "the study has no threshold"
NOT_REACHED = "the threshold was not reached"
NO_UPDATE = "no update was made"
STOP_RULE = "needs a threshold: give the study's [budget] a stop rule"


def seconds(nanoseconds: int) -> float:
    return nanoseconds / 1e9


def ratio(value: float, divisor: float) -> float | None:
    return value / divisor if divisor else None


def elapsed_s(end_ns: int, start_s: float) -> float:
    return end_ns / 1e9 - start_s


ATARI = tuple(
    Column(f"atari_{field}", kind, meaning, source=f"trial:atari.{field}", may_be_empty=True)
    for field, kind, meaning in (
        ("sticky", float, "probability with which a frame of a game repeats the action before"),
        ("life_loss", bool, "whether a lost life ends the episode for learning"),
        ("clip_rewards", bool, "whether the learner gets rewards clipped to −1 … 1"),
        ("no_ops", int, "most frames without an action at the start of a game"),
        ("fire", bool, "whether games that wait for the fire button are started with it"),
        ("frame_limit", int, "frames after which a game is cut off"),
    )
)
"""How a game was played; empty for other environments, and for ids without preprocessing."""

SETTINGS = (
    Column("trial", str, "id of the trial, the name of its directory"),
    Column("contestant", str, "framework:mode", source="trial:contestant"),
    Column("framework", str, "framework", source="trial:framework"),
    Column("mode", str, "execution mode of the framework", source="trial:mode"),
    Column(
        "division",
        str,
        "closed: only the framework differs; open: each framework's best whole-loop form",
        source="trial:division",
    ),
    Column("algorithm", str, "algorithm", source="trial:algorithm"),
    Column("environment", str, "environment id", source="trial:environment"),
    Column(
        "max_episode_steps",
        int,
        "time limit of an episode; empty: the environment's own",
        source="trial:max_episode_steps",
        may_be_empty=True,
    ),
    *ATARI,
    Column("device", str, "device", source="trial:device"),
    Column("cores", int, "CPU cores that each worker may use", source="trial:cores"),
    Column("workers", int, "data-parallel worker processes", source="trial:workers"),
    Column(
        "collective",
        str,
        "how the workers average their gradients: native, horovod or host; none: one worker",
        source="trial:collective",
    ),
    Column(
        "scaling",
        str,
        "weak: every worker keeps its batch; strong: the workers divide it",
        source="trial:scaling",
    ),
    Column("share_gpu", bool, "whether several workers may use one GPU", source="trial:share_gpu"),
    Column("dtype", str, "floating-point type of the network", source="trial:dtype"),
    Column(
        "caches",
        str,
        "cold: compile caches were empty at the start; warm: filled by a start before; empty: not known",
        source="trial:caches",
        may_be_empty=True,
    ),
    Column("seed", int, "seed", source="trial:seed"),
    Column("block", int, "randomised block the trial ran in", source="trial:block"),
    Column(
        "stop_return",
        float,
        "threshold: mean return to be reached",
        source="trial:budget.stop_return",
        missing=NO_THRESHOLD,
        may_be_empty=True,
    ),
    Column(
        "stop_episodes",
        int,
        "episodes the threshold's mean is taken over",
        source="trial:budget.stop_episodes",
        may_be_empty=True,
    ),
)

ENDING = (
    Column("status", str, "done, failed, or pending: not ended yet", source="status"),
    Column("reason", str, "the budget that ended it, or why it failed", source="reason"),
    Column("message", str, "one sentence", source="message", may_be_empty=True),
    Column("started_at", str, "ISO time of the worker's spawn", source="started_at"),
)

TRAINING = (
    Column("steps", int, "environment steps", source="result.steps"),
    Column("episodes", int, "finished episodes", source="result.episodes"),
    Column("updates", int, "gradient updates, of every member of an ensemble", source="result.updates"),
    Column(
        "wall_s",
        float,
        "spawn to end of the worker",
        title="Time of the whole run",
        unit="s",
        better="lower",
        source="wall_s",
        aliases=("wall",),
    ),
    *(
        Column(
            f"startup_{part}_s",
            float,
            f"start-up: {part}",
            unit="s",
            source=f"result.startup_ns.{part}",
            derive=seconds,
        )
        for part in schema.STARTUP
    ),
    Column(
        "startup_s",
        float,
        "spawn to the first training step",
        title="Start-up",
        unit="s",
        better="lower",
        source="result.train_start_ns",
        derive=seconds,
        aliases=("startup",),
    ),
    Column(
        "train_s",
        float,
        "training loop: the steady state",
        unit="s",
        source="result.train_ns",
        derive=seconds,
    ),
    Column(
        "watched_s",
        float,
        "spawn to the end of training",
        title="Training time",
        unit="s, start-up included",
        better="lower",
        parts=("startup_s", "train_s"),
        derive=lambda startup_s, train_s: startup_s + train_s,
    ),
    Column(
        "learning_start_s",
        float,
        "start of training to the first update, where replay memory fills before it; else 0",
        unit="s",
        source="result.learning.time_ns",
        parts=("startup_s",),
        derive=elapsed_s,
        missing=NO_UPDATE,
    ),
    Column(
        "learning_start_steps",
        int,
        "environment steps until then",
        source="result.learning.step",
        missing=NO_UPDATE,
    ),
    Column(
        "steps_per_s",
        float,
        "steps / train_s",
        title="Speed",
        unit="steps/s",
        better="higher",
        parts=("steps", "train_s"),
        derive=ratio,
        aliases=("throughput",),
    ),
    Column(
        "step_s",
        float,
        "train_s / steps",
        title="Training time per step",
        unit="µs",
        scale=1e6,
        better="lower",
        parts=("train_s", "steps"),
        derive=ratio,
        aliases=("step_time",),
    ),
    Column(
        "episode_s",
        float,
        "train_s / episodes",
        title="Training time per episode",
        unit="ms",
        scale=1e3,
        better="lower",
        parts=("train_s", "episodes"),
        derive=ratio,
        missing="no episode ended",
        aliases=("episode_time",),
    ),
    Column(
        "updates_per_s",
        float,
        "updates / train_s",
        title="Updates per second",
        unit="1/s",
        better="higher",
        parts=("updates", "train_s"),
        derive=ratio,
        aliases=("update_rate",),
    ),
)

AGAINST_LIMITS = (
    Column(
        "update_us",
        float,
        "transfer, update and read phases per update, in microseconds",
        title="Update",
        unit="µs",
        better="lower",
        aliases=("update",),
    ),
    Column(
        "update_floor_us",
        float,
        "the least time of one update on this machine: its arithmetic and bytes",
        title="Floor of an update",
        unit="µs",
    ),
    Column("update_floor_bound", str, "what sets the floor: arithmetic, memory or transfer"),
    Column(
        "update_over_floor",
        float,
        "update_us / update_floor_us",
        title="Update over its floor",
        unit="×",
        better="lower",
        aliases=("over_floor",),
    ),
    Column(
        "environment_alone_steps_per_s",
        float,
        "steps per second of the environments without an agent",
        unit="steps/s",
    ),
)

LEARNING = (
    Column(
        "threshold_reached",
        bool,
        "whether the threshold was reached; empty without one",
        title="Share of runs that reach the threshold",
        better="higher",
        source="result.threshold.reached",
        parts=("stop_return",),
        derive=lambda reached, _: reached,
        aliases=("reached",),
        needs=STOP_RULE,
    ),
    Column(
        "threshold_s",
        float,
        "spawn to the threshold; empty when not reached (censored)",
        title="Time to threshold",
        unit="s",
        better="lower",
        source="result.threshold.time_ns",
        parts=("threshold_reached",),
        derive=lambda time_ns, reached: seconds(time_ns) if reached else None,
        missing=NOT_REACHED,
        aliases=("threshold", "time"),
        censored_at="watched_s",
        needs=STOP_RULE,
    ),
    Column(
        "threshold_train_s",
        float,
        "first training step to the threshold",
        unit="s",
        parts=("threshold_s", "startup_s"),
        derive=lambda threshold_s, startup_s: threshold_s - startup_s,
        missing=NOT_REACHED,
    ),
    Column(
        "threshold_steps",
        int,
        "environment steps to the threshold",
        title="Steps to threshold",
        better="lower",
        source="result.threshold.step",
        parts=("threshold_reached",),
        derive=lambda step, reached: step if reached else None,
        missing=NOT_REACHED,
        aliases=("steps_to_threshold", "steps"),
        censored_at="steps",
        needs=STOP_RULE,
    ),
    Column(
        "threshold_episodes",
        int,
        "episodes to the threshold",
        title="Episodes to threshold",
        better="lower",
        source="result.threshold.episode",
        parts=("threshold_reached",),
        derive=lambda episode, reached: episode if reached else None,
        missing=NOT_REACHED,
        aliases=("episodes_to_threshold", "episodes"),
        censored_at="episodes",
        needs=STOP_RULE,
    ),
    Column(
        "final_return",
        float,
        "mean return of the last 100 episodes",
        title="Return at the end",
        better="higher",
        source="result.final_return",
        missing="no episode ended",
        aliases=("return",),
    ),
)
