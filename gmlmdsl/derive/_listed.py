"""Sums over the joint values of a few missing cells of a row, by enumeration.

The missing cells of a row form components, whose cells are split into halves A and B. A factor that
touches a component depends on few of its cells and on no other free cell. The values of the factor
are thus a table over these cells. Let a vector hold the tables of a term, which is a component of
one row. The sum of the tables over cells of A is Phi_A times a part of the vector. The matrix Phi_A
of zeros and ones selects the entries that belong to each joint value of A. The tables over cells of
both halves sum to Phi_A W Phi_B'. The matrix W holds the entries, by the values that they see in A
and in B. The joint values of all terms are thus enumerated at once by matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..graph import FactorGraph, FactorGroup
from ..graph.nodes import SINGULAR, Apply, nodes_in
from ..plan import GapTerms, block_arrays, size_classes
from ._arrays import Graph, float_type, on_device
from ._conditional import logsumexp
from ._energy import Codes, Params, evaluate_slots, log_potential
from .limits import MOST_DERIVATIVES, MOST_HELD_VALUES, MOST_ZEROS

if TYPE_CHECKING:
    import jax


T = TypeVar("T")
HostArray = np.ndarray
Entries = Float[Array, "entries terms"]
Vector = Float[Array, " parameters"]
Directions = Float[Array, "parameters directions"]
Found = tuple[Float[Array, "directions directions"], Float[Array, "rows directions"]]


class Touching(eqx.Module):
    """Instances of one group that see equally many cells of a component.

    They are grouped by the set of the component's members that they see.

    Attributes:
        group: the number of the group.
        instances: -1 for none, shape (sets, width, terms).
        codes: the code in each slot: for a known cell its code, for a free one its largest code;
            shape (slots, sets, width, terms).
        member: the place in the set of the cell in each slot, -1 for a known cell; shape (slots,
            sets, width, terms).
    """

    group: int = eqx.field(static=True)
    instances: Int[Array, "... sets width terms"]
    codes: Int[Array, "... slots sets width terms"]
    member: Int[Array, "... slots sets width terms"]


class Terms(eqx.Module):
    """Components of one shape; the arrays of a class of components have a leading axis of chunks.

    Attributes:
        rows: the row of each component, shape (terms,).
        weights: the weight of each component, shape (terms,).
        cells: padded with the number of cells, shape (members, terms).
        sizes: the number of values of each member, 1 for padding.
        predicted: the codes of the members that are observed and in K, -1 for others.
        touching: the instances that touch the components.
    """

    rows: Int[Array, "... terms"]
    weights: Float[Array, "... terms"]
    cells: Int[Array, "... members terms"]
    sizes: Int[Array, "... members terms"]
    predicted: Int[Array, "... members terms"]
    touching: tuple[Touching, ...]


class Choice(eqx.Module):
    """Entries that are summed for each joint value of a half, one entry of each set.

    Attributes:
        picks: the numbers of the entries, shape (sets, values).
        matrix: the same choice as zeros and ones, shape (values, entries); None if the sets have so
            many entries that the matrix would be mostly zeros.
    """

    picks: Int[Array, "sets values"]
    matrix: Float[Array, "values entries"] | None

    def __call__(self, entries: Float[Array, "entries ..."]) -> Float[Array, "values ..."]:
        """Return the sum of the chosen entries for each joint value."""
        if self.matrix is None:
            return entries[self.picks].sum(axis=0)
        return jnp.tensordot(self.matrix, entries, axes=1, precision=jax.lax.Precision.HIGHEST)


class Half(eqx.Module):
    """Some of the members of a component.

    Attributes:
        digits: the code of each member under every joint value, shape (values, members).
        places: the entries of tables that see only these members.
        own: the choice among these entries for each joint value.
        seen: the choice among the sets of members of this half that tables over both halves see.
    """

    digits: Int[Array, "values members"]
    places: Int[Array, " own"]
    own: Choice
    seen: Choice


class Listing(eqx.Module):
    """Terms of one shape, and the enumeration of their joint values.

    Attributes:
        terms: the components, in chunks.
        digits: for each `Touching` the codes of a set's cells under its joint values, shape (cells,
            sets, values).
        halves: the halves A and B.
        both: the entries by the values that they see in A and in B, padded with the number of
            entries, shape (each, seen, seen).
        may_forbid: whether a joint value may be impossible.
        by_term: whether terms are the first and not the last axis of the scores: the longer axis is
            the inner one.
    """

    terms: Terms
    digits: tuple[Int[Array, "cells sets values"], ...]
    halves: tuple[Half, Half]
    both: Int[Array, "each seen_a seen_b"]
    may_forbid: bool = eqx.field(static=True)
    by_term: bool = eqx.field(static=True)

    @property
    def values(self) -> int:
        """Number of joint values of a component."""
        return self.halves[0].digits.shape[0] * self.halves[1].digits.shape[0]

    def entries(self, graph: Graph, params: Params, terms: Terms) -> tuple[Entries, Entries | None]:
        """Return the tables of each term, one below the other, and the impossible entries.

        The second array counts how often each entry is impossible. An impossible value counts as 0
        in the tables.
        """
        found, bad = [], []
        for t, digits in zip(terms.touching, self.digits, strict=True):
            values = _table_values(graph, params, t, digits)
            here = (t.instances >= 0)[:, :, None, :]
            is_require = graph.groups[t.group].kind == "require"
            impossible = ~values if is_require else values == -jnp.inf
            numbers = jnp.where(values, 0.0, 0.0).astype(float_type()) if is_require else jnp.where(here & ~impossible, values, 0.0)
            found.append(numbers.sum(axis=1).reshape(-1, here.shape[-1]))
            bad.append((here & impossible).sum(axis=1, dtype=float_type()).reshape(-1, here.shape[-1]))
        nothing = jnp.zeros((0, terms.rows.shape[0]), float_type())
        return jnp.concatenate([*found, nothing]), jnp.concatenate([*bad, nothing]) if self.may_forbid else None

    def listed(self, entries: Entries) -> Array:
        """Return the sum of a term's tables under every joint value, linear in the entries.

        Its shape is (values, terms), or (terms, values) if `by_term`.
        """
        a, b = self.halves
        wide = jnp.concatenate([entries, jnp.zeros((1, entries.shape[1]), entries.dtype)])
        # axes: values of B, values of A, terms
        both = b.seen(jnp.moveaxis(a.seen(wide[self.both].sum(axis=0)), 0, 1))
        found = both + a.own(entries[a.places])[None] + b.own(entries[b.places])[:, None]
        found = found.reshape(-1, found.shape[-1])
        return found.T if self.by_term else found

    def allowed(self, check: Callable[[Int[Array, "values members 1"], slice], Bool[Array, "values members terms"]]) -> Array:
        """Return the joint values all of whose members pass a check, in the shape of the scores."""
        split = self.halves[0].digits.shape[1]
        a = check(self.halves[0].digits[:, :, None], slice(0, split)).all(axis=1)
        b = check(self.halves[1].digits[:, :, None], slice(split, None)).all(axis=1)
        both = (a[None] & b[:, None]).reshape(-1, a.shape[-1])
        return both.T if self.by_term else both

    def scores(self, terms: Terms, entries: Entries, bad: Entries | None) -> tuple[Array, Array]:
        """Return the score of every joint value, and the scores limited to the predicted cells.

        A score is -inf if the joint value does not exist or is impossible. In the second array it
        is also -inf if the joint value disagrees with a predicted cell.
        """
        exists = self.allowed(lambda digits, here: digits < terms.sizes[here][None])
        agrees = self.allowed(lambda digits, here: (digits == terms.predicted[here][None]) | (terms.predicted[here][None] < 0))
        scores = self.listed(entries)
        if bad is not None:
            exists = exists & (jax.lax.stop_gradient(self.listed(bad)) < 0.5)
        scores = jnp.where(exists, scores, -jnp.inf)
        return scores, jnp.where(agrees, scores, -jnp.inf)

    def log_sums(self, scores: Array) -> Float[Array, " terms"]:
        """Return the log sum of exponentials over joint values."""
        return logsumexp(scores) if self.by_term else logsumexp(scores[None])[0]


def _table_values(graph: Graph, params: Params, t: Touching, digits: Int[Array, "cells sets values"]) -> Array:
    """Return the value of each instance under the joint values of its set.

    The shape is (sets, width, values, terms).
    """
    group = graph.groups[t.group]
    known, place = t.codes[:, :, :, None, :], t.member[:, :, :, None, :]
    slots = known
    for q in range(digits.shape[0]):
        slots = jnp.where(place == q, jnp.minimum(digits[q][None, :, None, :, None], known), slots)
    found = evaluate_slots(group, params, jnp.maximum(t.instances, 0), list(slots))
    return jnp.broadcast_to(found, (*t.instances.shape[:2], digits.shape[2], t.instances.shape[2]))


class ListedRows(eqx.Module):
    """Loss of rows with missing values over all their masks, by enumeration.

    For a mask K and the set O of observed cells it is -log p(x_O) + log p(x_{O - K}).

    Attributes:
        graph: the factor graph.
        codes: (cells, rows), any value where a cell is missing.
        listings: the components of all rows, in classes of one shape.
        cost: the cost of the loss of all rows, in evaluations.
    """

    graph: Graph
    codes: Codes
    listings: tuple[Listing, ...]
    cost: Float[Array, ""]

    def rows(self, params: Params) -> Float[Array, " rows"]:
        """Return the mean over masks of -log p(x_K | x_rest), with missing cells summed out.

        The loss is 0 if no cell of K is observed.
        """

        def chunk(total: Array, listing: Listing, terms: Terms) -> Array:
            losses = terms.weights * self.term_losses(params, listing, terms)
            return total.at[terms.rows].add(jnp.where(terms.weights > 0, losses, 0.0))

        return self.over_chunks(chunk, jnp.zeros(self.codes.shape[1], float_type()))

    def term_losses(self, params: Params, listing: Listing, terms: Terms) -> Float[Array, " terms"]:
        """Return for each component the log of the ratio of two sums of exp(score).

        The first sum is over all values of the component. The second sum, which divides it, is over
        the values that agree with its predicted cells. The result is inf if the second sum is 0.
        """
        scores, agreeing = listing.scores(terms, *listing.entries(self.graph, params, terms))
        every, observed = listing.log_sums(scores), listing.log_sums(agreeing)
        possible = observed != -jnp.inf
        return jnp.where(possible, jnp.where(possible, every, 0.0) - jnp.where(possible, observed, 0.0), jnp.inf)

    def over_chunks(self, chunk: Callable[[T, Listing, Terms], T], total: T, listings: tuple[Listing, ...] | None = None) -> T:
        """Return a running total over all chunks.

        The gradient recomputes each chunk, so that memory stays bounded.
        """
        for listing in self.listings if listings is None else listings:
            if listing.terms.rows.shape[0] == 1:
                total = chunk(total, listing, jax.tree.map(lambda a: a[0], listing.terms))
                continue
            once = jax.checkpoint(lambda t, terms, listing=listing: chunk(t, listing, terms))  # pyright: ignore[reportPrivateImportUsage]
            total, _ = jax.lax.scan(lambda t, terms, once=once: (once(t, terms), None), total, listing.terms)
        return total


def log_marginal(gaps: ListedRows, params: Params) -> Float[Array, " rows"]:
    """Return the unnormalised log p of rows with missing values.

    It is the log sum of exp(log_potential) over the missing cells. `gaps` has one term for each
    component of missing cells. The factors that touch no missing cell are evaluated on a completed
    row. The row is completed with the best value of each component, so that log_potential is finite
    if it is finite for any completion.
    """
    graph = gaps.graph

    def chunk(total: tuple[Codes, Array], listing: Listing, terms: Terms) -> tuple[Codes, Array]:
        whole, more = total
        scores, _ = listing.scores(terms, *listing.entries(graph, params, terms))
        scores = scores if listing.by_term else scores.T
        best = jnp.argmax(scores, axis=1)
        top = jnp.take_along_axis(scores, best[:, None], axis=1)[:, 0]
        possible = top != -jnp.inf
        excess = jnp.where(possible, logsumexp(scores) - jnp.where(possible, top, 0.0), -jnp.inf)
        a, b = (h.digits for h in listing.halves)
        values = jnp.concatenate([a[best % a.shape[0]], b[best // a.shape[0]]], axis=1).T.astype(whole.dtype)
        used = terms.weights > 0
        whole = whole.at[jnp.where(used, terms.cells, graph.n_cells), terms.rows].set(values, mode="drop")
        return whole, more.at[terms.rows].add(jnp.where(used, excess, 0.0))

    whole, more = gaps.over_chunks(chunk, (gaps.codes, jnp.zeros(gaps.codes.shape[1], float_type())))
    return log_potential(graph, params, whole) + more


def listed_second_order(
    gaps: ListedRows, at: Callable[[Vector], Params], vector: Vector, directions: Directions, weights: Float[Array, " rows"], affine: bool
) -> Found:
    """Return the Hessian of the weighted sum of losses, and the weighted score of each row.

    The Hessian is that of the sum of weight * loss over rows. The score of a row is weight * grad
    loss. Both are taken in some directions.

    Args:
        gaps: the rows.
        at: a function that returns parameters from a flat vector.
        vector: the flat vector at which derivatives are taken.
        directions: the directions, as columns.
        weights: the weight of each row.
        affine: whether factors are affine in the flat vector.
    """
    count, rows = directions.shape[1], gaps.codes.shape[1]
    # The derivatives of the scores of a chunk in `count` directions fit into memory.
    fits = [x.values * x.terms.rows.shape[-1] * count <= MOST_DERIVATIVES for x in gaps.listings]
    dense, others = (tuple(x for x, fit in zip(gaps.listings, fits, strict=True) if fit == d) for d in (True, False))
    found = jnp.zeros((count, count)), jnp.zeros((rows, count))
    found = gaps.over_chunks(lambda t, x, terms: _add(t, gaps, x, terms, at, vector, directions, weights, affine), found, dense)
    if not others:
        return found
    rest, weights = ListedRows(gaps.graph, gaps.codes, others, gaps.cost), jnp.maximum(weights, 0.0)

    def slope(d: Vector) -> tuple[Array, Array]:
        curved = jax.jvp(jax.grad(lambda v: (weights * rest.rows(at(v))).sum()), (vector,), (d,))[1]
        return directions.T @ curved, weights * jax.jvp(lambda v: rest.rows(at(v)), (vector,), (d,))[1]

    hessian, scores = jax.lax.map(slope, directions.T)
    return found[0] + hessian, found[1] + scores.T


def second_order_cost(gaps: ListedRows, count: int) -> float:
    """Return the number of evaluations of `listed_second_order` in `count` directions."""
    values = sum(float(x.values * x.terms.rows.size) for x in gaps.listings)
    return count * (2 * float(gaps.cost) + count * values / 64)


def _add(
    total: Found,
    gaps: ListedRows,
    listing: Listing,
    terms: Terms,
    at: Callable[[Vector], Params],
    vector: Vector,
    directions: Directions,
    row_weights: Array,
    affine: bool,
) -> Found:
    """Return the total with a chunk of terms added."""

    def entries(v: Vector) -> tuple[Entries, Entries | None]:
        return listing.entries(gaps.graph, at(v), terms)

    # The factors are linearised when they are evaluated: each direction then needs only sums of
    # their slopes.
    found, along, bad = jax.linearize(entries, vector, has_aux=True)
    axis = 1 if listing.by_term else 0
    scores = listing.scores(terms, found, bad)
    sums = [listing.log_sums(s) for s in scores]
    alive = (terms.weights > 0) & (sums[1] > -jnp.inf)
    weights = jnp.where(alive, terms.weights * jnp.maximum(row_weights[terms.rows], 0.0), 0.0)
    p, q = (jnp.exp(s - jnp.expand_dims(jnp.where(alive, log_sum, jnp.inf), axis)) for s, log_sum in zip(scores, sums, strict=True))
    phi = jax.lax.map(lambda d: listing.listed(along(d)), directions.T)
    apart = (p - q) * jnp.expand_dims(weights, axis)
    flat = phi.reshape(phi.shape[0], -1)
    means = [(phi * law[None]).sum(axis=1 + axis) for law in (p, q)]
    hessian = (flat * apart.reshape(1, -1)) @ flat.T - (means[0] * weights[None]) @ means[0].T + (means[1] * weights[None]) @ means[1].T
    if not affine:
        factors = jax.vjp(listing.listed, found)[1](apart)[0]
        gradient = jax.grad(lambda v: (entries(v)[0] * factors).sum())
        hessian = hessian + jax.lax.map(lambda d: directions.T @ jax.jvp(gradient, (vector,), (d,))[1], directions.T)
    return total[0] + hessian, total[1].at[terms.rows].add((weights[None] * (means[0] - means[1])).T)


def listed_rows(
    host: FactorGraph, graph: Graph, codes: HostArray, terms: Sequence[GapTerms], cost: float, most_values: int = MOST_HELD_VALUES
) -> ListedRows:
    """Return the loss of rows with missing values, in chunks of at most `most_values` joint values.

    A chunk has at least one term.

    Args:
        host: the factor graph.
        graph: the same factor graph on the device.
        codes: (cells, rows), any value where a cell is missing.
        terms: the components of all rows, in classes of similar ones.
        cost: the cost of the loss, in evaluations.
        most_values: the maximum number of joint values held at once.
    """
    known = np.maximum(codes, 0)
    listings = tuple(_listing(host, np.concatenate([known, np.zeros_like(known[:1])]), t, most_values) for t in terms)
    return ListedRows(graph, on_device(known, np.int32), listings, on_device(float(cost), float_type()))


@dataclass(frozen=True)
class _Sets:
    """Sets of component members that instances of one group see, as the bits of integers.

    The sets agree in their number of members and are of similar numbers of values. `arrays` holds
    the arrays of a `Touching`.
    """

    group: int
    bits: HostArray
    arrays: dict[str, HostArray]


def _listing(host: FactorGraph, known: HostArray, t: GapTerms, most: int) -> Listing:
    count = len(t.rows)
    chunks = -(-count // max(1, most // t.values))
    # All chunks have the same size, because a smaller last chunk would cost as much as the others.
    size = -(-count // chunks)
    padding = -count % size
    sets = [s for k in range(len(host.groups)) for s in _sets(host, known, t, k)]
    radix = np.array(t.radix)
    digits = [_set_digits(s.bits, radix) for s in sets]

    def split(a: HostArray, fill: float) -> jax.Array:
        wide = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, padding)], constant_values=fill)
        return on_device(np.moveaxis(wide.reshape(*a.shape[:-1], -1, size), -2, 0))

    sizes = np.append(host.sizes, 1)[t.cells].astype(np.int32)
    predicted = np.where(t.predicted, known[np.minimum(t.cells, host.n_cells), t.rows], -1).astype(np.int32)
    touching = tuple(Touching(s.group, *(split(s.arrays[k], -1) for k in ("instances", "codes", "member"))) for s in sets)
    weights = split(t.weights.astype(float_type()), 0)
    terms = Terms(split(t.rows, 0), weights, split(t.cells, host.n_cells), split(sizes, 1), split(predicted, -1), touching)
    halves, both = _halves(radix, [s.bits for s in sets], [d.shape[2] for d in digits])
    may_forbid = any(_may_forbid(host.groups[s.group]) for s in sets)
    return Listing(terms, tuple(on_device(d) for d in digits), halves, both, may_forbid, t.values > size)


def _may_forbid(group: FactorGroup) -> bool:
    """Return whether values of the group may be -infinity.

    This holds for a requirement, and for an expression that may divide by zero or overflow.
    """
    singular = any(isinstance(n, Apply) and n.operator in SINGULAR for n in nodes_in(group.root))
    return group.kind == "require" or singular or not all(np.isfinite(a).all() for a in (*group.columns, *group.tables))


def _sets(host: FactorGraph, known: HostArray, t: GapTerms, k: int) -> list[_Sets]:
    """Return the instances of group k that touch some component.

    They are grouped by how many cells, and how many values, of a component they see.
    """
    group, cells = host.groups[k], t.cells.T
    touch = block_arrays(host, cells)[3 + k]
    term, width = np.nonzero(touch >= 0)
    instance = touch[term, width]
    scope = group.cells[instance]  # axes: found, slots
    hit = (scope[:, :, None] == cells[term][:, None, :]) & (cells < host.n_cells)[term][:, None, :]
    member = np.where(hit.any(axis=2), hit.argmax(axis=2), -1)
    bits = (hit.any(axis=1) * (1 << np.arange(cells.shape[1], dtype=np.int64))).sum(axis=1)
    largest = np.append(host.sizes, 1)[scope] - 1
    codes = np.where(member >= 0, largest, known[np.minimum(scope, host.n_cells), t.rows[term][:, None]])
    below = (1 << np.maximum(member, 0).astype(np.int64)) - 1
    # uint8 cannot represent -1, which NumPy 2.5 reports
    place = np.where(member >= 0, np.bitwise_count(bits[:, None] & below).astype(np.int64), -1)
    every, kind = np.unique(bits, return_inverse=True)
    sizes = [math.prod(np.array(t.radix)[_members(b)].tolist()) for b in every.tolist()]
    alike = np.stack([np.bitwise_count(every), size_classes(np.array(sizes, float))], axis=1)
    out = []
    for like in np.unique(alike, axis=0):
        mine = np.flatnonzero((alike == like).all(axis=1)[kind.reshape(-1)])
        found, which = np.unique(bits[mine], return_inverse=True)
        at = _ranked(term[mine], which.reshape(-1))
        shape = len(found), int(at[1].max()) + 1, len(cells)
        arrays: dict[str, HostArray] = {"instances": np.full(shape, -1, np.int32)}
        arrays["instances"][at] = instance[mine]
        for name, values in (("codes", codes), ("member", place)):
            arrays[name] = np.full((scope.shape[1], *shape), -1 if name == "member" else 0, np.int32)
            arrays[name][:, *at] = values[mine].T
        out.append(_Sets(k, found, arrays))
    return out


def _ranked(term: HostArray, which: HostArray) -> tuple[HostArray, HostArray, HostArray]:
    """Return the place of each instance: (its set, its rank, its term).

    The rank counts the earlier instances of the same term that see the same set.
    """
    order = np.lexsort((term, which))
    first = np.r_[True, (np.diff(term[order]) != 0) | (np.diff(which[order]) != 0)]
    start = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - start
    return which, rank, term


def _set_digits(bits: HostArray, radix: HostArray) -> HostArray:
    """Return the codes of each set's cells under its joint values, shape (cells, sets, values).

    The last cell varies fastest.
    """
    members = [_members(b) for b in bits.tolist()]
    values = max(math.prod(radix[m].tolist()) for m in members)
    return np.stack([_codes(radix[m], values).T for m in members], axis=1).astype(np.int32)


def _members(bits: int) -> HostArray:
    return np.array([p for p in range(bits.bit_length()) if bits >> p & 1], np.int64)


def _codes(radix: HostArray, values: int | None = None) -> HostArray:
    """Return the mixed-radix code of each cell under every joint value, shape (values, cells)."""
    strides = np.cumprod(np.r_[radix[1:], 1][::-1])[::-1] if len(radix) else radix
    return np.arange(math.prod(radix.tolist()) if values is None else values)[:, None] // strides % radix


def _halves(radix: HostArray, sets: list[HostArray], values: list[int]) -> tuple[tuple[Half, Half], jax.Array]:
    """Return the halves of a component, and the entries that see cells of both halves.

    `values` has the number of entries of a set, for each kind of table.
    """
    cut = min(range(1, len(radix) + 1), key=lambda c: math.prod(radix[:c].tolist()) + math.prod(radix[c:].tolist()))
    parts = [np.arange(cut), np.arange(cut, len(radix))]
    inside = [sum(1 << int(p) for p in part) for part in parts]
    firsts = np.cumsum([0, *(len(b) * v for b, v in zip(sets, values, strict=True))])
    found = [
        (bits, int(first + k * v)) for group, v, first in zip(sets, values, firsts, strict=False) for k, bits in enumerate(group.tolist())
    ]
    crossing = [(bits, first) for bits, first in found if bits & inside[0] and bits & inside[1]]
    halves, seen = [], []
    for part, mine in zip(parts, inside, strict=True):
        own = [(bits, first) for bits, first in found if not bits & ~mine]
        places = [first + np.arange(math.prod(radix[_members(bits)].tolist())) for bits, first in own]
        kinds = sorted({bits & mine for bits, _ in crossing})
        seen.append(_offsets(radix, kinds))
        digits = _codes(radix[part])
        choices = (_choice(radix, digits, part, k) for k in ([bits for bits, _ in own], kinds))
        halves.append(Half(on_device(digits, np.int32), _ints(np.concatenate([np.zeros(0), *places])), *choices))
    both = _both(radix, crossing, inside, seen, int(firsts[-1]))
    return (halves[0], halves[1]), _ints(both)


def _offsets(radix: HostArray, sets: list[int]) -> dict[int, int]:
    """Return where the entries of each set begin; the key -1 holds where the last ones end."""
    ends = np.cumsum([0, *(math.prod(radix[_members(b)].tolist()) for b in sets)]).tolist()
    return dict(zip([*sets, -1], ends, strict=True))


def _choice(radix: HostArray, digits: HostArray, part: HostArray, sets: list[int]) -> Choice:
    """Return the entries that belong to each joint value of a half, one entry for each set.

    The entries of the sets follow one another. A set may occur more than once.
    """
    first, picks = 0, np.zeros((len(sets), len(digits)), np.int64)
    for k, bits in enumerate(sets):
        members = _members(bits)
        own = radix[members]
        strides = np.cumprod(np.r_[own[1:], 1][::-1])[::-1]
        picks[k] = first + (digits[:, members - part[0]] * strides).sum(axis=1)
        first += math.prod(own.tolist())
    matrix = None
    if first <= MOST_ZEROS * len(sets):
        matrix = np.zeros((len(digits), first))
        matrix[np.arange(len(digits))[None], picks] = 1.0
        matrix = on_device(matrix, float_type())
    return Choice(_ints(picks), matrix)


def _both(radix: HostArray, crossing: list[tuple[int, int]], inside: list[int], seen: list[dict[int, int]], none: int) -> HostArray:
    """Return the entries that see some cells of half A and some of half B.

    Entries of several groups that see the same cells are stacked in layers.
    """
    layers: dict[int, int] = {}
    out = np.full((len(crossing), seen[0][-1], seen[1][-1]), none, np.int64)
    for bits, first in crossing:
        layer = layers[bits] = layers.get(bits, -1) + 1
        shape = [math.prod(radix[_members(bits & mine)].tolist()) for mine in inside]
        a, b = (s[bits & mine] for s, mine in zip(seen, inside, strict=True))
        out[layer, a : a + shape[0], b : b + shape[1]] = first + np.arange(math.prod(shape)).reshape(shape)
    return out[: max(layers.values(), default=0) + 1] if crossing else np.full((1, seen[0][-1], seen[1][-1]), none)


def _ints(a: HostArray) -> jax.Array:
    return on_device(a, np.int32)
