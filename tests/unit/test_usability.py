"""Usability: counting code, judging messages, reading packages, keeping records, showing tables."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

import rldyno_rig
from rldyno.errors import Problem
from rldyno.processes.rig import Ended
from rldyno.records.machine_facts import MachineFacts
from rldyno.text.tables import latex, markdown
from rldyno.toolchains.catalogue import catalogue
from rldyno.toolchains.resolve import Interpreter
from rldyno.usability import mistakes, package, source, store
from rldyno.usability import tables as shown
from rldyno.usability.beside import _PIP
from rldyno.usability.frameworks import describe
from rldyno.usability.record import SCHEMA, Absent, UsabilityFile, UsabilityRecord

RIG = Path(rldyno_rig.__file__).parent


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_every_framework_is_described(name: str) -> None:
    chain = catalogue()[name]
    description = describe(chain.backend)
    assert description is not None
    for mistake in (description.mistakes.shape, description.mistakes.dtype, description.mistakes.device):
        assert chain.import_name in mistake.code
        compile(mistake.code, name, "exec")
    texts = [file.read_text(encoding="utf-8") for file in description.files]
    code: Any = source.measure(texts, description.transfers)
    assert all(code["losses"].values()), "every backend has a loss for every algorithm"
    module = ast.parse((RIG / "usability" / f"{chain.backend}.py").read_text(encoding="utf-8"))
    assert keys_of(module, "EXPORTS") == set(description.exports)
    assert keys_of(module, "BATCHES") == set(description.loaders) != set()
    assert "board" in names_in(module)
    assert description.board is not None
    assert not description.board.mode or description.board.mode in chain.modes
    for export, path in description.exports.items():
        assert bool(path.serve) == (export != "onnx"), "ONNX files have one program for all"
        if path.serve:
            assert chain.import_name in path.serve
            assert "def answer(obs):" in path.serve
            compile(path.serve, name, "exec")
    pins = [pin for path in description.exports.values() for pin in path.packages]
    assert all("==" in pin for pin in (*pins, *description.board.packages))


def keys_of(module: ast.Module, name: str) -> set[str]:
    (found,) = (
        node.value
        for node in module.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name
    )
    assert isinstance(found, ast.Dict)
    return {ast.literal_eval(key) for key in found.keys if key}


def names_in(module: ast.Module) -> set[str]:
    """What a module defines at its top."""
    defined = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    assigned = [node for node in module.body if isinstance(node, ast.Assign)]
    return defined | {ast.unparse(target) for node in assigned for target in node.targets}


def test_a_message_that_names_both_sides() -> None:
    err = """I0000 a log line
Traceback (most recent call last):
  File "/home/x/mistake.py", line 5, in <module>
    y = x @ w
        ~~^~~
RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)
"""
    found = mistakes.classify("shape", Ended(1, 0.1, "", err), [])
    assert found["verdict"] == "refused"
    assert found["type"] == "RuntimeError"
    assert found["message"] == "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"
    assert (found["names"], found["traceback_lines"]) == (2, 5)


def test_a_message_of_several_lines_after_a_chain_and_without_paths() -> None:
    err = """Traceback (most recent call last):
  File "a.py", line 1, in f
ValueError: 3 and 4

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/me/chain/lib/x.py", line 1, in f
chainer.utils.type_check.InvalidType:
In /home/me/chain/lib/x.py

Actual: 23 != 14
"""
    found = mistakes.classify("shape", Ended(1, 0.1, "", err), [Path("/home/me/chain")])
    assert found["type"] == "InvalidType"
    assert found["message"] == "In lib/x.py\n\nActual: 23 != 14"
    assert (found["names"], found["traceback_lines"]) == (0, 12)


def test_a_traceback_inside_a_message_belongs_to_it() -> None:
    err = """Traceback (most recent call last):
  File "mistake.py", line 5, in <module>
mxnet.base.MXNetError: Traceback (most recent call last):
  File "../src/dot-inl.h", line 1241
