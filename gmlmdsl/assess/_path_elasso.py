"""EBIC of the penalised fits themselves, one regression for each block, and their averages."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..fit import Penalised
from ._path_runs import PathOptions, Runs

Array = np.ndarray
GAMMA = 0.25  # the default of IsingFit
# glmnet's grid: the last penalty as a share of the first, with more rows than predictors
SPAN = 1e-4


def span(run: Runs) -> float:
    """Return the last penalty as a share of the first: that of glmnet, by rows and predictors."""
    few = (run.size(run.whole) < run.touch.sum(axis=1)).any()
    return np.sqrt(SPAN) if few else SPAN


def penalised_ebic(run: Runs, selected: Array, loss: Array, options: PathOptions) -> Array:
    """Return 2 loss + degrees (log n + 2 gamma log(candidates)) of the penalised fits.

    Args:
        run: the fits of the path.
        selected: shape (penalties, copies, couplings), which couplings are not 0.
        loss: the loss of the penalised fits, summed over rows, shape (penalties, copies).
        options: the options of the path.

    Reference: van Borkulo et al. 2014, equation 3.
    """
    assert options.gamma is not None  # the defaults were filled in
    price = np.log(run.size(run.whole)) + 2 * options.gamma * np.log(np.maximum(run.touch.sum(axis=1), 1))
    return 2 * loss + (selected @ run.edges.degrees) * price


def averaged(run: Runs, found: list[Penalised], chosen: Array, kept: Array, others: dict[str, Array]) -> dict[str, Array]:
    """Return parameters whose couplings are means over the blocks that see them.

    Args:
        run: the fits of the path.
        found: the penalised fits.
        chosen: the chosen penalty of each copy.
        kept: shape (couplings,), which couplings are present by the rule; the others are 0.
        others: the values of the parameters that are no couplings.
    """
    owner, objective = np.asarray(run.whole.owner), run.whole.objective
    values = [jax.device_get(jax.vmap(lambda f: objective.frame.constrain(f, objective.held))(f.free)) for f in found]
    out: dict[str, Array] = {}
    at = 0
    for p in run.evidence.lowered.graph.parameters:
        of, mine = run.edges.groups.of[p.name].ravel(), owner[:, at : at + p.size]
        of_copy = np.where((mine < run.copies) & (of >= 0), mine, 0)
        seen = (mine < run.copies) & (of >= 0) & run.touch[of_copy, np.maximum(of, 0)]
        every = np.stack([np.asarray(v[p.name]).reshape(len(owner), -1) for v in values])
        array, entry = np.indices(mine.shape)
        estimates = every[chosen[of_copy], array, entry]
        mean = (estimates * seen).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        usual: Any = np.asarray(others[p.name])
        out[p.name] = np.where(of >= 0, np.where(kept[np.maximum(of, 0)], mean, 0.0), usual.ravel()).reshape(p.shape).astype(usual.dtype)
        at += p.size
    return out
