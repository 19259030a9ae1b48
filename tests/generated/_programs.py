"""Programs from seeds: which forms meet which places in which program, so that all that are allowed meet, and the programs themselves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from . import _mask_positions as _mask_positions
from . import _names as _names
from . import _option_positions as _option_positions
from ._forms import CELLS, FORMS, GIVEN, INDEX, LATENT, LETS, PAIR, PARAMS, Expr, Form, Want, rooted
from ._positions import POSITIONS, Impossible, Position, a_cell
from ._world import Place, Statement, World, render, used

PER_PROGRAM = 12
NUMBERS_AND_INPUTS = ("whole number", "number", "input real", "input int")
ARITHMETIC = (*NUMBERS_AND_INPUTS, "length", "input by number", "+", "-", "*", "/", "//", "%", "^", "neg", "input by label")
NAMED = ("index name", "input by index")
RANGES = {"cell spin": (-1, 1), "cell range": (0, 2), "sum of nothing": (0, 0), "length": (1, 1)}
BITS = (
    "cell bit",
    "cell by cell",
    "cell of an edge",
    "latent",
    "cell label ==",
    "cell label !=",
    "given real",
    "given bit",
    "given label ==",
)
RANGES |= dict.fromkeys((*BITS, "param simplex"), (0, 1))  # the least and the most value of a form that is a cell, or always one number
EITHER = ("if", "let", "let by index", "let by cell")  # a number or a condition


def verdict(form: Form, place: Position) -> str:
    """What the contract says of a form in a place: it `must` be taken, `may` be, or is `never`."""
    if LATENT in form.needs and CELLS in place.allows and LATENT not in place.allows:
        return "may"
    if place.normalised and form.needs & {PARAMS, CELLS, LATENT, LETS, GIVEN} - place.allows and not place.want.condition:
        return "may"  # what is normalised whatever it mentions, and priors whose arguments are parameters
    if form.needs - place.allows - {PAIR, INDEX} or (form.name in NAMED and INDEX not in place.allows):
        return "never"
    if place.want.condition and not form.condition and form.name not in EITHER:
        return "never"
    if (place.want.integer and not form.whole) or (place.arithmetic and form.name not in ARITHMETIC):
        return "never"
    odd = place.want.integer and (form.condition or form.vague)
    return "may" if odd or (place.closed and form.name not in NUMBERS_AND_INPUTS) else "must"


def has_value(form: Form, place: Position) -> bool:
    """Whether the form has a value that the place takes: a cell's values are what they are."""
    low, high = RANGES.get(form.name, (place.want.low, place.want.high))
    return place.want.low <= low <= high <= place.want.high and not (form.name == "spin" and place.want.high < 1)


def pairs(wanted: str) -> list[tuple[str, str]]:
    """Every form and place of a verdict."""
    found = itertools.product(FORMS.values(), POSITIONS.values())
    return [(f.name, p.name) for f, p in found if verdict(f, p) == wanted and (wanted == "never" or has_value(f, p))]


@dataclass(frozen=True)
class Program:
    """A program with all that its verbs need.

    Attributes:
        instances: which form was put in which place, on purpose.
        flags: what it has: zeros, a prior, bounds.
    """

    seed: int
    statements: tuple[Statement, ...]
    inputs: dict[str, Any] = field(repr=False)
    params: dict[str, np.ndarray] = field(repr=False)
    given: dict[str, Any] = field(repr=False)
    instances: tuple[tuple[str, str], ...]
    flags: frozenset[str]

    @property
    def text(self) -> str:
        """The text."""
        return render(self.statements)

    def declared(self, values: dict[str, Any]) -> dict[str, Any]:
        """Of inputs, parameters or given data, those that the text still names."""
        words = set(" ".join(x.render() for x in self.statements).replace("[", " ").replace(":", " ").split())
        return {k: v for k, v in values.items() if k in words}


def put(w: World, form: str, place: str, tries: int = 6, force: bool = False) -> bool:
    """Put a form in a place, somehow; False where it has no such value there. `force`: whatever may be mentioned there."""
    where = POSITIONS[place]
    for _ in range(tries):
        trial = w.fork()

        def make(want: Want, p: Place, trial: World = trial) -> Expr:
            if force:
                p = replace(p, allows=p.allows | FORMS[form].needs, names=p.names or {"nowhere": (0, 1)})
                want = replace(want, condition=want.condition and FORMS[form].condition, integer=want.integer and FORMS[form].whole)
            e = rooted(trial, p, want, form, 60) or (rooted(trial, p, Want(-9, 9), form) if force else None)
            if e is None:
                raise Impossible
            if where.arithmetic and e.text.startswith("(") and e.text.endswith(")"):
                e = replace(e, text=e.text[1:-1])
            return e

        try:
            where.put(trial, make)
        except Impossible:
            continue
        w.adopt(trial)
        w.instances.append((form, place))
        return True
    return False


def finished(w: World) -> Program:
    """The program of what was put together; a factor of its own for every variable that nothing else reads."""
    if not any(x.section == "cells" for x in w.statements):
        w.add("model", f"factor 0.5 * {a_cell(w)}")
    statements = used(w.statements)
    p = Program(w.seed, tuple(statements), w.inputs, w.params, w.given_row, tuple(w.instances), frozenset(w.flags))
    return replace(p, inputs=p.declared(w.inputs), params=p.declared(w.params), given=p.declared(w.given_row))


def alone(seed: int, form: str, place: str, force: bool = False) -> Program | None:
    """A program of one form in one place."""
    w = World(seed)
    return finished(w) if put(w, form, place, force=force) else None


@cache
def deck(seed: int, turn: int) -> tuple[tuple[str, str], ...]:
    """All that must be taken, in a random order, but every place once before any comes again: few programs reach all places."""
    found = pairs("must")
    shuffled = [found[k] for k in np.random.default_rng((seed, turn)).permutation(len(found))]
    first = {place: form for form, place in reversed(shuffled)}
    return (*((form, place) for place, form in first.items()), *(pair for pair in shuffled if first[pair[1]] != pair[0]))


def programs(seed: int, count: int, start: int = 0) -> Iterator[Program]:
    """Programs that go through the forms and places in a random order, again and again: any run of them meets all alike."""
    size = len(pairs("must"))
    late: list[tuple[str, str]] = []
    for k in range(start, start + count):
        w = World(int(np.random.default_rng((seed, k)).integers(2**31)))
        turn = [deck(seed, j // size)[j % size] for j in range(k * PER_PROGRAM, (k + 1) * PER_PROGRAM)]
        first, late = late[:4], late[4:]  # what had no room in one program comes first in another
        late += [pair for pair in (*first, *turn) if not put(w, *pair)]
        yield finished(w)
