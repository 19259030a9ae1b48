"""Check models that use other models.

`use M as a` copies declarations under a name. `mixture k { 0 : a  1 : b }` weights normalised
copies.
"""

from __future__ import annotations

from .._diagnostics import listed
from ..syntax import tree
from ._body import Body, Component
from ._conditionals import as_key, values_of
from ._expressions import STATE, check_expression, check_label
from ._program import Distributed, Factor, Model, Require, Variable
from ._references import check_name
from ._scope import Scope, suggestion
from ._surface import copied
from ._terms import Choice, Clauses, Expression, Kind, LabelCode, Literal, LogPartition, Operation, Table, TableEntry, VariableValue

Statements = tuple[tree.ModelStatement, ...]
OWNED = (tree.Variable, tree.Parameter, tree.Let)


def written_out(model: tree.Model, scope: Scope) -> tuple[Statements, dict[int, str]]:
    """Return the statements of a model with models in use expanded, and the owner of each copy.

    The key of a copy is its identity, and its owner is the name of the model in use.
    """
    out: list[tree.ModelStatement] = []
    owners: dict[int, str] = {}
    scope.in_use, scope.stands_for = {}, {}
    for s in model.body:
        if not isinstance(s, tree.Use):
            out.append(s)
            continue
        for copy in _used(s, out, scope):
            owners[id(copy)] = s.name.name
            out.append(copy)
    scope.texts[model.name.name] = tuple(out)
    return tuple(out), owners


def _used(s: tree.Use, before: list[tree.ModelStatement], scope: Scope) -> list[tree.ModelStatement]:
    """Return the statements of a model in use, with the name of the copy before its own names."""
    symbol = scope.use(s.model, "model")
    scope.in_use.setdefault(s.name.name, "")
    if symbol is None or not isinstance(symbol.value, Model):
        return []
    used = symbol.value
    if used.conditional is not None:
        scope.report("E205", f"`{s.model.name}` is a network's conditional: no model uses it", s.model.span, "no joint distribution")
        return []
    if scope.find(s.name.name) is not None:
        scope.declare("model", s.name)  # This reports a name that is already declared.
        return []
    statements = scope.texts[s.model.name]
    scope.in_use[s.name.name] = s.model.name
    names = [n for x in statements if isinstance(x, OWNED) for n in (x.name.name, *(d.name.name for d in getattr(x, "also", ())))]
    values: dict[str, tree.Expression] = {n: tree.Name(s.name.span, f"{s.name.name}.{n}") for n in names}
    bound = _bound_cells(s, used, before, scope)
    values |= bound
    out: list[tree.ModelStatement] = []
    for x in statements:
        if isinstance(x, tree.Variable):
            kept = [one for one in tree.singly(x) if one.name.name not in bound]
            out += [copied(one, values, scope) for one in kept]
        elif not isinstance(x, tree.Mask):
            out.append(copied(x, values, scope))
    return out


def _bound_cells(s: tree.Use, used: Model, before: list[tree.ModelStatement], scope: Scope) -> dict[str, tree.Expression]:
    """Return the cells that stand for variables of the model in use, by their names."""
    found: dict[str, tree.Expression] = {}
    for name, cell in s.bindings:
        declared = used.variables.get(name.name)
        if declared is None or name.name in found:
            message = f"`{s.model.name}` has no variable `{name.name}`" if declared is None else f"`{name.name}` is bound twice"
            scope.report("E203", message, name.span, "which variable?", help=f"its variables are {listed([*used.variables])}")
            continue
        found[name.name] = check_name(cell) if isinstance(cell, tree.Attribute) else cell
        if isinstance(cell, tree.Name | tree.Attribute):
            scope.stands_for[f"{s.name.name}.{name.name}"] = cell.span.text
        _verify_alike(cell, declared, before, scope)
    return found


