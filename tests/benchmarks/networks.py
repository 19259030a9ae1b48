"""Training a network beside a plain loop over the same network, and what compiling a width costs."""

from __future__ import annotations

import time

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
    return Report(tuple(figures))


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

    def loop(steps: int) -> float:
        network = model.init_params(0)["net"]
        state = optimizer.init(eqx.filter(network, eqx.is_inexact_array))
        rng = np.random.default_rng(0)
        started = time.perf_counter()
        for k in range(steps):
            chosen = rng.choice(len(source), BATCH, replace=False)
            src, tgt = (jnp.asarray(a[chosen], jnp.int32) for a in (source, target))
            network, state, loss = step(network, state, src, tgt, jax.random.key(k))
        loss.block_until_ready()
        return time.perf_counter() - started

    return loop
