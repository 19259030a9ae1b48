"""Simulation-based calibration of posteriors: six models under four masks. `python tests/studies.py calibration` runs it.

Talts, Betancourt, Simpson, Vehtari and Gelman (2018): parameters are drawn from the prior and rows from the model at these parameters.
The rank of each true parameter among draws of its posterior is uniform if the posterior is exact. Further ranked quantities are the
log likelihood of the rows (Modrak and others 2023) and the product of the first two parameters; ties are broken at random. Under
`everything` the posterior is exact, and the ranks are tested. Under the other masks draws are calibrated by curvature, which is right
in the limit of many rows: their ranks are shown, and the share of 94 % intervals that contain the truth.

Rows come from the oracle's enumeration and not from the package.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cases import Case, case
from chi_square import p_value
from events import programs, traced_or_compiled

import gmlmdsl as gm
from gmlmdsl.sample import groups_of

DRAWS, THIN, WARMUP = 99, 4, 200  # ranks are 0 to 99; of every fourth draw
BINS = 20
COVERED = range(3, 97)  # ranks of a truth within the 94 % interval
Draw = Callable[[np.random.Generator], dict[str, np.ndarray]]
MASKS = """
mask whole = everything(x)
mask one   = subsets(x, size = 1)
mask two   = subsets(x, size = 2)
mask seen given x {
  choose {x[0], x[1]} weight if x[0] == x[2] then 2 else 1
  choose {x[i]} for i in range(%d) weight 1
}
"""
NAMES = ("whole", "one", "two", "seen")


@dataclass(frozen=True)
class Model:
    """A model with its prior.

    Attributes:
        draw: draws parameters from the prior.
        rows: the number of rows of a data set.
        spikes: whether draws have indicators of inclusion, which are ranked too.
    """

    name: str
    cells: int
    text: str
    draw: Draw
    rows: int
    spikes: bool = False

    @property
    def case(self) -> Case:
        return case(self.name, self.text + MASKS % self.cells)


def _normal(sd: float, shape: tuple[int, ...] = (), mean: float = 0.0) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: np.asarray(rng.normal(mean, sd, shape))


def _independent(**parts: Callable[[np.random.Generator], np.ndarray]) -> Draw:
    return lambda rng: {k: part(rng) for k, part in parts.items()}


def _pooled(rng: np.random.Generator) -> dict[str, np.ndarray]:
    spread = np.asarray(rng.gamma(4.0, 1 / 10.0))
    return {"h": np.asarray(rng.normal(0, 0.3)), "spread": spread, "J": rng.normal(0.2, spread, 4)}


def _spiked(rng: np.random.Generator) -> dict[str, np.ndarray]:
    included = rng.random(6) < 0.5
    return {"h": rng.normal(0, 0.5, 4), "J": np.where(included, rng.normal(0, 0.6, 6), 0.0)}


MODELS = [
    Model(
        "ring",
        6,
        """
graph G = chain(6, wrap = true)
model ring {
  var x[i in G.nodes] : spin
  param h ~ normal(0, 0.5)
  param J ~ normal(0, 0.5)
  factor h * x[i] for i in G.nodes
  factor J * x[i] * x[j] for (i, j) in G.edges
}
""",
        _independent(h=_normal(0.5), J=_normal(0.5)),
        40,
    ),
    Model(
        "potts",
        4,
        """
graph G = chain(4, wrap = true)
model potts {
  var x[i in G.nodes] : range(3)
  param h[a in range(3)] ~ normal(0, 0.5)
  param J[a in range(3), b in range(3)] ~ normal(0, 0.5)
  factor h[x[i]] for i in G.nodes
  factor J[x[i], x[j]] for (i, j) in G.edges
}
""",
        _independent(h=_normal(0.5, (3,)), J=_normal(0.5, (3, 3))),
        150,
    ),
    Model(
        "hidden",
        4,
        """
graph G = chain(4)
model hidden {
  latent z : spin
  var x[i in G.nodes] : spin
  param h[i in G.nodes] ~ normal(0, 0.5)
  param w[i in G.nodes] ~ half_normal(0.7)
  factor h[i] * x[i] for i in G.nodes
  factor w[i] * z * x[i] for i in G.nodes
}
""",
        _independent(h=_normal(0.5, (4,)), w=lambda rng: np.abs(rng.normal(0, 0.7, 4))),
        100,
    ),
    Model(
        "pooled",
        5,
        """
