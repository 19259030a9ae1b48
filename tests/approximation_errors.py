"""Errors of the approximate methods on twenty small models with known answers: `python tests/approximation_errors.py` prints the table.

The table stands in docs/explanation/approximate-answers.md; `tests/evaluate/test_approximation_errors.py` compares both.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gmlmdsl as gm

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "approximate-answers.md"
TREE = "input pairs[6, 2] : int = [[0, 1], [0, 2], [1, 3], [1, 4], [2, 5], [2, 6]]\n"
SPINS = "model m {{ var x[i in G.nodes] : spin  param h[i in G.nodes], J[(i, j) in G.edges]  factor h[i] * x[i] for i in G.nodes  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges }}"
POTTS = "model m {{ var x[i in G.nodes] : range({q})  param h[i in G.nodes, a in range({q})], J[(i, j) in G.edges]  factor h[i, x[i]] for i in G.nodes  factor J[i, j] * (x[i] == x[j]) for (i, j) in G.edges }}"
COLOURS = "model m {{ var x[i in G.nodes] : range({q})  param h[i in G.nodes, a in range({q})]  factor h[i, x[i]] for i in G.nodes  require x[i] != x[j] for (i, j) in G.edges }}"
MACHINE = "model m {{ var v[i in range(6)] : bit  latent z[j in range(4)] : bit  param W[i in range(6), j in range(4)], b[i in range(6)]  factor W[i, j] * v[i] * z[j] for i in range(6), j in range(4)  factor b[i] * v[i] for i in range(6) }}"
CAUSES = "input q[n] : real\nmodel m {{ var x[i in range(n)] : bit ~ bernoulli(0.15)  var y[j in range(3)] : bit  y[j] ~ bernoulli(1 - 0.95 * prod(1 - q[i] * x[i] for i in range(n) if (i + j) % 3 > 0)) for j in range(3) }}"


def spins(
    graph: str, coupling: float, field: float = 0.3, signs: bool = False
) -> Callable[[np.random.Generator], tuple[Any, dict[str, Any], Any]]:
    """A model of spins: normal fields, and couplings that are equal or of random sign and size."""

    def made(rng: np.random.Generator) -> tuple[Any, dict[str, Any], Any]:
        model = gm.parse(f"{TREE * ('pairs' in graph)}graph G = {graph}\n" + SPINS.format()).model()
        nodes, edges = (p.shape[0] for p in model.graph.parameters)
        J = coupling * rng.normal(size=edges) if signs else np.full(edges, coupling)
        return model, {"h": field * rng.normal(size=nodes), "J": J}, None

    return made


def potts(graph: str, q: int, coupling: float, text: str = POTTS) -> Callable[[np.random.Generator], tuple[Any, dict[str, Any], Any]]:
    """A model of cells with q values: normal fields, and one coupling, or colours that differ along edges."""

    def made(rng: np.random.Generator) -> tuple[Any, dict[str, Any], Any]:
        model = gm.parse(f"graph G = {graph}\n" + text.format(q=q)).model()
        shapes = {p.name: p.shape for p in model.graph.parameters}
        params = {"h": 0.5 * rng.normal(size=shapes["h"])} | ({"J": np.full(shapes["J"], coupling)} if "J" in shapes else {})
        return model, params, None

    return made


def machine(scale: float) -> Callable[[np.random.Generator], tuple[Any, dict[str, Any], Any]]:
    """A Boltzmann machine of six visible and four hidden bits."""

    def made(rng: np.random.Generator) -> tuple[Any, dict[str, Any], Any]:
        return gm.parse(MACHINE.format()).model(), {"W": scale * rng.normal(size=(6, 4)), "b": 0.3 * rng.normal(size=6)}, None

    return made


def causes(n: int) -> Callable[[np.random.Generator], tuple[Any, dict[str, Any], Any]]:
    """Three findings, all present, of n causes by noisy or."""

    def made(rng: np.random.Generator) -> tuple[Any, dict[str, Any], Any]:
        return gm.parse(CAUSES.format(), q=rng.uniform(0.1, 0.9, n)).model(), {}, {"y": [1, 1, 1]}

    return made


MODELS = {
    "tree of 7 spins": spins("edges(pairs, nodes = range(7))", 0.8),
    "ring of 8 spins, J = 0.3": spins("chain(8, wrap = true)", 0.3),
    "ring of 8 spins, J = 1": spins("chain(8, wrap = true)", 1.0),
    "grid of 4 x 4 spins, J = 0.2": spins("grid(4, 4)", 0.2),
    "grid of 4 x 4 spins, J = 0.44": spins("grid(4, 4)", 0.44),
    "grid of 4 x 4 spins, J = 1": spins("grid(4, 4)", 1.0),
    "glass on 4 x 4 spins, sd 0.5": spins("grid(4, 4)", 0.5, signs=True),
    "glass on 4 x 4 spins, sd 1.5": spins("grid(4, 4)", 1.5, signs=True),
    "wrapped grid of 4 x 4 spins, J = 0.3": spins("grid(4, 4, wrap = true)", 0.3),
    "10 spins, all coupled, J = 0.05": spins("complete(range(10))", 0.05),
    "10 spins, all coupled, J = 0.2": spins("complete(range(10))", 0.2),
    "glass of 10 spins, all coupled, sd 0.5": spins("complete(range(10))", 0.5, signs=True),
    "grid of 3 x 3 cells, 4 values, J = 0.8": potts("grid(3, 3)", 4, 0.8),
    "grid of 3 x 3 cells, 4 values, J = -1": potts("grid(3, 3)", 4, -1.0),
    "3 colours of a grid of 3 x 3": potts("grid(3, 3)", 3, 0.0, COLOURS),
    "4 colours of 3 x 3, wrapped": potts("grid(3, 3, wrap = true)", 4, 0.0, COLOURS),
    "Boltzmann machine of 6 and 4 bits, sd 0.5": machine(0.5),
    "Boltzmann machine of 6 and 4 bits, sd 2": machine(2.0),
    "noisy or of 8 causes, 3 findings": causes(8),
    "noisy or of 12 causes, 3 findings": causes(12),
}
HEADINGS = [
    "model",
    "marginals: messages",
    "mean field",
    "chains",
    "log Z: messages",
    "mean field",
    "annealed",
    "bridge",
    "mode missed: max-product",
    "annealing",
]


def estimates(name: str) -> list[tuple[float, float]]:
    """The errors of log Z by annealed importance sampling and by bridge sampling, with their standard errors; nan for known cells."""
    model, params, clamp = MODELS[name](np.random.default_rng(0))
    if clamp is not None:
        return [(float("nan"), float("nan"))] * 2
    log_z, quiet = float(model.log_partition(params)), {"seed": 0, "progress": False}
    found = model.annealed_log_partition(params, betas=100, chains=64, **quiet)
    bridged = model.bridge_log_partition(params, betas=16, draws=50, warmup=20, chains=16, **quiet)
    return [(float(f.log_partition) - log_z, float(f.standard_error)) for f in (found, bridged)]


def errors(name: str) -> list[float]:
    """The largest error of a marginal by three methods, the errors of log Z by two, and how far two modes are from the best, in log p."""
    model, params, clamp = MODELS[name](np.random.default_rng(0))
    exact, found = model.marginals(params, clamp), []
    log_z = float(model.log_partition(params)) if clamp is None else None
    bp, mf = gm.BeliefPropagation(damping=0.3), gm.MeanField()
    answers = [model.marginals(params, clamp, method=method) for method in (bp, mf, gm.Chains(draws=2000, seed=0))]
    for answer in answers:
        found.append(max(float(np.abs(answer[k] - exact[k]).max()) for k in exact))
    found += [float("nan") if log_z is None else answer.log_partition - log_z for answer in answers[:2]]
    best = float(model.map(params, clamp).log_potential)
    found += [max(0.0, best - float(model.map(params, clamp, method=m).log_potential)) for m in ("max-product", "anneal")]
    return found


def cells(name: str) -> list[str]:
    """A row of the table."""
    shown = [number(e) for e in errors(name)]
    return [name, *shown[:5], *map(with_error, estimates(name)), *shown[5:]]


def number(e: float) -> str:
    """An error as the table shows it."""
    return "" if np.isnan(e) else "0" if abs(e) < 5e-7 else f"{e:.1g}" if abs(e) < 0.1 else f"{e:.2f}"


def with_error(found: tuple[float, float]) -> str:
    """An error with its standard error in brackets."""
    return "" if np.isnan(found[0]) else f"{number(found[0])} ({number(found[1])})"


def table() -> list[str]:
    """The lines of the table."""
    warnings.simplefilter("ignore")
    rows = [HEADINGS, ["---"] * len(HEADINGS), *(cells(name) for name in MODELS)]
    return [f"| {' | '.join(row)} |" for row in rows]


if __name__ == "__main__":
    print("\n".join(table()))
