"""Find comparisons whose result does not depend on the data.

Examples are `spin == 0`, and `k == 7` for `k : range(3)`. Each finding is proved as follows. The
set of values of an expression is contained in a set that is computed part by part, as if the parts
were independent. If all pairs of values of the two sides compare alike, so do all pairs that can
occur.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import product

from .._diagnostics import Diagnostic, Fix
from ._expressions import known_number, mentions
from ._mask_bodies import Mask
from ._program import Model, Program
from ._terms import SCALES, Choice, Domain, Expression, LetValue, Literal, Operation, VariableValue, walk
from .limits import MOST_PAIRS, MOST_VALUES

Number = int | float
Values = frozenset[Number] | None

COMPARE: dict[str, Callable[[Number, Number], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ARITHMETIC: dict[str, Callable[..., Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "neg": lambda a: -a,
    "min": min,
    "max": max,
    "abs": lambda a: abs(a),
    "spin": SCALES["spin"].values_of,
    "bit": SCALES["spin"].codes_of,
    "not": operator.not_,
    "and": lambda a, b: bool(a and b),
    "or": lambda a, b: bool(a or b),
    **COMPARE,
}


def lint_comparisons(program: Program) -> Iterator[Diagnostic]:
    """Yield a warning for each comparison of variables that always or never holds."""
    for model in program.models.values():
        seen = _Possible(model)
        own = [w for m in program.masks.values() if m.model == model.name for w in weights(m)]
        written = [*(f.value for f in model.factors), *(r.condition for r in model.requires), *(x.value for x in model.lets.values())]
        for e in (*written, *own):
            for part in walk(e):
                if isinstance(part, Operation) and part.operator in COMPARE and mentions(part, model.lets):
                    yield from seen.judge(part)


def weights(mask: Mask) -> Iterator[Expression]:
    """Yield the weights and rates that are written in a mask.

    The weights of named masks in its mixture are excluded: they belong to those masks.
    """
    for leaf in mask.body.leaves():
        if leaf.span.start >= mask.span.start and leaf.span.source == mask.span.source:
            yield from leaf.weights()


class _Possible:
    """The possible values of the expressions of a model.

    The values of an expression are None if they are unknown or too many.
    """

    def __init__(self, model: Model):
        self.model = model
        self.lets: dict[str, Values] = {}

    def judge(self, e: Operation) -> Iterator[Diagnostic]:
        left, right = (self.values(side) for side in e.operands)
        if left is None or right is None or len(left) * len(right) > MOST_PAIRS:
            return
        outcomes = {COMPARE[e.operator](a, b) for a, b in product(left, right)}
        if len(outcomes) == 1:
            yield self.warning(e, left, right, outcomes.pop())

    def warning(self, e: Operation, left: Values, right: Values, outcome: bool) -> Diagnostic:
        side, values = (e.operands[0], left) if not isinstance(e.operands[0], Literal) else (e.operands[1], right)
        assert values is not None
        variable = next((p for p in walk(side) if isinstance(p, VariableValue)), None)
        declared = self.model.variables.get(variable.name) if variable is not None else None
        place = () if declared is None else ((declared.domain.span, f"the values of `{declared.name}`"),)
        help, fix = f"`{side.span.text}` is {in_words(values)}", None
        other = e.operands[1] if side is e.operands[0] else e.operands[0]
        if values == {-1, 1} and known_number(other) == 0 and e.operator in ("==", "!="):
            help, fix = f"{help}: the lower value is written -1", Fix(other.span, "-1", guess=True)
        word = "always" if outcome else "never"
        return Diagnostic("W805", f"`{e.span.text}` {word} holds", e.span, f"{word} true", place, help, fix)

    def values(self, e: Expression) -> Values:
        match e:
            case Literal():
                return frozenset({e.value})
            case VariableValue() if e.name in self.model.variables:
                return values_of(self.model.variables[e.name].domain)
            case LetValue() if e.name in self.model.lets:
                if e.name not in self.lets:
                    self.lets[e.name] = None  # A `let` never mentions itself.
                    self.lets[e.name] = self.values(self.model.lets[e.name].value)
                return self.lets[e.name]
            case Choice():
                yes, no = self.values(e.yes), self.values(e.no)
                return None if yes is None or no is None else yes | no
            case Operation() if e.operator in ARITHMETIC:
                return self.computed(ARITHMETIC[e.operator], [self.values(part) for part in e.operands])
        return None

    def computed(self, function: Callable[..., Number], parts: list[Values]) -> Values:
        known = [p for p in parts if p is not None]
        pairs = 1
        for p in known:
            pairs *= len(p)
        if len(known) < len(parts) or pairs > MOST_PAIRS:
            return None
        try:
            out = frozenset(function(*values) for values in product(*known))
        except (ArithmeticError, ValueError):
            return None
        return out if len(out) <= MOST_VALUES else None


def values_of(domain: Domain) -> Values:
    """Return the values of a domain of numbers, or None if the text does not give its size.

    The result is also None if there are more than `MOST_VALUES` values.
    """
    if domain.count is None or domain.count > MOST_VALUES or domain.numbers is None:
        return None
    return frozenset(domain.numbers)


def in_words(values: frozenset[Number]) -> str:
    """Describe some numbers in words: "-1 or +1", "0, 1 or 2", "between 0 and 6"."""
    if values == {-1, 1}:
        return "-1 or +1"
    *most, last = (f"{v:g}" for v in sorted(values))
    if len(most) > 3:
        return f"between {most[0]} and {last}"
    return f"{', '.join(most)} or {last}" if most else last
