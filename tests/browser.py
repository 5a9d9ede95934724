"""A browser for the tests of the report: found, or fetched, and what became of these tests.

`make test` runs `python tests/browser.py fetch` before its tests, and `verdict` as its last line.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

VARIABLE = "RLDYNO_TEST_BROWSER"
SYSTEM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
VERDICT = "rldyno/browser"
"""Key in pytest's cache: how many tests ran in a browser, how many did not, and why not."""
_FETCH_S = 600


def find() -> str | None:
    """The one that RLDYNO_TEST_BROWSER names, the system's, or Playwright's own."""
    given = os.environ.get(VARIABLE)
    if given:
        return shutil.which(given)
    return next(filter(None, map(shutil.which, SYSTEM)), None) or playwrights_own()


def playwrights_own() -> str | None:
    try:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            path = playwright.chromium.executable_path
    except Exception as error:  # a broken install of the library is no reason to end the tests
        print(f"Playwright does not start: {error}", file=sys.stderr)
        return None
    return path if Path(path).exists() else None


def why_not(path: str) -> str | None:
    """None for a browser that starts, else its last words."""
    command = [path, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "about:blank"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]


def fetch() -> str:
    """A sentence: which browser the tests will use, or why there is none. Never an error."""
    tried = []
    for way, attempt in (("", None), ("playwright install", _from_playwright), ("apt-get", _from_debian)):
        if attempt is not None:
            print(f"no browser yet; trying {way}", flush=True)
            failure = attempt()
            if failure:
                tried.append(f"{way}: {failure}")
                continue
        path = find()
        reason = why_not(path) if path else None
        if path and reason is None:
            return f"browser for the tests of the report: {path}"
        if reason:
            tried.append(f"{path} does not start: {reason}")
    return f"no browser for the tests of the report ({'; '.join(tried)})"


def _from_playwright() -> str | None:
    """Into the user's cache, without rights; None when it worked."""
    return _run([sys.executable, "-m", "playwright", "install", "chromium"])


def _from_debian() -> str | None:
    """Only as root of a container or of a CI machine: nobody else's system is changed."""
    if os.geteuid() != 0 or not (os.environ.get("CI") or Path("/.dockerenv").exists()):
        return "left alone, this is no container"
    if shutil.which("apt-get") is None:
        return "not installed"
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "update", "-q"], quiet)
    return _run(["apt-get", "install", "-q", "-y", "--no-install-recommends", "chromium"], quiet)


def _run(command: list[str], variables: dict[str, str] | None = None) -> str | None:
    """None when it worked, else its last line."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_FETCH_S,
            env={**os.environ, **(variables or {})},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    said = [line for line in (done.stderr or done.stdout).splitlines() if line.startswith(("E:", "Error"))]
    return said[0] if said else f"status {done.returncode}"


def verdict(cache: Path) -> str:
    """Whether the report was tested in a browser: what the last run of its tests left in pytest's cache."""
    try:
        left = json.loads((cache / "v" / VERDICT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "The report was NOT tested in a browser: its tests have not run."
    if left["skipped"] or not left["ran"]:
        return f"The report was NOT tested in a browser: {left['reason']}"
    return f"The report was tested in a browser ({left['ran']} tests)."


def main(job: str) -> None:
    print(fetch() if job == "fetch" else verdict(Path(__file__).parents[1] / ".pytest_cache"))


if __name__ == "__main__":
    main(sys.argv[1])
