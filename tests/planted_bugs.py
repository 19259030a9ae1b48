"""Bugs planted in the library one at a time, each with the check that must catch it.

`python tests/planted_bugs.py` prints the table of `docs/explanation/how-it-is-tested.md`; `--write` renews it there.
"""

from __future__ import annotations

import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import Case, case
from chi_square import p_value
from one_step import LEAST_P, MIXED, RING, follows_its_row, keeps_p, numbered
from oracle import estimation, numerical_gradient, poincare_constant
from planted_network_bugs import NETWORK_BUGS
from planted_search_bugs import SEARCH_BUGS
from planting import Bug, Found, around, error
from scipy.stats import t as student
from theory_cases import ising, moved

import gmlmdsl as gm
from gmlmdsl import derive, theory
from gmlmdsl.derive import _arrays, _energy, _gaps, _kernels, _loss, _samplers, _summed_loss, _sums, _temper, _transitions
from gmlmdsl.graph import masks
from gmlmdsl.graph.nodes import CellValue
from gmlmdsl.plan import _tables, _updates, plan_elimination
from gmlmdsl.run import _fit, _inference, _objective, _sample
from gmlmdsl.theory import _block_dynamics, _clusters, _estimation, _monte_carlo

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "how-it-is-tested.md"
BEGIN, END = "<!-- planted bugs: begin -->", "<!-- planted bugs: end -->"
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


# Checks. What they compare with comes from the oracle, which shares no code with what is broken below.


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
    target = derive.Target(derive.graph_arrays(of.model.graph), of.model._params(of.params), clamped)
    options: dict[str, Any] = {"observe": None, "keep": True, "progress": False}
    return _sample.sample(kernel, target, codes, seed=3, draws=1, warmup=0, thin=1, **options).last


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
    """A new contraction of all cells: those that a model keeps were made without the bug."""
    graph = of.model.graph
    return derive.graph_arrays(graph), of.model._params(of.params), derive.contraction(graph, plan_elimination(graph))


def marginals_are_right(of: Case) -> Found:
    """p(x_i = v) of every cell by elimination, beside counting."""
    with jax.enable_x64(True):
        device, params, c = _contracted(of)
        _, found = derive.log_marginals(device, params, jnp.zeros((of.model.graph.n_cells, 1), jnp.int32), c)
        found = np.asarray(found)[..., 0]
    p, states = of.oracle.probabilities(of.params), of.oracle.states
    return error(found, np.array([[p[states[:, i] == v].sum() for v in range(found.shape[1])] for i in range(states.shape[1])]))


def draws_are_right(of: Case) -> Found:
    """40 000 independent draws by elimination, beside p."""
    device, params, c = _contracted(of)
    codes = jnp.zeros((of.model.graph.n_cells, 1), jnp.int32)
    kernel = derive.IndependentKernel(c, derive.forward(device, params, codes, c))
    start = np.zeros((of.model.graph.n_cells, CHAINS), np.int32)
    found = _sample.sample(
        kernel, derive.Target(device, params, None), start, seed=3, draws=1, warmup=0, thin=1, observe=None, keep=True, progress=False
    ).last
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
    blocks, probabilities = masks.blocks_of(of.model.mask(mask)[1], host.n_cells)
    with jax.enable_x64(True):
        passes = _summed_loss.block_passes(host, plan_elimination(host), blocks, probabilities)
        loss = _summed_loss.EliminatedLoss(derive.graph_arrays(host), (passes,))
        found = np.asarray(loss.rows(of.model._params(of.params), jnp.asarray(of.rows.T, jnp.int32)))
    return error(found, of.oracle.row_losses(of.params, of.rows, mask))


WEIGHTS = np.arange(1.0, 13.0) / 4


def _rows(of: Case, gaps: bool) -> np.ndarray:
    """A dozen rows as codes; with gaps, some cells are missing."""
    missing = np.random.default_rng(8).random(of.rows.shape) < (0.3 if gaps else 0.0)
    return np.where(missing, -1, of.rows)


def _objective_of(of: Case, mask: str, gaps: bool = False) -> tuple[_objective.Objective, dict[str, jax.Array]]:
    params = {k: jnp.asarray(v, float) for k, v in _on_gauge(of).items()}
    options = _fit.Options(mask)
    return _fit.make_objective(of.model.graph, of.model.mask(mask)[1], _rows(of, gaps).T, WEIGHTS, params, (), options).objective, params


def _on_gauge(of: Case) -> dict[str, np.ndarray]:
    return of.params | {"h": of.params["h"] - of.params["h"].mean()}


