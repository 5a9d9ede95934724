"""Ways to damage or forge a results directory. Each says what `rldyno check` must make of it."""

from __future__ import annotations

import enum
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz_beside import is_beside
from rldyno.records.calibrations import CALIBRATIONS_FILE
from rldyno.records.directory import CERTIFICATES
from rldyno.records.seal import SEAL, file_hashes, seal_of
from rldyno_rig import schema

FOREIGN = "foreign"
"""A trial of another directory."""
HUGE = int("9" * 300)
BEYOND = 10**400
"""More than any float holds."""
SCRIPT_TAG = "<script>fuzz()"
"""No page may hold it as it is."""
MARKUP = f"</script>{SCRIPT_TAG}</script>"
WILD: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2**31, 2**63 - 1, 2**63, 10**20, HUGE, BEYOND, -1e308, 1e308, 5e-324, 0.5),
    *(
        "",
        "x",
        "\x1b[31m\x07",
        "\x9b2J",
        "\0",
        "../../etc",
        "/etc/passwd",
        "\ud800",
        "é" * 1000,
        "\u202e",
        "nan",
    ),
    *("[red]x[/red]", "[/]", MARKUP, "{{ x }}", "%s", "\n\n\n", "a" * 100_000),
    *([], {}, [None], [[[]]], {"a": {"b": []}}, [1] * 1000, {"": None}, {"\x1b": 1}, [{}], ["x"] * 1000),
)


class Expect(enum.Enum):
    """What must follow from an alteration."""

    NAMED = "check names it, where there are seals"
    NAMED_ALWAYS = "check names it, also where there are none"
    FORGED = "sealed anew: may be believed"
    LOST = "trials and proofs may be lost, which every answer says; what is left has the same figures"
    IN_THE_WAY = "no record is changed: no figure may change"
    NOTHING = "nothing is changed that answers use: no figure may change"


Mutation = Callable[[Path, Path, random.Random, Path], Expect]
"""Of a results directory, one of its files, a source of chance and a foreign trial."""


# --- damage -------------------------------------------------------------------------------------------------


def flip_bit(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    data = bytearray(path.read_bytes())
    if not data:
        return Expect.NOTHING
    before = bytes(data)
    place = rng.randrange(8 * len(data))
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)
    # 1e-16 and 1E-16 are one bit apart, and the same number.
    return Expect.NOTHING if _same_record(path, before) else Expect.NAMED


def cut(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data) + 1)])
    return Expect.NOTHING if _same_record(path, data) else Expect.NAMED


