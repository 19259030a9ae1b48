"""Check masks.

These are the cells of their blocks, the names that their weights may mention, the sizes of mixtures,
and the options that make the input of a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .._diagnostics import Fix, Span, listed
from ..syntax import old_forms, tree
from . import _forms as forms
from ._arguments import check_arguments, find_form, match_arguments
from ._check_networks import report_idle, without
from ._expressions import INDEXED, MODEL, Where, check_number, in_figures, known_number, lets_of, mentions, verify_written_out
from ._form import Form
from ._mask_bodies import FormMask, Independent, Listed, Mask, MaskBody, MaskMixture
from ._options import input_options
from ._program import Model, Variable
from ._references import check_index, check_name, slots_of, verify_count
from ._refinement import check_visits, refuse_visits
from ._scope import CELLS, Scope
from ._sets import check_clauses, check_set
from ._terms import BlockTerm, Cells, Clauses, Expression, FormCall, IndexValue, Loop, ParameterValue, SetOf, VariableValue, walk
from .limits import LONGEST_EDIT, MOST_MIXED, MOST_MIXTURES

PLACES = Where(
    "may use index names and inputs only",
    *INDEXED.kinds,
    instead="which cells a block may hold is fixed; what looks at cells is a weight or rate: "
    "`mask name sees x { each if x[i] == 1 then 0.5 else 0 : x[i] for i in site }`",
)
# the options of masks that make a network's input
SEEN_OPTIONS = {"noise": "is what a network sees", "stages": "are of a network's training", "stage_inputs": "is of a network's training"}
WHY = "clusters grow by p, which a network does not declare"


def check_mask(mask: tree.Mask, model: Model, scope: Scope) -> Mask | None:
    """Return the checked mask, or None after a fault.

    The names of the model are visible in `scope`.
    """
    given = _given(mask, scope)
    for form in old_forms(mask):
        fix = form.fix
        help = f"write `{fix.text}`" if fix and len(fix.text) <= LONGEST_EDIT else f"write {form.today}"
        scope.report("W831", "a form of an earlier version, which will go", form.span, "an old form", help=help, fix=fix)
    listed = isinstance(mask.body, tree.MaskList)
    body = _listed(mask, mask.body, given, scope) if listed else check_mask_body(mask.body, model, scope)  # pyright: ignore[reportArgumentType]
    return None if body is None or given is None else as_mask(mask.body, mask.name.name, given, body, model, scope, mask.span)


def _given(mask: tree.Mask, scope: Scope) -> tuple[str, ...] | None:
    """Return the variables that a mask sees, or None after a fault."""
    names: list[str] = []
    good = True
    for name in mask.given:
        if name.name in names:
            _report_again(name.span, mask.given[names.index(name.name)].span, mask.given[len(names) - 1].span, scope)
        good = scope.use(name, *CELLS) is not None and name.name not in names and good
        names.append(name.name)
    return tuple(names) if good else None


def as_mask(
    written: tree.MaskExpression | tree.MaskList,
    name: str,
    given: tuple[str, ...],
    body: MaskBody,
    model: Model,
    scope: Scope,
    span: Span | None = None,
) -> Mask:
    """Return the mask of a body, and determine whether it is adaptive and mentions a parameter.

    An adaptive mask depends on the values of cells.

    Args:
        written: the mask expression in the program's text.
        name: the name of the mask.
        given: the variables that the mask sees.
        body: the checked body.
        model: the model of the mask.
        scope: the names that are visible.
        span: the place of the mask. The default is the place of `written`.
    """
    mentioned = [part for e in body.weights() for part in mentions(e, model.lets)]
    looked_at = {*given, *(part.name for part in mentioned if isinstance(part, VariableValue))}
    # The given variables carry no information about the cells to predict. A mask that sees only
    # given variables needs no correction.
    fixed = {v.name for v in model.variables.values() if v.role == "given"}
    adaptive = bool(looked_at - fixed) or _has_adaptive_part(written, scope) or body.is_percolation
    parameter = any(isinstance(part, ParameterValue) for part in mentioned)
    return Mask(span or written.span, name, model.name, given, body, adaptive, parameter)


def _has_adaptive_part(e: tree.MaskExpression | tree.MaskList, scope: Scope) -> bool:
    if isinstance(e, tree.MaskMixture):
        return any(_has_adaptive_part(row.mask, scope) for row in e.rows)
    symbol = scope.find(e.name) if isinstance(e, tree.Name) else None
    return symbol is not None and isinstance(symbol.value, Mask) and symbol.value.adaptive


def check_mask_body(e: tree.MaskExpression, model: Model, scope: Scope) -> MaskBody | None:
    """Check a mask's name, a form or a mixture."""
    match e:
        case tree.Name():
            named = scope.find(e.name)
            if named is not None and named.kind in CELLS and not named.faulty:
                message, help = f"`{e.name}` is a variable, not a mask", f"write `everything({e.name})`, or `subsets({e.name}, size = 1)`"
                fix, place = Fix(e.span, f"everything({e.name})", guess=True), ((named.span, "declared here"),)
                scope.report("E205", message, e.span, "expected a mask", related=place, help=help, fix=fix)
                return None
            if named is None and forms.form("mask", e.name) is not None:
                _report_bare(e, scope)
                return None
            symbol = scope.use(e, "mask")
            if symbol is None or not isinstance(symbol.value, Mask):
                return None
            if symbol.value.model != model.name:
                message = f"mask `{e.name}` belongs to model `{symbol.value.model}`, not to `{model.name}`"
                help = f"name a mask of `{model.name}`, or declare one like it `for {model.name}`, under a name of its own"
                scope.report("E313", message, e.span, "another model's", related=((symbol.span, "declared here"),), help=help)
                return None
            return symbol.value.body
        case tree.MaskMixture():
            return _mixture(e, model, scope)
        case tree.Call():
            return _form(e, model, scope)


