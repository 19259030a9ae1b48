"""Methods of programs, models, fits and of what they give, called with nonsense: an error of the package's own, whatever it was."""

from __future__ import annotations

import inspect
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nonsense import refuses_nonsense

import gmlmdsl as gm

pytestmark = [pytest.mark.usefixtures("standard_promotion"), pytest.mark.filterwarnings("ignore")]
PROGRAM = gm.parse("""
graph G = chain(2)
model m {
  var x[i in range(2)] : spin
  param h
  param J ~ laplace(0, 1)
  factor h * x[i] for i in range(2)
  factor J * x[0] * x[1]
}
mask one = subsets(size = 1)
sampler g { update x[i] for i in range(2) }
""")
MODEL = PROGRAM.model()
DECODING = PROGRAM.extended("sampler d = random_order()").model()
X = np.array([[1, -1], [1, 1], [-1, -1], [1, 1], [-1, 1], [1, 1]])
AT = {"params": {"h": 0.1, "J": 0.2}}
MODELS: dict[str, dict[str, Any]] = {
    "annealed_log_partition": AT | {"betas": 2, "chains": 2},
    "approximation_gap": AT | {"method": "belief-propagation", "siblings": 1, "cells": 2, "warmup": 1},
    "bridge_log_partition": AT | {"betas": 2, "draws": 2, "warmup": 1, "chains": 2},
    "compile": {},
    "distribution": AT,
    "effects": AT | {"wildtype": X[0]},
    "export": AT | {"path": Path(tempfile.mkdtemp()) / "m.uai"},
    "fit": {"x": X},
    "fit_path": {"x": X, "penalty": 2},
    "init_params": {},
    "log_conditional": AT | {"x": X, "K": 0},
    "log_partition": AT,
    "log_potential": AT | {"x": X},
    "log_prob": AT | {"x": X},
    "log_prob_bound": AT | {"x": X, "sampler": "d"},
    "loss": AT | {"x": X},
    "map": AT,
    "marginals": AT,
    "mask": {},
    "mock": {},
    "next_symbol": AT | {"prefix": X[:, :1]},
    "numpyro_kernel": {},
    "positions": {"variable": "x"},
    "posterior": {"x": X},
    "predict": AT | {"x": X, "hidden": np.array([True, False])},
    "sample": AT | {"draws": 2, "warmup": 1, "chains": 2},
    "sampler": {},
    "sampler_bias": AT,
    "to_numpyro": {"x": X, "calibrate": None},
    "transition_matrix": AT,
}
# A truth value is taken for what it is, and work of a chain or a compilation follows; `missing=` may be a number that is not among the data.
DEAR = {"fit": ("missing",), "fit_path": ("missing", "folds", "subsamples"), "posterior": ("missing",), "to_numpyro": ("missing",)}
DEAR |= {"annealed_log_partition": ("steps_per_beta",), "compile": ("sampler",)}


@pytest.mark.parametrize("name", ["map", "marginals"])
def test_rows_of_a_method_refuse_nonsense(name: str):
    refuses_nonsense(getattr(MODEL, name), AT | {"x": X, "missing": 0})


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "posterior")) for n in MODELS])
def test_a_method_of_a_model_refuses_nonsense(name: str):
    method = getattr(DECODING if name == "log_prob_bound" else MODEL, name)
    refuses_nonsense(method, MODELS[name] | quiet(method), ("progress", *DEAR.get(name, ())))


def test_every_method_of_a_model_is_among_them():
    found = {n for n, f in inspect.getmembers(type(MODEL), inspect.isfunction) if not n.startswith("_")}
    assert found == set(MODELS)


def quiet(method: Any) -> dict[str, Any]:
    return {"progress": False} if "progress" in inspect.signature(method).parameters else {}


@cache
def fit() -> gm.Fit:
    return MODEL.fit(X, progress=False)


