"""What a network lacks: the gap of its step beside the product gap, and of its conditionals to one another."""

from __future__ import annotations

import numpy as np
import pytest

import gmlmdsl as gm

EXACT = """
graph G = chain(3)
model exact {
  var x[i in G.nodes] : range(3)
  param J[a in range(3), b in range(3)]
  factor J[x[i], x[j]] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
mask pairs  = subsets(x, size = 2)
mask whole  = everything(x)
mask some   = bernoulli(x, rate = 0.5)
"""
LEARNT = """
network net = mlp(layers = 1, width = 8)
model learnt { var x[i in range(3)] : range(3)  conditional x ~ net() }
mask any = bernoulli(x, rate = uniform(0, 1))
"""


@pytest.fixture(scope="module")
def exact() -> gm.Model:
    return gm.parse(EXACT).model()


@pytest.fixture(scope="module")
def learnt() -> gm.ConditionalModel:
    return gm.parse(LEARNT).model()


@pytest.fixture(scope="module")
def couplings() -> dict[str, np.ndarray]:
    return {"J": np.random.default_rng(0).normal(size=(3, 3))}


def law(params: dict[str, np.ndarray]) -> np.ndarray:
    """p of each of the 27 configurations, as a tensor."""
    j = params["J"].astype(float)
    w = np.exp(j[:, :, None] + j[None])
    return w / w.sum()


@pytest.mark.parametrize("mask", ["single", "pairs", "whole", "some"])
def test_the_gap_of_a_step_is_the_mean_divergence(exact, learnt, couplings, mask: str):
    """Against a loop over configurations and blocks, the network's tables by `log_conditional`."""
    params, p = learnt.init_params(3), law(couplings)
    blocks = {"single": [(0,), (1,), (2,)], "pairs": [(0, 1), (0, 2), (1, 2)], "whole": [(0, 1, 2)]}
    listed = blocks["single"] + blocks["pairs"] + blocks["whole"] if mask == "some" else blocks[mask]
    chance = 1 / 8 if mask == "some" else 1 / len(listed)
    total = 0.0
    for k in listed:
        own = p / p.sum(axis=k, keepdims=True)
        for x in np.ndindex(3, 3, 3):
            table = np.asarray(learnt.log_conditional(params, np.array([x]), K=k))[0]
            total += chance * p[x] * (np.log(own[x]) - float(table[tuple(x[i] for i in k)]))
    found = gm.theory.step_gap(learnt, params, exact, couplings, mask)
    assert found.kind == "exact"
    np.testing.assert_allclose(found, total, rtol=2e-5)
    assert found > gm.theory.product_gap(exact, couplings, mask)


def test_a_network_that_holds_the_marginals_has_the_product_gap_and_no_more(exact, couplings):
    """A network that looks at nothing gives each cell a law of its own: its marginal."""
    import equinox as eqx
    import jax.numpy as jnp

    model = gm.parse(LEARNT).model()
    p, net = law(couplings), model.init_params(0)["net"]
    marginals = np.log(np.stack([p.sum(axis=tuple(a for a in range(3) if a != i)) for i in range(3)]))
    zero = eqx.tree_at(lambda n: n.layers[-1].weight, net, jnp.zeros_like(net.layers[-1].weight))
    held = eqx.tree_at(lambda n: n.layers[-1].bias, zero, jnp.asarray(marginals.ravel(), jnp.float32))
    gap = gm.theory.product_gap(exact, couplings, "whole")
    np.testing.assert_allclose(gm.theory.step_gap(model, {"net": held}, exact, couplings, "whole"), gap, atol=1e-6)
    # The marginals of any law agree with one another, whatever is seen.
    found = gm.theory.consistency_gap(model, {"net": held}, np.zeros((2, 3), int))
    np.testing.assert_allclose(found, 0.0, atol=1e-6)


def test_the_gap_of_consistency_is_a_mean_of_distances(learnt):
    """Against a loop over rows, pairs and values, by `log_conditional`."""
    params, rows = learnt.init_params(1), np.array([[0, 1, 2], [2, 2, 0]])
    distances = []
    for x in rows:
        for i in range(3):
            for j in set(range(3)) - {i}:
                both = np.exp(np.asarray(learnt.log_conditional(params, x[None], K=(i, j))))[0]
                both = both if i < j else both.T  # x_i, x_j
                mean = np.zeros(3)
                for v in range(3):
                    y = x.copy()
                    y[j] = v
                    mean += both.sum(axis=0)[v] * np.exp(np.asarray(learnt.log_conditional(params, y[None], K=(i,))))[0]
                distances.append(0.5 * np.abs(both.sum(axis=1) - mean).sum())
    found = gm.theory.consistency_gap(learnt, params, rows)
    np.testing.assert_allclose(found, np.mean(distances), rtol=1e-5)
    np.testing.assert_allclose(found.error, np.std(distances, ddof=1) / np.sqrt(len(distances)), rtol=1e-4)


@pytest.mark.produces("E743")
def test_gaps_are_refused_where_they_are_not_defined(exact, learnt, couplings):
    params = learnt.init_params(0)
    other = gm.parse(LEARNT.replace("range(3)] : range(3)", "range(4)] : range(3)")).model()
    calls = [
        (lambda: gm.theory.consistency_gap(exact, couplings, np.zeros((1, 3), int)), "E743", "has a joint distribution"),
        (lambda: gm.theory.step_gap(exact, couplings, exact, couplings, "single"), "E743", "has a joint distribution"),
        (lambda: gm.theory.step_gap(other, other.init_params(0), exact, couplings, "single"), "E743", "cells with"),
        (lambda: gm.theory.consistency_gap(learnt, params, np.zeros((200_000, 3), int)), "E601", "passes"),
    ]
    for call, code, words in calls:
        with pytest.raises(gm.GmlmError, match=words) as caught:
            call()
        assert caught.value.codes == (code,)
