"""Check verifiers, values, and samplers that draw cells from the first to the last.

The model of such a sampler may have no network.
"""

from __future__ import annotations

from .._diagnostics import Span, listed
from ..syntax import tree
from ._arguments import check_arguments, find_form
from ._check_networks import check_direction, report_idle
from ._expressions import check_label, known_number
from ._form import TARGET
from ._network_forms import GUIDED
from ._options import guided_options
from ._program import Judge, Model, Variable
from ._scope import Scope
from ._terms import FormCall, same_domain

LEFT_TO_RIGHT = "a string is one array of cells, in their order: the model has one `var`"


def check_judge(s: tree.Judge, model: Model, scope: Scope) -> Judge | None:
    """Return the checked verifier or value, or None after a fault.

    The names of the model are visible in `scope`.
    """
    form = find_form(s.form, s.kind, scope)
    arguments = None if form is None else check_arguments(s.form, form, scope)
    if form is None or arguments is None or not check_oracle(s.form, model, scope):
        return None
    before = len(scope.diagnostics)
    call = FormCall(s.form.span, form, arguments)
    place = s.form.arguments[0].span
    match form.name:
        case "completable" | "expected":
            _check_weighed(call, str(arguments["model"]), place, model, scope)
        case "probe":
            _check_probe(str(arguments["network"]), place, model, scope)
        case "python" if not TARGET.fullmatch(str(arguments["target"])):
            message = f"`{arguments['target']}` names no function"
            scope.report("E303", message, place, "not a function", help='write `python("package.module:name")`')
    for judge in judges_of(call):
        _check_own(judge, place, model, scope)
    return Judge(s.span, s.name.name, s.kind, model.name, call) if len(scope.diagnostics) == before else None


def judges_of(call: FormCall) -> list[Judge]:
    """Return the verifiers and values that a form names."""
    return [a for a in call.arguments.values() if isinstance(a, Judge)]


def check_oracle(call: tree.Call, model: Model, scope: Scope) -> bool:
    """Return whether the model gives p(next symbol | prefix).

    Such a model has exactly one `var`. If it has a network, the network is causal.
    """
    if model.conditional is not None:
        return check_direction(call, model, scope, causal=True)
    observed = [v for v in model.variables.values() if v.role == "var"]
    if len(observed) == 1:
        return True
    if observed:
        message = f"model `{model.name}` has the variables {listed([v.name for v in observed])}: which of them is the string?"
        places = tuple((v.span, "a variable") for v in observed[:4])
        help = f'{LEFT_TO_RIGHT}; independent draws of all variables are `model.sample(params, sampler="exact")`'
        scope.report("E329", message, call.span, "no string", help=help, related=places)
    return False


def _string_of(model: Model) -> Variable | None:
    observed = [v for v in model.variables.values() if v.role == "var"]
    return observed[0] if len(observed) == 1 else None


def _check_weighed(call: FormCall, name: str, place: Span, model: Model, scope: Scope) -> None:
    """Report E330 unless the model that judges prefixes has identical cells and tractable sums."""
    other = scope.program[name].value
    assert isinstance(other, Model)
    related = ((other.span, f"model `{name}`"),)
    own, cells = _string_of(model), _string_of(other)
    if other.conditional is not None:
        message = f"`{call.form.name}` sums over completions, and model `{name}` is a network's"
        scope.report(
            "E330", message, place, "a network", help="a model with factors, `require` and `~` says what is wanted", related=related
        )
    elif cells is None or own is None:
        message = (
            f"model `{name}` has {listed([v.name for v in other.variables.values() if v.role == 'var'])}: which of them is the string?"
        )
        scope.report("E330", message, place, "no string", help=LEFT_TO_RIGHT, related=related)
    elif not same_domain(cells.domain, own.domain):
        places = ((own.span, "the string that is sampled"), (cells.span, "the string that is judged"))
        message = f"`{cells.name}` of model `{name}` and `{own.name}` of model `{model.name}` have other values"
        scope.report("E330", message, place, "two domains", related=places, help="declare both over one domain")
    elif any(v.role == "given" for v in other.variables.values()):
        message = f"model `{name}` has given variables: a prefix is judged by itself"
        scope.report("E330", message, place, "not by itself", help="make them inputs", related=related)
    elif call.form.name == "expected" and model.conditional is not None:
        message = "`expected` sums over all completions, and a network weighs each of them with a pass of its own: q^L of them"
        help = f"`completable({name})` needs no weights; `probe({model.conditional.network})` is learnt"
        scope.report("E330", message, place, "over a network", help=help, related=((model.conditional.span, "the network"),))


