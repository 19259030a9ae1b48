"""Checks of a program for `gmlm check`, as far as it can be bound without the missing inputs."""

from __future__ import annotations

from collections.abc import Mapping

from .._diagnostics import Diagnostic, in_text_order, listed
from .._types import InputLike
from ..graph import bind_sound
from ..program import Program, allowed, ir, without_inputs
from ._bound_faults import sound_model
from ._check_size import too_large
from ._lints import lint_sizes

MOST_TEXT = 100_000  # Larger programs, by the characters of their files, are not bound.
MOST_EDGES = 100_000  # Larger graphs, by their nodes and edges, are left out.
LEFT = ": only its text is checked"
UNSAID = ": indices and sizes that depend on it are not looked at; `--input NAME=VALUE` gives one"


def check_bound(program: Program, inputs: Mapping[str, InputLike]) -> tuple[tuple[Diagnostic, ...], tuple[str, ...]]:
    """Bind all parts of a program that need no missing input, and check them.

    Args:
        program: a checked program.
        inputs: values by name, as for `bind`. Parts that need an input without a value are skipped.

    Returns:
        The faults and warnings in the order of the text, without warnings that a comment allows;
        and a description of the parts that were skipped because an input has no value, or because
        they would take long.
    """
    if sum(len(s.text) for s in program.sources) > MOST_TEXT:
        return (), (f"the program has more than {MOST_TEXT:,} characters{LEFT}",)
    missing = {d.name for d in program.inputs.values() if d.name not in inputs and not _has_default(d)}
    known = without_inputs(program, missing)
    bound, found = bind_sound(known, inputs, MOST_EDGES)
    found += allowed(bound.notes, program.allowances)
    left = [] if found else [g for g in known.graphs if g not in bound.program.graphs]
    unsaid = [f"{listed(sorted(missing))} without a default{UNSAID}"] if missing and known != program else []
    large = [f"graph `{g}` has more than {MOST_EDGES:,} nodes and edges{LEFT}" for g in left]
    for name in bound.program.models:
        words = too_large(bound, name)
        if words:
            large.append(f"{words}{LEFT}")
            continue
        lowered, faults = sound_model(bound, name)
        found += faults
        if not faults and bound.program.models[name] == program.models[name]:
            found += allowed(lint_sizes(lowered, bound.program, name), program.allowances)
    return in_text_order(found), (*unsaid, *large)


def _has_default(d: ir.Input) -> bool:
    """Return whether an input may be omitted.

    One number for all entries does not determine how many entries there are.
    """
    return isinstance(d.default, ir.Table) or (d.default is not None and not any(a.name for a in d.axes))
