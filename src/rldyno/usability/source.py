"""How much code an algorithm takes in a backend, counted from its syntax tree.

Lines hold code: no blank ones, comments or docstrings. Cyclomatic complexity is McCabe's, as radon counts it,
without assertions. A nested function counts by itself.
"""

from __future__ import annotations

import ast
import fnmatch
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from radon.visitors import ComplexityVisitor

from rldyno.usability.frameworks import Transfers
from rldyno_rig.algorithms import ALGORITHMS

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_LAYOUT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


@dataclass(frozen=True)
class Function:
    name: str
    lines: int
    complexity: int


def code_lines(text: str) -> set[int]:
    """Numbers of the lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        lines -= docstring_lines(node)
    return lines


def docstring_lines(node: ast.AST) -> set[int]:
    """Of a module, class or function; and of the strings below fields of a class, which document them."""
    body = getattr(node, "body", None)
    if not isinstance(body, list):
        return set()
    strings = [item for item in body if isinstance(item, ast.Expr) and _is_text(item.value)]
    return {line for item in strings for line in range(item.lineno, (item.end_lineno or item.lineno) + 1)}


def functions(text: str) -> list[Function]:
    lines = code_lines(text)
    return [
        Function(node.name, len(lines & set(extent(node))), complexity(node))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, _Function)
    ]


def extent(node: _Function) -> range:
    """Its lines, decorators included."""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return range(first, (node.end_lineno or node.lineno) + 1)


def complexity(function: _Function) -> int:
    """Without the functions inside it."""
    visitor = ComplexityVisitor(no_assert=True)
    visitor.visit(function)
    return int(visitor.functions[0].complexity)


def transfer_statements(text: str, transfers: Transfers) -> int:
    """Statements that, by these patterns, place an array on a device, move it, or wait for it."""
    return sum(
        any(is_transfer(node, transfers) for node in own_expressions(statement))
        for statement in ast.walk(ast.parse(text))
        if isinstance(statement, ast.stmt)
    )


def own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """What a statement evaluates itself, without the statements inside it."""
    pending = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt))


def is_transfer(node: ast.AST, transfers: Transfers) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = ast.unparse(node.func)
    return any(fnmatch.fnmatchcase(called, pattern) for pattern in transfers.calls) or any(
        keyword.arg in transfers.keywords for keyword in node.keywords
    )


def measure(texts: Iterable[str], transfers: Transfers) -> dict[str, object]:
    """The figures of one backend: `texts` are the files that make it up."""
    texts = list(texts)
    found = [function for text in texts for function in functions(text)]
    widest = max(found, key=lambda function: function.complexity)
    return {
        "lines": sum(len(code_lines(text)) for text in texts),
        "functions": len(found),
        "complexity": sum(function.complexity for function in found),
        "most_complex": {"name": widest.name, "complexity": widest.complexity},
        "transfer_statements": sum(transfer_statements(text, transfers) for text in texts),
        "losses": {algorithm: loss_of(algorithm, found) for algorithm in ALGORITHMS},
    }


def loss_of(algorithm: str, found: Iterable[Function]) -> dict[str, int] | None:
    """Functions whose name holds the algorithm's as a word: `dqn`, `_dqn_loss` and `_dqn_goal`."""
    named = [function for function in found if algorithm in function.name.split("_")]
    if not named:
        return None
    return {
        "lines": sum(function.lines for function in named),
        "complexity": sum(function.complexity for function in named),
    }


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
