"""Masks as sets of cells: the cells of K in each row, for rows shorter than the model's arrays.

A network's rows may end early: later cells are padding, and no mask contains them. `subsets` are
then the subsets of the cells that exist; every other mask is restricted to them.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from functools import singledispatch
from typing import ClassVar, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from ..graph import Corruption, Lowered
from ..masks import lower_body
from ._arrays import float_type, on_device
from ._energy import Codes
from ._mask_law import AbstractMaskLaw, BernoulliLaw, FixedListLaw, IndependentLaw, MixtureLaw, SubsetLaw, WeightedListLaw, mask_law, picked
from ._picks import pick_of_weights, whole_below
from ._random import EVERY, fold_apart, words_apart

Present = Bool[Array, "cells rows"]


@singledispatch
def members(law: AbstractMaskLaw, codes: Codes, keys: PRNGKeyArray, present: Present) -> Present:
    """Draw the cells of K for each row.

    Args:
        law: the distribution of the mask.
        codes: the rows, shape (cells, rows).
        keys: a key for each row.
        present: the cells that exist in each row, to which K is restricted.
    """
    found = law.draw({}, codes, keys)
    held = jnp.zeros((present.shape[0] + 1, present.shape[1]), bool)
    return held.at[jnp.minimum(found, present.shape[0]), jnp.arange(present.shape[1])].set(True)[:-1] & present


@members.register
def _(law: SubsetLaw, codes: Codes, keys: PRNGKeyArray, present: Present) -> Present:
    """Draw the first `size` cells in a random order, or all cells if there are fewer."""
    pool = jnp.zeros(present.shape[0] + 1, bool).at[law.cells].set(True, mode="drop")[:-1][:, None] & present
    return (random_ranks(keys, pool) < law.size) & pool


def random_ranks(keys: PRNGKeyArray, pool: Present) -> Int[Array, "cells rows"]:
    """Return the place of each cell of a pool in a random order, by random numbers of 63 bits.

    The cells outside the pool come last.
    """
    drawn = words_apart(keys, pool.shape[0])
    place = jnp.broadcast_to(jnp.arange(pool.shape[0], dtype=jnp.int32)[:, None], pool.shape)
    first = jnp.where(pool, drawn.high[0] >> 1, jnp.uint32(EVERY))
    return jnp.argsort(jax.lax.sort((first, drawn.low[0], place), dimension=0, num_keys=2)[2], axis=0)


@members.register
def _(law: MixtureLaw, codes: Codes, keys: PRNGKeyArray, present: Present) -> Present:
    choice = picked(law.weights[:, None], fold_apart(keys, 0))
    found = jnp.stack([members(p, codes, fold_apart(keys, 1), present) for p in law.parts])
    return (found & (choice[None] == jnp.arange(len(law.parts), dtype=jnp.int32)[:, None])[:, None]).any(axis=0)


@singledispatch
def mean_members(law: AbstractMaskLaw, codes: Codes, present: Present) -> Float[Array, " rows"]:
    """Return E(|K|) of each row, over the cells that are `present`."""
    raise TypeError(type(law))


@mean_members.register
def _(law: FixedListLaw, codes: Codes, present: Present) -> Float[Array, " rows"]:
    return law.probabilities @ _counts(law.blocks, present).astype(law.probabilities.dtype)


@mean_members.register
def _(law: WeightedListLaw, codes: Codes, present: Present) -> Float[Array, " rows"]:
    weights = law.block_weights({}, codes)
    total = weights.sum(axis=0)
    return (weights * _counts(law.blocks, present).astype(weights.dtype)).sum(axis=0) / jnp.where(total > 0, total, 1.0)


@mean_members.register
def _(law: SubsetLaw, codes: Codes, present: Present) -> Float[Array, " rows"]:
    return jnp.minimum(_counts(law.cells[None], present)[0], law.size).astype(float_type())


@mean_members.register
def _(law: BernoulliLaw, codes: Codes, present: Present) -> Float[Array, " rows"]:
    rates = law.rates if law.ends is None else jnp.full(law.cells.shape, sum(law.ends) / 2)
    inside = jnp.pad(present, ((0, 1), (0, 0)))[jnp.minimum(law.cells, present.shape[0])]
    return jnp.where(inside, rates[:, None], 0.0).sum(axis=0)


@mean_members.register
def _(law: IndependentLaw, codes: Codes, present: Present) -> Float[Array, " rows"]:
    inside = jnp.pad(present, ((0, 1), (0, 0)))[jnp.minimum(law.cells, present.shape[0])]
    return jnp.where(inside, law.cell_rates({}, codes), 0.0).sum(axis=0)


@mean_members.register
def _(law: MixtureLaw, codes: Codes, present: Present) -> Float[Array, " rows"]:
    sizes = jnp.stack([mean_members(p, codes, present) for p in law.parts])
    return (law.weights[:, None].astype(sizes.dtype) * sizes).sum(axis=0)


def _counts(blocks: Array, present: Present) -> Array:
    """Return the number of present cells of each block, shape (blocks, rows)."""
    inside = jnp.pad(present, ((0, 1), (0, 0)))
    return inside[jnp.minimum(blocks, present.shape[0])].sum(axis=1)


class MaskDraw(NamedTuple):
    """K of each row: its cells, the codes that a network sees, the scored cells, and a weight.

    The weight multiplies the score; None stands for 1.
    """

    held: Present
    seen: Codes
    scored: Present
    weight: Float[Array, " rows"] | None = None


class Denoiser(Protocol):
    """What a mask evaluates: the network over the rows, or the exact conditionals of a model."""

    @property
    def n_cells(self) -> int:
        """The number of cells of a row."""
        ...

    @property
    def most_values(self) -> int:
        """The number of values of a cell, which is also the code of a hidden cell."""
        ...

    def logits(self, params: Mapping[str, PyTree], seen: Codes, keys: PRNGKeyArray | None = None) -> Float[Array, "chains cells values"]:
        """Return the unnormalised log p of every value of every cell."""
        ...


class AbstractScoredMask(eqx.Module):
    """Mask in a network's loss: the hidden cells, the scored cells, and the weight of the score.

    Attributes:
        laws: the distributions of its parts.
        stages: how often a prediction is scored; each stage but the first sees the one before.
        sampled: whether a stage's input is drawn from the prediction; otherwise it is its mode.
        is_stratified: whether a number in [0, 1) for each row determines which part of the sum is
            drawn.
    """

    laws: tuple[AbstractMaskLaw, ...]
    stages: int = eqx.field(static=True)
    sampled: bool = eqx.field(static=True)
    is_stratified: ClassVar[bool] = False

    @abc.abstractmethod
    def drawn(
        self, graph: Denoiser, params: Mapping[str, PyTree], codes: Codes, present: Present, keys: PRNGKeyArray, u: Array | None
    ) -> MaskDraw:
        """Draw K of each row, for cells that `graph` predicts.

        Args:
            graph: the network over the rows.
            params: parameters.
            codes: the rows, shape (cells, rows).
            present: the cells that exist in each row.
            keys: a key for each row.
            u: the number of each row if the mask `is_stratified`; otherwise it is not read.
        """

    @abc.abstractmethod
    def mean_members(self, codes: Codes, present: Present) -> Float[Array, " rows"]:
        """Return the number of cells that divides the loss of each row: E(|K|), or all cells."""

    def tempered(self, logits: Array) -> Array:
        """Return the logits that are scored, which are the network's own."""
        return logits


