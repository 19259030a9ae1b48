# Lab E with Algorithm 2 of Li 2025: a learnt verifier as the value of a walk, beside Algorithm 1 and the exact restricted distribution.
# python examples/labs testcase_walks [--quick] [--out FOLDER] [--page]
#
# Prompts end in the last case, before the item, so that what can be drawn behind them is listed: each distribution of answers is exact.
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import bracket_verifiers
import laboratory
import numpy as np
import testcase_task as task
import testcases
import walks
from testcases import Network, Trial
from walks import FEW, Samplers, Values

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
SAMPLERS: Samplers = {  # of testcases.gmlm
    "exact": ("exact", {}),
    "plain": ("few_back", {"quota": 0}),
    "Algorithm 1": ("few_back", {}),
    "Algorithm 1, the truth": ("few_truth", {}),
    "filter, the truth": ("filter", {}),
    "symbols by value": ("symbols", {}),
    "first leaf": ("first", {}),
    "walk": ("walk", {}),
}
DOUBTFUL: Samplers = {"Algorithm 1": ("few_doubt", {}), "first leaf": ("first_doubt", {})}  # by a truth that is wrong now and then
THRESHOLD, STEPS = 0.5, 300
BINS = ((1, 4), (5, 8), (9, 99))  # symbols of an answer, by which the verifier's mistakes are counted
SETTINGS = {
    "samplers": {k: [s, i] for k, (s, i) in SAMPLERS.items()},
    "doubtful": {k: [s, i] for k, (s, i) in DOUBTFUL.items()},
    "few": FEW,
    "threshold": THRESHOLD,
    "steps": STEPS,
    "bins": BINS,
}
SHORT = replace(testcases.Size(), cases=2, layers=2, width=32, steps=900, times=2, errors=200)


@dataclass(frozen=True)
class Size:
    """How large each part is.

    Attributes:
        lab: sizes of Lab E.
        left: symbols that are left behind the prompts whose completions are listed.
        prompts: of each number of symbols left.
        wrong: about which shares of prefixes the verifiers of the map are wrong.
        few, top_p: top_k and top_p of all samplers, so that all that can be drawn is listed.
    """

    lab: testcases.Size = SHORT
    left: tuple[int, ...] = (6, 8)
    prompts: int = 1
    wrong: tuple[float, ...] = (0.05, 0.2, 0.5)
    few: int = 3
    top_p: float = 0.95


class Walked(Trial):
    """What a seed decides, with prompts that end in the last case."""

    samplers = SAMPLERS

    def __init__(self, size: Size, network: Network, seed: int):
        super().__init__(network, seed)
        self.walks, self.size, self.top_p = size, size.lab, size.top_p

    def model(self, **inputs: Any) -> gm.ConditionalModel:
        return super().model(**{"threshold": THRESHOLD, "few": self.walks.few, "steps": STEPS, **inputs})

    @cached_property
    def params(self) -> dict[str, Any]:
        return {**self.fitted, "good": self.fitted["seen"]}

    def begun(self, count: int, seed: int) -> task.Strings:
        """Prompts with all cases but the last, each with a list of most items, so that cells are scarce; of names that were not learnt."""
        rng, found = np.random.default_rng([self.seed, seed]), []
        for name in rng.choice(task.TESTED, count).tolist():
            string = task.prompt(name, task.APPEND, rng)
            for _ in range(self.size.cases - 1):
                string += task.case(name, task.APPEND, rng.integers(0, task.ITEMS, task.LONGEST).tolist(), int(rng.integers(task.ITEMS)))
            found.append(string)
        return found

    def cut(self, left: int) -> task.Strings:
        """Right prefixes that lack so many symbols: six and more are the item and what follows behind a list of one item and more."""
        rng, found = np.random.default_rng([self.seed, 900 + left]), []
        for string in self.begun(self.walks.prompts, left):
            items = rng.integers(0, task.ITEMS, left - 5 if left > 5 else task.LONGEST).tolist()
            answer = [*string, *task.case(task.text_of(string[6:8]), task.APPEND, items, int(rng.integers(task.ITEMS))), task.END]
            found.append(answer[: len(answer) - left])
        return found


