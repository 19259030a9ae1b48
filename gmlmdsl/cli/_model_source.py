"""The source of a command's model and parameters: a saved fit, or a program and files of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .._diagnostics import GmlmWarning, fail, listed, unknown
from .._types import InputLike, ParamsLike
from ._console import warn
from ._program_arguments import bind_program, read_inputs

if TYPE_CHECKING:
    from ..model import Model
    from ..program import Program


@dataclass(frozen=True)
class ModelSource:
    """The options for a model: FILE, --model, --params, --input, --inputs, --allow-python."""

    file: Path
    model: str | None
    params: Path | None
    inputs: Sequence[str]
    arrays: Path | None
    allow_python: bool = False


def model_and_params(source: ModelSource, verb: str) -> tuple[Model, ParamsLike]:
    """Return the model and its parameters.

    Args:
        source: the options of the command line.
        verb: the action of the command, for messages: `sample`.

    Raises:
        GmlmError: E507 for options that do not fit the file, or parameters without values; E520 for
            a file that is not a saved fit; and errors of reading and binding.
    """
    from ..read import read_arrays, verify_readable

    verify_readable(source.file)
    is_fit = False
    if source.file.is_file():  # A pipe cannot be read twice.
        with source.file.open("rb") as file:
            is_fit = file.read(2) == b"PK"
    if source.file.suffix == ".fit" and not is_fit:
        help = "name a file that `gmlm fit --out` wrote, or a .gmlm file"
        raise fail("E520", f"{source.file} is not a saved fit, or is damaged", help=help)
    if is_fit:
        return _of_fit(source)
    program = bind_program(*checked_program(source.file, source.inputs, source.arrays), allow_python=source.allow_python)
    name = pick(source.model, list(program.checked.models), "model")
    wanted = list(program.checked.models[name].parameters)
    if source.params is None and wanted:
        message = f"model `{name}` has the parameters {listed(wanted)}: their values are needed"
        help = f"fit first and {verb} the saved fit, or pass `--params FILE.npz` with one array for each"
        raise fail("E507", message, help=help)
    if program.checked.models[name].conditional is not None:
        message = f"the parameters of model `{name}` are a network, which a saved fit holds"
        raise fail("E507", message, help=f"fit first, `gmlm fit {source.file} DATA --out net.fit`, and {verb} the saved fit")
    return program.model(name), {} if source.params is None else read_arrays(source.params)


def _of_fit(source: ModelSource) -> tuple[Model, ParamsLike]:
    options = {"--params": source.params, "--input": source.inputs, "--inputs": source.arrays, "--model": source.model}
    for option, value in options.items():
        if value:
            raise fail("E507", f"{source.file} is a saved fit, which has its own: leave `{option}` out")
    import warnings

    from .._load_fit import load_fit

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", GmlmWarning)
        fit = load_fit(source.file, allow_python=source.allow_python)
    for w in said:
        warn(str(w.message))
    return fit.model, fit.params


def checked_program(file: Path, inputs: Sequence[str], arrays: Path | None) -> tuple[Program, dict[str, InputLike]]:
    """Return a checked program and the inputs that were given for it."""
    from ..program import check_file

    program = check_file(file)
    return program, read_inputs(program, inputs, arrays)


def pick(name: str | None, names: Sequence[str], what: str, option: str = "model") -> str:
    """Return the given name, or the only name if none is given.

    Args:
        name: the given name, or None.
        names: the known names.
        what: the kind of the named object and, after ` of `, its owner.
        option: the option that gives the name, for messages.

    Raises:
        GmlmError: E506 for an unknown name, or if none is given and `names` does not have exactly
            one.
    """
    if name is not None and name not in names:
        kind, _, owner = what.partition(" of ")
        raise unknown(f"{owner or 'the program'} has no {kind} `{name}`", name, names)
    if name is None and len(names) != 1:
        kind, _, owner = what.partition(" of ")
        if not names:
            help = f"declare one in the file: `{kind} ..`"
            raise fail("E506", f"{owner or 'the program'} has no {kind}s", help=help)
        message = f"{owner or 'the program'} has {len(names)} {kind}s: say which"
        help = f"`--{option} {names[0]}`, or another: {listed(names[1:])}"
        raise fail("E506", message, help=help)
    return names[0] if name is None else name
