"""Theorem 4: a bound on the distance between a fitted distribution and that of the data.

With probability at least 1 - delta, TV(p_hat, p) <= sqrt(C_AT / 2 * (L_hat + B ln(1 / beta) + eps))
+ C'. Here B = sqrt(2^(3N) |X| C_eps / (m delta)) + sqrt(ln(8 C_eps / delta) / (2 n)) and C' =
sqrt(|X|^3 / (8 delta n)). |X| is the number of configurations, which is |Omega|^N if all N cells
have the values Omega.

The bound follows from L_hat, the loss of the fit's conditionals. In the printed bound the loss
enters as it is. It does not go to 0 with data, because it contains the conditional entropy E_K
H(x_K | x_-K, K) of the distribution of the data. The proof needs only the excess over this entropy,
because KL(p, p_hat) <= C_AT (L(p_hat) - entropy). The mean divergence of the conditionals equals
the excess.

C_AT is the constant of block approximate tensorization of entropy of p_hat. It is at most C ln(1 /
q - 1) / (1 - 2 q), with the Poincare constant C and the smallest probability q < 1/2 of a possible
configuration. The proof takes f = r / p_hat. The entropy of f is at most ln(1 / q - 1) / (1 - 2 q)
times the variance of sqrt(f) (Diaconis and Saloff-Coste 1996, Corollary A.4). This variance is at
most C E_K Var(sqrt(f) | x_-K, K), and each variance of sqrt(f) is at most the entropy of f. C_AT is
1 if every block contains all cells.

Reference: Li et al. 2024, Assumptions 3 and 4, Definition 9, Theorem 4, Proposition 6.

C_eps needs bounds on all log-conditionals over a box of parameters. Let F be the sum of the factors
that touch K. If every factor is affine in the parameters, log p(x_K | x_-K, K) = F(x) + log p(K |
x) - log sum over x_K' of exp(F + log p(K | .)). Its derivative in theta_j is that of F minus a mean
of this derivative over x_K'. At every parameter its absolute value is therefore at most the range
over x_K of dF / dtheta_j. This range is at most the sum over the factors of the range of each. The
conditional is at least 1 / (1 + (|X_K| - 1) exp(range of F + log p(K | .))).

Latents are summed out of both p(x_K, x_-K) and p(x_-K), so that the same bounds hold with the
latents added to K. Impossible values do not count in a range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._diagnostics import fail, is_real_number
from .._types import ArrayLike, Given
from ..data import bound_mask, bound_once
from ..evaluate import degree, entry_names, known_params, verify_latents
from ..graph import FactorGraph, Lowered, verify_is_model
from ..masks import AbstractMask
from ..read import verify_unmasked
from ._block_dynamics import BlockDynamics, dynamics_of, reversible_gap
from ._configurations import LocalTables, local_tables
from ._quantity import Quantity
from .limits import LARGEST_C_AT, MOST_BOX_BLOCKS, MOST_BOX_ENTRIES, MOST_BOX_PAIRS

if TYPE_CHECKING:
    from ..model import JointModel, Params

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


@dataclass(frozen=True, eq=False)
class GeneralizationBound:
    """The bound of Theorem 4 with every number in it.

    Attributes:
        bound: the right-hand side, which bounds TV(p_hat, p) with probability at least 1 - delta;
            it is vacuous above 1.
        log_bound: the logarithm of the bound, finite if `bound` overflows.
        excess: whether the conditional entropy is subtracted from the loss.
        N, n, m: the numbers of cells, of rows of data, and of masks drawn for each row.
        delta, epsilon: the probability of an exception; the loss that is given up by covering the
            box.
        loss: L_hat.
        entropy: E_K H(x_K | x_-K, K) if `excess`, else 0.
        tensorization: C_AT.
        log_configurations: ln |X|.
        log_cover: ln C_eps. C_eps is the product over parameters of ceil(range L_j d / eps), with
            the number d of parameters with range L_j > 0. The log-conditionals of a part differ
            from those of its middle by at most eps / 2, which is all that the proof needs of
            Assumption 4.
        log_beta: ln beta, the logarithm of the smallest conditional probability in the box.
        lipschitz: the Lipschitz constant L_j by entry of the parameters.
        widths: the range of each entry.
        log_mask_term, row_term: ln of the first part of B, for masks that were not drawn, and the
            second part of B, for rows that were not seen.
        log_B, log_C: ln B and ln C'.
        assumed: the assumptions of the number, in words; empty if it is certified.
    """

    bound: Quantity
    log_bound: float
    excess: bool
    N: int
    n: float
    m: float
    delta: float
    epsilon: float
    loss: float
    entropy: float
    tensorization: Quantity
    log_configurations: float
    log_cover: float
    log_beta: float
    lipschitz: dict[str, float]
    widths: dict[str, float]
    log_mask_term: float
    row_term: float
    log_B: float
    log_C: float
    assumed: tuple[str, ...]

    @property
    def vacuous(self) -> bool:
        """Whether the bound is above 1, whereas a total variation distance is at most 1."""
        return self.log_bound > 0

    @property
    def certified(self) -> bool:
        """Whether the number follows from the theorem without further assumptions."""
        return not self.assumed

    @property
    def B(self) -> float:
        """The bound B of the module docstring; inf if it overflows."""
        return _exp(self.log_B)

    @property
    def C_prime(self) -> float:
        """The factor C' of the module docstring; inf if it overflows."""
        return _exp(self.log_C)

    @property
    def beta(self) -> float:
        """The constant beta of the module docstring; 0 if it underflows."""
        return math.exp(self.log_beta)

    @property
    def C_eps(self) -> float:
        """The covering number C_eps of the module docstring; inf if it overflows."""
        return _exp(self.log_cover)

    def __repr__(self) -> str:
        steepest = max(self.lipschitz.items(), key=lambda e: e[1], default=("", 0.0))
        reading = "with the excess loss" if self.excess else "as printed"
        ending = ": vacuous, a total variation distance is at most 1" if self.vacuous else ""
        slope = f"largest L_j {steepest[1]:.6g}{' of ' * bool(steepest[0])}{steepest[0]}"
        lines = [
            f"Theorem 4 {reading}: TV <= {_power(self.log_bound)} with probability at least {1 - self.delta:g}{ending}",
            f"  N = {self.N} cells, |X| = {_power(self.log_configurations)}, n = {self.n:,.6g} rows, m = {self.m:,.6g} masks a row",
            f"  C_AT = {self.tensorization!r}",
            f"  loss {self.loss:.6g}" + (f", conditional entropy {self.entropy:.6g}" if self.excess else ""),
            f"  C_eps = {_power(self.log_cover)} (epsilon {self.epsilon:g}; {slope})",
            f"  ln(1 / beta) = {-self.log_beta:.6g}",
            f"  B = {_power(self.log_B)} (masks {_power(self.log_mask_term)}, rows {self.row_term:.6g}), C' = {_power(self.log_C)}",
            f"  {'certified' if self.certified else 'not certified: ' + '; '.join(self.assumed)}",
        ]
        return "\n".join(lines)


