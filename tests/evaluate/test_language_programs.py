"""Models by functions, reuse, ragged axes, parts of graphs and counts: numbers against sums that are written out here."""

from __future__ import annotations

import itertools
import math

import jax
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from oracle import Oracle
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.evaluate import log_prior
from gmlmdsl.explain import explain

pytestmark = [pytest.mark.usefixtures("float64", "standard_promotion"), pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning")]
SPINS = np.array(list(itertools.product([-1, 1], repeat=6)))

GRAPHS = """
input pairs[e, 2] : int
input n : int
graph G = edges(pairs, nodes = range(n))
input w[(i, j) in G.edges] : real
index core = i in G.nodes if G.degree(i) >= 2
model net {
  var x[i in G.nodes] : spin
  param J, T
  param h[i in core]
  param t[(i, j, k) in G.triangles]
  factor J * w[i, j] * x[i] * x[j] for (i, j) in G.edges
  factor (T + t[k, i, j]) * x[i] * x[j] * x[k] for (i, j, k) in G.triangles
  factor if sum(x[j] for j in G.neighbours(i)) > 2 then 0.5 for i in core
  factor h[i] * x[i] * max(x[j] for j in range(i, n)) for i in core
  mask inner = blocks({x[j] for j in G.nodes if abs(i - j) <= 1} for i in core)
}
mask around = blocks({x[j] for j in G.neighbours(i)} for i in G.nodes)
mask some = mixture { 1 / k : subsets(x, size = k) for k in range(1, 3) }
sampler walk { update x by around  repeat s in range(3) { update x[i] for i in G.nodes if i % 3 == s } }
"""
PAIRS = [(2, 0), (0, 1), (1, 2), (2, 3), (3, 4), (4, 2), (4, 5)]


def conditional(log_p: np.ndarray, cells: list[int]) -> np.ndarray:
    """log p(x_K | x_rest) of each configuration."""
    rest = np.delete(SPINS, cells, axis=1)
    return np.array([log_p[r] - np.log(np.exp(log_p[(rest == rest[r]).all(axis=1)]).sum()) for r in range(len(SPINS))])


@pytest.mark.slow
def test_parts_of_graphs_by_enumeration():
    rng = np.random.default_rng(0)
    w = rng.normal(size=7)
    model = gm.parse(GRAPHS, pairs=np.array(PAIRS), n=6, w=w).model()
    edges = {tuple(sorted(p)) for p in PAIRS}
    near = [[j for j in range(6) if tuple(sorted((i, j))) in edges] for i in range(6)]
    core = [i for i in range(6) if len(near[i]) >= 2]
    triangles = [t for t in itertools.combinations(range(6), 3) if all(p in edges for p in itertools.combinations(t, 2))]
    params = {"J": 0.3, "T": -0.2, "h": rng.normal(size=len(core)), "t": rng.normal(size=len(triangles))}
    log_p = []
    for x in SPINS:
        total = sum(0.3 * w[k] * x[a] * x[b] for k, (a, b) in enumerate(PAIRS))
        total += sum((-0.2 + params["t"][k]) * x[a] * x[b] * x[c] for k, (a, b, c) in enumerate(triangles))
        for k, i in enumerate(core):
            total += 0.5 * (sum(x[j] for j in near[i]) > 2) + params["h"][k] * x[i] * max(x[i:])
        log_p.append(total)
    log_p = np.array(log_p)
    np.testing.assert_allclose(model.log_potential(params, SPINS), log_p, atol=1e-9)
    log_p = log_p - np.log(np.exp(log_p).sum())
    np.testing.assert_allclose(model.marginals(params)["x"][:, 1], (np.exp(log_p)[:, None] * (SPINS > 0)).sum(axis=0), atol=1e-9)
    around = sorted({tuple(n) for n in near})
    inner = [[j for j in range(6) if abs(i - j) <= 1] for i in core]
    for mask, blocks in (("around", around), ("inner", inner)):
        wanted = -np.mean([conditional(log_p, list(k)).mean() for k in blocks])
        assert abs(float(model.loss(params, SPINS, mask=mask)) - wanted) < 1e-9
    sizes = [-np.mean([conditional(log_p, list(k)).mean() for k in itertools.combinations(range(6), s)]) for s in (1, 2)]
    assert abs(float(model.loss(params, SPINS, mask="some")) - (2 * sizes[0] + sizes[1]) / 3) < 1e-9
    law = np.exp(log_p)
    np.testing.assert_allclose(law @ model.transition_matrix(params, sampler="walk"), law, atol=1e-12)


def test_a_block_without_a_cell_is_refused_where_it_stands():
    program = gm.parse(GRAPHS, pairs=np.array(PAIRS[:-2]), n=6, w=np.zeros(5))
    with pytest.raises(gm.GmlmError, match="no cell where `i` is 5"):
        program.model().loss({"J": 0.0, "T": 0.0, "h": np.zeros(4), "t": np.zeros(1)}, SPINS, mask="around")


SHARED = """
input n : int = 6
index site = range(n)
function energy(h, J, x, y) = h * x + J * x * y
function field(h, i) = h[i]
param beta : positive ~ half_normal(1)
model ising {
  var   x[i in site] : spin
  param h[i in site] ~ normal(0, 1)
  factor beta * energy(field(h, i), 1, x[i], x[(i + 1) % n]) for i in site
}
model two {
  use ising as a
  use ising as b with x = a.x
  latent k : bit
  mixture k { 0 : a  1 : b }
}
mask all for two = everything(a.x)
"""


def test_a_mixture_of_normalised_models():
    program = gm.parse(SHARED)
    model, rng = program.model("two"), np.random.default_rng(1)
    params = {"beta": 0.7, "a.h": rng.normal(size=6), "b.h": rng.normal(size=6)}

    def law(h: np.ndarray) -> np.ndarray:
        energy = 0.7 * (SPINS @ h + (SPINS * np.roll(SPINS, -1, axis=1)).sum(axis=1))
        return energy - np.log(np.exp(energy).sum())

    one, other = law(params["a.h"]), law(params["b.h"])
    wanted = np.logaddexp(one, other) - math.log(2)
    np.testing.assert_allclose(model.log_prob(params, {"a.x": SPINS}), wanted, atol=1e-9)
    np.testing.assert_allclose(model.log_prob(params, {"a.x": SPINS, "k": np.ones(64, int)}), other - math.log(2), atol=1e-9)
    assert abs(float(model.loss(params, {"a.x": SPINS}, mask="all")) + wanted.mean()) < 1e-9
    np.testing.assert_allclose(model.marginals(params)["k"], [0.5, 0.5], atol=1e-9)
    assert [p.name for p in program.model("ising").graph.parameters] == ["beta", "h"]


def test_a_mixture_of_models_that_say_nothing_is_uniform():
    silent = SHARED.replace("  factor beta * energy(field(h, i), 1, x[i], x[(i + 1) % n]) for i in site\n", "")
    model = gm.parse(silent).model("two")
    np.testing.assert_allclose(model.log_prob({"a.h": np.zeros(6), "b.h": np.zeros(6)}, {"a.x": SPINS}), -6 * math.log(2), atol=1e-9)


PANEL = """
input persons : int
input visits[m] : int
index person = range(persons)
model panel {
  given age[p in person] : real
  var y[p in person, t in range(visits[p])] : range(4)
  param mu ~ normal(0, 2)
  param tau : positive ~ half_normal(1)
  param a[p in person] ~ normal(mu, tau)
  param b ~ normal(0, 1)
  param cut[k in range(3)] : ordered ~ normal(0, 2)
  y[p, t] ~ ordered_logistic(a[p] + b * age[p], cut) for p in person for t in range(visits[p])
}
mask all = everything(y)
mask rows = blocks({y[p, t] for t in range(visits[p])} for p in person)
"""


def test_ragged_rows_as_lists_and_padded():
    model, rng = gm.parse(PANEL, persons=3, visits=[2, 1, 3]).model(), np.random.default_rng(2)
    params = {"mu": 0.1, "tau": 0.8, "a": rng.normal(size=3), "b": 0.5, "cut": np.array([-1.0, 0.0, 1.2])}
    age, y = rng.normal(size=3), [[0, 3], [2], [1, 1, 3]]
    cut = np.array([-np.inf, -1.0, 0.0, 1.2, np.inf])
    at = [params["a"][p] + 0.5 * age[p] for p in range(3)]
    terms = [np.log(np.diff(scipy.stats.logistic.cdf(cut - at[p]))[v]) for p in range(3) for v in y[p]]
    padded = np.full((3, 3), -1)
    for p, row in enumerate(y):
        padded[p, : len(row)] = row
    given = {"age": age}
    assert abs(float(model.log_prob(params, y, given=given)) - sum(terms)) < 1e-9
    assert abs(float(model.log_prob(params, padded, missing=-1, given=given)) - sum(terms)) < 1e-9
    np.testing.assert_allclose(model.log_prob(params, [y, y], given=given), [sum(terms)] * 2, atol=1e-9)
    padded[0, 1] = -1
    assert abs(float(model.log_prob(params, padded, missing=-1, given=given)) - (sum(terms) - terms[1])) < 1e-9
    assert abs(float(model.loss(params, [y], mask="rows", given=given)) + sum(terms) / 3) < 1e-9
    with pytest.raises(gm.GmlmError, match="row 0 has 1 entries"):
        model.log_prob(params, [[0], [2], [1, 1, 3]], given=given)
    with pytest.raises(gm.GmlmError, match="holds 2 behind the end of a row"):
        model.log_prob(params, np.where(padded < 0, 2, padded), missing=-1, given=given)


@pytest.mark.slow
def test_a_spread_that_is_fitted_is_refused_and_drawn_elsewhere():
    from numpyro.infer.util import log_density

    model = gm.parse(PANEL, persons=2, visits=[2, 1]).model()
    y, given = [[[0, 3], [2]]], {"age": np.array([0.3, -0.2])}
    with pytest.raises(gm.GmlmError) as caught:
        model.fit(y, mask="all", given=given, seed=0)
    assert caught.value.codes == ("E708",)
    held = model.fit(y * 9, mask="all", given=given, fixed={"tau": 0.8}, seed=0)
    assert (np.diff(held.params["cut"]) > 0).all()
    params = {"mu": 0.1, "tau": 0.8, "a": np.array([0.2, -0.3]), "b": 0.5, "cut": np.array([-1.0, 0.0, 1.2])}
    found, _ = log_density(
        model.to_numpyro(y, mask="all", given=given, calibrate=None), (), {}, {k: np.asarray(v) for k, v in params.items()}
    )
    norm = scipy.stats.norm.logpdf
    prior = norm(0.1, 0, 2) + math.log(2) + norm(0.8) + norm(params["a"], 0.1, 0.8).sum() + norm(0.5) + norm(params["cut"], 0, 2).sum()
    assert abs(float(found) - prior - float(model.log_prob(params, y[0], given=given))) < 1e-8


GROUPS = """
model m {
  var x[g in range(3)] : bit
  param mu    ~ normal(0, 1)
  param tau   : positive ~ half_normal(1)
  param a[g in range(3)] ~ normal(mu, tau)
  x[g] ~ bernoulli(logit = a[g]) for g in range(3)
}
mask whole = everything(x)
"""


@pytest.mark.slow  # statistical
@pytest.mark.filterwarnings("ignore:.* diverged:gmlmdsl.SamplingWarning")  # near a spread of 0
def test_the_posterior_of_a_mean_and_a_spread_is_that_of_quadrature():
    """Groups of Bernoulli trials, their log odds summed out by Gauss and Hermite's rule on a grid of mean and spread."""
    counts, rows = np.array([2, 6, 10]), 12
    x = (np.arange(rows)[:, None] < counts).astype(int)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    mu, tau = np.meshgrid(np.linspace(-3, 3, 121), np.linspace(0.01, 4, 200), indexing="ij")
    log_p = scipy.stats.norm.logpdf(mu) + scipy.stats.halfnorm.logpdf(tau)
    for count in counts:
        odds = mu[..., None] + tau[..., None] * nodes
        log_p += np.log((np.exp(count * odds - rows * np.logaddexp(0, odds)) * weights).sum(axis=-1))
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    found = gm.parse(GROUPS).model().posterior(x, draws=2000, chains=2, warmup=500, seed=3).posterior
    for name, grid in (("mu", mu), ("tau", tau)):
        mean = float((p * grid).sum())
        sd = float(np.sqrt((p * (grid - mean) ** 2).sum()))
        drawn = np.asarray(found[name]).ravel()
        assert drawn.mean() == pytest.approx(mean, abs=0.15 * sd)  # four standard errors of some 700 independent draws
        assert drawn.std() == pytest.approx(sd, rel=0.2)


@pytest.mark.parametrize(
    ("spread", "refused"), [("param s", "-3.89"), ("param s : real(lower = -0.4, upper = 2)", "-0.352"), ("param s : positive", "")]
)
def test_a_spread_that_may_be_below_0_is_refused(spread: str, refused: str):
    text = "model m {{ var x : bit  {}  param h ~ normal(0, {})  factor h * x }}"
    for argument in ("s", "s + s"):
        if not refused:
            gm.parse(text.format(spread, argument)).model()
            continue
        with pytest.raises(gm.GmlmError, match="`sd` of `normal` is above 0, and this can be -") as caught:
            gm.parse(text.format(spread, argument)).model()
        assert caught.value.codes == ("E404",) and (refused in str(caught.value) or argument != "s")
    for fine in ("exp(s)", "s * s", "abs(s)"):
        gm.parse(text.format(spread, fine)).model()


@pytest.mark.slow  # a fit more
def test_a_random_walk_of_parameters_is_fitted_to_its_joint_mode():
    text = """
    index t = range(5)
    model m {
      var y[i in t] : bit
      param mu ~ normal(0, 1)
      param h[i in t]
      h[0] ~ normal(mu, 1)
      h[i] ~ normal(h[i - 1], 0.5) for i in t if i > 0
      y[i] ~ bernoulli(logit = h[i]) for i in t
    }
    mask all = everything(y)
    """
    y = (np.random.default_rng(3).random((30, 5)) < 0.6).astype(int)
    fit = gm.parse(text).model().fit(y, mask="all", seed=0)

    def objective(v: np.ndarray) -> float:
        norm, h = scipy.stats.norm.logpdf, v[1:]
        prior = norm(v[0]) + norm(h[0], v[0], 1) + norm(h[1:], h[:-1], 0.5).sum()
        return -prior - (y * h - np.log1p(np.exp(h))).sum()

    best = scipy.optimize.minimize(objective, np.zeros(6), tol=1e-12).x
    np.testing.assert_allclose([fit.params["mu"], *fit.params["h"]], best, atol=1e-5)


def test_latin_squares_are_counted():
    text = """
    model square {
      var s[r in range(3), c in range(3)] : range(3)
      require all_different(s[r, c] for c in range(3)) for r in range(3)
      require all_different(s[r, c] for r in range(3)) for c in range(3)
    }
    """
    assert abs(float(gm.parse(text).model().log_partition({})) - math.log(12)) < 1e-9


def test_reductions_by_enumeration():
    text = """
    model m {
      var x[i in range(4)] : bit
      param a[i in range(4)]
      factor 0.3 * count(x[i] == 1 for i in range(4) if i > 0)
      factor logsumexp(a[i] * x[i] for i in range(4))
      require any(x[i] == 1 for i in range(2), j in range(1, 3) if i + j < 4) or all(x[i] == 0 for i in range(4))
    }
    """
    params, states = {"a": np.array([0.1, -0.4, 0.3, 0.8])}, np.array(list(itertools.product(range(2), repeat=4)))
    wanted = 0.3 * states[:, 1:].sum(axis=1) + np.logaddexp.reduce(params["a"] * states, axis=1)
    good = states[:, :2].any(axis=1) | ~states.any(axis=1)
    found = np.asarray(gm.parse(text).model().log_potential(params, states))
    np.testing.assert_allclose(found, np.where(good, wanted, -np.inf), atol=1e-9)


COUNTS = {
    "three colours of a grid": (
        "graph G = grid(3, 3)  model m { var x[i in G.nodes] : range(3)  require x[i] != x[j] for (i, j) in G.edges }",
        246,
    ),
    "five queens": (
        "index r = range(5)  model m { var c[i in r] : range(5)  require all_different(c[i] for i in r)"
        "  require all_different(c[i] + i for i in r)  require all_different(c[i] - i for i in r) }",
        10,
    ),
    "pairs out of five": (
        "index v = range(5)  graph G = complete(v)  model m { var y[(i, j) in G.edges] : bit"
        "  require sum(y[i, j] for j in G.neighbours(i)) <= 1 for i in v }",
        26,
    ),
    "a stochastic block model": (
        "index v = range(4)  model m { latent z[i in v] : bit ~ bernoulli(0.3)  var a[i in v, j in v] : bit"
        "  a[i, j] ~ bernoulli(logit = if z[i] == z[j] then 1 else -1) for i in v, j in v if i != j  require a[i, i] == 0 for i in v }",
        1,
    ),
}


@pytest.mark.parametrize("name", COUNTS)
def test_sums_that_are_known(name: str):
    text, total = COUNTS[name]
    assert abs(float(gm.parse(text).model().log_partition({})) - math.log(total)) < 1e-9


@pytest.mark.parametrize("concentration", ["s", "[s, 2 * s, 1]"])
def test_a_dirichlet_whose_concentration_is_a_parameter_is_one_of_each_row(concentration: str):
    text = f"model m {{ var x : range(3) param s : positive param p[i in range(2), a in range(3)] : simplex ~ dirichlet({concentration})"
    graph = gm.parse(text + "  factor s * log(p[0, x]) + p[1, x] }").model().graph
    rows, a = np.array([[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]]), np.array([1.7, 3.4, 1.0] if "," in concentration else [1.7] * 3)
    wanted = sum(math.lgamma(a.sum()) + sum((a - 1) * np.log(row)) - sum(map(math.lgamma, a)) for row in rows)
    np.testing.assert_allclose(log_prior(graph, {"s": np.asarray(1.7), "p": rows}), wanted, atol=1e-12)


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ("let u[k in range(4)] = if k < y then w[k] else w[k] - 1\n  factor log(u[y] - u[y + 1])", lambda w, y: w[y] - 1 - (w[y + 1] - 1)),
        ("let a = w[y]\n  let b = w[y + 1]\n  factor log(a - b)", lambda w, y: w[y] - w[y + 1]),
        ("let v = w[0] * y\n  let t = w[0] * y + 1\n  factor log(t - v) * (1 + y)", lambda w, y: 1.0),
        ("let u[k in range(5)] = w[0] * (y - k)\n  factor log(u[y] - u[y + 1])", lambda w, y: w[0]),
    ],
)
def test_a_cell_that_is_used_twice_has_one_value(body: str, at: object):
    model = gm.parse(f"model m {{\n  var y : range(3)\n  param w[k in range(4)]\n  {body}\n}}\n").model()
    w = np.array([4.0, 2.5, 2.0, 1.0])
    wanted = math.log(sum(at(w, y) for y in range(3)))  # type: ignore[operator]
    assert abs(float(model.log_partition({"w": w})) - wanted) < 1e-9


