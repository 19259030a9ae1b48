"""The lowered form of a factor: a small tree of array operations, the same for every factor of a group.

A tree is evaluated for many factors at once, by NumPy when a program is bound and by JAX afterwards. Leaves are
arrays whose last axes are the caller's batch axes; every `Add` over a `sum(..)` has one leading axis more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
    """The values of the slots `start` to `start + product of shape`, the leading axes being `shape`; spins as -1 and +1 if `spin`."""

    start: int
    shape: tuple[int, ...]
    spin: bool


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
    """An operator or function of the language."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class If:
    """`yes` where `test`, else `no`."""

    test: Node
    yes: Node
    no: Node


@dataclass(frozen=True, slots=True)
class Add:
    """The sum of `body` over its leading axis number `depth`, where `mask` holds; `mask` has the axis's full length."""

    body: Node
    depth: int
    mask: Node


@dataclass(frozen=True, slots=True)
class Pick:
    """The entry of `body` along leading axis number `depth` that `index` names: a cell chosen by other cells."""

    index: Node
    body: Node
    depth: int


Node = Constant | Column | CellValue | Gather | Apply | If | Add | Pick


@dataclass(frozen=True)
class Leaves:
    """Where a tree finds its numbers, all broadcasting against one another.

    Attributes:
        column: k -> array; leading axes for the sums around it, then the batch axes.
        cells: (start, shape) -> integer codes of those slots, likewise.
        gather: (name or "", table, flat index) -> entries.
        number: makes an array of the working float type.
        where, sum, take: the array library's; `operators` its operators by name.
    """

    column: Callable[[int, int], Any]
    cells: Callable[[int, tuple[int, ...]], Any]
    gather: Callable[[str, int, Any], Any]
    number: Callable[[Any], Any]
    integer: Callable[[Any], Any]
    operators: dict[str, Callable[..., Any]]
    xp: Any


def evaluate(node: Node, leaves: Leaves, depth: int = 0) -> Any:
    """The values of a tree; `depth` is the number of leading axes that surrounding sums have opened."""
    xp = leaves.xp
    match node:
        case Constant():
            return node.value
        case Column():
            return leaves.column(node.k, depth)
        case CellValue():
            codes = leaves.cells(node.start, node.shape)
            return 2 * codes - 1 if node.spin else codes
        case Gather():
            index = evaluate(node.base, leaves, depth)
            for term, stride in node.terms:
                index = index + leaves.integer(evaluate(term, leaves, depth)) * evaluate(stride, leaves, depth)
            return leaves.gather(node.name, node.table, xp.clip(index, 0, node.size - 1))
        case Apply():
            return leaves.operators[node.operator](*(evaluate(o, leaves, depth) for o in node.operands))
        case If():
            yes, no = evaluate(node.yes, leaves, depth), evaluate(node.no, leaves, depth)
            return xp.where(evaluate(node.test, leaves, depth), *alike(yes, no, leaves))
        case Add():
            body = leaves.number(evaluate(node.body, leaves, depth + 1))
            mask = evaluate(node.mask, leaves, depth + 1)
            return xp.sum(xp.where(mask != 0, body, xp.zeros_like(body)), axis=node.depth)
        case Pick():
            index = leaves.integer(evaluate(node.index, leaves, depth))
            body = evaluate(node.body, leaves, depth + 1)
            places = xp.arange(body.shape[node.depth], dtype=index.dtype).reshape(
                (1,) * node.depth + (-1,) + (1,) * (body.ndim - node.depth - 1)
            )
            chosen = places == xp.expand_dims(index, node.depth)
            return xp.sum(xp.where(chosen, body, xp.zeros_like(body)), axis=node.depth)


def alike(a: Any, b: Any, leaves: Leaves) -> tuple[Any, Any]:
    """Two branches in one type: both as they are where they agree, else as numbers."""
    kinds = {_kind(a), _kind(b)}
    if kinds == {"i"}:
        return leaves.integer(a), leaves.integer(b)
    if len(kinds) == 1:
        return a, b
    return leaves.number(a), leaves.number(b)


def _kind(a: Any) -> str:
    if isinstance(a, bool):
        return "b"
    if isinstance(a, int):
        return "i"
    if isinstance(a, float):
        return "f"
    return "i" if a.dtype.kind in "iu" else a.dtype.kind


def nodes_in(node: Node) -> list[Node]:
    """Every node of a tree."""
    match node:
        case Apply():
            inner: tuple[Node, ...] = node.operands
        case If():
            inner = (node.test, node.yes, node.no)
        case Add():
            inner = (node.body, node.mask)
        case Pick():
            inner = (node.index, node.body)
        case Gather():
            inner = (node.base, *(x for t in node.terms for x in t))
        case _:
            inner = ()
    return [node, *(x for n in inner for x in nodes_in(n))]
