"""Guided samplers over causal networks at their edges, in the default types: what is refused and why, prompts, a quota of nothing."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from guided_networks import PROGRAM, Q

import gmlmdsl as gm
from gmlmdsl.derive import CausalOracle
from gmlmdsl.explain import explain

MORE = """
sampler none  for words = backtracking(seen, quota = 0, stride = 9)
sampler far   for words = backtracking(seen, quota = 3, stride = 9)
sampler never for words = tokenwise_rejection(can, tries = 1)
"""


@pytest.fixture(scope="module")
def model() -> Any:
    return gm.parse(PROGRAM + MORE).model("words")


@pytest.fixture(scope="module")
def params(model: Any) -> Any:
    """Random weights in float32, and a probe that takes what ends with 0."""
    rng = np.random.default_rng(0)
    prefixes = [rng.integers(0, Q, n).tolist() for n in rng.integers(1, 5, 100)]
    return gm.train_probe(model, model.init_params(0), "seen", prefixes, [int(p[-1] == 0) for p in prefixes])


@pytest.mark.slow
def test_strings_begin_with_their_prompts_whatever_their_lengths(model: Any, params: Any) -> None:
    """A quota of nothing judges nothing; a stride beyond the string takes back all but the prompt."""
    prompts = [[], [2], [1, 0, 2], [0, 0, 0, 0]]
    for sampler in ("none", "far", "rej"):
        found = model.sample(params, sampler, prompt=prompts[:3] if sampler == "rej" else prompts, draws=20, seed=1, progress=False)
        rows, stats = np.asarray(found["posterior"]["x"].values)[0], found["guided_stats"]
        for r in range(rows.shape[1]):
            assert (rows[:, r, : len(prompts[r])] == prompts[r]).all()
            assert ((rows[:, r] >= 0) & (rows[:, r] < Q)).all()
        calls, checks = (np.asarray(stats[k].values)[0] for k in ("oracle_calls", "verifier_calls"))
        if sampler == "none":
            assert calls.tolist() == [[4, 3, 1, 0]] * 20
            assert not checks.any()
        if sampler == "far":
            assert (np.asarray(stats["backtracks"].values)[0].sum(axis=-1) <= 3).all()
        if sampler == "rej":
            assert (rows[:, :, -1] == 0).all()


@pytest.mark.slow
def test_a_string_that_cannot_be_is_a_failure_and_no_retry(model: Any, params: Any) -> None:
    """A prompt of equal neighbours has no completion."""
    found = model.sample(params, "never", prompt=[[1, 1]], draws=5, progress=False)
    assert np.asarray(found["guided_stats"]["failed"].values).all()
    assert (np.asarray(found["posterior"]["x"].values) == -1).all()


GIVEN = """
network net = encoder_decoder(layers = 1, heads = 2, width = 8, causal = true)
model words {
  given s[i in range(3)] : range(3)
  var x[i in range(4)] : range(3)
  conditional x ~ net(s)
}
verifier seen = probe(net)
sampler back = backtracking(seen, quota = 1, stride = 1)
"""


def drawn(text: str, more: str = "", **options: Any) -> Any:
    model = gm.parse(text + more).model("words")
    return model.sample(model.init_params(0), "back", progress=False, **options)


@pytest.mark.usefixtures("float32")  # `explain` knows no device: its figures are those of the default precision
def test_explain_says_what_a_row_of_a_network_keeps(model: Any, params: Any) -> None:
    """As many bytes as the oracle's state has, and that no plan affords the exact law."""
    weights = jax.tree.map(lambda a: a.astype(np.float32), params["lm"])
    oracle = CausalOracle(weights, None, 4)
    arrays = jax.tree.leaves(jax.eval_shape(oracle.start, jax.ShapeDtypeStruct((1, 4), np.int32)))
    size = sum(a.size * a.dtype.itemsize for a in arrays if np.issubdtype(a.dtype, np.floating))
    told = " ".join(explain(model.program.checked, model.program.bound, sampler="back", plans=True).split())
    assert f"what it keeps of a row {size / 2**20:.3g} MiB of keys, values and states in float32" in told
    assert "`rejection` draws from it exactly" in told
    assert 'sampler="exact"' not in told


class Uniform:
    """An oracle of the user's."""

    def start(self, prompts):
        return len(prompts)

    def next_log_probs(self, state):
        return np.full((state, Q), -np.log(Q))

    def push(self, state, symbols):
        return state

    def pop(self, state, n):
        return state


REFUSED = {
    "a probe that is not learnt": ("E509", "train_probe", lambda: drawn(PROGRAM, prompt=[[0]])),
    "a symbol outside the alphabet": ("E502", r"prompt\[0\]", lambda: drawn(PROGRAM, prompt=[[3]])),
    "expected over a network": ("E330", r"q\^L", lambda: gm.parse(PROGRAM + "value sum for words = expected(apart)\n")),
    "a probe of another network": ("E330", "another network", lambda: gm.parse("network other = mlp()\n" + PROGRAM + "value o for words = probe(other)\n")),
    "given data": ("E510", "no given data", lambda: drawn(GIVEN, prompt=[[0]])),
    "the law of answers": ("E510", "no given data", lambda: gm.theory.output_law(gm.parse(GIVEN).model(), {}, "back")),
    "given data that come along": ("E510", "no given data", lambda: drawn(GIVEN, prompt=[[0]], given={"s": [0, 1, 2]})),
    "a probe beside an oracle of the user's": ("E507", "draws in its place", lambda: drawn(PROGRAM, prompt=[[0]], oracle=Uniform())),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_says_why(what: str) -> None:
    code, words, ask = REFUSED[what]
    with pytest.raises(gm.GmlmError, match=words) as caught:
        ask()
    assert caught.value.codes == (code,)
