"""The loss of rows with missing cells: -log p(x_O) + log p(x_{O - K}), the missing cells summed out of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..graph import FactorGraph
from ..plan import GapTerms
from ._arrays import Blocks, Graph, block_arrays, drawn_blocks, float_type
from ._conditional import logsumexp, pick_value, put_value
from ._energy import Codes, Params, local_scores, log_potential


class Gaps(eqx.Module):
    """Terms alike in size; see `plan.GapTerms`. Of a `GapLoss`, arrays have chunks in front.

    Attributes:
        rows: (terms,). cells, radix, strides: (members, terms). predicted: (members, terms). weights: (terms,).
        touch: for each group of factors the instances that touch a component, -1 for padding, (width, terms).
        values: the most joint values of a component.
    """

    rows: Int[Array, "... terms"]
    cells: Int[Array, "... members terms"]
    radix: Int[Array, "... members terms"]
    strides: Int[Array, "... members terms"]
    touch: tuple[Int[Array, "... width terms"], ...]
    predicted: Bool[Array, "... members terms"]
    weights: Float[Array, "... terms"]
    values: int = eqx.field(static=True)

    @property
    def blocks(self) -> Blocks:
        """The components as blocks, one per column."""
        return Blocks(self.values, self.cells[None], self.radix[None], self.strides[None], tuple(t[None] for t in self.touch))


class GapLoss(eqx.Module):
    """The loss of rows with missing cells, over every mask of theirs.

    Attributes:
        codes: (cells, rows), any value where a cell is missing.
    """

    graph: Graph
    codes: Codes
    gaps: tuple[Gaps, ...]

    def rows(self, params: Params) -> Float[Array, " rows"]:
        """The mean over masks of -log p(x_K | x_rest), missing cells summed out; 0 where no cell of K is observed."""
        zero = jnp.zeros(self.codes.shape[1], float_type())

        def chunk(total: Array, gap: Gaps) -> Array:
            losses = gap.weights * term_losses(self.graph, params, self.codes[:, gap.rows], gap)
            return total.at[gap.rows].add(jnp.where(gap.weights > 0, losses, 0.0))

        return self.over_chunks(chunk, zero)

    def row_gradients(self, gradient: Callable[[Callable[[Any], Array]], Array], params_of: Callable[[Any], Params], size: int) -> Array:
        """One gradient per row, shape (rows, size).

        Args:
            gradient: of a function of a flat vector, as a vector of `size` entries.
            params_of: parameters from such a vector.
            size: its entries.
        """

        def chunk(total: Array, gap: Gaps) -> Array:
            def one(term: Gaps) -> Array:
                alone = jax.tree.map(lambda a: a[..., None], term)
                codes = self.codes[:, alone.rows]
                return term.weights * gradient(lambda v: term_losses(self.graph, params_of(v), codes, alone)[0])

            found = jax.vmap(one, in_axes=-1)(gap)
            return total.at[gap.rows].add(jnp.where(gap.weights[:, None] > 0, found, 0.0))

        return self.over_chunks(chunk, jnp.zeros((self.codes.shape[1], size), float_type()))

    def over_chunks(self, chunk: Callable[[Any, Gaps], Any], total: Any) -> Any:
        """A running total over all chunks; the gradient computes each chunk anew, so that memory stays bounded."""
        for gaps in self.gaps:
            once = jax.checkpoint(chunk)  # pyright: ignore[reportPrivateImportUsage]
            total, _ = jax.lax.scan(lambda t, gap, once=once: (once(t, gap), None), total, gaps)
        return total


def term_losses(graph: Graph, params: Params, codes: Codes, gap: Gaps) -> Float[Array, " terms"]:
    """log of the sum over a component's values, minus that over the values which agree with its predicted cells."""
    blocks = gap.blocks
    scores = local_scores(graph, params, codes, blocks)
    safe = jnp.minimum(gap.cells, graph.n_cells - 1)
    here = codes[safe, jnp.arange(codes.shape[1])]
    agrees = ((blocks.codes == here[None, None]) | ~gap.predicted[None, None]).all(axis=2)
    observed, every = logsumexp(jnp.where(agrees, scores, -jnp.inf))[0], logsumexp(scores)[0]
    possible = jnp.isfinite(observed)
    return jnp.where(possible, jnp.where(possible, every, 0.0) - jnp.where(possible, observed, 0.0), jnp.inf)


