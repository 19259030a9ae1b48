"""Guided samplers over a causal network: output laws beside every run over loops of NumPy, draws beside output laws.

That every draw is the one that loops of NumPy give is `test_network_runs.py`; here are draws of all prompts beside exact laws.
"""

from __future__ import annotations

import itertools
from typing import Any

import equinox as eqx
import guided_brute as brute
import guided_networks
import jax
import numpy as np
import pytest
from chi_square import p_value
from guided_networks import PROGRAM, WANTED
from oracle import _networks as loops
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.guided import Setting, View
from gmlmdsl.guided._loop import Pieces

PROMPTS: list[list[int]] = [[1], []]
DRAWS = 3000
DRAWN = [n for n in WANTED if n != "node"]  # five steps seldom end on a string: 255 runs for each
pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture(scope="module")
def model() -> gm.Model:
    with jax.enable_x64(True):
        return gm.parse(PROGRAM).model("words")


@pytest.mark.parametrize("sampler", thinned(WANTED, 4))
@pytest.mark.parametrize("prompt", thinned(PROMPTS, 2, 1))
def test_the_output_law_is_that_of_all_runs(model: gm.Model, sampler: str, prompt: list[int]) -> None:
    found = gm.theory.output_law(model, guided_networks.params(), sampler, prompt=prompt)
    assert brute.error(found, WANTED[sampler](tuple(prompt))) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [n if n == "walk" else pytest.param(n, marks=pytest.mark.slow) for n in DRAWN])
def test_draws_follow_the_output_law(model: gm.Model, sampler: str) -> None:
    """Prompts of two lengths side by side in one loop; calls and judgements within 4.5 standard errors."""
    found = model.sample(guided_networks.params(), sampler, prompt=PROMPTS, draws=DRAWS, seed=0, progress=False)
    for r, prompt in enumerate(PROMPTS):
        law = gm.theory.output_law(model, guided_networks.params(), sampler, prompt=prompt)
        number = {tuple(s): k for k, s in enumerate(law.strings.tolist())}
        strings = np.asarray(found["posterior"]["x"].values)[0, :, r].tolist()
        stats: dict[str, Any] = {k: np.asarray(v.values)[0, :, r] for k, v in found["guided_stats"].items()}
        counts = np.zeros(len(number) + 1)
        for s, failed in zip(strings, stats["failed"], strict=True):
            counts[len(number) if failed else number[tuple(s)]] += 1
        assert p_value(counts, np.append(law.probabilities, law.fail)) > 1e-4, prompt
        for name, mean in (("oracle_calls", law.expected_calls), ("verifier_calls", law.expected_verifications)):
            taken = stats[name].astype(float)
            assert abs(taken.mean() - mean) <= 4.5 * max(taken.std(), 1e-9) / np.sqrt(DRAWS) + 1e-6 * mean, (name, prompt)


def test_the_law_of_plain_draws_is_that_of_the_network(model: gm.Model) -> None:
    """Of `autoregressive`, beside log p of whole rows: nothing is judged, and every symbol behind the prompt is a call."""
    law = gm.theory.output_law(model, guided_networks.params(), "plain", prompt=[1])
    assert (law.expected_calls, law.expected_verifications, law.fail) == (pytest.approx(3), 0, 0)
    whole = np.exp(np.asarray(model.log_prob(guided_networks.params(), law.strings)))
    assert len(whole) == 27
    np.testing.assert_allclose(law.probabilities, whole / whole.sum(), atol=1e-12)


@pytest.mark.slow
def test_a_compiled_oracle_answers_as_the_oracle_does(model: gm.Model) -> None:
    """Each of its answers, of prefixes that grew and were taken back."""
    oracle = Setting(model.lowered, guided_networks.params()).made_oracle
    compiled = Pieces(oracle)
    codes = np.array([[0, 1, -1, -1], [2, -1, -1, -1], [1, 0, 2, -1]], np.int32)
    symbols, back = np.array([1, 0, 2], np.int32), np.array([2, 1, 0], np.int32)
    found = []
    for one in (oracle, compiled):
        state = one.start(codes)
        grown = one.push(one.pop(state, back), symbols)
        found.append(
            [ask(at) for at in (state, grown) for ask in (one.next_log_probs, one.features)] + [one.features_after(one.pop(grown, back))]
        )
    for own, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, own, rtol=1e-12)
    assert not np.allclose(found[0][0], found[0][2])


@pytest.mark.slow  # probes are compared with loops in test_probes.py, samplers above
@pytest.mark.usefixtures("float64")
def test_samplers_follow_a_probe_of_a_layer_below_the_last() -> None:
    """Its states grow and are taken back beside the network's own; what it says is that of a network whose other layer adds nothing."""
    text = "network lm = transformer(layers = 2, heads = 2, width = 8, causal = true)\n"
    text += "model words {\n  var x[i in range(4)] : range(3)\n  conditional x ~ lm()\n}\nverifier seen = probe(lm, layer = 1)\n"
    text += "sampler back = backtracking(seen, quota = 2, stride = 2)\nsampler walk = value_guided(seen, steps = 5)\n"
    model = gm.parse(text).model()
    network: Any = model.init_params(4)["lm"]
    network = eqx.tree_at(lambda n: n.embedding, network, 0.4 * network.embedding)
    rng = np.random.default_rng(2)
    prefixes = [rng.integers(0, 3, n).tolist() for n in rng.integers(1, 5, 60)]
    params = gm.train_probe(model, {"lm": network}, "seen", prefixes, [int(p[-1] == 0) for p in prefixes])
    tree = [p for n in range(5) for p in itertools.product(range(3), repeat=n)]
    verdicts = dict(zip(tree, gm.prefix_values(model, params, "seen", tree), strict=True))
    laws = dict(zip(tree, [loops.causal_transformer(network, np.array(p, int))[0][-1] for p in tree if len(p) < 4], strict=False))

    class Deep(guided_networks.NetworkTable):
        def law(self, prefix: tuple[int, ...]) -> np.ndarray:
            return np.exp(laws[prefix] - np.logaddexp.reduce(laws[prefix]))

    assert 0 < sum(verdicts.values()) < len(tree)
    for sampler, wanted in (
        ("back", brute.backtracking(Deep(), lambda p: float(verdicts[p]), 2, 2)),
        ("walk", brute.walk(Deep(), lambda p: float(verdicts[p]), 5)),
    ):
        assert brute.error(gm.theory.output_law(model, params, sampler), wanted) < 1e-9
    setting = Setting(model.lowered, params)
    judge = setting.judge(model.program.checked.judges["seen"])
    codes = np.full((60, 4), -1, np.int32)
    for row, p in zip(codes, prefixes, strict=True):
        row[: len(p)] = p
    lengths = (codes >= 0).sum(axis=1)
    state = judge.push(judge.pop(judge.start(codes), np.full(60, 2, np.int32)), np.ones(60, np.int32))
    now = [[*p[: max(len(p) - 2, 0)], 1] for p in prefixes]
    view = View(codes, lengths, lengths == 4, np.ones(60, bool))
    np.testing.assert_array_equal(np.exp(judge.values(state, view, None, None)), [verdicts[tuple(p)] for p in now])
