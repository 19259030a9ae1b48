"""The descent of a path, step by step beside one in NumPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import gmlmdsl as gm
from gmlmdsl.assess import _path_runs
from gmlmdsl.assess._path_runs import Runs, edges_of
from gmlmdsl.data import bound_rows, generator
from gmlmdsl.fit import Evidence, FitOptions, _group_penalty, diagonal_metric, minimise_penalised, shear_at
from gmlmdsl.fit._group_penalty import _owners
from gmlmdsl.fit.limits import LEAST_SHARE

pytestmark = pytest.mark.usefixtures("float64", "standard_promotion")

SPINS = """
graph G = complete(range(4))
model m {
  var x[i in range(4)] : spin
  param h[i in range(4)]
  param J[(i, j) in G.edges]
  factor h[i] * x[i] for i in range(4)
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""
BITS = SPINS.replace(": spin", ": bit")
PENALTY = 0.02


def bits() -> np.ndarray:
    rng = np.random.default_rng(9)
    return (rng.normal(size=(200, 1)) + rng.normal(size=(200, 4)) > [0.0, 0.8, -0.8, 0.3]).astype(int)


def run_of(model: Any, x: np.ndarray, rule: str | None) -> Runs:
    bound, rows = bound_rows(model.lowered, x, None, None)
    _, mask = model._mask("one", bound)
    return Runs(Evidence(bound, mask, rows.codes, FitOptions("one")), edges_of(bound.graph, None), np.ones(len(x)), rule)


def reference(value: Any, start: np.ndarray, penalised: np.ndarray, metric: np.ndarray, steps: int) -> tuple[np.ndarray, float, bool]:
    """x after so many steps of Beck and Teboulle's FISTA with O'Donoghue and Candes' restart, the curvature, and whether it restarted.

    Lengths are those of a diagonal metric.
    """
    x = y = start
    momentum, curvature, restarted = 1.0, 1.0, False
    for _ in range(steps):
        at, slope = (np.asarray(a) for a in value(y))
        while True:
            to = y - slope / (curvature * metric)
            to = np.where(penalised, np.sign(to) * np.maximum(np.abs(to) - PENALTY / (curvature * metric), 0), to)
            move = to - y
            if float(value(to)[0]) <= at + slope @ move + curvature / 2 * (metric * move) @ move + 1e-15 * abs(at):
                break
            curvature *= 2
        if (metric * (y - to)) @ (to - x) > 0:
            again, ahead, restarted = 1.0, 0.0, True
        else:
            again = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            ahead = (momentum - 1) / again
        y, x, momentum = to + ahead * (to - x), to, again
    return x, curvature, restarted


@pytest.mark.slow
def test_steps_are_those_of_an_accelerated_proximal_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(_path_runs, "minimise_penalised", lambda *a, **k: calls.append(a) or minimise_penalised(*a, **k))
    rng = np.random.default_rng(3)
    x = np.cumprod(np.where(rng.random((60, 4)) < 0.8, 1, -1), axis=1) * rng.choice([-1, 1], (60, 1))
    gm.parse(SPINS).model().fit_path(x, penalty=[PENALTY], criterion="cv", folds=2)
    values, free, groups, *_ = calls[0]
    start, restore = ravel_pytree(free)
    value = jax.jit(jax.value_and_grad(lambda z: values(restore(z))[0]))
    penalised = np.asarray(ravel_pytree({name: groups.of[name][None] >= 0 for name in free})[0])
    hessian = np.asarray(jax.jit(jax.hessian(lambda z: values(restore(z))[0]))(start))
    np.testing.assert_allclose(diagonal_metric(values, free), np.diag(hessian), rtol=1e-12)
    metric = np.diag(hessian) * rng.uniform(0.1, 0.5, len(hessian))
    for steps in (2, 7, 40):
        found = minimise_penalised(values, free, groups, np.array([PENALTY]), np.ones(1), metric, tolerance=0.0, most=steps)
        expected, curvature, restarted = reference(value, np.asarray(start), penalised, metric, steps)
        np.testing.assert_allclose(ravel_pytree(found.free)[0], expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.curvature, curvature / 4)
    assert restarted


@pytest.mark.slow  # `test_bits_need_as_few_steps_as_spins` takes steps with it
def test_a_shear_takes_the_fields_out_of_the_curvature_of_couplings() -> None:
    """In its coordinates H has no block between entries with and without a penalty; the metric is its diagonal."""
    run = run_of(gm.parse(BITS).model(), bits(), "and")
    values, free = run.whole, run.uncoupled.free
    shear, metric = shear_at(values, free, run.edges.groups)
    flat, restore = ravel_pytree({k: jnp.asarray(v) for k, v in free.items()})
    owner = _owners(values, free)[0]
    z = shear.moved(flat, owner, 1.0)
    np.testing.assert_allclose(shear.moved(z, owner, -1.0), flat, atol=1e-14)
    hessian = np.asarray(jax.jit(jax.hessian(lambda v: values(restore(shear.moved(v, owner, -1.0))).sum()))(z))
    of = np.concatenate([np.tile(run.edges.groups.of[name].ravel(), len(np.asarray(values.owner))) for name in sorted(free)])
    held = owner < values.count
    assert np.abs(hessian[np.ix_((of >= 0) & held, (of < 0) & held)]).max() < 1e-12
    np.testing.assert_allclose(np.diag(hessian)[held], metric[held], rtol=1e-9)
    plain = np.asarray(jax.jit(jax.hessian(lambda v: values(restore(v)).sum()))(flat))
    assert np.abs(plain[np.ix_((of >= 0) & held, (of < 0) & held)]).max() > 0.01


@pytest.mark.parametrize("rule", ["and", pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_bits_need_as_few_steps_as_spins(rule: str | None) -> None:
    """A bit is correlated with its field, and a spin of even odds is not: the coordinates take that away."""
    x, steps = bits(), []
    for text, rows in ((BITS, x), (SPINS, 2 * x - 1)):
        run = run_of(gm.parse(text).model(), rows, rule)
        start = run.uncoupled
        found = minimise_penalised(
            run.whole, start.free, run.edges.groups, 0.05 * run.largest(), start.curvature, run.metric, shear=run.shear, tolerance=1e-9
        )
        assert found.converged.all()
        steps.append(found.steps)
    assert steps[0] <= 1.3 * steps[1] + 5


def test_many_entries_share_products_along_random_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one product for each parameter, its entries are |s (H s)|; the fields of one copy are then too many for a shear."""
    run = run_of(gm.parse(BITS).model(), bits(), None)
    values, free = run.whole, run.uncoupled.free
    flat, restore = ravel_pytree({k: jnp.asarray(v) for k, v in free.items()})
    hessian = np.asarray(jax.jit(jax.hessian(lambda v: values(restore(v)).sum()))(flat))
    np.testing.assert_allclose(diagonal_metric(values, free), np.diag(hessian), rtol=1e-9)
    monkeypatch.setattr(_group_penalty, "MOST_PROBES", 1)
    array = _owners(values, free)[1]
    signs = np.where(generator(0).random(len(flat)) < 0.5, -1.0, 1.0)
    assert len(np.unique(signs[array == 0])) == 2  # of the couplings
    shared = np.abs(np.where(array[:, None] == array, hessian, 0.0) @ signs)
    metric = diagonal_metric(values, free)
    np.testing.assert_allclose(metric, np.maximum(shared, LEAST_SHARE * np.array([shared[array == a].mean() for a in array])), rtol=1e-9)
    shear, found = shear_at(values, free, run.edges.groups)
    assert shear.slopes.shape == (0, len(flat))
    np.testing.assert_array_equal(found, metric)
