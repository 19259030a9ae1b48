"""The places of masks and samplers: weights, rates, mixtures, indices of cells, conditions of loops, counts, inverse temperatures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._forms import BELOW_ONE, CELLS, CONDITION, COUNT, GIVEN, INDEX, LETS, NONNEGATIVE, PAIR, PARAMS, POSITIVE, PROBABILITY, Want
from ._positions import INDEXED, NOTHING, Impossible, Make, loop, position
from ._world import Place, mentioned

if TYPE_CHECKING:
    from ._world import World

PLAIN = frozenset({PARAMS, LETS, INDEX, PAIR})
ADAPTIVE = frozenset({PARAMS, LETS, INDEX, PAIR, CELLS, GIVEN})
VARIABLES = ("x", "b", "k", "y", "z", "w", "gr", "gb", "gw")


def cells(w: World, place: Place) -> tuple[str, str]:
    """A block for each turn of a loop, and another block, as lists of cells."""
    p = Place(frozenset({CELLS}))
    if w.variable(p, "x") is None:
        raise Impossible
    more = [t for s, t in (("k", "k"), ("b", "b[0]"), ("w", "w")) if s in w.declared or (w.rng.random() < 0.3 and w.variable(p, s))]
    own = "x[i], x[j]" if "j" in place.names else "x[i]" if "i" in place.names else w.choice(["x", "x[1]", "x[0]"])
    other = w.choice([*more, "x[0]"]) if more else "x[0]"
    return own, other


def _header(w: World, parts: str, adaptive: bool) -> str:
    seen = mentioned(w.statements, parts, [v for v in VARIABLES if v in w.declared])
    seen = [v for v in seen if v != "z"] or ["x"]
    return f" given {', '.join(seen)}" if adaptive else ""


def _add(w: World, name: str, body: str, e, where: str, given: str, equals: str = "") -> None:
    w.add("masks", f"mask {name} for m{given} {equals}{body}", e, position=where)
    w.add("samplers", f"sampler s_{name} for m {{{{ update K where K ~ {name} }}}}")


def weight(where: str, allows: frozenset[str], adaptive: bool) -> None:
    """Registers the weight of a block."""

    @position(where, allows, NONNEGATIVE, samples_only=True)
    def put(w: World, make: Make):
        clauses, place = loop(w, allows)
        own, other = cells(w, place)
        e = make(NONNEGATIVE, place)
        name, extra = w.fresh("m"), w.choice(["0.375", "1", "0.5"])
        body = f"{{{{ choose {{{{{own}}}}} {clauses} weight {{0}}  choose {{{{{other}}}}} weight {extra} }}}}"
        _add(w, name, body, e, where, _header(w, e.render(), adaptive))


def rate(where: str, allows: frozenset[str], adaptive: bool) -> None:
    """Registers the rate of cells."""

    @position(where, allows, PROBABILITY, samples_only=True)
    def put(w: World, make: Make):
        clauses, place = loop(w, allows, w.choice(["none", "site", "shifted"]))
        own, _ = cells(w, place)
        own = "x[0]" if own == "x" else own
        e = make(PROBABILITY, place)
        name = w.fresh("m")
        w.variable(Place(frozenset({CELLS})), "k")  # a rate beside it that is not 0
        alone = "k" not in w.declared
        body = f"{{{{ each {own} {clauses} rate {'0.05 + 0.9 * ({0})' if alone else '{0}'}"
        body += " }}" if alone else "  each k rate 0.25 }}"
        _add(w, name, body, e, where, _header(w, e.render(), adaptive))


weight("weight of a block", PLAIN, False)
weight("weight of a block, adaptive", ADAPTIVE, True)
rate("rate of a cell", PLAIN, False)
rate("rate of a cell, adaptive", ADAPTIVE, True)


@position("condition of a block's loop", INDEXED, CONDITION)
def _choose_filter(w: World, make: Make):
    clauses, place = loop(w, INDEXED, w.choice(["site", "edges"]))
    own, other = cells(w, place)
    body = f"{{{{ choose {{{{{own}}}}} {clauses} if {{0}} weight 0.75  choose {{{{{other}}}}} weight 0.5 }}}}"
    _add(w, w.fresh("m"), body, make(CONDITION, place), "condition of a block's loop", "")


@position("condition of a cell's loop", INDEXED, CONDITION)
def _each_filter(w: World, make: Make):
    clauses, place = loop(w, INDEXED, "site")
    cells(w, place)
    w.variable(Place(frozenset({CELLS})), "k")
    if "k" not in w.declared:
        raise Impossible  # a mask that names no cell is refused
    body = f"{{{{ each x[i] {clauses} if {{0}} rate 0.75  each k rate 0.5 }}}}"
    _add(w, w.fresh("m"), body, make(CONDITION, place), "condition of a cell's loop", "")


@position("index of a block's cell", INDEXED, Want(0, 1, True))
def _block_index(w: World, make: Make):
    clauses, place = loop(w, INDEXED, w.choice(["none", "site", "shifted"]))
    _, other = cells(w, place)
    e = make(Want(0, w.n - 1, True), place)
    body = f"{{{{ choose {{{{x[{{0}}]}}}} {clauses} weight 0.75  choose {{{{{other}}}}} weight 0.5 }}}}"
    if w.rng.random() < 0.5:
        body = f"blocks({{{{x[{{0}}]}}}} {clauses}, {{{{{other}}}}})"
    _add(w, w.fresh("m"), body, e, "index of a block's cell", "", "= " if body.startswith("blocks") else "")


@position("condition of a loop of blocks", INDEXED, CONDITION)
def _blocks_filter(w: World, make: Make):
    clauses, place = loop(w, INDEXED, w.choice(["site", "edges"]))
    own, other = cells(w, place)
    body = f"blocks({{{{{own}}}}} {clauses} if {{0}}, {{{{{other}}}}})"
    _add(w, w.fresh("m"), body, make(CONDITION, place), "condition of a loop of blocks", "", "= ")


SOME = Want(0.05, 1)  # a rate of 0 is refused


def mask_form(where: str, text: str, want: Want, closed: bool, arithmetic: bool = False) -> None:
    """Registers an argument of a mask's form."""

    @position(where, NOTHING, want, closed=closed, arithmetic=arithmetic)
    def put(w: World, make: Make):
        _, other = cells(w, Place(NOTHING))
        body = text.replace("OTHER", other)
        _add(w, w.fresh("m"), body, make(want, Place(NOTHING)), where, "", "= ")


