"""Training a network beside a plain loop over the same network, what compiling a width costs, and the masks of decoders."""

from __future__ import annotations

import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import gmlmdsl as gm

from ._measure import Figure, Report, figure

PROGRAM = """
input vocabulary : int
index s = range(32)
index t = range(32)
network net = encoder_decoder(layers = 2, heads = 4, width = 128, positional_attention = true)
model translate {
  given src[i in s] : range(vocabulary)
  var   tgt[j in t] : range(vocabulary)
  conditional tgt ~ net(src)
}
mask corrupt = everything(tgt, noise = {keep: 0.15, uniform: 0.85})
"""
MASKED = """
input vocabulary : int
index t = range(32)
network net = transformer(layers = 2, heads = 4, width = 128, position_embeddings = true)
model text {
  var x[i in t] : range(vocabulary)
  conditional x ~ net()
}
sampler one = random_order()
mask bound  = visits(one)
mask random = bernoulli(x, rate = uniform(0, 1))
"""
BATCH = 32


def run(quick: bool) -> Report:
    """Steps of one batch of full rows; the difference of two runs of different length leaves out what is paid once."""
    vocabulary, few, many = (50, 2, 6) if quick else (2000, 10, 60)
    model = gm.parse(PROGRAM, vocabulary=vocabulary).model()
    rng = np.random.default_rng(0)
    source, target = (rng.integers(0, vocabulary, (8 * BATCH, 32)) for _ in range(2))

    optimizer = optax.adam(1e-3)  # one object, so that one program serves every run

    def ours(steps: int) -> float:
        training = gm.Training(steps=steps, batch_size=BATCH)
        started = time.perf_counter()
        model.fit(target, given={"src": source}, optimizer=optimizer, method=training, progress=False)
        return time.perf_counter() - started

    first = ours(few)
    mine, theirs = [], []
    plain = _plain(model, source, target, vocabulary)
    plain(few)
    for _ in range(1 if quick else 3):  # in turns: what else runs on the machine slows both
        mine.append((ours(many) - ours(few)) / (many - few))
        theirs.append((plain(many) - plain(few)) / (many - few))
    tokens = BATCH * 32
    words = f"encoder-decoder, {vocabulary} values, batches of {BATCH} rows of 32 cells"
    figures: list[Figure] = [
        figure("networks", "gmlmdsl fit", f"first {few} steps, {words}", [first], "s", "compilation of one width among it"),
        figure("networks", "gmlmdsl fit", words, [tokens / s for s in mine], "cells/s"),
        figure("networks", "plain Equinox loop", words, [tokens / s for s in theirs], "cells/s"),
        figure("networks", "gmlmdsl / plain", words, [t / m for m, t in zip(mine, theirs, strict=True)], "ratio", "1: as fast"),
    ]
    return Report((*figures, *_masked(quick)))


def _masked(quick: bool) -> list[Figure]:
    """A masked model under the mask of a decoder, under `bernoulli` with uniform rates, and by hand, in turns."""
    values, few, many = (20, 2, 6) if quick else (2000, 10, 110)
    model = gm.parse(MASKED, vocabulary=values).model()
    rows = np.random.default_rng(0).integers(0, values, (8 * BATCH, 32))
    optimizer = optax.adam(1e-3)

    def ours(mask: str, steps: int) -> float:
        training = gm.Training(steps=steps, batch_size=BATCH)
        started = time.perf_counter()
        model.fit(rows, mask=mask, optimizer=optimizer, method=training, progress=False)
        return time.perf_counter() - started

    plain = _plain_masked(model, rows, values)
    runs = {"visits": lambda n: ours("bound", n), "bernoulli": lambda n: ours("random", n), "plain": plain}
    for run_of in runs.values():
        run_of(few)  # compiles
    times = {name: list[float]() for name in runs}
    for _ in range(1 if quick else 5):
        for name, run_of in runs.items():
            times[name].append((run_of(many) - run_of(few)) / (many - few))
    words = f"transformer, {values} values, batches of {BATCH} rows of 32 cells"
    ratios = (("visits", "bernoulli", "goal: at most 1.05"), ("visits", "plain", "goal: at most 1.1"), ("bernoulli", "plain", ""))
    return [
        *(figure("networks", f"step under {n}" if n != "plain" else "step by hand", words, t, "s") for n, t in times.items()),
        *(
            figure("networks", f"{a} / {b}", words, [x / y for x, y in zip(times[a], times[b], strict=True)], "ratio", g)
            for a, b, g in ratios
        ),
    ]


