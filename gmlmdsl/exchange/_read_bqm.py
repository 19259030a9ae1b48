"""Readers of binary quadratic models: the JSON of dimod, and its text of coordinates (COO)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import numpy as np

from .._diagnostics import GmlmError, Source, Span, fail
from ._quadratic import BINARY, SPIN, QuadraticModel, merged_pairs, verify_finite
from .limits import MOST_VARIABLES

Array = np.ndarray
HEADER = re.compile(r"#\s*vartype\s*=\s*(\w+)", re.ASCII)
SIGNED = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
PLAIN_JSON = "dimod writes it by `json.dumps(bqm.to_serializable())`"


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
        raise fail("E532", "this line is no term", span, "not `i j bias`", help=help)
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
        raise _fault(source, "`variable_labels` is no list of names")
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
        raise _fault(source, f"`{key}` is no list of numbers")
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
