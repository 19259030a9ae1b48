"""Checks masks: which cells their blocks hold, and what their weights may mention."""

from __future__ import annotations

from .._diagnostics import Span, listed
from ..syntax import tree
from . import _forms as forms
from ._arguments import check_arguments, find_form, match_arguments
from ._expressions import CONSTANT, INDEXED, Where, check_index, check_number
from ._scope import CELLS, Scope
from ._sets import check_clauses, check_set
from .ir import (
    BlockTerm,
    Cells,
    Clauses,
    Expression,
    FormCall,
    FormMask,
    Independent,
    IndexValue,
    Let,
    LetValue,
    Listed,
    Literal,
    Loop,
    Mask,
    MaskBody,
    MaskMixture,
    Model,
    ParameterValue,
    SetOf,
    Variable,
    VariableValue,
    walk,
)

WEIGHT = Where("", "input", "length", "binder", *CELLS, "let", "param")


def check_mask(mask: tree.Mask, model: Model, scope: Scope) -> Mask | None:
    """The checked mask; the model's names are visible in `scope`."""
    given = []
    for name in mask.given:
        symbol = scope.use(name, "var", "latent", "given")
        if symbol is not None:
            given.append(name.name)
    if isinstance(mask.body, tree.MaskList):
        body = _listed(mask.body, tuple(given), model, scope)
    else:
        body = check_mask_body(mask.body, model, scope)
    return None if body is None else as_mask(mask.span, mask.name.name, tuple(given), body, model, scope)


def as_mask(span: Span, name: str, given: tuple[str, ...], body: MaskBody, model: Model, scope: Scope) -> Mask:
    """The mask of a body, with what follows from it: whether it is adaptive, whether it mentions a parameter."""
    mentioned = set().union(*(_mentions(e, scope) for e in _weights(body)), set())
    adaptive = bool(given) or any(kind == "var" for kind, _ in mentioned)
    return Mask(span, name, model.name, given, body, adaptive, any(kind == "param" for kind, _ in mentioned))


def _weights(body: MaskBody) -> list[Expression]:
    match body:
        case Listed():
            return [w for _, w in body.terms if w is not None]
        case Independent():
            return [r for _, r in body.terms]
        case MaskMixture():
            return [w for _, part in body.rows for w in _weights(part)]
    return []


def _mentions(e: Expression, scope: Scope) -> set[tuple[str, str]]:
    """Variables (`var`) and parameters (`param`) in `e`, lets included."""
    out: set[tuple[str, str]] = set()
    for part in walk(e):
        match part:
            case VariableValue():
                out.add(("var", part.name))
            case ParameterValue():
                out.add(("param", part.name))
            case LetValue():
                symbol = scope.model.get(part.name)
                if symbol is not None and isinstance(symbol.value, Let):
                    out |= _mentions(symbol.value.value, scope)
    return out


def check_mask_body(e: tree.MaskExpression, model: Model, scope: Scope) -> MaskBody | None:
    """A mask's name, a form or a mixture."""
    match e:
        case tree.Name():
            symbol = scope.use(e, "mask")
            if symbol is None or not isinstance(symbol.value, Mask):
                return None
            if symbol.value.model != model.name:
                message = f"mask `{e.name}` belongs to model `{symbol.value.model}`, not to `{model.name}`"
                scope.report("E304", message, e.span, "another model's", related=((symbol.span, "declared here"),))
                return None
            return symbol.value.body
        case tree.MaskMixture():
            rows = []
            for row in e.rows:
                weight = check_number(row.weight, scope, CONSTANT)
                part = check_mask_body(row.mask, model, scope)
                if part is not None:
                    rows.append((weight, part))
            return MaskMixture(e.span, tuple(rows)) if len(rows) == len(e.rows) else None
        case tree.Call():
            return _form(e, model, scope)


