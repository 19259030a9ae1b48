"""A small joint law and what a network that holds its conditionals does, by enumeration: steps, losses, noise, stages.

A predictor takes what a network sees, one code for each cell with q where a cell is hidden, and gives p of every value of every cell,
shape (cells, q). Nothing here is batched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

Array = np.ndarray
Predictor = Callable[[Sequence[int]], Array]
Law = Sequence[tuple[frozenset[int], float]]  # blocks with their probabilities


def potts(n: int, q: int, seed: int, strength: float = 1.0) -> Array:
    """p of a Potts model with random fields and a random table for every pair, one axis for each cell."""
    rng = np.random.default_rng(seed)
    fields, pairs = rng.normal(size=(n, q)), strength * rng.normal(size=(n, n, q, q))
    weights = np.zeros((q,) * n)
    for x in itertools.product(range(q), repeat=n):
        weights[x] = sum(fields[i, x[i]] for i in range(n)) + sum(pairs[i, j, x[i], x[j]] for i in range(n) for j in range(i))
    p = np.exp(weights - weights.max())
    return p / p.sum()


def conditionals(p: Array, seen: Sequence[int]) -> Array:
    """p(x_i = v | the visible other cells) of every cell, the hidden ones summed out: shape (cells, values)."""
    n, q = p.ndim, p.shape[0]
    found = np.zeros((n, q))
    for i in range(n):
        left = p[tuple(slice(None) if j == i or seen[j] == q else int(seen[j]) for j in range(n))]
        hidden = [j for j in range(n) if j == i or seen[j] == q]
        own = left.sum(axis=tuple(a for a, j in enumerate(hidden) if j != i))
        found[i] = own / own.sum()
    return found


def states(n: int, q: int) -> list[tuple[int, ...]]:
    """Every configuration, the first cell slowest."""
    return list(itertools.product(range(q), repeat=n))


def hide(x: Sequence[int], k: Iterable[int], q: int) -> list[int]:
    """What is seen where the cells of K are hidden."""
    inside = set(k)
    return [q if i in inside else int(v) for i, v in enumerate(x)]


def step(predict: Predictor, n: int, q: int, k: Iterable[int]) -> Array:
    """The matrix of redrawing the cells of K at once, each from the prediction with all of K hidden."""
    every, cells = states(n, q), sorted(k)
    matrix = np.zeros((len(every), len(every)))
    for a, x in enumerate(every):
        table = predict(hide(x, cells, q))
        for values in itertools.product(range(q), repeat=len(cells)):
            y = list(x)
            for cell, v in zip(cells, values, strict=True):
                y[cell] = v
            matrix[a, every.index(tuple(y))] += np.prod([table[cell, v] for cell, v in zip(cells, values, strict=True)])
    return matrix


def mixed(predict: Predictor, n: int, q: int, law: Law) -> Array:
    """The matrix of K drawn from a law, then redrawn."""
    return sum((p * step(predict, n, q, k) for k, p in law), np.zeros((q**n, q**n)))


def least_confident(predict: Predictor, x: Sequence[int], q: int, count: int, cells: Iterable[int]) -> list[int]:
    """The cells whose present value has the lowest p given all others; of equal ones the first."""
    sure = {i: predict(hide(x, [i], q))[i, x[i]] for i in cells}
    return sorted(sorted(sure, key=lambda i: (sure[i], i))[:count])


def least_confident_step(predict: Predictor, n: int, q: int, count: int, cells: Sequence[int]) -> Array:
    """The matrix of redrawing at once the least confident cells of each state."""
    matrix = np.zeros((q**n, q**n))
    for a, x in enumerate(states(n, q)):
        matrix[a] = step(predict, n, q, least_confident(predict, x, q, count, cells))[a]
    return matrix


def subsets(cells: Sequence[int], size: int) -> Law:
    """Every subset of a size, or all cells where there are fewer."""
    blocks = list(itertools.combinations(cells, min(size, len(cells))))
    return [(frozenset(k), 1 / len(blocks)) for k in blocks]


def bernoulli(cells: Sequence[int], rate: float) -> Law:
    """Every cell on its own."""
    every = [frozenset(k) for size in range(len(cells) + 1) for k in itertools.combinations(cells, size)]
    return [(k, rate ** len(k) * (1 - rate) ** (len(cells) - len(k))) for k in every]


def any_rate(cells: Sequence[int]) -> Law:
    """Every cell on its own at a rate that is uniform on [0, 1]: all sizes are equally likely."""
    n = len(cells)
    return [(k, 1 / (n + 1) / len(list(itertools.combinations(cells, len(k))))) for k, _ in bernoulli(cells, 0.5)]


def block_loss(predict: Predictor, x: Sequence[int], k: Iterable[int], seen: Sequence[int]) -> float:
    """The sum over K of -log p(x_i | what is seen)."""
    table = predict(seen)
    return float(sum(-np.log(table[i, x[i]]) for i in k))


def loss(predict: Predictor, x: Sequence[int], q: int, law: Law) -> float:
    """The mean over K of the sum over K of -log p(x_i | x_rest, K), all of K hidden."""
    return sum(p * block_loss(predict, x, k, hide(x, k, q)) for k, p in law if p > 0)


def noisy_inputs(x: Sequence[int], k: Iterable[int], q: int, noise: tuple[float, float, float]) -> list[tuple[list[int], float]]:
    """Every input that noise (hide, uniform, keep) makes of the cells of K, with its probability."""
    hidden, uniform, keep = noise
    cells, found = sorted(k), []
    for kinds in itertools.product(range(q + 1), repeat=len(cells)):
        seen, p = list(x), 1.0
        for cell, kind in zip(cells, kinds, strict=True):
            seen[cell] = kind
            p *= hidden if kind == q else uniform / q + (keep if kind == x[cell] else 0.0)
        if p > 0:
            found.append((seen, p))
    return found


def noisy_loss(predict: Predictor, x: Sequence[int], q: int, law: Law, noise: tuple[float, float, float]) -> tuple[float, float]:
    """Mean and variance over K and the noise of the sum over K of -log p."""
    terms = [(w * p, block_loss(predict, x, k, seen)) for k, w in law if w > 0 for seen, p in noisy_inputs(x, k, q, noise)]
    mean = sum(p * v for p, v in terms)
    return mean, sum(p * (v - mean) ** 2 for p, v in terms)


def staged_loss(predict: Predictor, x: Sequence[int], q: int, k: Iterable[int], seen: Sequence[int], stages: int) -> float:
    """The mean over stages of the loss of K; each stage but the first sees the likeliest values of the one before in K."""
    cells, shown, total = sorted(k), list(seen), 0.0
    for _ in range(stages):
        table = predict(shown)
        total += sum(-np.log(table[i, x[i]]) for i in cells) / stages
        for i in cells:
            shown[i] = int(np.argmax(table[i]))
    return float(total)


def resampled_loss(predict: Predictor, x: Sequence[int], q: int, k: Iterable[int], seen: Sequence[int]) -> tuple[float, float]:
    """Mean and variance of the loss of two stages, the second of which sees values drawn from the first."""
    cells, table = sorted(k), predict(seen)
    first, terms = sum(-np.log(table[i, x[i]]) for i in cells), []
    for values in itertools.product(range(q), repeat=len(cells)):
        shown = list(seen)
        for i, v in zip(cells, values, strict=True):
            shown[i] = v
        p = np.prod([table[i, v] for i, v in zip(cells, values, strict=True)])
        terms.append((p, (first + block_loss(predict, x, cells, shown)) / 2))
    mean = sum(p * v for p, v in terms)
    return float(mean), float(sum(p * (v - mean) ** 2 for p, v in terms))
