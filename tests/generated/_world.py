"""A program in the making: what it declares so far, its inputs, parameters and given data, each drawn when it is first named."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ._forms import Expr, Want

LABELS = ("sun", "rain", "snow")
MOST_STATES = 288
WORD = re.compile(r"[A-Za-z_]\w*")
DECLARED = re.compile(r"(?:domain|input|index|graph|given|var|latent|param|let) (\w+)")
LENGTH = re.compile(r"(?:len\d+|n_pairs)")
SECTIONS = ("inputs", "sets", "given", "cells", "model", "masks", "samplers", "others")


@dataclass(frozen=True)
class Statement:
    """One statement: its text with `{0}` for its expressions. `position` names the place that its first expression was put in."""

    section: str
    text: str
    parts: tuple[Expr, ...] = ()
    position: str = ""

    def render(self) -> str:
        """The text of the whole."""
        return self.text.format(*(p.render() for p in self.parts))


@dataclass(frozen=True)
class Place:
    """What an expression may mention where it stands.

    Attributes:
        allows: cells, params, lets, given, index, pair: kinds of names.
        names: the index names in scope with the range of each.
        pairs: pairs of index names that are the ends of an edge.
    """

    allows: frozenset[str]
    names: dict[str, tuple[int, int]] = field(default_factory=dict)
    pairs: tuple[tuple[str, str], ...] = ()

    def within(self, names: dict[str, tuple[int, int]], pair: Sequence[str] = ()) -> Place:
        """Inside a further loop."""
        pairs = (*self.pairs, tuple(pair)) if pair else self.pairs
        more = {"index", "pair"} if pair else {"index"}
        return replace(self, names={**self.names, **names}, pairs=pairs, allows=self.allows | more)

    def outside(self, names: dict[str, tuple[int, int]] | None = None) -> Place:
        """In the declaration of a `let`, where only its own index names are in scope."""
        kept = self.allows - {"index", "pair"} | ({"index"} if names else frozenset())
        return replace(self, names=names or {}, pairs=(), allows=kept)

    def allowing(self, allows: frozenset[str]) -> Place:
        """The same place, with other kinds of names."""
        return replace(self, allows=frozenset(allows))


class World:
    """A program in the making, from a seed."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.seed = seed
        self.n = int(self.rng.integers(2, 4))
        self.shape = str(self.rng.choice(["chain", "complete", "edges", "wrapped"]))
        self.statements: list[Statement] = []
        self.inputs: dict[str, Any] = {}
        self.params: dict[str, np.ndarray] = {}
        self.given_row: dict[str, Any] = {}
        self.declared: dict[str, str] = {}
        self.states = 1
        self.instances: list[tuple[str, str]] = []  # (form, position)
        self.flags: set[str] = set()
        self.counter = 0

    def fork(self) -> World:
        """A copy in which something may be tried."""
        other = copy.copy(self)
        for name in ("statements", "inputs", "params", "given_row", "declared", "instances", "flags"):
            setattr(other, name, copy.copy(getattr(self, name)))
        return other

    def adopt(self, other: World) -> None:
        """Become the copy."""
        self.__dict__.update(other.__dict__)

    # Numbers

    def choice(self, options: Sequence[Any]) -> Any:
        """One of the options."""
        return options[int(self.rng.integers(len(options)))]

    def fresh(self, stem: str) -> str:
        """A name that was not used."""
        self.counter += 1
        return f"{stem}{self.counter}"

    def number(self, want: Want) -> Any:
        """A number in the range."""
        if want.integer:
            low, high = int(np.ceil(want.low)), int(np.floor(want.high))
            return int(self.rng.integers(low, high + 1)) if low <= high else None
        return float(self.rng.uniform(want.low, want.high))

    def numbers(self, want: Want, shape: tuple[int, ...]) -> np.ndarray:
        """An array of them."""
        return self.rng.uniform(want.low, want.high, shape)

    # Statements

    def add(self, section: str, text: str, *parts: Expr, position: str = "") -> None:
        """Add a statement."""
        self.statements.append(Statement(section, text, parts, position))

    def once(self, name: str, section: str, text: str) -> str:
        """Declare a name where it is not declared."""
        if name not in self.declared:
            self.declared[name] = text
            self.add(section, text)
        return name

    # Inputs and sets

    def input(self, kind: str, value: float) -> str:
        """A number bound from Python."""
        name = self.fresh("u")
        self.inputs[name] = value
        self.add("inputs", f"input {name} : {kind}")
        return name

    def array(self, want: Want, values: Sequence[Any]) -> str:
        """An array bound from Python."""
        name, array = self.fresh("u"), np.asarray(values)
        self.inputs[name] = array
        self.add("inputs", f"input {name}[{', '.join(map(str, array.shape))}] : {'int' if want.integer else 'real'}")
        return name

    def length(self, n: int) -> str:
        """A name that is the length of an axis."""
        name, axis = self.fresh("u"), self.fresh("len")
        self.inputs[name] = np.zeros(n)
        self.add("inputs", f"input {name}[{axis}] : real")
        return axis

    def table_over_domain(self, want: Want) -> tuple[str, float, float]:
        """An array with an axis over a domain."""
        values = [self.number(want) for _ in LABELS]
        values = [0] * 3 if None in values else values
        return self.table(values, want.integer), min(values), max(values)

    def table(self, values: Sequence[Any], integer: bool) -> str:
        """The same with given values."""
        name = self.fresh("u")
        self.inputs[name] = np.array(values)
        self.add("inputs", f"input {name}[{self.domain()}] : {'int' if integer else 'real'}")
        return name

    def input_label(self) -> tuple[str, int]:
        """A label bound from Python, and its code."""
        name, code = self.fresh("u"), int(self.rng.integers(3))
        self.inputs[name] = LABELS[code]
        self.add("inputs", f"input {name} : {self.domain()}")
        return name, code

    def domain(self) -> str:
        """A domain of labels."""
        if "sky" not in self.declared:
            self.declared["sky"] = ""
            self.statements.insert(0, Statement("inputs", 'domain sky = labels("sun", "rain", "snow")'))
        return "sky"

    def site(self) -> str:
        """An index set of n members."""
        return self.once("site", "sets", f"index site = range({self.n})")

    def graph(self) -> str:
        """A graph of n nodes that has the edge (0, 1)."""
        if self.shape == "edges":
            self.inputs["pairs"] = np.array(self.edges)[::-1, ::-1]
            self.once("pairs", "inputs", "input pairs[n_pairs, 2] : int")
        call = {"chain": f"chain({self.n})", "complete": f"complete({self.n})", "edges": f"edges(pairs, nodes = {self.n})"}
        return self.once("G", "sets", f"graph G = {call.get(self.shape, f'chain({self.n}, wrap = true)')}")

    @property
    def edges(self) -> list[tuple[int, int]]:
        """Its edges."""
        if self.n == 3 and self.shape in ("complete", "wrapped"):
            return [(0, 1), (0, 2), (1, 2)]
        return [(i, i + 1) for i in range(self.n - 1)]

    def pair(self, p: Place) -> tuple[str, str]:
        """The ends of an edge: index names where there are any, else numbers."""
        self.graph()
        return self.choice(p.pairs) if p.pairs else ("0", "1")

    # Cells and what comes with them

    def variable(self, p: Place, stem: str) -> str | None:
        """A variable by kind: x spins, b bits, k of three values, y of edges, z latent, w labels, c letters. None where it is too many."""
        if stem not in self.declared:
            site = self.site() if stem in ("x", "b") else ""
            graph = self.graph() if stem == "y" else ""
            own = {"x": 2**self.n, "b": 4, "k": 3, "y": 2 ** len(self.edges), "z": 2, "w": 3}[stem]
            if self.states * own > MOST_STATES:
                return None
            self.states *= own
            text = {
                "x": f"var x[i in {site}] : spin",
                "b": "var b[j in range(2)] : bit",
                "k": "var k : range(3)",
                "y": f"var y[(i, j) in {graph}.edges] : bit",
                "z": "latent z : bit",
                "w": f"var w : {self.domain() if stem == 'w' else ''}",
            }
            self.once(stem, "cells", text[stem])
        return stem

    def label_cell(self, p: Place) -> str | None:
        """A cell of labels, or a given one."""
        if "given" in p.allows and self.rng.random() < 0.2:
            return self.given(p, "label")[0]
        return self.variable(p, "w")

    def given(self, p: Place, kind: str) -> tuple[str, float, float]:
        """A given variable and the range of its values."""
        name = {"real": "gr", "bit": "gb", "label": "gw"}[kind]
        if name not in self.declared:
            if kind == "real":
                self.once(name, "given", f"given gr[i in {self.site()}] : real(lower = 0, upper = 1)")
                self.given_row[name] = self.rng.uniform(0, 1, self.n)
            elif kind == "bit":
                self.once(name, "given", "given gb : bit")
                self.given_row[name] = int(self.rng.integers(2))
            else:
                self.once(name, "given", f"given gw : {self.domain()}")
                self.given_row[name] = LABELS[int(self.rng.integers(3))]
        return name, 0.0, 1.0

    def param(self, axes: str, kind: str, shape: tuple[int, ...], want: Want, values: Any) -> str:
        """A parameter with its values; positive where its range is."""
        name = self.fresh("p")
        kind = kind or ("positive" if want.low >= 0 else "")
        self.params[name] = np.asarray(values, dtype=float).reshape(shape)
        self.add("model", f"param {name}{axes}{' : ' + kind if kind else ''}")
        return name

    def simplex(self, axes: str, shape: tuple[int, ...]) -> tuple[str, float, float]:
        """A parameter whose last axis sums to 1."""
        name = self.fresh("p")
        self.params[name] = self.rng.dirichlet(np.full(shape[-1], 2.0), shape[:-1])
        self.add("model", f"param {name}{axes} : simplex")
        return name, 0.0, 1.0

    def let(self, axes: str, body: Expr) -> str:
        """A name for an expression."""
        name = self.fresh("l")
        self.add("model", f"let {name}{axes} = {{0}}", body, position="let")
        return name


