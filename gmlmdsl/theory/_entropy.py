"""Entropy inequalities of a mask: block approximate tensorization, and log-Sobolev constants.

The constant C_AT of tensorization bounds KL(r, q) by the divergence of a mask's conditionals, for
the worst distribution r. Let B map x to the part that a block shows, (x_-K, K) with K ~ p(K | x).
KL(r, q) is KL(Br, Bq) plus the part that blocks do not show, E_{x ~ r} E_{K | x} KL(r(.|x_-K, K),
q(.|x_-K, K)). Therefore C_AT = 1 / (1 - sup over r of R(r)), with R(r) = KL(Br, Bq) / KL(r, q).
Near r = q, R is a Rayleigh quotient with the chain's second eigenvalue as its largest value, so
that C_AT is at least the Poincare constant. The supremum may lie only there, or far away.

The search climbs from many starts. Let a(x) = sum over K of p(K | x) log(Br / Bq), the derivative
of KL(Br, Bq). The step r <- q exp(a / R(r)), normalised, never lowers R, because it maximises
KL(Br, Bq) linearised at r minus R(r) KL(., q). The best starts climb further and are polished by
L-BFGS. All formulas are written in d = r / q - 1, so that nothing cancels near q.

Reference: Li et al. 2024, Definition 9.

The log-Sobolev inequalities are those of the mask's block dynamics. Let f = r / p be the density of
a distribution r, and E(f, g) = <f, (1 - P) g> the Dirichlet form.

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

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import scipy.optimize

from .._diagnostics import fail
from .._types import Given
from ..data import generator, verified_seed
from ._block_dynamics import BlockDynamics, dynamics_of, reversible_gap, slow_functions, verify_work
from ._quantity import Quantity
from .limits import (
    CLIMBED_AT_ONCE,
    CLIMBING_STARTS,
    CLIMBS,
    FURTHER_CLIMBS,
    LEAST_LOG,
    MOST_CLIMBED,
    NEAREST_LAW,
    SERIES_RANGE,
    SOBOLEV_STARTS,
    SOBOLEV_STEPS,
)

if TYPE_CHECKING:
    from ..model import JointModel, Params

Array = np.ndarray
Objective = Callable[[Array], tuple[float, Array]]


def entropy_tensorization(
    model: JointModel, params: Params, mask: str | None = None, *, seed: int = 0, given: Given | None = None
) -> Quantity:
    """Return a lower bound on C_AT, the constant of entropy tensorization of a mask.

    C_AT is the smallest number with KL(r, p) <= C_AT E_{x ~ r} E_{K | x} KL(r(.|x_-K, K), p(.|x_-K,
    K)) for every distribution r.

    Args:
        model: the model; latents are summed out.
        params: parameters.
        mask: the mask's name.
        seed: the seed of the random starts of the search.
        given: one row of data of given variables.

    Returns:
        A number of at least the Poincare constant; inf if the mask's chain is reducible. It is a
            lower bound, because it is the largest value that a global search over r attained. Each
            value is attained by some r, and a higher value cannot be excluded.

    Raises:
        GmlmError: E601 for more configurations than 4096, E602 for too many blocks.

    Reference: Li et al. 2024, Definition 9.
    """
    verified_seed(seed)
    name, dynamics = dynamics_of(model, params, mask, "entropy tensorization", given)
    verify_size(dynamics, "entropy tensorization")
    value, note = tensorization_of(dynamics, seed)
    return Quantity(value, "lower bound", f"entropy_tensorization({model.name}, mask={name!r})", note=note)


def verify_size(dynamics: BlockDynamics, what: str) -> None:
    """Raise E601 for more configurations than a search over distributions can take."""
    if dynamics.space.count > MOST_CLIMBED:
        message = f"{what} searches over distributions on {dynamics.space.count:,} configurations"
        help = "take a smaller model; `poincare_constant` is a lower bound, and larger models have it"
        raise fail("E601", f"{message}, more than the limit of {MOST_CLIMBED:,}", help=help)


def tensorization_of(dynamics: BlockDynamics, seed: int = 0) -> tuple[float, str]:
    """Return the lower bound on C_AT of block dynamics, and a note on where it is attained."""
    gap, _ = reversible_gap(dynamics)
    if gap == 0:
        return np.inf, "the chain falls into parts"
    if len(dynamics.space.support) < 2:
        return 1.0, "the support is one configuration"
    verify_work(dynamics, 2 * CLIMBING_STARTS * (CLIMBS + FURTHER_CLIMBS), "entropy tensorization")
    search = EntropySearch(dynamics)
    logs = np.stack(list(search.starts(seed)), axis=-1)
    most = max(2 * CLIMBING_STARTS, int(CLIMBED_AT_ONCE // (dynamics.space.count * (1 + len(dynamics.blocks)))))
    logs = logs[..., :most]
    best = search.best_of(search.halved(logs))
    poincare, found = 1 / gap, 1 / max(best, 1e-300)
    if found > poincare * (1 + 1e-9):
        return found, f"above the Poincare constant {poincare:.6g}; searched from {logs.shape[-1]} starts"
    return poincare, f"the Poincare constant: no r among {logs.shape[-1]} starts is worse than r near p"


class EntropySearch:
    """The ratio R(r) and its ascent; r is stored as log r / q with starts on the last axis."""

    def __init__(self, dynamics: BlockDynamics):
        space = dynamics.space
        self.dynamics, self.n = dynamics, len(space.sizes)
        self.q = space.p[..., None]
        self.alive = space.log_p[..., None] > -np.inf
        self.axes = tuple(range(self.n))

    def excess(self, logs: Array) -> Array:
        """Return d = r / q - 1 of r = q exp(logs), normalised."""
        logs = np.where(self.alive, logs, -np.inf)
        # Near q the mean is subtracted first, so that few digits are lost.
        middle = (self.q * np.where(self.alive, logs, 0.0)).sum(axis=self.axes)
        moved = np.clip(np.where(self.alive, logs - middle, 0.0), LEAST_LOG, 600.0)
        total = (self.q * np.expm1(moved)).sum(axis=self.axes)
        return np.where(self.alive, (np.expm1(moved) - total) / (1 + total), 0.0)

    def lost(self, d: Array) -> tuple[Array, Array, Array]:
        """Return 1 - R, the derivative a of KL(Br, Bq), and KL(r, q), all at d.

        1 - R is the fraction of KL(r, q) that blocks do not show.
        """
        stay = self.dynamics.stay[..., None]
        hidden, slope = np.zeros(d.shape[-1]), stay * _log1p(d)
        for block in self.dynamics:
            weight = self.q * (block.chance[..., None] if block.chance.ndim else block.chance)
            mean = block.mean(d)
            # This is E KL(r(.|rest), q(.|rest)), as a function of the ratio of the two conditionals
            # minus 1.
            inner = np.where(mean > -1, (d - mean) / np.maximum(1 + mean, 1e-300), 0.0)
            hidden = hidden + (weight * (1 + mean) * _entropy(inner)).sum(axis=self.axes)
            slope = slope + (block.chance[..., None] if block.chance.ndim else block.chance) * _log1p(mean)
        apart = (self.q * _entropy(d)).sum(axis=self.axes)
        return np.where(apart > 0, hidden / np.maximum(apart, 1e-300), 1.0), slope, apart

    def climbed(self, logs: Array) -> Array:
        """Return the logs after one step that does not lower R."""
        lost, slope, _ = self.lost(self.excess(logs))
        return np.where(lost < 1, slope / np.maximum(1 - lost, 1e-12), logs)

    def halved(self, logs: Array) -> Array:
        """Let the starts climb, and drop the worse half of them repeatedly."""
        while logs.shape[-1] > CLIMBING_STARTS:
            for _ in range(CLIMBS):
                logs = self.climbed(logs)
            order = np.argsort(self.lost(self.excess(logs))[0], kind="stable")
            logs = logs[..., order[: max(CLIMBING_STARTS, logs.shape[-1] // 2)]]
        return logs

    def best_of(self, logs: Array) -> float:
        """Return the smallest 1 - R that the starts reach."""
        before = np.inf
        for step in range(FURTHER_CLIMBS):
            logs = self.climbed(logs)
            if step % 20 == 19:
                lost = self.lost(self.excess(logs))[0]
                if abs(lost.min() - before) <= 1e-9 * lost.min():
                    break
                before = lost.min()
        lost = self.lost(self.excess(logs))[0]
        return min(self.polished(logs[..., k]) for k in range(len(lost)))

    def polished(self, logs: Array) -> float:
        """Return the smallest 1 - R that L-BFGS reaches from one start."""

        def log_lost(g: Array) -> tuple[float, Array]:
            d = self.excess(g.reshape(*self.dynamics.space.sizes, 1))
            lost, slope, apart = self.lost(d)
            if not (apart[0] > 0 and lost[0] > 0):
                return 0.0, np.zeros_like(g)
            own = _log1p(d)[..., 0]
            inside = ((own - slope[..., 0]) / lost[0] - own) / apart[0]
            r = (self.q * (1 + d))[..., 0]
            return float(np.log(lost[0])), (r * (inside - (r * inside).sum())).ravel()

        start = np.clip(np.where(self.alive[..., 0], logs, 0.0), LEAST_LOG, -LEAST_LOG).ravel()
        options = {"maxiter": 500, "ftol": 1e-14, "gtol": 1e-9}
        found = scipy.optimize.minimize(log_lost, start, jac=True, method="L-BFGS-B", options=options)
        return float(np.exp(min(found.fun, log_lost(start)[0])))

    def starts(self, seed: int) -> Iterator[Array]:
        """Yield starts as log r / q.

        The starts are

        - along slow directions, and on either side of them,
        - at single cells fixed at a value,
        - at probable and improbable configurations,
        - at random.
        """
        space = self.dynamics.space
        rng = generator(seed)
        for f in self.slow():
            for size in (1e-3, 0.1, 0.5, 3.0):
                yield size * f
                yield -size * f
            yield np.where(f > 0, 0.0, -12.0)
            yield np.where(f < 0, 0.0, -12.0)
        for axis, values in enumerate(space.sizes):
            for v in range(values if self.n <= 12 else 1):
                here = np.arange(values).reshape([-1 if a == axis else 1 for a in range(self.n)])
                yield np.broadcast_to(np.where(here == v, 0.0, -8.0), space.sizes)
        inside = space.support[np.argsort(space.log_p.ravel()[space.support], kind="stable")]
        chosen = inside if len(inside) <= 64 else np.concatenate([inside[:16], inside[-16:], rng.choice(inside, 16)])
        for place in np.unique(chosen):
            lone = np.full(space.count, -12.0 + min(0.0, float(space.log_p.ravel()[place])))
            lone[place] = 0.0
            yield lone.reshape(space.sizes)
        for size in (0.5, 2.0, 6.0, 6.0):
            yield size * rng.normal(size=space.sizes)

    def slow(self) -> list[Array]:
        """Return the chain's slowest functions, scaled to a largest absolute value of 1."""
        space = self.dynamics.space
        _, found, _ = slow_functions(self.dynamics)
        out = []
        for f in np.moveaxis(found, -1, 0)[:3]:
            clipped = np.clip(f, *np.quantile(f.ravel()[space.support], [0.001, 0.999]))
            out.append(clipped / max(np.abs(clipped).max(), 1e-300))
        return out


