"""What an operator or function gives for numbers: Python's own arithmetic, whole numbers within 64 bits, and no value that is not real.

One rule for every stage: the checker applies it to numbers that are written, the binder (through arrays) to inputs and indices.
"""

from __future__ import annotations

import math

from ._operators import OPERATORS

Number = int | float  # a condition counts as 1 or 0
LEAST, MOST = -(2**63), 2**63 - 1
MOST_BITS = 4096  # of a power that is written out in a message

INFIX = ("+", "-", "*", "/", "//", "%", "^")


class NoValueError(ArithmeticError):
    """An operation has no value that is a number of the language: the text says why, `help` what to do."""

    def __init__(self, message: str, help: str = ""):
        super().__init__(message)
        self.help = help


def computed(operator: str, *operands: Number) -> Number:
    """The value of an operator or function of the language on numbers; conditions count as 1 and 0.

    Raises:
        NoValueError: where the divisor is 0, a whole number does not fit into 64 bits, or the result is no real number.
    """
    shown = written(operator, *operands)
    whole = [int(o) if isinstance(o, bool) else o for o in operands]
    if operator == "^" and all(isinstance(o, int) for o in whole) and abs(whole[0]) > 1 and whole[1] * math.log2(abs(whole[0])) > MOST_BITS:
        raise NoValueError(f"`{shown}` does not fit into 64 bits", FLOATS)
    try:
        value = OPERATORS[operator].python(*whole)
    except ZeroDivisionError:
        reason = "is a negative power of 0" if operator == "^" else "divides by 0"
        raise NoValueError(f"`{shown}` {reason}", UNTAKEN) from None
    except OverflowError:
        raise NoValueError(f"`{shown}` is too large for a number") from None
    except ValueError:
        raise NoValueError(f"`{shown}` is not a real number", UNTAKEN) from None
    if isinstance(value, complex) or math.isnan(value):
        raise NoValueError(f"`{shown}` is not a real number", UNTAKEN)
    if isinstance(value, int) and not LEAST <= value <= MOST:
        raise NoValueError(f"`{shown}` is {value}, which does not fit into 64 bits", FLOATS)
    if math.isinf(value) and operator != "log" and all(math.isfinite(o) for o in whole):
        raise NoValueError(f"`{shown}` is too large for a number")
    return value


FLOATS = "whole numbers have 64 bits; a number with a point, as in `2.0`, may be larger"
UNTAKEN = "leave such values out, with `if .. then .. else ..` or an `if` behind the `for`"


def written(operator: str, *operands: Number) -> str:
    """How a program writes the operation: `7 // 0`, `sqrt(-1)`."""
    texts = [f"{o:g}" if isinstance(o, float) else str(int(o)) for o in operands]
    if operator in INFIX:
        left, right = (f"({t})" if t.startswith("-") and (k or operator == "^") else t for k, t in enumerate(texts))
        return f"{left} {operator} {right}"
    return f"-({texts[0]})" if operator == "neg" else f"{operator}({', '.join(texts)})"
