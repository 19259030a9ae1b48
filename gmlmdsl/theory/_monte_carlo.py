"""Estimates of the information of masks from draws of x, with standard errors.

They serve models that are too large to enumerate. Draws come in independent groups, which are
chains or parts of independent draws. Information matrices are means over draws, so that each group
has its own matrices. The standard error of a number computed from them is a jackknife that leaves
one group out at a time. The jackknife also removes the bias of order 1 / draws.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import GmlmError, fail, tell, whole_number
from .._types import AnyArray, Given
from ..data import bound_mask, bound_once, encode, random_key, verified_seed
from ..derive import Chunks, DrawnEliminatedLoss, DrawnLoss, ExactLoss, as_listed, bounded_jit, drawn_loss
from ..evaluate import (
    Frame,
    Objective,
    chunk_rows,
    colouring,
    draw_masks,
    entry_names,
    flatten,
    is_affine,
    known_params,
    make_loss,
    masks_per_row,
    second_order,
    tangent,
    unflatten,
    verify_latents,
)
from ..graph import FactorGraph, Lowered, verify_is_model
from ..masks import AbstractMask
from ..plan import verify_held
from ..program import ir
from ..sample import SamplingWarning
from ._estimation import Information, verify_masks_per_row
from .limits import DRAWS_PER_PARAMETER, GROUPS, MASKS_PER_ROW, MOST_ESTIMATED

if TYPE_CHECKING:
    from ..model import Model, Params

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Draws from p, in groups.

    Attributes:
        lowered: the model, with its given data.
        params: parameters, float64.
        codes: shape (cells, draws), group after group, all of one size.
        groups: the number of groups.
        words: the method of drawing, in words.
    """

    lowered: Lowered
    params: dict[str, jax.Array]
    codes: Array
    groups: int
    words: str

    def codes_of(self, group: int) -> Array:
        """Return the codes of one group."""
        size = self.codes.shape[1] // self.groups
        return self.codes[:, group * size : (group + 1) * size]


