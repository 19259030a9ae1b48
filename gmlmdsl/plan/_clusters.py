"""Plans of the clusters of `percolation`: bonds, exchanges of values, and the remaining factors.

Let E be the tables of the factors on the edges, each minus its means over either cell. Let G be a
group of exchanges g of values with E(g a, g b) = E(a, b). An edge whose cells have the values (a,
b) has a bond with probability 1 - min over g of exp(E(g a, b) - E(a, b)).

The contribution of an edge without a bond to log p then does not depend on which image either end
takes. A bond moves both ends. The probability of a set of bonds is therefore equal at every image
of its cluster, and cancels. The cluster's image g x_K is drawn in proportion to exp of all other
terms of log p: fields, means that were subtracted, other factors.

Requirements on the two cells of an edge make bonds too, if every exchange leaves them invariant. A
bond is certain if some image of one end alone is forbidden, so an edge without a bond is allowed at
every image. `require x != y` gives Kempe chains (Wang, Swendsen and Kotecky 1989). With two
exchanges this is Wolff's update (1989) with heat bath. With more exchanges it is that of Swendsen
and Wang (1987) for one cluster.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._diagnostics import Diagnostic, GmlmError, Span, fail
from ..graph import FactorGraph, FactorGroup, Lowered, reaches_zero
from ..graph.nodes import evaluate, numpy_leaves
from ..masks import PercolationMask, lower_clusters
from ..program import ir
from ._block_tables import factor_table, stays_finite
from ._table_entries import FactorTable, entry_values
from .limits import ALIKE, MOST_EDGE_ENTRIES, MOST_EXCHANGES, MOST_PAIRINGS, SYMMETRY_POINTS

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Bonds:
    """The tables of edges.

    Attributes:
        tables: the tables of the groups with factors on edges, concatenated in one vector of
            entries.
        places: the entries whose sum is a table, shape (kinds, factors, q, q). The number of
            entries stands for 0.
        kind: the number of the table of each edge.
        allowed: the joint values that requirements on these two cells allow, shape (kinds, q, q).
        requires: the groups of these requirements.
    """

    tables: tuple[FactorTable, ...]
    places: Array
    kind: Array
    allowed: Array
    requires: tuple[int, ...] = ()

    @property
    def entries(self) -> int:
        """The length of the vector of entries."""
        return sum(t.entries for t in self.tables)

    def at(self, values: Array) -> Array:
        """Return the table of each kind from all entries, shape (kinds, q, q)."""
        return np.append(values, 0.0)[self.places].sum(axis=1)

    def breaks(self, groups: Array) -> Array:
        """Return where a bond is certain, shape (groups, kinds, q, q).

        A bond is certain where some image of the first end alone is not allowed.
        """
        return np.swapaxes(np.any(~self.allowed[:, groups], axis=2), 0, 1)


@dataclass(frozen=True, eq=False)
class ClusterPlan:
    """The plan of an update that draws and redraws a cluster.

    Attributes:
        graph: the factor graph.
        update: the update.
        mask: the mask that draws clusters.
        bonds: the tables of the mask's edges.
        groups: groups of exchanges of values, shape (groups, size, q), the identity first. It is
            repeated if a group is smaller.
        weights: the weights of the exchanges, shape (groups, size): 0 for the repeated ones.
        means: whether tables have means that depend on one cell. These means are then fields.
        rest: for each group of the graph, the factors that touch a cell of the mask and make no
            bond.
    """

    graph: FactorGraph
    update: ir.RandomUpdate
    mask: PercolationMask
    bonds: Bonds
    groups: Array
    weights: Array
    means: bool
    rest: tuple[Array, ...]

    @property
    def keeps(self) -> bool:
        """Whether the update leaves p invariant."""
        return True

    @property
    def words(self) -> str:
        """A description of how a cluster is drawn and redrawn."""
        images = self.weights.astype(bool).sum(axis=1)
        sizes = " or ".join(str(n) for n in sorted({int(n) for n in images}))
        how = f"one of {len(images)} groups of exchanges, drawn each step" if len(images) > 1 else "exchanges of values"
        beside = " by what fields and other factors say of them" if self.means or any(len(r) for r in self.rest) else ", all alike"
        edges = f"{len(self.mask.edges):,} edge{'s' * (len(self.mask.edges) != 1)}"
        return f"the cluster of a random cell under bonds on {edges}; redrawn among {sizes} images under {how}{beside}"


def no_loss(name: str, mask: ir.Mask) -> GmlmError:
    """Return E707: a mask that draws clusters stands in the place of a mask with a loss."""
    message = f"mask `{name}` draws clusters, whose p(K | x) is a sum over bonds that follows p: it has no loss"
    help = "an update draws from it: `update K where K ~ .. `; here name another mask, or in `gm.theory` a sampler"
    return fail("E707", message, mask.span, "only samples", help=help)


def plan_clusters(lowered: Lowered, update: ir.RandomUpdate) -> ClusterPlan:
    """Return the plan of an update that draws clusters.

    Raises:
        GmlmError: E418 if no factor joins the cells of an edge, or if no exchange of values leaves
            those factors invariant; E601 for tables that are too large.
    """
    mask = lower_clusters(lowered, update.mask)
    graph, q = lowered.graph, int(lowered.graph.sizes[mask.cells[0]])
    bonds, rest = _bonds(graph, mask, q)
    found = _tables_at_points(graph, bonds)
    whole = found - found.mean(axis=(1, 2), keepdims=True)
    rows, columns = whole.mean(axis=2, keepdims=True), whole.mean(axis=1, keepdims=True)
    centred, scale = whole - rows - columns, np.abs(found).max(initial=0.0)
    if bonds.allowed.all() and (np.abs(centred).max(initial=0.0) <= 1e-12 * scale or not scale):
        raise _no_bonds(graph, mask)
    groups = groups_of(colours_of(np.concatenate([centred, bonds.allowed.astype(float)])), two=not bonds.allowed.all())
    if not groups:
        raise _no_symmetry(graph, bonds, mask.span)
    size = max(len(g) for g in groups)
    full = np.stack([np.concatenate([g, np.tile(np.arange(q), (size - len(g), 1))]) for g in groups])
    weights = np.stack([np.arange(size) < len(g) for g in groups]).astype(float)
    means = max(np.abs(rows).max(), np.abs(columns).max()) > 1e-12 * scale
    return ClusterPlan(graph, update, mask, bonds, full, weights, bool(means), rest)


def _no_bonds(graph: FactorGraph, mask: PercolationMask) -> GmlmError:
    """Return E418: no factor joins the cells of an edge, or the factors that do make no bond.

    Such a factor is a requirement, a factor of more cells, or one that may be -inf.
    """
    message = "no factor makes the two cells of an edge of this `percolation` depend on one another: its clusters are single cells"
    help, related = "take `subsets(.., size = 1)`, or the edges that the factors have", ()
    for group in graph.groups:
        what = _no_bond(graph, group)
        if what and _joins(group, mask.edges.astype(np.int64), graph.n_cells):
            message = (
                f"what joins the two cells of an edge of this `percolation` is {what}, which makes no bond: its clusters are single cells"
            )
            parts = "write the terms of each pair as a factor of their own; or " if "more than two" in what else ""
            help = "take blocks of cells instead, `subsets(.., size = 2)` or `blocks(..)`: they are redrawn exactly, whatever joins them"
            help = f"{parts}{help}"
            related = ((group.span, "joins them"),)
            break
    return GmlmError(Diagnostic("E418", message, mask.span, "no bonds", related, help))


def _no_bond(graph: FactorGraph, group: FactorGroup) -> str:
    """Return the kind of a statement that joins cells without a bond, or an empty text."""
    if group.kind == "require":
        return "a `require` of more than two cells" if group.scope.shape[1] > 2 else "a `require` that reads given data"
    if group.given is not None:
        return "a factor that reads given data"
    if reaches_zero(group, np.append(graph.sizes, 1)):
        return "a factor that is -inf for some values"
    return "a factor of more than two cells" if group.scope.shape[1] > 2 else ""


def _joins(group: FactorGroup, edges: Array, n: int) -> bool:
    """Return whether some factor or requirement mentions both cells of an edge."""
    keys, cells = edges[:, 0] * n + edges[:, 1], group.scope.astype(np.int64)
    slots = range(cells.shape[1])
    return any(bool(np.isin(cells[:, a] * n + cells[:, b], keys).any()) for a in slots for b in slots if a != b)


def _no_symmetry(graph: FactorGraph, bonds: Bonds, span: Span) -> GmlmError:
    spans = [graph.groups[t.group].span for t in bonds.tables] + [graph.groups[k].span for k in bonds.requires]
    names = sorted({f"`{span.text}`" for span in spans})
    message = f"no exchange of values keeps {' and '.join(names[:3])} on these edges: a cluster has no images"
    help = "take blocks of cells instead, `subsets(.., size = 2)` or `blocks(..)`, which need no symmetry"
    return fail("E418", message, span, "no symmetry", help=help)


def _bonds(graph: FactorGraph, mask: PercolationMask, q: int) -> tuple[Bonds, tuple[Array, ...]]:
    """Return the tables of edges, and each group's other factors that touch the mask's cells."""
    edges, n = mask.edges.astype(np.int64), graph.n_cells
    keys, inside = edges[:, 0] * n + edges[:, 1], np.zeros(n + 1, bool)
    inside[mask.cells] = True
    tables, rest, parts, start, allowed, requires = [], [], [], 0, np.ones((len(edges), q, q), bool), []
    for k, group in enumerate(graph.groups):
        on = np.zeros(group.n, bool)
        table = factor_table(k, group, np.append(graph.sizes, 1), start)
        if table is not None and group.cells.shape[1] > 1 and stays_finite(graph, group, table):
            low, high, on, edge = _on_edges(group, n, keys)
            if on.any():
                here = group.cells[on]
                strides = [(table.strides * (here == end[on, None])).sum(axis=1) for end in (low, high)]
                first = table.start + (0 if table.shared else np.flatnonzero(on) * table.values)
                parts.append(np.stack([edge[on], np.broadcast_to(first, len(here)), *strides], axis=1))
                tables.append(table)
                start += table.entries
        if table is None and group.kind == "require" and group.given is None and group.n and group.cells.shape[1] > 1:
            low, high, on, edge = _on_edges(group, n, keys)
            if on.any():
                _restrict(allowed, edge[on], group.take(np.flatnonzero(on)), low[on])
                requires.append(k)
        rest.append(np.flatnonzero(~on & inside[group.scope].any(axis=1)) if group.scope.shape[1] else np.zeros(0, np.int64))
    return _placed(tables, parts, allowed, tuple(requires), start, mask.span), tuple(rest)


def _restrict(allowed: Array, edge: Array, group: FactorGroup, low: Array) -> None:
    """Remove from `allowed` the joint values that requirements on the cells of an edge forbid."""
    q = allowed.shape[1]
    a, b = np.repeat(np.arange(q), q), np.tile(np.arange(q), q)
    # Slots can hold the lower cell in different patterns, of which there are mostly one or two.
    for of_low in np.unique(group.cells == low[:, None], axis=0):
        rows = np.flatnonzero(np.all((group.cells == low[:, None]) == of_low, axis=1))
        part, codes = group.take(rows), {s: a if first else b for s, first in enumerate(of_low)}
        with np.errstate(all="ignore"):
            found = np.asarray(evaluate(part.root, numpy_leaves(part.columns, part.tables, codes, slice(0, part.n)))).astype(bool)
        np.logical_and.at(allowed, edge[rows], np.broadcast_to(found, (part.n, q * q)).reshape(-1, q, q))


def _on_edges(group: FactorGroup, n: int, keys: Array) -> tuple[Array, Array, Array, Array]:
    """Return the first and last cell of each factor, whether they alone make an edge, and which.

    `keys` are the numbers n i + j of the edges (i, j), ascending.
    """
    cells = group.cells.astype(np.int64)
    low, high = np.where(cells < n, cells, n).min(axis=1), np.where(cells < n, cells, -1).max(axis=1)
    two = ((cells == low[:, None]) | (cells == high[:, None]) | (cells >= n)).all(axis=1)
    edge = np.searchsorted(keys, low * n + high).clip(max=len(keys) - 1)
    return low, high, two & (low < high) & (keys[edge] == low * n + high), edge


def _placed(tables: list[FactorTable], parts: list[Array], allowed: Array, requires: tuple[int, ...], entries: int, span: Span) -> Bonds:
    """Return the places of the entries of each edge's table; edges with equal entries share one."""
    edges, q, _ = allowed.shape
    rows = np.concatenate(parts) if parts else np.zeros((0, 4), np.int64)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    turn = np.arange(len(rows)) - np.searchsorted(rows[:, 0], rows[:, 0])
    several = int(turn.max(initial=0)) + 1
    signs = np.full((edges, several, 3), -1, np.int64)
    signs[rows[:, 0], turn] = rows[:, 1:]
    both = np.concatenate([signs.reshape(edges, -1), allowed.reshape(edges, -1)], axis=1)
    _, first, kind = np.unique(both, axis=0, return_index=True, return_inverse=True)
    kinds, allowed = signs[first], allowed[first]
    if float(len(kinds)) * several * q * q > MOST_EDGE_ENTRIES:
        message = f"{len(kinds):,} tables of {q} by {q} values on the edges of this `percolation`"
        message += f" are more than {MOST_EDGE_ENTRIES:,} entries"
        raise fail("E601", message, span, help="share couplings between edges, or take fewer edges")
    a, b = np.arange(q)[:, None], np.arange(q)[None]
    first, low, high = (kinds[:, :, c, None, None] for c in range(3))
    return Bonds(tuple(tables), np.where(first >= 0, first + low * a + high * b, entries), kind.ravel(), allowed, requires)


