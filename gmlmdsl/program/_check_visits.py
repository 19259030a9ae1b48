"""Check `visits(S)` and `start from S`.

The first needs a sampler with a bound on -log p of its own. The second needs a sampler that can
begin a draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .._diagnostics import Span
from ..syntax import tree
from ._blocks import FormCall
from ._expressions import known_number
from ._kernels import Start
from ._mask_bodies import FormMask
from ._network_forms import PUBLISHED, REFINEMENT
from ._options import is_function, refinement_options
from ._program import Input, Model, Sampler
from ._scope import Scope

AT_SETTLED = ("linear", "cosine", "threshold", "easy_first")


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
        yield "it runs updates, and what these leave has no density in closed form", "name the decoder that it starts from"
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


def _looks_at_draws(o: Mapping[str, object]) -> bool:
    by_confidence = o["order"] == "confidence" or o["schedule"] == "threshold"
    return by_confidence and o["confidence"] == "probability" and known_number(o["steps"]) != 1  # type: ignore[arg-type]


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
