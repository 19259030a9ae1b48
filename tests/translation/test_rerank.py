"""A teacher that chooses among candidates: its scores against products of single predictions, and what it is not shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refused
from translation_cases import PROGRAM, toy_pairs, toy_vocabulary

import gmlmdsl as gm
from gmlmdsl.translation import Reranked, Translator, candidate_count, evaluate
from gmlmdsl.translation._translator import Decoded

LINES = ["one two", "", "dog runs", "red"]


@pytest.fixture(scope="module")
def words() -> gm.Vocabulary:
    return toy_vocabulary()


@pytest.fixture(scope="module")
def student(words: gm.Vocabulary) -> Translator:
    model = gm.parse(PROGRAM.replace("lengths = 2", "lengths = 3")).model("translate")
    return Translator(model, model.init_params(3), words, direction="en-de")


@pytest.fixture(scope="module")
def teacher(words: gm.Vocabulary) -> Translator:
    model = gm.parse(PROGRAM).model("teacher")
    return Translator(model, model.init_params(4), words)


class Scripted(Translator):
    """Decodes what a script says: for each row candidates with scores."""

    def __init__(self, plain: Translator, rows: Any, scores: Any):
        super().__init__(plain.model, plain.params, plain.vocabulary)
        self.rows, self.row_scores = np.asarray(rows), np.asarray(scores, float)

    def decode(self, source: Any, **options: Any) -> Decoded:
        assert options.pop("candidates") is True
        rows = self.rows
        length, passes = (rows >= 0).sum(2), np.tile([2, 3, 4], (len(rows), 1))
        traces, seen = (np.stack([rows, rows], axis=2), rows + 1) if options.get("trace") else (None, None)
        first = {} if traces is None or seen is None else {"trace": traces[:, 0], "seen": seen[:, 0]}
        every = {"candidate_passes": passes, "candidate_traces": traces, "candidate_seen": seen}
        return Decoded(rows[:, 0], self.row_scores[:, 0], length[:, 0], passes[:, 0], rows, self.row_scores, **first, **every)


def mean_log_p(teacher: Translator, source: np.ndarray, row: np.ndarray) -> float:
    """By one prediction after the other, up to the first end mark."""
    kept = row[row >= 0].tolist()
    kept = kept[: kept.index(teacher.vocabulary.end) + 1] if teacher.vocabulary.end in kept else kept
    total = 0.0
    for t, piece in enumerate(kept):
        p = teacher.model.next_symbol(teacher.params, np.array([kept[:t]], int).reshape(1, t), given={"src": source})
        total += np.log(float(p[0, piece]))
    return total / len(kept)


def filled(*rows: list[int]) -> np.ndarray:
    out = np.full((len(rows), 8), -1)
    for k, row in enumerate(rows):
        out[k, : len(row)] = row
    return out


def test_scores_are_mean_log_p_to_the_first_end(student: Translator, teacher: Translator, words: gm.Vocabulary):
    source = words.rows(words.encode(["one two", "dog"]), 8)
    rows = np.stack([filled([5, 6, 1], [5, 6, 7, 8, 1], [5, 6, 1, 9, 9, 1]), filled([9, 1], [4, 4, 4, 4, 4, 4, 4, 4], [1])])
    found = Reranked(student, teacher).scores(source, rows)
    # `next_symbol` takes no padding: a source of its own length is a row of the same model over fewer cells.
    for r, line in enumerate(["one two", "dog"]):
        n = len(words.encode([line])[0])
        short = gm.parse(PROGRAM.replace("index s = range(8)", f"index s = range({n})")).model("teacher")
        alone = Translator(short, teacher.params, words)
        wanted = [mean_log_p(alone, source[r, :n], row) for row in rows[r]]
        np.testing.assert_allclose(found[r], wanted, rtol=2e-5)
    assert found[0, 0] == pytest.approx(found[0, 2])  # what stands behind the end is not read


def test_the_best_by_the_teacher_stands_first(student: Translator, teacher: Translator, words: gm.Vocabulary):
    rows = np.stack([filled([5, 6, 1], [7, 1], [8, 9, 10, 1])] * 3)
    own = [[-0.1, -0.2, -0.3], [-0.1, -0.2, -np.inf], [-0.3, -0.3, -0.3]]
    scripted = Scripted(student, rows, own)
    source = words.rows(words.encode(["one two", "dog runs", "red"]), 8)
    reranked = Reranked(scripted, teacher)
    said = np.where(np.isfinite(own), reranked.scores(source, rows), -np.inf)
    found = reranked.decode(source, candidates=True, trace=True)
    assert found.candidates is not None and found.candidate_scores is not None and found.trace is not None
    for r in range(3):
        order = sorted(range(3), key=lambda c, r=r: -said[r, c])
        assert found.candidates[r].tolist() == rows[r, order].tolist()
        np.testing.assert_array_equal(found.candidate_scores[r], said[r, order])
        assert found.tokens[r].tolist() == rows[r, order[0]].tolist() and found.score[r] == said[r, order[0]]
        assert found.length[r] == (found.tokens[r] >= 0).sum()
    assert not np.isfinite(found.candidate_scores[1, 2])  # no candidate at all is never chosen
    with np.errstate(all="raise"):
        assert reranked.scores(source[:1], filled([5, 1], [])[None])[0, 1] == 0  # a beam that found no further row leaves an empty one
    assert found.seen is not None
    best = np.argmax(said, axis=1)
    assert set(best) != {0}  # else the first candidate's passes would be right too
    np.testing.assert_array_equal(found.trace[:, -1], found.tokens)
    np.testing.assert_array_equal(found.seen, found.tokens + 1)
    np.testing.assert_array_equal(found.passes, best + 2)
    assert reranked.decode(source).candidates is None


@pytest.mark.slow
def test_lines_are_translated_and_their_texts_scored(student: Translator, teacher: Translator, words: gm.Vocabulary):
    reranked = Reranked(student, teacher)
    plain, found = student.translate(LINES, n_best=3, trace=True), reranked.translate(LINES, n_best=3, trace=True)
    assert found[1].text == "" and all(t.trace[-1] == t.text for t, line in zip(found, LINES, strict=True) if line)
    for line, t, own in zip(LINES, found, plain, strict=True):
        assert {x for x, _ in t.alternatives} == {x for x, _ in own.alternatives}
        scores = [s for _, s in t.alternatives]
        assert scores == sorted(scores, reverse=True) and t.text == t.alternatives[0][0]
        if line:
            source, target = words.rows(words.encode([line]), 8), filled([*t.pieces, words.end])[None]
            # A candidate without an end mark fills its row, and is scored without one.
            assert not t.ended or t.score == pytest.approx(float(reranked.scores(source, target)[0, 0]), rel=1e-4)
    assert list(reranked.stream(LINES)) == reranked.translate(LINES)
    assert candidate_count(student.model, "refine") == 3 and candidate_count(teacher.model, "beam") == 3


@pytest.mark.slow
def test_an_evaluation_is_of_what_was_chosen(student: Translator, teacher: Translator):
    pairs = toy_pairs(6, 3)
    sources, references = [s for s, _ in pairs], [t for _, t in pairs]
    reranked = Reranked(student, teacher)
    found = evaluate(reranked, sources, references, resamples=0, oracle=False)
    assert found.outputs == tuple(t.text for t in reranked.translate(sources))
    assert found.by_pass[-1].bleu == pytest.approx(found.scores.bleu.value) and found.by_pass[-1].repeats == found.repeats


@pytest.mark.produces("E590")
def test_teachers_that_do_not_fit(student: Translator, teacher: Translator, words: gm.Vocabulary):
    refused("E590", lambda: Reranked(teacher, student), "not autoregressive", "`translate`")
    other = gm.Vocabulary.train((x.upper() for p in toy_pairs(200) for x in p), words.size)
    refused("E590", lambda: Reranked(student, Translator(teacher.model, teacher.params, other)), "another vocabulary")
    short = gm.parse(PROGRAM.replace("index t = range(8)", "index t = range(7)")).model("teacher")
    refused("E590", lambda: Reranked(student, Translator(short, teacher.params, words)), "(8, 7)", "up to (8, 8)")
    long = gm.parse(PROGRAM.replace("range(8)", "range(12)")).model("teacher")
    rows, source = filled([5, 6, 1], [7, 8, 9, 1])[None], words.rows(words.encode(["one"]), 8)
    longer, same = (Reranked(student, Translator(m, teacher.params, words)).scores(source, rows) for m in (long, teacher.model))
    np.testing.assert_allclose(longer, same, rtol=1e-5)
