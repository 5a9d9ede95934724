"""TensorBoard event files, read back record by record with their checksums."""

from __future__ import annotations

import struct
from pathlib import Path

from tensorboardX.crc32c import crc32c
from tensorboardX.proto.event_pb2 import Event


def masked(data: bytes) -> int:
    """The format stores checksums rotated, so that a checksum of data with checksums stays sound."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def read_events(path: Path) -> list[Event]:
    data, events = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12])[0] == masked(data[:8])
        body = data[12 : 12 + length]
        assert struct.unpack("<I", data[12 + length : 16 + length])[0] == masked(body)
        events.append(Event.FromString(body))
        data = data[16 + length :]
    return events
