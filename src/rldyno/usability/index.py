"""The package index that pip uses here, asked for the files of a project (PEP 503, 691 and 700)."""

from __future__ import annotations

import base64
import contextlib
import json
import shlex
import ssl
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

DEFAULT_INDEX = "https://pypi.org/simple"
TIMEOUT_S = 15.0
_JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_OPTIONS = {"-i": "index-url", "--index-url": "index-url", "--extra-index-url": "extra-index-url"}


@dataclass(frozen=True)
class IndexFile:
    """A file of a project."""

    version: Version
    uploaded: str | None
    """Day, `2024-05-01`; None where the index does not say."""
    pythons: frozenset[str] | None
    """Python tags of a wheel, `cp311`; None for a source archive."""
    yanked: bool = False


@dataclass(frozen=True)
class Indexes:
    """Where pip looks for packages."""

    addresses: tuple[str, ...]
    """The one of index-url first; none with --no-index."""
    certificates: str | None = None
    """Path of a bundle of certificates that pip trusts."""


def pip_indexes(python: Path, pip_args: Sequence[str] = ()) -> Indexes:
    """From pip's files and variables, as this interpreter's pip reads them, and arguments, which win."""
    settings = {**_configured(python), **_given(pip_args)}
    if settings.get("no-index", "").lower() not in ("", "0", "false", "no", "off"):
        return Indexes(())
    extra = settings.get("extra-index-url", "").split()
    addresses = [settings.get("index-url") or DEFAULT_INDEX, *extra]
    return Indexes(tuple(address.rstrip("/") for address in addresses), settings.get("cert"))


def _configured(python: Path) -> dict[str, str]:
    """`pip config list`: one `global.index-url='…'` per line; variables outrank `install`, that `global`."""
    try:
        listed = subprocess.run(
            [str(python), "-I", "-m", "pip", "config", "list"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    of_section: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in of_section:
            with contextlib.suppress(ValueError):
                of_section[section][name] = " ".join(shlex.split(value)).replace("\\n", " ")
    return {**of_section["global"], **of_section["install"], **of_section[":env:"]}


def _given(pip_args: Sequence[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    arguments = iter(pip_args)
    for argument in arguments:
        name, separator, value = argument.partition("=")
        if name == "--no-index":
            found["no-index"] = ["1"]
        elif name in _OPTIONS:
            found.setdefault(_OPTIONS[name], []).append(value if separator else next(arguments, ""))
    return {name: " ".join(values) for name, values in found.items()}


def project_files(indexes: Indexes, address: str, project: str) -> list[IndexFile]:
    """What this index has. OSError without an answer, ValueError for one that cannot be read."""
    kind, body = fetch(f"{address}/{canonicalize_name(project)}/", indexes.certificates)
    return from_json(json.loads(body)) if kind == _JSON else from_html(body.decode(errors="replace"))


def all_files(indexes: Indexes, name: str) -> tuple[list[IndexFile], str | None]:
    """What all indexes that answer have; without any, why not."""
    files: list[IndexFile] = []
    silent = [] if indexes.addresses else ["pip uses no index here (--no-index)"]
    for address in indexes.addresses:
        try:
            files += project_files(indexes, address, name)
        except (OSError, ValueError) as error:
            silent.append(f"{host_of(address)} did not answer for {name}")
            silent[-1] += f": {getattr(error, 'reason', None) or error}"
    return files, None if files else "; ".join(silent) or None


def fetch(address: str, certificates: str | None) -> tuple[str, bytes]:
    """(content type, content)."""
    parts = urllib.parse.urlsplit(address)
    if parts.scheme == "file":  # a directory on disk has a page in it
        return "text/html", (Path(urllib.request.url2pathname(parts.path)) / "index.html").read_bytes()
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{parts.scheme} is no scheme of an index")
    host = parts.netloc.rpartition("@")[2]
    request = urllib.request.Request(  # noqa: S310 (the scheme was checked)
        urllib.parse.urlunsplit(parts._replace(netloc=host)), headers={"Accept": _ACCEPT}
    )
    if parts.username:
        secret = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_header("Authorization", "Basic " + base64.b64encode(secret.encode()).decode())
    context = ssl.create_default_context(cafile=certificates) if parts.scheme == "https" else None
    with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as answer:  # noqa: S310 (checked)
        return answer.headers.get_content_type(), answer.read()


def from_json(page: Mapping[str, Any]) -> list[IndexFile]:
    files = [
        index_file(file["filename"], file.get("upload-time"), bool(file.get("yanked")))
        for file in page["files"]
    ]
    return [file for file in files if file]


def from_html(page: str) -> list[IndexFile]:
    """PEP 503 has no upload times, but some mirrors write them as `data-upload-time`."""
    reader = _Links()
    reader.feed(page)
    files = [
        index_file(name.strip(), attributes.get("data-upload-time"), "data-yanked" in attributes)
        for name, attributes in reader.links
    ]
    return [file for file in files if file]


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, dict[str, str | None]]] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag == "a"
        if self._open:
            self.links.append(("", dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            name, attributes = self.links[-1]
            self.links[-1] = (name + data, attributes)


def index_file(name: str, uploaded: str | None, yanked: bool) -> IndexFile | None:
    """None for what is neither a wheel nor a source archive."""
    day = uploaded[:10] if uploaded else None
    with contextlib.suppress(InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        if name.endswith(".whl"):
            _, version, _, tags = parse_wheel_filename(name)
            return IndexFile(version, day, frozenset(tag.interpreter for tag in tags), yanked)
        _, version = parse_sdist_filename(name)
        return IndexFile(version, day, None, yanked)
    return None


def python_tags(python: str) -> frozenset[str]:
    """Of wheels that this version of Python installs; those for the stable ABI of older ones are not seen."""
    major, minor, *_ = python.split(".")
    return frozenset({f"cp{major}{minor}", f"py{major}", f"py{major}{minor}"})


def host_of(address: str) -> str:
    """For people: without what may be a password."""
    parts = urllib.parse.urlsplit(address)
    return parts.netloc.rpartition("@")[2] or parts.path
