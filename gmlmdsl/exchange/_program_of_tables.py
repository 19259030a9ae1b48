"""The program of numbered variables and tables: arrays of cells, and inputs for all tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..syntax import format_source
from ._names import Names, commented, language_name
from ._program_text import ImportedModel
from ._read_uai import ScopedFactor, TableModel

Array = np.ndarray


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
