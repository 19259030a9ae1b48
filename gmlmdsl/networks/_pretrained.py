"""The `pretrained` network: the weights of a published masked language model, from a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .._diagnostics import did_you_mean, fail, listed
from ..files import WEIGHTS, PretrainedFolder, read_pretrained, unusable
from ..graph import NetworkForm
from ..read import Safetensors
from ._masked_language_model import ACTIVATIONS, Architecture, MaskedLanguageModel
from ._network import AbstractNetwork
from .limits import MOST_LAYERS, MOST_SIZE


def pretrained_network(form: NetworkForm, key: PRNGKeyArray | None = None) -> MaskedLanguageModel:
    """Return the network of a folder with its sizes, before its weights are read.

    Raises:
        GmlmError: E120 for a file that is missing, E748 for a folder that holds no such model, E737
            for cells that do not fit it.
    """
    if form.given:
        help = "remove it, or use `encoder_decoder` or `mlp`"
        raise fail("E737", f"a `pretrained` network takes no given variables, and is applied to `{form.given[0][0]}`", form.span, help=help)
    folder = read_pretrained(folder_of(form))
    a = _architecture(folder)
    tokens = _tokens(form, folder, a)
    framed = form.n_cells + (folder.begin is not None) + (folder.end is not None)
    if a.positions and framed > a.positions - a.offset:
        message = f"this network reads rows of at most {a.positions - a.offset} tokens, the row has {framed}"
        raise fail("E737", message, form.span, help="declare fewer cells")
    return MaskedLanguageModel(a, tokens, folder.mask, folder.begin, folder.end)


def folder_of(form: NetworkForm) -> Path:
    """The folder that a form names, seen from the folder of its program."""
    beside = Path(form.span.source.path).parent if Path(form.span.source.path).is_file() else Path()
    return beside / str(form.options["folder"])


def with_pretrained_weights(network: AbstractNetwork, form: NetworkForm) -> AbstractNetwork:
    """Return the network with the weights of its folder.

    All shapes are verified before an array is read or allocated.

    Args:
        network: the network, or its shapes.
        form: the network as it is declared.

    Raises:
        GmlmError: E120 for a file that is missing, E748 for weights of other names or shapes.
    """
    folder = folder_of(form)
    file = Safetensors(folder / WEIGHTS)
    config = read_pretrained(folder).config
    names, inner = NAMES[str(config["model_type"])], int(config.get("inner_group_num", 1))
    leaves, tree = jax.tree_util.tree_flatten_with_path(network)
    stored = [_Stored.of([_word(key) for key in path], leaf.shape, names, inner, file) for path, leaf in leaves]
    file.verify([(s.name, s.shape) for s in stored])
    dtype = jax.dtypes.canonicalize_dtype(float)
    return jax.tree_util.tree_unflatten(tree, [jnp.asarray(s.read(file), dtype) for s in stored])


def _word(key: object) -> str:
    """The name of a field, or the place in a tuple, that a path goes through."""
    return str(getattr(key, "name", getattr(key, "idx", "")))


@dataclass(frozen=True)
class _Stored:
    """Where an array of the network stands in the file: its name, its shape there, and how it is taken."""

    name: str
    shape: tuple[int, ...]
    transposed: bool = False
    row: int | None = None

    @classmethod
    def of(cls, path: list[str], shape: tuple[int, ...], names: Mapping[str, str], inner: int, file: Safetensors) -> _Stored:
        """Find the array of a path through the network, whose groups have `inner` layers each."""
        if path[0] == "type":
            rows = next(iter(file.shapes.get(names["type"], ())), 1)
            return cls(names["type"], (max(rows, 1), *shape), row=0)
        if len(path) == 1:
            return cls(_first_of(names[path[0]].split("|"), file), shape)
        if path[0] == "layers":
            group, place = divmod(int(path[1]), inner)
            base = names["layers"].format(k=path[1], group=group, inner=place) + "." + names[path[2]]
        else:
            base = names[path[0]]
        leaf = path[-1]
        if leaf == "weight":
            return cls(f"{base}.weight", (shape[1], shape[0]), transposed=True)
        # LayerNorm calls them gamma and beta in old files
        ends = {"scale": ("weight", "gamma"), "bias": ("bias", "beta")}[leaf]
        return cls(_first_of([f"{base}.{end}" for end in ends], file), shape)

    def read(self, file: Safetensors) -> np.ndarray:
        found = file.floats(self.name)
        return found[self.row] if self.row is not None else found.T if self.transposed else found


def _first_of(names: list[str], file: Safetensors) -> str:
    return next((name for name in names if name in file.shapes), names[0])


def _bert_names(prefix: str, head: Mapping[str, str]) -> dict[str, str]:
    """The names of arrays in files of BERT and RoBERTa; several names of one array are separated by bars."""
    return {
        "words": f"{prefix}.embeddings.word_embeddings.weight",
        "positions": f"{prefix}.embeddings.position_embeddings.weight",
        "type": f"{prefix}.embeddings.token_type_embeddings.weight",
        "embedding_norm": f"{prefix}.embeddings.LayerNorm",
        "layers": f"{prefix}.encoder.layer.{{k}}",
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "output": "attention.output.dense",
        "attention_norm": "attention.output.LayerNorm",
        "inner": "intermediate.dense",
        "outer": "output.dense",
        "ffn_norm": "output.LayerNorm",
        **head,
    }


_LM_HEAD = {
    "head": "lm_head.dense",
    "head_norm": "lm_head.layer_norm",
    "decoder": "lm_head.decoder.weight",
    "head_bias": "lm_head.decoder.bias|lm_head.bias",  # Where a file has both, the first is the one that is added.
}
_BERT_HEAD = {
    "head": "cls.predictions.transform.dense",
    "head_norm": "cls.predictions.transform.LayerNorm",
    "decoder": "cls.predictions.decoder.weight",
    "head_bias": "cls.predictions.decoder.bias|cls.predictions.bias",
}
NAMES: dict[str, dict[str, str]] = {
    "bert": _bert_names("bert", _BERT_HEAD),
    "roberta": _bert_names("roberta", _LM_HEAD),
    "albert": _bert_names("albert", {})
    | {
        "projection": "albert.encoder.embedding_hidden_mapping_in",
        "layers": "albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}",
        "query": "attention.query",
        "key": "attention.key",
        "value": "attention.value",
        "output": "attention.dense",
        "attention_norm": "attention.LayerNorm",
        "inner": "ffn",
        "outer": "ffn_output",
        "ffn_norm": "full_layer_layer_norm",
        "head": "predictions.dense",
        "head_norm": "predictions.LayerNorm",
        "decoder": "predictions.decoder.weight",
        "head_bias": "predictions.decoder.bias|predictions.bias",
    },
    "esm": _bert_names("esm", _LM_HEAD)
    | {
        "embedding_norm": "esm.embeddings.layer_norm",
        "attention_norm": "attention.LayerNorm",
        "ffn_norm": "LayerNorm",
        "last_norm": "esm.encoder.emb_layer_norm_after",
    },
}


def _architecture(folder: PretrainedFolder) -> Architecture:
    """What the configuration says, every number verified.

    Raises:
        GmlmError: E748.
    """
    config = folder.config
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in NAMES:
        raise unusable(folder.path, f"its `model_type` is {kind!r}", f"{listed(list(NAMES))} are known")

    def whole(name: str, default: int | None = None) -> int:
        found = config.get(name, default)
        if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= MOST_SIZE:
            raise unusable(folder.path, f"`{name}` of its configuration is {found!r}", "a whole number is expected")
        return found

    activation, places, epsilon = _words(folder, kind)
    width, layers = whole("hidden_size"), whole("num_hidden_layers")
    if max(layers, layers * whole("inner_group_num", 1), whole("num_hidden_groups", 1) * whole("inner_group_num", 1)) > MOST_LAYERS:
        raise unusable(folder.path, f"its configuration has {layers:,} layers", f"at most {MOST_LAYERS:,} are expected")
    found = Architecture(
        vocabulary=whole("vocab_size"),
        width=width,
        heads=whole("num_attention_heads"),
        ffn=whole("intermediate_size"),
        embedding=whole("embedding_size") if kind == "albert" else width,
        order=_order(layers, whole("num_hidden_groups", 1), whole("inner_group_num", 1)) if kind == "albert" else tuple(range(layers)),
        positions=0 if places == "rotary" else whole("max_position_embeddings"),
        offset=whole("pad_token_id", 1) + 1 if kind in ("roberta", "esm") else 0,
        norm_first=kind == "esm",
        norm_embeddings=kind != "esm" or config.get("emb_layer_norm_before") is True,
        norm_last=kind == "esm",
        projected=kind == "albert",
        types=kind != "esm",
        token_dropout=kind == "esm" and config.get("token_dropout") is True,
        tied=config.get("tie_word_embeddings") is not False,
        activation="gelu" if kind == "esm" else activation,
        head_activation="gelu" if kind in ("roberta", "esm") else activation,  # whatever the configuration says
        epsilon=epsilon,
    )
    if places == "rotary" and width // max(found.heads, 1) % 2:
        raise unusable(folder.path, f"its heads are {width // found.heads} wide", "an even width is expected for rotated positions")
    if min(found.vocabulary, width, found.heads, found.ffn, found.embedding, len(found.order)) < 1 or width % found.heads:
        help = "a width that divides by the number of heads, and at least one layer, are expected"
        raise unusable(folder.path, f"its sizes do not fit: width {width}, {found.heads} heads, {layers} layers", help)
    return found


def _words(folder: PretrainedFolder, kind: str) -> tuple[str, str, float]:
    """Return the activation, the kind of positions and the epsilon of a configuration.

    Raises:
        GmlmError: E748 for values that are not known.
    """
    config = folder.config
    expected = dict.fromkeys(("is_decoder", "add_cross_attention", "is_folding_model"), False)
    for name, wanted in {**expected, "rope_theta": 10000.0, "mask_token_id": folder.mask}.items():
        if config.get(name) not in (None, wanted):
            raise unusable(folder.path, f"`{name}` of its configuration is {config[name]!r}", f"{wanted!r} is expected")
    activation = config.get("hidden_act", "gelu_new" if kind == "albert" else "gelu")
    places = config.get("position_embedding_type", "absolute")
    if (
        not isinstance(activation, str)
        or activation not in ACTIVATIONS
        or places not in (("absolute", "rotary") if kind == "esm" else ("absolute",))
    ):
        known = f"activations {listed(list(ACTIVATIONS))}, positions that are absolute or, of ESM, rotary"
        raise unusable(folder.path, f"its activation is {activation!r}, its positions are {places!r}", f"known are {known}")
    epsilon = config.get("layer_norm_eps", 1e-12)
    if not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
        raise unusable(folder.path, f"`layer_norm_eps` of its configuration is {epsilon!r}", "a small number is expected")
    return activation, places, float(epsilon)


def _order(layers: int, groups: int, inner: int) -> tuple[int, ...]:
    """The distinct layer of each layer of ALBERT, which applies the layers of a group one after another."""
    return tuple(int(i / (layers / max(groups, 1))) * inner + j for i in range(layers) for j in range(inner))


def _tokens(form: NetworkForm, folder: PretrainedFolder, a: Architecture) -> tuple[int, ...] | None:
    """The id of each value of the cells; None if the values are the ids.

    Raises:
        GmlmError: E737 for a value that is no token.
    """
    place = {token: k for k, token in enumerate(folder.tokens)}
    ids = [place.get(v, -1) if isinstance(v, str) else int(v) for v in form.values]
    wrong = next((k for k, found in enumerate(ids) if not 0 <= found < a.vocabulary), None)
    if wrong is not None:
        value = form.values[wrong]
        near = did_you_mean(str(value), folder.tokens[: a.vocabulary])
        help = f"did you mean `{near}`?" if near else 'declare `domain token = vocabulary("..")`, or name tokens of the vocabulary'
        raise fail("E737", f"the value {value!r} is none of the {a.vocabulary:,} tokens of `{folder.path}`", form.span, help=help)
    return None if ids == list(range(a.vocabulary)) else tuple(ids)