def _tables_at_points(graph: FactorGraph, bonds: Bonds) -> Array:
    """Return the tables of all kinds at several unrelated parameters, concatenated."""
    found = []
    for point in range(SYMMETRY_POINTS):
        rng = np.random.default_rng((17, point))
        params = {p.name: _anywhere(p.kind, p.shape, p.lower, p.upper, rng) for p in graph.parameters}
        values = [entry_values(graph.groups[t.group], t, params).ravel() for t in bonds.tables]
        found.append(bonds.at(np.concatenate([*values, np.zeros(0)])))
        if not any(graph.groups[t.group].parameters for t in bonds.tables):
            break
    return np.concatenate(found)


def _anywhere(kind: str, shape: tuple[int, ...], lower: float, upper: float, rng: np.random.Generator) -> Array:
    """Return random entries well inside the range of a parameter."""
    numbers = rng.uniform(0.2, 0.8, shape)
    if kind == "simplex":
        return numbers / numbers.sum(axis=-1, keepdims=True)
    if np.isfinite(lower) and np.isfinite(upper):
        return lower + (upper - lower) * numbers
    if kind == "positive" or np.isfinite(lower):
        return (lower if np.isfinite(lower) else 0.0) + numbers
    return upper - numbers if np.isfinite(upper) else 2 * numbers - 1