def _verify_alike(cell: tree.Expression, declared: Variable, before: list[tree.ModelStatement], scope: Scope) -> None:
    """Report E212 unless a bound variable has as many axes as the variable that it replaces.

    The text of its type must also be identical.
    """
    base = check_name(cell.base if isinstance(cell, tree.Index) else cell)  # type: ignore[arg-type]
    found = [one for s in before if isinstance(s, tree.Variable) for one in tree.singly(s) if one.name.name == base.name]
    if not found:
        scope.report("E203", f"no variable `{base.name}` is declared before this", cell.span, "not declared")
        return
    axes = sum(len(a.names) for a in found[0].axes) - (len(cell.indices) if isinstance(cell, tree.Index) else 0)
    wanted = sum(len(a.names) for a in declared.axes)
    if axes != wanted or found[0].type.span.text != declared.domain.span.text:
        has = f"{axes} ax{'i' if axes == 1 else 'e'}s and type `{found[0].type.span.text}`"
        message = f"`{cell.span.text}` is not like `{declared.name}`: it has {has}"
        help = f"`{declared.name}` has {wanted} ax{'i' if wanted == 1 else 'e'}s and type `{declared.domain.span.text}`"
        scope.report("E212", message, cell.span, "not alike", related=((declared.span, "declared here"),), help=help)


def check_mixtures(statements: Statements, body: Body, scope: Scope) -> None:
    """Add the terms of each component of a mixture to log p if its key holds.

    Each component is divided by its own normalising constant Z.
    """
    for s in statements:
        if isinstance(s, tree.ModelMixture):
            with scope.nested():
                _mixture(s, body, scope)


def _chooses(s: tree.ModelMixture, body: Body, scope: Scope) -> tuple[VariableValue, Kind] | None:
    """Return the variable that chooses among models, and its kind, or None after a fault."""
    symbol = scope.find(s.cell.name) if isinstance(s.cell, tree.Name) else None
    if symbol is not None and symbol.kind == "param":
        help = f"a cell chooses the model, with these weights: `latent k : bit ~ categorical({symbol.name})`, and `mixture k {{ .. }}`"
        place = ((symbol.span, "declared here"),)
        scope.report("E205", f"`{symbol.name}` is a parameter, not a variable", s.cell.span, "a parameter", related=place, help=help)
        return None
    cell, kind = check_expression(s.cell, scope, STATE)
    if isinstance(cell, VariableValue) and kind.plain and kind.domain is not None and body.variables[cell.name].role != "given":
        return cell, kind
    if kind.tag != "error":
        scope.report("E205", f"`{s.cell.name}` is not a variable of the model", s.cell.span, "expected a variable of few values")
    return None


def _mixture(s: tree.ModelMixture, body: Body, scope: Scope) -> None:
    chooses = _chooses(s, body, scope)
    if chooses is None:
        return
    cell, kind = chooses
    seen: dict[object, tree.Component] = {}
    parts: list[tuple[Expression, Component, tree.Component]] = []
    for c in s.components:
        key = _key(c.key, kind, scope)
        if key is None:
            return
        if key in seen:
            place = ((seen[key].span, "the first one"),)
            help = "write one model for each value"
            scope.report("E332", "this key stands twice in the mixture", c.key.span, "again here", related=place, help=help)
            return
        seen[key] = c
        component = body.components.pop(c.model.name, None)
        if component is None:
            _report_part(c.model, [p[2].model.name for p in parts], scope)
            return
        parts.append((key, component, c))
    values = values_of(kind)
    if values and len(parts) != len(values):
        message = f"`{s.cell.name}` has {len(values)} values, and the mixture {len(parts)} parts"
        scope.report("E332", message, s.span, "a part for each value", help="write one model for each value")
        return
    cells = [_cells(p, body) for _, p, _ in parts]
    odd = next((k for k, found in enumerate(cells) if found != cells[0]), None)
    if odd is not None:
        message = (
            f"`{parts[odd][2].model.name}` speaks of {listed(sorted(cells[odd]))}, `{parts[0][2].model.name}` of {listed(sorted(cells[0]))}"
        )
        help = "the parts of a mixture are distributions of the same cells: `use ising as b with x = a.x`"
        scope.report("E212", message, parts[odd][2].span, "other cells", help=help)
        return
    for key, component, c in parts:
        _gate(Operation(c.span, "==", (cell, key)), component, sorted(cells[0]), body, c)


