# Heads of attention over brackets: patterns that look like an explanation in networks that do not need them, and heads that are taken away.
# python examples/labs heads [--quick] [--out DIR] [--page]
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import laboratory
import numpy as np
import optax
from dyck import LENGTH, OPENS, drawn
from scipy import stats

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
Array = np.ndarray
DEPTHS = (1, 4)  # layers of networks that copy, as in Figures 2.20 and 2.19
TELLING = 0.5  # the score of a pattern from which on a head counts as interpretable
NEEDED = 0.01  # accuracy that is lost without a head, or without attention, from which on it counts as needed
SETTINGS = {"depths": DEPTHS, "telling": TELLING, "needed": NEEDED, "opens": OPENS, "length": LENGTH}


@dataclass(frozen=True)
class Size:
    """Seeds, words to learn from and others, steps of copying and of the language, words of a step, width and heads."""

    seeds: int = 5
    words: int = 12_800
    unseen: int = 200
    copying: int = 150
    steps: int = 400
    batch: int = 64
    width: int = 32
    heads: int = 4


@cache
def adam(steps: int) -> optax.GradientTransformation:
    """One object for all seeds."""
    return optax.adam(optax.cosine_decay_schedule(3e-3, steps))


def words(size: Size) -> tuple[Array, Array]:
    """Those that are learnt from, and others."""
    every = drawn(2, LENGTH, size.words + size.unseen, 1)
    return every[: size.words], every[size.words :]


class Trained:
    """A network of the program with its heads."""

    def __init__(self, size: Size, name: str, network: str, mask: str, steps: int, seed: int, layers: int = 2):
        program = gm.load(HERE / "heads.gmlm", n=LENGTH, layers=layers, heads=size.heads, width=size.width)
        self.model: Any = program.model(name)
        self.network, self.places = network, [(layer, head) for layer in range(layers) for head in range(size.heads)]
        method = gm.Training(steps=steps, batch_size=size.batch)
        fit = self.model.fit(words(size)[0], mask, seed=seed, optimizer=adam(steps), method=method, progress=False)
        self.params = dict(fit.params)

    def changed(self, change: Callable[[Any, int], Any]) -> dict[str, Any]:
        """The parameters with `change(attention, layer)` in the place of each layer's attention."""
        net = self.params[self.network]
        found = [change(layer.attention, k) for k, layer in enumerate(net.encoder.layers)]
        return {self.network: eqx.tree_at(lambda n: [layer.attention for layer in n.encoder.layers], net, found)}

    def without(self, layer: int, head: int) -> dict[str, Any]:
        """The parameters without what one head writes."""

        def change(attention: Any, k: int) -> Any:
            return silenced(attention, head) if k == layer else attention

        return self.changed(change)

    def scores(self, x: Array) -> list[float]:
        """By head, how much its attention looks like one of `patterns`."""
        weights = np.asarray(self.model.attention(self.params, x)["self"], float)  # rows, layers, heads, asking, asked
        known = patterns(x)
        allowed = np.tri(x.shape[1], dtype=bool) if self.network == "next" else np.ones((x.shape[1],) * 2, bool)
        return [score(weights[:, layer, head], known, allowed) for layer, head in self.places]


def silenced(attention: Any, head: int | None = None) -> Any:
    """Attention without what one head writes, or all of them."""
    size = attention.output.shape[0] // attention.heads
    rows = slice(None) if head is None else slice(head * size, (head + 1) * size)
    return eqx.tree_at(lambda a: a.output, attention, attention.output.at[rows].set(0))


def patterns(x: Array) -> dict[str, Array]:
    """What a place may look at, by name, (rows, asking, asked): itself, the one before, kinds of brackets, the top of the stack."""
    rows, n = x.shape
    found = {name: np.broadcast_to(np.eye(n, k=-k, dtype=bool), (rows, n, n)) for k, name in enumerate(("itself", "the one before"))}
    for name, some in {"opening": x % 2 == 0, "closing": x % 2 == 1, "round": x < 2, "square": x >= 2}.items():
        found[name] = np.broadcast_to(some[:, None, :], (rows, n, n))
    top = np.zeros((rows, n, n), bool)
    for row, word in enumerate(x):
        stack: list[int] = []
        for place, bracket in enumerate(word):
            if bracket % 2:
                stack.pop()
            else:
                stack.append(place)
            top[row, place, stack[-1:]] = True
    return found | {"the top of the stack": top}


def score(weights: Array, known: Mapping[str, Array], allowed: Array) -> float:
    """The most, over patterns, of (mass on the pattern - what uniform attention has) / (1 - that): 1 where all mass is on it, at most 1.

    Args:
        weights: attention, (rows, asking, asked).
        known: `patterns`.
        allowed: where attention may go, (asking, asked).
    """
    uniform = allowed / allowed.sum(axis=1, keepdims=True)
    found = []
    for pattern in known.values():
        there = pattern.any(axis=2)  # places that have something of the kind to look at
        mass, base = ((a * pattern).sum(axis=2)[there].mean() for a in (weights, np.broadcast_to(uniform, weights.shape)))
        found.append((mass - base) / (1 - base))
    return float(max(found))


def copying(size: Size, layers: int, seed: int) -> dict[str, Any]:
    """A network that copies: how well, how well without attention, which heads look interpretable, and which are needed."""
    m, x = Trained(size, "copy", "same", "shown", size.copying, seed, layers), words(size)[1]

    def accuracy(params: Any) -> float:
        net = params["same"]
        n = jnp.int32(x.shape[1])
        logits = eqx.filter_vmap(lambda row: net.logits(None, net.prepare(None, n, x.shape[1]), row, n))(jnp.asarray(x))
        return float((np.asarray(logits).argmax(axis=2) == x).mean())

    whole, heads = accuracy(m.params), [accuracy(m.without(*place)) for place in m.places]
    none = accuracy(m.changed(lambda attention, _: silenced(attention)))
    return {
        "whole": whole,
        "without attention": none,
        "scores": [round(s, 4) for s in m.scores(x)],
        "lost": [round(whole - a, 5) for a in heads],
    }


def importance(size: Size, seed: int) -> dict[str, Any]:
    """A network that predicts brackets: by head the nats that are lost without it, how interpretable it looks, and their correlation."""
    m, x = Trained(size, "language", "next", "forced", size.steps, seed), words(size)[1]

    def nats(params: Any) -> float:
        return -float(np.mean(m.model.log_prob(params, x))) / LENGTH

    whole, scores = nats(m.params), m.scores(x)
    lost = [nats(m.without(*place)) - whole for place in m.places]
    rank = float(stats.spearmanr(scores, lost).statistic)
    return {"nats": whole, "scores": [round(s, 4) for s in scores], "lost": [round(v, 5) for v in lost], "rank correlation": round(rank, 4)}


def parts(size: Size, out: Path) -> Mapping[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}
    for seed in range(size.seeds):
        found |= {f"copying, {layers} layers, {seed}": partial(copying, size, layers, seed) for layers in DEPTHS}
        found[f"language, {seed}"] = partial(importance, size, seed)
    return found


QUICK = Size(seeds=2, words=200, unseen=20, copying=10, steps=10, batch=16, width=16, heads=2)


def lab() -> laboratory.Lab:
    from head_tables import tables

    return laboratory.Lab("heads", HERE, {"quick": QUICK, "default": Size()}, parts, tables, lambda results, size: {}, SETTINGS)
