"""The table of operators and functions on numbers: values, bounds, and notation in formulas.

It contains everything except derivatives. Each stage reads this table. The checker uses `python`,
the binder uses `array` on NumPy's arrays, and compiled code uses `array` on JAX's arrays.

One function (`computed`) defines the results for numbers. They follow Python's arithmetic, with
whole numbers within 64 bits and without values that are not real. The checker applies `computed` to
numbers in the text. The binder applies it, through arrays, to inputs and indices.
"""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .limits import MOST_BITS

if TYPE_CHECKING:
    from types import ModuleType

Interval = tuple[float, float]
Number = int | float  # A condition counts as 1 or 0.
LEAST, MOST = -(2**63), 2**63 - 1
# operators whose values may be infinite for finite numbers
INFINITE = ("log", "log1p", "logit", "log_binomial")
INFIX = ("+", "-", "*", "/", "//", "%", "^")
FLOATS = "whole numbers have 64 bits; a number with a point, as in `2.0`, may be larger"
UNTAKEN = "leave such values out, with `if .. then .. else ..` or an `if` behind the `for`"


@dataclass(frozen=True)
class Operator:
    """An operator or function on numbers.

    Attributes:
        name: the name in trees.
        python: returns its value on Python's numbers. An exception states why there is no value.
        array: returns its values on arrays, given their module, `numpy` or `jax.numpy`. The values
            for whole numbers are whole, unless it `is_real`.
        bounds: returns bounds of its values, given bounds of the operands. The result is None if
            the values may be infinite or undefined.
        is_real: whether its values are floating-point numbers for all operands.
        unicode: the notation of a function in formulas, if it differs from its name.
        latex: the notation in LaTeX.
    """

    name: str
    python: Callable[..., Any]
    array: Callable[..., Any]
    bounds: Callable[..., Interval | None]
    is_real: bool = False
    unicode: str = ""
    latex: str = ""


def _increasing(f: Callable[[float], float]) -> Callable[[Interval], Interval]:
    return lambda a: (f(a[0]), f(a[1]))


def _corners(f: Callable[[float, float], float]) -> Callable[[Interval, Interval], Interval]:
    """Return the rule for the bounds of a function that is monotone in each operand.

    The rule evaluates the function at the corners of the operands' intervals.
    """

    def rule(a: Interval, b: Interval) -> Interval:
        values = [f(x, y) for x in a for y in b]
        return min(values), max(values)

    return rule


def _divided(a: Interval, b: Interval) -> Interval | None:
    return None if b[0] <= 0 <= b[1] else _corners(lambda x, y: x / y)(a, b)


def _whole_division(a: Interval, b: Interval) -> Interval | None:
    found = _divided(a, b)
    return None if found is None else (math.floor(found[0]), math.floor(found[1]))


def _remainder(a: Interval, b: Interval) -> Interval | None:
    return None if b[0] <= 0 <= b[1] else (min(0.0, b[0]), max(0.0, b[1]))


def _power(a: Interval, b: Interval) -> Interval | None:
    if b[0] == b[1] and b[0] >= 0 and b[0] == math.floor(b[0]):
        ends = [a[0] ** b[0], a[1] ** b[0]]
        return (0.0 if a[0] <= 0 <= a[1] else min(ends), max(ends)) if b[0] % 2 == 0 else (min(ends), max(ends))
    if a[0] <= 0:
        return None
    return _corners(lambda x, y: x**y)(a, b)


def _magnitude(a: Interval) -> Interval:
    return (0.0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))), max(abs(a[0]), abs(a[1]))


def _sigmoid(a: float) -> float:
    return 0.5 * (1 + math.tanh(0.5 * a))


def _softplus(a: float) -> float:
    return max(a, 0.0) + math.log1p(math.exp(-abs(a)))


def _log1p(a: float) -> float:
    return -math.inf if a == -1 else math.log1p(a)


def _logit(p: float) -> float:
    return math.inf if p == 1 else -math.inf if p == 0 else math.log(p) - math.log1p(-p)


def _log_binomial(n: float, k: float) -> float:
    if not 0 <= k <= n:
        return -math.inf
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _log_binomials(xp: ModuleType, n: Any, k: Any) -> Any:
    """Return log_binomial on arrays, with the logarithm of the gamma function from SciPy or JAX."""
    gammaln = import_module("scipy.special" if xp.__name__ == "numpy" else "jax.scipy.special").gammaln
    n, k = n * 1.0, k * 1.0
    inside = (k >= 0) & (k <= n)
    k = xp.where(inside, k, 0.0)
    n = xp.where(inside, n, 0.0)
    return xp.where(inside, gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1), -xp.inf)


