# Theorem 4 on trial: fits of three spins, and of six votes, beside its bound, part by part.
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jax
import numpy as np

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
MASKS = {"one": 1, "two": 2, "three": 3}  # cells of a block
TRUTH = {"h": np.array([0.3, 0.0, -0.2]), "J": np.array([0.4, 0.2, -0.3])}
VOTES = HERE / "votes.json"  # what `python votes_truth.py FILE` makes of the votes of 1984
WIDTH = 0.5  # half of the box around the truth in which a fit is sought
EPSILON, DELTA, GOAL = 0.1, 0.05, 0.1


def program() -> gm.BoundProgram:
    return gm.load(HERE / "trial.gmlm", W=np.full((2, 2, 2, 7), 1 / 7))


@dataclass(frozen=True, eq=False)
class Trial:
    """A model, the parameters of its data, the cells of a block of each mask, and numbers of rows that have a minimiser."""

    program: Callable[[], gm.BoundProgram]
    truth: dict[str, np.ndarray]
    masks: dict[str, int]
    rows: tuple[int, ...]


SPINS = Trial(program, TRUTH, MASKS, (1_000, 10_000, 100_000))


@cache
def votes() -> Trial:
    """Six votes, with the parameters of a fit to members of the House."""
    truth = {name: np.array(values) for name, values in json.loads(VOTES.read_text(encoding="utf-8"))["params"].items()}
    return Trial(lambda: gm.load(HERE / "votes.gmlm"), truth, {"one": 1, "two": 2, "six": 6}, (10_000, 100_000, 1_000_000))


@dataclass(frozen=True)
class Setting:
    """A model of the exponential family, listed, and the blocks of a mask.

    Attributes:
        features: the derivative of log p in the parameters, up to the mean, (configurations, parameters).
        truth: the parameters of the data.
        groups: for each block a label of x_-K, (blocks, configurations).
    """

    features: np.ndarray
    truth: np.ndarray
    groups: np.ndarray

    def law(self, v: np.ndarray) -> np.ndarray:
        e = self.features @ v
        p = np.exp(e - e.max())
        return p / p.sum()

    def conditionals(self, v: np.ndarray) -> np.ndarray:
        """log p(x_K | x_-K), (blocks, configurations)."""
        p = self.law(v)
        return np.stack([np.log(p / np.bincount(g, p)[g]) for g in self.groups])

    def fit(self, shares: np.ndarray) -> np.ndarray | None:
        """The minimiser of the mean of -log p(x_K | x_-K) over counted (block, configuration), by Newton's method.

        None where it does not settle: the data have no minimiser.
        """
        v = self.truth.copy()
        for _ in range(40):
            p, slope, curved = self.law(v), np.zeros(len(v)), np.zeros((len(v), len(v)))
            for g, share in zip(self.groups, shares, strict=True):
                mass = np.bincount(g, p)
                mean = np.stack([np.bincount(g, p * f) for f in self.features.T], axis=1) / mass[:, None]
                away = self.features - mean[g]
                seen = np.bincount(g, share)[g] * p / mass[g]
                slope -= share @ away
                curved += (away * seen[:, None]).T @ away
            if np.linalg.eigvalsh(curved)[0] < 1e-8:
                return None
            step = np.linalg.solve(curved, slope)
            v = v - step * min(1.0, 1.0 / np.abs(step).max())
            if np.abs(step).max() < 1e-9:
                return v
        return None


def setting(mask: str, trial: Trial = SPINS) -> Setting:
    """Listed by the library: configurations in the order of binary numbers."""
    model, size = trial.program().model(), trial.masks[mask]
    cells = len(trial.truth["h"])
    x = np.array(list(np.ndindex((2,) * cells)))

    def features(params: dict) -> np.ndarray:
        return np.asarray(model.log_potential(params, x), float)

    zero = {n: np.zeros(len(v)) for n, v in trial.truth.items()}
    found = [features(zero | {n: np.eye(len(v))[k]}) for n, v in trial.truth.items() for k in range(len(v))]
    blocks = [b for b in np.ndindex((2,) * cells) if sum(b) == size]
    groups = [np.unique(np.where(np.array(b), 0, x), axis=0, return_inverse=True)[1].ravel() for b in blocks]
    return Setting(np.stack(found, axis=1), np.concatenate(list(trial.truth.values())), np.array(groups))


