"""Building toolchains for real, from a wheel made here: no network."""

from __future__ import annotations

import base64
import hashlib
import inspect
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import psutil
import pytest

TOOLCHAIN = """
framework = "tiny"
backend = "tiny_"
import_name = "rldyno_tiny"
summary = "for tests"
python = ">=3.11"

[modes]
eager = ["cpu"]

[cpu]
steps = [["rldyno-tiny=={version}"]]
"""


class Machine:
    """A user with a config file, a wheel house and a cache of their own."""

    def __init__(self, home: Path) -> None:
        self.cache = home / "cache"
        self.wheels = home / "wheels"
        self.files = home / "toolchains"
        for directory in (self.wheels, self.files):
            directory.mkdir()
        config = home / "config.toml"
        config.write_text(
            f'toolchain_dirs = ["{self.files}"]\npip_args = ["--no-index", "--find-links", "{self.wheels}"]\n'
        )
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
            "RLDYNO_CACHE_DIR": str(self.cache),
            "RLDYNO_CONFIG": str(config),
        }
        self.pin("1.0")

    def pin(self, version: str) -> None:
        (self.files / "tiny.toml").write_text(TOOLCHAIN.format(version=version))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "rldyno", *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, error = process.communicate(timeout=120)
        return subprocess.CompletedProcess(arguments, process.returncode, out, error)

    def directories(self) -> list[Path]:
        return sorted(path for path in self.cache.glob("toolchains/tiny-*") if path.is_dir())

    def only_directory(self) -> Path:
        (directory,) = self.directories()
        return directory

    def log(self) -> str:
        (log,) = self.cache.glob("toolchains/logs/tiny-*.log")
        return log.read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    write_wheel(machine.wheels, "1.0")
    return machine


def write_wheel(
    directory: Path, version: str, source: str = "", name: str = "rldyno_tiny", requires: str = ""
) -> None:
    """A wheel of one module; `source` follows its version line."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": f"__version__ = {version!r}\n{source}\n",
        f"{info}/METADATA": metadata + (f"Requires-Dist: {requires}\n" if requires else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{name},sha256={_digest(text)},{len(text)}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""])
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def wait_for(condition: str, directory: Path, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not list(directory.glob(condition)):
        assert time.monotonic() < deadline, f"{condition} did not appear"
        time.sleep(0.02)


def running_in(directory: Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if str(directory) in " ".join(process.info["cmdline"] or [])
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def test_built_once_then_reused_then_rebuilt_for_new_pins_then_pruned(machine: Machine) -> None:
    first = machine.run("setup", "tiny")
    assert first.returncode == 0, first.stderr
    assert "tiny (cpu): built" in first.stdout
    assert "rldyno-tiny 1.0" in first.stdout
    old = machine.only_directory()
    ready = json.loads((old / "ready.json").read_text())
    assert ready["versions"]["rldyno-tiny"] == "1.0"
    assert ready["size_bytes"] > 1_000_000
    assert ready["fingerprint"] in old.name

    again = machine.run("setup", "tiny")
    assert "tiny (cpu): ready" in again.stdout
    assert json.loads((old / "ready.json").read_text()) == ready

    write_wheel(machine.wheels, "1.1")
    machine.pin("1.1")
    listed = machine.run("setup", "--list")
    assert any(line.split()[:2] == ["tiny", "outdated"] for line in listed.stdout.splitlines())
    changed = machine.run("setup", "tiny")
    assert "rldyno-tiny 1.1" in changed.stdout
    assert len(machine.directories()) == 2

    offered = machine.run("setup", "--prune")
    assert old.name in offered.stdout
    assert "nothing removed" in offered.stdout
    assert old.exists()
    pruned = machine.run("setup", "--prune", "--yes")
    assert pruned.returncode == 0, pruned.stderr
    assert machine.only_directory() != old
    assert "nothing to remove" in machine.run("setup", "--prune", "--yes").stdout


def test_packages_of_the_user_are_remembered_and_survive_new_pins(machine: Machine) -> None:
    def versions() -> dict[str, str]:
        newest = max(machine.directories(), key=lambda directory: (directory / "ready.json").stat().st_mtime)
        installed: dict[str, str] = json.loads((newest / "ready.json").read_text())["versions"]
        return installed

    write_wheel(machine.wheels, "0.3", name="my_grid")
    added = machine.run("setup", "tiny", "--with", "my-grid")
    assert added.returncode == 0, added.stderr
    assert "my-grid 0.3" in added.stdout
    assert versions()["my-grid"] == "0.3"
    assert "tiny (cpu): ready" in machine.run("setup", "tiny").stdout
    assert "with my-grid" in machine.run("setup", "--list").stdout

    write_wheel(machine.wheels, "1.1")
    machine.pin("1.1")
    assert machine.run("setup", "tiny").returncode == 0
    assert (versions()["my-grid"], versions()["rldyno-tiny"]) == ("0.3", "1.1")

    # One that would change a pin is refused, and nothing is remembered of it.
    write_wheel(machine.wheels, "2.0", name="greedy", requires="rldyno-tiny==1.0")
    refused = machine.run("setup", "tiny", "--with", "greedy")
    assert refused.returncode == 1
    assert "choose versions of your packages that work with the pins" in refused.stderr
    assert "tiny (cpu): ready" in machine.run("setup", "tiny").stdout

    assert machine.run("setup", "tiny", "--without", "my-grid").returncode == 0
    assert "my-grid" not in versions()


@pytest.mark.parametrize("lost", ["rldyno_tiny.py", "rldyno_tiny-1.0.dist-info"])
def test_a_toolchain_that_lost_a_package_is_built_again(machine: Machine, lost: str) -> None:
    assert machine.run("setup", "tiny").returncode == 0
    (place,) = machine.only_directory().glob(f"lib/python*/site-packages/{lost}")
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    listed = machine.run("setup", "--list")
    assert any(line.split()[:2] == ["tiny", "damaged"] for line in listed.stdout.splitlines())
    again = machine.run("setup", "tiny")
    assert again.stdout.count(f"the tiny toolchain has lost {lost}: building it again") == 1
    assert "tiny (cpu): built" in again.stdout
    assert place.exists()
    assert "tiny (cpu): ready" in machine.run("setup", "tiny").stdout


PART = """
[collectives]
horovod = ["cpu"]

