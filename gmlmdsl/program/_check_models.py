"""Check the body of a model."""

from __future__ import annotations

from dataclasses import replace

from .._diagnostics import Fix, Span, listed
from ..syntax import tree
from . import _forms as forms
from ._arguments import check_arguments, find_form
from ._body import Body, Component
from ._calls import check_reduced, equal_pairs
from ._check_networks import check_conditional, check_no_joint
from ._conditionals import check_density
from ._expressions import (
    MODEL,
    PRIOR,
    STATE,
    check_condition,
    check_expression,
    check_number,
    faulty,
    is_faulty,
    known_number,
    verify_written_out,
)
from ._form import Form
from ._law_arguments import verify_one_array
from ._program import Distributed, Factor, Input, Let, Model, Parameter, PriorTerm, Require, ValueType, Variable
from ._references import check_name
from ._reuse import check_mixtures, written_out
from ._scope import CELLS, WORDS, Scope
from ._sets import check_axes, check_clauses
from ._tables import check_row, known_length
from ._terms import (
    Clauses,
    Expression,
    FormCall,
    IndexValue,
    InputValue,
    Literal,
    Loop,
    Operation,
    ParameterValue,
    SetOf,
    Table,
    TableEntry,
    VariableValue,
    kind_of,
    same_domain,
)
from ._types import check_domain, check_given, check_type


def check_model(model: tree.Model, scope: Scope) -> Model:
    """Return the checked model. Its names stay in `scope.model` until the caller removes them."""
    body = Body(model.name.name)
    before = len(scope.diagnostics)
    statements, owners = written_out(model, scope)
    mixed = {c.model.name: (m, c) for m in statements if isinstance(m, tree.ModelMixture) for c in m.components}
    for p in _parameters_of_the_file(statements, scope):
        with scope.nested():
            _shared(p, body, scope)
    for statement in statements:
        owner = owners.get(id(statement), "")
        marks = len(body.factors), len(body.requires), len(body.distributed)
        for s in tree.singly(statement) if isinstance(statement, tree.Variable | tree.Parameter) else (statement,):
            with scope.nested():
                _statement(s, body, scope)
            if isinstance(s, tree.Variable) and s.distribution is not None:
                with scope.nested():
                    _distributed(_as_statement(s, s.distribution), body, scope)
        if owner in mixed:
            body.components.setdefault(owner, Component()).take(body, marks)
    check_mixtures(statements, body, scope)
    if (
        all(v.role == "given" for v in body.variables.values())
        and len(scope.diagnostics) == before
        and scope.is_whole()
        and not scope.is_broken(model.span)
    ):
        message = f"model `{model.name.name}` declares no variable{' to predict' if body.variables else ''}"
        scope.report("E320", message, model.name.span, "empty", help="declare one: `var x[i in site] : spin`")
    if body.conditional is not None:
        check_no_joint(body, body.conditional, scope)
    return Model(
        model.span,
        model.name.name,
        body.variables,
        body.parameters,
        body.lets,
        tuple(body.factors),
        tuple(body.requires),
        tuple(body.distributed),
        tuple(body.gauges),
        body.conditional,
        tuple(body.priors),
    )


def _statement(s: tree.ModelStatement, body: Body, scope: Scope) -> None:
    match s:
        case tree.Variable():
            _variable(s, body, scope)
        case tree.Parameter():
            _parameter(s, body, scope)
        case tree.Let():
            _let(s, body, scope)
        case tree.Gauge():
            _gauge(s, body, scope)
        case tree.Factor():
            clauses = check_clauses(s.clauses, s.span, scope)
            value = _with_else(s.value, tree.Number(s.value.span, 0))
            body.factors.append(Factor(s.span, _written_out(check_number(value, scope, MODEL), "this factor", scope), clauses))
        case tree.Require():
            body.requires.append(_require(s, scope))
        case tree.Distributed():
            _distributed(s, body, scope)
        case tree.NetworkConditional():
            body.conditional = check_conditional(s, body, scope) or body.conditional