def _form(call: tree.Call, model: Model, scope: Scope) -> MaskBody | None:
    form = find_form(call, "mask", scope)
    if form is None:
        return None
    arguments = check_arguments(call, form, scope, skip=(forms.VARIABLES, forms.BLOCKS))
    raw = match_arguments(call, form, Scope()) if arguments is not None else None
    if arguments is None or raw is None:
        return None
    if "noise" in arguments and model.conditional is None:
        scope.report("E314", "`noise` is what a network sees: this model has no `conditional`", raw["noise"][0].span, "no network here", help="remove it")
        return None
    if form.name == "blocks":
        return _blocks(call, raw["blocks"], model, scope)
    variables = _variables(raw.get("variables", []), model, scope)
    return None if variables is None else FormMask(call.span, FormCall(call.span, form, arguments), variables)


def _variables(arguments: list[tree.Argument], model: Model, scope: Scope) -> tuple[str, ...] | None:
    if not arguments:
        return tuple(v.name for v in model.variables.values() if v.role == "var")
    names: list[str] = []
    good = True
    for a in arguments:
        if not isinstance(a.value, tree.Name) or a.clauses is not None:
            scope.report("E303", "the name of a variable is expected", a.span, "not a variable", help="blocks of cells are listed with `blocks(..)`")
            good = False
        elif not _is_predicted(a.value, scope):
            good = False
        elif a.value.name in names:
            scope.report("E306", f"`{a.value.name}` stands twice", a.span, "again here")
            good = False
        else:
            names.append(a.value.name)
    return tuple(names) if good else None


def _is_predicted(name: tree.Name, scope: Scope) -> bool:
    symbol = scope.use(name, *CELLS)
    if symbol is not None and symbol.kind == "given":
        scope.report("E318", f"`{name.name}` is given: no mask names it", name.span, "never predicted")
        return False
    return symbol is not None


def _blocks(call: tree.Call, arguments: list[tree.Argument], model: Model, scope: Scope) -> Listed | None:
    terms = []
    for a in arguments:
        with scope.nested():
            if isinstance(a.value, tree.Attribute):
                term = _graph_blocks(a, model, scope)
            else:
                clauses = check_clauses(a.clauses, a.span, scope, cells=True)
                cells = check_cells(a.value, scope)
                term = None if cells is None else BlockTerm(a.span, cells, clauses)
        if term is not None:
            terms.append((term, None))
    return Listed(call.span, tuple(terms), uniform=True) if len(terms) == len(arguments) else None


def _graph_blocks(a: tree.Argument, model: Model, scope: Scope) -> BlockTerm | None:
    """`blocks(G.rows)`: the rows of the one variable that is indexed over G's nodes."""
    over = check_set(a.value, scope)
    if over is None:
        return None
    if over.part not in ("rows", "columns", "edges"):
        scope.report("E306", f"`{over.name}` lists no blocks", a.span, "not blocks", help="rows, columns or edges; or `{x[i]} for i in ..`")
        return None
    candidates = [v for v in model.variables.values() if v.role == "var" and len(v.axes) == 1 and _over_nodes(v.axes[0].over, over.graph, scope)]
    if len(candidates) != 1:
        found = listed([v.name for v in candidates])
        message = f"`{over.name}` needs one variable indexed over the nodes of `{over.graph}`, found {found}"
        scope.report("E306", message, a.span, "which variable?", help=f"write `{{x[i], x[j]}} for (i, j) in {over.graph}.edges`")
        return None
    names = ("i", "j") if over.arity == 2 else ("r",)
    cell = [Cells(a.span, candidates[0].name, (IndexValue(a.span, n),)) for n in names]
    return BlockTerm(a.span, tuple(cell), Clauses(a.span, (Loop(a.span, names, over),)))


def _over_nodes(over: SetOf, graph: str, scope: Scope) -> bool:
    if over.graph == graph and over.part == "nodes":
        return True
    form = scope.program[graph].value
    nodes = form.arguments.get("nodes") or form.arguments.get("n") if isinstance(form, FormCall) else None
    return isinstance(nodes, SetOf) and nodes.name == over.name


def check_cells(e: tree.Expression, scope: Scope) -> tuple[Cells, ...] | None:
    """The cells of a block: `{x[i], y}`, one cell, or a variable's name for all of its cells."""
    parts = e.cells if isinstance(e, tree.Block) else (e,)
    checked = [_cell(part, scope) for part in parts]
    good = tuple(c for c in checked if c is not None)
    if len(good) < len(checked):
        return None
    for k, cell in enumerate(good):
        if cell in good[:k]:
            scope.report("E306", f"`{cell.span.text}` stands twice in the block", cell.span, "again here")
            return None
    return good


