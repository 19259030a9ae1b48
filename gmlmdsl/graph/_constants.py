"""Values of expressions that mention index names and inputs only, for many index values at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .._diagnostics import Faults, fail
from ..program import ir
from ._arithmetic import applied

Array = np.ndarray


def constant(
    e: ir.Expression,
    inputs: Mapping[str, Array],
    lengths: Mapping[str, int],
    names: Mapping[str, Array] | None = None,
    taken: Array | bool = True,
) -> Array:
    """The value of `e` where each index name stands for an array; the arrays broadcast. Indices and operations count only where `taken`.

    Raises:
        GmlmError: E407 where an index into an input leaves its range, E416 where an operation has no value.
    """
    return np.asarray(_Constants(inputs, lengths, names or {}).value(e, taken))


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
                return self.operation(e, taken)
            case ir.Choice():
                test = self.value(e.test, taken)
                return np.where(test, self.value(e.yes, taken & test), self.value(e.no, taken & ~test))
            case _:
                raise AssertionError(f"not a constant: {type(e).__name__}")

    def operation(self, e: ir.Operation, taken: Array | bool) -> Array:
        """As in Python, the right side of `and` and `or` counts only where the left one does not decide."""
        faults = Faults()
        found: list[Array] = []
        for o in e.operands:
            with faults:
                found.append(self.value(o, taken))
                if e.operator in ("and", "or"):
                    taken = taken & (found[0].astype(bool) if e.operator == "and" else ~found[0].astype(bool))
            if faults.found and e.operator in ("and", "or"):
                break
        faults.tell()
        return applied(e.operator, found, taken, e.span)

    def entry(self, e: ir.InputValue, taken: Array | bool) -> Array:
        array = self.inputs[e.name]
        indices, faults = [], Faults()
        for k, i in enumerate(e.indices):
            with faults:
                indices.append(in_range(self.value(i, taken), array.shape[k], taken, i, e.name))
        faults.tell()
        return array[tuple(indices)]


def whole(value: Array, taken: Array | bool, e: ir.Expression) -> Array:
    """A value as integers: a negative power of a whole number is none.

    Raises:
        GmlmError: E416 where it is taken and not whole.
    """
    if value.dtype.kind != "f":
        return value
    bad = ~(np.isfinite(value) & (value == np.floor(value))) & taken
    if np.any(bad):
        first = np.broadcast_to(value, np.shape(bad))[bad].ravel()[0]
        raise fail("E416", f"an integer is needed here, and this is {first:g}", e.span, "not whole", help="use `//` for whole division")
    return np.where(np.isfinite(value), value, 0).astype(np.int64)


def in_range(value: Array, length: int, taken: Array | bool, e: ir.Expression, name: str) -> Array:
    """`value` clipped into an axis, after checking that it is whole and lies in it wherever it is `taken`."""
    value = whole(value, taken, e)
    bad = ((value < 0) | (value >= length)) & taken
    if np.any(bad):
        first = np.broadcast_to(value, np.shape(bad))[bad].ravel()[0] if np.ndim(bad) else value
        message = f"an index of `{name}` is {int(first)}, outside 0..{length - 1}"
        parts = list(ir.walk(e))
        help = "limit it with `if`, or wrap it with `%`"
        if not any(isinstance(p, ir.IndexValue) for p in parts):
            varies = any(isinstance(p, ir.VariableValue) for p in parts)
            help = (
                "guard the term, `if .. then .. else 0`, or wrap it with `%`"
                if varies
                else f"indices count from 0, and {length - 1} is the last"
            )
        raise fail("E407", message, e.span, f"reaches {int(first)}", help=help)
    return np.clip(value, 0, length - 1).astype(np.int64)
