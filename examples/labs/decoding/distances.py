"""How far a decoder's draws are from p, where no table lists them: estimates by log p, bounds by orders, and bounds by draws."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

Array = np.ndarray
Predictor = Callable[[Array, Array], Array]  # rows (rows, cells) and which cells are hidden, to log p (rows, cells, values)


class Estimate(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Array) -> Estimate:
        """The mean of independent values."""
        return cls(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))


def from_ratios(log_ratios: Array) -> tuple[Estimate, Estimate]:
    """KL(p || decoder) and the total variation, from log p - log p_decoder of exact draws of p.

    The total variation is E_p max(0, 1 - p_decoder / p): the ratio is an importance weight.
    """
    return Estimate.of(log_ratios), Estimate.of(np.maximum(0.0, -np.expm1(-log_ratios)))


def counts_of(n: int, passes: int, schedule: str) -> list[int]:
    """The number of cells that each pass settles; passes that settle none are left out."""
    t = np.arange(passes + 1)
    left = n * (passes - t) / passes if schedule == "linear" else n * np.cos(np.pi * t / (2 * passes))
    left = np.floor(left + 1e-9).astype(int)
    return [int(k) for k in -np.diff(left) if k]


def orders_of(rng: np.random.Generator, rows: int, blocks: Sequence[int], counts: Sequence[int]) -> Array:
    """The pass that settles each cell, (rows, cells), by a random order within blocks that are decoded from the left.

    Args:
        rng: where orders are drawn from.
        rows: how many orders.
        blocks: the sizes of the blocks.
        counts: how many cells each pass settles; a pass lies in one block.
    """
    passes = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum([0, *blocks])
    return np.concatenate([rng.permuted(np.tile(passes[a:b], (rows, 1)), axis=1) for a, b in itertools.pairwise(starts)], axis=1)


def log_p_of_orders(predict: Predictor, x: Array, passes: Array) -> Array:
    """log p of each row under a decoder whose pass t settles the cells of pass t, (rows,)."""
    total = np.zeros(len(x))
    for t in range(passes.max() + 1):
        logs = np.take_along_axis(predict(x, passes >= t), x[..., None], axis=2)[..., 0]
        total += np.where(passes == t, logs, 0.0).sum(axis=1)
    return total


def mixed(log_p: Array) -> Array:
    """The logarithm of the mean over orders of the probability of each row; `log_p` is (orders, rows)."""
    most = log_p.max(axis=0)
    return most + np.log(np.exp(log_p - most).mean(axis=0))


def features(x: Array, log_p: Array) -> Array:
    """Numbers that tell rows apart: log p, equal neighbours at some distances, changes of values, and their squares."""
    n = x.shape[1]
    same = [(x[:, d:] == x[:, :-d]).mean(axis=1) for d in (1, 2, 4, 8) if d < n]
    counts = np.stack([(x == v).mean(axis=1) for v in np.unique(x)], axis=1)
    found = np.column_stack([log_p, *same, counts.max(axis=1), (counts**2).sum(axis=1)])
    return np.column_stack([found, found**2])


def told_apart(ours: Array, theirs: Array) -> Estimate:
    """A lower bound of the total variation of two distributions, from draws of each.

    The first half of the draws chooses an event, by a linear discriminant of the features with the threshold that tells this half apart
    best. The other half measures how much its probability differs: no event differs by more than the total variation.

    Args:
        ours, theirs: features of draws, (draws, features).
    """
    half = len(ours) // 2, len(theirs) // 2
    one, two = ours[: half[0]], theirs[: half[1]]
    scale = np.concatenate([one, two]).std(axis=0) + 1e-12
    spread = np.cov((one / scale).T) + np.cov((two / scale).T) + 1e-6 * np.eye(one.shape[1])
    direction = np.linalg.solve(spread, (one.mean(axis=0) - two.mean(axis=0)) / scale) / scale
    values = np.sort(np.concatenate([one @ direction, two @ direction]))
    shares = [np.searchsorted(np.sort(k @ direction), values, side="right") / len(k) for k in (one, two)]
    threshold = values[np.argmax(shares[1] - shares[0])]
    above = [(k @ direction > threshold).astype(float) for k in (ours[half[0] :], theirs[half[1] :])]
    error = np.sqrt(sum(k.mean() * (1 - k.mean()) / len(k) for k in above))
    return Estimate(float(above[0].mean() - above[1].mean()), float(error))


def remasked_law(p: Array, shares: Sequence[float], again: Callable[[float, float], float]) -> Array:
    """The exact distribution of a decoder whose cells settle and are hidden again independently, by products over cells.

    Args:
        p: the distribution of rows, a table with an axis of q values for each cell, positive everywhere.
        shares: the mean share of settled cells after each pass, from 0 to 1.
        again: the probability that a settled cell is hidden again, from the share before the pass and the share after it.

    Returns:
        The probabilities of rows, of the shape of `p`.

    Reference: Wang et al. 2025, Section 3.
    """
    n, q = p.ndim, p.shape[0]
    whole = p  # with one more entry on each axis: a hidden cell, over which p is summed
    for axis in range(n):
        whole = np.concatenate([whole, whole.sum(axis=axis, keepdims=True)], axis=axis)
    seen = np.stack(np.unravel_index(np.arange(whole.size), whole.shape), axis=1)
    place = (q + 1) ** np.arange(n - 1, -1, -1)
    settled = seen < q
    conditional = np.zeros((whole.size, n, q))
    for i in range(n):
        for v in range(q):
            at = np.arange(whole.size) - (seen[:, i] - v) * place[i]
            conditional[:, i, v] = whole.ravel()[at] / whole.ravel()
    mass = np.zeros(whole.size)
    mass[-1] = 1.0
    for before, after in itertools.pairwise(shares):
        hides = again(before, after) if before > 0 else 0.0
        settles = (after - (1 - hides) * before) / (1 - before)
        steps = np.zeros((whole.size, n, q + 1))
        steps[..., :q] = settles * conditional
        steps[..., q] = 1 - settles
        own = np.eye(q + 1)[seen]
        steps = np.where(settled[..., None], (1 - hides) * own + hides * np.eye(q + 1)[q], steps)
        new = np.zeros(whole.size)
        for some in np.array_split(np.flatnonzero(mass > 0), max(1, (mass > 0).sum() // 256)):
            product = mass[some, None]
            for i in range(n):
                product = (product[:, :, None] * steps[some, i][:, None]).reshape(len(some), -1)
            new += product.sum(axis=0)
        mass = new
    return mass.reshape(whole.shape)[(slice(q),) * n]
