"""Priors of indicators: the distributions of graphs and of their edges beside enumeration, alone and with data."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refused
from scipy.special import betaln, gammaln
from test_spike_slab import CHAIN, chain_moments, chain_rows
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.posterior._chances import Known, chances_of
from gmlmdsl.posterior._sampled import _spiked
from gmlmdsl.sample import summary, to_arviz

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

FOUR = """
graph G = complete(range(4))
input P[G.edges] : real
model m {
  var x[i in range(4)] : spin
  param J[(i, j) in G.edges] ~ spike_slab(1, P[i, j])
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""
PAIRS = list(itertools.combinations(range(4), 2))
COUNT = 30_000
BETA, BLOCK = gm.BetaBernoulli(1.5, 2.0), gm.StochasticBlock(clusters=3, alpha=0.7, beta=1.4, concentration=0.6)


def graphs(prior: Any, certain: dict[int, bool]) -> dict[tuple[bool, ...], float]:
    """The probability of every graph of four cells, by enumeration; edges of which the program is certain do not count."""
    found = {}
    for edges in itertools.product([False, True], repeat=6):
        if any(edges[e] != v for e, v in certain.items()):
            found[edges] = 0.0
            continue
        open_ = [e for e in range(6) if e not in certain]
        if isinstance(prior, gm.BetaBernoulli):
            k = sum(edges[e] for e in open_)
            found[edges] = np.exp(betaln(prior.alpha + k, prior.beta + len(open_) - k) - betaln(prior.alpha, prior.beta))
            continue
        total, c = 0.0, prior.concentration
        for z in itertools.product(range(prior.clusters), repeat=4):
            sizes = np.bincount(z, minlength=prior.clusters)
            log = gammaln(c * prior.clusters) - gammaln(c * prior.clusters + 4) + (gammaln(c + sizes) - gammaln(c)).sum()
            for block in itertools.combinations_with_replacement(range(prior.clusters), 2):
                mine = [edges[e] for e in open_ if tuple(sorted((z[PAIRS[e][0]], z[PAIRS[e][1]]))) == block]
                log += betaln(prior.alpha + sum(mine), prior.beta + len(mine) - sum(mine)) - betaln(prior.alpha, prior.beta)
            total += np.exp(log)
        found[edges] = total
    return found


def chances(prior: Any, probabilities: np.ndarray) -> Any:
    graph = gm.parse(FOUR, P=probabilities).model().graph
    with np.errstate(divide="ignore"):
        known = Known(jnp.log(jnp.asarray(probabilities)), jnp.log1p(-jnp.asarray(probabilities)))
    return chances_of(graph, _spiked(graph), known, prior)


@pytest.mark.parametrize(
    ("prior", "certain"), thinned([(BETA, {}), (BETA, {1: True, 4: False}), (BLOCK, {}), (BLOCK, {1: True, 4: False})], 4, 1)
)
def test_graphs_have_the_probabilities_of_the_prior_before_and_after_a_gibbs_step(prior: Any, certain: dict[int, bool]) -> None:
    """Independent draws of a state and a graph; then the state given the graph, and a graph again: within five binomial errors."""
    probabilities = np.array([float(certain.get(e, 0.5)) for e in range(6)])
    law = chances(prior, probabilities)

    @jax.jit
    def both(keys: Any) -> Any:
        def one(key: Any) -> Any:
            k = jax.random.split(key, 4)
            state = law.begin(k[0])
            first = jax.random.uniform(k[1], (6,)) < jnp.exp(law.logs(state)[0])
            again = law.update(k[2], state, first)
            return first, jax.random.uniform(k[3], (6,)) < jnp.exp(law.logs(again)[0])

        return jax.vmap(one)(keys)

    expected = graphs(prior, certain)
    assert sum(expected.values()) == pytest.approx(1)
    p = np.array([expected[e] for e in itertools.product([False, True], repeat=6)])
    for drawn in both(jax.random.split(jax.random.key(7), COUNT)):
        share = np.bincount(np.asarray(drawn) @ 2 ** np.arange(5, -1, -1), minlength=64) / COUNT
        assert (np.abs(share - p) <= 5 * np.sqrt(p * (1 - p) / COUNT) + 1e-12).all()
        counts = np.bincount(np.asarray(drawn).sum(axis=1), minlength=7) / COUNT
        own = np.array([sum(v for e, v in expected.items() if sum(e) == k) for k in range(7)])
        np.testing.assert_allclose(counts, own, atol=5 * 0.5 / np.sqrt(COUNT))


@pytest.mark.slow  # a Gibbs step of clusters is above
def test_clusters_given_a_graph_are_those_of_enumeration() -> None:
    """8000 chains of 40 Gibbs passes that all start in one cluster: the share of those in which cells 0 and 1, or 0 and 3, are together."""
    edges, prior = (True, False, False, False, False, True), BLOCK  # 0 - 1 and 2 - 3
    law, exact, total = chances(prior, np.full(6, 0.5)), np.zeros((4, 4)), 0.0
    for z in itertools.product(range(3), repeat=4):
        log = (gammaln(0.6 + np.bincount(z, minlength=3)) - gammaln(0.6)).sum()
        for block in itertools.combinations_with_replacement(range(3), 2):
            mine = [edges[e] for e in range(6) if tuple(sorted((z[PAIRS[e][0]], z[PAIRS[e][1]]))) == block]
            log += betaln(0.7 + sum(mine), 1.4 + len(mine) - sum(mine)) - betaln(0.7, 1.4)
        total += np.exp(log)
        exact += np.exp(log) * (np.array(z)[:, None] == np.array(z))
    included = jnp.asarray(edges)

    @jax.jit
    def ends(keys: Any) -> Any:
        def one(key: Any) -> Any:
            state = (jnp.zeros(4, jnp.int32), jnp.full((3, 3), 0.5), jnp.log(jnp.full(3, 1 / 3)))
            return jax.lax.scan(lambda s, k: (law.update(k, s, included), None), state, jax.random.split(key, 40))[0][0]

        return jax.vmap(one)(keys)

    z = np.asarray(ends(jax.random.split(jax.random.key(3), 8000)))
    found = (z[:, :, None] == z[:, None, :]).mean(axis=0)
    np.testing.assert_allclose(found, exact / total, atol=5 * 0.5 / np.sqrt(8000))
    assert exact[0, 1] / total > exact[0, 3] / total + 0.05


def test_the_number_of_edges_is_uniform_under_the_usual_prior() -> None:
    expected = graphs(gm.BetaBernoulli(), {})
    np.testing.assert_allclose([sum(v for e, v in expected.items() if sum(e) == k) for k in range(7)], 1 / 7)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [gm.BetaBernoulli(1.0, 4.0), gm.StochasticBlock(clusters=2, alpha=1.0, beta=3.0, concentration=1.0)])
