"""Guided samplers by brute force, in float64: laws of next symbols and values from the enumerated joint law, and every run of a sampler.

Nothing here is shared with the library: programs are enumerated by the tests' oracle, and runs are followed one by one.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from oracle import Oracle

import gmlmdsl as gm

String = tuple[int, ...]
Law = dict[String, float]


@dataclass
class Brute:
    """What a sampler gives: probabilities of strings, of failure, and calls and judgements on average."""

    law: Law = field(default_factory=lambda: defaultdict(float))
    fail: float = 0.0
    calls: float = 0.0
    checks: float = 0.0


class Table:
    """The law of the next symbol and the values of prefixes, by enumeration.

    Args:
        program: a bound program.
        model: the sampled model.
        params: its parameters.
        n: the length of strings.
        q: the values of a symbol.
        end: the value that ends a string.
        shape: how the law is sharpened or cut: takes probabilities, gives probabilities.
    """

    def __init__(self, program: Any, model: str, params: Mapping[str, Any], n: int, q: int, end: int | None = None, shape: Any = None):
        self.program, self.n, self.q, self.end = program, n, q, end
        self.weights = self._summed(model, params)
        self.shape = shape or (lambda p: p)

    def _summed(self, name: str, params: Mapping[str, Any]) -> np.ndarray:
        """exp(log potential) of every string, latents summed out; a tensor with one axis for each symbol."""
        oracle = Oracle(self.program.checked, name, {})
        weight = np.exp(oracle.log_potential(params, oracle.states))
        places = np.asarray(oracle.positions("x")).ravel()
        table = np.zeros((self.q,) * self.n)
        np.add.at(table, tuple(oracle.states[:, places].T), weight)
        return table

    @cache  # noqa: B019 - a table lives as long as its test
    def law(self, prefix: String) -> np.ndarray:
        """p(next symbol | prefix)."""
        w = np.array([self.weights[(*prefix, a)].sum() for a in range(self.q)])
        return self.shape(w / w.sum()) if w.sum() > 0 else w

    def whole(self, prefix: String) -> bool:
        """Whether it is a string."""
        return len(prefix) == self.n or (self.end is not None and bool(prefix) and prefix[-1] == self.end)

    def completable(self, model: str, params: Mapping[str, Any] | None = None) -> Callable[[String], float]:
        """Whether some completion has p > 0; behind `end` stands nothing else."""
        table = self._summed(model, params or {})
        if self.end is not None:
            for s in np.ndindex(table.shape):
                after = s[s.index(self.end) :] if self.end in s else ()
                table[s] *= all(a == self.end for a in after)
        return lambda prefix: float(table[prefix].sum() > 0)

    def expected(self, model: str, params: Mapping[str, Any] | None = None) -> Callable[[String], float]:
        """The mean of exp(log potential) over completions, by the whole joint law."""
        table = self._summed(model, params or {})

        def value(prefix: String) -> float:
            own = self.weights[prefix]
            return float((own * table[prefix]).sum() / own.sum()) if own.sum() > 0 else 0.0

        return value

    def strings(self, prompt: String = (), stop: Callable[[String], bool] | None = None) -> Law:
        """Where prefixes end that grow until they are strings, or until `stop`."""
        if self.whole(prompt) or (stop is not None and stop(prompt)):
            return {prompt: 1.0}
        found: Law = defaultdict(float)
        for a, p in enumerate(self.law(prompt)):
            for s, r in self.strings((*prompt, a), stop).items() if p > 0 else ():
                found[s] += p * r
        return found


Value = Callable[[String], float]


def rejection(table: Table, v: Value, prompt: String = (), tries: int | None = None) -> Brute:
    """Try after try; unbounded ones until what is left is below 1e-16."""
    strings, out, left, k = table.strings(prompt), Brute(), 1.0, 0
    length = sum(p * (len(s) - len(prompt)) for s, p in strings.items())
    while left > 1e-16 and (tries is None or k < tries):
        out.calls, out.checks, k = out.calls + left * length, out.checks + left, k + 1
        refused = 0.0
        for s, p in strings.items():
            if v(s) > 0:
                out.law[s] += left * p
            else:
                refused += p
        left *= refused
    out.fail = left if tries is not None else 0.0
    return out


def tokenwise(table: Table, v: Value, prompt: String = (), tries: int | None = None) -> Brute:
    """Draw after draw at each position."""
    out = Brute()

    def grow(s: String, weight: float) -> None:
        if table.whole(s):
            out.law[s] += weight
            return
        left, k, refused = weight, 0, sum(p for a, p in enumerate(table.law(s)) if not v((*s, a)) > 0)
        good = {a: p for a, p in enumerate(table.law(s)) if p > 0 and v((*s, a)) > 0}
        reached: dict[int, float] = defaultdict(float)
        if not good and tries is None:  # it ends when every symbol was refused
            draws = until_all({a: p for a, p in enumerate(table.law(s)) if p > 0})
            out.calls, out.checks, out.fail = out.calls + weight * draws, out.checks + weight * draws, out.fail + weight
            return
        while left > 1e-17 * weight and (tries is None or k < tries):
            out.calls, out.checks, k = out.calls + left, out.checks + left, k + 1
            for a, p in good.items():
                reached[a] += left * p
            left *= refused
        out.fail += left if tries is not None else 0.0
        for a, p in reached.items():
            grow((*s, a), p)

    grow(prompt, 1.0)
    return out


def by_value(table: Table, v: Value, prompt: String = (), tries: int | None = None) -> Brute:
    """Draw after draw, each taken with probability V / the most of any symbol."""
    out = Brute()

    def grow(s: String, weight: float) -> None:
        if table.whole(s):
            out.law[s] += weight
            return
        p = {a: r for a, r in enumerate(table.law(s)) if r > 0}
        most = max(v((*s, a)) for a in p)
        if most <= 0:
            out.fail += weight
            return
        out.checks += weight * table.q
        left, k, reached = weight, 0, dict.fromkeys(p, 0.0)
        while left > 1e-17 * weight and (tries is None or k < tries):
            out.calls, k, lost = out.calls + left, k + 1, 0.0
            for a, r in p.items():
                reached[a] += left * r * v((*s, a)) / most
                lost += r * (1 - v((*s, a)) / most)
            left *= lost
        out.fail += left if tries is not None else 0.0
        for a, r in reached.items():
            if r > 0:
                grow((*s, a), r)

    grow(prompt, 1.0)
    return out


def until_all(p: Mapping[int, float], seen: frozenset[int] = frozenset()) -> float:
    """How many draws it takes on average until every value was drawn, from the set of those that were."""
    new = {a: r for a, r in p.items() if a not in seen}
    return (1 + sum(r * until_all(p, seen | {a}) for a, r in new.items())) / sum(new.values()) if new else 0.0


def backtracking(
    table: Table, v: Value, quota: int, stride: int, prompt: String = (), regenerate: bool = True, erase_prompt: bool = False
) -> Brute:
    """Every run of Algorithm 1 as it is written."""
    out = Brute()

    def run(s: String, base: int, q: int, weight: float) -> None:
        if table.whole(s):
            out.law[s] += weight
            return
        out.calls += weight
        for a, p in enumerate(table.law(s)):
            if p <= 0:
                continue
            t = (*s, a)
            if q > 0:
                out.checks += weight * p
            if q > 0 and not v(t) > 0:
                kept = t[: max(0 if erase_prompt else base, len(t) - stride)]
                for _ in range(stride if regenerate else 0):
                    if table.whole(kept):
                        break
                    out.calls += weight * p
                    kept = (*kept, int(np.argmax(table.law(kept))))
                run(kept, min(base, len(kept)), q - 1, weight * p)
            else:
                run(t, base, q, weight * p)

    run(prompt, len(prompt), quota, 1.0)
    return out


def walk_moves(table: Table, v: Value, s: String, root: String) -> list[tuple[String, float]]:
    """Where a step that does not stay goes."""
    ways = [] if s == root else [(s[:-1], v(s))]
    if not table.whole(s):
        ways += [((*s, a), p * v((*s, a))) for a, p in enumerate(table.law(s))]
    total = sum(w for _, w in ways)
    return [(t, w / total) for t, w in ways if w > 0] if total > 0 else [(s, 1.0)]


def walk(table: Table, v: Value, steps: int, prompt: String = (), result: str = "last_node") -> Brute:
    """Every run of Algorithm 2 of so many steps, with the nodes that it has left."""
    out = Brute()
    ends: Law = defaultdict(float)
    taken = [0.0]

    def run(s: String, t: int, left: frozenset[String], weight: float, steps: int) -> None:
        if t == steps or (result == "first_leaf" and table.whole(s)):
            ends[s] += weight
            return
        run(s, t + 1, left, weight / 2, steps)
        taken[0] += 0.0 if s in left else weight / 2
        for to, p in walk_moves(table, v, s, prompt):
            run(to, t + 1, left | {s}, weight / 2 * p, steps)

    lengths = range(1, steps + 1) if result == "uniform_node" else [steps]
    for length in lengths:
        run(prompt, 0, frozenset(), 1 / len(lengths), length)
    for s, p in ends.items():
        if table.whole(s):
            out.law[s] = p
    good = sum(out.law.values())
    if result == "uniform_node":
        out.law = {s: p / good for s, p in out.law.items()}  # runs are made again, each for itself
        taken[0] /= good
    else:
        out.fail = 1 - good
    out.calls, out.checks = taken[0], taken[0] * (table.q + 1)
    return out


def walk_law(table: Table, v: Value, steps: int, prompt: String = ()) -> Law:
    """The walk's law after many steps: its matrix to that power."""
    nodes = [prompt]
    for s in nodes:
        nodes += [] if table.whole(s) else [(*s, a) for a in range(table.q)]
    number = {s: k for k, s in enumerate(nodes)}
    matrix = np.eye(len(nodes)) / 2
    for s in nodes:
        for to, p in walk_moves(table, v, s, prompt):
            matrix[number[s], number[to]] += p / 2
    return dict(zip(nodes, np.linalg.matrix_power(matrix, steps)[0], strict=True))


