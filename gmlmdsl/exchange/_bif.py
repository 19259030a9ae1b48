"""Reader and writer of the Bayesian Interchange Format, as bnlearn writes it."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from .._diagnostics import GmlmError, Source, Span, did_you_mean, listed
from ._names import one_word, written_row
from ._network import BayesianNetwork, Conditional, FiniteVariable, Rounding, verified_network, verify_size
from ._scan import Scanner, Token
from .limits import MOST_NUMBERS, MOST_STATES

Array = np.ndarray
# Commas and the bar of `( child | parents )` are blanks, as the format says.
TOKEN = re.compile(
    r"[\s,|]+|//[^\n]*|/\*.*?\*/"
    r'|"(?P<text>[^"\n]*)"|(?P<sign>[{}()\[\];])|(?P<word>[^\s,|{}()\[\];"]+)|(?P<stray>.)',
    re.DOTALL,
)
# A row as most files have it. Its states are words, and its numbers are plain.
ROW = re.compile(r'\s*\(([^(){}\[\];"|/:]*)\)\s*([0-9.eE+,\s-]*);')
PLAIN = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE]-\d+)?", re.ASCII)
BLANKS = re.compile(r"[\s,]+")
SLOWEST = "a `table` has all numbers of the first state, then those of the second, and so on"
OPENERS = "a file has `network`, `variable` and `probability` blocks"


def read_bif(source: Source) -> BayesianNetwork:
    """Return the network of a BIF text.

    Raises:
        GmlmError: E532 for a text that is not in the format, E533 for numbers that are no
            probabilities, E535 for tables above the limit.
    """
    reader = _Reader(Scanner(source, TOKEN))
    while not reader.scan.at_end:
        reader.block()
    if not reader.variables:
        message = "the file declares no variable"
        raise reader.scan.fault(message, reader.scan.last, "the end", OPENERS)
    variables = tuple(reader.variables.values())
    notes = reader.rounding.notes
    return verified_network(BayesianNetwork(reader.name, variables, tuple(reader.found), notes))


@dataclass
class _Head:
    """The head of a probability block: the token and number of each variable, the child first."""

    token: Token
    places: tuple[int, ...]
    variables: tuple[FiniteVariable, ...]

    @property
    def parents(self) -> tuple[FiniteVariable, ...]:
        return self.variables[1:]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the table: one axis for each parent, and the last one for the child."""
        return (*(len(p.states) for p in self.parents), len(self.variables[0].states))


@dataclass
class _Rows:
    """The rows of a probability block so far.

    Attributes:
        numbers: the numbers of all rows, one after another.
        places: the number of each row among all rows of the table, and where it stands.
        default: the row of all others.
        whole: all rows, where one `table` has them.
    """

    numbers: list[float] = field(default_factory=list)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    default: Array | None = None
    whole: Array | None = None


