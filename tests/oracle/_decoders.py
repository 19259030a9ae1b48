"""What decoders draw, and what bounds their likelihood, by enumeration of every path: `docs/explanation/refinement.md` in plain NumPy.

A denoiser is a function of what is seen, q where a cell is hidden, to the probabilities of each cell's values. A pass is a function of the
hidden cells, the table of probabilities, and how sure each settled cell was, to every way to settle some and to hide some again.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray
Predictor = Callable[[Sequence[int]], Array]
Ways = list[tuple[float, frozenset[int], frozenset[int]]]  # probability, cells that settle, settled cells that are hidden again
Pass = Callable[[frozenset[int], Array, tuple[float, ...]], Ways]


def exact_denoiser(p: Array) -> Predictor:
    """p(x_i | what is seen) of a table; where that is impossible every value alike."""
    q = max(p.shape)

    def predict(seen: Sequence[int]) -> Array:
        sub = p[tuple(slice(None) if v == q else slice(v, v + 1) for v in seen)]
        out = np.zeros((p.ndim, q))
        for i, n in enumerate(p.shape):
            axis = sub.sum(axis=tuple(j for j in range(p.ndim) if j != i))
            values = np.arange(n) if seen[i] == q else np.array([seen[i]])
            out[i, values] = axis / sub.sum() if sub.sum() > 0 else 1 / n if seen[i] == q else 1.0
            if sub.sum() == 0:
                out[i, :n] = 1 / n
        return out

    return predict


def law(predict: Predictor, sizes: Sequence[int], passes: Sequence[Pass]) -> Array:
    """The distribution of the rows that passes leave."""
    n, q = len(sizes), max(sizes)
    rows: dict[tuple, float] = {((q,) * n, (0.0,) * n): 1.0}
    tables: dict[tuple[int, ...], Array] = {}
    for one in passes:
        after: dict[tuple, float] = {}
        for (x, sure), mass in rows.items():
            table = tables.setdefault(x, np.asarray(predict(x)))
            hidden = frozenset(i for i in range(n) if x[i] == q)
            for w, settled, again in one(hidden, table, sure):
                cells = sorted(settled)
                for values in itertools.product(*(range(sizes[i]) for i in cells)):
                    p = mass * w * math.prod(table[i, v] for i, v in zip(cells, values, strict=True))
                    if p == 0:
                        continue
                    y, s = list(x), list(sure)
                    for i, v in zip(cells, values, strict=True):
                        y[i], s[i] = v, float(table[i, v])
                    for i in again:
                        y[i], s[i] = q, 0.0
                    key = tuple(y), tuple(round(v, 14) for v in s)
                    after[key] = after.get(key, 0.0) + p
        rows = after
    out = np.zeros(sizes)
    for (x, _), mass in rows.items():
        out[x] += mass
    return out


def planned_law(predict: Predictor, judge: Predictor | None, sizes: Sequence[int], left: Sequence[int], eta: float) -> Array:
    """Path planning: each pass draws every hidden cell; of all cells so many of the lowest score are then hidden, of equal ones the last.

    A cell that was hidden scores log p of its value, a settled one eta times that of its own, by the pass itself or by `judge` of the row.
    """
    n, q = len(sizes), max(sizes)
    rows: dict[tuple[int, ...], float] = {(q,) * n: 1.0}
    for stay in left:
        after: dict[tuple[int, ...], float] = {}
        for x, mass in rows.items():
            table, hidden = np.asarray(predict(x)), [i for i in range(n) if x[i] == q]
            for values in itertools.product(*(range(sizes[i]) for i in hidden)):
                y = list(x)
                for i, v in zip(hidden, values, strict=True):
                    y[i] = v
                w = mass * math.prod(table[i, y[i]] for i in hidden)
                if w == 0:
                    continue
                settled = table if judge is None else np.asarray(judge(y))
                with np.errstate(divide="ignore"):
                    own = [np.log(table[i, y[i]]) if i in hidden else eta * max(-1e9, np.log(settled[i, y[i]])) for i in range(n)]
                score = [max(-1e9, s) for s in own]
                order = sorted(range(n), key=lambda i: (-round(score[i] / 1e-5), i))
                for i in order[n - stay :]:
                    y[i] = q
                after[tuple(y)] = after.get(tuple(y), 0.0) + w
        rows = after
    out = np.zeros(sizes)
    for x, mass in rows.items():
        out[x] += mass
    return out


def blocks(n: int, block: int, counts: Callable[[int], Sequence[int]]) -> list[tuple[frozenset[int], int]]:
    """The block of each pass, and how many of its cells settle then."""
    pools = [frozenset(range(first, min(first + block, n))) for first in range(0, n, block)]
    return [(pool, count) for pool in pools for count in counts(len(pool))]


def linear(steps: int) -> Callable[[int], list[int]]:
    """How many cells each pass of a pool settles."""
    return lambda m: [m * (steps - t + 1) // steps - m * (steps - t) // steps for t in range(1, steps + 1)]


def cosine(steps: int) -> Callable[[int], list[int]]:
    def counts(m: int) -> list[int]:
        left = [math.floor(m * math.cos(math.pi * t / (2 * steps)) + 1e-9) for t in range(steps + 1)]
        return [a - b for a, b in itertools.pairwise(left)]

    return counts


def at_random(plan: Sequence[tuple[frozenset[int], int]]) -> list[Pass]:
    """Any cells of the block."""

    def one(pool: frozenset[int], count: int) -> Pass:
        def ways(hidden: frozenset[int], table: Array, sure: tuple[float, ...]) -> Ways:
            sets = list(itertools.combinations(sorted(hidden & pool), count))
            return [(1 / len(sets), frozenset(s), frozenset()) for s in sets]

        return ways

    return [one(*p) for p in plan]


def by_score(plan: Sequence[tuple[frozenset[int], int]], score: Callable[[Array, int], float]) -> list[Pass]:
    """The cells of the block of the highest score, of equal ones the first."""

    def one(pool: frozenset[int], count: int) -> Pass:
        def ways(hidden: frozenset[int], table: Array, sure: tuple[float, ...]) -> Ways:
            order = sorted(hidden & pool, key=lambda i: (-round(score(table[i], i), 12), i))
            return [(1.0, frozenset(order[:count]), frozenset())]

        return ways

    return [one(*p) for p in plan]


def margin(row: Array, i: int) -> float:
    first, second = sorted(row)[:-3:-1]
    return float(first - second)


def entropy(row: Array, i: int) -> float:
    return float(sum(v * math.log(v) for v in row if v > 0))


def leftmost(row: Array, i: int) -> float:
    return -float(i)


def each_alone(n: int, settles: float, again: Callable[[frozenset[int], tuple[float, ...]], dict[int, float]]) -> Pass:
    """Every hidden cell settles, and every settled one is hidden again, each with its own probability."""

    def ways(hidden: frozenset[int], table: Array, sure: tuple[float, ...]) -> Ways:
        chances = again(frozenset(range(n)) - hidden, sure)
        out: Ways = []
        for flags in itertools.product((False, True), repeat=n):
            w = 1.0
            for i, flag in enumerate(flags):
                p = settles if i in hidden else chances[i]
                w *= p if flag else 1 - p
            if w > 0:
                moved = frozenset(i for i in range(n) if flags[i])
                out.append((w, moved & hidden, moved - hidden))
        return out

    return ways


def remasked(n: int, alphas: Sequence[float], rule: Callable[[float, float], float], by_share: bool = False) -> list[Pass]:
    """Wang et al. 2025, Equations 6 and 7: sigma_t by a rule of alpha_t and alpha_s, or a settled cell's share exp(-p) of it."""
    out = []
    for before, after in itertools.pairwise(alphas):
        sigma = rule(before, after) if before > 0 else 0.0
        own = 0.0 if by_share else sigma
        settles = min(1.0, (after - (1 - own) * before) / (1 - before))

        def again(settled: frozenset[int], sure: tuple[float, ...], sigma: float = sigma) -> dict[int, float]:
            total = sum(math.exp(-sure[i]) for i in settled)
            return {i: sigma * math.exp(-sure[i]) / total if by_share else sigma for i in settled}

        out.append(each_alone(n, settles, again))
    return out


