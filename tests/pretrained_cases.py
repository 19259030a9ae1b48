"""Small random checkpoints in the layouts of published masked language models, and their logits written out in NumPy.

The reference follows the published definitions (Devlin et al. 2019; Liu et al. 2019; Lan et al. 2020; Lin et al. 2023) and the names
of arrays in files; it shares no code with the package.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray
KINDS = ("bert", "roberta", "albert", "esm", "esm_absolute")
LETTERS = ("a", "b", "c", "d", "e", "f")
TOKENS = {
    "bert": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS),
    "albert": ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *LETTERS),
    "roberta": ("<s>", "<pad>", "</s>", "<unk>", *LETTERS, "<mask>"),
    "esm": ("<cls>", "<pad>", "<eos>", "<unk>", *LETTERS, "<mask>"),
}
SPECIAL = {"bert": ("[CLS]", "[SEP]", "[MASK]"), "albert": ("[CLS]", "[SEP]", "[MASK]")}
WIDTH, HEADS, FFN, LAYERS, POSITIONS, EMBEDDING = 8, 2, 12, 4, 24, 6


def tokens_of(kind: str) -> tuple[str, ...]:
    """The vocabulary of a checkpoint."""
    return TOKENS[kind.split("_")[0]]


def config_of(kind: str) -> dict[str, Any]:
    """The configuration of a checkpoint."""
    name = kind.split("_")[0]
    found: dict[str, Any] = {
        "model_type": name,
        "vocab_size": len(tokens_of(kind)),
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": FFN,
        "max_position_embeddings": POSITIONS,
        "layer_norm_eps": 1e-5,
        "hidden_act": "gelu",
        "type_vocab_size": 2,
        "pad_token_id": tokens_of(kind).index(next(t for t in tokens_of(kind) if "pad" in t.lower())),
    }
    if name == "albert":
        found |= {"embedding_size": EMBEDDING, "num_hidden_groups": 2, "inner_group_num": 2, "hidden_act": "gelu_new"}
    if name == "esm":
        found |= {"position_embedding_type": "absolute" if "absolute" in kind else "rotary", "token_dropout": "absolute" not in kind}
        found |= {"emb_layer_norm_before": "absolute" in kind, "mask_token_id": tokens_of(kind).index("<mask>")}
    return found


def arrays_of(kind: str, seed: int = 0) -> dict[str, Array]:
    """Random weights under the names that files have."""
    rng, name = np.random.default_rng(seed), kind.split("_")[0]
    out: dict[str, Array] = {}
    embedding = EMBEDDING if name == "albert" else WIDTH
    linear, norm = partial(_add_linear, out, rng), partial(_add_norm, out, rng)
    out[f"{name}.embeddings.word_embeddings.weight"] = rng.normal(size=(len(tokens_of(kind)), embedding))
    if kind != "esm":
        out[f"{name}.embeddings.position_embeddings.weight"] = rng.normal(size=(POSITIONS, embedding))
    if name != "esm":
        out[f"{name}.embeddings.token_type_embeddings.weight"] = rng.normal(size=(2, embedding))
        norm(f"{name}.embeddings.LayerNorm", embedding)
    elif "absolute" in kind:
        norm("esm.embeddings.layer_norm", embedding)
    if name == "albert":
        linear("albert.encoder.embedding_hidden_mapping_in", embedding, WIDTH)
    for base in _layer_places(kind):
        _add_layer(out, rng, name, base)
    if name == "esm":
        norm("esm.encoder.emb_layer_norm_after", WIDTH)
    dense, normed, bias = _head_places(name)
    linear(dense, WIDTH, embedding)
    norm(normed, embedding)
    out[bias] = rng.normal(size=len(tokens_of(kind)))
    return out


def _add_linear(out: dict[str, Array], rng: np.random.Generator, place: str, inputs: int, outputs: int) -> None:
    out[f"{place}.weight"] = 0.7 * rng.normal(size=(outputs, inputs))
    out[f"{place}.bias"] = 0.2 * rng.normal(size=outputs)


def _add_norm(out: dict[str, Array], rng: np.random.Generator, place: str, width: int) -> None:
    out[f"{place}.weight"], out[f"{place}.bias"] = 1 + 0.2 * rng.normal(size=width), 0.2 * rng.normal(size=width)


def _add_layer(out: dict[str, Array], rng: np.random.Generator, name: str, base: str) -> None:
    linear, norm = partial(_add_linear, out, rng), partial(_add_norm, out, rng)
    if name == "albert":
        for part in ("query", "key", "value", "dense"):
            linear(f"{base}.attention.{part}", WIDTH, WIDTH)
        linear(f"{base}.ffn", WIDTH, FFN)
        linear(f"{base}.ffn_output", FFN, WIDTH)
        norm(f"{base}.attention.LayerNorm", WIDTH)
        norm(f"{base}.full_layer_layer_norm", WIDTH)
        return
    for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        linear(f"{base}.{part}", WIDTH, WIDTH)
    linear(f"{base}.intermediate.dense", WIDTH, FFN)
    linear(f"{base}.output.dense", FFN, WIDTH)
    norm(f"{base}.attention.LayerNorm" if name == "esm" else f"{base}.attention.output.LayerNorm", WIDTH)
    norm(f"{base}.LayerNorm" if name == "esm" else f"{base}.output.LayerNorm", WIDTH)


def _layer_places(kind: str) -> list[str]:
    name = kind.split("_")[0]
    if name == "albert":
        return [f"albert.encoder.albert_layer_groups.{g}.albert_layers.{j}" for g in range(2) for j in range(2)]
    return [f"{name}.encoder.layer.{k}" for k in range(LAYERS)]


def _head_places(name: str) -> tuple[str, str, str]:
    if name == "bert":
        return "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"
    if name == "albert":
        return "predictions.dense", "predictions.LayerNorm", "predictions.bias"
    return "lm_head.dense", "lm_head.layer_norm", "lm_head.bias"


def write_safetensors(path: Path, arrays: Mapping[str, Array], kind: str = "F32") -> None:
    """Write arrays as a `.safetensors` file, in one of its float types."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, at = [], 0
    for name, array in arrays.items():
        if kind == "BF16":
            raw = (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
        else:
            raw = np.ascontiguousarray(array, {"F64": "<f8", "F32": "<f4", "F16": "<f2"}[kind]).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        parts.append(raw)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def write_checkpoint(folder: Path, kind: str, dtype: str = "F64", vocabulary: str = "vocab.txt", seed: int = 0) -> dict[str, Array]:
    """Write a folder as the libraries that train such models do; the weights are returned."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays, tokens = arrays_of(kind, seed), tokens_of(kind)
    (folder / "config.json").write_text(json.dumps(config_of(kind)), encoding="utf-8")
    if vocabulary == "vocab.txt":
        (folder / vocabulary).write_text("\n".join(tokens) + "\n", encoding="utf-8")
    elif vocabulary == "vocab.json":
        (folder / vocabulary).write_text(json.dumps({t: k for k, t in enumerate(tokens)}), encoding="utf-8")
    else:
        added = [{"id": k, "content": t} for k, t in enumerate(tokens) if t[0] in "[<"]
        model = {"type": "Unigram", "vocab": [[t, -1.0] for t in tokens]}
        (folder / vocabulary).write_text(json.dumps({"model": model, "added_tokens": added}), encoding="utf-8")
    write_safetensors(folder / "model.safetensors", arrays, dtype)
    return arrays


def logits(kind: str, arrays: Mapping[str, Array], row: Sequence[str | None]) -> Array:
    """The logits of the whole vocabulary at each cell of a row; None is a hidden cell."""
    name, config, tokens = kind.split("_")[0], config_of(kind), tokens_of(kind)
    begin, end, mask = SPECIAL.get(name, (tokens[0], tokens[2], "<mask>"))
    ids = np.array([tokens.index(t) for t in (begin, *(mask if t is None else t for t in row), end)])
    x = arrays[f"{name}.embeddings.word_embeddings.weight"][ids]
    if config.get("token_dropout"):
        masked = ids == tokens.index(mask)
        x = np.where(masked[:, None], 0.0, x) * (1 - 0.15 * 0.8) / (1 - masked.mean())
    if f"{name}.embeddings.token_type_embeddings.weight" in arrays:
        x = x + arrays[f"{name}.embeddings.token_type_embeddings.weight"][0]
    if f"{name}.embeddings.position_embeddings.weight" in arrays:
        first = 0 if name in ("bert", "albert") else config["pad_token_id"] + 1
        x = x + arrays[f"{name}.embeddings.position_embeddings.weight"][first : first + len(ids)]
    for place in (f"{name}.embeddings.LayerNorm", f"{name}.embeddings.layer_norm"):
        x = _norm(arrays, place, x) if f"{place}.weight" in arrays else x
    if name == "albert":
        x = _linear(arrays, "albert.encoder.embedding_hidden_mapping_in", x)
    for base in _applied_layers(kind):
        x = _layer(kind, arrays, base, x)
    if name == "esm":
        x = _norm(arrays, "esm.encoder.emb_layer_norm_after", x)
    dense, normed, bias = _head_places(name)
    y = _norm(arrays, normed, _gelu(kind, _linear(arrays, dense, x[1:-1])))
    return y @ arrays[f"{name}.embeddings.word_embeddings.weight"].T + arrays[bias]


def _applied_layers(kind: str) -> list[str]:
    """The layers as they are applied: ALBERT applies both layers of a group at each of its depths."""
    places = _layer_places(kind)
    if kind != "albert":
        return places
    return [place for depth in range(LAYERS) for place in places[2 * (depth // 2) : 2 * (depth // 2) + 2]]


def _layer(kind: str, arrays: Mapping[str, Array], base: str, x: Array) -> Array:
    name = kind.split("_")[0]
    if name == "albert":
        q, k, v = (f"{base}.attention.{part}" for part in ("query", "key", "value"))
        out, first, inner, outer, last = "attention.dense", "attention.LayerNorm", "ffn", "ffn_output", "full_layer_layer_norm"
    else:
        q, k, v = (f"{base}.attention.self.{part}" for part in ("query", "key", "value"))
        out, inner, outer = "attention.output.dense", "intermediate.dense", "output.dense"
        first, last = ("attention.LayerNorm", "LayerNorm") if name == "esm" else ("attention.output.LayerNorm", "output.LayerNorm")
    y = _norm(arrays, f"{base}.{first}", x) if name == "esm" else x
    taken = np.concatenate(
        [
            _attended(*(_linear(arrays, p, y)[:, h * WIDTH // HEADS : (h + 1) * WIDTH // HEADS] for p in (q, k, v)), rotary=kind == "esm")
            for h in range(HEADS)
        ],
        axis=1,
    )
    x = x + _linear(arrays, f"{base}.{out}", taken)
    x = x if name == "esm" else _norm(arrays, f"{base}.{first}", x)
    y = _norm(arrays, f"{base}.{last}", x) if name == "esm" else x
    x = x + _linear(arrays, f"{base}.{outer}", _gelu(kind, _linear(arrays, f"{base}.{inner}", y)))
    return x if name == "esm" else _norm(arrays, f"{base}.{last}", x)


def _attended(q: Array, k: Array, v: Array, rotary: bool) -> Array:
    if rotary:
        q, k = _rotated(q), _rotated(k)
    scores = q @ k.T / math.sqrt(q.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True)) @ v


def _rotated(x: Array) -> Array:
    """Each pair of features as a complex number, turned by its angle."""
    half = x.shape[1] // 2
    angle = np.outer(np.arange(len(x)), 10000.0 ** (-2 * np.arange(half) / x.shape[1]))
    turned = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * angle)
    return np.concatenate([turned.real, turned.imag], axis=1)


def _linear(arrays: Mapping[str, Array], place: str, x: Array) -> Array:
    return x @ arrays[f"{place}.weight"].T + arrays[f"{place}.bias"]


def _norm(arrays: Mapping[str, Array], place: str, x: Array) -> Array:
    y = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    return y * arrays[f"{place}.weight"] + arrays[f"{place}.bias"]


def _gelu(kind: str, x: Array) -> Array:
    if kind == "albert":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
