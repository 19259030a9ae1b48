# Sudokus of 9 x 9: puzzles that decoders solve with networks trained for minutes, five seeds in about twenty minutes of one core.
# python examples/labs nine [--quick] [--out DIR] [--page]
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import laboratory
import numpy as np
import sudoku_tables
from sudokus import NAMES, Array, Size, chain, measured

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Nine(Size):
    """Numbers of a run; `layers` are rounds of messages."""

    tall: int = 3
    wide: int = 3
    givens: int = 30
    chains: int = 64
    draws: int = 200
    apart: int = 20
    puzzles: int = 50
    steps: int = 1500
    batch: int = 16
    width: int = 16
    layers: int = 8
    rate: float = 5e-3

    @property
    def program(self) -> str:
        return "nine"

    def starts(self, model: gm.JointModel, rng: np.random.Generator) -> Array:
        """Grids that `map` finds around three random boxes, which share no row and no column."""
        found = []
        for _ in range(self.chains):
            boxes = [rng.permutation(9).reshape(3, 3) for _ in range(3)]
            held = {(3 * b + r, 3 * b + c): int(box[r, c]) for b, box in enumerate(boxes) for r in range(3) for c in range(3)}
            found.append(np.asarray(model.map({}, clamp={"s": held})[0]).reshape(9, 9))
        return np.stack(found)


def parts(size: Nine, out: Path) -> Mapping[str, Callable[[], Any]]:
    return {"grids": partial(chain, size), **{f"network, {seed}": partial(measured, size, out, seed) for seed in range(size.seeds)}}


def tables(results: Mapping[str, Any], size: Nine) -> dict[str, str]:
    """By place on the page."""
    found = {"networks": sudoku_tables.network_table, "solved": sudoku_tables.solved_table, "verdicts": sudoku_tables.verdict_table}
    return {f"nine-{name}": table(results, size) for name, table in found.items()}


QUICK = Nine(seeds=2, chains=2, draws=10, apart=2, puzzles=2, decodes=1, steps=4, batch=2, width=4, layers=2, givens=70)


def lab() -> laboratory.Lab:
    sizes = {"quick": QUICK, "default": Nine()}
    return laboratory.Lab("nine", HERE, sizes, parts, tables, lambda results, size: {}, {"names": NAMES})
