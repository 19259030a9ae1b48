"""Bounds on all log-conditionals of a mask over a box of parameters: slopes and probabilities.

Let F be the sum of the factors that touch K. If every factor is affine in the parameters, log p(x_K
| x_-K, K) = F(x) + log p(K | x) - log sum over x_K' of exp(F + log p(K | .)). Its derivative in
theta_j is that of F minus a mean of this derivative over x_K'. At every parameter its absolute
value is therefore at most the range over x_K of dF / dtheta_j. This range is at most the sum over
the factors of the range of each. The conditional is at least 1 / (1 + (|X_K| - 1) exp(range of F +
log p(K | .))).

Latents are summed out of both p(x_K, x_-K) and p(x_-K), so that the same bounds hold with the
latents added to K. Impossible values do not count in a range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._diagnostics import fail, is_real_number
from .._types import ArrayLike
from ..evaluate import degree, known_params
from ..graph import FactorGraph, Lowered
from ..masks import AbstractMask
from ..read import verify_unmasked
from ._block_dynamics import BlockDynamics
from ._local_tables import LocalTables, local_tables
from .limits import MOST_BOX_BLOCKS, MOST_BOX_ENTRIES, MOST_BOX_PAIRS

if TYPE_CHECKING:
    from ..model import Params

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Box:
    """Parameters between two bounds, entry by entry, as flat vectors."""

    low: Array
    high: Array

    @property
    def width(self) -> Array:
        """The range of each entry."""
        return self.high - self.low


@dataclass(frozen=True, eq=False)
class BoxConstants:
    """Constants of a mask over a box.

    Attributes:
        lipschitz: for each entry of the flat parameter vector, an upper bound on the derivative of
            every log-conditional of every block.
        log_beta: the logarithm of a lower bound on every conditional probability of the possible
            values.
    """

    lipschitz: Array
    log_beta: float


def box_around(graph: FactorGraph, params: Params, box: Any) -> Box:
    """Return a box that contains the parameters, from a half-width or a dict of (low, high).

    Raises:
        GmlmError: E507 if the box is invalid, or does not contain the parameters.
    """
    with jax.enable_x64(True):
        centre = {k: np.asarray(v) for k, v in known_params(graph, params).items()}
    if isinstance(box, Mapping):
        low, high = (_side(graph, box, side) for side in (0, 1))
    elif is_real_number(box) and 0 <= box < np.inf:
        low = {p.name: np.maximum(centre[p.name] - box, p.lower) for p in graph.parameters}
        high = {p.name: np.minimum(centre[p.name] + box, p.upper) for p in graph.parameters}
    else:
        raise fail("E507", f"box must be a half-width of at least 0, or a dict of (low, high) by parameter, got {box!r}")
    for p in graph.parameters:
        if not (
            np.isfinite(low[p.name]) & np.isfinite(high[p.name]) & (low[p.name] <= centre[p.name]) & (centre[p.name] <= high[p.name])
        ).all():
            raise fail("E507", f"box[{p.name!r}] must be finite and hold params[{p.name!r}]: low <= value <= high", help="widen it")
    flat = [np.concatenate([np.zeros(0), *(np.ravel(side[p.name]) for p in graph.parameters)]) for side in (low, high)]
    return Box(*flat)


def _side(graph: FactorGraph, box: Params, side: int) -> dict[str, Array]:
    ends: dict[str, ArrayLike] = {}
    for name, pair in box.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise fail("E507", f"box[{name!r}] must be a pair (low, high), got {pair!r}")
        verify_unmasked(pair, f"box[{name!r}]", "E507")
        shape = next((p.shape for p in graph.parameters if p.name == name), ())
        try:
            ends[name] = np.broadcast_to(np.asarray(pair[side], np.float64), shape)
        except (TypeError, ValueError):
            raise fail("E507", f"box[{name!r}]: numbers, or arrays of shape {shape}, are bounds; got {pair[side]!r}") from None
    with jax.enable_x64(True):
        return {k: np.asarray(v) for k, v in known_params(graph, ends, "box").items()}


def box_constants(lowered: Lowered, mask: AbstractMask, box: Box, what: str, dynamics: BlockDynamics | None) -> BoxConstants:
    """Return the constants of a mask.

    Args:
        lowered: the model with its given data.
        mask: the mask with the same given data.
        box: the box.
        what: the purpose of the constants, in words.
        dynamics: the mask's block dynamics, which are required if the mask looks at x.

    Raises:
        GmlmError: E712 for a model that is not affine in its parameters, E601 for too much work.
    """
    graph = lowered.graph
    verify_affine(graph, what)
    blocks = _blocks(graph, mask)
    inside = np.zeros((len(blocks), graph.n_random + 1), bool)
    np.put_along_axis(inside, np.minimum(blocks, graph.n_random), True, axis=1)
    inside[:, graph.n_random] = False
    empty = ~inside.any(axis=1)
    inside[:, np.flatnonzero(graph.is_latent)] = True
    slopes, spread = _sums(graph, local_tables(graph, what), box, inside[~empty], what)
    if mask.is_adaptive:
        assert dynamics is not None
        spread = spread + _mask_range(dynamics)
    log_count = inside[~empty, :-1] @ np.log(graph.sizes[: graph.n_random].astype(float))
    # This is 1 + (count - 1) exp(spread), without overflow.
    log_others = np.where(log_count > 0, log_count + np.log1p(-np.exp(-np.maximum(log_count, 1e-300))), -np.inf)
    return BoxConstants(slopes, -float(np.logaddexp(0.0, log_others + spread).max(initial=0.0)))


def verify_affine(graph: FactorGraph, what: str) -> None:
    """Raise E712 for a model whose log p is not affine in its parameters.

    Raises:
        GmlmError: E712 with the factor or the parameter.
    """
    for p in graph.parameters:
        if p.kind == "simplex":
            raise fail("E712", f"{what}: `{p.name}` is a simplex, which fills no box", p.span, "a simplex")
    for group in graph.groups:
        if degree(group.root) is None:
            message = f"{what}: a factor is not affine in the parameters, so that its slope differs from place to place"
            raise fail(
                "E712", message, group.span, "not affine in a parameter", help="write it as a parameter times numbers, or bound it by hand"
            )


def _blocks(graph: FactorGraph, mask: AbstractMask) -> Array:
    count = mask.support_size
    if count <= MOST_BOX_BLOCKS and count * sum(g.n for g in graph.groups) <= MOST_BOX_PAIRS:
        return mask.enumerate_blocks()[0]
    return np.asarray(mask.reach)[None, :]


def _sums(graph: FactorGraph, kinds: list[LocalTables], box: Box, inside: Array, what: str) -> tuple[Array, Array]:
    """Return the largest slope of each parameter, and the range of log p over each block.

    The slope of a parameter is a sum over a block's factors. The range is over the block's values
    and the box.
    """
    shapes = {p.name: p.shape for p in graph.parameters}
    sizes = np.array([p.size for p in graph.parameters], int)
    first = dict(zip(shapes, np.cumsum([0, *sizes])[:-1].tolist(), strict=True)) if len(sizes) else {}
    middle, half = (box.low + box.high) / 2, box.width / 2

    def arrays(vector: Array) -> dict[str, Array]:
        return {name: vector[first[name] : first[name] + int(np.prod(shape, dtype=int))].reshape(shape) for name, shape in shapes.items()}

    slopes, spread = np.zeros((len(middle), len(inside))), np.zeros(len(inside))
    for tables in kinds:
        entries = [first[name] + i for name in tables.group.parameters for i in range(int(np.prod(shapes[name], dtype=int)))]
        if tables.group.n * float(np.prod(tables.sizes, dtype=float)) * (len(entries) + 1) > MOST_BOX_ENTRIES:
            raise fail("E601", f"{what}: the slopes of {tables.group.n:,} factors in {len(entries):,} parameters are too many to list")
        patterns = _Patterns(tables, inside)
        start, at_middle = tables.values(arrays(np.zeros(len(middle)))), tables.values(arrays(middle))
        if np.isnan(at_middle).any() or (at_middle == np.inf).any():
            raise fail("E712", f"{what}: a factor is infinite at some values and parameters", tables.group.span, "not finite")
        spread += patterns.sums(at_middle, np.isfinite(at_middle))
        for j in entries:
            step = np.zeros(len(middle))
            step[j] = 1.0
            with np.errstate(invalid="ignore"):
                slopes[j] += patterns.sums(tables.values(arrays(step)) - start, np.isfinite(start))
    return slopes.max(axis=1, initial=0.0), spread + half @ slopes


class _Patterns:
    """The axes of each factor's table that every block contains, by which ranges are added up."""

    def __init__(self, tables: LocalTables, inside: Array):
        self.tables, axes = tables, len(tables.sizes)
        self.bits = np.zeros((len(inside), tables.group.n), np.min_scalar_type((1 << axes) - 1))
        for axis in range(axes):
            self.bits |= inside[:, tables.cells[:, axis]] * self.bits.dtype.type(1 << axis)
        self.kinds = [b for b in np.unique(self.bits).tolist() if b]

    def sums(self, values: Array, possible: Array) -> Array:
        """Return for each block the sum, over its factors, of the range of values over its cells.

        The other cells have the values for which a range is largest.
        """
        out = np.zeros(len(self.bits))
        for bits in self.kinds:
            over = tuple(1 + a for a in range(len(self.tables.sizes)) if bits >> a & 1)
            top = np.where(possible, values, -np.inf).max(axis=over)
            spread = (
                np.where(top > -np.inf, top - np.where(possible, values, np.inf).min(axis=over), 0.0).reshape(len(values), -1).max(axis=1)
            )
            moves = np.flatnonzero(spread)
            out += (self.bits[:, moves] == bits) @ spread[moves]
        return out


def _mask_range(dynamics: BlockDynamics) -> float:
    """Return the largest difference of log p(K | x) over the values of K with p(K | x) > 0."""
    widest = 0.0
    for axes, chance in zip(dynamics.blocks, dynamics.chances, strict=True):
        if np.ndim(chance):
            possible = (chance > 0) & (dynamics.space.log_p > -np.inf)
            log_chance = np.log(np.where(possible, chance, 1.0))
            top = np.where(possible, log_chance, -np.inf).max(axis=axes)
            bottom = np.where(possible, log_chance, np.inf).min(axis=axes)
            widest = max(widest, float(np.where(top > -np.inf, top - np.where(top > -np.inf, bottom, 0.0), 0.0).max()))
    return widest
