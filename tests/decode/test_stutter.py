"""What repeats the token before, rows without it, and how often words do."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl.decode._stutter import drop_repeats, stutter_counts, stutter_rate, stutters

# Pieces of a vocabulary: which ids begin a word.
PIECES = ["_die", "_Frau", "en", "_ba", "ba", "_had", "."]
STARTS = np.array([p.startswith("_") for p in PIECES])
DIE, FRAU, EN, BA, BA_INSIDE, HAD, DOT = range(7)


def test_the_second_and_later_tokens_of_a_run_stutter():
    tokens = [[4, 4, 4, 2, 2, 4], [1, 2, 1, 2, 1, 2]]
    assert stutters(tokens, [6, 6]).tolist() == [[False, True, True, False, True, False], [False] * 6]


def test_the_first_token_is_not_compared_with_the_last():
    """The published mask shifts in a circle, and so marks position 0 of a row that ends as it begins."""
    tokens = np.array([[7, 3, 5, 7]])
    circular = tokens == np.roll(tokens, 1, axis=1)
    assert circular[0, 0]
    assert not stutters(tokens, [4]).any()
    assert not stutters([[7], [7]], [1, 1]).any()


def test_padding_does_not_stutter():
    assert stutters([[0, 3, 3, 3, 3]], [3]).tolist() == [[False, False, True, False, False]]
    assert not stutters([[0, 0, 0]], [1]).any() and not stutters([[0, 0, 0]], [0]).any()
    assert stutters([3, 3, 3], 2).tolist() == [False, True, False]


def test_without_words_every_repeated_token_goes():
    assert drop_repeats([DIE, DIE, DIE, FRAU, EN, EN, DIE], 7).tolist() == [DIE, FRAU, EN, DIE]
    assert drop_repeats([DIE, FRAU, DIE], 3).tolist() == [DIE, FRAU, DIE]  # first and last are no neighbours
    assert drop_repeats([DIE, DIE, FRAU, FRAU], 3).tolist() == [DIE, FRAU]
    assert drop_repeats([DIE, DIE], 0).tolist() == []


def test_pieces_inside_a_word_are_never_dropped():
    """`baba` is one word of the pieces `_ba` and `ba`; a run of a piece that continues a word belongs to it."""
    row = [BA, BA_INSIDE, BA_INSIDE, DOT]
    assert drop_repeats(row, 4, STARTS).tolist() == row
    assert drop_repeats(row, 4).tolist() == [BA, BA_INSIDE, DOT]


def test_whole_words_are_dropped():
    assert drop_repeats([DIE, FRAU, EN, FRAU, EN, FRAU, EN, HAD], 8, STARTS).tolist() == [DIE, FRAU, EN, HAD]
    assert drop_repeats([FRAU, FRAU, EN], 3, STARTS).tolist() == [FRAU, FRAU, EN]  # `Frau Frauen`: two words
    assert drop_repeats([FRAU, EN, FRAU], 3, STARTS).tolist() == [FRAU, EN, FRAU]
    assert drop_repeats([EN, EN, DIE, DIE], 4, STARTS).tolist() == [EN, EN, DIE]  # a row may begin inside a word
    assert drop_repeats([DIE, DIE, DIE], 2, STARTS).tolist() == [DIE]


@pytest.mark.parametrize("seed", range(20))
def test_dropping_leaves_nothing_to_drop_and_keeps_the_order(seed: int):
    rng = np.random.default_rng(seed)
    row, starts = rng.integers(0, 3, 12), np.array([True, seed % 2 == 0, True])
    kept = drop_repeats(row, 12, starts)
    assert np.array_equal(drop_repeats(kept, len(kept), starts), kept)
    plain = drop_repeats(row, 12)
    assert np.array_equal(plain, row[~stutters(row, 12)])
    left = iter(row.tolist())
    assert all(t in left for t in kept.tolist())


def test_words_that_repeat_are_counted_unless_the_reference_doubles_them():
    out = ["the the cat sat", "die die Frau Frau", "had had had it", "a b a"]
    ref = ["the cat sat", "die die Frau", "had had it", "a b a"]
    assert stutter_counts(out, ref).tolist() == [1, 1, 1, 0]
    assert stutter_rate(out, ref) == pytest.approx(1000 * 3 / 15)
    assert stutter_counts([["x", "x"]], [["y", "x", "x", "x", "z"]]).tolist() == [0]
    assert stutter_counts(["x x"], ["y y"]).tolist() == [1]  # another word that is doubled excuses nothing
    assert stutter_counts(["a a b", "a b"], ["a b", "a a b"]).tolist() == [1, 0]  # nor does another sentence
    assert stutter_rate([["x", "y", "x"]], [""]) == 0  # last and first are no neighbours
    assert math.isnan(stutter_rate([""], ["a"]))


def test_what_does_not_fit_is_refused():
    for call, code in (
        (lambda: stutters([[1, 2]], [1, 2]), "E501"),
        (lambda: drop_repeats([[1, 2]], 1), "E501"),
        (lambda: drop_repeats([1, 2], 3), "E501"),
        (lambda: drop_repeats([1, 7], 2, STARTS), "E502"),
        (lambda: drop_repeats([1, -1], 2, STARTS), "E502"),
        (lambda: stutter_rate(["a"], []), "E501"),
    ):
        with pytest.raises(gm.GmlmError) as caught:
            call()
        assert caught.value.codes == (code,)
