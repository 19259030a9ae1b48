"""Tiny networks of every form, with weights that leave nothing at its first value."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gmlmdsl._diagnostics import Source, Span
from gmlmdsl.graph import NetworkForm
from gmlmdsl.networks import AbstractNetwork, build_network

SPAN = Span(Source("net.gmlm", "network net = here()"), 14, 20)
N_CELLS, N_VALUES = 8, 5
BLOCKS = {"layers": 2, "heads": 2, "width": 16, "ffn": 24, "dropout": 0.0, "causal": False, "position_embeddings": False}
DECODER = {
    "causal": False,
    "positional_attention": True,
    "decoder_layers": 2,
    "positions": 12,
    "length": "classifier",
    "length_weight": 0.1,
}


def form(name: str, options: dict[str, Any] | None = None, given: tuple[tuple[str, int, int], ...] = ()) -> NetworkForm:
    defaults = {"transformer": BLOCKS, "encoder_decoder": BLOCKS | DECODER, "mlp": {"layers": 2, "width": 16}, "python": {}}
    return NetworkForm(name, defaults[name] | (options or {}), N_CELLS, N_VALUES, given, SPAN)


def network(name: str, options: dict[str, Any] | None = None, given: tuple[tuple[str, int, int], ...] = (), seed: int = 0) -> Any:
    """A network with noise added to every weight, so that scales are not 1 and biases are not 0."""
    made = build_network(form(name, options, given), jax.random.key(seed))
    return disturbed(made, seed)


def disturbed(net: AbstractNetwork, seed: int) -> Any:
    leaves, tree = jax.tree.flatten(net)
    rng = np.random.default_rng(seed)
    return jax.tree.unflatten(tree, [a + jnp.asarray(0.3 * rng.standard_normal(a.shape), a.dtype) for a in leaves])


def ints(values: Any) -> Any:
    return jnp.asarray(values, jnp.int32)


@eqx.filter_jit
def one_pass(net: Any, given: tuple, lengths: tuple, seen: Any, length: Any) -> tuple[Any, Any]:
    """Encoding and logits of one row."""
    encoded = net.encode(given, lengths)
    return encoded, net.logits(encoded, net.prepare(encoded, length, seen.shape[0]), seen, length)
