"""Usability: loading data, TensorBoard, teams, deployment and community."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from event_files import read_events
from rldyno.errors import Problem
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno.usability import community, data, deployment, index, measure, parallel, visualisation
from rldyno.usability import tables as shown
from rldyno.usability.frameworks import describe
from rldyno.usability.index import Indexes, index_file
from rldyno.usability.record import UsabilityRecord
from rldyno_rig.job_files import UsabilityJob
from rldyno_rig.usability import boards, job, pipelines, plain_loop, serving

TODAY = date(2026, 1, 15)


def record(**parts: Any) -> UsabilityRecord:
    return UsabilityRecord("torch", "PyTorch", "3.11.7", {}, "2026-01-01T00:00:00+00:00", parts)


# --- loading data -------------------------------------------------------------------------------------------


def loaded(monkeypatch: pytest.MonkeyPatch, make: Any) -> dict[str, Any]:
    monkeypatch.setattr(
        pipelines, "load_beside", lambda room, name: type("Way", (), {"BATCHES": {"one": make}})
    )
    return pipelines.load_data(UsabilityJob("numpy_", "data", loader="one"), Path())


def test_a_pipeline_gives_each_item_once_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(monkeypatch, plain_loop.batches)
    assert found["each_once"]
    assert found["shuffled"]
    assert found["types_kept"]
    assert found["items_per_s"] > 0
    assert data.snippet_lines(found["source"]) == 6


def in_order(arrays: Sequence[Any], rows: int, epochs: int) -> Iterator[list[Any]]:
    for _ in range(epochs):
        for first in range(0, len(arrays[0]), rows):
            yield [array[first : first + rows] for array in arrays]


def with_repeats(arrays: Sequence[Any], rows: int, epochs: int) -> Iterator[list[Any]]:
    rng = np.random.default_rng(0)
    for _ in range(epochs * len(arrays[0]) // rows):
        chosen = rng.integers(0, len(arrays[0]), rows)
        yield [array[chosen].astype(np.float64) for array in arrays]


def columns_shuffled_apart(arrays: Sequence[Any], rows: int, epochs: int) -> Iterator[list[Any]]:
    for batch in plain_loop.batches(list(arrays), rows, epochs):
        yield [*batch[:-1], batch[-1][::-1]]


@pytest.mark.parametrize(
    ("make", "each_once", "shuffled", "types_kept"),
    [
        (in_order, True, False, True),
        (with_repeats, False, True, False),
        (columns_shuffled_apart, False, True, True),
    ],
)
def test_a_pipeline_that_does_something_else_is_found_out(
    monkeypatch: pytest.MonkeyPatch, make: Any, each_once: bool, shuffled: bool, types_kept: bool
) -> None:
    found = loaded(monkeypatch, make)
    assert (found["each_once"], found["shuffled"], found["types_kept"]) == (each_once, shuffled, types_kept)


def test_a_framework_without_a_pipeline_is_said_to_have_none() -> None:
    way = {"title": "a loop with NumPy", "own": False, "lines": 6, "items_per_s": 1e6, "each_once": True}
    broken = {"title": "DataLoader", "own": True, "lines": None, "error": "ImportError: no"}
    records = {"jax": record(data={"loaders": {"numpy": way, "loader": broken}})}
    assert shown.data_table(records).rows == (
        ("jax", "none of its own: a loop with NumPy", "6", "1,000,000", "yes", "–", "–"),
        ("jax", "DataLoader", "–", "–", "–", "–", "–"),
    )
    assert list(shown.notes(records)) == [("jax", "DataLoader loads nothing: ImportError: no")]


# --- TensorBoard --------------------------------------------------------------------------------------------


def test_updates_are_written_to_a_file_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "BLOCK_S", 0.01)
    told: list[bool] = []
    monkeypatch.setattr(boards.os, "killpg", lambda group, number: told.append(number == signal.SIGCONT))
    (tmp_path / boards.LOG).mkdir()
    found = boards.watch(UsabilityJob("numpy_", "watch", "eager", server=1), tmp_path)
    assert len(found["rounds"]) == boards.ROUNDS
    assert found["scalar_cpu_s"] > 0
    assert all(set(one) == {"plain", "logged", "watched"} for one in found["rounds"])
    assert told == [*[True, False, False, True] * (boards.ROUNDS // 2), True], (
        "it stands still unless watched"
    )
    (file,) = (tmp_path / boards.LOG).iterdir()
    steps = [event.step for event in read_events(file) if event.summary.value]
    assert len(steps) == found["written"]
    assert steps == sorted(set(steps))


def test_what_a_scalar_costs_and_how_much_a_server_slows() -> None:
    rounds = [
        {
            "plain": 1.0,
            "logged": 1.0 + extra,
            "watched": 2.0 + 2 * extra,
        }
        for extra in (0.1, 0.2, 0.9)
    ]
    source = "def board(directory):\n    writer = Writer()\n\n    return writer\n"
    answer = {"error": None, "rounds": rounds, "updates": 10, "scalar_cpu_s": 1e-5, "source": source}
    found = visualisation.figures(answer, used_s=6.0)
    assert found["scalar_cpu_s"] == 1e-5
    assert found["logged_ratio"] == pytest.approx(1.2)
    assert found["watched_ratio"] == pytest.approx(2.0)
    assert found["server_cpu"] == pytest.approx(6.0 / 84)
    assert found["lines"] == 3
    alone = [{kind: one[kind] for kind in ("plain", "logged")} for one in rounds]
    unwatched = visualisation.figures({**answer, "rounds": alone})
    assert unwatched["watched_ratio"] is None
    assert unwatched["server_cpu"] is None


def test_a_framework_that_cannot_be_watched_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(names: object) -> None:
        raise Problem("pip could not install tensorboard", fix="check the network")

    rounds = [{"plain": 1.0, "logged": 1.5}]
    answer = {"error": None, "rounds": rounds, "updates": 1, "scalar_cpu_s": 1e-5, "source": "x = 1\n"}
    monkeypatch.setattr(visualisation, "ensure", absent)
    monkeypatch.setattr(visualisation, "beside", lambda *_: tmp_path)
    monkeypatch.setattr(visualisation, "rig", lambda *_: answer)
    board = describe("numpy_").board  # type: ignore[union-attr]
    assert board is not None
    interpreter = Interpreter("numpy", Path("python"), "built", "3.11.7", {}, "cpu")
    found = visualisation.measure(board, interpreter, toolchain("numpy"), tmp_path)
    assert found["passing"], "it is tried again"
    records = {"numpy": record(visualisation=found)}
    ((*_, logged, watched, server, readable),) = shown.visualisation_table(records).rows
    assert (logged, watched, server, readable) == ("1.50", "–", "–", "–")
    assert ("numpy", "TensorBoard was not watched: pip could not install tensorboard") in list(
        shown.notes(records)
    )


# --- deployment ---------------------------------------------------------------------------------------------

PROGRAM = """
import numpy as np

