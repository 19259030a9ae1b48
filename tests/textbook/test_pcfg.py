"""Programs of `gm.examples.pcfg`: every sentence beside the inside algorithm, and a grammar whose sentences are counted by hand."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm

GRAMMARS: dict[str, dict[str, list[tuple[float, str, list[str]]]]] = {
    "ambiguous": {"S": [(0.3, "a", ["S", "S"]), (0.3, "a", ["S"]), (0.3, "a", []), (0.1, "b", [])]},
    "brackets": {"S": [(0.5, "(", ["S", "C", "S"]), (0.5, "n", [])], "C": [(1.0, ")", [])]},
    "phrases": {
        "S": [(0.7, "they", ["V"]), (0.3, "we", ["V"])],
        "V": [(0.4, "see", ["O"]), (0.35, "see", ["O", "P"]), (0.25, "sleep", [])],
        "O": [(0.6, "them", []), (0.4, "them", ["P"])],
        "P": [(0.5, "near", ["O"]), (0.5, "with", ["O"])],
    },
}


def inside(rules: Any, words: tuple[str, ...]) -> float:
    """P(the start writes the words), by spans: a rule's word, then its nonterminals on consecutive spans."""

    @cache
    def span(name: str, i: int, j: int) -> float:
        return sum(p * several(tuple(to), i + 1, j) for p, word, to in rules[name] if i < j and words[i] == word)

    @cache
    def several(names: tuple[str, ...], i: int, j: int) -> float:
        if not names:
            return float(i == j)
        return sum(span(names[0], i, k) * several(names[1:], k, j) for k in range(i + 1, j + 1))

    return span(next(iter(rules)), 0, len(words))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("name", "n"), thinned([("ambiguous", 6), ("phrases", 5), ("brackets", 7), ("phrases", 3)], 4, 3))
def test_every_sentence_has_the_probability_of_the_inside_algorithm(name: str, n: int) -> None:
    rules = GRAMMARS[name]
    model = gm.parse(gm.examples.pcfg(rules, n)).model()
    words = list(dict.fromkeys(word for own in rules.values() for _, word, _ in own))
    strings = list(itertools.product(words, repeat=n))
    wanted = np.array([inside(rules, s) for s in strings])
    assert float(model.log_partition({})) == pytest.approx(math.log(wanted.sum()), abs=1e-12)
    codes = [[words.index(w) for w in s] for s in strings]
    found = np.exp(np.asarray(model.log_prob({}, [[words[k] for k in row] for row in codes])))
    np.testing.assert_allclose(found, wanted / wanted.sum(), atol=1e-12)
    begun = next(s for s, p in zip(strings, wanted, strict=True) if p > 0)[: n // 2]
    behind = [sum(p for s, p in zip(strings, wanted, strict=True) if s[: n // 2 + 1] == (*begun, w)) for w in words]
    shown = np.asarray(model.next_symbol({}, [list(begun)])).ravel()
    np.testing.assert_allclose(shown, np.array(behind) / sum(behind), atol=1e-12)


@pytest.mark.usefixtures("float64")
def test_derivations_are_added_up_and_a_depth_excludes_those_that_need_more() -> None:
    """Three words of S -> a S S | a S | a: by S S and two ends, or by S, S and an end."""
    rules = GRAMMARS["ambiguous"]
    both, one = 0.3 * 0.4**2 + 0.3**2 * 0.4, 0.3**2 * 0.4
    for depth, wanted in ((None, both), (2, both), (1, one)):
        model = gm.parse(gm.examples.pcfg(rules, 3, depth)).model()
        assert float(np.exp(model.log_partition({}))) == pytest.approx(wanted, rel=1e-12)
    uses = np.asarray(gm.parse(gm.examples.pcfg(rules, 3)).model().marginals({})["r"]).sum(axis=0)
    ends = 2 * 0.048 + 0.036  # three quarters of which are "a"
    np.testing.assert_allclose(uses, np.array([0.048, 2 * 0.036, 0.75 * ends, 0.25 * ends]) / both, rtol=1e-12)


@pytest.mark.parametrize(
    ("rules", "options", "code", "said"),
    [
        ({}, {}, "E507", "at least one nonterminal"),
        ({"S": []}, {}, "E507", "sum to 1"),
        ({"S": [(0.5, "a", [])]}, {}, "E507", "sum to 1"),
        ({"S": [(1.5, "a", []), (-0.5, "b", [])]}, {}, "E507", "above 0"),
        ({"S": [(1.0, "a", ["T"])]}, {}, "E507", "`T`, which has no rules"),
        ({"S": [(1.0, 'a"', [])]}, {}, "E507", "no quotes"),
        ({"S": [(1.0, "a", [])]}, {"length": 0}, "E507", "length"),
        ({"S": [(1.0, "a", [])]}, {"model": "a b"}, "E507", "a name"),
        ({a: [(0.5, a, ["A", "B"]), (0.25, a, ["B", "A"]), (0.25, a, [])] for a in "AB"}, {"length": 30}, "E601", "more than 8,192 stacks"),
    ],
)
def test_what_is_no_grammar_is_said(rules: Any, options: dict, code: str, said: str) -> None:
    with pytest.raises(gm.GmlmError, match=said) as caught:
        gm.examples.pcfg(rules, **{"length": 3, **options})
    assert caught.value.diagnostics[0].code == code
