"""The log likelihood of parameters: -c * sum over rows of weight * loss, possibly calibrated."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import AnyArray, Arrays
from ..assess import map_rows, rows_under
from ..data import is_traced
from ..derive import bounded_jit, float_type, on_device, room_for
from ..evaluate import Objective, masks_per_row
from ..fit import WORTH_MERGING, Evidence, row_weights
from ..graph import FactorGraph, Lowered, joint_count
from ..masks import AbstractMask
from ._calibration import Calibration
from ._sites import Site, sites_of

Array = np.ndarray


class GivenRows(eqx.Module):
    """The position and the weight of each given row.

    Attributes:
        place: the position among the rows of the objective: first the complete rows and their
            padding, then the rows with missing cells.
        weights: the weights of the rows.
    """

    place: Array
    weights: Array


class Likelihood(eqx.Module):
    """The function -c * sum over rows of weight * loss of parameters, with c as in `fit`.

    Under `everything` this is the log likelihood. The objective stores equal rows once.

    Attributes:
        objective: the loss of the rows; its prior is not used here.
        calibration: the map to the point at which the loss is evaluated. None: the parameters
            themselves.
        given: the given rows. Compiled programs get None (see `of_any_rows`), so that they also
            serve other numbers of rows.
    """

    objective: Objective
    calibration: Calibration | None
    given: GivenRows | None

    @property
    def of_any_rows(self) -> Likelihood:
        """The same function without the data of the given rows."""
        return dataclasses.replace(self, given=None)

    @property
    def rows(self) -> int:
        """The number of given rows."""
        return 0 if self.given is None else len(self.given.weights)

    @property
    def graph(self) -> FactorGraph:
        """The model without its data."""
        return self.objective.frame.host

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites of the free parameters."""
        return sites_of(self.graph, self.objective.frame.fixed)

    def __call__(self, params: Mapping[str, jax.Array]) -> jax.Array:
        """Return the sum over rows."""
        if self.calibration is not None:
            params = self.calibration.moved(self.sites, params)
        return -self.objective.factor * (self.objective.row_total(params) + self.objective.gap_total(params))

    @property
    def cost(self) -> float:
        """The number of evaluations of factors, or of table entries, of one value."""
        o = self.objective
        masks, members = (0, 0) if o.masks is None else o.masks.shape[:2]
        gaps = 0.0 if o.gaps is None or o.gap_weights is None else o.gaps.row_cost * len(o.gap_weights)
        return o.loss.row_terms(masks, members) * o.codes.shape[1] + gaps

    def distinct(self, params: Mapping[str, jax.Array]) -> jax.Array:
        """Return -c * loss of each row of the objective, padding included.

        The loss is evaluated at the parameters themselves.
        """
        o = self.objective
        found = map_rows(o, lambda codes, _, masks: o.rows(params, codes, masks))
        return -o.factor * (found if o.gaps is None else jnp.concatenate([found, o.gaps.rows(params)]))

    def by_row(self, distinct: Array) -> Array:
        """Return the weighted value of each given row, from the result of `distinct`.

        The shape is (.., rows).
        """
        assert self.given is not None
        weights = self.given.weights
        return np.where(weights > 0, weights * np.asarray(distinct)[..., self.given.place], 0.0)


def value_at(likelihood: Likelihood, params: Arrays) -> jax.Array:
    """Return the sum over rows, by one compiled program.

    If JAX compiles a program around this call, the sum is a part of that program. NumPyro starts
    its kernels with a derivative that is not compiled: there, each operation of the loss would be a
    separate program.
    """
    alone = likelihood.of_any_rows
    return alone(params) if is_traced(on_device(0)) else _value(alone, params)


@bounded_jit
def _value(likelihood: Likelihood, params: Arrays) -> jax.Array:
    return likelihood(params)


@bounded_jit
def rows_at(likelihood: Likelihood, params: dict[str, jax.Array]) -> jax.Array:
    """Return the results of `Likelihood.distinct` at several parameters.

    The axis of the parameters is the last one of both the arguments and the result.
    """
    return jax.lax.map(likelihood.distinct, jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), params)).T


