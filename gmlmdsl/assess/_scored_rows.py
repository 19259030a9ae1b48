"""Losses and scores of single rows, for held-out losses and information criteria.

A digest of the mask and of the rows identifies the quantity that losses measure. Losses that
measure different quantities cannot be compared.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import GmlmError, fail, is_one_of
from .._types import ArrayLike, Given, Missing, Rows
from ..data import bound_mask, bound_rows, verified_weights
from ..derive import bounded_jit, log_potential, on_device
from ..evaluate import MaskUse, Objective, as_params, finite, flatten, gap_second_order, log_completions, unflatten
from ..fit import WHOLE, Evidence, FitOptions, make_objective, row_weights, stays_finite, whole_mask
from ..graph import FactorGraph
from ..masks import AbstractMask
from ..plan import BUDGET

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from ..fit import FitRecord

Array = np.ndarray
Params = Mapping[str, jax.Array]
COSTLY = "single rows are scored with their missing cells summed out: drop the rows with the most gaps, or score under a smaller mask"


@dataclass(frozen=True)
class ScoredRows:
    """Rows under a mask, which can be scored at any parameters under 64-bit types.

    `codes` has the shape (cells, rows), and `weights` has the shape (rows,).
    """

    objective: Objective
    use: MaskUse
    codes: Array
    weights: Array

    def losses(self, params: Params) -> Array:
        """Return c * loss of each row, c = (cells the mask can reach) / E|K|.

        The loss is infinite if the model gives the row probability zero.
        """
        host, gapped, params = self.objective.frame.host, self.apart, dict(params)
        sure = stays_finite(host, params)
        found, (whole, apart) = np.zeros(self.codes.shape[1]), _losses(self.objective, params, not sure)
        found[~gapped] = np.asarray(whole)[: (~gapped).sum()]
        if apart is not None:
            found[gapped] = np.asarray(apart)
        if gapped.any() and not sure:
            joint = np.asarray(log_completions(host, self.objective.loss.graph, params, self.codes[:, gapped]))
            found[gapped] = np.where(joint > -np.inf, found[gapped], np.inf)
        return found

    def scores(self, params: Params, directions: Array) -> Array:
        """Return u_r = c w_r grad loss_r of each row in some directions of the flat vector.

        The shape is (rows, directions).
        """
        vector, gapped = flatten(self.objective.frame.host, params), self.apart
        found = np.zeros((self.codes.shape[1], directions.shape[1]))
        found[~gapped] = np.asarray(_scores(self.objective, vector, on_device(directions)))[: (~gapped).sum()]
        if self.objective.gaps is not None:
            found[gapped] = np.asarray(gap_second_order(self.objective, vector, on_device(directions))[1])
        return found

    @property
    def apart(self) -> Array:
        """The rows with missing cells, as booleans.

        The objective stores them separately from the other rows, with the order of both preserved.
        No row is marked if the objective ignores missing cells.
        """
        return np.any(self.codes < 0, axis=0) & (not self.objective.gapped)


def rows_under(evidence: Evidence, params: Params) -> ScoredRows:
    """Return the rows of the evidence under its mask.

    Masks that a fit drew are drawn again and are identical.

    Raises:
        GmlmError: E601 for a row whose missing cells cost too much to sum out; and the errors of
            `make_objective`.
    """
    codes, host = evidence.codes, evidence.lowered.graph
    weights = row_weights(evidence)
    fixed = tuple(p.name for p in host.parameters if p.name in (evidence.options.fixed or {}))
    options = dataclasses.replace(evidence.options, impute=False, method=None)
    try:
        prepared = make_objective(host, evidence.mask, codes, weights, dict(params), fixed, options)
    except GmlmError as error:
        faults = [dataclasses.replace(d, help=COSTLY) if d.code == "E601" and (codes < 0).any() else d for d in error.diagnostics]
        raise GmlmError(faults) from None
    return ScoredRows(prepared.objective, prepared.use, codes, weights)


def evidence_of(
    fit: FitRecord,
    x: Rows | None = None,
    weights: ArrayLike | None = None,
    missing: Missing | None = None,
    mask: str | None = None,
    n_masks: int | str | None = None,
    given: Given | None = None,
) -> Evidence:
    """Return the inputs of a fit, or other rows or another mask in their place.

    Args:
        fit: the fit.
        x: other rows, or None.
        weights: the weights of other rows.
        missing: the value that marks a missing cell of other rows.
        mask: the name of another mask, or None.
        n_masks: the number of masks per row, or None.
        given: the data of given variables of other rows.

    Raises:
        GmlmError: E505 if the fit was loaded from a file and no rows are given; E507 or E510 for
            `weights` or `given` without `x`; E542 if the weights are counts; E501 for rows of
            another shape.
    """
    if x is None and weights is not None:
        raise fail("E507", "`weights=` go with `x=`: the rows of the fit have their own", help="pass both, or neither")
    if x is None and given is not None:
        raise fail("E510", "`given=` go with `x=`: the rows of the fit have their own", help="pass both, or neither")
    found = fit.evidence if x is None else _of_rows(fit, x, weights, missing, given)
    if found.options.weights_are == "counts":
        message = "checks of a model take weights as importances, and those of this fit are counts"
        raise fail("E542", message, help="fit the repeated rows: `np.repeat(x, counts, axis=0)`")
    if mask is None or is_one_of(mask, (fit.mask,)):
        return found if n_masks is None else dataclasses.replace(found, options=dataclasses.replace(found.options, n_masks=n_masks))
    name, lowered = fit.model.mask(mask)
    drawn = bound_mask(found.lowered, lowered)
    return dataclasses.replace(found, mask=drawn, options=dataclasses.replace(found.options, mask=name, n_masks=n_masks))


def _of_rows(fit: FitRecord, x: Rows, weights: ArrayLike | None, missing: Missing | None, given: Given | None) -> Evidence:
    bound, data = bound_rows(dataclasses.replace(fit.model.lowered, graph=fit.graph), x, missing, given)
    if len(data.shape) != 1 or data.shape[0] == 0:
        raise fail("E501", f"x must have one axis of rows before the variable's axes, and a row, got rows of shape {data.shape}")
    if weights is not None:
        weights = data.matched(weights, "weights")
        assert weights is not None
        verified_weights(weights, data.shape[0])
    mask = whole_mask(fit.graph) if fit.mask == WHOLE else bound_mask(bound, fit.model.mask(fit.mask)[1])
    if fit._evidence is not None:
        options = dataclasses.replace(fit._evidence.options, weights=weights)
        return Evidence(bound, mask, data.codes, options, data.index)
    meta = fit.meta
    fixed = {name: fit.params[name] for name in meta["fixed"]}
    kept = {"weights_are": meta.get("weights_are", "importances"), "gaps": meta.get("gaps", "sum")}
    options = FitOptions(meta["mask"], meta["seed"], meta["n_masks"], weights, fixed=fixed, **kept)
    return Evidence(bound, mask, data.codes, options, data.index)


def verify_own(fit: FitRecord, rows: ScoredRows, params: Params) -> None:
    """Raise E551 unless the objective at the estimate is that of the rows of the fit.

    Raises:
        GmlmError: E551.
    """
    value = float(_value(rows.objective, dict(params))) * float(rows.objective.scale)
    if not abs(value - fit.objective) <= 1e-4 * max(1.0, abs(fit.objective)):
        message = f"these are not the rows of the fit: its objective is {fit.objective:.6g}, on these rows it is {value:.6g}"
        raise fail("E551", message, help="pass the rows, weights and missing code of `fit`; for other rows there is `score`")


def params64(fit: FitRecord, evidence: Evidence | None = None) -> dict[str, jax.Array]:
    """Return the estimates in the working float type, under 64-bit types.

    Factors are verified with the given data of the rows.
    """
    return as_params(fit.graph if evidence is None else evidence.lowered.graph, fit.params)


def map_rows(objective: Objective, f: Callable[..., PyTree]) -> PyTree:
    """Return `f(codes, weights, masks)` of chunks of rows, joined along the first axis.

    The first axis of the result of `f` must be that of rows.
    """
    chunks = objective.chunks
    if chunks.count(objective.codes.shape[1]) <= 1:
        return f(objective.codes, objective.weights, objective.masks)
    pieces = jax.tree.map(chunks.split, (objective.codes, objective.weights, objective.masks))
    return chunks.joined(jax.lax.map(lambda piece: f(*piece), pieces))


@bounded_jit
def _losses(objective: Objective, params: dict[str, jax.Array], checked: bool) -> tuple[jax.Array, jax.Array | None]:
    """Return the losses of the complete rows and of the other rows, from one compiled program.

    If `checked` is set, a complete row has an infinite loss if it is impossible.
    """

    def rows(codes: jax.Array, weights: jax.Array, masks: jax.Array | None) -> jax.Array:
        del weights
        losses = objective.rows(params, codes, masks)
        if not checked:
            return losses
        possible = log_potential(objective.loss.graph, params, jnp.maximum(codes, 0)) > -jnp.inf
        return jnp.where(possible | (codes < 0).any(axis=0), losses, jnp.inf)

    apart = None if objective.gaps is None else objective.factor * objective.gaps.rows(params)
    return objective.factor * map_rows(objective, rows), apart


@bounded_jit
def _value(objective: Objective, params: dict[str, jax.Array]) -> jax.Array:
    return objective.at(params)


@bounded_jit
def _scores(objective: Objective, vector: jax.Array, directions: jax.Array) -> jax.Array:
    host: FactorGraph = objective.frame.host

    def row(codes: jax.Array, weight: jax.Array, masks: jax.Array | None) -> jax.Array:
        def loss(v: jax.Array) -> jax.Array:
            drawn = None if masks is None else masks[..., None]
            return finite(objective.rows(unflatten(host, v), codes[:, None], drawn), weight[None])[0]

        return objective.factor * weight * (directions.T @ jax.grad(loss)(vector))

    axes = (1, 0, None if objective.masks is None else 2)
    return map_rows(objective, jax.vmap(row, in_axes=axes))


@dataclass(frozen=True)
class Measure:
    """Digests of a mask's distribution and of rows, with the text that names the mask.

    `law` identifies the distribution of a mask of any program, whatever its name is. `rows`
    identifies codes, weights and drawn masks. Each digest is computed twice: with the names of the
    observed cells, and with their order. Two models may therefore have different latents, the same
    variables in another order, or other names of cells. A mask without a short list of blocks is
    identified by all positions of the model only.
    """

    words: str
    law: tuple[str, str]
    rows: tuple[str, str]

    def same_law(self, other: Measure) -> bool:
        """Return whether both measures have the same distribution of blocks."""
        return any(mine == its for mine, its in zip(self.law, other.law, strict=True))

    def same_rows(self, other: Measure) -> bool:
        """Return whether both measures have the same rows."""
        return any(mine == its for mine, its in zip(self.rows, other.rows, strict=True))


def measure_of(evidence: Evidence, use: MaskUse) -> Measure:
    """Return the quantity that losses of this evidence measure."""
    host = evidence.lowered.graph
    seen = np.flatnonzero(host.is_observed)
    names = [host.cell_name(int(c)) for c in seen]
    by_name = dict(zip(seen[np.argsort(names)].tolist(), sorted(names), strict=True))
    orders: tuple[dict[int, Any], ...] = (by_name, {int(c): k for k, c in enumerate(seen)})
    law, rows = zip(*((_law_digest(evidence, use, told), _rows_digest(evidence, told)) for told in orders), strict=True)
    return Measure(use.words, law, rows)


def _law_digest(evidence: Evidence, use: MaskUse, told: dict[int, Any]) -> str:
    """Return a digest of p(K | x) and of the labels of values, with cells as `told` names them."""
    host, options, law = evidence.lowered.graph, evidence.options, hashlib.sha256()
    labels = {v.offset + k: tuple(str(x) for x in v.labels) for v in host.observed for k in range(v.size)}
    _feed(law, tuple((name, labels[c]) for c, name in told.items()))
    _feed(law, _law(evidence.mask, host.n_cells, told))
    _feed(law, None if use.n_masks is None else (options.seed, use.n_masks))
    return law.hexdigest()


def _rows_digest(evidence: Evidence, told: dict[int, Any]) -> str:
    """Return a digest of weights and of codes in the order of `told`.

    The values of latents follow, if the data contain them.
    """
    host, options, rows = evidence.lowered.graph, evidence.options, hashlib.sha256()
    codes = np.asarray(evidence.codes[: host.n_random], np.int32)
    _feed(rows, codes[list(told)])
    known = host.is_latent[: host.n_random] & (codes >= 0).any(axis=1)
    _feed(rows, (known.nonzero()[0], codes[known]) if known.any() else None)
    _feed(rows, None if options.weights is None else np.asarray(options.weights, float))
    if options.ignores and (evidence.codes < 0).any():
        _feed(rows, options.gaps)
    return rows.hexdigest()


def _law(mask: AbstractMask, n_cells: int, told: dict[int, Any]) -> object:
    """Return the data that determine p(K | x).

    These are the blocks with their probabilities if there are few, else the mask's own arrays with
    cells as `told` names them.
    """
    if mask.varies:
        return mask
    if mask.support_size > BUDGET.support:
        found = mask.key(lambda cell: told.get(cell, -1 - cell))
        return mask if found is None else found
    blocks, probabilities = mask.enumerate_blocks()
    assert probabilities is not None
    held = [_told((c for c in block if c < n_cells), told) for block in blocks]
    return sorted(((k, round(float(p), 9)) for k, p in zip(held, probabilities, strict=True)), key=repr)


def _told(cells: Iterable[int], told: dict[int, Any]) -> tuple[Hashable, ...]:
    """Return cells as `told` names them, and latents as numbers below 0, in a canonical order."""
    return tuple(sorted((told.get(int(c), -1 - int(c)) for c in cells), key=repr))


def _feed(digest: hashlib._Hash, value: object) -> None:
    """Update a digest with arrays and with the objects that contain them.

    Positions in the text are excluded.
    """
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif dataclasses.is_dataclass(value):
        digest.update(type(value).__name__.encode())
        for f in dataclasses.fields(value):
            if f.compare:
                _feed(digest, getattr(value, f.name))
    elif isinstance(value, tuple | list):
        digest.update(f"({len(value)}".encode())
        for part in value:
            _feed(digest, part)
    else:
        digest.update(f"{value!r};".encode())