def bound(predict: Predictor, x: Sequence[int], q: int, plan: Sequence[tuple[frozenset[int], int]]) -> float:
    """The sum over passes of n_t / k_t times the mean over K, |K| = k_t, of -log p(x_i | .. K hidden) summed over K: of a random order."""
    total, left = 0.0, {pool: len(pool) for pool, _ in plan}
    for pool, count in plan:
        if not count:
            continue
        behind = {i for other in left for i in other if min(other) > max(pool)}
        sets = list(itertools.combinations(sorted(pool), left[pool]))
        for k in sets:
            table = predict([q if i in k or i in behind else v for i, v in enumerate(x)])
            total += count / left[pool] / len(sets) * -sum(math.log(table[i, x[i]]) for i in k)
        left[pool] -= count
    return total


def profile(p: Array) -> Array:
    """f(1..n) by entropies of subsets: the mean over |K| = k, i in K, of H(x_i | x outside K)."""
    n = p.ndim

    def entropy_of(cells: tuple[int, ...]) -> float:
        q = p.sum(axis=tuple(i for i in range(n) if i not in cells))
        return float(-(q[q > 0] * np.log(q[q > 0])).sum())

    out = []
    for k in range(1, n + 1):
        found = [
            entropy_of((*seen, i)) - entropy_of(seen) for seen in itertools.combinations(range(n), n - k) for i in range(n) if i not in seen
        ]
        out.append(float(np.mean(found)))
    return np.array(out)


def path_divergence(f: Array, counts: Sequence[int]) -> float:
    left, total = len(f), 0.0
    for count in counts:
        total += count * f[left - 1] - sum(f[j - 1] for j in range(left - count + 1, left + 1))
        left -= count
    return total


def kl(p: Array, q: Array) -> float:
    some = p > 0
    return float((p[some] * np.log(p[some] / q[some])).sum())
