"""The declarations of a translation program: its models, their roles, and vocabulary inputs.

The roles are teacher and student. Vocabulary inputs are inputs that give the size of the
vocabulary.

The program also declares the samplers of a teacher, and the number of beams of each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from .._compile import BoundProgram
from .._diagnostics import GmlmError, fail, listed, only
from .._types import InputLike
from ..graph import verify_is_model
from ..program import Program, ir, network_options
from ._vocabulary import Vocabulary

if TYPE_CHECKING:
    from ..model import ConditionalModel


@dataclass(frozen=True)
class Roles:
    """The models of a program by role.

    The teacher is the model with a causal network; the student is the other one.
    """

    teacher: str
    student: str


@dataclass(frozen=True)
class Pair:
    """The two sides of a translation model.

    Attributes:
        source: the name of the given variable.
        target: the name of the variable.
        cells: the maximum numbers of subword tokens of source and target, including the end mark.
        size: the size of the vocabulary.
    """

    source: str
    target: str
    cells: tuple[int, int]
    size: int


def is_causal(checked: Program, model: str) -> bool:
    """Return whether the network of a model sees only the cells before the predicted one."""
    conditional = checked.models[model].conditional
    if conditional is None:
        return False
    found = checked.networks[conditional.network].arguments.get("causal", False)
    return found is True or found == "true" or (isinstance(found, ir.Literal) and bool(found.value))


def roles_of(checked: Program) -> Roles:
    """Return the teacher and the student of a program with one of each.

    Raises:
        GmlmError: E581 if either role has no model or several models.
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
    """Return the source and the target of a translation model.

    Raises:
        GmlmError: E580 for a model that does not map a row of codes to another row with the same
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
    elif any(v.kind != "range" or v.first != 0 for v in (graph.variables[0], graph.given[0])):
        problem = "source and target must be of `range(V)`, codes of a vocabulary from 0"
    if problem:
        raise fail("E580", f"model `{model.name}` is not a translation model: {problem}", help=help)
    source, target = graph.given[0], graph.variables[0]
    return Pair(source.name, target.name, (source.size, target.size), len(target.labels))


def vocabulary_inputs(checked: Program) -> tuple[str, ...]:
    """Return the inputs that give the number of values of a source or target.

    A vocabulary binds these inputs.
    """
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


def shared_vocabulary(checked: Program, pairs: Sequence[tuple[str, str]], size: int, byte_fallback: bool = False) -> Vocabulary:
    """Train one vocabulary on both languages of a text.

    Raises:
        GmlmError: E570 for a size that the text does not allow. The help names the inputs that give
            the size.
    """
    try:
        return Vocabulary.train((x for p in pairs for x in p), size, byte_fallback)
    except GmlmError as error:
        names = vocabulary_inputs(checked)
        said = error.diagnostics[0]
        # Without help in the error, no size would be possible.
        if said.code != "E570" or not said.help or not names:
            raise
        # The help is "take N or fewer", or "take N or more".
        how = " ".join(f"--input {name}={said.help.split()[1]}" for name in names)
        raise GmlmError([replace(said, help=f"{said.help}: `{how}`, say")]) from None


def bound(checked: Program, inputs: Mapping[str, InputLike], size: int | None = None, allow_python: bool = False) -> BoundProgram:
    """Return a program with its inputs.

    Inputs that a vocabulary binds default to `size`.

    Args:
        checked: the program.
        inputs: the inputs by name.
        size: the size of the vocabulary, or None.
        allow_python: whether a network `python("package.module:Class")` may import and run that
            class.

    Raises:
        GmlmError: for inputs that are missing or do not fit.
    """
    more = {} if size is None else {name: size for name in vocabulary_inputs(checked) if name not in inputs}
    return BoundProgram(checked, {**inputs, **more}, None, allow_python)


def digest_of(checked: Program, inputs: Mapping[str, object], model: str, mask: str | None, sampler: str | None = None) -> str:
    """Return a hash of the declarations of a model, its network, its mask and its sampler.

    The hash does not depend on their places in the text. A sampler may therefore change without a
    repetition of the training.

    Args:
        checked: the program.
        inputs: the inputs by name.
        model: the name of the model.
        mask: the name of the mask, or None.
        sampler: the name of the sampler, or None.
    """
    m = checked.models[model]
    assert m.conditional is not None
    network = checked.networks[m.conditional.network]
    # Network options include the defaults.
    parts: list[Any] = [m, network, network_options(network)]
    parts += [checked.masks[mask]] if mask is not None else []
    parts += [checked.samplers[sampler]] if sampler is not None else []
    text = json.dumps([_plain(p) for p in parts] + [{k: _plain(v) for k, v in inputs.items()}], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Return plain data without places in the text, which do not affect the meaning."""
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


def distillers(checked: Program, model: str, stated: str | None) -> list[str]:
    """Return the samplers of the teacher that may distil.

    These are the first of the following that applies:

    - the sampler `stated`;
    - the samplers with a known number of beams, most beams first;
    - the only sampler of the teacher.

    Raises:
        GmlmError: E506 for an unknown name, or if the file leaves the choice open.
    """
    known = by_beams(checked, model)
    if stated is None and known:
        return known
    return [only(stated, [name for name, s in checked.samplers.items() if s.model == model], "sampler", model)]


def by_beams(checked: Program, model: str) -> list[str]:
    """Return the samplers of a model with a literal number of beams in the file, most beams first.

    Samplers with equally many beams keep the order of the file.
    """
    names = [name for name, s in checked.samplers.items() if s.model == model]
    found = {name: beam for name in names if (beam := beams_of(checked, name)) is not None}
    return sorted(found, key=lambda name: -found[name])


def beams_of(checked: Program, sampler: str) -> int | None:
    """Return the number of beams of a sampler, or None if it is not a literal in the file."""
    body = checked.samplers[sampler].body
    found = body.arguments.get("beam", 1) if isinstance(body, ir.FormCall) else None
    found = found.value if isinstance(found, ir.Literal) else found
    return int(found) if isinstance(found, int | float) else None
