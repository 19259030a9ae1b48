"""Samplers of a teacher by the beams that they keep, as the program says it."""

from __future__ import annotations

from .._diagnostics import only
from ..program import Program, ir


def distillers(checked: Program, model: str, stated: str | None) -> list[str]:
    """Samplers of the teacher that may distil: the named one alone, else those whose beams are known, most beams first, else its only one.

    Raises:
        GmlmError: E506 for an unknown name, or where the file does not say which.
    """
    known = by_beams(checked, model)
    if stated is None and known:
        return known
    return [only(stated, [name for name, s in checked.samplers.items() if s.model == model], "sampler", model)]


def by_beams(checked: Program, model: str) -> list[str]:
    """The samplers of a model whose beams the file says in digits, those with most first, else as they stand in the file."""
    names = [name for name, s in checked.samplers.items() if s.model == model]
    found = {name: beam for name in names if (beam := beams_of(checked, name)) is not None}
    return sorted(found, key=lambda name: -found[name])


def beams_of(checked: Program, sampler: str) -> int | None:
    """How many beams a sampler keeps, where the file says so in digits."""
    body = checked.samplers[sampler].body
    found = body.arguments.get("beam", 1) if isinstance(body, ir.FormCall) else None
    found = found.value if isinstance(found, ir.Literal) else found
    return int(found) if isinstance(found, int | float) else None