def _mixture(e: tree.MaskMixture, model: Model, scope: Scope) -> MaskMixture | None:
    """Check a mixture: masks with weights. Each row counts once for each iteration of its loop."""
    weights: list[Expression] = []
    parts: list[MaskBody | None] = []
    turns: list[Clauses | None] = []
    for row in e.rows:
        with scope.nested():
            turns.append(None if row.clauses is None else check_clauses(row.clauses, row.span, scope))
            weights.append(check_number(row.weight, scope, INDEXED))
            parts.append(check_mask_body(row.mask, model, scope))
    verify_row_weights(weights, e.rows[0].weight, scope)
    if not check_no_clusters(e, parts, scope):
        return None
    if any(part is not None and part.is_visits for part in parts):
        refuse_visits("it cannot be part of a mixture", e.span, scope)
        return None
    rows = tuple((w, part) for w, part in zip(weights, parts, strict=True) if part is not None)
    extent = verify_mixture([part for _, part in rows], e.span, scope)
    mixed = (
        MaskMixture(e.span, rows, extent, tuple(turns) if any(turns) else ()) if len(rows) == len(e.rows) and extent is not None else None
    )
    return None if mixed is None or not _check_stages(e, mixed, scope) else mixed


def verify_mixture(parts: Sequence[MaskBody], span: Span, scope: Scope) -> tuple[int, int] | None:
    """Return the number of masks of a mixture and the number of its levels.

    If either is too large, it is reported (E412, E117) and the result is None.
    """
    extents = [p.nesting for p in parts]
    masks, levels = sum(n for n, _ in extents), 1 + max((k for _, k in extents), default=0)
    if masks > MOST_MIXED:
        message = f"this mixture has {in_figures(masks)} masks once those it names are written out, more than {MOST_MIXED:,}"
        scope.report("E412", message, span, "too large", help="give each mask once, with the sum of its weights")
    elif levels > MOST_MIXTURES:
        scope.report("E117", f"mixtures of masks are nested deeper than {MOST_MIXTURES}", span, "nested too deep")
    else:
        return masks, levels
    return None


