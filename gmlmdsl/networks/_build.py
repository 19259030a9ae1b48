"""Construction of declared networks, with random weights or those of another network."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray

from .._diagnostics import fail
from ..graph import NetworkForm
from ._causal import CausalEncoderDecoder, CausalTransformer
from ._encoder_decoder import AffineLength, EncoderDecoder, FertilityLength, LengthClassifier
from ._mlp import MLP
from ._network import AbstractLengthHead, AbstractNetwork
from ._pretrained import pretrained_network, with_pretrained_weights
from ._python import Python, python_network
from ._transformer import Decoder, Encoder, Transformer

if TYPE_CHECKING:
    from jaxtyping import PyTree

N = TypeVar("N", bound=AbstractNetwork)


def build_network(form: NetworkForm, key: PRNGKeyArray) -> AbstractNetwork:
    """Return a network with random weights.

    Raises:
        GmlmError: E735 or E736 for a Python class that is not found or does not fit; E737 for
            options that do not fit.
    """
    if form.name == "pretrained":
        return with_pretrained_weights(network_shapes(form), form)
    return BUILDERS[form.name](form, key)


def network_shapes(form: NetworkForm) -> AbstractNetwork:
    """Return a network with shapes in the place of arrays, so that nothing is allocated.

    The result is computed once for each form.
    """
    found = _SHAPES.get(id(form))
    if found is None:
        found = _SHAPES[id(form)] = eqx.filter_eval_shape(lambda: BUILDERS[form.name](form, jax.random.key(0)))
        weakref.finalize(form, _SHAPES.pop, id(form), None)
    return found


# The cache is keyed by the form's identity, not by its content, because a Python class may have
# changed since.
_SHAPES: dict[int, AbstractNetwork] = {}


def parameter_parts(network: eqx.Module) -> dict[str, list[jax.Array]]:
    """Return the arrays, or shapes, of each part of a network.

    Parts are the fields of the network, or of the user's module if it has one.
    """
    parts: dict[str, list[jax.Array]] = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(network.module if isinstance(network, Python) else network)[0]:
        if hasattr(leaf, "shape"):
            parts.setdefault(str(getattr(path[0], "name", path[0] if path else "module")).replace("_", " "), []).append(leaf)
    return parts


def parameter_counts(network: eqx.Module) -> dict[str, int]:
    """Return the number of parameters of each part of a network, or of its shapes."""
    return {part: sum(math.prod(leaf.shape) for leaf in leaves) for part, leaves in parameter_parts(network).items()}


def _blocks(form: NetworkForm) -> dict[str, Any]:
    """Return the options that all stacks of T5 blocks share, after checking them."""
    o = form.options
    found = {name: int(o[name]) for name in ("width", "heads", "ffn")} | {"rate": float(o["dropout"])}
    for name in ("width", "heads", "ffn", "layers"):
        if int(o[name]) < 1:
            raise fail("E737", f"`{name}` of `{form.name}` must be at least 1, got {o[name]}", form.span)
    if found["width"] % found["heads"]:
        message = f"the width {found['width']} of `{form.name}` does not divide by its {found['heads']} heads"
        raise fail("E737", message, form.span, help="make `width` a multiple of `heads`")
    return found


def _transformer(form: NetworkForm, key: PRNGKeyArray) -> Transformer | CausalTransformer:
    if form.given:
        help = "use `encoder_decoder` or `mlp`, which do, or remove it"
        raise fail("E737", f"a `transformer` takes no given variables, and is applied to `{form.given[0][0]}`", form.span, help=help)
    layers, blocks, added = int(form.options["layers"]), _blocks(form), bool(form.options["position_embeddings"])
    if form.options["causal"]:
        return CausalTransformer(form.n_values, layers, **blocks, key=key)
    return Transformer(form.n_cells, form.n_values, layers, **blocks, position_embeddings=added, key=key)


def _encoder_decoder(form: NetworkForm, key: PRNGKeyArray) -> EncoderDecoder | CausalEncoderDecoder:
    o, blocks, causal = form.options, _blocks(form), bool(form.options["causal"])
    _verify_given(form)
    n_positions, added = int(o["positions"]), bool(o["position_embeddings"])
    n_given = sum(n for _, n, _ in form.given) if added else 0
    for what, n in (("the decoder has", form.n_cells), ("what is given has", n_given)):
        if n > n_positions and not causal:
            message = f"{what} {n} cells, and there are only {n_positions} positions"
            raise fail("E737", message, form.span, help=f"write `positions = {max(form.n_cells, n_given)}`")
    if int(o["decoder_layers"]) < 1:
        raise fail("E737", f"`decoder_layers` must be at least 1, got {o['decoder_layers']}", form.span)
    e, d, h, rest = jax.random.split(key, 4)
    encoder = Encoder(int(o["layers"]), **blocks, key=e)
    decoder = Decoder(int(o["decoder_layers"]), **blocks, positional=bool(o["positional_attention"]) and not causal, causal=causal, key=d)
    values = [form.n_values, *(q for _, _, q in form.given)]
    if causal:
        return CausalEncoderDecoder(values, (encoder, decoder), width=blocks["width"], key=rest)
    head = _length_head(form, h)
    length = head, 0.0 if head is None else float(o["length_weight"])
    return EncoderDecoder(values, (encoder, decoder), n_positions, length, width=blocks["width"], position_embeddings=added, key=rest)


def _verify_given(form: NetworkForm) -> None:
    if not form.given:
        help = "use `transformer`, or declare what is `given`"
        raise fail("E737", "an `encoder_decoder` encodes given variables, and is applied to none", form.span, help=help)
    real = [name for name, _, q in form.given if q == 0]
    if real:
        raise fail("E737", f"an `encoder_decoder` reads codes, and `{real[0]}` is real", form.span, help="an `mlp` takes real numbers")


def _length_head(form: NetworkForm, key: PRNGKeyArray) -> AbstractLengthHead | None:
    n, width = form.n_cells, int(form.options["width"])
    match form.options["length"]:
        case "classifier":
            return LengthClassifier(n, width, key=key)
        case "affine":
            return AffineLength(n)
        case "fertility":
            return FertilityLength(n, width, key=key)
        case _:  # With an oracle, lengths come with the call.
            return None


def _mlp(form: NetworkForm, key: PRNGKeyArray) -> MLP:
    layers, width = int(form.options["layers"]), int(form.options["width"])
    if layers < 0 or width < 1:
        raise fail("E737", f"an `mlp` has at least 0 layers of width 1, got {layers} of {width}", form.span)
    return MLP(form.n_cells, form.n_values, [(n, q) for _, n, q in form.given], layers, width, key=key)


BUILDERS = {
    "transformer": _transformer,
    "encoder_decoder": _encoder_decoder,
    "mlp": _mlp,
    "python": python_network,
    "pretrained": pretrained_network,
}


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
