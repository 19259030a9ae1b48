"""Second-order sums from local statistics against automatic differentiation; masks that reveal; data that separate."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.evaluate._colouring import colouring
from gmlmdsl.fit import _fit as fitting
from gmlmdsl.fit._inference import curvature

pytestmark = pytest.mark.usefixtures("standard_promotion")

TEXT = """
index site = range(4)
graph G = chain(site)
domain aa = letters("abc")
model potts {
  var x[i in site] : aa
  var k : range(2)
  param h[i in site, a in aa] ~ normal(0, 2)
  param J[(i, j) in G.edges, a in aa, b in aa]
  param s : positive ~ gamma(2, 1)
  gauge zero_sum(J)
  factor h[i, x[i]] for i in site
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
  factor s * (x[i] == "a") * k for i in site
  require not (x[0] == "c" and x[1] == "c")
}
mask one = subsets(size = 1)
mask two = subsets(size = 2)
mask seen given k { choose {x[i], x[i + 1]} for i in site if i < 3 weight 1 + k  choose {k} weight 1  choose {x[i]} for i in site weight 0.5 }
"""


@pytest.mark.parametrize("mask", thinned(["one", "two", "seen"], 3))
@pytest.mark.slow
def test_local_statistics_equal_automatic_differentiation(mask: str) -> None:
    model = gm.parse(TEXT).model()
    rng = np.random.default_rng(3)
    x = {"x": rng.integers(0, 3, (40, 4)), "k": rng.integers(0, 2, 40)}
    x["x"][(x["x"][:, 0] == 2) & (x["x"][:, 1] == 2), 1] = 0
    from gmlmdsl.data._values import encode

    codes = encode(model.graph, x).codes
    weights = rng.integers(0, 3, 40).astype(float)
    with jax.enable_x64(True):
        start = {k: jnp.asarray(rng.normal(size=v.shape) * 0.3 + 1.0) for k, v in model.init_params().items()}
        options = fitting.FitOptions(mask)
        objective = fitting.make_objective(model.graph, model.mask(mask)[1], codes, weights, start, (), options).objective
        colours = colouring(objective, sum(p.size for p in model.graph.parameters))
        local, plain = curvature(objective, start, colours), curvature(objective, start, None)
    assert len(colours.directions) < sum(p.size for p in model.graph.parameters)
    np.testing.assert_allclose(local.hessian, plain.hessian, atol=1e-9)
    np.testing.assert_allclose(local.score, plain.score, atol=1e-9)


def test_derivatives_that_cancel_are_seen() -> None:
    """Those of h cancel over the values of a spin, those of J over balanced rows too."""
    text = "model m {\n var x[i in range(2)] : spin\n param h\n param J\n factor h * x[i] for i in range(2)\n factor J * x[0] * x[1]\n}"
    model = gm.parse(text + "\nmask one = subsets(x, size = 1)").model()
    codes, weights = np.array(list(np.ndindex(2, 2))).T, np.ones(4)
    with jax.enable_x64(True):
        start = {"h": jnp.asarray(0.0), "J": jnp.asarray(0.0)}
        made = fitting.make_objective(model.graph, model.mask("one")[1], codes, weights, start, (), fitting.FitOptions("one"))
        colours = colouring(made.objective, sum(p.size for p in model.graph.parameters))
    np.testing.assert_array_equal(colours.directions, np.eye(2))  # each block sees both
    np.testing.assert_array_equal(np.concatenate(colours.seen), [[0, 1], [0, 1]])


MODEL = """
model m {
  var x[i in range(3)] : bit
  param h[i in range(3)]
  param J
  factor h[i] * x[i] for i in range(3)
  factor J * x[0] * x[1]
}
mask revealing given x { choose {x[0]} weight x[0]  choose {x[1]} weight 1 - x[0]  choose {x[2]} weight 0.5 }
mask sound given x { choose {x[0], x[1]} weight 1 + x[0]  choose {x[2]} weight 0.5 }
mask last = blocks({x[2]})
mask one = subsets(x, size = 1)
"""


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2, (200, 3))


def slugs(fit: gm.Fit) -> set[str]:
    return {f.slug for f in fit.status.findings}


@pytest.mark.slow
def test_a_mask_that_reveals_what_it_hides_is_reported_and_a_sound_one_is_not(rows: np.ndarray) -> None:
    model = gm.parse(MODEL).model()
    fit = model.fit(rows, mask="revealing")
    assert "revealing-mask" in slugs(fit)
    assert "`x[0]`" in str(fit)
    assert np.isinf(fit.standard_errors["h"][0])
    sound = model.fit(rows, mask="sound")
    assert sound.status.converged
    assert not slugs(sound)


def test_a_mask_that_cannot_see_a_parameter_leaves_it_at_its_start(rows: np.ndarray) -> None:
    fit = gm.parse(MODEL).model().fit(rows, mask="last", init={"J": 0.25})
    assert slugs(fit) == {"unseen"}
    assert fit.params["J"] == 0.25
    assert np.isinf(fit.standard_errors["J"])
    assert np.isfinite(fit.standard_errors["h"][2])


@pytest.mark.slow
def test_separated_data_name_the_direction_and_a_neighbour_does_not(rows: np.ndarray) -> None:
    model = gm.parse(MODEL).model()
    apart = rows.copy()
    apart[:, 1] = apart[:, 0]
    fit = model.fit(apart, mask="one")
    assert fit.status.code == "no-minimiser"
    assert fit.summary()["estimate"]["J"] == np.inf
    assert np.isfinite(fit.params["J"])
    assert np.abs(fit.params["J"]) < 40
    apart[0, 1] = 1 - apart[0, 0]
    apart[1] = [0, 0, 0]
    apart[2] = [0, 1, 1]
    apart[3] = [1, 0, 1]
    near = model.fit(apart, mask="one")
    assert near.status.converged, str(near)