def _report_part(name: tree.Name, before: list[str], scope: Scope) -> None:
    """Report a component of a mixture that is not a model in use, or is one already used."""
    used = scope.in_use.get(name.name)
    symbol = scope.find(name.name)
    if used == "" or (symbol is not None and symbol.faulty):
        return
    if name.name in before:
        scope.report("E306", f"`{name.name}` stands twice in the mixture", name.span, "again here", help="use the model under two names")
    elif used is not None:
        help = f"the parts of a mixture are distributions: give `{used}` a factor, a requirement or a `~`"
        scope.report("E320", f"`{name.name}` adds nothing to log p", name.span, "nothing to weigh", help=help)
    elif symbol is not None and symbol.kind == "model":
        help, place = f"write `use {name.name} as a` before this, and `a` here", ((symbol.span, "declared here"),)
        scope.report("E205", f"`{name.name}` is a model that is not in use", name.span, "not in use", help=help, related=place)
    else:
        known = [n for n, of in scope.in_use.items() if of]
        help, fix = suggestion(name, known, f"in use are {listed(known)}" if known else "a part is a model in use: `use ising as a`")
        scope.report("E203", f"`{name.name}` is not a model in use", name.span, "not in use", help=help, fix=fix)


def _key(e: tree.Expression, kind: Kind, scope: Scope) -> Expression | None:
    if isinstance(e, tree.String) and kind.tag == "label" and kind.domain is not None:
        label = check_label(e, kind.domain, scope)
        return label if isinstance(label, LabelCode) else None
    values = values_of(kind)
    if isinstance(e, tree.Number) and kind.tag != "label" and (not values or e.value in values):
        return Literal(e.span, e.value)
    help = f"its values are {listed([as_key(v) for v in values])}" if values else ""
    scope.report("E332", f"`{e.span.text}` is not a value of the variable", e.span, "not a key", help=help)
    return None


def _cells(component: Component, body: Body) -> set[str]:
    """Return the variables that a component mentions, excluding given variables."""
    from ._expressions import mentions

    terms = [*(f.value for f in component.factors), *(r.condition for r in component.requires)]
    terms += [e for d in component.distributed for e in (d.target, d.probabilities)]
    named = {p.name for e in terms for p in mentions(e, body.lets) if isinstance(p, VariableValue)}
    return {n for n in named if body.variables[n].role != "given"}


def _gate(here: Expression, component: Component, variables: list[str], body: Body, c: tree.Component) -> None:
    """Add the terms of a component under the condition `here`, and subtract its log Z there.

    Args:
        here: the condition that the component's key holds.
        component: the terms of the component.
        variables: the variables over which Z sums.
        body: the model that receives the terms.
        c: the component in the program's text.
    """
    nothing = Literal(c.span, 0)
    densities = [_density(d, body) for d in component.distributed]
    for f in (*component.factors, *densities):
        body.factors.append(Factor(f.span, Choice(f.span, here, f.value, nothing), f.clauses))
    for r in component.requires:
        body.requires.append(Require(r.span, Choice(r.span, here, r.condition, Literal(c.span, True)), r.clauses))
    total = LogPartition(c.span, (*component.factors, *densities), tuple(component.requires), tuple(variables), c.model.name)
    body.factors.append(Factor(c.span, Choice(c.span, here, Operation(c.span, "neg", (total,)), nothing), Clauses(c.span, ())))


def _density(d: Distributed, body: Body) -> Factor:
    """Return `z ~ categorical(p)` as a factor."""
    if d.is_density:
        return Factor(d.span, d.probabilities, d.clauses)
    code = body.variables[d.target.name].domain.code(d.target)
    if isinstance(d.probabilities, Table):
        entry: Expression = TableEntry(d.span, d.probabilities, (code,))
    else:
        declared = body.parameters.get(d.probabilities.name)  # type: ignore[union-attr]
        place = code if declared is None else declared.axes[-1].over.member(code)
        entry = type(d.probabilities)(d.span, d.probabilities.name, (*d.probabilities.indices, place))  # type: ignore[union-attr, call-arg]
    return Factor(d.span, Operation(d.span, "log", (entry,)), d.clauses)
