"""Latents: summed out of losses, log p and conditionals against enumeration; in samplers part of the state; refused where they cost."""

from __future__ import annotations

import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import Oracle, numerical_gradient
from test_missing import EXACT
from thinned import thinned

import gmlmdsl as gm

EXAMPLES = Path(__file__).parents[2] / "examples"
MIXED = """
model m {
  var v[i in range(3)] : bit
  latent h[j in range(2)] : labels("a", "b", "c")
  var s : spin
  param a[i in range(3)] ~ normal(0, 1)
  param w[i in range(3), j in range(2)] ~ normal(0, 1)
  param scale : positive ~ gamma(2, 1)
  param p[k in range(3)] : simplex ~ dirichlet(2)
  factor a[i] * v[i] for i in range(3)
  factor w[i, j] * v[i] * (h[j] == "b") for i in range(3) for j in range(2)
  factor if h[0] == h[1] then scale * s else p[0] * s
  require not (v[0] == 1 and h[0] == "c")
}
mask one   = subsets(size = 1)
mask all   = everything()
mask some  = bernoulli(v, rate = 0.5)
mask units = subsets(h, size = 1)
mask looks given s { choose {v[0]} weight 2 + s  choose {v[1]} weight 1 }
mask sees given v { choose {v[0]} weight 1 + v[0]  choose {v[0], v[1]} weight 2 - v[1] }
mask peeks given h { choose {v[0]} weight 1 + (h[0] == "a")  choose {v[1]} weight 1 }
sampler gibbs { update v  update h[j] for j in range(2)  update s }
sampler hidden { update K where K ~ units }
sampler units_only { update K where K ~ units  update K where K ~ peeks }
"""
GAUGED = """
domain ab = labels("a", "b")
model m {
  var x : ab
  latent z : ab
  param J[k in ab, l in ab]
  gauge zero_sum(J)
  factor J[x, z]
}
"""
NAN = float("nan")


@pytest.fixture(scope="module")
def program() -> gm.BoundProgram:
    with pytest.warns(gm.GmlmWarning):
        return gm.parse(MIXED)


@pytest.fixture(scope="module")
def oracle(program: gm.BoundProgram) -> Oracle:
    return Oracle(program.checked, "m", {})


@pytest.fixture(scope="module")
def rows(oracle: Oracle) -> np.ndarray:
    p = oracle.probabilities(oracle.random_params(1))
    return oracle.states[np.random.default_rng(0).choice(len(p), 12, p=p)]


