# The best mask of a small model, fixed or adaptive, by convex optimisation; every optimum has a certified bound.
#
# A mask is q(x, K) = p(x) p(K | x). Let u be the score, or an eigenfunction, and m_K(x_-K) its mean under q given x_-K and K. The Hessian
# H = E[u u'] - E[m m'] of the loss with one mask a row, and the Dirichlet form of a function of x, are sums over K and x_-K of
# sum(q u u') - sum(q u) sum(q u)' / sum(q), which are concave in q. So the trace of Gamma = H^-1 is convex, and the spectral gap
# concave, over all masks of one mean size. The derivative of H is (u - m)(u - m)'. At any q it bounds the optimum (Frank and Wolfe 1956).
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.optimize

LIMIT = 30.0  # of log p(K | x), up to a constant
SHARP = 400.0  # the soft minimum over eigenvalues is within log(n) / SHARP of the minimum


@dataclass(frozen=True)
class Problem:
    """A model of few configurations.

    Attributes:
        p: the probability of each configuration.
        scores: gradients of log p, (configurations, parameters); their mean is 0.
        groups: for each block, a label of x_-K for each configuration, (blocks, configurations).
        sizes: the number of cells of each block.
    """

    p: np.ndarray
    scores: np.ndarray
    groups: np.ndarray
    sizes: np.ndarray

    def away(self, q: np.ndarray, f: np.ndarray) -> np.ndarray:
        """f less its mean given x_-K and K: (blocks, configurations, columns of f); q is (configurations, blocks)."""
        out = np.empty((len(self.groups), *f.shape))
        for k, group in enumerate(self.groups):
            mass = np.bincount(group, q[:, k])
            total = np.stack([np.bincount(group, q[:, k] * column) for column in f.T], axis=1)
            out[k] = f - (total / np.maximum(mass, 1e-300)[:, None])[group]
        return out


# A number to be minimised at q, a constant, and functions y of x, (configurations, columns): the derivative in q is -|y - m|^2, and the
# number is at least the constant less the sum of variances of y under any other q.
Value = tuple[float, float, np.ndarray]


def trace(problem: Problem, q: np.ndarray) -> Value:
    """The trace of Gamma. Since 1/h >= 2/g - h/g^2, that of any other H is at least 2 trace(Gamma) - trace(Gamma H Gamma)."""
    away = problem.away(q, problem.scores)
    hessian = np.einsum("xk,kxi,kxj->ij", q, away, away)
    inverse = np.linalg.pinv(hessian, hermitian=True, rcond=1e-13)
    return float(np.trace(inverse)), 2 * float(np.trace(inverse)), problem.scores @ inverse


def less_gap(problem: Problem, q: np.ndarray) -> Value:
    """The spectral gap of the block dynamics, negative, as a soft minimum over the eigenvalues.

    Any other gap is at most the mean of the forms of these eigenfunctions, of variance 1 each, for any weights.
    """
    values, functions = spectrum(problem, q)
    weights = np.exp(-SHARP * (values - values[0]))
    soft = np.log(weights.sum()) / SHARP - values[0]
    return float(soft), 0.0, functions * np.sqrt(weights / weights.sum())


