"""Values of expressions of index names and inputs alone, for many index values at once.

Indices are checked against the range of their axis; those that depend on cells, over all values of
these cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from .._diagnostics import Faults, Span, each, fail
from ..program import ir
from ._arithmetic import applied
from ._exact import verify_sum
from ._graph_arrays import GraphArrays, edge_places, entry_places, is_unordered, swaps_further
from ._scopes import JointValues
from .limits import MOST_INDEX_ENTRIES, MOST_TRIED_VALUES, TRIED_AT_ONCE
from .nodes import NEUTRAL, CellValue, Node, evaluate, instances_last, nodes_in, numpy_leaves, reduced

Array = np.ndarray


class Numbers(Protocol):
    """The source of the numbers of inputs and of the members of sets."""

    @property
    def inputs(self) -> Mapping[str, Array]:
        """The arrays of inputs."""
        ...

    @property
    def lengths(self) -> Mapping[str, int]:
        """The lengths that axes of inputs name."""
        ...

    @property
    def graphs(self) -> Mapping[str, GraphArrays]:
        """The arrays of graphs."""
        ...

    def axes(self, name: str) -> tuple[ir.SetOf, ...]:
        """Return the set of each axis of an input."""
        ...

    def members(self, s: ir.SetOf) -> list[Array]:
        """Return one array per index name that runs over a set."""
        ...


def constant(e: ir.Expression, numbers: Numbers, names: Mapping[str, Array] | None = None, taken: Array | bool = True) -> Array:
    """Return the value of a constant expression, in which each index name stands for an array.

    Args:
        e: the expression.
        numbers: inputs and sets.
        names: the array of each index name. The arrays broadcast against one another.
        taken: a mask of the elements that count. Indices and operations are checked only there.

    Raises:
        GmlmError: E407 if an index into an input is out of range; E414 if a pair is not an edge;
            E416 if an operation has no value; E412 if a sum has too many terms.
    """
    return np.asarray(_Constants(numbers, names or {}).value(e, taken))


def turned(
    loops: Sequence[ir.Loop], numbers: Numbers, names: Mapping[str, Array], around: int, span: Span
) -> tuple[dict[str, Array], Array | bool, int]:
    """Unroll nested loops along one new last axis.

    Args:
        loops: the loops, outermost first. The set of a loop may depend on names around it.
        numbers: inputs and sets.
        names: index names around the loops, with an axis of length 1 in the place of the new one.
        around: the number of iterations around the loops.
        span: the place in the text that is reported if there are too many iterations.

    Returns:
        The values of each name of the loops, which broadcast against the names around; a mask of
        the existing iterations, or True if all exist; and the length of the new axis.

    Raises:
        GmlmError: E412 if there are too many iterations.
    """
    own: dict[str, Array] = {}
    among: Array | bool = True
    count = 1
    for loop in loops:
        if loop.over.is_dependent:
            found, here = members_at(loop.over, numbers, {**names, **own})
            more = here.shape[-1]
        else:
            found, here = numbers.members(loop.over), None
            more = len(found[0])
        if count * more * around > MOST_INDEX_ENTRIES:
            message = f"this has {count * more:,} terms or iterations" + (f" for each of {around:,} iterations" if around > 1 else "")
            raise fail("E412", f"{message}: too many", span, "too large")
        own = {k: np.repeat(v, more, axis=-1) for k, v in own.items()}
        among = np.repeat(among, more, axis=-1) if isinstance(among, np.ndarray) else among
        if here is None:
            own |= {n: np.tile(m, count) for n, m in zip(loop.names, found, strict=True)}
        else:

            def flat(a: Array, count: int = count, more: int = more) -> Array:
                return np.broadcast_to(a, (*a.shape[:-2], count, more)).reshape((*a.shape[:-2], count * more))

            own |= {n: flat(m) for n, m in zip(loop.names, found, strict=True)}
            among = among & flat(here)
        count *= more
    return own, among, count


def listed_turns(clauses: ir.Clauses, numbers: Numbers) -> tuple[dict[str, Array], int]:
    """Return the iterations of `for .. if ..` as one array per index name, and their number."""
    names, among, count = turned(clauses.loops, numbers, {}, 1, clauses.span)
    if clauses.condition is not None or among is not True:
        test = True if clauses.condition is None else constant(clauses.condition, numbers, names, among)
        keep = np.broadcast_to(np.asarray(test).astype(bool) & among, (count,))
        names, count = {k: v[keep] for k, v in names.items()}, int(keep.sum())
    return names, count


def members_at(over: ir.SetOf, numbers: Numbers, names: Mapping[str, Array]) -> tuple[list[Array], Array]:
    """Return the members of a set that depends on names around it, along one new last axis.

    Sets differ in length, so the second result is a mask of the members that exist.

    Raises:
        GmlmError: E412 if the longest set has too many members; E407 for a node out of range.
    """
    assert over.size is not None
    if over.kind == "graph":
        nodes, degrees = numbers.graphs[over.graph].neighbours
        node = in_range(constant(over.size, numbers, names), len(nodes), True, over.size, over.name)
        node = np.atleast_1d(node)
        return [nodes[node]], np.arange(nodes.shape[1]) < degrees[node][..., None]
    start = whole(constant(over.start, numbers, names), True, over.start) if over.start is not None else np.zeros((), np.int64)
    stop = whole(constant(over.size, numbers, names), True, over.size)
    start, stop = (np.atleast_1d(a)[..., None] for a in (start, stop))
    longest = max(0, int((stop - start).max(initial=0)))
    if longest * max(start.size, stop.size) > MOST_INDEX_ENTRIES:
        raise fail("E412", f"the longest of these sets has {longest:,} members: too many", over.span, "too large")
    steps = np.arange(longest)
    return [start + steps], steps < stop - start


def looked_up(members: list[Array], values: Sequence[Array], taken: Array | bool, e: ir.Expression, over: ir.SetOf) -> Array:
    """Return the place of index values among the members of a set.

    The indices of a triangle may stand in any order.

    Args:
        members: the values of each index name, one array per name.
        values: the index values, which broadcast against one another.
        taken: a mask of the elements that count.
        e: the expression that is reported.
        over: the set.

    Raises:
        GmlmError: E407 if values that count are not a member.
    """
    if over.part == "triangles":
        values = list(np.sort(np.stack(np.broadcast_arrays(*values)), axis=0))
    values = [whole(v, taken, e) for v in values]
    least = [int(m.min(initial=0)) for m in members]
    widths = [int(m.max(initial=0)) - low + 1 for m, low in zip(members, least, strict=True)]
    values = [v - low for v, low in zip(values, least, strict=True)]
    inside = np.all([(v >= 0) & (v < w) for v, w in zip(np.broadcast_arrays(*values), widths, strict=True)], axis=0)
    keys, wanted = np.zeros(len(members[0]), np.int64), np.zeros((), np.int64)
    for m, v, low, w in zip(members, values, least, widths, strict=True):
        keys, wanted = keys * w + (m - low), wanted * w + np.clip(v, 0, w - 1)
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], wanted), max(len(keys) - 1, 0))
    place = order[at] if len(keys) else np.zeros(np.shape(wanted), np.int64)
    bad = np.logical_not(inside & (keys[place] == wanted if len(keys) else False)) & taken
    if np.any(bad):
        shown = [v + low for v, low in zip(values, least, strict=True)]
        first = ", ".join(str(int(np.broadcast_to(v, np.shape(bad))[bad].ravel()[0] if np.ndim(bad) else v)) for v in shown)
        what = f"`{over.name}` has no member"
        if over.part != "triangles" and isinstance(e, ARRAYS):
            what = f"`{e.name}` has no entry" if over.clauses is not None else f"`{e.name}` runs over `{over.name}`, which has no member"
        message = f"{what} {first if len(values) == 1 else f'({first})'}"
        raise fail("E407", message, e.span, "not a member", help="limit it with `if`, or take its indices from a loop over that set")
    return place.astype(np.int64)


ARRAYS = ir.VariableValue | ir.ParameterValue | ir.InputValue | ir.LetValue


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
            case ir.TableEntry():
                return self.table_entry(e, taken)
            case _:
                raise AssertionError(f"not a constant: {type(e).__name__}")

    def operation(self, e: ir.Operation, taken: Array | bool) -> Array:
        """Evaluate an operation with the short-circuit rule of Python for `and` and `or`.

        Their right operand counts only if the left one does not decide.
        """
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
        """Evaluate a reduction, whose loops run along one new last axis."""
        around = np.broadcast_shapes(np.shape(taken), *(np.shape(v) for v in self.names.values()))
        lifted = {name: np.asarray(v)[..., None] for name, v in self.names.items()}
        members, among, count = turned(e.clauses.loops, self.numbers, lifted, math.prod(around), e.span)
        inner, here = _Constants(self.numbers, lifted | members), np.asarray(taken)[..., None] & among
        if e.clauses.condition is not None:
            here = here & inner.value(e.clauses.condition, here).astype(bool)
        terms = np.where(here, inner.value(e.body, here), NEUTRAL[e.operator])
        terms = np.broadcast_to(terms, (*terms.shape[:-1], count))
        if e.operator == "+":
            verify_sum(terms, -1, taken, e.span)
        return reduced(e.operator, terms, -1, np)

    def table_entry(self, e: ir.TableEntry, taken: Array | bool) -> Array:
        places = [in_range(self.value(i, taken), size, taken, i, "this list") for i, size in zip(e.indices, e.shape, strict=True)]
        at = np.ravel_multi_index(np.broadcast_arrays(*places), e.shape)
        found = [np.where(at == k, self.value(item, taken & (at == k)), 0) for k, item in enumerate(e.entries) if np.any(at == k)]
        return np.asarray(sum(found[1:], found[0]))

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
        """Return the place along one axis, and whether it is an edge with its ends reversed.

        The place is that of one index, or of the edge that two indices name.
        """
        if over.is_looked_up:
            values = [self.value(i, taken) for i in indices]
            return looked_up(self.numbers.members(over), values, taken, e, over), np.zeros((), bool)
        if over.arity == 1:
            return in_range(self.value(indices[0], taken), length, taken, indices[0], e.name), np.zeros((), bool)
        graph = self.numbers.graphs[over.graph]
        i, j = each(lambda end: in_range(self.value(end, taken), max(graph.n, graph.n_right), taken, end, e.name), indices)
        return entry_places(graph, over, edge_places(graph, over, i, j, taken, e), i > j, True)


def whole(value: Array, taken: Array | bool, e: ir.Expression) -> Array:
    """Return a value as integers.

    A negative power of an integer is a float, so it must be whole as well.

    Raises:
        GmlmError: E416 if an element that counts is not whole.
    """
    if value.dtype.kind != "f":
        return value
    bad = ~(np.isfinite(value) & (value == np.floor(value))) & taken
    if np.any(bad):
        first = np.broadcast_to(value, np.shape(bad))[bad].ravel()[0]
        raise fail("E416", f"an integer is needed here, and this is {first:g}", e.span, "not whole", help="use `//` for whole division")
    return np.where(np.isfinite(value), value, 0).astype(np.int64)


def in_ticks(name: str) -> str:
    """A name in ticks; words as they are."""
    return name if " " in name else f"`{name}`"


def in_range(value: Array, length: int, taken: Array | bool, e: ir.Expression, name: str, start: int = 0) -> Array:
    """Return the place of `value` on an axis, clipped to it, after checking it wherever `taken` holds.

    Args:
        value: the index.
        length: the length of the axis.
        taken: a mask of the elements that count.
        e: the expression that is reported.
        name: the name of the indexed array.
        start: the first index of the axis.

    Raises:
        GmlmError: E416 if an element that counts is not whole, E407 if it is outside the axis.
    """
    value = whole(value, taken, e)
    bad = ((value < start) | (value >= start + length)) & taken
    if np.any(bad):
        first = np.broadcast_to(value, np.shape(bad))[bad].ravel()[0] if np.ndim(bad) else value
        message = f"an index of {in_ticks(name)} is {int(first)}, outside {start}..{start + length - 1}"
        parts = list(ir.walk(e))
        help = "limit it with `if`, or wrap it with `%`"
        if not any(isinstance(p, ir.IndexValue) for p in parts):
            varies = any(isinstance(p, ir.VariableValue) for p in parts)
            help = (
                "guard the term, `if .. then .. else 0`, or wrap it with `%`"
                if varies
                else f"indices count from {start}, and {start + length - 1} is the last"
            )
        raise fail("E407", message, e.span, f"reaches {int(first)}", help=help)
    return np.clip(value - start, 0, length - 1).astype(np.int64)


def product(members: Sequence[list[Array]]) -> list[Array]:
    """Return the Cartesian product of loops, the first slowest: one flat array per index name."""
    lengths = [len(m[0]) for m in members]
    out = []
    for k, arrays in enumerate(members):
        before, after = int(np.prod(lengths[:k], dtype=np.int64)), int(np.prod(lengths[k + 1 :], dtype=np.int64))
        out += [np.tile(np.repeat(a, after), before) for a in arrays]
    return out


def verify_index(
    node: Node,
    guards: tuple[tuple[Node, int], ...],
    taken: Array,
    length: int,
    columns: Sequence[Array],
    tables: Sequence[Array],
    joint: JointValues,
    e: ir.Expression,
    name: str,
    member: str = "",
    first: int = 0,
) -> None:
    """Raise unless an index is in range for every value of the cells that it depends on.

    Values at which a guard fails do not count.

    Args:
        node: the tree of the index.
        guards: conditions on cells under which the index counts, each with its depth.
        taken: a mask of the instances and terms that count.
        length: the length of the indexed axis.
        columns: the columns of the group.
        tables: the tables of the group.
        joint: the joint values of the slots.
        e: the expression that is reported.
        name: the name of the indexed array.
        member: what several indices name together; the index is then -1 for what is none.
        first: the index from which `e` counts.

    Raises:
        GmlmError: E414 if indices name no such member; E407 with the value that leaves
            0..length-1; E416 if the index has no value or is not whole; E412 if there are too many
            values to try.
    """
    used = {s for t in (node, *(g for g, _ in guards)) for leaf in nodes_in(t) if isinstance(leaf, CellValue) for s in _slots(leaf)}
    slots = sorted(used | {joint.owners[s] for s in used})
    joint = joint.of(slots)
    count = int(joint.count)
    if joint.count > MOST_TRIED_VALUES:
        raise fail("E412", f"this index depends on cells with {count:,} joint values: too many to check", e.span, "too many cells")
    codes = dict(zip(slots, joint.codes(), strict=True))
    n = max((c.shape[0] for c in columns), default=1)
    for start in range(0, n, max(1, TRIED_AT_ONCE // max(count, 1))):
        rows = slice(start, min(n, start + max(1, TRIED_AT_ONCE // max(count, 1))))
        leaves = numpy_leaves(columns, tables, codes, rows, bits=32)
        depth = taken.ndim - 1
        good = instances_last(taken, rows)
        for guard, at in guards:
            inner = tuple(range(at, depth))
            holds = np.asarray(evaluate(guard, leaves, at, good.any(axis=inner))).astype(bool)
            good = good & np.expand_dims(holds, inner)
        value = whole(np.asarray(evaluate(node, leaves, depth, good, whole=True)), good, e)
        bad = ((value < 0) | (value >= length)) & good
        if bad.any():
            reached = int(np.broadcast_to(value, bad.shape)[bad].ravel()[0])
            if member and reached == -1:
                help = "limit them with `if .. then .. else`: the values at which they name none do not count then"
                raise fail("E414", f"these indices, computed from cells, may name what is not {member}", e.span, "not always", help=help)
            message = f"an index of {in_ticks(name)} can be {first + reached}, outside {first}..{first + length - 1}"
            raise fail(
                "E407", message, e.span, f"reaches {first + reached}", help="limit it with `if .. then .. else`, or wrap it with `%`"
            )


def _slots(leaf: CellValue) -> range:
    return range(leaf.start, leaf.start + int(np.prod(leaf.shape, dtype=np.int64)))
