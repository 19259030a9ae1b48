"""Warnings about factors that depend on sizes.

They concern statements without an iteration, cells without a distribution, and directions in
parameter space that change no probability.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .._diagnostics import Diagnostic, GmlmError, listed, name_in
from ..graph import FactorGroup, Lowered, ParameterArray, constant, unroll
from ..graph.nodes import Add, Apply, Gather, If, Node, Pick, evaluate, nodes_in, numpy_leaves
from ..program import Program, ir, names_in
from .limits import MOST_LINTED_ENTRIES, MOST_LINTED_TABLES, MOST_LINTED_TURNS, MOST_LINTED_VALUES, NEGLIGIBLE, RANK_ERROR

Array = np.ndarray


def lint_dead(lowered: Lowered, program: Program) -> Iterator[Diagnostic]:
    """Yield W820 for loops without an iteration and branches that are never taken.

    Statements that depend on an input are not checked.
    """
    model = lowered.names.model
    statements = [(f.span, f.clauses, f.value) for f in model.factors] + [(r.span, r.clauses, r.condition) for r in model.requires]
    statements += [(d.span, d.clauses, d.target) for d in model.distributed]
    for span, clauses, value in statements:
        if not _is_written(clauses, program):
            continue
        try:
            names = _turns(clauses, lowered)
        except GmlmError:
            continue
        if names is not None and any(len(v) == 0 for v in names.values()):
            help = "check the condition behind its `for`, or remove the statement"
            yield Diagnostic("W820", "this loop has no iteration: its condition never holds", span, "never counts", help=help)
        elif names is not None:
            yield from _dead_branches(value, lowered, names)


def _is_written(part: object, program: Program) -> bool:
    """Return whether a part of a program, and the graphs that it names, mention no input."""
    outer = names_in(part).outer
    return all(g in program.graphs and _is_written(program.graphs[g], program) for g in outer)


def _turns(clauses: ir.Clauses, lowered: Lowered) -> dict[str, Array] | None:
    count = np.prod([float(lowered.bound.set_size(loop.over)) for loop in clauses.loops if not loop.over.is_dependent])
    return None if count > MOST_LINTED_TURNS else unroll(clauses, lowered.bound).names


def _dead_branches(e: ir.Expression, lowered: Lowered, names: dict[str, Array]) -> Iterator[Diagnostic]:
    todo: list[ir.Expression] = [e]
    while todo:
        part = todo.pop()
        if isinstance(part, ir.Sum):
            continue  # The loops of a sum run inside it.
        todo += ir.children(part)
        if not isinstance(part, ir.Choice) or not all(isinstance(x, ir.Literal | ir.IndexValue | ir.Operation) for x in ir.walk(part.test)):
            continue
        try:
            test = constant(part.test, lowered.bound, names).astype(bool)
        except GmlmError:
            continue
        if test.all() or not test.any():
            word, branch = ("always", part.no) if test.all() else ("never", part.yes)
            message = f"`{part.test.span.text}` {word} holds here: this branch is never taken"
            yield Diagnostic("W820", message, branch.span, "never taken", help="remove the branch, or mend the test")


def lint_directed(lowered: Lowered) -> Iterator[Diagnostic]:
    """Yield W824 for cells that lack a `~`, although the model seems to need one.

    Either other cells of the variable have a `~`, or the `~` of another variable depends on these
    cells. Cells that other statements mention are not reported.
    """
    graph = lowered.graph
    laws = [g for g in graph.factors if g.kind == "categorical"]
    heads = np.unique(np.concatenate([g.cells[:, 0] for g in laws])) if laws else np.zeros(0, int)
    others = np.unique(np.concatenate([np.zeros(0, int), *(g.cells.ravel() for g in graph.groups if g.kind != "categorical")]))
    parents = np.unique(np.concatenate([np.zeros(0, int), *(g.cells[:, 1:].ravel() for g in laws)]))
    for v in graph.variables if len(heads) else ():
        cells = v.positions.ravel()
        free = np.setdiff1d(cells, heads)
        if not len(free) or np.isin(free, others).any():
            continue
        have = "has" if len(free) == 1 else "have"
        if len(free) < len(cells):
            names = listed([graph.cell_name(int(c)) for c in free], 3)
            message, label = f"{names} of `{v.name}` {have} no `~`, and the other cells have one", "not all have a distribution"
        elif np.isin(free, parents).any():
            message, label = f"`{v.name}` has no `~`, and that of others depends on it", "a root without its distribution"
        else:
            continue
        declared = lowered.names.model.variables[v.name]
        help = f"add `{graph.cell_name(int(free[0]))} ~ categorical(..)`: without one all its values are alike"
        yield Diagnostic("W824", message, name_in(declared.span, v.name), label, help=help)


def lint_redundant(lowered: Lowered) -> Iterator[Diagnostic]:
    """Yield W823 if some change of real parameters changes no probability.

    Parameters with a prior or a gauge are left out. Factors that are linear in these parameters are
    written as sums of contrasts. A contrast belongs to a set of a factor's cells, and sums to 0
    over each of these cells. Contrasts are linearly independent, so a direction changes no
    probability if and only if it changes no contrast.
    """
    stated = {h.parameter for h in lowered.graph.hyperpriors}
    free = [p for p in lowered.graph.parameters if p.kind == "real" and p.prior is None and not p.gauge and p.name not in stated]
    entries = [(p.name, k) for p in free for k in range(p.size)] if sum(p.size for p in free) <= MOST_LINTED_ENTRIES else []
    table = contrast_table(lowered, entries) if len(entries) > 1 else None
    if table is None:
        return
    gram = table.T @ table
    seen = np.flatnonzero(np.diag(gram) > 0)  # W803 and W818 report the other entries.
    weights, directions = np.linalg.eigh(gram[np.ix_(seen, seen)]) if len(seen) > 1 else (np.ones(1), np.ones((1, 1)))
    null = directions[:, weights <= NEGLIGIBLE * weights[-1]]
    if null.shape[1]:
        names = list(dict.fromkeys(entries[seen[k]][0] for k in np.flatnonzero(np.abs(null).max(axis=1) > 1e-6)))
        declared = [lowered.names.model.parameters[n] for n in names]
        yield _redundant(declared, null.shape[1], _harmless(declared, table, free))


def _harmless(declared: list[ir.Parameter], table: Array, free: Sequence[ParameterArray]) -> list[str]:
    """Return the parameters whose gauges over domains together remove redundant directions only."""
    rank, fixed = _rank(table), dict[str, tuple[int, ...]]()
    for p in declared:
        axes = tuple(k for k, a in enumerate(p.axes) if a.over.kind == "domain")
        if axes and _rank(table @ _zero_sums(free, fixed | {p.name: axes})) == rank:
            fixed[p.name] = axes
    return list(fixed)


def _redundant(declared: list[ir.Parameter], count: int, fixed: list[str]) -> Diagnostic:
    """Return W823; `fixed` are the parameters whose gauges together remove redundant directions only."""
    first, *others = declared
    what = "a direction" if count == 1 else f"{count} directions"
    message = f"{what} of {listed([p.name for p in declared])} {'changes' if count == 1 else 'change'} no probability"
    related = tuple((name_in(p.span, p.name), "together with this one") for p in others[:4])
    gauge = f", state {listed([f'gauge zero_sum({name})' for name in fixed])}" if fixed else ""
    help = f"give it a prior such as `~ normal(0, 1)`{gauge}, or drop what is said twice"
    return Diagnostic("W823", message, name_in(first.span, first.name), "not identified", related, help)


def lint_gauges(lowered: Lowered) -> Iterator[Diagnostic]:
    """Yield W832 for a gauge that removes a direction which changes probabilities.

    Zero sums over the axes of J in a factor `J[x, y]` remove the distribution of x alone, unless
    another factor, such as `h[x]`, expresses it. The contrasts that the parameters can change are
    counted with and without the gauge; see `lint_redundant`. A model with a `require` is not
    checked, because contrasts may depend on one another there.
    """
    graph = lowered.graph
    gauged = {p.name: p.gauge for p in graph.parameters if p.gauge}
    real = [p for p in graph.parameters if p.kind == "real"]
    if not gauged or graph.requires or sum(p.size for p in real) > MOST_LINTED_ENTRIES:
        return
    table = contrast_table(lowered, [(p.name, k) for p in real for k in range(p.size)])
    if table is None:
        return
    whole = _rank(table)
    lost = {name: whole - _rank(table @ _zero_sums(real, {name: axes})) for name, axes in gauged.items()}
    if not any(lost.values()):  # Several gauges may remove together what none of them removes alone.
        lost[list(gauged)[-1]] = whole - _rank(table @ _zero_sums(real, gauged))
    for name, count in lost.items():
        if count:
            yield _restricting(lowered.names.model.parameters[name], count)


def _restricting(p: ir.Parameter, count: int) -> Diagnostic:
    what = "a direction" if count == 1 else f"{count} directions"
    message = f"the gauge of `{p.name}` removes {what} that change{'s' * (count == 1)} probabilities: the model is a smaller one"
    help = f"add what takes them over, such as `factor h[x]` with a field of each cell; or leave the gauge out and give `{p.name}` a prior"
    return Diagnostic("W832", message, name_in(p.span, p.name), "restricted by its gauge", help=help)


def _zero_sums(parameters: Sequence[ParameterArray], axes: dict[str, tuple[int, ...]]) -> Array:
    """Return the projection of all entries onto zero sums over the given axes of some parameters."""
    blocks = []
    for p in parameters:
        block = np.ones((1, 1))
        for k, n in enumerate(p.shape):
            block = np.kron(block, np.eye(n) - (k in axes.get(p.name, ())) / max(n, 1))
        blocks.append(block)
    out, at = np.zeros((sum(map(len, blocks)),) * 2), 0
    for block in blocks:
        out[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    return out


def _rank(table: Array) -> int:
    return int(np.linalg.matrix_rank(table, tol=RANK_ERROR * max(1.0, float(np.abs(table).max(initial=0.0))))) if table.size else 0


def contrast_table(lowered: Lowered, entries: Sequence[tuple[str, int]]) -> Array | None:
    """Return how much of each contrast an entry of a parameter adds to log p.

    Returns:
        An array of shape (contrasts, entries). It is None if a factor is not linear in the entries,
        reads given variables, contains a cell twice, or is infinite. It is also None if there are
        too many factors.
    """
    graph, names = lowered.graph, {name for name, _ in entries}
    groups = [g for g in graph.factors if set(g.parameters) & names]
    if (
        any(g.given is not None or not _is_linear(g.root) for g in groups)
        or sum(_count(g, graph.sizes) for g in groups) > MOST_LINTED_VALUES
    ):
        return None
    place: dict[tuple[tuple[int, int], ...], int] = {}
    rows: list[int] = []
    found: list[Array] = []
    tables = _Tables(lowered, entries)
    for group in groups:
        for k in range(group.n):
            cells = group.cells[k].tolist()
            known = [c for c in cells if c < graph.n_cells]
            table = tables.of(group, k) if len(set(known)) == len(known) else None
            if table is None:
                return None
            for at in np.argwhere(np.abs(table).max(axis=-1) > NEGLIGIBLE).tolist():
                key = tuple(sorted((c, a) for c, a in zip(cells, at, strict=True) if a > 0))
                if key:  # Normalisation removes a contrast of no cells.
                    rows.append(place.setdefault(key, len(place)))
                    found.append(table[tuple(at)])
    out = np.zeros((len(place), len(entries)))
    np.add.at(out, rows, np.array(found).reshape(-1, len(entries)))
    return out


def _count(group: FactorGroup, sizes: Array) -> float:
    return group.n * float(np.prod(np.append(sizes, 1)[group.cells].max(axis=0, initial=1).astype(float)))


def _mentions_parameter(node: Node) -> bool:
    return any(isinstance(n, Gather) and n.name for n in nodes_in(node))


def _is_linear(node: Node) -> bool:
    """Return whether a tree is a sum of parameters times expressions without a parameter."""
    match node:
        case Apply(operator="+" | "-" | "neg"):
            return all(map(_is_linear, node.operands))
        case Apply(operator="*"):
            return sum(map(_mentions_parameter, node.operands)) < 2 and all(map(_is_linear, node.operands))
        case Apply(operator="/", operands=(left, right)):
            return _is_linear(left) and not _mentions_parameter(right)
        case If():
            return not _mentions_parameter(node.test) and _is_linear(node.yes) and _is_linear(node.no)
        case Add(operator="+") | Pick():
            return _is_linear(node.body)
    return isinstance(node, Gather) or not _mentions_parameter(node)


class _Tables:
    """The derivatives of instances by each entry, over the contrasts of their cells.

    Instances with equal derivatives are computed once.
    """

    def __init__(self, lowered: Lowered, entries: Sequence[tuple[str, int]]):
        self.graph, self.entries = lowered.graph, entries
        self.sizes = np.append(self.graph.sizes, 1)
        self.zero = {p.name: np.zeros(p.size) for p in self.graph.parameters}
        self.known: dict[tuple[object, ...], Array | None] = {}

    def of(self, group: FactorGroup, k: int) -> Array | None:
        """Return the derivatives of an instance, shape (*sizes, entries).

        The axis of each cell has first the mean, then contrasts. The result is None if derivatives
        are infinite or too many.
        """
        sizes = tuple(self.sizes[group.cells[k]].tolist())
        key = (id(group), sizes, *(c[k % len(c)].tobytes() for c in group.columns))
        if key not in self.known:
            self.known[key] = self.made(group, k, sizes) if len(self.known) * len(self.entries) < MOST_LINTED_TABLES else None
        return self.known[key]

    def made(self, group: FactorGroup, k: int, sizes: tuple[int, ...]) -> Array | None:
        count = int(np.prod(sizes, dtype=np.int64))
        codes = dict(enumerate(np.unravel_index(np.arange(count), sizes))) if sizes else {}

        def values(params: dict[str, Array]) -> Array:
            leaves = numpy_leaves(group.columns, group.tables, codes, slice(k, k + 1), params)
            with np.errstate(all="ignore"):
                return np.broadcast_to(np.asarray(leaves.number(evaluate(group.root, leaves))), (1, count))[0]

        start, out = values(self.zero), np.zeros((count, len(self.entries)))
        for e, (name, place) in enumerate(self.entries):
            if name in group.parameters:
                out[:, e] = values(self.zero | {name: np.eye(1, self.zero[name].size, place)[0]}) - start
        table = out.reshape((*sizes, len(self.entries)))
        for axis, size in enumerate(sizes):
            table = np.moveaxis(np.tensordot(_basis(size), table, axes=(1, axis)), 0, axis)
        return table if np.isfinite(table).all() else None


def _basis(size: int) -> Array:
    """Return orthonormal rows: the mean, then contrasts, which sum to 0."""
    return np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, : size - 1]]))[0].T