def spectrum(problem: Problem, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of 1 - P but its 0, ascending, and their functions, which have mean 0 and variance 1."""
    n = len(problem.p)
    away = problem.away(q, np.eye(n))
    form = np.einsum("xk,kxi,kxj->ij", q, away, away)
    root = 1 / np.sqrt(problem.p)
    values, vectors = scipy.linalg.eigh(root[:, None] * form * root)
    return values[1:], vectors[:, 1:] * root[:, None]


def masks(problem: Problem, w: np.ndarray, mean: float, fixed: bool) -> tuple[np.ndarray, np.ndarray, float]:
    """p(K | x) proportional to exp(w + t |K|), with t such that the mean size is as asked; fixed: of one row for all x."""
    rows = np.broadcast_to(w, (len(problem.p), len(problem.sizes))) if fixed else w

    def of(t: float) -> np.ndarray:
        a = rows + t * problem.sizes
        a = np.exp(a - a.max(axis=1, keepdims=True))
        return a / a.sum(axis=1, keepdims=True)

    if problem.sizes.min() == problem.sizes.max():
        return of(0.0), rows, 0.0
    t = scipy.optimize.brentq(lambda t: problem.p @ (of(t) @ problem.sizes) - mean, -4 * LIMIT, 4 * LIMIT, xtol=1e-13)
    return of(t), rows, t


def slope(problem: Problem, chances: np.ndarray, derivative: np.ndarray, fixed: bool) -> np.ndarray:
    """The derivative in w: that in q by the chain rule, along which the mean size stays."""
    centred = derivative - (chances * derivative).sum(axis=1, keepdims=True)
    sizes = problem.sizes - (chances * problem.sizes).sum(axis=1, keepdims=True)
    spread = problem.p @ (chances * sizes**2).sum(axis=1)
    along = problem.p @ (chances * centred * sizes).sum(axis=1) / spread if spread > 1e-12 else 0.0
    out = problem.p[:, None] * chances * (centred - along * sizes)
    return out.sum(axis=0) if fixed else out


def largest(problem: Problem, y: np.ndarray, q: np.ndarray, mean: float, fixed: bool) -> float:
    """At least the maximum, over all masks of the mean size, of the sum over K and x_-K of the variance of y, times the mass there.

    Each variance is at most the mean of |y - m|^2, for any m(x_-K, K), which is linear in q: a linear programme with one multiplier t for
    the mean size. Of fixed masks the best m is the conditional mean under p. Of others it is sought, from that under q on.
    """
    n_groups = [int(g.max()) + 1 for g in problem.groups]
    shape = (sum(n_groups), y.shape[1])
    place = problem.groups + np.concatenate([[0], np.cumsum(n_groups)[:-1]])[:, None]
    mass = np.stack([np.bincount(place.ravel(), (q.T * column).ravel(), shape[0]) for column in (np.ones(len(y)), *y.T)], axis=1)
    start = mass[:, 1:] / np.maximum(mass[:, :1], 1e-300)
    sizes, weights = problem.sizes - mean, np.ones(1) if fixed else problem.p

    def rows(m: np.ndarray, t: float) -> tuple[np.ndarray, np.ndarray]:
        away = y[:, None] - m[place.T]  # configurations, blocks, columns
        a = (away**2).sum(axis=2) - t * sizes
        return (problem.p @ a)[None] if fixed else a, away

    def smooth(flat: np.ndarray, sharp: float) -> tuple[float, np.ndarray]:
        t, m = flat[0], flat[1:].reshape(shape)
        a, away = rows(m, t)
        top = a.max(axis=1, keepdims=True)
        chance = np.exp(sharp * (a - top))
        total = chance.sum(axis=1, keepdims=True)
        value = float(weights @ (top + np.log(total) / sharp)[:, 0])
        q_now = weights[:, None] * chance / total
        if fixed:
            return value, np.concatenate([[-float(q_now.sum(axis=0) @ sizes)], np.zeros(m.size)])
        slope = np.stack([np.bincount(place.ravel(), (-2 * q_now.T * away[:, :, c].T).ravel(), shape[0]) for c in range(shape[1])], axis=1)
        return value, np.concatenate([[-float(q_now.sum(axis=0) @ sizes)], slope.ravel()])

    def hard(flat: np.ndarray) -> float:
        return float(weights @ rows(flat[1:].reshape(shape), flat[0])[0].max(axis=1))

    scale = max(hard(np.concatenate([[0.0], start.ravel()])), 1e-300)
    at, found = np.concatenate([[0.0], start.ravel()]), np.inf
    for sharp in (30.0, 300.0, 3e3, 3e4, 3e5):
        at = scipy.optimize.minimize(smooth, at, (sharp / scale,), jac=True, method="L-BFGS-B", options={"maxiter": 3000, "maxfun": 6000}).x
        found = min(found, hard(at))
    return found


@dataclass(frozen=True)
class Best:
    """An optimum.

    Attributes:
        value: the least number that was found.
        bound: no mask of the family has less.
        chances: p(K | x), (configurations, blocks).
    """

    value: float
    bound: float
    chances: np.ndarray


def best(problem: Problem, of: Callable[[Problem, np.ndarray], Value], mean: float, fixed: bool = False, steps: int = 4000) -> Best:
    """The best mask of a mean size, among those that see x, or among fixed ones."""
    shape = (len(problem.sizes),) if fixed else (len(problem.p), len(problem.sizes))

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        chances, _, _ = masks(problem, flat.reshape(shape), mean, fixed)
        q = problem.p[:, None] * chances
        value, _, y = of(problem, q)
        return value, slope(problem, chances, -(problem.away(q, y) ** 2).sum(axis=2).T, fixed).ravel()

    options = {"maxiter": steps, "maxfun": 4 * steps, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 30}
    bounds = [(-LIMIT, LIMIT)] * int(np.prod(shape))
    found = scipy.optimize.minimize(objective, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    chances, _, _ = masks(problem, found.x.reshape(shape), mean, fixed)
    q = problem.p[:, None] * chances
    value, constant, y = of(problem, q)
    return Best(value, constant - largest(problem, y, q, mean, fixed), chances)


def problem_of(p: np.ndarray, scores: np.ndarray, states: np.ndarray, blocks: Sequence[Sequence[int]]) -> Problem:
    """From configurations (configurations, cells) and blocks of cells."""
    groups = []
    for block in blocks:
        rest = np.delete(states, list(block), axis=1)
        groups.append(np.unique(rest, axis=0, return_inverse=True)[1].ravel())
    return Problem(p, scores, np.array(groups), np.array([len(b) for b in blocks]))
