"""`rldyno board`: figures from the answers, machines apart, and every doubtful pack marked."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

import known_code as known_code_tool
import packs
from rldyno.answers.analysis import Analysis
from rldyno.answers.trust import compared
from rldyno.errors import Problem
from rldyno.sharing import known_code
from rldyno.sharing.board import gather
from rldyno.sharing.board_page import render, write_board
from rldyno.sharing.index import RanCode
from rldyno.sharing.known_code import KNOWN_FILE, Source, installed, source_of
from rldyno.sharing.pack import pack_directory
from rldyno.sharing.shown import ANONYMOUS, FLAWS, REFUSED, REPEATED, UNKNOWN_CODE, Board
from rldyno.text.numbers import number, span
from rldyno_rig import identity
from synthetic import NUMPY, TORCH, Contestant, Shape, write_results

EVIL = "</script><script>window.pwned=1</script><img src=x onerror='window.pwned=1'>"
UNPROVEN = Contestant("jax:jit", 20_000, certificate="absent")
SHAPE = Shape(contestants=[NUMPY, TORCH, UNPROVEN], algorithms=["dqn"], seeds=5, steps=6000, stop_return=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two machines, and the same pack with damage of two kinds."""
    folder = tmp_path_factory.mktemp("board")
    for number_, name in enumerate(("here", "there")):
        root = write_results(folder / name, SHAPE, seed=number_)
        manifest = json.loads((root / "manifest.json").read_text())
        machine = manifest["machine"] | {"host_sha256": f"{number_}" * 16, "cpu": f"CPU of {name}"}
        (root / "manifest.json").write_text(json.dumps(manifest | {"machine": machine}))
        pack_directory(root, folder / f"{name}.rldyno.tar.gz")
    outcome = next((folder / "here" / "trials").glob("numpy*/outcome.json"))
    text = outcome.read_text()
    outcome.write_text(text[:-30])
    flawed = pack_directory(folder / "here", folder / "admitted.rldyno.tar.gz", with_flaws=True).path
    packs.altered(flawed, folder / "denied.rldyno.tar.gz", lambda values: values.update(flaws=[]))
    outcome.write_text(text)
    (folder / "cut.rldyno.tar.gz").write_bytes(flawed.read_bytes()[:-300])
    return folder


def board_of(folder: Path, *names: str) -> Board:
    return gather((folder / f"{name}.rldyno.tar.gz" for name in names), folder / "site")


def marks(board: Board) -> list[list[str]]:
    return [[mark.kind for mark in pack.marks] for pack in board.packs]


