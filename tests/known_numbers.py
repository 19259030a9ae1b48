"""What is known of the programs of `evaluate/test_forty_programs.py`: closed forms, published counts, sums written out in NumPy.

Nothing here uses the package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.stats

RNG = np.random.default_rng(7)


def rows_of(*values: Sequence[float], repeat: int = 1) -> np.ndarray:
    return np.array(list(itertools.product(*values, repeat=repeat)))


def log_sum(a: Any) -> float:
    return float(np.logaddexp.reduce(np.asarray(a, float)))


def sigmoid(a: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(a, float)))


def ring(bond: np.ndarray, n: int) -> float:
    """log of the trace of a power of a transfer matrix."""
    return math.log(float(np.trace(np.linalg.matrix_power(np.exp(bond), n))))


def choices(n: int, k: int) -> float:
    return math.log(math.comb(n, k))


# Counts: log Z of a model of requirements alone is the logarithm of a number of configurations


@dataclass(frozen=True)
class Count:
    """How many configurations there are, and who says so."""

    program: str
    number: int
    source: str
    inputs: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    model: str | None = None


def life(after: np.ndarray) -> int:
    """How many boards become this one in a step of the game of life on a torus of 4 by 4."""
    x = rows_of((0, 1), repeat=16).reshape(-1, 4, 4)
    near = sum(np.roll(x, (a, b), (1, 2)) for a in (-1, 0, 1) for b in (-1, 0, 1))
    return int((((near == 3) | ((near == 4) & (x == 1))) == after).all(axis=(1, 2)).sum())


def hexagons(n: int) -> int:
    """Independent sets of a lattice of triangles on a torus, by their rows."""
    x = rows_of((0, 1), repeat=n)
    x = x[(x * np.roll(x, 1, axis=1)).sum(axis=1) == 0]
    step = np.array([[not (a * b).any() and not (a * np.roll(b, -1)).any() for b in x] for a in x], float)
    return round(np.trace(np.linalg.matrix_power(step, n)))


def satisfied(clauses: Sequence[Sequence[int]], n: int) -> int:
    return sum(all(any((x[abs(v) - 1] == 1) == (v > 0) for v in c) for c in clauses) for x in itertools.product((0, 1), repeat=n))


def rank_of_two(rows: Sequence[Sequence[int]], n: int) -> int:
    """The rank over the field of two elements of rows that are sets of places."""
    left, rank = [sum(1 << k for k in r) for r in rows], 0
    for k in range(n):
        pivot = next((r for r in left if r >> k & 1), None)
        if pivot is not None:
            left, rank = [r ^ pivot if r >> k & 1 else r for r in left if r is not pivot], rank + 1
    return rank


CLAUSES = [[1, 2, 3], [-1, 4, 5], [-2, -4, 6], [3, -5, -6], [-3, 5, 7], [1, -6, -7], [2, 4, -7], [-1, -2, 7]]
ODD = [[0, 1, 2], [1, 3, 4], [2, 4, 5], [0, 3, 5], [1, 5, 6], [0, 4, 6]]
CHECKS = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [0, 4, 8, 1], [2, 5, 9, 6], [3, 7, 10, 11]]
BLOCK = np.array([[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]])
COUNTS = [
    Count("kempe_chains", 120, "the chromatic polynomial of the Petersen graph at 3"),
    Count("kempe_chains", 12960, "the same at 4", {"colours": 4}),
    Count("colours_of_a_cycle", 4**8 + 4, "(q - 1)^n + (-1)^n (q - 1)"),
    Count("queens", 4, "OEIS A000170"),
    Count("queens", 92, "OEIS A000170", {"n": 8}),
    Count("latin_squares", 576, "OEIS A002860"),
    Count("counts", math.comb(60, 20), "60 over 20", {}, {"h": np.zeros(60)}, "twenty"),
    Count("hard_core_gas", 55447, "OEIS A006506", {}, {"mu": 0.0}),
    Count("hard_hexagons", hexagons(4), "a matrix between rows"),
    Count("monomers_and_dimers", 10012, "OEIS A028420", {}, {"z": 0.0}),
    Count("dimers", 36, "OEIS A004003"),
    Count("dimers", 6728, "OEIS A004003", {"n": 6, "m": 6}),
    Count("spanning_trees", 4**2, "Cayley's formula"),
    Count("spanning_trees", 5**3, "Cayley's formula", {"n": 5}),
    Count("even_subgraphs", 2**9, "2^(edges - nodes + 1)", {}, {"t": 1.0}),
    Count("square_ice", 148, "OEIS A054759"),
    Count("square_ice", 2970, "OEIS A054759", {"L": 4}),
    Count("alternating_signs", 42, "OEIS A005130"),
    Count("rna_pairs", 37, "OEIS A004148"),
    Count("paths_of_motzkin", 2188, "OEIS A001006"),
    Count("set_partitions", 203, "the number of Bell"),
    Count("integer_partitions", 42, "the partitions of 10"),
    Count("young_tableaux", 42, "the hook lengths of a square of three"),
    Count("three_satisfiability", satisfied(CLAUSES, 7), "a list of all"),
    Count("xorsat", 2 ** (8 - rank_of_two(ODD, 8)), "2^(variables - rank)"),
    Count("low_density_code", 2 ** (12 - rank_of_two(CHECKS, 12)), "2^(bits - rank)", {}, {"w": 0.0}),
    Count("game_of_life", life(BLOCK), "a list of all boards"),
]


# log Z of models with parameters


@dataclass(frozen=True)
class Total:
    """log Z at some parameters, and what it is compared with."""

    program: str
    params: dict[str, Any]
    wanted: Callable[[Any], float]
    source: str
    inputs: dict[str, Any] = field(default_factory=dict)


def of_islands(p: Any) -> float:
    return sum(ring(np.array([[0, h / 2], [h / 2, h + p["J"]]]), 4) for h in p["h"])


def of_graphs(p: Any) -> float:
    """The family of graphs of four nodes."""
    pairs = list(itertools.combinations(range(4), 2))
    energies = []
    for y in itertools.product((0, 1), repeat=6):
        a = np.zeros((4, 4))
        for (i, j), on in zip(pairs, y, strict=True):
            a[i, j] = a[j, i] = on
        d = a.sum(axis=0)
        energies.append(p["edge"] * sum(y) + p["star"] * (d * (d - 1)).sum() / 2 + p["triangle"] * np.trace(a @ a @ a) / 6)
    return log_sum(energies)


def of_ranks(p: Any) -> float:
    ahead = [[(i if r[i] < r[j] else j) for i in range(5) for j in range(i + 1, 5)] for r in itertools.permutations(range(5))]
    return log_sum([p["s"][a].sum() for a in ahead])


def of_weights(p: Any) -> float:
    """Subsets of items that fit, by their weight."""
    weights, table = [3, 5, 7, 2, 9, 4, 6, 8, 1, 5, 3, 7], np.zeros(21)
    table[0] = 1
    for w, v in zip(weights, p["worth"], strict=True):
        table[w:] = table[w:] + np.exp(v) * table[:-w]
    return math.log(table.sum())


def of_scores(p: Any) -> float:
    """The elementary symmetric function of order 3 (Rasch)."""
    return math.log(sum(math.prod(np.exp(-p["hard"])[list(s)]) for s in itertools.combinations(range(8), 3)))


def of_machine(p: Any) -> float:
    v = rows_of((0, 1), repeat=5)
    return log_sum(v @ p["a"] + np.logaddexp(0, p["b"] + v @ p["W"]).sum(axis=1))


def of_two_layers(p: Any) -> float:
    a = rows_of((-1, 1), repeat=3)
    return log_sum(np.log(2 * np.cosh(a @ p["W"].T)).sum(axis=1) + np.log(2 * np.cosh(a @ p["U"])).sum(axis=1))


def of_capel(p: Any) -> float:
    s = np.array([-1, 0, 1])
    return ring(p["J"] * np.outer(s, s) - p["D"] * (s[:, None] ** 2 + s**2) / 2, 7)


def of_teller(p: Any) -> float:
    s, t = rows_of((-1, 1), repeat=2).T
    one, other = np.outer(s, s), np.outer(t, t)
    return ring(p["J"] * (one + other) + p["U"] * one * other, 6)


def of_field(p: Any) -> float:
    h = np.array([p["h"], 0, 0, 0])
    return ring(p["J"] * np.eye(4) + (h[:, None] + h) / 2, 9)


def of_clock(p: Any) -> float:
    k = np.arange(6)
    return math.log(sum((np.exp(p["J"] * np.cos(np.pi * k / 3)) @ np.cos(np.pi * k * m / 3)) ** 8 for m in range(6)))


def of_mean_field(p: Any) -> float:
    m = 2 * np.arange(31) - 30
    return log_sum([choices(30, k) for k in range(31)] + p["J"] * m**2 / 60 + p["h"] * m)


def of_high_temperatures(p: Any) -> float:
    """From the Ising model itself, row after row: Z = 2^16 cosh(b)^24 sum over even sets of tanh(b)^edges."""
    b, rows = math.atanh(p["t"]), rows_of((-1, 1), repeat=4)
    within = np.exp(b * (rows[:, 1:] * rows[:, :-1]).sum(axis=1))
    step = np.exp(b * rows @ rows.T) * within
    return math.log((within @ np.linalg.matrix_power(step, 3)).sum()) - 16 * math.log(2) - 24 * math.log(math.cosh(b))


def of_torus(p: Any) -> float:
    b, rows = 0.4406867935097715, rows_of((-1, 1), repeat=4)
    return ring(b * rows @ rows.T + b * (rows * np.roll(rows, 1, axis=1)).sum(axis=1), 4)


def of_triangles(p: Any) -> float:
    x = rows_of((0, 1), repeat=12).reshape(-1, 3, 4)
    pairs = (x[:, 1:] * x[:, :-1], x[:, :, 1:] * x[:, :, :-1], x[:, 1:, 1:] * x[:, :-1, :-1])
    full = x[:, :-1, :-1] * x[:, 1:, 1:] * (x[:, :-1, 1:] + x[:, 1:, :-1])
    return log_sum(p["h"] * x.sum((1, 2)) + p["J"] * sum(e.sum((1, 2)) for e in pairs) + p["K"] * full.sum((1, 2)))


def of_code_words(p: Any) -> float:
    x = rows_of((0, 1), repeat=12)
    good = np.all([x[:, c].sum(axis=1) % 2 == 0 for c in CHECKS], axis=0)
    return log_sum(p["w"] * x[good].sum(axis=1))


def of_matrix(p: Any) -> float:
    a = [[1, 2, 3, 1, 2], [2, 1, 1, 4, 1], [3, 1, 2, 1, 1], [1, 1, 1, 2, 3], [2, 4, 1, 1, 1]]
    return math.log(sum(math.prod(a[i][s[i]] for i in range(5)) for s in itertools.permutations(range(5))))


def of_rankings(p: Any) -> float:
    q = math.exp(-p["phi"])
    return math.log(math.prod((1 - q**k) / (1 - q) for k in range(1, 7)))


def of_matchings(p: Any) -> float:
    """Matchings of a board of 4 by 4 by the number of dimers (OEIS A028420, its row by size)."""
    sizes = [1, 24, 224, 1044, 2593, 3388, 2150, 552, 36]
    return math.log(sum(c * math.exp(p["z"] * k) for k, c in enumerate(sizes)))


TOTALS = [
    Total("hierarchical_autologistic", {"mu": 0.0, "tau": 1.0, "h": np.array([0.3, -0.5, 1.0]), "J": 0.7}, of_islands, "a transfer matrix"),
    Total(
        "random_walk_couplings",
        {"tau": 0.5, "J": np.linspace(-1, 1.5, 6)},
        lambda p: 7 * math.log(2) + np.log(np.cosh(p["J"])).sum(),
        "2^n prod cosh J",
    ),
    Total(
        "tree_of_spins",
        {"J": np.linspace(-1, 1, 15)},
        lambda p: 15 * math.log(2) + np.log(np.cosh(p["J"][1:])).sum(),
        "2^n prod cosh J",
    ),
    Total("random_graphs_with_triangles", {"edge": -0.4, "star": 0.2, "triangle": 0.5}, of_graphs, "a list of graphs"),
    Total("knapsack", {"worth": RNG.normal(size=12)}, of_weights, "a recursion over weights"),
    Total("rasch_of_a_score", {"hard": RNG.normal(size=8)}, of_scores, "a symmetric function"),
    Total(
        "restricted_machine",
        {"a": RNG.normal(size=5), "b": RNG.normal(size=3), "W": RNG.normal(size=(5, 3))},
        of_machine,
        "units one by one",
    ),
    Total("deep_boltzmann_machine", {"W": RNG.normal(size=(4, 3)), "U": RNG.normal(size=(3, 2))}, of_two_layers, "layers outside summed"),
    Total("blume_capel", {"J": 0.6, "D": 0.3}, of_capel, "a transfer matrix"),
    Total("ashkin_teller", {"J": 0.4, "U": -0.3}, of_teller, "a transfer matrix"),
    Total("potts_in_a_field", {"J": 0.8, "h": 0.5}, of_field, "a transfer matrix"),
    Total("clock_of_six", {"J": 0.9}, of_clock, "Fourier's eigenvalues"),
    Total("mean_field_spins", {"J": 0.8, "h": 0.1}, of_mean_field, "a sum over magnetisations"),
    Total("even_subgraphs", {"t": 0.37}, of_high_temperatures, "van der Waerden's identity with the Ising model"),
    Total("torus_of_spins", {}, of_torus, "a transfer matrix"),
    Total("triangular_autologistic", {"h": -0.3, "J": 0.4, "K": 0.2}, of_triangles, "a list of all"),
    Total("low_density_code", {"w": 0.7}, of_code_words, "a list of code words"),
    Total("permanent", {}, of_matrix, "a sum over permutations"),
    Total("mallows", {"phi": 0.6}, of_rankings, "a product of geometric sums"),
    Total("bradley_terry_ranks", {"s": RNG.normal(size=5)}, of_ranks, "a sum over permutations"),
    Total("monomers_and_dimers", {"z": 0.4}, of_matchings, "matchings by their size"),
]


# Directed models: the whole law over all configurations, each cell by its code


def binomial(k: Any, n: int, p: Any) -> Any:
    return scipy.stats.binom.pmf(k, n, p)


def chosen(row: Any, k: Any) -> Any:
    """The entries of rows at codes; of one row for all of them."""
    row = np.asarray(row, float)
    return row[k] if row.ndim == 1 else row[np.arange(len(k)), k]


def on_or_off(p: Any, x: Any) -> Any:
    return np.where(np.asarray(x) == 1, p, 1 - np.asarray(p))


@dataclass(frozen=True)
class Law:
    """p of all configurations: rows of codes, a column for each cell in the order of the file."""

    program: str
    params: dict[str, Any]
    sizes: tuple[int, ...]
    law: Callable[[Any, np.ndarray], np.ndarray]
    inputs: dict[str, Any] = field(default_factory=dict)


def belief(p: Any, c: np.ndarray) -> np.ndarray:
    h, v = c[:, :3], c[:, 3:]
    return on_or_off(0.3, h).prod(1) * on_or_off(sigmoid(p["b"] + h @ p["W"]), v).prod(1)


FAILS = np.array([[0.3, 1, 0.8], [0.5, 0.6, 1], [1, 0.2, 0.9], [0.7, 0.7, 0.4]])


def quick(p: Any, c: np.ndarray) -> np.ndarray:
    d, f = c[:, :4], c[:, 4:]
    off = 0.98 * np.where(d[:, :, None] == 1, FAILS, 1).prod(1)
    return on_or_off([0.1, 0.2, 0.3, 0.4], d).prod(1) * on_or_off(1 - off, f).prod(1)


def gates(p: Any, c: np.ndarray) -> np.ndarray:
    law = on_or_off(0.8, c[:, 0]) * on_or_off(0.6, c[:, 1])
    for i in range(2, 5):
        law = law * on_or_off(np.where((c[:, i - 1] == 1) & (c[:, i - 2] == 1), 0.95, 0.05), c[:, i])
    return law


def grades(p: Any, c: np.ndarray) -> np.ndarray:
    at, mass = np.array([-2.857, -1.356, 0, 1.356, 2.857]), np.array([0.0113, 0.2221, 0.5332, 0.2221, 0.0113])
    law = (mass / mass.sum())[c[:, 0]]
    for i in range(3):
        cut = np.array([-np.inf, *p["cut"][i], np.inf])
        above = sigmoid(p["a"][i] * at[c[:, 0]][:, None] - cut)
        law = law * -np.diff(above, axis=1)[np.arange(len(c)), c[:, 1 + i]]
    return law


def credits_of(p: Any, c: np.ndarray) -> np.ndarray:
    law = np.array([0.2, 0.3, 0.3, 0.2])[c[:, 0]]
    for i in range(3):
        steps = np.array([0, p["step"][i, 1], p["step"][i, 1] + p["step"][i, 2]])
        odds = np.exp(np.arange(3) * (c[:, :1] - 1.5) - steps)
        law = law * chosen(odds / odds.sum(1, keepdims=True), c[:, 1 + i])
    return law


def block_model(p: Any, c: np.ndarray) -> np.ndarray:
    z, law = c[:, :4], p["share"][c[:, :4]].prod(1)
    for k, (i, j) in enumerate(itertools.combinations(range(4), 2)):
        law = law * on_or_off(p["link"][np.minimum(z[:, i], z[:, j]), np.maximum(z[:, i], z[:, j])], c[:, 4 + k])
    return law


def topics(p: Any, c: np.ndarray) -> np.ndarray:
    """Three words of the first document, two of the second."""
    doc, z, w = np.array([0, 0, 0, 1, 1]), c[:, :5], c[:, 5:]
    return p["theta"][doc, z].prod(1) * p["phi"][z, w].prod(1)


def steps_of_disease(p: Any, c: np.ndarray) -> np.ndarray:
    ill, near = c.reshape(-1, 3, 4), np.array([[1, 3], [0, 2], [1, 3], [2, 0]])
    law = on_or_off([0.9, 0.05, 0.05, 0.05], ill[:, 0]).prod(1)
    for t in (1, 2):
        known = ill[:, t - 1]
        law = law * on_or_off(np.where(known == 1, 1, 1 - p["escape"] ** known[:, near].sum(2)), ill[:, t]).prod(1)
    return law


def inflated(p: Any, c: np.ndarray) -> np.ndarray:
    away, y = c[:, :2], c[:, 2:]
    return on_or_off(0.3, away).prod(1) * np.where(away == 1, y == 0, binomial(y, 5, p["p"])).prod(1)


def of_two_before(p: Any, c: np.ndarray) -> np.ndarray:
    law = p["first"][c[:, 0]] * p["next"][c[:, 0], c[:, 1]]
    for t in range(2, 4):
        law = law * p["move"][c[:, t - 2], c[:, t - 1], c[:, t]]
    return law


def bays(p: Any, c: np.ndarray) -> np.ndarray:
    fever, cough, itch = [0.2, 0.9, 0.01], [0.6, 0.7, 0.3], [0.1, 0.05, 0.8]
    law = np.array([0.6, 0.1, 0.3])[c[:, 0]]
    for k, on in enumerate((fever, cough, itch), 1):
        law = law * on_or_off(np.array(on)[c[:, 0]], c[:, k])
    return law


def asia(p: Any, c: np.ndarray) -> np.ndarray:
    visit, smoke, tub, lung, bronc, either, xray, dysp = c.T
    law = on_or_off(0.01, visit) * 0.5 * on_or_off(np.where(visit, 0.05, 0.01), tub) * on_or_off(np.where(smoke, 0.1, 0.01), lung)
    law = law * on_or_off(np.where(smoke, 0.6, 0.3), bronc) * (either == (tub | lung)) * on_or_off(np.where(either, 0.98, 0.05), xray)
    return law * on_or_off(np.array([[0.1, 0.8], [0.7, 0.9]])[either, bronc], dysp)


def simplex(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Random rows that sum to 1."""
    return rng.dirichlet(np.ones(shape[-1]), shape[:-1])


