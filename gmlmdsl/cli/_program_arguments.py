"""Arguments of the command line: inputs, weights, clamped cells, numbers of masks.

Each fault is a diagnostic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._diagnostics import Diagnostic, GmlmError, each, fail, listed, unknown
from .._types import Clamp, Coords, InputLike, Place

if TYPE_CHECKING:
    import numpy as np

    from .._compile import BoundProgram
    from ..graph import FactorGraph
    from ..program import Program
    from ..read import Table


def same_named(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those options of a command that have the names of the fields of a dataclass."""
    return {f.name: options[f.name] for f in fields(kind) if f.name in options}


def read_inputs(program: Program, assignments: Sequence[str], arrays: Path | None) -> dict[str, InputLike]:
    """Return the inputs of `--input name=value` and `--inputs FILE.npz`.

    Raises:
        GmlmError: for unknown names, values that are not numbers, names given twice, or a file that
            cannot be read.
    """
    found: dict[str, InputLike] = {}
    if arrays is not None:
        from ..read import read_arrays

        found |= {k: v.item() if v.ndim == 0 else v for k, v in read_arrays(arrays).items()}
    for text in assignments:
        name, sign, value = text.partition("=")
        name = name.strip()
        if not sign or not name:
            raise fail("E507", f"`--input {text}`: expected `name=value`", help="for example `--input L=8`")
        if name in found:
            raise fail("E507", f"input `{name}` is given twice")
        found[name] = _value(name, value.strip(), program)
    each(partial(_verify_input, program), found)
    return found


def _verify_input(program: Program, name: str) -> None:
    if name not in program.inputs:
        otherwise = f"the inputs are {listed(list(program.inputs))}"
        raise unknown(f"the program has no input `{name}`", name, program.inputs, "E402", otherwise)


def _value(name: str, text: str, program: Program) -> InputLike:
    declared = program.inputs.get(name)
    domain = None if declared is None else declared.type.domain
    if domain is not None and not domain.ordered:
        return text
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return int(text)
    from ..read import number_in

    number = number_in(text)
    if number is None:
        help = f"a number, `--input {name}=8`; an array is in a file, `--inputs FILE.npz`"
        raise fail("E507", f'`--input {name}={text}`: "{text}" is not a number', help=help)
    return number


def bind_program(
    program: Program, inputs: Mapping[str, InputLike], coords: Coords | None = None, allow_python: bool = False
) -> BoundProgram:
    """Return the program with its inputs.

    Args:
        program: the checked program.
        inputs: the inputs by name.
        coords: labels of the members of index sets, by name of the set.
        allow_python: whether a network `python("package.module:Class")` may import and run that
            class.

    Raises:
        GmlmError: E401 for each missing input, and other errors for inputs that do not fit.
    """
    from .._compile import BoundProgram

    faults = []
    for d in program.inputs.values():
        if d.default is None and d.name not in inputs:
            help = f"give it with `--inputs FILE.npz`: an array called `{d.name}`" if d.axes else f"give it with `--input {d.name}=..`"
            faults.append(Diagnostic("E401", f"input `{d.name}` is not given", d.span, "needs a value", help=help))
    if faults:
        raise GmlmError(faults)
    return BoundProgram(program, inputs, coords, allow_python)


def read_weights(text: str, table: Table | None) -> np.ndarray:
    """Return row weights, from a column of the data or a file of numbers.

    Raises:
        GmlmError: for a column or file that does not exist, and for entries that are not numbers.
    """
    from ..read import parse_table, read_arrays, table_of

    if table is not None and table.header is not None and text in table.header:
        return table.numbers(text)
    path = Path(text)
    if path.suffix.lower() in (".npy", ".npz"):
        arrays = read_arrays(path)
        if len(arrays) != 1:
            raise fail("E507", f"{path} has {len(arrays)} arrays: weights are one")
        return next(iter(arrays.values()))
    if path.suffix.lower() in (".csv", ".tsv", ".txt") or path.exists():
        parsed = parse_table(path)
        header = parsed.is_named or not re.match(r"^[+-]?[\d.]", parsed.fields[0][0])
        found = table_of(parsed, header)
        return found.numbers(found.columns[0])
    names = [] if table is None or table.header is None else list(table.header)
    otherwise = "name a column of the data, or a .csv or .npy file with one number per row"
    message = f"weights: there is no column and no file `{text}`"
    raise unknown(message, text, names, otherwise=otherwise)


def read_n_masks(text: str | None) -> int | str | None:
    """Return a whole number above 0, or `all`.

    Raises:
        GmlmError: E507 for any other text.
    """
    if text is None or text == "all":
        return text
    if not re.fullmatch(r"\d{1,9}", text) or int(text) < 1:
        raise fail("E507", f"`--n-masks {text}`: expected a whole number above 0, or `all`")
    return int(text)


_CLAMP = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\[([^\]]*)\])?\s*=(.*)", re.DOTALL)


def read_clamps(texts: Sequence[str], graph: FactorGraph) -> Clamp | None:
    """Parse `x[3]=1`, `w[0]=sun`, `k=2` into the argument `clamp=` of `Model.sample`.

    Raises:
        GmlmError: for a text of another form, an unknown variable, and a place or value that does
            not fit.
    """
    out: dict[str, Any] = {}
    for text in texts:
        found = _CLAMP.fullmatch(text)
        if found is None:
            help = "places are numbers from 0 or labels: `x[3]`, `y[1, A2]`, or a scalar's name"
            raise fail("E507", f"`--clamp {text}`: expected `x[3]=1`", help=help)
        name, place, value = found[1], found[2], found[3].strip()
        names = [v.name for v in graph.variables]
        if name not in names:
            raise unknown(f"`--clamp {text}`: the model has no variable `{name}`", name, names)
        v = graph.variable(name)
        if place is None and v.shape:
            help = f"`--clamp {name}[{', '.join('0' for _ in v.shape)}]={value}`"
            raise fail("E507", f"`--clamp {text}`: say which cell of `{name}`", help=help)
        out.setdefault(name, {})[_place(place)] = _clamp_value(text, value, v.ordered)
    return out or None


def _place(place: str | None) -> Place:
    """Parse a place: numbers of members from 0, or labels with or without quotes."""
    if place is None:
        return ()
    parts = [p.strip() for p in place.split(",")]
    at = tuple(int(p) if re.fullmatch(r"\d{1,9}", p) else p.strip("\"'") for p in parts)
    return at[0] if len(at) == 1 else at


def _clamp_value(text: str, value: str, ordered: bool) -> str | int | float:
    if not ordered:
        return value
    try:
        return int(value)
    except ValueError:
        raise fail("E502", f'`--clamp {text}`: "{value}" is not a whole number') from None
