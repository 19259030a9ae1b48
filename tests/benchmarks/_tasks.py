"""The models that are sampled: as programs, and as plain arrays for the peers and the checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._measure import ROOT

Array = np.ndarray
CHAINS = 32

ISING = (ROOT / "examples" / "ising.gmlm").read_text(encoding="utf-8")
SPIN_GLASS = """
input n : int
index site = range(n)
graph G = complete(site)
model glass {
  var   x[i in site] : spin
  param h[i in site]
  param J[(i, j) in G.edges]
  factor h[i] * x[i]           for i in site
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
sampler sweep { update x[i] for i in site }
"""
POTTS = """
input L : int
input q : int
graph G = grid(L, L, wrap = true)
model potts {
  var   x[i in G.nodes] : range(q)
  param beta
  factor beta * (x[i] == x[j]) for (i, j) in G.edges
}
sampler sweep { update x[i] for i in G.nodes }
"""


@dataclass(frozen=True)
class Task:
    """A pairwise model: log p(x) = sum over edges of weight * pair(x_i, x_j) + sum over sites of field * x_i.

    Attributes:
        name, words: how results name it.
        program, inputs, params: it, in the language; its sampler is `sweep`.
        n_values: of a cell; pair is the product for spins (2), equality otherwise.
        unit: energies are divided by it.
        colours: the sites that are redrawn at once, in the order in which the program's sweep redraws them.
    """

    name: str
    words: str
    program: str
    inputs: dict[str, Any]
    params: dict[str, Array]
    n_values: int
    edges: Array
    weights: Array
    fields: Array
    unit: float
    colours: tuple[Array, ...]

    @property
    def n(self) -> int:
        """The number of sites."""
        return len(self.fields)

    @property
    def spin(self) -> bool:
        """Whether the values are -1 and +1."""
        return self.n_values == 2

    def energy(self, codes: Array) -> Array:
        """The energy per site of configurations of shape (rows, sites), straight from the definition."""
        x = 2.0 * codes - 1 if self.spin else codes
        a, b = x[:, self.edges[:, 0]], x[:, self.edges[:, 1]]
        pairs = a * b if self.spin else (a == b).astype(float)
        fields = x @ self.fields if self.spin else 0.0
        return -(pairs @ self.weights + fields) / (self.n * self.unit)

    def starts(self, seed: int) -> Array:
        """Independent uniform codes, shape (chains, sites)."""
        return np.random.default_rng(seed).integers(0, self.n_values, (CHAINS, self.n), dtype=np.int32)


def torus(side: int) -> tuple[Array, tuple[Array, ...]]:
    """The edges of a wrapped grid, and its two colours; `side` must be even."""
    site = np.arange(side * side).reshape(side, side)
    right, down = np.roll(site, -1, 1), np.roll(site, -1, 0)
    edges = np.concatenate([np.stack([site.ravel(), other.ravel()], 1) for other in (right, down)])
    parity = np.add.outer(np.arange(side), np.arange(side)).ravel() % 2
    return np.sort(edges, axis=1), tuple(np.flatnonzero(parity == c) for c in (0, 1))


def ising(quick: bool, beta: float = 0.44) -> Task:
    """T1: a ferromagnet on a wrapped grid, near its critical point."""
    side = 16 if quick else 64
    edges, colours = torus(side)
    n, weights = side * side, np.full(len(edges), beta)
    params = {"h": np.zeros(n), "J": weights}
    words = f"Ising, {side} x {side} wrapped, beta {beta:g}"
    return Task("t1", words, ISING, {"L": side}, params, 2, edges, weights, np.zeros(n), beta, colours)


def glass(quick: bool) -> Task:
    """T2: a spin glass in which every pair interacts."""
    n = 20 if quick else 100
    rng = np.random.default_rng(0)
    edges = np.stack(np.triu_indices(n, 1), 1)
    weights, fields = 0.5 / np.sqrt(n) * rng.normal(size=len(edges)), 0.1 * rng.normal(size=n)
    params = {"h": fields, "J": weights}
    colours = tuple(np.array([i]) for i in range(n))
    return Task("t2", f"Sherrington-Kirkpatrick, {n} spins", SPIN_GLASS, {"n": n}, params, 2, edges, weights, fields, 1.0, colours)


def potts(quick: bool, beta: float = 1.0) -> Task:
    """T3: five values on a wrapped grid."""
    side, q = 8 if quick else 32, 5
    edges, colours = torus(side)
    params = {"beta": np.asarray(beta)}
    words = f"Potts with {q} values, {side} x {side} wrapped, beta {beta:g}"
    inputs = {"L": side, "q": q}
    return Task("t3", words, POTTS, inputs, params, q, edges, np.full(len(edges), beta), np.zeros(side * side), beta, colours)


def disordered(quick: bool) -> Task:
    """Every coupling drawn from a normal distribution, on a wrapped grid."""
    side = 16 if quick else 64
    edges, colours = torus(side)
    edges = edges[np.lexsort((edges[:, 1], edges[:, 0]))]  # as those of the program's graph
    n, weights = side * side, np.random.default_rng(1).normal(size=len(edges))
    params = {"h": np.zeros(n), "J": weights}
    words = f"disordered Ising, {side} x {side} wrapped, normal couplings"
    return Task("disordered", words, ISING, {"L": side}, params, 2, edges, weights, np.zeros(n), 1.0, colours)


TASKS: dict[str, Callable[[bool], Task]] = {"t1": ising, "t2": glass, "t3": potts, "disordered": disordered}


def onsager_energy(beta: float) -> float:
    """The exact energy per site of the Ising model on the infinite square lattice."""
    from scipy.special import ellipk

    k = 2 * np.sinh(2 * beta) / np.cosh(2 * beta) ** 2
    bracket = 1 + 2 / np.pi * (2 * np.tanh(2 * beta) ** 2 - 1) * ellipk(k**2)
    return float(-bracket / np.tanh(2 * beta))
