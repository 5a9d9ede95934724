"""Damaged and forged results directories through every command that reads one."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import synthetic
from fuzz_beside import RELEASES, SINGLE, add_beside, write_single
from fuzz_calls import STUDY, Ended, Report, call
from fuzz_mutations import (
    FOREIGN,
    MUTATIONS,
    SCRIPT_TAG,
    WHOLE_TRIALS,
    Expect,
    put_folder,
    put_link,
    put_pipe,
)
from rldyno.errors import Problem
from rldyno.records.attempts import ATTEMPTS
from rldyno.results.load import load_results

STOPPING_STUDY = STUDY + "stop = { return = 15, episodes = 3 }\n"
GUEST_STUDY = (
    STUDY.replace('"numpy:eager"', '"script:train.py"').replace("seeds = 2", "seeds = 1")
    + '[script."train.py"]\ninterpreter = "{python}"\narguments = ["{{seed}}", "{{steps}}"]\n'
    + 'variables = {{ MY_FLAG = "1" }}\n'
)
SCRIPT = """
import sys
import gymnasium
env = gymnasium.make("CartPole-v1")
env.reset(seed=int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    if any(env.step(env.action_space.sample())[2:4]):
        env.reset()
"""
SEALED, UNSEALED, TEAM, GUEST, NETS = "sealed", "unsealed", "team", "guest", "nets"
KINDS = {SEALED: 12, UNSEALED: 4, TEAM: 2, GUEST: 2, NETS: 3}
"""What is damaged, and how often: a run with seals and all that lies beside trials, one of schema 1 with more
contestants, teams of schema 1, a script of the user's, and a directory without trials.
"""
IGNORED = ("run.lock", "trial.lock", "worker.log", "report.html")
"""Files whose content no answer uses. What they are (a link, a pipe) still matters."""
NETS_OPTIONS = "--contestants numpy:eager --nets mlp64 --rounds 2 --seconds 0.01 --no-verify"
READING: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("status", "{}"), ("status", "{}", "--follow")),
    (
        ("advise", "{}"),
        ("advise", "{}", "--json"),
        ("advise", "{}", "--goal", "usability"),
        ("advise", "{}", "--goal", "usability", "--json"),
    ),
    (("claims", "{}"), ("claims", "{}", "--json")),
    (("why", "{}"), ("why", "{}", "--json")),
    (("compare", "{}", "{original}"), ("compare", "{original}", "{}", "--markdown")),
    (("export", "{}", "--format", "both"), ("export", "{}", "--format", "csv", "--tables")),
    (("tensorboard", "{}"), ("tensorboard", "{}", "--follow")),
    (("plan", "{}"), ("plan", "{}/study.toml", "--json")),
    (
        ("pack", "{}", "--out", "{}/p"),
        ("pack", "{}", "--out", "{}/p", "--with-flaws"),
        ("pack", "{}", "--out", "{}/p", "--anonymous"),
        ("unpack", "{}/p", "--out", "{}/u"),
        ("board", "{}/p", "--out", "{}/site"),
    ),
    (("check", "{}", "--json"), ("nets", "show", "{}"), ("cancel", "{}")),
)
"""Every command that reads a results directory, each in forms of which a case gets one, drawn by lot."""
WITHOUT_TRIALS: tuple[tuple[str, ...], ...] = (
    ("nets", "show", "{}"),
    ("claims", "{}"),
    ("advise", "{}", "--goal", "usability"),
    ("bisect", "numpy", "--releases", ",".join(RELEASES), "--mode", "eager", "--out", "{}", "--rounds", "6"),
    ("check", "{}", "--json"),
)
"""Of a directory without trials: all of them."""
REPORT: tuple[tuple[str, ...], ...] = (
    ("report", "{}"),
    ("report", "{}", "--figures", "{}/figures", "--format", "csv,md,tex"),
    ("report", "{}", "--figures", "{}/pictures", "--format", "svg"),
)
"""Up to a second of CPU time: one of these for every REPORT_EVERY-th case."""
REPORT_EVERY = 10
RUN_OPTIONS = ("--no-verify", "--no-limits", "--no-report", "--toolchain", "numpy={python}")
CHANGING: tuple[tuple[str, ...], ...] = (
    ("trial", "{trial}"),
    ("run", "{}", *RUN_OPTIONS),
    ("run", "{}", "--amend", *RUN_OPTIONS, "--tensorboard"),
    ("check", "{}", "--repair"),
)
"""These change the directory: last, one for each case."""


@dataclass(frozen=True)
class Originals:
    folder: Path

    def __getitem__(self, kind: str) -> Path:
        return self.folder / kind


def make_originals(folder: Path) -> Originals:
    """A real run (proven, with attempts put aside), a synthetic one, and a nets.json.

    Those of an earlier call stay.
    """
    if (folder / FOREIGN).exists():
        return Originals(folder)
    report, given = Report(), ["--toolchain", f"numpy={sys.executable}"]
    study = folder / "fuzz.toml"
    study.write_text(STOPPING_STUDY)
    noise = ["--max-noise", "0", "--noise-attempts", "2"]
    commands = (
        ["run", str(study), "--out", str(folder / SEALED), "--no-report", "--no-limits", *noise, *given],
        ["nets", "--out", str(folder / NETS), *NETS_OPTIONS.split(), *given],
    )
    for command in commands:
        done = call(command, report, "originals")
        assert done.code == 0, done.output
    add_beside(folder / SEALED)
    write_single(folder / NETS, None)
    for path in (folder / NETS).iterdir():
        if path.name not in SINGLE:
            path.unlink()
    write_guest(folder / GUEST)
    shape = synthetic.Shape(algorithms=("dqn",), steps=3000, sample_hz=2, limits=True, pending=1)
    synthetic.write_results(folder / UNSEALED, shape)
    team = synthetic.Shape(
        [synthetic.NUMPY, synthetic.TORCH], ("dqn",), workers=(1, 2), seeds=2, steps=1000, sample_hz=2
    )
    synthetic.write_results(folder / TEAM, team)
    shutil.copytree(next((folder / UNSEALED / "trials").iterdir()), folder / FOREIGN, symlinks=True)
    return Originals(folder)


def write_guest(out: Path) -> None:
    home = out.with_name("guest-study")
    home.mkdir()
    (home / "train.py").write_text(SCRIPT)
    (home / "study.toml").write_text(GUEST_STUDY.format(python=sys.executable))
    run = ["run", str(home / "study.toml"), "--out", str(out), "--no-report", "--no-limits"]
    done = call(run, Report(), "originals")
    assert done.code == 0, done.output


class RecordFuzzer:
    """Case after case in a folder of its own."""

    def __init__(self, originals: Originals, folder: Path, through: int = 0) -> None:
        """`through`: so many commands for each case, drawn by lot; 0: all."""
        self.originals, self.folder, self.through = originals, folder, through
        folder.mkdir(parents=True, exist_ok=True)
        self._files = {kind: _files(originals[kind]) for kind in KINDS}
        self._figures = {kind: figures(originals[kind]) for kind in KINDS}

    def warm_up(self) -> None:
        """Imports are no part of the time that a command takes."""
        whole = self.folder / "whole"
        shutil.copytree(self.originals[SEALED], whole)
        for command in (*(form for forms in READING for form in forms), *REPORT):
            call(self._words(command, SEALED, whole, Path("study.toml")), Report(), "warm-up")

    def case(self, number: int, seed: int, report: Report) -> None:
        rng = random.Random(f"records {seed} {number}")
        kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
        file, mutation = rng.choice(self._files[kind]), rng.choice(MUTATIONS)
        what = f"record {number} of seed {seed}: {mutation.__name__} of {kind}/{file}"
        (self.folder / "now").write_text(what)
        damaged = self.folder / "damaged"
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(self.originals[kind], damaged)
        expect = mutation(damaged, damaged / file, rng, self.originals.folder / FOREIGN)
        report.cases += 1
        if (file.name in IGNORED or ATTEMPTS in file.parts) and mutation not in WHOLE_TRIALS:
            expect = Expect.NOTHING
        if file.suffix == ".csv" and file.parts[0] == "curves":
            expect = expect if mutation in (put_link, put_pipe, put_folder) else Expect.FORGED  # no seal
        shown = {
            "encoding": rng.choice(("utf-8", "utf-8", "ascii", "latin-1")),
            "columns": rng.choice((40, 80, 200)),
        }
        checked = call(["check", str(damaged)], report, what, **shown)
        report.verdicts[self._verdict(kind, damaged, expect, checked, report, what)] += 1
        commands = [rng.choice(forms) for forms in READING] if kind != NETS else list(WITHOUT_TRIALS)
        if number % REPORT_EVERY == 0 or is_shown(file):
            commands.append(rng.choice(REPORT))
        if self.through:
            commands = rng.sample(commands, self.through)
        commands.append(rng.choice(CHANGING))
        for command in commands:
            words = self._words(command, kind, damaged, file)
            call(words, report, what, **shown)
        for page in (*damaged.glob("report.html"), *damaged.glob("site/index.html")):
            if page.is_file() and not page.is_symlink() and SCRIPT_TAG in page.read_text(errors="replace"):
                report.failures.append(f"{what}: {page.name} holds the markup of a record as it is")

    def _words(self, command: Sequence[str], kind: str, damaged: Path, file: Path) -> list[str]:
        trial = damaged / (file.parent if file.parts[0] == "trials" else "trials")
        return [
            part.format(damaged, original=self.originals[kind], trial=trial, python=sys.executable)
            for part in command
        ]

    def _verdict(
        self, kind: str, damaged: Path, expect: Expect, checked: Ended, report: Report, what: str
    ) -> str:
        """What became of the alteration; one that is believed although it must not be is a failure."""
        if checked.code != 0:
            return "named"
        try:
            found = figures(damaged)
        except Exception as error:
            report.failures.append(f"{what}: reading it as a table: {error!r}")
            return "ACCEPTED"
        changed = any(self._figures[kind].get(name) != value for name, value in found.items())
        if kind in (UNSEALED, TEAM) and expect is not Expect.NAMED_ALWAYS:
            return "without a seal, believed" if changed else "without effect on figures"
        if expect in (Expect.NAMED, Expect.NAMED_ALWAYS) or (changed and expect is not Expect.FORGED):
            report.failures.append(f"{what}: the alteration was accepted")
            return "ACCEPTED"
        if len(found) < len(self._figures[kind]):
            return "lost, and every answer says so"
        return "sealed anew by a forger, believed" if changed else "without effect on figures"


def is_shown(file: Path) -> bool:
    """Whether only the report shows what is in it."""
    return file.name in (*SINGLE, "theirs.csv")


def _files(root: Path) -> list[Path]:
    return [path.relative_to(root) for path in sorted(root.rglob("*")) if path.is_file()]


def figures(directory: Path) -> dict[str, str]:
    """What answers are made from: of each trial that counts, of each proof, and of the directory."""
    try:
        results = load_results(directory)
    except Problem:
        return {}
    found = {
        "manifest": _text(results.manifest.to_json()),
        "study": results.study,
        **{f"certificate of {one.subject}": _text(one.to_json()) for one in results.certificates},
    }
    for row in results.trials.to_dicts():
        if row["status"] != "pending":
            series = [results.episodes(row["trial"]), results.progress(row["trial"])]
            measured = {name: value for name, value in row.items() if not name.startswith("certificate")}
            found[row["trial"]] = _text([measured, *(table.to_dicts() for table in series)])
    return found


def _text(value: Any) -> str:
    return json.dumps(value, default=str, sort_keys=True)
