"""Persistent contrastive divergence: its gradient against enumeration, its estimates, seeds, minibatches and refusals."""

from __future__ import annotations

import warnings
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from oracle import Oracle, numerical_gradient
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.fit import _clamped_rows as clamped
from gmlmdsl.fit import _contrastive as contrastive
from gmlmdsl.plan import Budget

RBM = """
model rbm {
  var    v[i in range(3)] : bit
  latent h[j in range(2)] : bit
  param a[i in range(3)]                   ~ normal(0, 1)
  param W[i in range(3), j in range(2)]    ~ normal(0, 1)
  factor a[i] * v[i]           for i in range(3)
  factor W[i, j] * v[i] * h[j] for i in range(3) for j in range(2)
}
mask all    = everything()
mask pixels = subsets(v, size = 1)
sampler alternate { update h  update v }
sampler still { update v }
"""
ISING = """
graph G = chain(3, wrap = true)
model ising {
  var x[i in G.nodes] : spin
  param h[i in G.nodes]      ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i]           for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
sampler gibbs { update x[i] for i in G.nodes }
"""
MODELS = {"rbm": RBM, "ising": ISING}


def bound(text: str) -> gm.BoundProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.GmlmWarning)
        return gm.parse(text)


def rows_of(text: str, n: int = 60) -> tuple[Oracle, np.ndarray, np.ndarray]:
    """The oracle, rows drawn from it as values, and as codes that lack latents."""
    checked = bound(text).checked
    oracle = Oracle(checked, None, {})
    p = oracle.probabilities(oracle.random_params(3))
    codes = oracle.states[np.random.default_rng(1).choice(len(p), n, p=p)].copy()
    seen = "v" if "rbm" in text else "x"
    values = oracle.decode(codes)[seen].astype(int)
    codes[:, np.setdiff1d(np.arange(oracle.n_cells), oracle.positions(seen))] = -1
    return oracle, values, codes


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("name", "batch_size", "gaps"), thinned([("rbm", None, False), ("rbm", 16, False), ("rbm", 16, True), ("ising", 16, False)], 4, 3)
)
def test_the_mean_gradient_is_the_exact_one(name: str, batch_size: int | None, gaps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """At fixed parameters, over steps whose chains go on; `gaps`: rows lack different cells, and a sum over them is too costly."""
    text = MODELS[name]
    oracle, _, codes = rows_of(text)
    if gaps:
        codes[::2, 0] = -1
        plan_sum = clamped.plan_sum
        monkeypatch.setattr(clamped, "plan_sum", lambda *a, **k: plan_sum(*a, **k, budget=Budget(row_hidden=1)))
    lowered = bound(text).model().lowered
    weights = np.random.default_rng(0).gamma(2.0, 1.0, len(codes))
    params = {k: jnp.asarray(v) for k, v in oracle.random_params(4).items()}
    method = gm.PersistentContrastiveDivergence(
        sampler=None if name == "ising" else "alternate", chains=400, sweeps=3, batch_size=batch_size, steps=256, burn_in=100
    )
    job, carry = contrastive.prepared(lowered, codes.T, weights, params, (), method, seed=5)
    assert (job.law.rows.blocks is not None) == gaps

    @eqx.filter_jit
    def step(t: jax.Array, chains: object, here: jax.Array) -> tuple[jax.Array, object, jax.Array]:
        key = jax.random.fold_in(job.key, t)
        chains = job.law.moved(params, chains, method.burn_in + 3 * t, jnp.asarray(3))
        chosen = job.law.rows.choose(jax.random.fold_in(key, 0))
        new = job.law.rows.redrawn(params, here, chosen, 2, jax.random.fold_in(key, 1))
        gradient = job.gradient(carry.free, new, chosen, chains.codes)[1]
        return gradient, chains, here if job.law.rows.blocks is None else here.at[:, chosen].set(new)

    found, chains, here = [], carry.chains, carry.codes
    for t in range(256):
        gradient, chains, here = step(jnp.asarray(t), chains, here)
        found.append(np.concatenate([np.ravel(gradient[k]) for k in params]))
    batches = np.array(found).reshape(16, 16, -1).mean(axis=1)  # neighbouring steps are correlated
    mean, error = batches.mean(axis=0), batches.std(axis=0, ddof=1) / 4

    def objective(p: dict[str, np.ndarray]) -> float:
        return float((-weights @ oracle.log_prob(p, codes) - oracle.log_prior(p)) / weights.sum())

    exact = numerical_gradient(objective, {k: np.asarray(v) for k, v in params.items()}, exact=True)
    expected = np.concatenate([np.ravel(exact[k]) for k in params])
    assert np.abs(expected).max() > 0.05
    assert (np.abs(mean - expected) < 6 * error).all()  # t with 15 degrees of freedom: 1 in 40 000 for each
    assert error.max() < 0.02


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("name", MODELS)
def test_a_fit_comes_near_the_maximum(name: str, tmp_path: Path) -> None:
    text = MODELS[name]
    oracle, values, codes = rows_of(text, 200)
    method = gm.PersistentContrastiveDivergence(sampler="gibbs" if name == "ising" else "alternate", steps=4000, optimizer=optax.adam(0.02))
    fit = bound(text).model().fit(values, method=method)
    assert fit.status.converged, fit.status
    params = {k: np.asarray(v, float) for k, v in fit.params.items()}

    def objective(p: dict[str, np.ndarray]) -> float:
        return float(-oracle.log_prob(p, codes).sum() - oracle.log_prior(p))

    np.testing.assert_allclose(fit.objective, objective(params), rtol=1e-4)
    gradient = numerical_gradient(objective, params, exact=True)
    assert max(np.abs(g).max() for g in gradient.values()) / len(codes) < 0.02
    assert fit.objective < objective(dict.fromkeys(params, np.zeros(())) | {k: np.zeros_like(v) for k, v in params.items()}) - 1
    assert "approximate" in str(fit)
    assert list(fit.summary()) == ["estimate"]
    with pytest.raises(gm.GmlmError, match="no standard errors") as caught:
        fit.standard_errors  # noqa: B018
    assert caught.value.codes == ("E543",)
    assert not hasattr(fit, "standard_errors") and not hasattr(fit, "covariance")
    with pytest.raises(gm.GmlmError) as caught:
        fit.information_criterion()
    assert caught.value.codes == ("E552",)
    fit.save(tmp_path / "a.fit")
    again = gm.load_fit(tmp_path / "a.fit")
    assert hasattr(fit, "evidence") and not hasattr(again, "evidence")
    np.testing.assert_array_equal(again.flat(again.params), fit.flat(fit.params))
    assert str(again.status) == str(fit.status)
    np.testing.assert_allclose(again.score(values).losses, -oracle.log_prob(params, codes), rtol=1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_a_seed_gives_the_fit_and_minibatches_follow_it() -> None:
    _, values, _ = rows_of(RBM)
    model = bound(RBM).model()

    def fitted(seed: int, **options: object) -> np.ndarray:
        method = gm.PersistentContrastiveDivergence("alternate", chains=8, steps=64, burn_in=4, **options)
        fit = model.fit(values, seed=seed, method=method, init=model.init_params(0))
        return fit.flat(fit.params)

    first, batches = fitted(1), fitted(1, batch_size=8)
    np.testing.assert_array_equal(first, fitted(1))
    np.testing.assert_array_equal(batches, fitted(1, batch_size=8))
    for other in (fitted(2), batches, fitted(1, average=False)):
        assert (first != other).all()


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("weighted", thinned([False, True], 2))  # another number of rows is another program
def test_fixed_parameters_and_weights(weighted: bool) -> None:
    _, values, _ = rows_of(ISING)
    method = gm.PersistentContrastiveDivergence(chains=8, steps=64, burn_in=4)
    weights = np.ones(len(values))
    weights[:20] = 0
    options = {"seed": 1, "method": method, "fixed": {"J": [0.1, 0.2, 0.3]}}
    fit = bound(ISING).model().fit(values, weights=weights, **options)
    np.testing.assert_allclose(fit.params["J"], [0.1, 0.2, 0.3], rtol=1e-6)
    if not weighted:
        return
    without = bound(ISING).model().fit(values[20:], **options)
    np.testing.assert_array_equal(fit.params["h"], without.params["h"])  # a row of weight 0 is no row


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"mask": "pixels", "method": "pcd"}, "E704", "pseudolikelihood"),
        ({"method": gm.PersistentContrastiveDivergence("still")}, "E704", "never moves"),
        ({"method": gm.PersistentContrastiveDivergence()}, "E506", "say which"),
        ({"method": gm.PersistentContrastiveDivergence("other")}, "E506", "no sampler"),
        ({"method": "pcd", "optimizer": optax.adam(0.1)}, "E704", "PersistentContrastiveDivergence\\(optimizer="),
        ({"mask": "pixels", "method": "mcem", "max_steps": 3}, "E704", "MonteCarloEM\\(rounds="),
        ({"method": "pcd", "n_masks": 3}, "E704", "n_masks"),
        ({"method": "em"}, "E506", "no method"),
        ({"mask": "pixels", "method": 3}, "E507", "method must be"),
    ],
)
def test_what_a_method_refuses(options: dict[str, object], code: str, words: str) -> None:
    _, values, _ = rows_of(RBM)
    with pytest.raises(gm.GmlmError, match=words) as caught:
        bound(RBM).model().fit(values, **options)
    assert caught.value.codes == (code,)


