"""The place of every key and item of a TOML file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from rldyno.errors import Problem
from rldyno.toml.lines import Location, key_name, locate
from rldyno.toml.models import load
from rldyno.toml.source import read
from rldyno.toml.suggestions import distance, nearest, suggest
from rldyno.toml.write import with_value

AWKWARD = '''\
# a comment with = and [ ]
title = "a # no comment ] \\" = "   # real comment
'quoted key' = 1
"esc\\u0061ped" = 2
many = [
  "a", # [ "b"
  # nothing = 3
  'c]',
  [1,
   2], { x = 1, y = [
     7 ] },
]
text = """
[not.a.table]
key = 1
quoted \\""" still inside """""
literal = \'\'\'
[neither]
\'\'\'
when = 1979-05-27 07:32:00
a.b . "c.d" = true
[ table . sub ]
key = 1
[table."dotted.name"]
stop = { return = 475, episodes = 100 }
[[list]]
n = 1
[[list]]
n = 2
[list.inner]
m = 3
'''


def leaves(value: Any, location: Location = ()) -> Iterator[Location]:
    if location:
        yield location
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from leaves(item, (*location, key))


@pytest.mark.parametrize(
    ("location", "line"),
    [
        (("title",), 2),
        (("quoted key",), 3),
        (("escaped",), 4),
        (("many",), 5),
        (("many", 0), 6),
        (("many", 1), 8),
        (("many", 2, 1), 10),
        (("many", 3, "x"), 10),
        (("many", 3, "y", 0), 11),
        (("text",), 13),
        (("literal",), 17),
        (("when",), 20),
        (("a", "b", "c.d"), 21),
        (("table", "sub", "key"), 23),
        (("table", "dotted.name", "stop", "episodes"), 25),
        (("list", 0, "n"), 27),
        (("list", 1, "n"), 29),
        (("list", 1, "inner", "m"), 31),
    ],
)
def test_awkward_file(location: Location, line: int) -> None:
    assert locate(AWKWARD)[location] == line


def test_every_entry_of_an_awkward_file_is_found() -> None:
    assert set(locate(AWKWARD)) == set(leaves(tomllib.loads(AWKWARD)))


blank = st.sampled_from(["", " ", "\n", " # ] \" ' {\n", "\n\n"])
scalar = st.sampled_from(["1", "-2.5e3", "true", '"a,]#"', "'\\'", '"\\\\"', '"""\n"x\n"""', "1979-05-27"])
array = st.recursive(
    scalar,
    lambda inner: st.builds(
        lambda items, gap: "[" + gap + ("," + gap).join(items) + gap + "]", st.lists(inner, max_size=3), blank
    ),
    max_leaves=6,
)
name = st.sampled_from(["a", "b-c", '"d.e"', "'f g'", "h . i"])
body = st.dictionaries(name, array, max_size=4)


@pytest.mark.slow
@given(body, st.dictionaries(st.sampled_from(["t", "u.v", 'u."w x"']), body, max_size=3), blank)
def test_every_entry_of_any_file_is_found(
    top: dict[str, str], tables: dict[str, dict[str, str]], gap: str
) -> None:
    def lines(entries: dict[str, str]) -> str:
        return "".join(f"{key} = {value}\n{gap}\n" for key, value in entries.items())

    text = lines(top) + "".join(f"[{header}]\n{lines(entries)}" for header, entries in tables.items())
    found = locate(text)
    assert set(found) == set(leaves(tomllib.loads(text)))
    for location, line in found.items():
        if isinstance(location[-1], str):
            assert location[-1] in text.splitlines()[line - 1]


@pytest.mark.parametrize(
    ("one", "other", "edits"),
    [("sac", "a2c", 2), ("dqm", "dqn", 1), ("troch", "torch", 1), ("", "abc", 3), ("abcd", "acbd", 1)],
)
def test_the_distance_of_two_names(one: str, other: str, edits: int) -> None:
    assert distance(one, other) == distance(other, one) == edits


def test_only_a_slip_is_taken_for_another_name() -> None:
    algorithms = ["a2c", "dqn", "ppo", "rainbow"]
    assert nearest("sac", algorithms) is None
    assert suggest("sac", algorithms) == "; known: a2c, dqn, ppo, rainbow"
    assert [nearest(name, algorithms) for name in ("dqm", "poo", "A2C", "rianbow", "rain")] == [
        *("dqn", "ppo", "a2c", "rainbow", "rainbow")
    ]
    assert nearest("ep", ["epochs"]) is None
    assert nearest("pytorch", ["pytensor", "torch", "theano"]) == "torch"
    assert nearest("epsilon", ["epsilon_start", "epsilon_end"]) is None


def test_suggestions() -> None:
    assert suggest("torch:complie", ["torch:eager", "torch:compile"]) == ", did you mean 'torch:compile'?"
    assert suggest("CPU", ["cpu", "cuda"]) == ", did you mean 'cpu'?"
    assert suggest("zzz", ["a", "b"]) == "; known: a, b"
    assert suggest("zzz", [f"name{n}" for n in range(40)]) == ""


def test_key_names_are_written_as_in_the_file() -> None:
    assert key_name(("hyper", "dqn", "ALE/Pong-v5", "gamma", 0)) == 'hyper.dqn."ALE/Pong-v5".gamma'


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"a = 1\nb = ]\n", 2, "invalid value"),
        (b"a = 1\n\na = 2\n", 3, "cannot overwrite"),
        (b"a = 1\nb = '\xff'\n", 2, "UTF-8"),
        (b"a = 1\r\nb = 1\r\nc == 2\r\n", 3, "invalid value"),
        (b'a = 1\nb = "open', 2, "unterminated"),
    ],
)
def test_a_file_that_is_no_toml(tmp_path, content, line, words) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(content)
    with pytest.raises(Problem) as caught:
        read(path)
    assert caught.value.message.startswith(f"{path}:{line}: ")
    assert words.lower() in caught.value.message.lower()


def test_a_missing_file_suggests_its_neighbour(tmp_path) -> None:
    (tmp_path / "quickstart.toml").write_text("")
    with pytest.raises(Problem) as caught:
        read(tmp_path / "quikstart.toml")
    assert str(tmp_path / "quickstart.toml") in str(caught.value.fix)
    with pytest.raises(Problem, match="cannot be read"):
        read(tmp_path)


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int = 1


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: str
    one: Inner = Inner()
    many: tuple[Inner, ...] = ()
    named: dict[str, Inner] = {}


def test_all_mistakes_of_a_model_come_at_once_with_line_and_suggestion(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(
        "titel = 'x'\none.sise = 2\nmany = [{size = 1}, {siez = 1}]\n[named.any]\nsizes = 3\nsize = 'x'\n"
    )
    with pytest.raises(Problem) as raised:
        load(Outer, path, "a test file")
    assert raised.value.message == f"{path} has 6 mistakes"
    assert (raised.value.detail or "").splitlines() == [
        f"{path}:1: titel: unknown key, did you mean 'title'?",
        f"{path}:1: title: missing: a test file must give it",
        f"{path}:2: one.sise: unknown key, did you mean 'size'?",
        f"{path}:3: many.siez: unknown key, did you mean 'size'?",
        f"{path}:5: named.any.sizes: unknown key, did you mean 'size'?",
        f"{path}:6: named.any.size: must be a whole number, not 'x'",
    ]


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("# why\nseeds = 3  # few\n\n[budget]\nsteps = 5\n", "# why\n"),
        ("seeds = [\n  1,\n  2,\n]\ncores = 1 # one\n", "cores = 1 # one"),
        ("cores = 1 # one\nseeds = { min = 2, max = 5 }", "cores = 1 # one"),
        ("cores = 1\n[seeds]\nmin = 2\nmax = 5\n[budget]\nsteps = 5\n", "[budget]"),
        ("cores = 1\n[budget]\nsteps = 5\n[seeds]\nmin = 2\n", "[budget]"),
        ("seeds.min = 2\nseeds.max = 3\ncores = 1\n", "cores = 1"),
        ("cores = 1\n", "cores = 1"),
    ],
)
@pytest.mark.parametrize("value", [10, {"min": 5, "max": 30, "until": "resolved"}], ids=str)
def test_another_value_for_one_key(written: str, kept: str, value: object) -> None:
    changed = with_value(written, "seeds", value)
    assert tomllib.loads(changed) == {**tomllib.loads(written), "seeds": value}
    assert kept in changed


@pytest.mark.parametrize("target", ["pipe", "/dev/zero", "folder", "long"])
def test_only_plain_files_of_a_bounded_size_are_read(target: str, tmp_path: Path) -> None:
    """A study of a foreign directory may be a link to a device without an end, or a pipe without a writer."""
    path = tmp_path / "study.toml"
    if target == "pipe":
        os.mkfifo(path)
    elif target == "folder":
        path.mkdir()
    elif target == "long":
        with path.open("wb") as stream:
            stream.truncate(2**40)
    else:
        path.symlink_to(target)
    with pytest.raises(Problem) as caught:
        read(path)
    assert str(path) in caught.value.message
