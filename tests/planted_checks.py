"""What planted bugs are caught by: checks of models, masks, kernels, fits and theory against the oracle, which shares no code with them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from cases import Case, case
from chi_square import p_value
from cluster_cases import transitions_p
from one_step import LEAST_P, follows_its_row, keeps_p, numbered
from oracle import estimation, numerical_gradient, poincare_constant
from planting import Found, error
from scipy.stats import t as student
from theory_cases import moved

import gmlmdsl as gm
from gmlmdsl import derive, theory
from gmlmdsl.derive import _summed_loss
from gmlmdsl.evaluate import _objective
from gmlmdsl.evaluate._host_elimination import HostElimination, factor_tables
from gmlmdsl.fit import _fit, _inference
from gmlmdsl.plan import plan_elimination
from gmlmdsl.sample import _run_chains
from gmlmdsl.theory import _suggest

CHAINS = 40_000

TINY = case(
    "tiny",
    """
domain word = labels("a", "b", "c")
model tiny {
  var x[i in range(2)] : word
  var s : spin
  param h[a in word] ~ normal(0.3, 1.5)
  param c ~ normal(0, 1)
  gauge zero_sum(h)
  factor h[x[i]] * (1 + 0.4 * s) for i in range(2)
  factor c * s * (x[0] == "b")
  factor 0.9 * c * (x[0] == x[1])
}
mask one  = subsets(size = 1)
mask look given s { choose {x[0], s} weight 1.5 + s  choose {x[1]} weight 0.7 }
sampler either { mixture { 3 : update x[i] for i in range(2)  1 : update s } }
""",
    seed=5,
)
TWO = case(
    "two",
    """
model two {
  var a : range(3)
  var b : bit
  param u
  factor u * a * (b - 0.3)
  require not (a == 2 and b == 0)
}
mask one = subsets(size = 1)
mask see given a { choose {a} weight 1 + 2 * a  choose {b} weight 1  choose {a, b} weight 0.5 }
sampler turns { update a  update b }
sampler draws { update K where K ~ one }
sampler sees  { update K where K ~ see }
sampler twice { repeat 2 { update K where K ~ one } }
sampler hot   { temper(betas = [0, 0.5, 1]) { update {a, b} } }
sampler heat  { temper(betas = [0.3, 1]) { update K where K ~ see } }
""",
    seed=6,
)


MACHINE = case(
    "machine",
    """
model machine {
  var v[i in range(3)] : range(3)
  latent h[j in range(2)] : range(3)
  param a[i in range(3), c in range(3)]
  param W[i in range(3), j in range(2), c in range(3), d in range(3)]
  factor a[i, v[i]] for i in range(3)
  factor W[i, j, v[i], h[j]] for i in range(3) for j in range(2)
}
mask all  = everything(v)
mask ends = blocks({v[0], v[1]}, {v[2]})
""",
    seed=7,
)
PARTS = case(
    "parts",
    """
model parts {
  var x[i in range(3)] : range(3)
  latent z[i in range(3)] : range(3)
  param W[i in range(3), c in range(3), d in range(3)]
  factor W[i, x[i], z[2 - i]] for i in range(3)
}
mask uneven { choose {x[0], z[2]} weight 1  choose {x[1], z[1]} weight 2  choose {x[2], z[0]} weight 5 }
""",
    seed=8,
)


def stays_in_p(of: Case, sampler: str, steps: int = 1) -> Found:
    """40 000 chains that start exactly in p, beside p, after one or two steps."""
    return Found(keeps_p(of, sampler, CHAINS, steps=steps), LEAST_P, True)


def moves_by_its_row(of: Case, sampler: str) -> Found:
    """40 000 chains from one configuration, beside the oracle's row of the transition matrix."""
    return Found(follows_its_row(of, sampler, CHAINS), LEAST_P, True)


def chains_are_independent(of: Case, sampler: str) -> Found:
    """2000 chains of one call of `sample` from one configuration, beside the oracle's row."""
    p = of.oracle.probabilities(of.params)
    start = int(np.argmax(p))
    found = _run(of, sampler, np.repeat(of.oracle.states[start][:, None], 2000, axis=1), None)
    counts = np.bincount(numbered(of, found), minlength=len(p))
    return Found(p_value(counts, of.oracle.transition_matrix(of.params, sampler)[start]), LEAST_P, True)


