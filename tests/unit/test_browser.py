"""The browser of the report's tests: found or fetched, and the truth about it at the end of `make test`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import browser

WORKS, BROKEN = "exit 0", "echo 'libnss3.so: cannot open shared object file' >&2; exit 127"


def program(folder: Path, name: str, script: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no browser, whose root may install nothing; its PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv(browser.VARIABLE, raising=False)
    monkeypatch.setattr(browser, "playwrights_own", lambda: None)
    monkeypatch.setattr(browser, "_from_playwright", lambda: "Error: Failed to download Chrome")
    monkeypatch.setattr(browser.os, "geteuid", lambda: 1000)
    return folder


def test_a_system_browser_is_found_and_a_named_one_wins(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert browser.find() is None
    found = program(bare, "chromium-browser", WORKS)
    assert browser.find() == found
    assert browser.fetch() == f"browser for the tests of the report: {found}"
    mine = program(bare, "my-browser", WORKS)
    monkeypatch.setenv(browser.VARIABLE, mine)
    assert browser.find() == mine


def test_playwright_fetches_one(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def install() -> None:
        own = program(bare.parent / "cache", "chrome", WORKS)
        monkeypatch.setattr(browser, "playwrights_own", lambda: own)

    monkeypatch.setattr(browser, "_from_playwright", install)
    assert browser.fetch().endswith("/cache/chrome")


def test_root_of_a_container_gets_the_one_of_debian(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f'[ "$1" = update ] || printf "#!/bin/sh\\nexit 0\\n" > {bare}/chromium; '
    script += f"[ ! -e {bare}/chromium ] || /bin/chmod 755 {bare}/chromium"
    program(bare, "apt-get", script)
    assert "this is no container" in browser.fetch()
    monkeypatch.setattr(browser.os, "geteuid", lambda: 0)
    monkeypatch.setenv("CI", "true")
    assert browser.fetch() == f"browser for the tests of the report: {bare}/chromium"


def test_what_cannot_be_had_is_said_and_is_no_error(bare: Path) -> None:
    program(bare, "chromium", BROKEN)
    said = browser.fetch()
    assert said.startswith("no browser for the tests of the report")
    assert "libnss3.so" in said
    assert "Failed to download Chrome" in said


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (None, "NOT tested in a browser: its tests have not run"),
        ({"ran": 0, "skipped": 9, "reason": "Skipped: no browser"}, "NOT tested in a browser: Skipped: no"),
        ({"ran": 8, "skipped": 1, "reason": "one of them"}, "NOT tested in a browser: one of them"),
        ({"ran": 9, "skipped": 0, "reason": ""}, "The report was tested in a browser (9 tests)"),
    ],
)
def test_the_verdict(tmp_path: Path, left: dict[str, object] | None, said: str) -> None:
    if left is not None:
        path = tmp_path / "v" / browser.VERDICT
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(left))
    assert said in browser.verdict(tmp_path)


@pytest.mark.slow
def test_skipped_tests_end_in_the_verdict(tmp_path: Path) -> None:
    """The hooks of tests/e2e, in a run of their own without any browser."""
    home = Path(__file__).parents[1]
    (tmp_path / "conftest.py").write_text((home / "e2e" / "conftest.py").read_text())
    (tmp_path / "test_one.py").write_text(
        "import pytest\n\n@pytest.mark.browser\ndef test_one():\n    pytest.skip('no browser here')\n"
    )
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nmarkers =\n    browser\npythonpath = {home}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert browser.verdict(tmp_path / ".pytest_cache").endswith("no browser here")


def test_the_last_line_of_make_test_is_the_verdict() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    recipe = makefile.partition("\ntest:")[2].partition("\n\n")[0]
    assert recipe.splitlines()[-1].endswith("tests/browser.py verdict")
