"""Compute parts of a checked program: those without some names, and the user's own code.

This part can be bound even if an input is missing or another part is faulty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

from .._diagnostics import Source, Span
from ._mask_bodies import MaskBody
from ._options import is_function, refinement_options
from ._program import Model, NetworkConditional, Program
from ._refinement import is_decoder
from ._terms import Cells, FormCall, InputValue, LetValue, ParameterValue, SetOf, VariableValue


@dataclass(frozen=True)
class _Named:
    """The names that a part of a program mentions.

    Attributes:
        outer: names of the program.
        inner: names of the part's model.
    """

    outer: Set[str]
    inner: Set[str]


def names_in(part: object) -> _Named:
    """Return every name that a part of a checked program mentions, directly or in its subparts."""
    outer: set[str] = set()
    inner: set[str] = set()
    seen: set[int] = set()
    todo: list[Any] = [part]
    while todo:
        node = todo.pop()
        if type(node) in (Span, Source, str, int, float, bool, type(None)) or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, tuple | list):
            todo += node
        elif isinstance(node, dict):
            todo += node.values()
        else:
            _note(node, outer, inner)
            todo += [node.arguments] if isinstance(node, FormCall) else [getattr(node, name) for name in _field_names(type(node))]
    return _Named(outer, inner)


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else ()


def _note(node: object, outer: set[str], inner: set[str]) -> None:
    match node:
        case InputValue():
            outer.add(node.name)
        case SetOf() if node.graph:
            outer.add(node.graph)
        case FormCall():
            # The text is the name of an input, or a word.
            outer.update(v for v in node.arguments.values() if isinstance(v, str))
        case VariableValue() | ParameterValue() | LetValue():
            inner.add(node.name)
        case Cells():
            inner.add(node.variable)
        case MaskBody():
            inner.update(node.hidden_variables())
        case NetworkConditional():
            outer.add(node.network)
            inner.update((node.target, *node.given))


def without_names(model: Model, lost: Set[str], outer: Set[str] = frozenset()) -> Model:
    """Return a model without the statements that need a name of `lost` or `outer`.

    Args:
        model: the model.
        lost: names of variables, parameters and `let`s.
        outer: names of the program.
    """
    if not lost and not outer:
        return model
    lost = set(lost)

    def sound(part: object, name: str = "") -> bool:
        named = names_in(part)
        good = name not in lost and not (named.outer & outer or named.inner & lost)
        if name and not good:
            lost.add(name)
        return good

    variables = {n: v for n, v in model.variables.items() if sound(v, n)}
    parameters = {n: p for n, p in model.parameters.items() if sound(p, n)}
    lets = {n: x for n, x in model.lets.items() if sound(x, n)}
    return replace(
        model,
        variables=variables,
        parameters=parameters,
        lets=lets,
        factors=_all(sound, model.factors),
        requires=_all(sound, model.requires),
        distributed=_all(sound, model.distributed),
        priors=_all(sound, model.priors),
        gauges=tuple(g for g in model.gauges if g[0] in parameters),
        conditional=model.conditional if model.conditional is not None and sound(model.conditional) else None,
    )


def _all(sound: Any, parts: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(p for p in parts if sound(p))


def _declared(model: Model) -> set[str]:
    return {*model.variables, *model.parameters, *model.lets}


def without_inputs(program: Program, lost: Set[str]) -> Program:
    """Return a program without some inputs or graphs and all declarations that need them.

    These declarations are lengths, graphs, networks, models, masks and samplers. A model that needs
    a lost name keeps its other statements.
    """
    if not lost:
        return program
    lost = set(lost)
    inputs, graphs = dict(program.inputs), dict(program.graphs)
    while True:  # An input may run over a graph, and a graph may be made from an input.
        lost |= {length for length, (name, _) in program.lengths.items() if name in lost}
        gone = {n for n, d in (*inputs.items(), *graphs.items()) if n in lost or names_in(d).outer & lost}
        if not gone:
            break
        lost |= gone
        inputs, graphs = ({n: d for n, d in part.items() if n not in gone} for part in (inputs, graphs))
    networks = {n: d for n, d in program.networks.items() if not names_in(d).outer & lost}
    lost |= set(program.networks) - set(networks)
    models = {n: without_names(m, frozenset(), lost) for n, m in program.models.items()}
    lengths = {n: at for n, at in program.lengths.items() if n not in lost}
    return replace(_about(program, models, lost), inputs=inputs, lengths=lengths, graphs=graphs, networks=networks)


def with_model(program: Program, model: Model) -> Program:
    """Return a program with the remaining part of one of its models.

    Masks, samplers, verifiers and values that need more of the model are removed.
    """
    return program if model == program.models[model.name] else _about(program, {**program.models, model.name: model}, frozenset())


def _about(program: Program, models: dict[str, Model], lost: Set[str]) -> Program:
    missed = {n: _declared(m) - _declared(models[n]) for n, m in program.models.items()}

    def sound(part: Any) -> bool:
        named = names_in(part)
        return not (named.outer & lost or named.inner & missed[part.model])

    masks, samplers, judges = ({n: d for n, d in part.items() if sound(d)} for part in (program.masks, program.samplers, program.judges))
    return replace(program, models=models, masks=masks, samplers=samplers, judges=judges)


def python_code(program: Program, model: str) -> Iterator[tuple[str, Span]]:
    """Yield what a model of a checked program runs, and where it is named.

    That is the class of its network, and the confidences, planners and schedules of its decoders.
    """
    declared = program.models[model]
    network = None if declared.conditional is None else program.networks[declared.conditional.network]
    if network is not None and network.form.name == "python":
        yield f"its network is the class `{network.arguments['target']}`", network.span
    for sampler in program.samplers.values():
        if sampler.model == model and isinstance(sampler.body, FormCall) and is_decoder(sampler.body):
            options = refinement_options(sampler.body)
            planner = program.networks.get(str(options["planner"]))
            for target in filter(is_function, (options["confidence"], options["planner"], options["schedule"])):
                yield f"sampler `{sampler.name}` calls the function `{target}`", sampler.body.span
            if planner is not None and planner.form.name == "python":
                yield f"sampler `{sampler.name}` plans by the class `{planner.arguments['target']}`", sampler.body.span
