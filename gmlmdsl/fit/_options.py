"""The options and the data of a fit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import optax

from .._diagnostics import is_one_of
from .._types import ArrayLike, Index, ParamsLike
from ..data import verified_weights
from ..evaluate import Repeats
from ..graph import Lowered
from ..masks import AbstractMask

Array = np.ndarray


@dataclass(frozen=True)
class FitOptions:
    """The options of a fit; see `Model.fit`."""

    mask: str
    seed: int = 0
    n_masks: int | str | None = None
    weights: ArrayLike | None = None
    init: ParamsLike | None = None
    fixed: ParamsLike | None = None
    optimizer: optax.GradientTransformation | None = None
    batch_size: int | None = None
    max_steps: int | None = None
    progress: bool | None = None
    impute: bool | None = None
    weights_are: str = "importances"
    method: Any = None
    repeats: Repeats | None = None
    gaps: str = "sum"
    # whether the directions that data alone leave open are computed; refits of many do not need
    # them
    asks_data_alone: bool = True
    mesh_axis: str | None = None
    checkpoint: str | os.PathLike[str] | None = None

    @property
    def ignores(self) -> bool:
        """Whether missing cells are left out instead of summed out."""
        return is_one_of(self.gaps, ("ignore",))


@dataclass(frozen=True)
class Evidence:
    """The inputs of a fit; they are kept with the fit in memory and are never saved.

    `codes` has the shape (cells, rows), with -1 for a missing cell. `index` contains the labels of
    the rows, if the rows came with labels.
    """

    lowered: Lowered
    mask: AbstractMask
    codes: Array
    options: FitOptions
    index: Index | None = None


def row_weights(evidence: Evidence) -> Array:
    """Return the weights of the rows, 1 if none were given."""
    rows = evidence.codes.shape[1]
    return np.ones(rows) if evidence.options.weights is None else verified_weights(evidence.options.weights, rows)