def objective_is_right(of: Case, mask: str, gaps: bool = False) -> Found:
    """What a fit minimises, rows weighted, at parameters that are no minimum, beside the oracle's."""
    with jax.enable_x64(True):
        objective, params = _objective_of(of, mask, gaps)
        found = np.asarray(_objective.Objective.at(objective, params) * objective.scale)
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
    model = gm.load(Path(__file__).parents[1] / "examples" / "figures" / "modes.gmlm").model()
    params, codes = model._params({"h": 0.1, "J": strength}), np.zeros((10, 1), np.int32)
    with jax.enable_x64(True):
        found = _clusters.strong_clusters(model.lowered, params, codes, model.graph.interacting_pairs).partitions
    inside = set(found[0][0].tolist()) if found else set()
    return Found(len(inside ^ {0, 1, 2, 3}) / 10, 0.0, False)


# Bugs: each changes one function of the library where it is used


def _stale(original: Any, self: Any, target: Any, keys: Any, state: Any) -> Any:
    fresh, info = original(self, target, keys, state)
    first, _ = original(_kernels.CycleKernel(self.parts[:1]), target, keys, _kernels.State(state.codes, state.memory[:1]))
    rest, _ = original(_kernels.CycleKernel(self.parts[1:]), target, keys, _kernels.State(state.codes, state.memory[1:]))
    return _kernels.State(rest.codes.at[0].set(first.codes[0]), fresh.memory), info


def _without_last_colour(original: Any, graph: Any, blocks: Any, colours: Any) -> Any:
    keep = colours < colours.max()
    return original(graph, blocks[keep], colours[keep])


def _never_last(original: Any, scores: Any, uniform: Any) -> Any:
    value, possible = original(scores, uniform)
    return jnp.minimum(value, scores.shape[1] - 2), possible


def _plain_logsumexp(original: Any, scores: Any) -> Any:
    return jnp.log(jnp.exp(scores).sum(axis=1))


def _inverse_hessian(original: Any, self: Any, score: Any = None) -> Any:
    return self.basis @ np.linalg.inv(self.hessian) @ self.basis.T


def _no_requirement(original: Any, group: Any, *rest: Any) -> Any:
    found = original(group, *rest)
    return jnp.zeros_like(found) if group.kind == "require" else found


def _scaled_correction(original: Any, target: Any, codes: Any, blocks: Any, numbers: Any, correction: Any = None) -> Any:
    return original(target, codes, blocks, numbers, correction if target.beta is None else correction * target.beta[None, None])


def _transposed(original: Any, message: Any, shape: Any) -> Any:
    found = original(message, shape)
    return jnp.swapaxes(found, 1, 2) if len(shape) == 2 and shape[0] == shape[1] else found


def _first_child_only(original: Any, messages: Any, slots: Any) -> Any:
    return messages[slots[:, 0]]


def _placed_twice(original: Any, table: Any, instance: Any, count: int) -> Any:
    found = original(table, instance, count)
    return np.concatenate([found, found[:, :1]], axis=1)


def _marginal_draws(original: Any, stage: Any, x: Any, inputs: Any, sent: Any, picked: Any) -> Any:
    return original(stage, x, inputs, sent, jnp.zeros_like(picked))


def _nothing_freed(original: Any, *arguments: Any) -> Any:
    found = original(*arguments)
    return type(found)(found.contraction, jnp.zeros_like(found.freed), found.weights)


def _plain_conditional(original: Any, self: Any, k: int) -> Any:
    return original(_block_dynamics.BlockDynamics(self.space, [self.blocks[k]], [np.ones(())]), 0)


def _without_jackknife_factor(original: Any, self: Any, figures: Any) -> Any:
    values, errors = original(self, figures)
    return values, errors / (len(self.groups) - 1)


def _constant_spin(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CellValue, "spin", False)