def _parameters_of_the_file(statements: tuple[tree.ModelStatement, ...], scope: Scope) -> list[tree.Parameter]:
    """Return the parameters of the file that a model mentions.

    A model may also mention a parameter through a function or through another such parameter.
    """
    if not scope.parameters:
        return []
    found: set[str] = set()
    todo: list[tree.Node] = [*statements]
    while todo:
        for name in tree.names_in(todo.pop()):
            symbol = scope.program.get(name.name)
            if symbol is not None and name.name not in found and isinstance(symbol.value, tree.Parameter | tree.Function):
                found.add(name.name)
                todo.append(symbol.value)
    return [p for n, p in scope.parameters.items() if n in found]


def _shared(s: tree.Parameter, body: Body, scope: Scope) -> None:
    """Check a parameter of the file as a parameter of the model."""
    outer = scope.program.pop(s.name.name)
    _parameter(s, body, scope)
    scope.program[s.name.name] = outer


def _as_statement(s: tree.Variable, law: tree.Call) -> tree.Distributed:
    """Return `x[i] ~ law for i in site` for `var x[i in site] : bit ~ law`."""
    names = tuple(n for loop in s.axes for n in loop.names)
    target = tree.Index(s.name.span, s.name, names) if names else s.name
    return tree.Distributed(s.span, target, law, tree.Clauses(s.span, s.axes) if s.axes else None)


def _with_else(e: tree.Expression, no: tree.Expression) -> tree.Expression:
    """Return an `if` without `else` with `no` as its `else`, and any other expression unchanged.

    Without `else`, a factor adds nothing to log p, and a requirement requires nothing.
    """
    return replace(e, no=no) if isinstance(e, tree.Conditional) and e.no is None else e


def _require(s: tree.Require, scope: Scope) -> Require:
    """Check a requirement.

    `all_different` with a `for` becomes one requirement for each pair of values.
    """
    clauses = check_clauses(s.clauses, s.span, scope)
    e = s.condition
    if isinstance(e, tree.Call) and e.function.name == "all_different" and scope.find("all_different") is None:
        found = check_reduced(e, scope, STATE)
        if found is None or not found[2].loops:  # The fault of a loop is reported already.
            return Require(s.span, faulty(e.span)[0], clauses)
        equal, pairs = equal_pairs(found[0], found[2])
        conditions = [c for c in (clauses.condition, pairs.condition) if c is not None]
        both = Operation(s.span, "and", tuple(conditions)) if len(conditions) > 1 else pairs.condition
        return Require(s.span, Operation(e.span, "not", (equal,)), Clauses(s.span, (*clauses.loops, *pairs.loops), both))
    e = _with_else(e, tree.Boolean(e.span, True))
    return Require(s.span, _written_out(check_condition(e, scope, STATE), "this condition", scope), clauses)


def _written_out(e: Expression, what: str, scope: Scope) -> Expression:
    return e if verify_written_out(e, what, scope) is not None else faulty(e.span)[0]


def _declare(kind: str, name: tree.Name, value: object, scope: Scope, type: object = None) -> bool:
    """Declare a name outside the scope of the statement's index names.

    The index names end with the statement. The result is True if the declaration has no fault.
    """
    inner, scope.binders = scope.binders, {}
    before = len(scope.diagnostics)
    scope.declare(kind, name, value, type)
    scope.binders = inner
    return len(scope.diagnostics) == before


def _variable(s: tree.Variable, body: Body, scope: Scope) -> None:
    axes = check_axes(s.axes, scope)
    domain = check_given(s.type, scope) if s.kind == "given" else check_domain(s.type, scope)
    value = None if axes is None or domain is None else Variable(s.span, s.kind, s.name.name, axes, domain)
    if _declare(s.kind, s.name, value, scope) and value is not None:
        body.variables[s.name.name] = value


