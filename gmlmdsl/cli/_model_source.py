"""Where a command finds a model and its parameters: in a saved fit, or in a program and files of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._diagnostics import GmlmWarning, fail, listed, unknown
from ._console import warn
from ._program_arguments import bind_program, read_inputs

if TYPE_CHECKING:
    from ..model import Model
    from ..program import Program


@dataclass(frozen=True)
class ModelSource:
    """What a command line says of a model: FILE, --model, --params, --input, --inputs, --allow-python."""

    file: Path
    model: str | None
    params: Path | None
    inputs: Sequence[str]
    arrays: Path | None
    allow_python: bool = False


def model_and_params(source: ModelSource, verb: str) -> tuple[Model, Any]:
    """The model and its parameters.

    Args:
        source: what the command line says.
        verb: what the command does with them, for messages: `sample`.

    Raises:
        GmlmError: E507 for options that do not fit the file, or parameters without values; what
            reading and binding raise.
    """
    from ..read import read_arrays, verify_readable

    verify_readable(source.file)
    is_fit = False
    if source.file.is_file():  # of a pipe nothing is read twice
        with source.file.open("rb") as file:
            is_fit = file.read(2) == b"PK"
    if source.file.suffix == ".fit" and not is_fit:
        raise fail(
            "E520", f"{source.file} is not a saved fit, or is damaged", help="name a file that `gmlm fit --out` wrote, or a .gmlm file"
        )
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


def _of_fit(source: ModelSource) -> tuple[Model, Any]:
    options = {"--params": source.params, "--input": source.inputs, "--inputs": source.arrays, "--model": source.model}
    for option, value in options.items():
        if value:
            raise fail("E507", f"{source.file} is a saved fit, which has its own: leave `{option}` out")
    import warnings

    from .._compile import load_fit

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", GmlmWarning)
        fit = load_fit(source.file, allow_python=source.allow_python)
    for w in said:
        warn(str(w.message))
    return fit.model, fit.params


def checked_program(file: Path, inputs: Sequence[str], arrays: Path | None) -> tuple[Program, dict[str, Any]]:
    """A checked program, and the inputs that were given for it."""
    from ..program import check_file

    program = check_file(file)
    return program, read_inputs(program, inputs, arrays)


def pick(name: str | None, names: Sequence[str], what: str, option: str = "model") -> str:
    """The one that was named, or the only one.

    Raises:
        GmlmError: E506 for an unknown name, or where there are several.
    """
    if name is not None and name not in names:
        kind, _, owner = what.partition(" of ")
        raise unknown(f"{owner or 'the program'} has no {kind} `{name}`", name, names)
    if name is None and len(names) != 1:
        kind, _, owner = what.partition(" of ")
        message = f"{owner or 'the program'} has {len(names) or 'no'} {kind}s" + (": say which" if names else "")
        raise fail(
            "E506",
            message,
            help=f"`--{option} {names[0]}`, or another of {listed(names)}" if names else f"declare one in the file: `{kind} ..`",
        )
    return names[0] if name is None else name
