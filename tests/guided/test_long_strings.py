"""Guided samplers of long strings: values that no number of single precision holds, prefixes that are too dear to remember."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import gmlmdsl as gm
from gmlmdsl.explain import explain

FAR = """
input n : int
index t = range(n)
model words { var x[i in t] : bit  x[i] ~ categorical([0.5, 0.5]) for i in t }
model few   { var x[i in t] : bit  factor -6 * x[i] for i in t }
value truth = expected(few)
sampler draw for words = autoregressive(decode = sample)
sampler tok  for words = tokenwise_rejection(truth)
sampler best for words = best_of(truth, n = 8)
sampler blk  for words = block_best_of(truth, n = 4, block = 10)
sampler walk for words = value_guided(truth, steps = 40)
""".replace("value truth =", "value truth for words =")


@pytest.fixture(scope="module")
def far() -> gm.Model:
    """Fair bits, 200 of them; V of a string is e^-6 for each 1, so that of a prefix it is about e^-140 and less."""
    return gm.parse(FAR, n=200).model("words")


@pytest.mark.slow
def test_values_below_what_single_precision_holds_still_choose(far: gm.Model):
    """Symbols by V are draws from p tilted; the best of n has as few ones as the least of n has."""
    ones, failed = {}, {}
    for sampler in ("tok", "best", "blk"):
        found = far.sample({}, sampler, draws=60, seed=1)
        ones[sampler] = found["posterior"]["x"].values[0].sum(axis=1).astype(float)
        failed[sampler] = found["guided_stats"]["failed"].values.mean()
        assert found["guided_stats"]["valid"].values.all()
    assert set(failed.values()) == {0.0}
    p = np.exp(-6) / (1 + np.exp(-6))
    assert abs(ones["tok"].mean() - 200 * p) < 4.5 * np.sqrt(200 * p * (1 - p) / 60)
    for sampler, blocks, draws in (("best", 1, 8), ("blk", 20, 4)):
        mean, variance = least_of(200 // blocks, draws)
        assert abs(ones[sampler].mean() - blocks * mean) < 4.5 * np.sqrt(blocks * variance / 60)


def least_of(n: int, draws: int) -> tuple[float, float]:
    """Mean and variance of the least number of ones in so many draws of n fair bits."""
    above = binom.sf(np.arange(-1, n + 1), n, 0.5) ** draws  # P(the least of them is at least k)
    p, k = -np.diff(above), np.arange(n + 1)
    return float(p @ k), float(p @ k**2 - (p @ k) ** 2)


@pytest.mark.slow
def test_a_walk_goes_where_values_are_below_what_any_number_holds(far: gm.Model):
    """Behind a prompt of 198 ones V is e^-1188; the law of the two last symbols is that of the two alone."""
    law = gm.theory.output_law(far, {}, "walk", prompt=[1] * 198)
    short = gm.theory.output_law(gm.parse(FAR, n=2).model("words"), {}, "walk")
    assert law.fail == pytest.approx(short.fail, abs=1e-10)
    assert [law.probability([1] * 198 + s.tolist()) for s in short.strings] == pytest.approx(short.probabilities.tolist(), abs=1e-10)
    drawn = far.sample({}, "walk", prompt=[[1] * 198], draws=400, seed=3)["guided_stats"]["failed"].values.mean()
    assert abs(drawn - law.fail) < 4.5 * np.sqrt(law.fail * (1 - law.fail) / 400)


LAGGED = """
input move[2, 2] : simplex = [[0.9, 0.1], [0.3, 0.7]]
index t = range(64)
model words {
  var x[i in t] : bit
  x[i] ~ categorical([0.5, 0.5]) for i in t if i < 32
  x[i] ~ categorical(move[x[i - 32]]) for i in t if i >= 32
}
model ends { var x[i in t] : bit  require x[63] == 1 }
verifier can  for words = completable(ends)
value truth   for words = expected(ends)
sampler draw for words = autoregressive(decode = sample)
sampler back for words = backtracking(can, quota = 2, stride = 2)
sampler best for words = best_of(truth, n = 2)
"""


@pytest.mark.slow  # dear to compile; the walk above goes behind a long prompt too
def test_symbols_that_depend_on_those_far_before_are_summed_at_each_step():
    """2^32 joint values of a prefix would have to be remembered; in some other order all cells are summed out at once."""
    model = gm.parse(LAGGED).model("words")
    told = explain(model.program.checked, model.program.bound, sampler="back", plans=True)
    assert "all that is behind a prefix summed out at each symbol" in " ".join(told.split())
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, 2, 62).tolist()
    law = gm.theory.output_law(model, {}, "draw", prompt=prompt)
    move = np.array([[0.9, 0.1], [0.3, 0.7]])
    for a, b in np.ndindex(2, 2):
        assert law.probability([*prompt, a, b]) == pytest.approx(move[prompt[30], a] * move[prompt[31], b], abs=1e-12)
    x: Any = model.sample({}, "back", prompt=[[], prompt], draws=50, seed=4)["posterior"]["x"].values[0]
    assert (x[:, 1, :62] == prompt).all()
    before, after = x[:, 0, :31].ravel(), x[:, 0, 32:63].ravel()
    for a in (0, 1):
        n = (before == a).sum()
        assert abs(after[before == a].mean() - move[a, 1]) < 4.5 * 0.5 / np.sqrt(n) + 0.03  # backtracking makes some likeliest ones
    with pytest.raises(gm.GmlmError, match=r"value `truth` remembers 4.29e\+09 known") as caught:
        model.sample({}, "best", draws=1)
    assert caught.value.codes == ("E601",)


def test_of_as_many_symbols_as_there_are_all_are_kept():
    """`top_k` above the number of values is no error: it keeps all of them, and its description says so."""
    model = gm.parse(FAR.replace("decode = sample", "decode = sample, top_k = 9"), n=3).model("words")
    assert gm.theory.output_law(model, {}, "draw").probabilities.tolist() == pytest.approx([1 / 8] * 8)
    from gmlmdsl.program import AUTOREGRESSIVE

    assert "all if there are fewer" in next(o.doc for o in AUTOREGRESSIVE.options if o.name == "top_k")
