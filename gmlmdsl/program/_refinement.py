"""Check `refinement`, its presets and `autoregressive`, and `visits(S)` and `start from S`.

The check also finds options without an effect beside other options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .._diagnostics import Fix, Span
from ..syntax import tree
from ._arguments import check_arguments, find_form
from ._check_guided import check_guided, check_oracle, is_guided, with_end
from ._check_networks import check_direction, predicts_lengths, report_idle
from ._expressions import known_number
from ._form import Form
from ._kernels import Start, start_of
from ._mask_bodies import FormMask, Mask
from ._network_forms import AUTOREGRESSIVE, PUBLISHED, REFINEMENT, RENAMED
from ._options import autoregressive_options, is_function, network_options, refinement_options
from ._program import Input, Model, Sampler
from ._scope import Scope
from ._terms import FormCall, Literal

# For each schedule, the allowed values of `remask`, and the reason why no other is allowed.
SETTLED = "a cell that is sure enough is settled for good"
REMASKS = {
    "all": (("none", "stutter"), "every cell is predicted in every pass, so that none is settled"),
    **dict.fromkeys(("linear", "cosine", "counts"), (("none", "stutter", "least_confident", "random", *PUBLISHED), "")),
    "threshold": (("none", "stutter"), SETTLED),
    "easy_first": (("none", "stutter"), SETTLED),
    "mask": (("none",), "the mask says which cells are predicted again"),
}
MOVING = {
    **dict.fromkeys(("linear", "cosine", "counts"), "the schedule says how many cells each pass predicts"),
    "mask": "each pass predicts other cells",
}
AT_SETTLED = ("linear", "cosine", "threshold", "easy_first")


def check_decoder(call: tree.Call, model: Model, scope: Scope) -> FormCall | None:
    """Return the checked algorithm of `sampler s = form(..)`, or None after a fault."""
    form = find_form(call, "sampler", scope)
    if form is not None and is_guided(form.name):
        return check_guided(call, form.name, model, scope)
    arguments = None if form is None else check_arguments(call, form, scope)
    if form is None or arguments is None:
        return None
    if form is AUTOREGRESSIVE:
        good = check_oracle(call, model, scope)
        return _autoregressive(call, form, with_end(call, arguments, model, scope), model, scope) if good else None
    return _refinement(call, form, arguments, model, scope) if check_direction(call, model, scope, causal=False) else None


def _autoregressive(call: tree.Call, form: Form, arguments: dict[str, object], model: Model, scope: Scope) -> FormCall | None:
    before, options = len(scope.diagnostics), autoregressive_options(FormCall(call.span, form, arguments))
    written = {a.keyword.name for a in call.arguments if a.keyword is not None}
    idle = list(_idle_draws(options))
    beam = known_number(options["beam"])
    if options["decode"] == "sample":
        idle.append(("beam", "each row is drawn on its own")) if beam != 1 else None
        idle.append(("length_penalty", "rows are drawn, not compared"))
    elif beam == 1:
        idle.append(("length_penalty", "one row is kept, and compared with none"))
    for name, reason in idle:
        if name in written and options[name] != "none":
            report_idle(name, reason, call, scope)
    return FormCall(call.span, form, arguments) if len(scope.diagnostics) == before else None


def _refinement(call: tree.Call, form: Form, arguments: dict[str, object], model: Model, scope: Scope) -> FormCall | None:
    before = len(scope.diagnostics)
    written = {a.keyword.name: a for a in call.arguments if a.keyword is not None}
    _check_mask(written, arguments.get("schedule"), model, scope)
    options = refinement_options(FormCall(call.span, form, arguments))
    for name, reason in _idle(options):
        if name in written and options[name] != "none":
            report_idle(name, reason, call, scope)
    _check_remask(call, written, options, scope)
    _check_shares(written, options, scope)
    _check_planner(call, written, options, model, scope)
    network = None
    if model.conditional is None:
        _check_oracle_options(call, written, options, scope)
        arguments = {**arguments, "lengths": Literal(call.span, 1)}
    elif model.conditional.network in scope.program:
        network = scope.program[model.conditional.network].value
    if isinstance(network, FormCall) and not predicts_lengths(network):
        if (known_number(options["lengths"]) or 1) > 1 and "lengths" in written:
            _report_lengths(call, network, scope)
        elif "lengths" not in written:
            # The default of a preset may be larger.
            arguments = {**arguments, "lengths": Literal(call.span, 1)}
    if len(scope.diagnostics) > before:
        return None
    _advise(call, written, options, scope)
    return FormCall(call.span, form, arguments)


def _check_mask(written: Mapping[str, tree.Argument], schedule: object, model: Model, scope: Scope) -> None:
    """Report a schedule's mask if it belongs to another model or depends on the tokens.

    A mask that cannot be a schedule, such as `visits` or `least_confident`, is reported too.
    """
    if not isinstance(schedule, Mask):
        return
    span, place = written["schedule"].value.span, ((schedule.span, "declared here"),)
    if schedule.model != model.name:
        message = f"mask `{schedule.name}` belongs to model `{schedule.model}`, not to `{model.name}`"
        scope.report("E313", message, span, "another model's", related=place)
    elif schedule.body.is_visits:
        refuse_visits("a schedule only draws", span, scope)
    elif schedule.adaptive:
        message = f"mask `{schedule.name}` looks at x: a network's output cannot be corrected for"
        help = "take one without `given`"
        scope.report("E307", f"{message} p(K | x)", span, "adaptive mask", help=help, related=place)
    elif schedule.body.has_least_confident:
        help = "write `remask = least_confident`, whose schedule says how many"
        scope.report("E324", "`least_confident` is not a schedule", span, "not here", help=help, related=place)


def _word(schedule: object) -> str:
    if isinstance(schedule, tuple | Input) or is_function(schedule):
        return "counts"
    return schedule if isinstance(schedule, str) else "mask"


def _idle(o: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the options without an effect beside the others, with the reasons."""
    schedule = _word(o["schedule"])
    yield from _idle_draws(o)
    if schedule != "threshold":
        yield "threshold", "only `schedule = threshold` compares with it"
    yield from _idle_order(o, schedule)
    yield from _idle_remask(o, schedule)
    random = "random" in (o["order"], o["remask"]) or o["start"] == "uniform" or o["decode"] == "sample" or schedule == "mask"
    if not random and (known_number(o["starts"]) or 1) > 1:
        yield "starts", "nothing is random, so that all of them end alike"
    if o["stop"] == "fixed_point" and o["decode"] == "sample":
        yield "stop", "tokens that are drawn are never fixed"
    elif o["stop"] == "fixed_point" and schedule in MOVING:
        yield "stop", f"{MOVING[schedule]}, whatever the last one changed"