[parts.extra]
summary = "for tests"
collectives = ["horovod"]
import_name = "rldyno_part"
steps = [["rldyno-helper==1.0"]]

[parts.extra.source]
package = "rldyno-part==2.0"
tools = ["rldyno-tool==1.0"]
edits = [{ file = "flags.txt", old = "old", new = "new" }]
variables = { RLDYNO_FLAG = "on" }
"""
# Builds itself as a package does that is compiled: with a tool, against the toolchain.
BACKEND = """
def build_wheel(place, *_):
    import rldyno_tiny, rldyno_tool
    Path(os.environ.get("RLDYNO_STARTED", os.devnull)).touch()
    time.sleep(float(os.environ.get("RLDYNO_SLEEP_S", 0)))
    given = [Path("flags.txt").read_text(), os.environ["RLDYNO_FLAG"]]
    write_wheel(Path(place), "2.0", f"GIVEN = {given}", "rldyno_part")
    return "rldyno_part-2.0-py3-none-any.whl"
"""


def write_source(directory: Path) -> None:
    imports = "import base64, hashlib, os, time, zipfile\nfrom pathlib import Path\n"
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": imports + inspect.getsource(write_wheel) + inspect.getsource(_digest) + BACKEND,
        "flags.txt": "old",
    }
    with tarfile.open(directory / "rldyno-part-2.0.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"rldyno-part-2.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))


def test_a_part_is_compiled_beside_the_toolchain_and_built_again_after_a_kill(
    machine: Machine, tmp_path: Path
) -> None:
    for name in ("rldyno_helper", "rldyno_tool"):
        write_wheel(machine.wheels, "1.0", name=name)
    write_source(machine.wheels)
    (machine.files / "tiny.toml").write_text(TOOLCHAIN.format(version="1.0") + PART)
    assert machine.run("setup", "tiny").returncode == 0
    directory = machine.only_directory()
    ready = (directory / "ready.json").read_bytes()

    started = tmp_path / "started"
    machine.environment |= {"RLDYNO_STARTED": str(started), "RLDYNO_SLEEP_S": "600"}
    builder = machine.start("setup", "tiny", "--with", "extra")
    wait_for(started.name, tmp_path, timeout_s=120)
    builder.send_signal(signal.SIGKILL)
    builder.communicate()
    assert running_in(directory / "parts"), "the killed build's pip should still be there"
    assert "part extra   absent" in machine.run("setup", "--list").stdout

    machine.environment["RLDYNO_SLEEP_S"] = "0"
    built = machine.run("setup", "tiny", "--with", "extra")
    assert built.returncode == 0, built.stderr
    assert "rldyno-helper 1.0" in built.stdout
    assert running_in(directory / "parts") == []
    assert (directory / "ready.json").read_bytes() == ready
    assert "part extra   ready" in machine.run("setup", "--list").stdout
    (site,) = directory.glob("parts/extra-*/lib/python*/site-packages")
    look = f"import sys; sys.path.append({str(site)!r}); import rldyno_part; print(rldyno_part.GIVEN)"
    seen = subprocess.run([directory / "bin" / "python", "-I", "-c", look], capture_output=True, text=True)
    assert seen.stdout.strip() == "['new', 'on']", seen.stderr


def test_a_killed_build_is_redone(machine: Machine) -> None:
    builder = machine.start("setup", "tiny")
    wait_for("toolchains/tiny-*/bin/python", machine.cache)
    builder.send_signal(signal.SIGKILL)
    builder.communicate()
    directory = machine.only_directory()
    assert not (directory / "ready.json").exists()
    assert running_in(directory), "the killed build's child should still be writing here"
    assert "unfinished" in machine.run("setup", "--prune").stdout

    redone = machine.run("setup", "tiny")
    assert redone.returncode == 0, redone.stderr
    assert "tiny (cpu): built" in redone.stdout
    assert (directory / "ready.json").exists()
    assert running_in(directory) == []


def test_an_interrupted_build_leaves_nothing(machine: Machine) -> None:
    builder = machine.start("setup", "tiny")
    wait_for("toolchains/tiny-*/bin/python", machine.cache)
    builder.send_signal(signal.SIGINT)
    _, error = builder.communicate(timeout=120)
    assert builder.returncode != 0
    assert "Traceback" not in error
    assert machine.directories() == []
    assert running_in(machine.cache) == []


def test_two_processes_build_once(machine: Machine) -> None:
    builders = [machine.start("setup", "tiny") for _ in range(2)]
    outputs = sorted(builder.communicate(timeout=120)[0] for builder in builders)
    assert [builder.returncode for builder in builders] == [0, 0]
    built, waited = sorted(outputs, key=lambda output: "waiting" in output)
    assert "tiny (cpu): built" in built
    assert "waiting: another process builds it" in waited
    assert "tiny (cpu): ready" in waited
    assert machine.log().count("-m venv") == 1


def test_a_failing_install_shows_pips_last_lines(machine: Machine) -> None:
    text = TOOLCHAIN.format(version="1.0").replace("rldyno-tiny==1.0", "rldyno-tinier==1.0")
    (machine.files / "tiny.toml").write_text(text)
    failed = machine.run("setup", "tiny")
    assert failed.returncode == 1
    assert "the tiny toolchain could not be built: installing failed" in failed.stderr
    assert "No matching distribution found for rldyno-tinier==1.0" in failed.stderr
    assert "fix: " in failed.stderr
    assert machine.directories() == []


def test_a_failing_install_says_why_and_leaves_nothing(machine: Machine) -> None:
    machine.pin("9.9")
    failed = machine.run("setup", "tiny")
    assert failed.returncode == 1
    assert "the tiny toolchain could not be built: pip finds no rldyno-tiny 9.9" in failed.stderr
    assert "fix: choose from: 1.0" in failed.stderr
    assert "not built: tiny" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert machine.directories() == []
    assert "No matching distribution" in machine.log()


def test_what_does_not_import_is_not_ready(machine: Machine) -> None:
    write_wheel(machine.wheels, "2.0", "raise ImportError('libtiny.so.3 is missing')")
    machine.pin("2.0")
    failed = machine.run("setup", "tiny")
    assert failed.returncode == 1
    assert "`import rldyno_tiny` fails" in failed.stderr
    assert "libtiny.so.3 is missing" in failed.stderr
    assert machine.directories() == []


def test_one_failure_does_not_keep_the_others_from_being_built(machine: Machine) -> None:
    broken = TOOLCHAIN.format(version="9.9").replace('"tiny"', '"another"')
    (machine.files / "another.toml").write_text(broken)
    result = machine.run("setup", "another", "tiny")
    assert result.returncode == 1
    assert "tiny (cpu): built" in result.stdout
    assert "not built: another" in result.stderr


def test_pip_arguments_are_passed_on(machine: Machine, tmp_path: Path) -> None:
    elsewhere = tmp_path / "a house"
    elsewhere.mkdir()
    write_wheel(elsewhere, "3.0")
    machine.pin("3.0")
    built = machine.run("setup", "tiny", "--pip-args", f"--no-index --find-links '{elsewhere}'")
    assert built.returncode == 0, built.stderr
    assert "rldyno-tiny 3.0" in built.stdout
    listed = machine.run("setup", "--list")
    assert any(line.split()[:2] == ["tiny", "ready"] for line in listed.stdout.splitlines())


def test_doctor_names_a_given_interpreter_that_is_wrong(machine: Machine) -> None:
    result = machine.run("doctor", "--quick", "--toolchain", "tiny=/nowhere/python")
    assert "the interpreter given for tiny does not exist: /nowhere/python" in result.stdout
    wrong = machine.run("doctor", "--toolchain", "tiny")
    assert wrong.returncode == 2
    assert "not of the form NAME=PYTHON" in wrong.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["setup", "tinny"], "unknown toolchain `tinny`, did you mean `tiny`?"),
        (["setup", "tiny", "--variant", "gpu"], "unknown variant `gpu`"),
        (["setup", "tiny", "--variant", "cuda"], "the tiny toolchain has no cuda variant"),
        (["setup", "tiny", "--pip-args", "'open"], "No closing quotation"),
    ],
)
def test_wrong_input_is_one_message(machine: Machine, arguments: list[str], message: str) -> None:
    result = machine.run(*arguments)
    assert result.returncode != 0
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert machine.directories() == []
