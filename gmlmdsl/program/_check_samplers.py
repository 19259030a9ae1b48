"""Check samplers."""

from __future__ import annotations

import re

from .._diagnostics import Fix, Span
from ..syntax import tree
from ._arguments import check_arguments, find_form
from ._check_masks import PLACES, as_mask, check_cells, check_mask_body, check_no_stages, verify_row_weights
from ._check_networks import refuse_joint, refuse_ladder, refuse_updates
from ._expressions import CONSTANT, INDEXED, check_number, known_number, mentions
from ._kernels import Cycle, Kernel, KernelMixture, RandomUpdate, Repeat, Sweep, Temper, ladder_in, start_of
from ._mask_bodies import Mask, MaskBody
from ._program import Factor, Input, Model, Sampler
from ._references import check_name
from ._refinement import check_decoder, check_start, refuse_visits
from ._scope import Scope
from ._sets import check_clauses, check_loops
from ._terms import BlockTerm, Cells, Clauses, Expression, IndexValue, InputValue, LetValue, Literal, SetOf, Sum, VariableValue, walk
from .limits import MOST_BODIES, MOST_REPEATS

Statements = tuple[tree.SamplerStatement, ...]
TOO_OFTEN = "a draw is what is kept: `draws=` asks for more of them, and `thin=` keeps every n-th"


def check_sampler(sampler: tree.Sampler, model: Model, scope: Scope) -> Sampler | None:
    """Return the checked sampler, or None after a fault.

    The names of the model are visible in `scope`.
    """
    name = sampler.name.name
    if isinstance(sampler.body, tree.Call):
        call = check_decoder(sampler.body, model, scope)
        return None if call is None else Sampler(sampler.span, name, model.name, call)
    if model.conditional is not None and refuse_updates(sampler, model, scope):
        return None
    body = _body(sampler.body, f"sampler `{name}`", sampler.name.span, model, scope, sampler.span)
    if body is not None and start_of(body) is not None and (ladder := ladder_in(body)) is not None:
        message = "`temper` goes on from the replicas of the draw before, and `start from` begins each draw anew"
        scope.report("E333", message, ladder.span, "replicas of another draw", help="remove one of the two")
        return None
    return None if body is None else Sampler(sampler.span, name, model.name, body)


def _body(statements: Statements, words: str, span: Span, model: Model, scope: Scope, whole: Span) -> tuple[Kernel, ...] | None:
    """Return the kernels between braces, or None after a fault. At least one kernel is required.

    Args:
        statements: the statements between the braces.
        words: the name of the enclosing statement in messages.
        span: the place of the enclosing statement in messages.
        model: the model of the sampler.
        scope: the names that are visible. It collects the diagnostics.
        whole: the whole text of the enclosing statement.
    """
    if not statements and scope.is_broken(whole):
        return None
    if not statements:
        scope.report("E320", f"{words} does nothing", span, "empty", help="for example `update x[i] for i in site`")
        return None
    checked = []
    with scope.level() as levels:
        if levels > MOST_BODIES:
            scope.report("E117", f"bodies of a sampler are nested deeper than {MOST_BODIES}", span, "nested too deep")
            return None
        for s in statements:
            with scope.nested():
                first = levels == 1 and s is statements[0]
                checked.append(check_start(s, model, scope, first) if isinstance(s, tree.Start) else _kernel(s, model, scope))
    good = tuple(k for k in checked if k is not None)
    return good if len(good) == len(checked) else None


def _kernel(
    s: tree.Update | tree.Cycle | tree.Repeat | tree.RepeatOver | tree.KernelMixture | tree.Temper, model: Model, scope: Scope
) -> Kernel | None:
    match s:
        case tree.Update() if s.where is not None:
            return _random_update(s, s.where, model, scope)
        case tree.Update():
            return _sweep(s, model, scope)
        case tree.Cycle():
            body = _body(s.body, "this `cycle`", s.span, model, scope, s.span)
            return None if body is None else Cycle(s.span, body)
        case tree.Repeat():
            return _repeat(s, model, scope)
        case tree.RepeatOver():
            with scope.nested():
                loops = check_loops((s.loop,), scope)
                inner = _body(s.body, "this `repeat`", s.span, model, scope, s.span)
            return None if inner is None or loops is None else Repeat(s.span, Literal(s.span, 1), inner, loops[0])
        case tree.KernelMixture():
            return _mixture(s, model, scope)
        case tree.Temper():
            return _temper(s, model, scope)