def _idle_order(o: Mapping[str, object], schedule: str) -> Iterator[tuple[str, str]]:
    """Yield options that order the settling of cells but have no effect, with the reasons."""
    if schedule in ("all", "mask"):
        yield from ((name, f"the schedule, {_shown(o['schedule'])}, does not look at it") for name in ("confidence", "order", "block"))
    elif o["order"] != "confidence" and schedule != "threshold" and o["remask"] not in ("least_confident", "remdm_confidence"):
        yield "confidence", f"`order = {o['order']}` does not look at it"
    if schedule == "counts":
        yield "steps", "there are as many passes as the schedule lists"
    if schedule == "threshold":
        yield "order", "`schedule = threshold` settles what is sure enough"
        yield "block", "`schedule = threshold` does not say how many passes a block takes"
    if o["planner"] != "none":
        yield from ((name, "the planner says which cells are predicted again") for name in ("order", "confidence", "block"))
    if o["remask"] == "least_confident":
        yield "order", "`remask = least_confident` says which cells stay open"


def _idle_remask(o: Mapping[str, object], schedule: str) -> Iterator[tuple[str, str]]:
    """Yield options that hide settled cells again but have no effect, with the reasons."""
    if o["remask"] not in ("random", "remdm_cap", "remdm_rescale", "remdm_confidence") and o["planner"] == "none":
        yield "eta", f"`remask = {o['remask']}` hides no settled cell by it"
    if o["remask"] != "none":
        yield "block", "a block that is decoded stays as it is, and `remask` hides cells again"
    if o["remask"] not in PUBLISHED:
        yield from ((name, "it is of `remask = remdm_cap` and its like") for name in ("from", "until", "loop"))
        return
    if o["order"] != "random":
        yield "order", "each cell settles and is hidden again with a probability of its own"
    if schedule != "linear" and o["loop"] != "none":
        yield "loop", "it is of `schedule = linear`"