def _report_bare(e: tree.Name, scope: Scope) -> None:
    """Report a form without parentheses, as in `mask all = everything`."""
    form = forms.form("mask", e.name)
    assert form is not None
    needs = ["{..}" if o.takes == forms.BLOCKS else f"{o.name} = .." for o in form.options if o.required and o.takes != forms.VARIABLES]
    text = f"{e.name}({', '.join(needs)})"
    message, fix = f"`{e.name}` is a form of mask, which has parentheses", None if needs else Fix(e.span, text)
    scope.report("E302", message, e.span, "no parentheses behind this", help=f"write `{text}`", fix=fix)


def verify_row_weights(checked: list[Expression], first: tree.Expression, scope: Scope) -> None:
    """Report E319 if all weights of a mixture are 0."""
    if all(known_number(w) == 0 for w in checked):
        help = "give one of them a number above 0"
        scope.report("E319", "the weights of a mixture are all 0", first.span, "no row is ever picked", help=help)


def _form(call: tree.Call, model: Model, scope: Scope) -> MaskBody | None:
    form = find_form(call, "mask", scope)
    if form is None:
        return None
    arguments = check_arguments(call, form, scope, axes=bool(scope.binders), skip=(forms.VARIABLES, forms.BLOCKS))
    raw = match_arguments(call, form, Scope()) if arguments is not None else None
    if arguments is None or raw is None:
        return None
    if not _check_seen(call, form, arguments, model, scope):
        return None
    if form.name == "visits":
        return check_visits(call, FormCall(call.span, form, arguments), model, scope)
    if form.name == "percolation":
        edges = _blocks(FormCall(call.span, form, arguments), raw["edges"], model, scope)
        return None if edges is None else check_percolation(call, form, [term for term, _ in edges.terms], model, scope)
    if form.name == "blocks":
        return _blocks(FormCall(call.span, form, arguments), raw["blocks"], model, scope)
    variables = _variables(raw.get("variables", []), model, scope)
    return None if variables is None else FormMask(call.span, FormCall(call.span, form, arguments), variables)


def _variables(arguments: list[tree.Argument], model: Model, scope: Scope) -> tuple[str, ...] | None:
    if not arguments:
        return tuple(v.name for v in model.variables.values() if v.role == "var")
    names: list[str] = []
    good = True
    for k, a in enumerate(arguments):
        named = check_name(a.value) if isinstance(a.value, tree.Name | tree.Attribute) else None
        if named is None or a.clauses is not None:
            help = "it takes all cells of a variable; a block of some is listed, `blocks({x[0], x[1]})`, "
            help += "also `blocks({x[i] for i in range(4)})`"
            scope.report("E303", "the name of a variable is expected", a.span, "not a variable", help=help)
            good = False
        elif not _is_predicted(named, scope):
            good = False
        elif named.name in names:
            _report_again(a.span, next(b for b in arguments if b.span.text == a.span.text).span, arguments[k - 1].span, scope)
            good = False
        else:
            names.append(named.name)
    return tuple(names) if good else None


def _report_again(again: Span, first: Span, before: Span, scope: Scope) -> None:
    """Report E306 for a variable that a list names twice.

    The suggested fix removes the text from the end of `before`, the preceding argument, to the end
    of `again`.
    """
    fix, place = Fix(Span(again.source, before.end, again.end), "", guess=True), ((first, "first named here"),)
    message = f"`{again.text}` is named twice"
    scope.report("E306", message, again, "again here", help="name each variable once", related=place, fix=fix)


def _is_predicted(name: tree.Name, scope: Scope) -> bool:
    symbol = scope.use(name, *CELLS)
    if symbol is not None and symbol.kind == "given":
        place, help = ((symbol.span, "given here"),), f"a mask may look at it: `sees {name.name}` in its header"
        scope.report("E318", f"`{name.name}` is given: no mask or update names it", name.span, "never predicted", related=place, help=help)
        return False
    return symbol is not None


