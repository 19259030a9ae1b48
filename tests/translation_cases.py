"""A toy language of six words, and programs that translate it: every row fits into eight cells, so that one width is compiled."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

import gmlmdsl as gm
from gmlmdsl.train._network_fit import NetworkFit
from gmlmdsl.translation._bundle import write_translator

WORDS = {"one": "eins", "two": "zwei", "red": "rot", "dog": "hund", "cat": "katze", "runs": "rennt"}
PROGRAM = """\
input V : int = 30
index s = range(8)
index t = range(8)
network net = encoder_decoder(layers = 1, heads = 2, width = 16, ffn = 16, dropout = 0, positional_attention = true)
network teacher_net = encoder_decoder(layers = 1, heads = 2, width = 16, ffn = 16, dropout = 0, causal = true)
model translate {
  given src[i in s] : range(V)
  var tgt[j in t] : range(V)
  conditional tgt ~ net(src)
}
model teacher {
  given src[i in s] : range(V)
  var tgt[j in t] : range(V)
  conditional tgt ~ teacher_net(src)
}
mask corrupt for translate = everything(tgt, noise = {hide: 1})
mask forced for teacher = everything(tgt, noise = {keep: 1})
sampler refine for translate = refinement(start = hide, steps = 2, lengths = 2)
sampler beam for teacher = autoregressive(end = 1, beam = 3)
"""


def toy_pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Sentences of one or two words, word by word."""
    rng, words = random.Random(seed), list(WORDS)
    chosen = [[rng.choice(words) for _ in range(rng.randint(1, 2))] for _ in range(count)]
    return [(" ".join(w), " ".join(WORDS[x] for x in w)) for w in chosen]


def toy_vocabulary() -> gm.Vocabulary:
    """Of 30 pieces, whole words, letters and marks."""
    marked = ["one. two! red?", "dog. cat! runs?"]
    return gm.Vocabulary.train([*marked, *(text for pair in toy_pairs(200) for text in pair)], 30)


def write_bundles(folder: Path) -> None:
    """Bundles of both models, with random weights, as if they had been trained for no step."""
    words, none = toy_vocabulary(), np.zeros(0)
    program = gm.parse(PROGRAM, V=words.size)
    for seed, name in enumerate(("translate", "teacher")):
        model = program.model(name)
        meta = program.provenance() | {"model": name, "seed": seed, "mask": "corrupt", "rows": 1, "seconds": 0.0, "cells": 1, "widths": [8]}
        fit = NetworkFit(model.init_params(seed), none, none, np.zeros((0, 3)), "steps", meta, model.graph, lambda m=model: m)
        write_translator(folder / f"{name}.bundle", fit, program, words, "en-de")


def write_texts(folder: Path, name: str, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
    """Two files with a line for each pair."""
    out = []
    for side, ending in enumerate(("en", "de")):
        path = folder / f"{name}.{ending}"
        path.write_text("".join(f"{p[side]}\n" for p in pairs), encoding="utf-8")
        out.append(path)
    return out[0], out[1]
