"""Integer expressions over axis names: ``"2 * rows * (cols + 1)"``. Nothing is executed."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: lambda left, right: left // right,
}
# Enough for any shape; it keeps a hostile text from exhausting the parser.
_LONGEST = 200


def parse(text: str) -> ast.expr:
    """Parse ``text`` into a checked tree of names, integers and ``+ - * //``.

    Raises:
        ValueError: It is not such an expression.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"an expression has at most {_LONGEST} characters, this one {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{text!r} is not an expression: {error.msg}") from error
    for node in ast.walk(tree):
        _check(node, text)
    return tree


def names(text: str) -> frozenset[str]:
    """Return the axis names in ``text``.

    Raises:
        ValueError: It is not an expression.
    """
    return frozenset(node.id for node in ast.walk(parse(text)) if isinstance(node, ast.Name))


def evaluate(text: str, axes: Mapping[str, int]) -> int:
    """Return the value of ``text`` with the values of ``axes``.

    Raises:
        ValueError: It is not an expression, names an unknown axis, or divides by zero.
    """
    try:
        return _value(parse(text), axes)
    except KeyError as error:
        raise ValueError(f"{text!r} names {error}; known axes: {sorted(axes)}") from error
    except ZeroDivisionError as error:
        raise ValueError(f"{text!r} divides by zero at {dict(axes)}") from error


def _check(node: ast.AST, text: str) -> None:
    if isinstance(node, ast.Constant):
        allowed = type(node.value) is int
    elif isinstance(node, ast.BinOp):
        allowed = type(node.op) in _OPERATORS
    else:
        allowed = isinstance(node, ast.Name | ast.operator | ast.UnaryOp | ast.USub | ast.Load)
    if not allowed:
        raise ValueError(f"{text!r} may only hold axis names, integers, + - * // and brackets")


def _value(node: ast.expr, axes: Mapping[str, int]) -> int:
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, axes), _value(node.right, axes))
    if isinstance(node, ast.UnaryOp):
        return -_value(node.operand, axes)
    if isinstance(node, ast.Name):
        return axes[node.id]
    return int(ast.literal_eval(node))