def remove(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    path.unlink()
    optional = path.name in (schema.OUTCOME_FILE, CALIBRATIONS_FILE) or path.parent.name == CERTIFICATES
    return Expect.LOST if optional or is_beside(path, root) else Expect.NAMED


def repeat_line(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    if not lines:
        return Expect.NOTHING
    place = rng.randrange(len(lines))
    path.write_bytes(b"".join([*lines[: place + 1], *lines[place:]]))
    return Expect.NOTHING if _same_record(path, data) else Expect.NAMED


def take_another(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    """The same file of another trial."""
    others = [other for other in path.parent.parent.glob(f"*/{path.name}") if other.parent != path.parent]
    if not others:
        return Expect.NOTHING
    before, data = path.read_bytes(), rng.choice(others).read_bytes()
    path.write_bytes(data)
    if data == before:
        return Expect.NOTHING
    # A record of another directory is as whole as it was there.
    return Expect.FORGED if path.parent == root or is_beside(path, root) else Expect.NAMED


def write_noise(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    path.write_bytes(rng.randbytes(rng.randrange(2000)))
    return Expect.NAMED


def insert_text(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    """Bytes that readers trip over: NUL, broken UTF-8, escape sequences, deep nesting, endless numbers."""
    data = path.read_bytes()
    place = rng.randrange(len(data) + 1)
    deep = b"[" * 200_000
    added = rng.choice(
        (b"\0", b"e999", b"\xff\xfe", b"\x1b]0;x\x07", deep, b"9" * 10_000, b"NaN", b"\xef\xbb\xbf", b"\r")
    )
    path.write_bytes(data[:place] + added + data[place:])
    return Expect.NOTHING if _same_record(path, data) else Expect.NAMED


def _same_record(path: Path, before: bytes) -> bool:
    """Whether a file still says the same: white space and a repeated key change nothing in JSON."""
    after = path.read_bytes()
    if path.suffix != ".json" or path.name in (schema.FACTS_FILE, schema.RESULT_FILE):
        return after == before
    try:
        return bool(json.loads(after) == json.loads(before))
    except (ValueError, RecursionError):
        return False


# --- what is no plain file ----------------------------------------------------------------------------------


def put_link(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    path.unlink()
    path.symlink_to(rng.choice(["/etc/hostname", "/dev/zero", "/dev/full", "nowhere", "/etc"]))
    return Expect.NAMED


def put_pipe(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    path.unlink()
    os.mkfifo(path)
    return Expect.NAMED


def put_folder(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    path.unlink()
    path.mkdir()
    return Expect.NAMED


def put_in_the_way(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    """Something stands where a command writes."""
    names = (
        "report.html",
        "export",
        "tensorboard",
        "figures",
        "run.lock",
        "nets.md",
        "manifest.damaged.json",
    )
    place = rng.choice(
        [root / name for name in names] + [path.parent / name for name in ("trial.lock", "attempts")]
    )
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    match rng.randrange(4):
        case 0:
            place.symlink_to("/nowhere/else")
        case 1:
            os.mkfifo(place)
        case 2:
            (place / "x").mkdir(parents=True)
        case 3:
            place.write_bytes(b"\xff")
    return Expect.IN_THE_WAY


def name_strangely(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    """A name on the disk is text of somebody else, too."""
    name = rng.choice(("\x1b[31mred", "\x07", "\u202ename", "a\nb", "[red]x", "[bold", SCRIPT_TAG))
    folder = root / rng.choice(("trials", "certificates", "curves", "slurm", ".", "open-more"))
    folder.mkdir(exist_ok=True)
    place = folder / f"{name}{path.suffix if folder.name != 'curves' else '.csv'}"
    if rng.random() < 0.3:
        place.mkdir()
    else:
        shutil.copyfile(path, place)
    return Expect.FORGED


# --- whole trials -------------------------------------------------------------------------------------------


def swap_trials(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    trials = sorted((root / "trials").glob("*"))
    if len(trials) < 2:
        return Expect.NOTHING
    first, second = rng.sample(trials, 2)
    aside = root / "aside"
    first.rename(aside)
    second.rename(first)
    aside.rename(second)
    return Expect.NAMED_ALWAYS


def remove_trial(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    trials = sorted((root / "trials").glob("*"))
    if not trials:
        return Expect.NOTHING
    chosen = rng.choice(trials)
    shutil.rmtree(chosen)
    if rng.random() < 0.5:
        chosen.symlink_to(foreign)
        return Expect.NAMED_ALWAYS
    return Expect.LOST


def add_trial(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    """A foreign trial, also named in the manifest, or one of ours named twice."""
    manifest = root / "manifest.json"
    if not manifest.is_file():
        return Expect.NOTHING
    if rng.random() < 0.5:
        shutil.copytree(foreign, root / "trials" / foreign.name)
    values = json.loads(manifest.read_bytes())
    match rng.randrange(4):
        case 0:
            values["trials"].append(values["trials"][0])
        case 1:
            values["trials"].append(rng.choice(("..", "/etc", "a/b", "\0", "", ".", 7, None)))
        case 2:
            values["trials"].append(foreign.name)
            if not (root / "trials" / foreign.name).exists():
                _write(manifest, values)
                return Expect.FORGED  # a trial that has not run
        case 3:
            shutil.copytree(foreign, root / "trials" / "another")
            return Expect.NAMED_ALWAYS
    _write(manifest, values)
    return Expect.NAMED_ALWAYS


# --- forgery ------------------------------------------------------------------------------------------------


def change_value(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    """Any value of a JSON record becomes a wild one, sealed anew."""
    if path.suffix != ".json":
        return flip_bit(root, path, rng, foreign)
    values = json.loads(path.read_bytes())
    places = _places(values)
    if places:
        holder, key = rng.choice(places)
        holder[key] = (
            rng.choice(WILD) if rng.random() < 0.8 or not _is_number(holder[key]) else holder[key] * 2 + 1
        )
    _write(path, values)
    return _expected_of_forgery(path, rng)


def remove_key(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    if path.suffix != ".json":
        return cut(root, path, rng, foreign)
    values = json.loads(path.read_bytes())
    places = [place for place in _places(values) if isinstance(place[0], dict)]
    holder, key = rng.choice(places)
    del holder[key]
    _write(path, values)
    return _expected_of_forgery(path, rng)


def set_schema(root: Path, path: Path, rng: random.Random, foreign: Path) -> Expect:
    if path.suffix != ".json" or path.name in (schema.FACTS_FILE, schema.RESULT_FILE):
        return remove(root, path, rng, foreign)
    values = json.loads(path.read_bytes())
    values["schema"] = rng.choice((999, 0, -1, "2", None, 2.5, [2], True))
    _write(path, values)
    return (
        Expect.NAMED_ALWAYS
        if path.parent.name != "attempts" and "attempts" not in path.parts
        else Expect.FORGED
    )


def _expected_of_forgery(path: Path, rng: random.Random) -> Expect:
    """Half of the forgers also correct the hashes that the outcome keeps of the worker's files."""
    outcome = path.with_name(schema.OUTCOME_FILE)
    if path.name in (schema.FACTS_FILE, schema.RESULT_FILE) and outcome.is_file():
        if rng.random() < 0.5:
            return Expect.NAMED
        values = json.loads(outcome.read_bytes())
        _write(outcome, {**values, "files": file_hashes(path.parent)})
    return Expect.FORGED


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _write(path: Path, values: Any) -> None:
    if SEAL in values:
        del values[SEAL]
        values[SEAL] = seal_of(values)
    path.write_text(json.dumps(values))


def _places(value: Any) -> list[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for key, child in list(items):
        found += [(value, key), *_places(child)]
    return found


MUTATIONS: tuple[Mutation, ...] = (
    *(flip_bit, flip_bit, flip_bit, cut, remove, repeat_line, take_another, write_noise, insert_text),
    *(put_link, put_pipe, put_folder, put_in_the_way, name_strangely, swap_trials, remove_trial, add_trial),
    *(change_value, change_value, change_value, change_value, remove_key, set_schema),
)
WHOLE_TRIALS = (swap_trials, remove_trial, add_trial)
"""These do not change the file that was drawn."""