NEED_AN_AXIS = {
    "simplex": "a simplex needs an axis: its entries along the last one sum to 1",
    "ordered": "what is ordered needs an axis: its entries increase along the last one",
}


def _parameter(s: tree.Parameter, body: Body, scope: Scope) -> None:
    axes = check_axes(s.axes, scope)
    type_ = check_type(s.type, scope, s.span, inputs=False) if s.type is not None else _type_of_prior(s)
    with scope.declares("param", s.name):
        prior = _prior(s, s.prior, type_, scope, axes) if s.prior is not None else None
    if type_ is not None and type_.kind in NEED_AN_AXIS and not s.axes:
        help = f"for example `param {s.name.name}[a in range(3)] : {type_.kind}`"
        scope.report("E322", NEED_AN_AXIS[type_.kind], s.name.span, "no axis", help=help)
        type_ = None
    value = None if axes is None or type_ is None else Parameter(s.span, s.name.name, axes, type_, prior)
    if _declare("param", s.name, value, scope) and value is not None:
        body.parameters[s.name.name] = value


def _type_of_prior(s: tree.Parameter) -> ValueType:
    """Return the type of a parameter without a written one: the support of its prior, else real.

    For example, `param tau ~ half_normal(1)` declares a positive parameter.
    """
    form = forms.form("distribution", s.prior.function.name) if s.prior is not None else None
    support = "" if form is None else form.support
    if support == "unit":
        return ValueType(s.span, "bounded", Literal(s.span, 0), Literal(s.span, 1))
    return ValueType(s.span, support if support in ("positive", "simplex") else "real")


_SUPPORTS = {
    "real": ("real", "positive", "bounded", "ordered"),
    "unbounded": ("real",),
    "positive": ("positive", "bounded"),
    "unit": ("bounded",),
    "simplex": ("simplex",),
}
_WORDS = {
    "real": "real parameters",
    "unbounded": "real parameters without bounds",
    "positive": "positive parameters",
    "unit": "parameters between 0 and 1",
    "simplex": "simplex parameters",
}
_CURES = {"real": ": real", "unbounded": ": real", "positive": ": positive", "unit": ": real(lower = 0, upper = 1)", "simplex": ": simplex"}


def _fits(support: str, type_: ValueType) -> bool:
    """Return whether every value of the parameter has a density under a prior with this support.

    For example, `gamma` needs values above 0, and `beta` needs values between 0 and 1.
    """
    if type_.kind != "bounded" or support not in ("positive", "unit"):
        return type_.kind in _SUPPORTS[support]
    low, high = known_number(type_.lower), known_number(type_.upper)
    below = type_.lower is None or (low is not None and low < 0)
    above = support == "unit" and (type_.upper is None or (high is not None and high > 1))
    return not below and not above


def _prior(
    s: tree.Parameter, call: tree.Call, type_: ValueType | None, scope: Scope, axes: tuple[Loop, ...] | None = None
) -> FormCall | None:
    form = find_form(call, "distribution", scope, tuple(n for n in forms.names("distribution") if n not in CELL_LAWS), "prior")
    if form is None:
        return None
    if form.support == "cell":
        message = f"`{form.name}` is a distribution of variables, not of parameters"
        help = (
            "did you mean `dirichlet`?"
            if form.name == "categorical"
            else "an unknown of few values is not a parameter: `latent z : range(3)`"
        )
        scope.report("E311", message, call.function.span, "not a prior", help=help)
        return None
    if is_prior_of_elsewhere(call, form, scope):
        return None
    rows = _written_rows(s, call, form, scope, axes)
    arguments = check_arguments(call, form, scope, where=PRIOR) if rows is None else rows
    if not arguments:
        return None
    if type_ is not None and not _fits(form.support, type_):
        bounded = type_.kind == "bounded" and form.support in ("positive", "unit")
        message = f"`{form.name}` is a prior of {_WORDS[form.support]}, this one {'has other bounds' if bounded else f'is {type_.kind}'}"
        help = "a simplex takes `dirichlet(..)`" if type_.kind == "simplex" else f"declare the parameter with `{_CURES[form.support]}`"
        fix = None if type_.kind == "simplex" else Fix(_type_place(s, call), f" {_CURES[form.support]}", guess=True)
        scope.report("E311", message, call.span, "does not fit", help=help, fix=fix)
        return None
    _check_positive(form, arguments, call, scope)
    return FormCall(call.span, form, arguments)


