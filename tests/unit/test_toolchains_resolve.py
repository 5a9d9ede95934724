from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rldyno.errors import Problem
from rldyno.toolchains import interpreters
from rldyno.toolchains import resolve as resolving
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.interpreters import Python, find_python, inspect
from rldyno.toolchains.resolve import ensure, parse_overrides, resolve


@pytest.fixture(autouse=True)
def own_cache_and_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    config = tmp_path / "config.toml"
    config.write_text("")
    monkeypatch.setenv("RLDYNO_CONFIG", str(config))
    return config


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_overrides_are_parsed_and_keep_the_link_of_a_virtual_environment() -> None:
    assert parse_overrides([f"numpy={sys.executable}"]) == {"numpy": Path(sys.executable)}


def test_a_bare_name_is_looked_up_on_path_and_its_link_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin" / "python3"
    link.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(link.parent))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse_overrides(["numpy=python3", "torch=~/bin/python3"]) == {"numpy": link, "torch": link}
    assert resolve("numpy", parse_overrides(["numpy=python3"])).path == link


def test_a_name_in_the_config_file_is_looked_up_on_path_too(
    own_cache_and_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache_and_config.write_text('[toolchains]\nnumpy = "python-of-mine"\n')
    with pytest.raises(Problem, match="no program called `python-of-mine` is on PATH") as raised:
        resolve("numpy")
    assert f"{own_cache_and_config}:" in raised.value.message
    folder = own_cache_and_config.parent
    (folder / "python-of-mine").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(folder))
    assert resolve("numpy").path == folder / "python-of-mine"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["torch"], "--toolchain 'torch' is not of the form NAME=PYTHON"),
        (["torch="], "is not of the form NAME=PYTHON"),
        (["=/usr/bin/python3"], "is not of the form NAME=PYTHON"),
        (["trch=/usr/bin/python3"], "unknown toolchain `trch`, did you mean `torch`"),
        (["torch=/a", "torch=/b"], "--toolchain torch is given twice"),
        (["torch=pythn3"], "--toolchain torch=pythn3: no program called `pythn3` is on PATH"),
    ],
)
def test_wrong_overrides(texts: list[str], message: str) -> None:
    with pytest.raises(Problem) as raised:
        parse_overrides(texts)
    assert message in raised.value.message


def test_a_toolchain_that_is_not_built_names_the_command() -> None:
    with pytest.raises(Problem, match="the torch toolchain is not built") as raised:
        resolve("torch")
    assert raised.value.fix == "rldyno setup torch"


def test_a_given_interpreter_is_used_as_it_is() -> None:
    found = resolve("numpy", {"numpy": Path(sys.executable)})
    assert found.path == Path(sys.executable)
    assert found.origin == "given"
    assert not found.isolated
    assert found.python == "{}.{}.{}".format(*sys.version_info[:3])
    assert "numpy" in found.versions


def test_the_config_file_gives_interpreters_and_the_command_line_wins(own_cache_and_config: Path) -> None:
    own_cache_and_config.write_text('[toolchains]\nnumpy = "/nowhere/python"\n')
    with pytest.raises(Problem, match="does not exist: /nowhere/python"):
        resolve("numpy")
    assert ensure(["numpy"], {"numpy": Path(sys.executable)})["numpy"].origin == "given"


def test_a_misspelt_framework_in_the_config_file(own_cache_and_config: Path) -> None:
    own_cache_and_config.write_text('[toolchains]\nnunpy = "/usr/bin/python3"\n')
    with pytest.raises(Problem, match="unknown toolchain `nunpy`, did you mean `numpy`") as raised:
        resolve("numpy")
    assert str(own_cache_and_config) in raised.value.message


def test_given_a_directory(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="is a directory") as raised:
        resolve("numpy", {"numpy": tmp_path})
    assert str(tmp_path / "bin" / "python") in str(raised.value.fix)


def test_given_something_that_is_no_interpreter(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="does not run") as raised:
        resolve("numpy", {"numpy": script(tmp_path / "python", "echo libfoo.so is missing >&2; exit 127")})
    assert raised.value.detail == "libfoo.so is missing"


