"""Damaged and forged packs: `unpack` refuses them or writes the same records, and nothing elsewhere."""

from __future__ import annotations

import gzip
import io
import random
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

from fuzz_calls import Report, call
from fuzz_records import SEALED, Originals

NAMES = (
    "../up",
    "/tmp/rldyno-fuzz-pack",
    "trials/../../up",
    "report.html",
    "a\x1b[31m",
    "trials/x/trial.json",
    "",
)
HEADER = 512
Mutation = Callable[[bytes, random.Random], bytes]


def flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def repeat(data: bytes, rng: random.Random) -> bytes:
    """A block of the tar file twice."""
    place = rng.randrange(len(data) // HEADER) * HEADER
    return data[: place + HEADER] + data[place:]


def append(data: bytes, rng: random.Random) -> bytes:
    return data + rng.choice((b"\0" * HEADER, b"x", rng.randbytes(3 * HEADER)))


def zeros(data: bytes, rng: random.Random) -> bytes:
    """Compresses to nothing: a bomb."""
    place = rng.randrange(len(data))
    return data[:place] + b"\0" * 20_000_000 + data[place:]


def with_member(data: bytes, rng: random.Random) -> bytes:
    """One more, as Python's own tar writes it."""
    member = tarfile.TarInfo(rng.choice(NAMES))
    member.type = rng.choice(
        (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE)
    )
    member.linkname = rng.choice(("/etc/passwd", "..", "manifest.json"))
    content = b"evil" if member.isreg() else b""
    member.size = len(content)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        tar.addfile(member, io.BytesIO(content))
    place = rng.randrange(len(data) // HEADER) * HEADER
    return data[:place] + made.getvalue()[: HEADER * (1 + bool(content))] + data[place:]


def without_names(data: bytes, rng: random.Random) -> bytes:
    """A name in the index and in its header becomes another one of the same length."""
    old, new = rng.choice(
        ((b"manifest.json", b"../ifest.json"), (b"study.toml", b"/tudy.toml"), (b"trials/", b"../als/"))
    )
    return data.replace(old, new)


INSIDE: tuple[Mutation, ...] = (flip, flip, cut, repeat, append, zeros, with_member, without_names)
"""Of the tar file, which is compressed anew."""
OUTSIDE: tuple[Mutation, ...] = (flip, cut, append)
"""Of the compressed file."""


class PackFuzzer:
    """Case after case in a folder of its own."""

    def __init__(self, originals: Originals, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._pack = folder / "whole.rldyno.tar.gz"
        made = call(["pack", str(originals[SEALED]), "--out", str(self._pack)], Report(), "originals")
        assert made.code == 0, made.output
        self._whole = self._pack.read_bytes()
        self._inside = gzip.decompress(self._whole)
        self._expected: dict[str, bytes] = {}

    def warm_up(self) -> None:
        done = self._unpack(self._pack, Report(), "warm-up")
        assert done == 0
        self._expected = contents(self.folder / "home" / "out")
        call(["board", str(self._pack), "--out", str(self.folder / "site")], Report(), "warm-up")

    def _unpack(self, pack: Path, report: Report, what: str) -> int:
        home = self.folder / "home"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        ended = call(["unpack", str(pack), "--out", str(home / "out")], report, what)
        beside = sorted(path.name for path in home.iterdir())
        if beside != (["out"] if ended.code == 0 else []):
            report.failures.append(f"{what}: left beside the target: {beside}")
        return ended.code

    def case(self, number: int, seed: int, report: Report) -> None:
        rng = random.Random(f"packs {seed} {number}")
        outside = rng.random() < 0.3
        mutation = rng.choice(OUTSIDE if outside else INSIDE)
        what = f"pack {number} of seed {seed}: {mutation.__name__} {'outside' if outside else 'inside'}"
        (self.folder / "now").write_text(what)
        changed = mutation(self._whole, rng) if outside else mutation(self._inside, rng)
        pack = self.folder / "damaged.rldyno.tar.gz"
        pack.write_bytes(changed if outside else gzip.compress(changed, 1))
        report.cases += 1
        code = self._unpack(pack, report, what)
        report.verdicts["refused" if code else "the same records"] += 1
        if code == 0 and contents(self.folder / "home" / "out") != self._expected:
            report.failures.append(f"{what}: other records were accepted")
        if Path("/tmp/rldyno-fuzz-pack").exists():
            report.failures.append(f"{what}: a file was written elsewhere")
        call(["board", str(pack), "--out", str(self.folder / "site")], report, what)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
