"""Writes checked expressions, loops and cells as mathematics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..program import ir
from ._notation import Notation

# Strengths of binding. Readers disagree on how far a sum sign and `mod` reach. Beside an operator
# they are therefore in parentheses, by the strength `_LONG`.
_OR, _AND, _NOT, _COMPARE, _LONG, _ADD, _DIVIDE, _MULTIPLY, _NEGATE, _POWER, _ATOM = range(11)
# smallest strength of a factor of a product, and of the base of a power
FACTOR, ATOM = _MULTIPLY, _ATOM
_STRENGTH = {
    "or": _OR,
    "and": _AND,
    "+": _ADD,
    "-": _ADD,
    "*": _MULTIPLY,
    "/": _DIVIDE,
    "%": _LONG,
    "^": _POWER,
    "neg": _NEGATE,
    "not": _NOT,
}
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
CONDITIONS = (*COMPARISONS, "and", "or", "not")

Lets = Mapping[str, ir.Let]


class Writer:
    """A writer of the expressions of one model in one notation."""

    def __init__(self, notation: Notation, lets: Lets, given: frozenset[str] = frozenset()):
        self.n, self.lets, self.given = notation, lets, given

    def number(self, e: ir.Expression, least: int = _OR) -> str:
        """Return an expression as a number; a condition counts as 1 or 0.

        The text is bracketed if it binds less tightly than `least`.
        """
        if self.is_condition(e):
            return self.n.indicator(self.condition(e))
        text, strength = self._number(e)
        return self.n.parens(text) if strength < least else text

    def term(self, e: ir.Expression) -> str:
        """Return an expression that follows a sum sign, or is an operand of a plus sign."""
        return self.number(e, _DIVIDE)

    def is_condition(self, e: ir.Expression) -> bool:
        """Return whether an expression is true or false rather than a number."""
        match e:
            case ir.Operation():
                return e.operator in CONDITIONS
            case ir.Literal():
                return isinstance(e.value, bool)
            case ir.LetValue():
                return self.is_condition(self.lets[e.name].value)
            case ir.Choice():
                return self.is_condition(e.yes) and self.is_condition(e.no)
        return False

    def condition(self, e: ir.Expression, least: int = _OR) -> str:
        """Return an expression as a condition."""
        n = self.n
        match e:
            case ir.Operation(operator="not"):
                text, strength = n.operator("not").lstrip() + self.condition(e.operands[0], _ADD), _NOT
            case ir.Operation() if e.operator in ("and", "or"):
                strength = _STRENGTH[e.operator]
                # `and` within `or` is put in parentheses
                same = [isinstance(o, ir.Operation) and o.operator == e.operator for o in e.operands]
                parts = [self.condition(o, strength if k else _NOT) for o, k in zip(e.operands, same, strict=True)]
                text = n.operator(e.operator).join(parts)
            case ir.Operation() if e.operator in COMPARISONS:
                text, strength = n.operator(e.operator).join(self.number(o, _LONG) for o in e.operands), _COMPARE
            case ir.Choice():
                text = n.choice(self.condition(e.test), self.condition(e.yes), self.condition(e.no))
                strength = _ATOM if n.one_line else _OR
            case ir.LetValue():
                return n.entry(n.name(e.name), [self.number(i) for i in e.indices])
            case _:
                return str(e.value).lower() if isinstance(e, ir.Literal) else self.number(e, least)
        return n.parens(text) if strength < least else text

    def _number(self, e: ir.Expression) -> tuple[str, int]:
        n = self.n
        match e:
            case ir.Literal():
                text = f"{e.value:g}" if isinstance(e.value, float) and f"{e.value:g}" == repr(e.value) else str(e.value)
                return text.replace("-", n.minus), _NEGATE if text.startswith("-") else _ATOM
            case ir.LabelCode():
                return n.label(e.label), _ATOM
            case ir.IndexValue():
                return n.name(e.name), _ATOM
            case ir.InputValue() | ir.ParameterValue() | ir.VariableValue() | ir.LetValue():
                return n.entry(n.name(e.name), [self.number(i) for i in e.indices]), _ATOM
            case ir.Choice():
                return n.choice(self.condition(e.test), self.number(e.yes), self.number(e.no)), _ATOM if n.one_line else _OR
            case ir.Operation():
                return self._operation(e)
        return self._compound(e)

    def _compound(self, e: ir.Expression) -> tuple[str, int]:
        """Return reductions, tables and table entries, with their strength."""
        n = self.n
        match e:
            case ir.Sum():
                if e.operator in ("+", "*"):
                    return n.over("sum" if e.operator == "+" else "prod", self.clauses(e.clauses), self.term(e.body)), _LONG
                return n.call(e.operator, [f"{self.number(e.body)} : {self.clauses(e.clauses)}"]), _ATOM
            case ir.LogPartition():
                return f"log {n.sub('Z', n.name(e.of))}", _ATOM
            case ir.TableEntry():
                return n.entry(self.number(e.table), [self.number(i) for i in e.indices]), _ATOM
            case ir.Table():
                return f"[{', '.join(self.number(i) for i in e.items)}]", _ATOM
        raise AssertionError(e)

    def _operation(self, e: ir.Operation) -> tuple[str, int]:
        n, o = self.n, e.operands
        match e.operator:
            case "neg":
                return n.minus + self._unsigned(o[0], _NEGATE), _NEGATE
            case "+" | "-":
                return n.operator(e.operator).join((self.number(o[0], _ADD), self._unsigned(o[1], _DIVIDE))), _ADD
            case "*":
                return n.product(self.number(o[0], _MULTIPLY), self.number(o[1], _POWER)), _MULTIPLY
            case "/":
                if not n.one_line:
                    return n.fraction(self.number(o[0]), self.number(o[1])), _ATOM
                return n.fraction(self.number(o[0], _MULTIPLY), self.number(o[1], _POWER)), _DIVIDE
            case "//":
                above = (self.number(o[0], _MULTIPLY), self.number(o[1], _POWER)) if n.one_line else (self.number(o[0]), self.number(o[1]))
                return n.call("floor", [n.fraction(*above)]), _ATOM
            case "%":
                return n.operator("mod").join((self.number(o[0], _POWER), self.number(o[1], _POWER))), _LONG
            case "^":
                return n.power(self.number(o[0], _ATOM), self.number(o[1], _ATOM if n.one_line else _OR)), _POWER
        return n.call(e.operator, [self.number(a) for a in o]), _ATOM

    def _unsigned(self, e: ir.Expression, least: int) -> str:
        """Return a number that follows a sign, bracketed if it begins with a sign itself."""
        text = self.number(e, least)
        return self.n.parens(text) if text.startswith(self.n.minus) else text

    def loop(self, loop: ir.Loop) -> str:
        """Return `i ∈ site`."""
        return self.n.members([self.n.name(i) for i in loop.names], self.n.name(loop.over.name))

    def clauses(self, clauses: ir.Clauses) -> str:
        """Return the range of a sum: loops, and the condition on them; empty without either."""
        parts = [self.loop(loop) for loop in clauses.loops]
        if clauses.condition is not None:
            parts.append(self.condition(clauses.condition))
        return ", ".join(parts)

    def cells(self, cells: ir.Cells) -> str:
        """Return a cell, or all cells of a variable."""
        found = self.n.entry(self.n.name(cells.variable), [] if cells.indices is None else [self.number(i) for i in cells.indices])
        return found if cells.clauses is None else f"{found} : {self.clauses(cells.clauses)}"

    def touched(self, e: ir.Expression) -> list[str] | None:
        """Return the cells that an expression mentions, each once, without given variables.

        The result is None if a cell depends on a cell's value or on an inner sum.
        """
        found: list[str] = []
        inner = {name for part in _walk(e, self.lets) if isinstance(part, ir.Sum) for loop in part.clauses.loops for name in loop.names}
        for part in _walk(e, self.lets):
            if isinstance(part, ir.VariableValue) and part.name not in self.given:
                inside = [x for i in part.indices for x in _walk(i, self.lets)]
                if any(isinstance(x, ir.VariableValue) or (isinstance(x, ir.IndexValue) and x.name in inner) for x in inside):
                    return None
                found.append(self.number(part))
        return list(dict.fromkeys(found))


def _walk(e: ir.Expression, lets: Lets) -> Iterator[ir.Expression]:
    """Yield `e` and all expressions in it; the value of a `let` is substituted for it."""
    for part in ir.walk(e):
        yield part
        if isinstance(part, ir.LetValue):
            let = lets[part.name]
            names = [name for loop in let.axes for name in loop.names]
            yield from _walk(ir.substitute(let.value, dict(zip(names, part.indices, strict=False))), lets)
