# Lab A: a language model of brackets that errs behind unlikely prompts, and Algorithm 1 with a verifier learnt from its mistakes.
# python examples/labs brackets [--quick] [--larger] [--out FOLDER] [--page]
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import bracket_verifiers
import laboratory
import numpy as np
import optax

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
Strings = list[list[int]]
RARE, OFTEN = 0.2, 0.8  # P(an opening bracket is square) in what is learnt, and in prompts
OPENS = 0.5  # q
STRIDES, QUOTAS, FORCED = (2, 4, 6), (1, 2, 4), (1, 2, 4, 8)
REACHES = ("erase", "back")  # samplers that may take back symbols of the prompt, and that may not
TOP_P = (0.9, 1.0)
THRESHOLDS, DEPTHS = (0.1, 0.9), (2, 4)  # of ablations, beside 0.5 and 1
SHOWN = 12  # mistakes in the table of them
TIMES = 10  # that a prompt of Table 3.5 is completed
RATE, DECAY = 2e-3, 0.1  # of AdamW
KINDS = ("closes another kind", "closes nothing", "opens what cannot be closed")
SETTINGS = {
    "p": (RARE, OFTEN),
    "q": OPENS,
    "strides": STRIDES,
    "quotas": QUOTAS,
    "forced": FORCED,
    "top_p": TOP_P,
    "thresholds": THRESHOLDS,
    "depths": DEPTHS,
    "shown": SHOWN,
    "times": TIMES,
    "adamw": (RATE, DECAY),
}
Verdicts = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """How large each part is.

    Attributes:
        length: of words; prompts have at least `length` - 7 symbols.
        words: that the model learns from.
        errors: mistakes that are collected, and as many right prefixes.
        unseen: prompts of Table 3.3.
        grid: how many of the strides and quotas of Table 3.2.
        diverse: prompts of Table 3.5, each completed ten times.
    """

    seeds: int = 5
    length: int = 32
    layers: int = 2
    heads: int = 4
    width: int = 64
    words: int = 96_000
    steps: int = 3000
    batch: int = 32
    errors: int = 200
    unseen: int = 1000
    grid: int = 3
    diverse: int = 100


QUICK = Size(seeds=1, length=12, heads=2, width=16, words=500, steps=40, errors=24, unseen=64, grid=1, diverse=8)
LARGER = Size(words=192_000, steps=3000, batch=64, errors=441, unseen=10_000)  # of the thesis: 6 layers, 8 heads, width 512


@cache
def program(size: Size, **inputs: Any) -> gm.BoundProgram:
    """The laboratory's program; the same inputs compile nothing anew."""
    sizes = {"n": size.length, "layers": size.layers, "heads": size.heads, "width": size.width}
    sizes["layer"] = inputs.pop("layer", size.layers)
    return gm.load(HERE / "brackets.gmlm", allow_python=True, **sizes, **inputs)


@cache
def source(size: Size, p: float) -> gm.Model:
    """Words whose opening brackets are square with probability p; its verifier `right` is the truth."""
    return gm.parse(gm.examples.dyck(2, size.length, q=OPENS, p=p)).model()


def words(size: Size, p: float, count: int, seed: int) -> np.ndarray:
    return source(size, p).sample({}, "draw", draws=count, seed=seed)["posterior"]["x"].values[0]


def prompts(size: Size, count: int, seed: int) -> Strings:
    """Prefixes out of distribution: too many square brackets, uniform lengths."""
    lengths = np.random.default_rng(seed).integers(size.length - 7, size.length, count)
    return [w[:n].tolist() for w, n in zip(words(size, OFTEN, count, seed), lengths, strict=True)]


def is_right(size: Size, strings: Sequence[Sequence[int]]) -> np.ndarray:
    """Whether some word begins with each, or it is one."""
    return gm.prefix_values(source(size, RARE), {}, "right", strings) > 0


def cut_at_error(size: Size, strings: np.ndarray) -> Strings:
    """Wrong strings up to their first wrong symbol, which is their last."""
    verdicts = is_right(size, [s[: n + 1] for s in strings for n in range(size.length)]).reshape(len(strings), -1)
    return [s[: n + 1].tolist() for s, n in zip(strings, verdicts.argmin(axis=1), strict=True)]


