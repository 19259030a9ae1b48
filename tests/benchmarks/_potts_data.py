"""Alignments for Potts models: of a protein family, from a file; and drawn from a sparse model, kept in a temporary folder."""

from __future__ import annotations

import getpass
import tempfile
from pathlib import Path

import numpy as np

Array = np.ndarray
LETTERS = "-ACDEFGHIKLMNPQRSTVWY"
EDGES_PER_SITE, COUPLING, FIELD, SWEEPS = 1.5, 0.7, 0.5, 60


def drawn(n: int, rows: int, seed: int = 0) -> Array:
    """Rows of codes of a Potts model with 21 values and normal couplings on a ring with chords, each row a chain of its own."""
    folder = Path(tempfile.gettempdir()) / f"gmlmdsl-benchmarks-{getpass.getuser()}"
    file = folder / f"potts_{n}_{rows}_{seed}_{EDGES_PER_SITE}_{COUPLING}_{FIELD}_{SWEEPS}.npz"
    if not file.exists():
        folder.mkdir(exist_ok=True)
        np.savez(file, x=_draw(n, rows, np.random.default_rng(seed)).astype(np.int8))
    with np.load(file) as found:
        return found["x"].astype(np.int32)


def _draw(n: int, rows: int, rng: np.random.Generator) -> Array:
    q = len(LETTERS)
    edges = {tuple(sorted((i, (i + 1) % n))) for i in range(n)}
    while len(edges) < int(EDGES_PER_SITE * n):
        i, j = rng.integers(0, n, 2).tolist()
        if i != j:
            edges.add((min(i, j), max(i, j)))
    fields = FIELD * rng.normal(size=(n, q))
    near: list[list[tuple[int, Array]]] = [[] for _ in range(n)]
    for i, j in sorted(edges):
        table = COUPLING * rng.normal(size=(q, q))
        near[i].append((j, table.T))  # [value there, value here]
        near[j].append((i, table))
    x = rng.integers(0, q, (rows, n))
    for _ in range(SWEEPS):
        for i in range(n):
            score = fields[i] + sum(table[x[:, j]] for j, table in near[i])
            p = np.exp(score - score.max(axis=1, keepdims=True)).cumsum(axis=1)
            x[:, i] = (p < rng.random((rows, 1)) * p[:, -1:]).sum(axis=1)
    return x


def write_fasta(path: Path, x: Array) -> None:
    """Rows of codes as an aligned FASTA file."""
    letters = np.array(list(LETTERS))[x]
    lines = (f">s{k}/1-{x.shape[1]}\n{''.join(row)}\n" for k, row in enumerate(letters))
    path.write_text("".join(lines), encoding="ascii")


def codes(letters: Array) -> Array:
    """The place of each letter in the alphabet."""
    table = np.zeros(128, np.int32)
    table[[ord(c) for c in LETTERS]] = np.arange(len(LETTERS))
    return table[np.ascontiguousarray(letters).view(np.uint32).reshape(letters.shape)]