def _plain_masked(model: gm.ConditionalModel, rows: np.ndarray, values: int):
    """What a user would write: hide a uniform number of cells, and weigh their mean cross-entropy by 32."""
    optimizer = optax.adam(1e-3)

    @eqx.filter_jit
    def step(network, state, x, key):
        def objective(network):
            n, p, d = jax.random.split(key, 3)
            hidden = jax.random.randint(n, (len(x), 1), 1, 33)
            rank = jnp.argsort(jnp.argsort(jax.random.uniform(p, x.shape), axis=1), axis=1)
            seen = jnp.where(rank < hidden, values, x)

            def one(x, seen, hidden, key):
                full = jnp.asarray(32, jnp.int32)
                logits = network.logits(None, network.prepare(None, full, 32), seen, full, key=key)
                losses = optax.softmax_cross_entropy_with_integer_labels(logits, x)
                return 32 * jnp.where(seen == values, losses, 0.0).sum() / hidden[0]

            return jax.vmap(one)(x, seen, hidden, jax.random.split(d, len(x))).mean()

        loss, gradient = eqx.filter_value_and_grad(objective)(network)
        updates, state = optimizer.update(gradient, state, network)
        return eqx.apply_updates(network, updates), state, loss

    return _loop(model, optimizer, step, rows)


def _plain(model: gm.ConditionalModel, source: np.ndarray, target: np.ndarray, vocabulary: int):
    """What a user would write: noise, cross-entropy and a length loss of the same network, one jitted step."""
    optimizer = optax.adam(1e-3)

    @eqx.filter_jit
    def step(network, state, src, tgt, key):
        def objective(network):
            k, u, d = jax.random.split(key, 3)
            keep = jax.random.uniform(k, tgt.shape) < 0.15
            seen = jnp.where(keep, tgt, jax.random.randint(u, tgt.shape, 0, vocabulary))

            def one(src, tgt, seen, key):
                full = jnp.asarray(32, jnp.int32)
                encoded = network.encode((src,), (full,), key=key)
                logits = network.logits(encoded, network.prepare(encoded, full, 32), seen, full, key=key)
                loss = optax.softmax_cross_entropy_with_integer_labels(logits, tgt).mean()
                return loss + 0.1 * network.length_head.loss(encoded, full)

            return jax.vmap(one)(src, tgt, seen, jax.random.split(d, len(src))).mean()

        loss, gradient = eqx.filter_value_and_grad(objective)(network)
        updates, state = optimizer.update(gradient, state, network)
        return eqx.apply_updates(network, updates), state, loss

    return _loop(model, optimizer, step, source, target)


def _loop(
    model: gm.ConditionalModel, optimizer: optax.GradientTransformation, step: Callable, *arrays: np.ndarray
) -> Callable[[int], float]:
    """Return a function that takes steps on batches of the arrays' rows, and returns their seconds."""

    def loop(steps: int) -> float:
        network = model.init_params(0)["net"]
        state = optimizer.init(eqx.filter(network, eqx.is_inexact_array))
        rng = np.random.default_rng(0)
        started = time.perf_counter()
        for k in range(steps):
            chosen = rng.choice(len(arrays[0]), BATCH, replace=False)
            batch = (jnp.asarray(a[chosen], jnp.int32) for a in arrays)
            network, state, loss = step(network, state, *batch, jax.random.key(k))
        loss.block_until_ready()
        return time.perf_counter() - started

    return loop
