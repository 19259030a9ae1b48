"""Reader and writer of XMLBIF 0.3. No entity is expanded, and no other file is opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape

import numpy as np

from .._diagnostics import GmlmError, Source, Span, did_you_mean, fail, listed
from ._names import written_row
from ._network import BayesianNetwork, Conditional, FiniteVariable, Rounding, verified_network, verify_size
from ._scan import NUMBER
from .limits import MOST_DEPTH, MOST_STATES

LAWS = ("DEFINITION", "PROBABILITY")  # The second is the name of version 0.2.
HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE BIF [
  <!ELEMENT BIF ( NETWORK )*>
  <!ATTLIST BIF VERSION CDATA #REQUIRED>
  <!ELEMENT NETWORK ( NAME, ( PROPERTY | VARIABLE | DEFINITION )* )>
  <!ELEMENT NAME (#PCDATA)>
  <!ELEMENT VARIABLE ( NAME, ( OUTCOME | PROPERTY )* )>
  <!ATTLIST VARIABLE TYPE (nature|decision|utility) "nature">
  <!ELEMENT OUTCOME (#PCDATA)>
  <!ELEMENT DEFINITION ( FOR | GIVEN | TABLE | PROPERTY )*>
  <!ELEMENT FOR (#PCDATA)>
  <!ELEMENT GIVEN (#PCDATA)>
  <!ELEMENT TABLE (#PCDATA)>
  <!ELEMENT PROPERTY (#PCDATA)>
]>
<BIF VERSION="0.3">
"""


