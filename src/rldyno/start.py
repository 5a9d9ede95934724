"""The command `rldyno`, quiet about Ctrl-C from its first line on.

Imports take most of the time of a short command. Nothing has been begun while they run, so there is nothing
to clean up. Before this module is reached Python itself answers the signal.
"""

from __future__ import annotations

import os
import signal

INTERRUPTED = 130  # as in rldyno.processes.control, which takes longer to import than everything here


def main() -> None:
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # one that is ignored stays ignored
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from rldyno.cli import main as run_command

    signal.signal(signal.SIGINT, usual)
    try:
        run_command()
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
