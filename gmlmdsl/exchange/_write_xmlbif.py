"""Writer of XMLBIF 0.3."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from ._network import BayesianNetwork
from ._numbers import written_row

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
