"""`fit_path(criterion="elasso")`: the rule of IsingFit, beside lassos of standardised predictors and EBIC by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refused
from scipy.special import expit

import gmlmdsl as gm
from gmlmdsl.assess._path_runs import Runs, edges_of
from gmlmdsl.data import bound_rows
from gmlmdsl.fit import Evidence, FitOptions, standard_weights

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

BITS = """
input n : int = 5
graph G = complete(n)
model m {
  var x[i in range(n)] : VALUES
  param h[i in range(n)]
  param J[(i, j) in G.edges]
  factor h[i] * x[i] for i in range(n)
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""
EDGES = np.array([(i, j) for i in range(5) for j in range(i + 1, 5)])


def rows(n: int = 300) -> np.ndarray:
    """Bits of quite different frequencies, by a chain of logistic regressions."""
    rng = np.random.default_rng(8)
    x = np.zeros((n, 5), int)
    for i, h in enumerate((0.0, -2.0, 1.0, -1.5, 0.3)):
        x[:, i] = rng.random(n) < expit(h + (1.6 * x[:, i - 1] if i else 0.0))
    return x


def lasso(x: np.ndarray, y: np.ndarray, penalties: np.ndarray) -> tuple[float, np.ndarray]:
    """Intercept and slopes at the minimum of the mean loss plus penalties times |slopes|, by proximal gradients."""
    beta, a, step = np.zeros(x.shape[1]), 0.0, 4.0 / (1 + x.shape[1])
    for _ in range(40_000):
        left = expit(a + x @ beta) - y
        a -= step * left.mean()
        z, old = beta - step * x.T @ left / len(y), beta
        beta = np.sign(z) * np.maximum(np.abs(z) - step * penalties, 0.0)
        if max(np.abs(beta - old).max(), abs(left.mean())) < 1e-12:
            break
    return a, beta


@pytest.fixture(scope="module")
def model() -> Any:
    return gm.parse(BITS.replace("VALUES", "bit")).model()


@pytest.mark.slow
def test_choices_and_weights_are_those_of_penalised_regressions_by_hand(model: Any) -> None:
    """Penalties in standard deviations, EBIC of the penalised loss, AND, and the means of both slopes."""
    x, n, gamma = rows(), 300, 0.25
    found = model.fit_path(x, criterion="elasso", penalty=8)
    table, slopes = found.table, np.zeros((5, 5))
    for i in range(5):
        own = table[table["block"] == f"x[{i}]"]
        others = [k for k in range(5) if k != i]
        sd = x[:, others].std(axis=0)
        ebic, fits = [], []
        for penalty in own["penalty"]:
            a, beta = lasso(x[:, others].astype(float), x[:, i], penalty * sd / np.sqrt((sd**2).mean()))
            loss = -np.where(x[:, i] == 1, np.log(expit(a + x[:, others] @ beta)), np.log(expit(-a - x[:, others] @ beta))).sum()
            ebic.append(2 * loss + (beta != 0).sum() * (np.log(n) + 2 * gamma * np.log(4)))
            fits.append(beta)
        np.testing.assert_array_equal(own["couplings"], [(b != 0).sum() for b in fits])
        np.testing.assert_allclose(own["ebic"], ebic, rtol=1e-6)
        best = int(np.argmin(ebic))
        assert own["chosen"].tolist() == [k == best for k in range(8)]
        slopes[i, others] = fits[best]
    both = (slopes != 0) & (slopes.T != 0)
    mean = np.where(both, (slopes + slopes.T) / 2, 0.0)
    assert 0 < both.sum() < (slopes != 0).sum()  # the rule leaves some out
    np.testing.assert_allclose(found.params[0]["J"], mean[EDGES[:, 0], EDGES[:, 1]], atol=1e-5)
    np.testing.assert_allclose(found.network(gauge=None).to_matrix(), mean, atol=1e-5)
    assert set(found.chosen_couplings) == {f"x[{i}] - x[{j}]" for i, j in EDGES if both[i, j]}
    assert (found.criterion, found.rule) == ("elasso", "and")
    either = model.fit_path(x, criterion="elasso", penalty=8, rule="or")
    np.testing.assert_allclose(either.params[0]["J"], ((slopes + slopes.T) / 2)[EDGES[:, 0], EDGES[:, 1]], atol=1e-5)


@pytest.mark.slow
def test_the_choice_does_not_depend_on_how_bits_are_coded(model: Any) -> None:
    x = rows()
    spins = gm.parse(BITS.replace("VALUES", "spin")).model()
    a, b = (m.fit_path(r, criterion="elasso", penalty=8) for m, r in ((model, x), (spins, 2 * x - 1)))
    assert a.chosen_couplings == b.chosen_couplings
    np.testing.assert_allclose(b.params[0]["J"], a.params[0]["J"] / 4, atol=1e-5)
    np.testing.assert_allclose(a.table["ebic"], b.table["ebic"], rtol=1e-6)


@pytest.mark.slow
def test_weights_of_groups_are_profiled_curvatures() -> None:
    """Of letters, whose fields are over-parametrised: beside the Schur complement of a Hessian by differences."""
    text = """
domain abc = letters("abc")
model m {
  var x : abc
  var y : abc
  var s : spin
  param h[a in abc]
  param J[a in abc, b in abc]
  param t[a in abc]
  factor h[x]
  factor J[x, y]
  factor t[x] * s
}
mask first = blocks({x})
"""
    lowered = gm.parse(text).model()
    rng = np.random.default_rng(2)
    x = {"x": rng.integers(0, 3, 60), "y": rng.choice([0, 0, 1, 2], 60), "s": rng.choice([-1, 1, 1], 60)}
    bound, data = bound_rows(lowered.lowered, x, None, None)
    _, mask = lowered._mask("first", bound)
    run = Runs(Evidence(bound, mask, data.codes, FitOptions("first")), edges_of(bound.graph, None), np.ones(60), "and")
    found = standard_weights(run.whole, run.uncoupled.free, run.edges.groups)
    order = [p.name for p in bound.graph.parameters]
    features = {"h": np.eye(3), "J": None, "t": None}
    p = np.bincount(data.codes[0], minlength=3) / 60
    design = []  # d score(a) / d theta for each row, shape (rows, 3, entries)
    for name in order:
        for e in np.ndindex(*bound.graph.parameters[order.index(name)].shape):
            d = np.zeros((60, 3))
            if name == "h":
                d[:, e[0]] = features["h"][e[0], e[0]]
            elif name == "J":
                d[:, e[0]] = data.codes[1] == e[1]
            else:
                d[:, e[0]] = 2.0 * data.codes[2] - 1
            design.append(d)
    design = np.stack(design, axis=2)
    hessian = np.einsum("a,rai,raj->ij", p, design, design) / 60
    hessian -= np.einsum("ri,rj->ij", np.einsum("a,rai->ri", p, design), np.einsum("a,rai->ri", p, design)) / 60
    of = np.concatenate([run.edges.groups.of[n].ravel() for n in order])
    u = of < 0
    left = hessian - hessian[:, u] @ np.linalg.pinv(hessian[np.ix_(u, u)], hermitian=True) @ hessian[u]
    mean = np.array([np.diag(left)[of == g].mean() for g in range(of.max() + 1)])
    np.testing.assert_allclose(found[0], np.sqrt(mean / mean.mean()) * run.edges.groups.weights, rtol=1e-6)
    assert not np.isclose(*mean)


def test_networks_of_paths(model: Any) -> None:
    found = model.fit_path(rows(), penalty=[0.05, 0.02], gamma=0.0)
    for row in (0, 1):
        table = found.network(row, "norm", None)
        np.testing.assert_allclose(np.sort(table["value"]), np.sort(np.abs(found.params[row]["J"][found.selected[row]])), rtol=1e-9)
    assert len(found.network()) == len(found.chosen_couplings)
    refused("E507", lambda: found.network(2), "0 to 1")
    refused("E507", lambda: found.network(score="strength"), "'norm'")
    refused("E507", lambda: model.fit_path(rows(), criterion="elasso", gamma=-1), "gamma", "0 or more")
    refused("E507", lambda: model.fit_path(rows(), criterion="isingfit"), "'elasso'")


@pytest.mark.slow
def test_a_question_that_nobody_answers_otherwise_has_no_edge(model: Any) -> None:
    x = rows()
    x[:, 2] = 1
    text = BITS.replace("VALUES", "bit").replace("param h[i in range(n)]", "param h[i in range(n)] ~ normal(0, 3)")
    found = gm.parse(text).model().fit_path(x, criterion="elasso", penalty=6)
    assert found.chosen_couplings
    assert not any("x[2]" in name for name in found.chosen_couplings)