def without(oracle: Oracle, codes: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Rows that lack the latent: as codes, and as `Model` takes them."""
    lacking = codes.copy()
    lacking[:, oracle.positions("h")] = -1
    return lacking, {k: v.astype(int) for k, v in oracle.decode(codes).items() if k != "h"}


def test_x_may_leave_latents_out(program: gm.BoundProgram) -> None:
    model = program.model()
    params = model.init_params()
    with pytest.raises(gm.GmlmError, match=r"x lacks `s`"):
        model.log_potential(params, {"v": [[0, 1, 0]], "h": [["a", "b"]]})
    with pytest.raises(gm.GmlmError, match=r"a dict by variable: this model has `v`, `s`"):
        model.log_potential(params, [[0, 1, 0]])
    rbm = gm.load(EXAMPLES / "rbm.gmlm", n_visible=3, n_hidden=2).model()
    assert rbm.log_potential(rbm.init_params(), [[0, 1, 0]]).shape == (1,)  # an array where there is one `var`


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("held", ["lacking", "held", "partly"])
def test_log_p(program: gm.BoundProgram, oracle: Oracle, rows: np.ndarray, held: str) -> None:
    params, model = oracle.random_params(1), program.model()
    codes, x = without(oracle, rows)
    if held == "held":
        codes, x["h"] = rows, oracle.decode(rows)["h"].astype(int)
    if held == "partly":
        codes[::2, 3] = rows[::2, 3]
        codes[1, 0] = -1  # a missing cell of a `var` beside the latents
        x["h"] = np.where(codes[:, 3:5] < 0, np.nan, codes[:, 3:5])
        x["v"] = np.where(codes[:, :3] < 0, np.nan, codes[:, :3])
    options = {"missing": {"h": NAN, "v": NAN}} if held == "partly" else {}
    np.testing.assert_allclose(model.log_potential(params, x, **options), oracle.log_potential(params, codes), **EXACT)
    np.testing.assert_allclose(model.log_prob(params, x, **options), oracle.log_prob(params, codes), **EXACT)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("mask", thinned(["one", "all", "some", "looks", "sees"], 5))
def test_losses_and_gradients(program: gm.BoundProgram, oracle: Oracle, rows: np.ndarray, mask: str) -> None:
    codes, x = without(oracle, rows)
    params = {k: jnp.asarray(v) for k, v in oracle.random_params(1).items()}
    value, gradient = jax.jit(jax.value_and_grad(lambda p: program.model().loss(p, x, mask)))(params)
    host = oracle.random_params(1)
    np.testing.assert_allclose(value, oracle.loss(host, codes, mask), **EXACT)
    expected = numerical_gradient(lambda p: oracle.loss(p, codes, mask), host, exact=True)
    for name, found in gradient.items():
        np.testing.assert_allclose(found, expected[name], **EXACT, err_msg=name)


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
def test_masks_that_are_drawn(program: gm.BoundProgram, oracle: Oracle, rows: np.ndarray) -> None:
    codes, x = without(oracle, rows[:2])
    params, model = oracle.random_params(1), program.model()
    drawn = [float(model.loss(params, x, "some", key=jax.random.key(k), n_masks=64)) for k in range(8)]
    exact = oracle.loss(params, codes, "some")
    assert abs(np.mean(drawn) - exact) < 5 * np.std(drawn) / np.sqrt(len(drawn))
    assert np.std(drawn) > 0


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("K", thinned([pytest.param(k) for k in ((0,), (1, 5), (2, 3), (3, 4), (0, 1, 2, 5))], 6, 1))
def test_conditionals(program: gm.BoundProgram, oracle: Oracle, rows: np.ndarray, K: tuple[int, ...]) -> None:
    params, model = oracle.random_params(1), program.model()
    codes, x = without(oracle, rows)
    np.testing.assert_allclose(model.log_conditional(params, x, K), oracle.log_conditional(params, codes, K), **EXACT)


@pytest.mark.usefixtures("float64")
def test_a_conditional_is_differentiable(program: gm.BoundProgram, oracle: Oracle, rows: np.ndarray) -> None:
    params, (codes, x) = oracle.random_params(1), without(oracle, rows[:3])
    gradient = jax.jit(jax.grad(lambda a: program.model().log_conditional(params | {"a": a}, x, (1, 5))[:, 0, 1].sum()))
    expected = numerical_gradient(lambda p: oracle.log_conditional(p, codes, (1, 5))[:, 0, 1].sum(), params, exact=True)
    np.testing.assert_allclose(gradient(jnp.asarray(params["a"])), expected["a"], **EXACT)


@pytest.mark.usefixtures("float64")
def test_a_conditional_where_the_rest_is_impossible(oracle: Oracle) -> None:
    text = "model m {\n  var x : bit\n  var y : bit\n  latent z : bit\n  param J\n  factor J * x * z\n  require y == 0\n}\n"
    params = {"J": np.array(0.5)}
    found = gm.parse(text).model().log_conditional(params, {"x": [0, 0], "y": [0, 1]}, (0,))
    expected = Oracle(gm.parse(text).checked, "m", {}).log_conditional(params, np.array([[0, 0, -1], [0, 1, -1]]), (0,))
    np.testing.assert_allclose(found, expected, **EXACT)
    assert np.isnan(expected[1]).all()


@pytest.mark.parametrize("sampler", thinned(["gibbs", "units_only"], 2, 1))
def test_transition_matrices_hold_the_latents(program: gm.BoundProgram, oracle: Oracle, sampler: str) -> None:
    params = oracle.random_params(1)
    expected = oracle.transition_matrix(params, sampler)
    np.testing.assert_allclose(program.model().transition_matrix(params, sampler), expected, **EXACT)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
def test_draws_reach_the_exact_marginals(program: gm.BoundProgram, oracle: Oracle) -> None:
    params = {k: 0.5 * v if k in "aw" else v for k, v in oracle.random_params(1).items()}
    options = {"draws": 600, "warmup": 50, "chains": 20, "thin": 2}
    idata = program.model().sample(params, "gibbs", observe={"alike": lambda x: x["h"][0] == x["h"][1]}, **options)
    p = oracle.probabilities(params)
    exact = np.array([[p[oracle.states[:, c] == k].sum() for k in range(3)] for c in (3, 4)])
    found = np.array([[(idata.posterior["h"].values[..., j] == k).mean(axis=1) for k in range(3)] for j in range(2)])
    error = found.std(axis=2, ddof=1) / np.sqrt(20)
    assert (np.abs(found.mean(axis=2) - exact) < 5 * error).all()
    h = idata.posterior["h"].values
    np.testing.assert_array_equal(idata.posterior["alike"].values, h[..., 0] == h[..., 1])


@pytest.mark.slow
def test_starts_may_leave_latents_out(program: gm.BoundProgram, oracle: Oracle) -> None:
    start = {"v": [1, 0, 1], "s": 1}
    params, options = oracle.random_params(1), {"draws": 1, "warmup": 0, "chains": 8, "sampler": "hidden"}
    with pytest.warns(gm.SamplingWarning):
        idata = program.model().sample(params, init=start, **options)
    assert (idata.posterior["v"].values == [1, 0, 1]).all()
    assert len(np.unique(idata.posterior["h"].values.reshape(-1, 2), axis=0)) > 1


def test_a_start_has_noise_that_a_seed_gives(program: gm.BoundProgram) -> None:
    model = program.model()
    first, again, other = (model.init_params(seed) for seed in (3, 3, 4))
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
        assert (first[name] != other[name]).all()
    assert 0.002 < np.std(np.concatenate([first["a"].ravel(), first["w"].ravel()])) < 0.02
    assert abs(np.log(first["scale"])) < 0.05
    np.testing.assert_allclose(first["p"].sum(), 1, rtol=1e-6)
    np.testing.assert_allclose(first["p"], 1 / 3, atol=0.02)
    J = gm.parse(GAUGED).model().init_params()["J"]
    assert np.abs(J).min() > 0
    np.testing.assert_allclose([J.sum(axis=0), J.sum(axis=1)], 0, atol=1e-8)


@pytest.mark.parametrize(("mask", "code", "words"), [("units", "E703", "hides h"), ("peeks", "E703", "looks at h")])
def test_masks_that_have_no_loss(program: gm.BoundProgram, oracle: Oracle, rows: np.ndarray, mask: str, code: str, words: str) -> None:
    _, x = without(oracle, rows)
    for call in (lambda: program.model().fit(x, mask), lambda: program.model().loss(oracle.random_params(1), x, mask)):
        with pytest.raises(gm.GmlmError, match=words) as caught:
            call()
        assert caught.value.codes == (code,)


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
def test_a_conditional_under_a_mask_that_looks_at_observed_cells(program: gm.BoundProgram, oracle: Oracle, rows: np.ndarray) -> None:
    params, (codes, x) = oracle.random_params(1), without(oracle, rows)
    found = program.model().log_conditional(params, x, (0,), mask="sees")
    np.testing.assert_allclose(found, oracle.log_conditional(params, codes, (0,), mask="sees"), **EXACT)
    assert not np.allclose(found, program.model().log_conditional(params, x, (0,)))  # p(K | x) matters


LOOPS = """
graph G = grid(40, 40, wrap = true)
model loops {
  latent z[i in G.nodes] : spin
  var x[i in G.nodes] : spin
  param J
  param b
  factor J * z[i] * z[j] for (i, j) in G.edges
  factor b * x[i] * z[i] for i in G.nodes
}
mask some = subsets(x, size = 1)
sampler gibbs { update z[i] for i in G.nodes  update x }
"""


@pytest.mark.parametrize(
    ("text", "x"),
    [("rbm", np.zeros((200, 64), int)), pytest.param(LOOPS, np.ones((200, 1600), int), marks=pytest.mark.slow)],
    ids=["rbm", "loops"],
)
def test_what_costs_too_much_is_refused_at_once_with_figures_and_methods(text: str, x: np.ndarray) -> None:
    model = (gm.load(EXAMPLES / "rbm.gmlm") if text == "rbm" else gm.parse(text)).model()
    started = time.process_time()
    with pytest.raises(gm.GmlmError) as caught:
        model.fit(x, "some")
    assert time.process_time() - started < 10  # seconds of this process: the sums that are refused would take years
    assert caught.value.codes == ("E601",)
    text = str(caught.value)
    for part in ("joint values", "GiB", "limit of", "gm.MonteCarloEM()", "gm.PersistentContrastiveDivergence()", "latent"):
        assert part in text or (part == "joint values" and model.name == "loops")
    with pytest.raises(gm.GmlmError, match="GiB|joint values"):
        model.log_potential(model.init_params(), x) if model.name == "loops" else model.log_conditional(
            model.init_params(), x, [*range(30)]
        )
    assert "impute" not in text


MIXTURE = """
model m {
  latent z : bit
  var y[i in range(4)] : bit
  param b[k in range(2), i in range(4)] ~ normal(0, 2)
  param c ~ normal(0, 2)
  factor c * z
  factor b[z, i] * y[i] for i in range(4)
}
mask all = everything()
mask one = subsets(size = 1)
sampler gibbs { update z  update y }
"""


def test_a_file_of_rows_may_hold_latents_by_name(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    model = gm.parse(MIXTURE).model()
    params = model.init_params()
    path.write_text("y_0,y_1,y_2,y_3\n0,1,0,1\n1,1,0,0\n")
    plain = model.log_potential(params, gm.read_table(path))
    np.testing.assert_allclose(plain, model.log_potential(params, np.array([[0, 1, 0, 1], [1, 1, 0, 0]])))
    path.write_text("y_0,y_1,y_2,y_3,z\n0,1,0,1,1\n1,1,0,0,0\n")
    held = model.log_potential(params, gm.read_table(path))
    np.testing.assert_allclose(held, model.log_potential(params, {"y": [[0, 1, 0, 1], [1, 1, 0, 0]], "z": [1, 0]}))
    assert (np.asarray(held) < np.asarray(plain)).all()


def test_a_sampler_that_leaves_a_latent_says_so() -> None:
    with pytest.warns(gm.GmlmWarning, match="W804"):
        gm.parse(MIXTURE + "sampler still { update y }\n")


BY_ROW = """
model m {
  latent h : bit
  var v[i in range(2)] : bit
  given y : real
  param a[i in range(2)]
  param w
  factor a[i] * v[i] for i in range(2)
  factor w * h * (v[0] - v[1]) + y * v[0]
}
mask by given y { choose {v[0]} weight exp(y)  choose {v[1]} weight 1 }
mask sees given v { choose {v[0]} weight 1 + v[1]  choose {v[1]} weight 1 }
mask first  = blocks({v[0]})
mask second = blocks({v[1]})
"""


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
def test_a_mask_whose_weights_are_given_has_each_rows_own_probabilities() -> None:
    model = gm.parse(BY_ROW).model()
    params = {"a": np.array([0.3, -0.2]), "w": np.array(0.9)}
    x, y = np.array([[0, 1], [1, 1], [1, 0]]), np.array([0.5, -1.0, 2.0])
    alone = [[float(model.loss(params, x[r], m, given={"y": y[r]})) for m in ("first", "second")] for r in range(3)]
    share = np.exp(y) / (1 + np.exp(y))
    expected = np.mean([s * one + (1 - s) * two for s, (one, two) in zip(share, alone, strict=True)])
    np.testing.assert_allclose(model.loss(params, x, "by", given={"y": y}), expected, rtol=1e-12)
