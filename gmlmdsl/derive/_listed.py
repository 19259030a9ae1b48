"""Sums over the joint values of few cells of a row, which are listed: what rows with missing cells cost.

A component's cells are split into halves A and B. A factor that touches it depends on few of its
cells, and on no others that are free: its values are a table over these. With the tables of a term
as a vector, the sum of the tables over A is Phi_A times a part of it, Phi_A of zeros and ones that
says which entries go with each joint value of A; those over cells of both halves sum to Phi_A W
Phi_B', W the entries by what they see of A and of B. So joint values are listed by matrix products,
of all terms at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._arrays import Graph, float_type
from ._conditional import logsumexp
from ._energy import Codes, Params, evaluate_slots, log_potential

Entries = Float[Array, "entries terms"]


class Touching(eqx.Module):
    """Instances of one group that see as many cells of a component, by the set of its members that they see.

    Attributes:
        group: which group.
        instances: -1 for none, shape (sets, width, terms).
        codes: what stands in each slot: a known cell's code, a free one's largest; shape (slots,
            sets, width, terms).
        member: which cell of the set stands there, -1 for none, of the same shape.
    """

    group: int = eqx.field(static=True)
    instances: Int[Array, "... sets width terms"]
    codes: Int[Array, "... slots sets width terms"]
    member: Int[Array, "... slots sets width terms"]


class Terms(eqx.Module):
    """Components of one shape; in a class of them, arrays have chunks in front.

    Attributes:
        rows: (terms,). weights: (terms,). touching: what touches them.
        cells: padded with the number of cells, shape (members, terms). sizes: how many values each
            has, 1 for padding.
        predicted: the codes of the members that are observed and in K, -1 for others.
    """

    rows: Int[Array, "... terms"]
    weights: Float[Array, "... terms"]
    cells: Int[Array, "... members terms"]
    sizes: Int[Array, "... members terms"]
    predicted: Int[Array, "... members terms"]
    touching: tuple[Touching, ...]


class Choice(eqx.Module):
    """Which entries are summed for each joint value of a half: one of each set.

    Attributes:
        picks: their numbers, shape (sets, values).
        matrix: the same as zeros and ones, shape (values, entries); None where sets have so many
            entries that it is mostly zeros.
    """

    picks: Int[Array, "sets values"]
    matrix: Float[Array, "values entries"] | None

    def __call__(self, entries: Float[Array, "entries ..."]) -> Float[Array, "values ..."]:
        """The sums."""
        if self.matrix is None:
            return entries[self.picks].sum(axis=0)
        return jnp.tensordot(self.matrix, entries, axes=1, precision=jax.lax.Precision.HIGHEST)


class Half(eqx.Module):
    """Some of the members of a component.

    Attributes:
        digits: the code of each under every joint value, shape (values, members).
        places: which entries of tables see these members alone. own: which of them go with each
            joint value.
        seen: what tables over both halves see of this one under each joint value.
    """

    digits: Int[Array, "values members"]
    places: Int[Array, " own"]
    own: Choice
    seen: Choice


class Listing(eqx.Module):
    """Terms of one shape, and how their joint values are listed.

    Attributes:
        terms: in chunks.
        digits: for each `Touching` the codes of a set's cells under its joint values, shape (cells,
            sets, values).
        halves: A and B.
        both: the entries that see this of A and that of B, padded with the number of entries, shape
            (each, seen, seen).
        may_forbid: whether a joint value may be impossible.
        by_term: whether terms come first in the listed scores, and not last: the longer axis is the
            inner one.
    """

    terms: Terms
    digits: tuple[Int[Array, "cells sets values"], ...]
    halves: tuple[Half, Half]
    both: Int[Array, "each seen_a seen_b"]
    may_forbid: bool = eqx.field(static=True)
    by_term: bool = eqx.field(static=True)

    @property
    def values(self) -> int:
        """The joint values of a component."""
        return self.halves[0].digits.shape[0] * self.halves[1].digits.shape[0]

    def entries(self, graph: Graph, params: Params, terms: Terms) -> tuple[Entries, Entries | None]:
        """The tables of each term, one below the other; and how often each entry is impossible, which counts 0 in the first."""
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
        """The sum of a term's tables under every joint value, linear in the entries: (values, terms), or turned where `by_term`."""
        a, b = self.halves
        wide = jnp.concatenate([entries, jnp.zeros((1, entries.shape[1]), entries.dtype)])
        # values of B, of A, terms
        both = b.seen(jnp.moveaxis(a.seen(wide[self.both].sum(axis=0)), 0, 1))
        found = both + a.own(entries[a.places])[None] + b.own(entries[b.places])[:, None]
        found = found.reshape(-1, found.shape[-1])
        return found.T if self.by_term else found

    def allowed(self, check: Callable[[Int[Array, "values members 1"], slice], Bool[Array, "values members terms"]]) -> Array:
        """Joint values all of whose members pass a check, shaped as the scores."""
        split = self.halves[0].digits.shape[1]
        a = check(self.halves[0].digits[:, :, None], slice(0, split)).all(axis=1)
        b = check(self.halves[1].digits[:, :, None], slice(split, None)).all(axis=1)
        both = (a[None] & b[:, None]).reshape(-1, a.shape[-1])
        return both.T if self.by_term else both

    def scores(self, terms: Terms, entries: Entries, bad: Entries | None) -> tuple[Array, Array]:
        """The score of every joint value, -inf where there is none or it is impossible; and the same where predicted cells agree."""
        exists = self.allowed(lambda digits, here: digits < terms.sizes[here][None])
        agrees = self.allowed(lambda digits, here: (digits == terms.predicted[here][None]) | (terms.predicted[here][None] < 0))
        scores = self.listed(entries)
        if bad is not None:
            exists = exists & (jax.lax.stop_gradient(self.listed(bad)) < 0.5)
        scores = jnp.where(exists, scores, -jnp.inf)
        return scores, jnp.where(agrees, scores, -jnp.inf)

    def log_sums(self, scores: Array) -> Float[Array, " terms"]:
        """log of the sum of exponentials over joint values."""
        return logsumexp(scores) if self.by_term else logsumexp(scores[None])[0]