def _exp(a: float) -> float:
    return math.exp(a) if a < 709 else math.inf


def _power(log: float) -> str:
    """Return exp(log) as text, as a power of ten if it is large."""
    if abs(log) < 30:
        return f"{math.exp(log):.6g}"
    return "0" if log == -math.inf else f"10^{log / math.log(10):.6g}"


def generalization_bound(
    model: JointModel,
    params: Params,
    mask: str | None = None,
    *,
    n: float,
    m: float,
    box: float | Mapping[str, tuple[ArrayLike, ArrayLike]],
    epsilon: float = 0.1,
    delta: float = 0.05,
    empirical_loss: float | None = None,
    tensorization: float | None = None,
    entropy: float | None = None,
    excess: bool = False,
    given: Given | None = None,
) -> GeneralizationBound:
    """Bound the distance of a fit from the distribution of the data, by Theorem 4.

    TV(p_hat, p) is at most the bound with probability at least 1 - delta. C_eps and beta are
    computed from the factors. The bound is usually far above 1, and the result then states that it
    is vacuous. Its use is to show the quantities on which the distance depends.

    Args:
        model: the model, affine in its parameters; latents are summed out.
        params: the fit's parameters.
        mask: the mask that the model was fitted with.
        n: the number of rows of data.
        m: the number of masks drawn for each row.
        box: the region of the parameters: a dict of (low, high) by parameter, or a half-width
            around `params`.
        epsilon: the loss that may be given up by covering the box.
        delta: the probability of an exception.
        empirical_loss: the fit's loss on its data, as `model.loss`. None takes its expectation for
            data from the model itself, the conditional entropy.
        tensorization: C_AT of p at `params`. None computes a certified upper bound from the
            Poincare constant, for models small enough to enumerate.
        entropy: the conditional entropy of the distribution of the data, with `excess`. None takes
            that of the model itself.
        excess: whether the conditional entropy is subtracted from the loss, as the proof allows;
            otherwise the bound is as printed.
        given: one row of data of given variables.

    Raises:
        GmlmError: E712 for a model that is not affine in its parameters; E702 for a mask that
            mentions a parameter; E703 for a mask that uses a latent; E507 for arguments out of
            bounds; E601 or E602 if the loss, the entropy or C_AT need an enumeration that is too
            large; they can be passed instead.

    Reference: Li et al. 2024, Theorem 4; Proposition 6 for the excess.
    """
    what = "a generalization bound"
    verify_is_model(model)
    _verify_numbers(n, m, epsilon, delta)
    _verify_known(empirical_loss, entropy, tensorization)
    name, lowered_mask = _fitting_mask(model, mask)
    lowered = bound_once(model.lowered, given, what)
    law = bound_mask(lowered, lowered_mask)
    region = box_around(lowered.graph, params, box)
    needed = empirical_loss is None or (excess and entropy is None)
    whole = tensorization is None and _is_everything(lowered.graph.is_observed, law)
    enumerated = needed or (tensorization is None and not whole) or law.is_adaptive
    dynamics = dynamics_of(model, params, mask, what, given)[1] if enumerated else None
    constants = box_constants(lowered, law, region, what, dynamics)
    source = f"generalization_bound({model.name}, mask={name!r})"
    c_at, assumed = _tensorization(tensorization, whole, dynamics, source)
    own = conditional_entropy(dynamics) if needed and dynamics is not None else 0.0
    if empirical_loss is None:
        assumed += ("the loss is that expected at data from the model itself",)
    if excess and entropy is None:
        assumed += ("the conditional entropy is the model's, that of the distribution of the data is not known",)
    elif excess:
        assumed += ("the conditional entropy is the caller's",)
    cells = np.flatnonzero(lowered.graph.is_observed)
    return _bound(
        _Design(len(cells), float(np.log(lowered.graph.sizes[cells].astype(float)).sum()), float(n), float(m), delta, epsilon),
        region,
        constants,
        entry_names(model.graph),
        own if empirical_loss is None else float(empirical_loss),
        (own if entropy is None else float(entropy)) if excess else None,
        c_at,
        assumed,
        source,
    )


