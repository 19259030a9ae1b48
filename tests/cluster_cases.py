"""Models with clusters of each kind, and their steps by enumeration of all configurations of bonds, from formulas written down here.

The joint distribution of x and bonds is p(x) times, for each edge, b if its bond stands and 1 - b if not. A step draws the bonds given x,
takes the cluster of a uniform cell, and redraws it among its images given all bonds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from cases import Case, case
from scipy.stats import chi2

from gmlmdsl import derive

Array = np.ndarray
ISING = case(
    "ising",
    """
graph G = grid(2, 3)
model ising {
  var   x[i in G.nodes] : spin
  param h[i in G.nodes] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i] * x[i] for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask wolff = percolation(G.edges)
sampler clusters { update x[K] where K ~ wolff }
sampler sites { update x[K] where K ~ subsets(x, size = 1) }
sampler either { mixture { 1 : update x[K] where K ~ wolff  1 : update x[i] for i in G.nodes } }
sampler hot { temper(betas = [0.4, 1]) { update x[K] where K ~ wolff } }
""",
    seed=5,
)
POTTS = case(
    "potts",
    """
graph G = grid(2, 2)
model potts {
  var   x[i in G.nodes] : range(3)
  param h[i in G.nodes, a in range(3)] ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor h[i, x[i]] for i in G.nodes
  factor J[i, j] * (x[i] == x[j]) for (i, j) in G.edges
  factor 0.6 * (x[0] == x[1] and x[1] != x[2])
  require not (x[0] == 2 and x[3] == 1)
}
mask wolff = percolation({x[i], x[j]} for (i, j) in G.edges)
sampler clusters { update x[K] where K ~ wolff }
""",
    seed=6,
)
UNITS = case(
    "units",
    """
graph G = bipartite(3, 2)
model units {
  var    v[i in range(3)] : bit
  latent z[j in range(2)] : bit
  param a[i in range(3)] ~ normal(0, 1)
  param W[(i, j) in G.edges] ~ normal(0, 1)
  factor a[i] * v[i] for i in range(3)
  factor 2 * W[i, j] * v[i] * z[j] for (i, j) in G.edges
}
sampler clusters { update K where K ~ percolation({v[i], z[j]} for (i, j) in G.edges) }
""",
    seed=7,
)
CLOCK = case(
    "clock",
    """
graph G = chain(4)
model clock {
  var   x[i in G.nodes] : range(5)
  param h[i in G.nodes] ~ normal(0, 1)
  param J ~ normal(0, 1)
  factor h[i] * (x[i] == 2) for i in G.nodes
  factor J * ((x[i] - x[j]) % 5 == 1 or (x[j] - x[i]) % 5 == 1) for (i, j) in G.edges
}
sampler clusters { update x[K] where K ~ percolation(G.edges) }
""",
    seed=8,
)
TURNS = np.array([[(a + s) % 3 for a in range(3)] for s in range(3)])
FLIP = np.array([[0, 1], [1, 0]])
MIRRORS = [np.array([np.arange(5), (r - np.arange(5)) % 5]) for r in range(5)]


def spins(params: dict[str, Array], edge: int, a: int, b: int) -> float:
    """Wolff's bond of two spins, the codes 0 and 1: 1 - exp(-2 J x y) where that is positive."""
    return max(0.0, 1 - np.exp(-2 * params["J"][edge] * (2 * a - 1) * (2 * b - 1)))


def potts(params: dict[str, Array], edge: int, a: int, b: int) -> float:
    """1 - exp(-J) between equal values; of J < 0, 1 - exp(J) between unequal ones."""
    j = params["J"][edge]
    return max(0.0, 1 - np.exp(-j)) if a == b else max(0.0, 1 - np.exp(j))


def units(params: dict[str, Array], edge: int, a: int, b: int) -> float:
    """Bits: 2 W a b is W / 2 times the product of spins, beside fields."""
    return max(0.0, 1 - np.exp(-params["W"].ravel()[edge] * (2 * a - 1) * (2 * b - 1)))


def clock(params: dict[str, Array], edge: int, a: int, b: int, mirror: int) -> float:
    """A mirror moves a to r - a; neighbours on the clock have J."""

    def near(a: int, b: int) -> bool:
        return (a - b) % 5 in (1, 4)

    j = float(params["J"])
    return max(0.0, 1 - np.exp(j * (near((mirror - a) % 5, b) - float(near(a, b)))))


