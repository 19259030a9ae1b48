"""Models with networks, their fits and their translators, called with nonsense: an error of the package's own, whatever it was."""

from __future__ import annotations

import functools
import inspect
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nonsense import refuses_nonsense
from translation_cases import PROGRAM as TRANSLATES
from translation_cases import toy_vocabulary

import gmlmdsl as gm

pytestmark = [pytest.mark.usefixtures("standard_promotion"), pytest.mark.filterwarnings("ignore")]
MODEL: Any = gm.parse("""
network net = encoder_decoder(layers = 1, heads = 2, width = 8, ffn = 8, positional_attention = true)
model m {
  given s[j in range(3)] : range(3)
  var x[i in range(3)] : range(3)
  conditional x ~ net(s)
}
mask whole = everything(x)
mask half = bernoulli(x, rate = 0.5)
sampler refine = mask_predict(steps = 2, lengths = 2)
sampler any = random_order(steps = 2)
""").model()
S = np.array([[0, 1, 2], [2, 1, -1], [0, 0, 1]])
X = np.array([[1, 2, 0], [1, 2, -1], [1, 1, 0]])
GIVEN = {"given": {"s": S}, "missing": -1}


@cache
def params() -> dict[str, Any]:
    return MODEL.init_params(1)


METHODS: dict[str, dict[str, Any]] = {
    "attention": {"x": X} | GIVEN,
    "compile": {},
    "decode": {"sampler": "refine"} | GIVEN,
    "decoder": {"sampler": "refine"},
    "fit": {"x": X, "mask": "half", "max_steps": 2} | GIVEN,
    "init_params": {},
    "length_coverage": {"x": X, "top": (1,)} | GIVEN,
    "log_conditional": {"x": X[:1], "K": 0, "mask": "whole", "given": {"s": S[:1]}},
    "log_prob_bound": {"x": X, "sampler": "any", "draws": 1} | GIVEN,
    "loss": {"x": X, "mask": "half", "n_masks": 2, "key": 1} | GIVEN,
    "mask": {"name": "whole"},
    "mock": {},
    "positions": {"variable": "x"},
    "predict": {"x": X, "hidden": np.array([True, False, True])} | GIVEN,
    "sample": {"sampler": "refine", "draws": 2, "chains": 2} | GIVEN,
    "sampler": {"name": "any"},
}
# Methods that this network has no answer for: refused, whatever their arguments are.
REFUSED: dict[str, dict[str, Any]] = {"log_prob": {"x": X}, "next_symbol": {"prefix": X[:, :1]}, "transition_matrix": {}}
# A truth value is taken for what it is, and a compilation follows; `missing=` may be a number that is not among the data.
DEAR = {"fit": ("missing",), "compile": ("mask", "sampler")}


@pytest.mark.parametrize("name", list(METHODS))
def test_a_method_of_a_networks_model_refuses_nonsense(name: str):
    method = getattr(MODEL, name)
    refuses_nonsense(method, at(method) | METHODS[name], ("progress", *DEAR.get(name, ())))


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_a_network_has_no_answer_for_refuses_nonsense(name: str):
    method = getattr(MODEL, name)
    fine = at(method) | REFUSED[name]
    with pytest.raises(gm.GmlmError):
        method(**fine)
    refuses_nonsense(method, fine, ("progress",))


def test_what_only_a_joint_distribution_has_is_refused_by_name():
    own = {n for n in dir(gm.JointModel) if not n.startswith("_")} - set(dir(gm.ConditionalModel))
    assert {"marginals", "log_partition", "posterior", "effects", "sampler_bias", "fit_path"} <= own
    for name in own:
        assert not hasattr(MODEL, name)
        with pytest.raises(gm.GmlmError, match="E742"):
            getattr(MODEL, name)
    with pytest.raises(AttributeError, match="no attribute `marginal`"):
        MODEL.marginal  # noqa: B018


