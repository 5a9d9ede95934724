"""One event file of TensorBoard: where that of a trial lies, its format, and whether it is whole."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rldyno.libraries import needed_for
from rldyno.records.files import naming, refuse_link
from rldyno.results.event_points import Point
from rldyno_rig.trial_file import TrialFile

Json = dict[str, Any]

FOLDER = "tensorboard"
# What makes two trials of one cell differ, or does not shape the computation.
NOT_CELL = (
    *("schema", "trial", "seed", "block", "backend", "interpreter"),
    *("variables", "isolated", "sample_hz", "conditions"),
)


def event_path(folder: Path, trial: str, file: TrialFile, attempt: int) -> Path:
    """`trial`: the name of its directory, which is one component of a path whatever a record says.

    TensorBoard takes every file whose name has `tfevents` in it for one.
    """
    return folder / cell_name(trial, file) / f"s{file.seed}" / f"events.out.tfevents.{attempt}.rldyno"


def cell_name(trial: str, file: TrialFile) -> str:
    """`numpy-eager.dqn.CartPole-v1.cpu.1c2f…`: its hash differs with hyper-parameters and cores."""
    content = {name: value for name, value in file.to_json().items() if name not in NOT_CELL}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
    slug, _, _ = trial.rpartition(".s")
    return f"{slug}.{digest}"


def growing_mark(path: Path) -> Path:
    """An empty file that stands beside an event file until that is whole."""
    return path.with_name(f".{path.name.replace('tfevents', 'growing')}")


def is_whole(path: Path, ended: Path) -> bool:
    """Whether it has all points of the trial whose outcome is in `ended`."""
    if not path.exists() or growing_mark(path).exists():
        return False
    return path.stat().st_mtime >= ended.stat().st_mtime


def remove_others(path: Path) -> None:
    """Files of an attempt that was run again: two files would be drawn as one curve."""
    for earlier in path.parent.glob("events.out.tfevents.*"):
        if earlier != path:
            earlier.unlink()


def make_folder(folder: Path) -> None:
    """`tensorboard/<cell>/s<seed>`, where nothing may lead out of a results directory of somebody else."""
    for place in (folder.parent.parent, folder.parent, folder):
        refuse_link(place)
        place.mkdir(exist_ok=True)


def write_new(path: Path, content: bytes) -> None:
    """In the place of what is there: of a link, whose target stays."""
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        file.write(content)


def write_whole(path: Path, points: Iterable[Point], epoch: float) -> None:
    """The file gets its name when it is whole."""
    content = _opening(epoch) + encoded(points, epoch)
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name.replace('tfevents', 'part')}")
    try:
        with naming(path):
            write_new(temporary, content)
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    growing_mark(path).unlink(missing_ok=True)
    remove_others(path)


class GrowingEventFile:
    """An event file to which points are added; TensorBoard shows them as they come.

    Each portion is one write of whole records. After a crash the mark is still there: the file is made anew.
    """

    def __init__(self, path: Path, epoch: float) -> None:
        self.path = path
        self._epoch = epoch
        make_folder(path.parent)
        write_new(growing_mark(path), b"")
        remove_others(path)
        write_new(path, _opening(epoch))

    def add(self, points: Iterable[Point]) -> None:
        content = encoded(points, self._epoch)
        if content:
            with self.path.open("ab", buffering=0) as file:
                file.write(content)

    def finish(self) -> None:
        os.utime(self.path)
        growing_mark(self.path).unlink(missing_ok=True)


def encoded(points: Iterable[Point], epoch: float) -> bytes:
    """Records as TensorBoard's own writers make them. `epoch`: when time 0 was, in seconds since 1970."""
    with needed_for("TensorBoard event files"):
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

    records = []
    for point in points:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in point.values.items()]
        event = Event(wall_time=epoch + point.time_ns / 1e9, step=point.step, summary=Summary(value=values))
        records.append(_record(event.SerializeToString()))
    return b"".join(records)


def _opening(epoch: float) -> bytes:
    with needed_for("TensorBoard event files"):
        from tensorboardX.proto.event_pb2 import Event

    return _record(Event(wall_time=epoch, file_version="brain.Event:2").SerializeToString())


def _record(body: bytes) -> bytes:
    """TFRecord: length, its checksum, the body, its checksum."""
    from tensorboardX.record_writer import masked_crc32c

    length = struct.pack("<Q", len(body))
    return b"".join(
        [length, struct.pack("<I", masked_crc32c(length)), body, struct.pack("<I", masked_crc32c(body))]
    )
