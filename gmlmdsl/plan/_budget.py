"""Limits on exact work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """Limits on exact work.

    Attributes:
        values: joint values of one block that are enumerated.
        terms: factor evaluations for one block.
        bytes: memory of one computation.
        flops: operations of one contraction.
        states: configurations of a transition matrix.
        support: distinct masks over which a loss averages.
        row_gaps: factor evaluations that sum out the missing cells of one row.
        all_gaps: factor evaluations that sum out the missing cells of all rows of a fit.
        row_hidden: table entries of the eliminations of one row.
        all_hidden: table entries of the eliminations of all rows that are summed at once.
        held: bytes of the draws, chains, copies or drawn masks of one call.
        redraws: cells that the chains of one call redraw, counted with repetition.
    """

    values: float = 2.0**20
    terms: float = 2.0**28
    bytes: float = 2.0**30
    flops: float = 1e10
    states: float = 2.0**13
    support: int = 4096
    row_gaps: float = 2.0**22
    all_gaps: float = 2.0**26
    row_hidden: float = 2.0**28
    all_hidden: float = 2.0**33
    held: float = 2.0**32
    redraws: float = 1e13


BUDGET = Budget()
