# Lab E: a language model that writes test cases of a function, and Algorithm 1 with a verifier learnt from its mistakes.
# python examples/labs testcases [--quick] [--larger] [--out FOLDER] [--page]
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import bracket_verifiers
import laboratory
import numpy as np
import optax
import testcase_task as task

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
TOP_P, TEMPERATURES = (0.7, 0.8, 0.9, 0.95, 1.0), (0.6, 0.8, 1.0, 1.2)  # the thesis goes down to a temperature of 0.2
BEST = (0.95, 1.0)  # top_p and temperature of the other tables
SETTINGS = (  # of Algorithm 1: quota, stride, threshold, top_p, temperature
    *((4, 4, t, *rest) for rest in (BEST, (1.0, 1.0), (1.0, 1.2)) for t in (0.1, 0.5)),
    *((4, 10, t, 1.0, 1.0) for t in (0.1, 0.5)),
    (4, 10, 0.1, *BEST),
    (10, 4, 0.1, *BEST),
)
THRESHOLDS, QUOTAS, DEPTHS, CANDIDATES = (0.1, 0.5), (4, 10), (2, 4), (2, 4, 8)
OTHERS = ("best", "tokens", "whole")  # best of two, rejection of symbols, and of whole answers
DECAY = 0.1  # of AdamW, whose rate is of the size
KEPT = {  # settings of the results
    "top_p": TOP_P,
    "temperatures": TEMPERATURES,
    "best": BEST,
    "settings": SETTINGS,
    "thresholds": THRESHOLDS,
    "quotas": QUOTAS,
    "depths": DEPTHS,
    "candidates": CANDIDATES,
    "decay": DECAY,
    "front": task.FRONT,
    "longest": task.LONGEST,
    "telling": task.TELLING,
    "tested": task.TESTED,
}
Values = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """How large each part is.

    Attributes:
        cases: that a prompt asks for.
        times: that each of ten names is asked about.
        errors: mistakes that the verifier learns from, and as many right prefixes.
        grid: how many values of top_p and of the temperature, and depths of perceptrons.
    """

    seeds: int = 5
    cases: int = 4
    layers: int = 3
    heads: int = 4
    width: int = 64
    steps: int = 400  # what testcase_steps.py finds
    batch: int = 32
    rate: float = 4e-3
    times: int = 10
    errors: int = 300
    grid: int = 6

    @property
    def best(self) -> tuple[float, float]:
        """The top_p and the temperature of the other tables; of a small grid its only ones."""
        top_ps, temperatures = TOP_P[-self.grid :], TEMPERATURES[-self.grid :]
        return (BEST[0] if BEST[0] in top_ps else top_ps[-1], BEST[1] if BEST[1] in temperatures else temperatures[-1])


QUICK = Size(seeds=1, cases=1, layers=2, heads=2, width=16, steps=40, batch=16, times=1, errors=24, grid=1)
LARGER = Size(cases=8, layers=6, width=128, steps=4000, batch=64)  # of the thesis: 7 billion weights, 8 cases


@cache
def program(size: Size, **inputs: Any) -> gm.BoundProgram:
    """The laboratory's program; the same inputs compile nothing anew."""
    sizes = {"n": task.length(size.cases), "layers": size.layers, "heads": size.heads, "width": size.width}
    sizes["layer"] = inputs.pop("layer", size.layers)
    return gm.load(HERE / "testcases.gmlm", allow_python=True, **sizes, **inputs)


