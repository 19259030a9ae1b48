"""The exact transition matrix of a cluster update, from the probabilities of all clusters.

It serves small models.
"""

from __future__ import annotations

import numpy as np

from .._diagnostics import fail
from ..plan import ClusterPlan, entry_values

Array = np.ndarray
# The cost of a bond that is certain: its exponential is 0 in 64 bits, and sums of such costs are
# finite.
SURE = 1e3
# maximum number of pairs of a set of cells and a subset of it, times configurations
MOST_WORK = 4e9


def cluster_matrix(plan: ClusterPlan, states: Array, log_p: Array, params: dict[str, Array], beta: float) -> Array:
    """Return the transition matrix P(x, y) of a cluster update.

    P(x, y) is a sum over groups of exchanges, seeds and clusters K. A term is p(K | x) times the
    probability of the image y_K. Here p(K | x) is |K| / n times the probability that bonds connect
    K, times the probability that no bond joins K to other cells. The probability that bonds connect
    K is the same at every image of x_K. The image is therefore drawn in proportion to p(x) times
    the probability that no bond joins K to other cells.

    Args:
        plan: the plan of the update.
        states: every configuration, codes of shape (cells, configurations), the first cell slowest.
        log_p: the unnormalised log p of each configuration.
        params: parameters.
        beta: the power of p.

    Raises:
        GmlmError: E601 for too many clusters.
    """
    cells, sizes = plan.mask.cells, plan.graph.sizes.astype(np.int64)
    n, count = len(cells), states.shape[1]
    if 3.0**n * count * len(plan.groups) > MOST_WORK:
        message = f"the transition matrix lists all clusters of {n} cells in {count:,} configurations"
        raise fail("E601", message, plan.update.span, help="use a smaller model, or sample and look at the diagnostics")
    stride = np.append(np.cumprod(np.append(sizes[1:], 1)[::-1])[::-1], 0)[cells]
    joint = _joint(plan, params)
    first, second = np.searchsorted(cells, plan.mask.edges.T)
    matrix, here = np.zeros((count, count)), states[cells]
    source = np.arange(count)
    for group, weights, breaks in zip(plan.groups, plan.weights, plan.bonds.breaks(plan.groups), strict=True):
        place = plan.bonds.kind[:, None], here[first], here[second]  # axes: edges, configurations
        costs = np.where(breaks[place], SURE, beta * (joint - joint[:, group].min(axis=1))[place])
        inner = _inner(costs, first, second, n)
        connected, places = _connected(inner), np.arange(n)
        for k in range(1, 2**n):
            inside = ((k >> places) & 1).astype(bool)
            if not connected[k].any():
                continue
            cut = costs[inside[first] != inside[second]].sum(axis=0)
            drawn = inside.sum() / n * connected[k] * np.exp(-cut)
            # axes: images, configurations
            target = source + ((group[:, here[inside]] - here[inside]) * stride[inside][:, None]).sum(axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                scores = beta * (log_p[target] - log_p) - cut[target] + np.log(weights)[:, None]
            scores = np.where(log_p == -np.inf, np.where(target == source, 0.0, -np.inf), scores)
            images = np.exp(scores - scores.max(axis=0))
            np.add.at(matrix, (np.broadcast_to(source, target.shape), target), drawn * images / images.sum(axis=0))
    return matrix / len(plan.groups)


def _joint(plan: ClusterPlan, params: dict[str, Array]) -> Array:
    """Return the tables of edges less their means over either cell, (kinds, q, q)."""
    values = [entry_values(plan.graph.groups[t.group], t, params).ravel() for t in plan.bonds.tables]
    found = plan.bonds.at(np.concatenate([*values, np.zeros(0)]))
    return found - found.mean(axis=2, keepdims=True) - found.mean(axis=1, keepdims=True) + found.mean(axis=(1, 2), keepdims=True)


def _inner(costs: Array, first: Array, second: Array, n: int) -> Array:
    """Return the sum of the costs of edges inside each set of cells, (sets, configurations).

    Bit i of a set's number stands for cell i.
    """
    out = np.zeros((2**n, costs.shape[1]))
    number = np.arange(2**n)
    for cost, i, j in zip(costs, first, second, strict=True):
        out[((number >> i) & (number >> j) & 1).astype(bool)] += cost
    return out


def _connected(inner: Array) -> Array:
    """Return the probability that the bonds inside each set connect it.

    It is 1 minus the probability that the cluster of the set's first cell is a proper subset.
    """
    out = np.ones_like(inner)
    for whole in range(1, len(inner)):
        lowest = whole & -whole
        others = whole ^ lowest
        part = (others - 1) & others if others else -1
        while others:  # every proper subset of the others, together with the first cell
            inside = part | lowest
            out[whole] -= out[inside] * np.exp(inner[inside] + inner[whole ^ inside] - inner[whole])
            if part == 0:
                break
            part = (part - 1) & others
    return np.maximum(out, 0.0)
