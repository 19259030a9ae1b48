"""Log-Sobolev inequalities of the block dynamics of a mask.

Let f = r / p be the density of a distribution r, and E(f, g) = <f, (1 - P) g> the Dirichlet form.

- The log-Sobolev constant is the smallest C with KL(r, p) <= C E(sqrt(f), sqrt(f)) for all r.
- The modified constant is the smallest C with KL(r, p) <= C E(f, log f). It is the rate of decay
  in continuous time: KL(r exp(t (P - 1)), p) <= exp(-t / C) KL(r, p).

Near r = p the ratios tend to 2 and 1/2 times the Poincare constant. Four times the modified
constant is at most the other one, because E(f, log f) >= 4 E(sqrt(f), sqrt(f)). The constant of
entropy tensorization lies between both. The divergence of a conditional is at most the covariance
of f and log f there, and at least the variance of sqrt(f).

The search minimises log E - log KL over log f by L-BFGS, from the starts of the search for
tensorization.

Reference: Diaconis and Saloff-Coste 1996; Bobkov and Tetali 2006; Li et al. 2024, Section 2.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy.optimize

from .._types import Given
from ..data import verified_seed
from ._block_dynamics import BlockDynamics, dynamics_of, verify_work
from ._quantity import Quantity
from ._reversible import reversible_gap
from ._tensorization import EntropySearch, verify_size
from .limits import LEAST_LOG_RATIO, NEAREST_LAW, SOBOLEV_STARTS, SOBOLEV_STEPS

if TYPE_CHECKING:
    from ..model import JointModel, Params

Array = np.ndarray
Objective = Callable[[Array], tuple[float, Array]]


def log_sobolev_constant(
    model: JointModel, params: Params, mask: str | None = None, *, modified: bool = False, seed: int = 0, given: Given | None = None
) -> Quantity:
    """Return a lower bound on the log-Sobolev constant of the block dynamics of a mask.

    It is the smallest C with KL(r, p) <= C E(sqrt(r / p), sqrt(r / p)) for every distribution r,
    or with KL(r, p) <= C E(r / p, log(r / p)) if `modified`.

    Args:
        model: the model; latents are summed out.
        params: parameters.
        mask: the mask's name.
        modified: whether the modified constant is computed, the rate of decay of KL.
        seed: the seed of the random starts of the search.
        given: one row of data of given variables.

    Returns:
        A number of at least 2 (`modified`: 1/2) times the Poincare constant; inf if the chain is
            reducible. It is a lower bound, because it is the largest ratio that a global search
            over r attained.

    Raises:
        GmlmError: E601 for more configurations than 4096, E602 for too many blocks.

    Reference: Diaconis and Saloff-Coste 1996, Section 3; Bobkov and Tetali 2006; Li et al. 2024,
        Section 2.3.
    """
    verified_seed(seed)
    what = "the modified log-Sobolev constant" if modified else "the log-Sobolev constant"
    name, dynamics = dynamics_of(model, params, mask, what, given)
    verify_size(dynamics, what)
    gap, _ = reversible_gap(dynamics)
    limit = (0.5 if modified else 2.0) / gap if gap else np.inf
    found, note = limit, "the limit at p: no r that was tried has a larger ratio"
    if gap and len(dynamics.space.support) > 1:
        verify_work(dynamics, 2 * SOBOLEV_STARTS * SOBOLEV_STEPS, what)
        best = _largest_ratio(dynamics, modified, limit, seed)
        if best > limit * (1 + 1e-8):
            found, note = best, f"above its limit at p, {limit:.6g}"
    source = f"log_sobolev_constant({model.name}, mask={name!r}{', modified=True' * modified})"
    return Quantity(found, "lower bound", source, note=note)


def _largest_ratio(dynamics: BlockDynamics, modified: bool, limit: float, seed: int) -> float:
    """Return the largest ratio of KL(r, p) to the form of r that is found."""
    objective = _objective(dynamics, modified, limit)
    starts = [np.clip(np.asarray(g, float), LEAST_LOG_RATIO, -LEAST_LOG_RATIO).ravel() for g in EntropySearch(dynamics).starts(seed)]
    starts = sorted(starts, key=lambda g: objective(g)[0])[:SOBOLEV_STARTS]
    options = {"maxiter": SOBOLEV_STEPS, "ftol": 1e-12, "gtol": 1e-9}
    bounds = [(LEAST_LOG_RATIO, -LEAST_LOG_RATIO)] * dynamics.space.count
    found = [scipy.optimize.minimize(objective, g, jac=True, method="L-BFGS-B", bounds=bounds, options=options).fun for g in starts]
    return float(np.exp(-min(found)))


def _objective(dynamics: BlockDynamics, modified: bool, limit: float) -> Objective:
    """Return log E - log KL and its gradient, as a function of log f up to a constant.

    So near p that the ratio has no digits, KL / E is its limit.
    """
    q, sizes = dynamics.space.p, dynamics.space.sizes
    alive = dynamics.space.log_p > -np.inf

    def objective(flat: Array) -> tuple[float, Array]:
        g = np.where(alive, flat.reshape(sizes), 0.0)
        f = np.where(alive, np.exp(g - g.max()), 0.0)
        f /= (q * f).sum()
        log_f = np.where(alive, np.log(np.maximum(f, 1e-300)), 0.0)
        apart = float((q * f * log_f).sum())
        first = f if modified else np.sqrt(f)
        second = log_f if modified else first
        moved = second - dynamics.apply(second)
        form = float((q * first * moved).sum())
        if apart < NEAREST_LAW or form <= 0:
            return -np.log(limit), np.zeros(flat.size)
        own = moved * first  # f times the derivative of the form in f, which weighs q
        if modified:
            own = own + f - dynamics.apply(f)
        slope = q * (own / form - f * (log_f + 1) / apart)
        return float(np.log(form / apart)), (slope - q * f * slope.sum()).ravel()

    return objective
