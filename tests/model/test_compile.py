"""Programs that are compiled ahead: the calls they are for compile nothing, and nothing is run for draws."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from events import traced_or_compiled

import gmlmdsl as gm
from gmlmdsl.derive import _bounded_jit, bounded_jit, compiled_only
from gmlmdsl.sample import random_rows

SPINS = """
model spins {
  var x[i in range(3)] : spin
  param h ~ normal(0, 1)
  factor h * x[i] for i in range(3)
}
mask single = subsets(x, size = 1)
sampler gibbs { update x[i] for i in range(3) }
"""
APART = """
input n : int
graph G = chain(n)
model apart {
  var    x[i in G.nodes] : bit
  latent z : spin
  param h ~ normal(0, 1)
  param J ~ normal(0, 1)
  factor h * x[i]     for i in G.nodes
  factor J * z * x[0]
  require x[i] + x[j] <= 1 for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
sampler gibbs {
  update x[i] for i in G.nodes
  update z
}
"""
pytestmark = pytest.mark.usefixtures("standard_promotion")


@pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning")
def test_what_was_compiled_ahead_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch):
    ran, run = [], _bounded_jit._run
    monkeypatch.setattr(_bounded_jit, "_run", lambda program, arrays: (ran.append(program.__name__), run(program, arrays))[1])
    model, x = gm.parse(SPINS).model(), np.random.default_rng(1).choice([-1, 1], (61, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of draws that were not made
        model.compile(rows=61, mask="single", sampler="gibbs", draws=150, chains=3)
        model.compile(sampler="exact", draws=150, chains=3)
    assert "log_potential" in ran and "_record" not in ran
    with traced_or_compiled() as found:
        fit = model.fit(x, mask="single", progress=False)
        assert not found
        kept = [fit.sample(name, draws=150, warmup=20, chains=3, progress=False) for name in ("gibbs", "exact")]
        assert not found
    for draws in kept:
        assert abs(draws["posterior"]["x"].values.mean() - x.mean()) < 0.2


def test_programs_that_are_compiled_only_give_zeros_and_run_when_they_are_called():
    runs = []

    def noted(x):
        jax.debug.callback(lambda: runs.append(1))
        return {"a": x + 1, "b": jnp.arange(3)}

    program = bounded_jit(noted)
    with compiled_only():
        found = program(np.ones(2, np.float32))
    jax.effects_barrier()
    assert not runs and not found["a"].any() and found["a"].shape == (2,) and found["b"].dtype == jnp.arange(3).dtype
    with traced_or_compiled() as events:
        assert np.array_equal(program(np.ones(2, np.float32))["a"], [2, 2])
    jax.effects_barrier()
    assert not events and runs == [1]


def test_random_rows_are_possible_and_lack_what_is_latent():
    model = gm.parse(APART, n=30).model()  # of uniform rows less than one in a hundred thousand is possible
    x = random_rows(model.graph, 200)
    assert set(x) == {"x"} and x["x"].shape == (200, 30)
    assert not (x["x"][:, 1:] & x["x"][:, :-1]).any() and len(np.unique(x["x"], axis=0)) > 32


def test_what_cannot_be_compiled_ahead_is_refused():
    model = gm.parse(APART, n=5).model()
    for wrong, code in (
        ({}, "E507"),
        ({"rows": 0}, "E507"),
        ({"rows": 2.5}, "E507"),
        ({"sampler": "gibs"}, "E506"),
        ({"rows": 9, "mask": "two"}, "E506"),
    ):
        with pytest.raises(gm.GmlmError) as caught:
            model.compile(**wrong)
        assert caught.value.codes == (code,)
    given = gm.parse("model m { given w : real  var x : bit  param a  factor a * w * x }  mask all = subsets(x, size = 1)").model()
    with pytest.raises(gm.GmlmError) as caught:
        given.compile(rows=5)
    assert "w" in str(caught.value)
