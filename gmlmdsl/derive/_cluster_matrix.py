"""The exact transition matrix of a cluster update, by the probabilities of all clusters of small models."""

from __future__ import annotations

import numpy as np

from .._diagnostics import fail
from ..plan import ClusterPlan, entry_values

Array = np.ndarray
# the cost of a bond that always stands: its exponential is 0 in 64 bits, and sums of them are
# numbers
SURE = 1e3
MOST_WORK = 4e9  # pairs of a set of cells and a part of it, times configurations


def cluster_matrix(plan: ClusterPlan, states: Array, log_p: Array, params: dict[str, Array], beta: float) -> Array:
    """P(x, y) = sum over groups of exchanges, seeds and clusters K of p(K | x) times the probability of the image y_K.

    p(K | x) = |K| / n times the probability that bonds connect K, times that of no bond between K
    and the others. The first of the two is the same at every image of x_K, so that the image is
    drawn in proportion to p(x) times the second.

    Args:
        plan: of the update.
        states: every configuration, codes of shape (cells, configurations), the first cell slowest.
        log_p: of each, unnormalised.
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
        place = plan.bonds.kind[:, None], here[first], here[second]  # edges, configurations
        costs = np.where(breaks[place], SURE, beta * (joint - joint[:, group].min(axis=1))[place])
        inner = _inner(costs, first, second, n)
        connected, places = _connected(inner), np.arange(n)
        for k in range(1, 2**n):
            inside = ((k >> places) & 1).astype(bool)
            if not connected[k].any():
                continue
            cut = costs[inside[first] != inside[second]].sum(axis=0)
            drawn = inside.sum() / n * connected[k] * np.exp(-cut)
            target = source + ((group[:, here[inside]] - here[inside]) * stride[inside][:, None]).sum(axis=1)  # images, configurations
            with np.errstate(divide="ignore", invalid="ignore"):
                scores = beta * (log_p[target] - log_p) - cut[target] + np.log(weights)[:, None]
            scores = np.where(log_p == -np.inf, np.where(target == source, 0.0, -np.inf), scores)
            images = np.exp(scores - scores.max(axis=0))
            np.add.at(matrix, (np.broadcast_to(source, target.shape), target), drawn * images / images.sum(axis=0))
    return matrix / len(plan.groups)


def _joint(plan: ClusterPlan, params: dict[str, Array]) -> Array:
    """The tables of edges less their means over either cell, (kinds, q, q)."""
    values = [entry_values(plan.graph.groups[t.group], t, params).ravel() for t in plan.bonds.tables]
    found = plan.bonds.at(np.concatenate([*values, np.zeros(0)]))
    return found - found.mean(axis=2, keepdims=True) - found.mean(axis=1, keepdims=True) + found.mean(axis=(1, 2), keepdims=True)


def _inner(costs: Array, first: Array, second: Array, n: int) -> Array:
    """The sum of the costs of edges inside each set of cells, (sets, configurations); bit i of a set's number is cell i."""
    out = np.zeros((2**n, costs.shape[1]))
    number = np.arange(2**n)
    for cost, i, j in zip(costs, first, second, strict=True):
        out[((number >> i) & (number >> j) & 1).astype(bool)] += cost
    return out


def _connected(inner: Array) -> Array:
    """The probability that bonds inside each set connect it: 1 less that its first cell's cluster is a part of it."""
    out = np.ones_like(inner)
    for whole in range(1, len(inner)):
        lowest = whole & -whole
        others = whole ^ lowest
        part = (others - 1) & others if others else -1
        while others:  # every part of the others but the whole of them, with the lowest cell
            inside = part | lowest
            out[whole] -= out[inside] * np.exp(inner[inside] + inner[whole ^ inside] - inner[whole])
            if part == 0:
                break
            part = (part - 1) & others
    return np.maximum(out, 0.0)