def _written_rows(
    s: tree.Parameter, call: tree.Call, form: forms.Form, scope: Scope, axes: tuple[Loop, ...] | None
) -> dict[str, object] | None:
    """Return the argument of `dirichlet([2, 1, 1])`, a number for each entry along the last axis.

    The result is empty after a fault, and None for any other prior.
    """
    a = call.only
    if form.name != "dirichlet" or a is None or not isinstance(a.value, tree.List):
        return None
    items = tuple(check_number(item, scope, PRIOR) for item in a.value.items)
    last = s.axes[-1].names if s.axes else ()
    if any(is_faulty(i) for i in items) or len(last) != 1:
        return {}
    length = known_length(axes[-1].over) if axes else None
    if length is not None and length != len(items):
        message = f"`{s.name.name}` has {length} entries along its last axis, this list {len(items)}"
        scope.report("E302", message, a.value.span, "one concentration for each", help="one number alone is that of all of them")
        return {}
    for i in items:
        if (known := known_number(i)) is not None and known <= 0:
            scope.report(
                "E319", f"`concentration` of `dirichlet` is above 0, found {known}", i.span, "not above 0", help="write a number above 0"
            )
            return {}
    return {"concentration": TableEntry(a.value.span, Table(a.value.span, items), (IndexValue(a.value.span, last[0].name),))}


def _prior_statement(s: tree.Distributed, base: tree.Name, declared: Parameter, body: Body, scope: Scope) -> None:
    """Check a prior that a statement gives.

    An example is `h[t] ~ normal(h[t - 1], tau) for t in time if t > 0`.
    """
    clauses = check_clauses(s.clauses, s.span, scope)
    target, kind = check_expression(s.target, scope, PRIOR)
    if kind.tag == "open" or declared.type.kind == "simplex":
        help = f"a prior of whole rows stands where the parameter is declared: `param {base.name}[..] : simplex ~ dirichlet(1)`"
        scope.report("E311", "a statement gives single entries their prior", s.target.span, "a row", help=help)
        return
    declaration = tree.Parameter(s.span, base, (), None, s.distribution)
    prior = _prior(declaration, s.distribution, declared.type, scope)
    if prior is None or not isinstance(target, ParameterValue):
        return
    if prior.form.support == "unbounded":
        message = f"`{prior.form.name}` stands where a parameter is declared"
        scope.report(
            "E311", message, s.distribution.span, "not in a statement", help=f"write `param {base.name}[..] ~ {s.distribution.span.text}`"
        )
        return
    body.priors.append(PriorTerm(s.span, target, prior, clauses))


def _type_place(s: tree.Parameter, call: tree.Call) -> Span:
    """Return the place of the type of a parameter with a prior, including the `:`.

    If the parameter has no type, it is the place to insert one.
    """
    text, end = s.span.source.text, call.span.start
    tilde = text.rfind("~", s.span.start, end)
    end = len(text[:tilde].rstrip())
    start = end if s.type is None else text.rfind(":", s.span.start, s.type.span.start)
    return Span(s.span.source, len(text[:start].rstrip()), end)