BUGS = (
    Bug("stale neighbour", "CycleKernel.step", around(_kernels.CycleKernel, "step", _stale), partial(stays_in_p, TWO, "turns")),
    Bug("skipped colour", "_stages", around(_samplers, "_stages", _without_last_colour), partial(moves_by_its_row, RING, "sweep")),
    Bug(
        "all blocks in one colour",
        "colour",
        around(_updates, "colour", lambda f, graph, blocks: np.zeros(len(blocks), int)),
        partial(stays_in_p, RING, "sweep"),
    ),
    Bug(
        "adaptive correction dropped in the loss",
        "ExactLoss.shares",
        around(_loss.ExactLoss, "shares", lambda f, *a: (f(*a)[0], None)),
        partial(loss_is_right, TINY, "look"),
    ),
    Bug(
        "adaptive correction dropped in the kernel",
        "draw_blocks",
        around(_kernels, "draw_blocks", lambda f, *a: f(*a[:4])),
        partial(stays_in_p, TWO, "sees"),
    ),
    Bug(
        "adaptive correction scaled by beta",
        "draw_blocks",
        around(_kernels, "draw_blocks", _scaled_correction),
        partial(stays_in_p, TWO, "heat"),
    ),
    Bug(
        "factor counted twice",
        "_touching",
        around(_arrays, "_touching", lambda f, *a: np.concatenate([f(*a), f(*a)[:, :1]], axis=1)),
        partial(loss_is_right, TINY, "one"),
    ),
    Bug("factor dropped", "_touching", around(_arrays, "_touching", lambda f, *a: f(*a)[:, 1:]), partial(loss_is_right, TINY, "one")),
    Bug("key reused across steps", "fold", around(_sample, "fold", lambda f, keys, n: keys), partial(stays_in_p, TWO, "turns", steps=2)),
    Bug(
        "key reused across chains",
        "jax.random.fold_in",
        around(jax.random, "fold_in", lambda f, key, n: key),
        partial(chains_are_independent, TWO, "turns"),
    ),
    Bug(
        "clamped cell moved",
        "clamp_scores",
        around(_kernels, "clamp_scores", lambda f, *a: a[-1]),
        partial(clamped_cells_stay, TWO, "turns"),
    ),
    Bug("sign of a penalty", "log_prior", around(_objective, "log_prior", lambda f, *a: -f(*a)), partial(objective_is_right, TINY, "one")),
    Bug("prior forgotten", "log_prior", around(_objective, "log_prior", lambda f, *a: 0 * f(*a)), partial(objective_is_right, TINY, "one")),
    Bug(
        "factor c wrong",
        "reached_cells",
        around(_fit, "reached_cells", lambda f, *a: f(*a) + 1),
        partial(objective_is_right, TINY, "one"),
    ),
    Bug(
        "weights ignored",
        "Objective.sum_rows",
        around(_objective.Objective, "sum_rows", lambda f, self, g: f(self, lambda c, w, m: g(c, jnp.ones_like(w), m))),
        partial(objective_is_right, TINY, "one"),
    ),
    Bug("last value never drawn", "pick_value", around(_kernels, "pick_value", _never_last), partial(stays_in_p, RING, "sweep")),
    Bug(
        "log-sum-exp without its maximum",
        "logsumexp",
        around(_loss, "logsumexp", _plain_logsumexp),
        partial(loss_is_right, TINY, "one", strength=2000.0),
    ),
    Bug(
        "gauge not applied in the standard errors",
        "tangent",
        around(_inference, "tangent", lambda f, *a: np.eye(len(f(*a)))),
        partial(covariance_is_right, TINY, "one"),
    ),
    Bug(
        "sandwich replaced by the inverse Hessian",
        "Curvature.sandwich",
        around(_inference.Curvature, "sandwich", _inverse_hessian),
        partial(covariance_is_right, TINY, "one"),
    ),
    Bug(
        "swap acceptance inverted",
        "log_acceptance",
        around(_temper, "log_acceptance", lambda f, *a: -f(*a)),
        partial(stays_in_p, TWO, "hot"),
    ),
    Bug(
        "swap of the wrong pair",
        "exchange",
        around(_temper, "exchange", lambda f, codes, accepted: f(codes, jnp.roll(accepted, 1, axis=0))),
        partial(stays_in_p, TWO, "hot"),
    ),
    Bug(
        "`require` ignored in a block",
        "touching_sum",
        around(_energy, "touching_sum", _no_requirement),
        partial(stays_in_p, TWO, "draws"),
    ),
    Bug(
        "mixture weights not normalised",
        "normalised",
        around(_transitions, "normalised", lambda f, w, span: w),
        partial(matrix_is_right, TINY, "either"),
    ),
    Bug(
        "repeat off by one",
        "repeat_count",
        around(_samplers, "repeat_count", lambda f, *a: f(*a) - 1),
        partial(moves_by_its_row, TWO, "twice"),
    ),
    Bug(
        "missing cells at their best value, not summed out",
        "logsumexp",
        around(_gaps, "logsumexp", lambda f, scores: scores.max(axis=1)),
        partial(objective_is_right, TINY, "one", gaps=True),
    ),
    Bug(
        "message into the wrong axes",
        "_fitted",
        around(_sums, "_fitted", _transposed),
        partial(marginals_are_right, MACHINE),
    ),
    Bug(
        "messages of all children but the first dropped",
        "sum_of",
        around(_sums, "sum_of", _first_child_only),
        partial(marginals_are_right, MACHINE),
    ),
    Bug("factor placed twice", "_listed", around(_tables, "_listed", _placed_twice), partial(marginals_are_right, MACHINE)),
    Bug(
        "backward not conditioned on what was picked",
        "_slice",
        around(_sums, "_slice", _marginal_draws),
        partial(draws_are_right, MACHINE),
    ),
    Bug(
        "evidence dropped",
        "evidence",
        around(_summed_loss, "evidence", lambda f, *a: jnp.zeros_like(f(*a))),
        partial(hidden_loss_is_right, MACHINE, "all", 2),
    ),
    Bug(
        "cells of the block not freed",
        "mask_passes",
        around(_summed_loss, "mask_passes", _nothing_freed),
        partial(hidden_loss_is_right, MACHINE, "ends", 2),
    ),
    Bug(
        "order of components",
        "contraction",
        around(_summed_loss, "contraction", lambda f, *a: eqx.tree_at(lambda c: c.root_order, f(*a), f(*a).root_order[::-1])),
        partial(block_loss_is_right, PARTS, "uneven"),
    ),
    Bug(
        "adaptive correction dropped in the block dynamics",
        "BlockDynamics.conditional",
        around(_block_dynamics.BlockDynamics, "conditional", _plain_conditional),
        partial(comparison_is_right, ising, "seeing"),
    ),
    Bug(
        "score of one mask taken for that of all",
        "Information.score",
        around(_estimation.Information, "score", lambda f, self, n_masks: self.hessian),
        partial(comparison_is_right, ising, "k2"),
    ),
    Bug(
        "information without the weights p",
        "_weighted",
        around(_estimation, "_weighted", lambda f, space, a, b: a.reshape(space.count, -1).T @ b.reshape(space.count, -1)),
        partial(comparison_is_right, ising, "k2"),
    ),
    Bug(
        "jackknife without its factor",
        "Sampled.estimate",
        around(_monte_carlo.Sampled, "estimate", _without_jackknife_factor),
        partial(estimates_are_right, ising, "k1"),
    ),
    Bug(
        "two masks of a row not kept apart",
        "_second_moments",
        around(_monte_carlo, "_second_moments", lambda f, *a: [(h, h) for h, _ in f(*a)]),
        partial(estimates_are_right, ising, "k1"),
    ),
    Bug(
        "influence inverted",
        "influences",
        around(_clusters, "influences", lambda f, *a: 1 - f(*a)),
        partial(clique_is_found, 1.0),
    ),
    Bug("spin read as a bit", "CellValue.spin", _constant_spin, partial(log_potential_is_right, MIXED)),
    *NETWORK_BUGS,
    *SEARCH_BUGS,
)


