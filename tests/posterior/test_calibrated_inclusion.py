"""Inclusion probabilities under pseudolikelihoods, calibrated, beside those of the likelihood."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from markdown_blocks import ROOT

import gmlmdsl as gm

pytestmark = [
    pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning", "ignore::gmlmdsl.GmlmWarning"),
    pytest.mark.usefixtures("standard_promotion"),
]
TEXT = """
input n : int
graph G = complete(range(n))
model m {{
  var x[i in G.nodes] : spin
  param h[i in G.nodes] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ {prior}
  factor h[i] * x[i] for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}}
mask all = everything(x)
mask one = subsets(x, size = 1)
sampler s {{ update x[i] for i in G.nodes }}
"""
SPIKES = "spike_slab(0.5, 0.5)"


def model_of(n: int, prior: str = SPIKES) -> gm.Model:
    return gm.parse(TEXT.format(prior=prior), n=n).model()


def rows_of(model: Any, J: list[float], rows: int, seed: int) -> np.ndarray:
    params = {"h": np.linspace(-0.2, 0.3, len(model.init_params()["h"])), "J": np.array(J)}
    drawn = model.sample(params, "exact", draws=rows, chains=1, seed=seed, progress=False)
    return np.asarray(drawn["posterior"]["x"])[0]


def probabilities(model: Any, x: np.ndarray, mask: str, **options: Any) -> tuple[np.ndarray, str]:
    drawn = model.posterior(x, mask=mask, draws=1500, chains=2, seed=1, **options)
    return gm.inclusion(drawn, "J")["probability"].to_numpy(), drawn["posterior"].attrs["calibration"]


def test_rows_that_count_twice_are_calibrated_to_those_that_count_once():
    """A weight of 2 doubles H and quadruples S, and H S^-1 H stays: up to third derivatives of the loss the density is the same."""
    model, twice = model_of(3), np.full(300, 2.0)
    x = rows_of(model, [0.2, 0.1, 0.0], 300, 0)
    plain = [probabilities(model, x, "one", **more)[0] for more in ({}, {"weights": twice})]
    assert np.abs(plain[0] - plain[1]).max() > 0.05
    (once, words), (found, same) = (probabilities(model, x, "one", calibrate="curvature", **more) for more in ({}, {"weights": twice}))
    assert words == same == "calibrated: curvature, S from the rows"
    np.testing.assert_allclose(found, once, atol=0.04)  # three Monte Carlo errors of the difference of two shares


@pytest.mark.slow
def test_calibrated_inclusion_under_single_cells_is_near_that_of_the_likelihood():
    """The mean difference over ten data sets, which a page states."""
    model, apart = model_of(5), {"None": [], '"curvature"': [], '"simulated"': []}
    for seed in range(10):
        x = rows_of(model, [0.25, 0.15, 0, 0.1, 0, 0.2, 0, 0, 0.12, 0], 400, seed)
        wanted = probabilities(model, x, "all")[0]
        for words, found in apart.items():
            calibrate = None if words == "None" else words.strip('"')
            found.append(np.abs(probabilities(model, x, "one", calibrate=calibrate)[0] - wanted).mean())
    means = {words: float(np.mean(found)) for words, found in apart.items()}
    page = (ROOT / "docs/how-to/find-edges-by-posterior.md").read_text(encoding="utf-8")
    stated = {words: float(number) for words, number in re.findall(r"^\| `(.+)` \| (0\.\d+) \|$", page, flags=re.M)}
    print("\n".join(f"| `{words}` | {mean:.3f} |" for words, mean in means.items()))
    assert stated == pytest.approx(means, abs=0.005)  # the Monte Carlo error
    assert means['"curvature"'] < 0.2 * means["None"] and means['"simulated"'] < 0.2 * means["None"]


@pytest.mark.slow
def test_auto_calibrates_a_model_without_spikes_and_no_other():
    spiked, smooth = model_of(3), model_of(3, "normal(0, 1)")
    x = rows_of(spiked, [0.2, 0.1, 0.0], 100, 0)
    one: dict[str, Any] = {"mask": "one", "draws": 20, "warmup": 20, "chains": 1, "seed": 0}
    words = [m.posterior(x, **one)["posterior"].attrs["calibration"] for m in (spiked, smooth)]
    assert words[0] == "not calibrated" and words[1].startswith("calibrated: curvature")
    assert smooth.posterior(x, calibrate=None, **one)["posterior"].attrs["calibration"] == "not calibrated"
    with pytest.raises(gm.GmlmError, match='E507.*calibrate must be "curvature", "simulated" or None'):
        spiked.posterior(x, calibrate="curved", **one)
    with pytest.raises(gm.GmlmError, match="E554"):
        spiked.posterior(x[:3], calibrate="curvature", **one)