class Network:
    """The language model, one for all seeds as in the thesis; its weights are kept in the folder of the output."""

    def __init__(self, size: Size, folder: Path):
        self.size, self.path = size, folder / "weights.fit"

    @cached_property
    def weights(self) -> dict[str, Any]:
        if self.path.exists():
            return dict(gm.load_fit(self.path, allow_python=True).params)
        s = self.size
        rate = optax.warmup_cosine_decay_schedule(0, s.rate, min(100, s.steps // 4), s.steps, 1e-5)
        rows, method = task.corpus(s.cases, s.steps * s.batch, seed=0), gm.Training(steps=s.steps, batch_size=s.batch)
        model: Any = program(s).model("text")
        fit = model.fit(rows, mask="forced", seed=0, optimizer=optax.adamw(rate, weight_decay=DECAY), method=method)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fit.save(self.path)
        return dict(fit.params)


class Trial:
    """What a seed decides: prompts, the mistakes that are collected, the verifier, and draws."""

    def __init__(self, network: Network, seed: int):
        self.network, self.size, self.seed = network, network.size, seed

    @property
    def weights(self) -> dict[str, Any]:
        return self.network.weights

    def model(self, **inputs: Any) -> gm.ConditionalModel:
        return program(self.size, **inputs).model("text")  # type: ignore[return-value]

    def draw(self, sampler: str, prompt: task.Strings, seed: int, params: Any = None, **inputs: Any) -> tuple[task.Strings, Any]:
        """Completed strings, and what the sampler says of them."""
        if params is None:
            params = self.weights if sampler in ("nucleus", "greedy") else self.params
        found = self.model(**inputs).sample(params, sampler, prompt=prompt, draws=1, seed=1000 * self.seed + seed)
        return found["posterior"]["x"].values[0][0].tolist(), found.get("guided_stats")

    @cached_property
    def mistakes(self) -> tuple[task.Strings, Counter[str], int]:
        """Strings that end with their first wrong symbol, their kinds, and of how many answers; of names that were learnt."""
        found: task.Strings = []
        kinds: Counter[str] = Counter()
        tried, count = 0, 2 * self.size.errors
        while len(found) < self.size.errors:
            if tried > 100 * self.size.errors:
                raise SystemExit(f"seed {self.seed}: {len(found)} mistakes in {tried} answers are too few")
            names = np.random.default_rng([self.seed, tried]).choice(task.LEARNT, count).tolist()
            for string in self.draw("nucleus", task.prompts(names, 1, 100 + tried + self.seed), 1 + tried)[0]:
                if wrong := task.first_wrong(string, self.size.cases):
                    found.append(string[: wrong[0] + 1])
                    kinds[wrong[1]] += 1
            tried += count
        return found[: self.size.errors], kinds, tried

    @cached_property
    def examples(self) -> tuple[task.Strings, np.ndarray]:
        """Mistakes and as many right prefixes of the same lengths, and which is which."""
        bad = self.mistakes[0]
        rows = task.corpus(self.size.cases, len(bad), 5000 + self.seed, front=0)
        return bad + [row[: len(b)].tolist() for row, b in zip(rows, bad, strict=True)], np.repeat([0, 1], len(bad))

    @cached_property
    def fitted(self) -> gm.ProbeFit:
        """The probe of the last layer."""
        return self.probe()

    @property
    def params(self) -> dict[str, Any]:
        """The weights with the probe of `seen` and `good` among them."""
        return {**self.fitted, "good": self.fitted["seen"]}

    def probe(self, **inputs: Any) -> gm.ProbeFit:
        return gm.train_probe(self.model(**inputs), self.weights, "seen", *self.examples, seed=self.seed)

    def scored(self, sampler: str, names: Sequence[str] = task.TESTED, along: bool = True, params: Any = None, **inputs: Any) -> Values:
        """A run: distinct right cases in all, and calls of the network; both after each time that all names were asked about."""
        starts = task.prompts(names, self.size.times, 7000 + self.seed)
        strings, stats = self.draw(sampler, starts, 3, params=params, **inputs)
        lost = np.zeros(len(starts), bool) if stats is None else stats["failed"].values.reshape(-1) > 0
        if stats is None:
            taken = np.array([len(_ended(s)) - len(p) for s, p in zip(strings, starts, strict=True)])
        else:
            taken = stats["oracle_calls"].values.reshape(-1)
        right = task.distinct([None if gone else s for s, gone in zip(strings, lost, strict=True)], self.size.cases)
        found = {"right": right[-1], "calls": int(taken.sum()), "lost": int(lost.sum())}
        marks = np.arange(len(names), len(starts) + 1, len(names)) - 1
        return found | ({"along": [[int(np.cumsum(taken)[k]), right[k]] for k in marks]} if along else {})


def key(*parts: Any) -> str:
    """Of a setting among results."""
    return " ".join(map(str, parts))


def model_part(m: Trial) -> Values:
    """How good the model and its verifier are, and answers of it."""
    held = task.corpus(m.size.cases, 400, 9000 + m.seed)
    _, kinds, tried = m.mistakes
    starts = task.prompts(task.TESTED, m.size.times, 7000 + m.seed)
    found: Values = {"nats": -float(np.mean(m.model().log_prob(m.weights, held))), "learnt": 1 - sum(kinds.values()) / tried}
    strings = m.draw("nucleus", starts, 2)[0]
    found["tested"] = float(np.mean([task.is_right(s, m.size.cases) for s in strings]))
    found["cases"] = float(np.mean([len(task.right_cases(s, m.size.cases)) for s in strings]) / m.size.cases)
    found |= {"kinds": dict(kinds), "probe": float(m.fitted.accuracy), "texts": [task.text_of(_ended(s)) for s in strings[:2]]}
    corpus = task.corpus(m.size.cases, len(starts), 8000 + m.seed, front=0).tolist()
    return found | {"corpus": task.distinct(corpus, m.size.cases)[-1]}


def _ended(string: list[int]) -> list[int]:
    return string[: string.index(task.END) + 1] if task.END in string else string


def plain_part(m: Trial, top_p: float) -> Values:
    """A row of the grid of Table 3.13: nothing verified, by temperature."""
    drawn = TEMPERATURES[-m.size.grid :]
    return {key(t): m.scored("back", along=(top_p, t) == m.size.best, quota=0, top_p=top_p, temperature=t) for t in drawn}


def tuned_part(m: Trial) -> Values:
    """Algorithm 1 over the same grid as what verifies nothing, so that each can be taken at its best."""
    cells = product(TOP_P[-m.size.grid :], TEMPERATURES[-m.size.grid :])
    return {key(p, t): m.scored("back", along=False, top_p=p, temperature=t) for p, t in cells}


def backtracking_part(m: Trial) -> Values:
    """Algorithm 1 at its settings (Tables 3.6, 3.10, 3.12, 3.13), and without argmax (Table 3.17)."""
    found: Values = {"greedy": m.scored("greedy")}
    for quota, stride, threshold, top_p, t in SETTINGS[: 2 * m.size.grid]:
        numbers = {"quota": quota, "stride": stride, "threshold": threshold, "top_p": top_p, "temperature": t}
        found[key(quota, stride, threshold, top_p, t)] = m.scored("back", **numbers)
    return found | {key("bare", t): m.scored("bare", threshold=t) for t in THRESHOLDS}


def layers_part(m: Trial) -> Values:
    """Table 3.9: verifiers of lower layers, and how they do by themselves."""
    found = {}
    for layer in range(1, m.size.layers):
        params = m.probe(layer=layer)
        found[key(layer)] = m.scored("back", params=params, layer=layer) | {"alone": float(params.accuracy)}
    return found


def verifiers_part(m: Trial) -> Values:
    """Tables 3.11 and 3.12: perceptrons, a coin, and the truth."""
    found = {key("truth", q): m.scored("by_truth", quota=q) for q in QUOTAS} | {"coin": m.scored("by_toss")}
    held = np.random.default_rng(m.seed).random(len(m.examples[0])) < 0.2
    x, y = gm.prefix_features(m.model(), m.weights, m.examples[0]), m.examples[1]
    for depth in DEPTHS[: m.size.grid]:
        p = bracket_verifiers.perceptron(x[~held], y[~held], depth, m.seed)
        bracket_verifiers.judge = lambda rows, p=p: (p(features(m, rows)) >= THRESHOLDS[0]).astype(float)
        found[key("depth", depth)] = m.scored("by_deep") | {"alone": float(((p(x[held]) >= 0.5) == y[held]).mean())}
    return found


def features(m: Trial, rows: task.Strings) -> np.ndarray:
    """What a probe reads of prefixes; always of as many, so that nothing is compiled anew."""
    filled = rows + rows[:1] * (10 * m.size.times - len(rows))
    return gm.prefix_features(m.model(), m.weights, filled)[: len(rows)]


def candidates_part(m: Trial) -> Values:
    """Block best of n (Tables 3.6, 3.13), and what the thesis has not: best of n, rejection of symbols and of answers."""
    found = {key("blocks", n): m.scored("blocks", candidates=n) for n in CANDIDATES[: m.size.grid]}
    return found | {name: m.scored(name) for name in OTHERS}


def shifted_part(m: Trial) -> Values:
    """Table 3.15: names that in the corpus mean another function."""
    found = {key("none"): m.scored("back", names=task.TELLING, quota=0)}
    return found | {key(t): m.scored("back", names=task.TELLING, threshold=t) for t in THRESHOLDS}


def parts(size: Size, out: Path) -> dict[str, Callable[[], Any]]:
    """Table by table, for each seed."""
    network = Network(size, out)
    trials = [Trial(network, seed) for seed in range(size.seeds)]
    made: dict[str, Callable[[Trial], Any]] = {"model": model_part}
    for top_p in TOP_P[-size.grid :]:
        made[f"plain {top_p}"] = partial(plain_part, top_p=top_p)
    made |= {"backtracking": backtracking_part, "shifted": shifted_part, "layers": layers_part}
    made |= {"verifiers": verifiers_part, "candidates": candidates_part, "tuned": tuned_part}
    return {f"{k} {name}": partial(part, m) for name, part in made.items() for k, m in enumerate(trials)}


def lab() -> laboratory.Lab:
    from testcase_tables import draw, tables

    return laboratory.Lab("testcases", HERE, {"quick": QUICK, "default": Size(), "larger": LARGER}, parts, tables, draw, KEPT)
