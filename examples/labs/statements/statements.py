# Statements of the papers on trial: Theorem 4 beside fits, the best adaptive masks and networks under them, a hidden oracle, a knapsack.
# python examples/labs statements [--quick] [--out FOLDER] [--page]
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import adaptive_search as search
import bound_trial as trial
import energies
import jax
import laboratory
import mask_networks
import numpy as np
import statement_tables
import tree_walk

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
SINGLES, PAIRS = [(0,), (1,), (2,)], [(0, 1), (0, 2), (1, 2)]
FAMILIES = {"one cell": (SINGLES, 1.0), "two cells": (PAIRS, 2.0), "1.5 cells on average": ([*SINGLES, *PAIRS, (0, 1, 2)], 1.5)}


@dataclass(frozen=True)
class Size:
    """Repetitions of fits, random models of the search for masks, the longest hidden string, the largest knapsack and horizon, networks."""

    repetitions: int = 100
    models: int = 10
    hidden: int = 10
    items: int = 30
    horizon: int = 8
    networks: int = 5
    steps: int = 400


MASKS_A_ROW, AT = (1, 4, 16, None), 1_000
HORIZONS, ERRORS = (2, 4, 6, 8), (0.0, 0.5, 1.0)  # of the walk, and of its value
COUPLINGS = (0.0, 0.2, 0.4, 0.8)  # of the ring on which Metropolis-Hastings is tried
TRAINED = ("independent, h = 1", "coupled, J = 0.5, h = 0", "coupled, J = 0.5, h = 0.5")  # models of which networks learn


def bound(size: Size, mask: str, of: trial.Trial = trial.SPINS) -> dict[str, Any]:
    """Fits and the bound by number of rows, at one mask a row; and by number of masks, at the least rows."""
    by_rows = {f"{mask} {n}": trial.fits(mask, n, 1, size.repetitions, 0, of) for n in of.rows}
    by_masks = {f"{mask} {m}": trial.fits(mask, of.rows[0], m, size.repetitions, 0, of) for m in MASKS_A_ROW}
    return {"rows": by_rows, "masks": by_masks, "constants": {f"{mask} {n}": trial.constants(mask, n, 1, of) for n in of.rows}}


def models(count: int) -> dict[str, dict[str, np.ndarray]]:
    """Structured models of three spins, and random ones."""
    zero, one = np.zeros(3), np.ones(3)
    found = {
        "independent, h = 0": {"h": zero, "J": zero},
        "independent, h = 1": {"h": one, "J": zero},
        "coupled, J = 0.5, h = 0": {"h": zero, "J": 0.5 * one},
        "coupled, J = 0.5, h = 0.5": {"h": 0.5 * one, "J": 0.5 * one},
        "frustrated, J = -0.5, h = 0": {"h": zero, "J": -0.5 * one},
    }
    rng = np.random.default_rng(0)
    return found | {f"random {k + 1}": {"h": rng.normal(0, 0.7, 3), "J": rng.normal(0, 0.7, 3)} for k in range(count)}


def adaptive(params: dict[str, np.ndarray]) -> dict[str, Any]:
    """By family: the trace of Gamma, and the Poincare constant, of the uniform mask, the best fixed and the best adaptive one."""
    found: dict[str, Any] = {}
    s = trial.setting("one")
    states = np.array(list(np.ndindex(2, 2, 2)))
    p = s.law(np.concatenate([params["h"], params["J"]]))
    for family, (blocks, mean) in FAMILIES.items():
        problem = search.problem_of(p, s.features - p @ s.features, states, blocks)
        uniform, _, _ = search.masks(problem, np.zeros(len(blocks)), mean, True)
        row: dict[str, Any] = {}
        for goal, of in (("trace", search.trace), ("constant", search.less_gap)):
            best = {kind: search.best(problem, of, mean, kind == "fixed") for kind in ("fixed", "adaptive")}
            row[goal] = {"uniform": number(problem, goal, uniform), "limit": limit(problem, goal)}
            for kind, b in best.items():
                row[goal] |= {kind: number(problem, goal, b.chances), f"{kind} bound": b.bound if goal == "trace" else -1 / b.bound}
            row[goal]["by the language"] = by_the_language(params, blocks, best["adaptive"].chances, goal)
            row[goal]["chances"] = np.round(best["adaptive"].chances, 3).tolist()
        found[family] = row
    return found


