"""Every place where an expression may stand, with what the contract of the language lets it mention there and what value it needs.

A place adds the statements around the expression, so that what it says shows in log p, a mask, a kernel, a prior or an option.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._forms import (
    CELLS,
    CONDITION,
    COUNT,
    GIVEN,
    INDEX,
    LATENT,
    LETS,
    PAIR,
    PARAMS,
    POSITIVE,
    PROBABILITY,
    REAL,
    Expr,
    Want,
)
from ._world import Place

if TYPE_CHECKING:
    from ._world import World

MODEL = frozenset({CELLS, LATENT, PARAMS, LETS, GIVEN, INDEX, PAIR})
STATE = frozenset({CELLS, LATENT, LETS, GIVEN, INDEX, PAIR})
INDEXED = frozenset({INDEX, PAIR})
NOTHING: frozenset[str] = frozenset()

Make = Callable[[Want, Place], Expr]


@dataclass(frozen=True)
class Position:
    """One place.

    Attributes:
        allows: what may be mentioned there.
        want: the range of the value, for the table of forms.
        put: adds the expression, made by its second argument, to a program.
        closed: a form that the contract does not name there may be refused: numbers and inputs are promised only.
        arithmetic: the grammar takes numbers, names and arithmetic only.
        samples_only: a parameter may be mentioned, and then the mask draws but does not fit.
        normalised: an argument of a distribution, which may mention parameters or cells where that leaves it normalised.
    """

    name: str
    allows: frozenset[str]
    want: Want
    put: Callable[[World, Make], None]
    closed: bool = False
    arithmetic: bool = False
    samples_only: bool = False
    normalised: bool = False


class Impossible(Exception):
    """A form that has no such value in this place of this program."""


POSITIONS: dict[str, Position] = {}


def position(name: str, allows: frozenset[str], want: Want, **options: bool):
    """Registers a place."""

    def register(put: Callable[[World, Make], None]):
        POSITIONS[name] = Position(name, allows, want, put, **options)
        return put

    return register


# Loops


def loop(w: World, allows: frozenset[str], kind: str = "") -> tuple[str, Place]:
    """A `for` with what is in scope behind it; perhaps none."""
    kind = kind or w.choice(["none", "site", "site", "shifted", "edges", "two", "unused"])
    if kind == "none":
        return "", Place(allows - {INDEX, PAIR} | ({PAIR} & allows))
    if kind == "site":
        return f"for i in {w.site()}", Place(allows, {"i": (0, w.n - 1)})
    if kind == "shifted":
        return f"for i in {w.site()} if i < {w.n - 1}", Place(allows, {"i": (0, w.n - 2)})
    if kind == "two":
        return f"for t in range(2) for i in {w.site()}", Place(allows, {"i": (0, w.n - 1), "t": (0, 1)})
    if kind == "unused":
        return "for t in range(3)", Place(allows, {"t": (0, 2)})
    return f"for (i, j) in {w.graph()}.edges", Place(allows, {"i": (0, w.n - 2), "j": (1, w.n - 1)}, (("i", "j"),))


def a_cell(w: World, place: Place | None = None) -> str:
    """A cell that is a number, for what would otherwise change nothing."""
    place = place or Place(frozenset({CELLS}))
    options = [s for s in ("x", "k", "b") if s in w.declared] or [w.variable(place, "k")]
    if options == [None]:
        raise Impossible
    return w.choice([{"x": "x[0]", "k": "k", "b": "b[1]"}[s] for s in options if s])


# Terms of log p


def factor(name: str, kind: str = "") -> None:
    """Registers a factor behind a kind of loop."""

    @position(name, MODEL if kind != "none" else MODEL - {INDEX}, REAL)
    def put(w: World, make: Make):
        clauses, place = loop(w, MODEL, kind)
        w.add("model", f"factor {{0}} {clauses}", make(REAL, place), position=name)


factor("factor", "none")
factor("factor of sites", "site")
factor("factor of some sites", "shifted")
factor("factor of edges", "edges")
factor("factor of many like instances", "unused")
factor("factor of two loops", "two")


@position("condition of a factor's loop", INDEXED, CONDITION)
def _filter(w: World, make: Make):
    clauses, place = loop(w, INDEXED, w.choice(["site", "edges", "two"]))
    cell = "x[i]" if w.variable(place, "x") else a_cell(w)
    w.add("model", f"factor 0.375 * {cell} {clauses} if {{0}}", make(CONDITION, place), position="condition of a factor's loop")


@position("require", STATE, CONDITION)
def _require(w: World, make: Make):
    clauses, place = loop(w, STATE)
    w.flags.add("zeros")
    cell = a_cell(w)
    w.add("model", f"require {cell} == 1 or {{0}} {clauses}", make(CONDITION, place), position="require")


@position("condition of a require's loop", INDEXED, CONDITION)
def _require_filter(w: World, make: Make):
    clauses, place = loop(w, INDEXED, w.choice(["site", "edges", "two"]))
    w.flags.add("zeros")
    other = "k != i" if w.variable(place, "k") else "i != 0"
    text = f"require {other} or {a_cell(w)} == 1 {clauses} if {{0}}"
    w.add("model", text, make(CONDITION, place), position="condition of a require's loop")


@position("root of a require", STATE, CONDITION)
def _require_root(w: World, make: Make):
    clauses, place = loop(w, STATE, w.choice(["none", "site"]))
    w.flags.add("zeros")
    w.add("model", f"require {{0}} {clauses}", make(CONDITION, place), position="root of a require")


@position("test of an if", MODEL, CONDITION)
def _test(w: World, make: Make):
    clauses, place = loop(w, MODEL)
    text = f"factor if {{0}} then 0.625 * {a_cell(w)} else -0.25 {clauses}"
    w.add("model", text, make(CONDITION, place), position="test of an if")


@position("branch of an if", MODEL, REAL)
def _branch(w: World, make: Make):
    clauses, place = loop(w, MODEL)
    text = f"factor if {a_cell(w)} == 1 then {{0}} else 0.5 {clauses}"
    w.add("model", text, make(REAL, place), position="branch of an if")


def operand(name: str, text: str, want: Want, allows: frozenset[str] = MODEL) -> None:
    """Registers a place inside an expression of a factor."""

    @position(name, allows, want)
    def put(w: World, make: Make):
        clauses, place = loop(w, allows)
        w.add("model", f"factor {text} {clauses}".replace("CELL", a_cell(w)), make(want, place), position=name)


operand("operand of a product", "{0} * CELL", REAL)
operand("operand of a difference", "0.5 - {0}", REAL)
operand("argument of exp", "exp({0})", Want(-2, 1))
operand("argument of min", "min({0}, 0.25)", REAL)
operand("argument of log", "log({0})", POSITIVE)
operand("exponent", "1.5 ^ {0}", REAL)
operand("divisor", "1 / {0}", POSITIVE)
operand("side of a comparison", "0.5 * ({0} <= 0.5)", REAL)
operand("side of an and", "0.5 * (CELL == 1 and {0})", CONDITION)
operand("argument of not", "0.5 * (not {0})", CONDITION)


@position("body of a sum", MODEL, REAL)
def _body(w: World, make: Make):
    clauses, place = loop(w, MODEL)
    q = w.fresh("q")
    w.add("model", f"factor sum({{0}} for {q} in range(2)) {clauses}", make(REAL, place.within({q: (0, 1)})), position="body of a sum")


@position("condition of a sum's loop", INDEXED, CONDITION)
def _sum_filter(w: World, make: Make):
    clauses, place = loop(w, INDEXED)
    q, cell = w.fresh("q"), a_cell(w)
    text = f"factor sum(0.25 * {cell} * ({q} + 1) for {q} in range(3) if {{0}}) {clauses}"
    w.add("model", text, make(CONDITION, place.within({q: (0, 2)})), position="condition of a sum's loop")


@position("range of a sum's loop", NOTHING, COUNT)
def _sum_range(w: World, make: Make):
    q = w.fresh("q")
    text = f"factor sum(0.25 * {a_cell(w)} * ({q} + 1) for {q} in range({{0}}))"
    w.add("model", text, make(COUNT, Place(NOTHING)), position="range of a sum's loop")


@position("let", MODEL - {INDEX}, REAL)
def _let(w: World, make: Make):
    name = w.let("", make(REAL, Place(MODEL - {INDEX})))
    w.add("model", f"factor {name} * {a_cell(w)}")


@position("let of an array", MODEL, REAL)
def _let_array(w: World, make: Make):
    i = w.fresh("q")
    name = w.let(f"[{i} in {w.site()}]", make(REAL, Place(MODEL, {i: (0, w.n - 1)})))
    w.add("model", f"factor {name}[i] * (i + 1) for i in site")


@position("let of a condition", STATE, CONDITION)
def _let_condition(w: World, make: Make):
    name = w.let("", make(CONDITION, Place(STATE - {INDEX})))
    w.flags.add("zeros")
    w.add("model", f"require {name} or {a_cell(w)} == 1")


# Indices

CELL_INDEX = frozenset({CELLS, LATENT, LETS, GIVEN, INDEX, PAIR})


def _site_want(w: World) -> Want:
    return Want(0, w.n - 1, True)


def index(name: str, declare: Callable[[World], str], text: str) -> None:
    """Registers an index into something declared over the sites."""

    @position(name, CELL_INDEX, Want(0, 2, True))
    def put(w: World, make: Make):
        clauses, place = loop(w, CELL_INDEX)
        array = declare(w)
        w.add("model", f"factor {text.replace('ARRAY', array)} {clauses}", make(_site_want(w), place), position=name)


def _site_param(w: World) -> str:
    return w.param(f"[{w.fresh('q')} in {w.site()}]", "", (w.n,), REAL, w.numbers(REAL, (w.n,)))


def _site_let(w: World) -> str:
    name, q = w.fresh("l"), w.fresh("q")
    w.add("model", f"let {name}[{q} in {w.site()}] = 0.5 * {q} * {a_cell(w)}")
    return name


index("index of a parameter", _site_param, "ARRAY[{0}] * 0.75")
index("index of an input", lambda w: w.array(REAL, [w.number(REAL) for _ in range(w.n)]), "ARRAY[{0}]")
index("index of a let", _site_let, "ARRAY[{0}]")


@position("index of a variable", CELL_INDEX, Want(0, 2, True))
def _variable_index(w: World, make: Make):
    clauses, place = loop(w, CELL_INDEX)
    w.site()
    name = w.variable(place, "x") or w.variable(place, "b")
    if name is None:
        raise Impossible
    want = Want(0, w.n - 1 if name == "x" else 1, True)
    w.add("model", f"factor 0.375 * {name}[{{0}}] {clauses}", make(want, place), position="index of a variable")


# Normalised distributions and priors


def _own(w: World, size: int, text: str) -> str | None:
    if w.states * size > 288:
        return None
    w.states *= size
    name = w.fresh("c")
    w.add("cells", text.format(name))
    return name


def own(w: World, size: int, text: str) -> str:
    """A variable of its own."""
    name = _own(w, size, text)
    if name is None:
        raise Impossible
    return name


@position("entry of a list of probabilities", INDEXED, PROBABILITY, normalised=True)
def _probability(w: World, make: Make):
    looped = w.rng.random() < 0.6
    if looped:
        name = own(w, 4, "var {}[i in range(2)] : bit")
        e = make(PROBABILITY, Place(INDEXED, {"i": (0, 1)}))
        text = f"{name}[i] ~ categorical([{{0}}, 1 - {{0}}]) for i in range(2)"
    else:
        name = own(w, 2, "var {} : bit")
        e = make(PROBABILITY, Place(INDEXED - {INDEX}))
        text = f"{name} ~ categorical([{{0}}, 1 - {{0}}])"
    w.flags.add("zeros")
    w.add("model", text, e, position="entry of a list of probabilities")


@position("index of a row of probabilities", CELL_INDEX - {INDEX}, Want(0, 2, True))
def _row(w: World, make: Make):
    name = own(w, 2, "var {} : bit")
    a, b = w.fresh("q"), w.fresh("q")
    if w.rng.random() < 0.5:
        table = w.simplex(f"[{a} in range({w.n}), {b} in range(2)]", (w.n, 2))[0]
    else:
        first = w.rng.uniform(0.1, 0.9, w.n)
        table = w.array(PROBABILITY, [[v, 1 - v] for v in first])
    e = make(_site_want(w), Place(CELL_INDEX - {INDEX}))
    w.add("model", f"{name} ~ categorical({table}[{{0}}])", e, position="index of a row of probabilities")


@position("condition of a distribution's loop", INDEXED, CONDITION)
def _distribution_filter(w: World, make: Make):
    name = own(w, 4, "var {}[i in range(2)] : bit")
    e = make(CONDITION, Place(INDEXED, {"i": (0, 1)}))
    w.add("model", f"{name}[i] ~ categorical([0.25, 0.75]) for i in range(2) if {{0}}", e, position="condition of a distribution's loop")


def prior(name: str, text: str, want: Want, kind: str = "", values: Want = REAL) -> None:
    """Registers an argument of a prior."""

    @position(name, INDEXED, want, normalised=True)
    def put(w: World, make: Make):
        p = w.fresh("p")
        axes = w.choice(["", "site", "edges"])
        place, declared, shape = Place(INDEXED - {INDEX}), "", ()
        if kind == ": simplex":
            declared, shape = f"[(i, j) in {w.graph()}.edges, a in range(3)]", (len(w.edges), 3)
            place = Place(INDEXED, {"i": (0, w.n - 2), "j": (1, w.n - 1), "a": (0, 2)}, (("i", "j"),))
        elif axes == "site":
            declared, shape, place = f"[i in {w.site()}]", (w.n,), Place(INDEXED, {"i": (0, w.n - 1)})
        elif axes == "edges":
            declared, shape = f"[(i, j) in {w.graph()}.edges]", (len(w.edges),)
            place = Place(INDEXED, {"i": (0, w.n - 2), "j": (1, w.n - 1)}, (("i", "j"),))
        w.params[p] = w.numbers(values, shape) if kind != ": simplex" else w.rng.dirichlet([2.0] * 3, shape[:1])
        w.flags.add("prior")
        w.add("model", f"param {p}{declared}{kind} ~ {text}", make(want, place), position=name)
        entry = "[0, 1, 1]" if kind == ": simplex" else {"": "", "site": "[0]", "edges": "[0, 1]"}[axes]
        w.add("model", f"factor 0.5 * {p}{entry} * {a_cell(w)}")


UNIT = ": real(lower = 0, upper = 1)"
prior("mean of normal", "normal({0}, 1)", REAL)
prior("sd of normal", "normal(0.5, {0})", POSITIVE)
prior("mean of laplace", "laplace({0}, 0.5)", REAL)
prior("scale of laplace", "laplace(0, {0})", POSITIVE)
prior("df of student_t", "student_t({0}, 0, 1)", POSITIVE)
prior("mean of student_t", "student_t(3, {0}, 1)", REAL)
prior("scale of student_t", "student_t(3, 0, {0})", POSITIVE)
prior("shape of gamma", "gamma({0}, 2)", POSITIVE, " : positive", POSITIVE)
prior("rate of gamma", "gamma(2, {0})", POSITIVE, " : positive", POSITIVE)
prior("first shape of beta", "beta({0}, 2)", POSITIVE, " " + UNIT, Want(0.2, 0.8))
prior("second shape of beta", "beta(2, {0})", POSITIVE, " " + UNIT, Want(0.2, 0.8))
prior("concentration of dirichlet", "dirichlet({0})", POSITIVE, ": simplex")


# Sizes, bounds and defaults


def bound(name: str, text: str, want: Want, values: Want) -> None:
    """Registers a bound of a type."""

    @position(name, NOTHING, want)
    def put(w: World, make: Make):
        p = w.fresh("p")
        w.params[p] = w.numbers(values, ())
        w.flags.add("bounds")
        w.add("model", f"param {p} : {text}", make(want, Place(NOTHING)), position=name)
        w.add("model", f"factor {p} * {a_cell(w)}")


bound("lower bound", "real(lower = {0})", REAL, Want(2.1, 3))
bound("upper bound", "real(upper = {0})", REAL, Want(-3, -2.1))
bound("both bounds", "real(lower = -3, upper = {0})", REAL, Want(-2.9, -2.1))


@position("size of a domain", NOTHING, COUNT)
def _domain_size(w: World, make: Make):
    name = w.fresh("c")
    w.states *= 2
    w.add("cells", f"var {name} : range({{0}})", make(COUNT, Place(NOTHING)), position="size of a domain")
    w.add("model", f"factor 0.625 * {name} - 0.25 * {name} * {a_cell(w)}")


@position("size of an index set", NOTHING, COUNT)
def _index_size(w: World, make: Make):
    name = w.fresh("s")
    w.add("sets", f"index {name} = range({{0}})", make(COUNT, Place(NOTHING)), position="size of an index set")
    w.add("model", f"factor 0.25 * (i + 1) * {a_cell(w)} for i in {name}")


@position("size of a loop", NOTHING, COUNT)
def _loop_size(w: World, make: Make):
    e = make(COUNT, Place(NOTHING))
    w.add("model", f"factor 0.25 * (i + 1) * {a_cell(w)} for i in range({{0}})", e, position="size of a loop")


@position("size of an array of cells", NOTHING, COUNT)
def _array_size(w: World, make: Make):
    name = w.fresh("c")
    w.states *= 4
    w.add("cells", f"var {name}[i in range({{0}})] : bit", make(COUNT, Place(NOTHING)), position="size of an array of cells")
    w.add("model", f"factor 0.625 * {name}[0] * {a_cell(w)}")


@position("size of a graph", NOTHING, COUNT)
def _graph_size(w: World, make: Make):
    name = w.fresh("g")
    call = w.choice(["chain({0})", "grid({0}, 2)", "grid(2, {0}, wrap = false)", "complete({0})"])
    w.add("sets", f"graph {name} = {call}", make(COUNT, Place(NOTHING)), position="size of a graph")
    w.add("model", f"factor 0.25 * (i + 1) * {a_cell(w)} for i in {name}.nodes")


@position("default of an input", NOTHING, REAL)
def _default(w: World, make: Make):
    name = w.fresh("u")
    w.add("sets", f"input {name} : real = {{0}}", make(REAL, Place(NOTHING)), position="default of an input")
    w.add("model", f"factor {name} * {a_cell(w)}")


@position("entry of a default table", NOTHING, REAL, closed=True)
def _default_entry(w: World, make: Make):
    name = w.fresh("u")
    w.add("sets", f"input {name}[2] : real = [{{0}}, 0.5]", make(REAL, Place(NOTHING)), position="entry of a default table")
    w.add("model", f"factor {name}[t] * {a_cell(w)} for t in range(2)")