OPERATORS = {
    o.name: o
    for o in (
        Operator("+", python.add, lambda xp, a, b: a + b, lambda a, b: (a[0] + b[0], a[1] + b[1])),
        Operator("-", python.sub, lambda xp, a, b: a - b, lambda a, b: (a[0] - b[1], a[1] - b[0])),
        Operator("*", python.mul, lambda xp, a, b: a * b, _corners(lambda x, y: x * y)),
        Operator("/", python.truediv, lambda xp, a, b: xp.true_divide(a, b), _divided, is_real=True),
        Operator("//", python.floordiv, lambda xp, a, b: xp.floor_divide(a, b), _whole_division),
        Operator("%", python.mod, lambda xp, a, b: xp.remainder(a, b), _remainder),
        Operator("^", python.pow, lambda xp, a, b: xp.power(a, b), _power),
        Operator("neg", python.neg, lambda xp, a: -a, lambda a: (-a[1], -a[0])),
        Operator("exp", math.exp, lambda xp, a: xp.exp(a), _increasing(math.exp), is_real=True, latex=r"\exp"),
        Operator(
            "log",
            lambda a: -math.inf if a == 0 else math.log(a),
            lambda xp, a: xp.log(a),
            _increasing(math.log),
            is_real=True,
            latex=r"\log",
        ),
        Operator("sqrt", math.sqrt, lambda xp, a: xp.sqrt(a), _increasing(math.sqrt), is_real=True, unicode="√"),
        Operator("abs", abs, lambda xp, a: xp.abs(a), _magnitude),
        Operator(
            "sigmoid",
            _sigmoid,
            lambda xp, a: 0.5 * (1 + xp.tanh(0.5 * a)),
            _increasing(_sigmoid),
            is_real=True,
            unicode="σ",
            latex=r"\sigma",
        ),
        Operator("cos", math.cos, lambda xp, a: xp.cos(a), lambda a: (-1.0, 1.0), is_real=True, latex=r"\cos"),
        Operator("sin", math.sin, lambda xp, a: xp.sin(a), lambda a: (-1.0, 1.0), is_real=True, latex=r"\sin"),
        Operator("tanh", math.tanh, lambda xp, a: xp.tanh(a), _increasing(math.tanh), is_real=True, latex=r"\tanh"),
        Operator("min", min, lambda xp, a, b: xp.minimum(a, b), lambda a, b: (min(a[0], b[0]), min(a[1], b[1])), latex=r"\min"),
        Operator("max", max, lambda xp, a, b: xp.maximum(a, b), lambda a, b: (max(a[0], b[0]), max(a[1], b[1])), latex=r"\max"),
        Operator("softplus", _softplus, lambda xp, a: xp.logaddexp(a * 1.0, 0.0), _increasing(_softplus), is_real=True),
        Operator("log1p", _log1p, lambda xp, a: xp.log1p(a), _increasing(math.log1p), is_real=True),
        Operator("expm1", math.expm1, lambda xp, a: xp.expm1(a), _increasing(math.expm1), is_real=True),
        Operator("logit", _logit, lambda xp, a: xp.log(a) - xp.log1p(-a), _increasing(_logit), is_real=True),
        Operator("log_binomial", _log_binomial, _log_binomials, lambda n, k: None, is_real=True),
        Operator("spin", lambda b: 2 * b - 1, lambda xp, a: 2 * a - 1, _increasing(lambda a: 2 * a - 1)),
        Operator("bit", lambda s: (s + 1) // 2, lambda xp, a: (a + 1) // 2, _increasing(lambda a: math.floor((a + 1) / 2))),
    )
}


class NoValueError(ArithmeticError):
    """The error of an operation that has no value in the language.

    The text states the reason, and `help` suggests a remedy.
    """

    def __init__(self, message: str, help: str = ""):
        super().__init__(message)
        self.help = help


def computed(operator: str, *operands: Number) -> Number:
    """Return the value of an operator or function of the language on numbers.

    Conditions count as 1 and 0.

    Raises:
        NoValueError: if the divisor is 0, a whole number does not fit into 64 bits, or the result
            is not a real number.
    """
    shown = written(operator, *operands)
    whole = [int(o) if isinstance(o, bool) else o for o in operands]
    if operator == "^" and all(isinstance(o, int) for o in whole) and abs(whole[0]) > 1 and whole[1] > MOST_BITS / math.log2(abs(whole[0])):
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
    _verify_value(value, shown)
    if math.isinf(value) and operator not in INFINITE and all(map(math.isfinite, whole)):
        raise NoValueError(f"`{shown}` is too large for a number")
    return value


def _verify_value(value: complex, shown: str) -> None:
    """Raise NoValueError unless the value of the operation `shown` is a number of the language."""
    # A whole number may be too large for the tests of numbers with a point.
    if isinstance(value, complex) or (isinstance(value, float) and math.isnan(value)):
        raise NoValueError(f"`{shown}` is not a real number", UNTAKEN)
    if isinstance(value, int) and not LEAST <= value <= MOST:
        raise NoValueError(f"`{shown}` is {value}, which does not fit into 64 bits", FLOATS)


def written(operator: str, *operands: Number) -> str:
    """Return the operation as a program writes it: `7 // 0`, `sqrt(-1)`."""
    texts = [f"{o:g}" if isinstance(o, float) else str(int(o)) for o in operands]
    if operator in INFIX:
        left, right = (f"({t})" if t.startswith("-") and (k or operator == "^") else t for k, t in enumerate(texts))
        return f"{left} {operator} {right}"
    return f"-({texts[0]})" if operator == "neg" else f"{operator}({', '.join(texts)})"