class Doubted(Walked):
    """The same with verifiers that are the truth, but for a share of prefixes."""

    samplers = DOUBTFUL | {"exact": SAMPLERS["exact"], "plain": ("few_doubt", {"quota": 0})}


def model_part(m: Walked) -> Values:
    """How often the network errs, for names of the corpus, and how good its verifier is."""
    _, kinds, tried = m.mistakes
    return {"learnt": 1 - sum(kinds.values()) / tried, "probe": float(m.fitted.accuracy), "kinds": dict(kinds)}


def map_part(m: Doubted, left: int) -> dict[str, Values]:
    """By the share of prefixes about which a verifier is wrong: distances of the samplers with it."""
    alone = walks.laws(m, left, ("exact", "plain"), m.weights)
    found: dict[str, Values] = {"none": walks.compared({"plain": alone["plain"]}, alone["exact"])}
    for share in m.walks.wrong:
        bracket_verifiers.wrong_share = share
        found[str(share)] = walks.compared(walks.laws(m, left, list(DOUBTFUL), m.weights), alone["exact"])
    return found


def drawn_part(m: Walked) -> dict[str, Values]:
    """By sampler, of the last case: right answers, calls, and seconds of a second run, in which nothing is compiled.

    Of plain answers also how often the verifier is wrong about prefixes, by the symbols of the last case that they have.
    """
    prompts, found = m.begun(10 * m.size.times, 5000), {}
    for name in FEW:
        sampler, inputs = SAMPLERS[name]
        m.draw(sampler, prompts, 6, params=m.params, top_p=m.top_p, **inputs)
        began = time.process_time()
        strings, stats = m.draw(sampler, prompts, 7, params=m.params, top_p=m.top_p, **inputs)
        seconds = time.process_time() - began
        right = [min(s) >= 0 and task.is_right(s, m.size.cases) for s in strings]  # a draw that fails has -1 in its cells
        found[name] = {"words": float(np.mean(right)), "calls": float(stats["oracle_calls"].mean()), "seconds": round(seconds, 3)}
        if name == "plain":
            found["judged wrong"] = judged_wrong(m, prompts, strings)
    return found


def judged_wrong(m: Walked, prompts: task.Strings, strings: task.Strings) -> Values:
    """The share of prefixes behind the prompts whose verdict is wrong, by the number of symbols behind the prompt."""
    ends = [s.index(task.END) if task.END in s else len(s) for s in strings]
    asked = [(s[:n], n - len(p)) for s, p, end in zip(strings, prompts, ends, strict=True) for n in range(len(p) + 1, end)]
    rows, behind = [a[0] for a in asked], np.array([a[1] for a in asked])
    right = np.array([task.is_right(row, m.size.cases) for row in rows])
    wrong = (gm.prefix_values(m.model(), m.params, "seen", rows) > 0) != right
    places = [(low <= behind) & (behind <= high) for low, high in BINS]
    return {f"{low}": float(wrong[at].mean()) for (low, _), at in zip(BINS, places, strict=True) if at.any()}


def parts(size: Size, out: Path) -> dict[str, Callable[[], Any]]:
    """Table by table, for each seed."""
    network = Network(size.lab, out)
    models, doubted = ([kind(size, network, seed) for seed in range(size.lab.seeds)] for kind in (Walked, Doubted))
    made: dict[str, Callable[[Any], Any]] = {"model": model_part}
    made |= {f"exact {left}": partial(walks.exact_part, left=left) for left in size.left}
    made |= {f"map {left}": partial(map_part, left=left) for left in size.left}
    made["drawn"] = drawn_part
    of = {name: doubted if name.startswith("map") else models for name in made}
    return {f"{k} {name}": partial(part, m) for name, part in made.items() for k, m in enumerate(of[name])}


QUICK = Size(replace(testcases.QUICK, cases=2), left=(2,), prompts=1, wrong=(0.5,), few=len(task.TOKENS), top_p=1.0)


def lab() -> laboratory.Lab:
    from testcase_walk_tables import draw, tables

    return laboratory.Lab("testcase_walks", HERE, {"quick": QUICK, "default": Size()}, parts, tables, draw, SETTINGS)
