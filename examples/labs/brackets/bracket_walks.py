# Lab A with Algorithm 2 of Li 2025: a learnt verifier as the value of a walk, beside Algorithm 1 and the exact restricted distribution.
# python examples/labs bracket_walks [--quick] [--out FOLDER] [--page]
#
# Words are shorter than in Lab A, so that what follows a prompt can be listed: the distribution of each sampler's strings is then exact.
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import brackets
import laboratory
import numpy as np
from walks import FEW, Samplers, Values, exact_part, map_part

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
SAMPLERS: Samplers = {  # of brackets.gmlm
    "exact": ("exact", {}),
    "plain": ("back", {"quota": 0}),
    "Algorithm 1": ("back", {}),
    "Algorithm 1, the truth": ("true_back", {}),
    "filter, the truth": ("filter", {}),
    "symbols by value": ("symbols", {}),
    "first leaf": ("first", {}),
    "walk": ("walk", {}),
}
SETTINGS = {"samplers": {k: [s, i] for k, (s, i) in SAMPLERS.items()}, "few": FEW}
SHORT = replace(brackets.Size(), length=16, width=32, steps=1000, words=32_000, errors=200, unseen=200)


@dataclass(frozen=True)
class Size:
    """How large each part is.

    Attributes:
        lab: sizes of Lab A; its mistakes are those that a verifier learns from, and `held` more.
        left: symbols that are left behind the prompts whose completions are listed.
        prompts: of each number of symbols left.
        learnt: from how many mistakes the verifiers of the map learn.
        held: mistakes, and right prefixes, on which those verifiers are judged.
    """

    lab: brackets.Size = SHORT
    left: tuple[int, ...] = (2, 4, 6)
    prompts: int = 4
    learnt: tuple[int, ...] = (10, 30, 100)
    held: int = 100


class Walked(brackets.Trained):
    """The network of one seed with verifiers of its prefixes."""

    samplers, top_p = SAMPLERS, 1.0

    def __init__(self, size: Size, seed: int, folder: Path):
        super().__init__(size.lab, seed, folder)
        self.walks = size

    def learnt_from(self, count: int) -> dict[str, Any]:
        """The weights with a probe that has learnt from so many mistakes and as many right prefixes, as verifier and as value."""
        bad, good = self.examples[0][:count], self.examples[0][self.size.errors :][:count]
        fit = gm.train_probe(self.model(), self.weights, "seen", bad + good, np.repeat([0, 1], count), seed=self.seed)
        return {**fit, "good": fit["seen"]}

    @cached_property
    def params(self) -> dict[str, Any]:
        return self.learnt_from(self.size.errors - self.walks.held)

    def cut(self, left: int) -> brackets.Strings:
        """Right prefixes of unlikely words that lack so many symbols."""
        rows = brackets.words(self.size, brackets.OFTEN, self.walks.prompts, 900 + self.seed)
        return [row[: self.size.length - left].tolist() for row in rows]

    @property
    def learnt(self) -> Sequence[int]:
        return self.walks.learnt

    def held(self) -> tuple[brackets.Strings, np.ndarray]:
        """Mistakes, and right prefixes, from which no verifier learns."""
        n, held = self.size.errors, self.walks.held
        return self.examples[0][n - held : n] + self.examples[0][2 * n - held :], np.repeat([False, True], held)


def model_part(m: Walked) -> Values:
    """How good the network is, in and out of distribution."""
    _, tried, wrong = m.mistakes
    rows = brackets.words(m.size, brackets.RARE, m.size.unseen, 7)
    return {"nats": -float(np.mean(m.model().log_prob(m.weights, rows))) / m.size.length, "out": 1 - wrong / tried}


def drawn_part(m: Walked) -> dict[str, Values]:
    """By sampler, of unseen prompts: words among completions, calls, and seconds of a second run, in which nothing is compiled.

    Of plain completions also how often the verifier is wrong about prefixes, by the number of symbols left.
    """
    prompts, found = brackets.prompts(m.size, m.size.unseen, 5000 + m.seed), {}
    for name in FEW:
        sampler, inputs = SAMPLERS[name]
        m.draw(sampler, prompts, 6, params=m.params, top_p=1.0, **inputs)
        began = time.process_time()
        strings, stats = m.draw(sampler, prompts, 7, params=m.params, top_p=1.0, **inputs)
        seconds = time.process_time() - began
        given = strings[0][(strings[0] >= 0).all(axis=1)]  # a draw that fails has -1 in its cells
        right = float(brackets.is_right(m.size, list(given)).sum()) / len(prompts)
        found[name] = {"words": right, "calls": float(stats["oracle_calls"].mean()), "seconds": round(seconds, 3)}
        if name == "plain":
            found["judged wrong"] = judged_wrong(m, prompts, strings[0])
    return found


def judged_wrong(m: Walked, prompts: brackets.Strings, strings: np.ndarray) -> Values:
    """The share of prefixes behind the prompts whose verdict is wrong, by the number of symbols left."""
    asked = [(s[:n].tolist(), m.size.length - n) for s, p in zip(strings, prompts, strict=True) for n in range(len(p) + 1, m.size.length)]
    rows, left = [a[0] for a in asked], np.array([a[1] for a in asked])
    wrong = (gm.prefix_values(m.model(), m.params, "seen", rows) > 0) != brackets.is_right(m.size, rows)
    return {str(k): float(wrong[left == k].mean()) for k in np.unique(left).tolist()}


def parts(size: Size, out: Path) -> dict[str, Callable[[], Any]]:
    """Table by table, for each seed."""
    models = [Walked(size, seed, out) for seed in range(size.lab.seeds)]
    made: dict[str, Callable[[Walked], Any]] = {"model": model_part}
    made |= {f"exact {left}": partial(exact_part, left=left) for left in size.left}
    made |= {f"map {left}": partial(map_part, left=left) for left in size.left[:2]}
    made["drawn"] = drawn_part
    return {f"{k} {name}": partial(part, m) for name, part in made.items() for k, m in enumerate(models)}


QUICK = Size(replace(brackets.QUICK, length=8, errors=24, unseen=16), left=(2,), prompts=2, learnt=(4,), held=8)


def lab() -> laboratory.Lab:
    from bracket_walk_tables import draw, tables

    return laboratory.Lab("bracket_walks", HERE, {"quick": QUICK, "default": Size()}, parts, tables, draw, SETTINGS)