def _idle_draws(o: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    if o["decode"] == "argmax":
        yield from (
            (name, "`decode = argmax` takes the likeliest token, `decode = sample` draws") for name in ("temperature", "top_k", "top_p")
        )


def _shown(schedule: object) -> str:
    if isinstance(schedule, Mask):
        return f"mask `{schedule.name}`"
    return "`counts(..)`" if _word(schedule) == "counts" else f"`{schedule}`"


def _check_shares(written: Mapping[str, tree.Argument], o: Mapping[str, object], scope: Scope) -> None:
    """Report E319 for a share of the passes whose `from` is not below its `until`."""
    low, high = known_number(o["from"]), known_number(o["until"])
    if low is not None and high is not None and low >= high:
        place = written["from"] if "from" in written else written["until"]
        scope.report("E319", f"`from` lies below `until`, found {low} and {high}", place.span, "no pass between them")


def _planned(o: Mapping[str, object], name: str) -> str:
    """Return a decoder with a planner that draws or takes tokens as these options do."""
    draws = ", decode = sample" * (o["decode"] == "sample")
    return f"`refinement(schedule = linear, planner = {name}{draws}, ..)`, whose `order` the planner replaces"


def _check_planner(call: tree.Call, written: Mapping[str, tree.Argument], o: Mapping[str, object], model: Model, scope: Scope) -> None:
    """Report a planner that other options leave without effect, or an unsuitable network.

    Args:
        call: the call in the program's text.
        written: the arguments that the program gives, by name.
        o: all options.
        model: the model of the sampler.
        scope: the names that are visible. It collects the diagnostics.
    """
    name = o["planner"]
    if name == "none":
        high, place = known_number(o["eta"]), written.get("eta")  # type: ignore[arg-type]
        if place is not None and high is not None and high > 1:
            message = f"`eta` is at least 0 and at most 1 without a `planner`, found {high}"
            scope.report("E319", message, place.span, "above 1", help="write a probability, or a share of one")
        return
    schedule = _word(o["schedule"])
    reasons = {
        f"`remask = {o['remask']}` says which settled cells are hidden again": o["remask"] != "none",
        f"under {_shown(o['schedule'])} no number of cells is predicted again": schedule not in ("linear", "cosine", "counts"),
        f"`order = {o['order']}` says which cells settle": o["order"] != "confidence" and "order" not in written,
        f"under `start = {o['start']}` what is open is shown too": o["start"] != "hide",
    }
    for reason in (r for r, holds in reasons.items() if holds):
        report_idle("planner", reason, call, scope, help=f"write it in {_planned(o, str(name))}")
    if name == "self" or is_function(name):
        return
    network, span = scope.program[str(name)].value, written["planner"].value.span
    why = _no_planner(network, model)
    if why:
        message, help = f"network `{name}` plans no decode of `{model.name}`: {why}", "write `planner = self`, or name a `transformer(..)`"
        scope.report("E335", message, span, "no planner", help=help, related=((scope.program[str(name)].span, "declared here"),))


def _no_planner(network: object, model: Model) -> str:
    """Return the reason why a network cannot judge a whole row of the model, or ""."""
    if model.conditional is None:
        return "the model has a joint distribution, whose parameters are not networks"
    if not isinstance(network, FormCall):
        return ""  # The network is faulty and already reported.
    if network.form.name == "encoder_decoder":
        return "it reads what is given"
    return "it is `causal`, and sees no cell behind" if network_options(network).get("causal") is True else ""


def _check_oracle_options(call: tree.Call, written: Mapping[str, tree.Argument], o: Mapping[str, object], scope: Scope) -> None:
    """Report options that have no use in a model with a joint distribution.

    Such a model conditions on the visible cells, and the length of a row is known.
    """
    if o["start"] == "uniform":
        if "start" in written:
            report_idle("start", "a joint distribution is conditioned on values that were drawn, not on random ones", call, scope)
        else:
            message = f"`{call.function.name}` begins with random values: a joint distribution is conditioned on values that were drawn"
            scope.report("E325", message, call.span, "starts at random", help="write `start = hide`")
    if o["schedule"] == "all" and (known_number(o["steps"]) or 1) > 1:
        message = "under `schedule = all` each pass sees what the one before predicted in all cells, and there is nothing to condition on"
        scope.report("E325", message, call.span, "hides no cell", help="write `schedule = linear`, or `steps = 1`")
    for name in ("lengths", "starts"):
        if (known_number(o[name]) or 1) > 1 and name in written:
            report_idle(name, "a draw is one decode: the best of several is not drawn from the model", call, scope)


def _advise(call: tree.Call, written: Mapping[str, tree.Argument], o: Mapping[str, object], scope: Scope) -> None:
    """Warn of a renamed word (W827), and of a confidence that depends on the drawn value (W826)."""
    word = written["remask"].value if "remask" in written else None
    if isinstance(word, tree.Name) and word.name in RENAMED:
        new = RENAMED[word.name]
        message = f"`remask = {word.name}` is called `{new}`: settled cells are hidden again at one rate, which is not what the paper does"
        help = f"write `remask = {new}`, or `remdm_cap` for the rule of Wang et al. 2025"
        scope.report("W827", message, word.span, "another name", help=help, fix=Fix(word.span, new))
    if _looks_at_draws(o) and o["decode"] == "sample" and o["planner"] == "none":
        place = written.get("confidence", call)
        message = "the confidence is that of the value that was drawn: what settles is selected by it, and draws are far from the model's"
        help = "write `confidence = margin` or `entropy`, which look at the distribution alone"
        scope.report("W826", message, place.span, "selects on what was drawn", help=help)


def _check_remask(call: tree.Call, written: Mapping[str, tree.Argument], o: Mapping[str, object], scope: Scope) -> None:
    """Report E325 for a `remask` that the schedule leaves without effect.

    If the program does not write `remask`, its schedule is reported instead.
    """
    allowed, reason = REMASKS[_word(o["schedule"])]
    if o["remask"] in allowed:
        return
    under, remask = f"under {_shown(o['schedule'])} {reason}", str(o["remask"])
    if "remask" in written:
        report_idle("remask", under, call, scope, help="write `remask = none`, or `schedule = linear`")
    else:
        place = written["schedule"].span
        message, label = f"`{call.function.name}` has `remask = {remask}`, which does not go with this schedule", "does not go with it"
        fix = Fix(Span(place.source, place.end, place.end), ", remask = none", guess=True)
        scope.report("E325", message, place, label, help=f"{under}: write `remask = none` as well", fix=fix)


def _report_lengths(call: tree.Call, network: FormCall, scope: Scope) -> None:
    why = "`length = oracle` is told it" if network.form.name == "encoder_decoder" else f"`{network.form.name}` predicts none"
    help = "remove it; `starts` decodes several candidates of the one length"
    report_idle("lengths", f"there is one length, {why}", call, scope, help=help, related=((network.span, "the network"),))


def is_decoder(call: FormCall) -> bool:
    """Return whether a sampler's form is `refinement` or one of its presets."""
    return REFINEMENT in (call.form, call.form.of)


def check_visits(call: tree.Call, checked: FormCall, model: Model, scope: Scope) -> FormMask | None:
    """Return the mask of the cells that a sampler hides and scores, or None after a fault.

    Args:
        call: the call in the program's text.
        checked: the form with its checked arguments.
        model: the model of the mask.
        scope: collects the diagnostics.
    """
    sampler = checked.arguments["sampler"]
    assert isinstance(sampler, Sampler)
    span, place = call.arguments[0].span, ((sampler.span, "declared here"),)
    if sampler.model != model.name:
        message = f"sampler `{sampler.name}` belongs to model `{sampler.model}`, not to `{model.name}`"
        scope.report("E313", message, span, "another model's", related=place, help=f"write the mask `for {sampler.model}`")
        return None
    if model.conditional is None:
        message = f"`visits` scores cell by cell what a network predicts: model `{model.name}` has a joint distribution"
        help = f'ask for `model.log_prob_bound(params, x, sampler="{sampler.name}")`; `everything` fits by the likelihood itself'
        scope.report("E323", message, call.span, "no network here", help=help, related=place)
        return None
    reason = next(reasons_against(sampler), None)
    if reason is not None:
        message, help = reason
        scope.report("E334", f"sampler `{sampler.name}` has no bound of its own: {message}", span, "no bound", help=help, related=place)
        return None
    return FormMask(call.span, checked, (model.conditional.target,))


def reasons_against(sampler: Sampler) -> Iterator[tuple[str, str]]:
    """Yield the reasons why a sampler's passes give no bound on its -log p, each with a fix."""
    if not isinstance(sampler.body, FormCall):
        start = start_of(sampler.body)
        name = (start and f"`{start.name}`, from which it starts") or "a sampler that decodes"
        yield "it runs updates, and what these leave has no density in closed form", f"name {name}"
        return
    if not is_decoder(sampler.body):
        yield f"`{sampler.body.form.name}` goes from symbol to symbol", "`everything(.., noise = {keep: 1})` fits a `causal` network"
        return
    o = refinement_options(sampler.body)
    yield from _against(o)


def _against(o: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    if o["decode"] != "sample":
        yield "it draws nothing: one row has probability 1", "write `decode = sample`"
    if o["remask"] != "none":
        why = "a settled cell may be hidden again: many paths lead to a row"
        cure = "write `remask = none`" if o["remask"] in PUBLISHED else "write `remask = none`, or a `schedule` alone"
        yield f"under `remask = {o['remask']}` {why}", cure
    if o["planner"] != "none":
        yield "its planner hides settled cells again: many paths lead to a row", "write `planner = none`"
    if o["top_k"] != "none" or o["top_p"] != "none":
        yield "rows with a value that it leaves out have probability 0", "write neither `top_k` nor `top_p`"
    if o["start"] != "hide":
        yield "it starts from random values", "write `start = hide`"
    counted = isinstance(o["schedule"], tuple | Input) or is_function(o["schedule"])
    if not counted and o["schedule"] not in AT_SETTLED and known_number(o["steps"]) != 1:  # type: ignore[arg-type]
        yield "its schedule settles no cell for good", "write `schedule = linear`, `cosine` or `counts([..])`"
    if _looks_at_draws(o):
        why = "which cells settle depends on the values that were drawn: the confidence is that of these"
        yield why, "write `confidence = margin` or `entropy`, or `order = random`"
    if any((known_number(o[name]) or 1) > 1 for name in ("lengths", "starts")):  # type: ignore[arg-type]
        yield "it takes the best of several candidates", "write `lengths = 1, starts = 1`"


def reasons_unlike_p(o: Mapping[str, object], values: float) -> dict[str, str]:
    """Return why draws need not follow a joint p even if each pass settles one cell.

    The keys are the options that end the reasons. The values are verb phrases about the sampler.

    Args:
        o: all options, evaluated or as texts.
        values: the number of values of a cell, at most.
    """
    k, p, most = str(o["top_k"]), str(o["top_p"]), "draws among the most probable values"
    planned, drawn = o["planner"] != "none", "selects cells by the values that it draws in them"
    cuts = k != "none" and not (k.isdecimal() and int(k) >= values)
    found = {
        "decode = sample": ("takes the most probable value of each cell", o["decode"] == "argmax"),
        "temperature = 1": (f"divides log p by {o['temperature']}", str(o["temperature"]) != "1"),
        "top_k = none": (f"{most} (`top_k = {k}`)", cuts),
        "top_p = none": (f"{most} (`top_p = {p}`)", p not in ("none", "1")),
        "planner = none": (drawn, planned),
        "confidence = margin": (drawn, not planned and _looks_at_draws(o)),
        "remask = none": ("hides settled cells again", o["remask"] != "none"),
    }
    return {f"`{option}`": why for option, (why, holds) in found.items() if holds}


def _looks_at_draws(o: Mapping[str, object]) -> bool:
    by_confidence = o["order"] == "confidence" or _word(o["schedule"]) == "threshold"
    alone = str(o["steps"]) == "1" or known_number(o["steps"]) == 1
    return by_confidence and o["confidence"] == "probability" and not alone


def check_start(s: tree.Start, model: Model, scope: Scope, first: bool) -> Start | None:
    """Check `start from S`, which must be the first statement of a sampler.

    Args:
        s: the statement.
        model: the model of the sampler.
        scope: the names that are visible. It collects the diagnostics.
        first: whether the statement is the first one of its sampler.
    """
    if not first:
        message = "`start from` stands first in a sampler: what came before it would be forgotten"
        scope.report("E333", message, s.span, "not the first", help="write it behind the opening brace of the sampler")
        return None
    symbol = scope.use(s.name, "sampler")
    if symbol is None or not isinstance(symbol.value, Sampler):
        return None
    sampler, place = symbol.value, ((symbol.span, "declared here"),)
    if sampler.model != model.name:
        message = f"sampler `{sampler.name}` belongs to model `{sampler.model}`, not to `{model.name}`"
        scope.report("E313", message, s.name.span, "another model's", related=place, help=f"name a sampler of `{model.name}`")
        return None
    if not isinstance(sampler.body, FormCall) or not is_decoder(sampler.body):
        what = "runs a chain" if not isinstance(sampler.body, FormCall) else "draws strings symbol by symbol"
        message = f"`start from` takes a sampler that decodes, and `{sampler.name}` {what}"
        help = "for example `sampler four = random_order(steps = 4)`"
        scope.report("E333", message, s.name.span, "no decoder", related=place, help=help)
        return None
    o = refinement_options(sampler.body)
    if any((known_number(o[name]) or 1) > 1 for name in ("lengths", "starts")):  # type: ignore[arg-type]
        message = f"`{sampler.name}` takes the best of several candidates, and a chain goes on from one"
        scope.report("E333", message, s.name.span, "several candidates", related=place, help="write `lengths = 1, starts = 1` in it")
        return None
    return Start(s.span, sampler.name, sampler.body)


def refuse_visits(what: str, span: Span, scope: Scope) -> None:
    """Report E334 for a mask that scores and weighs in a place that only draws blocks."""
    help = "draw from `subsets`, `bernoulli` or `blocks`; this one is for `fit` and `loss`"
    scope.report("E334", f"`visits` says what is scored, and how much it weighs: {what}", span, "not here", help=help)
