"""The samplers of a teacher, and the number of beams that the program gives each of them."""

from __future__ import annotations

from .._diagnostics import only
from ..program import Program, ir


def distillers(checked: Program, model: str, stated: str | None) -> list[str]:
    """Return the samplers of the teacher that may distil.

    These are the first of the following that applies:

    - the sampler `stated`;
    - the samplers with a known number of beams, most beams first;
    - the only sampler of the teacher.

    Raises:
        GmlmError: E506 for an unknown name, or if the file leaves the choice open.
    """
    known = by_beams(checked, model)
    if stated is None and known:
        return known
    return [only(stated, [name for name, s in checked.samplers.items() if s.model == model], "sampler", model)]


def by_beams(checked: Program, model: str) -> list[str]:
    """Return the samplers of a model with a literal number of beams in the file, most beams first.

    Samplers with equally many beams keep the order of the file.
    """
    names = [name for name, s in checked.samplers.items() if s.model == model]
    found = {name: beam for name in names if (beam := beams_of(checked, name)) is not None}
    return sorted(found, key=lambda name: -found[name])


def beams_of(checked: Program, sampler: str) -> int | None:
    """Return the number of beams of a sampler, or None if it is not a literal in the file."""
    body = checked.samplers[sampler].body
    found = body.arguments.get("beam", 1) if isinstance(body, ir.FormCall) else None
    found = found.value if isinstance(found, ir.Literal) else found
    return int(found) if isinstance(found, int | float) else None
