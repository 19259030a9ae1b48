"""The probability that an entry under `spike_slab` is included: known, or fitted with the entries.

Fitted probabilities are drawn with the indicators, by Gibbs steps between the passes of a chain.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from .._diagnostics import fail, is_real_number, is_whole_number
from ..assess import edges_of
from ..graph import FactorGraph, ParameterArray
from .limits import MOST_CLUSTERS

Logs = tuple[Float[Array, " entries"], Float[Array, " entries"]]
# The cluster of each cell, omega, and the logs of the clusters' weights.
Theta = Float[Array, " parameters"]
Partition = tuple[Int[Array, " cells"], Float[Array, "clusters clusters"], Float[Array, " clusters"]]


@dataclass(frozen=True)
class BetaBernoulli:
    """One unknown probability of inclusion for all entries of a parameter.

    The entries are independent given theta, P(included) = theta, with theta ~ beta(alpha, beta). So
    k of m entries are included with the beta-binomial probability C(m, k) B(alpha + k, beta + m -
    k) / B(alpha, beta): uniform on 0, .., m if alpha = beta = 1. It corrects for the number of
    entries.

    Attributes:
        alpha: above 0.
        beta: above 0.

    Reference: Scott and Berger 2010.
    """

    alpha: float = 1.0
    beta: float = 1.0


@dataclass(frozen=True)
class StochasticBlock:
    """Probabilities of inclusion that depend on unknown clusters of the cells.

    Cell i is in cluster z_i with probability w, w ~ dirichlet(concentration, ..) over `clusters`
    clusters, of which some may be empty. The coupling of cells i and j is included with probability
    omega[z_i, z_j], omega[k, l] = omega[l, k] ~ beta(alpha, beta). So cells of one cluster have
    similar patterns of edges.

    Attributes:
        clusters: the largest number of clusters.
        alpha: above 0.
        beta: above 0.
        concentration: above 0; small numbers leave more clusters empty.

    Reference: Nowicki and Snijders 2001; for graphs of ordinal variables Sekulovski et al. 2025,
    who put a prior on the number of clusters instead.
    """

    clusters: int = 4
    alpha: float = 1.0
    beta: float = 1.0
    concentration: float = 1.0


class AbstractChances(eqx.Module):
    """Log probabilities of the indicators, with a state that a chain carries."""

    @abstractmethod
    def begin(self, key: Array) -> PyTree:
        """Return a state drawn from its prior."""

    @abstractmethod
    def logs(self, state: PyTree) -> Logs:
        """Return the logs of the probabilities that each entry is included, and excluded."""

    @abstractmethod
    def update(self, key: Array, state: PyTree, included: Bool[Array, " entries"]) -> PyTree:
        """Return a state drawn given the indicators, by one pass of Gibbs steps."""

    @abstractmethod
    def shown(self, state: PyTree) -> Array | tuple[()]:
        """Return the part of a state that is recorded."""


class Known(AbstractChances):
    """The probabilities of the program."""

    log_in: Float[Array, " entries"]
    log_out: Float[Array, " entries"]

    def begin(self, key: Array) -> tuple[()]:
        """Return no state."""
        del key
        return ()

    def logs(self, state: tuple[()]) -> Logs:
        """Return the logs of the program's probabilities."""
        del state
        return self.log_in, self.log_out

    def update(self, key: Array, state: tuple[()], included: Bool[Array, " entries"]) -> tuple[()]:
        """Return no state."""
        del key, included
        return state

    def shown(self, state: tuple[()]) -> tuple[()]:
        """Return nothing."""
        return state


