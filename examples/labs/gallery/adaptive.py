# Adaptive masks: the right conditional p(x_K | x_rest, K) settles at p, the one that users write by hand, p(x_K | x_rest), does not.
from dataclasses import dataclass

import numpy as np
import pictures
from pictures import Number, Table

import gmlmdsl as gm

STEPS = 200
COUPLINGS = (0.3, 0.6)
WEIGHT = 1.5  # of the mask, as in the program


@dataclass(frozen=True)
class Run:
    """Total variation to p after 0, 1, .. steps at one coupling, from the configuration of alternating spins."""

    coupling: float
    right: np.ndarray
    wrong: np.ndarray
    plain: np.ndarray
    settled: float  # how far from p the wrong chain ends


def by_hand(model: gm.Model, params: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """The chain as it is written without the language, as a matrix; and p.

    Draw a pair with a probability that looks at x, then redraw it from p(x_i, x_j | rest), as if the pair had been drawn blindly.
    """
    n = model.graph.n_cells
    x = np.stack(np.meshgrid(*[[-1, 1]] * n, indexing="ij"), axis=-1).reshape(-1, n)
    p = np.exp(np.asarray(model.log_prob(params, x), float))
    p /= p.sum()
    edges = model.program.graph("G").edges
    weights = np.exp(WEIGHT * x[:, edges[:, 0]] * x[:, edges[:, 1]])
    chances = weights / weights.sum(axis=1, keepdims=True)
    matrix = np.zeros((len(x), len(x)))
    for k, (i, j) in enumerate(edges):
        rest = np.delete(np.arange(n), [i, j])
        alike = (x[:, None, rest] == x[None, :, rest]).all(axis=-1)
        conditional = np.where(alike, p, 0.0)
        matrix += chances[:, k, None] * conditional / conditional.sum(axis=1, keepdims=True)
    return matrix, p


def distances(matrix: np.ndarray, p: np.ndarray, start: int, steps: int) -> np.ndarray:
    """Total variation to p after 0, 1, .. steps of a chain."""
    law, out = np.eye(len(p))[start], []
    for _ in range(steps + 1):
        out.append(0.5 * np.abs(law - p).sum())
        law = law @ matrix
    return np.array(out)


def run(model: gm.Model, coupling: float, steps: int) -> Run:
    params = {"J": coupling}
    start = (-1) ** (np.arange(model.graph.n_cells) + 1)
    options = {"start": start, "to": "target", "steps": steps}
    right = gm.theory.total_variation(model, params, sampler="adaptive", **options)
    plain = gm.theory.total_variation(model, params, sampler="plain", **options)
    matrix, p = by_hand(model, params)
    number = int("".join("1" if s > 0 else "0" for s in start), 2)
    settled = 0.5 * np.abs(np.linalg.matrix_power(matrix, 1 << 14)[number] - p).sum()
    return Run(coupling, right, distances(matrix, p, number, steps), plain, float(settled))


def compute(small: bool = False) -> list[Run]:
    """A run for each coupling; small: on a ring of four."""
    model = gm.load(pictures.HERE / "adaptive.gmlm", **({"N": 4} if small else {})).model()
    return [run(model, coupling, STEPS) for coupling in COUPLINGS]


def draw(found: list[Run]) -> dict[str, pictures.Figure]:
    figure, panels = pictures.panels([3.0] * (len(found) - 1) + [3.7])
    for axes, r in zip(panels, found, strict=True):
        steps = np.arange(len(r.right))
        axes.plot(steps, r.wrong, color=pictures.SERIES[1], label="adaptive mask, conditional by hand (wrong)")
        axes.plot(steps, r.right, color=pictures.SERIES[0], label="adaptive mask, the language's (right)")
        axes.plot(steps, r.plain, color=pictures.SERIES[2], linestyle="--", label="pairs drawn blindly")
        axes.set(yscale="log", ylabel="total variation to p", ylim=(1e-4, 1.3))
        axes.set_title(f"J = {r.coupling:g}")
    panels[-1].set_xlabel("steps")
    pictures.legend_below(panels[-1], 1)
    return {"adaptive": figure}


def tables(found: list[Run]) -> list[Table]:
    rows = []
    for r in found:
        call = 'total_variation(.., "adaptive", to="target")'
        rows += [
            Number(f"J = {r.coupling:g}: TV to p after {len(r.right) - 1} steps, right", float(r.right[-1]), "exact", call),
            Number(f"J = {r.coupling:g}: the same, by hand", float(r.wrong[-1]), "exact", "by_hand"),
            Number(f"J = {r.coupling:g}: where by hand ends", r.settled, "exact", "by_hand"),
        ]
    return [pictures.numbers("adaptive", rows)]
