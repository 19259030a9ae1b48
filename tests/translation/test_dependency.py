"""Attention of equal pieces over the lines of a text, against sums line by line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from translation_cases import PROGRAM, toy_vocabulary

import gmlmdsl as gm
from gmlmdsl.translation import Translator, dependency

LINES = ["one two", "", "dog runs", "one " * 20, "red", "cat two", "two red"]
FITTING = [line for line in LINES if 0 < len(line) < 20]


@pytest.fixture(scope="module")
def words() -> gm.Vocabulary:
    return toy_vocabulary()


def translator(words: gm.Vocabulary, name: str, seed: int, changed: tuple[str, str] = ("", "")) -> Translator:
    model = gm.parse(PROGRAM.replace(*changed)).model(name)
    return Translator(model, model.init_params(seed), words)


def by_line(t: Translator, row: int) -> list[tuple[bool, bool, float, float]]:
    """Of each pair i < j of one line: whether it is adjacent, and equal; mean attention of i to j; mean distance of what both attend to."""
    source = t.vocabulary.rows(t.vocabulary.encode([FITTING[row]]), 8)
    refines = not t.is_autoregressive()
    made = t.decode(source, rows=np.array([row]), trace=refines)
    before, after = (made.tokens[0],) * 2 if made.trace is None else (made.trace[0, -2], made.trace[0, -1])
    found = t.model.attention(t.params, {"tgt": before[None]}, given={"src": source}, missing=-1)
    own, across, n = found["self"][0, -1], found["cross"][0, -1], int((after >= 0).sum())
    out = []
    for i in range(n):
        for j in range(i + 1, n):
            apart = np.abs(across[:, i] - across[:, j]).sum(axis=-1) / 2
            out.append((j == i + 1, after[i] == after[j], float(own[:, i, j].mean()), float(apart.mean())))
    return out


@pytest.mark.parametrize(("name", "seed"), [("translate", 3), pytest.param("teacher", 4, marks=pytest.mark.slow)])
def test_means_are_of_all_pairs_of_all_lines(words: gm.Vocabulary, name: str, seed: int):
    t = translator(words, name, seed)
    found = dependency(t, LINES, replications=20)
    assert found is not None and (found.measured, found.left_out) == (5, 2)
    pairs = [p for k in range(5) for p in by_line(t, k)]
    for apart, later, equal in (("adjacent", "next", "stutter"), ("distant", "later", "repeat")):
        table = found.tables[apart]
        for kind in (equal, "other"):
            some = [p for p in pairs if p[0] == (apart == "adjacent") and p[1] == (kind == equal)]
            for quantity, at in ((f"self-attention to {later}", 2), ("cross-attention total variation", 3)):
                row = table.loc[quantity, "mean", kind]
                assert row["count"] == len(some)
                assert row["mean"] == pytest.approx(np.mean([p[at] for p in some]) if some else np.nan, rel=1e-4, nan_ok=True)
    if name == "teacher":  # which sees nothing behind
        assert (found.tables["adjacent"].loc["self-attention to next", "max"]["mean"].dropna() == 0).all()
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert len(plain["distant"]) == len(found.tables["distant"]) and "adjacent pairs of pieces" in str(found)


def test_what_cannot_be_measured(words: gm.Vocabulary):
    t = translator(words, "translate", 3, ("steps = 2", "steps = 1"))
    assert dependency(t, LINES) is None  # one pass sees its start
    assert dependency(t, ["", "one " * 20]) is None
