"""Evaluates one formula as `explain` prints it, by recursive descent.

A formula is evaluated at one configuration at a time. Where names, sets and entries of arrays lie is asked of the oracle; signs,
brackets, sums, conditions and which terms touch a block are read off the text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from oracle import Oracle
from oracle._bind import Axis
from oracle._expressions import place_along
from oracle._priors import DENSITIES, log_dirichlet

from gmlmdsl.program import ir

TOKEN = re.compile(r'\s*("[^"]*"|\d+\.?\d*(?:e[-−+]?\d+)?|[A-Za-z_]\w*(?:\.\w+)?|[∑∏∋∈≠≤≥⌊⌋·−√σ=<>+/^(){}\[\]|,:])')
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "log": np.log,
    "√": np.sqrt,
    "tanh": np.tanh,
    "σ": lambda a: 1 / (1 + np.exp(-a)),
    "bit": lambda s: (s + 1) // 2,
    "spin": lambda b: 2 * b - 1,
    "min": min,
    "max": max,
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "≠": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "≤": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "≥": lambda a, b: a >= b,
}
Env = Mapping[str, Any]
Value = Callable[[Env], Any]


class Label(int):
    """A code that knows its label, so that it can index and be compared with a text."""

    text: str

    def __eq__(self, other: object) -> bool:
        return self.text == other if isinstance(other, str) else int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__


class Place:
    """One configuration with its parameters: names, entries of arrays, members of sets, and whether K holds a cell."""

    def __init__(self, oracle: Oracle, params: Mapping[str, np.ndarray], codes: np.ndarray, block: frozenset[int] = frozenset()):
        self.oracle, self.params, self.codes, self.block = oracle, params, codes, block

    def entry(self, name: str, indices: list[Any], env: Env) -> Any:
        bound = self.oracle.bound
        if name in env:
            return env[name]
        if name in bound.variables:
            return self._cell(name, indices)
        if name in bound.parameters:
            return self.params[name][self._at(bound.parameters[name], indices)]
        if name in self.oracle.program.lengths:
            return bound.length(name)
        return bound.inputs[name][self._at(bound.input_axes(name), indices)]

    def position(self, name: str, indices: list[Any]) -> int | None:
        """The cell; None where there is none, which no block holds."""
        v = self.oracle.bound.variables[name]
        try:
            return v.start + int(np.ravel_multi_index(self._at(v.axes, indices), v.shape)) if indices else v.start
        except IndexError:
            return None

    def _cell(self, name: str, indices: list[Any]) -> Any:
        v, place = self.oracle.bound.variables[name], self.position(name, indices)
        assert place is not None
        code, domain = int(self.codes[place]), self.oracle.model.variables[name].domain
        if not domain.labels:
            return v.values[code]
        found = Label(code)
        found.text = str(domain.labels[code])
        return found

    def _at(self, axes: tuple[Axis, ...], indices: list[Any]) -> tuple[Any, ...]:
        """Places along the axes; the last is left open where indices are one too few, as in a row of a simplex."""
        if not indices:
            return ()
        return tuple(p.item() if np.ndim(p) == 0 else p for p in place_along(axes, [np.asarray(int(i)) for i in indices]))

    def members(self, name: str, env: Env) -> list[Any]:
        """Of an index set, domain or part of a graph; `range(n)` comes as a number."""
        declared = {loop.over.name: loop.over for loop in loops_of(self.oracle)}
        return list(self.oracle.bound.members(declared[name], env))


def loops_of(oracle: Oracle) -> list[ir.Loop]:
    """Every loop of the model's declarations and terms."""
    model = oracle.model
    held = [*model.variables.values(), *model.parameters.values(), *model.lets.values()]
    clauses = [*(f.clauses for f in (*model.factors, *model.requires)), *(d.clauses for d in model.distributed)]
    values = [*(f.value for f in model.factors), *(v.value for v in model.lets.values()), *(r.condition for r in model.requires)]
    bodies = [m.body for m in oracle.program.masks.values() if isinstance(m.body, ir.Listed | ir.Independent)]
    clauses += [term.clauses for b in bodies for term, _ in b.terms]
    values += [w for b in bodies for _, w in b.terms if w is not None]
    clauses += [s.clauses for v in values for s in ir.walk(v) if isinstance(s, ir.Sum)]
    return [*(a for d in held for a in d.axes if isinstance(a, ir.Loop)), *(loop for c in clauses for loop in c.loops)]


