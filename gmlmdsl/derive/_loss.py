"""The weighted pseudolikelihood loss: the mean over masks of -log p(x_K | x_rest[, K])."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..graph import FactorGraph
from ..graph.colours import colour
from ..masks import AbstractMask
from ..plan import (
    is_large,
    is_whole,
    plan_counted,
    plan_drawn,
    plan_elimination,
    plan_loss_blocks,
    plan_mask,
    plan_summed_blocks,
    support_blocks,
    verify_affordable,
)
from ._abstract_loss import AbstractLoss, Masks
from ._arrays import Blocks, Graph, blocks_on_device, drawn_blocks, float_type, graph_arrays, observed_value, on_device
from ._block_tables import Chunks, TabledBlocks, Tables, Weights, graph_tables, tabled_blocks, tabled_losses
from ._conditional import logsumexp
from ._contraction import contraction
from ._energy import Codes, Params, local_scores, observed_scores, scored
from ._mask_law import AbstractMaskLaw, mask_law
from ._summed_loss import DrawnEliminatedLoss, EliminatedLoss, block_passes, mask_passes, whole_pass
from .limits import MOST_COMPILED_SETS


class ExactLoss(AbstractLoss):
    """Loss averaged over every mask of the support.

    `blocks` are the members of the support, in sets of similar size. `probabilities` are their
    probabilities, or None for a data-dependent mask. `split` states that blocks without inner
    factors are represented by their cells, so that the loss of a mask is not one entry.

    `gapped` states that rows have missing values, of code -1, which are left out. The observed
    cells of K are then predicted by the factors whose cells are all observed.
    """

    graph: Graph
    law: AbstractMaskLaw | None
    blocks: tuple[Blocks, ...]
    probabilities: tuple[Float[Array, " blocks"], ...] | None
    split: bool = eqx.field(static=True)
    tables: Tables | None
    tabled: tuple[TabledBlocks | None, ...]
    gapped: bool = eqx.field(static=True, default=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    def weights(self, params: Params) -> tuple[Weights | None, ...]:
        """Return the weights of the products that give the scores, for each set of blocks.

        They are the same for all rows. A set of blocks without tables has None.
        """
        if self.tables is None:
            return (None,) * len(self.blocks)
        entries = self.tables.entries(params)
        return tuple(None if t is None else t.weights(entries) for t in self.tabled)

    def scores(self, params: Params, codes: Codes, k: int, weights: Weights | None) -> Float[Array, "blocks values rows"]:
        """Return the scores of the k-th set of blocks, up to a constant for each block and row.

        Args:
            params: parameters.
            codes: the rows, shape (cells, rows).
            k: the number of the set of blocks.
            weights: the weights of the set from `weights`, or None.
        """
        tabled = self.tabled[k]
        if tabled is None or weights is None:
            return self.by_trees(params, codes, self.blocks[k])
        return tabled.full(weights, codes)

    def by_trees(self, params: Params, codes: Codes, blocks: Blocks) -> Float[Array, "blocks values rows"]:
        """Return the scores of some blocks from the factors' expressions."""
        return (observed_scores if self.gapped else local_scores)(self.graph, params, codes, blocks)

    def observed(self, codes: Codes, blocks: Blocks) -> Int[Array, "blocks rows"]:
        """Return the number of the joint value of each block.

        A missing member counts as its first value.
        """
        return observed_value(blocks, jnp.maximum(codes, 0) if self.gapped else codes, self.graph.n_cells)

    @property
    def is_plain(self) -> tuple[bool, ...]:
        """Whether the loss of each set of blocks consists of products of tables only."""
        return tuple(t is not None and t.rest is None and self.probabilities is not None for t in self.tabled)

    def plain_total(
        self, params: Params, codes: Codes, row_weights: Array, chunks: Chunks, dtype: np.dtype | None = None
    ) -> Float[Array, ""]:
        """Return the weighted sum over rows of the loss of the plain sets of blocks.

        Args:
            params: parameters.
            codes: the rows, shape (cells, rows).
            row_weights: the weight of each row.
            chunks: the rows that are evaluated at a time.
            dtype: the float type of the sums over rows; None: the working type.
        """
        found = jnp.zeros((), float_type())
        for k, (plain, weights) in enumerate(zip(self.is_plain, self.weights(params), strict=True)):
            if plain:
                assert self.probabilities is not None
                assert weights is not None
                weights = weights if dtype is None else weights.astype(dtype)
                total: Array = tabled_losses(weights, self.tabled[k], codes, self.probabilities[k], row_weights, chunks)
                found = found + total.sum().astype(found.dtype)
        return found

    def row_terms(self, masks: int, members: int) -> float:
        trees = [b.n_values * b.cells.shape[0] * max(1, sum(t.shape[1] for t in b.touch)) for b in self.blocks]
        return float(sum(t if tabled is None else tabled.held for t, tabled in zip(trees, self.tabled, strict=True)))

    def rows_and_reach(self, params: Params, codes: Codes, masks: Masks | None) -> tuple[Float[Array, " rows"], Bool[Array, " rows"]]:
        assert masks is None
        found, mass = self.rows_and_mass(params, codes)
        return found, mass != 0

    def rows(self, params: Params, codes: Codes, masks: Masks | None = None) -> Float[Array, " rows"]:
        """Return one loss for each row: the sum over K of p(K | x) times -log p(x_K | x_rest[, K]).

        It is computed from the factors that touch K.
        """
        return self.rows_and_mass(params, codes)[0]

    def other_rows(self, params: Params, weights: tuple[Weights | None, ...], codes: Codes) -> Float[Array, " rows"]:
        """Return one loss for each row, from the sets of blocks that are not plain."""
        losses, shares = self.by_mask(params, codes, weights, tuple(k for k, plain in enumerate(self.is_plain) if not plain))
        return _weighted_sum(losses, shares)

    def rows_and_mass(self, params: Params, codes: Codes) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
        """Return the losses, and the probability that K is not empty."""
        losses, shares = self.by_mask(params, codes)
        return _weighted_sum(losses, shares), shares.sum(axis=0)

    def by_mask(
        self, params: Params, codes: Codes, weights: tuple[Weights | None, ...] | None = None, which: Sequence[int] | None = None
    ) -> tuple[Float[Array, "masks rows"], Float[Array, "masks rows"]]:
        """Return the loss and the probability of every mask.

        If `split` is true, there is a loss for every cell of a mask.

        Args:
            params: parameters.
            codes: the rows, shape (cells, rows).
            weights: the result of `weights`; None: it is computed here.
            which: the numbers of the sets of blocks to evaluate; None: all sets.
        """
        losses, shares = [], []
        weights = self.weights(params) if weights is None else weights
        for k in range(len(self.blocks)) if which is None else which:
            scores = self.scores(params, codes, k, weights[k])
            share, correction = self.shares(params, codes, k)
            here = self.observed(codes, self.blocks[k])[:, None]
            losses.append(_negative_log(scores if correction is None else scores + correction, here))
            shares.append(share)
        return jnp.concatenate(losses), jnp.concatenate(shares)

    def shares(self, params: Params, codes: Codes, k: int) -> tuple[Float[Array, "blocks rows"], Float[Array, "blocks values rows"] | None]:
        """Return p(K | x) of the k-th set of blocks at each row, and the correction.

        For a data-dependent mask the correction is log p(K | x') under every value of K, else None.
        The probability is set to 0 if a row with missing values observes no cell of K.
        """
        blocks, rows, correction = self.blocks[k], codes.shape[1], None
        if self.probabilities is not None:
            share = jnp.broadcast_to(self.probabilities[k][:, None], (blocks.cells.shape[0], rows))
        else:
            correction = self.correction(params, jnp.maximum(codes, 0) if self.gapped else codes, blocks)
            here = self.observed(codes, blocks)[:, None]
            share = jnp.exp(jnp.take_along_axis(correction, here, axis=1)[:, 0])
        return jnp.where(scored(blocks, codes, self.graph.n_cells), share, 0.0) if self.gapped else share, correction

    def correction(self, params: Params, codes: Codes, blocks: Blocks) -> Float[Array, "blocks values rows"]:
        """Return log p(K | x') under every value of K, for a data-dependent mask.

        It is a constant with respect to the parameters.
        """
        assert self.law is not None
        found = self.law.log_probability(params, codes, blocks, iter(blocks.touch[len(self.graph.groups) :]))
        return jax.lax.stop_gradient(jnp.broadcast_to(found, (blocks.cells.shape[0], blocks.n_values, codes.shape[1])))


