"""Reading of a model file of another tool: the format is known from its first word."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from .._diagnostics import Source, Span, fail
from ..files import as_path, opened_text
from ..read import is_packed
from ._adabm import looks_like_adabm, read_adabm
from ._plmc import looks_like_plmc, read_plmc
from ._potts import program_of_potts
from ._program_of_tables import program_of_tables
from ._program_text import ImportedModel, program_of_network
from ._quadratic import program_of_quadratic
from ._read_bif import read_bif
from ._read_bqm import read_bqm, read_coo
from ._read_uai import read_evidence, read_uai
from ._read_xmlbif import read_xmlbif
from ._scan import read_source
from .limits import MOST_POTTS_CHARACTERS

FIRST = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/|;)*", re.DOTALL)
FORMATS = "BIF begins with `network`, XMLBIF with `<`, UAI with `MARKOV` or `BAYES`"
FORMATS += ", JSON of dimod with `{`, COO with `# vartype=SPIN`, and text of adabmDCA with `J` or `h`"
PLMC, ADABM = "plmc", "adabm"
PLMC_ENDING = ".model"
LONGEST_START = 256  # bytes that are read to see the format
READERS = {"bif": read_bif, "xmlbif": read_xmlbif}
QUADRATIC = {"bqm": read_bqm, "coo": read_coo}
WORDS = {"<": "xmlbif", "MARKOV": "uai", "BAYES": "uai", "{": "bqm", "#": "coo"}
WORDS |= {"J": "adabm", "h": "adabm"}
WORDS |= dict.fromkeys(("network", "variable", "probability"), "bif")


def read_model(path: str | Path, evidence: str | Path | None = None) -> ImportedModel:
    """Read a model of another tool as a program.

    Args:
        path: a file of BIF (`network ..`), XMLBIF (`<?xml ..`), UAI (`MARKOV` or `BAYES`), or a
            binary quadratic model of dimod (JSON, or lines `i j bias`), parameters of plmc (binary,
            as `plmc -o` writes them) or of adabmDCA (lines `J i j a b value` and `h i a value`).
        evidence: for UAI, a file of known values, each of which becomes a requirement.

    Returns:
        An `ImportedModel`. `gm.parse(found.text, **found.inputs)` is its program. A Potts model has
        parameters, whose values are `found.params`, and `found.coords` are the residues of the
        focus sequence of plmc, for `coords=`.

    Raises:
        GmlmError: E532 for a file in none of the formats, E533 for numbers that are no
            distribution, E535 for sizes above the limits, E507 for evidence with another format,
            E119 or E120 for a file that cannot be read.
    """
    path = as_path(path)
    kind = _potts_format(path)
    if kind == PLMC:
        _verify_evidence(evidence, kind)
        if is_packed(path):
            raise fail("E520", f"{path} is packed, and only text is unpacked", help=f"unpack it: `gunzip {path}`")
        return program_of_potts(read_plmc(path), path.name)
    source = read_source(path, MOST_POTTS_CHARACTERS if kind == ADABM else None)
    name = Path(source.path).name
    kind = kind or format_of(source)
    _verify_evidence(evidence, kind)
    if kind == ADABM:
        return program_of_potts(read_adabm(source), name)
    if kind == "uai":
        tables = read_uai(source)
        known = {} if evidence is None else read_evidence(read_source(evidence), tables.sizes)
        return program_of_tables(tables, known, name)
    if kind in QUADRATIC:
        return program_of_quadratic(QUADRATIC[kind](source), name)
    return program_of_network(READERS[kind](source), name)


def _verify_evidence(evidence: str | Path | None, kind: str) -> None:
    if evidence is not None and kind != "uai":
        raise fail("E507", "evidence goes with a UAI file", help="leave it out, and clamp cells later")


def _potts_format(path: Path) -> str:
    """Return the format of a file of fields and couplings by its first bytes, else an empty text.

    A pipe is not looked at, because it can be read only once.
    """
    if not path.is_file():
        return ""
    try:
        with opened_text(path) as file:
            start = file.read(LONGEST_START)
    except (OSError, EOFError, zlib.error):  # The reader of the text reports the cause.
        return ""
    if looks_like_plmc(start) or (b"\0" in start and path.suffix.lower() == PLMC_ENDING):
        return PLMC
    return ADABM if looks_like_adabm(start) else ""


def format_of(source: Source) -> str:
    """Return the format of a text: `bif`, `xmlbif`, `uai`, `bqm`, `coo` or `adabm`.

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