def _check_positive(form: forms.Form, arguments: dict[str, object], call: tree.Call, scope: Scope) -> None:
    for option in form.options:
        value = arguments.get(option.name)
        number = known_number(value)
        if number is None:
            continue
        assert isinstance(value, Literal)
        if option.doc.endswith("above 0") and number <= 0:
            scope.report(
                "E319",
                f"`{option.name}` of `{form.name}` is above 0, found {number}",
                value.span,
                "not above 0",
                help="write a number above 0",
            )
        shape = option.name in ("shape", "a", "b", "concentration") and form.support in ("positive", "unit", "simplex")
        if shape and 0 < number < 1:
            message = f"the density of `{call.span.text}` is unbounded: a fit has no optimum"
            scope.report("W802", message, value.span, "below 1", help="`fit` refuses it; use a value of at least 1")


def _let(s: tree.Let, body: Body, scope: Scope) -> None:
    axes = check_axes(s.axes, scope)
    with scope.declares("let", s.name):
        value, kind = check_expression(s.value, scope, MODEL)
    if kind.tag == "open":
        text, own = s.value.span.text, "k" if scope.find("k") is None else "a"
        whole = f"{text[:-1]}, {own}]" if text.endswith("]") else f"{text}[{own}]"
        help = f"name its entries: `let {s.name.name}[{own} in ..] = {whole}`"
        scope.report("E210", "a `let` is a single value, this array has an open axis", s.value.span, "give every index", help=help)
    extent = verify_written_out(value, f"`{s.name.name}`", scope)
    let = None if axes is None or extent is None or kind.tag in ("open", "error") else Let(s.span, s.name.name, axes, value, extent)
    if _declare("let", s.name, let, scope, kind) and let is not None:
        body.lets[s.name.name] = let


def _gauge(s: tree.Gauge, body: Body, scope: Scope) -> None:
    form = find_form(s.form, "gauge", scope)
    if form is None:
        return
    only = s.form.only
    name = only.value if only is not None and only.is_plain else None
    if not isinstance(name, tree.Name):
        scope.report("E302", "`zero_sum` takes the name of one parameter", s.form.span, "`zero_sum(J)`")
        return
    symbol = scope.use(name, "param")
    if symbol is None or not isinstance(symbol.value, Parameter):
        return
    declared = symbol.value
    place = ((symbol.span, "declared here"),)
    if declared.type.kind != "real":
        message = f"a gauge needs a real parameter, `{symbol.name}` is {declared.type.kind}"
        scope.report("E312", message, name.span, "not real", related=place, help="remove the gauge: it would shift values out of range")
    elif not any(a.over.kind == "domain" for a in declared.axes):
        help = "a gauge needs an axis over a declared domain: `a in aa`"
        scope.report("E312", f"no axis of `{symbol.name}` runs over a domain", name.span, "nothing to fix", related=place, help=help)
    elif declared.prior is not None and declared.prior.form.support == "unbounded":
        message = f"`{declared.prior.form.name}` puts each entry of `{symbol.name}` in or out on its own, and a gauge ties them together"
        help = "remove the gauge: the prior determines every direction"
        scope.report("E312", message, name.span, "in or out one by one", related=place, help=help, fix=Fix(s.span, ""))
    elif symbol.name in [g for g, _ in body.gauges]:
        place = ((next(span for g, span in body.gauges if g == symbol.name), "stated here"),)
        message, fix = f"the gauge of `{symbol.name}` is stated twice", Fix(s.span, "")
        scope.report("E312", message, s.span, "again here", help="remove it", related=place, fix=fix)
    else:
        body.gauges.append((symbol.name, s.span))


