"""The data of `gmlm fit`: sizes and labels that the program takes from them, and row weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .._types import InputLike
from ._console import note
from ._data_files import DataFile, Reading, missing_words, read_data
from ._program_arguments import bind_program, read_weights
from ._sizes import axis_of, coords_of, with_size

if TYPE_CHECKING:
    import numpy as np

    from .._compile import BoundProgram
    from ..model import Model
    from ..program import Program


def program_and_data(
    checked: Program, model: str, inputs: Mapping[str, InputLike], path: Path, reading: Reading, allow_python: bool = False
) -> tuple[BoundProgram, DataFile]:
    """Return the bound program and the data.

    Args:
        checked: the checked program.
        model: the name of the model.
        inputs: the known inputs.
        path: the data file.
        reading: the options for the data file.
        allow_python: whether a network `python("package.module:Class")` may import and run that
            class.

    Raises:
        GmlmError: for data that cannot be read, and for faults that the inputs reveal.
    """
    data = read_data(path, checked, model, inputs, reading)
    sized = with_size(checked, model, inputs, data.width)
    for name in sized.keys() - inputs.keys():
        note(f"{name} = {sized[name]}, from the columns of {path}")
    program = bind_program(checked, sized, None, allow_python)
    axis = axis_of(checked, model)
    if data.names is not None and axis is not None and program.bound.set_size(axis) == len(data.names):
        program = bind_program(checked, sized, coords_of(checked, model, data.names), allow_python)
    return program, data


def weights_of(model: Model, data: DataFile, reading: Reading) -> np.ndarray | None:
    """Return the weights of the rows, from a column, a file, or the similarity of the rows."""
    if reading.identity is None:
        return None if reading.weights is None else read_weights(reading.weights, data.table)
    from ..data import encode
    from ..read import sequence_weights

    return sequence_weights(encode(model.graph, data.x, missing=data.missing).codes[: model.graph.n_random].T, reading.identity)


def print_data(data: DataFile, reading: Reading, weights: np.ndarray | None) -> None:
    """Print the number of missing cells by column, and the effective number of rows."""
    holes = missing_words(data.x)
    if holes:
        print(holes)
    if reading.identity is not None and weights is not None:
        print(f"effective number of rows at identity {reading.identity:g}: {weights.sum():.1f} of {len(weights)}")
