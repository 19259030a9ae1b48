"""How a fit is made, and from what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import optax

from .._diagnostics import is_one_of
from ..data import verified_weights
from ..evaluate import Repeats
from ..graph import Lowered
from ..masks import AbstractMask

Array = np.ndarray


@dataclass(frozen=True)
class FitOptions:
    """How to fit; see `Model.fit`."""

    mask: str
    seed: int = 0
    n_masks: int | str | None = None
    weights: Any = None
    init: Mapping[str, Any] | None = None
    fixed: Mapping[str, Any] | None = None
    optimizer: optax.GradientTransformation | None = None
    batch_size: int | None = None
    max_steps: int | None = None
    progress: bool | None = None
    impute: bool | None = None
    weights_are: str = "importances"
    method: Any = None
    repeats: Repeats | None = None
    gaps: str = "sum"
    # what the data would leave open without priors, which a refit among many does not tell
    asks_data_alone: bool = True

    @property
    def ignores(self) -> bool:
        """Whether missing cells are left out, not summed out."""
        return is_one_of(self.gaps, ("ignore",))


@dataclass(frozen=True)
class Evidence:
    """What a fit was made from; it is kept beside the fit in memory, and never saved.

    `codes` has the shape (cells, rows), -1 where a cell is missing; `index` labels the rows, where
    they came with labels.
    """

    lowered: Lowered
    mask: AbstractMask
    codes: Array
    options: FitOptions
    index: Any = None


def row_weights(evidence: Evidence) -> Array:
    """The weights of the rows, 1 where none were given."""
    rows = evidence.codes.shape[1]
    return np.ones(rows) if evidence.options.weights is None else verified_weights(evidence.options.weights, rows)
