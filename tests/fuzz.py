"""Damaged and hostile records, and studies, through every command: `python tests/fuzz.py --help`.

Each case changes one thing and runs a command in this process. Exit codes and messages are right; tracebacks
are not, nor is an answer that counts an altered trial. `make fuzz` runs many cases, the unit tests few.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.records.seal import SEAL, seal_of

STUDY = """
title = "Fuzz"
contestants = "numpy:eager"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 2
cores = 1
[budget]
steps = 300
"""
TOO_LONG_S = 5.0
NOT_RECORDS = ("run.lock", "trial.lock", "worker.log", "report.html")
"""Files whose content no answer uses."""
WILD: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**63, 10**20, -1e308, 0.5, "", "x", "\x1b[31m\x07", "../../etc", "é" * 1000),
    *([], {}, [None], [[[]]], {"a": {"b": []}}, [1] * 1000),
)


@dataclass
class Report:
    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.outcomes.items()))
        return f"{self.cases:,} cases: {counts or 'none'}; {len(self.failures)} failures"


def call(arguments: Sequence[str], report: Report, what: str) -> Result:
    """Run a command; a traceback, raw escape sequences and a long wait are failures."""
    began = time.process_time()
    result = CliRunner().invoke(app, list(arguments))
    seconds = time.process_time() - began
    report.cases += 1
    problem = isinstance(result.exception, Problem)
    report.outcomes["problems" if problem else f"exit {result.exit_code}"] += 1
    if result.exception is not None and not problem and not isinstance(result.exception, SystemExit):
        report.failures.append(f"{what}: {arguments[0]}: {result.exception!r}")
    if "\x1b" in result.output:
        report.failures.append(f"{what}: {arguments[0]}: an escape sequence reached the terminal")
    if seconds > TOO_LONG_S:
        report.failures.append(f"{what}: {arguments[0]}: took {seconds:.1f} s")
    return result


# --- records ------------------------------------------------------------------------------------------------


def make_results(folder: Path) -> Path:
    """A small run with this interpreter: real records, sealed."""
    study = folder / "fuzz.toml"
    study.write_text(STUDY)
    options = ["--no-verify", "--no-limits", "--no-report", "--toolchain", f"numpy={sys.executable}"]
    done = CliRunner().invoke(app, ["run", str(study), "--out", str(folder / "results"), *options])
    assert done.exit_code == 0, done.output
    return folder / "results"


Mutation = Callable[[Path, random.Random], bool]
"""Changes a file; True when its content is another now and must not be accepted."""


def flip_bit(path: Path, rng: random.Random) -> bool:
    data = bytearray(path.read_bytes())
    if not data:
        return False
    place = rng.randrange(8 * len(data))
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)
    return True


def cut(path: Path, rng: random.Random) -> bool:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data) + 1)])
    return path.read_bytes() != data


def remove(path: Path, rng: random.Random) -> bool:
    path.unlink()
    return path.name != "calibrations.json"  # older directories have none


def repeat_line(path: Path, rng: random.Random) -> bool:
    """In JSON a line that stands twice means the same."""
    lines = path.read_bytes().splitlines(keepends=True)
    if not lines:
        return False
    place = rng.randrange(len(lines))
    path.write_bytes(b"".join([*lines[: place + 1], *lines[place:]]))
    return path.suffix != ".json"


def take_another(path: Path, rng: random.Random) -> bool:
    """The same file of another trial."""
    others = [other for other in path.parent.parent.glob(f"*/{path.name}") if other.parent != path.parent]
    if not others:
        return False
    data = rng.choice(others).read_bytes()
    changed = data != path.read_bytes()
    path.write_bytes(data)
    return changed


def put_link(path: Path, rng: random.Random) -> bool:
    path.unlink()
    path.symlink_to(rng.choice(["/etc/hostname", "/dev/zero", "nowhere"]))
    return True


def put_pipe(path: Path, rng: random.Random) -> bool:
    path.unlink()
    os.mkfifo(path)
    return True


def write_noise(path: Path, rng: random.Random) -> bool:
    path.write_bytes(rng.randbytes(rng.randrange(2000)))
    return True


def change_value(path: Path, rng: random.Random) -> bool:
    """Any value of a JSON record becomes a wild one, sealed anew: a hostile record, not a damaged one."""
    if path.suffix != ".json":
        return False
    values = json.loads(path.read_bytes())
    places = list(_places(values))
    if places:
        holder, key = rng.choice(places)
        holder[key] = rng.choice(WILD)
    if SEAL in values:
        del values[SEAL]
        values[SEAL] = seal_of(values)
    path.write_text(json.dumps(values))
    return False


def _places(value: Any) -> list[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for key, child in list(items):
        found += [(value, key), *_places(child)]
    return found


MUTATIONS: tuple[Mutation, ...] = (
    *(flip_bit, flip_bit, flip_bit, cut, remove, repeat_line, take_another, put_link, put_pipe, write_noise),
    *(change_value, change_value, change_value),
)
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("status", "{}"),
    ("report", "{}"),
    ("advise", "{}"),
    ("claims", "{}"),
    ("compare", "{}", "{original}"),
    ("export", "{}", "--format", "csv"),
    ("tensorboard", "{}"),
    ("plan", "{}"),
)


def fuzz_records(
    folder: Path, count: int, seed: int, commands: Sequence[tuple[str, ...]] = COMMANDS
) -> Report:
    """`count` damaged directories, each through `check` and one more command."""
    original = make_results(folder)
    files = [path.relative_to(original) for path in sorted(original.rglob("*")) if path.is_file()]
    files = [path for path in files if path.name not in NOT_RECORDS]
    report = Report()
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        damaged = folder / "damaged"
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(original, damaged)
        file, mutation = rng.choice(files), rng.choice(MUTATIONS)
        what = f"case {number} of seed {seed}, {mutation.__name__} of {file}"
        changed = mutation(damaged / file, rng)
        checked = call(["check", str(damaged)], report, what)
        if changed and checked.exit_code == 0 and checked.exception is None:
            report.failures.append(f"{what}: the alteration was accepted")
        command = rng.choice(commands)
        call([part.format(damaged, original=original) for part in command], report, what)
    return report


# --- studies ------------------------------------------------------------------------------------------------

KEYS = (
    *("title", "question", "contestants", "algorithms", "environments", "max_episode_steps", "devices"),
    *("cores", "workers", "seeds", "dtype", "division", "order_seed", "tensorboard", "caches", "budget"),
    *("budget.steps", "budget.episodes", "budget.wall_s", "budget.stop", "hyper", "hyper.dqn", "nonsense"),
    *("hyper.dqn.learning_rate", "hyper.dqn.batch_size", "hyper.dqn.hidden", "hyper.dqn.CartPole-v1"),
)
TOML_VALUES = (
    *(
        "0",
        "-1",
        "1",
        "2",
        "9223372036854775807",
        "9223372036854775808",
        "1" + "0" * 20,
        "1e308",
        "nan",
        "inf",
    ),
    *(
        '""',
        '"x"',
        '"\\u001b[31m"',
        '"../.."',
        "true",
        "[]",
        "[[]]",
        "{}",
        "[1, 1]",
        '["a", 1]',
        "1979-05-27",
    ),
    *("[" * 200 + "]" * 200, "{ a = { b = { c = 1 } } }", '{ min = 5, max = 3, until = "x" }', "[1, 2, 3]"),
    *(
        '"CartPole-v1"',
        '["numpy:eager", "torch:eager"]',
        "{ return = 1e400, episodes = 3 }",
        "0.5",
        "1_000_000",
    ),
    f"[{', '.join(map(str, range(1, 16_001)))}]",
)


def fuzz_studies(folder: Path, count: int, seed: int) -> Report:
    """`count` mutated studies through `plan`."""
    report = Report()
    file = folder / "study.toml"
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        file.write_text(_mutated_study(rng), encoding="utf-8", errors="surrogateescape")
        call(
            ["plan", str(file), *rng.choice([[], ["--json"], ["--all"]])],
            report,
            f"study {number} of seed {seed}",
        )
    return report


def _mutated_study(rng: random.Random) -> str:
    text = STUDY
    for _ in range(rng.choice([1, 1, 2, 3])):
        match rng.randrange(4):
            case 0:
                key = rng.choice(KEYS)
                kept = [line for line in text.splitlines() if line.partition("=")[0].strip() != key]
                text = "\n".join([f"{key} = {rng.choice(TOML_VALUES)}", *kept])
            case 1:
                lines = text.splitlines()
                place = rng.randrange(len(lines))
                name = lines[place].partition("=")[0].strip() or "x"
                lines[place] = f"{name} = {rng.choice(TOML_VALUES)}"
                text = "\n".join(lines)
            case 2:
                text += f"\n{rng.choice(KEYS).rpartition('.')[2]} = {rng.choice(TOML_VALUES)}\n"
            case 3:
                place = rng.randrange(len(text))
                text = (
                    text[:place] + chr(rng.choice([0, 9, 27, 34, 91, 123, 255, 0x1F600])) + text[place + 1 :]
                )
    return text


FUZZERS: dict[str, Callable[[Path, int, int], Report]] = {"records": fuzz_records, "studies": fuzz_studies}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=[*FUZZERS, "all"])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    failed = 0
    for name in FUZZERS if given.what == "all" else [given.what]:
        with tempfile.TemporaryDirectory() as folder:
            report = FUZZERS[name](Path(folder), given.count, given.seed)
        print(f"{name}: {report}")
        for failure in report.failures[:50]:
            print(f"  {failure}")
        failed += len(report.failures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