Bond = Callable[..., float]
CLUSTERS: list[tuple[Case, list[Array], list[Bond]]] = [
    (ISING, [FLIP], [spins]),
    (POTTS, [TURNS], [potts]),
    (UNITS, [FLIP], [units]),
    (CLOCK, MIRRORS, [lambda p, e, a, b, r=r: clock(p, e, a, b, r) for r in range(5)]),
]


def edges_of(case: Case) -> Array:
    """The positions of the cells of each edge, in the graph's order."""
    pairs = np.asarray(case.program.graph("G").edges)
    return pairs + np.array([0, 3]) if case is UNITS else pairs


def by_bonds(case: Case, groups: list[Array], bonds: list[Bond]) -> Array:
    """The transition matrix, by all configurations of bonds."""
    states, p, params = case.oracle.states, case.oracle.probabilities(case.params), case.params
    codes, edges = np.asarray(states).astype(int), edges_of(case)
    codes = codes if codes.shape[0] == len(p) else codes.T
    number = {tuple(x): k for k, x in enumerate(codes)}
    n, out = codes.shape[1], np.zeros((len(p), len(p)))
    for group, bond in zip(groups, bonds, strict=True):
        chance = np.array([[bond(params, e, x[i], x[j]) for e, (i, j) in enumerate(edges)] for x in codes])
        for stands in itertools.product((False, True), repeat=len(edges)):
            given = np.where(stands, chance, 1 - chance).prod(axis=1)  # of the bonds, at each x
            parts = components(n, edges[list(stands)])
            for cells in {tuple(np.flatnonzero(parts == parts[s])) for s in range(n)}:
                inside = list(cells)
                for k, x in enumerate(codes):
                    if given[k] == 0 or p[k] == 0:
                        continue
                    images = np.tile(x, (len(group), 1))
                    images[:, inside] = group[:, x[inside]]
                    reached = [number[tuple(y)] for y in images]
                    weights = p[reached] * given[reached]
                    np.add.at(out[k], reached, len(inside) / n * given[k] * weights / weights.sum() / len(groups))
    out[p == 0, p == 0] = 1.0
    return out


def components(n: int, edges: Array) -> Array:
    """Of each cell, the least cell that edges connect it with."""
    label = np.arange(n)
    for _ in range(n):
        for i, j in edges:
            label[[i, j]] = min(label[i], label[j])
    return label


def transitions_p(case: Case, sampler: str, chains: int) -> float:
    """Pearson's test of one compiled step, in the working precision, from every configuration, row by row against the exact matrix."""
    exact = np.asarray(case.model.transition_matrix(case.params, sampler))
    codes = np.asarray(derive.all_states(case.model.graph))
    possible = np.flatnonzero(case.oracle.probabilities(case.params) > 0)
    start = possible[np.random.default_rng(1).integers(0, len(possible), chains)]
    kernel = derive.build_kernel(case.model.lowered, case.model.sampler(sampler)[1]).kernel
    params = {k: derive.on_device(v, derive.float_type()) for k, v in case.params.items()}
    target = derive.Target(derive.graph_arrays(case.model.graph), params, None)

    @jax.jit
    def step(codes: Any, keys: Any) -> Any:
        return kernel.step(target, keys, kernel.init(codes))[0].codes

    after = np.asarray(step(derive.on_device(codes[:, start]), jax.random.split(jax.random.key(3), chains)))
    end = np.ravel_multi_index(tuple(after), tuple(case.model.graph.sizes))
    counts = np.zeros_like(exact)
    np.add.at(counts, (start, end), 1)
    wanted = np.bincount(start, minlength=len(exact))[:, None] * exact
    if counts[exact <= 1e-15].any():
        return 0.0
    often = wanted >= 5
    rare, met = np.where(often, 0, wanted).sum(axis=1), np.where(often, 0, counts).sum(axis=1)
    statistic = ((counts - wanted) ** 2)[often] @ (1 / wanted[often]) + ((met - rare) ** 2)[rare >= 5] @ (1 / rare[rare >= 5])
    outcomes = often.sum(axis=1) + (rare >= 5)
    return float(chi2.sf(statistic, (outcomes - 1).clip(min=0).sum()))
