"""What a mask does to a law, by lists: for every block K and every x_-K, the configurations that agree there.

All expectations of the theory are sums over these lists. Latents are summed out first; everything is on the support of p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gmlmdsl.program import ir

from ._conditionals import log_sum

if TYPE_CHECKING:
    from ._oracle import Oracle, Params

SAME = 1e-12  # a gap or an eigenvalue below this is zero


@dataclass(frozen=True)
class Seen:
    """What (x_-K, K) leaves open.

    Attributes:
        block: the axes of K among the `var` positions.
        members: the numbers (on the support) of the configurations with this x_-K that may give K.
        weights: their p(K | x).
    """

    block: tuple[int, ...]
    members: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Visible:
    """The configurations of the `var` cells with p > 0: their codes, their numbers among all of them, and p."""

    codes: np.ndarray
    numbers: np.ndarray
    p: np.ndarray


def visible_positions(oracle: Oracle) -> list[int]:
    """The positions of the cells that are no latent's, ascending."""
    cells = [oracle.positions(n).ravel() for n, v in oracle.bound.variables.items() if v.role == "var"]
    return sorted(int(k) for k in np.concatenate(cells))


def visible_log_weights(oracle: Oracle, params: Params) -> np.ndarray:
    """The unnormalised log p of every configuration of the `var` cells, latents summed out."""
    table = oracle.log_table(params)
    latent = tuple(k for k in range(table.ndim) if k not in visible_positions(oracle))
    return log_sum(table, latent).ravel() if latent else table.ravel()


def visible_states(oracle: Oracle) -> np.ndarray:
    """Every configuration of the `var` cells, as rows of codes of all cells in which latents are 0."""
    latent = [k for k in range(oracle.n_cells) if k not in visible_positions(oracle)]
    return oracle.states[(oracle.states[:, latent] == 0).all(axis=1)]


def visible(oracle: Oracle, params: Params) -> Visible:
    """The support of p on the `var` cells."""
    weights = visible_log_weights(oracle, params)
    numbers = np.flatnonzero(weights > -np.inf)
    p = np.exp(weights[numbers] - log_sum(weights[numbers]))
    return Visible(visible_states(oracle)[numbers][:, visible_positions(oracle)], numbers, p)


def seen(oracle: Oracle, params: Params, mask: str | ir.Mask) -> list[Seen]:
    """Every (x_-K, K) of positive probability, with the configurations that give it."""
    here, cells = visible(oracle, params), visible_positions(oracle)
    found = []
    for k in sorted(oracle.mask_table(params, mask), key=sorted):
        probability = _probability_of(oracle, params, mask, k)[here.numbers]
        axes = tuple(cells.index(cell) for cell in sorted(k))
        rest = [a for a in range(len(cells)) if a not in axes]
        lists: dict[tuple[int, ...], list[int]] = {}
        for x in np.flatnonzero(probability > 0):
            lists.setdefault(tuple(here.codes[x, rest].tolist()), []).append(int(x))
        found += [Seen(axes, np.array(m), probability[m]) for m in lists.values()]
    return found


def _probability_of(oracle: Oracle, params: Params, mask: str | ir.Mask, k: frozenset[int]) -> np.ndarray:
    """p(K | x) at every configuration of the `var` cells: no mask of these tests reads a latent."""
    table = oracle.mask_table(params, mask)[k].reshape(oracle.domain_sizes)
    latent = [a for a in range(table.ndim) if a not in visible_positions(oracle)]
    for axis in latent:
        assert (np.diff(table, axis=axis) == 0).all()
    return table[tuple(0 if a in latent else slice(None) for a in range(table.ndim))].ravel()


def conditional(p: np.ndarray, s: Seen) -> tuple[float, np.ndarray]:
    """p(x_-K, K), and p(x_K | x_-K, K) of the members, which is proportional to p(x) p(K | x)."""
    joint = p[s.members] * s.weights
    return float(joint.sum()), joint / joint.sum()


# Functions of x


def dirichlet_form(oracle: Oracle, params: Params, mask: str | ir.Mask, f: np.ndarray) -> float:
    """E Var(f | x_-K, K), f over the support."""
    p, total = visible(oracle, params).p, 0.0
    for s in seen(oracle, params, mask):
        mass, q = conditional(p, s)
        mean = q @ f[s.members]
        total += mass * float(q @ (f[s.members] - mean) ** 2)
    return total


def poincare_constant(oracle: Oracle, params: Params, mask: str | ir.Mask) -> float:
    """The supremum of Var(f) / E(f, f) over the f that are not constant; infinite where some E(f, f) is 0.

    With f = g / sqrt(p), Var(f) is |g|^2 on the complement of sqrt(p): there the least eigenvalue of the form is 1 / C.
    """
    p = visible(oracle, params).p
    if len(p) == 1:
        return 0.0
    form = np.zeros((len(p), len(p)))
    for s in seen(oracle, params, mask):
        mass, q = conditional(p, s)
        form[np.ix_(s.members, s.members)] += mass * (np.diag(q) - np.outer(q, q))
    root = np.sqrt(p)
    scaled = form / np.outer(root, root)
    complement = np.linalg.svd(root[None])[2][1:].T
    least = np.linalg.eigvalsh(complement.T @ scaled @ complement).min()
    return np.inf if least < SAME else 1 / float(least)


