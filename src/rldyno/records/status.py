"""The words for the state of a trial. Only `done` and `failed` are written, in outcome.json."""

PENDING, RUNNING, DONE, FAILED, INTERRUPTED = "pending", "running", "done", "failed", "interrupted"
STATES = (DONE, FAILED, RUNNING, INTERRUPTED, PENDING)
ENDED = (DONE, FAILED)
ABSENT = "absent"
"""Reason of a failed trial whose toolchain does not exist or does not start."""