def as_it_is(bug: Bug) -> Found:
    """What the check finds in the library as it is."""
    if bug.check_words not in _AS_IT_IS:  # several bugs have one check
        _AS_IT_IS[bug.check_words] = bug.check()
    return _AS_IT_IS[bug.check_words]


_AS_IT_IS: dict[str, Found] = {}


def with_the_bug(bug: Bug) -> Found:
    """What the check finds with the bug; functions that were compiled without it, or with it, are forgotten."""
    jax.clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        found = bug.check()
    jax.clear_caches()
    return found


def row(bug: Bug) -> str:
    """A bug's row of the table."""
    right, wrong = as_it_is(bug), with_the_bug(bug)
    limit = f"{'above' if right.above else 'at most'} {right.limit:g}"
    return f"| {' | '.join((bug.name, f'`{bug.where}`', f'`{bug.check_words}`', right.words, wrong.words, limit))} |"


def table() -> str:
    """The Markdown table of all bugs."""
    lines = ["| bug | planted in | caught by | as it is | with the bug | limit |", "|---|---|---|---|---|---|"]
    for bug in BUGS:
        lines.append(row(bug))
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def main() -> None:
    """Prints the table; with `--write` renews it on its page."""
    found = table()
    print(found)
    if "--write" in sys.argv:
        text = PAGE.read_text()
        PAGE.write_text(text[: text.index(BEGIN) + len(BEGIN)] + "\n\n" + found + "\n\n" + text[text.index(END) :])


if __name__ == "__main__":
    main()
