"""Which couplings of an Ising model are there, by their posterior under a spike and a slab: effective draws per processor second, beside bgms.

Both draw from the posterior of the pseudolikelihood under masks of one cell, not calibrated; an inclusion is as likely as not before.
The slab of bgms is Cauchy with the scale 2.5; ours is normal with the same quartiles. Effective draws are those of the couplings,
the median over pairs, by the same code for both. Imports are left out of both; ours is measured with its compilation and without.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np
from numpyro.diagnostics import effective_sample_size

import gmlmdsl as gm

from ._measure import Check, Figure, Report, figure, missing, ratio, repeats, run_process

VARIABLE = "GMLM_BGMS"  # names the folder of an R library that has bgms
PEER = Path(__file__).with_name("_bgms_peer.R")
THEIRS = "bgms"
PROGRAM = """
input n : int
graph G = complete(n)
model edges {
  var   x[i in G.nodes] : bit
  param h[i in G.nodes] ~ normal(0, 2)
  param J[(i, j) in G.edges] ~ spike_slab(sd = 3.7065, probability = 0.5)
  factor h[i] * x[i]           for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""
MOST_APART = 0.15  # of two inclusion probabilities: the slabs differ, and both have Monte Carlo errors
Array = np.ndarray


def rows(count: int, n: int) -> Array:
    """Bits of a sparse Ising model, couplings 1 along a ring, after 200 sweeps of single cells."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2, (count, n))
    for _ in range(200):
        for i in range(n):
            slope = 1.0 * (x[:, (i + 1) % n] + x[:, i - 1]) - 1.0
            x[:, i] = rng.random(count) < 1 / (1 + np.exp(-slope))
    return x


def run(quick: bool) -> Report:
    """Both in turn; a first call of ours compiles, the others do not."""
    n, count, draws, iterations = (5, 60, 50, 200) if quick else (10, 500, 1000, 10_000)
    x = rows(count, n)
    words = f"{n} bits, {count} rows"
    model = gm.parse(PROGRAM, n=n).model()
    found: dict[str, list[tuple[float, Array]]] = {"gmlmdsl, with compilation": [], "gmlmdsl": [], THEIRS: []}
    library = os.environ.get(VARIABLE)
    for seed in range(1 + repeats(quick)):
        began = time.process_time()
        draws_of = model.posterior(x, mask="one", draws=draws, chains=4, seed=seed)
        took = time.process_time() - began
        couplings = np.asarray(draws_of.posterior["J"])
        found["gmlmdsl" if seed else "gmlmdsl, with compilation"].append((took, couplings))
        if seed and library:
            found[THEIRS].append(_theirs(x, iterations, library))
    figures: list[Figure] = []
    rates: dict[str, list[float]] = {}
    for who, runs in found.items():
        if runs:
            rates[who] = [_effective(J) / took for took, J in runs]
            figures.append(
                figure("inclusion", who, f"{words}, seconds of {_count(runs[0][1]):,} draws", [t for t, _ in runs], "processor s")
            )
            figures.append(figure("inclusion", who, f"{words}, effective draws of a coupling", rates[who], "per processor s"))
    if not library:
        figures.append(missing("inclusion", THEIRS, words, "per processor s", f"no R library with bgms: {VARIABLE} is not set"))
        return Report(tuple(figures))
    words = f"{words}, processor time of an effective draw of a coupling"
    figures.append(ratio("inclusion", "gmlmdsl / bgms", words, rates[THEIRS], rates["gmlmdsl"], None))  # of rates: theirs above ours
    ours, theirs = (_probabilities(found[who]) for who in ("gmlmdsl", THEIRS))
    apart = float(np.abs(ours - theirs).max())
    return Report(
        tuple(figures), (Check("inclusion", f"the largest difference of {len(ours)} inclusion probabilities", apart, 0, MOST_APART),)
    )


def _theirs(x: Array, iterations: int, library: str) -> tuple[float, Array]:
    """Processor seconds of bgms, and couplings of shape (1, iterations, pairs)."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "rows.csv", Path(folder) / "couplings.csv"
        np.savetxt(source, x, fmt="%d", delimiter=",")
        environment = {**os.environ, "R_LIBS": library}
        took = run_process(["Rscript", PEER, source, out, iterations], environment)
        return float(took.printed.split()[-1]), np.loadtxt(out, delimiter=",", ndmin=2)[None]


def _count(couplings: Array) -> int:
    return couplings.shape[0] * couplings.shape[1]


def _effective(couplings: Array) -> float:
    """The median over pairs of the effective number of draws; a coupling that never changes has none."""
    found = np.nan_to_num(np.asarray(effective_sample_size(couplings)))
    return float(np.median(found))


def _probabilities(runs: list[tuple[float, Array]]) -> Array:
    """The share of draws in which a coupling is not 0, over all runs."""
    return np.mean([(J != 0).mean(axis=(0, 1)) for _, J in runs], axis=0)
