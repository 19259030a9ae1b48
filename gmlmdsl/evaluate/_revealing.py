"""Mask leakage: whether an adaptive mask reveals the values of the cells that it hides.

If K determines the values of its cells, nothing is learnt and no cell moves. An adaptive
(data-dependent) mask can cover every cell and still break ergodicity. The Poincare constant of its
block dynamics is then infinite, and the loss does not depend on some parameters (Li et al. 2024,
Section 3 and Definition 8).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # submodules of SciPy load at first use

from ..derive import ExactLoss, all_states, bounded_jit, local_scores
from ..graph import joint_count
from ._objective import Objective
from .limits import MOST_LINKED_STATES, MOST_LINKS

Array = np.ndarray


@bounded_jit
def _corrected(loss: ExactLoss, params: dict[str, jax.Array], codes: jax.Array, k: int) -> jax.Array:
    """Return whether each value of each block is possible given the rest and K.

    The array has the shape (blocks, values, rows).
    """
    blocks = loss.blocks[k]
    scores = local_scores(loss.graph, params, codes, blocks)
    return jnp.isfinite(scores + loss.shares(params, codes, k)[1])  # pyright: ignore[reportOperatorIssue]


def revealed_cells(objective: Objective, params: dict[str, jax.Array]) -> Array:
    """Return the cells that some mask draws, but whose value every such mask reveals.

    A cell counts only if its value is revealed at all rows.
    """
    loss = objective.exact_loss_or_none
    # Without groups of the model's own cells the distribution of K depends on given data alone.
    n = objective.frame.host.n_random
    if loss is None or loss.law is None or not any((np.asarray(g.cells) < n).any() for g in loss.law.groups()):
        return np.zeros(0, np.int64)
    keep = objective.host_weights > 0
    distinct = np.unique(objective.host_codes[:, keep], axis=1)[:, :1024]
    # The number of rows is padded, so that few shapes are compiled.
    few = max(32, 1 << (distinct.shape[1] - 1).bit_length())
    codes = jnp.asarray(distinct[:, np.arange(few) % distinct.shape[1]])
    drawn, free = np.zeros(loss.graph.n_cells, bool), np.zeros(loss.graph.n_cells, bool)
    for k, blocks in enumerate(loss.blocks):
        possible = np.asarray(_corrected(loss, params, codes, k))
        values, cells = np.asarray(blocks.codes)[..., 0], np.asarray(blocks.cells)[..., 0]
        for m in range(cells.shape[1]):
            inside = cells[:, m] < loss.graph.n_cells
            some = [(possible & (values[:, :, m] == c)[..., None]).any(axis=1) for c in range(int(values[:, :, m].max()) + 1)]
            two = (np.sum(some, axis=0) >= 2).any(axis=1)
            drawn[cells[inside, m]] = True
            free[cells[inside & two, m]] = True
    return np.flatnonzero(drawn & ~free)


def is_reducible(objective: Objective, params: dict[str, jax.Array]) -> bool | None:
    """Return whether the mask's block dynamics are reducible on the support of a small model.

    The result is None if the model is too large to decide this, or has given variables.
    """
    from scipy.sparse.csgraph import connected_components

    loss, host = objective.exact_loss_or_none, objective.frame.host
    if loss is None or loss.law is None or host.given:
        return None  # with given variables each row has its own chain
    count = joint_count(host.sizes)
    links = count * sum(b.cells.shape[0] for b in loss.blocks)
    if count > MOST_LINKED_STATES or links > MOST_LINKS:
        return None
    states = all_states(host)
    sizes = host.sizes.astype(np.int64)
    place = np.append(np.cumprod(np.append(sizes[1:], 1)[::-1])[::-1], 0)
    number, left, right, fibres = place[:-1] @ states, [], [], 0
    for k, blocks in enumerate(loss.blocks):
        possible = np.asarray(_corrected(loss, params, jnp.asarray(states), k))
        cells, strides = np.asarray(blocks.cells)[..., 0], np.asarray(blocks.strides)[..., 0]
        # shape (blocks, members, states)
        held = np.append(states, np.zeros((1, states.shape[1]), states.dtype), axis=0)[cells]
        here = np.where(cells[..., None] < host.n_cells, held * strides[..., None], 0).sum(axis=1)
        alive = np.take_along_axis(possible, here[:, None], axis=1)[:, 0]
        base = number[None] - (place[cells][..., None] * held).sum(axis=1) + fibres + states.shape[1] * np.arange(len(cells))[:, None]
        fibres += states.shape[1] * len(cells)
        left.append(np.broadcast_to(number, alive.shape)[alive])
        right.append(base[alive])
    ends = np.concatenate(left), np.unique(np.concatenate(right), return_inverse=True)[1] + states.shape[1]
    size = int(ends[1].max(initial=0)) + 1
    links = scipy.sparse.coo_matrix((np.ones(len(ends[0])), ends), shape=(size, size))
    _, parts = connected_components(links, directed=False)
    from ..derive.compiled import log_potential

    support = np.asarray(log_potential(loss.graph, params, jnp.asarray(states))) > -np.inf
    return len(np.unique(parts[: states.shape[1]][support])) > 1
