"""Losses whose blocks, or whose hidden cells, are summed out by elimination.

Rows with missing cells are summed out in the planned way, and their missing cells are redrawn.

A cell that is not observed has the code -1. -log p(x_K | x_rest) is log p(x_rest) - log p(x_K,
x_rest). Both terms are sums over the unobserved cells.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..graph import FactorGraph
from ..masks import AbstractMask
from ..plan import Elimination, HiddenPlan
from ._abstract_loss import AbstractLoss, Masks
from ._arrays import Graph, drawn_blocks, float_type, graph_arrays, observed_value, on_device, put_value
from ._block_tables import Chunks
from ._conditional import logsumexp
from ._contraction import Contraction, contraction
from ._energy import Codes, Params, all_values, local_scores
from ._listed import ListedRows, second_order_cost
from ._mask_law import AbstractMaskLaw, mask_law
from ._picks import levels_of, pick_value
from ._random import fold, words
from ._sums import eliminate, evidence, factor_sums, log_sum
from .limits import MOST_HELD_ENTRIES


class Passes(eqx.Module):
    """Sums of one contraction, each with some of its cells freed.

    A freed cell is summed over although it is observed.

    Attributes:
        contraction: the contraction.
        freed: the free cells that each pass sums over, besides those that a row lacks, shape
            (passes, free); None: every pass sums over all of them.
        weights: the weight of each component's term in each pass, shape (passes, components).
        owners: for each group the component of each factor, or the number of components for a
            factor without one; None if rows may lack cells.
        sums_to_one: whether the pass is over all cells of a product of distributions, whose sum is
            1: the contraction is then over the cells that a row lacks.
    """

    contraction: Contraction
    freed: Bool[Array, "passes free"] | None
    weights: Float[Array, "passes components"]
    owners: tuple[Int[Array, " instances"], ...] | None
    sums_to_one: bool = eqx.field(static=True)

    @property
    def row_entries(self) -> int:
        """Number of table entries of one pass over one row; 1 if all rows share one pass."""
        is_shared = self.freed is None and self.owners is not None and not self.contraction.is_by_row
        return 1 if is_shared else self.contraction.entries

    def rows(self, graph: Graph, params: Params, codes: Codes) -> Float[Array, " rows"]:
        """Return the weighted sum over passes and components of log sum - log of the observed part.

        Args:
            graph: the factor graph.
            params: parameters.
            codes: codes of the rows, -1 for a missing cell, shape (cells, rows).
        """
        c, rows = self.contraction, codes.shape[1]
        known = jnp.maximum(codes, 0)
        if self.sums_to_one:
            return -self.weights.sum() * log_sum(graph, params, known, c, evidence(graph, codes, c))
        tables = factor_sums(graph, params, known, c)
        seen = None if self.owners is not None and self.freed is None else evidence(graph, codes, c)
        observed = self.values(graph, params, codes) if self.owners is not None else eliminate(c, tables, rows, seen).sums
        if self.freed is None:
            # Sums of tables that no row's cells enter are the same for all rows.
            every = eliminate(c, tables, rows if c.is_by_row else 1).sums
            return _difference(every, observed, self.weights.sum(axis=0)[:, None])
        assert seen is not None

        def one(total: Array, x: tuple[Array, Array]) -> tuple[Array, None]:
            freed, weights = x
            every = eliminate(c, tables, rows, jnp.where(freed[:, None, None], 0.0, seen)).sums
            return total + _difference(every, observed, weights[:, None]), None

        return _each(one, jnp.zeros(rows, float_type()), (self.freed, self.weights))[0]

    def values(self, graph: Graph, params: Params, codes: Codes) -> Float[Array, "components rows"]:
        """Return the sum of the factors of each component, for rows without missing cells.

        Nothing is summed out.
        """
        assert self.owners is not None
        total = jnp.zeros((self.contraction.n_components + 1, codes.shape[1]), float_type())
        for group, owner in zip(graph.groups, self.owners, strict=True):
            values = all_values(group, params, codes)
            total = total.at[owner].add(jnp.where(values, 0.0, -jnp.inf) if group.kind == "require" else values)
        return total[:-1]


class EliminatedLoss(AbstractLoss):
    """Loss with every sum by elimination.

    Each pass costs as much as the sum over all cells that some mask or row hides. `counted` is the
    graph with cells for partial sums after its own cells, over which the sums are taken; it is None
    if there are no partial sums.
    """

    graph: Graph
    parts: tuple[Passes, ...]
    counted: Graph | None = None
    is_eliminated = True

    def row_terms(self, masks: int, members: int) -> float:
        """Return the number of table entries of one pass over one row."""
        return float(max((p.row_entries for p in self.parts), default=1))

    def rows(self, params: Params, codes: Codes, masks: Masks | None = None) -> Float[Array, " rows"]:
        """Return the mean over masks of -log p(x_K | x_rest) for each row.

        Cells of code -1 are summed out of both terms. The loss is 0 if no cell of K is observed.
        """
        graph = self.graph if self.counted is None else self.counted
        codes = with_unknown_sums(graph, codes)
        return sum((p.rows(graph, params, codes) for p in self.parts), jnp.zeros(codes.shape[1], float_type()))


def with_unknown_sums(graph: Graph, codes: Codes) -> Codes:
    """Return rows with an unknown value, code -1, for each partial sum that a graph has as a cell.

    The padding of masks is the number of the first of these cells, which no row knows anyway.

    Args:
        graph: a graph whose first cells are those of the rows.
        codes: codes of the rows, shape (cells, rows).
    """
    return jnp.pad(codes, ((0, graph.n_cells - codes.shape[0]), (0, 0)), constant_values=-1)


class DrawnEliminatedLoss(AbstractLoss):
    """Loss by elimination, averaged over masks drawn for each row.

    `masks` has the shape (masks, members, rows). `counted` is as in `EliminatedLoss`.
    """

    graph: Graph
    contraction: Contraction
    counted: Graph | None = None
    is_eliminated = True

    def row_terms(self, masks: int, members: int) -> float:
        """Return the number of table entries of one mask of one row."""
        return float(self.contraction.entries)

    def rows(self, params: Params, codes: Codes, masks: Masks | None = None) -> Float[Array, " rows"]:
        """Return one loss for each row, the mean over its masks; an empty mask contributes 0."""
        assert masks is not None
        c, graph = self.contraction, self.graph if self.counted is None else self.counted
        codes = with_unknown_sums(graph, codes)
        seen = evidence(graph, codes, c)
        tables = factor_sums(graph, params, jnp.maximum(codes, 0), c)
        observed = eliminate(c, tables, codes.shape[1], seen).sums

        def one(total: Array, mask: Int[Array, "members rows"]) -> tuple[Array, None]:
            freed = (c.free[:, None, None] == mask[None]).any(axis=1)
            every = eliminate(c, tables, codes.shape[1], jnp.where(freed[:, None], 0.0, seen)).sums
            return total + _difference(every, observed, jnp.ones((1, 1), float_type())), None

        return _each(one, jnp.zeros(codes.shape[1], float_type()), masks)[0] / masks.shape[0]


class EnumeratedLoss(AbstractLoss):
    """Loss by enumeration of the values of K.

    For each value of K the hidden cells are summed out by elimination.

    Attributes:
        graph: the factor graph.
        hidden: the contraction over the cells that rows lack.
        law: the distribution of a mask whose probabilities vary with rows, that is, with x or with
            given data; else None.
        n_values: the maximum number of joint values of K.
        blocks: every mask, shape (masks, members), padded with the number of cells; None if masks
            are drawn.
        shares: the probability of each mask.
    """

    graph: Graph
    hidden: Contraction
    law: AbstractMaskLaw | None
    n_values: int = eqx.field(static=True)
    blocks: Int[Array, "masks members"] | None
    shares: Float[Array, " masks"] | None

    def row_terms(self, masks: int, members: int) -> float:
        """Return the number of table entries of one mask of one row."""
        return float(self.hidden.entries) * self.n_values

    def rows(self, params: Params, codes: Codes, masks: Masks | None = None) -> Float[Array, " rows"]:
        """Return one loss for each row: the mean over masks of -log p(x_K | x_rest[, K])."""
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
            scores, here, weight = self.scores(params, codes, mask), observed, jnp.broadcast_to(share, observed.shape)
            if self.law is not None:
                log_law, now = self.log_law(params, codes, mask)
                scores, here = scores + log_law, observed + now
                weight = jnp.exp(now) if self.shares is not None else weight
            return total + _difference(logsumexp(scores[None]), here[None], weight[None]), None

        return _each(one, jnp.zeros(codes.shape[1], float_type()), (masks, shares))[0]

    def log_marginal(self, params: Params, codes: Codes) -> Float[Array, " rows"]:
        """Return the log sum over the hidden cells of exp(log_potential)."""
        return log_sum(self.graph, params, jnp.maximum(codes, 0), self.hidden, evidence(self.graph, codes, self.hidden))

    def scores(self, params: Params, codes: Codes, mask: Int[Array, "members rows"]) -> Float[Array, "values rows"]:
        """Return `log_marginal` under every joint value of K.

        Cells of K that a row lacks are summed out, and counted only once.
        """
        listed, valid = self.listed(codes, mask)
        found = self.log_marginal(params, listed).reshape(self.n_values, -1)
        return jnp.where(valid, found, -jnp.inf)

    def listed(self, codes: Codes, mask: Int[Array, "members rows"]) -> tuple[Int[Array, "cells valuesxrows"], Bool[Array, "values rows"]]:
        """Return the rows with every joint value of K inserted, value by value.

        The second result states which joint values exist.
        """
        blocks = drawn_blocks(self.graph, mask[None], self.n_values)
        rows = jnp.arange(codes.shape[1], dtype=jnp.int32)
        cells = jnp.minimum(mask, self.graph.n_cells - 1)
        lacks = (codes[cells, rows] < 0) & (mask < self.graph.n_cells)
        digits = blocks.codes[0]  # axes: values, members, rows
        valid = blocks.valid[0] & ~(lacks[None] & (digits > 0)).any(axis=1)
        wide = jnp.broadcast_to(codes[:, None], (codes.shape[0], self.n_values, codes.shape[1]))
        new = jnp.where(lacks[None], -1, digits)
        wide = wide.at[mask[None], jnp.arange(self.n_values, dtype=jnp.int32)[:, None, None], rows].set(new, mode="drop")
        return wide.reshape(codes.shape[0], -1), valid

    def log_law(self, params: Params, codes: Codes, mask: Array) -> tuple[Float[Array, "values rows"], Float[Array, " rows"]]:
        """Return log p(K | x') under every joint value of K, and at the row's own value.

        Both are constants with respect to the parameters.
        """
        assert self.law is not None
        known = jnp.maximum(codes, 0)
        blocks = drawn_blocks(self.graph, mask[None], self.n_values, self.law.groups())
        touch = iter(blocks.touch[len(self.graph.groups) :])
        found = jax.lax.stop_gradient(self.law.log_probability(params, known, blocks, touch))[0]
        found = jnp.broadcast_to(found, (self.n_values, codes.shape[1]))
        here = observed_value(blocks, known, self.graph.n_cells)
        return found, jnp.take_along_axis(found, here, axis=0)[0]


class HiddenRows(eqx.Module):
    """Loss of rows with missing cells, evaluated in chunks of rows.

    Attributes:
        loss: the loss.
        codes: -1 where a cell is missing, shape (cells, rows).
        masks: the masks drawn for each row, (masks, members, rows); None if every mask is used.
        chunk: the number of rows evaluated at a time.
        row_cost: the number of table entries of one row's loss.
    """

    loss: AbstractLoss
    codes: Codes
    masks: Int[Array, "masks members rows"] | None
    chunk: int = eqx.field(static=True)
    row_cost: float = eqx.field(static=True)

    def rows(self, params: Params) -> Float[Array, " rows"]:
        """Return the loss of each row."""
        count = self.codes.shape[1]
        if count <= self.chunk:
            return self.loss.rows(params, self.codes, self.masks)
        once = jax.checkpoint(lambda x: self.loss.rows(params, *x))  # pyright: ignore[reportPrivateImportUsage]
        return jax.lax.map(once, jax.tree.map(Chunks(self.chunk).split_any, (self.codes, self.masks))).reshape(-1)[:count]

    def take(self, chosen: Int[Array, " rows"]) -> HiddenRows:
        """Return the loss of some of the rows."""
        return HiddenRows(
            self.loss, self.codes[:, chosen], None if self.masks is None else self.masks[..., chosen], self.chunk, self.row_cost
        )


def _each(one, total: Array, xs) -> tuple[Array, None]:
    """Return a running total over masks.

    The gradient recomputes each term, so that memory stays that of one mask.
    """
    return jax.lax.scan(jax.checkpoint(one), total, xs)  # pyright: ignore[reportPrivateImportUsage]


def _difference(every: Float[Array, "terms rows"], observed: Float[Array, "terms rows"], weights: Array) -> Float[Array, " rows"]:
    """Return the sum of weight times (log of all - log of observed).

    The result is inf if the observed part is impossible.
    """
    impossible = observed == -jnp.inf
    terms = jnp.where(impossible, jnp.inf, jnp.where(impossible, 0.0, every) - jnp.where(impossible, 0.0, observed))
    return jnp.where(weights > 0, jnp.where(weights > 0, weights, 1.0) * terms, 0.0).sum(axis=0)


def block_passes(host: FactorGraph, plan: Elimination, blocks: np.ndarray, probabilities: np.ndarray) -> Passes:
    """Return one pass for blocks that do not share a factor.

    The pass frees all their cells at once, and each component has the probability of its block.

    Args:
        host: the factor graph.
        plan: the elimination of all cells of the blocks.
        blocks: the blocks, shape (blocks, members), padded with the number of cells.
        probabilities: the probability of each block.
    """
    share = np.zeros(host.n_cells + 1)
    for block, p in zip(blocks, probabilities, strict=True):
        share[block[block < host.n_cells]] = p
    weights = np.zeros(plan.n_components)
    weights[plan.components] = share[plan.cells]
    return _passes(host, plan, np.ones((1, len(plan.cells)), bool), weights[None], complete=True)


def mask_passes(host: FactorGraph, plan: Elimination, blocks: np.ndarray, probabilities: np.ndarray, complete: bool) -> Passes:
    """Return one pass for each mask.

    Args:
        host: the factor graph.
        plan: the elimination of all cells of the masks.
        blocks: the masks, shape (masks, members), padded with the number of cells.
        probabilities: the probability of each mask.
        complete: whether rows have no missing cells.
    """
    freed = (blocks[:, None, :] == np.sort(plan.cells)[None, :, None]).any(axis=2)
    return _passes(host, plan, freed, np.broadcast_to(probabilities[:, None], (len(blocks), plan.n_components)), complete)


def _passes(host: FactorGraph, plan: Elimination, freed: np.ndarray, weights: np.ndarray, complete: bool) -> Passes:
    every = bool(freed.all())
    owners = None
    if complete:
        component = np.full(host.n_cells + 1, plan.n_components)
        component[plan.cells] = plan.components
        least = (component[g.cells].min(axis=1, initial=plan.n_components) for g in host.groups)
        owners = tuple(on_device(o.astype(np.int32)) for o in least)
    return Passes(contraction(host, plan), None if every else on_device(freed), on_device(weights, float_type()), owners, False)


def whole_pass(host: FactorGraph, plan: Elimination) -> Passes:
    """Return -log p(x) of a product of distributions, with missing cells summed out."""
    return Passes(contraction(host, plan), None, on_device(np.ones((1, 1)), float_type()), None, True)


def hidden_rows(
    host: FactorGraph, graph: Graph, codes: np.ndarray, plan: HiddenPlan, mask: AbstractMask, masks: np.ndarray | None
) -> HiddenRows:
    """Return the loss of rows with missing cells, as planned.

    Args:
        host: the factor graph.
        graph: the same factor graph on the device.
        codes: (cells, rows), -1 where a cell is missing.
        plan: the plan of the sums.
        mask: the mask.
        masks: the masks drawn for each row, (masks, members, rows); None: all masks of the support.
    """
    chunk, drawn = int(max(1, min(codes.shape[1], rows_at_once(plan)))), None if masks is None else on_device(masks, np.int32)
    return HiddenRows(hidden_loss(host, graph, plan, mask, masks is not None), on_device(codes, np.int32), drawn, chunk, plan.row_cost)


def rows_at_once(plan: HiddenPlan) -> int:
    """Return how many rows to sum at once, such that their tables fit into memory."""
    return int(max(1, MOST_HELD_ENTRIES // plan.entries))


def hidden_loss(
    host: FactorGraph, graph: Graph, plan: HiddenPlan, mask: AbstractMask, drawn: bool
) -> EliminatedLoss | DrawnEliminatedLoss | EnumeratedLoss:
    """Return the loss of any rows that lack only planned cells.

    Args:
        host: the factor graph.
        graph: the same factor graph on the device.
        plan: the plan of the sums.
        mask: the mask.
        drawn: whether masks are drawn for each row.
    """
    if plan.listed:
        law, listed, every = mask_law(mask) if mask.varies else None, None, None
        if not drawn:
            blocks, probabilities = mask.enumerate_blocks()
            listed = on_device(blocks, np.int32)
            every = on_device(np.ones(len(blocks)) if probabilities is None else probabilities, float_type())
        return EnumeratedLoss(graph, contraction(host, plan.elimination), law, int(plan.values), listed, every)
    counted = None if plan.counted is None else graph_arrays(plan.counted)
    host = plan.counted or host
    if drawn:
        return DrawnEliminatedLoss(graph, contraction(host, plan.elimination), counted)
    if plan.whole:
        return EliminatedLoss(graph, (whole_pass(host, plan.elimination),), counted)
    blocks, probabilities = mask.enumerate_blocks()
    assert probabilities is not None
    keep = (blocks < graph.n_cells).any(axis=1)
    return EliminatedLoss(graph, (mask_passes(host, plan.elimination, blocks[keep], probabilities[keep], False),), counted)


class SummedRows(eqx.Module):
    """Rows that are enumerated, rows that are eliminated, and rows without observed cells.

    A row without observed cells has the loss 0.

    Attributes:
        count: the number of rows.
        listed: the loss of the rows whose joint values are enumerated, or None.
        eliminated: the loss of the eliminated rows, or None.
        places: the numbers of the rows of both kinds, ascending.
    """

    count: int = eqx.field(static=True)
    listed: ListedRows | None
    eliminated: HiddenRows | None
    places: tuple[Int[Array, " listed"], Int[Array, " eliminated"]]

    def rows(self, params: Params) -> Float[Array, " rows"]:
        """Return the loss of each row."""
        total = jnp.zeros(self.count, float_type())
        for loss, places in zip((self.listed, self.eliminated), self.places, strict=True):
            if loss is not None:
                total = total.at[places].set(loss.rows(params))
        return total

    @property
    def row_cost(self) -> float:
        """Average number of factor evaluations and table entries in the loss of one row."""
        listed = 0.0 if self.listed is None else float(self.listed.cost)
        eliminated = 0.0 if self.eliminated is None else self.eliminated.row_cost * self.eliminated.codes.shape[1]
        return (listed + eliminated) / self.count

    def second_order_cost(self, count: int) -> float:
        """Return the number of evaluations and table entries of second derivatives and scores.

        They are taken in `count` directions.
        """
        listed = 0.0 if self.listed is None else second_order_cost(self.listed, count)
        return listed + (0.0 if self.eliminated is None else count * self.eliminated.row_cost * self.eliminated.codes.shape[1])

    def some(self, chosen: Int[Array, " rows"]) -> SummedRows:
        """Return the loss with some of the eliminated rows, and all the others.

        `chosen` numbers the eliminated rows.
        """
        assert self.eliminated is not None
        kept = jnp.concatenate([self.places[0], self.places[1][chosen]])
        split = len(self.places[0])
        places = jnp.arange(len(kept), dtype=jnp.int32)
        return SummedRows(len(kept), self.listed, self.eliminated.take(chosen), (places[:split], places[split:]))


def redraw_gaps(
    graph: Graph, params: Params, codes: Codes, cells: Int[Array, "steps members rows"], values: int, sweeps: int, key: Array
) -> Codes:
    """Redraw each row's missing cells from p(. | the rest), block by block.

    Rows may have different blocks.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: (cells, rows).
        cells: the blocks of each row in turn, padded with the number of cells.
        values: the maximum number of joint values of a block.
        sweeps: how often all of them are redrawn.
        key: the key of all draws.
    """
    steps = cells.shape[0]

    def step(state: Codes, number: Array) -> tuple[Codes, None]:
        blocks = drawn_blocks(graph, cells[number % steps][None], values)
        # the words of one key serve all rows
        drawn = words(fold(key[None], number), state.shape[1:], levels_of(values)).transposed
        value, possible = pick_value(local_scores(graph, params, state, blocks), drawn)
        return put_value(blocks, state, value, ~possible), None

    return jax.lax.scan(step, codes, jnp.arange(sweeps * steps))[0]