@pytest.mark.parametrize("options", [{"chains": 1}, {"steps": 2.5}, {"sweeps": 0}, {"batch_size": 0}, {"optimizer": 3}, {"average": 1}])
def test_options_out_of_range(options: dict[str, object]) -> None:
    with pytest.raises(gm.GmlmError) as caught:
        gm.PersistentContrastiveDivergence(**options)
    assert caught.value.codes == ("E507",)
    with pytest.raises(gm.GmlmError):
        gm.MonteCarloEM(copies=1)


@pytest.mark.slow  # a second fit; the gradient is compared above
@pytest.mark.usefixtures("standard_promotion")
def test_a_mask_that_is_everything_may_be_named() -> None:
    _, values, _ = rows_of(RBM)
    fit = bound(RBM).model().fit(values, mask="all", method=gm.PersistentContrastiveDivergence("alternate", chains=4, steps=32, burn_in=0))
    assert fit.mask == "all"


@pytest.mark.slow
def test_an_impossible_row_is_named() -> None:
    text = RBM.replace("}\nmask all", "  require h[0] == 1 or v[0] + v[1] < 2\n  require h[0] == 0 or v[0] == 0\n}\nmask all")
    values = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 1]])
    method = gm.PersistentContrastiveDivergence("alternate", chains=4, steps=32, burn_in=0)
    with pytest.raises(gm.GmlmError, match="row 1") as caught:
        bound(text).model().fit(values, method=method)
    assert caught.value.codes == ("E508",)