class Shared(AbstractChances):
    """One fitted probability for all entries of a parameter, see `BetaBernoulli`.

    Attributes:
        known: the probabilities of the program; entries of which it is certain keep them.
        open: the other entries.
        of: the number of the parameter of each entry.
        alpha: the first argument of the beta distribution.
        beta: the second argument.
        count: the number of parameters.
    """

    known: Known
    open: Bool[Array, " entries"]
    of: Int[Array, " entries"]
    alpha: float = eqx.field(static=True)
    beta: float = eqx.field(static=True)
    count: int = eqx.field(static=True)

    def begin(self, key: Array) -> Theta:
        """Return theta of each parameter."""
        return jax.random.beta(key, self.alpha, self.beta, (self.count,), self.known.log_in.dtype)

    def logs(self, state: Theta) -> Logs:
        """Return log theta and log(1 - theta) at the open entries."""
        return _open_logs(self.known, self.open, state[self.of])

    def update(self, key: Array, state: Theta, included: Bool[Array, " entries"]) -> Theta:
        """Return theta drawn from beta(alpha + k, beta + m - k)."""
        del state
        inside, outside = (
            jax.ops.segment_sum((self.open & mine).astype(self.known.log_in.dtype), self.of, self.count) for mine in (included, ~included)
        )
        return jax.random.beta(key, self.alpha + inside, self.beta + outside)

    def shown(self, state: Theta) -> Theta:
        """Return theta."""
        return state


class Blocks(AbstractChances):
    """Fitted probabilities for pairs of clusters, see `StochasticBlock`.

    A state is the cluster of each cell, omega, and the logs of the clusters' weights.

    Attributes:
        known: the probabilities of the program; entries of which it is certain keep them.
        open: the other entries.
        ends: the numbers of both cells of each entry.
        options: the prior.
        cells: the number of cells.
    """

    known: Known
    open: Bool[Array, " entries"]
    ends: Int[Array, "entries 2"]
    options: StochasticBlock = eqx.field(static=True)
    cells: int = eqx.field(static=True)

    def begin(self, key: Array) -> Partition:
        """Return clusters, omega and weights from their prior."""
        first, second, third = jax.random.split(key, 3)
        k, dtype = self.options.clusters, self.known.log_in.dtype
        log_w = jnp.log(jax.random.dirichlet(first, jnp.full(k, self.options.concentration, dtype)))
        z = jax.random.categorical(second, log_w, shape=(self.cells,)).astype(jnp.int32)
        return z, _symmetric(jax.random.beta(third, self.options.alpha, self.options.beta, (k, k), dtype)), log_w

    def logs(self, state: Partition) -> Logs:
        """Return log omega and log(1 - omega) of the clusters of both cells, at open entries."""
        z, omega, _ = state
        return _open_logs(self.known, self.open, omega[z[self.ends[:, 0]], z[self.ends[:, 1]]])

    def update(self, key: Array, state: Partition, included: Bool[Array, " entries"]) -> Partition:
        """Return clusters drawn cell by cell, then omega and the weights."""
        z, omega, log_w = state
        first, second, third = jax.random.split(key, 3)
        log_in, log_out = (jnp.log(jnp.clip(p, 1e-300, 1.0)) for p in (omega, 1 - omega))

        def moved(z: Array, step: tuple[Array, Array]) -> tuple[Array, None]:
            cell, key = step
            here = self.ends == cell
            other = z[jnp.where(here[:, 0], self.ends[:, 1], self.ends[:, 0])]
            mine = self.open & here.any(axis=1)
            logs = jnp.where(included, log_in[:, other], log_out[:, other])
            score = log_w + jnp.where(mine, logs, 0.0).sum(axis=1)
            return z.at[cell].set(jax.random.categorical(key, score).astype(z.dtype)), None

        order = jnp.arange(self.cells, dtype=self.ends.dtype), jax.random.split(first, self.cells)
        z, _ = jax.lax.scan(moved, z, order)
        inside, outside = (self._counts(z, self.open & mine) for mine in (included, ~included))
        omega = jax.random.beta(second, self.options.alpha + inside, self.options.beta + outside)
        sizes = jax.ops.segment_sum(jnp.ones(self.cells, omega.dtype), z, self.options.clusters)
        log_w = jnp.log(jax.random.dirichlet(third, self.options.concentration + sizes))
        return z, _symmetric(omega), log_w

    def shown(self, state: Partition) -> Int[Array, " cells"]:
        """Return the clusters of the cells."""
        return state[0]

    def _counts(self, z: Array, mine: Array) -> Array:
        """Return the number of entries between each two clusters k <= l, shape (clusters, clusters)."""
        a, b = z[self.ends[:, 0]], z[self.ends[:, 1]]
        k = self.options.clusters
        place = jnp.minimum(a, b) * k + jnp.maximum(a, b)
        return jax.ops.segment_sum(mine.astype(self.known.log_in.dtype), place, k * k).reshape(k, k)


