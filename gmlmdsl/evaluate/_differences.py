"""Differences of local statistics between observed and possible values.

These differences decide whether the objective has a minimiser.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from ..derive import Blocks, TabledBlocks, bounded_jit
from ._colouring import Colouring
from ._objective import Objective
from ._parameters import unflatten
from ._second_order import statistics

Array = np.ndarray


def differences(objective: Objective, vector: jax.Array, colours: Colouring) -> Iterator[tuple[Array, Array]]:
    """Yield for each block its parameters, and the distinct differences phi(x) - phi(a).

    The differences are rows, over data rows x and values a of the block. The parameters are those
    that the block depends on.
    """
    keep = objective.host_weights > 0
    codes = np.unique(objective.host_codes[:, keep], axis=1)
    loss = objective.exact_loss
    for k, (blocks, seen) in enumerate(zip(loss.blocks, colours.seen, strict=True)):
        for b in range(blocks.cells.shape[0]):
            one = jax.tree.map(lambda a, b=b: a[b : b + 1], blocks)
            # Rows that do not observe a cell of the block are left out.
            held = codes[:, (codes[cells_of(one, loss.graph.n_cells)] >= 0).any(axis=0)]
            _, first = np.unique(held[neighbourhood(loss.graph, one)], axis=1, return_index=True)
            mine = seen[b] < vector.shape[0]
            tabled = loss.tabled[k]
            if not len(first):
                continue
            if tabled is not None and loss.is_plain[k]:
                possible, found, at = _of_tables(tabled, colours, mine, b, held[:, first])
            else:
                possible, found, at = _of_trees(objective, one, held, first, vector, colours)
                found = found[mine]
            gaps = found[:, at, np.arange(len(first))][:, None] - found  # colours, values, rows
            other = possible & possible[at, np.arange(len(first))] & (np.arange(found.shape[1])[:, None] != at)
            rows = np.round(gaps[:, other].T, 10)
            yield seen[b][mine], np.unique(rows[(rows != 0).any(axis=1)], axis=0)


def _of_tables(tabled: TabledBlocks, colours: Colouring, mine: Array, b: int, codes: Array) -> tuple[Array, Array, Array]:
    """Return the possible values, phi, and the observed value, of one block and some rows.

    phi is of the colours in which the block depends on a parameter.
    """
    assert colours.slopes is not None
    slopes = colours.slopes[mine]
    found = slopes[:, np.asarray(tabled.inside[b])].sum(axis=1)[:, :, None]  # colours, values, rows
    padded = np.concatenate([codes, np.zeros_like(codes[:1])])
    for c in tabled.contexts:
        which = np.arange(c.cells.shape[0]) if c.of is None else np.asarray(c.of)[b]
        members = padded[np.asarray(c.cells)[which]]
        # shape (columns, rows)
        value = (members * np.asarray(c.strides)[which][:, :, None]).sum(axis=1)
        value = np.where((members < 0).any(axis=1), c.places.shape[-1] - 1, value)
        places = np.asarray(c.places[b])  # shape (several, values, columns, width)
        for column in np.flatnonzero((places < slopes.shape[1] - 1).any(axis=(0, 1, 3))):
            found = found + slopes[:, places[:, :, column]].sum(axis=1)[:, :, value[column]]
    block = jax.tree.map(lambda a: np.asarray(a[b]), (tabled.blocks.cells, tabled.blocks.strides, tabled.blocks.radix))
    cells, strides, radix = (a[:, 0] for a in block)
    at = np.where((cells < len(codes))[:, None], padded[cells] * strides[:, None], 0).sum(axis=0)
    found = np.broadcast_to(found, (*found.shape[:2], codes.shape[1]))
    possible = np.arange(found.shape[1])[:, None] < radix.prod()
    return np.broadcast_to(possible, found.shape[1:]), found, at


def _of_trees(
    objective: Objective, one: Blocks, codes: Array, first: Array, vector: jax.Array, colours: Colouring
) -> tuple[Array, Array, Array]:
    """Return the possible values, phi of all colours, and the observed value, by trees."""
    # The number of rows is padded, so that few shapes are compiled.
    padded = np.resize(first, max(32, 1 << (len(first) - 1).bit_length()))
    found = _block_statistics(objective, one, jnp.asarray(codes[:, padded]), vector, jnp.asarray(colours.directions))
    alive, phi, here = (np.asarray(a)[..., : len(first)] for a in found)
    return alive[0], phi[:, 0], here[0]


@bounded_jit
def _block_statistics(
    objective: Objective, block: Blocks, codes: jax.Array, vector: jax.Array, directions: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the possible values, phi, and the observed value.

    Under a data-dependent mask a value must be possible given K too.
    """
    loss = objective.loss
    scores, phi = statistics(objective, block, codes, vector, directions)
    if loss.probabilities is None:  # type: ignore[union-attr]
        scores = scores + loss.correction(unflatten(objective.frame.host, vector), codes, block)  # type: ignore[union-attr]
    return jnp.isfinite(scores), phi, loss.observed(codes, block)  # type: ignore[union-attr]


def cells_of(block: Blocks, n_cells: int) -> Array:
    """Return the cells of one block."""
    cells = np.asarray(block.cells).ravel()
    return cells[cells < n_cells]


def neighbourhood(graph: object, block: Blocks) -> Array:
    """Return the cells of the factors that touch a block."""
    cells = [cells_of(block, graph.n_cells)]  # type: ignore[attr-defined]
    for group, touch in zip(graph.groups, block.touch, strict=False):  # type: ignore[attr-defined]
        instances = np.asarray(touch).ravel()
        cells.append(np.asarray(group.cells)[instances[instances >= 0]].ravel())
    found = np.unique(np.concatenate(cells))
    return found[found < graph.n_cells]  # type: ignore[attr-defined]
