"""Boltzmann learning without an option: its start, its step, what it reads at fixed parameters, and where it stops."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from oracle import Oracle, numerical_gradient

import gmlmdsl as gm
from gmlmdsl.fit import _contrastive as contrastive
from gmlmdsl.fit import _contrastive as steps
from gmlmdsl.fit._held_chains import Agreement, Sweeps, TwoPoint, look, pearson

RING = """
graph G = chain(3, wrap = true)
model ring {
  var x[i in G.nodes] : spin
  param h[i in G.nodes]      ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i]           for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask whole = everything(x)
"""
POTTS = """
input n : int
input q : int
domain value = range(q)
graph G = complete(n)
model potts {
  var x[i in G.nodes] : value
  param h[i in G.nodes, a in value]
  param J[(i, j) in G.edges, a in value, b in value] ~ normal(0, 1)
  factor h[i, x[i]]          for i in G.nodes
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
mask whole = everything(x)
"""


def parsed(text: str, **inputs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.GmlmWarning)
        return gm.parse(text, **inputs)


def ring(seed: int, rows: int, text: str = RING) -> tuple[Oracle, Any, dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """The oracle, the model, parameters, and rows of them: codes (rows, cells) and values."""
    bound = parsed(text)
    oracle = Oracle(bound.checked, None, {})
    params = oracle.random_params(seed)
    p = oracle.probabilities(params)
    codes = oracle.states[np.random.default_rng(seed).choice(len(p), rows, p=p)].copy()
    return oracle, bound.model(), params, codes, oracle.decode(codes)["x"].astype(int)


def family(rows: int, sites: int, values: int, seed: int, strength: float = 1.0) -> np.ndarray:
    """Rows of a Potts model of known parameters: normal fields, and couplings of neighbours on a ring, by Gibbs sweeps."""
    rng = np.random.default_rng(seed)
    fields, tables = 0.5 * rng.normal(size=(sites, values)), strength * rng.normal(size=(sites, values, values))
    x = rng.integers(0, values, (rows, sites))
    for _ in range(40):
        for i in range(sites):
            score = fields[i] + tables[i][:, x[:, (i + 1) % sites]].T + tables[i - 1][x[:, i - 1]]
            p = np.exp(score - score.max(axis=1, keepdims=True)).cumsum(axis=1)
            x[:, i] = (p < rng.random((rows, 1)) * p[:, -1:]).sum(axis=1)
    return x


@pytest.mark.usefixtures("float64")
def test_the_gradient_at_fixed_parameters_is_the_exact_one_within_its_error() -> None:
    oracle, model, _, codes, _ = ring(1, 40, RING.replace("normal(0, 1)", "normal(0, 0.3)"))  # a prior that counts
    elsewhere = {k: jnp.asarray(v) for k, v in oracle.random_params(2).items()}
    method = gm.PersistentContrastiveDivergence(chains=320, steps=32, burn_in=50)
    job, carry = contrastive.prepared(model.lowered, codes.T, np.ones(40), elsewhere, (), method, seed=3)
    looked = look(job.law, carry.free, carry.chains, carry.codes, None, Sweeps(50, 32, 2), 40.0)

    def objective(p: dict[str, np.ndarray]) -> float:
        return float(-oracle.log_prob(p, codes).mean() - oracle.log_prior(p) / 40)

    exact = numerical_gradient(objective, {k: np.asarray(v) for k, v in elsewhere.items()}, exact=True)
    largest = max(np.abs(g).max() for g in exact.values())
    found = looked.found
    assert abs(found.largest - largest) < 6 * found.noise  # t with 15 degrees of freedom: 1 in 40 000 for each
    assert found.moving > 1
    # 320 x 32 configurations, which are nearly independent, against 40 rows
    assert found.share == pytest.approx(np.sqrt(40 / (320 * 32)), rel=0.5)


@pytest.mark.usefixtures("float64")
def test_steps_in_pieces_are_the_steps_in_one_call() -> None:
    _, model, _, codes, _ = ring(1, 40)
    start = {k: jnp.asarray(v) for k, v in model.init_params().items()}
    method = gm.PersistentContrastiveDivergence(chains=16, steps=32, burn_in=2)
    job, carry = contrastive.prepared(model.lowered, codes.T, np.ones(40), start, (), method, seed=3)
    zero = jnp.asarray(0)
    whole = contrastive.advance(job, carry, zero, jnp.asarray(12), zero, jnp.asarray(2))
    part = contrastive.advance(job, carry, zero, jnp.asarray(5), zero, jnp.asarray(2))
    part = contrastive.advance(job, part, jnp.asarray(5), jnp.asarray(12), zero, jnp.asarray(7))
    for a, b in zip(jax.tree.leaves(whole._replace(trace=zero)), jax.tree.leaves(part._replace(trace=zero)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow  # statistical
@pytest.mark.usefixtures("float64")
def test_the_mean_step_at_the_maximum_is_0() -> None:
    """Over independent draws of the chains; with the same chains for both parts it is up to 12 of its errors."""
    oracle, model, _, codes, _ = ring(1, 4)
    params = {"h": np.array([0.6, 0.4, -0.5]), "J": np.array([0.45, -0.25, 0.35])}
    p = oracle.probabilities(params)
    free, rng = {k: jnp.asarray(v) for k, v in params.items()}, np.random.default_rng(0)
    method = gm.PersistentContrastiveDivergence(chains=128, steps=32, burn_in=1)
    weights = np.full(4, 1e12)  # so many rows that the prior does not count
    law = contrastive.prepared(model.lowered, codes.T, weights, free, (), method, seed=3)[0].law
    graph = law.rows.graph
    metric = steps.metric_of(law, free, jnp.asarray(oracle.states[rng.choice(8, 128, p=p)].T, jnp.int32))

    def statistics(codes: jax.Array, at: Any) -> Any:
        return jax.grad(lambda z: steps.log_potential(graph, z, codes).mean())(at)

    each = [statistics(jnp.asarray(s[:, None], jnp.int32), free) for s in oracle.states]
    mean = jax.tree.map(lambda *a: sum(w * v for w, v in zip(p, a, strict=True)), *each)

    @jax.jit
    def step(codes: jax.Array) -> jax.Array:
        gradient = jax.tree.map(lambda a, b: a - b, statistics(codes, free), mean)
        return ravel_pytree(steps.scaled_step(metric, law, free, codes, gradient, jnp.asarray(0.0)))[0]

    drawn = rng.choice(8, (4000, 128), p=p)
    found = np.array([step(jnp.asarray(oracle.states[d].T, jnp.int32)) for d in drawn])
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0)) < 4.5 * error).all()
    assert (error < 0.01).all()


def test_conjugate_gradients_solve_a_small_system() -> None:
    rng = np.random.default_rng(0)
    half = rng.normal(size=(4, 4))
    matrix, target = half @ half.T + 3 * np.eye(4), rng.normal(size=4)
    found = steps.conjugate_gradients(
        lambda v: jnp.asarray(matrix, v.dtype) @ v, jnp.asarray(target, jnp.zeros(()).dtype), jnp.ones(4, jnp.zeros(()).dtype)
    )
    np.testing.assert_allclose(found, np.linalg.solve(matrix, target), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("weighted", [False, True])
def test_fields_start_at_logarithms_of_frequencies(weighted: bool) -> None:
    """Without a prior, with weights and missing cells; what the user gives stays."""
    x = family(50, 3, 4, 2)
    codes = np.where(np.random.default_rng(0).random(x.shape) < 0.1, -1, x).T
    weights = np.random.default_rng(1).gamma(2.0, 1.0, 50) if weighted else np.ones(50)
    model = parsed(POTTS, n=3, q=4).model()
    start = {k: jnp.asarray(v, jnp.zeros(()).dtype) for k, v in model.init_params().items()}
    found = contrastive.independent_start(model.graph, codes, weights, start, frozenset())
    p = np.asarray(jax.nn.softmax(found["h"], axis=1))
    for i in range(3):
        seen = codes[i] >= 0
        np.testing.assert_allclose(p[i], np.bincount(codes[i, seen], weights[seen], 4) / weights[seen].sum(), atol=1e-3)
    assert not np.asarray(found["J"]).any()
    same = contrastive.independent_start(model.graph, codes, weights, start, frozenset({"h"}))
    assert same is start
    coupled = start | {"J": start["J"] + jnp.asarray(np.random.default_rng(0).normal(size=start["J"].shape), start["J"].dtype)}
    assert contrastive.independent_start(model.graph, codes, weights, coupled, frozenset({"J"})) is coupled


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_the_start_has_the_prior_of_the_fields() -> None:
    _, model, _, codes, values = ring(1, 30)
    start = {k: jnp.asarray(v, jnp.zeros(()).dtype) for k, v in model.init_params().items()}
    found = contrastive.independent_start(model.graph, codes.T, np.ones(30), start, frozenset())
    exact = model.fit(values, "whole", fixed={"J": np.zeros(3)})
    np.testing.assert_allclose(found["h"], exact.params["h"], atol=1e-3)


def test_two_point_correlations_are_those_of_pairs_of_columns() -> None:
    x = family(400, 4, 3, 1)
    model = parsed(POTTS, n=4, q=3).model()
    weights = np.random.default_rng(2).gamma(2.0, 1.0, 400)
    found = TwoPoint(model.graph, x.T, weights, 0)
    share, expected = weights / weights.sum(), []
    for i in range(4):
        for j in range(i + 1, 4):
            for a in range(3):
                for b in range(3):
                    first, second = x[:, i] == a, x[:, j] == b
                    expected.append(share @ (first & second) - (share @ first) * (share @ second))
    np.testing.assert_allclose(found.rows, expected, atol=1e-6)
    assert 0 < found.ceiling < 1


def test_cells_of_other_sizes_and_missing_cells_have_their_own_pairs() -> None:
    program = "model m {\n var x : range(2)\n var y : range(3)\n var z : range(2)\n param h\n factor h * x * y * z\n}"
    model = parsed(program).model()
    rng = np.random.default_rng(0)
    x = np.stack([rng.integers(0, q, 300) for q in (2, 3, 2)])
    lacking = np.where(rng.random(x.shape) < 0.2, -1, x)
    found = TwoPoint(model.graph, lacking, np.ones(300), 0).rows
    assert len(found) == 2 * 3 + 2 * 2 + 3 * 2
    both = (lacking[0] >= 0) & (lacking[1] >= 0)
    first, second = lacking[0, both] == 1, lacking[1, both] == 2
    assert found[5] == pytest.approx((first & second).mean() - first.mean() * second.mean(), abs=1e-6)


def test_the_noise_of_the_chains_does_not_lower_their_agreement() -> None:
    """Chains of the distribution of very many rows agree with them, but for the noise of the chains."""
    rows = family(20_000, 5, 4, 3, 0.7)
    chains = rows[np.random.default_rng(9).choice(len(rows), 800, replace=False)]
    compared = TwoPoint(parsed(POTTS, n=5, q=4).model().graph, rows.T, np.ones(len(rows)), 0)
    plain = pearson(compared.connected(compared.counts(chains.T)), compared.rows)
    found = compared.agreement(chains.T[None])
    assert plain + found.error < found.pearson
    assert abs(1 - found.pearson) < 3 * found.error
    assert found.error < 0.03
    assert compared.ceiling > 0.98


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_estimates_without_an_option_are_near_the_exact_ones() -> None:
    """Each says that it has converged, and 2 x the excess of the objective is a small share of one for each parameter."""
    excesses = []
    for seed in range(8):
        _, model, _, _, values = ring(seed, 300)
        exact = model.fit(values, "whole", progress=False)
        fit = model.fit(values, method="pcd", seed=seed, progress=False)
        assert fit.status.converged, fit.status
        excesses.append(2 * (fit.objective - exact.objective) / 6)
    # Squared distances in standard errors: up to a fifth is noise, and up to a fifth is a gradient that does not count.
    assert np.mean(excesses) < 0.15
    assert max(excesses) < 0.3


RBM = """
model rbm {
  var    v[i in range(5)] : bit
  latent h[j in range(2)] : bit
  param a[i in range(5)]                ~ normal(0, 1)
  param W[i in range(5), j in range(2)] ~ normal(0, 1)
  factor a[i] * v[i]           for i in range(5)
  factor W[i, j] * v[i] * h[j] for i in range(5) for j in range(2)
}
mask whole = everything(v)
"""
SHRUNK = RING.replace("J[(i, j) in G.edges] ~ normal(0, 1)", "J[(i, j) in G.edges] ~ laplace(0, 0.2)")
KINDS = """
domain value = bit
model kinds {
  latent z : range(2)
  var v[i in range(4)] : value
  param w[k in range(2)] : simplex
  param p[k in range(2), i in range(4), a in value] : simplex
  z ~ categorical(w)
  v[i] ~ categorical(p[z, i]) for i in range(4)
}
mask whole = everything(v)
"""
UNITS = """
model units {
  var v[i in range(4)] : spin
  param a : positive
  param b
  factor 1000 * b * v[i] * v[i + 1] for i in range(3)
  factor 0.001 * a * v[i] for i in range(4)
}
mask whole = everything(v)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("text", [RBM, SHRUNK, KINDS, UNITS], ids=["latents", "laplace", "mixture", "units"])
def test_models_of_every_kind_come_near_a_maximum_of_the_exact_objective(text: str) -> None:
    """Started at the estimate, the exact objective falls by less than half a unit for each direction that the rows determine."""
    model, rng = parsed(text).model(), np.random.default_rng(1)
    base = rng.integers(0, 2, (300, 1))
    cells = 3 if text is SHRUNK else 5 if text is RBM else 4
    bits = np.where(rng.random((300, cells)) < 0.3, rng.integers(0, 2, (300, cells)), base)
    values = bits if "bit" in text else 2 * bits - 1
    fit = model.fit(values, method="pcd", progress=False)
    assert fit.status.converged, fit.status
    exact = model.fit(values, "whole", init=fit.params, progress=False)
    assert fit.objective - exact.objective + 1e-3 >= 0
    assert fit.objective - exact.objective < 0.25 * fit.flat(fit.params).size


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
def test_more_parameters_than_rows_stop_where_correlations_agree(tmp_path: Path) -> None:
    """The status says what was reached, and draws of the model agree as it says."""
    x = family(150, 8, 4, 5)
    model = parsed(POTTS, n=8, q=4).model()
    fit = model.fit(x, method="pcd", progress=False)
    assert fit.status.code == "agrees", fit.status
    assert not fit.status.converged
    for words in (
        "Pearson correlation",
        "two halves of the rows agree to",
        "The likelihood still rises",
        "480 free parameters",
        "150 effective",
    ):
        assert words in str(fit.status)
    sweeps = parsed(POTTS + "sampler sweep { update x[i] for i in G.nodes }", n=8, q=4).model()
    draws = sweeps.sample(fit.params, draws=500, warmup=200, chains=40, seed=1, progress=False)
    compared = TwoPoint(model.graph, x.T, np.ones(150), 0)
    values = draws["posterior"]["x"].values.reshape(-1, 8)
    assert pearson(compared.connected(compared.counts(values.T)), compared.rows) > 0.94
    again = model.fit(x, method="pcd", progress=False)
    np.testing.assert_array_equal(again.flat(again.params), fit.flat(fit.params))
    fit.save(tmp_path / "potts.fit")
    loaded = gm.load_fit(tmp_path / "potts.fit")
    assert loaded.status.code == "agrees" and str(loaded.status) == str(fit.status)


@pytest.mark.slow
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("ending", ["dat", "model"])
def test_parameters_of_other_tools_are_a_start(ending: str, tmp_path: Path) -> None:
    """A file of adabmDCA or plmc whose model fits the rows: the fit ends after its first look, near that start."""
    x = family(400, 4, 3, 1, 0.6)
    model = parsed(POTTS, n=4, q=3).model()
    exact = model.fit(x, "whole", progress=False)
    path = tmp_path / f"potts.{ending}"
    if ending == "dat":
        model.export(exact.params, path)
    else:
        letters = parsed(POTTS.replace("domain value = range(q)", 'domain value = letters("ACD")').replace("input q : int\n", ""), n=4)
        letters.model().export(exact.params, path)
    found = gm.read_model(path)
    started = parsed(found.text, **found.inputs).model()
    rows = x if ending == "dat" else np.array(list("ACD"))[x]
    fit = started.fit(rows, init=found.params, method=gm.PersistentContrastiveDivergence(steps=32), progress=False)
    away = started.fit(rows, method=gm.PersistentContrastiveDivergence(steps=32), progress=False)
    best = started.log_prob(found.params, rows).mean()
    assert abs(np.mean(started.log_prob(fit.params, rows)) - best) < abs(np.mean(started.log_prob(away.params, rows)) - best) + 0.02
    assert fit.objective < away.objective + 0.5


LITTLE = [(0.94, 0.7, 500), (0.96, 0.97, 500), (0.96, 0.7, 90), (float("nan"), 0.7, 500)]


@pytest.mark.parametrize(
    ("pearson", "ceiling", "size", "expected"), [(0.96, 0.7, 500, True), (0.98, 0.97, 500, True), *((*one, False) for one in LITTLE)]
)
def test_steps_end_where_correlations_agree_as_published_or_as_halves_of_the_rows_do(
    pearson: float, ceiling: float, size: int, expected: bool
) -> None:
    assert contrastive.agrees(Agreement(pearson, 0.01, 1.0, ceiling), size, 100.0) == expected
    assert not contrastive.agrees(None, size, 100.0)


def test_the_fit_chooses_chains_by_the_number_of_parameters() -> None:
    from gmlmdsl.fit._options import FitOptions

    def chosen(sites: int, values: int, **options: Any) -> gm.PersistentContrastiveDivergence:
        model = parsed(POTTS, n=sites, q=values).model()
        fit = FitOptions("whole", method=gm.PersistentContrastiveDivergence(**options.pop("method", {})), **options)
        return contrastive.resolved(model.lowered, {}, (), fit)

    assert (chosen(3, 2).chains, chosen(3, 2).burn_in, chosen(3, 2).steps) == (256, 10, 2048)
    many = chosen(30, 21)
    assert many.chains == 16 * np.ceil(np.sqrt(30 * 21 + 435 * 441) / 16)
    assert chosen(3, 2, init={"h": np.zeros((3, 2))}).burn_in == 100
    assert chosen(3, 2, method={"chains": 7, "steps": 40, "burn_in": 1}) == gm.PersistentContrastiveDivergence(
        chains=7, steps=40, burn_in=1
    )
