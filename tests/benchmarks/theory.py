"""How long the theory's answers take, the first time they are asked for: compilation counts, for that is when users wait."""

from __future__ import annotations

import numpy as np

import gmlmdsl as gm

from ._measure import Check, Figure, Report, figure, seconds

Array = np.ndarray
GLASS = """
input n : int
graph G = complete(n)
model glass {
  var x[i in G.nodes] : spin
  param h[i in G.nodes]
  param J[(i, j) in G.edges]
  factor h[i] * x[i]           for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask single = subsets(x, size = 1)
mask pairs  = subsets(x, size = 2)
mask agreeing given x { choose {x[i], x[j]} for (i, j) in G.edges weight exp(0.5 * x[i] * x[j]) }
"""
SPARSE = GLASS.replace("input n : int\ngraph G = complete(n)", "input n : int\ninput ends[e, 2] : int\ngraph G = edges(ends, nodes = n)")
MODES = """
graph C = complete(4)
index site = range(10)
model modes {
  var x[i in site] : spin
  param h
  param J
  factor h * x[i]        for i in site
  factor J * x[i] * x[j] for (i, j) in C.edges
}
"""


def run(quick: bool) -> Report:
    """Exact answers of 12 and 16 spins, estimates for 100, masks suggested for the model of the paper's Figure 3."""
    masks = ["single", "pairs", "agreeing"]
    small, sparse = 6 if quick else 12, 12 if quick else 100
    glass = gm.parse(GLASS, n=small).model()
    params = couplings(glass, 0.2)
    chain = sparse_model(sparse)
    others = couplings(chain, 0.4)
    modes = gm.parse(MODES).model()
    cold = {"h": 0.05, "J": 2.0}
    largest = gm.parse(GLASS, n=8 if quick else 16).model()
    half = couplings(largest, 0.15)
    figures: list[Figure] = []

    def timed(words: str, call) -> object:
        found: list[object] = []
        figures.append(figure("theory", "gmlmdsl gm.theory", words, [seconds(lambda: found.append(call()))], "s", "first call"))
        return found[0]

    exact = timed(f"compare_masks, {small} spins, 3 masks, exact", lambda: gm.theory.compare_masks(glass, params, masks))
    draws = 400 if quick else 4000
    timed(
        f"compare_masks, {sparse} spins in a sparse graph, 2 masks, {draws:,} draws",
        lambda: gm.theory.compare_masks(chain, others, masks[:2], draws=draws),
    )
    timed("suggest_masks, 10 spins with a clique of 4", lambda: gm.theory.suggest_masks(modes, cold, measure=not quick))
    states = largest.graph.n_random
    timed(f"poincare_constant, {states} spins, single cells", lambda: gm.theory.poincare_constant(largest, half, "single"))
    timed(f"asymptotic_covariance, {states} spins, single cells", lambda: gm.theory.asymptotic_covariance(largest, half, "single"))
    sampled = gm.theory.compare_masks(glass, params, ["single"], draws=draws, measure=False).reports[0].variance_one
    expected = next(r for r in exact.reports if r.name == "single").variance_one  # pyright: ignore[reportAttributeAccessIssue]
    what = f"variance with one mask per row of {small} spins: {draws:,} draws beside exact"
    return Report(tuple(figures), (Check("theory", what, float(sampled), float(expected), 4 * float(sampled.error)),))


def couplings(model: gm.Model, size: float) -> dict[str, Array]:
    """Fields and couplings, normal with standard deviation `size`."""
    rng = np.random.default_rng(5)
    return {p.name: rng.normal(0, size, p.shape) for p in model.graph.parameters}


def sparse_model(n: int) -> gm.Model:
    """A ring with as many random chords as half its cells."""
    rng = np.random.default_rng(6)
    ring = {(i, i + 1) for i in range(n - 1)} | {(0, n - 1)}
    while len(ring) < n + n // 2:
        i, j = sorted(rng.choice(n, 2, replace=False).tolist())
        ring.add((i, j))
    return gm.parse(SPARSE, n=n, ends=np.array(sorted(ring))).model()
