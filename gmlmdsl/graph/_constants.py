"""Values of expressions that mention index names and inputs only, for many index values at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .._diagnostics import fail
from ..program import ir

Array = np.ndarray


def constant(
    e: ir.Expression,
    inputs: Mapping[str, Array],
    lengths: Mapping[str, int],
    names: Mapping[str, Array] | None = None,
    taken: Array | bool = True,
) -> Array:
    """The value of `e` where each index name stands for an array; the arrays broadcast. Indices count only where `taken`.

    Raises:
        GmlmError: if an index into an input leaves its range.
    """
    return np.asarray(_Constants(inputs, lengths, names or {}).value(e, taken))


def apply_operator(operator: str, operands: list[Array]) -> Array:
    """An operator or function of the language on NumPy arrays; whole-number operators stay whole."""
    with np.errstate(all="ignore"):
        return OPERATORS[operator](*operands)


def _floor_divide(a: Array, b: Array) -> Array:
    return np.floor_divide(a, np.where(b == 0, 1, b)) if _integral(a, b) else np.floor_divide(a, b)


def _remainder(a: Array, b: Array) -> Array:
    return np.remainder(a, np.where(b == 0, 1, b)) if _integral(a, b) else np.remainder(a, b)


def _integral(*arrays: Array) -> bool:
    return all(np.asarray(a).dtype.kind in "biu" for a in arrays)


def _plain(a: Array) -> Array:
    """Conditions as 1 and 0."""
    return a.astype(np.int64) if np.asarray(a).dtype == bool else np.asarray(a)


OPERATORS = {
    "+": lambda a, b: _plain(a) + _plain(b),
    "-": lambda a, b: _plain(a) - _plain(b),
    "*": lambda a, b: _plain(a) * _plain(b),
    "/": lambda a, b: np.true_divide(_plain(a), _plain(b)),
    "//": lambda a, b: _floor_divide(_plain(a), _plain(b)),
    "%": lambda a, b: _remainder(_plain(a), _plain(b)),
    "^": lambda a, b: np.power(_plain(a) if _integral(b) and np.all(b >= 0) else _plain(a).astype(float), _plain(b)),
    "neg": lambda a: -_plain(a),
    "==": lambda a, b: _plain(a) == _plain(b),
    "!=": lambda a, b: _plain(a) != _plain(b),
    "<": lambda a, b: _plain(a) < _plain(b),
    "<=": lambda a, b: _plain(a) <= _plain(b),
    ">": lambda a, b: _plain(a) > _plain(b),
    ">=": lambda a, b: _plain(a) >= _plain(b),
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "exp": lambda a: np.exp(_plain(a)),
    "log": lambda a: np.log(_plain(a)),
    "sqrt": lambda a: np.sqrt(_plain(a)),
    "abs": lambda a: np.abs(_plain(a)),
    "sigmoid": lambda a: 0.5 * (1 + np.tanh(0.5 * _plain(a))),
    "tanh": lambda a: np.tanh(_plain(a)),
    "min": lambda a, b: np.minimum(_plain(a), _plain(b)),
    "max": lambda a, b: np.maximum(_plain(a), _plain(b)),
    "spin": lambda a: 2 * _plain(a) - 1,
    "bit": lambda a: (_plain(a) + 1) // 2,
}


class _Constants:
    def __init__(self, inputs: Mapping[str, Array], lengths: Mapping[str, int], names: Mapping[str, Array]):
        self.inputs, self.lengths, self.names = inputs, lengths, names

    def value(self, e: ir.Expression, taken: Array | bool = True) -> Array:
        match e:
            case ir.Literal():
                return np.asarray(e.value)
            case ir.LabelCode():
                return np.asarray(e.code)
            case ir.IndexValue():
                return np.asarray(self.names[e.name])
            case ir.InputValue() if e.name in self.lengths:
                return np.asarray(self.lengths[e.name])
            case ir.InputValue():
                return self.entry(e, taken)
            case ir.Operation():
                return apply_operator(e.operator, [self.value(o, taken) for o in e.operands])
            case ir.Choice():
                test = self.value(e.test, taken)
                return np.where(test, self.value(e.yes, taken & test), self.value(e.no, taken & ~test))
            case _:
                raise AssertionError(f"not a constant: {type(e).__name__}")

    def entry(self, e: ir.InputValue, taken: Array | bool) -> Array:
        array = self.inputs[e.name]
        indices = []
        for k, i in enumerate(e.indices):
            value = self.value(i, taken)
            indices.append(in_range(value, array.shape[k], taken, i, e.name))
        return array[tuple(indices)]


def in_range(value: Array, length: int, taken: Array | bool, e: ir.Expression, name: str) -> Array:
    """`value` clipped into an axis, after checking that it lies in it wherever it is `taken`."""
    bad = ((value < 0) | (value >= length)) & taken
    if np.any(bad):
        first = np.broadcast_to(value, np.shape(bad))[bad].ravel()[0] if np.ndim(bad) else value
        message = f"an index of `{name}` is {int(first)}, outside 0..{length - 1}"
        raise fail("E407", message, e.span, f"reaches {int(first)}", help="limit it with `if`, or wrap it with `%`")
    return np.clip(value, 0, length - 1).astype(np.int64)