def _blocks(call: FormCall, arguments: list[tree.Argument], model: Model, scope: Scope) -> Listed | None:
    terms = []
    for a in arguments:
        with scope.nested():
            if isinstance(a.value, tree.Attribute):
                term = _graph_blocks(call, a, model, scope)
            else:
                clauses = check_clauses(a.clauses, a.span, scope, cells=True, where=PLACES)
                cells = check_cells(a.value, scope)
                term = None if cells is None else BlockTerm(a.span, cells, clauses)
        if term is not None:
            terms.append((term, None))
    return Listed(call.span, tuple(terms), uniform=True, call=call) if len(terms) == len(arguments) else None


def _graph_blocks(call: FormCall, a: tree.Argument, model: Model, scope: Scope) -> BlockTerm | None:
    """Check `blocks(G.rows)`: the rows of the one variable that is indexed over the nodes of G."""
    over = check_set(a.value, scope)
    if over is None:
        return None
    if over.part not in ("rows", "columns", "edges"):
        help = "`.rows`, `.columns` and `.edges` do; or list `{x[i]} for i in ..`"
        help = f"pairs of cells are `{over.graph}.edges`" if call.form.name == "percolation" else help
        scope.report("E316", f"`{over.name}` lists no blocks", a.span, "not blocks", help=help)
        return None
    declared = [v for v in model.variables.values() if v.role == "var" and len(v.axes) == 1]
    candidates = [v for v in declared if _over_nodes(v.axes[0].over, over.graph, scope)]
    if len(candidates) != 1:
        if not scope.is_whole():
            return None
        found = listed([v.name for v in candidates])
        message = f"`{over.name}` needs one variable indexed over the nodes of `{over.graph}`, found {found}"
        x = next((v.name for v in (*candidates, *declared)), "x")
        block, loop = (f"{{{x}[i], {x}[j]}}", "(i, j)") if over.arity == 2 else (f"{{{x}[r]}}", "r")
        help = f"name it: `{block} for {loop} in {over.name}`"
        if not candidates and declared:
            help = f"declare `var {x}[i in {over.graph}.nodes]`, or {help}"
        scope.report("E316", message, a.span, "which variable?", help=help)
        return None
    names = ("i", "j") if over.arity == 2 else ("r",)
    cell = [Cells(a.span, candidates[0].name, (IndexValue(a.span, n),)) for n in names]
    return BlockTerm(a.span, tuple(cell), Clauses(a.span, (Loop(a.span, names, over),)))


def _over_nodes(over: SetOf, graph: str, scope: Scope) -> bool:
    if over.graph == graph and over.part == "nodes":
        return True
    form = scope.program[graph].value
    if not isinstance(form, FormCall):
        return False
    nodes = form.arguments.get("nodes") or form.arguments.get("n")
    if isinstance(nodes, SetOf):
        return nodes.name == over.name
    return form.form.name == "chain" and over.kind == "range" and not over.is_looked_up and over.size == nodes


def check_cells(e: tree.Expression, scope: Scope) -> tuple[Cells, ...] | None:
    """Return the cells of a block, or None after a fault.

    A block is `{x[i], y}`, one cell, or a variable's name for all of its cells.
    """
    parts = e.cells if isinstance(e, tree.Block) else (e,)
    if isinstance(e, tree.Block) and e.clauses is not None:
        with scope.nested():
            clauses = check_clauses(e.clauses, e.span, scope, where=PLACES)
            cell = _cell(e.cells[0], scope)
        return None if cell is None or not clauses.loops else (replace(cell, clauses=clauses),)
    checked = [_cell(part, scope) for part in parts]
    good = tuple(c for c in checked if c is not None)
    if len(good) < len(checked):
        return None
    if not good:
        scope.report("E320", "a block holds at least one cell", e.span, "empty", help="`{x[i], y}`")
        return None
    return None if _has_twice(e, good, scope) else good