MXNetError: Incompatible attr: expected float64, got float32
"""
    found = mistakes.classify("dtype", Ended(1, 0.1, "", err), [])
    assert found["type"] == "MXNetError"
    assert found["message"].endswith("expected float64, got float32")
    assert found["names"] == 2


@pytest.mark.parametrize(
    ("ended", "verdict", "words"),
    [
        (Ended(0, 0.1, "noise\nfloat64\n", "a warning"), "accepted", "accepted silently: float64"),
        (Ended(0, 0.1, "", ""), "accepted", "accepted silently"),
        (
            Ended(0, 0.1, "", "x.py:3: UserWarning: float64 becomes float32"),
            "warned",
            "accepted with a warning",
        ),
        (Ended(0, 0.1, "", "WARNING: all messages go to stderr"), "accepted", "accepted silently"),
        (Ended(-11, 0.1, "", ""), "crashed", "crashed: SIGSEGV"),
        (Ended(None, 600.0, "", ""), "crashed", "crashed: it hung"),
        (Ended(1, 0.1, "", "only words"), "refused", "error, names neither side, 1 lines"),
    ],
)
def test_what_else_may_happen(ended: Ended, verdict: str, words: str) -> None:
    found = mistakes.classify("dtype", ended, [])
    assert found["verdict"] == verdict
    assert shown.mistake_words(found) == words


def make_distribution(home: Path, name: str, requires: list[str], size: int) -> None:
    info = home / f"{name}-1.0.dist-info"
    info.mkdir()
    lines = [f"Name: {name}", "Version: 1.0", *(f"Requires-Dist: {text}" for text in requires)]
    (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")
    (home / f"{name}.py").write_bytes(b"x" * size)
    (info / "RECORD").write_text(f"{name}.py,,\n{name}-gone.py,,\n")


def test_dependencies_follow_markers_and_size_is_of_the_files(tmp_path: Path) -> None:
    make_distribution(
        tmp_path, "frame", ["part>=1", 'old; python_version<"3.10"', 'more; extra == "x"', "absent"], 100
    )
    make_distribution(tmp_path, "part", ["Sub_Part"], 20)
    make_distribution(tmp_path, "sub-part", ["frame"], 3)
    make_distribution(tmp_path, "old", [], 5)
    make_distribution(tmp_path, "more", [], 5)
    among = {found.metadata["Name"]: found for found in Distribution.discover(path=[str(tmp_path)])}
    assert package.dependencies("frame", among, "3.11.7") == {"part", "sub-part"}
    assert package.dependencies("frame", among, "3.9.1") == {"part", "sub-part", "old"}
    extras = frozenset({"x"})
    assert package.dependencies("frame", among, "3.11.7", extras) == {"part", "sub-part", "more"}
    assert package.size_of(among["frame"]) == 100
    assert package.distribution_of(["nothing", "Frame"], among) == "frame"


def test_extras_are_those_that_the_toolchain_pins() -> None:
    assert package.extras_of("tensorflow", catalogue()["tensorflow"]) == {"and-cuda"}
    assert package.extras_of("torch", catalogue()["torch"]) == frozenset()


def test_where_pip_got_packages_from() -> None:
    log = "Collecting a\n  Downloading a.whl (2 kB)\nCollecting b\n  Using cached b.whl\nProcessing ./c.whl\n"
    assert package.ways(log) == {"from the network": 1, "from pip's cache": 1, "from a local index": 1}
    assert package.ways("") == {}


def record(**parts: Any) -> UsabilityRecord:
    versions = {"torch": "2.13.0", "numpy": "2.4.6"}
    return UsabilityRecord("torch", "PyTorch", "3.11.7", versions, "2026-01-01T00:00:00+00:00", parts)


def test_a_report_takes_the_record_beside_it_else_that_of_the_same_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    ran = {"torch": {"python": "3.11.7", "torch": "2.13.0"}}
    assert store.known(tmp_path, ran) == {}
    store.write(store.record_path("torch", "a"), record(code={"lines": 1}))
    assert store.known(tmp_path, ran)["torch"].part("code")["lines"] == 1
    assert store.known(tmp_path, {"torch": {"python": "3.11.7", "torch": "2.14.0"}}) == {}
    beside = {"torch": record(code={"lines": 2}), "jax": record()}
    store.write_beside(tmp_path / store.FILE, UsabilityFile("now", MachineFacts(), beside))
    assert {name: found.parts for name, found in store.known(tmp_path, ran).items()} == {
        "torch": {"code": {"lines": 2}}
    }


def test_a_damaged_record_of_the_cache_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "torch.json"
    store.write(path, record())
    assert store.read(path) == record()
    for damaged in ("{", json.dumps({"schema": SCHEMA + 1}), json.dumps({"schema": SCHEMA, "parts": 3})):
        path.write_text(damaged)
        assert store.read(path) is None


def test_a_damaged_file_beside_results_is_named(tmp_path: Path) -> None:
    absent = {"jax": Absent("missing", None)}
    whole = UsabilityFile("now", MachineFacts(cores_usable=2), {"torch": record()}, absent)
    path = tmp_path / store.FILE
    assert store.read_beside(tmp_path) is None
    store.write_beside(path, whole)
    assert store.read_beside(tmp_path) == whole
    values = json.loads(path.read_text())
    older = {name: value for name, value in values.items() if name != "sha256"} | {"schema": SCHEMA}
    path.write_text(json.dumps(older))
    assert store.read_beside(tmp_path) == whole
    for damage in ({"made_at": "later"}, {"frameworks": {}}, {"sha256": "0"}):
        path.write_text(json.dumps(values | damage))
        with pytest.raises(Problem, match="was altered"):
            store.read_beside(tmp_path)
    for damage in ({"frameworks": 3}, {"absent": {"jax": 3}}, {"made_at": []}, {"schema": 9}):
        path.write_text(json.dumps(older | damage))
        with pytest.raises(Problem, match=r"usability\.json") as caught:
            store.read_beside(tmp_path)
        assert "measure again" in str(caught.value.fix)
    path.unlink()
    path.symlink_to("/etc/hostname")
    with pytest.raises(Problem, match="is damaged"):
        store.read_beside(tmp_path)


def test_tables_say_what_is_missing_and_why() -> None:
    install = {
        "version": "2.0",
        "dependencies": ["a", "b"],
        "size_bytes": 1_234_000_000,
        "install_s": None,
        "install_reason": "an interpreter of yours",
        "packages_from": {},
    }
    start = {
        "import_s": 0.5,
        "first_update": {
            "eager": {"median_s": 1.25, "reason": None},
            "compile": {"median_s": None, "reason": "no compiler"},
        },
    }
    export = {
        "paths": {
            "onnx": {
                "title": "ONNX",
                "works": False,
                "reason": "a | pipe",
                "packages": ["onnx==1.0"],
                "networks": {"cnn": {"file_bytes": 2000, "difference": 0.5}},
            }
        },
        "missing": {"TFLite": "no converter"},
    }
    records = {
        "torch": record(install=install, start=start, export=export),
        "jax": record(install={"error": "OSError: gone"}),
    }
    tables = {table.name: table for table in shown.all_tables(records)}
    assert set(tables) == {"usability-install", "usability-export", "usability-notes"}
    assert tables["usability-install"].rows == (
        ("torch", "2.0", "–", "1,234", "2", "0.500", "1.25 eager, – compile"),
    )
    assert tables["usability-export"].rows == (
        ("torch", "ONNX", "no: a | pipe", "5e-01", "2.00", "onnx"),
        ("torch", "TFLite", "no: no converter", "–", "–", "–"),
    )
    assert "a \\| pipe" in markdown(tables["usability-export"])
    assert r"\toprule" in latex(tables["usability-install"])
    assert list(shown.notes(records)) == [
        ("torch", "no install time: an interpreter of yours"),
        ("torch", "no first update of compile: no compiler"),
        ("jax", "install was not measured: OSError: gone"),
    ]


def test_commands_name_what_they_do_not_know() -> None:
    from rldyno.commands.usability import chosen_frameworks, chosen_parts
    from rldyno.errors import Problem

    with pytest.raises(Problem, match="did you mean `torch`"):
        chosen_frameworks(["torhc"])
    with pytest.raises(Problem, match="unknown part `speed`"):
        chosen_parts(["speed"])
    assert chosen_parts(["save", "code"]) == ["code", "save"]
    assert "sb3" not in chosen_frameworks([])


def test_reports_need_no_toolchains_for_it() -> None:
    import subprocess

    code = "import sys, rldyno.usability.store; sys.exit('rldyno.toolchains' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.slow
def test_the_report_has_the_section_when_it_is_known_and_escapes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    from report_parts import html_of, material_of, tables
    from synthetic import ZOO, Shape, write_results

    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    home = write_results(tmp_path / "results", Shape(contestants=ZOO[:1], seeds=1))
    framework = ZOO[0].name.partition(":")[0]
    assert not [name for name in tables(material_of(home)) if name.startswith("usability")]
    refused = mistakes.classify(
        "shape",
        Ended(1, 0.1, "", "Traceback (most recent call last):\nValueError: <script>3 is not 4</script>"),
        [],
    )
    found = record(mistakes=dict.fromkeys(mistakes.SIDES, refused))
    store.write_beside(home / store.FILE, UsabilityFile("now", MachineFacts(), {framework: found}))
    page = html_of(home)
    assert 'href="#usability"' in page
    assert "&lt;script&gt;3 is not 4&lt;/script&gt;" in page
    assert "<script>3 is not 4" not in page


@pytest.mark.parametrize("width", [200, 75, 60, 50])
def test_no_terminal_cuts_a_word(width: int) -> None:
    from rich.console import Console

    from rldyno.commands.usability import print_tables
    from rldyno.text.tables import Table

    rows = (("torch", "torch.load(weights_only=True)", "1.25 eager, 14.1 compile"),) * 2
    console = Console(width=width, record=True, file=io.StringIO())
    print_tables([Table("x", "Title", ("Framework", "Saved by", "First update, s"), rows)], {}, console)
    printed = console.export_text()
    assert "…" not in printed
    for word in ("torch.load(weights_only=True)", "14.1", "compile", "update,"):
        assert word in printed
    assert all(len(line.rstrip()) <= width for line in printed.splitlines())


def test_no_file_of_the_working_directory_is_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A results directory of somebody else may hold a `json.py`."""
    for name in ("json", "pip", "runpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    given = Interpreter("numpy", Path(sys.executable), "given", "3.11.7", {}, None)
    assert "numpy" in package.installed(given)
    done = subprocess.run(
        [sys.executable, "-c", _PIP, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("pip ")
    assert not (tmp_path / "ran").exists()