@dataclass
class Element:
    """An element of XML with its text and its parts."""

    tag: str
    span: Span
    attributes: dict[str, str] = field(default_factory=dict)
    parts: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its text with single blanks between the words."""
        return " ".join("".join(self.pieces).split())

    def all(self, *tags: str) -> list[Element]:
        """Return the parts with one of these tags."""
        return [p for p in self.parts if p.tag in tags]

    def one(self, tag: str) -> Element:
        """Return the only part with this tag.

        Raises:
            GmlmError: E532 if there are none or several.
        """
        found = self.all(tag)
        if len(found) != 1:
            message = f"a {self.tag} has one {tag}, found {len(found)}"
            raise _fault(message, (found or [self])[-1], "not complete" if not found else "one too many")
        return found[0]


def _fault(message: str, at: Element, label: str, help: str = "") -> GmlmError:
    return fail("E532", message, at.span, label, help=help)


def read_xmlbif(source: Source) -> BayesianNetwork:
    """Return the network of an XMLBIF text.

    Raises:
        GmlmError: E532 for a text that is not in the format or declares an entity. E533 for numbers
            that are not probabilities. E535 for tables above the limit.
    """
    root = _Builder(source).built()
    if root.tag.upper() != "BIF":
        raise _fault(f"an XMLBIF file is a BIF element, found {root.tag}", root, "another format")
    network = root.one("NETWORK")
    places: dict[str, int] = {}
    variables: list[FiniteVariable] = []
    for element in network.all("VARIABLE"):
        v = _variable(element)
        if v.name in places:
            raise _fault(f"variable `{v.name}` is declared twice", element, "the second declaration", "rename one of them")
        places[v.name] = len(places)
        variables.append(v)
    if not variables:
        raise _fault("the network declares no variable", network, "empty")
    rounding, entries = Rounding(), 0
    found: list[Conditional] = []
    for element in network.all(*LAWS):
        found.append(_conditional(element, variables, places, rounding, entries))
        entries += found[-1].table.size
    name = " ".join(e.text for e in network.all("NAME")[:1])
    return verified_network(BayesianNetwork(name, tuple(variables), tuple(found), rounding.notes))


def _variable(element: Element) -> FiniteVariable:
    name, kind = element.one("NAME"), element.attributes.get("TYPE", "nature")
    if kind != "nature":
        raise _fault(f"variable `{name.text}` is of the type `{kind}`", element, "not supported", "only `nature` variables are read")
    states: dict[str, Element] = {}
    for state in element.all("OUTCOME", "VALUE"):
        if state.text in states:
            raise _fault(f"variable `{name.text}` has the state `{state.text}` twice", state, "the second one", "rename one of them")
        states[state.text] = state
    if not states or not name.text:
        raise _fault(f"variable `{name.text}` has no states, or no name", element, "not complete", "give it an OUTCOME for each state")
    if len(states) > MOST_STATES:
        raise fail("E535", f"variable `{name.text}` has {len(states):,} states, more than {MOST_STATES:,}", name.span, "too large")
    return FiniteVariable(name.text, tuple(states), name.span)


def _conditional(element: Element, variables: list[FiniteVariable], places: dict[str, int], rounding: Rounding, before: int) -> Conditional:
    """Return a distribution; the states of the child change fastest in its table.

    Args:
        element: the element of the distribution.
        variables: the variables of the network.
        places: the number of each variable.
        rounding: what collects rounded rows.
        before: the number of entries of the other tables.
    """
    head = element.one("FOR")
    members = [head, *element.all("GIVEN")]
    for k, e in enumerate(members):
        if e.text not in places:
            near = did_you_mean(e.text, places)
            help = f"did you mean `{near}`?" if near else f"there are {listed(list(places))}"
            raise _fault(f"there is no variable `{e.text}`", e, "unknown variable", help)
        if e.text in [m.text for m in members[:k]]:
            raise _fault(f"variable `{e.text}` stands twice in this distribution", e, "the second one", "name each parent once")
    child, *parents = (places[e.text] for e in members)
    sizes = [len(variables[p].states) for p in (*parents, child)]
    count, table = verify_size(sizes, head.text, head.span, before), element.one("TABLE")
    numbers = _numbers(table, count, head.text)
    rows = rounding.verified(numbers.reshape(sizes), head.text, lambda _: table.span)
    return Conditional(child, tuple(parents), rows, head.span)


def _numbers(table: Element, count: int, name: str) -> np.ndarray:
    """Return the numbers of a table, of which there must be so many."""
    words = table.text.replace(",", " ").split()
    odd = next((w for w in words if NUMBER.fullmatch(w) is None), None)
    if odd is not None:
        raise _fault(f"the table of `{name}` has `{odd}`, which is not a number", table, "not a number", "numbers are written as 0.25")
    if len(words) != count:
        help = "one number for each state of the variable and each combination of states of its parents"
        raise _fault(f"the table of `{name}` has {count:,} numbers, found {len(words):,}", table, "another number of numbers", help)
    numbers = np.array([float(w) for w in words])
    if not ((numbers >= 0) & np.isfinite(numbers)).all():
        help = "a probability lies between 0 and 1"
        raise fail("E533", f"the table of `{name}` has a number that is not a probability", table.span, "not between 0 and 1", help=help)
    return numbers


class _Builder:
    """Builds the elements of a text by expat, which hands over each entity before it is used."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.starts = [0]  # Where each line begins that the parser has reached.
        self.open: list[Element] = []
        self.root: Element | None = None
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self._entity
        self.parser.ExternalEntityRefHandler = self._external

    def built(self) -> Element:
        """Return the root of the text.

        Raises:
            GmlmError: E532.
        """
        try:
            self.parser.Parse(self.source.text, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            help = "the file was cut off or damaged: each element that opens must close"
            raise fail("E532", f"not well-formed XML: {reason}", self._at(error.lineno, error.offset), "here", help=help) from None
        except ValueError as error:  # raised for an encoding that is not known
            raise fail("E532", f"not well-formed XML: {error}", help="save it as UTF-8") from None
        assert self.root is not None
        return self.root

    def _at(self, line: int, column: int) -> Span:
        """Return the place from a line and column to the next `>`."""
        text = self.source.text
        while len(self.starts) < line:
            self.starts.append(text.find("\n", self.starts[-1]) + 1)
        start = min(self.starts[line - 1] + column, len(text))
        end = text.find(">", start)
        return Span(self.source, start, end + 1 if end >= start else start + 1)

    @property
    def _here(self) -> Span:
        return self._at(self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self.open) >= MOST_DEPTH:
            message = f"more than {MOST_DEPTH} elements inside one another"
            raise fail("E532", message, self._here, "too deep", help="no XMLBIF file has as many")
        element = Element(tag, self._here, attributes)
        if self.open:
            self.open[-1].parts.append(element)
        else:
            self.root = element
        self.open.append(element)

    def _end(self, _: str) -> None:
        self.open.pop()

    def _text(self, text: str) -> None:
        self.open[-1].pieces.append(text)

    def _entity(self, name: str, *_: object) -> None:
        help = "write its text in its place; no entity is expanded, and no other file is read"
        raise fail("E532", f"the file declares the entity `{name}`", self._here, "an entity", help=help)

    def _external(self, *_: object) -> int:
        raise fail("E532", "the file refers to another file", self._here, "an entity", help="no other file is read")


def xmlbif_text(network: BayesianNetwork) -> str:
    """Return a network as an XMLBIF text."""
    return HEAD + "".join(f"{line}\n" for line in _lines(network))


def _lines(network: BayesianNetwork) -> Iterator[str]:
    yield "<NETWORK>"
    yield f"<NAME>{escape(network.name)}</NAME>"
    for v in network.variables:
        yield '<VARIABLE TYPE="nature">'
        yield f"  <NAME>{escape(v.name)}</NAME>"
        yield from (f"  <OUTCOME>{escape(s)}</OUTCOME>" for s in v.states)
        yield "</VARIABLE>"
    for c in network.conditionals:
        yield "<DEFINITION>"
        yield f"  <FOR>{escape(network.variables[c.child].name)}</FOR>"
        yield from (f"  <GIVEN>{escape(network.variables[p].name)}</GIVEN>" for p in c.parents)
        yield f"  <TABLE>{' '.join(written_row(c.table))}</TABLE>"
        yield "</DEFINITION>"
    yield "</NETWORK>"
    yield "</BIF>"