@pytest.fixture
def all_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the made-up code of the tests were a release."""
    made_up = Source("a release", "c" * 64, "d" * 64, frozenset(["b" * 64]))
    monkeypatch.setattr(known_code, "sources", lambda: (made_up,))


def test_every_figure_and_verdict_is_that_of_the_answers(folder: Path) -> None:
    (contest,) = board_of(folder, "here").contests
    (group,) = Analysis.load(folder / "here").comparisons
    best, following, *_ = compared(group, group.primary)
    assert (contest.first, contest.level) == (best.contestant, group.trust.level)
    assert following.contestant in (contest.runner_up or "")
    assert [words for _, words in contest.doubts] == [one.words for one in group.trust.objections]
    assert [entry.contestant for entry in contest.entries] == [row.contestant for row in group.rows]
    for entry, row in zip(contest.entries, group.rows, strict=True):
        estimate = row.figures["steps_per_s"].estimate
        figure = entry.figures["steps_per_s"]
        assert (figure.text, figure.span) == (number(estimate.point), span(estimate))
        assert (entry.unranked, entry.seeds) == (row.unranked, row.done)


def test_nobody_without_a_certificate_is_fastest(folder: Path) -> None:
    (contest,) = board_of(folder, "here").contests
    speeds = {entry.contestant: entry.figures["steps_per_s"].value or 0 for entry in contest.entries}
    assert max(speeds, key=lambda name: speeds[name]) == "jax:jit"
    assert contest.first == "numpy:eager"


def test_machines_are_never_pooled(folder: Path) -> None:
    board = board_of(folder, "here", "there")
    assert len(board.contests) == 2
    assert {contest.machine.key for contest in board.contests} == {
        pack.machine.key for pack in board.packs if pack.machine
    }
    assert len({contest.machine.label for contest in board.contests}) == 2
    assert all(entry.seeds == 5 for contest in board.contests for entry in contest.entries)


def test_a_pack_that_is_given_twice_counts_once(folder: Path) -> None:
    assert len(board_of(folder, "here", "here").packs) == 1


@pytest.mark.usefixtures("all_known")
def test_the_same_runs_under_another_name_are_no_new_evidence(folder: Path) -> None:
    pack_directory(folder / "here", folder / "again.rldyno.tar.gz", anonymous=True)
    board = board_of(folder, "here", "there", "again")
    assert marks(board) == [[], [], [ANONYMOUS, REPEATED]]
    assert "15 runs are also in here:" in board.packs[2].marks[1].words


@pytest.mark.usefixtures("all_known")
def test_packs_with_damage_are_marked_and_damage_does_not_count(folder: Path) -> None:
    board = board_of(folder, "here", "admitted", "denied", "cut")
    assert marks(board) == [[], [FLAWS, REPEATED], [FLAWS, REPEATED], [REFUSED]]
    assert ["does not admit" in pack.marks[0].words for pack in board.packs[1:3]] == [False, True]
    assert str(folder) not in str(board.packs)
    seeds = {
        contest.pack: entry.seeds
        for contest in board.contests
        for entry in contest.entries
        if entry.contestant == "numpy:eager"
    }
    assert seeds == {1: 5, 2: 4, 3: 4}
    assert not [path for path in folder.iterdir() if path.name.startswith(("work", "site"))]


def test_unknown_code_is_marked_with_the_contestants_that_ran_it(folder: Path) -> None:
    board = board_of(folder, "here")
    assert marks(board) == [[UNKNOWN_CODE]]
    assert "numpy:eager, torch:eager, jax:jit" in board.packs[0].marks[0].words


def test_the_code_of_a_guest_is_its_own_and_no_warning(folder: Path) -> None:
    guest = Contestant("script:train.py", 40_000, certificate="absent")
    shape = Shape(contestants=[guest, NUMPY], algorithms=["dqn"], seeds=2, steps=1500, sample_hz=2)
    pack_directory(write_results(folder / "guests", shape), folder / "guests.rldyno.tar.gz")
    board = board_of(folder, "guests")
    assert board.packs[0].marks[0].words.endswith("known here: numpy:eager")
    assert [ran.source for ran in board.packs[0].ran if ran.contestant == "script:train.py"] == [
        "a guest: a script of its own"
    ]


def test_the_code_that_is_installed_is_known() -> None:
    source = installed()
    hashes = identity.hashes(str(identity.HERE / "backends" / "numpy_.py"))
    ran = RanCode("numpy:eager", hashes["backend_sha256"], hashes["reference_sha256"], hashes["rig_sha256"])
    assert source.has(ran)
    assert source_of(ran) == known_code.THIS
    for changed in ("backend", "reference", "rig"):
        assert source_of(RanCode(**{**vars(ran), changed: "0" * 64})) is None


@pytest.mark.slow
def test_the_samples_ran_code_of_this_repository() -> None:
    """But those of Pong, whose manifests name a checkout with changes."""
    home = Path(__file__).parents[2]
    unknown = set()
    for path in (home / "docs/samples").glob("**/trials/*/facts.json"):
        facts = json.loads(path.read_text())
        hashes = [facts[f"{name}_sha256"] for name in ("backend", "reference", "rig")]
        if not any(source.has(RanCode("", *hashes)) for source in known_code.sources()[1:]):
            unknown.add(path.parents[2])
    assert {folder.parent.name for folder in unknown} == {"pong"}
    for folder in unknown:
        assert json.loads((folder / "manifest.json").read_text())["git_revision"].endswith("+")
    if (home / ".git").exists():
        for source in known_code.sources()[1:]:
            revision = source.name.rpartition(" ")[2]
            assert known_code_tool.entry(revision, source.name) in KNOWN_FILE.read_text()


def test_what_is_no_file_is_one_message(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(Problem, match="is no pack"):
            gather([path], tmp_path / "site")


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.events: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self.events += [name for name, _ in attrs if name.startswith("on")]


def test_a_script_in_a_title_stays_text(tmp_path: Path) -> None:
    root = write_results(
        tmp_path / "r", Shape(contestants=[NUMPY], algorithms=["dqn"], title=EVIL, steps=2000)
    )
    hostile = pack_directory(root, tmp_path / "<img src=x onerror=alert(1)>.tar.gz").path
    page = render(gather([hostile], tmp_path / "site"))
    tags = Tags(page)
    assert (tags.found.count("script"), tags.events, "img" in tags.found) == (1, [], False)
    path = write_board(gather([hostile], tmp_path / "site"), tmp_path / "site")
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["board.json", "index.html"]
    assert json.loads((path.parent / "board.json").read_text())["packs"][0]["heading"]["title"] == EVIL