def networks(size: Size, params: dict[str, np.ndarray]) -> dict[str, dict[str, list[float]]]:
    """By mask of one cell, seed by seed, how far from p the chains of a network settle that was trained under it."""
    s, (blocks, mean) = trial.setting("one"), FAMILIES["one cell"]
    p = s.law(np.concatenate([params["h"], params["J"]]))
    problem = search.problem_of(p, s.features - p @ s.features, mask_networks.STATES, blocks)
    chances = {"uniform": search.masks(problem, np.zeros(len(blocks)), mean, True)[0]}
    for goal, of in (("trace", search.trace), ("constant", search.less_gap)):
        chances[f"least {goal}"] = search.best(problem, of, mean).chances
    found = {}
    for name, own in chances.items():
        q = [mask_networks.learnt(p, own, AT, size.steps, seed) for seed in range(size.networks)]
        each = [mask_networks.distances(p, one, own) for one in q]
        found[name] = {k: [r[k] for r in each] for k in each[0]} | {"right": mask_networks.distances(p, mask_networks.exact(p, own), own)}
    return found


def number(problem: search.Problem, goal: str, chances: np.ndarray) -> float:
    """The trace of Gamma or the Poincare constant of a mask."""
    q = problem.p[:, None] * chances
    return search.trace(problem, q)[0] if goal == "trace" else float(1 / search.spectrum(problem, q)[0][0])


def limit(problem: search.Problem, goal: str) -> float:
    """What the mask of all cells has."""
    u = problem.scores
    return float(np.trace(np.linalg.inv((u * problem.p[:, None]).T @ u))) if goal == "trace" else 1.0


def by_the_language(params: dict[str, np.ndarray], blocks: list[tuple[int, ...]], chances: np.ndarray, goal: str) -> float:
    """The same number of the mask `seen` of the program, given the chances as its table."""
    every = [*SINGLES, *PAIRS, (0, 1, 2)]
    table = np.zeros((8, len(every)))
    table[:, [every.index(b) for b in blocks]] = chances
    with jax.enable_x64(True):
        model = gm.load(HERE / "trial.gmlm", W=table.reshape(2, 2, 2, -1)).model()
        if goal == "trace":
            return float(np.trace(gm.theory.pseudolikelihood_information(model, params, "seen").covariance(1)))
        return float(gm.theory.poincare_constant(model, params, "seen"))


def hidden(size: Size) -> dict[str, Any]:
    """Calls of the oracle for one string of the set, by rejection, and how often rejection of symbols fails, for lengths from 2 on."""
    found = {}
    for n in range(2, size.hidden + 1, 2):
        secret = np.random.default_rng(n).integers(0, 2, n - 1)
        program = gm.load(HERE / "hidden.gmlm", n=n, hidden=secret)
        laws = {s: gm.theory.output_law(program.model("secret"), {}, s) for s in ("reject", "filter")}
        string = np.append(secret, secret.sum() % 2)
        assert laws["reject"].strings.tolist() == [string.tolist()]
        found[str(n)] = {
            "calls": laws["reject"].expected_calls,
            "fails": laws["filter"].fail,
            "calls of symbols": laws["filter"].expected_calls,
        }
    return found