def _distributed(s: tree.Distributed, body: Body, scope: Scope) -> None:
    binders = dict(scope.binders)
    clauses = check_clauses(s.clauses, s.span, scope)
    base = check_name(s.target.base if isinstance(s.target, tree.Index) else s.target)
    if scope.find(base.name) is None and base.name in ("real", "positive", "simplex"):
        help, fix = "a type follows `:`", Fix(base.span, f": {base.name}")
        scope.report("E203", f"`{base.name}` is a type, not a variable", base.span, "no `:` before this", help=help, fix=fix)
        return
    network = scope.find(s.distribution.function.name)
    if network is not None and network.kind == "network":
        help, fix = "a network stands behind `conditional`", Fix(base.span, f"conditional {base.name}")
        message = f"`{network.name}` is a network, not a distribution"
        scope.report("E205", message, s.distribution.function.span, "a network", help=help, fix=fix)
        scope.lacks_network(body.name, s.span)
        return
    parameter = scope.find(base.name)
    if parameter is not None and isinstance(parameter.value, Parameter):
        scope.binders = binders
        _prior_statement(s, base, parameter.value, body, scope)
        return
    if scope.find(base.name) is None:
        form = forms.form("distribution", s.distribution.function.name.lower())
        help = f"declare it before this: `var {base.name} : bit`"
        if form is not None and form.support != "cell":
            help = f"a parameter is declared with its prior: `param {base.name} ~ {form.signature}`"
        scope.report_unknown(base, "var", "latent", otherwise=help)
        return
    if _is_without_a_law(base, scope) or scope.use(base, "var", "latent") is None:
        return
    _law(s, base, clauses, body, scope)


def _is_without_a_law(base: tree.Name, scope: Scope) -> bool:
    """Return whether a given variable or a `let` has a distribution, and report E205 for it."""
    symbol = scope.find(base.name)
    if symbol is None or symbol.kind not in ("given", "let") or symbol.faulty:
        return False
    what, help = "is given", "what comes with each row is never predicted: leave the distribution out, or declare it a `var`"
    if symbol.kind == "let":
        what, help = "is a `let`", "it follows from cells, which have distributions; a cell of its own is declared `var`"
    place = ((symbol.span, "declared here"),)
    scope.report("E205", f"`{base.name}` {what}, and has no distribution", base.span, WORDS[symbol.kind], related=place, help=help)
    return True


def _law(s: tree.Distributed, base: tree.Name, clauses: Clauses, body: Body, scope: Scope) -> None:
    """Check the distribution of a variable's cells."""
    target, _ = check_expression(s.target, scope, STATE)
    cell = scope.model[base.name].value
    law = forms.form("distribution", s.distribution.function.name)
    if law is not None and law.support == "cell" and not _is_plain_row(s.distribution, scope):
        if isinstance(cell, Variable) and isinstance(target, VariableValue):
            density = check_density(s.distribution, cell, target, scope)
            if density is not None:
                value = _written_out(density.value, "this distribution", scope)
                body.distributed.append(Distributed(s.span, target, value, clauses, True, density.counts, density.arguments))
        return
    probabilities = _probabilities(s.distribution, cell if isinstance(cell, Variable) else None, scope)
    if probabilities is not None and isinstance(target, VariableValue):
        if not isinstance(probabilities, Table):
            _check_last_axis(target, probabilities, s.distribution.arguments[0].span, scope)
        body.distributed.append(Distributed(s.span, target, probabilities, clauses))


CELL_LAWS = tuple(f.name for f in forms.DISTRIBUTIONS if f.support == "cell")


def _is_plain_row(call: tree.Call, scope: Scope) -> bool:
    """Return whether a call is `categorical` of an array with an open last axis or of a fixed list.

    A fixed list mentions no cell and no parameter.
    """
    a = call.only
    if call.function.name != "categorical":
        return False
    if a is None or not a.is_plain:
        return a is None or a.keyword is None or a.keyword.name != "logits"
    if not isinstance(a.value, tree.List):
        return not isinstance(a.value, tree.Conditional | tree.LookedUp)
    names = [n for n in tree.names_in(a.value) if (found := scope.find(n.name)) is not None and found.kind in (*CELLS, "let", "param")]
    return not names


