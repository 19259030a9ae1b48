"""Probes: logistic regression on features that the oracle computes, beside Newton's method and a law that is known."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import _networks as loops
from scipy.optimize import minimize

import gmlmdsl as gm

PROGRAM = """
network lm = transformer(layers = 1, heads = 2, width = 8, causal = true)
model words {
  var x[i in range(6)] : range(3)
  conditional x ~ lm()
}
mask forced = everything(x, noise = {keep: 1})
verifier seen = probe(lm, threshold = 0.3)
value    good = probe(lm)
sampler plain = autoregressive(decode = sample)
"""
RNG = np.random.default_rng(11)
PREFIXES = [RNG.integers(0, 3, n).tolist() for n in RNG.integers(0, 7, 300)]
ENDS = np.array([int(row[-1:] == [2]) for row in PREFIXES])  # whether the last symbol is 2: what a linear layer can tell
CHANCE = (RNG.random(300) < 0.5).astype(int)


@pytest.fixture(scope="module")
def shared() -> gm.Model:
    """One model for all tests: what is compiled for one serves the next."""
    with jax.enable_x64(True):
        return gm.parse(PROGRAM).model()


@pytest.fixture
def model(shared: gm.Model, float64: None) -> gm.Model:
    return shared


def features(params: Any) -> np.ndarray:
    """By the loops of the oracle, prefix by prefix."""
    return np.array([loops.causal_transformer(params["lm"], np.array(row, int))[1][-1] for row in PREFIXES])


def best(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The minimiser of the documented sum, by scipy: weights on the features as they are, then the bias."""
    mean, scale = x.mean(axis=0), x.std(axis=0)
    z = (x - mean) / scale

    def value(w: np.ndarray) -> float:
        logits = z @ w[:-1] + w[-1]
        return float((np.logaddexp(0, logits) - y * logits).sum() + 0.5 * (w[:-1] ** 2).sum())

    w = minimize(value, np.zeros(x.shape[1] + 1), method="BFGS", options={"gtol": 1e-9}).x
    return np.append(w[:-1] / scale, w[-1] - (w[:-1] / scale) @ mean)


@pytest.mark.slow
def test_a_probe_is_the_minimiser_on_prefixes_that_are_not_held_out(model: gm.Model) -> None:
    """Accuracy, loss and calibration are those of the held-out prefixes: the rest, found by what the weights fit best, is a fifth of each label."""
    params = model.init_params(0)
    fit = gm.train_probe(model, params, "seen", PREFIXES, CHANCE, seed=4)
    from gmlmdsl.train._probe import split

    held, x = split(CHANCE.astype(bool), 4), features(params)
    wanted = best(x[~held], CHANCE[~held])
    probe = fit["seen"]
    np.testing.assert_allclose(np.append(probe.weight, probe.bias), wanted, rtol=1e-5, atol=1e-5)
    p = 1 / (1 + np.exp(-(x[held] @ np.asarray(probe.weight) + float(probe.bias))))
    truth = CHANCE[held].astype(bool)
    assert fit.accuracy == pytest.approx(((p >= 0.3) == truth).mean())
    assert fit.loss == pytest.approx(-np.log(np.where(truth, p, 1 - p)).mean())
    assert fit.held_out == held.sum() == round(0.2 * CHANCE.sum()) + round(0.2 * (1 - CHANCE).sum())
    c = fit.calibration
    bins = np.floor(p * 10).astype(int)
    np.testing.assert_allclose(c.predicted, [p[bins == b].mean() for b in np.unique(bins)])
    np.testing.assert_allclose(c.observed, [truth[bins == b].mean() for b in np.unique(bins)])
    assert c.count.tolist() == [int((bins == b).sum()) for b in np.unique(bins)]


def test_what_a_linear_layer_can_tell_is_learnt_and_chance_is_not(model: gm.Model) -> None:
    params = model.init_params(0)
    told = gm.train_probe(model, params, "good", PREFIXES, ENDS)
    assert told.accuracy > 0.95
    guessed = gm.train_probe(model, params, "good", PREFIXES, CHANCE)
    assert guessed.accuracy < 0.7
    assert guessed.loss > 0.6
    assert "held-out prefixes right" in repr(told)