@pytest.mark.slow  # test_fit_status.py has fits that diverge
def test_a_learning_rate_that_is_too_large_is_said() -> None:
    _, values, _ = rows_of(ISING)
    method = gm.PersistentContrastiveDivergence(chains=4, steps=64, burn_in=0, optimizer=optax.sgd(1e30))
    fit = bound(ISING).model().fit(values, method=method)
    assert fit.status.code == "diverged"


GIVEN = """
model m {
  given z[k in range(2)] : real
  var y[i in range(3)] : bit
  param beta[k in range(2)] ~ normal(0, 1)
  factor beta[k] * z[k] * y[i] for i in range(3) for k in range(2)
}
mask whole = everything()
sampler sweep { update y[i] for i in range(3) }
"""


@pytest.mark.slow
@pytest.mark.usefixtures("float64", "standard_promotion")
def test_given_data_that_rows_have_in_common_are_held_by_the_chains():
    """The estimate of the exact likelihood, within what the chains say; data of each row make several laws, and are refused."""
    model, rng = gm.parse(GIVEN).model(), np.random.default_rng(0)
    y, z = rng.integers(0, 2, (20, 3)), rng.normal(size=(20, 2))
    exact = model.fit(y, "whole", given={"z": z[0]})
    fit = model.fit(y, given={"z": z[0]}, method=gm.PersistentContrastiveDivergence(steps=1000, chains=256))
    np.testing.assert_allclose(fit.params["beta"], exact.params["beta"], atol=0.02)
    assert fit.objective == pytest.approx(exact.objective, abs=1e-3)
    with pytest.raises(gm.GmlmError, match="these rows have given data of their own") as caught:
        model.fit(y, given={"z": z}, method="pcd")
    assert caught.value.codes == ("E704",)
