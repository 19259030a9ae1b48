"""The stationary distribution of a chain, and its distance from p."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import rel_entr

from .._diagnostics import fail
from .._types import Given
from ._chains import Chain, chain_of

if TYPE_CHECKING:
    from ..model import JointModel, Params

Array = np.ndarray


def stationary_law(
    model: JointModel, params: Params, sampler: str | None = None, *, mask: str | None = None, given: Given | None = None
) -> Array:
    """Return the distribution pi with pi P = pi of a chain, exactly.

    Args:
        model: the model; a sampler's state includes the latents.
        params: parameters.
        sampler: the sampler's name: one run of its body is one step.
        mask: in place of a sampler, the block dynamics of this mask, with latents summed out.
        given: one row of data of given variables.

    Returns:
        Array of shape (configurations,), with the first position slowest.

    Raises:
        GmlmError: E601 if the enumeration is too large, E713 if the chain converges to no single
            distribution.
    """
    chain = chain_of(model, params, sampler, mask, "the stationary distribution", given)
    out = np.zeros(chain.space.count)
    out[chain.space.support] = _settled(chain)
    return out


def _settled(chain: Chain) -> Array:
    law = chain.law
    if law is None:
        parts = int(chain.joined().max()) + 1
        message = f"the chain of {chain.name} falls into parts, {parts} of them: its long run depends on the start"
        raise fail("E713", message, help="a block that joins them is missing; `mixing_time` and `spectral_gap` say inf and 0")
    return law


@dataclass(frozen=True)
class Bias:
    """The distance of the stationary distribution pi of a chain from p.

    Attributes:
        total_variation: max over sets A of |pi(A) - p(A)|.
        kl: KL(pi, p) in nats.
        reverse_kl: KL(p, pi) in nats; inf if pi is 0 at a configuration that p allows.
        name: the name of the chain.
    """

    total_variation: float
    kl: float
    reverse_kl: float
    name: str

    def __repr__(self) -> str:
        return f"{self.name} beside p: TV {self.total_variation:.6g}, KL(pi, p) {self.kl:.6g}, KL(p, pi) {self.reverse_kl:.6g} nats"


def stationary_bias(
    model: JointModel, params: Params, sampler: str | None = None, *, mask: str | None = None, given: Given | None = None
) -> Bias:
    """Return the distance of the stationary distribution of a chain from p, exactly.

    It is 0 up to rounding, except for updates drawn `independently`.

    Args:
        model: the model; a sampler's state includes the latents.
        params: parameters.
        sampler: the sampler's name: one run of its body is one step.
        mask: in place of a sampler, the block dynamics of this mask.
        given: one row of data of given variables.

    Raises:
        GmlmError: E601 if the enumeration is too large, E713 if the chain converges to no single
            distribution.

    Reference: Li et al. 2024, Definition 11. For pairwise models the independent update of all
    cells is reversible. For Ising models its distribution is proportional to exp(h.x) prod_i 2
    cosh(h_i + sum_j J_ij x_j).
    """
    chain = chain_of(model, params, sampler, mask, "the bias of a sampler", given)
    law, p = np.maximum(_settled(chain), 0.0), chain.target
    return Bias(float(0.5 * np.abs(law - p).sum()), float(rel_entr(law, p).sum()), float(rel_entr(p, law).sum()), chain.name)
