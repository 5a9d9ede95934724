"""`rldyno tensorboard DIR`: event files of ended trials, or of a run while it goes on."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rldyno.records.directory import ResultsDirectory


def tensorboard(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A results directory.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Add to the files of running trials until the run ends.")
    ] = False,
) -> None:
    """Write TensorBoard event files for every trial that has ended. `tensorboard --logdir` shows them."""
    from rldyno.records.directory import ResultsDirectory
    from rldyno.results.event_file import FOLDER
    from rldyno.results.tensorboard import write_all

    shown_by = f"tensorboard --logdir {directory / FOLDER}"
    if follow:
        try:
            _follow(ResultsDirectory(directory), shown_by)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
    print(write_all(directory, _report).sentence)
    print(shown_by)


def _follow(results: ResultsDirectory, shown_by: str) -> None:
    from rldyno.results.event_file import FOLDER
    from rldyno.results.tensorboard import LiveEvents
    from rldyno.session.live_events import EVERY_S
    from rldyno.session.watching import looks

    results.read_manifest()  # nothing is written where there are no results
    ended: set[str] = set()
    with closing(LiveEvents(results.root / FOLDER, _report)) as events:
        for number, look in enumerate(looks(results, EVERY_S)):
            if number == 0 and look.runner is not None:
                print(f"following {results.root}; Ctrl-C stops. {shown_by}", flush=True)
            for trial, state in look.states.items():
                if state.running:
                    ended.discard(trial)
                    events.advance(results.trial(trial))
                elif state.ended and trial not in ended:
                    ended.add(trial)
                    events.finish(results.trial(trial))


def _report(line: str) -> None:
    print(line, file=sys.stderr)
