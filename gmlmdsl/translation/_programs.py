"""What a program of a translator declares: its models, which of them is the teacher, and which inputs are sizes of the vocabulary."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from .._compile import BoundProgram
from .._diagnostics import GmlmError, fail, listed
from ..graph import verify_is_model
from ..program import Program, ir, network_options
from ._vocabulary import Vocabulary

if TYPE_CHECKING:
    from ..model import ConditionalModel


@dataclass(frozen=True)
class Roles:
    """The models of a program by what their networks are: a causal one is the teacher, another one the student."""

    teacher: str
    student: str


@dataclass(frozen=True)
class Pair:
    """The two sides of a translation model.

    Attributes:
        source: the name of the given variable.
        target: the name of the variable.
        cells: how many pieces each may have, the end mark among them.
        size: of the vocabulary.
    """

    source: str
    target: str
    cells: tuple[int, int]
    size: int


def is_causal(checked: Program, model: str) -> bool:
    """Whether a model's network sees only the cells before the one that it predicts."""
    conditional = checked.models[model].conditional
    if conditional is None:
        return False
    found = checked.networks[conditional.network].arguments.get("causal", False)
    return found is True or found == "true" or (isinstance(found, ir.Literal) and bool(found.value))


def roles_of(checked: Program) -> Roles:
    """The teacher and the student of a program with one of each.

    Raises:
        GmlmError: E581 where there is none, or are several.
    """
    networks = [name for name, m in checked.models.items() if m.conditional is not None]
    teachers = [name for name in networks if is_causal(checked, name)]
    students = [name for name in networks if name not in teachers]
    for found, what, how in (
        (teachers, "teacher", "one whose network has `causal = true`"),
        (students, "student", "one whose network has not `causal = true`"),
    ):
        if len(found) != 1:
            message = f"a pipeline needs one {what}, {how}, and the program has {listed(found) if found else 'none'}"
            raise fail("E581", message, help="declare both in one file, as `gmlm examples translator/tiny` shows")
    return Roles(teachers[0], students[0])


def sides(model: ConditionalModel) -> Pair:
    """What a model translates.

    Raises:
        GmlmError: E580 for a model that does not map one row of codes to another one over the same
            number of codes.
    """
    verify_is_model(model)
    graph = model.graph
    problem, help = "", "a translation model is `given src[i in s] : range(V)`, `var tgt[j in t] : range(V)`, `conditional tgt ~ net(src)`"
    if graph.network is None:
        problem = "its conditionals are not a network's"
    elif len(graph.given) != 1 or len(graph.variables) != 1:
        problem = f"it has {len(graph.given)} given variables and {len(graph.variables)} others"
    elif graph.given[0].real or len(graph.given[0].shape) != 1 or len(graph.variables[0].shape) != 1:
        problem = "source and target must be rows of codes"
    elif len(graph.given[0].labels) != len(graph.variables[0].labels):
        problem = f"its source has {len(graph.given[0].labels)} values, its target {len(graph.variables[0].labels)}"
        help = "both languages share one vocabulary: give source and target the same number of values"
    elif graph.variables[0].kind != "range" or graph.given[0].kind != "range":
        problem = "source and target must be of `range(..)`, codes of a vocabulary"
    if problem:
        raise fail("E580", f"model `{model.name}` is not a translation model: {problem}", help=help)
    source, target = graph.given[0], graph.variables[0]
    return Pair(source.name, target.name, (source.size, target.size), len(target.labels))


def vocabulary_inputs(checked: Program) -> tuple[str, ...]:
    """The inputs that say how many values a source or target has: those that a vocabulary binds."""
    found: dict[str, None] = {}
    for model in checked.models.values():
        if model.conditional is None:
            continue
        for variable in model.variables.values():
            size = variable.domain.size if variable.domain.of is None else variable.domain.of.size
            for e in () if size is None else ir.walk(size):
                if isinstance(e, ir.InputValue):
                    found[e.name] = None
    return tuple(found)


def shared_vocabulary(checked: Program, pairs: Sequence[tuple[str, str]], size: int) -> Vocabulary:
    """One vocabulary of both languages of a text.

    Raises:
        GmlmError: E570 for a size that the text does not allow; the help names the inputs that say
            it.
    """
    try:
        return Vocabulary.train((x for p in pairs for x in p), size)
    except GmlmError as error:
        names = vocabulary_inputs(checked)
        said = error.diagnostics[0]
        # where it has no help, no size would do
        if said.code != "E570" or not said.help or not names:
            raise
        how = " ".join(f"--input {name}=N" for name in names)
        raise GmlmError([replace(said, help=f"{said.help}: `{how}`, say")]) from None


def bound(checked: Program, inputs: Mapping[str, Any], size: int | None = None, allow_python: bool = False) -> BoundProgram:
    """A program with its inputs; those that a vocabulary binds are its size, where there is one.

    Raises:
        GmlmError: for inputs that are missing or do not fit.
    """
    more = {} if size is None else {name: size for name in vocabulary_inputs(checked) if name not in inputs}
    return BoundProgram(checked, {**inputs, **more}, None, allow_python)


def digest_of(checked: Program, inputs: Mapping[str, Any], model: str, mask: str | None, sampler: str | None = None) -> str:
    """A hash of all that a model, its network, its mask or its sampler say, wherever they stand in the text.

    So a sampler may be changed without what was trained being made anew.
    """
    m = checked.models[model]
    assert m.conditional is not None
    network = checked.networks[m.conditional.network]
    parts: list[Any] = [m, network, network_options(network)]  # with what the program does not say
    parts += [checked.masks[mask]] if mask is not None else []
    parts += [checked.samplers[sampler]] if sampler is not None else []
    text = json.dumps([_plain(p) for p in parts] + [{k: _plain(v) for k, v in inputs.items()}], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Without places in the text, which say nothing of what is meant."""
    if isinstance(value, ir.FormCall):
        return [value.form.name, _plain(value.arguments)]
    if is_dataclass(value):
        return [type(value).__name__, *(_plain(getattr(value, f.name)) for f in fields(value) if f.name != "span")]
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
