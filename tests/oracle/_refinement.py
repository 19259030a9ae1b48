"""Decoding by refinement as `docs/explanation/refinement.md` describes it: one candidate, loops over passes and cells.

Only what follows without a random number: `decode = argmax`, `start = hide` or a draft, a mask that has one block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

Array = np.ndarray
Logits = Callable[[Sequence[int]], Array]  # what is seen, q where hidden -> logits (cells, q)


@dataclass
class Decode:
    """Tokens after the last pass, their mean log p, how many passes were made, the tokens after each."""

    tokens: list[int]
    score: float = 0.0
    passes: int = 0
    trace: list[list[int]] = field(default_factory=list)
    predicted: list[set[int]] = field(default_factory=list)  # which cells each pass predicted
    seen: list[list[int]] = field(default_factory=list)


@dataclass(frozen=True)
class Rules:
    """The options of `refinement` that decide without chance."""

    steps: int
    schedule: str = "all"
    remask: str = "none"
    confidence: str = "probability"
    stop: str = "fixed"
    threshold: float = 0.9
    block: frozenset[int] | None = None  # of the mask that is the schedule


def softmax(row: Array) -> Array:
    p = np.exp(row - row.max())
    return p / p.sum()


def confidence(kind: str, p: Array, token: int) -> float:
    """How sure a token is, given the probabilities of all."""
    if kind == "margin":
        first, second = sorted(p)[:-3:-1]
        return first - second
    if kind == "entropy":
        return 1 + sum(v * math.log(v) for v in p if v > 0) / math.log(len(p))
    return p[token]


def stuttering(tokens: Sequence[int], free: Collection[int]) -> set[int]:
    """The free cells that repeat the cell before them, which may be held."""
    return {i for i in free if i > 0 and tokens[i] == tokens[i - 1]}


def least(cells: Collection[int], sure: Mapping[int, float], count: int) -> set[int]:
    """So many of the cells, those of the lowest confidence; of equal ones the first."""
    return set(sorted(sorted(cells), key=lambda i: sure[i])[: max(0, count)])


def last(cells: Collection[int], sure: Mapping[int, float], count: int) -> set[int]:
    """So many of the cells as are left where the most confident settle, of equal ones the first."""
    settled = sorted(sorted(cells), key=lambda i: -sure[i])[: len(cells) - max(0, count)]
    return set(cells) - set(settled)


def reopened(rules: Rules, t: int, n: int, open_: set[int], free: Collection[int], sure: Mapping[int, float]) -> set[int]:
    """The cells that stay open by the schedule, after t passes, of which the last predicted those of `open_`."""
    again = rules.remask == "least_confident"
    pick, from_ = (least, set(free)) if again else (last, open_)
    match rules.schedule:
        case "linear":
            return pick(from_, sure, math.floor(Fraction(n * (rules.steps - t), rules.steps)))
        case "cosine":
            exact = n * math.cos(math.pi * t / (2 * rules.steps))
            return pick(from_, sure, math.floor(exact + 1e-9))
        case "threshold":
            surest = max(sorted(open_), key=lambda i: sure[i], default=None)
            below = {i for i in open_ if sure[i] < rules.threshold}
            return below - {surest} if below == open_ else below
        case "easy_first":
            return last(open_, sure, len(open_) - 1)
    return set()


def refine(
    logits: Logits, length: int, q: int, rules: Rules, held: Mapping[int, int] | None = None, draft: Sequence[int] | None = None
) -> Decode:
    """One decode of one candidate; `held` are the observed cells."""
    held = {i: v for i, v in (held or {}).items() if i < length}
    free = [i for i in range(length) if i not in held]
    tokens = [q] * length if draft is None else list(draft[:length])
    for i, v in held.items():
        tokens[i] = v
    open_, log_p, sure = set(free) if draft is None else set(), {}, {}
    found, moving = Decode(tokens), True
    for t in range(1, rules.steps + 1):
        if moving:
            predicted, seen = _opened(rules, t, tokens, open_, free, q)
            before, table = list(tokens), logits(seen)
            for i in predicted:
                p = softmax(np.asarray(table[i], float))
                tokens[i] = int(np.argmax(p))
                log_p[i], sure[i] = math.log(p[tokens[i]]), confidence(rules.confidence, p, tokens[i])
            found.passes += 1
            found.predicted.append(set(predicted))
            found.seen.append(seen)
            was_open = open_
            open_ = _left(rules, t, predicted, open_, free, tokens, sure)
            if rules.schedule in ("threshold", "easy_first"):
                moving = bool(open_)
            elif rules.stop == "fixed_point":
                moving = tokens != before or bool(open_) or bool(was_open)
        found.trace.append([-1 if v == q else v for v in tokens])
    found.score = sum(log_p.values()) / max(len(log_p), 1)
    return found


def _opened(rules: Rules, t: int, tokens: list[int], open_: set[int], free: list[int], q: int) -> tuple[set[int], list[int]]:
    """What pass t predicts, and what it sees."""
    if rules.block is not None:
        chosen = rules.block & set(free)
        shown = open_ | chosen
        predicted = chosen | open_ if t == rules.steps else chosen
    else:
        shown, predicted = open_, set(free) if rules.schedule == "all" or t == 1 else set(open_)
    return predicted, [q if i in shown else v for i, v in enumerate(tokens)]


def _left(rules: Rules, t: int, predicted: set[int], open_: set[int], free: list[int], tokens: list[int], sure: dict) -> set[int]:
    """What is open after pass t: nothing after the last."""
    if t == rules.steps:
        return set()
    if rules.block is not None:
        return open_ - predicted
    left = reopened(rules, t, len(free), predicted, free, sure)
    return left | stuttering(tokens, free) if rules.remask == "stutter" else left
