"""What the data say of parameters: -c * sum over rows of weight * loss, calibrated or not, as a function of parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..assess import map_rows, rows_under
from ..derive import bounded_jit, float_type, on_device, room_for
from ..evaluate import Objective, is_traced, masks_per_row
from ..fit import WORTH_MERGING, Evidence, row_weights
from ..graph import FactorGraph, Lowered, joint_count
from ..masks import AbstractMask
from ._calibration import Calibration
from ._sites import Site, sites_of

Array = np.ndarray


class GivenRows(eqx.Module):
    """Of each row given its place and weight.

    Attributes:
        place: where it stands among those of the objective: the complete ones and what fills them
            up, then those with gaps.
    """

    place: Array
    weights: Array


class Likelihood(eqx.Module):
    """-c * sum over rows of weight * loss at parameters, c as in `fit`: of `everything` the log likelihood.

    Like rows stand in the objective once.

    Attributes:
        objective: the loss of the rows; its prior counts nothing here.
        calibration: where the loss is taken in place of the parameters; None: at them.
        given: of the rows given; compiled programs get none, see `of_any_rows`, so that these serve
            other numbers of rows as well.
    """

    objective: Objective
    calibration: Calibration | None
    given: GivenRows | None

    @property
    def of_any_rows(self) -> Likelihood:
        """The same function, without what is told of the rows one by one."""
        return dataclasses.replace(self, given=None)

    @property
    def rows(self) -> int:
        """How many were given."""
        return 0 if self.given is None else len(self.given.weights)

    @property
    def graph(self) -> FactorGraph:
        """The model without its data."""
        return self.objective.frame.host

    @property
    def sites(self) -> tuple[Site, ...]:
        """Of the parameters that are free."""
        return sites_of(self.graph, self.objective.frame.fixed)

    def __call__(self, params: Mapping[str, Any]) -> jax.Array:
        """The sum over rows."""
        if self.calibration is not None:
            params = self.calibration.moved(self.sites, params)
        return -self.objective.factor * (self.objective.row_total(params) + self.objective.gap_total(params))

    @property
    def cost(self) -> float:
        """Evaluations of factors, or table entries, of one value."""
        o = self.objective
        masks, members = (0, 0) if o.masks is None else o.masks.shape[:2]
        gaps = 0.0 if o.gaps is None or o.gap_weights is None else o.gaps.row_cost * len(o.gap_weights)
        return o.loss.row_terms(masks, members) * o.codes.shape[1] + gaps

    def distinct(self, params: Mapping[str, Any]) -> jax.Array:
        """-c * loss of each row of the objective, padding included, at the parameters themselves."""
        o = self.objective
        found = map_rows(o, lambda codes, _, masks: o.rows(params, codes, masks))
        return -o.factor * (found if o.gaps is None else jnp.concatenate([found, o.gaps.rows(params)]))

    def by_row(self, distinct: Array) -> Array:
        """Of each row given, its weight counted, from what `distinct` gives, shape (.., rows)."""
        assert self.given is not None
        weights = self.given.weights
        return np.where(weights > 0, weights * np.asarray(distinct)[..., self.given.place], 0.0)


def value_at(likelihood: Likelihood, params: dict[str, Any]) -> jax.Array:
    """The sum over rows, by one program; as a part of the caller's where JAX compiles one around this.

    NumPyro starts its kernels with a derivative that nothing compiles: each operation of the loss
    would be a program of its own there.
    """
    alone = likelihood.of_any_rows
    return alone(params) if is_traced(on_device(0)) else _value(alone, params)


@bounded_jit
def _value(likelihood: Likelihood, params: dict[str, Any]) -> jax.Array:
    return likelihood(params)


@bounded_jit
def rows_at(likelihood: Likelihood, params: dict[str, jax.Array]) -> jax.Array:
    """What `Likelihood.distinct` gives, at several parameters: their axis is the last here and there."""
    return jax.lax.map(likelihood.distinct, jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), params)).T


def likelihood_of_rows(evidence: Evidence, params: Mapping[str, Any], calibration: Calibration | None = None) -> Likelihood:
    """The likelihood of the evidence, in the working float type.

    Args:
        evidence: rows under a mask.
        params: at which fixed parameters, and entries that stay, are held.
        calibration: see `Likelihood`.

    Raises:
        GmlmError: what `make_objective` raises: E601 where a block, or a row's missing cells, cost
            too much.
    """
    found, place = _distinct(evidence)
    rows = rows_under(found, {k: jnp.asarray(v, float_type()) for k, v in params.items()})
    objective, gapped = rows.objective, rows.apart
    rank = np.where(gapped, objective.codes.shape[1] + np.cumsum(gapped), np.cumsum(~gapped)) - 1
    return Likelihood(objective, calibration, GivenRows(rank[place], row_weights(evidence)))


def _distinct(evidence: Evidence) -> tuple[Evidence, Array]:
    """The evidence with like rows once, their weights added, and which of them each row is; as it is where rows have masks of their own.

    Rows are alike where their cells are, and what is given with them.
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
    """Distinct rows with others behind them that are to count nothing: as many for all data sets of so many rows, which share programs.

    There are no more distinct rows than configurations. Where evaluating all that there may be
    would cost more than a program does, there are as many as a power of 2.
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
    """Codes of rows, each of which reads given data at the first row that has the same."""
    cell, data = lowered.graph.row_cell, lowered.data
    if cell is None or data is None or not data.rows:
        return codes
    given = np.concatenate([np.asarray(a, float).reshape(data.rows, -1) for a in data.arrays.values()], axis=1)
    _, first, kind = np.unique(given, axis=0, return_index=True, return_inverse=True)
    codes = codes.copy()
    codes[cell] = first[kind.reshape(-1)][codes[cell]]
    return codes


def is_likelihood(evidence: Evidence) -> bool:
    """Whether the loss of each row is -log p(x): one block that holds every cell of the data, and rows that count once, or are counted.

    It is none where gaps are left out.
    """
    if evidence.options.ignores and (evidence.codes < 0).any():
        return False
    counts, weights = evidence.options.weights_are == "counts", row_weights(evidence)
    return is_whole(evidence.lowered.graph, evidence.mask) and (counts or bool(np.isin(weights, (0, 1)).all()))


def is_whole(graph: FactorGraph, mask: AbstractMask) -> bool:
    """Whether the mask's only block is every cell that data hold."""
    if mask.is_adaptive or mask.support_size != 1:
        return False
    return np.array_equal(np.unique(mask.enumerate_blocks()[0]), np.flatnonzero(graph.is_observed))
