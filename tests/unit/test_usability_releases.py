"""Release dates, from the index that pip uses: JSON, pages, mirrors without dates, no network."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

from rldyno.usability import releases
from rldyno.usability import tables as shown
from rldyno.usability.index import DEFAULT_INDEX, Indexes, from_html, from_json, host_of, pip_indexes

PACKAGING = Distribution.from_name("packaging")
VERSION = PACKAGING.version
PAGE = {
    "meta": {"api-version": "1.1"},
    "files": [
        {"filename": f"packaging-{VERSION}.tar.gz", "upload-time": "2024-05-03T10:00:00Z"},
        {"filename": f"packaging-{VERSION}-cp310-cp310-any.whl", "upload-time": "2024-05-02T10:00:00Z"},
        {"filename": f"packaging-{VERSION}-cp39-cp39-any.whl", "upload-time": "2024-05-01T10:00:00Z"},
        {"filename": "packaging-998.0.tar.gz", "upload-time": "2025-06-01T10:00:00Z"},
        {"filename": "packaging-999.0.tar.gz", "upload-time": "2025-07-01T10:00:00Z", "yanked": "broken"},
        {"filename": "packaging-1000.0rc1.tar.gz", "upload-time": "2025-08-01T10:00:00Z"},
        {"filename": "packaging-1.0.exe", "upload-time": "2010-01-01T00:00:00Z"},
    ],
}


class Index:
    """A package index on this machine."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.content, self.kind = json.dumps(PAGE), "application/vnd.pypi.simple.v1+json"
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.asked.append((self.path, self.headers.get("Authorization")))
                self.send_response(200)
                self.send_header("Content-Type", index.kind)
                self.end_headers()
                self.wfile.write(index.content.encode())

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.address = f"http://{self.host}/simple"


@pytest.fixture
def index() -> Iterator[Index]:
    started = Index()
    yield started
    started.server.shutdown()
    started.server.server_close()


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("NO_PROXY", "*")


def test_a_release_has_the_day_of_its_first_file_and_the_pythons_of_its_wheels(index: Index) -> None:
    found = releases.measure(PACKAGING, Indexes((index.address,)))
    assert index.asked == [("/simple/packaging/", None)]
    assert (found["released"], found["wheels_for"]) == ("2024-05-01", ["3.9", "3.10"])
    assert (found["latest"], found["latest_released"]) == ("998.0", "2025-06-01")
    assert found["reason"] is None
    assert "passing" not in found
    assert shown.span(["3.9", "3.10"]) == "3.9–3.10"
    assert shown.span(["py2", "py3"]) == "py2, py3"


def test_pages_of_links_with_and_without_upload_times(index: Index) -> None:
    link = f'<a href="x" data-upload-time="2024-05-01T10:00:00Z">packaging-{VERSION}-py3-none-any.whl</a>'
    index.content, index.kind = f"<html><body>{link}</body></html>", "text/html"
    found = releases.measure(PACKAGING, Indexes((index.address,)))
    assert (found["released"], found["wheels_for"]) == ("2024-05-01", ["py3"])
    index.content = index.content.replace("data-upload-time", "data-else")
    found = releases.measure(PACKAGING, Indexes((index.address,)))
    assert found["released"] is None
    assert found["reason"] == f"{index.host} does not give upload times"


def test_both_forms_give_the_same_files() -> None:
    links = "".join(
        f'<a href="#" {"data-yanked" if "yanked" in file else ""} data-upload-time="{file["upload-time"]}">'
        f"{file['filename']}</a><br/>"
        for file in PAGE["files"]
    )
    assert from_html(links) == from_json(PAGE)
    assert len(from_json(PAGE)) == 6


def test_without_an_answer_there_is_no_date_but_a_reason() -> None:
    found = releases.measure(PACKAGING, Indexes(("http://user:secret@127.0.0.1:9/simple",)))
    assert found["released"] is found["latest_released"] is None
    assert found["reason"].startswith("127.0.0.1:9 did not answer for packaging")
    assert "secret" not in json.dumps(found)
    assert found["passing"], "it is asked again next time"
    assert found["requires_python"].startswith(">=")
    assert releases.measure(PACKAGING, Indexes(()))["reason"] == "pip uses no index here (--no-index)"


def test_the_next_index_is_asked_for_what_the_first_does_not_have(index: Index, tmp_path: Path) -> None:
    (tmp_path / "packaging").mkdir()
    (tmp_path / "packaging" / "index.html").write_text('<a href="x">packaging-1.0.tar.gz</a>')
    on_disk = tmp_path.as_uri()
    assert releases.measure(PACKAGING, Indexes((on_disk, index.address)))["released"] == "2024-05-01"
    found = releases.measure(PACKAGING, Indexes((on_disk,)))
    assert found["reason"] == f"{host_of(on_disk)} has no file of packaging {VERSION}"


def test_a_name_and_a_password_in_the_address_are_sent_as_such(index: Index) -> None:
    releases.measure(PACKAGING, Indexes((f"http://me:p%40ss@{index.host}/simple",)))
    ((_, sent),) = index.asked
    assert sent == "Basic " + base64.b64encode(b"me:p@ss").decode()


@pytest.mark.slow
def test_the_index_is_the_one_that_pip_uses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = Path(sys.executable)
    assert pip_indexes(python) == Indexes((DEFAULT_INDEX,))
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://one/simple/\ncert = /a.pem\n"
        "extra-index-url =\n    https://two/simple\n    file:///three\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    extra = ("https://two/simple", "file:///three")
    assert pip_indexes(python) == Indexes(("https://one/simple", *extra), "/a.pem")
    monkeypatch.setenv("PIP_INDEX_URL", "https://variable/simple")
    assert pip_indexes(python).addresses == ("https://variable/simple", *extra)
    assert pip_indexes(python, ["-i", "https://given/simple"]).addresses[0] == "https://given/simple"
    assert pip_indexes(python, ["--index-url=https://given/simple"]).addresses[0] == "https://given/simple"
    assert pip_indexes(python, ["--no-index", "--find-links", "x"]) == Indexes(())
    assert pip_indexes(Path("/nowhere/python")) == Indexes((DEFAULT_INDEX,))