weights = np.load("weights.npy")


def answer(obs):
    return obs @ weights
"""


def served(home: Path, program: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    weights, obs = rng.standard_normal((4, 2)), rng.standard_normal((serving.DIFFERENT, 4))
    (home / serving.MADE).mkdir()
    np.save(home / serving.MADE / "weights.npy", weights)
    np.savez(home / serving.GIVEN_FILE, obs=obs, expected=obs @ weights)
    given = UsabilityJob("numpy_", "serve", runtime="json", program=program)
    return {"error": None, **serving.serve(given, home)}


def test_a_policy_answers_one_observation_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(serving, "REQUESTS", 50)
    found = served(tmp_path, PROGRAM)
    assert 0 < found["median_s"] <= found["p99_s"]
    assert found["file_bytes"] == (tmp_path / serving.MADE / "weights.npy").stat().st_size
    assert deployment.failure(found) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("obs @ weights", "obs @ weights + 1"), "answers differ by 1.0e+00"),
        (("import numpy as np", "import numpy as np\nimport rldyno_rig.backends.numpy_maths"), "the backend"),
    ],
)
def test_a_policy_that_answers_wrongly_or_needs_the_backend_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(serving, "REQUESTS", 5)
    for name in [name for name in sys.modules if name.startswith("rldyno_rig.backends.numpy")]:
        monkeypatch.delitem(sys.modules, name)
    assert words in (deployment.failure(served(tmp_path, PROGRAM.replace(*change))) or "")


def test_only_what_serves_is_in_the_table_and_the_rest_has_its_reason() -> None:
    network = {"import_s": 0.5, "file_bytes": 2000, "median_s": 1e-5, "p99_s": 4e-5}
    good = {"title": "TorchScript", "runtime": "torch", "lines": 5, "works": True, "reason": None}
    bad = {"title": "ONNX", "runtime": "onnxruntime", "lines": 7, "works": False, "reason": "no network"}
    paths = {"a": {**good, "networks": {"mlp": network, "cnn": network}}, "b": bad}
    records = {"torch": record(deployment={"paths": paths})}
    assert shown.deployment_table(records).rows == (
        ("torch", "TorchScript", "torch", "5", "0.500", "2.00", "10.0", "40.0", "2.00", "10.0", "40.0"),
    )
    assert list(shown.notes(records)) == [("torch", "ONNX does not serve: no network")]


# --- teams --------------------------------------------------------------------------------------------------


def test_lines_of_a_team_are_those_of_join_and_of_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "x_.py").write_text("def join(self):\n    # words\n    pass\n\ndef other():\n    pass\n")
    (tmp_path / "x_team.py").write_text('"""Words."""\nimport os\n\nos.getpid()\n')
    assert parallel.team_lines(sorted(tmp_path.iterdir())) == {"join": 2, "team": 2}


def test_a_missing_part_leaves_a_gap_with_its_fix_and_is_tried_when_it_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(*_: object) -> None:
        raise Problem("part mpi of the numpy toolchain is not built", fix="rldyno setup numpy --with mpi")

    monkeypatch.setattr(parallel, "resolve", absent)
    interpreter = Interpreter("numpy", Path("python"), "built", "3.11.7", {}, "cpu")
    chain, description = toolchain("numpy"), describe("numpy_")
    assert description is not None
    found = parallel.measure(chain, interpreter, description.files, tmp_path)
    assert found["lacks"] == ["host"]
    assert found["lines"]["join"] > 0
    records = {"numpy": record(parallel=found)}
    ((*_, collective, means, two, one),) = shown.parallel_table(records).rows
    assert (collective, means, two, one) == ("host", "–", "–", "–")
    assert any("fix: rldyno setup numpy --with mpi" in text for _, text in shown.notes(records))
    subject: Any = type("Subject", (), {"chain": chain, "interpreter": interpreter, "earlier": 3})
    assert measure.is_kept(subject, found)
    monkeypatch.setattr(parallel, "resolve", lambda *_: interpreter)
    assert not measure.is_kept(subject, found)


def test_workers_of_a_team_answer_in_their_homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLDYNO_RANK", "1")
    (tmp_path / "workers" / "1").mkdir(parents=True)
    given = UsabilityJob("numpy_", "no such part", workers=2, collective="host")
    (tmp_path / "usability.json").write_text(json.dumps(given.to_json()))
    job.answer(tmp_path, 0)
    assert (tmp_path / "workers" / "1" / job.ANSWER_FILE).exists()


# --- community ----------------------------------------------------------------------------------------------

METADATA = """Metadata-Version: 2.1
Name: frame
Version: 2.0
License: A licence of many lines
        and a second one
