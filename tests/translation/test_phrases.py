"""Phrases that must occur in translations: they do, where the network finds them likeliest, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refused
from translation_cases import PROGRAM, toy_vocabulary

import gmlmdsl as gm
from gmlmdsl.evaluate import network_queries
from gmlmdsl.translation import TranslationOptions, Translator
from gmlmdsl.translation._phrases import Draft, with_phrases

LINES = ["one two", "", "dog runs", "red cat"]
PHRASES = [["zwei"], [], [], ["katze", "hund"]]


@pytest.fixture(scope="module")
def words() -> gm.Vocabulary:
    return toy_vocabulary()


@pytest.fixture(scope="module")
def student(words: gm.Vocabulary) -> Translator:
    model = gm.parse(PROGRAM).model("translate")
    return Translator(model, model.init_params(3), words)


@pytest.fixture(scope="module")
def found(student: Translator) -> list[gm.Translation]:
    return student.translate(LINES, phrases=PHRASES, n_best=3)


@pytest.mark.slow
def test_every_candidate_has_the_phrases_of_its_line(student: Translator, found: list[gm.Translation]):
    for t, phrases in zip(found, PHRASES, strict=True):
        assert all(phrase in text for phrase in phrases for text, _ in t.alternatives), t
    plain = student.translate(LINES, n_best=3)
    assert not all(phrase in t.text for t, phrases in zip(plain, PHRASES, strict=True) for phrase in phrases)
    assert [found[k] for k in (1, 2)] == [plain[k] for k in (1, 2)], "lines without phrases are as they were"
    assert found[0].passes > plain[0].passes


@pytest.mark.slow
def test_lines_depend_on_their_own_phrases_alone(student: Translator, found: list[gm.Translation]):
    options = TranslationOptions(n_best=3)
    assert [t.pieces for t in student.stream(LINES, options, batch_size=2, phrases=iter(PHRASES))] == [t.pieces for t in found]
    alone = student.translate(LINES[:1], phrases=PHRASES[:1], n_best=3)[0]
    assert alone.pieces == found[0].pieces and alone.score == pytest.approx(found[0].score, abs=1e-5)


def test_a_prefix_and_phrases_stand_beside_each_other(student: Translator, words: gm.Vocabulary):
    wanted = tuple(words.encode(["rot"])[0][:-1])
    for t in student.translate(["one two", "red cat"], prefix="rot", phrases=[["rot"], ["katze"]]):
        assert t.pieces[: len(wanted)] == wanted
    for word in ("rennt", "katze", "eins"):
        start = words.encode([word])[0][:-1]
        t = student.translate(["one two"], prefix=word, phrases=[["rot"]])[0]
        assert list(t.pieces[: len(start)]) == start and "rot" in t.text
    first = student.translate(["one two"], prefix="rot", phrases=[["rot"]])[0]
    assert first.text.count("rot") >= 2, "the prefix is no place for a phrase"


def test_a_phrase_of_the_draft_is_kept_where_it_stands(words: gm.Vocabulary, student: Translator):
    pieces = tuple(words.encode(["eins rot hund"])[0])
    phrase = tuple(words.encode(["rot"])[0][:-1])
    placed = with_phrases([Draft.of(pieces, 0)], (phrase,), student._log_hidden(np.zeros((1, 1), np.int32)), 8, words.end, 1)[0]
    assert placed.tokens == pieces
    assert tuple(t for t, owner in zip(placed.tokens, placed.owners, strict=True) if owner == 0) == phrase


@pytest.mark.usefixtures("float64")
def test_hidden_cells_have_the_conditionals_of_the_network(student: Translator, words: gm.Vocabulary):
    """Beside tables of `log_conditional` over rows of full length, for blocks of one and of two cells."""
    rng, (wide, cells), size = np.random.default_rng(0), student.pair.cells, student.pair.size
    codes, source = (rng.integers(0, size, shape).astype(np.int32) for shape in ((3, cells), (1, wide)))
    blocks, hidden = [(0,), (2, 3), (cells - 2, cells - 1)], np.zeros((3, cells), bool)
    for row, block in zip(hidden, blocks, strict=True):
        row[list(block)] = True
    found = network_queries.log_hidden(student.model.lowered, student.params, codes, hidden, (source,))
    given = {student.pair.source: source[0]}
    for k, block in enumerate(blocks):
        table = np.asarray(student.model.log_conditional(student.params, {student.pair.target: codes[k]}, block, given=given))
        assert found[k] == pytest.approx(table.reshape(table.shape[-len(block) :])[tuple(codes[k, list(block)])], abs=1e-9)


def test_a_phrase_stands_where_it_is_likeliest(student: Translator, words: gm.Vocabulary):
    """Every span of three sizes, and between two tokens, scored one by one."""
    cells = student.pair.cells[1]
    source = words.rows(words.encode(["one two"]), student.pair.cells[0])
    pieces, phrase = tuple(words.encode(["eins hund"])[0]), tuple(words.encode(["rot"])[0][:-1])
    body, k = len(pieces) - 1, len(phrase)
    scores = {}
    for size in sorted({0, k - 1, k, k + 1}):
        for start in range(body - size + 1):
            row = (*pieces[:start], *phrase, *pieces[start + size :])
            if len(row) <= cells:
                hidden = np.zeros((1, cells), bool)
                hidden[0, start : start + k] = True
                codes = words.rows([list(row)], cells)
                scores[row] = max(
                    scores.get(row, -np.inf), network_queries.log_hidden(student.model.lowered, student.params, codes, hidden, (source,))[0]
                )
    placed = with_phrases([Draft.of(pieces, 0)], (phrase,), student._log_hidden(source), cells, words.end, 1)[0]
    assert len(scores) > 3 and placed.tokens in scores
    assert scores[placed.tokens] == pytest.approx(max(scores.values()), abs=1e-5)


def test_no_phrase_takes_the_place_of_another():
    draft = Draft((5, 6, 7, 1), (-1, -1, -1, -1)).with_phrase(slice(1, 2), (8, 9), 0)
    assert draft.tokens == (5, 8, 9, 7, 1) and draft.owners == (-1, 0, 0, -1, -1)
    assert list(draft.spans([0], end=1)) == [slice(0, 0), slice(1, 1), slice(3, 3), slice(4, 4)], "not within the phrase"
    assert list(draft.spans([1], end=1)) == [slice(0, 1), slice(3, 4)], "the end mark stays"
    assert list(draft.spans([2], end=1)) == []


@pytest.mark.produces("E583", "E584")
def test_phrases_that_cannot_be(student: Translator, words: gm.Vocabulary):
    model = gm.parse(PROGRAM).model("teacher")
    teacher = Translator(model, model.init_params(4), words)
    refused("E583", lambda: student.translate(["dog"], phrases=[["rot " * 9]]), "line 1", "no room")
    refused("E584", lambda: student.translate(["dog"], phrases=[]), "1 lines and 0 phrases")
    refused("E584", lambda: student.translate(["dog"], phrases=[["rot"]], lengths=[3]), "a length")
    refused("E584", lambda: student.translate(["dog"], phrases=[["rot"]], drop_repeats=True), "drop_repeats")
    refused("E584", lambda: teacher.translate(["dog"], phrases=[["rot"]]), "places no phrase", "prefix")
    refused("E584", lambda: list(student.stream(["dog", "cat"], phrases=[["rot"]])), "phrases end after 1 line")
    refused("E584", lambda: list(student.stream(["dog"], phrases=[["rot"], []])), "more phrases than")
    for wrong in ("rot", [3], [""], None, [["rot"]]):
        refused("E507", lambda wrong=wrong: student.translate(["dog"], phrases=[wrong]), "list of texts")
    refused("E507", lambda: student.translate(["dog"], phrases=[["語"]]), "letters of the phrase")
