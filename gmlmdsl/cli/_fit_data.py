"""The data of `gmlm fit`: sizes and labels that the program takes from them, and row weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._types import InputLike, Label
from ..program import Program, ir
from ..read import is_digits
from ._console import note
from ._data_files import DataFile, Reading, missing_words, read_data
from ._program_arguments import bind_program, read_weights

if TYPE_CHECKING:
    import numpy as np

    from .._compile import BoundProgram
    from ..model import Model


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


def axis_of(program: Program, model: str) -> ir.SetOf | None:
    """Return the set of the only axis of the only variable in the data.

    Return None if there are several axes or variables.
    """
    variables = [v for v in program.models[model].variables.values() if v.role == "var"]
    return variables[0].axes[0].over if len(variables) == 1 and len(variables[0].axes) == 1 else None


def size_input(program: Program, model: str) -> str | None:
    """Return the integer input that is the length of this axis, or None."""
    axis = axis_of(program, model)
    if axis is None:
        return None
    size = axis.size if axis.kind == "range" else _size_of_nodes(program, axis)
    return size.name if isinstance(size, ir.InputValue) and not size.indices else None


def _size_of_nodes(program: Program, axis: ir.SetOf) -> Any:
    over = _nodes(program, axis)
    return over.size if isinstance(over, ir.SetOf) else over


def _nodes(program: Program, axis: ir.SetOf) -> Any:
    """Return the index set or the size that numbers the nodes of a graph.

    It is None for a lattice, whose size is a product.
    """
    graph = program.graphs.get(axis.graph)
    if axis.part != "nodes" or graph is None or "m" in graph.arguments:
        return None
    return graph.arguments.get("nodes") or graph.arguments.get("n") or graph.arguments.get("a")


def coords_of(program: Program, model: str, names: Sequence[str]) -> dict[str, list[Label]] | None:
    """Return the names as labels of the axis.

    They belong to its index set, or to the nodes of a graph that is not built over an index set.
    """
    axis = axis_of(program, model)
    if axis is None:
        return None
    over = _nodes(program, axis) if axis.kind == "graph" and axis.part == "nodes" else axis
    owner = over.name if isinstance(over, ir.SetOf) and over.name in program.index_sets else axis.name
    if owner not in program.index_sets and not (axis.kind == "graph" and axis.part == "nodes"):
        return None
    numbers = all(is_digits(n) and str(int(n)) == n for n in names)
    return {owner: [int(n) if numbers else n for n in names]}


def with_size(program: Program, model: str, inputs: Mapping[str, InputLike], width: int | None) -> dict[str, InputLike]:
    """Return the inputs, with the size of the data for the input of this size, if it has no value.

    Args:
        program: the checked program.
        model: the name of the model.
        inputs: the known inputs.
        width: the number of columns of the data, or None.
    """
    name = size_input(program, model)
    if width is None or name is None or name in inputs or program.inputs[name].default is not None:
        return dict(inputs)
    return {**inputs, name: width}
