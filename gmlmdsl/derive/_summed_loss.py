"""Losses whose blocks, or whose hidden cells, are summed by elimination: what is not observed has the code -1.

-log p(x_K | x_rest) is log p(x_rest) - log p(x_K, x_rest), each a sum over what is not seen.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..graph import FactorGraph
from ..plan import Elimination
from ._arrays import Graph, drawn_blocks, float_type
from ._conditional import logsumexp, observed_value
from ._contraction import Contraction, contraction
from ._energy import Codes, Params
from ._mask_law import AbstractMaskLaw
from ._sums import eliminate, evidence, factor_sums, log_sum


class Passes(eqx.Module):
    """Sums of one contraction, each with some of its cells freed.

    Attributes:
        freed: which free cells each pass sums over, besides those that a row lacks, shape (passes, free).
        weights: of each component's term in each pass, shape (passes, components).
    """

    contraction: Contraction
    freed: Bool[Array, "passes free"]
    weights: Float[Array, "passes components"]


class EliminatedLoss(eqx.Module):
    """The loss with every sum by elimination: each pass costs as much as the sum over all cells that some mask or row hides."""

    graph: Graph
    parts: tuple[Passes, ...]

    def rows(self, params: Params, codes: Codes) -> Float[Array, " rows"]:
        """The mean over masks of -log p(x_K | x_rest), with -1 summed out of both; 0 where no cell of K is observed."""
        total = jnp.zeros(codes.shape[1], float_type())
        for part in self.parts:
            seen = evidence(self.graph, codes, part.contraction)
            tables = factor_sums(self.graph, params, jnp.maximum(codes, 0), part.contraction)
            observed = eliminate(part.contraction, tables, codes.shape[1], seen).sums

            def one(total: Array, x: tuple[Array, Array], part=part, seen=seen, tables=tables, observed=observed) -> tuple[Array, None]:
                freed, weights = x
                every = eliminate(part.contraction, tables, codes.shape[1], jnp.where(freed[:, None, None], 0.0, seen)).sums
                return total + _difference(every, observed, weights[:, None]), None

            total, _ = _each(one, total, (part.freed, part.weights))
        return total


class DrawnEliminatedLoss(eqx.Module):
    """The same averaged over `masks` drawn for each row, of shape (masks, members, rows)."""

    graph: Graph
    contraction: Contraction

    def rows(self, params: Params, codes: Codes, masks: Int[Array, "masks members rows"]) -> Float[Array, " rows"]:
        """One loss per row: the mean over its masks; an empty mask scores 0."""
        c = self.contraction
        seen = evidence(self.graph, codes, c)
        tables = factor_sums(self.graph, params, jnp.maximum(codes, 0), c)
        observed = eliminate(c, tables, codes.shape[1], seen).sums

        def one(total: Array, mask: Int[Array, "members rows"]) -> tuple[Array, None]:
            freed = (c.free[:, None, None] == mask[None]).any(axis=1)
            every = eliminate(c, tables, codes.shape[1], jnp.where(freed[:, None], 0.0, seen)).sums
            return total + _difference(every, observed, jnp.ones((1, 1), float_type())), None

        return _each(one, jnp.zeros(codes.shape[1], float_type()), masks)[0] / masks.shape[0]


class EnumeratedLoss(eqx.Module):
    """The loss where the values of K are listed, and for each of them what is hidden is summed out by elimination.

    Attributes:
        hidden: how to sum the cells that rows lack.
        law: of a mask that looks at x.
        blocks: every mask, or None where masks are drawn: shape (masks, members), padded with the number of cells.
        shares: the probability of each.
    """

    graph: Graph
    hidden: Contraction
    law: AbstractMaskLaw | None
    n_values: int = eqx.field(static=True)
    blocks: Int[Array, "masks members"] | None
    shares: Float[Array, " masks"] | None

    def rows(self, params: Params, codes: Codes, masks: Int[Array, "masks members rows"] | None = None) -> Float[Array, " rows"]:
        """One loss per row: the mean over masks of -log p(x_K | x_rest[, K])."""
        if masks is None:
            assert self.blocks is not None
            assert self.shares is not None
            masks = jnp.broadcast_to(self.blocks[..., None], (*self.blocks.shape, codes.shape[1]))
            shares = self.shares
        else:
            shares = jnp.full(masks.shape[0], 1 / masks.shape[0], float_type())
        observed = self.log_marginal(params, codes)

        def one(total: Array, x: tuple[Array, Array]) -> tuple[Array, None]:
            mask, share = x
            scores = self.scores(params, codes, mask)
            here = observed
            if self.law is not None:
                scores, here = self.corrected(params, codes, mask, scores, observed)
            return total + _difference(logsumexp(scores[None]), here[None], share.reshape(1, 1)), None

        return _each(one, jnp.zeros(codes.shape[1], float_type()), (masks, shares))[0]

    def log_marginal(self, params: Params, codes: Codes) -> Float[Array, " rows"]:
        """log of the sum over the hidden cells of exp(log_potential)."""
        return log_sum(self.graph, params, jnp.maximum(codes, 0), self.hidden, evidence(self.graph, codes, self.hidden))

    def scores(self, params: Params, codes: Codes, mask: Int[Array, "members rows"]) -> Float[Array, "values rows"]:
        """log_marginal under every joint value of K; cells of K that a row lacks are summed out, and listed once."""
        listed, valid = self.listed(codes, mask)
        found = self.log_marginal(params, listed).reshape(self.n_values, -1)
        return jnp.where(valid, found, -jnp.inf)

    def listed(self, codes: Codes, mask: Int[Array, "members rows"]) -> tuple[Int[Array, "cells valuesxrows"], Bool[Array, "values rows"]]:
        """The rows with every joint value of K put in, value by value."""
        blocks = drawn_blocks(self.graph, mask[None], self.n_values)
        rows = jnp.arange(codes.shape[1])
        cells = jnp.minimum(mask, self.graph.n_cells - 1)
        lacks = (codes[cells, rows] < 0) & (mask < self.graph.n_cells)
        digits = blocks.codes[0]  # values, members, rows
        valid = blocks.valid[0] & ~(lacks[None] & (digits > 0)).any(axis=1)
        wide = jnp.broadcast_to(codes[:, None], (codes.shape[0], self.n_values, codes.shape[1]))
        new = jnp.where(lacks[None], -1, digits)
        wide = wide.at[mask[None], jnp.arange(self.n_values)[:, None, None], rows].set(new, mode="drop")
        return wide.reshape(codes.shape[0], -1), valid

    def corrected(
        self, params: Params, codes: Codes, mask: Array, scores: Array, observed: Array
    ) -> tuple[Float[Array, "values rows"], Float[Array, " rows"]]:
        """With log p(K | x') added, which is a constant of the parameters."""
        assert self.law is not None
        n_cells, known = self.graph.n_cells, jnp.maximum(codes, 0)
        blocks = drawn_blocks(self.graph, mask[None], self.n_values, self.law.groups())
        touch = iter(blocks.touch[len(self.graph.groups) :])
        log_law = jax.lax.stop_gradient(self.law.log_probability(params, known, blocks, touch))[0]
        here = observed_value(blocks, known, n_cells)
        now = jnp.take_along_axis(jnp.broadcast_to(log_law, scores.shape), here, axis=0)[0]
        return scores + log_law, observed + now


def _each(one, total: Array, xs) -> tuple[Array, None]:
    """A running total over masks; the gradient computes each anew, so that memory stays that of one."""
    return jax.lax.scan(jax.checkpoint(one), total, xs)  # pyright: ignore[reportPrivateImportUsage]


def _difference(every: Float[Array, "terms rows"], observed: Float[Array, "terms rows"], weights: Array) -> Float[Array, " rows"]:
    """The sum of weight times (log of all - log of observed); inf where what is observed is impossible."""
    possible = jnp.isfinite(observed)
    terms = jnp.where(possible, jnp.where(possible, every, 0.0) - jnp.where(possible, observed, 0.0), jnp.inf)
    return jnp.where(weights > 0, jnp.where(weights > 0, weights, 1.0) * terms, 0.0).sum(axis=0)


def block_passes(host: FactorGraph, plan: Elimination, blocks: np.ndarray, probabilities: np.ndarray) -> Passes:
    """One pass for blocks that share no factor: all their cells at once, each component with its block's probability."""
    c = contraction(host, plan)
    share = np.zeros(host.n_cells + 1)
    for block, p in zip(blocks, probabilities, strict=True):
        share[block[block < host.n_cells]] = p
    weights = np.zeros(c.n_components)
    weights[np.asarray(c.component)] = share[np.asarray(c.free)]
    return Passes(c, jnp.ones((1, c.free.shape[0]), bool), jnp.asarray(weights[None], float_type()))


def mask_passes(host: FactorGraph, plan: Elimination, blocks: np.ndarray, probabilities: np.ndarray) -> Passes:
    """One pass for each mask."""
    c = contraction(host, plan)
    freed = (blocks[:, None, :] == np.asarray(c.free)[None, :, None]).any(axis=2)
    weights = np.broadcast_to(probabilities[:, None], (len(blocks), c.n_components))
    return Passes(c, jnp.asarray(freed), jnp.asarray(weights, float_type()))
