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
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._diagnostics import fail, is_real_number
from .._types import ArrayLike, Given
from ..data import bound_mask, bound_once
from ..evaluate import entry_names, verify_latents
from ..graph import verify_is_model
from ..masks import AbstractMask
from ._block_dynamics import BlockDynamics, dynamics_of
from ._box import Box, BoxConstants, box_around, box_constants
from ._quantity import Quantity
from ._reversible import reversible_gap
from .limits import LARGEST_CONSTANT

if TYPE_CHECKING:
    from ..model import JointModel, Params

Array = np.ndarray


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
            the number d of parameters with range L_j > 0.
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
    return found, ("C_AT is at the limit of float64",) if LARGEST_CONSTANT < found < math.inf else ()


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
