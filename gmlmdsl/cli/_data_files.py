"""Data files of the command line: tables, alignments and arrays as arguments of `Model.fit`.

A program takes sizes, labels and row weights from such a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import GmlmError, counted, fail, listed
from .._types import InputLike, Label, Missing, MissingValue, Rows
from ..data import columns_of_cells, is_cell, is_row_of_letters, plain
from ..graph import sets_of_cells
from ..program import Program, ir
from ..read import (
    AMINO_ACIDS,
    AbstractRows,
    Table,
    choose,
    ending_of,
    is_digits,
    is_packed,
    names_in,
    number_in,
    parse_table,
    read_alignment,
    read_arrays,
    table_of,
)
from ._console import note
from ._program_arguments import bind_program, read_weights
from .limits import MOST_COUNTED_COLUMNS, MOST_NAMED

if TYPE_CHECKING:
    from .._compile import BoundProgram
    from ..graph import Bound, FactorGraph
    from ..model import Model

Array = np.ndarray
Inputs = Mapping[str, InputLike]
ARRAYS = (".npy", ".npz")
ALIGNMENTS = (".a2m", ".a3m", ".afa", ".fa", ".fas", ".fasta", ".sto", ".stk", ".stockholm")
TOGETHER = "save one array for each variable, given ones too, in an .npz file, under its name"


@dataclass(frozen=True)
class Reading:
    """The options of the command line for the data file."""

    columns: str | None = None
    where: Sequence[str] = ()
    missing: Sequence[str] = ()
    header: bool | None = None
    weights: str | None = None
    identity: float | None = None
    focus: str | None = None
    unknown_letters: str | None = None
    row_gaps: float | None = None
    column_gaps: float | None = None


@dataclass(frozen=True)
class DataFile:
    """Data in the form of `Model.fit`, and properties that the program takes from them.

    Attributes:
        x: rows of a file, or arrays.
        missing: the argument `missing=`.
        width: the number of cells of a row, if the file determines it.
        names: the names of the columns, if they have proper names.
        given: the argument `given=`.
        left_out: the number of columns of a table that name no cell.
    """

    x: Rows
    missing: Missing | None
    width: int | None
    names: tuple[str, ...] | None
    given: dict[str, Array] | None = None
    left_out: int = 0

    @property
    def table(self) -> Table | None:
        """The table, if the data are one."""
        return self.x if isinstance(self.x, Table) else None


def read_data(path: Path, program: Program, model: str, inputs: Inputs, reading: Reading) -> DataFile:
    """Read rows of data for a model of a program that is not yet bound.

    Args:
        path: the data file.
        program: the checked program.
        model: the name of the model.
        inputs: the known inputs.
        reading: the options for the data file.

    Raises:
        GmlmError: for a file that cannot be read, and for options that do not apply to such a file.
    """
    kind = ending_of(path)
    if kind in ARRAYS and is_packed(path):
        help = f"unpack it, `gunzip {path}`; .npz files are packed in themselves"
        raise fail("E520", f"{path} is packed, and only text is unpacked", help=help)
    _verify_options(path, kind, reading)
    given = [v.name for v in program.models[model].variables.values() if v.role == "given"]
    if kind in ARRAYS:
        return _from_arrays(path, [v.name for v in _observed(program, model)], given, reading)
    if given:
        raise fail("E510", f"{path} holds no data of {listed(given)}, which the model is given", help=TOGETHER)
    if kind in ALIGNMENTS:
        return _from_alignment(path, _observed(program, model), reading)
    return _from_table(path, program, model, inputs, reading)


def _from_arrays(path: Path, names: list[str], given: Sequence[str], reading: Reading) -> DataFile:
    """Read the arrays of some variables, and of those that the model is given."""
    arrays = read_arrays(path)
    lacking = [name for name in given if name not in arrays]
    if lacking:
        raise fail("E510", f"{path} lacks {listed(lacking)}, which the model is given; it has {listed(list(arrays))}", help=TOGETHER)
    along = {name: arrays.pop(name) for name in given}
    x = _by_variable(arrays, names, path)
    width = x.shape[1] if isinstance(x, np.ndarray) and x.ndim == 2 else None
    marks = [_code(text) for text in reading.missing]
    return DataFile(x, marks or None, width, None, along or None)


def _from_alignment(path: Path, observed: Sequence[ir.Variable], reading: Reading) -> DataFile:
    alphabet = "".join(a for v in observed for a in v.domain.labels) or AMINO_ACIDS
    focus = True if reading.focus is None else reading.focus or False
    policy = reading.unknown_letters or "drop"
    gaps = {"row_gaps": reading.row_gaps, "column_gaps": reading.column_gaps}
    found = read_alignment(path, focus, alphabet=alphabet, unknown_letters=policy, **gaps)
    return DataFile(found, found.missing, len(found.columns), found.columns if found.focus else None)


def _verify_options(path: Path, kind: str, reading: Reading) -> None:
    tables = {"--columns": reading.columns, "--where": reading.where, "--header": reading.header}
    sequences = {"--focus": reading.focus, "--unknown-letters": reading.unknown_letters}
    sequences |= {"--row-gaps": reading.row_gaps, "--column-gaps": reading.column_gaps}
    for options, what, good in (
        (tables, "tables of text", kind not in (*ARRAYS, *ALIGNMENTS)),
        (sequences, f"alignments ({', '.join(ALIGNMENTS)})", kind in ALIGNMENTS),
    ):
        said = [name for name, value in options.items() if value not in (None, (), [])]
        if said and not good:
            raise fail("E507", f"{listed(said)} {'is' if len(said) == 1 else 'are'} for {what}: {path} is not one")
    if kind in ALIGNMENTS and reading.missing:
        raise fail("E507", "`--missing` is not for alignments", help="`--unknown-letters missing` makes unknown letters missing cells")
    if reading.identity is not None and reading.weights is not None:
        raise fail("E507", "`--identity` makes weights: leave `--weights` out")


def _code(text: str) -> MissingValue:
    """Return the value of a missing cell in arrays."""
    number = number_in(text)
    if number is None:
        return text
    return int(number) if number.is_integer() else number


def _by_variable(arrays: dict[str, Array], names: Sequence[str], path: Path) -> Rows:
    if len(names) == 1:
        if names[0] in arrays:
            return arrays[names[0]]
        if len(arrays) == 1:
            return next(iter(arrays.values()))
        raise fail("E503", f"{path} has the arrays {listed(list(arrays))}, none called `{names[0]}`", help=f"name the array `{names[0]}`")
    lacking = [n for n in names if n not in arrays]
    if lacking:
        help = "save one array per variable in an .npz file, under its name"
        message = f"{path} lacks {listed(lacking)}; it has {listed(list(arrays))}"
        raise fail("E503", message, help=help)
    return {n: arrays[n] for n in names}


# Tables


def _from_table(path: Path, program: Program, model: str, inputs: Inputs, reading: Reading) -> DataFile:
    parsed = parse_table(path)
    variables = _observed(program, model)
    header = reading.header
    if header is None:
        named = parsed.is_named or not _names_said(reading).isdisjoint(parsed.fields[0])
        header = named or _looks_like_header(parsed.fields, [v.domain for v in variables], inputs)
        _note_ambiguous(path, parsed.fields[0], header)
    table = table_of(parsed, header)
    if reading.columns is None and reading.weights is not None:
        table = table.without(reading.weights)
    table = choose(table, reading.columns, _groups(reading.where), tuple(reading.missing) or None)
    missing = float("nan") if reading.missing else None
    if len(variables) == 1 and variables[0].domain.kind == "letters" and len(table.columns) == 1:
        # A row of letters is one text.
        return DataFile(table, missing, len(table.texts([0])[0, 0]), None)
    cells = [] if table.in_order else [c for c in table.columns if is_cell(c, variables[0].name)]
    named = table.header is not None and not cells
    width = len(cells or table.columns)
    names = table.columns if named else None
    return DataFile(table, missing, width, names, left_out=len(table.columns) - width)


def _observed(program: Program, model: str) -> list[ir.Variable]:
    """Return the variables that a data file must contain."""
    return [v for v in program.models[model].variables.values() if v.role == "var"]


def _groups(where: Sequence[str]) -> dict[str, list[str]]:
    """Parse `Class=democrat`; several values of one column are alternatives."""
    out: dict[str, list[str]] = {}
    for text in where:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise fail("E507", f"`--where {text}`: expected `column=value`", help="for example `--where Class=democrat`")
        out.setdefault(name.strip(), []).append(value.strip())
    return out


def _names_said(reading: Reading) -> set[str]:
    """Return the texts of options that may be names of columns; numbers of columns are not."""
    parts = [part for text in names_in(reading.columns or "") for part in (text, *text.split(":"))]
    said = {*parts, reading.weights or "", *(text.partition("=")[0] for text in reading.where)}
    return {name.strip() for name in said if name.strip() and not is_digits(name.strip())}


def _note_ambiguous(path: Path, first: Sequence[str], header: bool) -> None:
    """Print that a first line of consecutive numbers is read as data."""
    if not header and len(first) > 2 and _counts_up(first):
        shown = ", ".join(first[:MOST_NAMED])
        note(f"line 1 of {path} ({shown}) is read as data; if it names the columns, say `--header`")


def _looks_like_header(rows: list[list[str]], domains: Sequence[ir.Domain], known: Inputs) -> bool:
    """Return whether the first line of a table is a header.

    If the values of a domain are not known, numbers are not a header.
    """
    texts = [_texts_of(d, known) for d in domains]
    if None in texts and None not in map(number_in, rows[0]):
        return False
    return _are_names(rows, {plain(t) for part in texts for t in part or ()})


def _are_names(rows: list[list[str]], values: set[str]) -> bool:
    """Return whether the first row has names of columns.

    It has if no field is a value or a number. If its fields are distinct, it also has if they are
    numbers beyond the values, or if most are texts that are no values and stand in no other row.
    """
    first = rows[0]
    held = [f for f in first if plain(f) in values]
    names = {f for f in first if number_in(f) is None}.difference(held)
    if names.issuperset(first):
        return True
    if len(held) == len(first) or len(set(first)) < len(first):
        return False
    if 2 * len(names) > len(first) and names.isdisjoint(chain.from_iterable(rows[1:])):
        return True
    return len(first) > len(values) + 1 if held else len(first) > 1 and _counts_up(first)


def _texts_of(domain: ir.Domain, inputs: Inputs) -> list[str] | None:
    """Return the values of a domain as they appear in a file, or None if an input without a value decides."""
    if domain.labels or domain.scale is None:
        return list(domain.labels)
    if domain.scale.size is not None:
        return [str(k) for k in domain.scale.numbers]
    first = 0 if domain.start is None else _known(domain.start, inputs)
    size = None if domain.size is None else _known(domain.size, inputs)
    return None if first is None or size is None else [str(first + k) for k in range(min(size, 1 << 20))]


def _known(e: ir.Expression, inputs: Mapping[str, Any]) -> int | None:
    """Return the whole number that an expression of inputs means, or None if it is not known."""
    match e:
        case ir.Literal(value=int() as value):
            return value
        case ir.InputValue(indices=()):
            found = inputs.get(e.name)
            return int(found) if found is not None and np.ndim(found) == 0 else None
        case ir.Operation(operator="+" | "-" | "*", operands=(left, right)):
            a, b = _known(left, inputs), _known(right, inputs)
            return None if a is None or b is None else {"+": a + b, "-": a - b, "*": a * b}[e.operator]
    return None


def _nameless(table: Table) -> GmlmError:
    """Return the error for a column without a name, whose cell would have none."""
    at = table.columns.index("")
    before, after = table.columns[:at], table.columns[at + 1 :]
    rest = ",".join([f":{c}" for c in before[-1:]] + [f"{c}:" for c in after[:1]])
    if table.asked:
        rest = ",".join(filter(None, table.columns))
    message = f"{table.path}: column {table.chosen[at]} (counted from 0) of line 1 has no name"
    return fail("E525", message, help=f"give it a name, or leave it out: `columns='{rest}'`")


def _counts_up(fields: Sequence[str]) -> bool:
    return all(map(is_digits, fields)) and [int(f) - int(fields[0]) for f in fields] == list(range(len(fields)))


# Descriptions of data


def words_of(graph: FactorGraph, x: Any) -> str:
    """Describe the data in a few words."""
    if not isinstance(x, AbstractRows):
        return ", ".join(f"{k} {v.shape}" for k, v in (x.items() if isinstance(x, dict) else [("array", x)]))
    if not isinstance(x, Table):
        return x.words
    if is_row_of_letters(len(x.columns), graph):
        return f"{x.words}, one text of {graph.observed[0].size} letters per row"
    order = columns_of_cells(graph, x)
    ignored = [name for k, name in enumerate(x.columns) if k not in order]
    others = f"; {counted(len(ignored), 'column')} left out: {listed(ignored, MOST_NAMED)}"
    return f"{x.words}, {counted(len(order), 'column')}{others * bool(ignored)}"


def missing_words(x: Rows) -> str:
    """Return the number of missing cells, in all and by column, or an empty text if none can be.

    Columns with the most missing cells come first.
    """
    if not isinstance(x, AbstractRows) or not x.tokens:
        return ""
    counts = x.missing_counts
    total, cells = sum(counts.values()), len(x) * len(counts)
    some = sorted(((n, c) for c, n in counts.items() if n), key=lambda pair: -pair[0])
    shown = ", ".join(f"{c} {n}" for n, c in some[:MOST_COUNTED_COLUMNS])
    if len(some) > MOST_COUNTED_COLUMNS:
        shown += f", and {len(some) - MOST_COUNTED_COLUMNS} more columns"
    return f"{total} of {cells} cells are missing" + (f": {shown}" if shown else "")


def program_and_data(
    checked: Program, model: str, inputs: Inputs, path: Path, reading: Reading, allow_python: bool = False
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
        others = f" that name cells; {counted(data.left_out, 'other column')} left out"
        note(f"{name} = {sized[name]}, from the columns of {path}{others * bool(data.left_out)}")
    program = bind_program(checked, sized, None, allow_python)
    axis = axis_of(checked, model)
    if data.names is not None and axis is not None and program.bound.set_size(axis) == len(data.names):
        if data.table is not None and "" in data.names:
            raise _nameless(data.table)
        program = bind_program(checked, sized, coords_of(program.bound, model, data.names), allow_python)
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


def coords_of(bound: Bound, model: str, names: Sequence[str]) -> dict[str, list[Label]]:
    """Return the names as labels of the sets that number the cells of the only variable."""
    checked = bound.program.models[model]
    (variable,) = (v.name for v in checked.variables.values() if v.role == "var")
    numbers = all(is_digits(n) and str(int(n)) == n for n in names)
    return {owner: [int(n) if numbers else n for n in names] for owner in sets_of_cells(bound, checked, variable)}


def with_size(program: Program, model: str, inputs: Inputs, width: int | None) -> dict[str, InputLike]:
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