def test_an_input_over_edges_is_read_by_pairs():
    text = "graph G = chain(3)\ninput W[G.edges] : real\nmodel m {\n  var x[i in G.nodes] : spin\n"
    model = gm.parse(text + "  factor W[i, j] * x[i] * x[j] for (i, j) in G.edges\n}\n", W=np.array([0.4, -0.7])).model()
    wanted = 3 * math.log(2) + math.log(math.cosh(0.4)) + math.log(math.cosh(0.7))
    assert abs(float(model.log_partition({})) - wanted) < 1e-9


@pytest.mark.parametrize(
    ("lattice", "edges", "triangles"),
    [
        ("triangular(2, 3)", 9, 4),
        ("triangular(3, 3)", 16, 8),
        ("triangular(3, 3, wrap = true)", 27, None),
        ("triangular(range(2), 2, wrap = true)", 6, 4),
        ("grid(2, 2, 3)", 20, 0),
        ("grid(2, range(2), 2, 2)", 32, 0),
        ("grid(2, 2, M)", 20, 0),
        ("grid(2, 2, 3, wrap = true)", 24, 4),
        ("grid(3, 3, wrap = true)", 18, 6),
    ],
)
def test_lattices(lattice: str, edges: int, triangles: int | None):
    text = f"input M : int = 3\ngraph G = {lattice}\nmodel m {{\n  var x[i in G.nodes] : spin\n  param J[e in range(1)]\n"
    text += "  factor J[0] * x[i] * x[j] for (i, j) in G.edges\n  factor 0.1 * x[i] * x[j] * x[k] for (i, j, k) in G.triangles\n}\n"
    program = gm.parse(text)
    model, oracle = program.model(), Oracle(program.checked, "m", {})
    params = {"J": np.array([-0.4])}
    assert abs(float(model.log_partition(params)) - oracle.log_partition(params)) < 1e-9
    everywhere = np.ones(model.graph.n_random, int)
    wanted = edges * -0.4 + 0.1 * triangles if triangles is not None else None
    if wanted is not None:
        assert abs(float(model.log_potential(params, everywhere)) - wanted) < 1e-9
    assert len(program.bound.graphs["G"].edges) == edges


