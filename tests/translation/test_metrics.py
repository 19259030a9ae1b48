"""Scores of translations: SacreBLEU's, stutter, and what a learnt measure needs."""

from __future__ import annotations

import json
import math
import sys
import tracemalloc
import types
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from gmlmdsl import stutter_rate
from gmlmdsl.translation import Scores, score
from gmlmdsl.translation._metrics import stutter

REFERENCES = ["the cat sat on the mat.", "a dog ran away, today!", "it had had it all", "she said “no” – twice"]
OUTPUTS = ["the cat cat sat on on the mat.", "a dog ran away, today!", "it had had had it all", "she said “no”"]


@pytest.fixture(scope="module")
def scores() -> Scores:
    return score(OUTPUTS, REFERENCES)


def bleu_by_hand(outputs: list[list[str]], references: list[list[str]]) -> float:
    """Papineni et al. 2002 on words: the geometric mean of clipped n-gram precisions, n up to 4, and the brevity penalty."""
    from collections import Counter

    logs = []
    for n in range(1, 5):
        grams = [[Counter(zip(*(s[k:] for k in range(n)), strict=False)) for s in side] for side in (outputs, references)]
        right = sum((o & r).total() for o, r in zip(*grams, strict=True))
        logs.append(math.log(right / sum(g.total() for g in grams[0])))
    c, r = (sum(map(len, side)) for side in (outputs, references))
    return 100 * math.exp(sum(logs) / 4 + min(0.0, 1 - r / c))


def test_bleu_is_bleu(rng: np.random.Generator):
    words = [f"w{i}" for i in range(30)]
    references = [list(rng.choice(words, 12)) for _ in range(40)]
    outputs = [[w if rng.random() < 0.8 else "x" for w in r[: int(rng.integers(9, 13))]] for r in references]
    found = score([" ".join(o) for o in outputs], [" ".join(r) for r in references], resamples=200)
    assert found["BLEU 13a"] == pytest.approx(bleu_by_hand(outputs, references), rel=1e-6)
    assert found["BLEU intl"] == pytest.approx(found["BLEU 13a"])
    low, high = found.bleu.interval or (0, 0)
    assert low < found["BLEU 13a"] < high < low + 20