def likelihood_of_rows(evidence: Evidence, params: Mapping[str, AnyArray], calibration: Calibration | None = None) -> Likelihood:
    """Return the likelihood of the evidence, in the working float type.

    Args:
        evidence: the rows under a mask.
        params: the values at which fixed parameters, and entries that do not move, are held.
        calibration: see `Likelihood`.

    Raises:
        GmlmError: the errors of `make_objective`: E601 if a block, or a row's missing cells, cost
            too much.
    """
    found, place = _distinct(evidence)
    rows = rows_under(found, {k: jnp.asarray(v, float_type()) for k, v in params.items()})
    objective, gapped = rows.objective, rows.apart
    rank = np.where(gapped, objective.codes.shape[1] + np.cumsum(gapped), np.cumsum(~gapped)) - 1
    return Likelihood(objective, calibration, GivenRows(rank[place], row_weights(evidence)))


def _distinct(evidence: Evidence) -> tuple[Evidence, Array]:
    """Return the evidence with each distinct row once, and the distinct row of each row.

    Rows are equal if their cells and their given data are equal. The weights of equal rows are
    added. If rows have masks of their own, the evidence keeps all its rows.
    """
    codes, weights = evidence.codes, row_weights(evidence)
    options = dataclasses.replace(evidence.options, weights=weights, weights_are="importances")
    place = np.arange(codes.shape[1])
    if not evidence.mask.varies and masks_per_row(evidence.mask, options.n_masks) is None:
        rows = codes.shape[1]
        codes, place = np.unique(_with_like_given(evidence.lowered, codes), axis=1, return_inverse=True)
        place = place.reshape(-1)
        filled = _filled(evidence.lowered.graph, codes, rows)
        codes, options = filled, dataclasses.replace(options, weights=np.bincount(place, weights, filled.shape[1]))
    return dataclasses.replace(evidence, codes=codes, options=options), place


def _filled(graph: FactorGraph, codes: Array, rows: int) -> Array:
    """Return distinct rows followed by rows of weight 0.

    The number of columns is the same for all data sets with `rows` rows, so that they share
    programs. There are at most as many distinct rows as configurations. If the evaluation of so
    many columns costs more than a compilation, the number of columns is a power of 2.
    """
    each = graph.sizes[graph.is_observed].astype(float) + (codes < 0).any()
    configurations = np.inf if graph.row_cell is not None else joint_count(each)
    whole = np.flatnonzero((codes >= 0).all(axis=0))
    wanted = int(min(room_for(rows), configurations))
    if wanted * max(len(codes), 1) > WORTH_MERGING:
        wanted = min(wanted, 1 << max(codes.shape[1] - 1, 0).bit_length())
    more = wanted - codes.shape[1]
    return codes if more <= 0 or not len(whole) else np.concatenate([codes, np.repeat(codes[:, whole[:1]], more, axis=1)], axis=1)


def _with_like_given(lowered: Lowered, codes: Array) -> Array:
    """Return codes in which each row refers to the first row with the same given data."""
    cell, data = lowered.graph.row_cell, lowered.data
    if cell is None or data is None or not data.rows:
        return codes
    given = np.concatenate([np.asarray(a, float).reshape(data.rows, -1) for a in data.arrays.values()], axis=1)
    _, first, kind = np.unique(given, axis=0, return_index=True, return_inverse=True)
    codes = codes.copy()
    codes[cell] = first[kind.reshape(-1)][codes[cell]]
    return codes


def is_likelihood(evidence: Evidence) -> bool:
    """Return whether the loss of each row is -log p(x).

    There must be one block that contains every observed cell, and rows of weight 0 or 1, or weights
    that are counts. The loss is not a likelihood if missing cells are left out.
    """
    if evidence.options.ignores and (evidence.codes < 0).any():
        return False
    counts, weights = evidence.options.weights_are == "counts", row_weights(evidence)
    return is_whole(evidence.lowered.graph, evidence.mask) and (counts or bool(np.isin(weights, (0, 1)).all()))


def is_whole(graph: FactorGraph, mask: AbstractMask) -> bool:
    """Return whether the only block of the mask contains every observed cell."""
    if mask.is_adaptive or mask.support_size != 1:
        return False
    return np.array_equal(np.unique(mask.enumerate_blocks()[0]), np.flatnonzero(graph.is_observed))
