"""Networks whose outputs overflow: every sampler and decoder refuses them by name and place, whether all do or those behind one value.

Weights of nan are refused before (E504); finite ones may be too large, and a network of the user's may divide by 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gmlmdsl as gm

TEXT = """
network net = mlp(layers = 1, width = 4)
index pos = range(3)
model m { var x[i in pos] : range(3)  conditional x ~ net() }
mask one = subsets(x, size = 1)
mask any = bernoulli(x, rate = 0.5)
sampler gibbs  { update x[K] where K ~ one }
sampler sweep  { update x[i] for i in pos }
sampler product { update x[K] independently where K ~ any }
sampler doubtful { update x[K] independently where K ~ least_confident(x, count = 1) }
sampler both { repeat 2 { update x[i] for i in pos  update x[K] where K ~ one } }
sampler refine = refinement(steps = 2)
sampler uniform = refinement(steps = 2, start = uniform, decode = sample, top_p = 0.9)
sampler margin = refinement(steps = 3, schedule = threshold, confidence = margin)
sampler masked = refinement(steps = 2, schedule = any)
sampler fixed = refinement(steps = 3, schedule = all, stop = fixed_point)
"""
CAUSAL = """
network lm = transformer(layers = 1, heads = 1, width = 4, causal = true)
model words { var x[i in range(4)] : range(3)  conditional x ~ lm() }
sampler greedy = autoregressive(end = 2)
sampler drawn  = autoregressive(end = 2, decode = sample, top_k = 2)
sampler beam   = autoregressive(end = 2, beam = 2)
"""
CHAINS = ("gibbs", "sweep", "product", "doubtful", "both")
DECODES = ("refine", "uniform", "margin", "masked", "fixed")


def spoilt(params: dict[str, Any]) -> dict[str, Any]:
    """All weights so large that products of two overflow."""
    return jax.tree.map(lambda a: jnp.clip(a * 3e38, -3e38, 3e38) if eqx.is_inexact_array(a) else a, params)


def refused(call: Callable[[], object], *parts: str) -> None:
    with pytest.raises(gm.GmlmError) as caught:
        call()
    assert caught.value.codes == ("E747",), str(caught.value)
    for part in parts:
        assert part in caught.value.diagnostics[0].message
    assert "learning rate" in caught.value.diagnostics[0].help


@pytest.fixture(scope="module")
def model() -> Any:
    return gm.parse(TEXT).model()


@pytest.fixture(scope="module")
def words() -> Any:
    return gm.parse(CAUSAL.replace("verifier fine for words = completable(even)\n", "")).model()


@pytest.mark.usefixtures("float32")  # whose range or rounding is what is tested
@pytest.mark.produces("E747")
@pytest.mark.parametrize("sampler", ["product", "refine", *(pytest.param(s, marks=pytest.mark.slow) for s in (*CHAINS, *DECODES))])
def test_nothing_is_drawn_from_nan(model: Any, sampler: str):
    params = spoilt(model.init_params())
    for keep in (True, False) if sampler in CHAINS else (True,):
        refused(
            lambda keep=keep: model.sample(params, sampler, draws=2, chains=2, warmup=1, keep_draws=keep, progress=False),
            "network `net` puts out",
            "at x[",
        )


@pytest.mark.parametrize("sampler", ["beam", *(pytest.param(s, marks=pytest.mark.slow) for s in ("greedy", "drawn"))])
def test_no_string_is_drawn_from_nan(words: Any, sampler: str):
    params = {"lm": eqx.tree_at(lambda net: net.embedding, words.init_params()["lm"], replace_fn=lambda a: a - jnp.inf)}
    refused(lambda: words.sample(params, sampler, draws=1, progress=False), "network `lm` puts out", "at x[0]")
    refused(lambda: words.sample(params, sampler, prompt=[[1, 0]], progress=False), "at x[2] of row 0")


@pytest.mark.usefixtures("float32")  # whose range or rounding is what is tested
def test_a_nan_that_one_context_shows_is_found_whatever_comes_after(words: Any):
    """A prompt without the value is drawn as by the sound network; one with it is refused, and its row is named."""
    sound = words.init_params(3)
    params = {"lm": eqx.tree_at(lambda net: net.embedding, sound["lm"], replace_fn=lambda a: a.at[1].set(a[1] * 3e38))}
    whole = [[0, 2], [0, 0, 2]]
    assert words.decode(params, "greedy", prompt=whole).tokens.tolist() == words.decode(sound, "greedy", prompt=whole).tokens.tolist()
    refused(lambda: words.decode(params, "greedy", prompt=[[0, 2], [1, 0]]), "of row 1")


def test_matrices_and_output_laws(model: Any):
    with jax.enable_x64(True):  # as the matrix is
        params = jax.tree.map(lambda a: jnp.full(a.shape, 1e300) if eqx.is_inexact_array(a) else a, model.init_params())
        for sampler in ("sweep", "doubtful"):
            refused(lambda sampler=sampler: model.transition_matrix(params, sampler), "at x[0]")


@pytest.mark.usefixtures("float32")  # whose range or rounding is what is tested
@pytest.mark.usefixtures("standard_promotion")
def test_a_training_from_there_ends_at_once_and_says_so(model: Any):
    x = np.zeros((8, 3), int)
    fit = model.fit(x, mask="any", init=spoilt(model.init_params()), method=gm.Training(steps=3, batch_size=4), progress=False)
    assert fit.reason == "diverged"


GUIDED = """
network lm = transformer(layers = 1, heads = 1, width = 4, causal = true)
model words { var x[i in range(3)] : range(3)  conditional x ~ lm() }
model apart { var x[i in range(3)] : range(3)  require x[i] != x[i + 1] for i in range(3) if i < 2 }
verifier can for words = completable(apart)
sampler back for words = backtracking(can, quota = 1, stride = 1)
sampler each for words = tokenwise_rejection(can)
"""


@pytest.mark.slow
def test_guided_samplers_and_their_laws_refuse_it_too():
    words = gm.parse(GUIDED).model("words")
    params = {"lm": eqx.tree_at(lambda net: net.embedding, words.init_params()["lm"], replace_fn=lambda a: a - jnp.inf)}
    for sampler in ("back", "each"):
        refused(lambda s=sampler: words.sample(params, s, draws=2, progress=False), "network `lm` puts out", "behind the prefix []")
    refused(lambda: gm.theory.output_law(words, params, sampler="back"), "behind the prefix []")