Home-page: https://example.org
Project-URL: Source, https://example.org/source
Classifier: Development Status :: 5 - Production/Stable
Classifier: Programming Language :: Python :: 3.11
Classifier: Programming Language :: Python :: 3.12
Classifier: Programming Language :: C++
"""


def distribution(home: Path, text: str) -> Distribution:
    info = home / "frame-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(text)
    (found,) = Distribution.discover(path=[str(home)])
    return found


def releases(*dated: tuple[str, str | None]) -> list[Any]:
    return [index_file(f"frame-{version}-py3-none-any.whl", day, False) for version, day in dated]


def test_community_is_what_metadata_and_index_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = releases(
        ("1.0", "2015-03-02T00:00:00Z"),
        ("1.1", "2024-01-14T00:00:00Z"),
        ("1.2", "2024-02-01T00:00:00Z"),
        ("2.0", "2025-12-24T00:00:00Z"),
        ("2.1rc1", "2026-01-10T00:00:00Z"),
    )
    monkeypatch.setattr(index, "project_files", lambda *_: files)
    found = community.measure(distribution(tmp_path, METADATA), Indexes(("https://x/simple",)), TODAY)
    assert (found["status"], found["languages"]) == ("Production/Stable", ["C++", "Python"])
    assert found["licence"] == "A licence of many lines"
    assert found["urls"] == {"Homepage": "https://example.org", "Source": "https://example.org/source"}
    assert (found["releases"], found["recent"]) == (4, 2)
    assert (found["first"], found["last"]) == ("2015-03-02", "2025-12-24")
    assert found["read_on"] == "2026-01-15"
    assert found["reason"] is None
    assert "passing" not in found


def test_what_neither_says_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = distribution(tmp_path, "Metadata-Version: 2.1\nName: frame\nVersion: 2.0\n")
    monkeypatch.setattr(index, "project_files", lambda *_: releases(("1.0", None)))
    found = community.measure(bare, Indexes(("https://x/simple",)), TODAY)
    assert found["reason"] == "the index does not give upload times"
    row = shown.community_table({"torch": record(community=found)}).rows[0]
    assert row == ("torch", *["unknown"] * 3, "1", *["unknown"] * 3, "2026-01-15")
    silent = community.measure(bare, Indexes(()), TODAY)
    assert silent["passing"], "asked again with the next network"
    assert silent["releases"] is None
