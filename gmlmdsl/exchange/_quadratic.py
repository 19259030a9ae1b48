"""Energies that are quadratic in binary variables, as annealers and their libraries take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._diagnostics import Span, fail
from ..syntax import format_source
from ._names import Names, commented, language_name, short_number
from ._program_text import ImportedModel
from .limits import MOST_LITERAL, MOST_NAMED

Array = np.ndarray
SPIN, BINARY = "SPIN", "BINARY"


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
