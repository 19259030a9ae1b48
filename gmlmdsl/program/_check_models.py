"""Checks the body of a model."""

from __future__ import annotations

from .._diagnostics import Fix, Span
from ..syntax import tree
from . import _forms as forms
from ._arguments import check_arguments, find_form
from ._blocks import FormCall
from ._body import Body
from ._check_networks import check_conditional, check_no_joint
from ._expressions import MODEL, STATE, check_condition, check_expression, check_number, faulty, known_number
from ._kinds import kind_of, same_domain
from ._program import Distributed, Factor, Input, Let, Model, Parameter, Require, ValueType, Variable
from ._scope import Scope
from ._sets import check_clauses, check_loops
from ._tables import check_row
from ._terms import Expression, InputValue, Literal, ParameterValue, SetOf, Table, VariableValue
from ._types import check_domain, check_given, check_type
from ._written_out import verify_written_out


def check_model(model: tree.Model, scope: Scope) -> Model:
    """The checked model; its names stay in the scope's `model` until the caller takes them away."""
    body = Body(model.name.name)
    before = len(scope.diagnostics)
    for statement in model.body:
        with scope.nested():
            _statement(statement, body, scope)
    if (
        all(v.role == "given" for v in body.variables.values())
        and len(scope.diagnostics) == before
        and scope.is_whole()
        and not scope.is_broken(model.span)
    ):
        message = f"model `{model.name.name}` declares no variable{' to predict' if body.variables else ''}"
        scope.report("E320", message, model.name.span, "empty", help="declare one: `var x[i in site] : spin`")
    check_no_joint(body, scope)
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
            body.factors.append(Factor(s.span, _written_out(check_number(s.value, scope, MODEL), "this factor", scope), clauses))
        case tree.Require():
            clauses = check_clauses(s.clauses, s.span, scope)
            condition = _written_out(check_condition(s.condition, scope, STATE), "this condition", scope)
            body.requires.append(Require(s.span, condition, clauses))
        case tree.Distributed():
            _distributed(s, body, scope)
        case tree.NetworkConditional():
            body.conditional = check_conditional(s, body, scope) or body.conditional


def _written_out(e: Expression, what: str, scope: Scope) -> Expression:
    return e if verify_written_out(e, what, scope) is not None else faulty(e.span)[0]


def _declare(kind: str, name: tree.Name, value: object, scope: Scope, type: object = None) -> bool:
    """Declare outside the statement's own index names, which end with it."""
    inner, scope.binders = scope.binders, {}
    before = len(scope.diagnostics)
    scope.declare(kind, name, value, type)
    scope.binders = inner
    return len(scope.diagnostics) == before


def _variable(s: tree.Variable, body: Body, scope: Scope) -> None:
    axes = check_loops(s.axes, scope)
    domain = check_given(s.type, scope) if s.kind == "given" else check_domain(s.type, scope)
    value = None if axes is None or domain is None else Variable(s.span, s.kind, s.name.name, axes, domain)
    if _declare(s.kind, s.name, value, scope) and value is not None:
        body.variables[s.name.name] = value


def _parameter(s: tree.Parameter, body: Body, scope: Scope) -> None:
    axes = check_loops(s.axes, scope)
    type_ = check_type(s.type, scope, s.span, inputs=False)
    prior = _prior(s, s.prior, type_, scope) if s.prior is not None else None
    if type_ is not None and type_.kind == "simplex" and not s.axes:
        help = f"for example `param {s.name.name}[a in range(3)] : simplex`"
        scope.report("E322", "a simplex needs an axis: its entries along the last one sum to 1", s.name.span, "no axis", help=help)
        type_ = None
    value = None if axes is None or type_ is None else Parameter(s.span, s.name.name, axes, type_, prior)
    if _declare("param", s.name, value, scope) and value is not None:
        body.parameters[s.name.name] = value


