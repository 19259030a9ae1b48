# Laboratory C: brackets and attention: balance, a regulariser that brings it about, words of 16 times the length, how attention varies.
# python examples/labs dyck [--quick | --larger] [--out DIR] [--page]
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import dyck_theory as theory
import equinox as eqx
import jax
import jax.numpy as jnp
import laboratory
import numpy as np
import optax

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
Array = np.ndarray
OPENS = 0.5  # q
LENGTH, LONGEST = 28, (400, 500)  # of what is learnt from, and what is asked for
PLAIN, DEEP = {"rate": 1e-2}, {"rate": 3e-3, "feedforward": 1}
# By name: inputs of dyck.gmlm, the rate of Adam, and the weight of the regulariser by cell, which dyck_weight.py finds.
SETTINGS: dict[str, dict[str, Any]] = {
    "one-hot": {**PLAIN, "first": 1},
    "one-hot, regularised": {**PLAIN, "first": 1, "contrast": 1.0},
    "one-hot, regularised less": {**PLAIN, "first": 1, "contrast": 0.1},
    "learnt": {**DEEP, "first": 0, "layers": 2},
    "type and depth": {**PLAIN, "first": 2},
    "type and angle": {**PLAIN, "first": 3},
    "uniform": {**DEEP, "first": 1, "attends": 0},
    "learnt, places": {**DEEP, "first": 0, "layers": 2, "places": 1},
    "learnt, 3 kinds": {**DEEP, "first": 0, "layers": 2, "kinds": 3},
    "learnt, 3 layers": {**DEEP, "first": 0, "layers": 3},
    "learnt, plain": {**PLAIN, "first": 0, "layers": 2},
    "learnt, 3 layers, 3 kinds": {**DEEP, "first": 0, "layers": 3, "kinds": 3},
}
MOST = 10  # settings of the default size: the others take five minutes more
DEEPEST = 4
PREFIX = "[[[[]]]](((())))"  # Section 2.2.3.2, with four round brackets: there are five in print, one more than D
VIOLATIONS, PUMPED = (0.0, 0.01, 0.1, 1.0), (10, 1000)  # of the balance condition; matched pairs that stand before
LENGTHS = (40, 100, 400, 1000, 4000)  # N of Theorem 2.2.2, more than 8 D
UNITS = (8, 12, 16, 20)  # random hidden units for an entry of a pruned matrix
STEEPER = 2.0  # than where attention is balanced: the Lipschitz constant that g may have
# What results depend on beside the size.
KEPT = {"settings": SETTINGS, "opens": OPENS, "length": LENGTH, "longest": LONGEST, "lengths": LENGTHS, "steeper": STEEPER, "units": UNITS}
SENTENCE = 19  # symbols of those of Table 2.6
SHOWN = ("one-hot", "one-hot, regularised", "learnt", "learnt, places")  # in the picture of attention, two seeds of each


@dataclass(frozen=True)
class Size:
    """Seeds, words to learn from, others, long ones, steps, words of a step, width, sentences of Table 2.6, settings (the first of all)."""

    seeds: int = 5
    words: int = 19_000
    unseen: int = 1000
    long: int = 800
    steps: int = 600
    batch: int = 64
    width: int = 64
    sentences: int = 40
    settings: int = MOST


@cache
def drawn(kinds: int, length: int, count: int, seed: int) -> Array:
    """Exact draws of prefixes."""
    model = gm.parse(gm.examples.dyck(kinds, length, DEEPEST, q=OPENS, closed=False)).model()
    return np.asarray(model.sample({}, "exact", draws=count, chains=1, seed=seed, progress=False)["posterior"]["x"].values[0], np.int32)


def words(size: Size, kinds: int) -> tuple[Array, Array]:
    """Those that are learnt from, and others."""
    every = drawn(kinds, LENGTH, size.words + size.unseen, 1)
    return every[: size.words], every[size.words :]


