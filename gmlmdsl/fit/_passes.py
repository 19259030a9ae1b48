"""Fits to rows that are read in pieces: each evaluation of the objective passes over all rows."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from .._diagnostics import GmlmError, fail
from .._progress import shows_progress, waiting
from ..data import Pieces, bound_dataset, hash_of_arrays, verified_weights
from ..derive import bounded_jit, on_device
from ..evaluate import Missing, Objective, Sums, has_kinks, is_convex, log_prior, masks_per_row, second_order, verify_bounded_priors
from ..graph import Lowered
from ..masks import AbstractMask
from ._existence import Recession
from ._few_rows import Inferred, Later, infer
from ._fit import Estimate, start_of, verified_options, verified_rows
from ._inference import curvature
from ._long_fit import fit_identity, long_fit
from ._minimise import infers, params_of
from ._optimise import Scaled, lbfgs, lbfgs_in_passes, scaling
from ._options import Evidence, FitOptions
from ._prepare import make_objective, objective_colouring, verify_possible
from ._status import Finding, examine, judge

Array = np.ndarray
UNSURE = (
    "The data say little in some direction, and whether they separate was examined in the first rows alone",
    "Give these parameters a prior, `~ normal(0, 1)` say",
)


class Passes:
    """The objective of rows that are read in pieces.

    Args:
        lowered: the model.
        pieces: the rows.
        weights: the weights of all rows.
        first: the objective of the first piece, whose shapes all pieces share.
        start: the parameters at which rows are verified.
    """

    def __init__(self, lowered: Lowered, pieces: Pieces, weights: Array, first: Objective, start: dict[str, jax.Array]):
        self.lowered, self.pieces, self.weights, self.start = lowered, pieces, weights, start
        self.first = dataclasses.replace(first, scale=on_device(np.asarray(weights.sum(), first.scale.dtype)))
        self.verified = False

    def __iter__(self) -> Iterator[Objective]:
        """Yield the objective of each piece; the first pass verifies the rows."""
        width, start = self.first.codes.shape[1], 0
        for piece in self.pieces:
            codes = codes_of(self.lowered, piece, start)
            weights = self.weights[start : start + codes.shape[1]]
            if not self.verified:
                verify_possible(self.lowered, codes, weights, self.start, start)
            padding, start = width - codes.shape[1], start + codes.shape[1]
            whole, each = np.pad(codes, ((0, 0), (0, padding)), mode="edge"), np.pad(weights, (0, padding))
            yield dataclasses.replace(self.first, codes=on_device(whole), weights=on_device(each.astype(self.first.weights.dtype)))
        self.verified = True

    def both(self, at: Scaled, z: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the objective of all rows and its gradient, at coordinates."""
        value, gradient = _prior(at, z)
        for objective in self:
            more = _without_prior(dataclasses.replace(at, objective=objective), z)
            value, gradient = value + more[0], gradient + more[1]
        return value, gradient

    def summed(self, colours: Any, vector: jax.Array) -> Sums:
        """Return the second-order sums of all rows."""
        return functools.reduce(Sums.__add__, (second_order(objective, vector, colours) for objective in self))


@bounded_jit
def _without_prior(at: Scaled, z: jax.Array) -> tuple[jax.Array, jax.Array]:
    o = at.objective
    return jax.value_and_grad(lambda z: o.factor * o.row_total(o.frame.constrain(at.free(z), o.held)) / o.scale)(z)


@bounded_jit
def _prior(at: Scaled, z: jax.Array) -> tuple[jax.Array, jax.Array]:
    o = at.objective
    return jax.value_and_grad(lambda z: -log_prior(o.frame.host, o.frame.constrain(at.free(z), o.held)) / o.scale)(z)


def codes_of(lowered: Lowered, piece: Any, start: int) -> Array:
    """Return the codes of the rows of a piece, (cells, rows).

    Raises:
        GmlmError: E511 for missing cells and latents, which are not summed out in pieces.
    """
    try:
        codes = bound_dataset(lowered, piece, np.nan, None)[1].codes
    except GmlmError as error:
        note = f"these rows are rows {start} and following of x, counted there from 0"
        raise GmlmError([dataclasses.replace(d, help=f"{d.help}; {note}" if d.help else note) for d in error.diagnostics]) from None
    lacking = (codes < 0).any(axis=0)
    if lacking.any():
        message = f"row {start + int(np.argmax(lacking))} of x lacks a cell, and rows that are read in pieces must be complete"
        raise fail("E511", message, help="leave `rows_at_once=` out, or drop these rows")
    return codes


