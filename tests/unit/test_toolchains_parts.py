"""Optional parts of toolchains: built once beside the toolchain, which stays as it is."""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from idle_process import idle_process
from rldyno.commands import setup as setup_command
from rldyno.errors import Problem
from rldyno.toolchains import build_part as building
from rldyno.toolchains.build_part import build_part
from rldyno.toolchains.catalogue import Part, Toolchain, catalogue, toolchain
from rldyno.toolchains.contents import contents
from rldyno.toolchains.installing import Installation
from rldyno.toolchains.interpreters import Inspection
from rldyno.toolchains.parts import InstalledPart, find_part, recipe_of, site_packages, superseded_parts
from rldyno.toolchains.resolve import ensure, part_states, resolve, state
from rldyno.toolchains.store import READY_FILE, Built, make_recipe, python_in, read_ready
from rldyno_rig.schema import PARTS_VARIABLE

NEED = {"any_of": ("a-compiler",), "why": "it compiles", "fix": "install a-compiler"}
COMPILED = Part.model_validate(
    {
        "summary": "compiled",
        "collectives": ("horovod",),
        "import_name": "compiled",
        "steps": (("helper==1.0",),),
        "source": {
            "package": "compiled==2.0",
            "edits": ({"file": "CMakeLists.txt", "old": "STANDARD 14", "new": "STANDARD 17"},),
            "tools": ("cmake==3.31.10",),
            "variables": {"WITHOUT_MPI": "1"},
        },
    }
)


@pytest.fixture(autouse=True)
def own_cache_and_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "config.toml").write_text("")
    monkeypatch.setenv("RLDYNO_CONFIG", str(tmp_path / "config.toml"))


@pytest.fixture
def built() -> Built:
    """NumPy's toolchain, as if it were built."""
    recipe, _ = make_recipe(toolchain("numpy"), "cpu")
    python = python_in(recipe.directory)
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    for folder in ("numpy", "numpy-1.0.dist-info"):
        (recipe.directory / "lib" / "python3.11" / "site-packages" / folder).mkdir(parents=True)
    ready = {
        "contents": contents(recipe.directory),
        "recipe": dataclasses.asdict(recipe),
        "versions": {"numpy": "1.0"},
        "size_bytes": 10,
        "install_s": 2.5,
        "built_at": 1.0,
    }
    (recipe.directory / READY_FILE).write_text(json.dumps(ready))
    found = read_ready(recipe.directory)
    assert found is not None
    return found


class Tools:
    """pip, as far as its files go."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.variables: list[dict[str, str]] = []
        self.fails_at = 99
        self.import_error: str | None = None
        self.edited = ""

    def run(self, command: list[str], step: str, variables: dict[str, str] | None = None) -> None:
        self.commands.append(command)
        self.variables.append(variables or {})
        if "download" in command:
            self._download(Path(command[command.index("--dest") + 1]))
            return
        prefix = Path(command[command.index("--prefix") + 1])
        if Path(command[-1]).is_dir():
            self.edited = (Path(command[-1]) / "CMakeLists.txt").read_text()
        for package in (argument.partition("==")[0] for argument in command if "==" in argument):
            site = prefix / "lib" / "python3.11" / "site-packages"
            (site / package).mkdir(parents=True)
            (site / f"{package}-1.0.dist-info").mkdir()
            (site / f"{package}-1.0.dist-info" / "METADATA").write_text(f"Name: {package}\nVersion: 1.0\n")
        (prefix / "bin").mkdir(exist_ok=True)
        (prefix / "bin" / "mpiexec").touch()
        if len(self.commands) == self.fails_at:
            raise KeyboardInterrupt

    def _download(self, folder: Path) -> None:
        folder.mkdir()
        text = b"set(STANDARD 14)"
        with tarfile.open(folder / "compiled-2.0.tar.gz", "w:gz") as tar:
            member = tarfile.TarInfo("compiled-2.0/CMakeLists.txt")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))

    def inspect(self, *_: object, **__: object) -> Inspection:
        return Inspection("3.11.7", None, self.import_error, {})


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Tools:
    tools = Tools()
    monkeypatch.setattr(Installation, "run", lambda _, *arguments: tools.run(*arguments))
    monkeypatch.setattr(building, "inspect", tools.inspect)
    return tools


def with_part(part: Part) -> Toolchain:
    """NumPy's toolchain with this part, called `compiled`."""
    return toolchain("numpy").model_copy(update={"parts": {"compiled": part}})