def _entropy(d: Array) -> Array:
    """Return (1 + d) log(1 + d) - d."""
    far = np.where(np.abs(d) < SERIES_RANGE, 0.5, np.maximum(d, -1.0))
    direct = (1 + far) * np.log1p(np.where(far > -1, far, 0.0)) - far
    near = np.where(np.abs(d) < SERIES_RANGE, d, 0.0)
    series = sum(((-1) ** k * near**k / (k * (k - 1)) for k in range(9, 1, -1)), np.zeros_like(near))
    return np.where(np.abs(d) < SERIES_RANGE, series, direct)


def _log1p(d: Array) -> Array:
    """Return log(1 + d), or `LEAST_LOG` if r is 0."""
    return np.where(d > -1, np.log1p(np.where(d > -1, d, 0.0)), LEAST_LOG)


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
    starts = [np.clip(np.asarray(g, float), LEAST_LOG, -LEAST_LOG).ravel() for g in EntropySearch(dynamics).starts(seed)]
    starts = sorted(starts, key=lambda g: objective(g)[0])[:SOBOLEV_STARTS]
    options = {"maxiter": SOBOLEV_STEPS, "ftol": 1e-12, "gtol": 1e-9}
    bounds = [(LEAST_LOG, -LEAST_LOG)] * dynamics.space.count
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
