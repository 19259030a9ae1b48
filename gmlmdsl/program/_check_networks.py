"""Checks networks, and the models whose conditionals they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from .._diagnostics import Fix, Span, listed
from ..syntax import tree
from . import _forms as forms
from ._arguments import check_arguments, find_form
from ._blocks import FormCall
from ._expressions import known_number
from ._form import TARGET, Form
from ._options import network_options
from ._program import Model, NetworkConditional, Variable
from ._scope import Scope
from ._terms import SetOf

if TYPE_CHECKING:
    from ._body import Body

PRODUCT = "a network gives a product over positions, of p(x_i | x_rest, K): it has no joint distribution of several cells"


def check_network(call: tree.Call, scope: Scope) -> FormCall | None:
    """The checked network of `network net = form(..)`."""
    form = find_form(call, "network", scope, foreign="network")
    arguments = None if form is None else check_arguments(call, form, scope)
    if form is None or arguments is None:
        return None
    checked = FormCall(call.span, form, arguments)
    before = len(scope.diagnostics)
    options = network_options(checked)
    written = {a.keyword.name: a for a in call.arguments if a.keyword is not None}
    for name, message in option_faults(form, {k: v if isinstance(v, str | bool) else known_number(v) for k, v in options.items()}):
        place = next((written[n] for n in (name, "heads", "width") if n in written), call)
        scope.report("E319", message, place.span, "does not fit", help=_nearest(options) if name == "width" else "")
    for name, reason in _idle(options):
        if name in written:
            report_idle(name, reason, call, scope)
    if form.name == "python" and not TARGET.fullmatch(str(arguments["target"])):
        message = f"`{arguments['target']}` names no class"
        scope.report("E303", message, call.arguments[0].span, "not a class", help='write `python("package.module:Class")`')
    return checked if len(scope.diagnostics) == before else None


def option_faults(form: Form, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """What is wrong with the numbers of a network's or sampler's options: the option and a message.

    Args:
        form: the form that is called.
        values: the options by name, as numbers where they are known; others are not judged.

    The checker knows numbers that are written; those of inputs are judged with the same function when they are bound.
    """
    for option in form.options:
        value, bounds = values.get(option.name), option.bounds
        if isinstance(value, int | float) and not isinstance(value, bool) and bounds is not None and not bounds.holds(value):
            yield option.name, f"`{option.name}` is {bounds.words}, found {value}"
    eta = values.get("eta")
    if values.get("planner") == "none" and isinstance(eta, int | float) and eta > 1:
        yield "eta", f"`eta` is a probability, or a share of one, without a `planner`: at least 0 and at most 1, found {eta}"
    width, heads = values.get("width"), values.get("heads")
    if isinstance(width, int) and isinstance(heads, int) and width > 0 and heads > 0 and width % heads:
        yield "width", f"`width` is a multiple of `heads`: {width} does not divide into {heads} heads"


def _nearest(options: Mapping[str, object]) -> str:
    """A width that goes with the heads; empty where there are none, or where they are wrong themselves."""
    width, heads = known_number(options["width"]), known_number(options.get("heads"))
    if not (isinstance(width, int) and isinstance(heads, int) and heads > 0):
        return ""
    low = width // heads * heads
    return f"for example `width = {low + heads if low == 0 else low}`"


def _idle(options: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Options of a network without a meaning beside the others, and why."""
    if options.get("causal") is True:
        yield from ((name, "a `causal` network predicts no length") for name in ("length", "length_weight"))
        yield from ((name, "a `causal` network has no table of positions") for name in ("positions", "position_embeddings"))
        yield "positional_attention", "a `causal` network does not see how many cells follow"
    elif options.get("length") == "oracle":
        yield "length_weight", "`length = oracle` learns no length"


def report_idle(name: str, reason: str, call: tree.Call, scope: Scope, help: str = "", related: tuple[tuple[Span, str], ...] = ()) -> None:
    """Report an option that is written and means nothing beside the others."""
    argument = next(a for a in call.arguments if a.keyword is not None and a.keyword.name == name)
    message = f"`{name}` has no meaning here: {reason}"
    fix = Fix(without(call, argument), "", guess=True)  # the other option may be the slip
    scope.report("E325", message, argument.span, "without a meaning", help=help or "remove it", related=related, fix=fix)


def without(call: tree.Call, argument: tree.Argument) -> Span:
    """What is cut to remove an argument, with a comma beside it."""
    k = call.arguments.index(argument)
    source = argument.span.source
    if k:
        return Span(source, call.arguments[k - 1].span.end, argument.span.end)
    return Span(source, argument.span.start, call.arguments[1].span.start if len(call.arguments) > 1 else argument.span.end)


