"""Fill in the defaults of all options of a call of a form.

Later stages read these options, independently of the preset that the program uses.
"""

from __future__ import annotations

from . import _forms as forms
from ._form import CELL_VALUE, Option
from ._mask_bodies import MaskBody
from ._network_forms import PUBLISHED, RENAMED
from ._terms import Expression, FormCall, Literal, Operation

_NUMERIC = (forms.NUMBER, forms.INTEGER, CELL_VALUE)
_NEEDS_A_SCHEDULE = ("least_confident", "random", *PUBLISHED)


def refinement_options(call: FormCall) -> dict[str, object]:
    """Return every option of `refinement` or of one of its presets.

    Words are texts, and numbers are expressions; a function of Python is "package.module:name". A
    schedule is a word, a function, a mask, a tuple of counts, or the input that contains the
    counts. `top_k`, `top_p`, `block` and `loop` are the text `none` if they are not set. If the
    program lists counts, `steps` is their number.
    """
    out = _filled(call)
    out["remask"] = RENAMED.get(str(out["remask"]), out["remask"])
    if out["schedule"] == "":
        needs = out["remask"] in _NEEDS_A_SCHEDULE or out["order"] != "" or out["block"] != "none" or out["planner"] != "none"
        out["schedule"] = "linear" if needs else "all"
    if isinstance(out["schedule"], tuple):
        out["steps"] = Literal(call.span, len(out["schedule"]))
    if out["order"] == "":
        out["order"] = "random" if out["remask"] in PUBLISHED else "confidence"
    if out["confidence"] == "":
        by_value = out["decode"] != "sample" or out["remask"] == "remdm_confidence" or out["planner"] != "none"
        out["confidence"] = "probability" if by_value else "margin"
    if out["eta"] == "":
        out["eta"] = Literal(call.span, 0.1 if out["planner"] == "none" else 1.0)
    return out


def is_function(option: object) -> bool:
    """Return whether an option of a decoder is a function of Python, "package.module:name"."""
    return isinstance(option, str) and ":" in option


def autoregressive_options(call: FormCall) -> dict[str, object]:
    """Return every option of `autoregressive`.

    Words are texts, and numbers are expressions. `end`, `top_k` and `top_p` are `none` if they are
    not set.
    """
    return _filled(call)


def guided_options(call: FormCall) -> dict[str, object]:
    """Return every option of a guided sampler, verifier or value.

    Words are texts, numbers are expressions, and verifiers and values are `Judge` objects.
    """
    return _filled(call)


def network_options(call: FormCall) -> dict[str, object]:
    """Return every option of a network: booleans, texts, and numbers as expressions.

    For `python`, only the written options are returned. A causal network predicts no length,
    because its values determine the end of a row.
    """
    out = _filled(call)
    return out | {"length": "oracle"} if out.get("causal") is True and not call.form.free else out


def input_options(body: MaskBody) -> dict[str, object]:
    """Return the options by which a mask makes a network's input.

    These are `noise` (probabilities by word), `stages` (an expression) and `stage_inputs` (a word).
    """
    arguments = body.options
    one = Literal(body.span, 1)
    return {"noise": {"hide": one}, "stages": one, "stage_inputs": "argmax"} | {
        name: arguments[name] for name in ("noise", "stages", "stage_inputs") if name in arguments
    }


def _filled(call: FormCall) -> dict[str, object]:
    out: dict[str, object] = {}
    for option in call.form.options:
        out[option.name] = call.arguments[option.name] if option.name in call.arguments else _default(option, out, call)
    return out | {name: value for name, value in call.arguments.items() if name not in out}


def _default(option: Option, before: dict[str, object], call: FormCall) -> object:
    """Return the value of a default, which is a text in the table.

    It is a word, a boolean, a number, or a multiple of an earlier option.
    """
    text = option.default
    if text in ("true", "false"):
        return text == "true"
    if option.takes not in _NUMERIC or text in option.words or not text:
        return text
    factor, _, name = text.rpartition(" * ")
    value = before[name] if name in before else Literal(call.span, float(text) if option.takes == forms.NUMBER else int(text))
    if not factor:
        return value
    parts: tuple[Expression, Expression] = (Literal(call.span, int(factor)), value)  # pyright: ignore[reportAssignmentType]
    return Operation(call.span, "*", parts)
