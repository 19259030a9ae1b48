"""Attention of equal pieces over the lines of a text, against sums line by line."""

from __future__ import annotations

import json
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from translation_cases import PROGRAM, toy_vocabulary

import gmlmdsl as gm
from gmlmdsl.translation import Translator, _dependency, dependency
from gmlmdsl.translation._translator import Decoded

LINES = ["one two", "", "dog runs", "one " * 20, "red", "cat two", "two red"]
FITTING = [line for line in LINES if 0 < len(line) < 20]


@pytest.fixture(scope="module")
def words() -> gm.Vocabulary:
    return toy_vocabulary()


def translator(words: gm.Vocabulary, name: str, seed: int, changed: tuple[str, str] = ("", "")) -> Translator:
    model = gm.parse(PROGRAM.replace(*changed)).model(name)
    return Translator(model, model.init_params(seed), words)


def last_sight(t: Translator, source: np.ndarray, trace: np.ndarray, n: int) -> np.ndarray:
    """What the last of two passes sees, by hand: the first pass again, and hidden what the schedule predicts anew."""
    if "mask_predict" not in t.model.program.checked.sources[0].text:
        return trace[0]
    net, code = t.network, t.pair.size
    seen = np.full(8, code)
    encoded = net.encode((jnp.asarray(source[0]),), (jnp.asarray((source[0] >= 0).sum()),))
    logits = np.asarray(net.logits(encoded, net.prepare(encoded, jnp.asarray(n), 8), jnp.asarray(seen), jnp.asarray(n)), float)[:n]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    sure = (p / p.sum(axis=1, keepdims=True)).max(axis=1)
    assert logits.argmax(axis=1).tolist() == trace[0, :n].tolist()
    least = np.argsort(sure, kind="stable")[: n // 2]  # half are predicted again
    return np.where(np.isin(np.arange(8), least), code, trace[0])


def of_network(t: Translator, source: np.ndarray, seen: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The last layer's attention to the row itself and to the source, by the network alone."""
    net, m = t.network, int((source[0] >= 0).sum())
    encoded = net.encode((jnp.asarray(source[0]),), (jnp.asarray(m),))
    found = net.attention(encoded, net.prepare(encoded, jnp.asarray(n), 8), jnp.asarray(seen), jnp.asarray(n))
    return np.asarray(found.self_weights)[-1], np.asarray(found.cross_weights)[-1]


def by_line(t: Translator, row: int) -> list[tuple[bool, bool, float, float]]:
    """Of each pair i < j of one line: whether it is adjacent, and equal; mean attention of i to j; mean distance of what both attend to."""
    source = t.vocabulary.rows(t.vocabulary.encode([FITTING[row]]), 8)
    refines = not t.is_autoregressive()
    made = t.decode(source, rows=np.array([row]), trace=refines)
    after, n = made.tokens[0], int((made.tokens[0] >= 0).sum())
    before = last_sight(t, source, made.trace[0], n) if refines else after
    own, across = of_network(t, source, before, n)
    out = []
    for i in range(n):
        for j in range(i + 1, n):
            apart = np.abs(across[:, i] - across[:, j]).sum(axis=-1) / 2
            out.append((j == i + 1, after[i] == after[j], float(own[:, i, j].mean()), float(apart.mean())))
    return out


CASES = [
    pytest.param("translate", 3, ("", ""), marks=pytest.mark.slow),
    ("translate", 3, ("refinement(start = hide, steps = 2", "mask_predict(steps = 2")),
    pytest.param("teacher", 4, ("", ""), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "seed", "changed"), CASES)
@pytest.mark.slow
def test_means_are_of_all_pairs_of_all_lines(words: gm.Vocabulary, name: str, seed: int, changed: tuple[str, str], monkeypatch):
    """Of a refinement by what its last pass saw: cells that are predicted again are hidden, and nothing is left out for them."""
    monkeypatch.setattr(_dependency, "ended", lambda tokens, end: np.ones(len(tokens), bool))  # the teacher has learnt nothing
    monkeypatch.setattr(_dependency, "loops", lambda text: False)
    t = translator(words, name, seed, changed)
    found = dependency(t, LINES, replications=20)
    assert found is not None and (found.measured, found.left_out) == (5, 2)
    pairs = [p for k in range(5) for p in by_line(t, k)]
    for apart, later, equal in (("adjacent", "next", "stutter"), ("distant", "later", "repeat")):
        table = found.tables[apart]
        for kind in (equal, "other"):
            if name == "teacher":  # which sees nothing behind
                assert not any(later in quantity for quantity, *_ in table.index)
            some = [p for p in pairs if p[0] == (apart == "adjacent") and p[1] == (kind == equal)]
            quantities = [(f"self-attention to {later}", 2), ("cross-attention total variation", 3)]
            for quantity, at in quantities[name == "teacher" :]:
                row = table.loc[quantity, "mean", kind]
                assert row["count"] == len(some)
                assert row["mean"] == pytest.approx(np.mean([p[at] for p in some]) if some else np.nan, rel=1e-4, nan_ok=True)
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert len(plain["distant"]) == len(found.tables["distant"]) and "adjacent pairs of pieces" in str(found)


@pytest.mark.slow
def test_a_search_that_does_not_end_or_loops_is_left_out(words: gm.Vocabulary, monkeypatch: pytest.MonkeyPatch):
    """One row of 80 equal pieces holds more pairs than all the others together."""
    texts = {"one two": "eins rot", "dog runs": "rot rot rot", "red": "rot", "cat two": "katze", "two red": "eins eins"}
    t = translator(words, "teacher", 4)

    def decode(source: np.ndarray, **_: Any) -> Decoded:
        rows = words.rows([words.encode([texts[line]])[0] for line in words.decode(source)], 8)
        rows[3] = words.encode(["eins"])[0][0]  # without an end mark
        return Decoded(rows, np.zeros(5), (rows >= 0).sum(axis=1), np.ones(5, int))

    monkeypatch.setattr(t, "decode", decode)
    found = dependency(t, LINES, replications=5)
    assert found is not None
    assert (found.measured, found.left_out, found.unended, found.looping) == (3, 2, 1, 1)
    assert "2 too long or empty, 1 that do not end, 1 that loop" in str(found) and found.as_dict()["looping"] == 1


def test_what_cannot_be_measured(words: gm.Vocabulary):
    t = translator(words, "translate", 3, ("steps = 2", "steps = 1"))
    assert dependency(t, LINES) is None  # one pass sees its start
    assert dependency(t, ["", "one " * 20]) is None
