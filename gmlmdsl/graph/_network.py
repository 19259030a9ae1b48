"""Lowering of a `conditional`: its network, its masks' corruption, its decoders' options."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._diagnostics import Span, fail
from ..program import (
    PRETRAINED,
    autoregressive_options,
    guided_options,
    input_options,
    ir,
    is_decoder,
    is_function,
    network_options,
    option_faults,
    refinement_options,
)
from ._bound import Bound
from ._graph_variables import GivenArray, NetworkForm, Value, VariableArray
from ._weights import normalised


def lower_network(model: ir.Model, bound: Bound, variables: tuple[VariableArray, ...], given: tuple[GivenArray, ...]) -> NetworkForm | None:
    """Return the network of a model's `conditional`, or None if the model has none.

    Args:
        model: the checked model.
        bound: the bound program.
        variables: the model's lowered variables with cells.
        given: its lowered given variables.

    Raises:
        GmlmError: E409 for a number that an input makes too large or too small.
    """
    c = model.conditional
    if c is None:
        return None
    target = next(v for v in variables if v.name == c.target)
    by_name = {g.name: g for g in given}
    call = bound.program.networks[c.network]
    sizes = tuple((g.name, g.size, 0 if g.real else len(g.labels)) for g in (by_name[name] for name in c.given))
    options = evaluated_options(call, network_options(call), bound)
    judges = bound.program.judges.values()
    probes = tuple(j.name for j in judges if j.model == model.name and j.body.form.name == "probe")
    found = NetworkForm(call.form.name, options, target.size, len(target.labels), sizes, call.span, c.network, probes)
    values = target.labels if target.scale is None else target.scale.numbers
    if call.form is PRETRAINED:
        found = replace(found, values=values)
    planners = (_planner(name, found, values, bound) for name in _planners(bound.program, model.name))
    return replace(found, planners=tuple(planners))


def _planners(program: ir.Program, model: str) -> tuple[str, ...]:
    """Return the names of the networks by which samplers of a model plan."""
    calls = (s.body for s in program.samplers.values() if s.model == model and isinstance(s.body, ir.FormCall) and is_decoder(s.body))
    names = (str(refinement_options(c)["planner"]) for c in calls)
    return tuple(dict.fromkeys(name for name in names if name not in ("none", "self") and not is_function(name)))


def _planner(name: str, of: NetworkForm, values: tuple[int | str, ...], bound: Bound) -> NetworkForm:
    """Return a network that reads the same cells and no given variable."""
    call = bound.program.networks[name]
    options = evaluated_options(call, network_options(call), bound)
    return NetworkForm(
        call.form.name, options, of.n_cells, of.n_values, (), call.span, name, (), values=values if call.form is PRETRAINED else ()
    )


def refinement(call: ir.FormCall, bound: Bound) -> dict[str, Any]:
    """Return the options of `refinement` or of one of its presets as numbers and words.

    A schedule's mask is returned unchanged, and its counts become integers. A schedule of Python
    becomes the function if Python is allowed; else its name is returned.

    Raises:
        GmlmError: E409 for a number that an input makes too large or too small; E744 for a schedule
            that cannot be imported.
    """
    stated = refinement_options(call)
    schedule = stated.pop("schedule")
    found = evaluated_options(call, stated, bound)
    if isinstance(schedule, tuple):
        return {**found, "schedule": np.array([bound.integer(e) for e in schedule], np.int64)}
    if isinstance(schedule, ir.Input):
        return {**found, "schedule": np.asarray(bound.inputs[schedule.name], np.int64)}
    if is_function(schedule) and bound.allow_python:
        called = "`schedule(cells)`: from the number of cells to a list of how many each pass settles"
        return {**found, "schedule": user_function(str(schedule), call.span, called)}
    return {**found, "schedule": schedule}


def autoregressive(call: ir.FormCall, bound: Bound, string: VariableArray | None) -> dict[str, Value]:
    """Return the options of `autoregressive` as numbers and words; `end` as a code of `string`.

    Raises:
        GmlmError: E409 for a number out of bounds, or an `end` that is not a value of the cells.
    """
    stated = autoregressive_options(call)
    found = evaluated_options(call, {name: e for name, e in stated.items() if name != "end"}, bound)
    return found | {"end": "none" if string is None else end_code(call, stated["end"], bound, string)}


def end_code(call: ir.FormCall, end: object, bound: Bound, string: VariableArray) -> Value:
    """Return the code of the value that ends a string, or `none`.

    Raises:
        GmlmError: E409 for an `end` that is not a value of the string.
    """
    if end == "none":
        return "none"
    number = int(bound.integer(end))  # type: ignore[arg-type]
    values = list(range(len(string.labels)) if string.scale is None else string.scale.numbers)
    if number not in values:
        message = f"`end` is a value of `{string.name}`, {values[0]}..{values[-1]}, found {number}"
        raise fail("E409", message, call.span, "no value of a cell")
    return values.index(number)


def evaluated_options(call: ir.FormCall, options: Mapping[str, object], bound: Bound) -> dict[str, Value]:
    """Return the options evaluated.

    The checker has validated literal numbers. This function validates numbers from inputs by the
    same rules.

    Raises:
        GmlmError: E409 for a number out of bounds.
    """
    found = {name: _value(e, bound) for name, e in options.items()}
    for _, message in option_faults(call.form, found):
        raise fail("E409", message, call.span, "out of bounds")
    return found


def _value(e: object, bound: Bound) -> Value:
    """Return the value of an option, with whole numbers as integers."""
    if isinstance(e, bool | str):
        return e
    number = bound.number(e)  # type: ignore[arg-type]
    return int(number) if float(number).is_integer() else number


@dataclass(frozen=True)
class Noise:
    """The corruption of the cells of K in a network's input.

    Attributes:
        hide: the probability that the network sees nothing.
        uniform: the probability that the network sees a uniformly drawn value.
        keep: the probability that the network sees the true value.
    """

    hide: float = 1.0
    uniform: float = 0.0
    keep: float = 0.0


@dataclass(frozen=True)
class Corruption:
    """The corruption by which a mask makes a network's input.

    Attributes:
        parts: for each part of the mask, in their order, its probability, its body and its noise. A
            mask without parts is one part.
        stages: the number of predictions that are made and scored. The input of each stage but the
            first is the prediction of the stage before.
        inputs: the form in which a prediction is fed back: its `argmax`, or a `sample`.
    """

    parts: tuple[tuple[float, ir.MaskBody, Noise], ...]
    stages: int = 1
    inputs: str = "argmax"

    @property
    def is_certain(self) -> bool:
        """Whether x, K and the parameters determine the input, so that nothing is drawn."""
        certain = all(max(n.hide, n.uniform, n.keep) == 1 and n.uniform == 0 for _, _, n in self.parts)
        return certain and (self.stages == 1 or self.inputs == "argmax")

    @property
    def is_fixed(self) -> bool:
        """Whether x and K alone determine the input."""
        return self.stages == 1 and all(n.hide == 1 for _, _, n in self.parts)


def lower_corruption(bound: Bound, body: ir.MaskBody) -> Corruption:
    """Return the parts of a mask that are not mixtures, with their probabilities and noise.

    Raises:
        GmlmError: E409 for noise whose probabilities do not sum to 1, for parts with different
            stages, or for weights that cannot be normalised.
    """

    def shares(weights: Sequence[ir.Expression], span: Span) -> list[float]:
        return normalised(np.array([bound.number(w) for w in weights]), span).tolist()

    parts, stages = [], set()
    for weight, leaf in body.shares(shares):
        found = input_options(leaf)
        parts.append((weight, leaf, _noise(bound, found["noise"], leaf.span)))
        stages.add((bound.integer(found["stages"]), found["stage_inputs"]))  # type: ignore[arg-type]
        if min(s for s, _ in stages) < 1:
            raise fail("E409", f"`stages` is at least 1, found {min(s for s, _ in stages)}", leaf.span, "too small")
    if len(stages) > 1:
        raise fail("E409", "the parts of this mixture differ in `stages` or `stage_inputs`", body.span, "give all the same")
    return Corruption(tuple(parts), *stages.pop())


def _noise(bound: Bound, stated: object, span: Span) -> Noise:
    assert isinstance(stated, dict)
    found = {name: bound.number(e) for name, e in stated.items()}
    total = sum(found.values())
    if any(not 0 <= v <= 1 for v in found.values()) or abs(total - 1) > 1e-6:
        raise fail("E409", f"the probabilities of `noise` lie between 0 and 1 and sum to 1, found {total:g}", span, "not probabilities")
    return Noise(**{"hide": 0.0, "uniform": 0.0, "keep": 0.0} | found)


def user_function(target: str, place: Span | None, called: str) -> Callable[..., Any]:
    """Import a function by its name; the caller verifies that the user allows it.

    Args:
        target: "package.module:name".
        place: where the program names it.
        called: how it is called, for messages.

    Raises:
        GmlmError: E744 if it cannot be imported or called.
    """
    module, _, name = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # Importing runs the user's module, which may raise any exception.
        help = 'name a function that Python can import, as "package.module:name"; the module\'s folder must be on sys.path'
        raise fail("E744", f"`{target}` cannot be imported: {error}", place, "not found", help=help) from error
    if not callable(found):
        raise fail("E744", f"`{target}` is not a function", place, "cannot be called", help=called)
    return found


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
