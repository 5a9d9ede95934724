"""Counting the code of a backend: lines, complexity, transfers."""

from __future__ import annotations

import ast

import pytest

from rldyno.usability import source
from rldyno.usability.frameworks import Transfers

SNIPPET = '''"""A module.

With a docstring.
"""

# a comment
import math


def straight(x):
    """What it does."""
    return (
        x
        + 1  # a line of code with a comment
    )


class Thing:
    field: int = 0
    """What the field means."""

    @property
    def branchy(self):
        if self.field and math.pi > 3 or self.field > 7:
            return 1
        for x in range(3):
            while x:
                x -= 1
        try:
            y = [a for a in range(3) if a if a > 1]
        except (ValueError, TypeError):
            y = 1 if self.field else 2

        def inner():
            return 0 if y else 1

        return inner
'''


def functions() -> dict[str, source.Function]:
    return {function.name: function for function in source.functions(SNIPPET)}


def test_lines_hold_code_and_neither_comments_nor_docstrings() -> None:
    lines = SNIPPET.splitlines()
    counted = [lines[number - 1].strip() for number in sorted(source.code_lines(SNIPPET))]
    assert counted[:6] == [
        "import math",
        "def straight(x):",
        "return (",
        "x",
        "+ 1  # a line of code with a comment",
        ")",
    ]
    assert not any(line.startswith(('"""', "#")) or "docstring" in line or not line for line in counted)
    assert functions()["straight"].lines == 5


def test_a_string_that_is_used_is_code() -> None:
    assert source.code_lines('x = """\ntext\n"""\n') == {1, 2, 3}


@pytest.mark.parametrize(
    ("body", "complexity"),
    [
        ("return 1", 1),
        ("if a:\n  return 1\n elif b:\n  return 2\n else:\n  return 3", 3),
        ("return a and b and c", 3),
        ("return [x for x in a for y in x if y]", 4),
        ("for x in a:\n  pass\n else:\n  pass", 3),
        ("try:\n  pass\n except A:\n  pass\n except B:\n  pass\n finally:\n  pass", 3),
        ("with a:\n  assert b", 1),
        ("match a:\n  case 1:\n   pass\n  case _:\n   pass", 2),
        ("return lambda: a if b else c", 2),
    ],
)
def test_complexity_is_one_plus_the_decisions(body: str, complexity: int) -> None:
    (function,) = ast.parse(f"def f(a, b, c):\n {body}\n").body
    assert isinstance(function, ast.FunctionDef)
    assert source.complexity(function) == complexity


def test_a_nested_function_counts_by_itself() -> None:
    # if, and, or, for, while, comprehension with two ifs, except, conditional expression
    assert functions()["branchy"].complexity == 1 + 1 + 2 + 2 + 3 + 1 + 1
    assert functions()["inner"].complexity == 2


def test_transfers_are_counted_by_statement() -> None:
    text = """
x = a.to(device).cpu()
y = torch.cuda.Stream()
if z.cpu():
    w = empty(3, device=device)
    v = to(x)
with torch.device("cpu"):
    pass
"""
    patterns = Transfers(calls=("*.to", "*.cpu", "torch.cuda.*", "torch.device"), keywords=("device",))
    assert source.transfer_statements(text, patterns) == 5
    assert source.transfer_statements(text, Transfers()) == 0
