"""The fits of a path: one objective under many penalties and weights of rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._progress import shows_progress, tracked
from ..evaluate import init_params, log_prior, value_at
from ..fit import Evidence, Penalised, largest_penalty, minimise_penalised, reopen
from ._path_groups import Edges

if TYPE_CHECKING:
    from ..evaluate import Objective

Array = np.ndarray


@dataclass(frozen=True)
class PathOptions:
    """How a path is made and what chooses its model; see `Model.fit_path`."""

    penalty: Any
    criterion: str
    gamma: float
    on: Sequence[str] | None
    folds: int
    subsamples: int
    threshold: float
    wrong: float
    seed: int
    progress: bool | None


class Runs:
    """The objective of one path under many penalties and weights of rows, which share one program."""

    def __init__(self, evidence: Evidence, edges: Edges, weights: Array):
        self.evidence, self.edges, self.weights = evidence, edges, weights
        self.start = init_params(evidence.lowered.graph)

    def objective(self, weights: Array) -> Objective:
        """The objective with these weights of rows."""
        options = dataclasses.replace(self.evidence.options, weights=weights)
        return reopen(dataclasses.replace(self.evidence, options=options), self.start)[0]

    def path(self, penalties: Array, weights: Array, what: str, options: PathOptions) -> list[Penalised]:
        """Minimisers under each penalty, each started at the one before."""
        objective, found = self.objective(weights), []
        free = objective.frame.unconstrain(objective.held)
        curvature = 1.0
        for k in tracked(range(len(penalties)), what, shows_progress(options.progress) and what == "path"):
            one = minimise_penalised(objective, free, self.edges.groups, float(penalties[k]), curvature)
            found.append(one)
            free, curvature = one.free, one.curvature
        self.frame, self.held = objective.frame, objective.held
        return found

    def largest(self) -> float:
        """The least penalty without couplings."""
        objective = self.objective(self.weights)
        none = minimise_penalised(objective, objective.frame.unconstrain(objective.held), self.edges.groups, 1e12)
        return largest_penalty(objective, none.free, self.edges.groups)

    def params(self, found: Penalised) -> dict[str, Any]:
        """Its parameters."""
        return self.frame.constrain(found.free, self.held)

    def selected(self, found: Penalised) -> Array:
        """Which groups are not 0."""
        out = np.zeros(len(self.edges.names), bool)
        for name, of in self.edges.groups.of.items():
            if name in found.free:
                out[of[(of >= 0) & (np.asarray(found.free[name]) != 0)]] = True
        return out

    def loss(self, params: dict[str, Any], weights: Array) -> float:
        """c * sum over rows of w loss."""
        objective = self.objective(weights)
        return float(value_at(objective, params)) * float(objective.scale) + float(log_prior(objective.frame.host, params))