def _probabilities(call: tree.Call, cell: Variable | None, scope: Scope) -> ParameterValue | InputValue | Table | None:
    """Return the argument of `categorical`, or None after a fault.

    It is an array of probabilities with its last axis open, or a list of probabilities.
    """
    form = find_form(call, "distribution", scope, CELL_LAWS, "variable")
    if form is None:
        return None
    if form.support != "cell":
        message = f"`{form.name}` is a prior of parameters; a variable takes {listed([f'{n}' for n in CELL_LAWS])}"
        help = "the distribution of a variable is `categorical(p)`, `bernoulli(p)`, .., or a sum of terms `factor ..`"
        scope.report("E311", message, call.function.span, "not for a variable", help=help)
        return None
    if not verify_one_array(call, form, scope):
        return None
    e = call.arguments[0].value
    if isinstance(e, tree.List):
        return None if cell is None else check_row(e, cell.domain, scope)
    name = check_name(e.base if isinstance(e, tree.Index) else e) if isinstance(e, tree.Name | tree.Index) else None
    symbol = None if name is None else scope.find(name.name)
    if symbol is not None and isinstance(symbol.value, Parameter) and symbol.value.type.kind != "simplex":
        place, help = ((symbol.span, "declared here"),), f"declare it as `param {symbol.name}[..] : simplex`"
        scope.report("E310", f"`{symbol.name}` is not a simplex", e.span, "need not sum to 1", related=place, help=help)
        return None
    value, kind = check_expression(e, scope, MODEL)
    if kind.tag == "open" and isinstance(value, ParameterValue | InputValue):
        return value
    if kind.tag != "error":
        help = (
            "leave the last axis of a `simplex` parameter or a normalised input open: `categorical(move[z[t - 1]])`; or write `[0.2, 0.8]`"
        )
        scope.report("E310", "`categorical` needs an array of probabilities", e.span, "not an open array", help=help)
    return None


def _check_last_axis(target: VariableValue, p: ParameterValue | InputValue, span: Span, scope: Scope) -> None:
    """Report E212 unless the open axis runs over the values of the cell."""
    cell = scope.model[target.name].value
    symbol = scope.find(p.name)
    declared = symbol.value if symbol is not None else None
    if symbol is None or not isinstance(cell, Variable) or not isinstance(declared, Parameter | Input):
        return
    last = declared.axes[-1].over
    axis = last.domain if isinstance(last, SetOf) and last.kind == "domain" else None
    labelled = not kind_of(cell.domain).numeric
    if labelled != (axis is not None and not axis.ordered) or (labelled and not same_domain(axis, cell.domain)):
        message = f"the last axis of `{p.name}` does not run over the values of `{target.name}`"
        place = ((scope.model[target.name].span, "the variable"), (symbol.span, "the probabilities"))
        help = "declare the last axis over the domain of the variable: `k in aa` for `var x : aa`"
        scope.report("E212", message, span, "two domains", related=place, help=help)


def is_prior_of_elsewhere(call: tree.Call, form: Form, scope: Scope) -> bool:
    """Report `dirichlet(1, 1, 1)` and `half_normal(0, 1)`.

    The first lacks the brackets of a list. The second contains a location. The result is True if
    the call is one of them.
    """
    if not call.is_plain or len(call.arguments) < 2:
        return False
    texts = [a.value.span.text for a in call.arguments]
    place = call.arguments[0].span.to(call.arguments[-1].span)
    if form.name == "dirichlet":
        text = f"[{place.text}]"
        help = f"a concentration for each entry is a list: `dirichlet({text})`"
        message = "`dirichlet` takes one number, or one list"
    elif form.name in ("half_normal", "half_cauchy") and len(texts) == 2 and texts[0] in ("0", "0.0"):
        text = texts[1]
        help = f"it begins at 0 always: write `{form.name}({text})`"
        message = f"`{form.name}` takes its scale alone"
    else:
        return False
    scope.report("E302", message, place, f"`{form.signature}`", help=help, fix=Fix(place, text, guess=True))
    return True