def as_listed(loss: AbstractLoss) -> ExactLoss | None:
    """Return the loss if it enumerates its blocks with their values; otherwise None.

    Such a loss has curvatures, tables and shares of its own.
    """
    return loss if isinstance(loss, ExactLoss) else None


class DrawnLoss(AbstractLoss):
    """Loss averaged over `masks` drawn for each row, of shape (masks, members, rows).

    `law` is given for a data-dependent mask. `separate` states that no two cells of a block share a
    factor, so that -log p(x_K | x_rest) is the sum over its cells. `gapped` is as in `ExactLoss`.
    """

    graph: Graph
    law: AbstractMaskLaw | None
    n_values: int = eqx.field(static=True)
    separate: bool = eqx.field(static=True)
    gapped: bool = eqx.field(static=True, default=False)  # pyright: ignore[reportIncompatibleVariableOverride]

    def row_terms(self, masks: int, members: int) -> float:
        return masks * self.n_values * members * max(1, sum(g.most for g in self.graph.groups))

    def rows(self, params: Params, codes: Codes, masks: Masks | None = None) -> Float[Array, " rows"]:
        """Return one loss for each row, the mean over its masks; an empty mask contributes 0."""
        assert masks is not None
        share = 1 / masks.shape[0]
        if self.gapped:  # the missing cells of a row are removed from its masks
            masks = jnp.where(codes[masks, jnp.arange(codes.shape[1])] < 0, self.graph.n_cells, masks)
        if self.separate:
            masks = masks.reshape(-1, 1, masks.shape[-1])
        blocks = drawn_blocks(self.graph, masks, self.n_values, () if self.law is None else self.law.groups())
        scores = (observed_scores if self.gapped else local_scores)(self.graph, params, codes, blocks)
        if self.law is not None:
            touch = iter(blocks.touch[len(self.graph.groups) :])
            scores = scores + jax.lax.stop_gradient(self.law.log_probability(params, codes, blocks, touch))
        here = observed_value(blocks, codes, self.graph.n_cells)[:, None]
        empty = (masks >= self.graph.n_cells).all(axis=1)
        weight = jnp.where(empty, 0.0, share)
        return _weighted_sum(_negative_log(scores, here), weight)


