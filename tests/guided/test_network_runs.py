"""Guided samplers over a causal network, run by run: the compiled loop with its cache beside loops of NumPy that know no state."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator

import jax
import numpy as np
import pytest
from guided_networks import PROGRAM, Prefix, good, one_pass, params, seen
from thinned import thinned

import gmlmdsl as gm

PROMPTS: list[list[int]] = [[1], [], [1, 0]]
DRAWS = 40
SAMPLERS = ("often", "tok", "back", "cut", "rej", "tries", "erase", "bare", "ends", "walk", "leaf", "best", "block")
pytestmark = pytest.mark.usefixtures("float64")


class Loops:
    """The network's law of every prefix anew: a `gm.Oracle` whose state is the prefixes themselves."""

    def start(self, prompts: np.ndarray) -> list[Prefix]:
        return [tuple(row[row >= 0].tolist()) for row in prompts]

    def next_log_probs(self, state: list[Prefix]) -> np.ndarray:
        return np.log([one_pass(prefix[:3])[0] for prefix in state])  # of no meaning where a row is full

    def push(self, state: list[Prefix], symbols: np.ndarray) -> list[Prefix]:
        return [(*prefix, a)[:4] if a >= 0 else prefix for prefix, a in zip(state, symbols.tolist(), strict=True)]

    def pop(self, state: list[Prefix], n: np.ndarray) -> list[Prefix]:
        return [prefix[: len(prefix) - k] for prefix, k in zip(state, n.tolist(), strict=True)]


@pytest.fixture
def by_loops() -> Iterator[gm.Model]:
    """The program with probes that are functions of prefixes, over the same loops."""

    def rows(judge: Callable[[Prefix], float]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        return lambda prefixes, lengths: np.array([judge(tuple(p[:n].tolist())) for p, n in zip(prefixes, lengths, strict=True)])

    module = types.ModuleType("judged_by_loops")
    module.seen, module.good = rows(seen), rows(good)  # type: ignore[attr-defined]
    sys.modules["judged_by_loops"] = module
    text = PROGRAM.replace("probe(lm, threshold = 0.5)", 'python("judged_by_loops:seen")').replace(
        "probe(lm)", 'python("judged_by_loops:good")'
    )
    yield gm.parse(text, allow_python=True).model("words")
    del sys.modules["judged_by_loops"]


@pytest.mark.parametrize("sampler", thinned(SAMPLERS, 13, 1))
@pytest.mark.slow
def test_every_run_is_that_over_loops(by_loops: gm.Model, sampler: str) -> None:
    """What a row draws follows from its key alone: the same strings, calls, judgements and backtracks, row by row."""
    with jax.enable_x64(True):
        model = gm.parse(PROGRAM).model("words")
    options = {"prompt": PROMPTS, "draws": DRAWS, "seed": 4, "progress": False}
    found = model.sample(params(), sampler, **options)
    wanted = by_loops.sample({"lm": params()["lm"]}, sampler, oracle=Loops(), **options)
    assert found["posterior"]["x"].values.tolist() == wanted["posterior"]["x"].values.tolist()
    for name in ("oracle_calls", "verifier_calls", "failed", "valid", "length", "backtracks"):
        assert found["guided_stats"][name].values.tolist() == wanted["guided_stats"][name].values.tolist(), name
    assert len({tuple(s) for s in found["posterior"]["x"].values.reshape(-1, 4).tolist()}) > 3