def _verify_numbers(n: float, m: float, epsilon: float, delta: float) -> None:
    for name, value in (("n", n), ("m", m), ("epsilon", epsilon)):
        if not is_real_number(value) or not 0 < value < math.inf:
            raise fail("E507", f"{name} must be above 0 and finite, got {value!r}")
    if not is_real_number(delta) or not 0 < delta < 1:
        raise fail("E507", f"delta must lie between 0 and 1, got {delta!r}")


def _verify_known(empirical_loss: float | None, entropy: float | None, tensorization: float | None) -> None:
    for name, value in (("empirical_loss", empirical_loss), ("entropy", entropy)):
        if value is not None and not 0 <= value < math.inf:
            raise fail("E507", f"{name} must be a finite number of at least 0, got {value!r}")
    if tensorization is not None and not tensorization >= 1:
        raise fail("E507", f"tensorization must be at least 1, got {tensorization!r}", help="C_AT is at least the Poincare constant")


def _fitting_mask(model: JointModel, mask: str | None) -> tuple[str, AbstractMask]:
    """Return a mask that has a loss.

    Raises:
        GmlmError: E702, E703 for a mask without one.
    """
    name, lowered = model.mask(mask)
    if lowered.mentions_parameter:
        raise fail("E702", f"mask `{name}` mentions a parameter: it may sample, and has no loss", lowered.span)
    verify_latents(model.graph, lowered, name, np.zeros((model.graph.n_cells, 0), np.int32), False)
    return name, lowered


def _is_everything(observed: Array, mask: AbstractMask) -> bool:
    """Return whether the only block contains all cells of the data."""
    if mask.support_size > 1:
        return False
    blocks, _ = mask.enumerate_blocks()
    return bool(np.isin(np.flatnonzero(observed), blocks).all())


