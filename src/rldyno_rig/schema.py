"""The files of a trial directory: one definition for the side that writes them and the side that reads them.

Every time is in integer nanoseconds of the system-wide monotonic clock. In the CSV files it is counted from
the moment the worker process was spawned, so that start-up, training and the probe's samples share one axis.
An empty CSV field, like a JSON null, is a figure that could not be measured; it is never written as zero.
"""

SCHEMA_VERSION = 1
# Records that the lab writes hold the hash of their own content, and say so by this version.
SEALED_SCHEMA = 2

# Written by the lab before the trial starts; complete: a worker needs nothing else.
TRIAL_FILE = "trial.json"
# Written by the worker: once its learner is built / as it trains (flushed every second) / at its end.
FACTS_FILE = "facts.json"
EPISODES_FILE = "episodes.csv"
PROGRESS_FILE = "progress.csv"
ACTIONS_FILE = "actions.csv"
RESULT_FILE = "result.json"
# Written by the trial runner: what the probe sees / the worker's stdout and stderr / the end, atomically.
SAMPLES_FILE = "samples.csv"
LOG_FILE = "worker.log"
OUTCOME_FILE = "outcome.json"

# The monotonic time at which the trial runner spawned the worker, as decimal text.
SPAWN_VARIABLE = "RLDYNO_SPAWN_NS"

# The path of the compiled hot parts of the loop; unset where there is no C compiler.
NATIVE_VARIABLE = "RLDYNO_NATIVE"

# Where packages of optional parts of the toolchain are: directories, separated like those of PATH.
PARTS_VARIABLE = "RLDYNO_PARTS"

# The CPUs of a worker that cannot be pinned from outside, separated by commas: it pins itself.
CPUS_VARIABLE = "RLDYNO_CPUS"

# In the value of an environment variable: the directory of a trial's caches.
CACHES_PLACE = "{caches}"

# Phases of the training loop; every nanosecond of it belongs to exactly one.
PHASES = ("environment", "act", "store", "transfer", "update", "read", "other")
# Those that a backend computes in. The rest is the same code for all, but runs at a different speed in each
# process: caches, allocators and thread pools differ.
FRAMEWORK_PHASES = ("act", "transfer", "update", "read")
SHARED_PHASES = tuple(phase for phase in PHASES if phase not in FRAMEWORK_PHASES)
# Of several workers only: averaging their gradients, and waiting for each other.
COMMUNICATE = "communicate"
# Phases of start-up, in order: interpreter start to the rig's first line, importing the framework,
# building the learner, the first call of everything (compilation), warm-up to the first training step.
STARTUP = ("interpreter", "import", "build", "first_call", "warm")

EPISODE_COLUMNS = ("episode", "env", "step", "time_ns", "return", "length", "terminated")
PROGRESS_COLUMNS = (
    "time_ns",
    "step",
    "episode",
    "update",
    "return_mean",
    "loss",
    *(phase + "_ns" for phase in PHASES),
    COMMUNICATE + "_ns",
)

# The first actions of a trial are kept, one a line, to find where contestants of one seed part ways.
TRACED_STEPS = 2_000

# Why a trial ended. The first four are budgets that were reached: the trial is done.
DONE_REASONS = STOPPED, STEPS, EPISODES, WALL = ("return", "steps", "episodes", "wall")
NOT_FINITE = 4
"""Exit code of a worker that crashed after a reward that is not finite."""
FAILED_REASONS = ("nan", "crashed", "killed", "hung", "interrupted", "absent")