_SUPPORTS = {
    "real": ("real", "positive", "bounded"),
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
    """Whether every value of the parameter has a density: `gamma` needs values above 0, `beta` values between 0 and 1."""
    if type_.kind != "bounded" or support not in ("positive", "unit"):
        return type_.kind in _SUPPORTS[support]
    low, high = known_number(type_.lower), known_number(type_.upper)
    below = type_.lower is None or (low is not None and low < 0)
    above = support == "unit" and (type_.upper is None or (high is not None and high > 1))
    return not below and not above


def _prior(s: tree.Parameter, call: tree.Call, type_: ValueType | None, scope: Scope) -> FormCall | None:
    form = find_form(call, "distribution", scope, tuple(n for n in forms.names("distribution") if n != "categorical"), "prior")
    if form is None:
        return None
    if form.support == "cell":
        message = "`categorical` is a distribution of variables, not of parameters"
        scope.report("E311", message, call.function.span, "not a prior", help="did you mean `dirichlet`?")
        return None
    arguments = check_arguments(call, form, scope, axes=True)
    if arguments is None:
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


def _type_place(s: tree.Parameter, call: tree.Call) -> Span:
    """Where the type of a parameter with a prior stands, or would stand: the `:` included."""
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
    axes = check_loops(s.axes, scope)
    value, kind = check_expression(s.value, scope, MODEL)
    if kind.tag == "open":
        scope.report("E210", "a `let` is a single value, this array has an open axis", s.value.span, "give every index")
    extent = verify_written_out(value, f"`{s.name.name}`", scope)
    let = None if axes is None or extent is None or kind.tag in ("open", "error") else Let(s.span, s.name.name, axes, value, extent)
    if _declare("let", s.name, let, scope, kind) and let is not None:
        body.lets[s.name.name] = let


def _gauge(s: tree.Gauge, body: Body, scope: Scope) -> None:
    form = find_form(s.form, "gauge", scope)
    if form is None:
        return
    names = [a.value for a in s.form.arguments if a.keyword is None and a.clauses is None]
    if len(names) != 1 or len(s.form.arguments) != 1 or not isinstance(names[0], tree.Name):
        scope.report("E302", "`zero_sum` takes the name of one parameter", s.form.span, "`zero_sum(J)`")
        return
    symbol = scope.use(names[0], "param")
    if symbol is None or not isinstance(symbol.value, Parameter):
        return
    declared = symbol.value
    place = ((symbol.span, "declared here"),)
    if declared.type.kind != "real":
        message = f"a gauge needs a real parameter, `{symbol.name}` is {declared.type.kind}"
        scope.report("E312", message, names[0].span, "not real", related=place, help="remove the gauge: it would shift values out of range")
    elif not any(a.over.kind == "domain" for a in declared.axes):
        help = "a gauge needs an axis over a declared domain: `a in aa`"
        scope.report("E312", f"no axis of `{symbol.name}` runs over a domain", names[0].span, "nothing to fix", related=place, help=help)
    elif declared.prior is not None and declared.prior.form.support == "unbounded":
        message = f"`{declared.prior.form.name}` puts each entry of `{symbol.name}` in or out on its own, and a gauge ties them together"
        help = "remove the gauge: the prior determines every direction"
        scope.report("E312", message, names[0].span, "in or out one by one", related=place, help=help, fix=Fix(s.span, ""))
    elif symbol.name in [g for g, _ in body.gauges]:
        place = ((next(span for g, span in body.gauges if g == symbol.name), "stated here"),)
        message, fix = f"the gauge of `{symbol.name}` is stated twice", Fix(s.span, "")
        scope.report("E312", message, s.span, "again here", help="remove it", related=place, fix=fix)
    else:
        body.gauges.append((symbol.name, s.span))


def _distributed(s: tree.Distributed, body: Body, scope: Scope) -> None:
    clauses = check_clauses(s.clauses, s.span, scope)
    base = s.target if isinstance(s.target, tree.Name) else s.target.base
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
    if parameter is not None and parameter.kind == "param" and not parameter.faulty:
        help, place = f"a prior stands where the parameter is declared: `param {base.name} ~ ..`", ((parameter.span, "declared here"),)
        scope.report("E205", f"`{base.name}` is a parameter, not a variable", base.span, "expected a variable", related=place, help=help)
        return
    if scope.find(base.name) is None:
        form = forms.form("distribution", s.distribution.function.name.lower())
        help = f"declare it before this: `var {base.name} : bit`"
        if form is not None and form.support != "cell":
            help = f"a parameter is declared with its prior: `param {base.name} ~ {form.signature}`"
        scope.report_unknown(base, "var", "latent", otherwise=help)
        return
    if scope.use(base, "var", "latent") is None:
        return
    target, _ = check_expression(s.target, scope, STATE)
    cell = scope.model[base.name].value
    probabilities = _probabilities(s.distribution, cell if isinstance(cell, Variable) else None, scope)
    if probabilities is not None and isinstance(target, VariableValue):
        if not isinstance(probabilities, Table):
            _check_last_axis(target, probabilities, s.distribution.arguments[0].span, scope)
        body.distributed.append(Distributed(s.span, target, probabilities, clauses))


def _probabilities(call: tree.Call, cell: Variable | None, scope: Scope) -> ParameterValue | InputValue | Table | None:
    """The argument of `categorical`: an array of probabilities, its last axis open, or a list of them."""
    form = find_form(call, "distribution", scope, ("categorical",), "variable")
    if form is None:
        return None
    if form.support != "cell":
        message = f"`{form.name}` is a prior of parameters; a variable takes `categorical`"
        help = "the distribution of a variable is `categorical(p)`, or a sum of terms `factor ..`"
        scope.report("E311", message, call.function.span, "not for a variable", help=help)
        return None
    if len(call.arguments) != 1 or call.arguments[0].keyword is not None or call.arguments[0].clauses is not None:
        keyword = call.arguments[0].keyword if call.arguments else None
        help = "probabilities stand in one list or array: `categorical([0.2, 0.8])`, `categorical(p[z])`"
        if keyword is not None and keyword.name in ("logits", "logit", "log_probs", "eta"):
            help = "logits are a factor: `factor h[y]` adds the one of the value that y has"
        scope.report("E302", "`categorical` takes one array of probabilities", call.span, f"`{form.signature}`", help=help)
        return None
    e = call.arguments[0].value
    if isinstance(e, tree.List):
        return None if cell is None else check_row(e, cell.domain, scope)
    name = e if isinstance(e, tree.Name) else e.base if isinstance(e, tree.Index) else None
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
    """The open axis must run over the values of the cell."""
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
