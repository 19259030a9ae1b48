"""Bugs planted in models, masks, kernels, fits and theory: each changes one function of the library where it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from one_step import MIXED, RING
from planted_checks import (
    MACHINE,
    PARTS,
    TINY,
    TWO,
    block_loss_is_right,
    chains_are_independent,
    clamped_cells_stay,
    clique_is_found,
    comparison_is_right,
    covariance_is_right,
    draws_are_right,
    estimates_are_right,
    hidden_loss_is_right,
    log_potential_is_right,
    loss_is_right,
    marginals_are_right,
    matrix_is_right,
    moves_by_its_row,
    numpy_marginals_are_right,
    numpy_mode_is_right,
    objective_is_right,
    stays_in_p,
)
from planting import Bug, around
from theory_cases import ising

from gmlmdsl.derive import _energy, _kernels, _listed, _loss, _samplers, _summed_loss, _sums, _tabled_sweep, _transitions
from gmlmdsl.evaluate import _host_elimination, _objective
from gmlmdsl.fit import _inference, _prepare
from gmlmdsl.graph.nodes import CellValue
from gmlmdsl.plan import _block_tables, _sweep_layout, _tables, _updates
from gmlmdsl.program import CODES
from gmlmdsl.sample import _run_chains
from gmlmdsl.sample import _run_kernel as _sample
from gmlmdsl.theory import _block_dynamics, _estimation, _monte_carlo, _suggest


def _stale(original: Any, self: Any, target: Any, keys: Any, state: Any) -> Any:
    fresh, info = original(self, target, keys, state)
    first, _ = original(_kernels.CycleKernel(self.parts[:1]), target, keys, _kernels.State(state.codes, state.memory[:1]))
    rest, _ = original(_kernels.CycleKernel(self.parts[1:]), target, keys, _kernels.State(state.codes, state.memory[1:]))
    return _kernels.State(rest.codes.at[0].set(first.codes[0]), fresh.memory), info


def _without_last_colour(original: Any, graph: Any, blocks: Any, colours: Any) -> Any:
    keep = colours < colours.max()
    return original(graph, blocks[keep], colours[keep])


def _never_last(original: Any, scores: Any, words: Any) -> Any:
    value, possible = original(scores, words)
    return jnp.minimum(value, scores.shape[1] - 2), possible


def _never_last_of_few(original: Any, scores: Any, words: Any) -> Any:
    value, possible = original(scores, words)
    return jnp.minimum(value, len(scores) - 2), possible


def _never_last_by_weight(original: Any, weights: Any, words: Any) -> Any:
    return jnp.minimum(original(weights, words), len(weights) - 2)


def by_lists(owner: Any, name: str, change: Any) -> Any:
    """`around` of what reads lists, where products would be quicker."""
    plant = around(owner, name, change)

    def both(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(_sweep_layout, "MOST_BESIDE", 0)
        plant(patch)

    return both


def _at_other_parameters(original: Any, self: Any, target: Any) -> Any:
    return original(self, target._replace(params={k: jnp.roll(v, 1) for k, v in target.params.items()}))


def _without_last_neighbour(original: Any, graph: Any, tables: Any, none: int, cells: Any) -> Any:
    found = original(graph, tables, none, cells)
    for _, _, places in found.kinds:
        places[..., -1, :] = none
    return found


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
    freed = jnp.zeros((found.weights.shape[0], found.contraction.free.shape[0]), bool)
    return type(found)(found.contraction, freed, found.weights, found.owners, False)


def _plain_conditional(original: Any, self: Any, k: int) -> Any:
    return original(_block_dynamics.BlockDynamics(self.space, [self.blocks[k]], [np.ones(())]), 0)


def _without_jackknife_factor(original: Any, self: Any, figures: Any) -> Any:
    values, errors = original(self, figures)
    return values, errors / (len(self.groups) - 1)


def _codes_as_values(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CellValue, "scale", CODES)


def _summed(original: Callable[..., Any], table: Any) -> Any:
    return np.log(np.exp(table).sum(axis=0))


def _alone(self: Any) -> Iterator[tuple[int, Any]]:
    """Each distribution as if the cells that are eliminated later were uniform."""
    for step, message in enumerate(self.sent):
        joint = self.joint[step]
        law = np.exp(joint - message)
        yield step, law.reshape(len(law), -1).mean(axis=1)


def _known_at_first(original: Callable[..., Any], self: Any, cells: Any, values: Any) -> Any:
    """Known cells count as if they had their first value."""
    self.codes[:] = 0
    return original(self, cells, values)


MODEL_BUGS = (
    Bug(
        "cells that are eliminated later treated as uniform",
        "_Pass.laws",
        lambda patch: patch.setattr(_host_elimination._Pass, "laws", _alone),
        partial(numpy_marginals_are_right, MACHINE),
    ),
    Bug(
        "known cells set to their first value",
        "_Pass._restricted",
        around(_host_elimination._Pass, "_restricted", _known_at_first),
        partial(numpy_marginals_are_right, MACHINE, cell_0=1),
    ),
    Bug("sums in place of maxima", "_maximum", around(_host_elimination, "_maximum", _summed), partial(numpy_mode_is_right, MACHINE)),
    Bug("stale neighbour", "CycleKernel.step", around(_kernels.CycleKernel, "step", _stale), partial(stays_in_p, TWO, "turns")),
    Bug("skipped colour", "_pieces", around(_sweep_layout, "_pieces", _without_last_colour), partial(moves_by_its_row, RING, "sweep")),
    Bug(
        "neighbour dropped from a list",
        "cell_lists",
        by_lists(_sweep_layout, "cell_lists", _without_last_neighbour),
        partial(stays_in_p, RING, "sweep"),
    ),
    Bug(
        "different entries treated as equal",
        "_exceptions",
        by_lists(_sweep_layout, "_exceptions", lambda f, row: (f(row)[0], f(row)[1][1:])),
        partial(stays_in_p, RING, "sweep"),
    ),
    Bug(
        "lists of neighbours shifted by one place",
        "_list_scores",
        by_lists(_tabled_sweep, "_list_scores", lambda f, turn, codes, *a: f(turn, jnp.roll(codes, 1, axis=0), *a)),
        partial(stays_in_p, RING, "sweep"),
    ),
    Bug(
        "cell dropped from a product",
        "_product_scores",
        around(_tabled_sweep, "_product_scores", lambda f, scoring, seen, *more: f(scoring, seen.at[0].set(0.0), *more)),
        partial(stays_in_p, RING, "sweep"),
    ),
    Bug(
        "tables computed from other parameters",
        "TabledSweepKernel.prepared",
        around(_tabled_sweep.TabledSweepKernel, "prepared", _at_other_parameters),
        partial(stays_in_p, RING, "sweep"),
    ),
    Bug(
        "`require` ignored in a sweep from tables",
        "TabledSweepKernel.excluded",
        around(_tabled_sweep.TabledSweepKernel, "excluded", lambda f, *a: None),
        partial(stays_in_p, TWO, "turns"),
    ),
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
        around(_block_tables, "_touching", lambda f, *a: np.concatenate([f(*a), f(*a)[:, :1]], axis=1)),
        partial(loss_is_right, TINY, "one"),
    ),
    Bug("factor dropped", "_touching", around(_block_tables, "_touching", lambda f, *a: f(*a)[:, 1:]), partial(loss_is_right, TINY, "one")),
    Bug("key reused across steps", "fold", around(_sample, "fold", lambda f, keys, n: keys), partial(stays_in_p, TWO, "turns", steps=2)),
    Bug(
        "key reused across chains",
        "keys_of",
        around(_run_chains, "keys_of", lambda f, seed, numbers: f(seed, np.zeros_like(numbers))),
        partial(chains_are_independent, TWO, "turns"),
    ),
    Bug(
        "clamped cell moved",
        "clamp_scores",
        around(_kernels, "clamp_scores", lambda f, *a: a[-1]),
        partial(clamped_cells_stay, TWO, "draws"),
    ),
    Bug(
        "clamped cell moved in a sweep from tables",
        "TabledSweepKernel.swept",
        around(_tabled_sweep.TabledSweepKernel, "swept", lambda f, self, target, *a: f(self, target._replace(clamped=None), *a)),
        partial(clamped_cells_stay, TWO, "turns"),
    ),
    Bug(
        "wrong sign of the log prior",
        "log_prior",
        around(_objective, "log_prior", lambda f, *a: -f(*a)),
        partial(objective_is_right, TINY, "one"),
    ),
    Bug("prior omitted", "log_prior", around(_objective, "log_prior", lambda f, *a: 0 * f(*a)), partial(objective_is_right, TINY, "one")),
    Bug(
        "wrong factor c of the objective",
        "reached_cells",
        around(_prepare, "reached_cells", lambda f, *a: f(*a) + 1),
        partial(objective_is_right, TINY, "one"),
    ),
    Bug(
        "weights of rows ignored",
        "Objective.row_total",
        around(
            _objective.Objective, "row_total", lambda f, self, p: f(eqx.tree_at(lambda o: o.weights, self, jnp.ones_like(self.weights)), p)
        ),
        partial(objective_is_right, TINY, "one"),
    ),
    Bug("last value never drawn", "pick_value", around(_kernels, "pick_value", _never_last), partial(stays_in_p, RING, "pairs")),
    Bug(
        "last value never drawn in a sweep from tables",
        "pick_of_few",
        around(_tabled_sweep, "pick_of_few", _never_last_of_few),
        partial(stays_in_p, RING, "sweep"),
    ),
    Bug(
        "last value never drawn in a draw by weights",
        "pick_of_weights",
        by_lists(_tabled_sweep, "pick_of_weights", _never_last_by_weight),
        partial(stays_in_p, RING, "sweep"),
    ),
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
        around(_kernels, "log_acceptance", lambda f, *a: -f(*a)),
        partial(stays_in_p, TWO, "hot"),
    ),
    Bug(
        "swap of the wrong pair",
        "exchange",
        around(_kernels, "exchange", lambda f, codes, accepted: f(codes, jnp.roll(accepted, 1, axis=0))),
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
        "row_weights",
        around(_transitions, "row_weights", lambda f, lowered, kernel: 2 * f(lowered, kernel)),
        partial(matrix_is_right, TINY, "either"),
    ),
    Bug(
        "repeat off by one",
        "repeat_count",
        around(_samplers, "repeat_count", lambda f, *a: f(*a) - 1),
        partial(moves_by_its_row, TWO, "twice"),
    ),
    Bug(
        "missing cells maximised, not summed out",
        "logsumexp",
        around(_listed, "logsumexp", lambda f, scores: scores.max(axis=1)),
        partial(objective_is_right, TINY, "one", gaps=True),
    ),
    Bug(
        "axes of a message exchanged",
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
    Bug("factor placed twice", "listed_by", around(_tables, "listed_by", _placed_twice), partial(marginals_are_right, MACHINE)),
    Bug(
        "backward draws not conditioned on the values drawn before",
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
        "wrong order of components",
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
        "score of one mask used for all masks",
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
        around(_monte_carlo.SampledInformation, "estimate", _without_jackknife_factor),
        partial(estimates_are_right, ising, "k1"),
    ),
    Bug(
        "two masks of a row treated as one",
        "_second_moments",
        around(_monte_carlo, "_second_moments", lambda f, *a: [(h, h) for h, _ in f(*a)]),
        partial(estimates_are_right, ising, "k1"),
    ),
    Bug(
        "influence inverted",
        "influences",
        around(_suggest, "influences", lambda f, *a: 1 - f(*a)),
        partial(clique_is_found, 1.0),
    ),
    Bug("spin read as a bit", "CellValue.scale", _codes_as_values, partial(log_potential_is_right, MIXED)),
)
