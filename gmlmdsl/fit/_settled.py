"""Tests whether a stochastic maximisation has settled, by batches of the last half of its steps.

Two conditions must hold. First, the mean gradient is 0 within its Monte Carlo error, for each entry
and for all entries together. The joint test is needed because each of many entries may be lost in
its noise although all have a common direction. Second, the estimate does not move: the mean
parameters of the batches do not continue in one direction by a large share of the distance from the
start, and their error is small relative to that distance.

The joint test exchanges signs. If the mean gradient is 0, the mean of a batch is as likely as its
negative. The length of the sum over batches, with each entry in units of its own size, then has the
distribution of the length of the same sum under random signs.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy  # its modules load at first use

Array = np.ndarray
LEVEL = 1e-3  # significance level of each test
NEAR = 1e-3  # the largest gradient entry per row at which steps of a stochastic minimiser may end
QUARTERS = 4  # number of groups of batches, whose mean parameters show the path of the estimate
# the cosine between consecutive moves of quarters; for noise around a fixed point it is -1/2 in the
# mean
STRAIGHT = 0.5
# Share of the distance from the start. With a larger error, the mean parameters do not locate the
# optimum.
WIDE = 0.25
FAR = 0.02  # share of the distance from the start; shorter moves do not count


@dataclass(frozen=True)
class Settled:
    """The result of the tests on the last half of the steps.

    Attributes:
        largest: the largest entry of the mean gradient, per row.
        noise: the largest Monte Carlo error of an entry.
        moving: the largest entry of the mean gradient that is not 0 within its error; 0 if there is
            none.
        together: the root mean square over the entries of the mean gradient relative to its errors;
            0 if random signs may explain it.
        travelled: the share of the distance from the start that the last quarter of these steps
            continued in one direction; 0 if it did not.
        wandered: the error of the mean parameters, computed from the batches, as a share of that
            distance; 0 if it is small.
    """

    largest: float
    noise: float
    moving: float
    together: float
    travelled: float
    wandered: float

    @property
    def stands_still(self) -> bool:
        """Whether no test shows that the estimate moves."""
        return not (self.moving or self.together or self.travelled or self.wandered)

    def reached(self, steps: int) -> str:
        """Return a message on the test which shows that the estimate moves after `steps` steps."""
        head = f"The estimate still moves after {steps} steps: "
        if self.moving:
            return f"{head}its mean gradient is {self.moving:.2g} per row, the Monte Carlo error {self.noise:.2g}"
        if self.travelled:
            return f"{head}the last eighth of them went on in one direction, by {self.travelled:.0%} of the way from the start"
        if self.wandered:
            return f"{head}the error of its mean is {self.wandered:.0%} of the way from the start"
        together = f"{self.together:.2g} of their Monte Carlo errors"
        return f"{head}all entries of its mean gradient together are {together}, and chance does not explain it"


def settled(gradients: Array, places: Array, start: Array) -> Settled:
    """Test the batches of the last half of the steps.

    Args:
        gradients: the mean gradients of the batches, shape (batches, entries).
        places: the mean parameters of the batches, shape (batches, entries).
        start: the parameters at the start.
    """
    count, size = gradients.shape
    mean, error = gradients.mean(axis=0), gradients.std(axis=0, ddof=1) / np.sqrt(count)
    bound = -scipy.special.stdtrit(count - 1, LEVEL / (2 * max(size, 1)))
    moving = np.abs(mean[(np.abs(mean) > NEAR) & (np.abs(mean) > bound * error)]).max(initial=0.0)
    together = 0.0
    if moving == 0 and np.abs(mean).max(initial=0.0) > NEAR and _pushes(gradients):
        together = float(np.sqrt(((mean / np.where(error > 0, error, np.inf)) ** 2).mean()))
    largest, noise = float(np.abs(mean).max(initial=0.0)), float(error.max(initial=0.0))
    return Settled(largest, noise, float(moving), together, _travelled(places, start), _wandered(places, start))


def _pushes(gradients: Array) -> bool:
    """Return whether the sum over batches is longer than under nearly all signs.

    Each entry is in units of its size, which no sign changes.
    """
    size = np.sqrt((gradients**2).mean(axis=0))
    scaled, signs = gradients / np.where(size > 0, size, 1.0), _signs(len(gradients))
    lengths = ((signs @ (scaled @ scaled.T)) * signs).sum(axis=1)
    return bool((lengths >= lengths[0] * (1 - 1e-12)).mean() < LEVEL)


@cache
def _signs(count: int) -> Array:
    """Return all sign vectors for `count` batches whose first sign is +, starting with all +.

    The shape is (2^(count - 1), count).
    """
    return np.array([(1, *rest) for rest in itertools.product((1, -1), repeat=count - 1)], float)


def _travelled(places: Array, start: Array) -> float:
    """Return `travelled`, see `Settled`."""
    quarters = places.reshape(QUARTERS, -1, places.shape[1]).mean(axis=1)
    moves = np.diff(quarters, axis=0)
    lengths, way = np.linalg.norm(moves, axis=1), float(np.linalg.norm(quarters[-1] - start))
    if not lengths.all() or not way:
        return 0.0
    cosines = (moves[1:] * moves[:-1]).sum(axis=1) / (lengths[1:] * lengths[:-1])
    share = float(lengths[-1]) / way
    return share if cosines.min() > STRAIGHT and share > FAR else 0.0


def _wandered(places: Array, start: Array) -> float:
    """Return `wandered`, see `Settled`."""
    way = float(np.linalg.norm(places.mean(axis=0) - start))
    error = float(np.linalg.norm(places.std(axis=0, ddof=1))) / np.sqrt(len(places))
    return error / way if way and error > WIDE * way else 0.0
