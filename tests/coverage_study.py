"""Coverage of every kind of interval of a fit, over many data sets of a known law. `python tests/studies.py coverage` runs it.

Data sets are drawn from the oracle's enumeration, or by a long chain where the model is a lattice of one row. An interval that does not
end covers; one that is nan counts as none. The true value of a coupling's table is computed from its definition, not by the package.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from calibration import MASKS
from cases import Case, case

import gmlmdsl as gm

PROBABILITY = 0.94
NO_INTERVAL = ("E547", "E552")  # no profile in that direction; no minimum
GAP = 0  # of a spin: the value that marks a missing cell
Intervals = Iterator[tuple[str, float, float, float]]  # a name, the true value, and both ends

SPINS = """
graph G = %s
model spins {
  var x[i in G.nodes] : spin
  param h[i in G.nodes] %s
  param J[(i, j) in G.edges] %s
  factor h[i] * x[i]           for i in G.nodes
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
"""
SQUARE = SPINS % ("grid(2, 2)", "", "")
SPARSE = SPINS % ("complete(5)", "", "")
SHRUNK = SPINS % ("complete(5)", "", "~ laplace(0, 0.02)")
TABLE = """
domain sky = labels("sun", "rain", "snow")
model table {
  var x[t in range(3)] : sky
  param first[a in sky]          : simplex
  param move[a in sky, b in sky] : simplex
  factor log(first[x[0]])
  factor log(move[x[t], x[t + 1]]) for t in range(2)
}
"""
HIDDEN = """
graph G = chain(4)
model hidden {
  latent z : spin
  var x[i in G.nodes] : spin
  param h[i in G.nodes]
  param w[i in G.nodes] : positive
  factor h[i] * x[i] for i in G.nodes
  factor w[i] * z * x[i] for i in G.nodes
}
"""
LATTICE = """
graph G = grid(12, 12)
model lattice {
  var x[i in G.nodes] : spin
  param field
  param coupling
  factor field * x[i] for i in G.nodes
  factor coupling * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
sampler sweep { update x[i] for i in G.nodes }
"""


@dataclass(frozen=True, eq=False)
class Setting:
    """A law, the number of rows of a data set, and which kinds of intervals are studied under which masks.

    Attributes:
        truth: the parameters of the law.
        cells: the number of cells of a row.
        missing: the share of cells that are missing, at the same places of every data set.
    """

    name: str
    text: str
    truth: Mapping[str, np.ndarray]
    cells: int
    rows: int
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: float = 0.0

    @cached_property
    def case(self) -> Case:
        return case(self.name, self.text if "mask" in self.text else self.text + MASKS % self.cells)

    @cached_property
    def gaps(self) -> np.ndarray:
        """Where cells are missing, shape (rows, cells); no row is all missing."""
        found = np.random.default_rng(48).random((self.rows, self.cells)) < self.missing
        found[found.all(axis=1), 0] = False
        return found

    @cached_property
    def law(self) -> np.ndarray:
        """The probability of every configuration of the oracle."""
        p = self.case.oracle.probabilities(dict(self.truth))
        return p / p.sum()

    def data_set(self, rng: np.random.Generator, rows: int | None = None) -> np.ndarray:
        """Independent rows of values, shape (rows, cells); `GAP` where a cell is missing."""
        if self.rows == 1:
            seed = int(rng.integers(2**31))
            drawn = self.case.model.sample(dict(self.truth), "sweep", draws=1, chains=1, warmup=500, seed=seed, progress=False)
            return np.asarray(drawn["posterior"]["x"].values).reshape(1, -1)
        count = self.rows if rows is None else rows
        codes = self.case.oracle.states[rng.choice(len(self.law), count, p=self.law)][:, -self.cells :]
        values = np.asarray(self.case.oracle.bound.variables["x"].values)[codes]
        return np.where(self.gaps, GAP, values) if self.missing else values

    def fit(self, x: np.ndarray, mask: str, **options: object) -> gm.Fit:
        gaps = {"missing": GAP} if self.missing else {}
        return self.case.model.fit(x, mask=mask, **gaps, **options)  # pyright: ignore[reportArgumentType]


def spins_truth(cells: int, couplings: Mapping[int, float] | np.ndarray | None = None, edges: int = 4) -> dict[str, np.ndarray]:
    """Fields and couplings that were drawn once, or couplings that are given by number and are 0 elsewhere."""
    rng = np.random.default_rng(48)
    h, drawn = rng.normal(0, 0.3, cells), rng.normal(0, 0.3, edges)
    if couplings is None:
        return {"h": h, "J": drawn}
    return {"h": h, "J": np.array([dict(couplings).get(k, 0.0) for k in range(edges)])}


def entries(truth: Mapping[str, np.ndarray], ends: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Intervals:
    """Every entry of every parameter."""
    for name, true in truth.items():
        low, high = (np.asarray(end, float) for end in ends[name])
        for at in np.ndindex(np.shape(true)):
            yield f"{name}{list(at) if at else ''}", float(np.asarray(true)[at]), float(low[at]), float(high[at])


def sandwich(setting: Setting, mask: str, rng: np.random.Generator, r: int) -> Intervals:
    fit = setting.fit(setting.data_set(rng), mask)
    yield from entries(setting.truth, fit.interval(PROBABILITY))


def inverse_hessian(setting: Setting, mask: str, rng: np.random.Generator, r: int) -> Intervals:
    fit = setting.fit(setting.data_set(rng), mask)
    yield from entries(setting.truth, fit.interval(PROBABILITY, "laplace"))


def one_mask(setting: Setting, mask: str, rng: np.random.Generator, r: int) -> Intervals:
    """One mask is drawn for each row, and the fit sees no other."""
    fit = setting.fit(setting.data_set(rng), mask, n_masks=1, seed=r)
    yield from entries(setting.truth, fit.interval(PROBABILITY))


def simulated(setting: Setting, mask: str, rng: np.random.Generator, r: int) -> Intervals:
    fit = setting.fit(setting.data_set(rng), mask)
    options = {"sampler": "sweep", "warmup": 60, "thin": 4} if setting.rows == 1 else {}
    fit = fit.simulated_errors(200, r, **options, progress=False)  # pyright: ignore[reportArgumentType]
    yield from entries(setting.truth, fit.interval(PROBABILITY))


def bootstrap(setting: Setting, mask: str, rng: np.random.Generator, r: int) -> Intervals:
    again = setting.fit(setting.data_set(rng), mask).bootstrap(200, r, progress=False)
    yield from entries(setting.truth, again.interval(PROBABILITY))


def centrality(setting: Setting, mask: str, rng: np.random.Generator, r: int) -> Intervals:
    """The percentile intervals of two measures that are smooth where no coupling is 0."""
    fit = setting.fit(setting.data_set(rng), mask)
    found = fit.centrality("value", fit.bootstrap(200, r, progress=False), PROBABILITY, progress=False)
    J = setting.truth["J"]
    at = [[k for k, edge in enumerate(_edges(setting)) if cell in edge] for cell in range(setting.cells)]
    true = {"strength": [np.abs(J[a]).sum() for a in at], "expected_influence": [J[a].sum() for a in at]}
    for measure, values in true.items():
        ends = [c for c in found.columns if c.startswith(measure) and "%" in c]
        for cell, value in enumerate(values):
            yield f"{measure}[{cell}]", float(value), float(found[ends[0]].iloc[cell]), float(found[ends[1]].iloc[cell])


def profile(setting: Setting, mask: str, rng: np.random.Generator, r: int) -> Intervals:
    fit = setting.fit(setting.data_set(rng), mask)
    for entry, true in (("h[0]", setting.truth["h"][0]), ("J[0, 1]", setting.truth["J"][0])):
        yield entry, float(true), *fit.profile(entry, points=7, probability=PROBABILITY, progress=False).interval


def wald(setting: Setting, mask: str, rng: np.random.Generator, r: int) -> Intervals:
    """Two contrasts: the difference of two fields, and the sum of all couplings."""
    fit = setting.fit(setting.data_set(rng), mask)
    parts = {"h[0] - h[1]": {"h": np.array([1.0, -1.0] + [0.0] * (setting.cells - 2))}, "sum of J": {"J": np.ones(len(setting.truth["J"]))}}
    for name, c in parts.items():
        true = sum(float((v * setting.truth[k]).sum()) for k, v in c.items())
        yield name, true, *fit.contrast(c).interval(PROBABILITY)


def couplings(setting: Setting, mask: str, rng: np.random.Generator, r: int) -> Intervals:
    """The norms of tables, 2 |J| of two spins, by the delta method."""
    table = setting.fit(setting.data_set(rng), mask).couplings(score="norm", probability=PROBABILITY, progress=False)
    ends = [c for c in table.columns if "%" in c]
    true = {(f"x[{i}]", f"x[{j}]"): 2 * abs(float(v)) for (i, j), v in zip(_edges(setting), setting.truth["J"], strict=True)}
    for row in table.to_dict("records"):
        pair = row["first"], row["second"]
        yield " - ".join(pair), true[pair], row[ends[0]], row[ends[1]]


def path_refit(setting: Setting, mask: str, rng: np.random.Generator, r: int) -> Intervals:
    """Fields and couplings that the extended BIC chose from the same rows."""
    refit = setting.case.model.fit_path(setting.data_set(rng), mask, penalty=15, progress=False).refit()
    yield from _chosen(setting, refit.interval(PROBABILITY))


def other_rows(setting: Setting, mask: str, rng: np.random.Generator, r: int) -> Intervals:
    """Couplings that a laplace prior left free, refitted to rows that had no part in the choice."""
    sparse = setting.fit(setting.data_set(rng), mask)
    if not (sparse.params["J"] == 0).any():
        return
    yield from _chosen(setting, sparse.refit_selected(setting.data_set(rng)).interval(PROBABILITY))


def same_rows(setting: Setting, mask: str, rng: np.random.Generator, r: int) -> Intervals:
    """The same with the rows that made the choice."""
    sparse = setting.fit(setting.data_set(rng), mask)
    if not (sparse.params["J"] == 0).any():
        return
    yield from _chosen(setting, sparse.refit_selected().interval(PROBABILITY))


def _chosen(setting: Setting, ends: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Intervals:
    """Intervals under three names; couplings that are held have none, and are left out."""
    for name, true, low, high in entries(setting.truth, ends):
        if low < high:
            yield "fields" if name.startswith("h") else "couplings that are 0" if true == 0 else "other couplings", true, low, high


def _edges(setting: Setting) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in setting.case.program.graph("G").edges]


KINDS: dict[str, Callable[[Setting, str, np.random.Generator, int], Intervals]] = {
    "sandwich": sandwich,
    "inverse Hessian": inverse_hessian,
    "one mask": one_mask,
    "simulated": simulated,
    "bootstrap": bootstrap,
    "profile": profile,
    "Wald contrast": wald,
    "norms of couplings": couplings,
    "bootstrap of centrality": centrality,
    "path refit": path_refit,
    "refit, other rows": other_rows,
    "refit, same rows": same_rows,
}
ALL = ("whole", "one", "two", "seen")
TABLE_TRUTH = {"first": np.array([0.5, 0.3, 0.2]), "move": np.array([[0.6, 0.3, 0.1], [0.3, 0.4, 0.3], [0.2, 0.3, 0.5]])}
HIDDEN_TRUTH = {"h": np.array([0.2, -0.1, 0.3, 0.0]), "w": np.array([0.8, 0.7, 0.9, 0.6])}
RING: dict[int, float] = dict.fromkeys((0, 3, 4, 7, 9), 0.35)  # of the ten edges of five cells, those of the ring
SETTINGS = (
    Setting(
        "square",
        SQUARE,
        spins_truth(4),
        4,
        300,
        {
            "sandwich": ALL,
            "inverse Hessian": ("whole",),
            "one mask": ("one", "two"),
            "simulated": ("whole", "one", "seen"),
            "profile": ("whole", "one"),
            "Wald contrast": ("whole", "one"),
            "norms of couplings": ("one",),
            "bootstrap": ("whole", "one"),
            "bootstrap of centrality": ("one",),
        },
    ),
    Setting(
        "square, 40 rows",
        SQUARE,
        spins_truth(4),
        4,
        40,
        {
            "sandwich": ("whole", "one", "two"),
            "simulated": ("one",),
            "profile": ("one",),
            "Wald contrast": ("one",),
            "bootstrap": ("one",),
            "one mask": ("one",),
        },
    ),
    Setting(
        "square, 15 % missing",
        SQUARE,
        spins_truth(4),
        4,
        300,
        {
            "sandwich": ALL,
            "simulated": ("one",),
            "profile": ("one",),
            "Wald contrast": ("one",),
            "bootstrap": ("one",),
        },
        0.15,
    ),
    Setting("table", TABLE, TABLE_TRUTH, 3, 300, {"sandwich": ALL, "simulated": ("one",)}),
    Setting("hidden", HIDDEN, HIDDEN_TRUTH, 4, 1000, {"sandwich": ("whole", "two"), "simulated": ("whole",)}),
    Setting(
        "lattice, one row",
        LATTICE,
        {"field": np.array(0.1), "coupling": np.array(0.25)},
        144,
        1,
        {"simulated": ("one",), "sandwich": ("one",)},
    ),
    Setting("five spins, five couplings of ten are 0", SPARSE, spins_truth(5, RING, 10), 5, 300, {"path refit": ("one", "whole")}),
    Setting(
        "five spins, laplace prior",
        SHRUNK,
        spins_truth(5, RING, 10),
        5,
        300,
        {"refit, same rows": ("one",), "refit, other rows": ("one",), "sandwich": ("one",)},
    ),
)


def replication(setting: Setting, mask: str, kind: str, seed: int, r: int) -> list[tuple[str, float, float, float]]:
    """The intervals of one data set, which depends on (seed, r) only; empty if the fit has none and says so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.GmlmWarning)
        warnings.simplefilter("ignore", gm.SamplingWarning)
        try:
            return list(KINDS[kind](setting, mask, np.random.default_rng([seed, r]), r))
        except gm.GmlmError as error:
            if not any(code in str(error) for code in NO_INTERVAL):
                raise
            return []
