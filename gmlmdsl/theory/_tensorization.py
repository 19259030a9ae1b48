"""Block approximate tensorization of entropy: how much of KL(r, q) a mask's conditionals see, for the worst r.

B takes x to what a block shows, (x_-K, K), with K ~ p(K | x). KL(r, q) is KL(Br, Bq) and what
blocks do not show, E_{x ~ r} E_{K | x} KL(r(.|x_-K, K), q(.|x_-K, K)). So C_AT = 1 / (1 - sup over
r of R(r)), R(r) = KL(Br, Bq) / KL(r, q). Near r = q, R is the quotient of the chain's second
eigenvalue, so C_AT is at least the Poincare constant; the supremum may be there only, or far away.

The search climbs from many starts. With a(x) = sum over K of p(K | x) log(Br / Bq), the derivative
of KL(Br, Bq), the step r <- q exp(a / R(r)), normalised, never lowers R: it maximises KL(Br, Bq)
linearised at r minus R(r) KL(., q). The best climb on and are polished by L-BFGS. Everything is
written in d = r / q - 1, so that nothing cancels near q.

Reference: Li et al. 2024, Definition 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.optimize

from .._diagnostics import fail
from ..data import generator, verified_seed
from ._block_dynamics import BlockDynamics, dynamics_of, verify_work
from ._quantity import Quantity
from ._reversible import reversible_gap, slow_functions

if TYPE_CHECKING:
    from ..model import JointModel, Params

Array = np.ndarray
MOST_CONFIGURATIONS = 1 << 12
MOST_AT_ONCE = 1 << 21  # configurations times blocks times starts of one step
CLIMBS = 10  # steps after which the better half of the starts goes on
KEPT = 6  # starts that climb to the end
FURTHER = 300  # steps of these, at most
SMALL = 1e-2  # d below which t log t - t + 1 is summed as a series
DEEPEST = -60.0  # log r / q: below, r is 0


def entropy_tensorization(model: JointModel, params: Params, mask: str | None = None, *, seed: int = 0, given: Any = None) -> Quantity:
    """C_AT, the smallest number with KL(r, p) <= C_AT E_{x ~ r} E_{K | x} KL(r(.|x_-K, K), p(.|x_-K, K)) for every distribution r.

    Args:
        model: the model; latents are summed out.
        params: parameters.
        mask: the mask's name.
        seed: of the random starts of the search.
        given: one row of data of given variables.

    Returns:
        At least the Poincare constant; inf where the mask's chain falls into parts. It is a lower
        bound: the largest value that a global
        search over r has found, each value being attained by some r; a higher one cannot be ruled
        out.

    Raises:
        GmlmError: E601 for more configurations than 4096, E602 for too many blocks.

    Reference: Li et al. 2024, Definition 9.
    """
    verified_seed(seed)
    name, dynamics = dynamics_of(model, params, mask, "entropy tensorization", given)
    if dynamics.space.count > MOST_CONFIGURATIONS:
        message = f"entropy tensorization searches over distributions on {dynamics.space.count:,} configurations"
        help = "take a smaller model; `poincare_constant` is a lower bound, and larger models have it"
        raise fail("E601", f"{message}, more than the limit of {MOST_CONFIGURATIONS:,}", help=help)
    value, note = tensorization_of(dynamics, seed)
    return Quantity(value, "lower bound", f"entropy_tensorization({model.name}, mask={name!r})", note=note)


def tensorization_of(dynamics: BlockDynamics, seed: int = 0) -> tuple[float, str]:
    """The same of block dynamics, and where it is attained."""
    gap, _ = reversible_gap(dynamics)
    if gap == 0:
        return np.inf, "the chain falls into parts"
    if len(dynamics.space.support) < 2:
        return 1.0, "the support is one configuration"
    verify_work(dynamics, 2 * KEPT * (CLIMBS + FURTHER), "entropy tensorization")
    search = _Search(dynamics)
    logs = np.stack(list(search.starts(seed)), axis=-1)
    most = max(2 * KEPT, int(MOST_AT_ONCE // (dynamics.space.count * (1 + len(dynamics.blocks)))))
    logs = logs[..., :most]
    best = search.best_of(search.halved(logs))
    poincare, found = 1 / gap, 1 / max(best, 1e-300)
    if found > poincare * (1 + 1e-9):
        return found, f"above the Poincare constant {poincare:.6g}; searched from {logs.shape[-1]} starts"
    return poincare, f"the Poincare constant: no r among {logs.shape[-1]} starts is worse than r near p"


class _Search:
    """R(r) and its ascent, over log r / q as tensors with an axis of starts behind."""

    def __init__(self, dynamics: BlockDynamics):
        space = dynamics.space
        self.dynamics, self.n = dynamics, len(space.sizes)
        self.q = space.p[..., None]
        self.alive = space.log_p[..., None] > -np.inf
        self.axes = tuple(range(self.n))

    def excess(self, logs: Array) -> Array:
        """d = r / q - 1 of r = q exp(logs), normalised."""
        logs = np.where(self.alive, logs, -np.inf)
        # near q: the mean, so that little is lost
        middle = (self.q * np.where(self.alive, logs, 0.0)).sum(axis=self.axes)
        moved = np.clip(np.where(self.alive, logs - middle, 0.0), DEEPEST, 600.0)
        total = (self.q * np.expm1(moved)).sum(axis=self.axes)
        return np.where(self.alive, (np.expm1(moved) - total) / (1 + total), 0.0)

    def lost(self, d: Array) -> tuple[Array, Array, Array]:
        """1 - R, the part of KL(r, q) that blocks do not show; the derivative a of KL(Br, Bq), and KL(r, q); at d."""
        stay = self.dynamics.stay[..., None]
        hidden, slope = np.zeros(d.shape[-1]), stay * _log1p(d)
        for block in self.dynamics:
            weight = self.q * (block.chance[..., None] if block.chance.ndim else block.chance)
            mean = block.mean(d)
            # E KL(r(.|rest), q(.|rest)), in the ratio of the two conditionals minus 1
            inner = np.where(mean > -1, (d - mean) / np.maximum(1 + mean, 1e-300), 0.0)
            hidden = hidden + (weight * (1 + mean) * _entropy(inner)).sum(axis=self.axes)
            slope = slope + (block.chance[..., None] if block.chance.ndim else block.chance) * _log1p(mean)
        apart = (self.q * _entropy(d)).sum(axis=self.axes)
        return np.where(apart > 0, hidden / np.maximum(apart, 1e-300), 1.0), slope, apart

    def climbed(self, logs: Array) -> Array:
        """One step that does not lower R."""
        lost, slope, _ = self.lost(self.excess(logs))
        return np.where(lost < 1, slope / np.maximum(1 - lost, 1e-12), logs)

    def halved(self, logs: Array) -> Array:
        """Starts after some steps, the better half of them again and again."""
        while logs.shape[-1] > KEPT:
            for _ in range(CLIMBS):
                logs = self.climbed(logs)
            order = np.argsort(self.lost(self.excess(logs))[0], kind="stable")
            logs = logs[..., order[: max(KEPT, logs.shape[-1] // 2)]]
        return logs

    def best_of(self, logs: Array) -> float:
        """The smallest 1 - R that starts reach."""
        before = np.inf
        for step in range(FURTHER):
            logs = self.climbed(logs)
            if step % 20 == 19:
                lost = self.lost(self.excess(logs))[0]
                if abs(lost.min() - before) <= 1e-9 * lost.min():
                    break
                before = lost.min()
        lost = self.lost(self.excess(logs))[0]
        return min(self.polished(logs[..., k]) for k in range(len(lost)))

    def polished(self, logs: Array) -> float:
        """The smallest 1 - R that L-BFGS reaches from one start."""

        def log_lost(g: Array) -> tuple[float, Array]:
            d = self.excess(g.reshape(*self.dynamics.space.sizes, 1))
            lost, slope, apart = self.lost(d)
            if not (apart[0] > 0 and lost[0] > 0):
                return 0.0, np.zeros_like(g)
            own = _log1p(d)[..., 0]
            inside = ((own - slope[..., 0]) / lost[0] - own) / apart[0]
            r = (self.q * (1 + d))[..., 0]
            return float(np.log(lost[0])), (r * (inside - (r * inside).sum())).ravel()

        start = np.clip(np.where(self.alive[..., 0], logs, 0.0), DEEPEST, -DEEPEST).ravel()
        options = {"maxiter": 500, "ftol": 1e-14, "gtol": 1e-9}
        found = scipy.optimize.minimize(log_lost, start, jac=True, method="L-BFGS-B", options=options)
        return float(np.exp(min(found.fun, log_lost(start)[0])))

    def starts(self, seed: int) -> Iterator[Array]:
        """log r / q: along slow directions, on their sides, at cells held at a value, at likely and unlikely configurations, at random."""
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
        """The chain's slowest functions, of size 1."""
        space = self.dynamics.space
        _, found, _ = slow_functions(self.dynamics)
        out = []
        for f in np.moveaxis(found, -1, 0)[:3]:
            clipped = np.clip(f, *np.quantile(f.ravel()[space.support], [0.001, 0.999]))
            out.append(clipped / max(np.abs(clipped).max(), 1e-300))
        return out


def _entropy(d: Array) -> Array:
    """(1 + d) log(1 + d) - d."""
    far = np.where(np.abs(d) < SMALL, 0.5, np.maximum(d, -1.0))
    direct = (1 + far) * np.log1p(np.where(far > -1, far, 0.0)) - far
    near = np.where(np.abs(d) < SMALL, d, 0.0)
    series = sum(((-1) ** k * near**k / (k * (k - 1)) for k in range(9, 1, -1)), np.zeros_like(near))
    return np.where(np.abs(d) < SMALL, series, direct)


def _log1p(d: Array) -> Array:
    """log(1 + d), and the deepest where r is 0."""
    return np.where(d > -1, np.log1p(np.where(d > -1, d, 0.0)), DEEPEST)
