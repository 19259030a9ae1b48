"""Readers and writers of binary quadratic models: the JSON of dimod, and its text of coordinates (COO)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from .._diagnostics import GmlmError, Source, Span, fail
from ..graph import FactorGraph
from ..syntax import format_source
from ._graph_tables import pairwise_tables, verify_tables
from ._names import Names, commented, language_name, short_number
from ._program_text import ImportedModel
from .limits import MOST_LITERAL, MOST_NAMED, MOST_VARIABLES

SPIN, BINARY = "SPIN", "BINARY"
Array = np.ndarray
HEADER = re.compile(r"#\s*vartype\s*=\s*(\w+)", re.ASCII)
SIGNED = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
PLAIN_JSON = "dimod writes it by `json.dumps(bqm.to_serializable())`"
PAIRWISE = "a quadratic model has cells of two values, and finite factors of one or two of them"


@dataclass(frozen=True, eq=False)
class QuadraticModel:
    """The energy sum_i h_i x_i + sum_k J_k x_a x_b + offset; p is proportional to exp(-energy).

    Attributes:
        vartype: SPIN (-1 and +1) or BINARY (0 and 1).
        labels: the names of the variables.
        linear: h, shape (variables,).
        pairs: the variables a < b of each term J, shape (terms, 2), each pair once.
        quadratic: J, shape (terms,).
        offset: the constant.
    """

    vartype: str
    labels: tuple[str, ...]
    linear: Array
    pairs: Array
    quadratic: Array
    offset: float


def merged_pairs(pairs: Array, quadratic: Array) -> tuple[Array, Array]:
    """Return each pair once with the sum of its terms, its smaller variable first."""
    if not len(pairs):
        return np.zeros((0, 2), np.int64), np.zeros(0)
    unique, number = np.unique(np.sort(pairs, axis=1), axis=0, return_inverse=True)
    return unique, np.bincount(number.reshape(-1), quadratic, len(unique))


def verify_finite(numbers: Array, span: Span) -> None:
    """Raise unless all numbers are finite.

    Raises:
        GmlmError: E533.
    """
    if not np.isfinite(numbers).all():
        raise fail("E533", "a bias is not finite", span, "not finite", help="write finite numbers")


def program_of_quadratic(model: QuadraticModel, file: str) -> ImportedModel:
    """Return the program of a quadratic model; its numbers are inputs, with values if they are few.

    Args:
        model: the model.
        file: the name of the file, for comments.
    """
    is_literal = model.linear.size + 3 * len(model.pairs) <= MOST_LITERAL
    inputs: dict[str, Array] = {}
    lines = list(_head(model, file))

    def declare(name: str, axes: str, kind: str, value: Array) -> None:
        written = f" = {_list(value)}" if is_literal else ""
        lines.append(f"input {name}[{axes}] : {kind}{written}")
        if not is_literal:
            inputs[name] = value

    lines.append(f"index site = range({len(model.labels)})")
    declare("h", "site", "real", model.linear)
    if len(model.pairs):
        declare("pair", f"{len(model.pairs)}, 2", "int", model.pairs)
        declare("J", f"{len(model.pairs)}", "real", model.quadratic)
    names = Names()
    for word in ("site", "h", "pair", "J", "x", "i", "k"):
        names.fresh(word)
    kind = "spin" if model.vartype == SPIN else "bit"
    name = names.fresh_of(language_name(file.partition(".")[0], "energy"))
    lines += [f"model {name} {{", f"var x[i in site] : {kind}", "factor -h[i] * x[i] for i in site"]
    if len(model.pairs):
        lines.append(f"factor -J[k] * x[pair[k, 0]] * x[pair[k, 1]] for k in range({len(model.pairs)})")
    if model.offset:
        offset = short_number(-model.offset)
        lines.append(f"factor {offset}  # gmlm: allow W818, the offset of the energy")
    return ImportedModel(format_source("\n".join([*lines, "}"]) + "\n"), inputs)


def _head(model: QuadraticModel, file: str) -> Iterator[str]:
    yield f"# log p is minus the energy of {commented(file)}, up to log Z"
    for k, label in enumerate(model.labels[:MOST_NAMED]):
        if label != str(k):
            yield f"# x[{k}] is `{commented(label)}` there"
    if len(model.labels) > MOST_NAMED and model.labels[-1] != str(len(model.labels) - 1):
        yield "# the others follow in the order of the file"


def _list(value: Array) -> str:
    if value.ndim > 1:
        return f"[{', '.join(_list(row) for row in value)}]"
    return f"[{', '.join(short_number(v) for v in value.tolist())}]"


def read_coo(source: Source) -> QuadraticModel:
    """Return the model of lines `i j bias`; `i i bias` is linear, and terms of one pair are added.

    Raises:
        GmlmError: E532 for a line of another form, E533 for a number that is not finite, E535 for
            too many variables.
    """
    source = Source(source.path, source.text.replace("\r", "\n"))
    rows: list[tuple[int, int]] = []
    biases: list[float] = []
    vartype, start = "", 0
    for line in source.text.split("\n"):
        span = Span(source, start, start + len(line.rstrip()))
        start += len(line) + 1
        words = line.split()
        header = HEADER.match(line.strip())
        if header is not None:
            vartype = header[1].upper()
        elif words and not words[0].startswith("#"):
            rows.append(_pair(words, span))
            biases.append(float(words[2]))
            verify_finite(np.array(biases[-1]), span)
    if vartype not in (SPIN, BINARY):
        help = "write `# vartype=SPIN` or `# vartype=BINARY` on the first line"
        message = "the file does not say whether its variables are spins or bits"
        raise fail("E532", message, Span(source, 0, 1), "no vartype", help=help)
    if not rows:
        raise fail("E532", "the file has no terms", Span(source, 0, 1), "empty", help="write `0 0 1.5`")
    pairs, values = np.array(rows), np.array(biases)
    count, own = int(pairs.max()) + 1, pairs[:, 0] == pairs[:, 1]
    linear = np.bincount(pairs[own, 0], values[own], count)
    labels = tuple(map(str, range(count)))
    return QuadraticModel(vartype, labels, linear, *merged_pairs(pairs[~own], values[~own]), 0.0)


def _pair(words: list[str], span: Span) -> tuple[int, int]:
    """Return the variables of a line whose third word is a number."""
    is_row = len(words) == 3 and all(re.fullmatch(r"\d{1,9}", w, re.ASCII) for w in words[:2])
    if not is_row or SIGNED.fullmatch(words[2]) is None:
        help = "a line has two variables, numbered from 0, and a bias: `0 1 -1.5`"
        raise fail("E532", "this line is not a term", span, "not `i j bias`", help=help)
    first, second = int(words[0]), int(words[1])
    if max(first, second) >= MOST_VARIABLES:
        message = f"variable {max(first, second)} is above the limit of {MOST_VARIABLES:,}"
        raise fail("E535", message, span, "too large", help="number the variables from 0")
    return first, second


def read_bqm(source: Source) -> QuadraticModel:
    """Return the model of a JSON text of dimod, schema 3.

    Raises:
        GmlmError: E532 for a text of another form, E533 for a number that is not finite, E535 for
            too many variables.
    """
    try:
        data = json.loads(source.text)
    except json.JSONDecodeError as error:
        span = Span(source, error.pos, error.pos + 1)
        raise fail("E532", f"not JSON: {error.msg}", span, "here", help=PLAIN_JSON) from None
    except RecursionError:
        raise _fault(source, "lists stand too deep inside one another") from None
    if type(data) is not dict or data.get("type") != "BinaryQuadraticModel":
        raise _fault(source, "the file is no `BinaryQuadraticModel`")
    if data.get("use_bytes"):
        raise _fault(source, "the numbers are packed as bytes")
    return _model(source, data)


def _model(source: Source, data: Mapping[str, object]) -> QuadraticModel:
    labels, vartype = data.get("variable_labels"), str(data.get("variable_type"))
    if vartype not in (SPIN, BINARY):
        raise _fault(source, f"`variable_type` is {vartype:.40}, not SPIN or BINARY")
    if type(labels) is not list or not labels:
        raise _fault(source, "`variable_labels` is not a list of names")
    if len(labels) > MOST_VARIABLES:
        message = f"the file has {len(labels):,} variables, more than {MOST_VARIABLES:,}"
        raise fail("E535", message, Span(source, 0, 1), "too large", help="split the model")
    names = tuple(str(label) for label in labels)
    if len(set(names)) < len(names):
        raise _fault(source, "`variable_labels` has a name twice")
    linear = _numbers(source, data, "linear_biases", len(names))
    heads = _numbers(source, data, "quadratic_head", None)
    tails = _numbers(source, data, "quadratic_tail", len(heads))
    values = _numbers(source, data, "quadratic_biases", len(heads))
    ends = np.stack([heads, tails], axis=1)
    if not ((ends >= 0) & (ends < len(names)) & (ends == np.floor(ends))).all():
        raise _fault(source, f"`quadratic_head` and `quadratic_tail` are numbers from 0 to {len(names) - 1}")
    if (heads == tails).any():
        raise _fault(source, "a quadratic term joins a variable with itself")
    offset = _numbers(source, {"offset": [data.get("offset", 0.0)]}, "offset", 1)
    pairs = merged_pairs(ends.astype(np.int64), values)
    return QuadraticModel(vartype, names, linear, *pairs, float(offset[0]))


def _numbers(source: Source, data: Mapping[str, object], key: str, count: int | None) -> Array:
    """Return a list of finite numbers, of which there must be so many."""
    value = data.get(key)
    if type(value) is not list or not all(type(v) in (int, float) for v in value):
        raise _fault(source, f"`{key}` is not a list of numbers")
    if count is not None and len(value) != count:
        raise _fault(source, f"`{key}` has {count:,} numbers, found {len(value):,}")
    try:
        found = np.array(value, float)
    except OverflowError:  # a whole number of more than 308 digits
        found = np.array([np.inf])
    verify_finite(found, _place(source, key))
    return found


def _place(source: Source, key: str) -> Span:
    at = source.text.find(f'"{key}"')
    return Span(source, max(at, 0), max(at, 0) + (len(key) + 2 if at >= 0 else 1))


def _fault(source: Source, message: str) -> GmlmError:
    key = re.search(r"`(\w+)`", message)
    span = _place(source, "type" if key is None else key[1])
    return fail("E532", message, span, "in this file", help=PLAIN_JSON)


def quadratic_of_graph(graph: FactorGraph, params: Mapping[str, Array]) -> QuadraticModel:
    """Return minus log p, without log Z, as a quadratic energy.

    The variables are spins if all cells are, else 0 and 1 for the two values of each cell.

    Args:
        graph: the factor graph.
        params: the parameters by name.

    Raises:
        GmlmError: E534 for cells of more than two values, for a factor of three cells or more, and
            for one that is infinite; as `verify_tables`.
    """
    verify_tables(graph)
    wide = next((v for v in graph.variables if len(v.labels) != 2), None)
    if wide is not None:
        message = f"`{wide.name}` has {len(wide.labels)} values"
        raise fail("E534", message, help=PAIRWISE)
    linear, offset = np.zeros(graph.n_random), 0.0
    pairs: dict[tuple[int, int], float] = {}
    for t in pairwise_tables(graph, params, PAIRWISE):
        energy, origin = -t.log, (0,) * len(t.cells)
        offset += float(energy[origin])
        for axis, cell in enumerate(t.cells):
            step = np.moveaxis(energy, axis, 0).reshape(2, -1)[:, 0]
            linear[cell] += step[1] - step[0]
        if len(t.cells) == 2:
            a, b = sorted(t.cells)
            mixed = energy[1, 1] - energy[1, 0] - energy[0, 1] + energy[0, 0]
            pairs[a, b] = pairs.get((a, b), 0.0) + float(mixed)
    labels = tuple(graph.cell_name(k) for k in range(graph.n_random))
    ends = np.array(list(pairs), np.int64).reshape(-1, 2)
    found = QuadraticModel(BINARY, labels, linear, ends, np.array(list(pairs.values())), offset)
    return _of_spins(found) if all(v.kind == "spin" for v in graph.variables) else found


def _of_spins(m: QuadraticModel) -> QuadraticModel:
    """Return the same energy with b = (s + 1) / 2."""
    linear = m.linear / 2
    for column in range(2):
        linear = linear + np.bincount(m.pairs[:, column], m.quadratic / 4, len(linear))
    offset = m.offset + float(m.linear.sum() / 2 + m.quadratic.sum() / 4)
    return QuadraticModel(SPIN, m.labels, linear, m.pairs, m.quadratic / 4, offset)


def bqm_text(m: QuadraticModel) -> str:
    """Return the model as the JSON of dimod, schema 3."""
    data = {
        "type": "BinaryQuadraticModel",
        "version": {"bqm_schema": "3.0.0"},
        "use_bytes": False,
        "index_type": "int64",
        "bias_type": "float64",
        "num_variables": len(m.labels),
        "num_interactions": len(m.pairs),
        "variable_labels": list(m.labels),
        "variable_type": m.vartype,
        "offset": m.offset,
        "info": {},
        "linear_biases": m.linear.tolist(),
        "quadratic_biases": m.quadratic.tolist(),
        "quadratic_head": m.pairs[:, 0].tolist(),
        "quadratic_tail": m.pairs[:, 1].tolist(),
    }
    return json.dumps(data, indent=1) + "\n"


def coo_text(m: QuadraticModel) -> str:
    """Return the model as lines `i j bias`; the format has no offset."""
    lines = [f"# vartype={m.vartype}"]
    lines += [f"{k} {k} {short_number(h)}" for k, h in enumerate(m.linear.tolist())]
    terms = zip(m.pairs.tolist(), m.quadratic.tolist(), strict=True)
    lines += [f"{a} {b} {short_number(value)}" for (a, b), value in terms]
    return "\n".join(lines) + "\n"
