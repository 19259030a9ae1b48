"""Bounded parameters are fitted on an unconstrained scale, which is flat at an edge: whether one belongs there is asked of the slope."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..evaluate import Objective, bijection, gradient_at, slopes

NEAR = 1e-6  # of an edge
PULL = 1e-6  # per row


def off_wrong_edges(objective: Objective, free: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """Entries at an edge from which the objective falls inwards, moved back to where the fit began; and the largest such slope.

    At a minimiser on an edge the slope points outwards (Karush, Kuhn and Tucker); where it does not, a step has gone too far.
    """
    bounded = [p for p in objective.frame.host.parameters if p.name in free and p.kind in ("positive", "bounded")]
    if not bounded:
        return free, 0.0
    gradient, out, largest = gradient_at(objective, free), dict(free), 0.0
    for p in bounded:
        slope = slopes(p, free[p.name]).reshape(p.shape)
        value = np.asarray(bijection(p)(free[p.name]))
        inward = np.where(value - p.lower < NEAR, -1.0, np.where(p.upper - value < NEAR, 1.0, 0.0))
        fall = inward * np.asarray(gradient[p.name]) / np.where(slope == 0, 1e-300, slope)
        wrong = fall > PULL
        largest = max(largest, float(fall[wrong].max(initial=0.0)))
        begin = np.asarray(bijection(p).inv(objective.held[p.name]))
        out[p.name] = jnp.asarray(np.where(wrong, begin, np.asarray(free[p.name])))
    return out, largest
