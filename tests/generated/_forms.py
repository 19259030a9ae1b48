"""Every form that an expression may have, each with what it needs and how it is built to a wanted range.

Written against the contract of the language: a form that needs cells, parameters, `let`s, given variables or index names may stand
where these may stand. Ranges follow from interval arithmetic, so that a weight is known to be at least 0 and an index to be in
range before anything is parsed; numbers are multiples of 1/8 wherever a comparison might depend on rounding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._world import Place, World

CELLS, LATENT, PARAMS, LETS, GIVEN, INDEX, PAIR = "cells", "latent", "params", "lets", "given", "index", "pair"


@dataclass(frozen=True)
class Want:
    """The range that an expression's value must lie in; whether it must be whole; whether a condition is wanted."""

    low: float = -2.0
    high: float = 2.0
    integer: bool = False
    condition: bool = False


REAL, NONNEGATIVE, POSITIVE, PROBABILITY = Want(), Want(0, 2), Want(0.25, 2), Want(0, 1)
BELOW_ONE, COUNT, BIT, CONDITION = Want(0, 0.9), Want(1, 2, True), Want(0, 1, True), Want(0, 1, condition=True)


@dataclass(frozen=True)
class Expr:
    """An expression: its form, its text with `{0}` for its parts, the range of its value."""

    form: str
    text: str
    parts: tuple[Expr, ...] = ()
    low: float = 0.0
    high: float = 0.0
    integer: bool = False
    condition: bool = False
    domain: str = ""  # of a cell that stands alone, "spin" or "other": these two do not compare

    def render(self) -> str:
        """The text of the whole."""
        return self.text.format(*(p.render() for p in self.parts))

    def fits(self, want: Want) -> bool:
        """Whether the value is sure to be what is wanted."""
        kind = self.condition if want.condition else self.integer or self.condition or not want.integer
        return kind and want.low - 1e-12 <= self.low <= self.high <= want.high + 1e-12

    def walk(self):
        """The expression and all its parts."""
        yield self
        for p in self.parts:
            yield from p.walk()


Builder = Callable[["World", "Place", Want, int], "Expr | None"]


@dataclass(frozen=True)
class Form:
    """One form.

    Attributes:
        needs: what must be allowed where it stands.
        whole: whether the language calls it an integer expression: where an integer is wanted others are refused.
        condition: whether it is a condition.
        vague: where a whole number or an option is wanted, the contract leaves open whether it is taken.
    """

    name: str
    build: Builder
    needs: frozenset[str] = frozenset()
    whole: bool = True
    condition: bool = False
    vague: bool = False


FORMS: dict[str, Form] = {}


def form(name: str, *needs: str, whole: bool = True, condition: bool = False, vague: bool = False) -> Callable[[Builder], Builder]:
    """Registers the builder of a form."""

    def register(build: Builder) -> Builder:
        FORMS[name] = Form(name, build, frozenset(needs), whole, condition, vague)
        return build

    return register


def literal(w: World, want: Want) -> Expr:
    """A number in the range, no less than 0 as written; `-` before it where the range is below 0."""
    if want.condition:
        return Expr("boolean", "true", (), 1, 1, condition=True) if want.high >= 1 else Expr("boolean", "false", condition=True)
    step = 1 if want.integer else 0.125
    low, high = math.ceil(want.low / step), math.floor(want.high / step)
    if low > high:
        middle = max((want.low + want.high) / 2, 0.0)
        return Expr("number", f"{middle:.6g}", (), float(f"{middle:.6g}"), float(f"{middle:.6g}"), want.integer and not middle)
    value = int(w.rng.integers(max(low, -8 if step < 1 else low), high + 1)) * step
    number = Expr("whole number" if want.integer else "number", f"{abs(value):g}", (), abs(value), abs(value), want.integer)
    if not want.integer and float(value).is_integer():
        number = replace(number, text=f"{abs(value):.1f}")
    return number if value >= 0 else Expr("neg", "(-{0})", (number,), value, value, want.integer)


def argument(w: World, p: Place, want: Want, depth: int) -> Expr:
    """A part of an expression from which the whole may come to lie in `want`."""
    if want.integer:
        wants = [Want(0, 1, True), Want(0, 2, True), Want(1, 2, True), Want(-1, 1, True)]
    else:
        wants = [REAL, PROBABILITY, POSITIVE, Want(-1, 0), Want(0, 0.5), Want(0, 2, True)]
    chosen = replace(want, condition=False) if w.rng.random() < 0.3 else wants[w.rng.integers(len(wants))]
    return anything(w, p, chosen, depth - 1)