def test_every_contestant_has_the_same_mpi() -> None:
    parts = [chain.parts["mpi"].model_copy(update={"collectives": ()}) for chain in catalogue().values()]
    assert len(set(map(repr, parts))) == 1
    assert all(chain.part_of("host") == "mpi" for chain in catalogue().values())


def test_which_collectives_need_a_part() -> None:
    """ChainerMN rests on MPI; others of a framework need nothing besides, and Horovod needs its own."""
    for name, chain in catalogue().items():
        assert chain.part_of("native") == ("mpi" if name == "chainer" else None)
        assert chain.part_of("horovod") == ("horovod" if "horovod" in chain.collectives else None)


def test_parts_do_not_change_the_toolchain() -> None:
    for chain in catalogue().values():
        bare = chain.model_copy(update={"parts": {}, "collectives": {}})
        assert make_recipe(bare, "cpu") == make_recipe(chain, "cpu")


def test_it_is_built_once_beside_the_toolchain(built: Built, tools: Tools) -> None:
    chain = toolchain("numpy")
    before = sorted(path for path in built.directory.rglob("*"))
    part = build_part(chain, "mpi", built)
    assert part == build_part(chain, "mpi", built) == find_part(recipe_of(chain, "mpi", built))
    (command,) = tools.commands
    assert command[0] == str(built.python)
    assert {"--no-deps", "--ignore-installed", "mpi4py==4.1.2"} <= set(command)
    directory = recipe_of(chain, "mpi", built).directory
    assert part.versions == {"mpi4py": "1.0", "mpich": "1.0"}
    assert part.mpiexec == directory / "bin" / "mpiexec"
    assert part.variables[PARTS_VARIABLE] == str(site_packages(directory))
    assert part.variables["MPI4PY_LIBMPI"] == str(directory / "lib" / "libmpi.so.12")
    parts = built.directory / "parts"
    assert before == sorted(path for path in built.directory.rglob("*") if parts not in (path, *path.parents))
    assert read_ready(built.directory) == built


def test_one_that_is_interrupted_leaves_nothing(built: Built, tools: Tools) -> None:
    chain = with_part(COMPILED)
    recipe = recipe_of(chain, "compiled", built)
    for tools.fails_at in (1, 2, 4):
        tools.commands.clear()
        with pytest.raises(KeyboardInterrupt):
            build_part(chain, "compiled", built)
        assert len(tools.commands) == tools.fails_at
        assert not recipe.directory.exists()
        assert read_ready(built.directory) == built


def test_what_a_killed_build_left_does_not_count(built: Built, tools: Tools) -> None:
    recipe = recipe_of(toolchain("numpy"), "mpi", built)
    half = site_packages(recipe.directory) / "half"
    half.mkdir(parents=True)
    assert find_part(recipe) is None
    build_part(toolchain("numpy"), "mpi", built)
    assert not half.exists()