mask_form("size of subsets", "subsets(x, size = {0})", COUNT, False)
mask_form("rate of bernoulli", "bernoulli(x, rate = {0})", SOME, True)
mask_form("lower end of uniform", "bernoulli(x, rate = uniform({0}, 1))", PROBABILITY, True)
mask_form("upper end of uniform", "bernoulli(x, rate = uniform(0, {0}))", SOME, True)
MIXED = "mixture {{{{ {{0}} : {}  {} : {} }}}}"
mask_form("weight of a mixture of masks", MIXED.format("subsets(x, size = 1)", "0.75", "everything(x)"), POSITIVE, True, True)
mask_form(
    "weight of a last row",
    MIXED.format("X", "1", "everything(x)").replace("{0} : X  1", "0.75 : subsets(x, size = 1)  {0}"),
    POSITIVE,
    True,
    True,
)


# Samplers


def sampler(where: str, text: str, want: Want, allows: frozenset[str] = NOTHING, **options: bool) -> None:
    """Registers a place in the body of a sampler."""

    @position(where, allows, want, **options)
    def put(w: World, make: Make):
        kind = "site" if INDEX in allows else "none"
        _, place = loop(w, allows, kind)
        cells(w, place)
        wanted = Want(0, w.n - 1, True) if want == Want(0, 1, True) else want
        body = text.replace("SITE", w.site())
        w.add("samplers", f"sampler {w.fresh('s')} for m {{{{ {body} }}}}", make(wanted, place), position=where)


sampler("count of a repeat", "repeat {0} {{ update x[i] for i in SITE }}", COUNT)
sampler(
    "weight of a mixture of kernels",
    "mixture {{ {0} : update x  0.5 : update x[i] for i in SITE }}",
    POSITIVE,
    closed=True,
    arithmetic=True,
)
sampler("index of an update", "update x[{0}]", Want(0, 1, True))
sampler("index of an update in a loop", "update x[{0}] for i in SITE", Want(0, 1, True), INDEXED)
sampler("condition of an update's loop", "update x[i] for i in SITE if i == 0 or {0}", CONDITION, INDEXED)
sampler("inverse temperature", "temper(betas = [{0}, 1]) {{ update x[i] for i in SITE }}", BELOW_ONE)
