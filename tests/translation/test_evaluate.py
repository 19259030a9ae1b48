"""Evaluations: scores by pass, lengths, stutter before and after, of decodes whose every token is known."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from refusals import refused

import gmlmdsl as gm
from gmlmdsl.translation import Translator, evaluate, score
from gmlmdsl.translation._evaluate import _repeats, last_changes
from gmlmdsl.translation._translator import Decoded

PROGRAM = """\
input V : int
index s = range(8)
network net = encoder_decoder(layers = 1, heads = 2, width = 16, ffn = 16, dropout = 0)
network teacher_net = encoder_decoder(layers = 1, heads = 2, width = 16, ffn = 16, dropout = 0, causal = true)
model translate { given src[i in s] : range(V)  var tgt[i in s] : range(V)  conditional tgt ~ net(src) }
model teacher { given src[i in s] : range(V)  var tgt[i in s] : range(V)  conditional tgt ~ teacher_net(src) }
mask corrupt for translate = everything(tgt, noise = {keep: 0.15, uniform: 0.85})
sampler decode for translate = padir(steps = 3, lengths = 2)
sampler greedy for teacher = autoregressive(end = 1)
"""
SOURCES = ["aa bb cc dd", "", "bb cc dd ee", "cc dd ee"]
REFERENCES = ["dd cc bb aa", "", "ee dd cc bb", "ee dd cc"]
PASSES = [
    ["dd dd dd aa", "dd cc cc aa", "dd cc bb aa"],
    ["ee ee ee ee", "ee ee cc bb", "ee ee cc bb"],
    ["cc dd cc", "ee dd cc", "ee dd cc"],
]  # of the lines that are not empty


@pytest.fixture(scope="module")
def words() -> gm.Vocabulary:
    letters = ["aa", "bb", "cc", "dd", "ee"]
    return gm.Vocabulary.train([f"{a} {b} {c}" for a in letters for b in letters for c in letters if len({a, b, c}) == 3], 13)


@pytest.fixture(scope="module")
def program(words: gm.Vocabulary) -> Any:
    return gm.parse(PROGRAM, V=words.size)


class Scripted(Translator):
    """Decodes what a script says, by pass, and keeps what it was asked; `known` is what it says where lengths are given."""

    def __init__(self, model: Any, words: gm.Vocabulary, script: list[list[str]], known: list[str]):
        super().__init__(model, model.init_params(0), words, "decode")
        self.script, self.known, self.calls = script, known, []

    def decode(self, source: Any, *, lengths: Any = None, trace: bool = False, **rest: Any) -> Decoded:
        self.calls.append({"lengths": lengths, "trace": trace, **rest})
        lines = [SOURCES.index(row) for row in self.vocabulary.decode(source)]
        script = [self.script[k - (k > 1)] if lengths is None else [self.known[k - (k > 1)]] * 3 for k in lines]
        steps = np.stack([self.vocabulary.rows(self.vocabulary.encode(texts), 8) for texts in script])
        passes = np.array([len(dict.fromkeys(texts)) for texts in script])
        last = steps[:, -1]
        return Decoded(last, np.full(len(lines), -0.5), (last >= 0).sum(1), passes, trace=steps if trace else None)


@pytest.fixture
def scripted(program: Any, words: gm.Vocabulary, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    model = program.model("translate")
    monkeypatch.setattr(model, "length_coverage", lambda params, x, **more: {k: k / 10 for k in more["top"]})
    return Scripted(model, words, PASSES, ["dd cc bb aa", "ee dd cc bb", "ee dd dd"])


def test_scores_are_of_the_last_pass(scripted: Scripted):
    found = evaluate(scripted, SOURCES, REFERENCES)
    assert found.outputs == ("dd cc bb aa", "", "ee ee cc bb", "ee dd cc") and found.sampler == "decode"
    assert found.scores == score(found.outputs, REFERENCES)
    assert found.scores["stutter"] == pytest.approx(1000 / 11)


def test_each_pass_has_its_scores(scripted: Scripted):
    found = evaluate(scripted, SOURCES, REFERENCES)
    assert [p.number for p in found.by_pass] == [1, 2, 3]
    for k, p in enumerate(found.by_pass):
        texts = [PASSES[0][k], "", PASSES[1][k], PASSES[2][k]]
        assert p.bleu == pytest.approx(score(texts, REFERENCES, resamples=0)["BLEU 13a"])
    assert found.by_pass[2].bleu == pytest.approx(found.scores["BLEU 13a"])
    # Doubled words: `dd dd dd`, `ee ee ee ee`; `cc cc`, `ee ee`; `ee ee`: every word is one piece here.
    assert [p.stutter for p in found.by_pass] == pytest.approx([1000 * n / 11 for n in (5, 2, 1)])
    assert [p.repeats for p in found.by_pass] == pytest.approx([1000 * n / 11 for n in (5, 2, 1)])
    assert found.repeats == found.by_pass[-1].repeats


def test_passes_have_no_stutter_in_a_language_without_spaces(scripted: Scripted):
    found = evaluate(scripted, SOURCES, REFERENCES, target_language="zh", oracle=False, resamples=0)
    assert all(math.isnan(p.stutter) for p in found.by_pass) and [p["stutter"] for p in found.as_dict()["by_pass"]] == [None] * 3


def test_repeats_are_counted_before_they_are_dropped(scripted: Scripted):
    found = evaluate(scripted, SOURCES, REFERENCES, drop_repeats=True)
    assert found.outputs[2] == "ee cc bb" and found.scores["stutter"] == 0
    assert found.repeats == pytest.approx(1000 / 11)


def test_passes_until_nothing_changes(scripted: Scripted):
    found = evaluate(scripted, SOURCES, REFERENCES)
    assert found.passes == {2: 2, 3: 1} and found.mean_passes == pytest.approx(7 / 3)


def test_lengths_and_the_oracle(scripted: Scripted):
    found = evaluate(scripted, SOURCES, REFERENCES)
    assert found.length_coverage == {1: 0.1, 3: 0.3, 5: 0.5} and found.measured == 3
    assert found.length_ratio == pytest.approx(1)
    assert [None if c["lengths"] is None else list(c["lengths"]) for c in scripted.calls] == [None, [5, 5, 4]]
    assert found.oracle is not None and found.oracle == score(["dd cc bb aa", "", "ee dd cc bb", "ee dd dd"], REFERENCES, resamples=0)
    assert evaluate(scripted, SOURCES, REFERENCES, oracle=False).oracle is None and len(scripted.calls) == 3


def test_sentences_that_do_not_fit_keep_their_translation_in_the_oracle(scripted: Scripted):
    references = [*REFERENCES[:3], "ee dd cc aa ee dd cc aa ee"]
    found = evaluate(scripted, SOURCES, references)
    assert found.measured == 2 and list(scripted.calls[1]["lengths"]) == [5, 5] and found.cut == 0
    assert found.oracle == score(["dd cc bb aa", "", "ee dd cc bb", "ee dd cc"], references, resamples=0)


def test_an_evaluation_is_printed_and_kept(scripted: Scripted):
    found = evaluate(scripted, SOURCES, REFERENCES)
    text = str(found)
    for part in ("sampler decode", "tok:13a", "repeats", "10.0 % among 1", "with the reference's length", "2.33 passes"):
        assert part in text
    kept = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert kept["by_pass"][0]["number"] == 1 and kept["passes"] == {"2": 2, "3": 1} and kept["oracle"]["sentences"] == 4
    assert kept["scores"][0]["name"] == "BLEU 13a" and kept["length_coverage"]["5"] == 0.5


def test_windows_are_counted_together(scripted: Scripted, monkeypatch: pytest.MonkeyPatch):
    whole = evaluate(scripted, SOURCES, REFERENCES)
    plain = Translator.translate
    monkeypatch.setattr(Translator, "translate", lambda self, lines, **o: plain(self, lines, batch_size=2, **o))
    parts = evaluate(scripted, SOURCES, REFERENCES)
    assert parts.by_pass == whole.by_pass and parts.passes == whole.passes and parts.outputs == whole.outputs


def test_nothing_but_empty_lines(scripted: Scripted):
    found = evaluate(scripted, ["", " "], ["", "aa"])
    assert found.outputs == ("", "") and found.by_pass == () and found.oracle is None and found.length_coverage is None
    assert math.isnan(found.length_ratio) and found.measured == 0
    json.dumps(found.as_dict(), allow_nan=False)
    assert "sampler decode" in str(found)


def test_what_does_not_belong_together(scripted: Scripted):
    refused("E574", lambda: evaluate(scripted, ["aa"], []), "1 sentence", "0 references")
    refused("E505", lambda: evaluate(scripted, [], []))
    refused("E506", lambda: evaluate(scripted, ["aa"], ["aa"], sampler="other"))
    assert not scripted.calls  # before anything is decoded


@pytest.mark.slow
def test_a_network_and_its_teacher(program: Any, words: gm.Vocabulary, standard_promotion: None):
    for name, sampler, refines in (("translate", "decode", True), ("teacher", "greedy", False)):
        model = program.model(name)
        translator = Translator(model, model.init_params(0), words)
        found = evaluate(translator, SOURCES, REFERENCES, resamples=10)
        assert found.sampler == sampler and found.outputs == tuple(t.text for t in translator.translate(SOURCES))
        assert [p.number for p in found.by_pass] == ([1, 2, 3] if refines else [])
        assert (found.oracle is None) == (not refines) == (found.length_coverage is None)
        assert found.measured == 3 and found.mean_passes > 0
        if refines:
            assert found.by_pass[-1].bleu == pytest.approx(found.scores["BLEU 13a"])
            assert found.repeats == found.by_pass[-1].repeats


def test_passes_are_those_that_changed_something() -> None:

    trace = np.array([[[1, 2, -1]] * 4, [[1, 2, 3], [1, 2, 4], [1, 2, 4], [1, 2, 4]], [[0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 1, 0]]])
    assert last_changes(trace).tolist() == [1, 2, 4]
    assert last_changes(trace[:, :1]).tolist() == [1, 1, 1]


def test_hidden_cells_are_no_pieces_that_repeat() -> None:
    tokens = np.array([[-1, -1, -1, 12, 11, -1], [7, 7, -1, 7, 1, 7], [5, 5, 5, 1, 1, -1]])
    assert _repeats(tokens, 1) == (1 + 2, 2 + 3 + 3)
