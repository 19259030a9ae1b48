"""The options of guided samplers, verifiers and values as numbers and words."""

from __future__ import annotations

from .._diagnostics import fail
from ..program import guided_options, ir
from ._bound import Bound
from ._factor_graph import VariableArray
from ._network import evaluated_options
from ._network_form import Value


def guided(call: ir.FormCall, bound: Bound, string: VariableArray) -> dict[str, Value | ir.Judge]:
    """The options of a form; `end` as the code of a value of the string, `none` where not set, and verifiers and values as they are.

    Raises:
        GmlmError: E409 for a number out of bounds, or an `end` that is no value of the string.
    """
    stated = guided_options(call)
    judges = {name: e for name, e in stated.items() if isinstance(e, ir.Judge)}
    found = evaluated_options(call, {name: e for name, e in stated.items() if name not in judges and name != "end"}, bound)
    end = {} if "end" not in stated else {"end": _end(call, stated["end"], bound, string)}
    return found | end | judges


def _end(call: ir.FormCall, end: object, bound: Bound, string: VariableArray) -> Value:
    if end == "none":
        return "none"
    number = int(bound.integer(end))  # type: ignore[arg-type]
    values = list(string.labels) if string.ordered else list(range(len(string.labels)))
    if number not in values:
        message = f"`end` is a value of `{string.name}`, {values[0]}..{values[-1]}, found {number}"
        raise fail("E409", message, call.span, "no value of a cell")
    return values.index(number)