def closing(rows: Array, least: int, most: int, seed: int) -> tuple[Array, Array]:
    """Of rows cut at uniform lengths those that end with a closing bracket: (rows, lengths)."""
    lengths = np.random.default_rng(seed).integers(least, most + 1, len(rows))
    closes = rows[np.arange(len(rows)), lengths - 1] % 2 == 1
    return rows[closes], lengths[closes]


def model_of(size: Size, name: str) -> gm.ConditionalModel:
    """The language of a setting; the same for all seeds, which share what is compiled."""
    inputs = {k: v for k, v in SETTINGS[name].items() if k not in ("rate", "contrast")}
    return gm.load(HERE / "dyck.gmlm", allow_python=True, n=LENGTH, width=size.width, **inputs).model("language")  # type: ignore[return-value]


@cache
def optimiser(rate: float, steps: int) -> optax.GradientTransformation:
    """One object for all seeds."""
    return optax.adam(optax.cosine_decay_schedule(rate, steps))


@cache
def regulariser(weight: float) -> Callable[[Any, Any], jax.Array]:
    """One object for all seeds."""
    return partial(contrast, weight)


def contrast(weight: float, network: Any, batch: Any) -> jax.Array:
    """Equation 2.58, by cell: the squared distance of the logits of a word s to those of s behind r nested pairs, r uniform in 1..D."""
    module, k, d = network.module, network.module.kinds, network.module.deepest
    key_r, key_kinds = jax.random.split(batch.key)
    r = jax.random.randint(key_r, (len(batch.x), 1), 1, d + 1)
    front = nested(r, jax.random.randint(key_kinds, (len(batch.x), d), 0, k), k)
    every = jax.vmap(module)
    away = every(jnp.concatenate([front, batch.x], axis=1))[:, 2 * d :] - every(batch.x)
    square = jnp.square(away).sum(axis=(1, 2)) / batch.x.shape[1]
    return weight * (batch.weights * square).sum() / batch.weights.sum()


def nested(r: Any, chosen: Any, kinds: int) -> jax.Array:
    """r nested pairs of the chosen kinds at the end of a row, padding before: (rows, 2 D) of r (rows, 1) and kinds (rows, D)."""
    most = chosen.shape[1]
    place = jnp.arange(2 * most)[None] - 2 * (most - r)
    kind = jnp.take_along_axis(chosen, jnp.clip(jnp.where(place < r, place, 2 * r - 1 - place), 0, most - 1), axis=1)
    return jnp.where(place < 0, 2 * kinds + 1, 2 * kind + (place >= r))


class Trained:
    """The network of a setting and seed; its weights are kept in the folder of the output."""

    def __init__(self, size: Size, out: Path, name: str, seed: int, weight: float | None = None):
        self.size, self.name, self.seed = size, name, seed
        self.weight = SETTINGS[name].get("contrast") if weight is None else weight
        self.path = out / f"{re.sub('[^a-z0-9]+', '-', name)}-{seed}.fit"

    @property
    def params(self) -> dict[str, Any]:
        if self.path.exists():
            return dict(gm.load_fit(self.path, allow_python=True).params)
        s, options = self.size, SETTINGS[self.name]
        model = model_of(s, self.name)
        added = regulariser(self.weight) if self.weight else None
        method = gm.Training(steps=s.steps, batch_size=s.batch, regulariser=added)
        rows = words(s, options.get("kinds", 2))[0]
        adam = optimiser(options["rate"], s.steps)
        fit = model.fit(rows, "forced", seed=self.seed, optimizer=adam, method=method, progress=False)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fit.save(self.path)
        return dict(fit.params)


@eqx.filter_jit
def logits(module: Any, rows: Array, lengths: Array) -> jax.Array:
    """Of what follows so many brackets of each row."""
    return jax.lax.map(lambda one: module.behind(*one), (rows, lengths), batch_size=16)