def predicts_lengths(network: FormCall) -> bool:
    """Whether a network says how long the predicted array is."""
    return network_options(network).get("length", "oracle") != "oracle"


def is_causal(model: Model, scope: Scope) -> bool | None:
    """Whether the network of a model sees the cells before each one only; None where the model has none, or it is broken."""
    if model.conditional is None or model.conditional.network not in scope.program:
        return None
    network = scope.program[model.conditional.network].value
    return network_options(network).get("causal") is True if isinstance(network, FormCall) else None


def check_direction(call: tree.Call, model: Model, scope: Scope, *, causal: bool) -> bool:
    """Whether a sampler's form is made for the network of its model."""
    found = is_causal(model, scope)
    if found is None:
        return True
    assert model.conditional is not None
    network = scope.program[model.conditional.network].value
    assert isinstance(network, FormCall)
    if found == causal and not (causal and network.form.free):
        return True
    place = ((network.span, "the network"),)
    if found and causal:
        message = f"`{call.function.name}` goes on from what a network keeps of a prefix, and a class of Python keeps nothing"
        help = "write `transformer(causal = true)`, or draw by `next_symbol`"
    elif found:
        message, help = (
            f"`{call.function.name}` predicts cells from all others, and a `causal` network sees those before",
            "write `autoregressive(..)`",
        )
    else:
        message = f"`{call.function.name}` goes from the first cell to the last, and this network predicts all at once"
        otherwise = "write `refinement(..)`, or " * (call.function.name in forms.names("sampler"))
        help = f"{otherwise}give the network `causal = true`"
    scope.report("E327", message, call.span, "another kind of network", help=help, related=place)
    return False


# The conditional of a model


def check_conditional(s: tree.NetworkConditional, body: Body, scope: Scope) -> NetworkConditional | None:
    """`conditional target ~ network(given..)`; None where the model has one already."""
    target = scope.use(s.target, "var")
    function = s.network.function
    if scope.find(function.name) is None and forms.form("network", function.name) is not None:
        help = f"declare it before the model, `network net = {function.name}(..)`, and write `conditional {s.target.name} ~ net()`"
        scope.report("E205", f"`{function.name}` is a form of networks, not a network", function.span, "not a name", help=help)
        return None
    network = scope.use(function, "network")
    given: list[str] = []
    for k, a in enumerate(s.network.arguments):
        if not isinstance(a.value, tree.Name) or a.keyword is not None or a.clauses is not None:
            help = "its options stand where it is declared: `network net = transformer(layers = 2)`"
            scope.report("E303", "a network takes the names of `given` variables", a.span, "not a name", help=help)
        elif a.value.name in given:
            fix = Fix(Span(a.span.source, s.network.arguments[k - 1].span.end, a.span.end), "", guess=True)
            first = next(b for b in s.network.arguments if isinstance(b.value, tree.Name) and b.value.name == a.value.name)
            message, place = f"`{a.value.name}` is named twice", ((first.span, "first named here"),)
            scope.report("E306", message, a.span, "again here", help="name each variable once", related=place, fix=fix)
        elif scope.use(a.value, "given") is not None:
            given.append(a.value.name)
    if body.conditional is not None:
        place, help = ((body.conditional.span, "the first"),), "keep one of the two; another network has a model of its own"
        scope.report("E314", "a model has one `conditional`", s.span, "a second one", related=place, help=help)
        return None
    if network is not None and isinstance(network.value, FormCall) and len(given) == len(s.network.arguments):
        _check_given(s, network.value, [body.variables[g] for g in given if g in body.variables], scope)
        if target is not None and isinstance(target.value, Variable):
            _check_positions(s, network.value, target.value, [body.variables[g] for g in given if g in body.variables], scope)
    return NetworkConditional(s.span, s.target.name, s.network.function.name, tuple(given))


def _check_given(s: tree.NetworkConditional, network: FormCall, given: list[Variable], scope: Scope) -> None:
    """What a network of each kind can be given."""
    name, arguments = network.form.name, s.network.arguments
    place = ((network.span, "the network"),)
    if name in ("transformer", "pretrained") and arguments:
        inside = Span(s.span.source, arguments[0].span.start, arguments[-1].span.end)
        message, help = f"a `{name}` network takes no `given`", "an `encoder_decoder` reads arrays that are given; or write `()`"
        scope.report("E326", message, inside, "not read", help=help, related=place, fix=Fix(inside, "", guess=True))
    elif name == "encoder_decoder":
        if not arguments:
            message = "an `encoder_decoder` encodes an array that is given, and has none"
            without = "a `transformer(.., causal = true)`" if network_options(network).get("causal") is True else "a `transformer`"
            help = f"declare one, `given src[j in s] : range(1000)`, and name it; without one {without} does"
            scope.report("E326", message, s.network.span, "nothing to encode", help=help, related=place)
        for v in (v for v in given if v.domain.real):
            at = next(a for a in arguments if isinstance(a.value, tree.Name) and a.value.name == v.name)
            message = f"an `encoder_decoder` embeds values of a list; those of `{v.name}` are real numbers"
            help = "an `mlp` or `python(..)` takes real numbers"
            scope.report("E326", message, at.span, "real", help=help, related=((v.span, "declared here"), *place))