def block_best(table: Table, v: Value, n: int, block: int | None, prompt: String = ()) -> Brute:
    """All n-tuples of draws, block by block; the first of the highest value."""
    out = Brute()

    def grow(s: String, weight: float) -> None:
        if table.whole(s):
            out.law[s] += weight
            return
        ends = table.strings(s, None if block is None else lambda t: len(t) - len(s) == block)
        out.checks += n * weight
        for draws in itertools.product(ends.items(), repeat=n):
            p = float(np.prod([r for _, r in draws]))
            out.calls += weight * p * sum(len(t) - len(s) for t, _ in draws)
            grow(max((t for t, _ in draws), key=lambda t: round(v(t), 9)), weight * p)  # equal up to rounding

    grow(prompt, 1.0)
    return out


def error(found: gm.theory.OutputLaw, wanted: Brute, calls: bool = True) -> float:
    """The largest difference of probabilities, and of relative averages."""
    strings = [tuple(int(a) for a in row) for row in np.asarray(found.strings).reshape(len(found.probabilities), -1)]
    n = len(strings[0]) if strings else 0
    law: Law = defaultdict(float)
    for s, p in wanted.law.items():
        law[s + (s[-1],) * (n - len(s)) if s else s] += p  # cells behind the end hold it
    mine = dict(zip(strings, found.probabilities.tolist(), strict=True))
    away = [abs(mine.get(s, 0.0) - law.get(s, 0.0)) for s in {*mine, *law}] + [abs(found.fail - wanted.fail)]
    if calls:
        away += [abs(found.expected_calls - wanted.calls) / max(1, wanted.calls)]
        away += [abs(found.expected_verifications - wanted.checks) / max(1, wanted.checks)]
    return max(away)