def knapsack(size: Size) -> dict[str, Any]:
    """Solutions counted by the plan and by dynamic programming, and draws under the verifier; then weights that no plan holds."""
    found: dict[str, Any] = {}
    for n, top in itertools.takewhile(lambda at: at[0] <= size.items, ((10, 20), (20, 50), (30, 100))):
        weight = np.random.default_rng(n).integers(1, top + 1, n)
        c = int(weight.sum() // 3)
        program = gm.load(HERE / "knapsack.gmlm", n=n, c=c, weight=weight)
        with jax.enable_x64(True):
            counted = float(np.exp(np.float64(program.model("knapsack").log_partition({}))))
        drawn = program.model("words").sample({}, "filter", draws=200, chains=1, seed=0)
        right = np.asarray(drawn["posterior"]["x"].values[0]) @ weight == c
        calls = float(drawn["guided_stats"]["oracle_calls"].mean())
        found[f"{n} {top}"] = {"c": c, "counted": counted, "summed": solutions(weight, c), "right": float(right.mean()), "calls": calls}
    weight = np.random.default_rng(30).integers(1, 10_001, 30)
    try:
        gm.load(HERE / "knapsack.gmlm", n=30, c=int(weight.sum() // 3), weight=weight).model("knapsack").log_partition({})
    except gm.GmlmError as error:
        found["30 10000"] = {
            "c": int(weight.sum() // 3),
            "summed": solutions(weight, int(weight.sum() // 3)),
            "refused": str(error).split("]")[0][6:],
        }
    return found


def solutions(weight: np.ndarray, c: int) -> int:
    """The number of subsets of a sum, in whole numbers."""
    ways = [1] + [0] * c
    for w in weight.tolist():
        for s in range(c, w - 1, -1):
            ways[s] += ways[s - w]
    return ways[c]


def implicit(size: Size) -> dict[str, Any]:
    """By coupling: where Gibbs sampling and Metropolis-Hastings settle, with the conditionals of p and with learnt ones, seed by seed."""
    found: dict[str, Any] = {}
    for coupling in COUPLINGS:
        p = energies.ising(coupling)
        rows = [energies.distances(energies.learnt(p, AT, np.random.default_rng(seed)), p) for seed in range(size.repetitions // 5)]
        found[f"{coupling:g}"] = {
            "own": energies.distances(energies.conditionals(p), p),
            "learnt": {k: [r[k] for r in rows] for k in rows[0]},
        }
    return found


def walked(size: Size) -> dict[str, Any]:
    """Times of Algorithm 2 by horizon and error of the value; exact values, and five wrong ones of each size."""
    horizons = [h for h in HORIZONS if h <= size.horizon]
    seeds = {sd: 1 if sd == 0 else 5 for sd in ERRORS}
    return {f"{h} {sd:g}": [tree_walk.times(tree_walk.values(h, sd, k)) for k in range(seeds[sd])] for h in horizons for sd in ERRORS}


def parts(size: Size, out: Path) -> dict[str, Callable[[], Any]]:
    few, votes = replace(size, repetitions=size.repetitions // 5), trial.votes()
    return {
        **{f"bound: {mask}": partial(bound, size, mask) for mask in trial.MASKS},
        **{f"mask: {name}": partial(adaptive, params) for name, params in models(size.models).items()},
        **{f"votes: {mask}": partial(bound, few, mask, votes) for mask in votes.masks},
        **{f"network: {name}": partial(networks, size, models(0)[name]) for name in TRAINED},
        "hidden": partial(hidden, size),
        "knapsack": partial(knapsack, size),
        "energies": partial(implicit, size),
        "walk": partial(walked, size),
    }


def lab() -> laboratory.Lab:
    sizes = {"quick": Size(20, 1, 4, 10, 4, 2, 20), "default": Size()}
    settings = {
        "truth": {k: v.tolist() for k, v in trial.TRUTH.items()},
        "width": trial.WIDTH,
        "epsilon": trial.EPSILON,
        "delta": trial.DELTA,
    }
    settings |= {
        "rows": trial.SPINS.rows,
        "masks": MASKS_A_ROW,
        "families": {k: v[1] for k, v in FAMILIES.items()},
        "couplings": COUPLINGS,
        "horizons": HORIZONS,
        "errors": ERRORS,
        "votes": {name: value.tolist() for name, value in trial.votes().truth.items()},
        "trained": TRAINED,
    }
    return laboratory.Lab("statements", HERE, sizes, parts, statement_tables.tables, lambda results, size: {}, settings)