def test_posteriors_agree_with_quadrature(prior: Any) -> None:
    """The masses of the models by quadrature, times the prior of the graph by enumeration."""
    rows, moments = chain_rows(), chain_moments(chain_rows(), pi=0.5)
    ends = [(0, 1), (1, 2)]
    weights = {}
    for inside in itertools.product([False, True], repeat=2):
        if isinstance(prior, gm.BetaBernoulli):
            k = sum(inside)
            weights[inside] = np.exp(betaln(1 + k, 4 + 2 - k) - betaln(1, 4))
            continue
        weights[inside] = 0.0
        for z in itertools.product(range(2), repeat=3):
            sizes = np.bincount(z, minlength=2)
            log = gammaln(2) - gammaln(5) + gammaln(1 + sizes).sum()
            for block in ((0, 0), (0, 1), (1, 1)):
                mine = [inside[e] for e, (i, j) in enumerate(ends) if tuple(sorted((z[i], z[j]))) == block]
                log += betaln(1 + sum(mine), 3 + len(mine) - sum(mine)) - betaln(1, 3)
            weights[inside] += np.exp(log)
    mass = {k: m * weights[k] for k, m in moments.mass.items()}
    expected = np.array([sum(m for k, m in mass.items() if k[e]) for e in range(2)]) / sum(mass.values())
    idata = gm.parse(CHAIN).model().posterior(rows, draws=2000, warmup=200, seed=7, inclusion=prior)
    told = summary(idata, ["J_included"])
    assert (np.abs(told["mean"].to_numpy() - expected) < 4 * told["mcse_mean"].to_numpy()).all()
    usual = np.array([moments.probability(0), moments.probability(1)])
    assert (np.abs(expected - usual) > 0.02).any()  # the prior matters here
    assert "inclusion_prior" in idata["posterior"].attrs


