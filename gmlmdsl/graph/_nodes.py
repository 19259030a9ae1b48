"""The lowered form of a factor: a small tree of array operations, the same for every factor of a group.

A tree is evaluated for many factors at once, by NumPy when a program is bound and by JAX
afterwards. Leaves are arrays whose last axes are the caller's batch axes; every `Add` over a
`sum(..)` has one leading axis more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from .._diagnostics import Span
from ..program import CODES, Scale
from ._reductions import NEUTRAL, reduced


@dataclass(frozen=True, slots=True)
class Constant:
    """The same number for every factor."""

    value: float | int | bool


@dataclass(frozen=True, slots=True)
class Column:
    """`columns[k]`: a number for each factor, of shape (factors, *sums) with 1 where it does not vary."""

    k: int


@dataclass(frozen=True, slots=True)
class CellValue:
    """The values of the slots `start` to `start + product of shape`, the leading axes being `shape`.

    `scale` says which number each code of these slots stands for.
    """

    start: int
    shape: tuple[int, ...]
    scale: Scale = CODES


@dataclass(frozen=True, slots=True)
class Gather:
    """An entry of parameter `name` (or of `tables[table]`): flat index `base` + sum of term * stride, both trees."""

    name: str
    table: int
    size: int
    base: Node
    terms: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator or function of the language; `span`: where it is written."""

    operator: str
    operands: tuple[Node, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class If:
    """`yes` where `test`, else `no`."""

    test: Node
    yes: Node
    no: Node


@dataclass(frozen=True, slots=True)
class Add:
    """The sum of `body` over its leading axis number `depth`, where `mask` holds; `mask` has the axis's full length.

    `operator`: `+`, or another reduction, `* min max logsumexp`.
    """

    body: Node
    depth: int
    mask: Node
    operator: str = "+"


@dataclass(frozen=True, slots=True)
class Pick:
    """The entry of `body` along leading axis number `depth`, of length `size`, that `index` names: a cell chosen by other cells."""

    index: Node
    body: Node
    depth: int
    size: int


Node = Constant | Column | CellValue | Gather | Apply | If | Add | Pick


@dataclass(frozen=True)
class Leaves:
    """Where a tree finds its numbers, all broadcasting against one another, and how it computes.

    Attributes:
        column: (k, depth) -> array; leading axes for the sums around it, then the batch axes.
        cells: (start, shape) -> integer codes of those slots, likewise.
        gather: (name or "", table, flat index) -> entries.
        number: makes an array of the working float type. integer: one of whole numbers.
        operators: by name, on numbers. whole: by name, on whole numbers, for indices.
        xp: the array library.
        judged: applies an operator in place of these tables, from its node, operands and where it
            is taken: it refuses what has no value.
    """

    column: Callable[[int, int], Any]
    cells: Callable[[int, tuple[int, ...]], Any]
    gather: Callable[[str, int, Any], Any]
    number: Callable[[Any], Any]
    integer: Callable[[Any], Any]
    operators: dict[str, Callable[..., Any]]
    whole: dict[str, Callable[..., Any]]
    xp: Any
    judged: Callable[[Apply, list[Any], Any], Any] | None = None


# where a value that nobody takes can be infinite, or its derivative
SINGULAR = frozenset({"log", "sqrt", "exp", "/", "//", "%", "^"})


def evaluate(node: Node, leaves: Leaves, depth: int = 0, taken: Any = None, whole: bool = False) -> Any:
    """The values of a tree.

    Args:
        node: the tree.
        leaves: its numbers and operators.
        depth: how many leading axes the sums around it have opened.
        taken: where the value counts (None: everywhere). Elsewhere singular operations see harmless
            operands, because an infinite derivative times the zero of a `where` is not a number.
        whole: whether it is an index, computed in whole numbers.
    """
    xp = leaves.xp
    match node:
        case Constant():
            return node.value
        case Column():
            return leaves.column(node.k, depth)
        case CellValue():
            codes = leaves.cells(node.start, node.shape)
            return node.scale.values_of(codes)
        case Gather():
            return _entry(node, leaves, depth, taken)
        case Apply():
            return _applied(node, leaves, depth, taken, whole)
        case If():
            test = xp.asarray(evaluate(node.test, leaves, depth, taken, whole), dtype=bool)
            yes = evaluate(node.yes, leaves, depth, test if taken is None else taken & test, whole)
            no = evaluate(node.no, leaves, depth, ~test if taken is None else taken & ~test, whole)
            return xp.where(test, *_alike(yes, no, leaves))
        case Add():
            mask = xp.asarray(evaluate(node.mask, leaves, depth + 1), dtype=bool)
            convert = leaves.integer if whole else leaves.number
            body = convert(evaluate(node.body, leaves, depth + 1, inside(mask, taken, node.depth, xp), whole))
            return reduced(node.operator, xp.where(mask, body, xp.full_like(body, _neutral(node.operator, body))), node.depth, xp)
        case Pick():
            return _picked(node, leaves, depth, taken, whole)


def _neutral(operator: str, body: Any) -> Any:
    """What changes nothing; of whole numbers, which have no infinity, their extreme."""
    if body.dtype.kind not in "iu" or operator in ("+", "*"):
        return NEUTRAL[operator]
    extreme = (1 << (8 * body.dtype.itemsize - 1)) - 1
    return extreme if operator == "min" else -extreme


def _applied(node: Apply, leaves: Leaves, depth: int, taken: Any, whole: bool) -> Any:
    """As in Python, the right side of `and` and `or` counts only where the left one does not decide."""
    xp, (left, *rest) = leaves.xp, node.operands
    operands, inner = [evaluate(left, leaves, depth, taken, whole)], taken
    if node.operator in ("and", "or"):
        first = xp.asarray(operands[0], dtype=bool)
        open_ = first if node.operator == "and" else ~first
        inner = open_ if taken is None else taken & open_
    operands += [evaluate(o, leaves, depth, inner, whole) for o in rest]
    if leaves.judged is not None:
        return leaves.judged(node, operands, taken)
    if taken is not None and node.operator in SINGULAR:
        convert = leaves.integer if whole else leaves.number
        operands = [o if isinstance(o, int | float) else xp.where(taken, convert(o), 1) for o in operands]
    return (leaves.whole if whole else leaves.operators)[node.operator](*operands)


def _entry(node: Gather, leaves: Leaves, depth: int, taken: Any) -> Any:
    index = evaluate(node.base, leaves, depth, taken, True)
    for term, stride in node.terms:
        value = leaves.integer(evaluate(term, leaves, depth, taken, True))
        index = index + value * evaluate(stride, leaves, depth, taken, True)
    return leaves.gather(node.name, node.table, leaves.xp.clip(index, 0, node.size - 1))


def _picked(node: Pick, leaves: Leaves, depth: int, taken: Any, whole: bool) -> Any:
    xp, index = leaves.xp, leaves.integer(evaluate(node.index, leaves, depth, taken, True))
    places = xp.arange(node.size, dtype=index.dtype).reshape((1,) * node.depth + (-1,) + (1,) * (index.ndim - node.depth))
    here = places == xp.expand_dims(index, node.depth)
    body = (leaves.integer if whole else leaves.number)(evaluate(node.body, leaves, depth + 1, inside(here, taken, node.depth, xp), whole))
    return xp.sum(xp.where(here, body, xp.zeros_like(body)), axis=node.depth)


def inside(here: Any, taken: Any, depth: int, xp: Any) -> Any:
    """Where a part along one more axis counts: `here`, and where what is around it does (None: everywhere)."""
    return here if taken is None else here & xp.expand_dims(taken, depth)


def _alike(a: Any, b: Any, leaves: Leaves) -> tuple[Any, Any]:
    """Two branches in one type: both as they are where they agree, else as numbers."""
    kinds = {_kind(a), _kind(b)}
    convert = {"b": lambda c: c, "i": leaves.integer}.get(kinds.pop() if len(kinds) == 1 else "f", leaves.number)
    return convert(a), convert(b)


def _kind(a: Any) -> str:
    if isinstance(a, bool):
        return "b"
    if isinstance(a, int):
        return "i"
    if isinstance(a, float):
        return "f"
    return "i" if a.dtype.kind in "iu" else a.dtype.kind


def mapped(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with every node replaced by `change` of it, those inside first."""

    def inner(n: Node) -> Node:
        return mapped(n, change)

    match node:
        case Apply():
            node = replace(node, operands=tuple(inner(o) for o in node.operands))
        case If():
            node = replace(node, test=inner(node.test), yes=inner(node.yes), no=inner(node.no))
        case Add():
            node = replace(node, body=inner(node.body), mask=inner(node.mask))
        case Pick():
            node = replace(node, index=inner(node.index), body=inner(node.body))
        case Gather():
            node = replace(node, base=inner(node.base), terms=tuple((inner(t), inner(s)) for t, s in node.terms))
    return change(node)


def nodes_in(node: Node) -> list[Node]:
    """Every node of a tree."""
    return [node, *(x for n in parts_of(node) for x in nodes_in(n))]


def parts_of(node: Node) -> tuple[Node, ...]:
    """The nodes directly inside one."""
    match node:
        case Apply():
            return node.operands
        case If():
            return (node.test, node.yes, node.no)
        case Add():
            return (node.body, node.mask)
        case Pick():
            return (node.index, node.body)
        case Gather():
            return (node.base, *(x for t in node.terms for x in t))
        case _:
            return ()