def test_the_split_follows_from_the_seed(model: gm.Model) -> None:
    params = model.init_params(0)
    a, b, c = (gm.train_probe(model, params, "seen", PREFIXES, CHANCE, seed=s)["seen"].weight for s in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert not np.allclose(a, c)


def test_probes_are_members_of_params_and_change_no_other_answer(model: gm.Model) -> None:
    params = model.init_params(0)
    both = gm.train_probe(model, gm.train_probe(model, params, "seen", PREFIXES, ENDS), "good", PREFIXES, ENDS)
    assert set(both) == {"lm", "seen", "good"}
    assert set(params) == {"lm"}
    rows = RNG.integers(0, 3, (4, 6))
    for given in (both, dict(both), both.params):
        np.testing.assert_array_equal(model.log_prob(given, rows), model.log_prob(params, rows))
        assert model.decode(given, "plain", seed=1).tokens.tolist() == model.decode(params, "plain", seed=1).tokens.tolist()
    assert float(model.loss(both, rows)) == float(model.loss(params, rows))


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.slow
def test_probes_are_saved_with_the_params(model: gm.Model, tmp_path) -> None:
    fit = model.fit(RNG.integers(0, 3, (32, 6)), max_steps=2, progress=False)
    probed = fit.with_params(gm.train_probe(model, fit.params, "seen", PREFIXES, ENDS))
    probed.save(tmp_path / "probed.fit")
    again = gm.load_fit(tmp_path / "probed.fit")
    assert set(again.params) == {"lm", "seen"}
    np.testing.assert_array_equal(again.params["seen"].weight, probed.params["seen"].weight)
    np.testing.assert_array_equal(again.params["seen"].bias, probed.params["seen"].bias)
    assert again.to_bytes() == probed.to_bytes()
    assert again.summary()["total"] == fit.summary()["total"]
    fit.save(tmp_path / "plain.fit")
    assert set(gm.load_fit(tmp_path / "plain.fit").params) == {"lm"}


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.slow
def test_a_network_without_probes_takes_other_params() -> None:
    """A network that is not causal has no state of a prefix, and none is asked for."""
    model: Any = gm.parse(
        "network net = mlp(layers = 1, width = 4)\nmodel m { var x[i in range(3)] : bit\n  conditional x ~ net() }\nmask k = bernoulli(x, rate = 0.5)"
    ).model()
    fit = model.fit(RNG.integers(0, 2, (8, 3)), max_steps=1, progress=False)
    other = fit.with_params(model.init_params(3))
    assert float(model.loss(other.params, [[0, 1, 0]], key=0)) == float(model.loss(model.init_params(3), [[0, 1, 0]], key=0))


REFUSED = {
    "no such probe": ("E506", "no probe", lambda m, p: gm.train_probe(m, p, "sen", PREFIXES, ENDS)),
    "fewer labels": ("E501", "one entry for each of 300", lambda m, p: gm.train_probe(m, p, "seen", PREFIXES, ENDS[1:])),
    "other labels": ("E507", "1 for a good prefix", lambda m, p: gm.train_probe(m, p, "seen", PREFIXES, ENDS + 1)),
    "one kind": ("E507", "prefixes of both kinds", lambda m, p: gm.train_probe(m, p, "seen", PREFIXES, 0 * ENDS)),
    "ragged labels": ("E501", "one entry for each of 300", lambda m, p: gm.train_probe(m, p, "seen", PREFIXES, [[0], [0, 1]])),
    "no prefixes": ("E505", "prefixes lists no prefix", lambda m, p: gm.train_probe(m, p, "seen", [], [])),
    "a bad prefix": ("E502", r"prefixes\[0\]", lambda m, p: gm.train_probe(m, p, "seen", [[7], [0]], [0, 1])),
    "no params": ("E509", "the parameters of this model", lambda m, p: gm.train_probe(m, {}, "seen", PREFIXES, ENDS)),
    "params of another": ("E509", "the parameters of this model", lambda m, p: m.log_prob({**p, "other": 1}, [[0] * 6])),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit(model: gm.Model, what: str) -> None:
    code, words, ask = REFUSED[what]
    with pytest.raises(gm.GmlmError, match=words) as caught:
        ask(model, model.init_params(0))
    assert caught.value.codes == (code,)


@pytest.fixture(scope="module")
def fitted(shared: gm.Model) -> tuple[Any, Any]:
    """A fit, and a probe of other weights."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        fit = shared.fit(np.random.default_rng(12).integers(0, 3, (8, 6)), max_steps=1, progress=False)
    with jax.enable_x64(True):
        return fit, gm.train_probe(shared, shared.init_params(0), "seen", PREFIXES, ENDS)


@pytest.mark.usefixtures("standard_promotion", "float64")
@pytest.mark.parametrize(
    ("code", "changed"), [("E509", {"weight": jnp.zeros(3)}), ("E504", {"bias": jnp.asarray(jnp.nan)}), ("E509", {"bias": jnp.zeros(2)})]
)
def test_weights_that_do_not_fit_are_not_kept(fitted: tuple[Any, Any], code: str, changed: dict) -> None:
    fit, found = fitted
    with pytest.raises(gm.GmlmError, match="the probe `seen`") as caught:
        fit.with_params({**found, "seen": dataclasses.replace(found["seen"], **changed), "lm": fit.params["lm"]})
    assert caught.value.codes == (code,)


def test_models_without_probes_have_none() -> None:
    ising = gm.parse("model m { var x[i in range(3)] : bit\n  param h\n  factor h * x[i] for i in range(3) }").model()
    with pytest.raises(gm.GmlmError) as caught:
        gm.train_probe(ising, ising.init_params(), "seen", [[0], [1]], [0, 1])
    assert caught.value.codes == ("E506",)


DEEP = (
    PROGRAM.replace("layers = 1", "layers = 2")
    .replace("range(6)", "range(4)")
    .replace("probe(lm, threshold = 0.3)", "probe(lm, layer = 1)")
)


def silenced(network: Any) -> Any:
    """The same without what its second layer adds: then its states are those of the first layer, behind the last norm."""

    def added(net: Any) -> tuple[Any, Any]:
        return net.encoder.layers[1].attention.output, net.encoder.layers[1].ffn.outer

    return eqx.tree_at(added, network, tuple(0 * a for a in added(network)))


@pytest.mark.slow
def test_a_probe_of_a_layer_reads_what_it_would_were_no_layer_behind_it(float64: None) -> None:
    model = gm.parse(DEEP).model()
    params, rows = model.init_params(3), [p for p in PREFIXES if len(p) <= 4][:120]
    quiet = {"lm": silenced(params["lm"])}
    of_layer = gm.prefix_features(model, params, rows, layer=1)
    np.testing.assert_allclose(of_layer, gm.prefix_features(model, quiet, rows), atol=1e-10)
    wanted = [loops.causal_transformer(quiet["lm"], np.array(row, int))[1][-1] for row in rows]
    np.testing.assert_allclose(of_layer, wanted, atol=1e-8)
    last = gm.prefix_features(model, params, rows)
    np.testing.assert_array_equal(last, gm.prefix_features(model, params, rows, layer=2))
    assert np.abs(last - of_layer).max() > 0.1
    ends = [int(row[-1:] == [2]) for row in rows]
    ours, theirs = gm.train_probe(model, params, "seen", rows, ends), gm.train_probe(model, quiet, "good", rows, ends)
    np.testing.assert_allclose(ours["seen"].weight, theirs["good"].weight, atol=1e-6)
    p = gm.prefix_values(model, {**quiet, "good": theirs["good"]}, "good", rows)
    np.testing.assert_array_equal(gm.prefix_values(model, ours, "seen", rows), p >= 0.5)
    with pytest.raises(gm.GmlmError, match="E409.*at most 2"):
        gm.prefix_features(model, params, rows, layer=3)
    shallow = gm.parse(PROGRAM.replace("threshold = 0.3", "layer = 2")).model()
    with pytest.raises(gm.GmlmError, match="E409.*at most 1"):
        gm.train_probe(shallow, shallow.init_params(0), "seen", rows, ends)
