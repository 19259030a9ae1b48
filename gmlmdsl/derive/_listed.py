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

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._arrays import Graph, float_type
from ._conditional import logsumexp
from ._energy import Codes, Params, evaluate_slots, log_potential
from .limits import MOST_DERIVATIVES

T = TypeVar("T")
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
    dense, others = (tuple(x for x in gaps.listings if _is_dense(x, count) == d) for d in (True, False))
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


def _is_dense(listing: Listing, count: int) -> bool:
    """Return whether the derivatives of a chunk's scores in `count` directions fit into memory."""
    return listing.values * listing.terms.rows.shape[-1] * count <= MOST_DERIVATIVES


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
