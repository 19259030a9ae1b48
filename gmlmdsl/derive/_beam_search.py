"""Beam search over prefixes, or independent draws of them, cell by cell.

Beam search with one beam is greedy search. Rows are compared by log p / n^a over their n predicted
cells; their score is the mean. As in most implementations of beam search, the 2 b best
continuations of b beams are considered:

- Those among the first b that end a row are set aside.
- The first b of the others go on.
- A row is done when b are set aside or all its cells are used up.

With one beam only the best continuation is needed: it goes on, or it ends the row.

Reference: Sutskever et al. 2014, Section 3.2; Wu et al. 2016, Section 7 (length normalisation); Ott
et al. 2019 (this stopping rule).
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from ._network import has_no_distribution, likeliest, reducible
from ._picks import pick_token, token_words
from ._random import fold_apart
from ._refinement import narrow


@dataclass(frozen=True)
class SearchRules:
    """Options of `autoregressive`, see the language reference."""

    end: int | None
    beam: int
    length_penalty: float
    decode: str
    temperature: float
    top_k: int | None
    top_p: float | None

    @property
    def looked_at(self) -> int:
        """Number of continuations to consider: 1 for one beam, else 2 b for b beams.

        At most b of the 2 b continuations end a row.
        """
        return 1 if self.beam == 1 else 2 * self.beam


class Finished(NamedTuple):
    """Rows that have ended, the best first, by log p / n^a.

    The score is -infinity for a place without a row.
    """

    score: Float[Array, "groups beam"]
    tokens: Int[Array, "groups beam cells"]
    length: Int[Array, "groups beam"]


class Search(NamedTuple):
    """State of the beams of every row.

    A group is a row of one chain, and its beams are adjacent.
    """

    t: Int[Array, ""]
    tokens: Int[Array, "groups beam cells"]
    log_p: Float[Array, "groups beam"]  # -infinity for a place without a beam
    cache: PyTree
    finished: Finished
    steps: Int[Array, " groups"]
    done: Bool[Array, " groups"]
    # the first cell that has no distribution in some beam; -1 if there is none
    undefined: Int[Array, " groups"]


class Continuations(NamedTuple):
    """The best continuations, the best first: their beam, their token and their log p."""

    beam: Int[Array, "groups many"]
    token: Int[Array, "groups many"]
    log_p: Float[Array, "groups many"]


class BeamRows(NamedTuple):
    """Rows to search, which do not change from cell to cell; `held` has the codes of fixed cells."""

    held: Int[Array, "groups cells"]
    free: Bool[Array, "groups cells"]
    # the place after the last fixed cell, before which no row ends
    last_held: Int[Array, " groups"]
    lengths: Int[Array, " groups"]
    keys: PRNGKeyArray


class AbstractPrefixes(eqx.Module):
    """The distribution of the next cell of the prefixes of a search."""

    @abc.abstractmethod
    def begin(self, groups: int, beam: int, n_cells: int) -> PyTree:
        """Return what is remembered of empty prefixes, with the beams of a group adjacent."""

    @abc.abstractmethod
    def logits(self, at: Search) -> tuple[Float[Array, "groups beam values"], PyTree]:
        """Return the logits of cell `at.t`, and what is remembered of the prefixes before it."""

    @abc.abstractmethod
    def reordered(self, cache: PyTree, beams: Int[Array, "groups beam"]) -> PyTree:
        """Return what is remembered after the prefixes of each group were chosen anew."""


class BeamSearch(eqx.Module):
    """A search over the prefixes of rows.

    Attributes:
        rules: the options.
        prefixes: the distribution of the next cell.
    """

    rules: SearchRules = eqx.field(static=True)
    prefixes: AbstractPrefixes

    def run(self, rows: BeamRows, at: Search) -> Search:
        """Advance the search until every group is done."""
        return jax.lax.while_loop(lambda at: ~at.done.all(), lambda at: self.advance(rows, at), at)

    def begin(self, rows: BeamRows) -> Search:
        """Return the state with one beam in each group, before its first cell."""
        (groups, n), beam = rows.held.shape, self.rules.beam
        tokens = jnp.zeros((groups, beam, n), jnp.int32)
        log_p = jnp.full((groups, beam), -jnp.inf).at[:, 0].set(0.0)
        cache = self.prefixes.begin(groups, beam, n)
        finished = Finished(jnp.full((groups, beam), -jnp.inf), tokens, jnp.zeros((groups, beam), jnp.int32))
        steps, done, undefined = jnp.zeros(groups, jnp.int32), jnp.zeros(groups, bool), jnp.full(groups, -1, jnp.int32)
        return Search(jnp.asarray(0, jnp.int32), tokens, log_p, cache, finished, steps, done, undefined)

    def advance(self, rows: BeamRows, at: Search) -> Search:
        """Advance the search by one cell."""
        beam, t = self.rules.beam, at.t
        logits, cache = self.prefixes.logits(at)
        found = self.continuations(rows, at, logits)
        tokens = jnp.take_along_axis(at.tokens, found.beam[..., None], axis=1).at[:, :, t].set(found.token)
        first = (jnp.arange(found.token.shape[1]) < beam)[None]
        ends = jnp.zeros_like(found.token, bool) if self.rules.end is None else found.token == self.rules.end
        full = (t + 1 >= rows.lengths)[:, None]
        finished = self._set_aside(rows, at, tokens, found.log_p, (ends | full) & first)
        # the first continuations that do not end
        on = jnp.argsort(ends, axis=1, stable=True)[:, :beam]
        kept = jnp.take_along_axis(found.beam, on, axis=1)
        log_p = jnp.where(jnp.take_along_axis(ends, on, axis=1), -jnp.inf, jnp.take_along_axis(found.log_p, on, axis=1))
        steps = jnp.where(at.done, at.steps, t + 1)
        lost = (has_no_distribution(logits) & (at.log_p > -jnp.inf)).any(axis=1) & jnp.take(rows.free, t, axis=1) & ~at.done
        undefined = jnp.where(lost & (at.undefined < 0), t.astype(jnp.int32), at.undefined)
        done = at.done | full[:, 0] | (finished.score > -jnp.inf).all(axis=1) | (log_p == -jnp.inf).all(axis=1) | (undefined >= 0)
        tokens = jnp.take_along_axis(tokens, on[..., None], axis=1)
        return Search(t + 1, tokens, log_p, self.prefixes.reordered(cache, kept), finished, steps, done, undefined)

    def continuations(self, rows: BeamRows, at: Search, logits: Float[Array, "groups beam values"]) -> Continuations:
        """Return the best continuations of every group, or a token drawn for each beam.

        A fixed cell takes its code, which does not change log p.
        """
        rules, t = self.rules, at.t
        values, axis = reducible(logits)
        total = jax.nn.logsumexp(values, axis=axis)
        if rules.end is not None:
            barred = (t + 1 < rows.last_held)[:, None, None] & (jnp.arange(logits.shape[-1]) == rules.end)[None, None]
            logits = jnp.where(barred, -jnp.inf, logits)
        if rules.decode == "sample":
            narrowed = narrow(logits / rules.temperature, rules.top_k, rules.top_p)
            drawn = token_words(fold_apart(rows.keys, t), 1, logits.shape[-1])
            token = pick_token(narrowed, drawn.transposed)[..., None]
            own = jnp.take_along_axis(logits, token, axis=-1)
        else:
            own, token = largest(logits, min(rules.looked_at, logits.shape[-1]))
        log_p = at.log_p[..., None] + own - total[..., None]
        free, held = jnp.take(rows.free, t, axis=1)[:, None, None], jnp.take(rows.held, t, axis=1)[:, None, None]
        first = (jnp.arange(token.shape[-1]) == 0)[None, None]
        token = jnp.where(free, token, held)
        log_p = jnp.where(free, log_p, jnp.where(first, at.log_p[..., None], -jnp.inf))
        groups, many = logits.shape[0], token.shape[-1]
        best, place = largest(log_p.reshape(groups, -1), min(rules.looked_at, rules.beam * many))
        return Continuations(place // many, jnp.take_along_axis(token.reshape(groups, -1), place, axis=1).astype(jnp.int32), best)

    def _set_aside(self, rows: BeamRows, at: Search, tokens: Array, log_p: Array, ended: Array) -> Finished:
        """Return the best rows that have ended so far, including those that end at this cell."""
        cells = jnp.arange(rows.free.shape[1], dtype=jnp.int32)
        n = jnp.maximum((rows.free & (cells <= at.t)[None]).sum(axis=1), 1).astype(log_p.dtype)
        score = jnp.where(ended & ~at.done[:, None], log_p / n[:, None] ** self.rules.length_penalty, -jnp.inf)
        length = jnp.full_like(ended, at.t + 1, dtype=jnp.int32)
        every = Finished(*(jnp.concatenate(pair, axis=1) for pair in zip(at.finished, (score, tokens, length), strict=True)))
        best, order = largest(every.score, self.rules.beam)
        return Finished(best, *(jnp.take_along_axis(a, order[..., None] if a.ndim == 3 else order, axis=1) for a in every[1:]))


def largest(values: Float[Array, "*shape many"], k: int) -> tuple[Float[Array, "*shape k"], Int[Array, "*shape k"]]:
    """Return the k largest values of the last axis in descending order, and their places.

    Ties go to the first place.
    """
    if k == 1:  # one pass over the values replaces a sort
        top, place = likeliest(values)
        return top[..., None], place[..., None]
    return jax.lax.top_k(values, k)