def clamped_cells_stay(of: Case, sampler: str) -> Found:
    """The share of 2000 chains in which a clamped cell moved."""
    p = of.oracle.probabilities(of.params)
    codes = of.oracle.states[np.random.default_rng(0).choice(len(p), 2000, p=p)].T
    held = np.zeros(len(codes), bool)
    held[0] = True
    found = _run(of, sampler, codes, held)
    return Found(float((found != codes)[held].any(axis=0).mean()), 0.0, False)


def _run(of: Case, sampler: str, codes: np.ndarray, held: np.ndarray | None) -> np.ndarray:
    kernel = derive.build_kernel(of.model.lowered, of.model.sampler(sampler)[1]).kernel
    clamped = None if held is None else jnp.asarray(np.append(held, False))
    target = derive.Target(derive.graph_arrays(of.model.graph), of.model._params(of.params, of.model.lowered), clamped)
    return _run_chains.KernelRun(kernel, target, codes, seed=3, draws=1).run().last


def log_potential_is_right(of: Case) -> Found:
    """log p of every configuration, beside the oracle's."""
    with jax.enable_x64(True):
        found = np.asarray(of.model.log_potential(of.params, of.states))
    return error(found, of.oracle.log_potential(of.params, of.oracle.states))


def loss_is_right(of: Case, mask: str, strength: float = 1.0) -> Found:
    """The loss of a dozen rows, beside the oracle's."""
    params = {k: strength * v for k, v in of.params.items()}
    with jax.enable_x64(True):
        found = np.asarray(of.model.loss(params, of.values(of.rows), mask))
    return error(found, of.oracle.loss(params, of.rows, mask))


def matrix_is_right(of: Case, sampler: str) -> Found:
    """The transition matrix, beside the oracle's."""
    return error(of.model.transition_matrix(of.params, sampler), of.oracle.transition_matrix(of.params, sampler))


def _contracted(of: Case) -> tuple[derive.Graph, Any, derive.Contraction]:
    """A new contraction of all cells, by stages: those that a model keeps were made without the bug."""
    graph = of.model.graph
    plan = replace(plan_elimination(graph), may_loop=False)
    return derive.graph_arrays(graph), of.model._params(of.params, of.model.lowered), derive.contraction(graph, plan)


def marginals_are_right(of: Case) -> Found:
    """p(x_i = v) of every cell by elimination, beside counting."""
    with jax.enable_x64(True):
        device, params, c = _contracted(of)
        codes = jnp.zeros((of.model.graph.n_cells, 1), jnp.int32)
        _, found = jax.jit(lambda p: derive.log_marginals(device, p, codes, c))(params)
        found = np.asarray(found)[..., 0]
    p, states = of.oracle.probabilities(of.params), of.oracle.states
    return error(found, np.array([[p[states[:, i] == v].sum() for v in range(found.shape[1])] for i in range(states.shape[1])]))


def numpy_marginals_are_right(of: Case, **known: int) -> Found:
    """p(x_i = v | known cells) of every other cell by elimination in NumPy, beside counting; `cell_2=1` knows a cell."""
    graph, held = of.model.graph, {int(k.removeprefix("cell_")): v for k, v in known.items()}
    free = np.setdiff1d(np.arange(graph.n_cells), list(held))
    engine = HostElimination(plan_elimination(graph, free), factor_tables(graph, {k: np.asarray(v) for k, v in of.params.items()}))
    codes = np.zeros((graph.n_cells, 1), int)
    codes[list(held)] = np.array(list(held.values()), int)[:, None]
    _, found = engine.laws(codes, int(graph.sizes.max()))
    p, states = of.oracle.probabilities(of.params), of.oracle.states
    p = np.where(np.all([states[:, c] == v for c, v in held.items()], axis=0), p, 0) if held else p
    wanted = [[p[states[:, i] == v].sum() / p.sum() for v in range(found.shape[1])] for i in engine.free]
    return error(found[..., 0], np.array(wanted))


