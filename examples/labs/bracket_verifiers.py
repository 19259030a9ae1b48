# Verifiers of Labs A and E that no form has: coins, and a perceptron on what a probe reads; `python("bracket_verifiers:..")` names them.
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

DECAY = 0.1  # of a perceptron's weights


def uniform(prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """1 with probability 1/2, always the same of the same prefix."""
    return ((_mixed(prefixes, lengths) >> np.uint64(40)) & np.uint64(1)).astype(float)


def seldom(prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """0 with probability 1/10: a uniform number that is refused below the threshold 0.1."""
    return ((_mixed(prefixes, lengths) >> np.uint64(11)) * 2.0**-53 >= 0.1).astype(float)


wrong_share = 0.0  # of prefixes about which `flipped` is wrong; the laboratory sets it


def flipped(verdicts: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Verdicts that are wrong with probability `wrong_share`, always about the same prefixes."""
    return np.where((_mixed(prefixes, lengths) >> np.uint64(11)) * 2.0**-53 < wrong_share, 1 - verdicts, verdicts)


def _mixed(prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """64 bits of each prefix."""
    rows = np.where(np.arange(prefixes.shape[1]) < lengths[:, None], prefixes + 1, 0).astype(np.uint64)
    found = lengths.astype(np.uint64)
    for column in rows.T:  # splitmix64 of one symbol after another
        found = (found + column + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        found = (found ^ (found >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return found


judge: Callable[[list[list[int]]], np.ndarray] | None = None  # what `deep` asks; the laboratory sets it


def deep(prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """What the perceptron at hand says."""
    assert judge is not None
    return judge([row[:n].tolist() for row, n in zip(prefixes, lengths, strict=True)])


def perceptron(x: np.ndarray, y: np.ndarray, layers: int, seed: int, steps: int = 400) -> Callable[[np.ndarray], np.ndarray]:
    """P(label = 1) of features, by so many layers with ReLU between them, each as wide as the features; AdamW on all rows."""
    mean, scale, width = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-6), x.shape[1]
    keys = jax.random.split(jax.random.key(seed), layers)
    sizes = [width] * layers + [1]
    start = [(jax.random.normal(k, (a, b)) * np.sqrt(2 / a), jnp.zeros(b)) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)]

    def logits(weights: Any, z: Any) -> Any:
        for w, b in weights[:-1]:
            z = jax.nn.relu(z @ w + b)
        return (z @ weights[-1][0] + weights[-1][1])[:, 0]

    def loss(weights: Any, z: Any, labels: Any) -> Any:
        return optax.sigmoid_binary_cross_entropy(logits(weights, z), labels).mean()

    rule = optax.adamw(1e-2 / layers, weight_decay=DECAY)

    @jax.jit
    def trained(weights: Any, z: Any, labels: Any) -> Any:
        def step(state: Any, _: None) -> tuple[Any, None]:
            weights, memory = state
            moves, memory = rule.update(jax.grad(loss)(weights, z, labels), memory, weights)
            return (optax.apply_updates(weights, moves), memory), None

        return jax.lax.scan(step, (weights, rule.init(weights)), None, steps)[0][0]

    found = jax.device_get(trained(start, jnp.asarray((x - mean) / scale, jnp.float32), jnp.asarray(y, jnp.float32)))

    def probability(features: np.ndarray) -> np.ndarray:
        z = (features - mean) / scale
        for w, b in found[:-1]:
            z = np.maximum(z @ w + b, 0)
        return 1 / (1 + np.exp(-(z @ found[-1][0] + found[-1][1])[:, 0]))

    return probability