LAWS = [
    Law("asia", {}, (2,) * 8, asia),
    Law("sigmoid_belief_net", {"b": RNG.normal(size=4), "W": RNG.normal(size=(3, 4))}, (2,) * 7, belief),
    Law("noisy_or", {}, (2,) * 7, quick),
    Law("noisy_and", {}, (2,) * 5, gates),
    Law("graded_response", {"a": np.array([0.5, 1, 2]), "cut": np.sort(RNG.normal(size=(3, 3)))}, (5, 4, 4, 4), grades),
    Law("partial_credit", {"step": RNG.normal(size=(3, 3))}, (4, 3, 3, 3), credits_of),
    Law("stochastic_block_model", {"share": simplex(RNG, 2), "link": RNG.random((2, 2))}, (2,) * 10, block_model, {"n": 4}),
    Law("latent_dirichlet_allocation", {"theta": simplex(RNG, 2, 2), "phi": simplex(RNG, 2, 4)}, (2,) * 5 + (4,) * 5, topics),
    Law("contagion", {"escape": 0.6}, (2,) * 12, steps_of_disease),
    Law("zero_inflated", {"p": 0.4}, (2, 2, 6, 6), inflated, {"n": 2}),
    Law(
        "markov_of_order_two",
        {"first": simplex(RNG, 4), "next": simplex(RNG, 4, 4), "move": simplex(RNG, 4, 4, 4)},
        (4,) * 4,
        of_two_before,
        {"n": 4},
    ),
    Law("bayes_for_symptoms", {}, (3, 2, 2, 2), bays),
]
