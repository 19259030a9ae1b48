"""The operators of the language on NumPy arrays, by the rule of `program/_operators.py`.

An operation without a value raises an error if its result counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .._diagnostics import Span, fail
from ..program import OPERATORS as ON_NUMBERS
from ..program import NoValueError, Operator, computed, written
from .limits import SAFE_INTEGER, SAFE_OPERAND

Array = np.ndarray
LEAST = -(1 << 63)  # This is the minimum of a 64-bit integer.


def _integral(*arrays: Array) -> bool:
    return all(np.asarray(a).dtype.kind in "biu" for a in arrays)


def _plain(a: Array) -> Array:
    """Return conditions as the integers 1 and 0, and other arrays unchanged."""
    a = np.asarray(a)  # Operands are Python numbers if all parts are constant.
    return a.astype(np.int64) if a.dtype == bool else a


def _power(a: Array, b: Array) -> Array:
    a, b = _plain(a), _plain(b)
    return ON_NUMBERS["^"].array(np, a if _integral(a, b) and np.all(b >= 0) else a.astype(float), b)


def _numbers(operator: Operator) -> Callable[..., Array]:
    return lambda *operands: operator.array(np, *(_plain(o) for o in operands))


OPERATORS: dict[str, Callable[..., Array]] = {
    **{name: _numbers(operator) for name, operator in ON_NUMBERS.items()},
    "^": _power,
    "==": lambda a, b: _plain(a) == _plain(b),
    "!=": lambda a, b: _plain(a) != _plain(b),
    "<": lambda a, b: _plain(a) < _plain(b),
    "<=": lambda a, b: _plain(a) <= _plain(b),
    ">": lambda a, b: _plain(a) > _plain(b),
    ">=": lambda a, b: _plain(a) >= _plain(b),
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
}
CONDITIONS = frozenset(("==", "!=", "<", "<=", ">", ">=", "and", "or", "not"))


def rounded_to(kind: np.dtype) -> dict[str, Callable[..., Array]]:
    """Return the operators in a float type: operands and results are of that type.

    Comparisons of integers compare them as integers.
    """

    def rounded(name: str) -> Callable[..., Array]:
        def operator(*operands: Array) -> Array:
            if name in CONDITIONS and _integral(*operands):
                return OPERATORS[name](*(np.asarray(o) for o in operands))
            found = np.asarray(OPERATORS[name](*(np.asarray(o, kind) for o in operands)))
            return found if name in CONDITIONS else found.astype(kind)

        return operator

    return {name: rounded(name) for name in OPERATORS}


def applied(operator: str, operands: Sequence[Array], taken: Array | bool, span: Span | None, bits: int = 64) -> Array:
    """Return the values of an operation, and raise if an element that counts has no value.

    Args:
        operator: the name of the operator.
        operands: arrays that broadcast against one another.
        taken: a mask of the elements that count. Values elsewhere are undefined.
        span: the place of the operation in the text.
        bits: the number of bits of integers.

    Raises:
        GmlmError: E416 if an element that counts divides by 0, does not fit, or is not a real
            number.
    """
    operands = [np.asarray(o) for o in operands]
    with np.errstate(all="ignore"):
        found = np.asarray(OPERATORS[operator](*operands))
        doubtful = _doubtful(operator, operands, found)
    if bits < 64 and _integral(*operands) and operator not in CONDITIONS:
        _verify_bits(found, operator, operands, taken, span, bits)
    if not np.any(doubtful & np.asarray(taken)):
        return found
    here = np.broadcast_to(doubtful & np.asarray(taken), np.broadcast_shapes(found.shape, np.shape(taken)))
    out = np.broadcast_to(found, here.shape).copy()
    parts = [np.broadcast_to(o, here.shape) for o in operands]
    for place in zip(*np.nonzero(here), strict=True) if here.ndim else [()]:
        try:
            out[place] = computed(operator, *(p[place].item() for p in parts))
        except NoValueError as error:
            raise fail("E416", str(error), span, "no value", help=error.help) from None
    return out


def _verify_bits(found: Array, operator: str, operands: list[Array], taken: Array | bool, span: Span | None, bits: int) -> None:
    """Raise E416 if an integer does not fit into `bits` bits or has a negative exponent."""
    limit = 1 << (bits - 1)
    bad = np.any([(n < -limit) | (n > limit - 1) for n in np.broadcast_arrays(found, *map(_plain, operands))], axis=0) & np.asarray(taken)
    if operator == "^":
        bad = bad | ((operands[1] < 0) & np.asarray(taken))
    if bad.any():
        place = np.unravel_index(int(np.argmax(bad)), bad.shape)
        parts = [np.broadcast_to(o, bad.shape)[place].item() for o in operands]
        message = f"`{written(operator, *parts)}` is {np.broadcast_to(found, bad.shape)[place]:g}, which is not an integer of {bits} bits"
        raise fail("E416", message, span, "no value", help="an index is computed in whole numbers of that size")


def _doubtful(operator: str, operands: list[Array], found: Array) -> Array | bool:
    """Return a mask of the elements that may have no value.

    These elements are infinite or undefined without an infinite operand, or are integers near the
    limit of 64 bits. An infinite `log` is an exception: it is a value.
    """
    if operator in CONDITIONS:
        return False
    if found.dtype.kind == "f":
        infinite = np.isinf(found) & ((operator == "log") | np.any([np.isinf(o) for o in np.broadcast_arrays(*operands)], axis=0))
        return ~np.isfinite(found) & ~infinite
    if operator in ("//", "%"):
        divided, divisor = (_plain(o) for o in operands)
        return (divisor == 0) | ((divided == LEAST) & (divisor == -1))
    small = all(o.size == 0 or (o.min() > -SAFE_OPERAND and o.max() < SAFE_OPERAND) for o in (_plain(o) for o in operands))
    if operator == "^" or not small:
        estimate = OPERATORS[operator](*(_plain(o).astype(float) for o in operands))
        return ~(np.abs(estimate) < SAFE_INTEGER)
    return False
