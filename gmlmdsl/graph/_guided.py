"""The options of guided samplers, verifiers and values as numbers and words."""

from __future__ import annotations

from .._diagnostics import fail
from ..program import guided_options, ir
from ._bound import Bound
from ._graph_variables import VariableArray
from ._network import end_code, evaluated_options
from ._network_form import Value


def guided(call: ir.FormCall, bound: Bound, string: VariableArray) -> dict[str, Value | ir.Judge]:
    """Return the evaluated options of a guided form.

    `end` becomes the code of a value of the string, or `none` if it is set to that. Verifiers and
    values are returned unchanged.

    Raises:
        GmlmError: E409 for a number out of bounds, or for an `end` that is not a value of the
            string.
    """
    stated = guided_options(call)
    judges = {name: e for name, e in stated.items() if isinstance(e, ir.Judge)}
    found = evaluated_options(call, {name: e for name, e in stated.items() if name not in judges and name != "end"}, bound)
    end = {} if "end" not in stated else {"end": end_code(call, stated["end"], bound, string)}
    return found | end | judges


def verify_strings(judge: ir.Judge, name: str, own: VariableArray, other: VariableArray) -> None:
    """Raise unless the strings of a judging model have the form of the strings that are drawn.

    Args:
        judge: the verifier or value.
        name: the name of the model that judges prefixes.
        own: the string of the model that is sampled.
        other: the string of the judging model.

    Raises:
        GmlmError: E515.
    """
    if other.size != own.size or len(other.labels) != len(own.labels):
        message = f"model `{name}` has strings of {other.size} cells of {len(other.labels)} values, "
        message += f"model `{judge.model}` of {own.size} of {len(own.labels)}"
        help_ = f"declare the cells of `{name}` with the lengths and values of those of `{judge.model}`"
        raise fail("E515", message, judge.body.span, "other strings", help=help_)


def verify_brackets(judge: ir.Judge, kinds: int, string: VariableArray) -> None:
    """Raise unless a string has enough values for `kinds` kinds of brackets.

    Raises:
        GmlmError: E409.
    """
    if 2 * kinds > len(string.labels):
        message = f"{kinds} kinds of brackets are {2 * kinds} values, `{string.name}` has {len(string.labels)}"
        raise fail("E409", message, judge.body.span, "too many kinds")
