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

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
SAMPLERS: dict[str, tuple[str, dict[str, Any]]] = {  # by name of a row: a sampler of brackets.gmlm, and its inputs
    "exact": ("exact", {}),
    "plain": ("back", {"quota": 0}),
    "Algorithm 1": ("back", {}),
    "Algorithm 1, the truth": ("true_back", {}),
    "filter, the truth": ("filter", {}),
    "symbols by value": ("symbols", {}),
    "first leaf": ("first", {}),
    "walk": ("walk", {}),
}
FEW = ("plain", "Algorithm 1", "symbols by value", "first leaf")  # that end by few calls: of unseen prompts, and with worse verifiers
SETTINGS = {"samplers": {k: [s, i] for k, (s, i) in SAMPLERS.items()}, "few": FEW}
Values = dict[str, Any]


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
    """The network of one seed with verifiers of its prefixes; top_p is 1: the target is the network's own restricted distribution."""

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

    def law(self, name: str, prompt: Sequence[int], params: dict[str, Any]) -> gm.theory.OutputLaw:
        sampler, inputs = SAMPLERS[name]
        found = gm.theory.output_law(self.model(top_p=1.0, **inputs), params, sampler, prompt=list(prompt))
        assert isinstance(found, gm.theory.OutputLaw)
        return found


def distances(law: gm.theory.OutputLaw, target: gm.theory.OutputLaw) -> Values:
    """How far the strings of a sampler are from the restricted distribution, where it gives one.

    Returns:
        "tv", the total variation; "words", the share of strings that are words; "tv of words", the total variation of those alone; "calls"
        of the network and "checks" of the verifier or value for one string.
    """
    place = {tuple(s): p for s, p in zip(target.strings.tolist(), target.probabilities, strict=True)}
    wanted = np.array([place.get(tuple(s), 0.0) for s in law.strings.tolist()])
    given = 1 - law.fail
    p = law.probabilities / given
    words = float(p[wanted > 0].sum())
    lost = 1 - wanted.sum()  # words that the sampler never gives
    return {
        "tv": 0.5 * float(np.abs(p - wanted).sum() + lost),
        "words": words,
        "tv of words": 0.5 * float(np.abs(p[wanted > 0] / words - wanted[wanted > 0]).sum() + lost) if words else 1.0,
        "calls": law.expected_calls / given,
        "checks": law.expected_verifications / given,
    }


def model_part(m: Walked) -> Values:
    """How good the network is, in and out of distribution."""
    _, tried, wrong = m.mistakes
    rows = brackets.words(m.size, brackets.RARE, m.size.unseen, 7)
    return {"nats": -float(np.mean(m.model().log_prob(m.weights, rows))) / m.size.length, "out": 1 - wrong / tried}


def laws(m: Walked, left: int, names: Sequence[str], params: dict[str, Any]) -> dict[str, list[gm.theory.OutputLaw]]:
    """By sampler, the distribution of its strings behind each prompt."""
    return {name: [m.law(name, prompt, params) for prompt in m.cut(left)] for name in names}


def compared(found: dict[str, list[gm.theory.OutputLaw]], targets: list[gm.theory.OutputLaw]) -> dict[str, Values]:
    """By sampler, the means over prompts of `distances`; None for calls of a walk that are too costly to sum."""
    rows = {name: [distances(law, target) for law, target in zip(some, targets, strict=True)] for name, some in found.items()}
    return {name: {key: mean([r[key] for r in some]) for key in some[0]} for name, some in rows.items()}


def mean(values: Sequence[float]) -> float | None:
    """To six digits and twelve places, as JSON holds it."""
    return float(f"{round(np.mean(values), 12):.6g}") if np.isfinite(values).all() else None


def exact_part(m: Walked, left: int) -> dict[str, Values]:
    """By sampler, how far it is from the restricted distribution, and what a string takes."""
    found = laws(m, left, list(SAMPLERS), m.params)
    return compared(found, found["exact"])


def map_part(m: Walked, left: int) -> dict[str, Values]:
    """By the number of mistakes that a verifier has learnt from: how it judges others, and the distances of samplers with it."""
    held, n = m.walks.held, m.size.errors
    strings = m.examples[0][n - held : n] + m.examples[0][2 * n - held :]
    targets, found = laws(m, left, ["exact"], m.params)["exact"], {}
    for count in m.walks.learnt:
        params = m.learnt_from(count)
        verdicts = gm.prefix_values(m.model(), params, "seen", strings) > 0
        right = float((verdicts == np.repeat([False, True], held)).mean())
        found[str(count)] = {"judged right": right} | compared(laws(m, left, FEW, params), targets)
    return found


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