def colours_of(tables: Array) -> Array:
    """Return a colour for each entry (a, b).

    Entries of one colour are equal in every table. Tables of shape (tables, q, q) give integers of
    shape (q, q). Tables are compared through one random weight each, so entries that differ agree
    with probability 0.
    """
    weights = np.random.default_rng(0).standard_normal(len(tables))
    mixed = np.tensordot(weights, tables, axes=1).ravel()
    scale = np.abs(weights) @ np.abs(tables).reshape(len(tables), -1).max(axis=1)
    order = np.argsort(mixed, kind="stable")
    steps = np.diff(mixed[order], prepend=mixed[order[0]]) > ALIKE * scale
    out = np.empty(len(mixed), np.int64)
    out[order] = np.cumsum(steps)
    return out.reshape(tables.shape[1:])


def groups_of(colours: Array, two: bool = False) -> list[Array]:
    """Return groups of exchanges of q values that leave colours (q, q) invariant.

    Each group is an array of permutations (size, q), the identity first. A sampler draws one group
    per step.

    - Values that may be exchanged alone are rotated in a circle. Each class of such values has one
      group. For Potts models, this group reaches all images of the values.
    - If other exchanges join these classes, each exchange in pairs is a group of two.
    - If there is no exchange in pairs, the group is the powers of one exchange, if there is any.

    With `two`, each pair of values that may be exchanged alone is a group: the identity and the
    exchange of the two values.
    """
    q = len(colours)
    if q < 2:
        return []
    classes = _classes(colours)
    swaps = sorted((k - j, c[j], c[k]) for c in classes for j, k in itertools.combinations(range(len(c)), 2)) if two else []
    if swaps:  # Neighbours come first, because they alone reach every order of a class.
        return [np.stack([np.arange(q), _swap(q, a, b)]) for _, a, b in swaps[: max(MOST_PAIRINGS, q)]]
    firsts = [c[0] for c in classes]
    joined = any(len(a) == len(b) and _find(colours, a[0], b[0]) is not None for a, b in itertools.combinations(classes, 2))
    if not joined:
        return [_circle(c, q) for c in classes if len(c) > 1]
    pairings = [np.stack([np.arange(q), p]) for p in itertools.islice(_pairings(colours), MOST_PAIRINGS)]
    if pairings:
        return pairings
    found = (_find(colours, a, b) for a, b in itertools.permutations(firsts, 2))
    return [_powers(p) for p in itertools.islice((p for p in found if p is not None), 1)]