def numpy_mode_is_right(of: Case) -> Found:
    """log p of the configuration that elimination in NumPy finds, counted and as stated, beside the highest."""
    graph = of.model.graph
    engine = HostElimination(plan_elimination(graph), factor_tables(graph, {k: np.asarray(v) for k, v in of.params.items()}))
    sums, found = engine.modes(np.zeros((graph.n_cells, 1), int))
    p = of.oracle.probabilities(of.params)
    stated = sums.values - of.oracle.log_partition(of.params)
    return error([*np.log(p[(of.oracle.states == found.T).all(axis=1)]), *stated], np.log(p.max()))


def draws_are_right(of: Case) -> Found:
    """40 000 independent draws by elimination, beside p."""
    device, params, c = _contracted(of)
    codes = jnp.zeros((of.model.graph.n_cells, 1), jnp.int32)
    kernel = derive.IndependentKernel(c, eqx.filter_jit(lambda p: derive.forward(device, p, codes, c))(params))
    start = np.zeros((of.model.graph.n_cells, CHAINS), np.int32)
    found = _run_chains.KernelRun(kernel, derive.Target(device, params, None), start, seed=3, draws=1).run().last
    p = of.oracle.probabilities(of.params)
    return Found(p_value(np.bincount(numbered(of, found), minlength=len(p)), p), LEAST_P, True)


def hidden_loss_is_right(of: Case, mask: str, n_hidden: int) -> Found:
    """The loss of a dozen rows whose last cells are hidden, beside the oracle's."""
    codes = of.rows.copy()
    codes[:, -n_hidden:] = -1
    with jax.enable_x64(True):
        found = np.asarray(of.model.loss(of.params, codes[:, :-n_hidden], mask))
    return error(found, of.oracle.loss(of.params, codes, mask))


def block_loss_is_right(of: Case, mask: str) -> Found:
    """The loss of a dozen whole rows whose blocks share no factor and are summed at once, beside the oracle's."""
    host = of.model.graph
    blocks, probabilities = of.model.mask(mask)[1].enumerate_blocks()
    with jax.enable_x64(True):
        passes = _summed_loss.block_passes(host, replace(plan_elimination(host), may_loop=False), blocks, probabilities)
        loss = _summed_loss.EliminatedLoss(derive.graph_arrays(host), (passes,))
        found = np.asarray(
            jax.jit(lambda p: loss.rows(p, jnp.asarray(of.rows.T, jnp.int32)))(of.model._params(of.params, of.model.lowered))
        )
    return error(found, of.oracle.row_losses(of.params, of.rows, mask))


WEIGHTS = np.arange(1.0, 13.0) / 4


def _rows(of: Case, gaps: bool) -> np.ndarray:
    """A dozen rows as codes; with gaps, some cells are missing."""
    missing = np.random.default_rng(8).random(of.rows.shape) < (0.3 if gaps else 0.0)
    return np.where(missing, -1, of.rows)


def _objective_of(of: Case, mask: str, gaps: bool = False) -> tuple[_objective.Objective, dict[str, jax.Array]]:
    params = {k: jnp.asarray(v, float) for k, v in _on_gauge(of).items()}
    options = _fit.FitOptions(mask)
    return _fit.make_objective(of.model.graph, of.model.mask(mask)[1], _rows(of, gaps).T, WEIGHTS, params, (), options).objective, params


def _on_gauge(of: Case) -> dict[str, np.ndarray]:
    return of.params | {"h": of.params["h"] - of.params["h"].mean()}


def objective_is_right(of: Case, mask: str, gaps: bool = False) -> Found:
    """What a fit minimises, rows weighted, at parameters that are no minimum, beside the oracle's."""
    with jax.enable_x64(True):
        objective, params = _objective_of(of, mask, gaps)
        found = np.asarray(jax.jit(lambda p: _objective.Objective.at(objective, p) * objective.scale)(params))
    return error(found, of.oracle.fit_objective(_on_gauge(of), _rows(of, gaps), mask, WEIGHTS.tolist()))


