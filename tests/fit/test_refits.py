"""Refits to reweighted rows beside usual fits: with and without priors, gaps, latents, drawn masks, counts and separated rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from events import traced_or_compiled
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.fit import Reweighted, fit_model
from gmlmdsl.fit import _refits as refits

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

SPINS = """
graph G = complete(range(4))
model m {
  var x[i in range(4)] : spin
  param h[i in range(4)] PRIOR
  param J[(i, j) in G.edges] PRIOR
  factor h[i] * x[i] for i in range(4)
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
mask two = subsets(x, size = 2)
"""
NORMAL, FREE = SPINS.replace("PRIOR", "~ normal(0.2, 0.7)"), SPINS.replace(" PRIOR", "")
LAPLACE = SPINS.replace("PRIOR", "~ laplace(0, 0.5)")
LETTERS = """
domain abc = letters("abc")
model m {
  var x[i in range(3)] : abc
  param h[i in range(3), a in abc] ~ normal(0, 1)
  param J[a in abc, b in abc]
  gauge zero_sum(J)
  factor h[i, x[i]] for i in range(3)
  factor J[x[i], x[i + 1]] for i in range(3) if i < 2
}
mask one = subsets(x, size = 1)
"""
KINDS = """
model m {
  latent kind : bit
  var x[i in range(4)] : bit
  param b[k in range(2), i in range(4)] ~ normal(0, 1)
  factor b[kind, i] * x[i] for i in range(4)
}
mask one = everything(x)
"""
POSITIVE = """
model m {
  var x[i in range(4)] : spin
  param h ~ normal(0, 1)
  param J : positive ~ exponential(1)
  factor h * x[i] for i in range(4)
  factor J * x[i] * x[i + 1] for i in range(4) if i < 3
}
mask one = subsets(x, size = 1)
"""


def spins(n: int = 60, q: int = 4) -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.where(rng.normal(size=(n, 1)) + rng.normal(size=(n, q)) > 0, 1, -1)


def bits(n: int = 60) -> np.ndarray:
    return (spins(n) + 1) // 2


def letters(n: int = 60) -> np.ndarray:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 3, (n, 3))
    x[:, 1] = np.where(rng.random(n) < 0.5, x[:, 0], x[:, 1])
    return x


def holes(x: np.ndarray) -> np.ndarray:
    return np.where(np.random.default_rng(5).random(x.shape) < 0.1, -9, x)


CASES: dict[str, tuple[str, np.ndarray, dict[str, Any], bool]] = {
    "priors": (NORMAL, spins(), {"mask": "one"}, True),
    "no priors": (FREE, spins(), {"mask": "one"}, True),
    "two cells": (FREE, spins(400), {"mask": "two"}, True),
    "most rows differ": (NORMAL, spins(12), {"mask": "one"}, True),
    "counts": (FREE, spins(), {"mask": "one", "weights": np.arange(60) % 3, "weights_are": "counts"}, True),
    "gaps left out": (NORMAL, holes(spins()), {"mask": "one", "missing": -9, "gaps": "ignore"}, True),
    "gaps summed out": (NORMAL, holes(spins()), {"mask": "one", "missing": -9}, True),
    "drawn masks": (NORMAL, spins(), {"mask": "two", "n_masks": 2}, True),
    "fixed": (NORMAL, spins(), {"mask": "one", "fixed": {"h": np.zeros(4)}}, True),
    "a gauge": (LETTERS, letters(), {"mask": "one"}, True),
    "a latent": (KINDS, bits(), {"mask": "one", "seed": 1}, True),
    "kinks": (LAPLACE, spins(), {"mask": "one"}, False),
    "bounds": (POSITIVE, spins(), {"mask": "one"}, False),
}


@pytest.mark.parametrize("case", thinned(CASES, 12))
def test_a_refit_is_the_fit_under_its_weights(case: str) -> None:
    """In the quick way where the objective allows it; both end at gradients of 1e-8 per row."""
    text, x, options, quick = CASES[case]
    fit = gm.parse(text).model().fit(x, progress=False, **options)
    refit = Reweighted(fit.evidence, fit.params)
    assert (refit._quick is not None) == quick
    assert (refit.place is None) == (case in ("most rows differ", "drawn masks", "gaps left out", "gaps summed out", "kinks", "bounds"))
    rng = np.random.default_rng(1)
    for _ in range(2):
        weights = rng.multinomial(len(x), np.full(len(x), 1 / len(x))).astype(float)
        found = refit(weights)
        how = {**vars(fit.evidence.options), "weights": weights, "init": fit.params}
        own = fit_model(fit.evidence.lowered, fit.evidence.mask, fit.evidence.codes, type(fit.evidence.options)(**how))
        for name, value in own.params.items():
            np.testing.assert_allclose(found.params[name], value, atol=2e-6)
        assert found.code == own.status.code == "converged"
        assert not found.separated.any()
        assert not found.undetermined.any()


@pytest.mark.slow
def test_separated_rows_and_those_that_tell_nothing_are_found() -> None:
    """Without the last rows x[0] is x[1]: J[0, 1] is infinite, as the usual fit says; with one cell constant its field is."""
    x = spins(40)
    x[:, 1] = x[:, 0]
    x[-2:, 1] = -x[-2:, 0]
    fit = gm.parse(FREE).model().fit(x, "one", progress=False)
    refit = Reweighted(fit.evidence, fit.params)
    assert refit._quick is not None
    weights = np.r_[np.ones(38), 0, 0]
    found = refit(weights)
    own = gm.parse(FREE).model().fit(x, "one", weights=weights, progress=False).status
    assert found.code == own.code == "no-minimiser"
    np.testing.assert_array_equal(found.separated, own.separated)
    assert found.separated[4] == 1
    boot = fit.bootstrap(3, seed=1)
    assert boot.estimates.shape == (3, 10)


def test_a_refit_that_needs_more_steps_is_told() -> None:
    fit = gm.parse(NORMAL).model().fit(spins(), "one", max_steps=1, progress=False)
    assert fit.status.code == "not-converged"
    refit = Reweighted(fit.evidence, {"h": np.full(4, 3.0), "J": np.full(6, 2.0)})
    assert refit(np.ones(60)).code == "not-converged"
    assert fit.bootstrap(2).failed in (0, 1, 2)


def test_refits_compile_nothing_and_prepare_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = gm.parse(NORMAL).model().fit(spins(), "one", progress=False)
    fit.bootstrap(2)
    made = []
    usual = refits.make_objective
    monkeypatch.setattr(refits, "make_objective", lambda *a, **k: made.append(1) or usual(*a, **k))
    with traced_or_compiled() as events:
        fit.bootstrap(5, seed=2)
    assert events == []
    assert made == [1]
