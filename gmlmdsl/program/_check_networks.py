"""Check networks, and models whose conditionals are given by a network."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from .._diagnostics import Fix, Span, listed
from ..syntax import tree
from . import _forms as forms
from ._arguments import check_arguments, find_form
from ._expressions import known_number
from ._form import TARGET, Form
from ._options import network_options
from ._program import Model, NetworkConditional, Variable
from ._scope import Scope
from ._terms import FormCall, SetOf

if TYPE_CHECKING:
    from ._body import Body

PRODUCT = "a network gives a product over positions, of p(x_i | x_rest, K): it has no joint distribution of several cells"


def check_network(call: tree.Call, scope: Scope) -> FormCall | None:
    """Return the checked network of `network net = form(..)`, or None after a fault."""
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
    """Yield the name of each faulty option of a network or sampler, with a message.

    The checker knows the numbers that the text contains. The numbers of inputs are checked by this
    function when they are bound.

    Args:
        form: the form that is called.
        values: the options by name, as numbers if they are known. Other values are not checked.
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
    """Suggest a width that is a multiple of `heads`.

    The result is "" if there are no heads or if their number is invalid.
    """
    width, heads = known_number(options["width"]), known_number(options.get("heads"))
    if not (isinstance(width, int) and isinstance(heads, int) and heads > 0):
        return ""
    low = width // heads * heads
    return f"for example `width = {low + heads if low == 0 else low}`"