def _has_twice(e: tree.Expression, cells: tuple[Cells, ...], scope: Scope) -> bool:
    """Return whether a block contains a cell twice, and report the first one that it does."""
    whole, seen = {c.variable for c in cells if c.indices is None}, set[Cells]()
    for k, cell in enumerate(cells):
        if cell not in seen and (cell.indices is None or cell.variable not in whole):
            seen.add(cell)
            continue
        first = next(c for c in cells if c is not cell and (c == cell or (c.variable == cell.variable and c.indices is None)))
        place = ((first.span, "this holds it already"),)
        fix = Fix(Span(e.span.source, cells[k - 1].span.end, cell.span.end), "", guess=True) if k else None
        message = f"`{cell.span.text}` is in the block twice"
        scope.report("E306", message, cell.span, "again here", help="name each cell once", related=place, fix=fix)
        return True
    return False


def _cell(e: tree.Expression, scope: Scope) -> Cells | None:
    match e:
        case tree.Name():
            if not _is_predicted(e, scope):
                return None
            return Cells(e.span, e.name, None)
        case tree.Attribute():
            return _cell(check_name(e), scope)
        case tree.Index():
            base = check_name(e.base)
            if not _is_predicted(base, scope):
                return None
            variable = scope.model[base.name].value
            if not isinstance(variable, Variable):
                return None
            axes = tuple(a.over for a in variable.axes)
            if not verify_count(base, len(e.indices), axes, scope, e.indices):
                return None
            indices = zip(e.indices, slots_of(axes), strict=True)
            return Cells(e.span, variable.name, tuple(_cell_index(i, s, scope) for i, s in indices))
        case _:
            _report_no_cell(e, scope)
            return None


def _report_no_cell(e: tree.Expression, scope: Scope) -> None:
    """Report an item of a block that is not a cell.

    A list of cells is a block in other languages.
    """
    if isinstance(e, tree.List) and e.items:
        block = "{" + ", ".join(i.span.text for i in e.items) + "}"
        message, fix = "a block of cells stands in braces", Fix(e.span, block)
        scope.report("E316", message, e.span, "a list", help=f"write `{block}`", fix=fix)
    else:
        message = "a block holds cells: `x[i]`, or a variable's name"
        scope.report("E316", message, e.span, "not a cell", help="a block of two cells is `{x[0], x[1]}`")


def _cell_index(e: tree.Expression, over: SetOf, scope: Scope) -> Expression:
    if isinstance(e, tree.Name):
        symbol = scope.find(e.name)
        if symbol is not None and isinstance(symbol.value, SetOf) and symbol.value.lists_cells:
            return IndexValue(e.span, e.name)
    return check_index(e, over, scope, PLACES)


def _listed(mask: tree.Mask, body: tree.MaskList, given: tuple[str, ...] | None, scope: Scope) -> MaskBody | None:
    if not body.body:
        if not scope.is_broken(body.span):
            scope.report("E320", "a mask lists at least one block", body.span, "empty", help="`choose 1 : {x[i]} for i in site`")
        return None
    first = type(body.body[0])
    stray = next((s for s in body.body if type(s) is not first), None)
    if stray is not None:
        place = ((body.body[0].span, "the first kind"),)
        help = "`choose` draws one of several blocks, `each` cell by cell: write two masks, and `mixture { 0.5 : one  0.5 : other }`"
        scope.report("E321", "`choose` and `each` do not mix in one mask", stray.span, "another kind", related=place, help=help)
        return None
    terms = tuple(term for s in body.body if (term := _term(s, mask, given, scope)) is not None)
    if len(terms) < len(body.body):
        return None
    return Independent(body.span, terms) if first is tree.Each else Listed(body.span, terms, uniform=False)