def accuracy(module: Any, rows: Array, lengths: Array) -> dict[str, float]:
    """How often the last bracket, a closing one, is the likeliest of all, and of those that close."""
    found = np.asarray(logits(module, jnp.asarray(rows), jnp.asarray(lengths - 1)))
    last = rows[np.arange(len(rows)), lengths - 1]
    return {"all": float((found.argmax(axis=1) == last).mean()), "closing": float((found[:, 1::2].argmax(axis=1) == last // 2).mean())}


def violation(module: Any, printed: bool) -> float | None:
    """beta of the layer of attention behind a fixed one."""
    if module.form is None:
        return None
    first, layer = theory.FirstLayer(module.form, module.kinds, module.deepest), module.layers[-1]
    key, query, value = (np.asarray(a, float)[:, : first.width] for a in (layer.key, layer.query, layer.value))
    return theory.balance_violation(first, key * module.attends, query, value, printed)


def measured(m: Trained) -> dict[str, Any]:
    """How good a network is on words of the length that it learnt from, and of 16 times that; its violation of the balance."""
    kinds = SETTINGS[m.name].get("kinds", 2)
    params, unseen = m.params, words(m.size, kinds)[1]
    module = params["net"].module
    nats = -float(np.mean(model_of(m.size, m.name).log_prob(params, unseen))) / LENGTH
    long = drawn(kinds, LONGEST[1], m.size.long, 2)
    return {
        "nats": nats,
        "short": accuracy(module, *closing(unseen, 2, LENGTH, 3)),
        "long": accuracy(module, *closing(long, *LONGEST, 4)),
        "beta": violation(module, printed=False),
        "beta as printed": violation(module, printed=True),
    }


@eqx.filter_jit
def attended(module: Any, rows: Array) -> list[jax.Array]:
    """The attention of each layer, (rows, places, places) with the start."""
    return jax.vmap(lambda row: module.read(row)[1])(rows)


def codes(text: str) -> Array:
    return np.array(["[]()".index(a) for a in text], np.int32)


def varied(size: Size, out: Path, name: str) -> list[dict[str, Any]]:
    """By layer: the variation over seeds on the prefix, as the jackknife's values, and on sentences, as their mean values and sd."""
    kinds = SETTINGS[name].get("kinds", 2)
    sentences = words(size, kinds)[1][: size.sentences, :SENTENCE]
    modules = [Trained(size, out, name, seed).params["net"].module for seed in range(size.seeds)]
    found = []
    for on_prefix, on_sentences in zip(*([attended(m, rows) for m in modules] for rows in (codes(PREFIX)[None], sentences)), strict=True):
        found.append((on_prefix, on_sentences))
    layers = []
    for layer in range(len(modules[0].layers)):
        prefix, several = (np.stack([np.asarray(one[k][layer], float) for one in found]) for k in (0, 1))
        each = [theory.variation(several[:, i]) for i in range(several.shape[1])]
        jackknife = np.mean([theory.pseudo_values(several[:, i]) for i in range(several.shape[1])], axis=0)
        layers.append(
            {
                "prefix": _rounded(theory.pseudo_values(prefix[:, 0])),
                "sentences": _rounded(jackknife),
                "sd": float(f"{np.std(each, ddof=1) if len(each) > 1 else 0:.4g}"),
            }
        )
    return layers


def _rounded(values: Any) -> list[float]:
    return [float(f"{v:.6g}") for v in values]


def exactly(size: Size) -> dict[str, float]:
    """What needs no training: uniform attention that predicts, a construction that is balanced, random attention, the least loss."""
    rows, lengths = closing(drawn(2, LONGEST[1], size.long, 2), *LONGEST, 4)
    asked = list(zip(rows, lengths, strict=True))[:100]
    right = [theory.uniform_prediction(row[: n - 1].tolist(), 2, DEEPEST, OPENS).argmax() == row[n - 1] for row, n in asked]
    first = theory.FirstLayer("one-hot", 2, DEEPEST)
    none, value = np.zeros((1, first.width)), theory.balanced_value(first)
    found = {"uniform": float(np.mean(right)), "asked": len(right)}
    found |= {f"beta {p}": theory.balance_violation(first, none, none, value, p) for p in (False, True)}
    found |= {f"random {n}": theory.random_variation(n) for n in (len(PREFIX) + 1, SENTENCE, SENTENCE + 1)}
    return found | {f"nats {k}": theory.least_nats(k, DEEPEST, OPENS, LENGTH) for k in (2, 3)}


def balanced(size: Size) -> dict[str, Any]:
    """Random attention that is balanced, and such that is so no longer (Theorem 2.2.1), by violation and seed: what it tells, and beta.

    Words are those whose last bracket closes behind one that closes, so that the attention must tell its kind; and `PUMPED` pairs of a kind
    at depth 1, behind which a bracket of each kind opens around a pair.
    """
    asked = {}
    for name, rows, at in (
        ("short", drawn(2, LENGTH, size.unseen, 5), (LENGTH, LENGTH)),
        ("long", drawn(2, LONGEST[1], size.long, 2), LONGEST),
    ):
        cut = [row[:n].tolist() for row, n in zip(*closing(rows, *at, 4), strict=True)]
        asked[name] = [word for word in cut if word[-2] % 2 == 1 and len(word) > 2][:100]
    for r in PUMPED:
        asked[f"pumped {r}"] = [[2 * i, 2 * i + 1] * r + [2 * j, 0, 1, 2 * j + 1] for i, j in product(range(2), repeat=2)]
    first, found = theory.FirstLayer("one-hot", 2, DEEPEST), {}
    for violation in VIOLATIONS:
        for seed in range(size.seeds):
            scores, shifts = theory.balanced_scores(2, DEEPEST, np.random.default_rng(seed), violation=violation)
            told = {
                name: float(np.mean([theory.attention_prediction(w[:-1], DEEPEST, OPENS, scores, shifts).argmax() == w[-1] for w in some]))
                for name, some in asked.items()
            }
            value = theory.shifted_value(shifts)
            beta = theory.balance_violation(first, np.eye(first.width), scores, np.vstack([value, -value.sum(axis=0)]))
            spread = [theory.spread_over(w[:-1], DEEPEST, scores) for w in asked["long"]]
            found[f"{violation:g}, {seed}"] = {**told, "beta": beta, "spread": float(np.mean(spread))}
    return found


def pruned(size: Size) -> dict[str, Any]:
    """Theorem 2.2.3 and its corollary for the value matrix of Corollary 2.2.1, by hidden units and seed.

    One random pair of matrices is pruned twice: to the values that tell brackets, and to those that take each kind for the other. The first
    matrix is the same in both.

    Returns:
        The largest error of an entry, and the share of last brackets of words of 400 to 500 symbols told by the one, and by the other after
        its rule.
    """
    rows, lengths = closing(drawn(2, LONGEST[1], size.long, 2), *LONGEST, 4)
    asked = [row[:n].tolist() for row, n in zip(rows, lengths, strict=True)][: max(1, size.unseen // 50)]
    target = 0.25 * theory.balanced_value(theory.FirstLayer("one-hot", 2, DEEPEST))  # the layer norm takes any scale
    other = target[[*range(DEEPEST, 2 * DEEPEST), *range(DEEPEST), -2, -1]]  # the slots of the two kinds change places
    found = {}
    for units, seed in product(UNITS, range(size.seeds)):
        made = [theory.pruned(t, units, np.random.default_rng(seed))[0] for t in (target, other)]
        told = [
            np.mean([theory.uniform_prediction(w[:-1], 2, DEEPEST, OPENS, v).argmax() == w[-1] ^ flip for w in asked])
            for v, flip in zip(made, (0, 2), strict=True)
        ]
        row = {"error": np.abs(made[0] - target).max(), "told": told[0], "other": told[1]}
        found[f"{units}, {seed}"] = {name: float(f"{v:.4g}") for name, v in row.items()}
    return found


def approximate(size: Size) -> dict[str, Any]:
    """Theorem 2.2.2 without training, by N and seed: how unbalanced attention may be where the Lipschitz constant of g is bounded.

    A g that is right behind two words that want different brackets is at least as steep as the distance of their next symbols'
    probabilities, sqrt(2) (1 - q), over that of what it reads. The violation is the largest, to a thousandth, at which that is `STEEPER`
    times what it is without one. Scores are violated along one direction a seed.

    Returns:
        Of each N and seed the violation, the largest |S| / P there, the right side of Equation 2.54 over P, and the Lipschitz constant.
    """
    first, found = theory.FirstLayer("one-hot", 2, DEEPEST), {}
    for n, seed in product(LENGTHS, range(size.seeds)):

        def violated(v: float, seed: int = seed) -> tuple[Array, Array]:
            return theory.balanced_scores(2, DEEPEST, np.random.default_rng(seed), violation=v)

        goal = theory.read_apart(*violated(0.0), n) / STEEPER
        low, high = 1e-6, 1.0
        while high / low > 1.001:
            middle = float(np.sqrt(low * high))
            low, high = (middle, high) if theory.read_apart(*violated(middle), n) > goal else (low, middle)
        scores, shifts = violated(low)
        value = theory.shifted_value(shifts)
        ratios = theory.balance_ratios(first, np.eye(first.width), scores, np.vstack([value, -value.sum(axis=0)]))
        apart = theory.read_apart(scores, shifts, n)
        row = {
            "violation": low,
            "ratio": max(ratios),
            "bound": theory.balance_bound(apart, DEEPEST, n),
            "steep": np.sqrt(2) * (1 - OPENS) / apart,
        }
        found[f"{n}, {seed}"] = {name: float(f"{v:.6g}") for name, v in row.items()}
    return found


def pictured(size: Size, out: Path, name: str) -> list[Any]:
    """The last layer's attention on the prefix, of two seeds."""
    modules = [Trained(size, out, name, seed).params["net"].module for seed in range(min(2, size.seeds))]
    return [np.round(np.asarray(attended(m, codes(PREFIX)[None])[-1][0], float), 3).tolist() for m in modules]


def names(size: Size) -> list[str]:
    return list(SETTINGS)[: size.settings]


def parts(size: Size, out: Path) -> Mapping[str, Callable[[], Any]]:
    """Two settings at a time, seed by seed: of two processes each then has settings of its own to compile. Then what compares seeds."""
    found: dict[str, Callable[[], Any]] = {"exact": partial(exactly, size), "balanced": partial(balanced, size)}
    found |= {"approximate": partial(approximate, size), "pruned": partial(pruned, size)}
    for k, seed in product(range(0, size.settings, 2), range(size.seeds)):
        found |= {f"{name}, {seed}": partial(measured, Trained(size, out, name, seed)) for name in names(size)[k : k + 2]}
    found |= {f"variation, {name}": partial(varied, size, out, name) for name in names(size)}
    return found | {f"picture, {name}": partial(pictured, size, out, name) for name in SHOWN if name in names(size)}


QUICK = Size(seeds=3, words=200, unseen=40, long=20, steps=20, batch=16, width=24, sentences=4, settings=2)
LARGER = Size(words=95_000, unseen=5000, steps=5000, width=500, settings=len(SETTINGS))


def lab() -> laboratory.Lab:
    from dyck_tables import draw, tables

    sizes = {"quick": QUICK, "default": Size(), "larger": LARGER}
    return laboratory.Lab("dyck", HERE, sizes, parts, tables, draw, KEPT)
