"""What a row does turn by turn: which of equal candidates is kept, and what a walk's oracle holds when it is asked."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm

PROGRAM = """
index t = range(4)
model words { var x[i in t] : range(3)  x[i] ~ categorical([0.5, 0.3, 0.2]) for i in t }
model any   { var x[i in t] : range(3)  require x[0] >= 0 }
value one  for words = expected(any)
value mine for words = python("walked_prefixes:value")
sampler plain for words = autoregressive(decode = sample)
sampler best  for words = best_of(one, n = 3)
sampler block for words = block_best_of(one, n = 3, block = 4)
sampler walk  for words = value_guided(mine, steps = 200)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sampler", thinned(["best", "block"], 2, 1))
def test_of_equal_candidates_the_first_is_kept(sampler: str) -> None:
    """Its symbols are those that are drawn without any candidates: the same turns of the same rows."""
    model = gm.parse(PROGRAM).model("words")
    first, found = (model.sample({}, s, draws=40, seed=8)["posterior"]["x"].values for s in ("plain", sampler))
    np.testing.assert_array_equal(found, first)


class Strings:
    """An oracle of the user's whose state is each row's string, and what it was when it was asked last."""

    asked: list[list[int]] | None = None

    def start(self, prompts: Any) -> list[list[int]]:
        return [[int(s) for s in row if s >= 0] for row in prompts]

    def next_log_probs(self, state: list[list[int]]) -> Any:
        self.asked = [list(row) for row in state]
        return np.log(np.tile([0.5, 0.3, 0.2], (len(state), 1)))

    def push(self, state: list[list[int]], symbols: Any) -> list[list[int]]:
        return [[*row, int(s)] if s >= 0 else row for row, s in zip(state, symbols, strict=True)]

    def pop(self, state: list[list[int]], n: Any) -> list[list[int]]:
        return [row[: max(len(row) - int(k), 0)] for row, k in zip(state, n, strict=True)]


@pytest.mark.slow
def test_the_oracle_of_a_walk_holds_the_prefix_that_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """However far the walk went back and down again since it was asked last; one row, so that nobody else's string is taken for its own."""
    oracle, seen = Strings(), []

    def value(prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        if oracle.asked is not None:
            seen.append((oracle.asked[0], {tuple(p[: n - 1].tolist()) for p, n in zip(prefixes, lengths, strict=True)}))
            oracle.asked = None
        return 0.5 ** (prefixes == 1).sum(axis=1)

    module = types.ModuleType("walked_prefixes")
    module.value = value  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "walked_prefixes", module)
    gm.parse(PROGRAM, allow_python=True).model("words").sample({}, "walk", draws=1, seed=8, oracle=oracle)
    assert len(seen) > 5  # the seed decides how many; some there must be
    assert all(wanted == {tuple(held)} for held, wanted in seen)
