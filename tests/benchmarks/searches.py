"""Requirements that clamped cells, a search or a walk settle: Sudokus, colourings, planted 3-SAT; and a gate of 60 causes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import gmlmdsl as gm

from ._measure import Check, Report, figure, repeats

SUDOKU = Path(__file__).parents[1] / "programs" / "valid" / "sudoku.gmlm"
PUZZLES = {  # numbers of rows, 0 for an empty cell
    "single cells decide": "530070000600195000098000060800060003400803001700020006060000280000419005000080079",
    "trials decide": "000801000000000043500000000000070800000000100020030000600000075003400000000200600",
    "a search decides": "800000000003600000070090200050007000000045700000100030001000068008500010090000400",
}
COLOURS = """
input pairs[e, 2] : int
graph G = edges(pairs, nodes = range(200))
model m {
  var c[i in G.nodes] : range(3)
  require c[i] != c[j] for (i, j) in G.edges
}
sampler s { update c[i] for i in G.nodes }
"""
CLAUSES = """
input cell[n, 3] : int
input sign[n, 3] : int
model m {
  var x[i in range(200)] : bit
  require x[cell[k, 0]] == sign[k, 0] or x[cell[k, 1]] == sign[k, 1] or x[cell[k, 2]] == sign[k, 2] for k in range(n)
}
sampler s { update x[i] for i in range(200) }
"""
GATE = """
input q[n] : real
model alarm {
  var x[i in range(n)] : bit ~ bernoulli(0.02)
  var y : bit
  y ~ bernoulli(1 - 0.99 * prod(1 - q[i] * x[i] for i in range(n)))
}
"""
Problem = tuple[Callable[[], float], str]  # what is timed, which returns the number of broken requirements or an error


def run(quick: bool) -> Report:
    """Each answer by a fresh model: its plan and its programs count."""
    figures, checks = [], []
    for name, (answer, verb) in problems().items():
        took, wrong = [], []
        for _ in range(repeats(quick)):
            began = time.process_time()
            wrong.append(answer())
            took.append(time.process_time() - began)
        figures.append(figure("searches", f"gmlmdsl {verb}", name, took, "processor s"))
        checks.append(Check("searches", f"{name}: {'error' if verb == 'marginals' else 'broken requirements'}", max(wrong), 0.0, 1e-6))
    return Report(tuple(figures), tuple(checks))


def problems() -> dict[str, Problem]:
    """The problems by name: a function that answers, and the verb."""
    rng, found = np.random.default_rng(0), dict[str, Problem]()
    for name, puzzle in PUZZLES.items():
        found[f"a Sudoku, {sum(c != '0' for c in puzzle)} numbers: {name}"] = lambda p=puzzle: _sudoku(p), "map"
    truth = rng.integers(0, 3, 200)
    pairs = np.array(sorted({tuple(sorted(p)) for p in rng.integers(0, 200, (4000, 2)).tolist() if truth[p[0]] != truth[p[1]]}))
    pairs = pairs[rng.permutation(len(pairs))[:400]]
    found["a planted colouring, 200 nodes, 400 edges, 3 colours"] = lambda: _colours(pairs), "map"
    planted, cell = rng.integers(0, 2, 200), np.stack([rng.choice(200, 3, replace=False) for _ in range(800)])
    sign = rng.integers(0, 2, (800, 3))
    sign[:, 0] = planted[cell[:, 0]]  # the planted values satisfy each clause
    found["planted 3-SAT, 200 bits, 800 clauses"] = lambda: _clauses(cell, sign), "sample"
    found["a noisy or of 60 causes"] = _gate, "marginals"
    return found


def _sudoku(puzzle: str) -> float:
    clamp = {divmod(k, 9): int(c) - 1 for k, c in enumerate(puzzle) if c != "0"}
    best, _ = gm.load(SUDOKU).model().map({}, clamp={"s": clamp})
    s: NDArray[np.int_] = np.asarray(best)
    boxes = s.reshape(3, 3, 3, 3).swapaxes(1, 2).reshape(9, 9)
    return float(sum((np.sort(group, axis=1) != np.arange(9)).any(axis=1).sum() for group in (s, s.T, boxes)))


def _colours(pairs: NDArray[np.int_]) -> float:
    best = np.asarray(gm.parse(COLOURS, pairs=pairs).model().map({})[0])
    return float((best[pairs[:, 0]] == best[pairs[:, 1]]).sum())


def _clauses(cell: NDArray[np.int_], sign: NDArray[np.int_]) -> float:
    drawn = gm.parse(CLAUSES, cell=cell, sign=sign).model().sample({}, "s", draws=1, warmup=0, chains=1, progress=False)
    x = np.asarray(drawn["posterior"]["x"]).ravel()
    return float((~(x[cell] == sign).any(axis=1)).sum())


def _gate() -> float:
    """The largest error of p(cause | effect), beside the formula for independent causes."""
    q, prior = np.linspace(0.1, 0.9, 60), 0.02
    found = gm.parse(GATE, q=q).model().marginals({}, clamp={"y": 1})["x"][:, 1]
    silent = 1 - q * prior  # the expectation of a cause's term
    effect = 1 - 0.99 * silent.prod()
    wanted = prior * (1 - 0.99 * silent.prod() / silent * (1 - q)) / effect
    return float(np.abs(found - wanted).max())