def _tensorization(given: float | None, whole: bool, dynamics: BlockDynamics | None, source: str) -> tuple[Quantity, tuple[str, ...]]:
    """Return C_AT, and the assumptions about it."""
    if isinstance(given, Quantity) and given.kind == "upper bound" and "tensorization" in given.source:
        return given, ()
    if isinstance(given, Quantity):
        return given, (f"C_AT is a number that is not an upper bound of it: {given.source}",)
    if given is not None:
        return Quantity(given, "estimate", "the caller's"), ("C_AT is the caller's",)
    if whole:
        return Quantity(1.0, "exact", source, note="every block is all cells"), ()
    assert dynamics is not None
    found = tensorization_above(dynamics, source)
    return found, ("C_AT is at the limit of float64",) if LARGEST_C_AT < found < math.inf else ()


def tensorization_above(dynamics: BlockDynamics, source: str) -> Quantity:
    """Return a certified upper bound on C_AT.

    It is the Poincare constant times ln(1 / q - 1) / (1 - 2 q), see the module; inf if the Poincare
    constant is.
    """
    gap, note = reversible_gap(dynamics)
    least = float(dynamics.space.log_p.ravel()[dynamics.space.support].min())
    q = math.exp(least)
    # ln(1 / q - 1) / (1 - 2 q) = 2 artanh(u) / u with u = 1 - 2 q. The series of the right-hand
    # side is exact near q = 1/2, where the limit is 2.
    u = 1 - 2 * q
    factor = 1.0 if len(dynamics.space.support) < 2 else 2 * (1 + u * u / 3) if u < 1e-4 else (math.log1p(-q) - least) / u
    value = math.inf if gap == 0 else factor / gap
    return Quantity(value, "upper bound", source, note=note or "from the Poincare constant")


def conditional_entropy(dynamics: BlockDynamics) -> float:
    """Return E H(x_K | x_-K, K) in nats, a mask's expected loss for data from the model."""
    total = 0.0
    for block in dynamics:
        weight = np.broadcast_to(block.chance * dynamics.space.p, dynamics.space.sizes)
        alive = (weight > 0) & (block.conditional > 0)
        total -= float((weight[alive] * np.log(block.conditional[alive])).sum())
    return max(total, 0.0)


@dataclass(frozen=True)
class _Design:
    """The design of the data.

    Attributes:
        N: the number of cells.
        log_x: ln |X|.
        n: the number of rows.
        m: the number of masks drawn for each row.
        delta: the probability of an exception.
        epsilon: the loss that may be given up by covering the box.
    """

    N: int
    log_x: float
    n: float
    m: float
    delta: float
    epsilon: float


def _bound(
    d: _Design,
    box: Box,
    constants: BoxConstants,
    names: list[str],
    loss: float,
    entropy: float | None,
    c_at: Quantity,
    assumed: tuple[str, ...],
    source: str,
) -> GeneralizationBound:
    steep = box.width * constants.lipschitz
    active = steep > 0
    log_cover = float(np.log(np.maximum(1.0, np.ceil(steep[active] * active.sum() / d.epsilon))).sum())
    log_mask = 0.5 * (3 * d.N * math.log(2) + d.log_x + log_cover - math.log(d.m) - math.log(d.delta))
    row_term = math.sqrt((math.log(8) + log_cover - math.log(d.delta)) / (2 * d.n))
    log_B = float(np.logaddexp(log_mask, math.log(row_term)))
    log_C = 0.5 * (3 * d.log_x - math.log(8) - math.log(d.delta) - math.log(d.n))
    rest = max(loss - (entropy or 0.0), 0.0) + d.epsilon
    log_slack = log_B + math.log(-constants.log_beta) if constants.log_beta < 0 else -math.inf
    log_inner = float(np.logaddexp(math.log(rest), log_slack))
    log_root = 0.5 * (math.log(c_at / 2) + log_inner) if c_at < math.inf else math.inf
    log_bound = float(np.logaddexp(log_root, log_C))
    return GeneralizationBound(
        Quantity(_exp(log_bound), "estimate" if assumed else "upper bound", source, note="vacuous" if log_bound > 0 else ""),
        log_bound,
        entropy is not None,
        d.N,
        d.n,
        d.m,
        d.delta,
        d.epsilon,
        loss,
        entropy or 0.0,
        c_at,
        d.log_x,
        log_cover,
        constants.log_beta,
        dict(zip(names, constants.lipschitz.tolist(), strict=True)),
        dict(zip(names, box.width.tolist(), strict=True)),
        log_mask,
        row_term,
        log_B,
        log_C,
        assumed,
    )