def product_gap(oracle: Oracle, params: Params, mask: str | ir.Mask) -> float:
    """E KL(p(x_K | x_-K, K), product of its single-cell marginals)."""
    here, total = visible(oracle, params), 0.0
    for s in seen(oracle, params, mask):
        mass, q = conditional(here.p, s)
        values = here.codes[s.members][:, s.block]
        for x, q_x in enumerate(q):
            alone = [q[values[:, cell] == values[x, cell]].sum() for cell in range(len(s.block))]
            total += mass * q_x * float(np.log(q_x) - np.sum(np.log(alone)))
    return total


def block_dynamics(oracle: Oracle, params: Params, mask: str | ir.Mask) -> np.ndarray:
    """P(x, y) = sum_K p(K | x) 1[x_-K = y_-K] p(y_K | x_-K, K) on the support."""
    p = visible(oracle, params).p
    matrix = np.zeros((len(p), len(p)))
    for s in seen(oracle, params, mask):
        _, q = conditional(p, s)
        for x, weight in zip(s.members, s.weights, strict=True):
            matrix[x, s.members] += weight * q
    return matrix


def plain_dynamics(oracle: Oracle, params: Params, mask: str | ir.Mask) -> np.ndarray:
    """The same with the wrong conditional: x_K from p(x_K | x_-K) whatever K says of it."""
    here = visible(oracle, params)
    matrix = np.zeros((len(here.p), len(here.p)))
    for s in seen(oracle, params, mask):
        rest = [a for a in range(here.codes.shape[1]) if a not in s.block]
        for x, weight in zip(s.members, s.weights, strict=True):
            alike = (here.codes[:, rest] == here.codes[x, rest]).all(axis=1)
            matrix[x] += weight * np.where(alike, here.p, 0) / here.p[alike].sum()
    return matrix


# Entropy


def channel(oracle: Oracle, params: Params, mask: str | ir.Mask) -> np.ndarray:
    """B[(x_-K, K), x] = p(K | x): what the channel x -> (x_-K, K) makes of a law on the support."""
    lists, n = seen(oracle, params, mask), len(visible(oracle, params).p)
    matrix = np.zeros((len(lists), n))
    for row, s in enumerate(lists):
        matrix[row, s.members] = s.weights
    return matrix


def divergence(r: np.ndarray, q: np.ndarray) -> float:
    """KL(r, q) as the sum of q ((1 + d) log(1 + d) - d), d = r / q - 1: no cancellation near r = q."""
    d = (r - q) / q
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.sum(q * np.where(d > -1, (1 + d) * np.log1p(d) - d, 1.0)))


def spread_out(b: np.ndarray, r: np.ndarray, q: np.ndarray) -> float:
    """E_{x ~ r} E_{K | x} KL(r(. | x_-K, K), q(. | x_-K, K)), list by list."""
    total = 0.0
    for row in b:
        inside = np.flatnonzero(row)
        r_here, q_here = (row * r)[inside], (row * q)[inside]
        if r_here.sum() > 0:
            total += r_here.sum() * divergence(r_here / r_here.sum(), q_here / q_here.sum())
    return total


def tensorization_quotient(oracle: Oracle, params: Params, mask: str | ir.Mask, r: np.ndarray) -> float:
    """KL(r, q) / E_{x ~ r} E_{K | x} KL(r(. | x_-K, K), q(. | x_-K, K)) of one law on the support: C_AT is the supremum."""
    q, b = visible(oracle, params).p, channel(oracle, params, mask)
    return divergence(r, q) / spread_out(b, r, q)


def entropy_tensorization(
    oracle: Oracle, params: Params, mask: str | ir.Mask, maximise: Callable, starts: int = 60, seed: int = 0
) -> float:
    """The best lower bound of C_AT that a search from many starts finds.

    It minimises 1 - KL(Br, Bq) / KL(r, q) over the logits of r, and evaluates the definition where it ends.

    Args:
        maximise: of (value and gradient of a function to minimise, start) the point it ends at: the caller's optimiser.
    """
    here, b = visible(oracle, params), channel(oracle, params, mask)
    q, best = here.p, poincare_constant(oracle, params, mask)  # the limit r -> q along the slowest function
    if not np.isfinite(best) or len(q) == 1:
        return best

    def share(z: np.ndarray) -> tuple[float, np.ndarray]:
        r = np.maximum(_softmax(z), 1e-300)
        below = divergence(r, q)
        if below < 1e-9:
            return 1 / best, np.zeros(len(z))
        ratio = divergence(b @ r, b @ q) / below
        slope = b.T @ np.log(b @ r / (b @ q)) - ratio * np.log(r / q)
        return 1 - ratio, -r * (slope - r @ slope) / below

    ends = [_softmax(maximise(share, np.log(q) + z)) for z in _starts(here, starts, np.random.default_rng(seed))]
    for r in [*ends, *np.eye(len(q))]:
        if divergence(r, q) > 1e-9:
            best = max(best, divergence(r, q) / spread_out(b, r, q))
    return best


def _softmax(z: np.ndarray) -> np.ndarray:
    r = np.exp(z - z.max())
    return r / r.sum()


def _starts(here: Visible, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Log ratios of r and q: noise of several sizes, tilts that are sums over cells, and laws that favour the values of some cells."""
    n, cells = here.codes.shape
    noise = [scale * rng.normal(size=n) for scale in rng.choice([0.3, 1.0, 3.0, 8.0], count // 3)]
    tilts = [(here.codes - here.codes.mean(axis=0)) @ rng.normal(0, 4, cells) for _ in range(count // 3)]
    faces = []
    for x in rng.integers(n, size=count // 3):
        fixed = rng.permutation(cells)[: rng.integers(1, cells + 1)]
        faces.append(5.0 * (here.codes[:, fixed] == here.codes[x, fixed]).all(axis=1))
    return [*noise, *tilts, *faces]
