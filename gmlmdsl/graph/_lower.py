"""Lowering of expressions to trees.

`for` loops become index arrays, and an expression becomes one tree for all their iterations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .._diagnostics import Faults, Span, each, fail
from ..program import CODES, ir
from ._bound import Bound
from ._constants import constant, in_range, looked_up, product, turned, verify_index, whole
from ._factor_graph import FactorGroup
from ._given_rows import over_domains
from ._graph_arrays import edge_places, ends, entry_places, is_unordered, lower_end_first, swaps_further
from ._graph_variables import GivenArray, GivenTables, ParameterArray, VariableArray
from ._scopes import JointValues, alike
from ._turns import Turns, deeper, keep_used, unroll, with_turns
from .limits import MOST_CHOSEN_MEMBERS, MOST_INDEX_ENTRIES, MOST_NORMALISED
from .nodes import Add, Apply, CellValue, Column, Constant, Gather, If, Node, Pick, evaluate, mapped, numpy_leaves

Array = np.ndarray


@dataclass(frozen=True)
class Names:
    """The lowered variables and parameters of a model by name, and the model with its lets."""

    variables: dict[str, VariableArray]
    parameters: dict[str, ParameterArray]
    model: ir.Model
    n_cells: int  # This is the graph's number of cells, with a row cell as the last of them.


class Lowering:
    """The lowering of the expressions of one statement into one group.

    Most methods take an expression `e` and `turns`, the iterations of the loops and sums around it.
    """

    def __init__(self, bound: Bound, names: Names):
        self.bound, self.names = bound, names
        self.columns: list[Array] = []
        self.tables: list[Array] = []
        self.slots: list[Array] = []  # Each array has shape (n,).
        self.slot_sizes: list[int] = []
        self._seen: dict[tuple[str, int, bytes], int] = {}  # the first slot of cells
        self._mentions: dict[tuple[str, bytes], Gather] = {}
        self._tables: dict[str, int] = {}
        self._given: dict[int, GivenArray] = {}  # The keys are numbers of tables.
        self._row: int | None = None  # This is the slot of the row cell.
        self._static: dict[int, bool] = {}
        self._columns: dict[tuple[str, tuple[int, ...], bytes], int] = {}

    def group(self, root: Node, turns: Turns, kind: str, span: Span) -> FactorGroup:
        """Return the finished group.

        Args:
            root: the tree of one instance.
            turns: the iterations of the statement.
            kind: the kind of the statement.
            span: the place of the statement in the text.
        """
        cells = self.cells(turns.n)
        given = None if self._row is None else GivenTables(self._row, tuple(self._given.get(k) for k in range(len(self.tables))))
        return FactorGroup(root, turns.n, cells, tuple(self.columns), tuple(self.tables), kind, span, given)

    def cells(self, n: int) -> Array:
        """Return the cell in each slot added so far, shape (n, slots)."""
        return np.stack(self.slots, axis=1).astype(np.int32) if self.slots else np.zeros((n, 0), np.int32)

    # Fixed parts

    def is_fixed(self, e: ir.Expression) -> bool:
        """Return whether `e` mentions neither cells nor parameters."""
        known = self._static.get(id(e))
        if known is None:
            moving = ir.VariableValue | ir.ParameterValue | ir.LetValue | ir.LogPartition
            known = self._static[id(e)] = not any(isinstance(p, moving) for p in ir.walk(e))
        return known

    def value(self, e: ir.Expression, turns: Turns) -> Array:
        """Return the numbers of a fixed expression, shape (n or 1, *sums)."""
        value = constant(e, self.bound, turns.names, turns.taken)
        return value.reshape((1,) * (turns.depth + 1)) if value.ndim == 0 else value

    def column(self, value: Array) -> Node:
        """Return a leaf for fixed numbers: a constant if there is only one, else a column."""
        value = np.asarray(value)
        if value.size == 1:
            return Constant(value.reshape(()).item())
        return self.stored(value)

    def stored(self, value: Array) -> Column:
        """Return the leaf of an array of numbers. Equal arrays are one leaf."""
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._columns:
            self._columns[key] = len(self.columns)
            self.columns.append(value)
        return Column(self._columns[key])

    # Expressions

    def lower(self, e: ir.Expression, turns: Turns) -> Node:
        """Return the tree of an expression."""
        if self.is_fixed(e):
            return self.column(self.value(e, turns))
        match e:
            case ir.VariableValue():
                return self.cell(e, turns)
            case ir.ParameterValue():
                return self.parameter(e, turns)
            case ir.InputValue():
                return self.input(e, turns)
            case ir.LetValue():
                return self.let(e, turns)
            case ir.Operation():
                operands = self.parts([(o, turns) for o in e.operands])
                return self.applied(Apply(e.operator, operands, e.span))
            case ir.Choice():
                return self.choice(e, turns)
        return self.compound(e, turns)

    def compound(self, e: ir.Expression, turns: Turns) -> Node:
        """Return the tree of a sum, a table entry or a log partition function."""
        match e:
            case ir.Sum():
                return self.sum(e, turns)
            case ir.TableEntry():
                return self.table_entry(e, turns)
            case ir.LogPartition():
                return self.log_partition(e, turns)
        raise AssertionError(f"cannot lower {type(e).__name__}")

    def parts(self, of: Sequence[tuple[ir.Expression, Turns]]) -> tuple[Node, ...]:
        """Return the trees of some expressions, and raise the faults of all of them together."""
        found, faults = [], Faults()
        for e, turns in of:
            with faults:
                found.append(self.lower(e, turns))
        faults.tell()
        return tuple(found)

    def applied(self, node: Apply) -> Node:
        """Return an operation; the logarithm of an entry is an entry of a table of logarithms."""
        match node:  # Float32 has these logarithms, but no entry below 1e-38. Checks name negative ones.
            case Apply("log", (Gather("", k) as entry,)) if k not in self._given and (self.tables[k] >= 0).all():
                if f"log {k}" not in self._tables:
                    self._tables[f"log {k}"] = len(self.tables)
                    with np.errstate(divide="ignore"):
                        self.tables.append(np.log(self.tables[k]))
                return replace(entry, table=self._tables[f"log {k}"])
        return node

    def choice(self, e: ir.Choice, turns: Turns) -> Node:
        """Lower `if`.

        A branch that is never taken is not lowered, so its indices are never checked.
        """
        if self.is_fixed(e.test):
            test = self.value(e.test, turns).astype(bool)
            if np.all(test | ~turns.taken):
                return self.lower(e.yes, turns)
            if not np.any(test & turns.taken):
                return self.lower(e.no, turns)
            inside = [with_turns(turns, taken=turns.taken & where) for where in (test, ~test)]
            yes, no = self.parts(list(zip((e.yes, e.no), inside, strict=True)))
            return If(self.column(test), yes, no)
        node = self.lower(e.test, turns)
        inside = [with_turns(turns, guards=(*turns.guards, (guard, turns.depth))) for guard in (node, Apply("not", (node,)))]
        return If(node, *self.parts(list(zip((e.yes, e.no), inside, strict=True))))

    def sum(self, e: ir.Sum, turns: Turns) -> Node:
        """Lower `sum(..)`, which adds a leading axis along which its loops run."""
        names = [n for loop in e.clauses.loops for n in loop.names]
        lifted = {k: v[..., None] for k, v in turns.names.items()}
        members, among, count = turned(e.clauses.loops, self.bound, lifted, max(turns.n, 1), e.span)
        inner = deeper(turns, members, e.span)
        if among is not True:
            inner = with_turns(inner, taken=inner.taken & among)
        if e.clauses.condition is not None:
            keep = self.value(e.clauses.condition, inner).astype(bool)
            inner = with_turns(inner, taken=inner.taken & keep)
        if e.clauses.condition is not None or among is not True:
            used = np.broadcast_to(inner.taken, (*inner.taken.shape[:-1], count)).any(axis=tuple(range(inner.taken.ndim - 1)))
            inner = keep_used(inner, names, used)  # pyright: ignore[reportArgumentType]
            count = int(used.sum())
        mask = np.broadcast_to(inner.taken, (*inner.taken.shape[:-1], count)).astype(np.int8)
        if e.operator not in ("+", "*") and np.any(turns.taken & ~mask.any(axis=-1)):
            help = "leave such turns out, with an `if` behind the `for` around it"
            raise fail("E416", f"`{e.operator}` of no terms has no value", e.span, "no value", help=help)
        # This is so for an empty range, a graph without edges, or a condition that no iteration
        # meets.
        if count == 0:
            return Constant(0 if e.operator == "+" else 1)
        return Add(self.lower(e.body, inner), turns.depth, self.stored(mask), e.operator)

    def table_entry(self, e: ir.TableEntry, turns: Turns) -> Node:
        """Lower an entry of a written-out table.

        A table of numbers is read by index. Any other table becomes a chain of choices between its
        expressions.
        """
        indices, faults = [], Faults()
        for i, size in zip(e.indices, e.shape, strict=True):
            with faults:
                indices.append(self.column(self.value(i, turns)) if self.is_fixed(i) else self.moving(i, size, "this list", turns))
        faults.tell()
        strides = [int(np.prod(e.shape[k + 1 :], dtype=np.int64)) for k in range(len(e.shape))]
        if all(self.is_fixed(item) for item in e.entries):
            values = [self.value(item, turns) for item in e.entries]
            if all(v.size == 1 for v in values):
                self.tables.append(np.array([v.item() for v in values]))
                terms = tuple((node, Constant(stride)) for node, stride in zip(indices, strides, strict=True))
                return Gather("", len(self.tables) - 1, len(values), Constant(0), terms)
        flat = _flat_index(indices, list(e.shape))
        found, *others = [self.lower(item, turns) for item in reversed(e.entries)]
        for k, other in zip(reversed(range(len(others))), others, strict=True):
            found = If(Apply("==", (flat, Constant(k))), other, found)
        return found

    def log_partition(self, e: ir.LogPartition, turns: Turns) -> Node:
        """Lower log Z of a model in use.

        Its configurations are enumerated along one new axis, and the instances of each factor along
        another.

        Raises:
            GmlmError: E412 if there are too many configurations to enumerate.
        """
        assert turns.depth == 0
        variables = [self.names.variables[n] for n in e.variables]
        # `concatenate` needs at least one array, and a part without a factor has none.
        cells = np.concatenate([np.zeros(0, np.int64), *(v.positions.ravel() for v in variables)])
        sizes = [len(v.labels) for v in variables for _ in range(v.size)]
        parts = [(part, part.value) for part in e.factors], [(part, part.condition) for part in e.requires]
        factors, requires = ([self._group(value, part.clauses) for part, value in kind] for kind in parts)
        count = float(np.prod(np.asarray(sizes, float)))
        entries = count * max(1, sum(g.n * max(1, g.cells.shape[1]) for g in (*factors, *requires)))
        if not entries <= MOST_NORMALISED:
            message = (
                f"the mixture needs log Z of this model, a sum over {count:.3g} configurations of {len(cells)} cells: too many to list"
            )
            help = f"up to {MOST_NORMALISED:,} values of factors are listed; parts made of `~` alone, written as one model, need no sum"
            raise fail("E412", message, e.span, "too costly", help=help)
        listed = np.stack(np.unravel_index(np.arange(int(count)), sizes)) if sizes else np.zeros((0, 1), int)
        codes = np.zeros((self.names.n_cells + 1, listed.shape[1]), np.int64)
        codes[cells] = listed
        good = np.ones(listed.shape[1], bool)
        for g in requires:
            slots = {k: codes[g.cells[:, k]][:, None, :] for k in range(g.cells.shape[1])}
            for k in range(g.n):
                here = {s: c[k] for s, c in slots.items()}
                leaves = numpy_leaves(g.columns, g.tables, here, slice(k, k + 1))
                good &= np.broadcast_to(np.asarray(evaluate(g.root, leaves)).astype(bool).reshape(-1), good.shape)
        total: Node = Constant(0.0)
        for g in factors:
            total = Apply("+", (total, self._over_configurations(g, codes[:, good])))
        self.columns.append(np.ones((1, int(good.sum())), np.int8))
        return Add(total, 0, Column(len(self.columns) - 1), "logsumexp")

    def _group(self, e: ir.Expression, clauses: ir.Clauses) -> FactorGroup:
        """Return a factor of a model in use as a group of its own."""
        turns = unroll(clauses, self.bound)
        lowering = Lowering(self.bound, self.names)
        root = lowering.lower(e, turns) if turns.n else Constant(0)
        return lowering.group(root, turns, "factor", e.span)

    def _over_configurations(self, g: FactorGroup, codes: Array) -> Node:
        """Return the sum of a group's instances with its cells replaced by enumerated codes.

        Axis 0 runs over configurations, axis 1 over instances.
        """
        if not g.n:
            return Constant(0.0)
        first = len(self.tables)
        self.tables += g.tables
        columns: dict[int, int] = {}

        def change(node: Node) -> Node:
            match node:
                case Column():
                    if node.k not in columns:
                        values = g.columns[node.k]
                        self.columns.append(values[None, None] if values.shape[0] > 1 else values[None, None, :])
                        columns[node.k] = len(self.columns) - 1
                    return Column(columns[node.k])
                case CellValue():
                    slots = range(node.start, node.start + int(np.prod(node.shape, dtype=np.int64)))
                    # The axes are configurations, instances, slots.
                    values = np.stack([codes[g.cells[:, s]].T for s in slots], axis=-1)
                    values = values.reshape((1, *values.shape[:2], *node.shape))
                    self.columns.append(node.scale.values_of(values))
                    return Column(len(self.columns) - 1)
                case Gather():
                    return replace(node, table=node.table + first if not node.name else node.table)
                case Add() | Pick():
                    return replace(node, depth=node.depth + 2)
            return node

        body = mapped(g.root, change)
        self.columns.append(np.ones((1, 1, g.n), np.int8))
        return Add(body, 1, Column(len(self.columns) - 1))

    def let(self, e: ir.LetValue, turns: Turns) -> Node:
        """Lower a `let`: its expression, whose index names stand for the indices of the use."""
        let = self.names.model.lets[e.name]
        axes = [a.over for a in let.axes]
        fixed, moving = self.indices(e, axes, turns)
        for over, i, j in ends(axes, fixed):
            assert i is not None
            assert j is not None
            self.edge(over, i, j, turns, e)
        flat = [n for a in let.axes for n in a.names]
        inner = with_turns(turns, names={n: v for n, v in zip(flat, fixed, strict=True) if v is not None})
        sizes = self.moving_sizes(axes, moving)
        if moving:
            grids = product([[np.arange(s)] for s in sizes])
            inner = deeper(inner, {flat[k]: g for (k, _), g in zip(moving, grids, strict=True)}, e.span)
        at = lower_end_first(axes, [inner.names[n] for n in flat], self.bound.graphs)
        body = self.lower(let.value, with_turns(inner, names=dict(zip(flat, at, strict=True))))
        return Pick(_flat_index([node for _, node in moving], sizes), body, turns.depth, int(np.prod(sizes))) if moving else body

    # Entries of arrays

    def indices(
        self, e: ir.LetValue | ir.VariableValue, axes: list[ir.SetOf], turns: Turns
    ) -> tuple[list[Array | None], list[tuple[int, Node]]]:
        """Return the fixed and the moving indices of an entry, all checked.

        An index moves if it depends on a cell.

        Returns:
            The fixed indices, with None for each moving one, and the moving ones as (place, tree).
        """
        fixed: list[Array | None] = []
        moving: list[tuple[int, Node]] = []
        faults = Faults()
        for k, (i, over) in enumerate(zip(e.indices, [a for a in axes for _ in range(a.arity)], strict=True)):
            with faults:
                length = self.ends(over) if over.is_edges else 0 if over.is_looked_up else self.bound.set_size(over)
                if self.is_fixed(i):
                    value = self.value(i, turns)
                    fixed.append(whole(value, turns.taken, i) if over.is_looked_up else in_range(value, length, turns.taken, i, e.name))
                elif over.is_looked_up:
                    raise fail(
                        "E414", f"an index into `{over.name}` must be fixed here, not computed from cells", e.span, "moves with a cell"
                    )
                elif over.is_edges:
                    raise fail("E414", "the ends of an edge must be fixed here, not computed from cells", e.span, "moves with a cell")
                else:
                    node = self.moving(i, length, e.name, turns)
                    settled = self.settled(node, turns)
                    fixed.append(settled)
                    if settled is None:
                        moving.append((k, node))
        faults.tell()
        return fixed, moving

    def settled(self, node: Node, turns: Turns) -> Array | None:
        """Return the numbers of an index that mentions cells without depending on them, else None.

        Such an index arises, for example, if a branch is never taken.
        """
        if isinstance(node, Constant):
            return np.full((1,) * (turns.depth + 1), node.value, np.int64)
        return self.columns[node.k].astype(np.int64) if isinstance(node, Column) else None

    def moving_sizes(self, axes: list[ir.SetOf], moving: list[tuple[int, Node]]) -> list[int]:
        """Return the lengths of the axes whose index moves with cells."""
        flat = [over for over in axes for _ in range(over.arity)]
        return [self.bound.set_size(flat[k]) for k, _ in moving]

    def ends(self, over: ir.SetOf) -> int:
        """Return the number of nodes that the ends of an edge may name."""
        graph = self.bound.graphs[over.graph]
        return max(graph.n, graph.n_right)

    def moving(self, e: ir.Expression, length: int, name: str, turns: Turns, first: int = 0) -> Node:
        """Return the tree of an index that moves with cells, checked over all their values.

        Args:
            e: the index.
            length: the length of the indexed axis.
            name: the name of the indexed array.
            turns: the iterations around the index.
            first: the index that `e` counts from, for messages.
        """
        node = self.lower(e, turns)
        if isinstance(e, ir.VariableValue) and isinstance(node, CellValue) and node.scale.is_code and self.slot_sizes[node.start] <= length:
            return node
        self.verify(node, turns, length, e, name, first=first)
        return node

    def verify(self, node: Node, turns: Turns, length: int, e: ir.Expression, name: str, member: str = "", first: int = 0) -> None:
        """Raise unless an index is in range over all values of the cells that it mentions.

        Given values are replaced by all values that their domains allow.

        Args:
            node: the tree of the index.
            turns: the iterations around the index.
            length: the length of the indexed axis.
            e: the expression that is reported.
            name: the name of the indexed array.
            member: what several indices name together; the index is then -1 for what is none.
            first: the index that `e` counts from, for messages.
        """
        (node, *tests), sizes = over_domains([node, *(g for g, _ in turns.guards)], self._given, self.columns, self.slot_sizes)
        guards = tuple(zip(tests, (depth for _, depth in turns.guards), strict=True))
        for rows, owners in alike(self.cells(turns.n), self.names.n_cells):

            def part(array: Array, rows: Array = rows) -> Array:
                return array[rows] if array.shape[0] > 1 else array

            joint = JointValues(tuple(sizes), (*owners, *range(len(owners), len(sizes))))
            verify_index(
                node, guards, part(turns.taken), length, [part(c) for c in self.columns], self.tables, joint, e, name, member, first
            )

    def cell(self, e: ir.VariableValue, turns: Turns) -> Node:
        """Return the value of a cell, or of the one among several cells that other cells choose."""
        v = self.names.variables[e.name]
        axes = [a.over for a in self.names.model.variables[e.name].axes]
        fixed, moving = self.indices(e, axes, turns)
        if not moving:
            return self.slot(v, self.positions(v, axes, fixed, e, turns), turns)
        sizes = self.moving_sizes(axes, moving)
        inner = deeper(turns, {}, e.span)
        lifted: list[Array | None] = [None if f is None else f[..., None] for f in fixed]
        for (k, _), grid in zip(moving, product([[np.arange(s)] for s in sizes]), strict=True):
            lifted[k] = grid.reshape((1,) * inner.depth + (-1,))
        body = self.slot(v, self.positions(v, axes, lifted, e, inner), inner)
        return Pick(_flat_index([node for _, node in moving], sizes), body, turns.depth, int(np.prod(sizes)))

    def positions(
        self, v: VariableArray, axes: list[ir.SetOf], indices: Sequence[Array | None], e: ir.VariableValue, turns: Turns
    ) -> Array:
        """Return global positions from fixed indices.

        Args:
            v: the variable.
            axes: the set of each of its axes.
            indices: the fixed indices.
            e: the expression that is reported.
            turns: the iterations around the expression.
        """
        at, k, position = 0, 0, np.full((1,) * (turns.depth + 1), v.offset, np.int64)
        indices = lower_end_first(axes, [i for i in indices if i is not None], self.bound.graphs)
        for over in axes:
            stride = int(np.prod(v.shape[at + 1 :], dtype=np.int64))
            place = self.place(over, indices[k : k + over.arity], turns, e)
            position = position + stride * place
            at, k = at + 1, k + over.arity
        return position

    def place(self, over: ir.SetOf, indices: Sequence[Array], turns: Turns, e: ir.Expression) -> Array:
        """Return the place along one axis from the fixed indices that belong to it.

        Args:
            over: the set of the axis.
            indices: the fixed indices.
            turns: the iterations around the expression.
            e: the expression that is reported.
        """
        if over.is_looked_up:
            return looked_up(self.bound.members(over), indices, turns.taken, e, over)
        return self.edge(over, indices[0], indices[1], turns, e) if over.is_edges else indices[0]

    def given_entry(self, v: GivenArray, places: Array, turns: Turns) -> Gather:
        """Return the leaf for values of a given variable; equal places share one leaf."""
        key = (v.name, repr(places.shape).encode() + places.tobytes())
        if key not in self._mentions:
            if v.name not in self._tables:
                self._tables[v.name] = len(self.tables)
                self._given[len(self.tables)] = v
                self.tables.append(np.zeros(v.size, np.float64 if v.real else np.int64))
            if self._row is None:
                self._row = len(self.slots)
                self.slots.append(np.full(turns.n, self.names.n_cells - 1))
                self.slot_sizes.append(1)
            row = CellValue(self._row, (1,) * turns.depth)
            self._mentions[key] = Gather("", self._tables[v.name], v.size, self.column(places), ((row, Constant(v.size)),))
        return self._mentions[key]

    def slot(self, v: VariableArray, positions: Array, turns: Turns) -> CellValue | Gather:
        """Return the leaf for cells at given positions; equal cells share their slots.

        The slot is unused where `turns.taken` is False.
        """
        if isinstance(v, GivenArray):
            return self.given_entry(v, positions, turns)
        positions = np.where(turns.taken, positions, self.names.n_cells).astype(np.int32)
        shape = positions.shape[1:]
        key = (v.name, len(positions), positions.tobytes())
        if key not in self._seen:
            if turns.n * positions[0].size > MOST_INDEX_ENTRIES:
                raise fail("E412", f"{turns.n:,} factors of {positions[0].size:,} cells: too many to list", None)
            columns = np.broadcast_to(positions, (turns.n, *shape)).reshape(turns.n, -1)
            self._seen[key] = len(self.slots)
            self.slots += list(columns.T)
            self.slot_sizes += [len(v.labels)] * columns.shape[1]
        return CellValue(self._seen[key], shape, v.scale or CODES)

    def parameter(self, e: ir.ParameterValue, turns: Turns, last: ir.Expression | Node | None = None) -> Node:
        """Return an entry of a parameter; `last` indexes an axis that the expression omits."""
        p = self.names.parameters[e.name]
        axes = [a.over for a in self.names.model.parameters[e.name].axes]
        return self.entry(e, p.name, -1, p.shape, axes, turns, last)

    def input(self, e: ir.InputValue, turns: Turns, last: ir.Expression | Node | None = None) -> Node:
        """Return an entry of an input at an index that moves with cells."""
        array = self.bound.inputs[e.name]
        if e.name not in self._tables:
            self._tables[e.name] = len(self.tables)
            self.tables.append(array.ravel())
        return self.entry(e, "", self._tables[e.name], array.shape, [*self.bound.axes(e.name)], turns, last)

    def row(self, e: ir.Table, turns: Turns, code: Node) -> Gather:
        """Return the entry of a list of probabilities that belongs to the value of a cell.

        The list of each iteration is one row of a table.

        Raises:
            GmlmError: E415 unless the entries of each list are non-negative with sum 1.
        """
        values = np.stack([np.broadcast_to(self.value(item, turns), (turns.n,)) for item in e.items], axis=1)
        rows, which = np.unique(values, axis=0, return_inverse=True)
        if not ((rows >= 0).all() and np.abs(rows.sum(axis=1) - 1).max() <= 1e-6):
            help = "divide each entry by the sum of all"
            raise fail("E415", "the entries of this list must be non-negative with sum 1", e.span, "not normalised", help=help)
        self.tables.append(rows.astype(np.float64).ravel())
        base = self.column(which.reshape(-1) * rows.shape[1] if len(rows) > 1 else np.zeros(1, np.int64))
        return Gather("", len(self.tables) - 1, rows.size, base, ((code, Constant(1)),))

    def entry(
        self,
        e: ir.ParameterValue | ir.InputValue,
        name: str,
        table: int,
        shape: tuple[int, ...],
        axes: list[ir.SetOf],
        turns: Turns,
        last: ir.Expression | Node | None,
    ) -> Node:
        """Return a gather: fixed indices become one base, moving ones become terms with strides.

        Args:
            e: the entry of a parameter or an input.
            name: the name of the parameter, or an empty text.
            table: the number of the input's table, or -1.
            shape: the lengths of the array's axes.
            axes: the set of each axis.
            turns: the iterations around the entry.
            last: the index of an axis that the expression omits.
        """
        given: list[ir.Expression | Node] = [*e.indices] if last is None else [*e.indices, last]
        strides: list[Array | int] = [int(np.prod(shape[k + 1 :], dtype=np.int64)) for k in range(len(shape))]
        base: Array = np.zeros((1,) * (turns.depth + 1), np.int64)
        terms: list[tuple[Node, Node]] = []
        places: list[tuple[Array | Node, Array]] = []
        faults = Faults()
        for k, over in enumerate(axes):
            with faults:
                at = sum(a.arity for a in axes[:k])
                places.append(self.axis_index(over, given[at : at + over.arity], shape[k], turns, e))
        faults.tell()
        for k, (over, (place, other_way)) in enumerate(zip(axes, places, strict=True)):
            swaps = is_unordered(over, self.bound.graphs) and swaps_further(axes[k + 1 :])
            if isinstance(place, np.ndarray):
                base = base + place * strides[k]
            elif swaps:
                raise fail("E414", "the ends of an edge must be fixed here, not computed from cells", e.span, "moves with a cell")
            else:
                terms.append((place, self.column(np.asarray(strides[k]))))
            if swaps and other_way.any():
                one, two = strides[k + 1], strides[k + 2]
                strides[k + 1], strides[k + 2] = np.where(other_way, two, one), np.where(other_way, one, two)
        return Gather(name, table, int(np.prod(shape, dtype=np.int64)), self.column(base), tuple(terms))

    def axis_index(
        self, over: ir.SetOf, given: Sequence[ir.Expression | Node], length: int, turns: Turns, e: ir.ParameterValue | ir.InputValue
    ) -> tuple[Array | Node, Array]:
        """Return the place on an axis, and whether the ends of an edge are in descending order.

        Args:
            over: the set of the axis.
            given: the indices that belong to it.
            length: the length of the axis.
            turns: the iterations around the entry.
            e: the entry that is reported.
        """
        index = given[0]
        if over.start is not None and (isinstance(index, Node) or not self.is_fixed(index)):
            if not isinstance(index, Node):
                index = self.moving(ir.Operation(index.span, "-", (index, over.start)), length, e.name, turns)
            return index, np.zeros(1, bool)
        if over.is_looked_up:
            if not all(not isinstance(i, Node) and self.is_fixed(i) for i in given):
                return self.member_index(over, given, turns, e), np.zeros(1, bool)
            values = [self.value(i, turns) for i in given]  # type: ignore[arg-type]
            return looked_up(self.bound.members(over), values, turns.taken, e, over), np.zeros(1, bool)
        if over.is_edges:
            return self.edge_index(over, index, given[1], turns, e)
        if not isinstance(index, Node) and self.is_fixed(index):
            return in_range(self.value(index, turns), length, turns.taken, index, e.name), np.zeros(1, bool)
        return index if isinstance(index, Node) else self.moving(index, length, e.name, turns), np.zeros(1, bool)

    def edge_index(
        self, over: ir.SetOf, i: ir.Expression | Node, j: ir.Expression | Node, turns: Turns, e: ir.ParameterValue | ir.InputValue
    ) -> tuple[Array | Node, Array]:
        """Return the number of an edge, and whether its ends are in descending order.

        Args:
            over: the set of the axis, edges or arcs.
            i: the index of the first end.
            j: the index of the second end.
            turns: the iterations around the entry.
            e: the entry that is reported.
        """
        assert not isinstance(i, Node)
        assert not isinstance(j, Node)
        length, graph = self.ends(over), self.bound.graphs[over.graph]
        if self.is_fixed(i) and self.is_fixed(j):
            a, b = each(lambda end: in_range(self.value(end, turns), length, turns.taken, end, e.name), (i, j))
            return entry_places(graph, over, self.edge(over, a, b, turns, e), a > b, isinstance(e, ir.InputValue))
        if length**2 > 1 << 24:
            raise fail("E412", f"edges chosen by cells need a table of {length**2:,} entries", e.span, "too large")
        a, b = np.divmod(np.arange(length**2), length)
        places = graph.edge_index(a, b, over.part == "arcs")
        there, _ = entry_places(graph, over, np.maximum(places, 0), a > b, isinstance(e, ir.InputValue) and bool((places >= 0).any()))
        self.tables.append(np.where(places < 0, -1, there))
        ends = [(self.lower(x, turns), Constant(stride)) for x, stride in ((i, length), (j, 1))]
        place = Gather("", len(self.tables) - 1, length**2, Constant(0), tuple(ends))
        self.verify(place, turns, len(graph.part(over.part)), i, over.name, f"an edge of `{over.graph}`")
        return place, np.zeros(1, bool)

    def member_index(
        self, over: ir.SetOf, given: Sequence[ir.Expression | Node], turns: Turns, e: ir.ParameterValue | ir.InputValue
    ) -> Node:
        """Return the number of a member of a set whose indices depend on cells.

        Args:
            over: the set of the axis, whose sizes may depend on earlier ones.
            given: the indices, one for each name of a member.
            turns: the iterations around the entry.
            e: the entry that is reported.
        """
        if over.part == "triangles" or any(isinstance(i, Node) for i in given):
            help = "loop over the members, or give the axis the full range"
            message = f"an index into `{over.name}` must be fixed here, not computed from cells"
            raise fail("E414", message, e.span, "moves with a cell", help=help)
        members = [np.asarray(m) for m in self.bound.members(over)]
        low = [int(m.min()) if len(m) else 0 for m in members]
        extent = [int(m.max()) - least + 1 if len(m) else 1 for m, least in zip(members, low, strict=True)]
        if math.prod(extent) > MOST_CHOSEN_MEMBERS:
            raise fail("E412", f"members chosen by cells need a table of {math.prod(extent):,} entries", e.span, "too large")
        table = np.full(math.prod(extent), -1, np.int64)
        table[np.ravel_multi_index([m - least for m, least in zip(members, low, strict=True)], extent)] = np.arange(len(members[0]))
        self.tables.append(table)
        number, terms = len(self.tables) - 1, []
        for k, (i, least) in enumerate(zip(given, low, strict=True)):
            assert not isinstance(i, Node)
            shifted = i if least == 0 else ir.Operation(i.span, "-", (i, ir.Literal(i.span, least)))
            if self.is_fixed(i):
                node = self.column(in_range(self.value(i, turns), extent[k], turns.taken, i, e.name, least))
            else:
                node = self.moving(shifted, extent[k], e.name, turns, least)
            terms.append((node, Constant(math.prod(extent[k + 1 :]))))
        place = Gather("", number, len(table), Constant(0), tuple(terms))
        first = given[0]
        assert not isinstance(first, Node)
        self.verify(place, turns, len(members[0]), first, over.name, f"a member of `{over.name}`")
        return place

    def edge(self, over: ir.SetOf, i: Array, j: Array, turns: Turns, e: ir.Expression) -> Array:
        """Return the numbers of edges with fixed ends, and raise for a pair that is not an edge.

        Args:
            over: the set of the axis, edges or arcs.
            i: the first ends.
            j: the second ends.
            turns: the iterations around the expression.
            e: the expression that is reported.
        """
        return edge_places(self.bound.graphs[over.graph], over, i, j, turns.taken, e)


def _flat_index(nodes: Sequence[Node], sizes: Sequence[int]) -> Node:
    out = nodes[0]
    for node, size in zip(nodes[1:], sizes[1:], strict=True):
        out = Apply("+", (Apply("*", (out, Constant(size))), node))
    return out