SHORT = """
index s = range(3)
input rungs[rung] : real
model m {
  var x[i in s] : spin
  param h
  let  more = [0, 1, 3, 6][count(x[i] == 1 for i in s)]
  factor h * ([0.1, 0.5, -0.3][i]) * x[i] for i in s
  factor ([[0.2, -0.4], [0.7, 0]][bit(x[0]), bit(x[1])]) + more / 5
  factor 0.8 * x[1] * x[2]
}
sampler rows { mixture { 1 / k : update x[K] where K ~ subsets(x, size = k) for k in range(1, 3)  0.3 : update x by everything(x) } }
sampler written { mixture { 1 : update x by subsets(x, size = 1)  1 / 2 : update x by subsets(x, size = 2)  0.3 : update x by everything(x) } }
sampler ladder { temper(betas = rungs) { update x[i] for i in s } }
sampler listed { temper(betas = [0.3, 1]) { update x[i] for i in s } }
sampler joined { update x[K] where K ~ cluster({x[1], x[2]}) }
sampler bonds  { update x[K] where K ~ percolation({x[1], x[2]}) }
"""


def test_lists_with_indices_are_tables():
    model, params = gm.parse(SHORT, rungs=[0.3, 1]).model(), {"h": 0.7}
    states = np.array(list(itertools.product((-1, 1), repeat=3)))
    on, pairs = (states == 1).astype(int), np.array([[0.2, -0.4], [0.7, 0]])
    wanted = 0.7 * states @ np.array([0.1, 0.5, -0.3]) + pairs[on[:, 0], on[:, 1]] + 0.8 * states[:, 1] * states[:, 2]
    wanted += np.array([0, 1, 3, 6])[on.sum(axis=1)] / 5
    np.testing.assert_allclose(model.log_potential(params, states), wanted, rtol=1e-12)