def _symmetric(omega: Array) -> Array:
    """Return the upper triangle of a matrix, mirrored."""
    upper = jnp.triu(omega)
    return upper + jnp.triu(omega, 1).T


def _open_logs(known: Known, open_: Array, chance: Array) -> Logs:
    log_in, log_out = (jnp.log(jnp.clip(p, 1e-300, 1.0)) for p in (chance, 1 - chance))
    return jnp.where(open_, log_in, known.log_in), jnp.where(open_, log_out, known.log_out)


def chances_of(graph: FactorGraph, spiked: list[ParameterArray], known: Known, prior: object) -> AbstractChances:
    """Return the probabilities of the indicators under a prior.

    Args:
        graph: the factor graph.
        spiked: the parameters with indicators, whose entries are those of `known`.
        known: the probabilities of the program.
        prior: `BetaBernoulli`, `StochasticBlock`, or None for those of the program.

    Raises:
        GmlmError: E507 for other priors, or for clusters of entries that are not couplings.
    """
    if prior is None:
        return known
    if not isinstance(prior, BetaBernoulli | StochasticBlock):
        what = "the class itself" if isinstance(prior, type) else type(prior).__name__
        raise fail(
            "E507", f"inclusion must be a prior of indicators, got {what}", help="`gm.BetaBernoulli(1, 1)` or `gm.StochasticBlock()`"
        )
    _verify(prior)
    open_ = jnp.asarray(np.isfinite(known.log_in) & np.isfinite(known.log_out))
    if isinstance(prior, BetaBernoulli):
        of = np.repeat(np.arange(len(spiked), dtype=np.int32), [p.size for p in spiked])
        return Shared(known, open_, jnp.asarray(of), float(prior.alpha), float(prior.beta), len(spiked))
    ends = _ends(graph, spiked)
    cells, numbers = np.unique(ends, return_inverse=True)
    return Blocks(known, open_, jnp.asarray(numbers.reshape(ends.shape).astype(np.int32)), prior, len(cells))


def cells_of_clusters(graph: FactorGraph, spiked: list[ParameterArray]) -> list[str]:
    """Return the names of the cells that have a cluster, in their order."""
    return [graph.cell_name(int(c)) for c in np.unique(_ends(graph, spiked))]


def _ends(graph: FactorGraph, spiked: list[ParameterArray]) -> np.ndarray:
    """Return the positions of the two cells of each entry, shape (entries, 2).

    Raises:
        GmlmError: E507 if an entry does not belong to exactly one pair of cells.
    """
    edges, found = edges_of(graph, [p.name for p in spiked]), []
    for p in spiked:
        for group in edges.groups.of[p.name].ravel():
            if group < 0 or len(edges.pairs[group]) != 1:
                message = f"the entries of `{p.name}` are not couplings of one pair of cells each, and clusters are of cells"
                raise fail("E507", message, help="`inclusion=gm.BetaBernoulli()`, or one entry for each edge: `J[(i, j) in G.edges]`")
            found.append(edges.pairs[group][0])
    return np.array(found).reshape(-1, 2)


def _verify(prior: BetaBernoulli | StochasticBlock) -> None:
    for name in ("alpha", "beta", "concentration"):
        value = getattr(prior, name, 1.0)
        if not is_real_number(value) or not 0 < value < np.inf:
            raise fail("E507", f"inclusion: {name} must be a number above 0, got {value!r}")
    clusters = getattr(prior, "clusters", 1)
    if not is_whole_number(clusters) or not 1 <= clusters <= MOST_CLUSTERS:
        raise fail("E507", f"inclusion: clusters must be a whole number from 1 to {MOST_CLUSTERS}, got {clusters!r}")