def fit_in_pieces(lowered: Lowered, mask: AbstractMask, pieces: Pieces, options: FitOptions) -> Estimate:
    """Fit a model to rows that are read in pieces; see `JointModel.fit`.

    L-BFGS starts at the estimate of the first piece, in coordinates in which the Hessian there is
    the identity, so that few passes are needed.

    Args:
        lowered: the model.
        mask: the mask of the loss.
        pieces: the rows.
        options: the options of the fit.

    Raises:
        GmlmError: E507 for options and masks that need all rows at once; and those of `fit_model`.
    """
    began, host = time.perf_counter(), lowered.graph
    _verify(lowered, mask, options)
    options = verified_options(options)
    weights = np.ones(pieces.count) if options.weights is None else verified_weights(options.weights, pieces.count)
    codes = codes_of(lowered, next(iter(pieces)), 0)
    verified_rows(mask, codes, dataclasses.replace(options, weights=None))
    folder, options = options.checkpoint, dataclasses.replace(options, checkpoint=None, weights=None)
    with jax.enable_x64(True), waiting("fitting in passes", shows_progress(options.progress)):  # pyright: ignore[reportAttributeAccessIssue]
        start, fixed = start_of(host, options)
        verify_bounded_priors(host, frozenset(fixed))
        prepared = make_objective(host, mask, codes, weights[: codes.shape[1]], start, fixed, options)
        passes = Passes(lowered, pieces, weights, prepared.objective, start)
        colours = functools.cache(functools.partial(objective_colouring, prepared.objective))
        if infers(prepared.objective, start) and colours() is None:
            message = "`rows_at_once=` sums second derivatives of factors that are linear in the parameters, and these are not"
            raise fail("E507", message, help="leave `rows_at_once=` out")
        with long_fit(folder, lambda: fit_identity(lowered, _hashes(lowered, pieces), weights, start, options)) as run:
            at = _coordinates(prepared.objective, passes.first, colours)

            run.resumed()
            both = functools.partial(passes.both, at)
            outcome = lbfgs_in_passes(at, both, options.max_steps, run.unfinished, run.reached_within)
        params = params_of(passes.first, outcome)
        rows = float(weights.sum() ** 2 / max((weights**2).sum(), 1e-300))
        inferred = Later(lambda: _judged(passes, params, outcome, colours, rows), options.progress)
    evidence, missing = Evidence(lowered, mask, codes[:, :0], options), Missing(np.zeros(host.n_random, np.int64))
    arrays, value = {k: np.asarray(v) for k, v in params.items()}, outcome.value * float(weights.sum())
    seconds = time.perf_counter() - began
    return Estimate(evidence, arrays, inferred, outcome, value, prepared.use, fixed, is_convex(host), pieces.count, missing, seconds, rows)


def _hashes(lowered: Lowered, pieces: Pieces) -> np.ndarray:
    """Return the hash of the codes of each piece, in a pass of its own."""
    return np.array([hash_of_arrays([codes_of(lowered, piece, 0)]) for piece in pieces])


def _verify(lowered: Lowered, mask: AbstractMask, options: FitOptions) -> None:
    """Raise E507 for options and masks that need all rows at once.

    Raises:
        GmlmError: E507.
    """
    asked = {"optimizer=": options.optimizer, "method=": options.method, "impute=": options.impute, "mesh_axis=": options.mesh_axis}
    asked |= {"n_masks=": options.n_masks, 'gaps="ignore"': options.ignores, 'weights_are="counts"': options.weights_are != "importances"}
    asked |= {"drawn masks": masks_per_row(mask, options.n_masks) is not None}
    asked |= {"given data": lowered.graph.given, "a mask that depends on rows": mask.varies}
    asked |= {"a prior with a kink": has_kinks(lowered.graph, tuple(options.fixed or ()))}
    found = next((what for what, value in asked.items() if value not in (None, False, ())), None)
    if found is not None:
        message = f"`rows_at_once=` sums a loss over complete rows, without {found}"
        raise fail("E507", message, help="leave one of them out; `n_masks=` and `optimizer=` go with rows in memory")


def _coordinates(first: Objective, whole: Objective, colours: Callable[[], Any]) -> Scaled:
    """Return coordinates that are scaled by the curvature of the first piece.

    Their origin is the estimate of that piece, or the start if there is none.
    """
    free = first.frame.unconstrain({k: np.asarray(v) for k, v in first.held.items()})  # pyright: ignore[reportArgumentType]
    outcome, found = lbfgs(Scaled(first, free, None), None), colours()
    at, params = outcome.free, params_of(first, outcome)
    is_known = outcome.reason != "diverged" and infers(first, params)
    if found is None or not is_known:
        return Scaled(whole, at if outcome.reason == "converged" else free, None)
    curve = curvature(first, params, found)
    if examine(first, params, curve, None, found, False).direction is not None:  # the first rows alone separate
        at, curve = free, curvature(first, first.held, found)
    return Scaled(whole, at, scaling(first, at, curve.hessian / float(first.scale), curve.basis))


def _judged(passes: Passes, params: dict[str, jax.Array], outcome: Any, colours: Callable[[], Any], rows: float) -> Inferred:
    """Return the status of an estimate with its covariances; it takes one more pass."""
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        objective, found = passes.first, colours()
        curve = None if found is None else curvature(objective, params, found, summed=functools.partial(passes.summed, found))
        open_ = examine(objective, params, curve, None, found)
        unsure = open_.direction is not None
        if unsure and curve is not None:  # the first rows separate, and the others may not
            open_ = Recession(None, curve.flat(), checked=False)
        status = judge(objective, params, outcome, open_, curve, found)
        if unsure:
            status = dataclasses.replace(status, code="not-converged", findings=(*status.findings, Finding("not-converged", *UNSURE)))
        return infer(objective, params, status, curve, rows)
