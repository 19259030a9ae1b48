"""Expansion of the loops of samplers and of mixtures of masks.

No other module knows how many iterations they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from .._diagnostics import Faults, Source, Span, fail
from ..program import Program, forms, ir
from ._bound import Bound
from ._constants import listed_turns

MOST_TURNS = 10_000
Values = Mapping[str, ir.Literal]


def written_out(bound: Bound, faults: Faults) -> Program:
    """Return the program with loops in samplers and mixtures expanded.

    These are `repeat s in range(3) { .. }` and rows of mixtures with a `for`. A mask or sampler
    with too many iterations is left out.
    """
    p = bound.program
    masks = {n: faults.of(_written, m, bound, {}) for n, m in p.masks.items()}
    samplers = {n: faults.of(_written, s, bound, {}) for n, s in p.samplers.items()}
    return replace(
        p,
        masks={n: m for n, m in masks.items() if m is not None},
        samplers={n: s for n, s in samplers.items() if s is not None},
    )


def _written(part: Any, bound: Bound, values: Values) -> Any:
    """Return a part with its loops expanded.

    Index names of loops around the part are replaced by `values`.
    """
    match part:
        case ir.IndexValue():
            return values.get(part.name, part)
        case ir.Repeat(loop=ir.Loop() as loop):
            turns = _turns(ir.Clauses(part.span, (loop,)), bound, values)
            return ir.Cycle(part.span, tuple(_written(k, bound, {**values, **t}) for t in turns for k in part.body))
        case ir.MaskMixture(turns=(_, *_)) | ir.KernelMixture(turns=(_, *_)):
            return _rows(part, bound, values)
        case ir.Temper(source=ir.InputValue() as source):
            places = [ir.Literal(source.span, k) for k in range(len(bound.inputs[source.name]))]
            return _fields(replace(part, betas=tuple(replace(source, indices=(k,)) for k in places), source=None), bound, values)
        case Span() | Source() | forms.Form() | type() | str() | int() | float() | None:
            return part
        case tuple():
            items = tuple(_written(x, bound, values) for x in part)
            return items if any(new is not old for new, old in zip(items, part, strict=True)) else part
        case dict():
            entries = {k: _written(v, bound, values) for k, v in part.items()}
            return entries if any(entries[k] is not part[k] for k in part) else part
        case _:
            return _fields(part, bound, values) if is_dataclass(part) else part


def _fields(part: Any, bound: Bound, values: Values) -> Any:
    changed = {f.name: _written(getattr(part, f.name), bound, values) for f in fields(part) if f.init}
    if values and isinstance(part, ir.Update):
        changed["turn"] = ", ".join(f"{name} = {value.value}" for name, value in values.items())
    return replace(part, **changed) if any(changed[n] is not getattr(part, n) for n in changed) else part


def _rows(mixture: Any, bound: Bound, values: Values) -> Any:
    rows = []
    for row, clauses in zip(mixture.rows, mixture.turns, strict=True):
        turns = [{}] if clauses is None else _turns(clauses, bound, values)
        rows += [_written(row, bound, {**values, **t}) for t in turns]
    if not rows:
        help = "its loops run over nothing, or their `if` never holds"
        raise fail("E411", "no row of this mixture has a turn", mixture.span, "empty", help=help)
    return replace(mixture, rows=tuple(rows), turns=())


def _turns(clauses: ir.Clauses, bound: Bound, values: Values) -> list[dict[str, ir.Literal]]:
    names, count = listed_turns(ir.substitute_in_clauses(clauses, values), bound)
    if count > MOST_TURNS:
        raise fail("E412", f"this has {count:,} turns, each a statement of its own: more than {MOST_TURNS:,}", clauses.span, "too many")
    return [{n: ir.Literal(clauses.span, int(v[k])) for n, v in names.items()} for k in range(count)]
