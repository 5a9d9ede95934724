"""Wild studies through every command that reads one, and through a run that only prepares its trials."""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path

from fuzz_calls import STUDY, Ended, Report, call
from rldyno.study.scripts import ScriptTable
from rldyno_rig.algorithms import ALGORITHMS

KEYS = (
    *("title", "question", "contestants", "algorithms", "environments", "max_episode_steps", "devices"),
    *(
        "cores",
        "workers",
        "collective",
        "scaling",
        "share_gpu",
        "seeds",
        "dtype",
        "division",
        "order_seed",
        "tensorboard",
        "caches",
        "budget",
    ),
    *("budget.steps", "budget.episodes", "budget.wall_s", "budget.stop", "hyper", "hyper.dqn", "nonsense"),
    *("hyper.dqn.learning_rate", "hyper.dqn.batch_size", "hyper.dqn.hidden", "hyper.dqn.CartPole-v1"),
    *("hyper.dqn.replay_size", "hyper.dqn.gamma", "hyper.ppo.clip", "hang_timeout_s", "sample_hz"),
    *("max_cpus", "adaptive", "quick", "quick.seeds", "quick.leaves_out", "atari", "atari.sticky"),
    *("atari.no_ops", "atari.frame_limit", "atari.life_loss", "script", "script.x.py", "script_sha256"),
    *(f"hyper.{algorithm}.{name}" for algorithm, known in ALGORITHMS.items() for name in vars(known.hyper())),
    *(f"script.x.py.{key}" for key in ScriptTable.model_fields),
    *(f"budget.stop.{key}" for key in ("return", "episodes", "ends")),
)
NUMBERS = (
    *("0", "-1", "1", "2", "3", "1_000", "1_000_000", "2147483648", "9223372036854775807"),
    *(
        "9223372036854775808",
        "1" + "0" * 20,
        "1" + "0" * 400,
        "-1" + "0" * 400,
        "1" + "0" * 12,
        "9" * 5000,
        "0.5",
        "1e-9",
        "1e308",
        "nan",
        "inf",
        "-inf",
        "-0.0",
    ),
)
TEXTS = (
    *(
        '""',
        '"x"',
        '"\\u001b[31m"',
        '"\\u0000"',
        '"../.."',
        '"[red]"',
        '"é"',
        f'"{"long" * 5000}"',
        "'''a\nb'''",
    ),
    *(
        '"CartPole-v1"',
        '"Pendulum-v1"',
        '"numpy:eager"',
        '"torch:eager"',
        '"dqn"',
        '"ppo"',
        '"cpu"',
        '"cuda"',
    ),
    *('"{seed:>99999999999}"', '"{seed!r}"', '"{seed.real}"', '"{"', '"script:x.py"', '"script:sb3"'),
    *('"ALE/Pong-v5"', '"torch@./x-1-py3-none-any.whl:eager"', '"jax@0.7.0:jit"', '"mean"', '"native"'),
    *('"float64"', '"warm"', '"cold"', '"open"', '"closed"'),
)
OTHERS = (
    *("true", "[]", "[[]]", "{}", "[1, 1]", "[1, 2]", '["a", 1]', "1979-05-27", "[1, 2, 3]", "[0.1, 0.2]"),
    *("[" * 200 + "]" * 200, "{ a = { b = { c = 1 } } }", "[" * 100_000, "{a=" * 2000 + "1" + "}" * 2000),
    *(
        '{ min = 5, max = 3, until = "x" }',
        '{ min = 2, max = 4, until = "resolved" }',
        "{ min = 1, max = 10000000 }",
    ),
    *(
        '["numpy:eager", "torch:eager"]',
        '["dqn", "ppo", "a2c", "rainbow"]',
        "{ return = 1e400, episodes = 3 }",
    ),
    *("{ return = 20, episodes = 3 }", "{ return = -1e308, episodes = 9223372036854775807 }"),
    f"[{', '.join(map(str, range(1, 16_001)))}]",
    f"[{', '.join(['1'] * 16_000)}]",
)
VALUES = (*NUMBERS, *TEXTS, *OTHERS)
PLAUSIBLE = (
    *(
        "title = ' '",
        "question = 'é [red]x[/red] {{ x }} %s'",
        "seeds = 1",
        "seeds = [0, 9223372036854775807]",
    ),
    *("seeds = { min = 2, max = 4 }", "seeds = { min = 2, max = 3, until = 'winner', within = 0.5 }"),
    *("max_episode_steps = 1", "max_episode_steps = [1, 2147483647]", "order_seed = 2147483647"),
    *("dtype = 'float64'", "caches = 'warm'", "algorithms = ['dqn', 'ppo', 'a2c', 'rainbow']", "workers = 1"),
    *(
        "budget.episodes = 1",
        "budget.wall_s = 1e-9",
        "budget.steps = 9007199254740992",
        "budget.wall_s = 1e300",
    ),
    *("budget.stop = { return = -1e308, episodes = 1 }", "hyper.dqn.learning_rate = [1e-300, 1.0]"),
    *("hyper.dqn.members = 3", "hyper.dqn.vote = 'majority'", "max_cpus = 1", "hyper.dqn.n_step = 5"),
    *("hyper.dqn.capacity = 1000000000000", "hyper.dqn.learning_rate = 1e30", "hyper.dqn.mask = 0.5"),
    *("hyper.dqn.hidden = [[1], [2, 3]]", "hyper.dqn.batch_size = 1", "hyper.dqn.gamma = 1.0"),
    *("environments = ['CartPole-v0', 'MountainCar-v0']", "hyper.dqn.CartPole-v1.hidden = [5]"),
)
"""Lines that a person might write, at the edge of what is allowed."""
TABLES = """
[script."x.py"]
interpreter = "{python}"
arguments = ["{{seed}}", "{{steps}}"]
variables = {{ MY_FLAG = "1" }}
"""
BASES = (
    *[STUDY] * 4,
    STUDY.replace("numpy:eager", "script:x.py") + TABLES.format(python=sys.executable),
    STUDY.replace("CartPole-v1", "ALE/Pong-v5") + "[atari]\nsticky = 0.25\nno_ops = 30\n",
    STUDY + "[quick]\nseeds = 1\nleaves_out = 'most'\n",
)
CHARACTERS = (0, 9, 10, 27, 34, 61, 91, 93, 123, 255, 0x85, 0xFEFF, 0x1F600, 0xDC80)
PREPARED_AT_MOST = 40
"""Trials of a study that is also run: each has a directory."""
RUN = ("--no-verify", "--no-limits", "--no-report", "--toolchain", "numpy={python}")


