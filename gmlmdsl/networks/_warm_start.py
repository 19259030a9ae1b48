"""Initial weights from another network, for layers of equal place, shape and structure."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import equinox as eqx
import jax

from ._build import parameter_counts
from ._network import AbstractNetwork

if TYPE_CHECKING:
    from jaxtyping import PyTree

N = TypeVar("N", bound=AbstractNetwork)


def with_weights_of(network: N, other: AbstractNetwork) -> tuple[N, dict[str, tuple[int, int]]]:
    """Return a network with the weights of another one in the layers in which they agree.

    The other layers are unchanged. A layer is copied only as a whole. It is copied if both layers
    agree in their class, their shapes and everything that is not an array. Examples of the latter
    are the number of heads of an attention, and whether a bias is causal.

    A decoder that sees all cells thus takes these layers from a causal one:

    - the embeddings and the encoder;
    - in every block self-attention, cross-attention, the feed-forward layer and their norms.

    Positional attention, the table of positions, the biases by distance (whose buckets differ) and
    the length head are unchanged.

    Returns:
        The network, and for each part the number of weights that were copied and the number of all
        its weights.
    """
    found = {path: layer for path, layer in _layers(other) if eqx.is_array(layer) or isinstance(layer, eqx.Module)}
    places, tree = jax.tree_util.tree_flatten_with_path(network, is_leaf=_is_layer)
    agree = [jax.tree_util.keystr(path) in found and _alike(layer, found[jax.tree_util.keystr(path)]) for path, layer in places]
    leaves = [found[jax.tree_util.keystr(path)] if taken else layer for (path, layer), taken in zip(places, agree, strict=True)]
    kept = jax.tree.unflatten(tree, [None if taken else layer for (_, layer), taken in zip(places, agree, strict=True)])
    fresh = parameter_counts(kept)
    return jax.tree.unflatten(tree, leaves), {part: (n - fresh.get(part, 0), n) for part, n in parameter_counts(network).items()}


def _layers(network: AbstractNetwork) -> list[tuple[str, PyTree]]:
    return [(jax.tree_util.keystr(path), layer) for path, layer in jax.tree_util.tree_flatten_with_path(network, is_leaf=_is_layer)[0]]


def _is_layer(x: object) -> bool:
    """Return whether `x` is a module without inner modules."""
    inner = jax.tree.leaves(x, is_leaf=lambda y: y is not x and isinstance(y, eqx.Module))
    return isinstance(x, eqx.Module) and not any(isinstance(y, eqx.Module) for y in inner)


def _alike(one: PyTree, other: PyTree) -> bool:
    """Return whether the arrays of one layer have the same meaning in the other.

    Everything that is not an array is part of the structure, which must be equal.
    """
    shapes = [[(a.shape, a.dtype) for a in jax.tree.leaves(x) if eqx.is_array(a)] for x in (one, other)]
    return bool(shapes[0]) and shapes[0] == shapes[1] and jax.tree.structure(one) == jax.tree.structure(other)
