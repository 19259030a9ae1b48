"""Guided samplers over a causal network: output laws beside every run over loops of NumPy, draws beside output laws.

That every draw is the one that loops of NumPy give is `test_network_runs.py`; here are draws of all prompts beside exact laws.
"""

from __future__ import annotations

from typing import Any

import guided_brute as brute
import jax
import numpy as np
import pytest
from chi_square import p_value
from guided_networks import PROGRAM, WANTED, params
from thinned import thinned

import gmlmdsl as gm

PROMPTS: list[list[int]] = [[1], []]
DRAWS = 3000
DRAWN = [n for n in WANTED if n != "node"]  # five steps seldom end on a string: 255 runs for each
pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture(scope="module")
def model() -> gm.Model:
    with jax.enable_x64(True):
        return gm.parse(PROGRAM).model("words")


@pytest.mark.parametrize("sampler", WANTED)
@pytest.mark.parametrize("prompt", thinned(PROMPTS, 2, 1))
def test_the_output_law_is_that_of_all_runs(model: gm.Model, sampler: str, prompt: list[int]) -> None:
    found = gm.theory.output_law(model, params(), sampler, prompt=prompt)
    assert brute.error(found, WANTED[sampler](tuple(prompt))) < 1e-10


@pytest.mark.parametrize("sampler", [n if n == "walk" else pytest.param(n, marks=pytest.mark.slow) for n in DRAWN])
def test_draws_follow_the_output_law(model: gm.Model, sampler: str) -> None:
    """Prompts of two lengths side by side in one loop; calls and judgements within 4.5 standard errors."""
    found = model.sample(params(), sampler, prompt=PROMPTS, draws=DRAWS, seed=0, progress=False)
    for r, prompt in enumerate(PROMPTS):
        law = gm.theory.output_law(model, params(), sampler, prompt=prompt)
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
    law = gm.theory.output_law(model, params(), "plain", prompt=[1])
    assert (law.expected_calls, law.expected_verifications, law.fail) == (pytest.approx(3), 0, 0)
    whole = np.exp(np.asarray(model.log_prob(params(), law.strings)))
    assert len(whole) == 27
    np.testing.assert_allclose(law.probabilities, whole / whole.sum(), atol=1e-12)