def at(method: Any) -> dict[str, Any]:
    """The parameters and a bar that is not shown, where a method takes them."""
    taken = inspect.signature(method).parameters
    found: dict[str, Any] = {"progress": False} if "progress" in taken else {}
    return found | ({"params": params()} if "params" in taken and taken["params"].default is inspect.Parameter.empty else {})


def test_every_method_of_a_networks_model_is_among_them():
    found = {n for n, _ in inspect.getmembers(type(MODEL), inspect.isfunction) if not n.startswith("_")}
    assert found == set(METHODS) | set(REFUSED)


@cache
def fit() -> gm.NetworkFit:
    return MODEL.fit(X, "half", max_steps=2, progress=False, **GIVEN)


FITS: dict[str, dict[str, Any]] = {
    "bits_per_cell": {"x": X, "sampler": "any", "draws": 1} | GIVEN,
    "loss": {"x": X, "mask": "half", "n_masks": 2, "key": 1} | GIVEN,
    "sample": {"sampler": "refine", "draws": 2, "chains": 2, "progress": False} | GIVEN,
    "save": {"path": "here.fit"},
    "with_params": {"params": {}},
}


@pytest.mark.parametrize("name", list(FITS))
def test_a_method_of_a_networks_fit_refuses_nonsense(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)  # a text may be the name of a file
    refuses_nonsense(getattr(fit(), name), FITS[name] | ({"params": params()} if name == "with_params" else {}))


def test_every_method_of_a_networks_fit_with_arguments_is_among_them():
    methods = inspect.getmembers(gm.NetworkFit, inspect.isfunction)
    found = {n for n, f in methods if not n.startswith("_") and len(inspect.signature(f).parameters) > 1}
    assert found == set(FITS)


@cache
def translator() -> gm.Translator:
    model = gm.parse(TRANSLATES).model("translate")
    return gm.Translator(model, model.init_params(3), toy_vocabulary(), direction="en-de")


TRANSLATORS: dict[str, dict[str, Any]] = {
    "decode": {"source": [[4, 5, 1]]},
    "decoder": {},
    "export": {"path": "here.zip"},
    "in_precision": {"precision": "float32"},
    "is_autoregressive": {},
    "sampler_named": {},
    "stream": {"lines": ["one two"]},
    "translate": {"sentences": ["one two"]},
}
VOCABULARIES: dict[str, dict[str, Any]] = {
    "decode": {"codes": [[4, 5, 1]]},
    "encode": {"sentences": ["one"]},
    "from_bytes": {"data": b""},
    "read": {"path": "none"},
    "rows": {"encoded": [[4, 1]], "cells": 3},
    "train": {"sentences": ["one two", "red"], "size": 12},
    "verify": {"size": 30, "what": "x"},
}


@pytest.mark.parametrize("name", list(TRANSLATORS))
def test_a_method_of_a_translator_refuses_nonsense(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    method = getattr(translator(), name)
    if name == "stream":  # a generator says nothing before it is asked
        method = functools.wraps(method)(lambda *a, **k: list(translator().stream(*a, **k)))
    refuses_nonsense(method, TRANSLATORS[name])


@pytest.mark.parametrize("name", list(VOCABULARIES))
def test_a_method_of_a_vocabulary_refuses_nonsense(name: str):
    refuses_nonsense(getattr(toy_vocabulary(), name), VOCABULARIES[name])


@pytest.mark.parametrize("kind", ["translator", "vocabulary"])
def test_every_method_of_a_translator_is_among_them(kind: str):
    type_, cases = {"translator": (gm.Translator, TRANSLATORS), "vocabulary": (gm.Vocabulary, VOCABULARIES)}[kind]
    methods = inspect.getmembers(type_, lambda f: inspect.isfunction(f) or inspect.ismethod(f))
    found = {n for n, f in methods if not n.startswith("_") and len(inspect.signature(f).parameters) > 0}
    assert found - {"to_bytes"} == set(cases)
