"""Networks that the laboratories train: fitted once, kept as a file beside the results."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import optax

import gmlmdsl as gm


@cache
def adam(rate: float, steps: int) -> optax.GradientTransformation:
    """Adam with a warm-up of a tenth of the steps and a cosine down to 0; one object for all seeds, which share what is compiled."""
    return optax.adam(optax.warmup_cosine_decay_schedule(0.0, rate, max(1, steps // 10), steps))


def fitted(path: Path, model: gm.ConditionalModel, rows: np.ndarray, mask: str, seed: int, rate: float, steps: int, batch: int) -> Any:
    """The parameters of a network that learns from rows under a mask; from the file where there is one."""
    if not path.exists():
        method = gm.Training(steps=steps, batch_size=batch)
        fit = model.fit(rows, mask, seed=seed, optimizer=adam(rate, steps), method=method, progress=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        fit.save(path)
    return dict(gm.load_fit(path, allow_python=True).params)


def weights_of(params: Any) -> int:
    """The number of weights of a network."""
    import jax

    return sum(int(a.size) for a in jax.tree.leaves(params))
