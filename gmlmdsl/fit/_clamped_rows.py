"""The rows of a fit by chains: the mean of grad log p over them.

Missing cells are summed out or redrawn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import GmlmError
from ..data import generator
from ..derive import Contraction, Graph, bounded_jit, contraction, evidence, log_potential, log_sum, redraw_gaps
from ..evaluate import Missing, is_affine
from ..graph import FactorGraph
from ..plan import plan_sum
from ._imputation import first_values, missing_blocks

Array = np.ndarray


class ClampedRows(eqx.Module):
    """The rows, with the method that computes the mean of grad log p over them.

    Attributes:
        graph: the factor graph on the device.
        codes: shape (cells, rows), completed if missing cells are redrawn.
        weights: shape (rows,), with mean 1.
        gaps: the contraction that sums out missing cells, whose code is -1. None if no cell is
            missing, or if missing cells are redrawn.
        blocks: the blocks in which missing cells are redrawn, shape (steps, members, patterns of
            missing cells). None if they are not redrawn.
        pattern: the pattern of missing cells of each row.
        values: the maximum number of joint values of a block.
        size: the number of rows per step, None for all.
        slope: the gradient of `mean` by the parameters, if it is the same everywhere; see `sloped`.
        level: `mean` at parameters 0, if there is a slope.
    """

    graph: Graph
    codes: jax.Array
    weights: jax.Array
    gaps: Contraction | None
    blocks: jax.Array | None
    pattern: jax.Array
    values: int = eqx.field(static=True)
    size: int | None = eqx.field(static=True)
    slope: dict[str, jax.Array] | None = None
    level: jax.Array | None = None

    def choose(self, key: jax.Array) -> jax.Array:
        """Return the rows of a step: all rows, or rows drawn with replacement."""
        rows = self.codes.shape[1]
        return jnp.arange(rows) if self.size is None else jax.random.randint(key, (self.size,), 0, rows, jnp.int32)

    def redrawn(self, params: Mapping[str, jax.Array], codes: jax.Array, chosen: jax.Array, sweeps: int, key: jax.Array) -> jax.Array:
        """Return the chosen rows, with redrawn missing cells.

        Missing cells are redrawn from p(. | observed) unless they are summed out.

        Args:
            params: the parameters.
            codes: shape (cells, rows), the completed rows.
            chosen: the numbers of the chosen rows.
            sweeps: the number of times that missing cells are redrawn.
            key: a JAX key.
        """
        if self.blocks is None:
            return codes[:, chosen]
        return redraw_gaps(self.graph, params, codes[:, chosen], self.blocks[:, :, self.pattern[chosen]], self.values, sweeps, key)

    def each(self, params: Mapping[str, jax.Array], codes: jax.Array) -> jax.Array:
        """Return the unnormalised log p of each row of a step, with missing cells summed out.

        If missing cells are redrawn, the result is that of the completed rows.
        """
        if self.gaps is None:
            return log_potential(self.graph, params, codes)
        return log_sum(self.graph, params, jnp.maximum(codes, 0), self.gaps, evidence(self.graph, codes, self.gaps))

    def mean(self, params: Mapping[str, jax.Array], codes: jax.Array, chosen: jax.Array) -> jax.Array:
        """Return the weighted mean of `each` over the chosen rows."""
        if self.slope is not None and self.level is not None:
            return sum((jnp.vdot(v, params[k]) for k, v in self.slope.items()), self.level)
        return (self.weights[chosen] * self.each(params, codes)).mean()


_each, redrawn_rows = bounded_jit(ClampedRows.each), bounded_jit(ClampedRows.redrawn)


def log_rows(rows: ClampedRows, params: Mapping[str, jax.Array], codes: jax.Array) -> Array:
    """Return `ClampedRows.each` of all rows, evaluated for as many rows at a time as a step has."""
    count = codes.shape[1]
    size = count if rows.size is None else rows.size
    parts = [codes] if size == count else (codes[:, np.arange(k, k + size) % count] for k in range(0, count, size))
    found = [np.asarray(_each(rows, params, part)) for part in parts]
    return np.concatenate(found)[:count]


def rows_of(host: FactorGraph, device: Graph, codes: Array, weights: Array, size: int | None, seed: int) -> ClampedRows:
    """Return rows whose missing cells are summed out if every step can afford it, else redrawn.

    Args:
        host: the factor graph on the host.
        device: the factor graph on the device.
        codes: shape (cells, rows), -1 if a cell is missing.
        weights: the weights of the rows.
        size: the number of rows per step, None for all.
        seed: the seed of the first values of missing cells.
    """
    count = codes.shape[1]
    patterns, pattern = np.unique(codes < 0, axis=1, return_inverse=True)
    scaled = jnp.asarray(weights * (count / weights.sum()), jnp.zeros(()).dtype)
    whole = ClampedRows(device, jnp.asarray(np.maximum(codes, 0), jnp.int32), scaled, None, None, jnp.asarray(pattern.reshape(-1)), 1, size)
    if not patterns.any():
        return whole
    try:
        _, plan = plan_sum(host, np.any(patterns, axis=1), size or count, "what rows lack", "", sums=False)
        return dataclasses.replace(whole, codes=jnp.asarray(codes, jnp.int32), gaps=contraction(host, plan))
    except GmlmError:
        pass  # the missing cells are redrawn instead
    blocks, values = missing_blocks(host, patterns)
    filled = first_values(host, codes, generator(seed))
    return dataclasses.replace(whole, codes=jnp.asarray(filled, jnp.int32), blocks=jnp.asarray(blocks), values=values)


def report(rows: ClampedRows, report: Missing, codes: Array) -> Missing:
    """Return the report with the number of rows whose missing cells were summed out or redrawn."""
    count = int((codes < 0).any(axis=0).sum())
    return dataclasses.replace(report, imputed=count) if rows.blocks is not None else dataclasses.replace(report, summed=count)


def sloped(host: FactorGraph, rows: ClampedRows, params: dict[str, jax.Array]) -> ClampedRows:
    """Return rows whose mean is evaluated once, if it is affine in the parameters.

    It is affine if log p~ is and every step takes all rows, which lack no cell.

    Args:
        host: the factor graph on the host.
        rows: the rows.
        params: some parameters.
    """
    if rows.size is not None or rows.gaps is not None or rows.blocks is not None or not is_affine(host):
        return rows
    level, slope = _mean_and_slope(rows, params)
    return dataclasses.replace(rows, slope=slope, level=level)


@bounded_jit
def _mean_and_slope(rows: ClampedRows, params: dict[str, jax.Array]) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Return the mean at parameters 0 and its gradient, of a mean that is affine."""
    everything = jnp.arange(rows.codes.shape[1])
    value, slope = jax.value_and_grad(lambda at: rows.mean(at, rows.codes, everything))(params)
    return value - sum(jnp.vdot(v, params[k]) for k, v in slope.items()), slope
