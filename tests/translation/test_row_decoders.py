"""A decoder with verified parameters: few compiled programs a call, the draws of each step, parameters examined once."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
import pytest
from autoregressive_cases import PROGRAM as SEARCHED
from autoregressive_cases import SOURCES
from network_cases import disturbed
from thinned import thinned
from translation_cases import PROGRAM, toy_pairs, toy_vocabulary

import gmlmdsl as gm
from gmlmdsl.decode import _decoding
from gmlmdsl.derive import _bounded_jit
from gmlmdsl.translation import Translator, evaluate, score

DRAWN = PROGRAM + "sampler apart for translate = sundae(steps = 2, lengths = 2)\n"


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    program = gm.parse(DRAWN)
    return {name: program.model(name) for name in ("translate", "teacher")}


def translator(models: dict[str, Any], name: str, sampler: str) -> Translator:
    model = models[name]
    params = {label: disturbed(net, 3) for label, net in model.init_params().items()}
    return Translator(model, params, toy_vocabulary(), sampler)


def programs_run(monkeypatch: pytest.MonkeyPatch, call: Any) -> list[str]:
    ran, run = [], _bounded_jit._run
    with monkeypatch.context() as patch:
        patch.setattr(_bounded_jit, "_run", lambda program, arrays: (ran.append(program.__name__), run(program, arrays))[1])
        call()
    return ran


def test_a_sentence_takes_one_program_and_one_more_where_its_length_is_predicted(models: dict, monkeypatch: pytest.MonkeyPatch):
    student, teacher = translator(models, "translate", "refine"), translator(models, "teacher", "beam")
    assert programs_run(monkeypatch, lambda: student.translate(["red dog"])) == ["length_scores", "_decoded_rows"]
    assert programs_run(monkeypatch, lambda: student.translate(["red dog"], lengths=[3])) == ["_decoded_rows"]
    assert programs_run(monkeypatch, lambda: teacher.translate(["red dog"])) == ["_decoded_rows"]


def test_parameters_are_verified_once_and_others_anew(models: dict, monkeypatch: pytest.MonkeyPatch):
    t, verified = translator(models, "translate", "refine"), []
    known = type(t.model)._known
    monkeypatch.setattr(type(t.model), "_known", lambda self, *a: (verified.append(1), known(self, *a))[1])
    first = t.translate(["red dog"])[0]
    assert t.translate(["red dog"])[0] == first and len(verified) == 1
    t.params["net"] = eqx.tree_at(lambda net: net.embeddings, t.network, tuple(e[::-1] for e in t.network.embeddings))
    assert t.translate(["red dog"])[0].score != first.score and len(verified) == 2
    t.params["net"] = eqx.tree_at(lambda net: net.positions, t.network, t.network.positions.at[0].set(np.nan))
    with pytest.raises(gm.GmlmError, match="E504"):
        t.translate(["red dog"])


@pytest.mark.slow
def test_rows_of_a_vocabulary_are_decoded_as_others_are(models: dict):
    t = translator(models, "translate", "apart")
    source = t.vocabulary.rows(t.vocabulary.encode([a for a, _ in toy_pairs(5)]), 8)
    one, other = (t.decode(rows, seed=3, candidates=True) for rows in (source, source.tolist()))
    assert np.array_equal(one.candidates, other.candidates) and np.array_equal(one.candidate_scores, other.candidate_scores)
    strange = np.where(source == 1, 99, source)
    with pytest.raises(gm.GmlmError):
        t.decode(strange)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["drawn", "beam"])
def test_draws_follow_from_their_step_however_many_are_made(sampler: str, monkeypatch: pytest.MonkeyPatch):
    model = gm.parse(SEARCHED).model()
    params = model.init_params(10)

    def drawn(draws: int, warmup: int = 0, thin: int = 1) -> np.ndarray:
        options = {"draws": draws, "warmup": warmup, "thin": thin, "chains": 2, "seed": 7, "missing": -1}
        return model.sample(params, sampler, given={"src": SOURCES}, **options)["posterior"]["x"].values

    every = drawn(11)
    assert np.array_equal(drawn(3), every[:, :3])
    assert np.array_equal(drawn(3, warmup=2, thin=3), every[:, [4, 7, 10]])  # the last step of each draw
    alike = model.sample(params, sampler, draws=11, given={"src": SOURCES[[0, 0]]}, missing=-1, seed=7)["posterior"]["x"].values
    assert np.array_equal(alike[:, :, 0], alike[:, :, 1]) == (sampler == "beam")  # draws follow from the number of the row, too
    monkeypatch.setattr(_decoding, "DRAWS_PER_CALL", 4)
    assert np.array_equal(drawn(11), every)
    assert sampler != "drawn" or len(np.unique(every.reshape(22, -1), axis=0)) > 4


def test_only_a_decoder_decodes(models: dict):
    text = SEARCHED + "sampler cells { update x[i] for i in range(4) }\n"
    model = gm.parse(
        text.replace(", causal = true", "").split("sampler greedy")[0] + "sampler cells { update x[i] for i in range(4) }\n"
    ).model()
    with pytest.raises(gm.GmlmError, match="runs chains of updates"):
        model.decoder(model.init_params(), "cells")


@pytest.mark.parametrize(("model", "sampler"), thinned([("translate", "refine"), ("teacher", "beam")], 2))
@pytest.mark.slow
def test_a_translator_in_fewer_bits_is_compared_with_itself_in_float32(models: dict, model: str, sampler: str):
    exact = translator(models, model, sampler)
    fewer = exact.in_precision("int8")
    assert (exact.precision, fewer.precision) == ("float32", "int8") and "int8" in repr(fewer)
    lines, wanted = zip(*toy_pairs(6), strict=True)
    found = evaluate(fewer, lines, wanted, resamples=0)
    one, other = (t.translate(lines) for t in (exact, fewer))
    assert [a.score for a in one] != [b.score for b in other]
    assert found.full is not None and found.full.equal == np.mean([a.text == b.text for a, b in zip(one, other, strict=True)])
    assert found.full.scores == score([t.text for t in one], wanted, resamples=0) and found.outputs == tuple(t.text for t in other)
    assert f"in int8; in float32 BLEU 13a {found.full.scores['BLEU 13a']:.2f}, chrF++" in str(found)
    assert found.as_dict()["float32"]["equal"] == found.full.equal and found.as_dict()["precision"] == "int8"
    assert evaluate(exact, lines, wanted, resamples=0, oracle=False).full is None


def test_a_precision_that_does_not_exist(models: dict):
    with pytest.raises(gm.GmlmError, match=r"E507.*precision must be one of float32, bfloat16, int8 or auto"):
        translator(models, "translate", "refine").in_precision("int9")