def _cell(e: tree.Expression, scope: Scope) -> Cells | None:
    match e:
        case tree.Name():
            if not _is_predicted(e, scope):
                return None
            return Cells(e.span, e.name, None)
        case tree.Index():
            if not _is_predicted(e.base, scope):
                return None
            variable = scope.model[e.base.name].value
            if not isinstance(variable, Variable):
                return None
            slots = [a.over for a in variable.axes for _ in range(a.over.arity)]
            if len(slots) != len(e.indices):
                message = f"`{variable.name}` takes {len(slots)} ind{'ex' if len(slots) == 1 else 'ices'}, found {len(e.indices)}"
                scope.report("E210", message, e.span, "wrong number")
                return None
            return Cells(e.span, variable.name, tuple(_cell_index(i, s, scope) for i, s in zip(e.indices, slots, strict=True)))
        case _:
            scope.report("E306", "a block holds cells: `x[i]`, or a variable's name", e.span, "not a cell")
            return None


def _cell_index(e: tree.Expression, over: SetOf, scope: Scope) -> Expression:
    if isinstance(e, tree.Name):
        symbol = scope.find(e.name)
        if symbol is not None and isinstance(symbol.value, SetOf) and symbol.value.lists_cells:
            return IndexValue(e.span, e.name)
    return check_index(e, over, scope, INDEXED)


def _listed(body: tree.MaskList, given: tuple[str, ...], model: Model, scope: Scope) -> MaskBody | None:
    if not body.body:
        scope.report("E320", "a mask lists at least one block", body.span, "empty", help="`choose {x[i]} for i in site weight 1`")
        return None
    first = type(body.body[0])
    stray = next((s for s in body.body if type(s) is not first), None)
    if stray is not None:
        scope.report("E306", "`choose` and `each` do not mix in one mask", stray.span, "another kind", related=((body.body[0].span, "the first"),))
        return None
    terms: list[tuple[BlockTerm, Expression]] = []
    for s in body.body:
        with scope.nested():
            clauses = check_clauses(s.clauses, s.span, scope, cells=True)
            cells = check_cells(s.block if isinstance(s, tree.Choose) else s.cell, scope)
            written = s.weight if isinstance(s, tree.Choose) else s.rate
            weight = check_number(written, scope, WEIGHT)
        _check_weight(weight, isinstance(s, tree.Each), given, scope)
        if isinstance(s, tree.Each) and isinstance(s.cell, tree.Block):
            scope.report("E306", "`each` draws every cell on its own: it takes a cell, not a block", s.cell.span, "a block", help="use `choose` for blocks")
        elif cells is not None:
            terms.append((BlockTerm(s.span, cells, clauses), weight))
    if len(terms) < len(body.body):
        return None
    return Independent(body.span, tuple(terms)) if first is tree.Each else Listed(body.span, tuple(terms), uniform=False)


def _check_weight(weight: Expression, is_rate: bool, given: tuple[str, ...], scope: Scope) -> None:
    word = "rate" if is_rate else "weight"
    if isinstance(weight, Literal) and (weight.value < 0 or (is_rate and weight.value > 1)):
        limits = "between 0 and 1" if is_rate else "at least 0"
        scope.report("E319", f"a {word} is {limits}, found {weight.value}", weight.span, "out of bounds")
    stray = sorted(name for kind, name in _mentions(weight, scope) if kind == "var" and name not in given)
    if stray:
        help = f"say what the mask looks at: `given {', '.join((*given, *stray))}` before its body"
        scope.report("E305", f"this {word} mentions {listed(stray)}, which the mask is not given", weight.span, "not given", help=help)


def variables_of(body: MaskBody) -> set[str]:
    """The variables whose cells a mask's blocks can hold."""
    match body:
        case FormMask():
            return set(body.variables)
        case Listed() | Independent():
            return {c.variable for term, _ in body.terms for c in term.cells}
        case MaskMixture():
            return set().union(*(variables_of(part) for _, part in body.rows))
