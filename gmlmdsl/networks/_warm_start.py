"""First weights from another network: what stands at the same place, has the same shape and is read in the same way."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax

from ._build import parameter_counts


def with_weights_of(network: Any, other: Any) -> tuple[Any, dict[str, tuple[int, int]]]:
    """A network with the weights of another one where they agree; the rest stays as it is.

    A layer is taken whole or not at all, and only where the two are alike in class, in shapes and
    in what is no array: the heads of an attention, say, or whether a bias knows cells behind. So a
    decoder that sees all cells takes from a causal one its embeddings, its encoder, and of every
    block self-attention, cross-attention, feed-forward and their norms. Positional attention, the
    table of positions, the biases by distance (whose buckets are others) and the length head stay.

    Returns:
        The network, and by part how many of its weights were taken, and how many it has.
    """
    found = {path: layer for path, layer in _layers(other) if eqx.is_array(layer) or isinstance(layer, eqx.Module)}
    places, tree = jax.tree_util.tree_flatten_with_path(network, is_leaf=_is_layer)
    agree = [jax.tree_util.keystr(path) in found and _alike(layer, found[jax.tree_util.keystr(path)]) for path, layer in places]
    leaves = [found[jax.tree_util.keystr(path)] if taken else layer for (path, layer), taken in zip(places, agree, strict=True)]
    kept = jax.tree.unflatten(tree, [None if taken else layer for (_, layer), taken in zip(places, agree, strict=True)])
    fresh = parameter_counts(kept)
    return jax.tree.unflatten(tree, leaves), {part: (n - fresh.get(part, 0), n) for part, n in parameter_counts(network).items()}


def _layers(network: Any) -> list[tuple[str, Any]]:
    return [(jax.tree_util.keystr(path), layer) for path, layer in jax.tree_util.tree_flatten_with_path(network, is_leaf=_is_layer)[0]]


def _is_layer(x: Any) -> bool:
    """Whether it is a module with no module in it."""
    inner = jax.tree.leaves(x, is_leaf=lambda y: y is not x and isinstance(y, eqx.Module))
    return isinstance(x, eqx.Module) and not any(isinstance(y, eqx.Module) for y in inner)


def _alike(one: Any, other: Any) -> bool:
    """Whether the arrays of one have the same meaning in the other; what is no array is part of the structure."""
    shapes = [[(a.shape, a.dtype) for a in jax.tree.leaves(x) if eqx.is_array(a)] for x in (one, other)]
    return bool(shapes[0]) and shapes[0] == shapes[1] and jax.tree.structure(one) == jax.tree.structure(other)
