from __future__ import annotations

from pathlib import Path

import pytest

from rldyno.config import cache_dir, load_config
from rldyno.errors import Problem


@pytest.fixture
def config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("RLDYNO_CONFIG", str(path))
    return path


def test_without_a_file_nothing_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLDYNO_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_config().toolchains == {}
    assert load_config().pip_args == ()


def test_all_keys(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    config_file.write_text(
        'pip_args = ["--no-index"]\ntoolchain_dirs = ["~/mine"]\nvariant = "cpu"\n'
        '[toolchains]\ntorch = "~/conda/bin/python"\n'
    )
    config = load_config()
    assert config.pip_args == ("--no-index",)
    assert config.variant == "cpu"
    assert config.toolchain_dirs == (Path("/home/someone/mine"),)
    assert config.toolchains == {"torch": Path("/home/someone/conda/bin/python")}


def test_a_named_file_must_exist(config_file: Path) -> None:
    with pytest.raises(Problem, match=r"RLDYNO_CONFIG names .* which does not exist"):
        load_config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pip_arg = []", ":1: pip_arg: unknown key, did you mean 'pip_args'?"),
        ('pip_args = "--no-index"', ":1: pip_args: must be "),
        ('variant = "gpu"', ":1: variant: must be 'cpu' or 'cuda', not 'gpu'"),
        ("[toolchains]\ntorch = 3", ":2: toolchains.torch: must be "),
        ("pip_args = [", ":1: "),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_key(config_file: Path, text: str, message: str) -> None:
    config_file.write_text(text)
    with pytest.raises(Problem) as raised:
        load_config()
    assert message in raised.value.message
    assert str(config_file) in raised.value.message


def test_the_cache_can_be_moved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "big disk"))
    assert cache_dir() == tmp_path / "big disk"
