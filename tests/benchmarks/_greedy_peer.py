"""Greedy search as one would write it by hand in JAX: one sentence, the arrays of a network, a cache, one compiled loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gmlmdsl.translation import Translator

HIDDEN = -1e10


class ByHand:
    """A loop over the pieces of one line, with the weights of a translator's causal network, as the peers of `latency` are."""

    name = "by hand in JAX, greedy"

    def __init__(self, translator: Translator):
        self.vocabulary, self.weights = translator.vocabulary, _weights(translator.network)
        self.run = jax.jit(_translated, static_argnums=2)

    def decode(self, lines: Sequence[str], length: int) -> int:
        """Translate each line into `length` pieces and into text; the number of pieces of all."""
        found = [self.pieces(codes, length) for codes in self.vocabulary.encode(lines)]
        self.vocabulary.decode(found)
        return length * len(found)

    def pieces(self, codes: Sequence[int], length: int) -> np.ndarray:
        """The likeliest next piece, `length` times over."""
        return np.asarray(self.run(self.weights, np.asarray(codes, np.int32), length))


def _weights(net: Any) -> dict[str, Any]:
    """Arrays of the network, those that multiply the same input side by side."""
    side = lambda *parts: jnp.concatenate(parts, axis=1)  # noqa: E731
    encoder = [
        {
            "norm": b.attention_norm.scale, "qkv": side(b.attention.query, b.attention.key, b.attention.value), "out": b.attention.output,
            "norm2": b.ffn_norm.scale, "inner": b.ffn.inner, "outer": b.ffn.outer,
        }
        for b in net.encoder.layers
    ]  # fmt: skip
    decoder = [
        {
            "norm": b.self_norm.scale, "qkv": side(b.self_attention.query, b.self_attention.key, b.self_attention.value),
            "out": b.self_attention.output, "across": b.cross_norm.scale, "query": b.cross_attention.query,
            "kv": side(b.cross_attention.key, b.cross_attention.value), "out2": b.cross_attention.output,
            "norm2": b.ffn_norm.scale, "inner": b.ffn.inner, "outer": b.ffn.outer,
        }
        for b in net.decoder.layers
    ]  # fmt: skip
    biases = {"encoder bias": net.encoder.bias.table, "decoder bias": net.decoder.bias.table}
    ends = {"encoder norm": net.encoder.norm.scale, "decoder norm": net.decoder.norm.scale}
    tables = {"source": net.embeddings[net.sources[0]], "target": net.embeddings[0], "start": net.start}
    return {"encoder": encoder, "decoder": decoder, **biases, **ends, **tables}


def _norm(x, scale):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale


def _heads(x, heads):
    return x.reshape(x.shape[0], heads, -1).transpose(1, 0, 2)


def _attend(q, k, v, bias):
    return jnp.einsum("hqk,hkd->qhd", jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k) + bias), v).reshape(q.shape[1], -1)


def _bucket(distance, buckets):
    exact = buckets // 2
    far = exact + jnp.floor(jnp.log2(jnp.maximum(distance, 1) / exact) / jnp.log2(128 / exact) * exact)
    return jnp.where(distance < exact, distance, jnp.minimum(far, buckets - 1)).astype(jnp.int32)


def _translated(w, source, n):
    heads = w["encoder bias"].shape[1]
    at = jnp.arange(source.shape[0])
    apart = at[None] - at[:, None]
    bias = w["encoder bias"][_bucket(jnp.abs(apart), 16) + jnp.where(apart > 0, 16, 0)].transpose(2, 0, 1)
    x = w["source"][source]
    for p in w["encoder"]:
        q, k, v = (_heads(a, heads) for a in jnp.split(_norm(x, p["norm"]) @ p["qkv"], 3, axis=1))
        x = x + _attend(q, k, v, bias) @ p["out"]
        x = x + jax.nn.relu(_norm(x, p["norm2"]) @ p["inner"]) @ p["outer"]
    x = _norm(x, w["encoder norm"])
    across = [[_heads(a, heads) for a in jnp.split(x @ p["kv"], 2, axis=1)] for p in w["decoder"]]
    size = x.shape[1] // heads
    back = w["decoder bias"][_bucket(jnp.arange(n), 32)]  # by distance
    empty = [(jnp.zeros((heads, n, size)), jnp.zeros((heads, n, size))) for _ in across]

    def step(t, carried):
        tokens, cache = carried
        y = jnp.where(t == 0, w["start"], w["target"][tokens[jnp.maximum(t - 1, 0)]])[None]
        places = jnp.arange(n)
        bias = jnp.where(places <= t, back[jnp.maximum(t - places, 0)].T, HIDDEN)[:, None]
        after = []
        for p, (keys, values), (k, v) in zip(w["decoder"], cache, across, strict=True):
            q, new, more = (_heads(a, heads) for a in jnp.split(_norm(y, p["norm"]) @ p["qkv"], 3, axis=1))
            keys = jax.lax.dynamic_update_slice(keys, new, (0, t, 0))
            values = jax.lax.dynamic_update_slice(values, more, (0, t, 0))
            after.append((keys, values))
            y = y + _attend(q, keys, values, bias) @ p["out"]
            y = y + _attend(_heads(_norm(y, p["across"]) @ p["query"], heads), k, v, 0.0) @ p["out2"]
            y = y + jax.nn.relu(_norm(y, p["norm2"]) @ p["inner"]) @ p["outer"]
        logits = w["target"] @ _norm(y, w["decoder norm"])[0]
        return tokens.at[t].set(jnp.argmax(logits).astype(jnp.int32)), after

    return jax.lax.fori_loop(0, n, step, (jnp.zeros(n, jnp.int32), empty))[0]
