"""Monte Carlo EM for rows whose missing cells cannot be summed out.

Each iteration redraws the missing cells of several copies of each row by block dynamics at the
present parameters, and then minimises the objective of the completed rows. At the true parameters
the mean gradient of completed rows is 0, so the fixed point is consistent if cells are missing at
random. The estimate is the mean over the last iterations. It is accepted if this mean drifts no
further than its Monte Carlo error, and if that error is small relative to the standard errors.

Reference: Wei and Tanner 1990; for composite likelihoods Gao and Song 2011.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .._diagnostics import fail
from .._types import Arrays
from ..data import random_key
from ..derive import Graph, bounded_jit, redraw_gaps
from ..derive.compiled import log_potential
from ..evaluate import Missing, Objective, slopes, unflatten
from ..graph import FactorGraph
from ._inference import Copies
from ._long_fit import LongFit
from ._optimise import Outcome
from ._options import MonteCarloEM
from .limits import (
    FEWEST_LATENT_ROUNDS,
    FEWEST_ROUNDS,
    FIRST_SWEEPS,
    MOST_DRIFT,
    MOST_REDRAWN_VALUES,
    REDRAWN,
    ROUNDS_BETWEEN,
    SETTLED_NOISE,
    UNKNOWN_ERROR,
)

Array = np.ndarray


@dataclass(frozen=True)
class Imputed:
    """The rows to impute: the columns of their copies in an objective, and their missing cells.

    `blocks` are the blocks of missing cells of each column, and `values` is the maximum number of
    joint values of a block.
    """

    copies: Copies
    blocks: Array  # (steps, members, columns)
    values: int
    rows: Array


def missing_blocks(graph: FactorGraph, missing: Array) -> tuple[Array, int]:
    """Return each row's missing cells in blocks of few joint values, and the maximum number.

    The blocks have the shape (steps, members, rows) and are padded.
    """
    rows: list[list[list[int]]] = []
    most = 1
    for r in range(missing.shape[1]):
        blocks: list[list[int]] = []
        values = 1
        for cell in np.flatnonzero(missing[:, r]).tolist():
            size = int(graph.sizes[cell])
            if blocks and values * size <= MOST_REDRAWN_VALUES:
                blocks[-1].append(cell)
                values *= size
            else:
                blocks.append([cell])
                values = size
            most = max(most, values)
        rows.append(blocks)
    steps, members = max(map(len, rows)), max(len(b) for blocks in rows for b in blocks)
    out = np.full((steps, members, len(rows)), graph.n_cells, np.int32)
    for r, blocks in enumerate(rows):
        for k, block in enumerate(blocks):
            out[k, : len(block), r] = block
    return out, most


def first_values(graph: FactorGraph, codes: Array, rng: np.random.Generator) -> Array:
    """Fill missing cells with values that the cell has in other rows.

    If the cell has no value in any row, any value is used.
    """
    out = codes.copy()
    for cell in np.flatnonzero((codes < 0).any(axis=1)):
        gaps = codes[cell] < 0
        seen = codes[cell][~gaps]
        out[cell, gaps] = rng.choice(seen, gaps.sum()) if len(seen) else rng.integers(graph.sizes[cell], size=int(gaps.sum()))
    return out


_redraw = bounded_jit(redraw_gaps)


def monte_carlo_em(
    objective: Objective,
    imputed: Imputed,
    graph: Graph,
    minimise: Callable[[Objective, Arrays], Outcome],
    errors: Array,
    seed: int,
    report: Missing,
    run: LongFit,
    method: MonteCarloEM,
) -> tuple[Objective, Outcome, Missing, Copies]:
    """Alternate redrawing and minimising until the estimate has settled.

    Args:
        objective: the objective, with first values in the missing cells.
        imputed: the rows to impute.
        graph: the factor graph on the device.
        minimise: a function from an objective and a start to an outcome.
        errors: rough standard errors of the unconstrained parameters, the scale on which the Monte
            Carlo error is judged.
        seed: the seed of the imputations.
        report: the report to complete.
        run: the saved states of the fit.
        method: the maximum number of iterations, and of sweeps in each.

    Returns:
        The objective with the last imputations, the outcome at the mean of the last iterations, the
        report, and further imputations at that mean.

    Raises:
        GmlmError: E508 if no possible completion of a row was found.
    """
    key = jax.random.fold_in(random_key(seed), 0x1117)
    columns = imputed.copies.columns
    blocks = jnp.asarray(imputed.blocks)

    def redrawn(at: Objective, free: Arrays, sweeps: int, number: int) -> Objective:
        params = at.frame.constrain(free, at.held)
        codes = _redraw(graph, params, at.codes[:, columns], blocks, imputed.values, sweeps, jax.random.fold_in(key, number))
        return eqx.tree_at(lambda o: o.codes, at, at.codes.at[:, columns].set(codes.astype(at.codes.dtype)))

    free = objective.frame.unconstrain(objective.held)
    objective = redrawn(objective, free, FIRST_SWEEPS, 0)
    _verify_possible(objective, graph, columns, imputed)
    found, trace = [], []
    noise = drift = float("inf")
    flat, restore = ravel_pytree(free)
    begun, first = 0, (objective.codes, free)
    saved = run.begun(lambda n: (*first, np.zeros((n, *flat.shape), flat.dtype), np.zeros(n)))
    if saved is not None:
        begun, (codes, free, before, values) = saved
        objective = eqx.tree_at(lambda o: o.codes, objective, codes)
        found, trace = [*before], [*values]
    for number in range(begun + 1, method.rounds + 1):
        objective = redrawn(objective, free, method.sweeps, number)
        outcome = minimise(objective, free)
        free = outcome.free
        found.append(np.asarray(ravel_pytree(free)[0]))
        trace.append(outcome.trace[-1] if len(outcome.trace) else np.nan)
        if outcome.reason == "diverged" or not free:
            noise = drift = float("inf") if free else 0.0
            break
        if number >= (FEWEST_LATENT_ROUNDS if report.latents else FEWEST_ROUNDS) and number % ROUNDS_BETWEEN == 0:
            noise, drift = _judge(np.array(found[number // 2 :]), errors)
            if noise < SETTLED_NOISE and drift < MOST_DRIFT:
                break
        if number < method.rounds:
            here = objective.codes, free
            run.reached(number, lambda at=here: (*at, np.array(found), np.array(trace, float)))
    mean = np.mean(found[len(found) // 2 :], axis=0)
    free = restore(jnp.asarray(mean))
    last = []
    for number in range(REDRAWN):
        objective = redrawn(objective, free, FIRST_SWEEPS, method.rounds + 1 + number)
        last.append(np.asarray(objective.codes[:, columns]))
    copies = dataclasses.replace(imputed.copies, redrawn=np.array(last))
    settled = noise < SETTLED_NOISE and drift < MOST_DRIFT
    reason = "diverged" if not np.isfinite(mean).all() else "converged" if settled else "steps"
    report = dataclasses.replace(report, imputations=imputed.copies.count, iterations=len(found), noise=noise, drift=drift)
    return objective, Outcome(free, np.array(trace), 0.0 if settled else float("inf"), len(found), reason), report, copies


def _judge(rounds: Array, errors: Array) -> tuple[float, float]:
    """Return the largest Monte Carlo error of the mean over iterations, and its largest drift.

    The error is in units of the standard errors. The drift between the two halves is in units of
    its Monte Carlo error.
    """
    n = len(rounds)
    batch = max(1, int(np.sqrt(n)))
    batches = rounds[n % batch :].reshape(-1, batch, rounds.shape[1]).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    halves = np.abs(rounds[: n // 2].mean(axis=0) - rounds[n - n // 2 :].mean(axis=0))
    if not np.isfinite(rounds).all():
        return float("inf"), float("inf")
    known = np.isfinite(errors) & (errors > 0)
    scale = np.where(known, errors, UNKNOWN_ERROR * np.maximum(1.0, np.abs(rounds.mean(axis=0))))
    # A drift far below a standard error does not matter, even if it is significant.
    z = halves / np.maximum(2 * error, SETTLED_NOISE * scale)
    return float((error / scale).max(initial=0.0)), float(z.max(initial=0.0))


def _verify_possible(objective: Objective, graph: Graph, columns: slice, imputed: Imputed) -> None:
    value = np.asarray(log_potential(graph, objective.held, objective.codes[:, columns]))
    bad = ~np.isfinite(value)
    if bad.any():
        row = int(imputed.rows[int(np.argmax(bad)) // imputed.copies.count])
        message = f"no possible completion of the missing cells of row {row} was found"
        raise fail("E508", message, help="the observed cells may break a `require`: mend or drop the row; or fill some of its cells")


def unconstrained_errors(objective: Objective, free: Arrays, errors: Array) -> Array:
    """Return standard errors of the unconstrained parameters, in the order of a flattened dict."""
    own, out = unflatten(objective.frame.host, errors), {}
    for p in objective.frame.host.parameters:
        if p.name in free and p.kind in ("simplex", "ordered"):
            out[p.name] = np.full(np.size(free[p.name]), np.nan)
        elif p.name in free:
            out[p.name] = np.ravel(own[p.name]) / np.abs(slopes(p, free[p.name]))
    return np.concatenate([out[name] for name in sorted(out)]) if out else np.zeros(0)
