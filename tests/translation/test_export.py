"""Exports: JAX alone runs the program of the page and returns what `translate` returns, piece by piece; what cannot be exported is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from network_cases import disturbed
from refusals import refused
from translation_cases import PROGRAM, toy_pairs, toy_vocabulary

import gmlmdsl as gm
from gmlmdsl.decode import _decoding
from gmlmdsl.decode._candidates import length_scores
from gmlmdsl.translation import Reranked, Shortlist, Translator

MORE = """
mask random for translate = everything(tgt, noise = {uniform: 1})
sampler drawn for translate = sundae(steps = 2, lengths = 1, temperature = 1)
sampler quick for translate = refinement(start = hide, steps = 1)
sampler chain for translate { update tgt[j] for j in t }
"""
LINES = ["one two", "dog runs", "red"]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "translate.md"
CHECK = """
import sys
found = decode(np.array(json.loads(sys.stdin.read()), np.int32))
print(json.dumps([np.asarray(a).tolist() for a in found]))
assert "equinox" not in sys.modules
"""


@pytest.fixture(scope="module")
def student() -> Translator:
    model = gm.parse(PROGRAM + MORE).model("translate")
    return Translator(model, disturbed(model.init_params(3), 7), toy_vocabulary(), "refine", "en-de")


def source_of(translator: Translator) -> np.ndarray:
    words = translator.vocabulary
    return words.rows(words.encode(LINES), 8)


def opened(path: Path) -> tuple[dict[str, Any], Any]:
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read("manifest.json")), jax.export.deserialize(bytearray(file.read("decoder.stablehlo"))).call


@pytest.mark.slow  # a process more
def test_the_program_of_the_page_translates_without_the_package(student: Translator, tmp_path: Path):
    student.export(tmp_path / "student.zip", batch=3)
    (block,) = re.findall(r"```python\n([^`]*export\.deserialize[^`]*)```", PAGE.read_text(encoding="utf-8"))
    code = "import sys; sys.modules['gmlmdsl'] = None\n" + block + CHECK
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    rows = json.dumps(source_of(student).tolist())
    done = subprocess.run([sys.executable, "-c", code], input=rows, capture_output=True, text=True, cwd=tmp_path, env=env, check=False)
    assert done.returncode == 0, done.stderr
    tokens, scores = json.loads(done.stdout.splitlines()[-1])
    same_as_translate(student, np.array(tokens), np.array(scores))
    header, _ = opened(tmp_path / "student.zip")
    assert header["source"] == header["target"] == [3, 8] and header["vocabulary"] == student.vocabulary.sha256
    assert (header["sampler"], header["precision"], header["end"], header["platforms"]) == ("refine", "float32", 1, ["cpu"])
    assert zipfile.ZipFile(tmp_path / "student.zip").read("vocabulary.model") == student.vocabulary.data


def same_as_translate(translator: Translator, tokens: np.ndarray, scores: np.ndarray, **options: Any) -> None:
    found = translator.decode(source_of(translator), rows=np.arange(3) * 256, **options)
    width = found.tokens.shape[1]
    assert np.array_equal(tokens[:, :width], found.tokens) and (tokens[:, width:] == -1).all()
    np.testing.assert_allclose(scores, found.score, rtol=1e-4)
    if not options.keys() - {"sampler", "seed"}:
        lines = translator.translate(LINES, **options)
        words = translator.vocabulary
        assert [t.text for t in lines] == words.decode(list(tokens))


@pytest.mark.slow
def test_random_decodes_are_those_of_the_lines(student: Translator, tmp_path: Path):
    student.export(tmp_path / "a.zip", batch=3, sampler="drawn", seed=np.uint8(5), platforms=("cpu", "cuda"))
    header, decode = opened(tmp_path / "a.zip")
    assert header["seed"] == 5 and header["platforms"] == ["cpu", "cuda"]
    same_as_translate(student, *map(np.asarray, decode(source_of(student))), sampler="drawn", seed=5)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_search_has_all_cells(precision: str, tmp_path: Path):
    model = gm.parse(PROGRAM).model("teacher")
    teacher = Translator(model, disturbed(model.init_params(4), 7), toy_vocabulary(), precision=precision)
    teacher.export(tmp_path / "a.zip", batch=3)
    header, decode = opened(tmp_path / "a.zip")
    assert header["precision"] == precision
    same_as_translate(teacher, *map(np.asarray, decode(source_of(teacher))))


@pytest.mark.slow
def test_no_translation_is_longer_than_the_width(student: Translator, tmp_path: Path):
    student.export(tmp_path / "a.zip", batch=3, width=5, sampler="quick")
    header, decode = opened(tmp_path / "a.zip")
    assert header["source"] == header["target"] == [3, 5]
    words = student.vocabulary
    source = words.rows([[*codes[:2], words.end] for codes in words.encode(LINES)], 5)
    tokens, _ = map(np.asarray, decode(source))
    padded = np.pad(source, ((0, 0), (0, 3)), constant_values=-1)
    _, scores = length_scores(student.network, (np.maximum(padded, 0),), ((padded >= 0).sum(axis=1),))
    lengths = np.asarray(scores)[:, :5].argmax(axis=1) + 1
    assert (np.asarray(scores).argmax(axis=1) >= 5).any() and (lengths < 5).any()
    found = student.decode(padded, sampler="quick", lengths=lengths)
    assert np.array_equal(tokens, found.tokens[:, :5])


def test_a_row_without_a_distribution_has_no_score(student: Translator):
    broken = replace(student.decoder("quick"), params=jax.tree.map(lambda a: a * jax.numpy.nan, student.params))
    _, score = jax.jit(broken.traceable(range(1), 8))(source_of(student)[:1])
    assert np.isnan(np.asarray(score)).all()


@pytest.mark.produces("E561")
def test_what_cannot_be_exported_is_refused(student: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a.zip"
    refused("E506", lambda: student.export(path, sampler="refined"), "no sampler `refined`", "refine")
    refused("E507", lambda: student.export(path, sampler="chain"), "decodes nothing")
    refused("E507", lambda: student.export(path, width=9), "at most 8", "got 9")
    refused("E507", lambda: student.export(path, width=0), "width")
    refused("E507", lambda: student.export(path, batch=0), "batch")
    refused("E507", lambda: student.export(path, platforms="cpu"), "platforms must be a list")
    refused("E507", lambda: student.export(path, platforms=("mars",)), "mars")
    refused("E507", lambda: student.export(path, seed=-1), "seed")
    refused("E601", lambda: student.export(path, batch=10**12), "logits", "fewer rows")
    refused("E560", lambda: student.export(tmp_path / "none" / "a.zip", sampler="quick"), "none")
    short = Translator(student.model, student.params, student.vocabulary, shortlist=Shortlist.learn(toy_pairs(60), student.vocabulary, 2))
    refused("E507", lambda: short.export(path), "shortlist")
    model = student.model.program.model("teacher")
    reranked = Reranked(student, Translator(model, model.init_params(4), student.vocabulary))
    refused("E507", lambda: reranked.export(path), "one network")
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    refused("E561", lambda: student.export(path), 'pip install "gmlmdsl[export]"')
    assert not list(tmp_path.iterdir())


def test_the_limit_of_logits_counts_all_candidates(student: Translator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_decoding, "MOST_ENTRIES", 2 * 3 * 8 * 30)
    student.decoder("refine").traceable(range(3), 8)
    refused("E601", lambda: student.decoder("refine").traceable(range(4), 8), "4 rows")