@pytest.fixture
def processes(built: Built) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A trial in the toolchain, and the pip of a build of its part that was killed."""
    directory = recipe_of(toolchain("numpy"), "mpi", built).directory
    with idle_process(built.python) as trial, idle_process(built.python, "--prefix", str(directory)) as pip:
        yield [trial, pip]


def test_pip_of_a_killed_build_is_ended_and_trials_are_not(
    built: Built, tools: Tools, processes: list[subprocess.Popen[bytes]]
) -> None:
    trial, pip = processes
    build_part(toolchain("numpy"), "mpi", built)
    pip.wait(60)
    assert trial.poll() is None
    mpiexec = recipe_of(toolchain("numpy"), "mpi", built).directory / "bin" / "mpiexec"
    mpiexec.unlink()
    with pytest.raises(Problem, match="has lost something, and its toolchain is in use"):
        build_part(toolchain("numpy"), "mpi", built)


def test_one_that_lost_a_program_is_built_again(built: Built, tools: Tools) -> None:
    chain = toolchain("numpy")
    recipe = recipe_of(chain, "mpi", built)
    build_part(chain, "mpi", built)
    (recipe.directory / "bin" / "mpiexec").unlink()
    assert find_part(recipe) is None
    assert build_part(chain, "mpi", built).mpiexec is not None
    assert len(tools.commands) == 2


def test_a_source_is_fetched_edited_and_compiled(built: Built, tools: Tools) -> None:
    part = build_part(with_part(COMPILED), "compiled", built, ["--no-index"])
    helper, cmake, fetch, compiling = tools.commands
    directory = recipe_of(with_part(COMPILED), "compiled", built).directory
    assert helper[-2:] == [str(directory), "helper==1.0"]
    assert fetch[-1] == "compiled==2.0"
    assert all("--no-index" in command for command in tools.commands)
    assert tools.edited == "set(STANDARD 17)"
    assert "--no-build-isolation" in compiling
    variables = tools.variables[-1]
    assert variables["WITHOUT_MPI"] == "1"
    tools_folder = Path(cmake[cmake.index("--prefix") + 1])
    assert variables["PATH"].startswith(str(tools_folder / "bin"))
    assert directory in Path(variables["TMPDIR"]).parents
    assert sorted(path.name for path in directory.iterdir()) == ["bin", "lib", READY_FILE]
    assert part.versions == {"helper": "1.0"}
    assert (directory / "bin" / "mpiexec").exists()
    assert part.mpiexec is None, "only the part that brings MPI starts workers through it"


def test_an_edit_that_fits_nothing_is_a_problem(built: Built, tools: Tools) -> None:
    assert COMPILED.source is not None
    edit = COMPILED.source.edits[0].model_copy(update={"old": "STANDARD 11"})
    source = COMPILED.source.model_copy(update={"edits": (edit,)})
    with pytest.raises(Problem, match=r"CMakeLists.txt has no line `STANDARD 11`"):
        build_part(with_part(COMPILED.model_copy(update={"source": source})), "compiled", built)


def test_a_missing_compiler_is_said_before_anything_is_built(built: Built, tools: Tools) -> None:
    part = Part.model_validate({**COMPILED.model_dump(), "needs": (NEED,)})
    with pytest.raises(Problem, match="compiled of the numpy toolchain needs a-compiler") as raised:
        build_part(with_part(part), "compiled", built)
    assert raised.value.detail == "it compiles"
    assert raised.value.fix == "install a-compiler; then rldyno setup numpy --with compiled"
    assert not tools.commands
    (shown,) = part_states(with_part(part), state(toolchain("numpy")))
    assert (shown.status, shown.lacks) == ("absent", ("a-compiler",))


def test_one_that_cannot_be_imported_does_not_count(built: Built, tools: Tools) -> None:
    tools.import_error = "libfoo is missing"
    with pytest.raises(Problem, match=r"was built, but `import mpi4py.MPI` fails") as raised:
        build_part(toolchain("numpy"), "mpi", built)
    assert raised.value.detail == "libfoo is missing"
    assert find_part(recipe_of(toolchain("numpy"), "mpi", built)) is None


def test_a_study_gets_the_parts_of_its_collectives(built: Built, tools: Tools) -> None:
    assert resolve("numpy").parts == {}
    assert ensure(["numpy"])["numpy"].parts == {}
    with pytest.raises(Problem, match="part mpi of the numpy toolchain is not built") as raised:
        resolve("numpy", needs=["host"])
    assert raised.value.fix == "rldyno setup numpy --with mpi"
    interpreter = ensure(["numpy"], needs={"numpy": ["host"]})["numpy"]
    part = interpreter.part_for("host")
    assert isinstance(part, InstalledPart)
    assert part.name == "mpi"
    assert interpreter.part_for("native") is None
    assert resolve("numpy", needs=["host"]) == interpreter


def test_an_interpreter_of_the_users_must_have_the_part() -> None:
    with pytest.raises(Problem, match=r"cannot import mpi4py\.MPI"):
        resolve("numpy", {"numpy": Path(sys.executable)}, needs=["host"])


def test_with_names_a_part_or_a_package() -> None:
    assert setup_command._parts_and_packages(["mpi", "ale-py"], []) == (["mpi"], ["ale-py"])
    assert setup_command._parts_and_packages(["horovod"], ["torch"]) == (["horovod"], [])
    with pytest.raises(Problem, match="the numpy toolchain has no part `horovod`") as raised:
        setup_command._parts_and_packages(["horovod"], ["torch", "numpy"])
    assert raised.value.fix == "these have it: mxnet, tensorflow, torch"


def test_parts_of_old_pins_are_offered_for_removal(built: Built, tools: Tools) -> None:
    chain = toolchain("numpy")
    build_part(chain, "mpi", built)
    current = recipe_of(chain, "mpi", built).directory
    assert superseded_parts(chain, built) == []
    old = current.with_name("mpi-000000000000")
    shutil.copytree(current, old)
    assert superseded_parts(chain, built) == [old]