class Reader:
    """Recursive descent over one formula; each rule gives a function of the present names."""

    def __init__(self, text: str, place: Place, lets: Mapping[str, tuple[list[str], Value]]):
        self.tokens = TOKEN.findall(text)
        assert "".join(self.tokens) == re.sub(r"\s", "", text), f"unread: {text}"
        self.at, self.place, self.lets = 0, place, lets
        self.chosen: dict[frozenset[int], float] = {}

    def peek(self, k: int = 0) -> str:
        return self.tokens[self.at + k] if self.at + k < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        token = self.peek()
        assert not wanted or token in wanted, f"{token!r} where {wanted} stands at {self.at} of {self.tokens}"
        self.at += 1
        return token

    def met(self, token: str) -> bool:
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def whole(self) -> Value:
        found = self.any()
        assert self.at == len(self.tokens), f"left over: {self.tokens[self.at :]}"
        return found

    # Conditions, the weakest first

    def any(self) -> Value:
        left = self.all()
        while self.met("or"):
            left = (lambda a, b: lambda env: bool(a(env)) or bool(b(env)))(left, self.all())
        return left

    def all(self) -> Value:
        left = self.negation()
        while self.met("and"):
            left = (lambda a, b: lambda env: bool(a(env)) and bool(b(env)))(left, self.negation())
        return left

    def negation(self) -> Value:
        if self.met("not"):
            inner = self.negation()
            return lambda env: not inner(env)
        left = self.sum()
        if self.peek() in COMPARE:
            compare, right = COMPARE[self.take()], self.sum()
            return lambda env: compare(left(env), right(env))
        return left

    # Numbers

    def sum(self) -> Value:
        left = self.product()
        while self.peek() in ("+", "−"):
            sign, right = (1 if self.take() == "+" else -1), self.product()
            left = (lambda a, s, b: lambda env: a(env) + s * b(env))(left, sign, right)
        return left

    def product(self) -> Value:
        left = self.sign()
        while self.peek() in ("·", "/", "mod"):
            operator, right = self.take(), self.sign()
            if operator == "·":  # what an indicator of 0 stands before is not looked at
                left = (lambda a, b: lambda env: 0.0 if (v := a(env)) is False else v * b(env))(left, right)
            elif operator == "/":
                left = (lambda a, b: lambda env: a(env) / b(env))(left, right)
            else:
                left = (lambda a, b: lambda env: a(env) % b(env))(left, right)
        return left

    def sign(self) -> Value:
        if self.met("−"):
            inner = self.sign()
            return lambda env: -inner(env)
        base = self.atom()
        if self.met("^"):
            power = self.atom()
            return lambda env: float(base(env)) ** power(env)
        return base

    def atom(self) -> Value:
        token = self.take()
        if token == "1" and self.met("{"):
            held = self.held() if self.peek(1) == "∋" or self.peek() == "it" else self.any()
            self.take("}")
            return lambda env: bool(held(env))
        if token[0].isdigit():
            number = float(token) if re.search(r"[.e]", token) else int(token)
            return lambda env: number
        if token[0] == '"':
            return lambda env: token[1:-1]
        if token == "(":
            return self.brackets()
        if token in ("|", "⌊"):
            inner = self.sum()
            self.take({"|": "|", "⌊": "⌋"}[token])
            return lambda env: abs(inner(env)) if token == "|" else math.floor(inner(env))
        if token in ("∑", "∏"):
            return self.over(token)
        if token == "log" and self.peek() in (*DENSITIES, "dirichlet"):
            return self.density(self.take())
        if self.peek() == "(" and token == "chosen":
            return self.choice_of_block()
        if self.peek() == "(":
            self.take("(")
            arguments, f = self.list(")"), FUNCTIONS[token]
            return lambda env: f(*(a(env) for a in arguments))
        return self.named(token)

    def named(self, name: str) -> Value:
        indices = self.list("]") if self.met("[") else []
        if name in self.lets:
            names, body = self.lets[name]
            return lambda env: body({**dict(zip(names, [i(env) for i in indices], strict=True))})
        return lambda env: self.place.entry(name, [i(env) for i in indices], env)

    def list(self, end: str) -> list[Value]:
        found = [self.any()]
        while self.met(","):
            found.append(self.any())
        self.take(end)
        return found

    def brackets(self) -> Value:
        first = self.any()
        if not self.met("if"):
            self.take(")")
            return first
        test = self.any()
        self.take(",")
        self.take("else")
        other = self.any()
        self.take(")")
        return lambda env: first(env) if test(env) else other(env)

    # What a sum runs over, and what a block holds

    def over(self, sign: str) -> Value:
        self.take("{")
        loops: list[tuple[list[str], str, Value | None]] = []
        tests: list[Value] = []
        while self.peek() not in ("}", ":"):
            loops, tests = self.clause(loops, tests)
            self.met(",")
        if self.met(":"):
            tests.append(self.held())
        self.take("}")
        body = self.product()

        def turns(env: Env, rest: list[Any]) -> Any:
            if not rest:
                yield env
                return
            names, set_, size = rest[0]
            for m in range(size(env)) if size else self.place.members(set_, env):
                yield from turns({**env, **dict(zip(names, m if len(names) > 1 else [m], strict=True))}, rest[1:])

        def total(env: Env) -> Any:
            values = [body(e) for e in turns(env, loops) if all(t(e) for t in tests)]
            return sum(values) if sign == "∑" else math.prod(values)

        return total

    def clause(self, loops: list[Any], tests: list[Value]) -> tuple[list[Any], list[Value]]:
        start = self.at
        pair = self.met("(")
        names = [self.take()]
        while pair and self.met(","):
            names.append(self.take())
        if pair and self.peek() == ")":
            self.take()
        if not self.met("∈"):
            self.at = start
            return loops, [*tests, self.any()]
        set_, size = self.take(), None
        if self.met("("):
            size = self.any()
            self.take(")")
        return [*loops, (names, set_, size)], tests

    def held(self) -> Value:
        if self.met("it"):
            self.take("touches")
            self.take("K")
            return lambda env: bool(self.place.block)  # not told from the text: a term that does not depend on K may stand there too
        self.take("K")
        self.take("∋")
        cells = self.cell_list()
        return lambda env: any(self.place.position(n, [i(env) for i in idx]) in self.place.block for n, idx in cells)

    def cell_list(self) -> list[tuple[str, list[Value]]]:
        cells: list[tuple[str, list[Value]]] = []
        while True:
            name = self.take()
            cells.append((name, self.list("]") if self.met("[") else []))
            if not (self.met("or") or self.met(",")):
                return cells

    def choice_of_block(self) -> Value:
        self.take("(")
        weight = self.any()
        self.take(",")
        cells = self.cell_list()
        self.take(")")

        def add(env: Env) -> float:
            block = frozenset(p for n, idx in cells if (p := self.place.position(n, [i(env) for i in idx])) is not None)
            self.chosen[block] = self.chosen.get(block, 0.0) + float(weight(env))
            return 0.0

        return add

    def density(self, name: str) -> Value:
        self.take("(")
        value = self.sum()
        self.take("|")
        arguments = self.list(")")
        if name == "dirichlet":
            return lambda env: log_dirichlet(value(env), np.broadcast_to(arguments[0](env), np.shape(value(env))))
        return lambda env: DENSITIES[name](value(env), *(a(env) for a in arguments))
