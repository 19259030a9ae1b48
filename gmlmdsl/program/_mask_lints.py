"""Warn of masks that hide parameters from a fit, and of blocks that reveal their hidden cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .._diagnostics import Diagnostic, Span, listed, name_in
from ._blocks import BlockTerm, FormCall
from ._blocks import Cells as CellsOf
from ._comparisons import ARITHMETIC, Number, values_of, weights
from ._expressions import mentions
from ._kernels import updates_in
from ._mask_bodies import Mask, MaskBody
from ._program import Model, Program
from ._terms import Choice, Expression, LetValue, Literal, Operation, ParameterValue, Sum, VariableValue


def lint_masks(program: Program) -> Iterator[Diagnostic]:
    """Yield every warning about the masks of a program."""
    used = used_bodies(program)
    for mask in program.masks.values():
        model = program.models[mask.model]
        place = name_in(mask.span, mask.name)
        if not any(mask.body is body for body in used):
            if mask.body.is_percolation:
                help = "write `update K where K ~ ..` in a sampler"
                yield Diagnostic("W810", f"mask `{mask.name}` draws clusters and no sampler uses it", place, "only samples", (), help)
            elif mask.mentions_parameter:
                help = "a sampler may use it; for a fit take weights without parameters"
                message = f"mask `{mask.name}` mentions a parameter and no sampler uses it: a fit refuses it"
                parts = [p for w in weights(mask) for p in mentions(w, model.lets) if isinstance(p, ParameterValue)]
                related = tuple((p.span, f"`{p.name}` is a parameter") for p in parts[:1])
                yield Diagnostic("W810", message, place, "only samples", related, help)
            else:
                yield from _unseen(mask, model, place)
        yield from _revealing(mask, model)


def used_bodies(program: Program) -> list[MaskBody]:
    """Return the bodies of masks that a sampler or a mixture names.

    These masks have a use other than a fit.
    """
    updates = (update for sampler in program.samplers.values() for update in updates_in(sampler.body))
    found = [update.drawn_mask.body for update in updates if update.drawn_mask is not None]
    for sampler in program.samplers.values():
        schedule = sampler.body.arguments.get("schedule") if isinstance(sampler.body, FormCall) else None
        found += [schedule.body] if isinstance(schedule, Mask) else []
    bodies = [*found, *(m.body for m in program.masks.values())]
    while bodies:
        body = bodies.pop()
        found += body.parts
        bodies += body.parts
    return found


def _unseen(mask: Mask, model: Model, place: Span) -> Iterator[Diagnostic]:
    """Yield a warning for parameters whose factors contain no cell that the mask can hide.

    Such factors cancel in every p(x_K | x_rest).
    """
    # A latent variable is summed out, together with all factors that mention it.
    hidden = mask.body.hidden_variables() | {v.name for v in model.variables.values() if v.role == "latent"}
    seen: set[str] = set()
    touched: set[str] = set()
    for e in (*(f.value for f in model.factors), *(part for d in model.distributed for part in (d.target, d.probabilities))):
        touched |= {p.name for p in mentions(e, model.lets) if isinstance(p, ParameterValue)}
    for term in (*((f.value,) for f in model.factors), *((d.target, d.probabilities) for d in model.distributed)):
        parts = [p for e in term for p in mentions(e, model.lets)]
        if any(isinstance(p, VariableValue) and p.name in hidden for p in parts):
            seen |= {p.name for p in parts if isinstance(p, ParameterValue)}
    unseen = [p for p in model.parameters.values() if p.name in touched - seen]
    if unseen and model.conditional is None:
        away = [v.name for v in model.variables.values() if v.role == "var" and v.name not in hidden]
        message = f"a fit under mask `{mask.name}` says nothing about {listed([p.name for p in unseen])}"
        related = tuple((name_in(p.span, p.name), "its factors hold no cell that the mask hides") for p in unseen[:4])
        help = f"add blocks with cells of {listed(away)}" if away else ""
        yield Diagnostic("W808", message, place, "not all is fitted", related, help)


def _revealing(mask: Mask, model: Model) -> Iterator[Diagnostic]:
    """Yield a warning for weights that are 0 unless a hidden cell has one particular value.

    In this case K determines the value, and there is nothing to predict.
    """
    if not mask.adaptive:
        return
    for term, weight in mask.body.weighted_blocks():
        revealed = [] if weight is None else list(_given_away(term, weight, model))
        if not revealed:
            continue
        cell, value = revealed[0]
        others = any(t is not term and cell.variable in {c.variable for c in t.cells} for t, _ in mask.body.weighted_blocks())
        again = len(term.cells) > 1 and (len(term.clauses.loops) > 1 or any(x.over.part == "arcs" for x in term.clauses.loops))
        word = mask.body.weight_word
        # The weights of equal blocks add up.
        may = mask.body.adds_equal_blocks and (others or again)
        message = (
            f"this block {'may reveal' if may else 'reveals'} `{cell.span.text}`: its {word} is 0 unless `{cell.span.text}` is {value:g}"
        )
        help = "a cell whose value K tells cannot be learnt from or moved; use a weight that is above 0 for two values or more"
        assert weight is not None
        yield Diagnostic("W809", message, weight.span, "tells the hidden value", ((cell.span, "hidden here"),), help)


def _given_away(term: BlockTerm, weight: Expression, model: Model) -> Iterator[tuple[CellsOf, Number]]:
    for cell in term.cells:
        variable = model.variables[cell.variable]
        values = values_of(variable.domain)
        if values is None or len(values) < 2 or (cell.indices is None and variable.axes):
            continue
        own = VariableValue(cell.span, cell.variable, cell.indices or ())
        possible = [v for v in sorted(values) if evaluate(weight, own, v) != 0]
        if len(possible) == 1:
            yield cell, possible[0]


def evaluate(e: Expression, cell: VariableValue, value: Number) -> Number | None:
    """Return the value of `e` if one cell has a given value and all else is unknown.

    The result is None if this does not determine the value.
    """
    match e:
        case Literal():
            return e.value
        case VariableValue():
            return value if e == cell else None
        case Choice():
            test = evaluate(e.test, cell, value)
            if test is None:
                both = {evaluate(e.yes, cell, value), evaluate(e.no, cell, value)}
                return both.pop() if len(both) == 1 else None
            return evaluate(e.yes if test else e.no, cell, value)
        case Operation():
            return _computed(e.operator, [evaluate(part, cell, value) for part in e.operands])
        case LetValue() | Sum():
            return None
    return None


def _computed(operator: str, parts: Sequence[Number | None]) -> Number | None:
    if operator in ("*", "and") and 0 in parts:
        return 0
    if operator == "or" and any(parts):
        return 1
    known = [p for p in parts if p is not None]
    if len(known) < len(parts) or operator not in ARITHMETIC:
        return None
    try:
        return ARITHMETIC[operator](*known)
    except ArithmeticError:
        return None
