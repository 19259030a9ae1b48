"""Printing of the result of each stage of the compiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from .._diagnostics import GmlmError, Source, Span, counted
from ..program import Program, forms, ir
from .limits import SHOWN_ENTRIES, STAGE_WIDTH

if TYPE_CHECKING:
    import numpy as np

    from ..graph import Bound, Lowered

STAGES = ("tree", "program", "graph", "plan")


def print_stage(stage: str, program: Program, bound: Bound | None) -> str:
    """Return the syntax tree, the checked program, the factor graphs, or the plans as text.

    Args:
        stage: one of `STAGES`.
        program: a checked program.
        bound: the program with its inputs, which `graph` and `plan` need.
    """
    if stage == "tree":
        from ..syntax import parse

        trees = [parse(s.text, s.path) for s in program.sources]
        return "\n".join(line for t in trees for statement in t.statements for line in _dump(statement)) + "\n"
    if stage == "program":
        kinds = ("inputs", "domains", "index_sets", "graphs", "networks", "models", "masks", "judges", "samplers")
        lines = [line for kind in kinds for value in getattr(program, kind).values() for line in _dump(value)]
        return "\n".join(lines) + "\n"
    assert bound is not None
    lines = []
    for name in program.models:
        lines += list(_graph(name, bound) if stage == "graph" else _plan(name, program, bound))
    return "\n".join(lines) + "\n"


def _dump(value: object, label: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the lines of a tree of dataclasses, one part per line if one line is too short."""
    pad = "  " * depth
    short = _short(value)
    if len(pad) + len(label) + len(short) <= STAGE_WIDTH:
        yield f"{pad}{label}{short}"
        return
    if is_dataclass(value):
        yield f"{pad}{label}{type(value).__name__}"
        for f in fields(value):
            part = getattr(value, f.name)
            if not isinstance(part, Span) and part not in (None, "", (), {}):
                yield from _dump(part, f"{f.name}: ", depth + 1)
    elif isinstance(value, Mapping):
        yield f"{pad}{label}".rstrip()
        for k, v in value.items():
            yield from _dump(v, f"{k}: ", depth + 1)
    elif isinstance(value, tuple | list):
        yield f"{pad}{label}".rstrip()
        for v in value:
            yield from _dump(v, "- ", depth + 1)
    else:
        yield f"{pad}{label}{short}"


def _short(value: object) -> str:
    if is_dataclass(value):
        if isinstance(value, forms.Form):
            return value.name
        parts = [
            f"{f.name}={_short(getattr(value, f.name))}"
            for f in fields(value)
            if not isinstance(getattr(value, f.name), Span | Source) and getattr(value, f.name) not in (None, "", (), {})
        ]
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, tuple | list):
        return f"({', '.join(_short(v) for v in value)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{k}: {_short(v)}' for k, v in value.items())}}}"
    return repr(value)


def _graph(name: str, bound: Bound) -> Iterator[str]:
    from ..graph import lower_model

    graph = lower_model(bound, name).graph
    yield f"FactorGraph of {name}: {counted(graph.n_random, 'cell')}, {counted(sum(g.n for g in graph.groups), 'factor')}"
    for v in graph.variables:
        yield f"  {v.role} {v.name}: {v.kind}, shape {v.shape}, positions {v.offset}..{v.offset + v.size - 1}, {len(v.labels)} values"
    for v in graph.given:
        yield f"  given {v.name}: {v.kind}, shape {v.shape}, read at the row that cell {graph.row_cell} says"
    if graph.network is not None:
        form = graph.network
        options = ", ".join(f"{name}={value!r}" for name, value in form.options.items())
        given = ", ".join(f"{name} ({n} entries, {q} values)" if q else f"{name} ({n} numbers)" for name, n, q in form.given)
        yield f"  network {form.label}: {form.name}({options}), {form.n_cells} cells, {form.n_values} values"
        yield f"    given: {given or 'nothing'}"
    for p in graph.parameters:
        prior = f", prior {p.prior.name}" if p.prior is not None else ""
        yield f"  param {p.name}: {p.kind}, shape {p.shape}{prior}{f', gauge axes {p.gauge}' if p.gauge else ''}"
    for g in graph.groups:
        yield f"  {g.kind} `{g.span.text}`: {g.n} instances"
        yield f"    root: {g.root}"
        for k in range(g.cells.shape[1]):
            yield f"    cells of slot {k}: {_head(g.cells[:, k])}"
        for k, column in enumerate(g.columns):
            yield f"    column {k}, shape {column.shape}: {_head(column.ravel())}"


def _head(array: np.ndarray) -> str:
    shown = " ".join(f"{v:g}" for v in array[:SHOWN_ENTRIES].tolist())
    return shown + (" .." if len(array) > SHOWN_ENTRIES else "")


def _plan(name: str, program: Program, bound: Bound) -> Iterator[str]:
    from ..graph import lower_model
    from ..masks import lower_mask
    from ..plan import plan_elimination, plan_use, with_partial_sums

    program = bound.program
    lowered = lower_model(bound, name)
    if lowered.graph.network is not None:
        yield f"plans of {name}: none; its network predicts any K in one pass"
        return
    yield f"plans of {name}"
    yield f"  log Z: {_or_refusal(lambda: plan_elimination(with_partial_sums(lowered.graph)).words)}"
    for mask in (m for m in program.masks.values() if m.model == name):
        if mask.body.is_percolation:
            yield f"  mask {mask.name}: {mask.body.span.text}, drawn by the updates that name it"
            continue
        used = plan_use(lowered.graph, lower_mask(lowered, mask))
        yield f"  mask {mask.name}: support {used.support:.6g}, reaches {counted(used.reached, 'cell')}; {used.block.words}"
    for sampler in (s for s in program.samplers.values() if s.model == name):
        yield f"  sampler {sampler.name}"
        for update in ir.updates_in(sampler.body):
            yield f"    {_or_refusal(lambda u=update: _line(lowered, u))}"  # type: ignore[misc]


def _line(lowered: Lowered, update: ir.Sweep | ir.RandomUpdate) -> str:
    from ..plan import plan_update, update_line

    return update_line(plan_update(lowered, update))


def _or_refusal(words: Any) -> str:
    try:
        return words()
    except GmlmError as error:
        return f"refused: {error.diagnostics[0].message}"
