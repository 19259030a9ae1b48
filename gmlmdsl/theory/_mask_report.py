"""What is known of one mask, to be compared with others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._quantity import Quantity

Array = np.ndarray


@dataclass(frozen=True)
class MaskReport:
    """One mask.

    Attributes:
        name: of the mask.
        blocks: how many it has.
        mean_size: E|K|.
        variance_one: tr G / tr I^-1, a ratio of sums over parameters: G with one mask drawn for
            each row, I^-1 of maximum likelihood.
        variance_all: the same where each row's loss averages over every mask.
        worst_one: the largest ratio over all directions of the parameters, with one mask for each
            row; estimated, that of a slow one.
        poincare: the Poincare constant of its block dynamics.
        gradient: milliseconds of a gradient over 1000 rows.
        step: microseconds of one step of one chain, of 64 side by side.
        unseen: parameters with a part that the mask does not see.
        averages: whether `fit` averages over all its masks unasked; else one is drawn for each row.
    """

    name: str
    blocks: float
    mean_size: float
    variance_one: Quantity
    variance_all: Quantity
    worst_one: Quantity
    poincare: Quantity
    gradient: Quantity | None
    step: Quantity | None
    unseen: tuple[str, ...]
    averages: bool

    @property
    def variance(self) -> float:
        """In the regime that `fit` uses."""
        return float(self.variance_all if self.averages else self.variance_one)

    @property
    def per_second(self) -> float:
        """Efficiency per millisecond of gradient, in no unit; nan where costs were not measured."""
        return float("nan") if self.gradient is None else 1 / (self.variance * float(self.gradient))
