"""Strong clusters of cells by exact local analysis.

In a strong cluster, single cells hardly move on their own. The influence of cell j on cell i is the
largest change of p(x_i | rest) in total variation when x_j alone changes (Dobrushin). It is exact
for given values of the rest, and is maximised over many such values. Cells joined by influences
above a threshold form a cluster. Given probable values of the rest, the Poincare constant of
single-cell moves inside a cluster is computed exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from .. import derive
from ..derive import bounded_jit, fixed_blocks, graph_arrays
from ..graph import FactorGraph, Lowered, joint_count
from ._block_dynamics import BlockDynamics
from ._configurations import Configurations
from ._reversible import reversible_gap
from .limits import INFLUENCE_RESTS, MOST_CLUSTER_VALUES, MOST_PARTITIONS, THRESHOLDS

Array = np.ndarray


@dataclass(frozen=True)
class Clusters:
    """Partitions into clusters of at least two cells, with a description of each.

    The partition in which single cells are slowest comes first.
    """

    partitions: tuple[tuple[Array, ...], ...]
    words: tuple[str, ...]


def strong_clusters(lowered: Lowered, params: Mapping[str, jax.Array], codes: Array, edges: Array) -> Clusters:
    """Return clusters of cells of `var`s; 64-bit types must be enabled.

    Args:
        lowered: the model, with its given data.
        params: parameters.
        codes: probable configurations, shape (cells, rows), with latents.
        edges: pairs of cells that share a factor.
    """
    host = lowered.graph
    if not len(edges):
        return Clusters((), ())
    strength = influences(host, params, _rests(host, codes), edges)
    found: list[tuple[Array, ...]] = []
    for threshold in THRESHOLDS:
        blocks = _components(host, edges[strength >= threshold])
        if blocks and not any(_same(blocks, other) for other in found):
            found.append(blocks)
    judged = [(blocks, *_slowest(lowered, params, codes[:, :1], blocks)) for blocks in found]
    kept = sorted(judged, key=lambda j: -j[1])[:MOST_PARTITIONS]
    return Clusters(tuple(blocks for blocks, _, _ in kept), tuple(words for _, _, words in kept))


def _same(a: tuple[Array, ...], b: tuple[Array, ...]) -> bool:
    return [x.tolist() for x in a] == [x.tolist() for x in b]


def _rests(host: FactorGraph, codes: Array) -> Array:
    """Return values of the rest, half of them probable configurations and half uniform ones.

    If all other cells are settled, no cell has an influence.
    """
    rng = np.random.default_rng(0)
    uniform = (rng.random((host.n_cells, INFLUENCE_RESTS // 2)) * host.sizes[:, None]).astype(np.int32)
    return np.concatenate([codes[:, np.arange(INFLUENCE_RESTS // 2) % codes.shape[1]], uniform], axis=1)


def influences(host: FactorGraph, params: Mapping[str, jax.Array], rests: Array, edges: Array) -> Array:
    """Return for each pair the larger of its two influences, over the possible values of the rest.

    Args:
        host: the factor graph.
        params: parameters.
        rests: values of the rest, (cells, rows).
        edges: pairs of cells.

    Returns:
        Array of shape (pairs,), with numbers between 0 and 1.
    """
    blocks = fixed_blocks(host, edges.astype(np.int32))
    # shape (pairs, values, rows)
    scores = np.asarray(_scores(graph_arrays(host), dict(params), jnp.asarray(rests), blocks))
    out = np.zeros(len(edges))
    for k, (i, j) in enumerate(edges):
        a, b = int(host.sizes[i]), int(host.sizes[j])
        table = scores[k, : a * b].reshape(a, b, -1)
        with np.errstate(invalid="ignore"):
            p = np.exp(table - table.max(axis=(0, 1)))
            p = np.nan_to_num(p)
        for t in (p, p.swapaxes(0, 1)):
            mass = t.sum(axis=0)
            # distribution of one cell for each value of the other
            law = np.where(mass > 0, t / np.maximum(mass, 1e-300), np.nan)
            apart = 0.5 * np.abs(law[:, :, None] - law[:, None]).sum(axis=0)
            out[k] = max(out[k], float(np.nan_to_num(apart).max(initial=0.0)))
    return out


@bounded_jit
def _scores(graph: derive.Graph, params: dict[str, jax.Array], codes: jax.Array, blocks: derive.Blocks) -> jax.Array:
    return derive.local_scores(graph, params, codes, blocks)


def _components(host: FactorGraph, edges: Array) -> tuple[Array, ...]:
    """Return cells joined by edges, in clusters that can be enumerated.

    Larger clusters are left out.
    """
    links = scipy.sparse.coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(host.n_cells, host.n_cells))
    _, label = connected_components(links, directed=False)
    parts = [np.flatnonzero(label == c) for c in np.unique(label[edges.ravel()])] if len(edges) else []
    return tuple(p for p in parts if joint_count(host.sizes[p]) <= MOST_CLUSTER_VALUES)


def _slowest(lowered: Lowered, params: Mapping[str, jax.Array], codes: Array, blocks: tuple[Array, ...]) -> tuple[float, str]:
    """Return the largest Poincare constant of single cells inside a cluster, and a description."""
    constants = [local_constant(lowered, params, codes, cells) for cells in blocks]
    worst = int(np.argmax(constants))
    names = ", ".join(lowered.graph.cell_name(int(c)) for c in blocks[worst][:6]) + ", .." * (len(blocks[worst]) > 6)
    words = f"single cells inside {{{names}}} have Poincare constant {constants[worst]:.3g}, given a likely rest"
    return constants[worst], words


def local_constant(lowered: Lowered, params: Mapping[str, jax.Array], codes: Array, cells: Array) -> float:
    """Return the Poincare constant of moves of single cells inside a cluster, exactly.

    Args:
        lowered: the model, with its given data.
        params: parameters.
        codes: one configuration, (cells, 1), at which the other cells are fixed.
        cells: the cells of the cluster.
    """
    host = lowered.graph
    block = fixed_blocks(host, cells[None].astype(np.int32))
    scores = np.asarray(_scores(graph_arrays(host), dict(params), jnp.asarray(codes), block))[0, :, 0]
    sizes = tuple(host.sizes[cells].tolist())
    scores = scores[: int(np.prod(sizes))]
    top = scores.max()
    if not np.isfinite(top):
        return 1.0
    log_p = (scores - top - np.log(np.exp(scores - top).sum())).reshape(sizes)
    space = Configurations(lowered, params, cells, codes, log_p)
    gap, _ = reversible_gap(BlockDynamics(space, [(k,) for k in range(len(cells))], [np.asarray(1 / len(cells))] * len(cells)))
    return np.inf if gap == 0 else 1 / gap
