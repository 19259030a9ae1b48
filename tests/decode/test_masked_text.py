"""The masked language model of characters: its text, the counts it is compared with, and a tiny run."""

import json
import math

import numpy as np
import pytest
from test_examples import load_script


@pytest.fixture(scope="module")
def text():
    return load_script("masked_text")


def test_no_paragraph_is_in_both_texts(text):
    training, held_out = text.texts()
    assert set(training) | set(held_out) <= set(text.CHARS) and "  " not in training
    assert len(training) > 5 * len(held_out) > 50_000
    pieces = [held_out[k : k + 80] for k in range(0, len(held_out) - 80, 400)]
    assert sum(piece in training for piece in pieces) < 0.1 * len(pieces)


def test_text_is_made_plain(text):
    assert text.plain("  If *x* is\n\nTrue: `f(x)`, don't!") == "if x is true f(x) , don't"


def test_windows_are_cut_in_order(text):
    rows = text.windows("abcdefg", 4, 2)
    assert [text.spelt(row) for row in rows] == ["abcd", "cdef"]


def test_the_chains_score_is_that_of_its_joint_law(text):
    counts = text.Counts.of("the cat sat on the mat, and the cat ate. " * 3)
    q, rows = len(text.CHARS), text.windows("the cat ate", 3, 1)
    total = 0.0
    for row in rows:
        for i in range(3):
            joint = np.empty(q)
            for c in range(q):
                x = [*row[:i], c, *row[i + 1 :]]
                joint[c] = counts.before[x[0]] * counts.follows[x[0], x[1]] * counts.follows[x[1], x[2]]
            total -= math.log(joint[row[i]] / joint.sum())
    assert counts.score(rows, three=False) == pytest.approx(total / rows.size)


def test_counts_of_both_neighbours_by_hand(text):
    counts = text.Counts.of("abcabcadc", weight=1.0)
    a, b, c = (text.CHARS.index(letter) for letter in "abc")
    chain = counts.follows[a] * counts.follows[:, c]
    chain = chain / chain.sum()
    # between a and c: b twice, d once
    assert counts.both[a, c, b] == pytest.approx((2 + chain[b]) / 4)
    assert counts.both.sum(axis=2) == pytest.approx(1)


def test_words_cut_off_by_an_end_do_not_count(text):
    rows = np.array([[text.CHARS.index(c) for c in "tem the xyzzy of i"]])
    assert text.words_known(rows, "the item of") == pytest.approx(2 / 3)
    assert text.words_known(rows[:, :3], "the") == 0


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
def test_a_tiny_network_learns_the_frequencies_of_letters(text, capsys):
    found = text.main(steps=80, batch=32, n=8, width=16, layers=1, scored=40, drawn=2)
    training, _ = text.texts()
    share = np.bincount(text.windows(training, 1, 1)[:, 0], minlength=len(text.CHARS)) / len(training)
    entropy = -(share[share > 0] * np.log(share[share > 0])).sum()
    assert found["network"] < 1.15 * entropy < math.log(len(text.CHARS))
    assert found["counts of both neighbours"] < found["bigram chain"] < entropy
    assert all(0 <= found[sampler] <= 1 for sampler in text.SAMPLERS), json.dumps(found)
    assert capsys.readouterr().out.count("\n    |") == 2 * 3  # two draws of each sampler
