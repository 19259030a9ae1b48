"""The distribution p(K | x) of a mask: draws of K, and log p(K | x') under the values of a block.

For a data-dependent mask, the log probability under every joint value of a block turns p(x_K |
x_rest) into p(x_K | x_rest, K). The work is local if possible: in a sum of weights, only the
weights that touch the block are evaluated for each of its values.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from functools import singledispatch

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..graph import FactorGroup
from ..masks import AbstractMask, BernoulliMask, IndependentMask, ListedMask, MixtureMask, SubsetMask
from ._arrays import Blocks, Group, group_arrays, on_device
from ._energy import Codes, Params, all_values, local_values
from ._picks import happens, levels_of, pick, whole_below
from ._random import fold_apart, words_apart

Cells = Int[Array, "members rows"]
Touch = Iterator[Int[Array, "blocks width rows"]]


class AbstractMaskLaw(eqx.Module):
    """Distribution of a mask."""

    @abc.abstractmethod
    def groups(self) -> tuple[Group, ...]:
        """Return the weight groups, in the order of `touch` in `log_probability`."""

    @abc.abstractmethod
    def mean_size(self, params: Params, codes: Codes) -> Float[Array, " rows"]:
        """Return E(|K|) given each row."""

    @abc.abstractmethod
    def draw(self, params: Params, codes: Codes, keys: PRNGKeyArray) -> Cells:
        """Draw one block per row: positions ascending, padded with the number of cells.

        `keys` has one key per row.
        """

    @abc.abstractmethod
    def log_probability(self, params: Params, codes: Codes, blocks: Blocks, touch: Touch) -> Float[Array, "blocks values rows"]:
        """Return log p(K | x') of each block K under every joint value of its own cells.

        The shape holds up to broadcasting.

        Args:
            params: parameters.
            codes: the values of the other cells of x', shape (cells, rows).
            blocks: the blocks K.
            touch: yields, group by group, the instances of the distribution's weights that touch
                each block.
        """

    @abc.abstractmethod
    def block_probabilities(self, params: Params, codes: Codes, blocks: Int[Array, "blocks members"]) -> Float[Array, "blocks rows"]:
        """Return p(K | x) of each block K at each row, up to broadcasting over rows.

        The positions of a block are ascending and padded.
        """


def _fixed_probabilities(law: AbstractMaskLaw, blocks: Int[Array, "blocks members"]) -> Float[Array, "blocks 1"]:
    """Return the probabilities of blocks under a distribution that does not depend on x.

    It is evaluated at arbitrary values.
    """
    ones = jnp.ones((*blocks.shape, 1), jnp.int32)
    return jnp.exp(law.log_probability({}, jnp.zeros((0, 1), jnp.int32), Blocks(1, blocks[..., None], ones, ones, ()), iter(()))[:, 0])


def picked(weights: Float[Array, ...], keys: PRNGKeyArray) -> Int[Array, " rows"]:
    """Draw one choice for each row in proportion to weights."""
    return pick(weights, words_apart(keys, 1, levels_of(weights.shape[0])).having(lambda w: w[:, 0]), 0)


def _touches(group: Group, blocks: Blocks, n_cells: int) -> Bool[Array, "blocks n rows"]:
    """Return whether each instance of a weight group mentions a cell of each block."""
    scope = group.cells[None, :, :, None, None]  # axes: blocks, n, slots, members, rows
    members = jnp.where(blocks.cells < n_cells, blocks.cells, -1)[:, None, None]
    return (scope == members).any(axis=(2, 3))


def _same_block(
    listed: Int[Array, "listed members"], blocks: Int[Array, "blocks members rows"], n_cells: int
) -> Bool[Array, "blocks listed rows"]:
    """Return for each block at each row which listed block it equals, if any."""
    width = max(listed.shape[1], blocks.shape[1])
    mine = jnp.pad(listed, ((0, 0), (0, width - listed.shape[1])), constant_values=n_cells)
    theirs = jnp.pad(blocks, ((0, 0), (0, width - blocks.shape[1]), (0, 0)), constant_values=n_cells)
    return (mine[None, :, :, None] == theirs[:, None]).all(axis=2)


class FixedListLaw(AbstractMaskLaw):
    """Distribution over listed blocks with fixed probabilities."""

    n_cells: int = eqx.field(static=True)
    blocks: Int[Array, "listed members"]
    probabilities: Float[Array, " listed"]

    def groups(self) -> tuple[Group, ...]:
        return ()

    def mean_size(self, params: Params, codes: Codes) -> Float[Array, " rows"]:
        sizes = (self.blocks < self.n_cells).sum(axis=1).astype(self.probabilities.dtype)
        return jnp.full(codes.shape[1], (sizes * self.probabilities).sum())

    def draw(self, params: Params, codes: Codes, keys: PRNGKeyArray) -> Cells:
        return self.blocks[picked(self.probabilities[:, None], keys)].T

    def log_probability(self, params: Params, codes: Codes, blocks: Blocks, touch: Touch) -> Float[Array, "blocks values rows"]:
        mine = _same_block(self.blocks, blocks.cells, self.n_cells)
        return jnp.log(jnp.where(mine, self.probabilities[None, :, None], 0.0).sum(axis=1))[:, None]

    def block_probabilities(self, params: Params, codes: Codes, blocks: Int[Array, "blocks members"]) -> Float[Array, "blocks rows"]:
        return _fixed_probabilities(self, blocks)


class WeightedListLaw(AbstractMaskLaw):
    """Distribution over listed blocks, p(K | x) = w_K(x) / sum of all weights.

    The weights mention cells or parameters. If every weight is 0, K is empty.
    """

    n_cells: int = eqx.field(static=True)
    blocks: Int[Array, "listed members"]
    weights: tuple[Group, ...]
    block_of: tuple[Int[Array, " n"], ...]

    def groups(self) -> tuple[Group, ...]:
        return self.weights

    def block_weights(self, params: Params, codes: Codes) -> Float[Array, "listed rows"]:
        """Return the weight of every listed block."""
        total = jnp.zeros((self.blocks.shape[0], codes.shape[1]))
        for group, of in zip(self.weights, self.block_of, strict=True):
            total = total.at[of].add(all_values(group, params, codes))
        return total

    def mean_size(self, params: Params, codes: Codes) -> Float[Array, " rows"]:
        weights = self.block_weights(params, codes)
        sizes = (self.blocks < self.n_cells).sum(axis=1).astype(weights.dtype)
        total = weights.sum(axis=0)
        return (sizes[:, None] * weights).sum(axis=0) / jnp.where(total > 0, total, 1.0)

    def draw(self, params: Params, codes: Codes, keys: PRNGKeyArray) -> Cells:
        weights = self.block_weights(params, codes)
        return jnp.where((weights > 0).any(axis=0), self.blocks[picked(weights, keys)].T, self.n_cells)

    def log_probability(self, params: Params, codes: Codes, blocks: Blocks, touch: Touch) -> Float[Array, "blocks values rows"]:
        mine = _same_block(self.blocks, blocks.cells, self.n_cells)
        own = total = jnp.zeros((1, 1, 1))
        for group, of in zip(self.weights, self.block_of, strict=True):
            here = next(touch)
            moving = _touches(group, blocks, self.n_cells)  # axes: blocks, n, rows or 1
            belongs = mine[:, of]
            still = jnp.where(moving, 0.0, all_values(group, params, codes)[None])
            own = own + jnp.where(belongs, still, 0.0).sum(axis=1)[:, None]
            total = total + still.sum(axis=1)[:, None]
            if here.shape[1]:
                values = jnp.where((here >= 0)[:, :, None], local_values(group, params, codes, blocks, here), 0.0)
                belongs_here = jnp.take_along_axis(belongs, jnp.maximum(here, 0), axis=1)[:, :, None]
                own = own + jnp.where(belongs_here, values, 0.0).sum(axis=1)
                total = total + values.sum(axis=1)
        return jnp.where(own > 0, jnp.log(jnp.where(own > 0, own, 1.0)) - jnp.log(jnp.where(total > 0, total, 1.0)), -jnp.inf)

    def block_probabilities(self, params: Params, codes: Codes, blocks: Int[Array, "blocks members"]) -> Float[Array, "blocks rows"]:
        weights = self.block_weights(params, codes)
        total = weights.sum(axis=0)
        mine = _same_block(self.blocks, blocks[..., None], self.n_cells)[..., 0].astype(weights.dtype)
        return mine @ weights / jnp.where(total > 0, total, 1.0)[None]


class SubsetLaw(AbstractMaskLaw):
    """Uniform distribution over the subsets of `cells` with `size` members."""

    n_cells: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    cells: Int[Array, " pool"]
    log_count: Float[Array, ""]

    def groups(self) -> tuple[Group, ...]:
        return ()

    def mean_size(self, params: Params, codes: Codes) -> Float[Array, " rows"]:
        return jnp.full(codes.shape[1], float(self.size))

    def draw(self, params: Params, codes: Codes, keys: PRNGKeyArray) -> Cells:
        n = self.cells.shape[0]
        drawn = words_apart(keys, self.size)
        chosen = jnp.full((self.size, codes.shape[1]), n, jnp.int32)  # ascending, padded with n
        for k in range(self.size):
            # Take the cell at this place among those not chosen yet: step over the chosen ones in
            # ascending order.
            place = whole_below(n - k, drawn.having(lambda w, k=k: w[:, k]))
            for j in range(k):
                place = place + (chosen[j] <= place).astype(jnp.int32)
            chosen = jnp.sort(chosen.at[k].set(place), axis=0)
        return self.cells[chosen]

    def log_probability(self, params: Params, codes: Codes, blocks: Blocks, touch: Touch) -> Float[Array, "blocks values rows"]:
        pool = jnp.zeros(self.n_cells + 1, bool).at[self.cells].set(True)
        members = blocks.cells < self.n_cells
        inside = (pool[blocks.cells] | ~members).all(axis=1) & (members.sum(axis=1) == self.size)
        return jnp.where(inside, -self.log_count, -jnp.inf)[:, None]

    def block_probabilities(self, params: Params, codes: Codes, blocks: Int[Array, "blocks members"]) -> Float[Array, "blocks rows"]:
        return _fixed_probabilities(self, blocks)


class BernoulliLaw(AbstractMaskLaw):
    """Distribution with independent cells.

    Each cell has a fixed rate, or all cells share one rate that is drawn once per mask.
    """

    n_cells: int = eqx.field(static=True)
    cells: Int[Array, " pool"]
    rates: Float[Array, " pool"]  # unused if `ends` is given
    ends: tuple[float, float] | None = eqx.field(static=True)
    by_size: Float[Array, " sizes"]

    def groups(self) -> tuple[Group, ...]:
        return ()

    def mean_size(self, params: Params, codes: Codes) -> Float[Array, " rows"]:
        mean = self.rates.sum() if self.ends is None else self.cells.shape[0] * sum(self.ends) / 2
        return jnp.full(codes.shape[1], mean)

    def draw(self, params: Params, codes: Codes, keys: PRNGKeyArray) -> Cells:
        drawn, rate = words_apart(keys, self.cells.shape[0] + 1), self.rates[:, None]
        if self.ends is not None:
            rate = self.ends[0] + (self.ends[1] - self.ends[0]) * drawn.having(lambda w: w[:, -1:]).number()
        return _chosen(self, happens(rate, 1 - rate, drawn.having(lambda w: w[:, :-1])))

    def log_probability(self, params: Params, codes: Codes, blocks: Blocks, touch: Touch) -> Float[Array, "blocks values rows"]:
        pool = jnp.zeros(self.n_cells + 1, bool).at[self.cells].set(True)
        members = blocks.cells < self.n_cells
        inside = (pool[blocks.cells] | ~members).all(axis=1)
        if self.ends is not None:
            probability = self.by_size[jnp.minimum(members.sum(axis=1), self.by_size.shape[0] - 1)]
        else:
            drawn = (blocks.cells[:, None] == self.cells[None, :, None, None]).any(axis=2)
            probability = jnp.where(drawn, self.rates[None, :, None], 1 - self.rates[None, :, None]).prod(axis=1)
        return jnp.where(inside, jnp.log(probability), -jnp.inf)[:, None]

    def block_probabilities(self, params: Params, codes: Codes, blocks: Int[Array, "blocks members"]) -> Float[Array, "blocks rows"]:
        return _fixed_probabilities(self, blocks)


class IndependentLaw(AbstractMaskLaw):
    """Distribution with independent cells, whose rates mention cells or parameters."""

    n_cells: int = eqx.field(static=True)
    cells: Int[Array, " pool"]
    rates: tuple[Group, ...]
    cell_of: tuple[Int[Array, " n"], ...]

    def groups(self) -> tuple[Group, ...]:
        return self.rates

    def cell_rates(self, params: Params, codes: Codes) -> Float[Array, "pool rows"]:
        """Return the rate of every cell."""
        rates = jnp.zeros((self.cells.shape[0], codes.shape[1]))
        for group, of in zip(self.rates, self.cell_of, strict=True):
            rates = rates.at[of].set(all_values(group, params, codes))
        return rates

    def mean_size(self, params: Params, codes: Codes) -> Float[Array, " rows"]:
        return self.cell_rates(params, codes).sum(axis=0)

    def draw(self, params: Params, codes: Codes, keys: PRNGKeyArray) -> Cells:
        rates = self.cell_rates(params, codes)
        return _chosen(self, happens(rates, 1 - rates, words_apart(keys, self.cells.shape[0])))

    def log_probability(self, params: Params, codes: Codes, blocks: Blocks, touch: Touch) -> Float[Array, "blocks values rows"]:
        pool = jnp.zeros(self.n_cells + 1, bool).at[self.cells].set(True)
        inside = (pool[blocks.cells] | (blocks.cells >= self.n_cells)).all(axis=1)
        total = jnp.where(inside, 0.0, -jnp.inf)[:, None]
        for group, of in zip(self.rates, self.cell_of, strict=True):
            here = next(touch)
            own = self.cells[of]
            # axes: blocks, n, rows or 1
            drawn = (blocks.cells[:, None] == own[None, :, None, None]).any(axis=2)
            moving = _touches(group, blocks, self.n_cells)
            still = _log_rate(all_values(group, params, codes)[None], drawn)
            total = total + jnp.where(moving, 0.0, still).sum(axis=1)[:, None]
            if here.shape[1]:
                drawn_here = jnp.take_along_axis(drawn, jnp.maximum(here, 0), axis=1)[:, :, None]
                values = _log_rate(local_values(group, params, codes, blocks, here), drawn_here)
                total = total + jnp.where((here >= 0)[:, :, None], values, 0.0).sum(axis=1)
        return total

    def block_probabilities(self, params: Params, codes: Codes, blocks: Int[Array, "blocks members"]) -> Float[Array, "blocks rows"]:
        rates = self.cell_rates(params, codes)[None]  # axes: blocks, pool, rows
        drawn = (blocks[:, None] == self.cells[None, :, None]).any(axis=2)
        inside = drawn.sum(axis=1) == (blocks < self.n_cells).sum(axis=1)
        found = jnp.where(drawn[..., None], rates, 1 - rates).prod(axis=1)
        return jnp.where(inside[:, None], found, 0.0)


def _chosen(law: BernoulliLaw | IndependentLaw, held: Bool[Array, "pool rows"]) -> Cells:
    return jnp.sort(jnp.where(held, law.cells[:, None], law.n_cells), axis=0)


def _log_rate(rate: Array, drawn: Bool[Array, ...]) -> Array:
    return jnp.log(jnp.where(drawn, rate, 1 - rate))


class MixtureLaw(AbstractMaskLaw):
    """Mixture: p(K | x) is the sum over parts of the weight times the part's probability."""

    n_cells: int = eqx.field(static=True)
    weights: Float[Array, " parts"]
    parts: tuple[AbstractMaskLaw, ...]

    def groups(self) -> tuple[Group, ...]:
        return tuple(g for p in self.parts for g in p.groups())

    def mean_size(self, params: Params, codes: Codes) -> Float[Array, " rows"]:
        sizes = jnp.stack([p.mean_size(params, codes) for p in self.parts])
        return (self.weights[:, None].astype(sizes.dtype) * sizes).sum(axis=0)

    def draw(self, params: Params, codes: Codes, keys: PRNGKeyArray) -> Cells:
        choice, inner = picked(self.weights[:, None], keys), fold_apart(keys, 1)
        found = [p.draw(params, codes, inner) for p in self.parts]
        width = max(f.shape[0] for f in found)
        padded = [jnp.pad(f, ((0, width - f.shape[0]), (0, 0)), constant_values=self.n_cells) for f in found]
        return jnp.stack(padded)[choice, :, jnp.arange(codes.shape[1])].T

    def log_probability(self, params: Params, codes: Codes, blocks: Blocks, touch: Touch) -> Float[Array, "blocks values rows"]:
        terms = [jnp.log(w) + p.log_probability(params, codes, blocks, touch) for w, p in zip(self.weights, self.parts, strict=True)]
        shape = jnp.broadcast_shapes(*(t.shape for t in terms))
        return jax.nn.logsumexp(jnp.stack([jnp.broadcast_to(t, shape) for t in terms]), axis=0)

    def block_probabilities(self, params: Params, codes: Codes, blocks: Int[Array, "blocks members"]) -> Float[Array, "blocks rows"]:
        terms = (w * p.block_probabilities(params, codes, blocks) for w, p in zip(self.weights, self.parts, strict=True))
        return sum(terms, jnp.zeros((1, 1), self.weights.dtype))


@singledispatch
def mask_law(mask: AbstractMask) -> AbstractMaskLaw:
    """Return the distribution of a mask.

    Clusters have none, because a kernel of their own draws them.
    """
    raise TypeError(type(mask))


@mask_law.register
def _(mask: ListedMask) -> AbstractMaskLaw:
    if mask.probabilities is not None:
        return FixedListLaw(mask.n_cells, _ints(mask.blocks), on_device(mask.probabilities))
    groups, block_of = _device(mask.weights, mask.n_cells), tuple(_ints(b) for b in mask.block_of)
    return WeightedListLaw(mask.n_cells, _ints(mask.blocks), groups, block_of)


@mask_law.register
def _(mask: SubsetMask) -> AbstractMaskLaw:
    k = np.arange(1, mask.size + 1)
    log_count = np.log((len(mask.cells) - mask.size + k) / k).sum()
    return SubsetLaw(mask.n_cells, mask.size, _ints(mask.cells), on_device(log_count))


@mask_law.register
def _(mask: BernoulliMask) -> AbstractMaskLaw:
    if mask.rates is not None:
        return BernoulliLaw(mask.n_cells, _ints(mask.cells), on_device(mask.rates), None, on_device(np.zeros(1)))
    rates, by_size = np.zeros(len(mask.cells)), mask.size_probabilities()
    return BernoulliLaw(mask.n_cells, _ints(mask.cells), on_device(rates), mask.uniform, on_device(by_size))


@mask_law.register
def _(mask: IndependentMask) -> AbstractMaskLaw:
    groups, cell_of = _device(mask.rates, mask.n_cells), tuple(_ints(c) for c in mask.cell_of)
    return IndependentLaw(mask.n_cells, _ints(mask.cells), groups, cell_of)


@mask_law.register
def _(mask: MixtureMask) -> AbstractMaskLaw:
    return MixtureLaw(mask.n_cells, on_device(mask.weights), tuple(map(mask_law, mask.parts)))


def _device(groups: tuple[FactorGroup, ...], n_cells: int) -> tuple[Group, ...]:
    return tuple(group_arrays(g, n_cells) for g in groups)


def _ints(a: np.ndarray) -> Array:
    return on_device(a, np.int32)
