"""Reading of a model file of another tool: its format is known from its first word."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from .._diagnostics import Source, Span, fail
from ..files import as_path, opened_text
from ..read import is_packed
from ..syntax import format_source
from ._adabm import looks_like_adabm, read_adabm
from ._bif import read_bif
from ._bqm import program_of_quadratic, read_bqm, read_coo
from ._names import Names, commented, language_name
from ._plmc import looks_like_plmc, read_plmc
from ._potts import program_of_potts
from ._program_text import ImportedModel, program_of_network
from ._scan import read_source
from ._uai import ScopedFactor, TableModel, read_evidence, read_uai
from ._xmlbif import read_xmlbif
from .limits import LONGEST_START, MOST_POTTS_CHARACTERS

FIRST = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/|;)*", re.DOTALL)
FORMATS = "BIF begins with `network`, XMLBIF with `<`, UAI with `MARKOV` or `BAYES`"
Array = np.ndarray


FORMATS += ", JSON of dimod with `{`, COO with `# vartype=SPIN`, and text of adabmDCA with `J` or `h`"
PLMC, ADABM = "plmc", "adabm"
PLMC_ENDING = ".model"
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
        GmlmError: E532 for a file in none of the formats. E533 for numbers that are not a
            distribution. E535 for sizes above the limits. E507 for evidence with another format.
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


def program_of_tables(model: TableModel, evidence: Mapping[int, int], file: str) -> ImportedModel:
    """Return the program of a UAI file.

    Variables with equally many values are one array, and tables of one shape are one input, so that
    the program is short however many there are.

    Args:
        model: the tables.
        evidence: the known values by variable.
        file: the name of the file, for comments.
    """
    return _Writer(model, evidence, file).written()


class _Writer:
    """The lines and inputs of a program while it is written."""

    def __init__(self, model: TableModel, evidence: Mapping[int, int], file: str) -> None:
        self.model, self.evidence, self.file = model, evidence, file
        self.inputs: dict[str, Array] = {}
        self.declared: list[str] = []
        self.body: list[str] = []
        sizes = np.array(model.sizes)
        self.classes = {int(q): np.flatnonzero(sizes == q) for q in np.unique(sizes)}
        # The number of each variable among those with equally many values.
        self.place = np.zeros(len(sizes), np.int64)
        for members in self.classes.values():
            self.place[members] = np.arange(len(members))

    def written(self) -> ImportedModel:
        """Return the program with its inputs."""
        shapes: dict[tuple[int, ...], list[ScopedFactor]] = {}
        for f in map(self._with_cells, self.model.factors):
            shapes.setdefault(f.table.shape, []).append(f)
        for shape, factors in sorted(shapes.items()):
            self._factors(shape, factors)
        self._require()
        lines = [*self._head(), *self._sets(), *self.declared, f"model {self._name()} {{", *self._cells(), *self.body, "}"]
        text = format_source("\n".join(lines) + "\n")
        return ImportedModel(text, self.inputs, self.model.notes)

    def _with_cells(self, f: ScopedFactor) -> ScopedFactor:
        """Return a factor of no variables as a table of equal numbers over the first one."""
        if f.scope:
            return f
        return ScopedFactor((0,), np.full(self.model.sizes[0], float(f.table)), f.span)

    def _name(self) -> str:
        names = Names()
        for word in (*self.inputs, *(f"{kind}{q}" for q in self.classes for kind in ("x", "cell"))):
            names.fresh(word)
        for word in ("x", "cell", "f", "e", "v"):
            names.fresh(word)
        return names.fresh_of(language_name(self.file.partition(".")[0], "network"))

    def _head(self) -> Iterator[str]:
        kind = "Bayesian" if self.model.is_bayesian else "Markov"
        yield f"# {self._name()}: the {kind} network of {commented(self.file)}; its tables are inputs: `--inputs FILE.npz`"
        yield from (f"# {note}" for note in self.model.notes)
        if len(self.classes) > 1:
            for q, members in self.classes.items():
                yield f"# {self._cell(q)}[k] is, for k = 0, 1, ..: variable {_spans(members)}"

    def _cell(self, size: int) -> str:
        return "x" if len(self.classes) == 1 else f"x{size}"

    def _sets(self) -> Iterator[str]:
        for q, members in self.classes.items():
            yield f"index {self._cell(q).replace('x', 'cell')} = range({len(members)})"

    def _cells(self) -> Iterator[str]:
        for q in self.classes:
            name = self._cell(q)
            yield f"var {name}[v in {name.replace('x', 'cell')}] : range({q})"

    def _factors(self, shape: tuple[int, ...], factors: list[ScopedFactor]) -> None:
        """Add the statement of all factors of a shape, with their tables and variables as inputs."""
        tag = "_".join(map(str, shape))
        tables = np.stack([f.table for f in factors])
        count, axes = f"count_{tag}", "".join(f", {q}" for q in shape)
        kind = "simplex" if self.model.is_bayesian else "real"
        self._input(f"table_{tag}", f"[{count}{axes}] : {kind}", tables)
        scope = self.place[np.array([f.scope for f in factors])]
        self._input(f"scope_{tag}", f"[{count}, {len(shape)}] : int", scope)
        cells = [f"{self._cell(q)}[scope_{tag}[f, {k}]]" for k, q in enumerate(shape)]
        if self.model.is_bayesian:
            parents = "".join(f", {c}" for c in cells[:-1])
            self.body.append(f"{cells[-1]} ~ categorical(table_{tag}[f{parents}]) for f in range({count})")
            return
        allow = "" if tables.all() else "  # gmlm: allow W815"
        index = "".join(f", {c}" for c in cells)
        self.body.append(f"factor log(table_{tag}[f{index}]) for f in range({count}){allow}")

    def _input(self, name: str, declared: str, value: Array) -> None:
        self.declared.append(f"input {name}{declared}")
        self.inputs[name] = value

    def _require(self) -> None:
        """Add the known values: one requirement for each array of cells."""
        for q, members in self.classes.items():
            known = [(int(self.place[v]), self.evidence[v]) for v in members.tolist() if v in self.evidence]
            if known:
                name = self._cell(q)
                self._input(f"known_{name}", f"[count_{name}, 2] : int", np.array(known))
                self.body.append(f"require {name}[known_{name}[e, 0]] == known_{name}[e, 1] for e in range(count_{name})")


def _spans(members: Array, most: int = 12) -> str:
    """Return ascending numbers as spans: `0-3, 7, 9-11`."""
    cuts = np.flatnonzero(np.diff(members) > 1) + 1
    runs = np.split(members, cuts)
    texts = [f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs[:most]]
    return ", ".join(texts) + f" and {len(runs) - most} runs more" * (len(runs) > most)
