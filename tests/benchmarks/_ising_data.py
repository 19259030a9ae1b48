"""Spins drawn from a sparse random Ising model with known couplings, kept in a temporary folder."""

from __future__ import annotations

import getpass
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Array = np.ndarray
DEGREE, COUPLING, FIELD, SWEEPS = 4, 0.4, 0.1, 100


@dataclass(frozen=True)
class Spins:
    """Rows of -1 and +1, shape (rows, sites); the edges, sorted, and their couplings; the fields."""

    x: Array
    edges: Array
    couplings: Array
    fields: Array

    @property
    def matrix(self) -> Array:
        """The couplings as a symmetric matrix."""
        out = np.zeros((len(self.fields),) * 2)
        out[self.edges[:, 0], self.edges[:, 1]] = out[self.edges[:, 1], self.edges[:, 0]] = self.couplings
        return out


def ising_data(n: int, rows: int, seed: int = 0) -> Spins:
    """Spins of mean degree 4 and couplings of size 0.4, each row a chain of its own."""
    folder = Path(tempfile.gettempdir()) / f"gmlmdsl-benchmarks-{getpass.getuser()}"
    file = folder / f"ising_{n}_{rows}_{seed}_{DEGREE}_{COUPLING}_{FIELD}_{SWEEPS}.npz"
    if not file.exists():
        folder.mkdir(exist_ok=True)
        made = _draw(n, rows, np.random.default_rng(seed))
        np.savez(file, x=made.x.astype(np.int8), edges=made.edges, couplings=made.couplings, fields=made.fields)
    with np.load(file) as found:
        return Spins(found["x"].astype(np.int32), found["edges"], found["couplings"], found["fields"])


def _draw(n: int, rows: int, rng: np.random.Generator) -> Spins:
    edges = {tuple(sorted((i, (i + 1) % n))) for i in range(n)}
    while len(edges) < n * DEGREE // 2:
        i, j = rng.integers(0, n, 2).tolist()
        if i != j:
            edges.add((min(i, j), max(i, j)))
    ends = np.array(sorted(edges))
    found = Spins(np.zeros((0, n)), ends, COUPLING * rng.choice([-1.0, 1.0], len(ends)), FIELD * rng.normal(size=n))
    x, weights = rng.choice([-1.0, 1.0], (n, rows)), found.matrix
    near = [np.flatnonzero(row) for row in weights]
    for _ in range(SWEEPS):
        for i in range(n):
            field = weights[i, near[i]] @ x[near[i]] + found.fields[i]
            x[i] = np.where(rng.random(rows) < 1 / (1 + np.exp(-2 * field)), 1.0, -1.0)
    return Spins(x.T, found.edges, found.couplings, found.fields)


def every_pair(n: int) -> Array:
    """Every pair of sites, shape (pairs, 2)."""
    return np.stack(np.triu_indices(n, 1), 1)


def others(n: int, pairs: Array) -> list[Array]:
    """For each site, the other ends of its pairs."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    return [np.sort(both[both[:, 0] == i, 1]) for i in range(n)]