def _idle(options: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the options of a network without an effect beside the others, with the reasons."""
    if options.get("causal") is True:
        yield from ((name, "a `causal` network predicts no length") for name in ("length", "length_weight"))
        yield from ((name, "a `causal` network has no table of positions") for name in ("positions", "position_embeddings"))
        yield "positional_attention", "a `causal` network does not see how many cells follow"
    elif options.get("length") == "oracle":
        yield "length_weight", "`length = oracle` learns no length"


def report_idle(name: str, reason: str, call: tree.Call, scope: Scope, help: str = "", related: tuple[tuple[Span, str], ...] = ()) -> None:
    """Report E325 for a written option that has no effect beside the other options.

    Args:
        name: the name of the option.
        reason: the reason, as the message states it.
        call: the call that contains the option.
        scope: collects the diagnostic.
        help: the help of the diagnostic. The default suggests to remove the option.
        related: further places, with their labels.
    """
    argument = next(a for a in call.arguments if a.keyword is not None and a.keyword.name == name)
    message = f"`{name}` has no meaning here: {reason}"
    fix = Fix(without(call, argument), "", guess=True)  # The other option may be the mistake.
    scope.report("E325", message, argument.span, "without a meaning", help=help or "remove it", related=related, fix=fix)


def without(call: tree.Call, argument: tree.Argument) -> Span:
    """Return the text to delete in order to remove an argument, including an adjacent comma."""
    k = call.arguments.index(argument)
    source = argument.span.source
    if k:
        return Span(source, call.arguments[k - 1].span.end, argument.span.end)
    return Span(source, argument.span.start, call.arguments[1].span.start if len(call.arguments) > 1 else argument.span.end)


def predicts_lengths(network: FormCall) -> bool:
    """Return whether a network predicts the length of the predicted array."""
    return network_options(network).get("length", "oracle") != "oracle"


def is_causal(model: Model, scope: Scope) -> bool | None:
    """Return whether the network of a model sees only the cells before each cell.

    The result is None if the model has no network or a faulty one.
    """
    if model.conditional is None or model.conditional.network not in scope.program:
        return None
    network = scope.program[model.conditional.network].value
    return network_options(network).get("causal") is True if isinstance(network, FormCall) else None


def check_direction(call: tree.Call, model: Model, scope: Scope, *, causal: bool) -> bool:
    """Return whether a sampler's form suits the network of its model. Otherwise report E327.

    Args:
        call: the call in the program's text.
        model: the model of the sampler.
        scope: the names that are visible. It collects the diagnostic.
        causal: whether the form needs a causal network.
    """
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
    """Check `conditional target ~ network(given..)`.

    The result is None after a fault, for example if the model has a `conditional` already.
    """
    target = scope.use(s.target, "var")
    function = s.network.function
    if scope.find(function.name) is None and forms.form("network", function.name) is not None:
        help = f"declare it before the model, `network net = {function.name}(..)`, and write `conditional {s.target.name} ~ net()`"
        scope.report("E205", f"`{function.name}` is a form of networks, not a network", function.span, "not a name", help=help)
        return None
    network, given = scope.use(function, "network"), _given_names(s.network, scope)
    if body.conditional is not None:
        place, help = ((body.conditional.span, "the first"),), "keep one of the two; another network has a model of its own"
        scope.report("E314", "a model has one `conditional`", s.span, "a second one", related=place, help=help)
        return None
    if network is not None and isinstance(network.value, FormCall) and len(given) == len(s.network.arguments):
        variables = [body.variables[g] for g in given if g in body.variables]
        _check_given(s, network.value, variables, scope)
        if target is not None and isinstance(target.value, Variable):
            _check_positions(s, network.value, target.value, variables, scope)
    return NetworkConditional(s.span, s.target.name, s.network.function.name, tuple(given))


def _given_names(call: tree.Call, scope: Scope) -> list[str]:
    """Return the given variables that a network takes, and report other arguments."""
    given: list[str] = []
    for k, a in enumerate(call.arguments):
        if not isinstance(a.value, tree.Name) or not a.is_plain:
            help = "its options stand where it is declared: `network net = transformer(layers = 2)`"
            scope.report("E303", "a network takes the names of `given` variables", a.span, "not a name", help=help)
        elif a.value.name in given:
            fix = Fix(Span(a.span.source, call.arguments[k - 1].span.end, a.span.end), "", guess=True)
            first = next(b for b in call.arguments if isinstance(b.value, tree.Name) and b.value.name == a.value.name)
            message, place = f"`{a.value.name}` is named twice", ((first.span, "first named here"),)
            scope.report("E306", message, a.span, "again here", help="name each variable once", related=place, fix=fix)
        elif scope.use(a.value, "given") is not None:
            given.append(a.value.name)
    return given


def _check_given(s: tree.NetworkConditional, network: FormCall, given: list[Variable], scope: Scope) -> None:
    """Check the given variables of a network against its form (E326)."""
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
    """Report E319 if the table of positions of a network is too short.

    The table must be at least as long as the target. If its rows are added to embeddings, it must
    also be at least as long as all given arrays together.
    """
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
    """Return the number of cells of some variables, or 0 if the text does not determine it."""
    sizes = [[_size(a.over) for a in v.axes] for v in variables]
    return 0 if any(None in of_one for of_one in sizes) else sum(math.prod(n or 0 for n in of_one) for of_one in sizes)


def _size(over: SetOf) -> int | None:
    """Return the size of a set, or None if the text alone does not determine it."""
    number = len(over.domain.labels) or None if over.domain is not None else known_number(over.size)
    return number if isinstance(number, int) else None


def check_no_joint(body: Body, conditional: NetworkConditional, scope: Scope) -> None:
    """Report E314 for declarations of a model with a `conditional` that the network does not use.

    The network uses only the predicted variable and the given variables.
    """
    place = ((conditional.span, "the conditional"),)
    for v in body.variables.values():
        if v.role == "latent":
            message, help = f"a network predicts what is in the data: `{v.name}` is latent", "declare it as `var`, or as `given`"
            scope.report("E314", message, v.span, "never in the data", related=place, help=help)
        elif v.role == "var" and v.name != conditional.target:
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
    """Report E314 for a joint update of several cells of a model without a joint distribution."""
    fix = Fix(Span(s.span.source, s.target.span.end, s.target.span.end), " independently", guess=True)
    help = "add `independently`: what is drawn is then the product (Li et al. 2024, Definition 11, Section 3); or update one cell at a time"
    scope.report("E314", PRODUCT, s.span, "a joint update", help=help, fix=fix)


def refuse_updates(sampler: tree.Sampler, model: Model, scope: Scope) -> bool:
    """Return whether a sampler of updates has a causal network, and report E327 in that case.

    A causal network does not condition on all other cells.
    """
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
    """Report E314 for a ladder of replicas in a model without log p."""
    message = "`temper` scales log p, and a network declares none"
    help = "`refinement(decode = sample, temperature = ..)` sharpens or flattens its tokens"
    scope.report("E314", message, s.form.span, "no log p", help=help)
