"""Networks from their published descriptions, in NumPy and loops: position by position, head by head, padding cut off instead of masked.

T5.1.0 without its causal mask (Raffel et al. 2020, Section 2.1: pre-norm blocks, norms that only rescale, no bias vectors, 32 buckets of
relative positions up to 128, attention logits without a scale, one table of biases for each stack), positional attention whose queries
and keys are normed rows of a table (Gu et al. 2018, Section 3.2), output embeddings tied and divided by sqrt(width).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray
# The first distance of each bucket beyond 7, out of the 16 on either side: 8 * 16^(k / 8), rounded up.
FIRST_FAR = (8, 12, 16, 23, 32, 46, 64, 91)


def bucket(distance: int) -> int:
    """Of a key that stands `distance` places behind its query."""
    away = abs(distance)
    side = away if away < 8 else 7 + sum(away >= first for first in FIRST_FAR)
    return side + (16 if distance > 0 else 0)


def bucket_before(distance: int) -> int:
    """Of a key `distance` places before its query, where none behind is seen: 16 on their own, then 16 * 8^(k / 16), rounded up."""
    return distance if distance < 16 else 15 + sum(distance >= round(math.ceil(16 * 8 ** (k / 16) - 1e-9)) for k in range(16))


def norm(scale: Any, x: Array) -> Array:
    """Each row over its root mean square, times the scale."""
    return np.array([row / np.sqrt(np.mean(row**2) + 1e-6) * np.asarray(scale) for row in x])


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    return e / e.sum()


def attend(layer: Any, asking: Array, seen: Array, bias: Array | None, values: Array | None = None) -> tuple[Array, Array]:
    """What each asking row takes from the rows that it sees, and its weights by head; `values` where they are not the rows seen."""
    q, k, v, o = (np.asarray(a) for a in (layer.query, layer.key, layer.value, layer.output))
    taken = seen if values is None else values
    size = q.shape[1] // layer.heads
    out, weights = np.zeros((len(asking), o.shape[1])), np.zeros((layer.heads, len(asking), len(seen)))
    for h in range(layer.heads):
        part = slice(h * size, (h + 1) * size)
        for i, row in enumerate(asking):
            scores = np.array([(row @ q[:, part]) @ (other @ k[:, part]) for other in seen])
            weights[h, i] = softmax(scores + (0 if bias is None else bias[h, i]))
            out[i] += sum(w * (other @ v[:, part]) for w, other in zip(weights[h, i], taken, strict=True)) @ o[part]
    return out, weights


def biases(table: Any, asking: list[int], seen: list[int]) -> Array:
    """By head, asking and seen position."""
    rows = np.asarray(table)
    return np.array([[[rows[bucket(s - a), h] for s in seen] for a in asking] for h in range(rows.shape[1])])


def feed_forward(block: Any, x: Array) -> Array:
    y = norm(block.ffn_norm.scale, x)
    return np.maximum(y @ np.asarray(block.ffn.inner), 0) @ np.asarray(block.ffn.outer)


def encoder(stack: Any, x: Array) -> tuple[Array, list[Array]]:
    """The final states of rows that all see one another, and the weights of each layer."""
    places, found = list(range(len(x))), []
    bias = biases(stack.bias.table, places, places)
    for block in stack.layers:
        y = norm(block.attention_norm.scale, x)
        added, weights = attend(block.attention, y, y, bias)
        x = x + added
        x = x + feed_forward(block, x)
        found.append(weights)
    return norm(stack.norm.scale, x), found


def place_before(stack: Any, x: Array) -> Array:
    """The final state of a place one before the first row, which starts as zero, sees all rows and itself, and is seen by none."""
    own, places = np.zeros((1, x.shape[1])), list(range(len(x)))
    among, from_it = biases(stack.bias.table, places, places), biases(stack.bias.table, [-1], [-1, *places])
    for block in stack.layers:
        scale = block.attention_norm.scale
        rows, mine = norm(scale, x), norm(scale, own)
        own = own + attend(block.attention, mine, np.concatenate([mine, rows]), from_it)[0]
        x = x + attend(block.attention, rows, rows, among)[0]
        own, x = own + feed_forward(block, own), x + feed_forward(block, x)
    return norm(stack.norm.scale, own)[0]


def tokens(table: Any, codes: Array, hidden: Any = None, added: bool = False) -> Array:
    """A row of the table for each code; for a code outside, the row of `hidden` at its place, or zero. `added`: that row for every code."""
    rows = np.asarray(table)
    other = np.zeros((len(codes), rows.shape[1])) if hidden is None else np.asarray(hidden)
    return np.array([rows[c] + added * other[i] if 0 <= c < len(rows) else other[i] for i, c in enumerate(codes)])


def tied(x: Array, table: Any) -> Array:
    return x @ np.asarray(table).T / np.sqrt(x.shape[1])


def transformer(net: Any, seen: Array, added: bool = False) -> tuple[Array, list[Array]]:
    """Logits and self-attention weights of a row without padding; `added`: positions to the embeddings."""
    states, found = encoder(net.encoder, tokens(net.embedding, seen, net.positions, added))
    return tied(states, net.embedding), found


def causal_transformer(net: Any, row: Array) -> tuple[Array, Array]:
    """Logits and final states of each cell, and of the one behind the last, every prefix on its own: what follows is cut off."""
    logits, states = [], []
    for n in range(len(row) + 1):
        x = np.concatenate([np.asarray(net.start)[None], tokens(net.embedding, row[:n])]) if n else np.asarray(net.start)[None]
        for block in net.encoder.layers:
            y, table = norm(block.attention_norm.scale, x), np.asarray(net.encoder.bias.table)
            mixed = []
            for i in range(len(y)):
                bias = np.array([[[table[bucket_before(i - j), h] for j in range(i + 1)]] for h in range(table.shape[1])])
                mixed.append(attend(block.attention, y[i : i + 1], y[: i + 1], bias)[0][0])
            x = x + np.array(mixed)
            x = x + feed_forward(block, x)
        states.append(norm(net.encoder.norm.scale, x)[-1])
        logits.append(tied(states[-1][None], net.embedding)[0])
    return np.array(logits), np.array(states)


Given = list[tuple[Array, int]]  # codes without padding, and the number of values


def sources(net: Any, given: Given) -> Array:
    """Each array by the table that has as many rows as it has values."""
    by_size = {len(np.asarray(table)): table for table in net.embeddings}
    return np.concatenate([tokens(by_size[q], codes) for codes, q in given])


def encoder_decoder(net: Any, given: Given, seen: Array, added: bool = False) -> tuple[Array, list[Array], list[Array], list[Array]]:
    """Logits, and the weights of self-, cross- and positional attention, of a row without padding; positional attention anew in every layer."""
    read = sources(net, given)
    states, _ = encoder(net.encoder, read + np.asarray(net.positions)[: len(read)] if added else read)
    x, places = tokens(net.embeddings[0], seen, net.positions, added), list(range(len(seen)))
    bias = biases(net.decoder.bias.table, places, places)
    here, there, placed = [], [], []
    for block in net.decoder.layers:
        y = norm(block.self_norm.scale, x)
        added, weights = attend(block.self_attention, y, y, bias)
        x, _ = x + added, here.append(weights)
        if block.positional is not None:
            y = norm(block.positional.norm.scale, np.asarray(net.positions)[: len(seen)])
            added, weights = attend(block.positional.attention, y, y, bias, values=x)
            x, _ = x + added, placed.append(weights)
        added, weights = attend(block.cross_attention, norm(block.cross_norm.scale, x), states, None)
        x, _ = x + added, there.append(weights)
        x = x + feed_forward(block, x)
    return tied(norm(net.decoder.norm.scale, x), net.embeddings[0]), here, there, placed


def mlp(net: Any, n_values: int, given: list[tuple[Array, int]], seen: Array) -> Array:
    """Logits of every cell from written-out one-hot vectors; `seen` is -1 at padding, `given` has (values, number of values or 0)."""

    def one_hot(codes: Array, size: int) -> Array:
        return np.array([[float(c == k) for k in range(size)] for c in codes]).ravel()

    inputs = [one_hot(seen, n_values + 1), *(one_hot(v, q) if q else v.astype(float) for v, q in given)]
    first = np.concatenate([np.asarray(t).reshape(-1, np.asarray(t).shape[-1]) for t in (net.cells, *net.given)])
    x = np.concatenate(inputs) @ first + np.asarray(net.bias)
    for layer in net.layers:
        x = np.maximum(x, 0) @ np.asarray(layer.weight) + np.asarray(layer.bias)
    return x.reshape(len(seen), n_values)


def length_scores(head: Any, kind: str, net: Any, given: Given, n_cells: int) -> Array:
    """log p of every length 1..n for a classifier, minus the squared distance from the predicted one for the others."""
    count = sum(len(codes) for codes, _ in given)
    if kind == "classifier":
        scores = np.asarray(head.table) @ place_before(net.encoder, sources(net, given))
        return scores - scores.max() - np.log(np.exp(scores - scores.max()).sum())
    predicted = float(head.slope) * count + float(head.intercept) if kind == "affine" else count + _fertility(head, net, given)
    return np.array([-((k - predicted) ** 2) for k in range(1, n_cells + 1)])


def _fertility(head: Any, net: Any, given: Given) -> float:
    states, _ = encoder(net.encoder, sources(net, given))
    laws = [softmax(np.maximum(s @ np.asarray(head.inner), 0) @ np.asarray(head.outer)) for s in states]
    return sum(float(law @ np.array([-3, -2, -1, 0, 1, 2])) for law in laws)
