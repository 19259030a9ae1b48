"""Loops of samplers and of mixtures of masks, written out: the one place that knows how many turns they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from .._diagnostics import Faults, Source, Span, fail
from ..program import Program, forms, ir
from ._bound import Bound
from ._constants import listed_turns

MOST_TURNS = 10_000
Values = Mapping[str, ir.Expression]


def written_out(bound: Bound, faults: Faults) -> Program:
    """The program with `repeat s in range(3) { .. }` and rows of mixtures with a `for` written out; what has too many turns is left out."""
    p = bound.program
    masks = {n: faults.of(_written, m, bound, {}) for n, m in p.masks.items()}
    samplers = {n: faults.of(_written, s, bound, {}) for n, s in p.samplers.items()}
    return replace(
        p,
        masks={n: m for n, m in masks.items() if m is not None},
        samplers={n: s for n, s in samplers.items() if s is not None},
    )


def _written(part: Any, bound: Bound, values: Values) -> Any:
    """A part with its loops written out, index names of loops around it replaced by `values`."""
    if isinstance(part, ir.IndexValue):
        return values.get(part.name, part)
    if isinstance(part, ir.Repeat) and part.loop is not None:
        turns = _turns(ir.Clauses(part.span, (part.loop,)), bound, values)
        return ir.Cycle(part.span, tuple(_written(k, bound, {**values, **t}) for t in turns for k in part.body))
    if isinstance(part, ir.MaskMixture) and part.turns:
        rows = []
        for row, clauses in zip(part.rows, part.turns, strict=True):
            turns = [{}] if clauses is None else _turns(clauses, bound, values)
            rows += [_written(row, bound, {**values, **t}) for t in turns]
        if not rows:
            raise fail(
                "E411",
                "no row of this mixture has a turn",
                part.span,
                "empty",
                help="its loops run over nothing, or their `if` never holds",
            )
        return replace(part, rows=tuple(rows), turns=())
    if isinstance(part, tuple):
        return tuple(_written(x, bound, values) for x in part)
    if isinstance(part, dict):
        return {k: _written(v, bound, values) for k, v in part.items()}
    if not is_dataclass(part) or isinstance(part, Span | Source | forms.Form | type):
        return part
    changed = {f.name: _written(getattr(part, f.name), bound, values) for f in fields(part) if f.init}
    return part if all(changed[n] is getattr(part, n) or changed[n] == getattr(part, n) for n in changed) else replace(part, **changed)


def _turns(clauses: ir.Clauses, bound: Bound, values: Values) -> list[dict[str, ir.Expression]]:
    names, count = listed_turns(ir.substitute_in_clauses(clauses, values), bound)
    if count > MOST_TURNS:
        raise fail("E412", f"this has {count:,} turns, each a statement of its own: more than {MOST_TURNS:,}", clauses.span, "too many")
    return [{n: ir.Literal(clauses.span, int(v[k])) for n, v in names.items()} for k in range(count)]