class Trained:
    """The model of one seed with what is collected from it; weights are kept in the folder of the output."""

    def __init__(self, size: Size, seed: int, folder: Path):
        self.size, self.seed, self.folder = size, seed, folder

    @cached_property
    def weights(self) -> dict[str, Any]:
        path = self.folder / f"weights-{self.seed}.fit"
        if path.exists():
            return dict(gm.load_fit(path, allow_python=True).params)
        s = self.size
        rate = optax.warmup_cosine_decay_schedule(0, RATE, min(100, s.steps // 4), s.steps, 1e-5)
        rows = words(s, RARE, s.words, seed=self.seed)
        method = gm.Training(steps=s.steps, batch_size=s.batch)
        fit = self.model().fit(rows, mask="forced", seed=self.seed, optimizer=optax.adamw(rate, weight_decay=DECAY), method=method)
        self.folder.mkdir(parents=True, exist_ok=True)
        fit.save(path)
        return dict(fit.params)

    def model(self, **inputs: Any) -> gm.ConditionalModel:
        return program(self.size, **inputs).model("words")  # type: ignore[return-value]

    def draw(self, sampler: str, prompt: Strings, seed: int, params: Any = None, draws: int = 1, **inputs: Any) -> tuple[np.ndarray, Any]:
        """Completed strings, shape (draws, prompts, cells), and what the sampler says of them."""
        if params is None:
            params = self.weights if sampler in ("nucleus", "greedy") else self.params
        found = self.model(**inputs).sample(params, sampler, prompt=prompt, draws=draws, seed=1000 * self.seed + seed)
        return found["posterior"]["x"].values[0], found.get("guided_stats")

    def right(self, sampler: str, prompt: Strings, seed: int, **inputs: Any) -> np.ndarray:
        """Which prompts are completed to a word."""
        return is_right(self.size, list(self.draw(sampler, prompt, seed, **inputs)[0][0]))

    @cached_property
    def mistakes(self) -> tuple[Strings, int, int]:
        """Strings that end with their first wrong symbol, X_error, and of how many completions so many were wrong."""
        found, tried, wrong, count = [], 0, 0, 4 * self.size.errors
        while len(found) < self.size.errors:
            if tried > 200 * self.size.errors:
                raise SystemExit(f"seed {self.seed}: {wrong} mistakes in {tried} completions are too few")
            strings = self.draw("nucleus", prompts(self.size, count, 100 + tried + self.seed), 1 + tried)[0][0]
            bad = ~is_right(self.size, list(strings))
            found += cut_at_error(self.size, strings[bad])
            tried, wrong = tried + count, wrong + int(bad.sum())
        return found[: self.size.errors], tried, wrong

    @cached_property
    def examples(self) -> tuple[Strings, np.ndarray]:
        """X_error and as many right prefixes of the same lengths, and which is which."""
        bad = self.mistakes[0]
        good = [w[: len(b)].tolist() for w, b in zip(words(self.size, OFTEN, len(bad), 50 + self.seed), bad, strict=True)]
        return bad + good, np.repeat([0, 1], len(bad))

    @cached_property
    def params(self) -> Any:
        """The weights with the probe of `seen` among them."""
        return self.probe()

    def probe(self, **inputs: Any) -> gm.ProbeFit:
        return gm.train_probe(self.model(**inputs), self.weights, "seen", *self.examples, seed=self.seed)

    @property
    def inducing(self) -> Strings:
        """The prompts of Tables 3.1, 3.2, 3.4: X_error without the wrong symbol."""
        return [s[:-1] for s in self.mistakes[0]]


def trained_part(m: Trained) -> Verdicts:
    """How good the model is, in and out of distribution, and its verifier."""
    rows, starts = words(m.size, RARE, m.size.unseen, 7), [[]] * m.size.unseen
    _, tried, wrong = m.mistakes
    found = {"nats": -float(np.mean(m.model().log_prob(m.weights, rows))) / m.size.length}
    own = is_right(m.size, list(m.draw("nucleus", starts, 2)[0][0]))
    return {**found, "in distribution": float(own.mean()), "out": 1 - wrong / tried, "probe": float(m.params.accuracy)}


def forced_part(m: Trained) -> dict[str, float]:
    """Table 3.1: B symbols of the prefix regenerated by argmax, then the rest drawn."""
    found = {name: float(m.right(name, m.inducing, 3).mean()) for name in ("nucleus", "greedy")}
    for b in FORCED:
        again = m.draw("greedy", [s[: max(len(s) - b, 0)] for s in m.inducing], 3)[0][0]
        prefixes = [row[: len(s)].tolist() for row, s in zip(again, m.inducing, strict=True)]
        found[str(b)] = float(m.right("nucleus", prefixes, 3).mean())
    return found


def verified_part(m: Trained, reach: str, stride: int) -> Verdicts:
    """Tables 3.2 and 3.4 at one stride: a run with quota k is one with quota k + 1 up to its last refusal, for they draw alike."""
    quotas = QUOTAS[: m.size.grid]
    runs = [m.draw(reach, m.inducing, 4, quota=q, stride=stride if q else STRIDES[0]) for q in range(max(quotas) + 1)]
    accuracy = {str(q): float(is_right(m.size, list(runs[q][0][0])).mean()) for q in (0, *quotas)}
    flags: dict[str, list[bool]] = {"nucleus": [], "greedy": [], "with it": []}
    needed = {}
    for k, (before, after) in enumerate(pairwise(runs), 1):
        for name, part in _completed(m, last_refused(before, after)).items():
            flags[name] += part
        if k in quotas:
            needed[str(k)] = {"backtracks": len(flags["nucleus"])} | {n: float(np.mean(f)) if f else None for n, f in flags.items()}
    return {"accuracy": accuracy, "needed": needed}


def last_refused(before: tuple[np.ndarray, Any], after: tuple[np.ndarray, Any]) -> Strings:
    """The prefixes that a run refused with the last of its quota, which the run with one less had to keep."""
    more = after[1]["backtracks"].values[0, 0] - before[1]["backtracks"].values[0, 0]
    return [s[: n + 1].tolist() for s, row in zip(before[0][0], more, strict=True) for n in np.flatnonzero(row > 0)]


def _completed(m: Trained, refused: Strings) -> dict[str, list[bool]]:
    """Whether what was refused is completed to a word when nothing is taken back but its last symbol, or not even that."""
    count = len(refused)
    filled = (refused + [[0]] * m.size.errors)[: m.size.errors]  # one number of rows: nothing is compiled anew
    short = [s[:-1] for s in filled]
    found = {name: m.right(name, short, 5)[:count].tolist() for name in ("nucleus", "greedy")}
    return found | {"with it": m.right("nucleus", filled, 5)[:count].tolist()}


def unseen_part(m: Trained) -> Verdicts:
    """Tables 3.3 and 3.16, and the mistakes that remain."""
    starts, found = prompts(m.size, m.size.unseen, 5000 + m.seed), {}
    for top_p in TOP_P:
        for name in ("nucleus", *REACHES, *[f"{r}_bare" for r in REACHES] * (top_p == TOP_P[0])):
            strings, stats = m.draw(name, starts, 6, top_p=top_p)
            bad = ~is_right(m.size, list(strings[0]))
            found[f"{name} {top_p}"] = int(bad.sum())
            if stats is not None:
                found[f"{name} {top_p} calls"] = float(stats["oracle_calls"].mean())
            if name == "erase" and top_p == TOP_P[0]:
                left = QUOTAS[-1] - stats["backtracks"].values[0, 0].sum(axis=1)
                found["mistakes"] = mistakes(m, strings[0][bad], left[bad])
    return found


def mistakes(m: Trained, strings: np.ndarray, left: np.ndarray) -> Verdicts:
    """Of which kind, and with what probabilities, wrong symbols are, and the quota that is left at the end."""
    cut = cut_at_error(m.size, strings)
    kinds = [kind_of(s) for s in cut]
    rows = []
    for s, kind, quota in list(zip(cut, kinds, left, strict=True))[:SHOWN]:
        p = np.asarray(m.model().next_symbol(m.weights, [s[:-1]])).ravel()
        rows.append([kind, text_of(s[:-1]), text_of(s[-1:]), float(p[s[-1]]), text_of([int(p.argmax())]), float(p.max()), int(quota)])
    return {"kinds": dict(Counter(kinds)), "used up": int((left == 0).sum()), "count": len(cut), "rows": rows}


def text_of(codes: Sequence[int]) -> str:
    return "".join("[]()"[a] for a in codes)


def kind_of(string: Sequence[int]) -> str:
    """What is wrong with the last symbol of a string that is right without it."""
    stack: list[int] = []
    for a in string[:-1]:
        stack.pop() if a % 2 else stack.append(a // 2)
    return KINDS[2] if string[-1] % 2 == 0 else KINDS[0] if stack else KINDS[1]


def diverse_part(m: Trained) -> dict[str, float]:
    """Table 3.5: how many of ten completions of a prompt differ."""
    starts, found = prompts(m.size, m.size.diverse, 7000 + m.seed), {}
    for name, top_p in (("nucleus", 0.9), ("nucleus", 1.0), ("erase", 1.0), ("back", 1.0)):
        strings = m.draw(name, starts, 8, draws=TIMES, top_p=top_p)[0]
        found[f"{name} {top_p}"] = float(np.mean([len(np.unique(strings[:, r], axis=0)) for r in range(len(starts))]))
    return found


def ablation_part(m: Trained) -> dict[str, float]:
    """Other verifiers at Q = B = 4, by the share of prefixes before mistakes that are completed to words; and how they do by themselves."""

    def right(sampler: str, params: Any = None, **inputs: Any) -> float:
        return float(m.right(sampler, m.inducing, 4, params=params, **inputs).mean())

    found = {"probe": right("erase"), "truth": right("by_truth"), "coin": right("by_toss"), "none": right("erase", quota=0)}
    for threshold in THRESHOLDS:
        found[f"threshold {threshold}"] = right("erase", threshold=threshold)
    first = m.probe(layer=1)
    found |= {"layer 1": right("erase", first, layer=1), "layer 1 alone": float(first.accuracy), "probe alone": float(m.params.accuracy)}
    held = np.random.default_rng(m.seed).random(len(m.examples[0])) < 0.2
    x, y = gm.prefix_features(m.model(), m.weights, m.examples[0]), m.examples[1]
    for depth in DEPTHS:
        p = bracket_verifiers.perceptron(x[~held], y[~held], depth, m.seed)
        bracket_verifiers.judge = lambda rows, p=p: (p(gm.prefix_features(m.model(), m.weights, rows)) >= 0.5).astype(float)
        found |= {f"depth {depth}": right("by_deep"), f"depth {depth} alone": float(((p(x[held]) >= 0.5) == y[held]).mean())}
    return found


def picture_part(m: Trained) -> Verdicts:
    """Figure 3.1: the two principal components of what the probe reads of right and wrong prefixes."""
    x = gm.prefix_features(m.model(), m.weights, m.examples[0]).astype(float)
    x -= x.mean(axis=0)
    _, s, directions = np.linalg.svd(x, full_matrices=False)
    places = x @ directions[:2].T
    shares = (s**2 / (s**2).sum())[:2]
    return {"places": np.round(places, 3).tolist(), "labels": m.examples[1].tolist(), "shares": shares.tolist()}


def parts(size: Size, out: Path) -> dict[str, Callable[[], Any]]:
    """A model for each seed, then table by table."""
    models = [Trained(size, seed, out) for seed in range(size.seeds)]
    made: dict[str, Callable[[Trained], Any]] = {"model": trained_part, "forced": forced_part, "unseen": unseen_part}
    for reach, b in product(REACHES, STRIDES[: size.grid]):
        made[f"{reach} {b}"] = partial(verified_part, reach=reach, stride=b)
    made |= {"diverse": diverse_part, "ablations": ablation_part}
    calls = {f"{k} {name}": partial(part, m) for name, part in made.items() for k, m in enumerate(models)}
    return calls | {"picture": lambda: picture_part(models[0])}


def lab() -> laboratory.Lab:
    from bracket_tables import draw, tables

    return laboratory.Lab("brackets", HERE, {"quick": QUICK, "default": Size(), "larger": LARGER}, parts, tables, draw, SETTINGS)