def _mixture(s: tree.KernelMixture, model: Model, scope: Scope) -> Kernel | None:
    """Check a mixture: kernels with weights.

    Each row counts once for each iteration of its loop.
    """
    weights: list[Expression] = []
    bodies: list[tuple[Kernel, ...] | None] = []
    turns: list[Clauses | None] = []
    for row in s.rows:
        with scope.nested():
            turns.append(None if row.clauses is None else check_clauses(row.clauses, row.span, scope))
            weights.append(check_number(row.weight, scope, INDEXED))
            bodies.append(_body((row.kernel,), "", row.span, model, scope, row.span))
    verify_row_weights(weights, s.rows[0].weight, scope)
    rows = tuple((w, b[0]) for w, b in zip(weights, bodies, strict=True) if b is not None)
    return KernelMixture(s.span, rows, tuple(turns) if any(turns) else ()) if len(rows) == len(s.rows) else None


def _repeat(s: tree.Repeat, model: Model, scope: Scope) -> Kernel | None:
    written = s.count.value if isinstance(s.count, tree.Number) else 0
    count = check_number(s.count, scope, CONSTANT, integer=written <= MOST_REPEATS)
    number = known_number(count)
    if number is not None and number < 1:
        scope.report("E319", f"`repeat` runs its body at least once, found {number}", s.count.span, "too small", help="write 1 or more")
    if number is not None and number > MOST_REPEATS:
        message = f"`repeat` runs its body at most {MOST_REPEATS:,} times within one draw, found {number:,.0f}"
        scope.report("E319", message, s.count.span, "too many", help=TOO_OFTEN)
    body = _body(s.body, "this `repeat`", s.span, model, scope, s.span)
    return None if body is None else Repeat(s.span, count, body)


def _temper(s: tree.Temper, model: Model, scope: Scope) -> Kernel | None:
    if model.conditional is not None:
        refuse_ladder(s, scope)
        return None
    form = find_form(s.form, "kernel", scope)
    arguments = None if form is None else check_arguments(s.form, form, scope)
    body = _body(s.body, "this `temper`", s.form.span, model, scope, s.span)
    if arguments is None or body is None:
        return None
    inner = ladder_in(body)
    if inner is not None:
        help = "one ladder does: put its betas into the outer list"
        scope.report("E422", "a `temper` stands in the body of another", inner.span, "replicas of replicas", help=help)
        return None
    betas = arguments["betas"]
    if isinstance(betas, Input):
        written = next(a.value for a in s.form.arguments if a.keyword is not None)
        return Temper(s.span, (), body, InputValue(written.span, betas.name))
    assert isinstance(betas, tuple)
    numbers = [known_number(b) for b in betas]
    for number, beta in zip(numbers, betas, strict=True):
        if number is not None and number < 0:
            scope.report("E319", f"a beta is at least 0, found {number}", beta.span, "below 0")
    if None not in numbers and 1 not in numbers:
        place = next((a.value.span for a in s.form.arguments if a.keyword is not None), s.form.span)
        scope.report("E319", "the draws are those at beta 1, which `betas` must list", place, "no beta 1", help="add 1 to `betas`")
        return None
    return Temper(s.span, betas, body)


def _sweep(s: tree.Update, model: Model, scope: Scope) -> Kernel | None:
    clauses = check_clauses(s.clauses, s.span, scope, cells=True, where=PLACES)
    cells = check_cells(s.target, scope)
    if cells is None:
        return None
    single = len(cells) == 1 and _is_single_cell(cells[0], model, scope)
    if s.independently:
        _check_independent(s, model, {c.variable for c in cells}, single, False, scope)
    elif model.conditional is not None and not single:
        refuse_joint(s, scope)
        return None
    return Sweep(s.span, BlockTerm(s.span, cells, clauses), s.independently)