def test_given_a_file_that_cannot_be_executed(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("")
    with pytest.raises(Problem, match="does not run") as raised:
        resolve("numpy", {"numpy": tmp_path / "python"})
    assert raised.value.detail == "Permission denied"


def given_with_parts(folder: Path) -> Path:
    """An interpreter that has all that it is asked for."""
    answer = '{"python": "3.11.7", "failed": null, "error": null, "versions": {}}'
    return script(folder / "python", f"echo 'rldyno-inspection {answer}'")


@pytest.mark.parametrize(("framework", "need", "by_mpi"), [
    ("chainer", "native", True), ("chainer", "host", True), ("torch", "host", True),
    ("torch", "horovod", False), ("torch", "atari", False),
])  # fmt: skip
@pytest.mark.parametrize("where", ["beside", "on PATH"])
def test_mpi_of_a_given_interpreter_starts_only_workers_that_meet_through_it(
    framework: str, need: str, by_mpi: bool, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    mpiexec = script((tmp_path if where == "beside" else tmp_path / "bin") / "mpiexec", "")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    found = resolve(framework, {framework: given_with_parts(tmp_path)}, needs=[need])
    (part,) = found.parts.values()
    assert part.mpiexec == (mpiexec if by_mpi else None)


def test_given_an_interpreter_with_mpi_but_without_mpiexec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    given = {"chainer": given_with_parts(tmp_path)}
    with pytest.raises(Problem, match="has mpi4py, but there is no mpiexec") as raised:
        resolve("chainer", given, needs=["native"])
    assert str(tmp_path / "mpiexec") in str(raised.value.fix)
    assert not resolve("chainer", given).parts


def test_given_an_old_python(tmp_path: Path) -> None:
    answer = '{"python": "3.6.15", "failed": null, "error": null, "versions": {}}'
    old = script(tmp_path / "python", f"echo 'rldyno-inspection {answer}'")
    with pytest.raises(Problem, match=r"is Python 3\.6\.15"):
        resolve("numpy", {"numpy": old})


def test_given_an_interpreter_without_the_framework() -> None:
    with pytest.raises(Problem, match="cannot import stable_baselines3") as raised:
        resolve("sb3", {"sb3": Path(sys.executable)})
    assert "No module named 'stable_baselines3'" in str(raised.value.detail)


def test_a_folder_named_like_a_framework_is_not_mistaken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise RuntimeError('the wrong one')")
    monkeypatch.chdir(tmp_path)
    assert inspect(Path(sys.executable), ["numpy"], isolated=False).error is None


def test_modules_that_print_do_not_garble_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "chatty.py").write_text("print('{', end='')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert inspect(Path(sys.executable), ["chatty"], isolated=False).failed is None
    assert inspect(Path(sys.executable), ["chatty"], isolated=True).failed == "chatty"


def test_the_machine_chooses_the_variant_and_the_config_overrules_it(
    own_cache_and_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolving, "machine_variant", lambda: "cuda")
    assert resolving.chosen_variant(toolchain("torch")) == "cuda"
    assert resolving.chosen_variant(toolchain("numpy")) == "cpu"
    own_cache_and_config.write_text('variant = "cpu"\n')
    assert resolving.chosen_variant(toolchain("torch")) == "cpu"


def test_the_running_python_is_preferred_then_the_newest_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_python(">=3.11").path == Path(sys.executable)
    others = [Python(Path("/a"), "3.9.18"), Python(Path("/b"), "3.10.2"), Python(Path("/c"), "3.10.13")]
    monkeypatch.setattr(interpreters, "installed_pythons", lambda: others)
    assert find_python(">=3.9,<3.11").path == Path("/c")
    with pytest.raises(Problem, match=r"no Python <3\.9 on this machine"):
        find_python("<3.9")


def test_a_shim_that_does_not_start_is_no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "python3.9", "exit 127")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))
    assert [found.path for found in interpreters.installed_pythons()] == [Path(sys.executable)]