def _term(s: tree.Choose | tree.Each, mask: tree.Mask, given: tuple[str, ...] | None, scope: Scope) -> tuple[BlockTerm, Expression] | None:
    """Check one `choose` or `each`."""
    is_choose = isinstance(s, tree.Choose)
    with scope.nested():
        clauses = check_clauses(s.clauses, s.span, scope, cells=True, where=PLACES)
        cells = check_cells(s.block if is_choose else s.cell, scope)
        weight = check_number(s.weight if is_choose else s.rate, scope, MODEL)
    _check_weight(weight, "weight" if is_choose else "rate", mask, given, scope)
    return None if cells is None else (BlockTerm(s.span, cells, clauses), weight)


def _check_weight(weight: Expression, word: str, mask: tree.Mask, given: tuple[str, ...] | None, scope: Scope) -> None:
    verify_written_out(weight, f"this {word}", scope)
    number = known_number(weight)
    if number is not None and (number < 0 or (word == "rate" and number > 1)):
        limits = "between 0 and 1" if word == "rate" else "at least 0"
        scope.report("E319", f"a {word} is {limits}, found {number}", weight.span, "out of bounds")
    if given is None:
        return
    stray = [part for part in mentions(weight, lets_of(scope)) if isinstance(part, VariableValue) and part.name not in given]
    if stray:
        names = sorted({part.name for part in stray})
        inside = next((part for part in walk(weight) if part in stray), weight)
        help = f"say what the mask looks at: `sees {', '.join((*given, *names))}` before its body"
        message = f"this {word} mentions {listed(names)}, which the mask does not see"
        end = mask.given[-1].span.end if mask.given else mask.body.span.start
        text = f", {', '.join(names)}" if mask.given else f"sees {', '.join(names)} "
        place = ((mask.name.span, f"its header has {'no such name' if mask.given else 'no `sees`'}"),)
        fix = Fix(Span(mask.span.source, end, end), text)
        scope.report("E305", message, inside.span, "not seen", help=help, related=place, fix=fix)


# What makes the input of a network: `noise`, `stages`, `stage_inputs`


def _check_seen(call: tree.Call, form: Form, arguments: dict[str, object], model: Model, scope: Scope) -> bool:
    """Return whether the options that make a network's input have a network and an effect.

    Args:
        call: the call in the program's text.
        form: the form of the mask.
        arguments: the checked arguments.
        model: the model of the mask.
        scope: collects the diagnostics.
    """
    written = {a.keyword.name: a for a in call.arguments if a.keyword is not None and a.keyword.name in SEEN_OPTIONS}
    if model.conditional is None:
        return _check_lack(call, form, written, model, scope)
    stages = known_number(arguments["stages"]) if "stages" in arguments else 1
    if "stage_inputs" in written and stages == 1:
        help = "write `stages = 2`, or remove it"
        report_idle("stage_inputs", "there is one stage, whose input is made of the row", call, scope, help=help)
        return False
    return True


def _check_lack(call: tree.Call, form: Form, written: dict[str, tree.Argument], model: Model, scope: Scope) -> bool:
    """Report E323 for options or a form that need a network. Return whether there are none."""
    if form.name == "least_confident":
        if scope.lacks_network(model.name, model.span):
            message = f"`least_confident` asks a network: model `{model.name}` has no `conditional`"
            scope.report("E323", message, call.span, "no network here", help="for example `subsets(x, size = 2)`")
        return False
    for name, argument in written.items():
        if scope.lacks_network(model.name, model.span):
            message = f"`{name}` {SEEN_OPTIONS[name]}: model `{model.name}` has no `conditional`"
            fix = Fix(without(call, argument), "", guess=True) if call.arguments.index(argument) else None
            scope.report("E323", message, argument.span, "no network here", help="remove it", fix=fix)
    return not written


