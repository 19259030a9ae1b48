"""The objective of a fit: c * sum over rows of weight * loss - log prior, unconstrained.

If it is convex, a stationary point is a global minimum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._diagnostics import counted, fail, is_one_of, is_whole_number
from ..derive import (
    AbstractLoss,
    AbstractMaskLaw,
    Chunks,
    EliminatedLoss,
    ExactLoss,
    Graph,
    SummedRows,
    as_listed,
    bounded_jit,
    drawn_loss,
    exact_loss,
    fetched,
    mask_law,
    quickly_compiled,
)
from ..graph import FactorGraph
from ..graph.nodes import Add, Apply, Gather, If, Node, Pick, nodes_in
from ..masks import AbstractMask
from ..plan import BUDGET, verify_held
from ._parameters import Unchanged, bijection, on_gauge
from ._priors import is_log_concave, log_prior
from .limits import MOST_HELD_TERMS, MOST_MASKS


@dataclass(frozen=True)
class Frame:
    """The parameters of an objective: the model without data, and the names of fixed parameters.

    A frame is part of compiled programs. Frames of equal models share these programs.
    """

    host: FactorGraph
    fixed: tuple[str, ...]

    def constrain(self, free: Mapping[str, Array], held: Mapping[str, Array]) -> dict[str, Array]:
        """Map unconstrained arrays to parameters, through the bijections and onto the gauge.

        Fixed parameters and fixed entries are copied from `held`.
        """
        out = {}
        for p in self.host.parameters:
            out[p.name] = held[p.name] if p.name in self.fixed else on_gauge(p, bijection(p)(free[p.name]))
            if p.still and p.name not in self.fixed:
                moves = np.delete(np.arange(p.size), p.still)
                out[p.name] = held[p.name].ravel().at[moves].set(out[p.name].ravel()[moves]).reshape(p.shape)
        return out

    def unconstrain(self, params: Mapping[str, Array]) -> dict[str, Array]:
        """Map the free parameters to unconstrained arrays, the inverse of `constrain`."""
        free = [p for p in self.host.parameters if p.name not in self.fixed]
        bounded = {p.name: params[p.name] for p in free if not isinstance(bijection(p), Unchanged)}
        found = _inverted(self, bounded) if bounded else {}
        return {p.name: found[p.name] if p.name in found else on_gauge(p, params[p.name]) for p in free}


@quickly_compiled()
def _inverted(frame: Frame, bounded: Mapping[str, Array]) -> dict[str, Array]:
    """Return unconstrained arrays of bounded parameters, by one program for all operations."""
    return {p.name: bijection(p).inv(bounded[p.name]) for p in frame.host.parameters if p.name in bounded}  # pyright: ignore[reportReturnType]


class Objective(eqx.Module):
    """The objective over given rows, divided by `scale` so that tolerances are per row.

    Attributes:
        loss: the loss of complete rows.
        codes: (cells, rows), padded with rows of weight 0 to whole chunks.
        weights: (rows,).
        masks: masks drawn for each row, (masks, members, rows); None if the loss uses all masks.
        held: all parameters at the start, from which the fixed parameters are read.
        factor: c = (cells that the mask can reach) / E|K|.
        scale: the total row weight.
        frame: the model without data, and the names of fixed parameters.
        chunks: the rows that are evaluated at once.
        gaps: the loss of the rows whose missing cells are summed out; these rows are not among
            `codes`.
        gap_weights: the weights of the rows in `gaps`.
        rough: whether products of tables are summed over rows in float32, which is faster and
            accurate to 6 digits.
        repeated: shape (2, rows), for rows that stand for equal rows: the number of rows of
            positive weight among them, and the sum of their squared weights. None if every row
            stands for itself.
    """

    loss: AbstractLoss
    codes: Array
    weights: Float[Array, " rows"]
    masks: Array | None
    held: dict[str, Array]
    factor: Float[Array, ""]
    scale: Float[Array, ""]
    frame: Frame = eqx.field(static=True)
    chunks: Chunks = eqx.field(static=True)
    gaps: SummedRows | None = None
    gap_weights: Array | None = None
    rough: bool = eqx.field(static=True, default=False)
    repeated: np.ndarray | None = None

    def __call__(self, free: Mapping[str, Array]) -> Float[Array, ""]:
        """Return the objective at unconstrained parameters."""
        return self.at(self.frame.constrain(free, self.held))

    def at(self, params: Mapping[str, Array]) -> Float[Array, ""]:
        """Return the objective at parameters."""
        total = self.row_total(params)
        return (self.factor * (total + self.gap_total(params)) - log_prior(self.frame.host, params)) / self.scale

    def row_total(self, params: Mapping[str, Array]) -> Float[Array, ""]:
        """Return the sum of the weighted losses of the complete rows."""
        loss = self.exact_loss_or_none
        if loss is None:
            return self.sum_rows(lambda codes, weights, masks: (weights * finite(self.rows(params, codes, masks), weights)).sum())
        total = loss.plain_total(params, self.codes, self.weights, self.chunks, jnp.float32 if self.rough else None)
        if all(loss.is_plain):
            return total
        tables = loss.weights(params)
        return total + self.sum_rows(lambda codes, weights, _: (weights * finite(loss.other_rows(params, tables, codes), weights)).sum())

    def gap_total(self, params: Mapping[str, Array]) -> Float[Array, ""]:
        """Return the sum of the weighted losses of the rows with missing cells."""
        if self.gaps is None or self.gap_weights is None:
            return jnp.zeros(())
        return (self.gap_weights * finite(self.gaps.rows(params), self.gap_weights)).sum()

    @property
    def products(self) -> float:
        """The number of products of tables in one evaluation; 0 if trees are evaluated."""
        return self.products_of(self.codes)

    def products_of(self, codes: Array) -> float:
        """Return the number of products of tables for other rows; 0 if trees are evaluated."""
        loss = self.exact_loss_or_none
        if loss is None or not all(loss.is_plain):
            return 0.0
        return codes.shape[1] * sum(t.products for t in loss.tabled if t is not None)

    @property
    def gapped(self) -> bool:
        """Whether missing cells, of code -1, are left out of the losses of their rows."""
        return self.loss.gapped

    @property
    def exact_loss_or_none(self) -> ExactLoss | None:
        """The loss if it enumerates the blocks of its mask, else None."""
        return as_listed(self.loss)

    @property
    def exact_loss(self) -> ExactLoss:
        """The loss of an objective that is known to enumerate the blocks of its mask."""
        assert self.exact_loss_or_none is not None
        return self.exact_loss_or_none

    @property
    def host_codes(self) -> np.ndarray:
        """The codes on the host, of all devices."""
        return fetched(self.codes)

    @property
    def host_weights(self) -> np.ndarray:
        """The weights of the rows on the host."""
        return fetched(self.weights)

    @property
    def n_rows(self) -> int:
        """The number of rows of positive weight, with equal rows counted separately."""
        gaps = 0 if self.gap_weights is None else int((np.asarray(self.gap_weights) > 0).sum())
        return int((self.host_weights > 0).sum() if self.repeated is None else self.repeated[0].sum()) + gaps

    @property
    def spread(self) -> np.ndarray | None:
        """Factors of the row gradients, shape (rows,); None if every row stands for itself.

        The gradient of a row times its weight is multiplied by its factor. Its square is then the
        sum of the squares of the rows that the row stands for.
        """
        if self.repeated is None:
            return None
        weights = self.host_weights
        return np.sqrt(self.repeated[1]) / np.where(weights > 0, weights, 1.0)

    def rows(self, params: Mapping[str, Array], codes: Array, masks: Array | None) -> Float[Array, " rows"]:
        """Return the loss of each row."""
        return self.loss.rows(params, codes, masks)

    def sum_rows(self, f, *more: Array):
        """Return the sum of `f` over chunks of rows, so that memory stays bounded.

        The gradient recomputes each chunk.

        Args:
            f: a function of codes, weights and masks of some rows, and of the arrays `more` of
                these rows.
            *more: arrays whose last axis is rows.
        """
        if self.chunks.count(self.codes.shape[1]) <= 1:
            return f(self.codes, self.weights, self.masks, *more)
        pieces = jax.tree.map(self.chunks.split, (self.codes, self.weights, self.masks, *more))
        once = jax.checkpoint(lambda piece: f(*piece))
        zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(once, jax.tree.map(lambda a: a[0], pieces)))
        return jax.lax.scan(lambda total, piece: (jax.tree.map(jnp.add, total, once(piece)), None), zero, pieces)[0]


value_at = bounded_jit(Objective.at)


@bounded_jit
def gradient_at(objective: Objective, free: Mapping[str, Array]) -> dict[str, Array]:
    """Return the gradient of the objective over all rows, at unconstrained parameters."""
    return jax.grad(lambda f: objective(f))(dict(free))


def finite(losses: Array, weights: Array) -> Array:
    """Return losses with 0 for each row of weight 0, whose loss may be infinite."""
    return jnp.where(weights > 0, losses, 0.0)


@dataclass(frozen=True)
class MaskUse:
    """The use of a mask by a fit.

    Either all masks of the support are used (`n_masks` None), or `n_masks` masks are drawn for each
    row.
    """

    name: str
    n_masks: int | None
    support: float
    adaptive: bool
    reached: int
    mean_size: float

    @property
    def words(self) -> str:
        """One line for tables and reports."""
        every = f"{'all ' * (self.support > 1)}{counted(round(self.support), 'mask')}" if self.n_masks is None else ""
        how = every or f"{counted(self.n_masks or 0, 'mask')} per row, drawn"
        return f"{self.name}: {how}{', adaptive' if self.adaptive else ''}"


def masks_per_row(mask: AbstractMask, n_masks: int | str | None) -> int | None:
    """Return the number of masks to draw for each row, or None to use all masks.

    All masks are used if `n_masks` is "all", or if it is None and the support is small.

    Raises:
        GmlmError: E602 if "all" are too many, E507 for an invalid `n_masks`.
    """
    count = mask.support_size
    whole = is_whole_number(n_masks)
    if n_masks is not None and not (n_masks >= 1 if whole else is_one_of(n_masks, ("all",))):  # pyright: ignore[reportOperatorIssue]
        raise fail("E507", f'n_masks must be a whole number above 0, "all" or None, got {n_masks!r}')
    if n_masks == "all" and count > MOST_MASKS:
        message = f"this mask has {count:.3g} distinct blocks, more than the limit of {MOST_MASKS:.3g}"
        raise fail("E602", message, mask.span, help="draw some: `n_masks=4`")
    if n_masks == "all" or (n_masks is None and count <= BUDGET.support):
        return None
    return 1 if n_masks is None else int(n_masks)


def make_loss(
    host: FactorGraph, graph: Graph, mask: AbstractMask, n_masks: int | None, rows: int = 1, gapped: bool = False
) -> AbstractLoss:
    """Return the loss of complete rows, over all masks or over drawn masks.

    Args:
        host: the factor graph.
        graph: the factor graph on the device.
        mask: the mask.
        n_masks: the number of masks drawn per row; None for all masks.
        rows: the number of rows; 0 gives an empty loss.
        gapped: whether missing cells are left out of the loss.

    Raises:
        GmlmError: E601 if a block is too costly.
    """
    if not rows:
        return EliminatedLoss(graph, ())
    return exact_loss(host, graph, mask, gapped) if n_masks is None else drawn_loss(host, graph, mask, gapped)


@dataclass(frozen=True, eq=False)
class Repeats:
    """Columns that stand for rows of a data set.

    Column k takes the random numbers of row `of[k]` of a data set of `rows` rows.
    """

    rows: int
    of: np.ndarray


def draw_masks(host: FactorGraph, mask: AbstractMask, codes: Array, n_masks: int, key: Array, repeats: Repeats | None = None) -> Array:
    """Draw masks for every row, of shape (masks, members, rows).

    With `repeats`, a column uses the random numbers of the row that it stands for.

    Args:
        host: the factor graph.
        mask: the mask.
        codes: (cells, rows).
        n_masks: the number of masks for each row.
        key: the key.
        repeats: the rows that the columns stand for; None if each column is a row of its own.

    Raises:
        GmlmError: E601 if the masks take too much memory.
    """
    rows = codes.shape[1]
    # Each mask takes its members twice, one number for each cell, and a key.
    each = 4.0 * (2 * len(mask.largest_block) + host.n_cells + 4)
    verify_held(each * rows * min(n_masks, 10**18), f"{n_masks:,} masks drawn for each of {rows:,} rows", "a smaller `n_masks=`", mask.span)
    law = mask_law(mask)

    def once(k: Array) -> Array:
        keys = jax.random.split(k, rows if repeats is None else repeats.rows)
        return law.draw({}, codes, keys if repeats is None else keys[repeats.of])

    return jax.vmap(once)(jax.random.split(key, n_masks))


def mean_block_size(host: FactorGraph, mask: AbstractMask, codes: Array) -> float:
    """Return E|K|, the mean block size over the given rows.

    The rows matter only for a data-dependent mask.
    """
    return float(_mean_size(mask_law(mask), codes))


@bounded_jit
def _mean_size(law: AbstractMaskLaw, codes: Array) -> Array:
    return law.mean_size({}, codes).mean()


def counted_mean_size(host: FactorGraph, mask: AbstractMask, codes: Array, counts: np.ndarray) -> float:
    """Return E|K|, with a row of weight w counted as w rows.

    Args:
        host: the factor graph.
        mask: the mask.
        codes: the rows, (cells, rows).
        counts: the weights of the rows.
    """
    return float(np.average(np.asarray(_row_sizes(mask_law(mask), codes)), weights=counts))


@bounded_jit
def _row_sizes(law: AbstractMaskLaw, codes: Array) -> Array:
    return jnp.broadcast_to(law.mean_size({}, codes), codes.shape[1:])


def reached_cells(host: FactorGraph, mask: AbstractMask) -> int:
    """Return the number of cells that some block can contain."""
    return len(mask.reach)


def chunk_rows(loss: AbstractLoss, masks: int, members: int, rows: int) -> int:
    """Return the number of rows per chunk such that the chunk's factor evaluations fit into memory.

    Args:
        loss: the loss.
        masks: the number of masks drawn for each row.
        members: the number of members of each mask.
        rows: the number of rows.
    """
    pieces = max(1, int(np.ceil(loss.row_terms(masks, members) * rows / MOST_HELD_TERMS)))
    return max(1, int(np.ceil(rows / pieces)))


def is_convex(graph: FactorGraph) -> bool:
    """Return whether log p is affine in the parameters, and every log prior concave.

    Then every weighted or adaptive pseudolikelihood is convex: it is log-sum-exp of affine
    functions minus an affine function. Such a model is an exponential family.

    Reference: Li et al. 2024, Proposition 11.
    """
    concave = all(is_log_concave(p) for p in graph.parameters)
    return is_affine(graph) and concave and not graph.hyperpriors


def is_affine(graph: FactorGraph) -> bool:
    """Return whether log p is affine in the parameters, and these are not on simplices.

    The parameters then fill a convex set with an interior.
    """
    if any(p.kind == "simplex" for p in graph.parameters):
        return False
    return all(degree(g.root) is not None for g in graph.groups)


def degree(node: Node) -> int | None:
    """Return 0 for a tree without parameters, 1 for one affine in them, and None otherwise."""
    if not any(isinstance(n, Gather) and n.name for n in nodes_in(node)):
        return 0
    match node:
        case Gather():
            return 1
        case Apply(operator="+" | "-" | "neg"):
            return _worst(*node.operands)
        case Apply(operator="*"):
            degrees = [degree(o) for o in node.operands]
            return 1 if None not in degrees and sum(d or 0 for d in degrees) <= 1 else None
        case Apply(operator="/"):
            return degree(node.operands[0]) if degree(node.operands[1]) == 0 else None
        case If():
            return _worst(node.yes, node.no) if degree(node.test) == 0 else None
        case Add(operator="+") | Pick():
            return degree(node.body)
    return None


def _worst(*nodes: Node) -> int | None:
    degrees = [degree(n) for n in nodes]
    return None if None in degrees else max(d for d in degrees if d is not None)