def mentioned(statements: Sequence[Statement], text: str, names: Sequence[str]) -> list[str]:
    """Which of the names stand in a text, or in the `let`s that it uses."""
    lets = {x.text.split()[1].split("[")[0]: x.render() for x in statements if x.text.startswith("let ")}
    found, todo = set(), [text]
    while todo:
        words = set(WORD.findall(todo.pop())) - found
        found |= words
        todo += [lets[name] for name in words if name in lets]
    return [name for name in names if name in found]


def names_of(statement: Statement) -> set[str]:
    """The names that a declaration declares, those of axes among them; none of another statement."""
    declared = DECLARED.match(statement.text)
    return {declared[1], *LENGTH.findall(statement.text)} if declared else set()


def used(statements: Sequence[Statement]) -> list[Statement]:
    """The statements without the declarations that no other statement names."""
    left = list(statements)
    while True:
        words = [set(WORD.findall(x.render())) for x in left]
        kept = [x for k, x in enumerate(left) if not (own := names_of(x)) or any(own & o for j, o in enumerate(words) if j != k)]
        if len(kept) == len(left) or not any(x.section == "cells" for x in kept):
            return left
        left = kept


def render(statements: Sequence[Statement]) -> str:
    """The text of a program."""
    by = {s: [x.render() for x in statements if x.section == s] for s in SECTIONS}
    model = ["model m {", *("  " + t for s in ("given", "cells", "model") for t in by[s]), "}"]
    return "\n".join([*by["inputs"], *by["sets"], *model, *by["masks"], *by["samplers"], *by["others"]]) + "\n"
