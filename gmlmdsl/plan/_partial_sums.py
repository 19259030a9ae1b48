"""Partial sums as cells, for factors that depend on many cells only through a sum of terms.

`require count(x[i] == 1 for i in cell) == 20` is a factor of 60 cells. Its table is too large for
any order of elimination. With the partial sums as cells it is a chain: each partial sum is the one
before it plus a term of one cell. Sums, maxima and draws over the larger graph equal those of the
model. Partial products, minima and maxima serve in the same way.

With s values of the sum, the table of a term of one bit has about 2 s^2 entries, because it has an
entry for each pair of partial sums. A long chain of sums has links in place of such tables: the sum
before a term follows from the term and the sum after it, so that a step of an elimination reads it
where its other cells lead. A term then takes 2 s operations. If no other factor joins the cells of
the terms, a balanced tree takes the place of the chain: sums of two terms, of four, and so on. All
its steps together take about as many operations, in as many levels as twice the number of halvings.

A product of probabilities has as many partial products as there are joint values. If the factor is
a + b times the product, as in the noisy or `bernoulli(1 - prod(1 - q[i] * x[i] for i in cause))`,
two values suffice: whether all terms so far have held, each with its probability, or one has not.
These probabilities may be parameters. Sums and draws over the larger graph equal those of the
model; maxima do not, since these cells are summed out.

Reference: Heckerman and Breese 1996 (causal independence).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import FactorGraph, FactorGroup, SumLink, VariableArray, joint_count, range_of
from ..graph.nodes import (
    NEUTRAL,
    Add,
    Apply,
    CellValue,
    Column,
    Constant,
    Gather,
    If,
    Node,
    evaluate,
    mapped,
    nodes_in,
    numpy_leaves,
    reduced,
)
from ..program import Scale
from .limits import CHEAPER_LINKS, LEAST_CHAIN, LEAST_TREE, LEAST_VALUES, MOST_OUTSIDE, MOST_PRODUCTS, MOST_SUMS, MOST_TERM_VALUES

Array = np.ndarray
Limits = Mapping[str, Array]


@dataclass(frozen=True)
class _Chain:
    """The partial sums of one instance.

    Attributes:
        values: the values of the partial sum after each number of terms.
        steps: for each term, the code of the sum after it, shape (sums before, joint values of the
            term). The code is -1 if the sum is left out.
        cells: the cells of each term.
        sizes: the numbers of values of these cells.
        by_two: whether it is a product of probabilities that is summed by two values; it has no
            steps then.
        terms: the values of each term at the joint values of its cells.
        is_sum: whether they are sums, and all of them are kept.
    """

    values: list[Array]
    steps: list[Array]
    cells: list[Array]
    sizes: list[tuple[int, ...]]
    by_two: bool = False
    terms: tuple[Array, ...] = ()
    is_sum: bool = False

    @property
    def entries(self) -> int:
        """The number of entries of the tables that join each partial sum to the one before it."""
        return sum(step.size * len(after) for step, after in zip(self.steps, self.values[1:], strict=True))


@dataclass(frozen=True)
class _Linked:
    """The partial sums of one instance that need no tables.

    Attributes:
        values: the values of each partial sum; the last one is the whole.
        cells: the cells of each term.
        sizes: the numbers of values of these cells.
        tables: the partial sums that are one term each: their numbers, and their codes at the joint
            values of the cells of terms 0, 1, ..
        links: the partial sum that follows, the other one of a tree or the term of a chain, the sum
            of both, and the codes that follow: shape (values of the other one, values of the sum).
        by_tree: whether the second entry of a link is a partial sum, or a term.
    """

    values: list[Array]
    cells: list[Array]
    sizes: list[tuple[int, ...]]
    tables: list[tuple[int, Array]]
    links: list[tuple[int, int, int, Array]]
    by_tree: bool

    @property
    def entries(self) -> int:
        """The number of entries that the steps visit."""
        return sum(codes.size for *_, codes in self.links) + sum(t.size * len(self.values[k]) for k, t in self.tables)


def _linked(chain: _Chain, alone: bool) -> _Linked | None:
    """Return the partial sums of a chain with links, as a tree if its cells are `alone`.

    The result is None unless every term varies.
    """
    if not chain.is_sum or not chain.steps or any(len(np.unique(t)) < 2 for t in chain.terms):
        return None
    values, tables, links = chain.values[1:], [(0, chain.steps[0][0])], []
    if not alone:
        for m, step in enumerate(chain.steps[1:], 1):
            links.append((m - 1, m, m, _inverse(step.T, len(values[m]))))
    else:
        alike = [np.unique(np.round(term, 9), return_inverse=True) for term in chain.terms]
        values, tables = [v for v, _ in alike], [(m, codes.reshape(-1)) for m, (_, codes) in enumerate(alike)]
        level = list(range(len(values)))
        while len(level) > 1:
            above = []
            for one, other in zip(level[::2], level[1::2], strict=False):
                sums = np.round(values[one][:, None] + values[other], 9)
                total, step = np.unique(sums, return_inverse=True)
                links.append((one, other, len(values), _inverse(step.reshape(sums.shape).T, len(total))))
                above.append(len(values))
                values.append(total)
            level = above + level[len(level) & ~1 :]
    if any(codes is None for *_, codes in links):
        return None
    return _Linked(values, chain.cells, chain.sizes, tables, links, alone)


def _inverse(step: Array, count: int) -> Array | None:
    """Return the codes that lead to each of `count` sums, -1 for none, from the sums that codes lead to.

    Both have a row for each value of the other summand. The result is None if two codes lead to one
    sum, which rounding may cause.
    """
    found = np.full((len(step), count), -1, np.int32)
    np.put_along_axis(found, step, np.arange(step.shape[1], dtype=np.int32)[None], axis=1)
    return found if np.count_nonzero(found >= 0) == step.size else None


def with_partial_sums(graph: FactorGraph, maximised: bool = False, linked: bool = True) -> FactorGraph:
    """Return the graph with cells for partial sums appended.

    The graph is unchanged if no factor is both large and a sum, or if it has given variables or a
    network.

    Args:
        graph: the graph.
        maximised: whether maxima are asked for, which products by two values do not keep.
        linked: whether long sums may have links, which only an elimination reads.
    """
    if graph.given or graph.network is not None:
        return graph
    sizes = np.append(graph.sizes, 1)
    factors: list[FactorGroup] = []
    requires: list[FactorGroup] = []
    chains: list[_Chain | _Linked] = []
    owners: list[tuple[FactorGroup, int]] = []  # the group of each chain, and its instance
    limits = None if maximised else {p.name: np.array([0.0, 1.0] if p.kind == "simplex" else [p.lower, p.upper]) for p in graph.parameters}
    joined = (np.diff(starts) for g, (starts, _) in zip(graph.groups, graph.incidences, strict=True) if g.cells.shape[1] > 1)
    alone = np.append(sum(joined, np.zeros(graph.n_cells, int)) == 1, False)  # cells that one factor joins to others
    taken = np.full(graph.n_cells + 1, not linked)  # cells that may be in no further link
    for group in graph.groups:
        found = _counted(group, sizes, graph.n_cells, limits, alone, taken)
        into = requires if group.kind == "require" else factors
        if found is None:
            into.append(group)
            continue
        # The chain of each instance, beside its other cells; its last cell is filled in below.
        reduction = _reduction(group)
        assert reduction is not None
        numbers = np.arange(len(chains), len(chains) + group.n)
        into.append(replace(group, cells=np.column_stack([numbers, group.cells[:, list(reduction.outside)]])))
        chains += found
        owners += [(group, k) for k in range(group.n)]
    if not chains:
        return graph
    return _joined(graph, factors, requires, chains, owners)


def keeps_maxima(graph: FactorGraph, counted: FactorGraph) -> bool:
    """Return whether maxima over `counted`, which has the partial sums of `graph`, are those of `graph`.

    They are unless products of probabilities are summed by two values, whose links are factors.
    """
    return len(counted.factors) == len(graph.factors)


def _counted(
    group: FactorGroup, sizes: Array, none: int, limits: Limits | None, alone: Array, taken: Array
) -> Sequence[_Chain | _Linked] | None:
    """Return the chains of a group's instances.

    The result is None if the group is small, is not a sum, or has too many partial sums.

    Args:
        group: the group.
        sizes: the number of values of each cell.
        none: the number that stands for no cell.
        limits: the bounds of each parameter; None if products may not be summed by two values.
        alone: booleans over cells, True for those that only one factor joins to other cells.
        taken: booleans over cells, True for those of links; those of new links are added.
    """
    reduction = _reduction(group)
    if reduction is None or joint_count(sizes[group.cells].max(axis=0)) <= LEAST_VALUES:
        return None
    if joint_count(sizes[group.cells[:, list(reduction.outside)]].max(axis=0, initial=1)) > MOST_OUTSIDE:
        return None
    out = []
    alike = dict[bytes, tuple[_Chain, _Chain] | None]()  # Instances with equal columns differ in their cells only.
    links = dict[tuple[bytes, bool], _Linked | None]()
    for k in range(group.n):
        one = group.take(np.array([k]))
        cells = _term_cells(one, reduction, none)
        if cells is None:
            return None
        key = b"".join([*(c.tobytes() for c in one.columns), sizes[one.cells].tobytes()])
        if key not in alike:
            chain = _chain(one, reduction, sizes, cells, limits)
            alike[key] = None if chain is None else (chain, _merged(chain, one, reduction, sizes))
        found = alike[key]
        if found is None:
            return None
        whole, merged = found
        by_tree = bool(alone[cells].all())
        if whole.is_sum and merged.entries >= (LEAST_TREE if by_tree else LEAST_CHAIN) and not taken[cells].any():
            if (key, by_tree) not in links:
                links[key, by_tree] = _linked(whole, by_tree)
            short = links[key, by_tree]
            if short is not None and short.entries * CHEAPER_LINKS < merged.entries:
                taken[cells] = True
                out.append(replace(short, cells=list(cells)))
                continue
        out.append(replace(merged, cells=list(cells)))
    return out


@dataclass(frozen=True)
class _Reduction:
    """The single sum, product, minimum or maximum through which a factor sees many cells.

    Attributes:
        add: the node of the tree.
        outside: the slots of the other cells of the factor.
    """

    add: Add
    outside: tuple[int, ...]

    def read(self, root: Node, entry: Node) -> Node:
        """Return the tree with `entry` in the place of the sum, and other cells from slot 1 on."""
        slots = {start: k + 1 for k, start in enumerate(self.outside)}
        here = Gather("the sum", 0, 0, Constant(0), ())
        alone = mapped(root, lambda n: here if n == self.add else n)
        moved = mapped(alone, lambda n: replace(n, start=slots[n.start]) if isinstance(n, CellValue) else n)
        return mapped(moved, lambda n: entry if n == here else n)

    def at_values(self, group: FactorGroup, sums: Array, sizes: Array) -> Array:
        """Return a factor of one instance at each value of the sum and joint value of other cells.

        Args:
            group: the group of the instance, whose tree mentions no parameter.
            sums: the values.
            sizes: the number of values of each cell.

        Returns:
            An array of shape (sums, joint values of the other cells).
        """
        own = (len(sums), *(int(sizes[c]) for c in group.cells[0, list(self.outside)]))
        codes = dict(enumerate(np.unravel_index(np.arange(int(np.prod(own))), own)))
        root = self.read(group.root, Gather("", len(group.tables), len(sums), Constant(0), ((CellValue(0, ()), Constant(1)),)))
        with np.errstate(all="ignore"):
            found = evaluate(root, numpy_leaves(group.columns, (*group.tables, sums), codes, slice(0, 1)))
        return np.array(np.broadcast_to(np.asarray(found).reshape(-1), (int(np.prod(own)),))).reshape(len(sums), -1)


def _reduction(group: FactorGroup) -> _Reduction | None:
    """Return the single reduction through which a group depends on many cells, else None.

    Each term has cells of its own. Only the terms of a product may mention parameters.
    """
    if not group.n or group.given is not None:
        return None
    sums = {n for n in nodes_in(group.root) if isinstance(n, Add) and any(isinstance(x, CellValue) for x in nodes_in(n.body))}
    if len(sums) != 1:
        return None
    (add,) = sums
    within = nodes_in(add.body)
    slots = [n for n in within if isinstance(n, CellValue)]
    rest = mapped(group.root, lambda n: Constant(0) if n == add else n)
    others = [n for n in nodes_in(rest) if isinstance(n, CellValue)]
    plain = all(isinstance(n, Constant | Column | CellValue | Apply | If | Gather) for n in within)
    if add.operator == "logsumexp" or add.depth != 0 or any(n.shape for n in others) or (add.operator != "*" and _named(add.body)):
        return None
    if not (plain and all(len(n.shape) == 1 and n.shape[0] > 1 for n in slots)):
        return None
    return _Reduction(add, tuple(dict.fromkeys(n.start for n in others)))


def _term_cells(group: FactorGroup, reduction: _Reduction, none: int) -> Array | None:
    """Return the cells of each term of an instance, (terms, slots); None if a cell occurs twice."""
    starts, count, here = _terms_of(group, reduction)
    cells = np.stack([group.cells[0, s : s + count] for s in starts], axis=1)[here]
    used = np.concatenate([cells.ravel(), np.unique(group.cells[0, list(reduction.outside)])])
    return None if len(np.unique(used)) < used.size or (used >= none).any() else cells


def _terms_of(group: FactorGroup, reduction: _Reduction) -> tuple[list[int], int, Array]:
    """Return the first slots of the cells of terms, the number of terms, and the mask of terms."""
    add = reduction.add
    assert isinstance(add.mask, Column)
    slots = [n for n in nodes_in(add.body) if isinstance(n, CellValue)]
    count = slots[0].shape[0]
    mask = np.broadcast_to(group.columns[add.mask.k].astype(bool).reshape(-1), (count,))
    return list(dict.fromkeys(n.start for n in slots)), count, mask


def _chain(group: FactorGroup, reduction: _Reduction, sizes: Array, cells: Array, limits: Limits | None) -> _Chain | None:
    """Return the partial sums of one instance, or None if there are too many.

    `cells` are those of each term.
    """
    sums = None if _named(reduction.add.body) else _sums(group, reduction, sizes, cells)
    many = sums is None or max(map(len, sums.values)) > MOST_PRODUCTS
    if many and limits is not None and _serves_two(group, reduction, limits, int(sizes.max())):
        own = [tuple(int(q) for q in sizes[some]) for some in cells]
        return _Chain([np.ones(1), *[np.array([1.0, 0.0])] * len(cells)], [], list(cells), own, True)
    return sums


def _named(node: Node) -> bool:
    """Return whether a tree mentions a parameter."""
    return any(isinstance(n, Gather) and n.name for n in nodes_in(node))


def _sums(group: FactorGroup, reduction: _Reduction, sizes: Array, cells: Array) -> _Chain | None:
    """Return the chain of all partial sums of one instance; None if there are too many."""
    add = reduction.add
    starts, count, here = _terms_of(group, reduction)
    widest = tuple(int(sizes[cells][:, k].max(initial=1)) for k in range(len(starts)))
    if np.prod(widest) > MOST_TERM_VALUES:
        return None
    codes = np.unravel_index(np.arange(int(np.prod(widest))), widest)
    by_slot = {s + m: codes[k] for k, s in enumerate(starts) for m in range(count)}
    leaves = numpy_leaves(group.columns, group.tables, by_slot, slice(0, 1))
    with np.errstate(all="ignore"):
        terms = np.asarray(evaluate(add.body, leaves, 1), float)
    terms = np.broadcast_to(terms, (count, 1, len(codes[0])))[here, 0]
    mine = []
    for mine_cells, term in zip(cells, terms, strict=True):
        own = tuple(int(q) for q in sizes[mine_cells])
        mine.append((mine_cells, own, term.reshape(widest)[tuple(slice(q) for q in own)].ravel()))
    return _partial(add.operator, mine)


_Terms = list[tuple[Array, tuple[int, ...], Array]]  # of each term its cells, their sizes, its value at their joint values


def _partial(operator: str, terms: _Terms) -> _Chain | None:
    """Return the chain of all partial sums; None if there are too many."""
    chain = _Chain([np.full(1, float(NEUTRAL[operator]))], [], [], [])
    for cells, own, term in terms:
        sums = reduced(operator, np.stack(np.broadcast_arrays(chain.values[-1][:, None], term)), 0, np)
        alike, first, step = np.unique(_rounded(operator, sums), return_index=True, return_inverse=True)
        # A product is kept as it was computed: 531441 is 3^12 to the last digit.
        values = sums.ravel()[first] if operator == "*" else alike
        if not np.isfinite(values).all() or len(values) > MOST_SUMS:
            return None
        chain.values.append(values)
        chain.steps.append(step.reshape(sums.shape))
        chain.cells.append(cells)
        chain.sizes.append(own)
    return replace(chain, terms=tuple(term for *_, term in terms), is_sum=operator == "+")


def _rounded(operator: str, values: Array) -> Array:
    """Return numbers that are equal for partial sums alike to nine decimals, or products to twelve digits."""
    if operator == "+":
        return np.round(values, 9)
    if operator == "*":
        digits, exponent = np.frexp(values)
        return np.ldexp(np.round(digits, 12), exponent)
    return values


def _serves_two(group: FactorGroup, reduction: _Reduction, limits: Limits, most_values: int) -> bool:
    """Return whether a factor is the log of a function that is affine in a product of probabilities, and not negative.

    `limits` are bounds of each parameter, at which this has to hold.
    """
    add = reduction.add

    def within(node: Node, high: float = np.inf) -> bool:
        found = range_of(group, most_values, limits, node)
        return found is not None and found[0] >= 0 and found[1] <= high

    def is_log(node: Node) -> bool:
        match node:
            case Apply("log", (inner,)):  # the chain reads the factor at products of 0 and of 1
                return _is_affine(inner, add) and all(within(_at_product(inner, add, value)) for value in (0.0, 1.0))
            case If(test, yes, no):
                return add not in nodes_in(test) and is_log(yes) and is_log(no)
            case Apply("+", parts):
                return sum(add in nodes_in(p) for p in parts) <= 1 and all(map(is_log, parts))
        return add not in nodes_in(node)

    return add.operator == "*" and group.kind != "require" and within(add.body, 1.0) and is_log(group.root)


def _at_product(node: Node, add: Node, value: float) -> Node:
    return mapped(node, lambda n: Constant(value) if n == add else n)


def _is_affine(node: Node, add: Node) -> bool:
    """Return whether a tree is certainly affine in one of its nodes."""
    match node:
        case Apply("+" | "-", parts):
            return all(_is_affine(p, add) for p in parts)
        case Apply("*", parts):
            return sum(add in nodes_in(p) for p in parts) <= 1 and all(_is_affine(p, add) for p in parts)
        case Apply("/", (above, below)):
            return add not in nodes_in(below) and _is_affine(above, add)
        case If(test, yes, no):
            return add not in nodes_in(test) and _is_affine(yes, add) and _is_affine(no, add)
    return node == add or add not in nodes_in(node)


def never_holds(group: FactorGroup, graph: FactorGraph) -> bool:
    """Return whether a requirement of one instance depends on a sum that can never satisfy it."""
    reduction, sizes = _reduction(group), np.append(graph.sizes, 1)
    cells = None if reduction is None else _term_cells(group, reduction, graph.n_cells)
    chain = None if reduction is None or cells is None else _chain(group, reduction, sizes, cells, None)
    return reduction is not None and chain is not None and not np.any(reduction.at_values(group, chain.values[-1], sizes))


def _merged(chain: _Chain, group: FactorGroup, reduction: _Reduction, sizes: Array) -> _Chain:
    """Return a chain in which partial sums with the same future are one value.

    Of `any(..)` two are left, whether one has held or none. Partial sums from which the requirement
    cannot be satisfied are left out.
    """
    if chain.by_two:
        return chain
    outcomes = _outcomes(chain.values[-1], group, reduction, sizes)
    label, first = _classes(outcomes, ~outcomes if group.kind == "require" and outcomes.any() else np.zeros_like(outcomes, bool))
    values, steps = [chain.values[-1][first]], []
    for m in reversed(range(len(chain.steps))):
        after = np.where(chain.steps[m] >= 0, label[chain.steps[m]], -1)
        label, first = _classes(after, after < 0)
        steps.append(after[first])
        values.append(chain.values[m][first])
    return replace(chain, values=values[::-1], steps=steps[::-1])


def _outcomes(sums: Array, group: FactorGroup, reduction: _Reduction, sizes: Array) -> Array:
    """Return rows that are equal for sums that make no difference, shape (sums, any)."""
    if _named(group.root):
        return np.arange(len(sums))[:, None]
    found = reduction.at_values(group, sums, sizes)
    return found.astype(bool) if group.kind == "require" else found


def _classes(rows: Array, excluded: Array) -> tuple[Array, Array]:
    """Return the number of the class of each row, and the first row of each class.

    Equal rows are one class. Rows with all entries excluded are in none, -1.
    """
    alive = ~excluded.all(axis=1)
    _, first, inverse = np.unique(rows[alive], axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    label = np.full(len(rows), -1)
    label[alive] = np.argsort(order)[inverse.reshape(-1)]
    return label, np.flatnonzero(alive)[first[order]]


def _joined(
    graph: FactorGraph,
    factors: list[FactorGroup],
    requires: list[FactorGroup],
    chains: Sequence[_Chain | _Linked],
    owners: list[tuple[FactorGroup, int]],
) -> FactorGraph:
    """Return the graph with the cells of all chains appended.

    Requirements join these cells, and the last cells replace the sums.
    """
    variables, tables, links = list(graph.variables), [], []
    ends: list[tuple[int, Array]] = []  # of each chain the cell that replaces the sum, and its values
    chances: dict[int, list[tuple[int, Array]]] = defaultdict(list)  # by group; of a chain its instance, and its cells
    at = graph.n_cells

    def added(name: str, values: Array) -> int:
        nonlocal at
        scale = Scale(size=len(values))
        variables.append(VariableArray(f"sum {name}", "latent", at, (), "range", scale.numbers, (), (), scale=scale))
        at += 1
        return at - 1

    for k, chain in enumerate(chains):
        if isinstance(chain, _Linked):
            nothing = added(f"{k}, 0", np.zeros(1))
            places = [added(f"{k}, {m + 1}", values) for m, values in enumerate(chain.values)]
            tables += [(places[m], nothing, chain.cells[m], chain.sizes[m], codes[None]) for m, codes in chain.tables]
            for one, other, both, codes in chain.links:
                own, shape = ([places[other]], [len(chain.values[other])]) if chain.by_tree else (chain.cells[other], chain.sizes[other])
                mine = [(int(c), n) for c, n in zip(own, shape, strict=True) if n > 1]
                after = (*(c for c, _ in mine), places[both])
                links.append(SumLink(places[one], after, codes.reshape(*(n for _, n in mine), codes.shape[1])))
        else:
            places = [added(f"{k}, {m}", values) for m, values in enumerate(chain.values)]
            here = [(places[m + 1], places[m], chain.cells[m], chain.sizes[m]) for m in range(len(chain.cells))]
            if chain.by_two:
                chances[id(owners[k][0])].append((owners[k][1], np.array([[after, before, *some] for after, before, some, _ in here])))
            else:
                tables += [(*at, step) for at, step in zip(here, chain.steps, strict=True)]
        ends.append((places[-1], chain.values[-1]))
    none = at

    def moved(group: FactorGroup) -> FactorGroup:
        """Renumber the padding, which comes after the new cells too."""
        return replace(group, cells=np.where(group.cells == graph.n_cells, none, group.cells).astype(np.int32))

    def ended(group: FactorGroup) -> FactorGroup:
        reduction = _reduction(group)
        assert reduction is not None
        last, mine = zip(*(ends[int(c)] for c in group.cells[:, 0]), strict=True)
        base = np.cumsum([0, *map(len, mine)])[:-1]
        table, column = np.concatenate(mine), len(group.columns)
        entry = Gather("", len(group.tables), len(table), Column(column), ((CellValue(0, ()), Constant(1)),))
        root = reduction.read(group.root, entry)
        cells = np.column_stack([last, group.cells[:, 1:]]).astype(np.int32)
        return replace(group, root=root, cells=cells, columns=(*group.columns, base), tables=(*group.tables, table))

    old = {id(g) for g in graph.groups}
    parts = [[moved(g) if id(g) in old else ended(g) for g in groups] for groups in (factors, requires)]
    for width in sorted({len(cells) for _, _, cells, _, _ in tables}):
        parts[1].append(_links([x for x in tables if len(x[2]) == width], width, graph))
    parts[0] += [_chances(g, chances[id(g)]) for g in graph.groups if id(g) in chances]
    return replace(graph, variables=tuple(variables), factors=tuple(parts[0]), requires=tuple(parts[1]), links=tuple(links))


_Link = tuple[int, int, Array, tuple[int, ...], Array]  # the cells after and before a term, its cells, their sizes, and a table


def _links(links: list[_Link], width: int, graph: FactorGraph) -> FactorGroup:
    """Return the requirement that each partial sum is the one before it plus its term.

    The sum is read from a table of shape (sums before, joint values of the term).
    """
    entry, cells, columns, table = _read(links, width)
    root = Apply("==", (CellValue(0, ()), entry))
    return FactorGroup(root, len(links), cells, columns, (table,), "require", graph.groups[0].span)


def _chances(group: FactorGroup, chains: list[tuple[int, Array]]) -> FactorGroup:
    """Return the factors by which the terms of products of probabilities hold or do not.

    The code of a partial product is 0 while all terms have held.

    Args:
        group: the group of the products.
        chains: the instance of each product, and for each term the partial products after and
            before it and the term's cells, shape (terms, cells).
    """
    reduction = _reduction(group)
    assert reduction is not None
    starts, count, _ = _terms_of(group.take(np.array([0])), reduction)
    instance = np.concatenate([np.full(len(cells), k) for k, cells in chains])
    term = np.concatenate([np.flatnonzero(_terms_of(group.take(np.array([k])), reduction)[2]) for k, _ in chains])
    columns = tuple(np.broadcast_to(c.reshape(len(c), -1), (group.n, count))[instance, term] for c in group.columns)
    slots = {start: k + 2 for k, start in enumerate(starts)}
    holds = mapped(reduction.add.body, lambda n: CellValue(slots[n.start], (), n.scale) if isinstance(n, CellValue) else n)
    after, before = (Apply("==", (CellValue(k, ()), Constant(0))) for k in (0, 1))
    drawn = If(after, Apply("log", (holds,)), Apply("log", (Apply("-", (Constant(1), holds)),)))
    root = If(before, drawn, If(after, Constant(-np.inf), Constant(0.0)))
    cells = np.concatenate([cells for _, cells in chains]).astype(np.int32)
    return FactorGroup(root, len(cells), cells, columns, group.tables, "factor", group.span)


def _read(links: list[_Link], width: int) -> tuple[Gather, Array, tuple[Array, ...], Array]:
    """Return how links read a table: tree, cells before and of the term, columns, table."""
    base = np.cumsum([0, *(step.size for *_, step in links)])[:-1]
    table = np.concatenate([step.ravel() for *_, step in links])
    strides = np.array([[int(np.prod(own)), *(int(np.prod(own[k + 1 :])) for k in range(width))] for *_, own, _ in links])
    cells = np.array([[after, before, *terms] for after, before, terms, *_ in links], np.int32)
    terms: tuple[tuple[Node, Node], ...] = tuple((CellValue(k + 1, ()), Column(k + 1)) for k in range(width + 1))
    entry = Gather("", 0, len(table), Column(0), terms)
    return entry, cells, (base, *(strides[:, k] for k in range(width + 1))), table
