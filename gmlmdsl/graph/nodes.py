"""The lowered form of a factor: a small tree of array operations, shared by all factors of a group.

A tree is evaluated for many factors at once, by NumPy when a program is bound and by JAX
afterwards. Leaves are arrays whose last axes are the caller's batch axes. Every `Add`, which stands
for a `sum(..)`, adds one leading axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import Span
from ..program import CODES, Scale
from ._arithmetic import OPERATORS, applied

if TYPE_CHECKING:
    from types import ModuleType

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Constant:
    """The same number for every factor."""

    value: float | int | bool


@dataclass(frozen=True, slots=True)
class Column:
    """A number for each factor: `columns[k]`, shape (factors, *sums).

    An axis along which the number does not vary has length 1.
    """

    k: int


@dataclass(frozen=True, slots=True)
class CellValue:
    """The values of the slots `start` to `start + product of shape`.

    Attributes:
        start: the first slot.
        shape: the leading axes.
        scale: which number each code of these slots stands for.
    """

    start: int
    shape: tuple[int, ...]
    scale: Scale = CODES


@dataclass(frozen=True, slots=True)
class Gather:
    """An entry of parameter `name`, or of `tables[table]` if the name is empty.

    Attributes:
        name: the name of the parameter, or an empty text.
        table: the number of the table.
        size: the number of entries.
        base: a tree for the first part of the flat index.
        terms: pairs of trees (term, stride). The flat index is `base` + sum of term * stride.
    """

    name: str
    table: int
    size: int
    base: Node
    terms: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator or function of the language; `span` is its place in the text."""

    operator: str
    operands: tuple[Node, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class If:
    """The choice of `yes` if `test` holds, else of `no`."""

    test: Node
    yes: Node
    no: Node


@dataclass(frozen=True, slots=True)
class Add:
    """The reduction of `body` over its leading axis number `depth`, restricted to `mask`.

    Attributes:
        body: the terms.
        depth: the number of the axis.
        mask: the terms that exist. It has the full length of the axis.
        operator: `+`, or another reduction: `* min max logsumexp`.
    """

    body: Node
    depth: int
    mask: Node
    operator: str = "+"


@dataclass(frozen=True, slots=True)
class Pick:
    """The entry of `body` that `index` selects along leading axis number `depth`, of length `size`.

    It is the value of a cell that other cells choose.
    """

    index: Node
    body: Node
    depth: int
    size: int


Node = Constant | Column | CellValue | Gather | Apply | If | Add | Pick


@dataclass(frozen=True)
class Leaves:
    """The numbers and operations by which a tree is evaluated; all numbers broadcast.

    Attributes:
        column: (k, depth) -> array with leading axes for the sums around it, then the batch axes.
        cells: (start, shape) -> integer codes of those slots, with the same axes.
        gather: (name or "", table, flat index) -> entries.
        number: converts to an array of the working float type.
        integer: converts to an array of integers.
        operators: the operators on numbers, by name.
        whole: the operators on integers, by name, for indices.
        xp: the array library.
        judged: applies an operator instead of these tables, given its node, its operands and the
            mask of elements that count. It raises for operations without a value.
    """

    column: Callable[[int, int], Any]
    cells: Callable[[int, tuple[int, ...]], Any]
    gather: Callable[[str, int, Any], Any]
    number: Callable[[Any], Any]
    integer: Callable[[Any], Any]
    operators: dict[str, Callable[..., Any]]
    whole: dict[str, Callable[..., Any]]
    xp: ModuleType
    judged: Callable[[Apply, list[Any], Any], Any] | None = None


NEUTRAL = {"+": 0, "*": 1, "min": np.inf, "max": -np.inf, "logsumexp": -np.inf}
# These operations, or their derivatives, can be infinite at values that do not count.
SINGULAR = frozenset({"log", "sqrt", "exp", "/", "//", "%", "^"})


def evaluate(node: Node, leaves: Leaves, depth: int = 0, taken: Any = None, whole: bool = False) -> Any:
    """Return the values of a tree.

    Args:
        node: the tree.
        leaves: its numbers and operators.
        depth: the number of leading axes that the sums around it have added.
        taken: a mask of the elements that count (None: all). Elsewhere singular operations get
            harmless operands, because an infinite derivative times the zero of a `where` is nan.
        whole: whether the tree is an index, which is computed in integers.
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
    """Return the neutral element of a reduction.

    Integers have no infinity, so their extreme value stands in for it.
    """
    if body.dtype.kind not in "iu" or operator in ("+", "*"):
        return NEUTRAL[operator]
    extreme = (1 << (8 * body.dtype.itemsize - 1)) - 1
    return extreme if operator == "min" else -extreme


def _applied(node: Apply, leaves: Leaves, depth: int, taken: Any, whole: bool) -> Any:
    """Evaluate an operation with the short-circuit rule of Python for `and` and `or`.

    Their right operand counts only if the left one does not decide.
    """
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


def inside(here: Any, taken: Any, depth: int, xp: ModuleType) -> Any:
    """Return the mask of a part with one more axis: `here` and `taken`, unless that is None.

    Args:
        here: the mask with the new axis.
        taken: the mask of the surrounding part, without it; None means that all elements count.
        depth: the place of the new axis.
        xp: the array library.
    """
    return here if taken is None else here & xp.expand_dims(taken, depth)


def _alike(a: Any, b: Any, leaves: Leaves) -> tuple[Any, Any]:
    """Convert two branches to one type: numbers, unless both agree already."""
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
    """Return the tree with `change` applied to every node, from the inside out."""

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
    """Return every node of a tree."""
    return [node, *(x for n in parts_of(node) for x in nodes_in(n))]


def parts_of(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly inside a node."""
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


def instances_last(a: Array, rows: slice) -> Array:
    """Move the instance axis of an array of shape (n or 1, *sums): return (*sums, n or 1, 1)."""
    part = a[rows] if a.shape[0] > 1 else a
    return np.moveaxis(part, 0, -1)[..., None]


def numpy_leaves(
    columns: Sequence[Array],
    tables: Sequence[Array],
    codes: dict[int, Array],
    rows: slice,
    params: Mapping[str, Array] | None = None,
    bits: int = 0,
) -> Leaves:
    """Return leaves for some instances under all joint values of their cells.

    The batch axes are (instances, values).

    Args:
        columns: the columns of the group.
        tables: the tables of the group.
        codes: the code of each slot under each joint value.
        rows: the instances.
        params: parameters, if the tree mentions any.
        bits: if not 0, an operation that counts and has no value raises E416. Integers then have so
            many bits: 64, or 32 for an index on the device.
    """

    def cells(start: int, shape: tuple[int, ...]) -> Array:
        size = int(np.prod(shape, dtype=np.int64))
        return np.stack([codes[s] for s in range(start, start + size)]).reshape((*shape, 1, -1))

    def gather(name: str, table: int, index: Array) -> Array:
        if not name:
            return tables[table][index]
        assert params is not None, "an index mentions no parameter"
        return np.ravel(params[name])[index]

    return Leaves(
        column=lambda k, depth: instances_last(columns[k], rows),
        cells=cells,
        gather=gather,
        number=lambda a: np.asarray(a, dtype=np.float64),
        integer=lambda a: np.rint(a).astype(np.int64) if np.asarray(a).dtype.kind == "f" else np.asarray(a, dtype=np.int64),
        operators=OPERATORS,
        whole=OPERATORS,
        xp=np,
        judged=(lambda node, operands, taken: applied(node.operator, operands, True if taken is None else taken, node.span, bits))
        if bits
        else None,
    )


def reduced(operator: str, terms: Any, axis: int, xp: ModuleType) -> Any:
    """Return the reduction of an array of NumPy or JAX along an axis.

    `logsumexp` is accurate for terms of any size.

    Args:
        operator: `+`, `*`, `min`, `max` or `logsumexp`.
        terms: the terms.
        axis: the axis of the reduction.
        xp: the array library.
    """
    match operator:
        case "+":
            return terms.sum(axis=axis)
        case "*":
            return terms.prod(axis=axis)
        case "min":
            return terms.min(axis=axis)
        case "max":
            return terms.max(axis=axis)
    highest = terms.max(axis=axis, keepdims=True)
    highest = xp.where(xp.isfinite(highest), highest, 0.0)
    return xp.log(xp.exp(terms - highest).sum(axis=axis)) + xp.squeeze(highest, axis)