def _is_single_cell(cells: Cells, model: Model, scope: Scope) -> bool:
    if cells.indices is None:
        return cells.variable in model.variables and not model.variables[cells.variable].axes
    rows = (scope.find(i.name) for i in cells.indices if isinstance(i, IndexValue))
    return not any(r is not None and isinstance(r.value, SetOf) and r.value.lists_cells for r in rows)


def _random_update(s: tree.Update, where: tree.Where, model: Model, scope: Scope) -> Kernel | None:
    block = tree.Name(s.target.span, "block") if where.name is None else where.name
    hidden = where.name is not None and scope.find(where.name.name) is not None
    if where.name is not None:
        scope.declare("block", where.name, True)  # This reports a name that the block hides.
    mask = _anonymous(where.mask, model, scope)
    within = None if hidden else _whole_variable(s, scope) if where.name is None else _within(s, where.name.name, scope)
    if mask is None or within is None:
        return None
    if mask.body.is_visits:
        refuse_visits("an update only draws", where.mask.span, scope)
        return None
    outside = sorted(mask.body.hidden_variables() - {within}) if within else []
    if outside:
        shown = block.name if where.name is not None else "K"
        alone = " independently" * s.independently
        help = f"write `update {shown}{alone} where {shown} ~ {where.mask.span.text}`, which takes any block"
        message = f"a block of this mask holds cells of `{outside[0]}`, outside `{within}`"
        fix, place = (
            None if where.name is None else Fix(s.target.span, block.name, guess=True),
            ((s.target.span, f"updates cells of `{within}` only"),),
        )
        scope.report("E309", message, where.mask.span, "reaches further", help=help, related=place, fix=fix)
        return None
    single = all(_is_of_single_cells(leaf, model, scope) for leaf in mask.body.leaves())
    if s.independently:
        _check_independent(s, model, mask.body.hidden_variables(), single, mask.adaptive, scope)
    elif mask.body.has_least_confident:
        message = "`least_confident` stands only under `independently`"
        fix = Fix(Span(s.span.source, s.target.span.end, s.target.span.end), " independently", guess=True)
        scope.report("E324", message, where.mask.span, "not here", help=f"write `{s.target.span.text} independently where ..`", fix=fix)
        return None
    elif model.conditional is not None and not single:
        refuse_joint(s, scope)
        return None
    elif model.conditional is not None and mask.adaptive:
        message = "this mask looks at x: a network's output cannot be corrected for p(K | x)"
        scope.report("E307", message, where.mask.span, "adaptive mask", help="take a mask without `given`")
        return None
    return RandomUpdate(s.span, mask, within, s.independently)


def _check_independent(s: tree.Update, model: Model, cells_of: set[str], single: bool, adaptive: bool, scope: Scope) -> None:
    """Check an update with `independently`.

    Such an update draws every cell given the old values of the others. An update without a meaning
    is an error (E307). A possibly biased update is a warning (W801).

    Args:
        s: the update.
        model: the model of the sampler.
        cells_of: the variables whose cells the update may draw.
        single: whether each block is known to have one cell.
        adaptive: whether the mask depends on the values of cells.
        scope: collects the diagnostics.
    """
    if adaptive and model.conditional is not None:
        message = "this mask looks at x: a network's output cannot be corrected for p(K | x)"
        scope.report("E307", message, s.span, "adaptive mask", help="take a mask without `given`")
    elif adaptive:
        help = "draw the block jointly: remove `independently`"
        message, fix = "`independently` has no meaning under an adaptive mask", _jointly(s)
        scope.report("E307", message, s.span, "this mask looks at x", help=help, fix=fix)
    elif model.requires and model.conditional is None:
        place = ((model.requires[0].span, "probability zero"),)
        help = "draw the block jointly: remove `independently`"
        message = "`independently` can reach configurations of probability zero"
        scope.report("E307", message, s.span, "the model has a `require`", related=place, help=help, fix=_jointly(s))
    elif model.conditional is None and not single and (term := _joining(model, cells_of)) is not None:
        help = "remove `independently` to draw the block jointly, which keeps p"
        message, place = (
            "cells that interact, redrawn independently, keep no known distribution",
            ((term, "this may join cells of a block"),),
        )
        scope.report("W801", message, s.span, "may be biased", related=place, help=help, fix=_jointly(s))


