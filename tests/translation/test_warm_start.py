"""First weights from a teacher: what agrees is taken, the rest is random, and what cannot agree is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from refusals import refused
from translation_cases import PROGRAM, toy_pairs, toy_vocabulary

import gmlmdsl as gm
from gmlmdsl.networks import with_weights_of
from gmlmdsl.train._network_fit import NetworkFit
from gmlmdsl.translation._bundle import write_translator
from gmlmdsl.translation._train_pairs import Recipe, Start, start_in_words, started, train_pairs

pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.fixture(scope="module")
def words() -> gm.Vocabulary:
    return toy_vocabulary()


def arrays(network) -> dict[str, np.ndarray]:
    return {jax.tree_util.keystr(p): np.asarray(a) for p, a in jax.tree_util.tree_flatten_with_path(network)[0] if hasattr(a, "shape")}


def test_a_student_takes_what_the_teacher_has():
    program = gm.parse(PROGRAM, V=30)
    student, teacher = program.model("translate"), program.model("teacher")
    init, notes = started(student, Start(teacher.init_params(5)["teacher_net"], "teacher"), 3)
    fresh, taught, found = arrays(student.init_params(3)["net"]), arrays(teacher.init_params(5)["teacher_net"]), arrays(init["net"])
    taken = {name for name in found if name in taught and np.array_equal(found[name], taught[name])}
    stayed = {name for name in found if np.array_equal(found[name], fresh[name])}
    block = ".decoder.layers[0]"
    for part in ("self_attention.query", "cross_attention.value", "ffn.inner"):
        assert f"{block}.{part}" in taken
    assert ".embeddings[0]" in taken and all(n in taken for n in found if n.startswith(".encoder"))
    # Norms are ones in both. The biases' table has the same shape, and its rows are other distances where nothing behind is seen.
    own = {".decoder.bias.table", ".positions", ".length_head.table"} | {n for n in found if n.startswith(f"{block}.positional")}
    assert stayed - taken == own and taken | own == set(found)
    assert notes["taken"] == sum(found[n].size for n in set(found) - own) and notes["of"] == sum(a.size for a in found.values())
    assert "embeddings all, encoder all, decoder" in start_in_words(notes) and "fresh: length head, positions" in start_in_words(notes)


def test_heads_that_differ_agree_in_shape_and_are_not_taken():
    program = gm.parse(PROGRAM.replace("teacher_net = encoder_decoder(layers = 1, heads = 2", "teacher_net = encoder_decoder(layers = 1, heads = 4"), V=30)  # fmt: skip
    fresh, other = (program.model(m).init_params(k)[n] for k, (m, n) in enumerate((("translate", "net"), ("teacher", "teacher_net"))))
    found = arrays(with_weights_of(fresh, other)[0])
    assert np.array_equal(found[".encoder.layers[0].attention.query"], arrays(fresh)[".encoder.layers[0].attention.query"])
    assert np.array_equal(found[".encoder.layers[0].ffn.inner"], arrays(other)[".encoder.layers[0].ffn.inner"])


@pytest.fixture
def of_a_teacher(words: gm.Vocabulary, tmp_path: Path) -> tuple[Any, NetworkFit, Recipe]:
    """A student, a teacher that has learnt nothing, and a recipe that starts from its bundle."""
    program = gm.parse(PROGRAM, V=words.size)
    student, teacher = program.model("translate"), program.model("teacher")
    none = np.zeros(0)
    meta = program.provenance() | {"model": "teacher", "seed": 5, "mask": "forced", "rows": 1, "seconds": 0.0, "cells": 1, "widths": [8]}
    fit = NetworkFit(teacher.init_params(5), none, none, np.zeros((0, 3)), "steps", meta, teacher.graph, lambda: teacher)
    write_translator(tmp_path / "teacher.bundle", fit, program, words, "en-de")
    recipe = Recipe(steps=1, batch_size=8, learning_rate=1e-9, optimizer="adam", start_from=tmp_path / "teacher.bundle")
    return student, fit, recipe


@pytest.mark.slow  # the pipeline starts its students from their teacher too
def test_a_training_starts_there(words: gm.Vocabulary, of_a_teacher: tuple[Any, NetworkFit, Recipe]):
    student, fit, recipe = of_a_teacher
    said: list[str] = []
    found = train_pairs(student, "corrupt", words, toy_pairs(8), [], recipe, tell=said.append)
    name = ".encoder.layers[0].ffn.inner"
    np.testing.assert_allclose(arrays(found.network)[name], arrays(fit.network)[name], atol=1e-6)
    assert "translate starts from teacher.bundle: " in said[0]


@pytest.mark.produces("E589")
def test_a_start_of_another_vocabulary_is_refused(words: gm.Vocabulary, of_a_teacher: tuple[Any, NetworkFit, Recipe]):
    student, _, recipe = of_a_teacher
    other = gm.Vocabulary.train((x.upper() for p in toy_pairs(200) for x in p), words.size)
    refused("E589", lambda: train_pairs(student, "corrupt", other, toy_pairs(8), [], recipe), "another vocabulary")


def test_nothing_that_agrees_is_refused():
    wide = gm.parse(PROGRAM.replace("width = 16", "width = 32"), V=30).model("teacher")
    student = gm.parse(PROGRAM, V=30).model("translate")
    few = "64 of the "  # biases by distance alone
    refused("E589", lambda: started(student, Start(wide.init_params()["teacher_net"], "teacher"), 0), few, "of teacher", "`width`")
