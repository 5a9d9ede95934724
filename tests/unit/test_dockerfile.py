"""The Dockerfile names files, commands, toolchains and studies that exist. Docker is not needed for this."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

from packaging.specifiers import SpecifierSet

from rldyno.cli import app
from rldyno.config import CACHE_VARIABLE, CONFIG_VARIABLE
from rldyno.studies.shipped import shipped_studies
from rldyno.toolchains.catalogue import catalogue

HOME = Path(__file__).parents[2]
KNOWN = {"FROM", "RUN", "WORKDIR", "COPY", "ARG", "ENV", "ENTRYPOINT", "CMD"}


def instructions() -> list[tuple[str, str]]:
    """(instruction, its text), continuation lines joined, comments left out."""
    text = (HOME / "Dockerfile").read_text(encoding="utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    lines = [line.strip() for line in re.sub(r"\\\n\s*", "", code).splitlines() if line.strip()]
    found = [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]
    assert {word for word, _ in found} <= KNOWN
    return found


def of(word: str) -> list[str]:
    return [rest for found, rest in instructions() if found == word]


def commands() -> list[str]:
    return [part.strip() for rest in of("RUN") for part in rest.split("&&")]


def test_it_begins_with_one_base_whose_python_suits_every_framework() -> None:
    assert instructions()[0][0] == "FROM"
    (base,) = of("FROM")
    version = re.fullmatch(r"python:(3\.\d+)-slim-\w+", base)
    assert version, base
    for name, chain in catalogue().items():
        assert SpecifierSet(chain.python).contains(f"{version[1]}.0"), name


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    ignored = (HOME / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    copied = [source for rest in of("COPY") for source in rest.split()[:-1]]
    assert {"pyproject.toml", "src"} <= set(copied)
    for source in copied:
        assert (HOME / source).exists(), source
        assert f"!{source}" in ignored, source
    # What the build of the package reads must be among them.
    project = (HOME / "pyproject.toml").read_text()
    for named in re.findall(r'^(?:readme|license-files) = \[?"([^"]+)"', project, re.MULTILINE):
        assert named in copied


def test_commands_toolchains_and_studies_exist() -> None:
    names = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    shown = re.findall(r"\brldyno ([a-z]+)\b", (HOME / "Dockerfile").read_text())
    assert set(shown) - {"with"} <= names
    arguments = dict(rest.split("=", 1) for rest in of("ARG"))
    assert arguments["VARIANT"] == "cpu"
    assert set(shlex.split(arguments["TOOLCHAINS"])[0].split()) <= set(catalogue())
    assert json.loads(of("ENTRYPOINT")[0]) == ["rldyno"]
    run, study = json.loads(of("CMD")[0])
    assert (run, study in shipped_studies()) == ("run", True)
    assert any(command.endswith("rldyno setup $TOOLCHAINS") for command in commands())


def test_the_quickstart_finds_its_toolchains_in_the_image() -> None:
    study = tomllib.loads(shipped_studies()["quickstart"].read_text())
    arguments = dict(rest.split("=", 1) for rest in of("ARG"))
    built = shlex.split(arguments["TOOLCHAINS"])[0].split()
    assert {name.partition(":")[0] for name in study["contestants"]} <= set(built)


def test_settings_are_those_that_rldyno_reads() -> None:
    (settings,) = of("ENV")
    names = {part.partition("=")[0] for part in settings.split()}
    assert {CACHE_VARIABLE, CONFIG_VARIABLE} <= names


def test_every_variable_is_set_before_it_is_used() -> None:
    known: set[str] = {"PATH"}
    for word, rest in instructions():
        if word == "RUN":
            used = set(re.findall(r"\$\{?([A-Z_]+)", rest))
            assert used <= known, used - known
        elif word == "ARG":
            known.add(rest.partition("=")[0])
        elif word == "ENV":
            known |= {part.partition("=")[0] for part in rest.split()}


def test_layers_leave_no_package_lists_or_caches() -> None:
    for rest in of("RUN"):
        if "apt-get install" in rest:
            assert "--no-install-recommends" in rest
            assert "rm -rf /var/lib/apt/lists/*" in rest
        if "pip install" in rest:
            assert "--no-cache-dir" in rest