FEW = {"draws": 20, "warmup": 20, "chains": 2, "seed": 1}


def four() -> tuple[Any, np.ndarray]:
    return gm.parse(FOUR, P=np.full(6, 0.5)).model(), np.random.default_rng(0).choice([-1, 1], (30, 4))


@pytest.mark.slow
def test_draws_have_the_probability() -> None:
    model, x = four()
    found = model.posterior(x, inclusion=gm.BetaBernoulli(), **FEW)["posterior"]
    assert found["J_probability"].dims == ("chain", "draw")
    assert ((found["J_probability"].values > 0) & (found["J_probability"].values < 1)).all()
    assert found.attrs["inclusion_prior"] == "BetaBernoulli(alpha=1.0, beta=1.0)"
    usual = model.posterior(x, **FEW)["posterior"]
    assert usual.attrs["inclusion_prior"] == "of the program"
    assert "J_probability" not in usual


@pytest.mark.slow
def test_draws_have_the_clusters() -> None:
    model, x = four()
    idata = model.posterior(x, inclusion=gm.StochasticBlock(clusters=3), **FEW)
    z = idata["posterior"]["cluster"]
    assert z.dims == ("chain", "draw", "cell")
    assert z.coords["cell"].values.tolist() == ["x[0]", "x[1]", "x[2]", "x[3]"]
    assert set(np.unique(z.values)) <= {0, 1, 2}
    table = gm.co_clustering(idata)
    flat = z.values.reshape(-1, 4)
    np.testing.assert_allclose(table.loc["x[0]", "x[3]"], (flat[:, 0] == flat[:, 3]).mean())
    np.testing.assert_allclose(np.diag(table), 1.0)
    np.testing.assert_allclose(sum(table.attrs["clusters"].values()), 1.0)


def test_priors_that_do_not_fit() -> None:
    model = gm.parse(FOUR, P=np.full(6, 0.5)).model()
    x = np.ones((3, 4), int)
    refused("E507", lambda: model.posterior(x, inclusion="beta"), "gm.BetaBernoulli")
    refused("E507", lambda: model.posterior(x, inclusion=gm.BetaBernoulli), "the class itself")
    refused("E507", lambda: model.posterior(x, inclusion=gm.BetaBernoulli(alpha=0)), "alpha", "above 0")
    refused("E507", lambda: model.posterior(x, inclusion=gm.StochasticBlock(clusters=0)), "clusters", "1 to 64")
    refused("E507", lambda: model.posterior(x, inclusion=gm.StochasticBlock(concentration=-1)), "concentration")
    shared = gm.parse(
        FOUR.replace("param J[(i, j) in G.edges] ~ spike_slab(1, P[i, j])", "param J ~ spike_slab(1, 0.5)").replace("J[i, j] *", "J *"),
        P=np.full(6, 0.5),
    ).model()
    refused("E507", lambda: shared.posterior(x, inclusion=gm.StochasticBlock()), "one pair of cells each", "BetaBernoulli")
    plain = gm.parse(FOUR.replace("spike_slab(1, P[i, j])", "normal(0, 1 + P[i, j])"), P=np.full(6, 0.5)).model()
    refused("E507", lambda: plain.posterior(x, inclusion=gm.BetaBernoulli()), "no parameter has any")
    named = gm.parse(
        FOUR.replace("param J[", "param cluster ~ normal(0, 1)\n  factor cluster * x[0]\n  param J["), P=np.full(6, 0.5)
    ).model()
    refused("E507", lambda: named.posterior(x, inclusion=gm.StochasticBlock()), "cluster")
    refused("E507", lambda: gm.co_clustering(to_arviz({"h": np.zeros((2, 5))}, {}, {}, {})), "no clusters")
