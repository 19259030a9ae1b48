"""Integers computed from cells: the device computes them in floats, which are exact up to 2^24."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from .._diagnostics import Span, fail
from ..program import OPERATORS
from ._factor_graph import FactorGroup
from ._ranges import ranges_of
from .limits import MOST_EXACT, SAFE_INTEGER
from .nodes import Add, Apply, CellValue, Column, Constant, Gather, If, Node, Pick

Array = np.ndarray
COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))
# The value of these operations changes completely if an integer is off by one.
DECIDED = COMPARISONS | {"//", "%"}
LEAVES = (Constant, Column, CellValue, Gather)


def exact_parts(group: FactorGroup) -> list[Node]:
    """Return the parts of a group's tree that must be exact.

    These are the operands of `//`, `%` and comparisons whose operands are all integers, together
    with the integer parts of which these operands are made.
    """
    found: dict[int, Node] = {}
    for node in _parts(group.root):
        if isinstance(node, Apply) and _is_decided(node) and all(_is_whole(group, o) for o in node.operands):
            for o in node.operands:
                found.update({id(n): n for n in _whole_parts(group, o)})
    return list(found.values())


def _is_decided(node: Apply) -> bool:
    """Return whether an operation decides on computed numbers.

    Leaves are compared exactly as integers.
    """
    compared = node.operator in COMPARISONS
    return node.operator in DECIDED and not (compared and all(isinstance(o, LEAVES) for o in node.operands))


def is_exact(group: FactorGroup, most_values: int, parts: Sequence[Node]) -> bool:
    """Return whether bounds alone show that all integers in some parts are exact.

    They must fit into 64 bits, and must be exact on the device if `exact_parts` lists them.
    """
    whole = [n for part in parts for n in _parts(part) if isinstance(n, Apply | Add) and _is_whole(group, n)]
    return _below(group, most_values, whole, SAFE_INTEGER) and _below(group, most_values, exact_parts(group), MOST_EXACT)


def _below(group: FactorGroup, most_values: int, nodes: Iterable[Node], limit: float) -> bool:
    return all(b is not None and -limit <= b[0] <= b[1] <= limit for b in ranges_of(group, most_values, nodes))


def verify_exact(found: Array, taken: Array | bool, span: Span | None, words: Callable[[Array], str]) -> None:
    """Raise if an integer that counts is too large for a 32-bit float.

    Args:
        found: the values.
        taken: a mask of the values that count.
        span: the place in the text.
        words: a function from the mask of bad values to the words that say when they arise.

    Raises:
        GmlmError: E416.
    """
    if found.dtype.kind not in "iu":
        return
    bad = ((found < -MOST_EXACT) | (found > MOST_EXACT)) & np.asarray(taken)
    if bad.any():
        number = np.broadcast_to(found, bad.shape)[np.unravel_index(int(np.argmax(bad)), bad.shape)]
        message = f"this is {number}{words(bad)}: whole numbers under `//`, `%` and comparisons are exact up to {MOST_EXACT}"
        help = "take the remainder of its parts first, as in `(x % 7) * (100 % 7) % 7`, or compare smaller numbers"
        raise fail("E416", message, span, "not exact", help=help)


def verify_sum(terms: Array, axis: int, taken: Array | bool, span: Span | None) -> None:
    """Raise if a sum of integers does not fit into 64 bits.

    Args:
        terms: the terms.
        axis: the axis of the sum.
        taken: a mask of the sums that count.
        span: the place in the text.

    Raises:
        GmlmError: E416.
    """
    if terms.dtype.kind not in "iu":
        return
    total = terms.astype(float).sum(axis=axis)
    bad = (np.abs(total) >= SAFE_INTEGER) & np.asarray(taken)
    if bad.any():
        message = f"a sum here is {np.broadcast_to(total, bad.shape)[bad][0]:g}, which does not fit into 63 bits"
        raise fail("E416", message, span, "no value", help="a number with a point, as in `2.0`, may be larger")


def _parts(node: Node) -> list[Node]:
    """Return every node of a tree outside indices, which are computed in integers."""
    return [node, *(x for n in _inside(node) for x in _parts(n))]


def _inside(node: Node) -> tuple[Node, ...]:
    match node:
        case Apply():
            return node.operands
        case If():
            return (node.test, node.yes, node.no)
        case Add() | Pick():
            return (node.body,)
        case _:
            return ()


def _whole_parts(group: FactorGroup, node: Node) -> list[Node]:
    """Return the integer parts of which an integer is made, except those below a non-integer."""
    return [node, *(x for n in _inside(node) if _is_whole(group, n) for x in _whole_parts(group, n))]


def _is_whole(group: FactorGroup, node: Node) -> bool:
    match node:
        case Constant():
            return not isinstance(node.value, float)
        case Column():
            return group.columns[node.k].dtype.kind in "biu"
        case CellValue():
            return True
        case Gather():
            return not node.name and group.tables[node.table].dtype.kind in "biu"
        case Apply():
            operator = OPERATORS.get(node.operator)
            return not (operator is not None and operator.is_real) and all(_is_whole(group, o) for o in node.operands)
        case If():
            return _is_whole(group, node.yes) and _is_whole(group, node.no)
        case Add():
            return node.operator != "logsumexp" and _is_whole(group, node.body)
        case _:
            return _is_whole(group, node.body)