def _check_probe(name: str, place: Span, model: Model, scope: Scope) -> None:
    if model.conditional is None or model.conditional.network != name:
        what = "no network" if model.conditional is None else f"network `{model.conditional.network}`"
        message = f"a probe reads the network that draws: model `{model.name}` has {what}"
        own = f"write `probe({model.conditional.network})`" if model.conditional else "`probe` is for a model with a `conditional`"
        scope.report("E330", message, place, "another network", related=((model.span, "the model"),), help=own)


def _check_own(judge: Judge, place: Span, model: Model, scope: Scope) -> None:
    if judge.model != model.name:
        message = f"{judge.kind} `{judge.name}` belongs to model `{judge.model}`, not to `{model.name}`"
        help = f"name a {judge.kind} of `{model.name}`, or declare one `for {model.name}`"
        scope.report("E330", message, place, "another model's", related=((judge.span, "declared here"),), help=help)


def is_guided(name: str) -> bool:
    """Return whether a sampler of this name draws from an oracle, guided by a verifier or value."""
    return any(f.name == name for f in GUIDED)


def check_guided(call: tree.Call, form_name: str, model: Model, scope: Scope) -> FormCall | None:
    """Return the checked algorithm of a guided sampler, as in `sampler s = backtracking(..)`.

    The result is None after a fault.

    Args:
        call: the call in the program's text.
        form_name: the name of the form.
        model: the model of the sampler.
        scope: the names that are visible. It collects the diagnostics.
    """
    form = next(f for f in GUIDED if f.name == form_name)
    arguments = check_arguments(call, form, scope)
    if arguments is None or not check_oracle(call, model, scope):
        return None
    before = len(scope.diagnostics)
    checked = FormCall(call.span, form, with_end(call, arguments, model, scope))
    for judge in judges_of(checked):
        _check_own(judge, _place_of(call, judge), model, scope)
    written = {a.keyword.name for a in call.arguments if a.keyword is not None}
    options = guided_options(checked)
    if form.name == "backtracking" and known_number(options["quota"]) == 0:
        for name in ("regenerate", "erase_prompt"):
            if name in written:
                report_idle(name, "`quota = 0` takes nothing back", call, scope)
    return checked if len(scope.diagnostics) == before else None


def with_end(call: tree.Call, arguments: dict[str, object], model: Model, scope: Scope) -> dict[str, object]:
    """Return the arguments with a text in `end` replaced by the letter or label that it denotes.

    Args:
        call: the call in the program's text.
        arguments: the checked arguments by option name.
        model: the model of the sampler.
        scope: collects E303 if the values of the model's cells are numbers.
    """
    cell = _string_of(model)
    written = next((a.value for a in call.arguments if a.keyword is not None and a.keyword.name == "end"), None)
    if not isinstance(written, tree.String) or cell is None:
        return arguments
    if cell.domain.ordered:
        scope.report("E303", f"the values of `{cell.name}` are numbers", written.span, "a string", related=((cell.span, "declared here"),))
        return arguments
    return arguments | {"end": check_label(written, cell.domain, scope)}


def _place_of(call: tree.Call, judge: Judge) -> Span:
    return next((a.value.span for a in call.arguments if a.value.span.text == judge.name), call.span)