def _jointly(s: tree.Update) -> Fix | None:
    """Return the fix that removes `independently`.

    It is a guess: another mask may have been meant.
    """
    found = re.compile(r"\s+independently\b").search(s.span.source.text, s.target.span.end, s.span.end)
    return None if found is None else Fix(Span(s.span.source, found.start(), found.end()), "", guess=True)


def _joining(model: Model, variables: set[str]) -> Span | None:
    """Return the place of the first term that may contain two cells of `variables`.

    If the result is None, each term contains at most one of the cells. Then the cells are
    independent.
    """
    for term in (*model.factors, *model.distributed):
        parts = (term.value,) if isinstance(term, Factor) else (term.target, term.probabilities)
        inside = [p for e in parts for p in mentions(e, model.lets) if isinstance(p, VariableValue) and p.name in variables]
        moving = any(isinstance(q, VariableValue) for p in inside for i in p.indices for q in walk(i))
        repeated = inside and any(isinstance(q, Sum | LetValue) for e in parts for q in walk(e))
        if len(set(inside)) > 1 or moving or repeated:
            return term.span
    return None


def _anonymous(e: tree.MaskExpression, model: Model, scope: Scope) -> Mask | None:
    if isinstance(e, tree.Name):
        symbol = scope.find(e.name)
        if symbol is not None and isinstance(symbol.value, Mask) and symbol.value.model == model.name:
            return symbol.value
    body = check_mask_body(e, model, scope)
    if not isinstance(e, tree.Name) and not check_no_stages(e, scope):
        return None
    return None if body is None else as_mask(e, "", (), body, model, scope)


def _whole_variable(s: tree.Update, scope: Scope) -> str | None:
    """Return the variable whose cells `update x by m` redraws."""
    if isinstance(s.target, tree.Name | tree.Attribute):
        symbol = scope.use(check_name(s.target), "var", "latent")
        return None if symbol is None else symbol.name
    help, fix = "`update x by m` redraws cells of x; for blocks of several variables write `update K where K ~ m`", None
    if isinstance(s.target, tree.Index):
        base = s.target.base.span.text
        help, fix = f"write `update {base} by ..`: the mask says which cells of `{base}`", Fix(s.target.span, base)
    scope.report("E308", "a variable is expected before `by`", s.target.span, "not a variable", help=help, fix=fix)
    return None


def _within(s: tree.Update, block: str, scope: Scope) -> str | None:
    match s.target:
        case tree.Name() if s.target.name == block:
            return ""
        case tree.Index(indices=(tree.Name() as k,)) if k.name == block:
            symbol = scope.use(check_name(s.target.base), "var", "latent")
            return None if symbol is None else symbol.name
    help, fix = f"`update x[{block}] where {block} ~ ..` or `update {block} where {block} ~ ..`", None
    one = isinstance(s.target, tree.Index) and len(s.target.indices) == 1
    named = scope.find(s.target.name) if isinstance(s.target, tree.Name) else None
    if one or (named is not None and named.kind in ("var", "latent")):
        text = f"{s.target.base.span.text if isinstance(s.target, tree.Index) else s.target.span.text}[{block}]"
        help, fix = f"write `{text}`", Fix(s.target.span, text, guess=True)
    scope.report("E308", f"the update does not use its block `{block}`", s.target.span, f"no `{block}` here", help=help, fix=fix)
    return None


def _is_of_single_cells(leaf: MaskBody, model: Model, scope: Scope) -> bool:
    if leaf.adds_equal_blocks:
        return all(len(term.cells) == 1 and _is_single_cell(term.cells[0], model, scope) for term, _ in leaf.weighted_blocks())
    return leaf.block_size is not None and known_number(leaf.block_size) == 1