def test_signatures_say_how(scores: Scores):
    signatures = {s.name: s.signature for s in scores.scores}
    assert scores.names == ["BLEU 13a", "BLEU intl", "chrF++", "TER", "stutter", "stuttering", "length ratio", "brevity"]
    assert signatures["BLEU 13a"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert "|tok:intl|" in signatures["BLEU intl"] and "nc:6|nw:2" in signatures["chrF++"] and "tok:tercom" in signatures["TER"]
    assert scores["BLEU 13a"] != scores["BLEU intl"]  # the dash and quotes of the last sentence are words to one of them only


def test_the_same_text_is_perfect():
    found = score(REFERENCES, REFERENCES)
    assert found["BLEU 13a"] == pytest.approx(100) and found["chrF++"] == pytest.approx(100)
    assert found["TER"] == 0 and found["stutter"] == 0 and found["stuttering"] == 0


def test_stutter_is_what_the_reference_does_not_say(scores: Scores):
    assert scores["stutter"] == pytest.approx(1000 * 3 / 22) == stutter_rate(OUTPUTS, REFERENCES)
    assert scores["stuttering"] == pytest.approx(50)
    assert scores.words == 22 and scores.sentences == 4
    low, high = next(s.interval for s in scores.scores if s.name == "stutter") or (0, 0)
    assert 0 <= low < scores["stutter"] < high < 400


def test_intervals_are_the_same_in_every_run(scores: Scores):
    assert score(OUTPUTS, REFERENCES) == scores
    without = score(OUTPUTS, REFERENCES, resamples=0)
    assert all(s.interval is None for s in without.scores)
    assert [s.value for s in without.scores] == [s.value for s in scores.scores]
    assert [s.signature for s in without.scores] == [s.signature for s in scores.scores]


def test_intervals_of_stutter_take_no_array_of_all_sets():
    words, twice = ["a b c d"] * 3000, ["a a b"] * 3000
    tracemalloc.start()
    rate, _ = stutter([*words, *twice], [*words, *words], 200)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # all sets at once: 8 bytes a sentence and set in each of three arrays
    assert rate.interval is not None and rate.interval[0] < rate.value < rate.interval[1] and peak < 8 * 200 * 6000 / 2


@pytest.mark.parametrize(("language", "tokeniser"), [("zh", "zh"), ("zh-CN", "zh"), ("zh_Hans", "zh"), ("ja", "char")])
def test_languages_without_spaces(language: str, tokeniser: str):
    found = score(["我喜欢猫。", "他走了"], ["我喜欢狗。", "他走了"], language)
    assert found.names[0] == f"BLEU {tokeniser}" and f"tok:{tokeniser}" in found.bleu.signature
    assert 0 < found["TER"] < 50  # letters, where the plain one sees two words, one of them wrong
    assert math.isnan(found["stutter"]) and math.isnan(found["stuttering"])


def test_other_languages_are_split_at_spaces(scores: Scores):
    assert score(OUTPUTS, REFERENCES, "de") == scores == score(OUTPUTS, REFERENCES, "pt-BR")


def test_outputs_without_a_word():
    found = score(["", ""], ["a", "b"])
    assert found["BLEU 13a"] == 0 and math.isnan(found["stutter"]) and found["stuttering"] == 0
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["scores"][4]["value"] is None


def test_how_long_outputs_are():
    found = score(["a b c d", "e f"], ["a b c d", "e f g h"])
    assert found["length ratio"] == 6 / 8 and found["brevity"] == pytest.approx(math.exp(1 - 8 / 6))
    assert score(["a b c"], ["a b"])["brevity"] == 1


def test_scores_are_printed_and_kept(scores: Scores):
    lines = str(scores).splitlines()
    assert lines[0] == "4 sentences, 22 words" and len(lines) == 9
    assert "tok:13a" in lines[1] and f"{scores['BLEU 13a']:.2f}" in lines[1]
    kept = json.loads(json.dumps(scores.as_dict()))
    assert [s["name"] for s in kept["scores"]] == scores.names
    refused("E506", lambda: scores["BLEU 13b"], "BLEU 13a")


@pytest.mark.produces("E574")
def test_what_does_not_belong_together():
    refused("E574", lambda: score(["a"], ["a", "b"]), "1 sentence", "2 references")
    refused("E574", lambda: score("text", "text"))
    refused("E505", lambda: score([], []))


@pytest.mark.produces("E576")
def test_a_learnt_measure_needs_a_file_here_the_sources_and_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "model.ckpt"
    refused("E576", lambda: score(["a"], ["a"], sources=["x"], learnt=path), "no such file", "never fetched")
    path.write_bytes(b"")
    refused("E576", lambda: score(["a"], ["a"], learnt=path), "sources")
    refused("E574", lambda: score(["a"], ["a"], sources=["x", "y"], learnt=path), "sources")
    monkeypatch.setitem(sys.modules, "comet", None)
    refused("E561", lambda: score(["a"], ["a"], sources=["x"], learnt=path), "COMET")


def test_a_learnt_measure_gets_sources_outputs_and_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The library itself is not installed here: what it is called with is what its documentation says."""
    seen = []

    class Model:
        def predict(self, rows, gpus, progress_bar):
            seen.extend(rows)
            return types.SimpleNamespace(system_score=0.75)

    comet = types.ModuleType("comet")
    monkeypatch.setattr(comet, "load_from_checkpoint", lambda name: Model(), raising=False)
    monkeypatch.setitem(sys.modules, "comet", comet)
    (tmp_path / "model.ckpt").write_bytes(b"")
    found = score(["o"], ["r"], sources=["s"], learnt=tmp_path / "model.ckpt", resamples=0)
    assert found["COMET"] == 0.75 and found.scores[-1].signature == "COMET|model.ckpt"
    assert seen == [{"src": "s", "mt": "o", "ref": "r"}]
    monkeypatch.setattr(comet, "load_from_checkpoint", lambda name: 1 / 0)
    refused("E576", lambda: score(["o"], ["r"], sources=["s"], learnt=tmp_path / "model.ckpt", resamples=0), "ZeroDivisionError")


def test_without_the_library(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    refused("E561", lambda: score(["a"], ["a"]), "gmlmdsl[train]")
