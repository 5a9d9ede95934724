"""Fixtures of the tests that start processes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, sync_playwright

from browser import VERDICT, find
from private_slurm import COMMAND, PrivateSlurm, fetch

BROWSER_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Leave word of the tests that needed a browser, for the last line of `make test`."""
    of = {
        outcome: [report for report in terminalreporter.getreports(outcome) if "browser" in report.keywords]
        for outcome in ("passed", "failed", "skipped")
    }
    if not any(of.values()) or terminalreporter.config.cache is None:
        return
    skipped = of["skipped"]
    left = {
        "ran": len(of["passed"]) + len(of["failed"]),
        "skipped": len(skipped),
        "reason": str(skipped[0].longrepr[-1]).removeprefix("Skipped: ")
        if skipped and skipped[0].longrepr
        else "",
    }
    terminalreporter.config.cache.set(VERDICT, left)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find()
    if path is None:
        pytest.skip("no browser on this machine (`make browser` fetches one)")
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=path, args=BROWSER_ARGUMENTS)
        except Error as error:
            pytest.skip(f"{path} does not start: {error.message.splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte."""
    folder = tmp_path / "small-disk"
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mount.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mount.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateSlurm]:
    """With two nodes of one CPU, for the tests of one file."""
    programs = fetch()
    if isinstance(programs, str):
        pytest.skip(f"{programs}; this enables the tests: {COMMAND}")
    slurm = PrivateSlurm(tmp_path_factory.mktemp("slurm"), programs)
    try:
        slurm.up()
        yield slurm
    finally:
        slurm.down()
    assert slurm.processes() == []
