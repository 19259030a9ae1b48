"""The properties of one mask in a comparison of masks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._quantity import Quantity

Array = np.ndarray


@dataclass(frozen=True)
class MaskReport:
    """The properties of one mask.

    Attributes:
        name: the name of the mask.
        blocks: the number of its blocks.
        mean_size: the mean block size E|K|.
        variance_one: tr G / tr I^-1, a ratio of sums over parameters. G is the covariance with one
            mask drawn for each row, and I^-1 is that of maximum likelihood.
        variance_all: the same ratio if each row's loss averages over every mask.
        worst_one: the largest ratio over all directions of the parameters, with one mask for each
            row. In an estimate it is the ratio of one slow direction.
        poincare: the Poincare constant of the mask's block dynamics.
        gradient: milliseconds of a gradient over 1000 rows.
        step: microseconds of one step of one chain, of 64 chains in parallel.
        unseen: parameters with a component on which the loss does not depend.
        averages: whether `fit` averages over all masks by default; otherwise it draws one for each
            row.
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
        """The variance under the default options of `fit`."""
        return float(self.variance_all if self.averages else self.variance_one)

    @property
    def per_second(self) -> float:
        """Relative efficiency per time of a gradient; nan if costs were not measured.

        It has no unit.
        """
        return float("nan") if self.gradient is None else 1 / (self.variance * float(self.gradient))