def draw_rows(model: Model, params: Params, sampler: str | None, draws: int, seed: int, given: Given | None) -> DrawnRows:
    """Draw rows from p, independently or by chains of a sampler.

    Draws are independent if a plan is affordable and no sampler is named.

    Args:
        model: the model, without latents.
        params: parameters.
        sampler: the sampler's name, or None.
        draws: the number of draws.
        seed: the seed.
        given: one row of data of given variables.

    Raises:
        GmlmError: E507 for an invalid `draws` or a model with latents, E506 if a sampler must be
            named; the errors of `Model.sample`.
    """
    _verify_draws(model, draws, seed)
    each = -(-draws // GROUPS)
    options = {"draws": each, "chains": GROUPS, "seed": seed, "given": given, "progress": False}
    if sampler is None:
        try:
            idata, words = model.sample(params, sampler="exact", **options), "independent draws"
        except GmlmError as error:
            if error.codes != ("E601",):
                raise
            sampler = model.sampler(None)[0]
    if sampler is not None:
        _, checked = model.sampler(sampler)
        _verify_keeps(checked)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            idata = model.sample(params, sampler=sampler, warmup=max(200, each), **options)
        for w in found:
            tell(w.message)
        words = f"draws of sampler `{checked.name}`, {GROUPS} chains"
        words += " THAT HAVE NOT MIXED, so that errors are too small" * any(issubclass(w.category, SamplingWarning) for w in found)
    held = {v.name: np.asarray(idata["posterior"][v.name]) for v in model.graph.observed}
    x = {k: v.reshape(-1, *v.shape[2:]) for k, v in held.items()}
    with jax.enable_x64(True):
        lowered = bound_once(model.lowered, given, "a sampler")
        return DrawnRows(lowered, known_params(lowered.graph, params), encode(model.graph, x).codes, GROUPS, f"{GROUPS * each:,} {words}")


def _verify_draws(model: Model, draws: int, seed: int) -> None:
    """Raise an error for options that give no estimate, before anything is drawn."""
    verified_seed(seed)
    whole_number("draws", draws, 10 * GROUPS)
    if model.graph.latents:
        message = f"model `{model.name}` has latents, which every draw's score would have to sum out: information is not estimated for it"
        raise fail("E507", message, help="where the `var`s have at most 65,536 configurations it is exact")
    size = sum(p.size for p in model.graph.parameters)
    if size > MOST_ESTIMATED:
        message = f"the covariance of {size:,} parameters: the limit is {MOST_ESTIMATED:,}"
        raise fail("E601", message, help="compare masks on a smaller model of the same kind")
    cells = model.graph.n_cells
    verify_held(8 * int(draws) * (size + 2 * cells), f"{draws:,} draws of {cells:,} cells, with their scores", "fewer `draws=`")
    if draws < DRAWS_PER_PARAMETER * size:
        message = f"{draws:,} draws are too few for the covariance of {size:,} parameters"
        raise fail("E507", message, help=f"take at least {DRAWS_PER_PARAMETER} for each: `draws={DRAWS_PER_PARAMETER * size}`")


def _verify_keeps(sampler: ir.Sampler) -> None:
    """Raise E507 for a sampler that does not leave p invariant."""
    for kernel in ir.updates_in(sampler.body):
        if kernel.independently:
            message = f"sampler `{sampler.name}` updates `independently`: its draws need not be of p, from which the estimates are made"
            raise fail("E507", message, kernel.span, "keeps no known distribution", help="name a sampler without it")


@dataclass(frozen=True, eq=False)
class SampledInformation:
    """Information matrices of one mask, group by group."""

    groups: tuple[Information, ...]

    def estimate(self, figures: Callable[[Information], Array]) -> tuple[Array, Array]:
        """Return jackknife estimates of figures of the information matrices, with errors.

        The figures and their standard errors have the shape (figures,). The error is nan if a
        figure is infinite.
        """
        count = len(self.groups)
        whole = figures(_mean(self.groups))
        apart = np.stack([figures(_mean(self.groups[:k] + self.groups[k + 1 :])) for k in range(count)])
        finite = np.isfinite(apart).all(axis=0) & np.isfinite(whole)
        apart = np.where(finite, apart, 0.0)
        errors = np.sqrt((count - 1) * apart.var(axis=0))
        return np.where(finite, count * whole - (count - 1) * apart.mean(axis=0), whole), np.where(finite, errors, np.nan)

    def worst(self) -> tuple[float, float]:
        """Return v' I v / v' H v of one direction v, and its standard error.

        v is chosen on one half of the groups, and the ratio is evaluated on the other half.
        """
        half = len(self.groups) // 2
        first = _mean(self.groups[:half])
        values, vectors = first.seen
        if not len(values):
            return 1.0, 0.0
        if first.undetermined.any():
            return np.inf, np.nan
        v = first.whitening @ vectors[:, 0]

        def ratio(information: Information) -> Array:
            return np.array([v @ information.fisher @ v / (v @ information.hessian @ v)])

        value, error = SampledInformation(self.groups[half:]).estimate(ratio)
        return float(value[0]), float(error[0])

    @property
    def mean(self) -> Information:
        """The mean over all groups."""
        return _mean(self.groups)


def _mean(groups: tuple[Information, ...]) -> Information:
    first = groups[0]
    fisher, hessian, score_all = (np.mean([getattr(g, name) for g in groups], axis=0) for name in ("fisher", "hessian", "score_all"))
    return Information(first.basis, fisher, hessian, score_all, first.names)


def sampled_information(rows: DrawnRows, mask: AbstractMask, name: str, seed: int, scores: list[Array] | None = None) -> SampledInformation:
    """Return the information matrices of a mask, estimated from draws.

    Args:
        rows: draws from p.
        mask: the mask, with the given data of the rows.
        name: the name of the mask in messages.
        seed: the seed of drawn masks.
        scores: the result of `row_scores` for these rows; None computes it.

    Raises:
        GmlmError: E702, E703 for a mask without a loss, E601 if a block is too costly.
    """
    host = rows.lowered.graph
    if mask.mentions_parameter:
        raise fail("E702", f"mask `{name}` mentions a parameter: it may sample, and has no loss", mask.span)
    verify_latents(host, mask, name, rows.codes, True)
    basis = tangent(host, frozenset())
    with jax.enable_x64(True):
        scores = row_scores(rows) if scores is None else scores
        pairs = _second_moments(rows, mask, seed)
    total = rows.codes.shape[1]
    bias = total / max(total - 1, 1)  # corrects for the subtracted mean of the scores
    found = [
        Information(basis, bias * u.T @ u / len(u), basis.T @ h @ basis, basis.T @ s @ basis, tuple(entry_names(host)))
        for u, (h, s) in zip(scores, pairs, strict=True)
    ]
    return SampledInformation(tuple(found))


def row_scores(rows: DrawnRows) -> list[Array]:
    """Return grad log p of every draw minus the mean over all draws.

    The list has one array of shape (draws, directions) for each group.
    """
    host = rows.lowered.graph
    device, basis = derive.graph_arrays(host), tangent(host, frozenset())
    vector = flatten(host, rows.params)
    found = (_row_scores(device, Frame(host.without_data, ()), vector, jnp.asarray(rows.codes_of(g))) for g in range(rows.groups))
    raw = [np.asarray(r) @ basis for r in found]
    middle = np.concatenate(raw).mean(axis=0)
    return [r - middle for r in raw]


@bounded_jit
def _row_scores(graph: derive.Graph, frame: Frame, vector: jax.Array, codes: jax.Array) -> jax.Array:
    """Return grad log_potential of each row, shape (rows, parameters)."""

    def one(c: jax.Array) -> jax.Array:
        return jax.grad(lambda v: derive.log_potential(graph, unflatten(frame.host, v), c[:, None])[0])(vector)

    return jax.lax.map(one, codes.T, batch_size=256)


def _second_moments(rows: DrawnRows, mask: AbstractMask, seed: int) -> list[tuple[Array, Array]]:
    """Return H and S_all of each group, in parameter space."""
    host = rows.lowered.graph
    device = derive.graph_arrays(host)
    every = masks_per_row(mask, None) is None
    if every and is_affine(host):
        loss = as_listed(make_loss(host, device, mask, None))
        if loss is not None:
            return _by_local_statistics(rows, loss)
    return _by_drawn_masks(rows, mask, drawn_loss(host, device, mask), seed)


def _by_local_statistics(rows: DrawnRows, loss: ExactLoss) -> list[tuple[Array, Array]]:
    """Return H and S_all of an exponential family, from the covariance within each block.

    This estimate has the smallest noise.
    """
    host = rows.lowered.graph
    vector, colours, out = flatten(host, rows.params), None, []
    for g in range(rows.groups):
        objective = objective_over(host, loss, rows.codes_of(g), rows.params)
        colours = colouring(objective, vector.shape[0]) if colours is None else colours
        sums = second_order(objective, vector, colours)
        count = rows.codes_of(g).shape[1]
        out.append((sums.hessian / count, sums.second / count))
    return out


def objective_over(
    host: FactorGraph, loss: derive.AbstractLoss, codes: Array, params: dict[str, jax.Array], masks: AnyArray | None = None
) -> Objective:
    """Return the mean loss over complete rows as an objective in chunks.

    The factor c of the objective is 1, and its scale is the number of rows.

    Args:
        host: the factor graph.
        loss: the loss.
        codes: the rows, shape (cells, rows).
        params: parameters.
        masks: masks drawn for each row, shape (masks, members, rows); None without drawn masks.
    """
    drawn, members = (0, 0) if masks is None else masks.shape[:2]
    chunk = chunk_rows(loss, drawn, members, codes.shape[1])
    padding = -codes.shape[1] % chunk
    return Objective(
        loss,
        jnp.pad(jnp.asarray(codes), ((0, 0), (0, padding)), mode="edge"),
        jnp.pad(jnp.ones(codes.shape[1]), (0, padding)),
        None if masks is None else jnp.pad(jnp.asarray(masks), ((0, 0), (0, 0), (0, padding)), constant_values=host.n_cells),
        params,
        jnp.ones(()),
        jnp.asarray(float(codes.shape[1])),
        Frame(host.without_data, ()),
        Chunks(chunk),
    )


def _by_drawn_masks(rows: DrawnRows, mask: AbstractMask, loss: DrawnLoss | DrawnEliminatedLoss, seed: int) -> list[tuple[Array, Array]]:
    """Return H and S_all of any model and mask, from gradients of a few masks drawn for each row.

    H = E g g' with the gradient g of one mask, by the generalised information-matrix equality.
    S_all = E g h' with the gradients g and h of two masks, which are independent given x.
    """
    host = rows.lowered.graph
    vector, out = flatten(host, rows.params), []
    for g in range(rows.groups):
        codes = jnp.asarray(rows.codes_of(g))
        masks = draw_masks(host, mask, codes, MASKS_PER_ROW, jax.random.fold_in(random_key(seed), g))
        # shape (rows, masks, parameters)
        found = np.asarray(_mask_gradients(loss, Frame(host.without_data, ()), vector, codes, masks))
        flat = found.reshape(-1, found.shape[-1])
        same = flat.T @ flat
        together = found.sum(axis=1)
        count = found.shape[0] * MASKS_PER_ROW
        out.append((same / count, (together.T @ together - same) / (count * (MASKS_PER_ROW - 1))))
    return out


@bounded_jit
def _mask_gradients(loss: derive.AbstractLoss, frame: Frame, vector: jax.Array, codes: jax.Array, masks: jax.Array) -> jax.Array:
    """Return the gradient of every row's loss under each of its masks.

    The array has the shape (rows, masks, parameters).
    """

    def row(piece: tuple[jax.Array, jax.Array]) -> jax.Array:
        c, m = piece

        def one(k: jax.Array) -> jax.Array:
            return jax.grad(lambda v: loss.rows(unflatten(frame.host, v), c[:, None], k[None, :, None])[0])(vector)

        return jax.vmap(one)(m)

    return jax.lax.map(row, (codes.T, jnp.moveaxis(masks, 2, 0)), batch_size=64)


@dataclass(frozen=True)
class EstimatedCovariance:
    """An asymptotic covariance estimated from draws.

    Attributes:
        value: n times the covariance of the estimator, shape (parameters, parameters), as in
            `asymptotic_covariance`.
        error: the standard error of every entry; nan if the entry is inf or nan.
        words: the draws and the seed behind the estimate, in words.
    """

    value: Array
    error: Array
    words: str


def estimated_covariance(
    model: Model,
    params: Params,
    mask: str | None = None,
    n_masks: int | None = None,
    *,
    draws: int = 4000,
    sampler: str | None = None,
    seed: int = 0,
    given: Given | None = None,
) -> EstimatedCovariance:
    """Estimate `asymptotic_covariance` from draws of x, for a model too large to enumerate.

    Every entry has a standard error.

    Args:
        model: the model, without latents.
        params: the parameters that made the data.
        mask: the mask's name.
        n_masks: the number of masks drawn for each row. None averages each row's loss over all
            masks.
        draws: the number of draws.
        sampler: the sampler for the draws. None takes independent draws if affordable, and
            otherwise the model's only sampler.
        seed: the seed of draws and of drawn masks.
        given: one row of data of given variables.

    Raises:
        GmlmError: E507 for an invalid option, E601 if a block or the draws are too costly, E702,
            E703 for a mask without a loss.
    """
    verify_is_model(model)
    verify_masks_per_row(n_masks)
    name, lowered = model.mask(mask)
    rows = draw_rows(model, params, sampler, draws, seed, given)
    found = sampled_information(rows, bound_mask(rows.lowered, lowered), name, seed)
    size = sum(p.size for p in model.graph.parameters)
    value, error = found.estimate(lambda information: information.covariance(n_masks).ravel())
    return EstimatedCovariance(value.reshape(size, size), error.reshape(size, size), f"{rows.words}; seed {seed}")
