"""Reading of a model file of another tool: the format is known from its first word."""

from __future__ import annotations

import re
from pathlib import Path

from .._diagnostics import Source, Span, fail
from ._program_of_tables import program_of_tables
from ._program_text import ImportedModel, program_of_network
from ._quadratic import program_of_quadratic
from ._read_bif import read_bif
from ._read_bqm import read_bqm, read_coo
from ._read_uai import read_evidence, read_uai
from ._read_xmlbif import read_xmlbif
from ._scan import read_source

FIRST = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/|;)*", re.DOTALL)
FORMATS = "BIF begins with `network`, XMLBIF with `<`, UAI with `MARKOV` or `BAYES`"
FORMATS += ", JSON of dimod with `{`, and COO with `# vartype=SPIN`"
READERS = {"bif": read_bif, "xmlbif": read_xmlbif}
QUADRATIC = {"bqm": read_bqm, "coo": read_coo}
WORDS = {"<": "xmlbif", "MARKOV": "uai", "BAYES": "uai", "{": "bqm", "#": "coo"}
WORDS |= dict.fromkeys(("network", "variable", "probability"), "bif")


def read_model(path: str | Path, evidence: str | Path | None = None) -> ImportedModel:
    """Read a model of another tool as a program.

    Args:
        path: a file of BIF (`network ..`), XMLBIF (`<?xml ..`), UAI (`MARKOV` or `BAYES`), or a
            binary quadratic model of dimod (JSON, or lines `i j bias`).
        evidence: for UAI, a file of known values, each of which becomes a requirement.

    Returns:
        An `ImportedModel`. `gm.parse(found.text, **found.inputs)` is its program.

    Raises:
        GmlmError: E532 for a file in none of the formats, E533 for numbers that are no
            distribution, E535 for sizes above the limits, E507 for evidence with another format,
            E119 or E120 for a file that cannot be read.
    """
    source = read_source(path)
    name = Path(source.path).name
    kind = format_of(source)
    if evidence is not None and kind != "uai":
        raise fail("E507", "evidence goes with a UAI file", help="leave it out, and clamp cells later")
    if kind == "uai":
        tables = read_uai(source)
        known = {} if evidence is None else read_evidence(read_source(evidence), tables.sizes)
        return program_of_tables(tables, known, name)
    if kind in QUADRATIC:
        return program_of_quadratic(QUADRATIC[kind](source), name)
    return program_of_network(READERS[kind](source), name)


def format_of(source: Source) -> str:
    """Return the format of a text: `bif`, `xmlbif`, `uai`, `bqm` or `coo`.

    Raises:
        GmlmError: E532 for any other text.
    """
    start = FIRST.match(source.text)
    begin = 0 if start is None else start.end()
    word = re.compile(r"\w+|.?", re.DOTALL).match(source.text, begin)
    first = "" if word is None else word[0]
    if first in WORDS or first.isdecimal():
        return WORDS.get(first, "coo")
    found = f"`{first}`" if first else "nothing"
    message = f"{source.path} is in none of the formats that are read: it begins with {found}"
    span = Span(source, begin, begin + len(first))
    raise fail("E532", message, span, "the first word", help=FORMATS)
