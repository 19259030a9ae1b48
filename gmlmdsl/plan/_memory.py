"""Memory of a call: the peak of a sum by elimination, and arrays that grow with a user's number."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._diagnostics import Span, fail
from ..graph import FactorGraph
from ._elimination import Elimination
from ._loop import plan_loop
from ._stages import Stage
from ._tables import factor_tables, place_factors
from .limits import BUDGET, LARGE_LEVEL, MOST_WRITTEN_OUT


def sum_memory(graph: FactorGraph, plan: Elimination, rows: int = 1, bytes_per_number: int = 4) -> float:
    """Return an estimate of the peak number of bytes that `log_sum` holds, without its arguments.

    They are bytes of factor tables, messages, and the tables of one level. Factor tables count
    twice, because they are concatenated from two arrays. Messages are held until the last stage
    that takes them, and each message that a level takes is gathered once more. A loop holds all
    messages and, for each factor table, all its uses, for every row if a table differs between
    rows. The estimate is within a factor of two of what XLA allocates on a CPU for the models of
    its test.

    Args:
        graph: the factor graph.
        plan: the elimination.
        rows: the number of rows that are summed at once.
        bytes_per_number: the size of a float.
    """
    tables, uses = factor_tables(graph, plan, place_factors(graph, plan))
    factors = sum(t.entries * (rows if t.by_row else 1) for t in tables)
    if plan.is_looped:
        loop = plan_loop(plan, tables, uses[0])
        width = rows if any(t.by_row for t in tables) else 1
        return bytes_per_number * (factors + width * (len(loop.component) + loop.messages + loop.turn))
    last = list(range(len(plan.stages)))
    for k, stage in enumerate(plan.stages):
        for feed in stage.feeds:
            last[feed.source] = max(last[feed.source], k)
    peak = max((_held(plan.stages, last, k) for k in range(len(plan.stages))), default=0.0)
    return bytes_per_number * (2 * factors + rows * peak)


def _held(stages: Sequence[Stage], last: Sequence[int], k: int) -> float:
    """Return the number of floats that are held while a stage runs, for one row."""
    stage = stages[k]
    messages = sum(_messages(stages[j]) for j in range(k) if last[j] >= k) + _messages(stage)
    gathered = sum(stage.width * math.prod(stage.radix[a] for a in stage.axes(f)) for f in stage.feeds if f.to is not None or f.slots.size)
    fused = stage.levels == 1 and stage.entries > LARGE_LEVEL and stage.radix[0] <= MOST_WRITTEN_OUT
    return messages + gathered + (0.0 if fused else stage.width * stage.entries)


def _messages(stage: Stage) -> float:
    return (stage.size + 1) * stage.entries / stage.radix[0]


def verify_held(number: float, what: str, help: str, span: Span | None = None) -> None:
    """Raise if a call would hold too much memory; this is checked before the call starts.

    Args:
        number: an estimate of the bytes.
        what: the objects that take them, in the plural: "the draws".
        help: the suggested fix.
        span: the place in the text that requests them.

    Raises:
        GmlmError: E601 with the estimate and the limit.
    """
    if number > BUDGET.held:
        figure = f"{min(number, 1e300) / 2**30:.3g} GiB"
        message = f"{what} take about {figure} of memory, more than the limit of {BUDGET.held / 2**30:.3g} GiB"
        raise fail("E601", message, span, figure * (span is not None), help)
