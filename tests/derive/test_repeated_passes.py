"""Passes over tokens that the pass before left as they are: they are counted, and not computed."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from networks_cases import Spread, made

N, Q, STEPS = 5, 3, 9
MORE = f"""
mask m = everything(x)
sampler plain = refinement(steps = {STEPS})
sampler shown = refinement(steps = {STEPS}, start = uniform)
sampler fixed = refinement(steps = {STEPS}, start = uniform, stop = fixed_point)
sampler stutter = refinement(steps = {STEPS}, schedule = all, remask = stutter)
sampler linear = refinement(steps = {STEPS}, schedule = linear)
sampler drawn = refinement(steps = {STEPS}, decode = sample)
sampler again = refinement(steps = {STEPS}, remask = random, eta = 0.5)
sampler planned = refinement(steps = {STEPS}, planner = self)
"""


@pytest.fixture(scope="module")
def model() -> Any:
    return made('python("networks_cases:Spread")', N, Q, MORE)


def decoded(model: Any, sampler: str, draft: list[int] | None = None, trace: bool = False) -> tuple[Any, int]:
    """The decode, and how many passes were computed."""
    Spread.calls.clear()
    found = model.decode(model.init_params(), sampler, init=None if draft is None else np.array(draft), trace=trace)
    jax.effects_barrier()
    return found, len(Spread.calls)


@pytest.mark.parametrize(("draft", "computed"), [([2, 0, 0, 0, 0], 5), ([0, 1, 0, 2, 0], 2), ([1, 1, 1, 1, 1], 1), ([2, 1, 1, 0, 0], 5)])
def test_passes_are_computed_until_one_changes_nothing(model: Any, draft: list[int], computed: int) -> None:
    found, calls = decoded(model, "shown", draft)
    assert calls == computed and found.passes.tolist() == [STEPS]
    other, stopped = decoded(model, "fixed", draft)  # the same rule, which counts the passes that it takes
    assert (stopped, other.passes.tolist()) == (computed, [computed])
    assert np.array_equal(found.tokens, other.tokens) and np.array_equal(found.score, other.score)
    assert found.tokens[0].tolist() == np.maximum.accumulate(draft).tolist()


def test_each_pass_is_recorded_whether_it_was_computed_or_not(model: Any) -> None:
    found, calls = decoded(model, "shown", [2, 0, 0, 0, 0], trace=True)
    assert calls == 5 and found.trace.shape == (STEPS, N)
    assert [row.tolist().count(2) for row in found.trace] == [2, 3, 4, 5, 5, 5, 5, 5, 5]
    assert found.seen[0].tolist() == [2] * N


def test_hidden_cells_are_no_tokens_that_stay(model: Any) -> None:
    found, calls = decoded(model, "plain")  # zeros after the first pass, which saw nothing
    assert calls == 2 and found.tokens[0].tolist() == [0] * N


def test_a_pass_that_opened_cells_again_is_followed_by_another(model: Any) -> None:
    assert decoded(model, "stutter", [2, 0, 0, 0, 0])[1] == STEPS  # equal neighbours are hidden at every pass


@pytest.mark.parametrize("sampler", ["linear", "drawn", "again", "planned"])
def test_decoders_whose_passes_differ_take_them_all(model: Any, sampler: str) -> None:
    assert decoded(model, sampler)[1] >= STEPS