@cache
def choices(allows: frozenset[str], condition: bool) -> tuple[list[str], list[str]]:
    """The forms that are allowed, and those of them that have no parts."""
    names = [f.name for f in FORMS.values() if f.needs <= allows and (f.condition or not condition or f.name in EITHER)]
    return names, [n for n in names if n in LEAVES]


def anything(w: World, p: Place, want: Want, depth: int) -> Expr:
    """A random expression that is allowed there and fits."""
    names, leaves = choices(p.allows, want.condition)
    for _ in range(12):
        pool = leaves if (depth <= 0 or w.rng.random() < 0.5) and leaves else names
        chosen = FORMS[pool[w.rng.integers(len(pool))]]
        if want.integer and (not chosen.whole or chosen.vague or chosen.condition):
            continue
        if chosen.name not in LEAVES and depth < -1:
            continue
        trial = w.fork()
        found = chosen.build(trial, p, want, depth)
        if found is not None and found.fits(want):
            w.adopt(trial)
            return found
    return literal(w, want)


def rooted(w: World, p: Place, want: Want, name: str, tries: int = 150) -> Expr | None:
    """An expression of one form that fits; None where the form has no such value."""
    for k in range(tries):
        trial = w.fork()
        found = FORMS[name].build(trial, p, want, 1 if k < tries // 2 else 2)
        if found is not None and found.fits(want):
            w.adopt(trial)
            return found
    return None


# Numbers that stand alone

LEAVES = {"whole number", "number", "boolean", "index name", "cell bit", "cell range", "cell spin", "latent", "input real", "input int"}
LEAVES |= {"param", "given real", "length", "param by index", "input by index"}
EITHER = {"if", "let", "let by index", "let by cell"}  # numbers or conditions, as their parts are


@form("whole number")
def _whole(w: World, p: Place, want: Want, depth: int):
    return literal(w, Want(max(0, want.low), want.high, True)) if want.high >= 0 else None


@form("number", whole=False)
def _number(w: World, p: Place, want: Want, depth: int):
    return literal(w, Want(max(0, want.low), want.high)) if want.high >= 0 else None


@form("boolean", condition=True)
def _boolean(w: World, p: Place, want: Want, depth: int):
    truth = want.high >= 1 and (want.low > 0 or w.rng.random() < 0.5)
    return Expr("boolean", "true" if truth else "false", (), int(truth), int(truth), condition=True)


@form("index name", INDEX)
def _index(w: World, p: Place, want: Want, depth: int):
    if not p.names:
        return None
    name = w.choice(sorted(p.names))
    low, high = p.names[name]
    return Expr("index name", name, (), low, high, True)


# Arithmetic


def corners(f, a: Expr, b: Expr) -> tuple[float, float]:
    """The range of a function that is monotone in each argument."""
    values = [f(x, y) for x, y in itertools.product((a.low, a.high), (b.low, b.high))]
    return min(values), max(values)


def binary(name: str, symbol: str, f, whole: bool = True) -> None:
    """Registers an operator of two numbers; `f` gives None where it is not defined."""

    @form(name, whole=whole)
    def build(w: World, p: Place, want: Want, depth: int):
        a, b = argument(w, p, want, depth), argument(w, p, want, depth)
        found = f(a, b)
        if found is None:
            return None
        low, high = found
        integer = whole and all(x.integer or x.condition for x in (a, b)) and (symbol != "^" or b.low >= 0)
        return Expr(name, f"({{0}} {symbol} {{1}})", (a, b), low, high, integer)


def _divided(a: Expr, b: Expr):
    return corners(lambda x, y: x / y, a, b) if b.low >= 0.2 or b.high <= -0.2 else None


def _floor(a: Expr, b: Expr):
    return corners(lambda x, y: x // y, a, b) if b.low == b.high and b.low >= 0.25 else None


def _remainder(a: Expr, b: Expr):
    if b.low != b.high or b.low < 0.25:
        return None
    if a.low >= 0 and a.high < b.low:
        return a.low, a.high
    return 0, b.low - 1 if a.integer and b.integer else b.low


def _power(a: Expr, b: Expr):
    if b.low != b.high or b.low not in (0, 1, 2):
        return None if a.low < 0.2 or a.high > 3 else corners(lambda x, y: x**y, a, b)
    ends = [x**b.low for x in (a.low, a.high)]
    return (0 if a.low < 0 < a.high and b.low == 2 else min(ends)), max(ends)


binary("+", "+", lambda a, b: (a.low + b.low, a.high + b.high))
binary("-", "-", lambda a, b: (a.low - b.high, a.high - b.low))
binary("*", "*", lambda a, b: corners(lambda x, y: x * y, a, b))
binary("/", "/", _divided, whole=False)
binary("//", "//", _floor)
binary("%", "%", _remainder)
binary("^", "^", _power)


@form("neg")
def _neg(w: World, p: Place, want: Want, depth: int):
    a = anything(w, p, Want(-want.high, -want.low, want.integer), depth - 1)
    return Expr("neg", "(-{0})", (a,), -a.high, -a.low, a.integer or a.condition)


# Comparisons and conditions


def comparison(name: str, symbol: str, sure, never) -> None:
    """Registers a comparison; `sure` and `never` say of two ranges whether it holds always or never."""

    @form(name, condition=True)
    def build(w: World, p: Place, want: Want, depth: int):
        a, b = (argument(w, p, w.choice([REAL, COUNT, BIT, want]), depth) for _ in range(2))
        if {a.domain, b.domain} == {"spin", "other"}:
            return None
        low, high = (1, 1) if sure(a, b) else (0, 0) if never(a, b) else (0, 1)
        return Expr(name, f"({{0}} {symbol} {{1}})", (a, b), low, high, condition=True)


def _above(a: Expr, b: Expr) -> bool:
    return a.low > b.high


def _same(a: Expr, b: Expr) -> bool:
    return a.low == a.high == b.low == b.high


comparison("==", "==", _same, lambda a, b: _above(a, b) or _above(b, a))
comparison("!=", "!=", lambda a, b: _above(a, b) or _above(b, a), _same)
comparison("<", "<", lambda a, b: _above(b, a), lambda a, b: a.low >= b.high)
comparison("<=", "<=", lambda a, b: a.high <= b.low, _above)
comparison(">", ">", _above, lambda a, b: a.high <= b.low)
comparison(">=", ">=", lambda a, b: a.low >= b.high, lambda a, b: _above(b, a))


def _condition(w: World, p: Place, want: Want, depth: int) -> Expr:
    return anything(w, p, Want(want.low if want.low > 0 else 0, min(want.high, 1), condition=True), depth - 1)


@form("and", condition=True)
def _and(w: World, p: Place, want: Want, depth: int):
    a, b = _condition(w, p, want, depth), _condition(w, p, want, depth)
    return Expr("and", "({0} and {1})", (a, b), min(a.low, b.low), min(a.high, b.high), condition=True)


@form("or", condition=True)
def _or(w: World, p: Place, want: Want, depth: int):
    a, b = _condition(w, p, want, depth), _condition(w, p, want, depth)
    return Expr("or", "({0} or {1})", (a, b), max(a.low, b.low), max(a.high, b.high), condition=True)


@form("not", condition=True)
def _not(w: World, p: Place, want: Want, depth: int):
    inner = Want(0, 0, condition=True) if want.low > 0 else Want(1, 1, condition=True) if want.high < 1 else CONDITION
    a = anything(w, p, inner, depth - 1)
    return Expr("not", "(not {0})", (a,), 1 - a.high, 1 - a.low, condition=True)


@form("if")
def _if(w: World, p: Place, want: Want, depth: int):
    test, yes, no = anything(w, p, CONDITION, depth - 1), *(anything(w, p, want, depth - 1) for _ in range(2))
    both = yes.condition and no.condition
    integer = all(x.integer or x.condition for x in (yes, no))
    return Expr("if", "(if {0} then {1} else {2})", (test, yes, no), min(yes.low, no.low), max(yes.high, no.high), integer, both)


# Functions


def unary(name: str, f, inside: Callable[[Expr], bool] = lambda a: True, whole: bool = False) -> None:
    """Registers a function that does not decrease."""

    @form(name, whole=whole)
    def build(w: World, p: Place, want: Want, depth: int):
        a = argument(w, p, want, depth)
        return Expr(name, f"{name}({{0}})", (a,), f(a.low), f(a.high)) if inside(a) else None


unary("exp", math.exp, lambda a: a.high <= 2)
unary("log", math.log, lambda a: a.low >= 0.2)
unary("sqrt", math.sqrt, lambda a: a.low >= 0)
unary("sigmoid", lambda v: 1 / (1 + math.exp(-v)))
unary("tanh", math.tanh)


@form("abs")
def _abs(w: World, p: Place, want: Want, depth: int):
    a = argument(w, p, want, depth)
    low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return Expr("abs", "abs({0})", (a,), low, max(abs(a.low), abs(a.high)), a.integer or a.condition)


def _extreme(name: str, f) -> None:
    @form(name)
    def build(w: World, p: Place, want: Want, depth: int):
        a, b = argument(w, p, want, depth), argument(w, p, want, depth)
        integer = all(x.integer or x.condition for x in (a, b))
        return Expr(name, f"{name}({{0}}, {{1}})", (a, b), f(a.low, b.low), f(a.high, b.high), integer)


_extreme("min", min)
_extreme("max", max)


@form("spin", vague=True)
def _spin(w: World, p: Place, want: Want, depth: int):
    a = anything(w, p, Want(1, 1, True) if want.low >= 0 else BIT, depth - 1)
    return Expr("spin", "spin({0})", (a,), 2 * a.low - 1, 2 * a.high - 1, True)


@form("bit")
def _bit(w: World, p: Place, want: Want, depth: int):
    spin = FORMS["cell spin"].build(w, p, REAL, 0) if {CELLS} <= p.allows and w.rng.random() < 0.8 else None
    a = spin or Expr("spin", "spin({0})", (anything(w, p, Want(max(0, want.low), 1, True), depth - 1),), -1, 1, True)
    low = 0 if spin is not None else a.parts[0].low
    return Expr("bit", "bit({0})", (a,), low, 1 if spin is not None else a.parts[0].high, True)


# Sums


def _sum(w: World, p: Place, want: Want, depth: int, name: str, loops: str, names: dict[str, tuple[int, int]], count: int, pair=()):
    inner = p.within(names, pair)
    part = Want(want.low / max(count, 1), want.high / max(count, 1), want.integer) if not count or w.rng.random() < 0.7 else want
    if want.integer and count:
        part = w.choice([Want(0, 1, True), Want(0, 0, True), Want(1, 1, True)])
    body = anything(w, inner, replace(part, condition=False), depth - 1)
    low, high = body.low * count, body.high * count
    return Expr(name, "sum({0} " + loops + ")", (body,), low, high, body.integer or body.condition)


@form("sum")
def _sum_range(w: World, p: Place, want: Want, depth: int):
    q, n = w.fresh("q"), int(w.rng.integers(1, 4))
    return _sum(w, p, want, depth, "sum", f"for {q} in range({n})", {q: (0, n - 1)}, n)


@form("sum if")
def _sum_if(w: World, p: Place, want: Want, depth: int):
    q = w.fresh("q")
    return _sum(w, p, want, depth, "sum if", f"for {q} in range(3) if {q} != 1", {q: (0, 2)}, 2)


@form("sum of two loops")
def _sum_two(w: World, p: Place, want: Want, depth: int):
    q, r = w.fresh("q"), w.fresh("q")
    first, second = int(w.rng.integers(1, 3)), int(w.rng.integers(1, 3))
    loops = f"for {q} in range({first}) for {r} in range({second})"
    return _sum(w, p, want, depth, "sum of two loops", loops, {q: (0, first - 1), r: (0, second - 1)}, first * second)


@form("sum over edges")
def _sum_edges(w: World, p: Place, want: Want, depth: int):
    q, r = w.fresh("q"), w.fresh("q")
    loops = f"for ({q}, {r}) in {w.graph()}.edges"
    return _sum(w, p, want, depth, "sum over edges", loops, {q: (0, w.n - 2), r: (1, w.n - 1)}, len(w.edges), (q, r))


@form("sum over a domain")
def _sum_domain(w: World, p: Place, want: Want, depth: int):
    total = w.number(want)
    table = w.table([total, 0, 0] if want.integer else [0.5 * total, 0.25 * total, 0.25 * total], want.integer)
    a = w.fresh("q")
    part = Expr("input by label", f"{table}[{a}]", (), min(total, 0), max(total, 0), want.integer)
    return Expr("sum over a domain", "sum({0} for " + f"{a} in {w.domain()})", (part,), total, total, want.integer)


@form("sum of nothing")
def _sum_empty(w: World, p: Place, want: Want, depth: int):
    q = w.fresh("q")
    if w.rng.random() < 0.5:
        return _sum(w, p, REAL, depth, "sum of nothing", f"for {q} in range(1) if {q} > 0", {q: (0, 0)}, 0)
    return _sum(w, p, COUNT, depth, "sum of nothing", f"for {q} in range(3) if {q} > 2", {q: (0, 2)}, 0)