class StudyFuzzer:
    """Case after case in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "x.py").write_text("print('hello')\n")

    def warm_up(self) -> None:
        """Imports are no part of the time that a command takes."""
        self.case(-1, 0, Report())

    def case(self, number: int, seed: int, report: Report) -> None:
        rng = random.Random(f"studies {seed} {number}")
        what = f"study {number} of seed {seed}"
        (self.folder / "now").write_text(what)
        file = self.folder / "study.toml"
        file.write_bytes(mutated_study(rng).encode("utf-8", errors="surrogateescape"))
        report.cases += 1
        options = rng.choice(
            [[], [], ["--all"], ["--quick"], ["--seeds", rng.choice(("3", "2..4", "-1", "x", "9" * 30))]]
        )
        call(["plan", str(file), *options], report, what, columns=rng.choice((40, 80)))
        planned = call(["plan", str(file), "--json"], report, what)
        report.verdicts["refused" if planned.code else "accepted"] += 1
        self._run(file, planned, report, what)

    def _run(self, file: Path, planned: Ended, report: Report, what: str) -> None:
        """A study that is refused is refused by a run too; one that is accepted leaves readable records."""
        if planned.code == 0 and len(json.loads(planned.output)["trials"]) > PREPARED_AT_MOST:
            return
        out = self.folder / "results"
        shutil.rmtree(out, ignore_errors=True)
        run = ["run", str(file), "--out", str(out), *(part.format(python=sys.executable) for part in RUN)]
        ended = call(run, report, what)
        if planned.code:
            if ended.code != planned.code:
                report.failures.append(f"{what}: `plan` refuses it, `run` does not")
            return
        if not (out / "manifest.json").exists():
            return
        for command in ("status", "check", "plan"):
            read = call([command, str(out)], report, what)
            if read.code:
                report.failures.append(
                    f"{what}: the records of an accepted study: {command}: {read.output[:200]}"
                )
        call(run, report, what)


def mutated_study(rng: random.Random) -> str:
    text = rng.choice(BASES)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        match rng.randrange(8):
            case 0 | 1:
                text = _with_key(text, rng.choice(KEYS), rng.choice(VALUES))
            case 2:
                lines = text.splitlines()
                place = rng.randrange(len(lines))
                name = lines[place].partition("=")[0].strip() or "x"
                lines[place] = f"{name} = {rng.choice(VALUES)}"
                text = "\n".join(lines)
            case 3:
                text += f"\n{rng.choice(KEYS).rpartition('.')[2]} = {rng.choice(VALUES)}\n"
            case 4:
                place = rng.randrange(len(text))
                text = text[:place] + chr(rng.choice(CHARACTERS)) + text[place + rng.randrange(2) :]
            case _:
                key, _, value = rng.choice(PLAUSIBLE).partition(" = ")
                text = _with_key(text, key, value)
    return text


def _with_key(text: str, key: str, value: str) -> str:
    """Keys of a table go below its header, where it has one; what stood there is replaced."""
    table, _, name = key.rpartition(".")
    shown = table.replace("script.x.py", 'script."x.py"')
    kept = [line for line in text.splitlines() if line.partition("=")[0].strip() != name]
    header = f"[{shown}]"
    if header in kept:
        place = kept.index(header) + 1
        return "\n".join([*kept[:place], f"{name} = {value}", *kept[place:]])
    if shown != table:
        return "\n".join([*kept, header, f"{name} = {value}"])
    return "\n".join([f"{key} = {value}", *kept])