def _check_positions(s: tree.NetworkConditional, network: FormCall, target: Variable, given: list[Variable], scope: Scope) -> None:
    """The table of positions is as long as the target and, where its rows are added to embeddings, as all that is given."""
    options = network_options(network)
    positions = known_number(options.get("positions"))
    if positions is None:
        return
    arrays = [[target], *([given] if options.get("position_embeddings") is True else [])]
    cells = [_cells(some) for some in arrays]
    for some, n in zip(arrays, cells, strict=True):
        if n > positions:
            message = (
                f"{listed([v.name for v in some])} {'has' if len(some) == 1 else 'have'} {n:,} cells, the network {positions} positions"
            )
            place = ((network.span, "the network"), *((v.span, "declared here") for v in some))
            scope.report("E319", message, s.span, "too long", help=f"write `positions = {max(cells)}`", related=place)


def _cells(variables: list[Variable]) -> int:
    """The number of their cells, where the text alone says it; else 0."""
    sizes = [[_size(a.over) for a in v.axes] for v in variables]
    return 0 if any(None in of_one for of_one in sizes) else sum(math.prod(n or 0 for n in of_one) for of_one in sizes)


def _size(over: SetOf) -> int | None:
    """The size of a set, where the text alone says it."""
    number = len(over.domain.labels) or None if over.domain is not None else known_number(over.size)
    return number if isinstance(number, int) else None


def check_no_joint(body: Body, scope: Scope) -> None:
    """A model with a `conditional` declares nothing beside what the network predicts and is given."""
    if body.conditional is None:
        return
    place = ((body.conditional.span, "the conditional"),)
    for v in body.variables.values():
        if v.role == "latent":
            message, help = f"a network predicts what is in the data: `{v.name}` is latent", "declare it as `var`, or as `given`"
            scope.report("E314", message, v.span, "never in the data", related=place, help=help)
        elif v.role == "var" and v.name != body.conditional.target:
            help = "declare it as `given`, or put both into one array"
            message = f"the network says nothing of `{v.name}`: every `var` of the model is the target of its `conditional`"
            scope.report("E314", message, v.span, "no distribution", related=place, help=help)
    for p in body.parameters.values():
        message = f"a network brings its own parameters: nothing uses `{p.name}`"
        scope.report("E314", message, p.span, "not here", related=place, help="remove it", fix=Fix(p.span, ""))
    others = [s.span for s in (*body.factors, *body.requires, *body.distributed)]
    if others:
        message = "a model with a `conditional` declares no joint: it takes no factor"
        also = f"; {len(others) - 1} more stand below" if len(others) > 1 else ""
        help = "a model with factors stands beside this one, under a name of its own"
        scope.report("E314", message + also, others[0], "not here", related=place, help=help)


def refuse_joint(s: tree.Update, scope: Scope) -> None:
    """A joint redraw of several cells of a model that has no joint distribution."""
    fix = Fix(Span(s.span.source, s.target.span.end, s.target.span.end), " independently", guess=True)
    help = "add `independently`: what is drawn is then the product (Li et al. 2024, Definition 11, Section 3); or update one cell at a time"
    scope.report("E314", PRODUCT, s.span, "a joint update", help=help, fix=fix)


def refuse_updates(sampler: tree.Sampler, model: Model, scope: Scope) -> bool:
    """Whether a sampler of updates has a network that knows less than all other cells."""
    if not is_causal(model, scope):
        return False
    assert model.conditional is not None
    network = scope.program[model.conditional.network].value
    message = "an update draws from p(x_i | x_rest), and a `causal` network gives p(x_i | those before it)"
    place = ((network.span, "the network"),)  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    name = sampler.name.name
    scope.report(
        "E327", message, sampler.span, "another kind of network", help=f"write `sampler {name} = autoregressive(..)`", related=place
    )
    return True


def refuse_ladder(s: tree.Temper, scope: Scope) -> None:
    """A ladder of replicas in a model without log p."""
    message = "`temper` scales log p, and a network declares none"
    help = "`refinement(decode = sample, temperature = ..)` sharpens or flattens its tokens"
    scope.report("E314", message, s.form.span, "no log p", help=help)
