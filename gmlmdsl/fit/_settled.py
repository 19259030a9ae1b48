"""Tests whether the gradient vanishes at an estimate, by groups of chains that run there.

The parameters are held at the estimate, and the chains go on. Groups of chains are independent, so
the spread of their mean gradients is the Monte Carlo error, however slowly the chains mix. The
*sampling error* is the standard deviation of the mean gradient over data sets of the same size,
computed from groups of rows. Divided by the curvature, it becomes the standard error of the
estimate: a gradient of a tenth of it moves the estimate by a tenth of a standard error.

The estimate has settled if three conditions hold:

- The mean gradient is 0 within its Monte Carlo error, for each entry and for all entries together,
  or small relative to the sampling error. The joint test is needed because each of many entries
  may be lost in its noise although all have a common direction.
- The Monte Carlo error is small relative to the sampling error. Otherwise the noise hides a
  gradient that matters.
- The chains do not drift: their means over the first half of the sweeps and over the second half do
  not differ.

The joint tests exchange signs. If the mean over groups is 0, the mean of a group is as likely as
its negative. The length of the sum over groups, with each entry in units of its own size, then has
the distribution of the length of the same sum under random signs.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy  # its modules load at first use

from .limits import FEW_GROUPS, HIDING_NOISE, SETTLED_LEVEL, SMALL_GRADIENT

Array = np.ndarray


@dataclass(frozen=True)
class Settled:
    """The result of the tests.

    Attributes:
        largest: the largest entry of the mean gradient, per row.
        noise: the largest Monte Carlo error of an entry.
        share: the Monte Carlo error relative to the sampling error, in the root mean square.
        moving: the size of the mean gradient relative to the sampling error, in the root mean
            square and without the part that is noise, if a test shows it; 0 otherwise.
        drifting: the same of the difference between the halves of the sweeps.
    """

    largest: float
    noise: float
    share: float
    moving: float
    drifting: float

    @property
    def is_hidden(self) -> bool:
        """Whether Monte Carlo noise hides a gradient that matters."""
        return not self.share <= HIDING_NOISE

    @property
    def stands_still(self) -> bool:
        """Whether the gradient vanishes, and is known well enough to say so."""
        return not (self.moving or self.drifting or self.is_hidden)

    @property
    def words(self) -> str:
        """The gradient beside its errors."""
        share = f"{self.share:.2g} of the sampling error of the rows"
        head = f"the mean gradient at the estimate is at most {self.largest:.2g} per row"
        return f"{head}, with a Monte Carlo error of {self.noise:.2g} ({share})"

    def reached(self, steps: int) -> tuple[str, str]:
        """Return a message on the test that failed after `steps` steps, and a remedy."""
        if self.moving:
            head = f"The estimate still moves after {steps} steps: its gradient is {self.moving:.2g} of the sampling error of the rows"
            return f"{head}; {self.words}", "Raise `steps` of the method"
        if self.drifting:
            head = f"The chains have not settled after {steps} steps: at fixed parameters their means drift by {self.drifting:.2g}"
            return f"{head} of the sampling error of the rows; {self.words}", "Raise `sweeps` of the method, or take a sampler that mixes"
        head = f"Monte Carlo noise hides the gradient after {steps} steps: {self.words}"
        return f"{head}, and {HIDING_NOISE:.2g} is the most that decides", "Raise `chains` or `steps` of the method"


def settled(groups: Array, drift: Array, sampling: Array, variance: Array) -> Settled:
    """Test the mean gradients of groups of chains at fixed parameters.

    Args:
        groups: the mean gradients of the groups, shape (groups, entries).
        drift: the difference between the halves of the sweeps, in the same shape.
        sampling: the variance of the mean gradient over data sets, shape (entries,).
        variance: the variance of the statistics under the model, shape (entries,), up to the
            autocorrelation of the chains. It makes entries comparable; entries without one are
            compared as they are.
    """
    count, size = groups.shape
    scale = np.where(variance > 0, variance, 1.0)
    mean, error = groups.mean(axis=0), groups.std(axis=0, ddof=1) / np.sqrt(count)
    known = float((sampling / scale).sum())
    share = float(np.sqrt((error**2 / scale).sum() / known)) if known > 0 else float(error.any())
    bound = -scipy.special.stdtrit(count - 1, SETTLED_LEVEL / (2 * max(size, 1)))
    largest, noise = float(np.abs(mean).max(initial=0.0)), float(error.max(initial=0.0))
    part = _size(groups, scale, known)
    own = np.abs(mean) / np.sqrt(np.where(sampling > 0, sampling, np.inf))
    # Few groups that agree by chance have no error.
    told = (np.abs(mean) > bound * error) & (own > SMALL_GRADIENT) & ((error > 0) | (count > FEW_GROUPS))
    alone = own[told].max(initial=0.0) if known > 0 else 0.0
    moving = part if part > SMALL_GRADIENT and _pushes(groups) else float(alone)
    moved = _size(drift, scale, known)
    return Settled(largest, noise, share, moving, moved if moved > SMALL_GRADIENT and _pushes(drift) else 0.0)


def _size(groups: Array, scale: Array, known: float) -> float:
    """Return the length of the mean over groups without the part that noise explains.

    It is in units of the sampling error, whose squared length is `known`.
    """
    mean, error = groups.mean(axis=0), groups.var(axis=0, ddof=1) / len(groups)
    length = float(((mean**2 - error) / scale).sum())
    return float(np.sqrt(max(length, 0.0) / known)) if known > 0 else 0.0


def _pushes(groups: Array) -> bool:
    """Return whether the sum over groups is longer than under nearly all signs.

    Each entry is in units of its size, which no sign changes.
    """
    size = np.sqrt((groups**2).mean(axis=0))
    scaled, signs = groups / np.where(size > 0, size, 1.0), _signs(len(groups))
    lengths = ((signs @ (scaled @ scaled.T)) * signs).sum(axis=1)
    return bool((lengths >= lengths[0] * (1 - 1e-12)).mean() < SETTLED_LEVEL)


@cache
def _signs(count: int) -> Array:
    """Return all sign vectors for `count` groups whose first sign is +, starting with all +.

    The shape is (2^(count - 1), count).
    """
    return np.array([(1, *rest) for rest in itertools.product((1, -1), repeat=count - 1)], float)
