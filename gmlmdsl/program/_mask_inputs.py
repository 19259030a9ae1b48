"""Check the options of masks that make a network's input: `noise`, `stages`, `stage_inputs`."""

from __future__ import annotations

from .._diagnostics import Fix
from ..syntax import tree
from ._check_networks import report_idle, without
from ._expressions import known_number
from ._form import Form
from ._mask_bodies import MaskMixture
from ._options import input_options
from ._program import Model
from ._scope import Scope

OPTIONS = {"noise": "is what a network sees", "stages": "are of a network's training", "stage_inputs": "is of a network's training"}


def check_seen(call: tree.Call, form: Form, arguments: dict[str, object], model: Model, scope: Scope) -> bool:
    """Return whether the options that make a network's input have a network and an effect.

    Args:
        call: the call in the program's text.
        form: the form of the mask.
        arguments: the checked arguments.
        model: the model of the mask.
        scope: collects the diagnostics.
    """
    written = {a.keyword.name: a for a in call.arguments if a.keyword is not None and a.keyword.name in OPTIONS}
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
            message = f"`{name}` {OPTIONS[name]}: model `{model.name}` has no `conditional`"
            fix = Fix(without(call, argument), "", guess=True) if call.arguments.index(argument) else None
            scope.report("E323", message, argument.span, "no network here", help="remove it", fix=fix)
    return not written


def check_stages(e: tree.MaskMixture, mixed: MaskMixture, scope: Scope) -> bool:
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
