# Sudokus: puzzles that decoders solve in as many passes, with the exact denoiser of small grids and with networks trained on larger ones.
# python examples/labs sudokus [--quick] [--out DIR] [--page]
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import laboratory
import numpy as np
from distances import Estimate, counts_of, log_p_of_orders, orders_of
from learnt import fitted, weights_of
from listed import with_rows

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
Array = np.ndarray
NAMES = ("random", "margin", "probability")
FROM_NOTHING = (2, 4, 8, 16)  # passes from an empty small grid
SMALL = (2, 2)  # the boxes of grids that are listed: rows, columns
FEW = 20  # draws of each chain of the grids that are solved
EVERY = 6000  # exact draws, in which each of the 288 small grids is missing with a probability of 1e-9
SETTINGS = {"names": NAMES, "from nothing": FROM_NOTHING, "small": SMALL}


@dataclass(frozen=True)
class Size:
    """Numbers of a run.

    Attributes:
        seeds: networks.
        tall: rows of a box.
        wide: columns of a box.
        givens: numbers that a puzzle gives.
        chains: chains of grids.
        draws: grids of each chain.
        apart: exchanges between two grids.
        puzzles: puzzles that each network solves.
        decodes: decodes of each puzzle.
        steps: steps of training.
        batch: rows of a step.
        width: width of the networks.
        layers: layers of the networks.
        rate: the largest rate of Adam.
        orders: draws of the decoders of small grids.
        small_puzzles: small puzzles.
        small_givens: numbers that a small puzzle gives.
    """

    seeds: int = 5
    tall: int = 2
    wide: int = 3
    givens: int = 12
    chains: int = 300
    draws: int = 150
    apart: int = 40
    puzzles: int = 100
    decodes: int = 4
    steps: int = 2000
    batch: int = 64
    width: int = 64
    layers: int = 3
    rate: float = 3e-3
    orders: int = 1000
    small_puzzles: int = 200
    small_givens: int = 4

    @property
    def side(self) -> int:
        return self.tall * self.wide

    @property
    def program(self) -> str:
        """The file of the networks."""
        return "solver"

    def starts(self, model: gm.JointModel, rng: np.random.Generator) -> Array:
        """The first grid of each chain, (chains, rows, columns): one grid under permutations of the numbers."""
        del model
        return np.stack([rng.permutation(self.side)[simple(self.tall, self.wide)] for _ in range(self.chains)])

    @property
    def hidden(self) -> int:
        """Cells of a puzzle that are not given."""
        return self.side**2 - self.givens