def test_rows_of_a_mixture_of_kernels_run_over_a_loop():
    model, params = gm.parse(SHORT, rungs=[0.3, 1]).model(), {"h": 0.7}
    np.testing.assert_allclose(
        model.transition_matrix(params, sampler="rows"), model.transition_matrix(params, sampler="written"), atol=1e-14
    )


def test_explain_says_which_turn_of_a_loop_an_update_is():
    program = gm.parse(SHORT, rungs=[0.3, 1])
    shown = " ".join(explain(program.checked, program.bound).split())
    assert "size = k)`, k = 2" in shown
    assert "scaled by rungs" in shown


@pytest.mark.filterwarnings("ignore::gmlmdsl.sample._draw.SamplingWarning")
@pytest.mark.parametrize(("one", "other"), thinned([("ladder", "listed"), ("joined", "bonds")], 2))
def test_an_input_lists_betas_and_clusters_have_two_names(one: str, other: str):
    model, params = gm.parse(SHORT, rungs=[0.3, 1]).model(), {"h": 0.7}
    first, second = (model.sample(params, name, draws=400, chains=4, seed=4, progress=False) for name in (one, other))
    np.testing.assert_array_equal(first.posterior["x"], second.posterior["x"])


@pytest.mark.parametrize(("rungs", "code"), [([0.3, 0.5], "E421"), ([], "E421"), ([1, 1], "E421"), ([[1.0]], "E403")])
def test_betas_of_an_input_are_verified(rungs: list, code: str):
    with pytest.raises(gm.GmlmError) as caught:
        gm.parse(SHORT, rungs=np.array(rungs, float)).model().sample({"h": 0.7}, "ladder", progress=False)
    assert code in caught.value.codes