class NoisyMask(AbstractScoredMask):
    """Mask with the noise that a network sees in the cells of K.

    It is a mixture of parts, each with one distribution and one noise.

    Attributes:
        weights: the probability of each part.
        noises: the probabilities of hiding, of a uniform value and of the true value, shape (parts,
            3).
    """

    weights: Float[Array, " parts"]
    noises: Float[Array, "parts 3"]

    def drawn(
        self, graph: Denoiser, params: Mapping[str, PyTree], codes: Codes, present: Present, keys: PRNGKeyArray, u: Array | None
    ) -> MaskDraw:
        """Draw K and the noise, as `draw`; all of K is scored.

        `params` and `u` are not read.
        """
        held, seen = self.draw(codes, present, keys, graph.most_values)
        return MaskDraw(held, seen, held)

    def draw(self, codes: Codes, present: Present, keys: PRNGKeyArray, n_values: int) -> tuple[Present, Codes]:
        """Draw K of each row, and the codes that the network sees.

        Args:
            codes: the rows, shape (cells, rows).
            present: the cells that exist in each row.
            keys: a key for each row.
            n_values: the number of values of a cell, which is also the code of a hidden cell.
        """
        part = picked(self.weights[:, None], fold_apart(keys, 0))
        held = jnp.stack([members(law, codes, fold_apart(keys, 1), present) for law in self.laws])
        held = (held & (part[None] == jnp.arange(len(self.laws), dtype=jnp.int32)[:, None])[:, None]).any(axis=0)
        kinds, values = (words_apart(fold_apart(keys, k), held.shape[0]) for k in (2, 3))
        kind, drawn = pick_of_weights(list(self.noises[part].T[:, None]), kinds), whole_below(n_values, values).astype(codes.dtype)
        corrupt = jnp.where(kind == 0, n_values, jnp.where(kind == 1, drawn, codes))
        return held, jnp.where(held, corrupt, codes)

    def mean_members(self, codes: Codes, present: Present) -> Float[Array, " rows"]:
        """Return E(|K|) of each row."""
        sizes = jnp.stack([mean_members(law, codes, present) for law in self.laws])
        return (self.weights[:, None].astype(sizes.dtype) * sizes).sum(axis=0)


def noisy_mask(lowered: Lowered, found: Corruption) -> NoisyMask:
    """Return the device form of a mask and its noise."""
    laws = tuple(mask_law(lower_body(lowered, body)) for _, body, _ in found.parts)
    noises = np.array([(n.hide, n.uniform, n.keep) for _, _, n in found.parts])
    weights = np.array([w for w, _, _ in found.parts])
    return NoisyMask(laws, found.stages, found.inputs == "sample", on_device(weights), on_device(noises))