def _classes(colours: Array) -> list[list[int]]:
    """Return the classes of values any two of which may be exchanged alone."""
    classes: list[list[int]] = []
    for value in range(len(colours)):
        home = next((c for c in classes if _keeps(colours, _swap(len(colours), c[0], value))), None)
        if home is None:
            classes.append([value])
        else:
            home.append(value)
    return classes


def _swap(q: int, a: int, b: int) -> Array:
    p = np.arange(q)
    p[[a, b]] = b, a
    return p


def _keeps(colours: Array, p: Array) -> bool:
    return bool((colours[np.ix_(p, p)] == colours).all())


def _circle(values: list[int], q: int) -> Array:
    out = np.tile(np.arange(q), (len(values), 1))
    for k in range(len(values)):
        out[k, values] = np.roll(values, -k)
    return out


def _powers(p: Array) -> Array:
    out = [np.arange(len(p))]
    while not (p[out[-1]] == np.arange(len(p))).all():
        out.append(p[out[-1]])
    return np.stack(out)


def _find(colours: Array, first: int, image: int) -> Array | None:
    """Return an exchange that takes one value to another, or None if the search finds none."""
    tries = itertools.count()

    def extend(p: list[int], left: list[int]) -> list[int] | None:
        if not left:
            return p
        for value in left:
            if next(tries) > MOST_EXCHANGES:
                return None
            after = [*p, value]
            if _fits(colours, order, after):
                found = extend(after, [v for v in left if v != value])
                if found is not None:
                    return found
        return None

    order = [first, *(v for v in range(len(colours)) if v != first)]
    if not _fits(colours, order, [image]):
        return None
    found = extend([image], [v for v in range(len(colours)) if v != image])
    if found is None:
        return None
    out = np.empty(len(colours), np.int64)
    out[order] = found
    return out


def _fits(colours: Array, order: list[int], images: list[int]) -> bool:
    """Return whether the last image is consistent with those before it."""
    source, last = order[: len(images)], len(images) - 1
    return all(
        colours[source[k], source[last]] == colours[images[k], images[last]]
        and colours[source[last], source[k]] == colours[images[last], images[k]]
        for k in range(len(images))
    )


def _pairings(colours: Array) -> Iterator[Array]:
    """Yield exchanges that are their own inverse, except the identity."""
    q, tries = len(colours), itertools.count()

    def extend(p: dict[int, int]) -> Iterator[Array]:
        value = next((v for v in range(q) if v not in p), None)
        if value is None:
            yield np.array([p[v] for v in range(q)])
            return
        for other in range(value, q):
            if other in p or next(tries) > MOST_EXCHANGES:
                continue
            after = p | {value: other, other: value}
            source = list(after)
            if _keeps_part(colours, source, [after[v] for v in source]):
                yield from extend(after)

    yield from (p for p in extend({}) if (p != np.arange(q)).any())


def _keeps_part(colours: Array, source: list[int], images: list[int]) -> bool:
    return bool((colours[np.ix_(source, source)] == colours[np.ix_(images, images)]).all())