def gap_arrays(graph: FactorGraph, terms: GapTerms) -> Gaps:
    """Terms on the device."""
    known, place = np.unique(terms.cells, axis=1, return_inverse=True)
    cells, radix, strides, *touch = (jnp.asarray(np.asarray(a, np.int32)[place.reshape(-1)].T) for a in block_arrays(graph, known.T))
    weights = jnp.asarray(terms.weights, dtype=float_type())
    return Gaps(jnp.asarray(terms.rows), cells, radix, strides, tuple(touch), jnp.asarray(terms.predicted), weights, terms.values)


def gap_loss(host: FactorGraph, graph: Graph, codes: np.ndarray, terms: tuple[GapTerms, ...], most_evaluations: int) -> GapLoss:
    """The loss of rows with gaps, in chunks of at most so many factor evaluations (and at least one term)."""
    out = []
    for t in terms:
        arrays = gap_arrays(host, t)
        width = sum(touch.shape[0] for touch in arrays.touch)
        size = int(min(max(1, most_evaluations // max(1, t.values * width)), len(t.rows)))
        pad = -len(t.rows) % size

        def chunks(a: Array, pad: int = pad, size: int = size) -> Array:
            padded = jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, pad)], mode="edge")
            return jnp.moveaxis(padded.reshape(*a.shape[:-1], -1, size), -2, 0)

        chunked = jax.tree.map(chunks, arrays)
        used = (jnp.arange(len(t.rows) + pad) < len(t.rows)).reshape(chunked.rows.shape)  # copies of the last term count nothing
        out.append(eqx.tree_at(lambda g: g.weights, chunked, jnp.where(used, chunked.weights, 0.0)))
    return GapLoss(graph, jnp.asarray(np.maximum(codes, 0)), tuple(out))


def log_marginal(gaps: GapLoss, params: Params) -> Float[Array, " rows"]:
    """The unnormalised log p of rows with missing cells: log of the sum over them of exp(log_potential).

    `gaps` holds one term for each component of missing cells. What its factors do not touch is that of a completed row; with the
    best values everywhere that is finite wherever any completion is.
    """
    graph = gaps.graph

    def chunk(total: tuple[Codes, Array], gap: Gaps) -> tuple[Codes, Array]:
        whole, more = total
        here = gaps.codes[:, gap.rows]
        scores = local_scores(graph, params, here, gap.blocks)
        best = jnp.argmax(scores, axis=1).astype(jnp.int32)
        top = jnp.take_along_axis(scores, best[:, None], axis=1)[0, 0]
        excess = jnp.where(jnp.isfinite(top), logsumexp(scores)[0] - jnp.where(jnp.isfinite(top), top, 0.0), -jnp.inf)
        filled = put_value(gap.blocks, here, best, jnp.zeros_like(best, bool))
        at = filled[jnp.minimum(gap.cells, graph.n_cells - 1), jnp.arange(filled.shape[1])]
        used = gap.weights > 0
        whole = whole.at[jnp.where(used, gap.cells, graph.n_cells), gap.rows].set(at, mode="drop")
        return whole, more.at[gap.rows].add(jnp.where(used, excess, 0.0))

    whole, more = gaps.over_chunks(chunk, (gaps.codes, jnp.zeros(gaps.codes.shape[1], float_type())))
    return log_potential(graph, params, whole) + more


def redraw_gaps(
    graph: Graph, params: Params, codes: Codes, cells: Int[Array, "steps members rows"], values: int, sweeps: int, key: Array
) -> Codes:
    """Redraw each row's missing cells from p(. | the rest), block by block: rows differ in their blocks.

    Args:
        graph: the factor graph.
        params: parameters.
        codes: (cells, rows).
        cells: the blocks of each row in turn, padded with the number of cells.
        values: the most joint values of a block.
        sweeps: how often all of them are redrawn.
        key: what the draws depend on.
    """
    steps = cells.shape[0]

    def step(state: Codes, number: Array) -> tuple[Codes, None]:
        blocks = drawn_blocks(graph, cells[number % steps][None], values)
        uniform = jax.random.uniform(jax.random.fold_in(key, number), (1, state.shape[1]))
        value, possible = pick_value(local_scores(graph, params, state, blocks), uniform)
        return put_value(blocks, state, value, ~possible), None

    return jax.lax.scan(step, codes, jnp.arange(sweeps * steps))[0]
