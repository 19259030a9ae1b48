"""Checks samplers."""

from __future__ import annotations

from ..syntax import tree
from ._arguments import check_arguments, find_form
from ._expressions import CONSTANT, check_number
from ._masks import as_mask, check_cells, check_mask_body, variables_of
from ._scope import Scope
from ._sets import check_clauses
from .ir import (
    BlockTerm,
    Cycle,
    FormCall,
    FormMask,
    Kernel,
    KernelMixture,
    Literal,
    Mask,
    MaskBody,
    MaskMixture,
    Model,
    RandomUpdate,
    Repeat,
    Sampler,
    Sweep,
    Temper,
)


def check_sampler(sampler: tree.Sampler, model: Model, scope: Scope) -> Sampler | None:
    """The checked sampler; the model's names are visible in `scope`."""
    name = sampler.name.name
    if isinstance(sampler.body, tree.Call):
        form = find_form(sampler.body, "sampler", scope)
        arguments = None if form is None else check_arguments(sampler.body, form, scope)
        if form is None or arguments is None:
            return None
        if model.conditional is None:
            scope.report("E314", f"`{form.name}` decodes a network: model `{model.name}` has no `conditional`", sampler.body.span, "no network")
            return None
        return Sampler(sampler.span, name, model.name, FormCall(sampler.body.span, form, arguments))
    body = _body(sampler.body, model, scope)
    if not sampler.body:
        scope.report("E320", f"sampler `{name}` does nothing", sampler.name.span, "empty", help="`update x[i] for i in site`")
        return None
    return None if body is None else Sampler(sampler.span, name, model.name, body)


def _body(statements: tuple[tree.SamplerStatement, ...], model: Model, scope: Scope) -> tuple[Kernel, ...] | None:
    checked = []
    for s in statements:
        with scope.nested():
            checked.append(_kernel(s, model, scope))
    good = tuple(k for k in checked if k is not None)
    return good if len(good) == len(checked) else None


def _kernel(s: tree.SamplerStatement, model: Model, scope: Scope) -> Kernel | None:
    match s:
        case tree.Update() if s.where is not None:
            return _random_update(s, s.where, model, scope)
        case tree.Update():
            return _sweep(s, model, scope)
        case tree.Cycle():
            body = _body(s.body, model, scope)
            return None if body is None else Cycle(s.span, body)
        case tree.Repeat():
            count = check_number(s.count, scope, CONSTANT, integer=True)
            if isinstance(count, Literal) and count.value < 1:
                scope.report("E319", f"`repeat` runs its body at least once, found {count.value}", s.count.span, "too small")
            body = _body(s.body, model, scope)
            return None if body is None else Repeat(s.span, count, body)
        case tree.KernelMixture():
            rows = [(check_number(r.weight, scope, CONSTANT), _body((r.kernel,), model, scope)) for r in s.rows]
            good = tuple((w, b[0]) for w, b in rows if b is not None)
            return KernelMixture(s.span, good) if len(good) == len(rows) else None
        case tree.Temper():
            return _temper(s, model, scope)


def _temper(s: tree.Temper, model: Model, scope: Scope) -> Kernel | None:
    form = find_form(s.form, "kernel", scope)
    arguments = None if form is None else check_arguments(s.form, form, scope)
    body = _body(s.body, model, scope)
    if arguments is None or body is None:
        return None
    betas = arguments["betas"]
    assert isinstance(betas, tuple)
    if all(isinstance(b, Literal) for b in betas) and not any(b.value == 1 for b in betas):
        scope.report("E319", "the draws are those at beta 1, which `betas` must list", s.form.span, "no beta 1")
        return None
    return Temper(s.span, betas, body)


def _sweep(s: tree.Update, model: Model, scope: Scope) -> Kernel | None:
    clauses = check_clauses(s.clauses, s.span, scope, cells=True)
    cells = check_cells(s.target, scope)
    if cells is None:
        return None
    if model.conditional is not None and not s.independently and any(c.indices is None for c in cells):
        _refuse_joint(s, scope)
        return None
    if s.independently:
        _warn_independent(s, model, scope)
    return Sweep(s.span, BlockTerm(s.span, cells, clauses), s.independently)


def _random_update(s: tree.Update, where: tree.Where, model: Model, scope: Scope) -> Kernel | None:
    if s.clauses is not None:
        scope.report("E308", "an update has `for` or `where`, not both", s.clauses.span, "not beside `where`")
        return None
    if scope.find(where.name.name) is not None:
        scope.declare("binder", where.name)  # reports that it hides a name
        return None
    mask = _anonymous(where.mask, model, scope)
    within = _within(s, where.name.name, scope)
    if mask is None or within is None:
        return None
    outside = sorted(variables_of(mask.body) - {within}) if within else []
    if outside:
        help = f"write `update {where.name.name} where ..`, which takes any block"
        scope.report("E309", f"a block of this mask holds cells of `{outside[0]}`, outside `{within}`", where.mask.span, "reaches further", help=help)
        return None
    if s.independently and mask.adaptive:
        help = "draw the block jointly: remove `independently`"
        scope.report("E307", "`independently` has no meaning under an adaptive mask", s.span, "adaptive mask", help=help)
        return None
    if not s.independently and _is_least_confident(mask.body):
        scope.report("E319", "`least_confident` stands only under `independently`", where.mask.span, "not here")
        return None
    if model.conditional is not None and not s.independently and not _single_cells(mask.body):
        _refuse_joint(s, scope)
        return None
    if s.independently:
        _warn_independent(s, model, scope, mask.body)
    return RandomUpdate(s.span, mask, within, s.independently)


def _anonymous(e: tree.MaskExpression, model: Model, scope: Scope) -> Mask | None:
    if isinstance(e, tree.Name):
        symbol = scope.find(e.name)
        if symbol is not None and isinstance(symbol.value, Mask) and symbol.value.model == model.name:
            return symbol.value
    body = check_mask_body(e, model, scope)
    return None if body is None else as_mask(e.span, "", (), body, model, scope)


def _within(s: tree.Update, block: str, scope: Scope) -> str | None:
    match s.target:
        case tree.Name() if s.target.name == block:
            return ""
        case tree.Index(indices=(tree.Name() as k,)) if k.name == block:
            symbol = scope.use(s.target.base, "var", "latent")
            return None if symbol is None else symbol.name
    help = f"`update x[{block}] where {block} ~ ..` or `update {block} where {block} ~ ..`"
    scope.report("E308", f"the update does not use its block `{block}`", s.target.span, f"no `{block}` here", help=help)
    return None


def _is_least_confident(body: MaskBody) -> bool:
    return isinstance(body, FormMask) and body.call.form.name == "least_confident"


def _single_cells(body: MaskBody) -> bool:
    if isinstance(body, MaskMixture):
        return all(_single_cells(part) for _, part in body.rows)
    size = body.call.arguments.get("size") if isinstance(body, FormMask) else None
    return isinstance(size, Literal) and size.value == 1


def _refuse_joint(s: tree.Update, scope: Scope) -> None:
    help = "add `independently`, or update one cell at a time"
    message = "a network gives a product over positions: it has no joint law of several cells"
    scope.report("E314", message, s.span, "a joint update", help=help)


def _warn_independent(s: tree.Update, model: Model, scope: Scope, body: MaskBody | None = None) -> None:
    if model.conditional is None and not (body is not None and _single_cells(body)):
        message = "cells that interact, redrawn independently, keep no known law"
        scope.report("W801", message, s.span, "may be biased", help="remove `independently` to draw the block jointly, which keeps p")