def passes(size: Size) -> list[int]:
    """Numbers of passes in which puzzles are solved: down to two of what one cell a pass takes."""
    return sorted({max(1, size.hidden // k) for k in (1, 2, 4, 8)})


def small_passes(size: Size) -> list[int]:
    """The same for small puzzles."""
    return sorted({(16 - size.small_givens) // k for k in (1, 2, 4, 12)})


def grid_model(tall: int, wide: int) -> gm.JointModel:
    return gm.load(HERE / "sudoku.gmlm", tall=tall, wide=wide, side=tall * wide).model()  # type: ignore[return-value]


@cache
def solver(name: str, side: int, steps: int, width: int, layers: int, program: str = "solver") -> gm.ConditionalModel:
    """The network or the list of small grids, with decoders of so many passes; all numbers of passes have the same parameters."""
    inputs = {"side": side, "passes": steps, "width": width, "layers": layers}
    return gm.load(HERE / f"{program}.gmlm", allow_python=True, **inputs).model(name)  # type: ignore[return-value]


def simple(tall: int, wide: int) -> Array:
    """A grid whose rows are shifts of each other."""
    n = tall * wide
    return np.array([[(wide * (r % tall) + r // tall + c) % n for c in range(n)] for r in range(n)])


@cache
def grids(size: Size, seed: int) -> Array:
    """Grids of the chain of exchanges of `sudoku.gmlm`, (grids, cells); it begins with `size.starts`."""
    model, side = grid_model(size.tall, size.wide), size.side
    starts = size.starts(model, np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.SamplingWarning)  # cells of one grid are exchangeable, and their diagnostics say nothing of it
        options = {"warmup": 20 * size.apart, "thin": size.apart, "init": starts, "progress": False}
        found = model.sample({}, "exchange", draws=size.draws, chains=size.chains, seed=seed, **options)
    x = np.asarray(found["posterior"]["s"].values).reshape(-1, side, side)
    if not np.isfinite(np.asarray(model.log_potential({}, x[:: max(1, len(x) // 1000)]))).all():
        raise RuntimeError("a grid of the chain breaks a rule")
    return x.reshape(len(x), -1)


def are_solved(model: gm.JointModel, x: Array) -> Array:
    """Which grids obey all rules, by the model's own requirements."""
    side = int(np.sqrt(x.shape[1]))
    return np.isfinite(np.asarray(model.log_potential({}, x.reshape(-1, side, side))))


def solved(model: gm.ConditionalModel, params: Any, sampler: str, rules: gm.JointModel, rows: Array, givens: int, decodes: int) -> Array:
    """The share of decodes of each puzzle that are solutions; a puzzle has random cells of a grid."""
    rng, found = np.random.default_rng(5), []
    for k, row in enumerate(rows):
        clamp = {"x": {int(i): int(row[i]) for i in rng.permutation(len(row))[:givens]}}
        draws = model.sample(params, sampler, draws=1, chains=decodes, seed=k, clamp=clamp, progress=False)
        found.append(np.asarray(draws["posterior"]["x"].values).reshape(decodes, -1))
    return are_solved(rules, np.concatenate(found)).reshape(len(rows), decodes).mean(axis=1)


@cache
def small() -> tuple[Array, Any]:
    """All grids of 4 x 4, (grids, cells), and the parameters of the exact denoiser."""
    rules = grid_model(*SMALL)
    found = rules.sample({}, "exact", draws=EVERY, chains=1, seed=1, progress=False)["posterior"]["s"].values
    rows = np.unique(np.asarray(found).reshape(EVERY, -1), axis=0)
    if len(rows) != round(float(np.exp(np.asarray(rules.log_partition({}))))):
        raise RuntimeError("a grid was not drawn")
    model = solver("exact", 4, 4, 8, 1)
    return rows, with_rows(model.init_params(), rows)


def small_law(size: Size) -> dict[str, Any]:
    """The probability that a decode from nothing is a grid of 4 x 4, and its divergence from p, which has all grids alike."""
    rows, params = small()
    found: dict[str, Any] = {"grids": len(rows)}
    for steps in FROM_NOTHING:
        model = solver("exact", 4, steps, 8, 1)
        log_p = np.asarray(model.log_prob(params, rows, sampler="exact_margin"), float)
        told = {"margin": [rounded(np.exp(log_p).sum()), 0.0], "margin, nats": rounded(-np.log(len(rows)) - log_p.mean())}
        predict, rng = partial(model.predict, params), np.random.default_rng(2)
        each = rows[rng.integers(len(rows), size=size.orders)]
        by_order = np.exp(log_p_of_orders(predict, each, orders_of(rng, size.orders, [16], counts_of(16, steps, "linear")))) * len(rows)
        told["random"] = [rounded(v) for v in Estimate.of(by_order)]
        draws = model.sample(params, "exact_probability", draws=1, chains=size.orders, seed=3, progress=False)["posterior"]["x"].values
        share = are_solved(grid_model(*SMALL), np.asarray(draws).reshape(size.orders, -1)).astype(float)
        told["probability"] = [rounded(v) for v in Estimate.of(share)]
        found[str(steps)] = told
    return found


def small_puzzles(size: Size) -> dict[str, Any]:
    """The share of puzzles of 4 x 4 that decoders solve with the exact denoiser, by passes."""
    rows, params = small()
    rng, rules = np.random.default_rng(4), grid_model(*SMALL)
    asked = rows[rng.integers(len(rows), size=size.small_puzzles)]
    found = {}
    for steps in small_passes(size):
        model = solver("exact", 4, steps, 8, 1)
        each = {s: solved(model, params, f"exact_{s}", rules, asked, size.small_givens, size.decodes) for s in NAMES}
        found[str(steps)] = {s: [rounded(v) for v in Estimate.of(share)] for s, share in each.items()}
    return found


def trained(size: Size, out: Path, seed: int) -> Any:
    model = solver("learnt", size.side, 1, size.width, size.layers, size.program)
    return fitted(out / f"solver-{seed}.fit", model, grids(size, 1), "bound", seed, size.rate, size.steps, size.batch)


def measured(size: Size, out: Path, seed: int) -> dict[str, Any]:
    """The bound of a network on new grids, and the share of puzzles that decoders solve by passes."""
    params, rules = trained(size, out, seed), grid_model(size.tall, size.wide)
    new = grids(replace(size, draws=FEW), 2)[:: max(1, size.chains * FEW // size.puzzles)][: size.puzzles]
    seen = set(map(bytes, grids(size, 1).astype(np.int8)))
    new = np.stack([row for row in new if bytes(row.astype(np.int8)) not in seen])
    bound = solver("learnt", size.side, 1, size.width, size.layers, size.program).log_prob_bound(params, new, sampler="one", draws=64)
    found: dict[str, Any] = {"nats": rounded(-bound.values.mean()), "weights": weights_of(params), "puzzles": len(new)}
    for steps in passes(size):
        model = solver("learnt", size.side, steps, size.width, size.layers, size.program)
        found[str(steps)] = {s: rounded(solved(model, params, s, rules, new, size.givens, size.decodes).mean()) for s in NAMES}
    return found


def chain(size: Size) -> dict[str, Any]:
    """How different the grids of the chain are."""
    rows = grids(size, 1)
    return {"grids": len(rows), "different": len(np.unique(rows, axis=0)), "first cell": rounded(np.bincount(rows[:, 0]) / len(rows))}


def rounded(value: Any) -> Any:
    """To six digits, as JSON holds it."""
    if np.ndim(value):
        return [rounded(v) for v in np.asarray(value).tolist()]
    return float(f"{float(value):.6g}")


def parts(size: Size, out: Path) -> Mapping[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {
        "small grids, from nothing": partial(small_law, size),
        "small puzzles": partial(small_puzzles, size),
        "grids": partial(chain, size),
    }
    return found | {f"network, {seed}": partial(measured, size, out, seed) for seed in range(size.seeds)}


QUICK = Size(
    seeds=2,
    wide=2,
    givens=6,
    chains=4,
    draws=40,
    apart=2,
    puzzles=6,
    decodes=2,
    steps=20,
    batch=16,
    width=16,
    layers=1,
    orders=20,
    small_puzzles=4,
)


def lab() -> laboratory.Lab:
    from sudoku_tables import draw, tables

    return laboratory.Lab("sudokus", HERE, {"quick": QUICK, "default": Size()}, parts, tables, draw, SETTINGS)
