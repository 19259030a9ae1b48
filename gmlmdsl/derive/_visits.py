"""The mask that a decoder visits: the cells that it hides and settles in one pass over a known row.

One pass is drawn for each row, pass t with probability n_t / n, and its score is weighted
accordingly. The mean of the weighted scores is the decoder's bound of -log p. It is -log p itself
if the cells that each pass settles are known in advance. `masks/_visits.py` has the sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from ..graph import Lowered
from ..masks import VisitMask
from ._arrays import float_type
from ._energy import Codes
from ._membership import AbstractScoredMask, Denoiser, MaskDraw, Present, random_ranks
from ._network import STRATA, negative_log
from ._random import fold_apart, words_apart
from ._refinement import RefinementKernel, refinement_kernel


class VisitLaw(AbstractScoredMask):
    """Distribution of the cells that a decoder hides and scores in a pass.

    It is an alternative to `NoisyMask`, with one stage and without distributions of parts.

    Attributes:
        kernel: the decoder.
        is_known: whether the cells that a pass settles are independent of the values that it sees.
        is_random: whether a pass settles a random choice of the open cells.
    """

    kernel: RefinementKernel
    is_known: bool = eqx.field(static=True)
    is_random: bool = eqx.field(static=True)
    is_stratified: ClassVar[bool] = True

    def mean_members(self, codes: Codes, present: Present) -> Float[Array, " rows"]:
        """Return the number of cells over which the loss of a row is averaged: all of its cells.

        The loss is in nats for a whole row.
        """
        return present.sum(axis=0).astype(float_type())

    def tempered(self, logits: Array) -> Array:
        """Return the logits of the distribution that the decoder draws from, at its temperature."""
        temperature = self.kernel.rules.temperature
        return logits if temperature == 1 else logits / temperature

    def drawn(
        self, graph: Denoiser, params: Mapping[str, PyTree], codes: Codes, present: Present, keys: PRNGKeyArray, u: Array | None
    ) -> MaskDraw:
        """Return one pass of each row: the pass in which cell number floor(u n) settles.

        Cells are numbered in the order in which they settle. `AbstractScoredMask.drawn` describes
        the arguments.
        """
        assert u is not None
        count = present.sum(axis=0, dtype=jnp.int32)
        j = jnp.minimum((u * count.astype(u.dtype)).astype(jnp.int32), count - 1)
        hidden, scored, weight = self._known(present, count, j, keys) if self.is_known else self._by_path(graph, params, codes, present, j)
        return MaskDraw(hidden, jnp.where(hidden, graph.most_values, codes), scored, weight)

    def _known(
        self, present: Present, count: Int[Array, " rows"], j: Int[Array, " rows"], keys: PRNGKeyArray
    ) -> tuple[Present, Present, Float[Array, " rows"]]:
        plan = self.kernel.plan
        assert plan.open_after is not None
        number = j // plan.block
        size = jnp.minimum(plan.block, count - number * plan.block)
        left = plan.open_after[jnp.maximum(size, 0)]  # axes: rows, passes of the block
        settled = size[:, None] - left
        s = (settled[:, 1:] <= (j - number * plan.block)[:, None]).sum(axis=1, dtype=jnp.int32)
        before, after = (jnp.take_along_axis(left, k[:, None], axis=1)[:, 0] for k in (s, s + 1))
        rank = jnp.cumsum(present, axis=0, dtype=jnp.int32) - 1
        here, behind = present & (rank // plan.block == number[None]), present & (rank // plan.block > number[None])
        if self.is_random:
            chosen, divisor = here & (random_ranks(keys, here).astype(jnp.int32) < before[None]), before
        else:
            first = number * plan.block + size - before
            chosen = here & (rank >= first[None]) & (rank < (first + before - after)[None])
            behind, divisor = present & (rank >= first[None]), before - after
        return chosen | behind, chosen, count.astype(float_type()) / jnp.maximum(divisor, 1).astype(float_type())

    def _by_path(
        self, graph: Denoiser, params: Mapping[str, PyTree], codes: Codes, present: Present, j: Int[Array, " rows"]
    ) -> tuple[Present, Present, Float[Array, " rows"]]:
        """Run the passes one after another, up to the pass in which cell j settles.

        The network's weights are held fixed, without a gradient.
        """
        held = jax.lax.stop_gradient(params)
        none = jnp.zeros_like(present)

        def once(carried: tuple[Present, Present, Present], t: Array) -> tuple[tuple[Present, Present, Present], None]:
            open_, hidden, scored = carried
            _, settles = self.one_pass(graph, held, codes, present, open_, t)
            done = (present & ~open_).sum(axis=0, dtype=jnp.int32)
            mine = (done <= j) & (j < done + settles.sum(axis=0, dtype=jnp.int32))
            return (open_ & ~settles, jnp.where(mine[None], open_, hidden), jnp.where(mine[None], settles, scored)), None

        (_, hidden, scored), _ = jax.lax.scan(once, (present, none, none), jnp.arange(1, self.kernel.rules.steps + 1))
        count, settled = (a.sum(axis=0).astype(float_type()) for a in (present, scored))
        return hidden, scored, count / jnp.maximum(settled, 1)

    def one_pass(
        self, graph: Denoiser, params: Mapping[str, PyTree], codes: Codes, present: Present, open_: Present, t: Array
    ) -> tuple[Float[Array, "chains cells values"], Bool[Array, "cells rows"]]:
        """Return the logits of one pass over the open cells, and the cells that the pass settles.

        The last pass settles all open cells.

        Args:
            graph: the network over the rows.
            params: parameters.
            codes: the rows, shape (cells, rows).
            present: the cells that exist in each row.
            open_: the open cells.
            t: the number of the pass, from 1.
        """
        logits = graph.logits(params, jnp.where(open_ | ~present, graph.most_values, codes))
        stays = self.kernel.left_open(self.kernel.sureness(logits), open_, present, t, None)
        return logits, open_ & ~(stays & (t < self.kernel.rules.steps))

    def losses(
        self, graph: Denoiser, params: Mapping[str, PyTree], codes: Codes, present: Present, keys: PRNGKeyArray, draws: int
    ) -> Float[Array, "draws rows"]:
        """Return the weighted scores of `draws` passes for each row.

        The draws of a row are stratified over its passes.

        Args:
            graph: the network over the rows.
            params: parameters.
            codes: the rows, shape (cells, rows).
            present: the cells that exist in each row.
            keys: a key for each row.
            draws: the number of draws for each row.
        """
        first = words_apart(fold_apart(keys, STRATA), 1).number()[0]

        def once(_: None, m: Array) -> tuple[None, Array]:
            k = self.drawn(graph, params, codes, present, fold_apart(keys, m + 1), jnp.mod(first + m / draws, 1.0))
            logits = self.tempered(graph.logits(params, jnp.where(present, k.seen, graph.most_values)))
            assert k.weight is not None
            return None, jnp.where(k.scored, negative_log(logits, codes), 0.0).sum(axis=0) * k.weight

        return jax.lax.scan(once, None, jnp.arange(draws))[1]

    def log_p(self, graph: Denoiser, params: Mapping[str, PyTree], codes: Codes, present: Present) -> Float[Array, " rows"]:
        """Return log p of each row along its single path of passes.

        Each pass scores the cells that it settles.

        Args:
            graph: the network over the rows.
            params: parameters.
            codes: the rows, shape (cells, rows).
            present: the cells that exist in each row.
        """

        def once(carried: tuple[Present, Array], t: Array) -> tuple[tuple[Present, Array], None]:
            open_, total = carried
            logits, settles = self.one_pass(graph, params, codes, present, open_, t)
            own = self.kernel.log_p_of(logits, codes)
            return (open_ & ~settles, total + jnp.where(settles, own, 0.0).sum(axis=0)), None

        start = present, jnp.zeros(codes.shape[1])
        return jax.lax.scan(once, start, jnp.arange(1, self.kernel.rules.steps + 1))[0][1]


def visit_law(lowered: Lowered, mask: VisitMask) -> VisitLaw:
    """Return the device form of the mask that a decoder visits."""
    return VisitLaw((), 1, False, refinement_kernel(lowered, mask.call), mask.is_listable, mask.order == "random")