def _negative_log(scores: Float[Array, "blocks values rows"], here: Int[Array, "blocks 1 rows"]) -> Float[Array, "blocks rows"]:
    """Return -log of the observed value's probability, inf if the value is impossible."""
    observed = jnp.take_along_axis(scores, here, axis=1)[:, 0]
    impossible = observed == -jnp.inf
    return jnp.where(impossible, jnp.inf, logsumexp(scores) - jnp.where(impossible, 0.0, observed))


def _weighted_sum(losses: Float[Array, "blocks rows"], weight: Float[Array, "blocks rows"]) -> Float[Array, " rows"]:
    """Return the sum over blocks; a term of weight 0 is ignored, even if its loss is infinite."""
    return jnp.where(weight > 0, losses * jnp.where(weight > 0, weight, 1.0), 0.0).sum(axis=0)


def exact_loss(host: FactorGraph, graph: Graph, mask: AbstractMask, gapped: bool = False) -> ExactLoss | EliminatedLoss:
    """Return the loss over a mask's whole support, whose size the caller has verified.

    Args:
        host: the factor graph.
        graph: the same factor graph on the device.
        mask: the mask.
        gapped: whether missing values are left out, see `ExactLoss`.

    Raises:
        GmlmError: if a block is too costly to enumerate.
    """
    blocks, probabilities = support_blocks(host, mask)
    corrected = mask.is_adaptive
    if not corrected and not gapped and probabilities is not None and is_large(host, blocks):
        # rows have no missing values: nothing is summed out
        if is_whole(host, mask, np.zeros(host.n_cells, bool)):
            return EliminatedLoss(graph, (whole_pass(host, plan_elimination(host, np.zeros(0, np.int64), "nothing")),))
        found = _by_partial_sums(host, graph, mask, blocks, probabilities) or _eliminated(host, graph, mask, blocks, probabilities)
        if found is not None:
            return found
    extra = mask.weight_groups if probabilities is None else ()
    plan = plan_loss_blocks(host, blocks, probabilities, mask.span, extra, gapped)
    found = tuple(blocks_on_device(host, a) for a in plan.arrays)
    tables = None if plan.tables is None else graph_tables(host, graph, plan.tables)
    tabled = tuple(
        None if t is None or tables is None else tabled_blocks(tables, graph, b, t, a, gapped)
        for b, t, a in zip(found, plan.by_tables, plan.arrays, strict=True)
    )
    law = mask_law(mask) if corrected or probabilities is None else None
    shares = None if plan.probabilities is None else tuple(on_device(np.asarray(p, float_type())) for p in plan.probabilities)
    return ExactLoss(graph, law, found, shares, plan.split, tables, tabled, gapped)


