"""Size and power of every test whose p-value is printed. `python tests/studies.py level` runs it.

A replication gives one p-value or more by name, under a law for which the hypothesis holds (`size`) and under one for which it does not
(`power`). The tests are those of `gm.wald_test`, `Fit.differences` (Wald and permutations), `Fit.bootstrap_differences`,
`Fit.predictive`, the test of chains against one another of every sampled result, and `gm.theory.sampler_agreement`.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from coverage_study import SPINS, SQUARE, Setting, spins_truth

import gmlmdsl as gm
from gmlmdsl.sample import diagnose

SHIFT = 0.3  # of the first coupling of the second group
PERMUTATIONS, RESAMPLES, REPLICATED = 19, 200, 199
P = dict[str, float]

TRIPLES = SPINS.replace("}\n", "  factor 0.35 * x[0] * x[1] * x[2]\n}\n") % ("grid(2, 2)", "", "")
CHAINS = """
graph G = grid(2, 2)
model spins {
  var x[i in G.nodes] : spin
  param J
  factor J * x[i] * x[j] for (i, j) in G.edges
}
mask whole = everything(x)
mask one = subsets(x, size = 1)
sampler single { update x[i] for i in G.nodes }
sampler drawn { repeat 4 { update x[K] where K ~ one } }
sampler apart { update x independently }
"""


def square(rows: int, text: str = SQUARE, shift: float = 0.0) -> Setting:
    truth = spins_truth(4)
    truth = truth | {"J": truth["J"] + shift * (np.arange(4) == 0)}
    return Setting("square", text, truth, 4, rows)


@dataclass(frozen=True)
class Job:
    """What one replication needs: whether the hypothesis is false, the number of rows, the mask, and random numbers."""

    false: bool
    rows: int
    mask: str
    rng: np.random.Generator
    r: int

    @property
    def pair(self) -> tuple[gm.Fit, gm.Fit]:
        """Fits to two groups, whose first coupling differs if the hypothesis is false."""
        a, b = _square(self.rows, 0.0), _square(self.rows, SHIFT if self.false else 0.0)
        return a.fit(a.data_set(self.rng), self.mask), a.fit(b.data_set(self.rng), self.mask)


@cache
def _square(rows: int, shift: float) -> Setting:
    return square(rows, shift=shift)


@cache
def _triples(rows: int) -> Setting:
    return square(rows, TRIPLES)


@cache
def _equal(rows: int, apart: float) -> Setting:
    """Fields of 0 and couplings of 0.3, or one that is larger."""
    truth = {"h": np.zeros(4), "J": np.full(4, 0.3) + apart * (np.arange(4) == 0)}
    return dataclasses.replace(_square(rows, 0.0), truth=truth)


@cache
def _chains() -> gm.Model:
    return gm.parse(CHAINS).model()


def wald_test(job: Job) -> P:
    found = gm.wald_test(*job.pair)
    return {"all parameters": found.p_value, "any parameter, by Holm": float(np.min(found.table["p_holm"].to_numpy()))}


def differences(job: Job) -> P:
    a, b = job.pair
    found = a.differences(b, progress=False)
    return {"the first pair": _first(found), "any pair, by Holm": float(np.nanmin(found["p_adjusted"].to_numpy()))}


def permutations(job: Job) -> P:
    a, b = job.pair
    found = a.differences(b, correction="none", permutations=PERMUTATIONS, seed=job.r, progress=False)
    return {"the first pair": _first(found), "largest difference": found.attrs["p_largest"], "strength": found.attrs["p_strength"]}


def _first(table: pd.DataFrame) -> float:
    """The p-value of the pair whose coupling differs where one does."""
    return _p_of(table, *_edge_names(0))


def _p_of(table: pd.DataFrame, first: str, second: str) -> float:
    """The p-value of the line with two names, in either order."""
    (found,) = (row["p_value"] for row in table.to_dict("records") if {row["first"], row["second"]} == {first, second})
    return float(found)


@cache
def _edge_names(k: int) -> tuple[str, str]:
    known = _square(300, 0.0).case
    i, j = known.program.graph("G").edges[k]
    return known.model.graph.cell_name(int(i)), known.model.graph.cell_name(int(j))


def bootstrap_differences(job: Job) -> P:
    setting = _equal(job.rows, SHIFT if job.false else 0.0)
    fit = setting.fit(setting.data_set(job.rng), job.mask)
    found = fit.bootstrap_differences(fit.bootstrap(RESAMPLES, job.r, progress=False), level=0.95, progress=False)
    return {"two edges": _p_of(found, *(" - ".join(_edge_names(k)) for k in range(2)))}


def predictive(job: Job) -> P:
    """Statistics that the fit matches, marginals and pairs, and one that it does not, a product of three cells."""
    law = _triples(job.rows) if job.false else _square(job.rows, 0.0)
    fit = _square(job.rows, 0.0).fit(law.data_set(job.rng), job.mask)
    summaries = {"three": lambda x: float(np.mean(np.prod(np.asarray(x)[:, :3], axis=1)))}
    found = fit.predictive(draws=REPLICATED, summaries=summaries, seed=job.r, progress=False)
    return {
        "the farthest pair": found["pairs"].worst_p_value,
        "the farthest marginal": found["marginals"].worst_p_value,
        "a product of three cells": float(found["three"].p_values[0]),
    }


def chains(job: Job) -> P:
    """Chains of one sampler, of which one may have a share of its values replaced by 1; one cell, and the smallest p of four by Bonferroni."""
    options = {"draws": 500, "warmup": 50, "chains": 4, "progress": False}
    coupling = np.array(0.3)
    x = np.asarray(_chains().sample({"J": coupling}, "single", seed=job.r, **options)["posterior"]["x"].values)
    if job.false:
        clamped = _chains().sample({"J": coupling}, "single", seed=job.r + 10**6, **options)["posterior"]["x"].values
        x[0] = np.where(job.rng.random(x[0].shape) < 0.15, 1, np.asarray(clamped)[0])
    codes = (x.reshape(*x.shape[:2], -1) + 1) // 2
    found = diagnose(codes.astype(int), [f"x[{i}]" for i in range(4)], [("-1", "1")] * 4)
    p = np.asarray(found.p_value)
    return {"one cell": float(p[0]), "any of four cells": float(min(1.0, 4 * p.min()))}


def sampler_agreement(job: Job) -> P:
    """Two samplers of one law, or one of them redraws all cells at once from their conditionals, which is another law."""
    samplers = ["single", "apart" if job.false else "drawn"]
    return {"all statistics": float(gm.theory.sampler_agreement(_chains(), {"J": np.array(0.3)}, samplers, draws=100, seed=job.r).p_value)}


TESTS: dict[str, Callable[[Job], P]] = {
    "`gm.wald_test`": wald_test,
    "`Fit.differences`": differences,
    "`Fit.differences`, permutations": permutations,
    "`Fit.bootstrap_differences`": bootstrap_differences,
    "`Fit.predictive`": predictive,
    "chains against one another": chains,
    "`sampler_agreement`": sampler_agreement,
}
PLANS: tuple[tuple[str, str, int], ...] = (  # test, mask, rows of each group; 0 where there are no data
    ("`gm.wald_test`", "one", 300),
    ("`gm.wald_test`", "one", 40),
    ("`gm.wald_test`", "whole", 300),
    ("`Fit.differences`", "one", 300),
    ("`Fit.differences`", "one", 40),
    ("`Fit.differences`, permutations", "one", 300),
    ("`Fit.differences`, permutations", "one", 40),
    ("`Fit.bootstrap_differences`", "one", 300),
    ("`Fit.predictive`", "one", 300),
    ("`Fit.predictive`", "whole", 300),
    ("chains against one another", "", 0),
    ("`sampler_agreement`", "", 0),
)


def replication(test: str, mask: str, rows: int, false: bool, seed: int, r: int) -> Mapping[str, float]:
    """The p-values of one data set, or pair of them, which depends on (seed, r) only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.GmlmWarning)
        warnings.simplefilter("ignore", gm.SamplingWarning)
        return TESTS[test](Job(false, rows, mask, np.random.default_rng([seed, r, 1]), r))