def covariance_is_right(of: Case, mask: str) -> Found:
    """The sandwich at parameters that are no minimum, beside numerical derivatives of the oracle; relative to its largest entry."""
    with jax.enable_x64(True):
        objective, params = _objective_of(of, mask)
        found = _inference.curvature(objective, params, None).sandwich()
    expected = _sandwich(of, mask)
    return Found(float(np.abs(found - expected).max() / expected.max()), 1e-4, False)


@cache
def _sandwich(of: Case, mask: str) -> np.ndarray:
    """H^+ S H^+ on the zero-sum directions of h (the first three parameters) and c, by central differences."""
    params, codes, weights = _on_gauge(of), of.rows, WEIGHTS.tolist()

    def whole(v: np.ndarray) -> dict[str, np.ndarray]:
        return {"h": v[:3], "c": v[3]}

    def flat(p: dict[str, np.ndarray]) -> np.ndarray:
        return np.append(p["h"], p["c"])

    def gradient(v: np.ndarray) -> np.ndarray:
        return flat(numerical_gradient(lambda p: of.oracle.fit_objective(p, codes, mask, weights), whole(v), 1e-4))

    here, step = flat(params), 1e-3
    hessian = np.array([(gradient(here + step * e) - gradient(here - step * e)) / (2 * step) for e in np.eye(4)])
    ends = [[of.oracle.row_losses(whole(here + s * step * e), codes, mask) for e in np.eye(4)] for s in (1, -1)]
    u = of.oracle.fit_constant(params, codes, mask) * WEIGHTS * (np.array(ends[0]) - np.array(ends[1])) / (2 * step)
    score = u @ u.T - np.outer(u.sum(axis=1), u.sum(axis=1)) / len(codes)
    zero_sum = np.array([[1, 1, 0], [-1, 1, 0], [0, -2, 0], [0, 0, 1]]) / np.sqrt([2, 6, 1])
    spread = zero_sum @ np.linalg.inv(zero_sum.T @ hessian @ zero_sum) @ zero_sum.T
    return spread @ score @ spread.T


def comparison_is_right(of: Case, mask: str) -> Found:
    """Exact variances with one and with all masks a row, and the Poincare constant, beside the oracle's; relative."""
    r = theory.compare_masks(of.model, of.params, [mask], measure=False).reports[0]
    expected = [*_variances(of, mask), poincare_constant(of.oracle, of.params, mask)]
    found = np.array([r.variance_one, r.variance_all, r.poincare], float)
    return Found(float(np.abs(found / expected - 1).max()), 1e-7, False)


@cache
def _variances(of: Case, mask: str) -> tuple[float, ...]:
    parts = [estimation([moved(of)], mask, n) for n in (1, None)]
    return tuple(float(np.trace(e.covariance()) / np.trace(e.flat(np.linalg.inv(e.fisher)))) for e in parts)


def estimates_are_right(of: Case, mask: str) -> Found:
    """Variances estimated from 2000 draws beside the oracle's, in their standard errors: Student's t, as there are 20 groups."""
    r = theory.compare_masks(of.model, of.params, [mask], draws=2000, measure=False).reports[0]
    pairs = zip((r.variance_one, r.variance_all), _variances(of, mask), strict=True)
    return Found(min(2 * float(student.sf(abs(float(q) - e) / q.error, 19)) for q, e in pairs), LEAST_P, True)


def clique_is_found(strength: float) -> Found:
    """The share of cells of the model of Figure 3 that are in no cluster and should be, or the other way round."""
    model = gm.load(Path(__file__).parents[1] / "examples" / "labs" / "gallery" / "modes.gmlm").model()
    params, codes = model._params({"h": 0.1, "J": strength}, model.lowered), np.zeros((10, 1), np.int32)
    with jax.enable_x64(True):
        found = _suggest.strong_clusters(model.lowered, params, codes, model.graph.interacting_pairs).partitions
    inside = set(found[0][0].tolist()) if found else set()
    return Found(len(inside ^ {0, 1, 2, 3}) / 10, 0.0, False)


def goes_by_its_matrix(of: Case, sampler: str) -> Found:
    """One step from every configuration beside the exact matrix, row by row."""
    return Found(transitions_p(of, sampler, 60_000), LEAST_P, True)
