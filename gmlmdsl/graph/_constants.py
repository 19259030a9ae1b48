"""Values of expressions that mention index names and inputs only, for many index values at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from .._diagnostics import Faults, each, fail
from ..program import ir
from ._arithmetic import applied
from ._edge_places import edge_places, entry_places
from ._ends import is_unordered, swaps_further
from ._exact import verify_sum
from ._graph_arrays import GraphArrays
from ._loops import MOST_ENTRIES, product

Array = np.ndarray


class Numbers(Protocol):
    """Where constants find the numbers of inputs, and what the sets hold that their sums run over."""

    @property
    def inputs(self) -> Mapping[str, Array]:
        """The arrays of inputs."""
        ...

    @property
    def lengths(self) -> Mapping[str, int]:
        """The lengths that axes of inputs have named."""
        ...

    @property
    def graphs(self) -> Mapping[str, GraphArrays]:
        """The arrays of graphs."""
        ...

    def axes(self, name: str) -> tuple[ir.SetOf, ...]:
        """What the axes of an input run over."""
        ...

    def members(self, s: ir.SetOf) -> list[Array]:
        """One array per index name that runs over a set."""
        ...


def constant(e: ir.Expression, numbers: Numbers, names: Mapping[str, Array] | None = None, taken: Array | bool = True) -> Array:
    """The value of `e` where each index name stands for an array; the arrays broadcast. Indices and operations count only where `taken`.

    Raises:
        GmlmError: E407 where an index into an input leaves its range, E414 where a pair is no edge, E416 where an operation has no
            value, E412 where a sum has too many terms.
    """
    return np.asarray(_Constants(numbers, names or {}).value(e, taken))


class _Constants:
    def __init__(self, numbers: Numbers, names: Mapping[str, Array]):
        self.numbers, self.names = numbers, names

    def value(self, e: ir.Expression, taken: Array | bool = True) -> Array:
        match e:
            case ir.Literal():
                return np.asarray(e.value)
            case ir.LabelCode():
                return np.asarray(e.code)
            case ir.IndexValue():
                return np.asarray(self.names[e.name])
            case ir.InputValue() if e.name in self.numbers.lengths:
                return np.asarray(self.numbers.lengths[e.name])
            case ir.InputValue():
                return self.entry(e, taken)
            case ir.Operation():
                return self.operation(e, taken)
            case ir.Choice():
                test = self.value(e.test, taken)
                return np.where(test, self.value(e.yes, taken & test), self.value(e.no, taken & ~test))
            case ir.Sum():
                return self.sum(e, taken)
            case _:
                raise AssertionError(f"not a constant: {type(e).__name__}")

    def operation(self, e: ir.Operation, taken: Array | bool) -> Array:
        """As in Python, the right side of `and` and `or` counts only where the left one does not decide."""
        faults = Faults()
        found: list[Array] = []
        for o in e.operands:
            with faults:
                found.append(self.value(o, taken))
                if e.operator in ("and", "or"):
                    taken = taken & (found[0].astype(bool) if e.operator == "and" else ~found[0].astype(bool))
            if faults.found and e.operator in ("and", "or"):
                break
        faults.tell()
        return applied(e.operator, found, taken, e.span)

    def sum(self, e: ir.Sum, taken: Array | bool) -> Array:
        """Its loops turn along one more axis behind all others."""
        members = product([self.numbers.members(loop.over) for loop in e.clauses.loops])
        count, around = len(members[0]), np.broadcast_shapes(np.shape(taken), *(np.shape(v) for v in self.names.values()))
        if count * math.prod(around) > MOST_ENTRIES:
            message = f"this sum has {count:,} terms for each of {math.prod(around):,} iterations: too many"
            raise fail("E412", message, e.span, "too large")
        lifted = {name: np.asarray(v)[..., None] for name, v in self.names.items()}
        inside = zip((n for loop in e.clauses.loops for n in loop.names), members, strict=True)
        inner, here = _Constants(self.numbers, lifted | dict(inside)), np.asarray(taken)[..., None]
        if e.clauses.condition is not None:
            here = here & inner.value(e.clauses.condition, here).astype(bool)
        terms = np.where(here, inner.value(e.body, here), 0)
        terms = np.broadcast_to(terms, (*terms.shape[:-1], count))
        verify_sum(terms, -1, taken, e.span)
        return terms.sum(axis=-1)

    def entry(self, e: ir.InputValue, taken: Array | bool) -> Array:
        array, axes = self.numbers.inputs[e.name], self.numbers.axes(e.name)
        places, faults, at = [], Faults(), 0
        for k, over in enumerate(axes):
            with faults:
                places.append(self.place(e, over, e.indices[at : at + over.arity], array.shape[k], taken))
            at += over.arity
        faults.tell()
        for k, (over, (_, turned)) in enumerate(zip(axes, places, strict=True)):
            if is_unordered(over, self.numbers.graphs) and swaps_further([*axes[k + 1 :]]):
                (p, _), (q, other) = places[k + 1 :]
                places[k + 1 :] = [(np.where(turned, q, p), other), (np.where(turned, p, q), other)]
        return array[tuple(place for place, _ in places)]

    def place(
        self, e: ir.InputValue, over: ir.SetOf, indices: Sequence[ir.Expression], length: int, taken: Array | bool
    ) -> tuple[Array, Array]:
        """The place on one axis, of an index or of the edge that two of them name; and whether it has these the other way round."""
        if over.arity == 1:
            return in_range(self.value(indices[0], taken), length, taken, indices[0], e.name), np.zeros((), bool)
        graph = self.numbers.graphs[over.graph]
        i, j = each(lambda end: in_range(self.value(end, taken), max(graph.n, graph.n_right), taken, end, e.name), indices)
        return entry_places(graph, over, edge_places(graph, over, i, j, taken, e), i > j, True)


def whole(value: Array, taken: Array | bool, e: ir.Expression) -> Array:
    """A value as integers: a negative power of a whole number is none.

    Raises:
        GmlmError: E416 where it is taken and not whole.
    """
    if value.dtype.kind != "f":
        return value
    bad = ~(np.isfinite(value) & (value == np.floor(value))) & taken
    if np.any(bad):
        first = np.broadcast_to(value, np.shape(bad))[bad].ravel()[0]
        raise fail("E416", f"an integer is needed here, and this is {first:g}", e.span, "not whole", help="use `//` for whole division")
    return np.where(np.isfinite(value), value, 0).astype(np.int64)


def in_range(value: Array, length: int, taken: Array | bool, e: ir.Expression, name: str) -> Array:
    """`value` clipped into an axis, after checking that it is whole and lies in it wherever it is `taken`."""
    value = whole(value, taken, e)
    bad = ((value < 0) | (value >= length)) & taken
    if np.any(bad):
        first = np.broadcast_to(value, np.shape(bad))[bad].ravel()[0] if np.ndim(bad) else value
        message = f"an index of `{name}` is {int(first)}, outside 0..{length - 1}"
        parts = list(ir.walk(e))
        help = "limit it with `if`, or wrap it with `%`"
        if not any(isinstance(p, ir.IndexValue) for p in parts):
            varies = any(isinstance(p, ir.VariableValue) for p in parts)
            help = (
                "guard the term, `if .. then .. else 0`, or wrap it with `%`"
                if varies
                else f"indices count from 0, and {length - 1} is the last"
            )
        raise fail("E407", message, e.span, f"reaches {int(first)}", help=help)
    return np.clip(value, 0, length - 1).astype(np.int64)