def _by_partial_sums(
    host: FactorGraph, graph: Graph, mask: AbstractMask, blocks: np.ndarray, probabilities: np.ndarray
) -> EliminatedLoss | None:
    """Return the loss of blocks whose cells a large factor sees through their sum.

    Cells for partial sums replace the large factor. The result is None if enumeration is cheaper.
    """
    found = plan_counted(host, mask, blocks)
    if found is None:
        return None
    counted, plan = found
    passes = mask_passes(counted, plan, blocks, probabilities, False)
    return EliminatedLoss(graph, (passes,), graph_arrays(counted))


def _eliminated(
    host: FactorGraph, graph: Graph, mask: AbstractMask, blocks: np.ndarray, probabilities: np.ndarray
) -> EliminatedLoss | None:
    """Return the loss of blocks for which elimination is better than enumeration.

    Blocks that do not share a factor are eliminated at once. The result is None if no block is
    better eliminated.
    """
    plans = plan_summed_blocks(host, blocks)
    for p in plans:
        verify_affordable(p, "the loss: a block", mask.span)
    if all(p.elimination is None for p in plans):
        return None
    colours = colour(host, blocks)
    count = int(colours.max()) + 1
    if count > MOST_COMPILED_SETS:
        cells = np.unique(blocks[blocks < host.n_cells])
        plan = plan_elimination(host, cells, "the loss: all blocks")
        return EliminatedLoss(graph, (mask_passes(host, plan, blocks, probabilities, True),))
    parts = []
    for c in range(count):
        mine = blocks[colours == c]
        plan = plan_elimination(host, np.unique(mine[mine < host.n_cells]), "the loss: blocks of one colour")
        parts.append(block_passes(host, plan, mine, probabilities[colours == c]))
    return EliminatedLoss(graph, tuple(parts))


def drawn_loss(host: FactorGraph, graph: Graph, mask: AbstractMask, gapped: bool = False) -> DrawnLoss | DrawnEliminatedLoss:
    """Return the loss over masks that are drawn for each row.

    Args:
        host: the factor graph.
        graph: the same factor graph on the device.
        mask: the mask.
        gapped: whether missing values are left out, see `ExactLoss`.

    Raises:
        GmlmError: E601 if a block is too costly.
    """
    corrected = mask.is_adaptive
    plan = plan_mask(host, mask, corrected or gapped)
    separate = plan.method == "product"
    # Blocks differ from row to row, and one order of all their cells serves every block.
    whole = None if corrected or gapped else plan_drawn(host, mask, plan)
    if whole is not None:
        return DrawnEliminatedLoss(graph, contraction(host, whole))
    plan = plan if plan.elimination is None else plan_mask(host, mask, True)
    if not separate:
        verify_affordable(plan, "the loss: a block", mask.span)
    return DrawnLoss(graph, mask_law(mask) if corrected else None, int(plan.values), separate, gapped)
