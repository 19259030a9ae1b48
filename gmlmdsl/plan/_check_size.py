"""Checks for `gmlm check` of models that can be bound, if the estimated work is not too long."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from .._diagnostics import Diagnostic, Faults, Span, counted, in_text_order, listed
from .._types import InputLike
from ..graph import Bound, Lowered, bind_sound, constant
from ..program import Program, allowed, ir, without_inputs
from ._bound_faults import sound_model
from ._lints import lint_sizes
from .limits import MOST_CHECK_WORK, MOST_CHECKED_CELLS, MOST_CHECKED_EDGES, MOST_CHECKED_TEXT, PER_PART

# The operands of these operators are tried over all values of their cells.
RISKY = frozenset(("/", "//", "%", "^", "exp", "log", "sqrt"))
LEFT = ": only its text is checked"
UNSAID = ": indices and sizes that depend on it are not looked at; `--input NAME=VALUE` gives one"


def too_large(bound: Bound, name: str) -> str:
    """Return the reason why a check does not bind a model, or an empty text if it does.

    The reason is the number of cells and entries of given variables, or the work.
    """
    work = _Work(bound, bound.program.models[name])
    cells = sum(work.turns(v.axes) for v in work.model.variables.values())
    if cells > MOST_CHECKED_CELLS:
        return f"model `{name}` has {cells:,.0f} cells, more than {MOST_CHECKED_CELLS:,}"
    parts = work.parts()
    total = sum(cost for cost, _, _ in parts)
    if total <= MOST_CHECK_WORK:
        return ""
    cost, span, words = max(parts, key=lambda part: part[0])
    return f"{words}, at {span}" if cost > total / 2 else f"model `{name}` has {counted(len(parts), 'statement')}, too many to go through"


class _Work:
    """The work of expressions; that of each `let` is computed once."""

    def __init__(self, bound: Bound, model: ir.Model):
        self.bound, self.model = bound, model
        self.lets: dict[str, tuple[float, dict[ir.VariableValue, float]]] = {}
        # Each index name has the number of members of its set at its last occurrence.
        self.counts: dict[str, int] = {}

    def parts(self) -> list[tuple[float, Span, str]]:
        """Return the work, the place and the reason for large work of each part of the model.

        Parts are declarations of parameters, statements, masks and updates.
        """
        model = self.model
        found = [
            (self.turns(p.axes), p.span, f"parameter `{p.name}` has {_number(self.turns(p.axes))} entries")
            for p in model.parameters.values()
        ]
        terms = [(f.value, f) for f in model.factors] + [(r.condition, r) for r in model.requires]
        terms += [(part, d) for d in model.distributed for part in (d.target, d.probabilities)]
        found += [(*self.statement(e, s.clauses, s.span),) for e, s in terms]
        masks = [m for m in self.bound.program.masks.values() if m.model == model.name]
        found += [(self.mask(m.body), m.span, f"mask `{m.name}` has too many blocks, or weights to compute") for m in masks]
        return [*found, *((cost, k.span, "an update has too many blocks") for k, cost in self.kernels())]

    def kernels(self) -> list[tuple[ir.Kernel, float]]:
        """Return the work of each update."""
        samplers = [s for s in self.bound.program.samplers.values() if s.model == self.model.name]
        updates = sorted((u for s in samplers for u in ir.updates_in(s.body)), key=lambda u: u.drawn_mask is None)
        return [(u, u.either(lambda sweep: self.block(sweep.blocks), lambda random: self.mask(random.mask.body))) for u in updates]

    def mask(self, body: ir.MaskBody) -> float:
        if body.nesting[0] >= MOST_CHECKED_CELLS:
            return math.inf
        return sum(self._blocks(leaf) if leaf.weighted_blocks() else 1.0 for leaf in body.leaves())

    def _blocks(self, leaf: ir.MaskBody) -> float:
        weights = sum(self.turns(t.clauses.loops) * math.prod(self.work(w)) for t, w in leaf.weighted_blocks() if w is not None)
        return weights + sum(self.block(t) for t, _ in leaf.weighted_blocks())

    def block(self, term: ir.BlockTerm) -> float:
        rows = [loop.over for loop in term.clauses.loops if loop.over.lists_cells]
        width = math.prod((self.bound.graphs[s.graph].part(s.part).shape[1] for s in rows), start=1.0)
        whole = [self.model.variables[c.variable].axes for c in term.cells if c.indices is None]
        listed = len(term.cells) - len(whole)
        return self.turns(term.clauses.loops) * (width * listed + sum(self.turns(axes) for axes in whole))

    def turns(self, loops: Iterable[ir.Loop]) -> float:
        """Return the number of iterations of loops.

        A set that is empty or too large, which is a separate fault, counts as one iteration.
        """
        total, faults = 1.0, Faults()
        for loop in loops:
            size = self._most if loop.over.is_dependent else self.bound.set_size
            count = faults.of(size, loop.over) or 1
            self.counts |= dict.fromkeys(loop.names, count)
            total *= count
        return total

    def _most(self, over: ir.SetOf) -> int:
        """Return the largest number of members of a set that depends on names around it.

        If these names take many values, only some of the values are tried.
        """
        if over.kind == "graph":
            return self.bound.graphs[over.graph].neighbours[0].shape[1]
        ends = [e for e in (over.size, over.start) if e is not None]
        names = sorted({name for e in ends for name in _names(e)} & set(self.counts))
        each = int(MOST_CHECKED_CELLS ** (1 / max(1, len(names))))
        taken = [np.unique(np.linspace(0, self.counts[n] - 1, min(each, self.counts[n])).astype(np.int64)) for n in names]
        grid = dict(zip(names, (a.ravel() for a in np.meshgrid(*taken)), strict=True))
        stop, *start = [constant(e, self.bound, grid) for e in ends]
        return int(np.max(stop - sum(start), initial=0))

    def values(self, domain: ir.Domain) -> int:
        """Return the number of values of a cell, or one for a faulty domain."""
        return Faults().of(self.bound.domain_size, domain) or 1

    def statement(self, e: ir.Expression, clauses: ir.Clauses, span: Span) -> tuple[float, Span, str]:
        """Return the work of a statement's expression, its place, and why it is large.

        The reason is either the number of iterations or the number of values of its cells.
        """
        turns = self.turns(clauses.loops)
        parts, values = self.work(e)
        tried = values if self.is_tried(e) else 1.0
        of_cells = f"a statement has cells with {_number(values)} joint values, too many to try"
        of_loops = f"{_number(turns)} iterations" if turns > parts else f"{_number(parts)} terms in its sums"
        words = of_cells if tried > turns * parts else f"a statement has {of_loops}, too many to go through"
        return PER_PART * len(list(ir.walk(e))) + turns * parts * tried, span, words

    def is_tried(self, e: ir.Expression) -> bool:
        """Return whether all values of the cells of an expression are tried.

        This is so if an operation may have no value, or if an index is computed from cells.
        """
        entered: set[str] = set()
        todo = [e]
        while todo:
            for part in ir.walk(todo.pop()):
                if isinstance(part, ir.Operation) and part.operator in RISKY:
                    return True
                if isinstance(part, ir.ParameterValue | ir.InputValue | ir.VariableValue | ir.LetValue) and any(
                    map(_is_computed, part.indices)
                ):
                    return True
                if isinstance(part, ir.LetValue) and part.name not in entered:
                    entered.add(part.name)
                    todo.append(self.model.lets[part.name].value)
        return False

    def work(self, e: ir.Expression) -> tuple[float, float]:
        """Return how many parts an expression has in one iteration, and how many joint values.

        Each cell counts once in the number of joint values.
        """
        parts, cells = self.mentioned(e)
        counts: dict[str, float] = {}
        for cell, turns in cells.items():
            counts[cell.name] = counts.get(cell.name, 0.0) + turns
        variables = [self.model.variables[name] for name in counts]
        known = [_power(self.values(v.domain), min(counts[v.name], self.turns(v.axes))) for v in variables]
        return parts, math.prod(known)

    def mentioned(self, e: ir.Expression) -> tuple[float, dict[ir.VariableValue, float]]:
        """Return the parts of an expression, and its cells as they are written.

        Each cell comes with the number of cells for which it stands in sums around it.
        """
        match e:
            case ir.Sum():
                return self.of_sum(e)
            case ir.LetValue():
                found = [self.of_let(e)]
            case ir.VariableValue() if self.model.variables[e.name].role != "given":
                found = [(1.0, {e: 1.0})]
            case _:
                found = [(1.0, {})]
        found += [self.mentioned(part) for part in ir.children(e)]
        return sum(parts for parts, _ in found), _joined(cells for _, cells in found)

    def of_sum(self, e: ir.Sum) -> tuple[float, dict[ir.VariableValue, float]]:
        """Return the parts and cells of a sum.

        A cell at an index of its loops counts once an iteration.
        """
        turns, names = self.turns(e.clauses.loops), {name for loop in e.clauses.loops for name in loop.names}
        (parts, body), *others = [self.mentioned(part) for part in ir.children(e)]
        body = {c: n * turns if _names(c) & names else n for c, n in body.items()}
        return turns * parts, _joined([body, *(cells for _, cells in others)])

    def of_let(self, e: ir.LetValue) -> tuple[float, dict[ir.VariableValue, float]]:
        """Return the parts and cells of a `let` at the indices of its use."""
        declared = self.model.lets[e.name]
        if e.name not in self.lets:
            self.turns(declared.axes)
            self.lets[e.name] = self.mentioned(declared.value)
        parts, cells = self.lets[e.name]
        names = [name for loop in declared.axes for name in loop.names]
        at = dict(zip(names, e.indices, strict=False))
        return parts, _joined({cast(ir.VariableValue, ir.substitute(cell, at)): n} for cell, n in cells.items())


def _joined(found: Iterable[dict[ir.VariableValue, float]]) -> dict[ir.VariableValue, float]:
    """Return the cells of several parts; a cell that is written in two parts counts once."""
    out: dict[ir.VariableValue, float] = {}
    for cells in found:
        for cell, turns in cells.items():
            out[cell] = max(turns, out.get(cell, 0.0))
    return out


def _names(e: ir.Expression) -> set[str]:
    """Return the index names in an expression."""
    return {part.name for part in ir.walk(e) if isinstance(part, ir.IndexValue)}


def _is_computed(index: ir.Expression) -> bool:
    return not isinstance(index, ir.VariableValue) and any(isinstance(p, ir.VariableValue | ir.LetValue) for p in ir.walk(index))


def _number(n: float) -> str:
    return f"{n:,.0f}" if n < 1e12 else f"{n:.0e}" if n < math.inf else "countless"


def _power(values: float, turns: float) -> float:
    return math.inf if turns * math.log2(max(values, 1.0)) > 1000 else values**turns


# A lowered model, and the content with which it had neither faults nor warnings, else None.
Kept = dict[str, tuple[object, Lowered]]


def check_bound(
    program: Program, inputs: Mapping[str, InputLike], kept: Kept | None = None
) -> tuple[tuple[Diagnostic, ...], tuple[str, ...]]:
    """Bind all parts of a program that need no missing input, and check them.

    Args:
        program: a checked program.
        inputs: values by name, as for `bind`. Parts that need an input without a value are skipped.
        kept: the lowered models of an earlier text with the same inputs, by name. A model that had
            no faults then, and whose content is the same, is not checked again. The dict is updated.

    Returns:
        The faults and warnings in the order of the text, without warnings that a comment allows;
        and a description of the parts that were skipped because an input has no value, or because
        they would take long.
    """
    if sum(len(s.text) for s in program.sources) > MOST_CHECKED_TEXT:
        return (), (f"the program has more than {MOST_CHECKED_TEXT:,} characters{LEFT}",)
    missing = {d.name for d in program.inputs.values() if d.name not in inputs and not _has_default(d)}
    known = without_inputs(program, missing)
    bound, found = bind_sound(known, inputs, MOST_CHECKED_EDGES)
    found += allowed(bound.notes, program.allowances)
    left = [] if found else [g for g in known.graphs if g not in bound.program.graphs]
    skipped = [f"{listed(sorted(missing))} without a default{UNSAID}"] if missing and known != program else []
    words = f"has more than {MOST_CHECKED_EDGES:,} nodes and edges{LEFT}"
    skipped += [f"graph `{g}` {words}" for g in left]
    before, kept = dict(kept or {}), {} if kept is None else kept
    kept.clear()
    for name in bound.program.models:
        content = _content(bound.program, name)
        if content is not None and before.get(name, (None,))[0] == content:
            kept[name] = before[name]
        elif words := too_large(bound, name):
            skipped.append(f"{words}{LEFT}")
        else:
            lowered, faults, noted = _checked(bound, program, name)
            found += [*faults, *allowed(noted, program.allowances)]
            if not faults:
                kept[name] = None if noted else content, lowered
    return in_text_order(found), tuple(skipped)


def _checked(bound: Bound, program: Program, name: str) -> tuple[Lowered, list[Diagnostic], list[Diagnostic]]:
    """Return a lowered model, its faults, and the warnings of one that is whole and has no fault."""
    lowered, faults = sound_model(bound, name)
    if faults or bound.program.models[name] != program.models[name]:
        return lowered, faults, []
    return lowered, faults, [*lint_sizes(lowered, bound.program, name)]


def _content(program: Program, name: str) -> object:
    """Return what determines the faults of a model and its parts; None if other models do too."""
    if program.judges:
        return None
    model, nothing = program.models[name], dict[str, Any]()
    common = replace(program, sources=(), models=nothing, masks=nothing, samplers=nothing, warnings=(), allowances=())
    parts = [p for p in (*program.masks.values(), *program.samplers.values()) if p.model == name]
    return common, model.span.text, model, parts


def _has_default(d: ir.Input) -> bool:
    """Return whether an input may be omitted.

    One number for all entries does not determine how many entries there are.
    """
    return isinstance(d.default, ir.Table) or (d.default is not None and not any(a.name for a in d.axes))