def _check_stages(e: tree.MaskMixture, mixed: MaskMixture, scope: Scope) -> bool:
    """Return whether all rows of a mixture have equal `stages` and `stage_inputs`."""
    found = [[input_options(leaf) for leaf in part.leaves()] for part in mixed.parts]
    first = found[0][0]
    for row, options in zip(e.rows, found, strict=True):
        for o in options:
            if (o["stages"], o["stage_inputs"]) != (first["stages"], first["stage_inputs"]):
                message = "the rows of a mixture have different `stages`: the losses of a mask are averaged over one number of them"
                place = ((e.rows[0].mask.span, "the first row"),)
                help = "write the same `stages` and `stage_inputs` in every row"
                scope.report("E325", message, row.mask.span, "differs", help=help, related=place)
                return False
    return True


def check_no_stages(e: tree.MaskExpression, scope: Scope) -> bool:
    """Return whether a mask written inside an update has no options that only a fit reads.

    A named mask may have them, because it serves both.
    """
    if isinstance(e, tree.MaskMixture):
        return all([check_no_stages(row.mask, scope) for row in e.rows])
    if not isinstance(e, tree.Call):
        return True
    found = [a.keyword.name for a in e.arguments if a.keyword is not None and a.keyword.name in ("stages", "stage_inputs")]
    for name in found:
        report_idle(name, "only a fit has stages, and this mask belongs to an update", e, scope)
    return not found


def check_percolation(call: tree.Call, form: Form, edges: Sequence[BlockTerm], model: Model, scope: Scope) -> FormMask | None:
    """Return the mask of `percolation(..)`, or None after a fault (E331).

    Each edge must have two cells, and the model must have a joint distribution.

    Args:
        call: the call in the program's text.
        form: the form `percolation`.
        edges: the checked edges, as blocks.
        model: the model of the mask.
        scope: the names that are visible. It collects the diagnostics.
    """
    if model.conditional is not None:
        if scope.is_whole():
            place = ((model.conditional.span, "conditionals only"),)
            help = "an update of a network takes cells one by one, or a block `independently`, by `subsets(..)` or `blocks(..)`"
            scope.report("E331", f"`percolation` needs log p: {WHY}", call.span, "no joint distribution", help=help, related=place)
        return None
    for term in edges:
        if _count(term, model, scope) != 2:
            help = "write `percolation(G.edges)`, or `{x[i], x[j]} for (i, j) in G.edges`"
            scope.report("E331", "an edge of `percolation` has two cells", term.span, "no pair of cells", help=help)
            return None
    names = tuple(dict.fromkeys(c.variable for term in edges for c in term.cells))
    return FormMask(call.span, FormCall(call.span, form, {}), names, tuple(edges))


def _count(term: BlockTerm, model: Model, scope: Scope) -> int | None:
    """Return the number of cells of a block, or None if the block contains whole arrays or rows."""
    return len(term.cells) if all(_is_one(c, term, model, scope) for c in term.cells) else None


def _is_one(cells: Cells, term: BlockTerm, model: Model, scope: Scope) -> bool:
    if cells.indices is None:
        return not model.variables[cells.variable].axes
    rows = {name for loop in term.clauses.loops for name in loop.names if loop.over.lists_cells}
    outer = (scope.find(i.name) for i in cells.indices if isinstance(i, IndexValue))
    listed = any(s is not None and isinstance(s.value, SetOf) and s.value.lists_cells for s in outer)
    return not listed and not any(isinstance(i, IndexValue) and i.name in rows for i in cells.indices)


def check_no_clusters(e: tree.MaskMixture, parts: Sequence[MaskBody | None], scope: Scope) -> bool:
    """Return whether no row of a mixture of masks draws clusters. Report E331 for each such row.

    A row that draws clusters does not draw a block with a weight of its own.
    """
    found: list[Span] = [row.mask.span for row, part in zip(e.rows, parts, strict=True) if part is not None and part.is_percolation]
    for span in found:
        help = "mix updates instead: `mixture { 0.5 : update x[K] where K ~ clusters  0.5 : update x[i] for i in site }` in a sampler"
        scope.report("E331", "`percolation` cannot be a row of a mixture of masks", span, "stands alone", help=help)
    return not found