def _table_values(graph: Graph, params: Params, t: Touching, digits: Int[Array, "cells sets values"]) -> Array:
    """The value of each instance under the joint values of its set, shape (sets, width, values, terms)."""
    group = graph.groups[t.group]
    known, place = t.codes[:, :, :, None, :], t.member[:, :, :, None, :]
    slots = known
    for q in range(digits.shape[0]):
        slots = jnp.where(place == q, jnp.minimum(digits[q][None, :, None, :, None], known), slots)
    found = evaluate_slots(group, params, jnp.maximum(t.instances, 0), list(slots))
    return jnp.broadcast_to(found, (*t.instances.shape[:2], digits.shape[2], t.instances.shape[2]))


class ListedRows(eqx.Module):
    """The loss of rows with missing cells, over every mask of theirs: -log p(x_O) + log p(x_{O - K}), by listing.

    Attributes:
        codes: (cells, rows), any value where a cell is missing.
        cost: evaluations of the loss of all rows.
    """

    graph: Graph
    codes: Codes
    listings: tuple[Listing, ...]
    cost: Float[Array, ""]

    def rows(self, params: Params) -> Float[Array, " rows"]:
        """The mean over masks of -log p(x_K | x_rest), missing cells summed out; 0 where no cell of K is observed."""

        def chunk(total: Array, listing: Listing, terms: Terms) -> Array:
            losses = terms.weights * self.term_losses(params, listing, terms)
            return total.at[terms.rows].add(jnp.where(terms.weights > 0, losses, 0.0))

        return self.over_chunks(chunk, jnp.zeros(self.codes.shape[1], float_type()))

    def term_losses(self, params: Params, listing: Listing, terms: Terms) -> Float[Array, " terms"]:
        """log of the sum over a component's values, minus that over the values which agree with its predicted cells."""
        scores, agreeing = listing.scores(terms, *listing.entries(self.graph, params, terms))
        every, observed = listing.log_sums(scores), listing.log_sums(agreeing)
        possible = observed != -jnp.inf
        return jnp.where(possible, jnp.where(possible, every, 0.0) - jnp.where(possible, observed, 0.0), jnp.inf)

    def over_chunks(self, chunk: Callable[[Any, Listing, Terms], Any], total: Any, listings: tuple[Listing, ...] | None = None) -> Any:
        """A running total over all chunks; the gradient computes each chunk anew, so that memory stays bounded."""
        for listing in self.listings if listings is None else listings:
            if listing.terms.rows.shape[0] == 1:
                total = chunk(total, listing, jax.tree.map(lambda a: a[0], listing.terms))
                continue
            once = jax.checkpoint(lambda t, terms, listing=listing: chunk(t, listing, terms))  # pyright: ignore[reportPrivateImportUsage]
            total, _ = jax.lax.scan(lambda t, terms, once=once: (once(t, terms), None), total, listing.terms)
        return total


def log_marginal(gaps: ListedRows, params: Params) -> Float[Array, " rows"]:
    """The unnormalised log p of rows with missing cells: log of the sum over them of exp(log_potential).

    `gaps` holds one term for each component of missing cells. What its factors do not touch is that
    of a completed row; with the best values everywhere that is finite wherever any completion is.
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
