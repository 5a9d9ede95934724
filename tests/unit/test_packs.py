"""`rldyno pack` and `rldyno unpack`: the same records on the other side, and nothing hostile."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import packs
from fuzz_calls import Report, call
from rldyno.errors import Problem
from rldyno.records.attempts import put_aside
from rldyno.records.files import write_json
from rldyno.results.check import check_directory
from rldyno.results.load import load_results
from rldyno.sharing import index as pack_index
from rldyno.sharing.index import INDEX_FILE
from rldyno.sharing.layout import may_travel
from rldyno.sharing.pack import pack_directory
from rldyno.sharing.unpack import unpack_file, unpacked_name
from synthetic import NUMPY, TORCH, Shape, write_results

SHAPE = Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=2, steps=1500, sample_hz=2, pending=1)
OUTSIDE = "outside.txt"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_results(tmp_path_factory.mktemp("results") / "r", SHAPE)


@pytest.fixture(scope="module")
def pack(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_directory(root, tmp_path_factory.mktemp("packs") / "r.rldyno.tar.gz").path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(pack: Path, folder: Path) -> str:
    """Why it was not unpacked; nothing is left in the folder."""
    folder.mkdir(exist_ok=True)
    with pytest.raises(Problem) as caught:
        unpack_file(pack, folder / "deep" / "unpacked")
    assert caught.value.fix
    assert list(folder.iterdir()) == []
    return caught.value.message


def test_a_round_trip_gives_the_same_records(root: Path, pack: Path, tmp_path: Path) -> None:
    done = unpack_file(pack, tmp_path / "there" / "r")
    found = files(done.directory)
    del found[INDEX_FILE]
    assert found == files(root)
    assert (done.flaws, done.trials, check_directory(done.directory)) == ((), 4, [])
    assert load_results(done.directory).trials.equals(load_results(root).trials)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there"]


@pytest.mark.slow
def test_the_numbers_of_the_documentation(tmp_path: Path) -> None:
    home = Path(__file__).parents[2]
    made = pack_directory(home / "docs/samples/h200/study", tmp_path / "study.rldyno.tar.gz")
    size = made.path.stat().st_size
    text = (home / "docs/sharing.md").read_text()
    assert f"{made.trials} trials in {len(made.index.members)} files, {size / 1e6:.2f} MB" in text
    assert f"records are about {made.index.unpacked_bytes / size:.0f} times" in text


def test_the_same_records_give_the_same_bytes(root: Path, pack: Path, tmp_path: Path) -> None:
    again = pack_directory(root, tmp_path / "again.tar.gz")
    assert again.path.read_bytes() == pack.read_bytes()
    unpacked = unpack_file(pack, tmp_path / "r").directory
    os.utime(unpacked / "manifest.json", (1, 1))
    assert pack_directory(unpacked, tmp_path / "third.tar.gz").sha256 == again.sha256


def test_the_index_names_every_file_and_the_code_that_ran(root: Path, pack: Path) -> None:
    (_, text), *others = packs.contents(pack)
    index = json.loads(text)
    assert [member["name"] for member in index["members"]] == sorted(files(root))
    assert [packs.member_of(entry.name, content) for entry, content in others] == index["members"]
    assert {one["contestant"]: one["rig"] for one in index["code"]} == {
        "numpy:eager": "d" * 64,
        "torch:eager": "d" * 64,
    }


def test_attempts_travel_and_reports_stay(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[NUMPY], algorithms=["dqn"], seeds=1, steps=1500))
    home = next((root / "trials").iterdir())
    put_aside(home)
    (root / "curves").mkdir()
    (root / "curves" / "mine.csv").write_text("not read here")
    for name in ("report.html", "trials/notes.txt", "certificates/notes.txt"):
        (root / name).write_text("mine")
    (root / "trials" / "notes.txt").unlink()
    names = {member.name for member in pack_directory(root, tmp_path / "p").index.members}
    assert f"trials/{home.name}/attempts/1/outcome.json" in names
    assert "curves/mine.csv" in names
    assert not [name for name in names if "report" in name or "notes" in name]
    hidden = {member.name for member in pack_directory(root, tmp_path / "a", anonymous=True).index.members}
    assert names - hidden == {"curves/mine.csv"} | {name for name in names if name.endswith("worker.log")}


def test_a_directory_with_flaws_is_packed_only_on_demand_and_marked(root: Path, tmp_path: Path) -> None:
    unpacked = unpack_file(pack_directory(root, tmp_path / "p").path, tmp_path / "r").directory
    outcome = next(unpacked.glob("trials/*/outcome.json"))
    outcome.write_text(outcome.read_text()[:-20])
    with pytest.raises(Problem, match="1 flaw") as caught:
        pack_directory(unpacked, tmp_path / "flawed")
    assert "outcome.json is damaged" in (caught.value.detail or "")
    assert not (tmp_path / "flawed").exists()
    made = pack_directory(unpacked, tmp_path / "flawed", with_flaws=True)
    assert str(tmp_path) not in made.index.flaws[0]
    assert "1 flaw" in refused(made.path, tmp_path / "empty")
    done = unpack_file(made.path, tmp_path / "again", with_flaws=True)
    assert len(done.flaws) == 1
    with pytest.raises(Problem, match="anonymous"):
        pack_directory(unpacked, tmp_path / "hidden", with_flaws=True, anonymous=True)


def test_a_link_in_the_directory_is_not_followed(root: Path, pack: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("{}")
    for name in ("samples.csv", "attempts"):
        unpacked = unpack_file(pack, tmp_path / name).directory
        path = next(unpacked.glob("trials/*/outcome.json")).with_name(name)
        path.unlink(missing_ok=True)
        path.symlink_to(tmp_path if name == "attempts" else secret)
        with pytest.raises(Problem):
            pack_directory(unpacked, tmp_path / "p", with_flaws=True)
        assert not (tmp_path / "p").exists()


def test_unpacking_never_replaces_what_is_there(pack: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    for name in ("full", "broken", "full/mine"):
        with pytest.raises(Problem, match="exists already"):
            unpack_file(pack, tmp_path / name)
    assert (unpack_file(pack, tmp_path / "empty").directory / "manifest.json").is_file()


def test_where_a_pack_is_unpacked() -> None:
    names = {"x/quickstart.rldyno.tar.gz": "quickstart", "a.tgz": "a-unpacked", ".hidden": "pack-unpacked"}
    assert {name: str(unpacked_name(Path(name))) for name in names} == names


KINDS = {
    "link": (tarfile.SYMTYPE, "is a link"),
    "hard-link": (tarfile.LNKTYPE, "is a link"),
    "device": (tarfile.CHRTYPE, "is a device"),
    "disk": (tarfile.BLKTYPE, "is a device"),
    "pipe": (tarfile.FIFOTYPE, "is a pipe"),
    "folder": (tarfile.DIRTYPE, "is a folder"),
    "extension": (tarfile.XHDTYPE, "something else"),
    "sparse": (tarfile.GNUTYPE_SPARSE, "something else"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_only_plain_files_come_out_of_a_pack(kind: str, pack: Path, tmp_path: Path) -> None:
    code, said = KINDS[kind]

    def exchange(found: list[packs.Entry]) -> None:
        entry, content = found[2]
        found[2] = packs.entry_of(entry.name, content, code, link=f"../../{OUTSIDE}")

    hostile = packs.altered(pack, tmp_path / "hostile", entries=exchange)
    assert said in refused(hostile, tmp_path / "empty")


NAMES = [
    *("../outside.txt", "/tmp/outside.txt", "trials/../../outside.txt", "trials/x/../outcome.json"),
    *("trials/../outcome.json", "trials/x/..", "./manifest.json", "trials//outcome.json", "trials/x/"),
    *("", ".", "..", "~/outside.txt", "trials/x/run.sh", "trials/.hidden/trial.json", "report.html"),
    *("trials/\x1b[31mred/outcome.json", "trials/x\n/outcome.json", "trials/\u202eevil/outcome.json"),
    *("trials/<script>alert(1)</script>/outcome.json", "certificates/a\x00b.json", "C:\\outside.txt"),
    *("MANIFEST.json", "certificates/-.json", "trials/" + "x" * 300 + "/trial.json", INDEX_FILE),
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_no_other_name_than_that_of_a_record_comes_out(name: str, pack: Path, tmp_path: Path) -> None:
    def rename(values: dict[str, Any]) -> None:
        values["members"][3]["name"] = name

    assert "with the name" in refused(packs.altered(pack, tmp_path / "hostile", rename), tmp_path / "empty")


@given(
    st.builds(
        "".join,
        st.lists(
            st.sampled_from(["trials/", "certificates/", "x", "..", "/", "outcome.json", "é", "\n", "<", ""])
        ),
    )
    | st.text()
)
def test_every_name_that_travels_stays_inside(name: str) -> None:
    if may_travel(name):
        parts = PurePosixPath(name).parts
        assert "/".join(parts) == name
        assert not {".", "..", "/"} & set(parts)
        assert name.isascii()
        assert name.isprintable()
        assert not set(name) & set("<>&\"'\\`$ ~:*?|;")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.text(max_size=30), min_size=1, max_size=3))
def test_hostile_names_are_refused_whatever_they_are(
    names: list[str], pack: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    try:
        hostile = packs.with_names(pack, folder / "hostile", names)
    except (ValueError, UnicodeError):
        return  # no archive can hold it
    with pytest.raises(Problem, match="not unpacked"):
        unpack_file(hostile, folder / "unpacked")
    assert [path.name for path in folder.iterdir()] == ["hostile"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_changed_byte_of_a_pack_changes_a_record(
    data: st.DataObject, root: Path, pack: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("flipped")
    content = bytearray(gzip.decompress(pack.read_bytes()))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    (folder / "flipped").write_bytes(gzip.compress(content))
    try:
        done = unpack_file(folder / "flipped", folder / "unpacked")
    except Problem:
        assert [path.name for path in folder.iterdir()] == ["flipped"]
    else:  # blanks in the index mean nothing
        found = files(done.directory)
        del found[INDEX_FILE]
        assert found == files(root)


@pytest.mark.slow
def test_the_terminal_gets_one_message_and_no_control_characters(pack: Path, tmp_path: Path) -> None:
    report = Report()
    for number, name in enumerate(NAMES):
        if not name.isprintable() or "script" in name:
            hostile = packs.altered(
                pack, tmp_path / "hostile", lambda values, name=name: values["members"][3].update(name=name)
            )
            done = call(["unpack", str(hostile), "--out", str(tmp_path / str(number))], report, "unpack")
            message, fix = done.output.strip().splitlines()
            assert (done.code, message[:8], fix[:5]) == (1, "rldyno: ", "fix: ")
    assert report.failures == []
    assert [path.name for path in tmp_path.iterdir()] == ["hostile"]


def hide_behind(values: dict[str, Any]) -> None:
    values["members"][0]["sha256"] = "0" * 64


BOMBS: dict[str, Callable[[dict[str, Any]], None]] = {
    "times larger": lambda values: values["members"][0].update(bytes=2**29),
    "more than any study": lambda values: [
        values["members"].append(packs.member_of(f"certificates/{n}.json", b"") | {"bytes": 2**30})
        for n in range(20)
    ],
    "impossible size": lambda values: values["members"][0].update(bytes=2**40),
    "it was altered": hide_behind,
    "cannot be used": lambda values: values.update(members="x"),
    "it has format": lambda values: values.update(format=99),
    "two files with the name": lambda values: values["members"].append(values["members"][0]),
    "no manifest.json": lambda values: values["members"].clear(),
    "more in it": lambda values: values["members"].pop(),
}


@pytest.mark.parametrize("said", BOMBS)
def test_an_index_that_lies_is_found(said: str, pack: Path, tmp_path: Path) -> None:
    assert said in refused(packs.altered(pack, tmp_path / "hostile", BOMBS[said]), tmp_path / "empty")


def test_a_pack_of_too_many_files_is_refused(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_index, "MOST_MEMBERS", 10)
    assert "more than 10 files" in refused(pack, tmp_path / "empty")


def test_an_index_too_large_to_read_is_not_read(tmp_path: Path) -> None:
    entry = tarfile.TarInfo(INDEX_FILE)
    entry.size = 2**32
    hostile = packs.write(tmp_path / "hostile", [(entry, b"{}")])
    assert "too large" in refused(hostile, tmp_path / "empty")


def test_what_is_no_pack_is_refused(pack: Path, tmp_path: Path) -> None:
    content, bad = pack.read_bytes(), tmp_path / "bad"
    plain = gzip.decompress(content)
    packed = [content[:-20], content + b"x", gzip.compress(plain + b"more"), content + gzip.compress(b"x")]
    other = [b"", b"{}", bytes(2000), gzip.compress(b"x" * 5000), gzip.compress(bytes(5000)), content[:100]]
    for each in (*packed, *other, gzip.compress(plain[:-2000])):
        bad.write_bytes(each)
        refused(bad, tmp_path / "empty")
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing", "empty"):
        refused(tmp_path / name, tmp_path / "empty")


def test_a_forged_record_with_a_new_index_is_found_by_its_seal(root: Path, tmp_path: Path) -> None:
    """Whoever changes a record and all hashes of the pack still has to seal the record."""
    unpacked = unpack_file(pack_directory(root, tmp_path / "p").path, tmp_path / "r").directory
    sealed = unpacked / "calibrations.json"
    write_json(sealed, {"schema": 2, "sha256": "0" * 64, "best_ns": {"x": 1}})
    made = pack_directory(unpacked, tmp_path / "flawed", with_flaws=True)
    forged = packs.altered(made.path, tmp_path / "forged", lambda values: values.update(flaws=[]))
    assert "1 flaw" in refused(forged, tmp_path / "empty")
