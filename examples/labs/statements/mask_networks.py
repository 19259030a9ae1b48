# Networks that are trained under the masks of `adaptive_search`: where the chain of each mask settles, beside p.
#
# Under a mask that sees x a network learns p(x_i | x_rest, K = {i}), which is proportional to p(x) p({i} | x). The block dynamics of the
# mask redraw cells from it as it is. Gibbs sampling needs p(x_i | x_rest), which is what was learnt over p({i} | x). Both leave p invariant
# where the network is right. A chain that redraws from what was learnt, with cells picked uniformly, is the mistake of forgetting the mask.
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import optax
from energies import stationary

import gmlmdsl as gm

HERE = Path(__file__).resolve().parent
Array = np.ndarray
STATES = np.array(list(np.ndindex(2, 2, 2)))
CELLS = 3
FLIPPED = np.array([[x ^ 1 << (CELLS - 1 - i) for i in range(CELLS)] for x in range(len(STATES))])  # by configuration and cell


@cache
def adam(steps: int, rate: float) -> optax.GradientTransformation:
    """One object for all masks and seeds, which share what is compiled."""
    return optax.adam(optax.cosine_decay_schedule(rate, steps))


def learnt(p: Array, chances: Array, rows: int, steps: int, seed: int, rate: float = 1e-2) -> Array:
    """What a network gives the present value of a cell, given the others, by configuration and cell.

    Args:
        p: the distribution of the rows, in the order of binary numbers.
        chances: p({i} | x), by configuration and cell.
        rows: rows to learn from, the same for all masks.
        steps: of training, with 100 rows each.
        seed: of rows and network.
        rate: of learning at the first step.
    """
    model: Any = gm.load(HERE / "learnt.gmlm", W=chances.reshape(2, 2, 2, CELLS)).model()
    x = STATES[np.random.default_rng(seed).choice(len(p), rows, p=p)]
    method = gm.Training(steps=steps, batch_size=100)
    fit = model.fit(x, mask="seen", seed=seed, optimizer=adam(steps, rate), method=method, progress=False)
    tables = [np.exp(np.asarray(model.log_conditional(fit.params, STATES, K=[i]), float)) for i in range(CELLS)]
    return np.stack([t.reshape(len(STATES), 2)[np.arange(len(STATES)), STATES[:, i]] for i, t in enumerate(tables)], axis=1)


def exact(p: Array, chances: Array) -> Array:
    """What a network that is right has learnt."""
    joint = p[:, None] * chances
    return joint / (joint + np.take_along_axis(joint, FLIPPED, axis=0))


def plain(q: Array, chances: Array) -> Array:
    """p(x_i | x_rest) from what was learnt under a mask."""
    weight = q / chances
    return weight / (weight + np.take_along_axis(weight, FLIPPED, axis=0))


def chain(q: Array, chances: Array) -> Array:
    """The matrix of picking a cell by its chances and redrawing it from q."""
    n = len(q)
    matrix = np.zeros((n, n))
    for i in range(CELLS):
        matrix[np.arange(n), FLIPPED[:, i]] += chances[:, i] * (1 - q[:, i])
        matrix[np.arange(n), np.arange(n)] += chances[:, i] * q[:, i]
    return matrix


def distances(p: Array, q: Array, chances: Array) -> dict[str, float]:
    """Total variation to p of where the mask's own dynamics settle, Gibbs sampling, and the chain that forgets the mask."""
    uniform = np.full_like(chances, 1 / CELLS)
    matrices = {"own": chain(q, chances), "gibbs": chain(plain(q, chances), uniform), "forgets": chain(q, uniform)}
    return {name: float(f"{0.5 * np.abs(stationary(m) - p).sum():.6g}") for name, m in matrices.items()}