@pytest.mark.slow
def test_losses_of_blocks_of_many_counted_cells():
    """-log p by the elementary symmetric polynomials of exp(h), over the block: what it holds of the count is known."""
    text = "index s = range(24)\nmodel m {\n  var x[i in s] : bit\n  param h[i in s]\n  factor h[i] * x[i] for i in s\n"
    text += "  require count(x[i] == 1 for i in s) == 9\n}\nmask all = everything(x)\n"
    text += "mask parts = blocks({x[i] for i in s if i < 14}, {x[i] for i in s if i >= 8})\n"
    model, h = gm.parse(text).model(), np.linspace(-1, 1.5, 24)
    x = np.zeros((2, 24), int)
    x[0, :9], x[1, 3:21:2] = 1, 1

    def log_p(cells: slice, row: np.ndarray) -> float:
        sums = np.zeros(25)
        sums[0] = 1
        for weight in np.exp(h[cells]):
            sums[1:] = sums[1:] + weight * sums[:-1]
        return h[cells] @ row[cells] - math.log(sums[row[cells].sum()])

    assert abs(float(model.loss({"h": h}, x, mask="all")) + np.mean([log_p(slice(0, 24), r) for r in x])) < 1e-9
    wanted = -np.mean([(log_p(slice(0, 14), r) + log_p(slice(8, 24), r)) / 2 for r in x])
    assert abs(float(model.loss({"h": h}, x, mask="parts")) - wanted) < 1e-9
    gradient = jax.jit(jax.grad(lambda h: model.loss({"h": h}, x, mask="all")))(jax.numpy.asarray(h))
    np.testing.assert_allclose(gradient, np.asarray(model.marginals({"h": h})["x"])[:, 1] - x.mean(axis=0), atol=1e-9)


def test_what_is_given_is_told_where_it_is_passed_as_data():
    model = gm.parse("model m { given u : real  var y, z : bit  param w  factor w * u * y * z }  mask one = subsets(size = 1)").model()
    with pytest.raises(gm.GmlmError, match="given with each row") as caught:
        model.log_prob({"w": 1.0}, {"y": 1, "z": 0, "u": 0.3}, given={"u": 0.3})
    assert "pass it in `given={'u': ..}`" in str(caught.value)


@pytest.mark.parametrize(
    ("factor", "total"),
    [
        ("factor 0.3 * sum(x[j] for j in range(i)) for i in range(1)", 9),
        ("factor prod(x[j] for j in range(i)) for i in range(2) if i < 1", 9 * math.e),
        ("factor sum(sum(x[a] for a in range(j)) for j in range(i + 1)) for i in range(1)", 9),
        ("require any(x[j] == 0 for j in range(i)) or x[0] == 1 for i in range(1)", 3),
    ],
)
def test_sums_of_nothing_in_every_turn(factor: str, total: float):
    model = gm.parse(f"model m {{\n  var x[i in range(2)] : range(3)\n  {factor}\n}}\n").model()
    assert float(model.log_partition({})) == pytest.approx(math.log(total), abs=1e-9)
