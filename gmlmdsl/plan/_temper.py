"""The ladder of a `temper`: its betas in order, before any function is built."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._diagnostics import fail
from ..graph import Lowered
from ..program import ir


@dataclass(frozen=True)
class TemperPlan:
    """The replicas of a `temper`.

    Attributes:
        betas: the betas, ascending and distinct, with 1 among them.
    """

    betas: tuple[float, ...]

    @property
    def cold(self) -> int:
        """The place of beta 1, whose replica gives the draws."""
        return self.betas.index(1.0)

    @property
    def pairs(self) -> tuple[str, ...]:
        """The names of the pairs of neighbours: `0.5 to 1`."""
        return tuple(f"{low:g} to {high:g}" for low, high in zip(self.betas, self.betas[1:], strict=False))

    @property
    def words(self) -> str:
        """One line for `gmlm explain`."""
        n, ladder = len(self.betas), ", ".join(f"{b:g}" for b in self.betas)
        if n == 1:
            return "1 replica at beta 1: nothing to exchange"
        return f"{n} replicas at beta {ladder}: {n} times the work of the body, and log p of each replica once for the exchanges"


def plan_temper(lowered: Lowered, kernel: ir.Temper) -> TemperPlan:
    """Return the ladder of a `temper`.

    Raises:
        GmlmError: E421 unless the betas are finite, at least 0 and distinct, with 1 among them.
    """
    betas = [lowered.bound.number(b) for b in kernel.betas]
    for beta, e in zip(betas, kernel.betas, strict=True):
        if not np.isfinite(beta) or beta < 0:
            help = "betas rise to 1, as in `[0.25, 0.5, 1]`"
            raise fail("E421", f"a beta is finite and at least 0, found {beta:g}", e.span, f"{beta:g}", help=help)
        if betas.count(beta) > 1:
            raise fail("E421", f"beta {beta:g} is listed twice", e.span, f"{beta:g} again", help="each beta has one replica: list it once")
    if 1 not in betas:
        listed = ", ".join(f"{b:g}" for b in betas)
        message = f"the draws are those at beta 1, which `betas` must list: found {listed}"
        raise fail("E421", message, kernel.betas[0].span if betas else kernel.span, "no beta 1", help="add 1 to `betas`")
    return TemperPlan(tuple(sorted(betas)))