def fits(mask: str, n: int, m: int | None, repetitions: int, seed: int, trial: Trial = SPINS) -> dict[str, list[float]]:
    """Distances, excess losses and largest errors of fits to rows from the truth, m masks drawn for each (None: all of them).

    The rows of a repetition are the same for all masks and numbers of masks.
    """
    s = setting(mask, trial)
    p, own = s.law(s.truth), s.conditionals(s.truth)
    rows, rng = np.random.default_rng([seed, n]), np.random.default_rng([seed, n, m or 0, len(s.groups)])
    found: dict[str, list[float]] = {"tv": [], "kl": [], "excess": [], "away": []}
    for _ in range(repetitions):
        counts = rows.multinomial(n, p)
        if m is None:
            shares = np.tile(counts / n / len(s.groups), (len(s.groups), 1))
        else:
            shares = np.stack([rng.multinomial(m * c, np.full(len(s.groups), 1 / len(s.groups))) for c in counts], axis=1) / (n * m)
        v = s.fit(shares)
        if v is None:
            raise RuntimeError(f"{mask}, n = {n}: a data set without a minimiser; take more rows")
        q, there = s.law(v), s.conditionals(v)
        found["tv"].append(0.5 * float(np.abs(p - q).sum()))
        found["kl"].append(float(p @ np.log(p / q)))
        found["excess"].append(float(((own - there) @ p).mean()))
        found["away"].append(float(np.abs(v - s.truth).max()))
    return {name: [float(f"{a:.7g}") for a in some] for name, some in found.items()}


@cache
def searched(mask: str, trial: Trial) -> float:
    """C_AT as a search finds it: a lower bound."""
    with jax.enable_x64(True):
        return float(gm.theory.entropy_tensorization(trial.program().model(), trial.truth, mask))


def constants(mask: str, n: float, m: float, trial: Trial = SPINS) -> dict[str, float]:
    """The bound of Theorem 4 at the truth, as printed, and its parts; logarithms to base 10 of what is large."""
    with jax.enable_x64(True):
        model = trial.program().model()
        b = gm.theory.generalization_bound(model, trial.truth, mask, n=n, m=m, box=WIDTH, epsilon=EPSILON, delta=DELTA)
    log10 = math.log(10)
    return {
        "log10 bound": b.log_bound / log10,
        "loss": b.loss,
        "C_AT": float(b.tensorization),
        "C_AT searched": searched(mask, trial),
        "ln 1/beta": -b.log_beta,
        "log10 C_eps": b.log_cover / log10,
        "log10 masks": b.log_mask_term / log10,
        "rows": b.row_term,
        "log10 C'": b.log_C / log10,
        "log10 m": needed_masks(b) / log10,
        "log10 n for rows": needed_rows(b) / log10,
        "log10 n for C'": (3 * b.log_configurations - math.log(8 * DELTA * GOAL**2)) / log10,
    }


def needed_masks(b: gm.theory.GeneralizationBound) -> float:
    """ln of the number of masks at which their part of B alone, under the root, is as small as the goal."""
    allowed = GOAL**2 * 2 / float(b.tensorization) / -b.log_beta
    return 2 * (b.log_mask_term + 0.5 * math.log(b.m) - math.log(allowed))


def needed_rows(b: gm.theory.GeneralizationBound) -> float:
    """The same of the number of rows, for their part of B."""
    allowed = GOAL**2 * 2 / float(b.tensorization) / -b.log_beta
    return 2 * (math.log(b.row_term) + 0.5 * math.log(b.n) - math.log(allowed))