FITS: dict[str, dict[str, Any]] = {
    "bits_per_cell": {"x": X, "sampler": "d"},
    "bootstrap": {"replications": 2},
    "bootstrap_differences": {"bootstrap": None},
    "case_dropping": {"replications": 4},
    "centrality": {},
    "contrast": {"parts": {"h": 1.0}},
    "couplings": {},
    "covariance_of": {"errors": "sandwich"},
    "cross_validate": {"folds": 2},
    "determined_covariance": {},
    "differences": {"other": None},
    "flat": {"arrays": AT["params"]},
    "information_criterion": {},
    "interval": {},
    "posterior": {},
    "predictive": {"draws": 40},
    "profile": {"along": "h", "points": 5},
    "refit_selected": {},
    "sample": {"draws": 2, "warmup": 1, "chains": 2},
    "save": {"path": None},
    "score": {"x": X},
    "simulated_errors": {"draws": 40},
    "standard_errors_of": {"errors": "sandwich"},
    "summary": {},
    "to_arviz": {},
    "with_level": {"level": 0.9},
}
DEAR_FITS = {
    "cross_validate": ("missing", "seed", "n_masks", "given"),
    "information_criterion": ("missing",),
    "posterior": ("missing",),
    "predictive": ("missing", "chains"),
    "refit_selected": ("missing",),
    "score": ("missing",),
    "simulated_errors": ("warmup", "thin"),
    "to_arviz": ("missing",),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "differences")) for n in FITS])
def test_a_method_of_a_fit_refuses_nonsense(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)  # a text may be the name of a file
    method = getattr(DECODING.fit(X, "one", progress=False) if name == "bits_per_cell" else fit(), name)
    fine = FITS[name] | ({"other": MODEL.fit(X[1:], progress=False)} if name == "differences" else {})
    fine |= {"bootstrap": fit().bootstrap(4, progress=False)} if name == "bootstrap_differences" else {}
    refuses_nonsense(method, fine | quiet(method), ("progress", *DEAR_FITS.get(name, ())))


def test_every_method_of_a_fit_with_arguments_is_among_them():
    methods = inspect.getmembers(gm.Fit, inspect.isfunction)
    found = {n for n, f in methods if not n.startswith("_") and len(inspect.signature(f).parameters) > 1}
    assert found == set(FITS)


@pytest.mark.parametrize("value", [np.zeros(2), np.array(["a", "b"])])
def test_a_bar_is_shown_or_not(value: Any):
    with pytest.raises(gm.GmlmError, match="progress must be True or False, got ndarray") as caught:
        MODEL.fit(X, progress=value)
    assert caught.value.codes == ("E507",)


def test_programs_and_results_refuse_nonsense():
    found = fit()
    for call, fine in (
        (PROGRAM.model, {}),
        (PROGRAM.graph, {"name": "G"}),
        (PROGRAM.extended, {"text": ""}),
        (found.predictive("exact", draws=40, progress=False).statistics["marginals"].table, {}),
        (found.contrast({"h": 1.0}).interval, {}),
        (MODEL.marginals, AT | {"method": "belief-propagation"}),
        (MODEL.marginals, AT | {"method": "mean-field"}),
        (MODEL.map, AT | {"method": "max-product"}),
        (MODEL.map, AT | {"method": gm.SimulatedAnnealing(2, 2)}),
        (gm.BeliefPropagation, {}),
        (gm.MeanField, {}),
        (gm.MaxProduct, {}),
        (gm.SimulatedAnnealing, {}),
        (MODEL.distribution(**AT).log_prob, {"value": X[0]}),
        (MODEL.distribution(**AT).unpack, {"value": X[0]}),
        (MODEL.distribution(**AT).pack, {"x": {"x": X[0]}}),
    ):
        refuses_nonsense(call, fine)
    with pytest.raises(gm.GmlmError, match="E502"):
        MODEL.distribution(**AT).pack({"x": "abc"})
