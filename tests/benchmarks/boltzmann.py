"""Boltzmann learning of alignments beside adabmDCA's update: processor seconds to a Pearson correlation of 0.95 of connected correlations.

Neither side has an option set by hand: `method="pcd"`, and the defaults of adabmDCA 2.0. A second peer has the learning rate and the
number of chains of its predecessor, and fewer sweeps. The correlations that both sides end with are their own; those of new chains at
the parameters that they return are measured by the same code for both.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from real_data import FOLDER, lacking

import gmlmdsl as gm

from ._adabm_peer import TARGET, Boltzmann, Rates, fitted, in_equilibrium
from ._measure import Check, Figure, Report, figure, missing, ratio
from .potts import FILE, family

Array = np.ndarray
OURS = "gmlmdsl"
PROGRAM = """
input n : int
input q : int
domain value = range(q)
index site = range(n)
graph G = complete(site)
model family {
  var x[i in site] : value
  param h[i in site, a in value]
  param J[(i, j) in G.edges, a in value, b in value]
  factor h[i, x[i]] for i in site
  factor J[i, j, x[i], x[j]] for (i, j) in G.edges
}
"""
PEERS = {"adabmDCA's update, its defaults": Rates(), "adabmDCA's update, faster": Rates(0.05, 1000, 3)}
PATIENCE = {"adabmDCA's update, its defaults": 40.0, "adabmDCA's update, faster": 300.0}
MOST = 1.5  # times the processor seconds of the faster peer
RNA, NUCLEOTIDES = "RF00379.fasta", "-ACGU"
SITES, VALUES, ROWS, SWEEPS = 20, 4, 2000, 100


@dataclass(frozen=True)
class Task:
    """An alignment of codes, its file, and how it is weighted; `truth` is where its couplings are known."""

    words: str
    rows: Callable[[], Array]
    values: int
    weighted: bool = False
    truth: bool = False
    file: str | None = None


def known(sites: int = SITES, values: int = VALUES, seed: int = 0) -> tuple[Array, Array]:
    """Fields, and couplings of a ring with chords, normal with standard deviation 0.7; (sites, values, sites, values), symmetric."""
    rng = np.random.default_rng(seed)
    fields, couplings = 0.5 * rng.normal(size=(sites, values)), np.zeros((sites, values, sites, values))
    for i in range(sites):
        for j in (i + 1, i + sites // 2) if i < sites // 2 else (i + 1,):
            table = 0.7 * rng.normal(size=(values, values))
            couplings[i, :, j % sites], couplings[j % sites, :, i] = table, table.T
    return fields, couplings


def simulated(rows: int = ROWS, sites: int = SITES) -> Array:
    """Rows of the known model, each the end of a chain of its own."""
    fields, couplings = known(sites)
    rng = np.random.default_rng(1)
    x = rng.integers(0, VALUES, (rows, sites))
    for _ in range(SWEEPS):
        for i in range(sites):
            score = fields[i] + sum(couplings[j, :, i][x[:, j]] for j in range(sites) if couplings[j, :, i].any())
            p = np.exp(score - score.max(axis=1, keepdims=True)).cumsum(axis=1)
            x[:, i] = (p < rng.random((rows, 1)) * p[:, -1:]).sum(axis=1)
    return x


def rna() -> Array:
    """Codes of RF00379, the example of adabmDCA: 3,827 sequences of 136 columns."""
    letters = gm.read_alignment(FOLDER / RNA, False, alphabet=NUCLEOTIDES).x
    return (letters[..., None] == np.array(list(NUCLEOTIDES))).argmax(axis=-1)


TASKS = {
    "boltzmann_dhfr": Task("60 columns of DHFR, weighted", partial(family, 60), 21, weighted=True, file=FILE),
    "boltzmann_rna": Task("RF00379, weighted", rna, 5, weighted=True, file=RNA),
    "boltzmann_20": Task(f"{SITES} simulated columns of {VALUES} letters", simulated, VALUES, truth=True),
}


def run(name: str, quick: bool) -> Report:
    """Ours, then each peer for at most its time."""
    task = TASKS[name]
    if quick:
        task = Task("6 simulated columns", partial(simulated, 300, 6), VALUES)
    elif task.file is not None and (why := lacking(task.file)):
        return Report((missing(name, OURS, f"fit, {task.words}", "processor s", why),))
    x = task.rows().astype(np.int32)
    weights = gm.sequence_weights(x) if task.weighted else np.ones(len(x))
    status, ours = _ours(x, weights, task.values)
    found = {OURS: ours} | {who: fitted(x, weights, task.values, rates, 5.0 if quick else PATIENCE[who]) for who, rates in PEERS.items()}
    figures = [f for who, one in found.items() for f in _figures(name, task, who, one, x, weights)]
    for who in PEERS:
        goal = MOST if "faster" in who and not quick else None
        figures.append(
            ratio(name, f"{OURS} / {who}", f"processor seconds, {task.words}", [found[OURS].seconds], [found[who].seconds], goal)
        )
    reached = [] if quick else [Check(name, f"Pearson correlation by its status, {task.words}", min(ours.pearson, TARGET), TARGET, 0.0)]
    said = Check(name, f"a status that says it, {status}", float(status in ("agrees", "converged")), 1.0, 0.0)
    return Report(tuple(figures), (*reached, said))


def _ours(x: Array, weights: Array, values: int) -> tuple[str, Boltzmann]:
    """The status, and the parameters of a fit without an option, from the text of the program on."""
    import gmlmdsl.model  # noqa: F401  (imported before the clock starts, as JAX is by the peer)

    began, n = time.process_time(), x.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.GmlmWarning)
        model = gm.parse(PROGRAM, n=n, q=values).model()
    fit = model.fit(x, weights=weights, method="pcd", progress=False)
    seconds = time.process_time() - began
    couplings = np.zeros((n, values, n, values))
    for (i, j), table in zip(np.stack(np.triu_indices(n, 1), 1), fit.params["J"], strict=True):
        couplings[i, :, j], couplings[j, :, i] = table, table.T
    reached = float(str(fit.status).split("those of the rows is ")[1].split()[0])
    return fit.status.code, Boltzmann(np.asarray(fit.params["h"]), couplings, reached, len(fit.loss_trace), seconds)


def _figures(name: str, task: Task, who: str, found: Boltzmann, x: Array, weights: Array) -> list[Figure]:
    rates = f", {PEERS[who].words}" if who in PEERS else ""
    note = f"{found.epochs} steps to {found.pearson:.3f}{rates}"
    figures = [
        figure(name, who, f"to a Pearson correlation of {TARGET:g}, {task.words}", [found.seconds], "processor s", note),
        figure(name, who, f"Pearson correlation of new chains, {task.words}", [in_equilibrium(found.h, found.J, x, weights)], "1"),
    ]
    if task.truth:
        error = np.sqrt(np.mean((zero_sum(found.J) - zero_sum(known()[1])) ** 2))
        figures.append(figure(name, who, f"error of the couplings in the zero-sum gauge, root mean square, {task.words}", [error], "1"))
    return figures


def zero_sum(couplings: Array) -> Array:
    """Couplings of pairs i < j in the zero-sum gauge, (pairs, values, values)."""
    first, second = np.triu_indices(couplings.shape[0], 1)
    tables = couplings[first, :, second]
    tables = tables - tables.mean(axis=1, keepdims=True)
    return tables - tables.mean(axis=2, keepdims=True)
