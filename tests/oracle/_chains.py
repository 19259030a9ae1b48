"""What a transition matrix does in time, step by step. Matrices and laws are on the support; nothing here knows where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._kernels import total_variation

if TYPE_CHECKING:
    from ._oracle import Oracle, Params

UNIT = 1e-9  # an eigenvalue this near to the unit circle is on it
TIE = 1e-12  # a distance this little above the threshold is the threshold
MOST_STEPS = 200_000


def sampler_matrix(oracle: Oracle, params: Params, sampler: str) -> tuple[np.ndarray, np.ndarray]:
    """The matrix of a sampler and p, on the support of p over all cells."""
    p = oracle.probabilities(params)
    alive = np.flatnonzero(p > 0)
    matrix = oracle.transition_matrix(params, sampler)[np.ix_(alive, alive)]
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)  # no chain here leaves the support
    return matrix, p[alive]


def spectral_gap(matrix: np.ndarray) -> float:
    """1 - the largest modulus of the eigenvalues but for one 1; 0 where another is on the unit circle."""
    values = np.linalg.eigvals(matrix)
    others = np.delete(values, np.argmin(np.abs(values - 1)))
    gap = 1 - float(np.abs(others).max(initial=0.0))
    return 0.0 if gap < UNIT else gap


def stationary_law(matrix: np.ndarray) -> np.ndarray:
    """The law that the chain keeps, by the null space of P' - I; an error where there are several."""
    _, sizes, right = np.linalg.svd(matrix.T - np.eye(len(matrix)))
    if (sizes < UNIT).sum() != 1:
        raise ValueError("several laws are stationary")
    return right[-1] / right[-1].sum()


def distances(matrix: np.ndarray, law: np.ndarray, steps: int, start: int | None = None) -> np.ndarray:
    """TV to `law` after 0, 1, .., `steps` steps: from one configuration, or the largest over all of them."""
    now = np.eye(len(matrix)) if start is None else np.eye(len(matrix))[[start]]
    out = []
    for _ in range(steps + 1):
        out.append(max(total_variation(row, law) for row in now))
        now = now @ matrix
    return np.array(out)


def mixing_time(matrix: np.ndarray, tv: float, start: int | None = None) -> float:
    """The first t with TV at most `tv` to the chain's own law; inf where it never comes."""
    if spectral_gap(matrix) == 0.0:
        return np.inf
    law, now = stationary_law(matrix), np.eye(len(matrix))
    now = now if start is None else now[[start]]
    for t in range(MOST_STEPS):
        if max(total_variation(row, law) for row in now) <= tv + TIE:
            return float(t)
        now = now @ matrix
    raise RuntimeError("the chain is too slow to be stepped through")


def kl(p: np.ndarray, q: np.ndarray) -> float:
    """The sum of p log(p / q)."""
    return float(sum(a * np.log(a / b) for a, b in zip(p, q, strict=True) if a > 0))


def hitting_times(matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The expected number of steps to the target from every configuration: 0 in it, inf where it may never be reached."""
    n = len(matrix)
    reaches = target.copy()
    for _ in range(n):
        reaches = reaches | (matrix @ reaches > 0)
    lost = ~reaches  # never there, and so is what may step to them before the target
    for _ in range(n):
        lost = lost | (~target & (matrix @ lost > 0))
    out = np.where(lost, np.inf, 0.0)
    walks = np.flatnonzero(~target & ~lost)
    out[walks] = np.linalg.solve(np.eye(len(walks)) - matrix[np.ix_(walks, walks)], np.ones(len(walks)))
    return out


def hitting_tails(matrix: np.ndarray, target: np.ndarray, steps: int) -> np.ndarray:
    """P(the target is not reached within t steps), t = 0, .., `steps`, from every configuration: (steps + 1, configurations)."""
    alive = (~target).astype(float)
    out = [alive]
    for _ in range(steps):
        alive = np.where(target, 0.0, matrix @ alive)
        out.append(alive)
    return np.array(out)