graph G = chain(5)
model pooled {
  var x[i in G.nodes] : spin
  param h ~ normal(0, 0.3)
  param spread ~ gamma(4, 10)
  param J[(i, j) in G.edges] ~ normal(0.2, spread)
  factor h * x[i] for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
""",
        _pooled,
        100,
    ),
    Model(
        "table",
        4,
        """
domain sky = labels("sun", "rain", "snow")
model table {
  var x[t in range(4)] : sky
  param first[a in sky]          : simplex ~ dirichlet(2)
  param move[a in sky, b in sky] : simplex ~ dirichlet(2)
  factor log(first[x[0]])
  factor log(move[x[t], x[t + 1]]) for t in range(3)
}
""",
        _independent(first=lambda rng: rng.dirichlet([2.0] * 3), move=lambda rng: rng.dirichlet([2.0] * 3, 3)),
        100,
    ),
    Model(
        "network",
        4,
        """
graph G = complete(4)
model network {
  var   x[i in G.nodes]      : spin
  param h[i in G.nodes]      ~ normal(0, 0.5)
  param J[(i, j) in G.edges] ~ spike_slab(sd = 0.6, probability = 0.5)
  factor h[i] * x[i]           for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
""",
        _spiked,
        150,
        spikes=True,
    ),
]


@dataclass(frozen=True)
class Ranks:
    """The ranks of one model under one mask.

    Attributes:
        names: the ranked quantities.
        ranks: shape (replications, quantities), each 0 to DRAWS.
        seconds: of the processor, all replications.
        compiled: the number of programs that were compiled after the first replication.
        diverged: the share of draws that diverged.
        refused: the number of replications without draws, which have no ranks: without priors the loss has no minimiser to calibrate at.
    """

    model: str
    mask: str
    names: list[str]
    ranks: list[list[int]]
    seconds: float
    compiled: int
    diverged: float
    refused: int = 0

    @property
    def histograms(self) -> np.ndarray:
        """How many ranks of each quantity lie in each bin, shape (quantities, BINS)."""
        table = np.asarray(self.ranks, int).reshape(-1, len(self.names)) * BINS // (DRAWS + 1)
        return np.array([np.bincount(column, minlength=BINS) for column in table.T])

    @property
    def uniform(self) -> np.ndarray:
        """The p-value of Pearson's test of each quantity's ranks, in BINS bins."""
        return np.array([p_value(counts, np.full(BINS, 1 / BINS)) for counts in self.histograms])

    @property
    def coverage(self) -> np.ndarray:
        """The share of replications whose 94 % interval contains each quantity."""
        return np.isin(self.ranks, COVERED).mean(axis=0)


def data_set(model: Model, known: Case, params: dict[str, np.ndarray], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of codes of the visible cells with weights: every configuration comes first, with weight 0, so that all sets have one shape."""
    p = known.oracle.probabilities(params)
    states = known.oracle.states[rng.choice(len(p), model.rows, p=p / p.sum())]
    every = np.unique(known.oracle.states[:, -model.cells :], axis=0)
    rows = np.concatenate([every, states[:, -model.cells :]])
    rows = np.asarray(known.oracle.bound.variables["x"].values)[rows].astype(int)
    return rows, np.append(np.zeros(len(every)), np.ones(model.rows))


def entries(draws: Any, names: list[str]) -> np.ndarray:
    """Parameters by name as one array, shape (draws, entries)."""
    return np.concatenate([np.asarray(draws[n], float).reshape(len(draws[n]), -1) for n in names], axis=1)


def labels(params: dict[str, np.ndarray]) -> list[str]:
    return [f"{k}{list(at) if at else ''}" for k, v in params.items() for at in np.ndindex(np.shape(v))]


def ranks_of(model: Model, mask: str, replications: int, seed: int, first: int = 0) -> Ranks:
    """Rank true parameters among draws of the posterior of their rows, under one mask.

    Every replication has a random stream of its own, so that those from `first` on continue the ones before.
    """
    known, found, diverged, refused, quantities = model.case, [], [], 0, []
    began = time.process_time()
    with warnings.catch_warnings(), traced_or_compiled() as compiled:
        warnings.simplefilter("ignore", gm.GmlmWarning)
        warnings.simplefilter("ignore", gm.SamplingWarning)
        for r in range(first, first + replications):
            if r == first + 1:
                compiled.clear()
            rng = np.random.default_rng([seed, r])
            truth = model.draw(rng)
            quantities = named(model, truth)
            x, weights = data_set(model, known, truth, rng)
            try:
                idata = known.model.posterior(x, mask, draws=DRAWS * THIN, chains=1, warmup=WARMUP, seed=r, weights=weights)
            except gm.GmlmError as error:
                if "E554" not in str(error):
                    raise
                refused += 1
                continue
            groups = groups_of(idata)
            diverged.append(float(groups["sample_stats"]["diverging"].mean()) if "diverging" in groups["sample_stats"] else 0.0)
            draws, true = ranked(model, truth, groups["posterior"].data_vars)
            if "log_likelihood" in groups:
                rows = next(iter(groups["log_likelihood"].data_vars.values())).values[0, THIN - 1 :: THIN]
                at_truth = float(np.asarray(known.model.log_prob(truth, x)) @ weights)
                draws, true = np.append(draws, rows.sum(axis=1)[:, None], axis=1), np.append(true, [[at_truth]], axis=1)
                quantities.append("log likelihood")
            ties = rng.random(draws.shape) < rng.random(true.shape)
            found.append(((draws < true) | ((draws == true) & ties)).sum(axis=0).tolist())
    seconds = time.process_time() - began
    share = float(np.mean(diverged)) if diverged else 0.0
    return Ranks(model.name, mask, quantities, found, seconds, programs(compiled) if replications > 1 else 0, share, refused)


def named(model: Model, truth: dict[str, np.ndarray]) -> list[str]:
    """The names of what `ranked` returns."""
    names = labels(truth)
    if model.spikes:
        names += [f"{q} included" for q in labels({"J": truth["J"]})]
    return [*names, f"{names[0]} {names[1]}"]


def ranked(model: Model, truth: dict[str, np.ndarray], posterior: Any) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the ranked quantities, shape (DRAWS, quantities), and their true values, shape (1, quantities)."""
    drawn = {k: v.values[0, THIN - 1 :: THIN] for k, v in posterior.items()}
    true = entries({k: np.asarray(v)[None] for k, v in truth.items()}, list(truth))
    draws = entries(drawn, list(truth))
    if model.spikes:
        draws = np.concatenate([draws, entries(drawn, ["J_included"])], axis=1)
        true = np.concatenate([true, (truth["J"] != 0)[None]], axis=1)
    draws, true = (np.concatenate([a, a[:, :1] * a[:, 1:2]], axis=1) for a in (draws, true))
    return draws, true