@dataclass
class _Reader:
    scan: Scanner
    name: str = ""
    variables: dict[str, FiniteVariable] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    found: list[Conditional] = field(default_factory=list)
    rounding: Rounding = field(default_factory=Rounding)
    entries: int = 0

    def block(self) -> None:
        """Read one block of the file."""
        scan = self.scan
        if scan.took("network"):
            self._network()
        elif scan.took("variable"):
            self._variable()
        elif scan.took("probability"):
            self._probability()
        elif not scan.took(";"):
            token = scan.take()
            raise scan.fault(f"`{token.text}` opens no block", token, "not expected", OPENERS)

    def _network(self) -> None:
        if not self.scan.sees("{"):
            self.name = self.scan.take().text
        self.scan.expect("{", "behind the name of the network")
        while not self.scan.took("}"):
            self._property("network")

    def _property(self, what: str) -> None:
        """Step over a property, which says nothing about the distribution."""
        self.scan.expect("property", f"in a {what} block")
        while not self.scan.took(";"):
            self.scan.take()

    def _variable(self) -> None:
        scan = self.scan
        token = self._name("the name of a variable")
        if token.text in self.variables:
            message = f"variable `{token.text}` is declared twice"
            raise scan.fault(message, token, "the second declaration", "rename one of them")
        scan.expect("{", "behind the name of a variable")
        states: tuple[str, ...] = ()
        while not scan.took("}"):
            if scan.took("type"):
                states = self._states(token.text)
            else:
                self._property("variable")
        if not states:
            help = "write `type discrete [ 2 ] { yes, no };` in it"
            raise scan.fault(f"variable `{token.text}` has no states", token, "no type", help)
        self.places[token.text] = len(self.places)
        self.variables[token.text] = FiniteVariable(token.text, states, scan.span(token))

    def _states(self, name: str) -> tuple[str, ...]:
        scan = self.scan
        kind = scan.take()
        if kind.text != "discrete":
            message = f"variable `{name}` is of the type `{kind.text}`"
            raise scan.fault(message, kind, "not supported", "only `discrete` variables are read")
        count = None
        if scan.took("["):
            counter = scan.whole(f"the number of states of `{name}`", MOST_STATES)
            count = (counter, scan.last)
            scan.expect("]", "behind the number of states")
        scan.expect("{", "before the states")
        states: dict[str, Token] = {}
        while not scan.took("}"):
            token = self._name("a state")
            if token.text in states:
                message = f"variable `{name}` has the state `{token.text}` twice"
                raise scan.fault(message, token, "the second one", "rename one of them")
            states[token.text] = token
        if count is not None and count[0] != len(states):
            message = f"variable `{name}` declares {count[0]} states and lists {len(states)}"
            raise scan.fault(message, count[1], "another number", f"write [ {len(states)} ]")
        scan.took(";")
        return tuple(states)

    def _name(self, what: str) -> Token:
        token = self.scan.take()
        if not token.is_quoted and token.text in "{}()[];":
            message = f"expected {what}, found `{token.text}`"
            help = 'a name with blanks or brackets stands in quotes: `"a name"`'
            raise self.scan.fault(message, token, "not a name", help)
        return token

    def _probability(self) -> None:
        scan = self.scan
        head = self._head()
        size = verify_size(head.sizes, head.variables[0].name, scan.span(head.token), self.entries)
        self.entries += size
        rows = _Rows()
        scan.expect("{", "behind the variables of a distribution")
        while not scan.took("}"):
            if scan.took("table"):
                rows.whole = self._whole_table(head)
            elif scan.took("default"):
                rows.default = self._default(head)
            elif scan.sees("("):
                self._plain_rows(head, rows)
                if scan.sees("("):
                    self._row_of(head, rows)
            else:
                self._property("probability")
        table = self._complete(head, rows)
        span = scan.span(head.token)
        self.found.append(Conditional(head.places[0], head.places[1:], table, span))

    def _head(self) -> _Head:
        scan = self.scan
        scan.expect("(", "before the variables of a distribution")
        tokens: list[Token] = []
        while not scan.took(")"):
            token = self._name("a variable")
            if token.text not in self.variables:
                raise self._unknown("variable", token, list(self.variables))
            if token.text in [t.text for t in tokens]:
                message = f"variable `{token.text}` stands twice in this distribution"
                raise scan.fault(message, token, "the second one", "name each parent once")
            tokens.append(token)
        if not tokens:
            raise scan.fault("a distribution names no variable", scan.last, "empty")
        names = [t.text for t in tokens]
        places = tuple(self.places[n] for n in names)
        return _Head(tokens[0], places, tuple(self.variables[n] for n in names))

    def _unknown(self, what: str, token: Token, names: list[str]) -> GmlmError:
        near = did_you_mean(token.text, names)
        help = f"there are {listed(names)}" if near is None else f"did you mean `{near}`?"
        return self.scan.fault(f"there is no {what} `{token.text}`", token, f"unknown {what}", help)

    def _numbers(self, count: int, head: _Head, what: str) -> tuple[Array, Span]:
        """Return the numbers up to the next semicolon, of which there must be so many."""
        scan, first = self.scan, self.scan.upcoming
        values: list[float] = []
        while not scan.took(";"):
            values.append(scan.number())
            if len(values) > count:
                break
        if len(values) != count:
            found = "more" if len(values) > count else f"{len(values)}"
            message = f"{what} of `{head.token.text}` has {count} numbers, found {found}"
            help = "write one number for each state, and a semicolon behind the last one"
            raise scan.fault(message, first, "another number of numbers", help)
        return np.array(values), scan.span(first).to(scan.span(scan.last))

    def _default(self, head: _Head) -> Array:
        row, span = self._numbers(head.sizes[-1], head, "a row")
        return self.rounding.verified(row, head.token.text, lambda _: span)

    def _plain_rows(self, head: _Head, rows: _Rows) -> None:
        """Read rows as most files have them; `_row_of` reads all others, and finds the faults."""
        scan, at = self.scan, self.scan.upcoming.start
        states = [{state: k for k, state in enumerate(p.states)} for p in head.parents]
        while (match := ROW.match(scan.source.text, at)) is not None:
            key, words = BLANKS.split(match[1].strip()), match[2].replace(",", " ").split()
            if len(key) != len(states) or len(words) != head.sizes[-1]:
                break
            place = 0
            for word, codes in zip(key, states, strict=True):
                place = place * len(codes) + codes.get(word, -MOST_NUMBERS)
            if place < 0 or place in rows.places or not all(map(PLAIN.fullmatch, words)):
                break
            rows.numbers += map(float, words)
            rows.places[place] = match.start(2), match.end(2)
            at = match.end()
        scan.go_to(at)

    def _row_of(self, head: _Head, rows: _Rows) -> None:
        scan = self.scan
        opening = scan.take()
        at: list[int] = []
        while not scan.took(")"):
            token = self._name("a state")
            if len(at) == len(head.parents):
                message = f"`{head.token.text}` has {len(at)} parents, this row names more states"
                raise scan.fault(message, token, "one too many")
            parent = head.parents[len(at)]
            if token.text not in parent.states:
                what = f"state of `{parent.name}`"
                raise self._unknown(what, token, list(parent.states))
            at.append(parent.states.index(token.text))
        if len(at) < len(head.parents):
            message = f"`{head.token.text}` has {len(head.parents)} parents, this row names {len(at)}"
            raise scan.fault(message, opening, "too few states", "name one state of each parent")
        place = int(np.ravel_multi_index(at, head.sizes[:-1])) if at else 0
        if place in rows.places:
            message = f"`{head.token.text}` has two rows for the same states of its parents"
            raise scan.fault(message, opening, "the second one", "keep one of them")
        scan.took(":")
        row, span = self._numbers(head.sizes[-1], head, "a row")
        rows.numbers += row.tolist()
        rows.places[place] = span.start, span.end

    def _whole_table(self, head: _Head) -> Array:
        """Read all entries; the state of the last parent changes fastest, that of the child last."""
        numbers, span = self._numbers(math.prod(head.sizes), head, "the table")
        table = np.moveaxis(numbers.reshape(head.sizes[-1], *head.sizes[:-1]), 0, -1)
        hint = SLOWEST if head.parents else ""
        return self.rounding.verified(table, head.token.text, lambda _: span, hint)

    def _complete(self, head: _Head, rows: _Rows) -> Array:
        """Return the table with the default in the rows that are not given."""
        source, spans = self.scan.source, list(rows.places.values())
        found = np.array(rows.numbers).reshape(-1, head.sizes[-1])
        found = self.rounding.verified(found, head.token.text, lambda k: Span(source, *spans[k]))
        table = np.zeros((math.prod(head.sizes[:-1]), head.sizes[-1]))
        is_given = np.zeros(len(table), bool)
        if rows.whole is not None:
            table, is_given[:] = rows.whole.reshape(table.shape), True
        table[list(rows.places)] = found
        is_given[list(rows.places)] = True
        if rows.default is not None:
            table[~is_given] = rows.default
        elif not is_given.all():
            raise self._lacking(head, is_given)
        return table.reshape(head.sizes)

    def _lacking(self, head: _Head, is_given: Array) -> GmlmError:
        """Return the error that names the first row that is not given."""
        at = np.unravel_index(int(np.argmin(is_given)), head.sizes[:-1])
        states = [p.states[int(k)] for p, k in zip(head.parents, at, strict=True)]
        row = f"the row ({', '.join(states)})" if states else "`table` with all numbers"
        message = f"`{head.token.text}` lacks {int((~is_given).sum())} of {is_given.size} rows"
        help = f"write {row}, or `default` with the row of all others"
        return self.scan.fault(message, head.token, "rows are missing", help)


def bif_text(network: BayesianNetwork) -> str:
    """Return a network, whose names are words, as a BIF text."""
    return "".join(f"{line}\n" for line in _lines(network))


def _lines(network: BayesianNetwork) -> Iterator[str]:
    yield f"network {one_word(network.name)} {{"
    yield "}"
    for v in network.variables:
        yield f"variable {v.name} {{"
        yield f"  type discrete [ {len(v.states)} ] {{ {', '.join(v.states)} }};"
        yield "}"
    for c in network.conditionals:
        yield from _probability(network, c)


def _probability(network: BayesianNetwork, c: Conditional) -> Iterator[str]:
    parents = [network.variables[p] for p in c.parents]
    given = f" | {', '.join(p.name for p in parents)}" * bool(parents)
    yield f"probability ( {network.variables[c.child].name}{given} ) {{"
    if not parents:
        yield f"  table {', '.join(written_row(c.table))};"
    else:
        rows = c.table.reshape(-1, c.table.shape[-1])
        states = itertools.product(*(p.states for p in parents))
        for key, row in zip(states, rows, strict=True):
            yield f"  ({', '.join(key)}) {', '.join(written_row(row))};"
    yield "}"
