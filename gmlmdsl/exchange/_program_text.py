"""The program of a Bayesian network, in the layout of the project's formatter."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..syntax import format_source
from ._names import Names, commented, kept_name, language_name, quoted, short_number
from ._network import BayesianNetwork, Conditional
from .limits import LONGEST_JOINED, LONGEST_NAME, MOST_LITERAL

Array = np.ndarray
UNNAMED = "unknown"  # as bnlearn calls a network without a name


@dataclass(frozen=True, eq=False)
class ImportedModel:
    """A program that was made from a file of another tool.

    Attributes:
        text: the program, as `gmlm format` writes it.
        inputs: the arrays that it needs, by name.
        notes: what was changed on the way, a sentence each.
        params: the values of its parameters, by name; empty for a program without parameters.
        coords: the labels of its axes, by name, as `coords=` of `gm.parse`; empty without names.
    """

    text: str = field(repr=False)
    inputs: dict[str, Array]
    notes: tuple[str, ...] = ()
    params: dict[str, Array] = field(default_factory=dict, repr=False)
    coords: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)


def program_of_network(network: BayesianNetwork, file: str) -> ImportedModel:
    """Return the program of a network.

    Args:
        network: the network.
        file: the name of its file, for comments.
    """
    return _Writer(network, file).written()


class _Writer:
    """The names and inputs of a program while it is written."""

    def __init__(self, network: BayesianNetwork, file: str) -> None:
        names = Names()
        self.network, self.file = network, file
        self.variables = [names.fresh(kept_name(v.name, "x")) for v in network.variables]
        self.domains: dict[tuple[str, ...], str] = {}
        for v, name in zip(network.variables, self.variables, strict=True):
            if v.states not in self.domains:
                self.domains[v.states] = names.fresh(_domain_name(v.states, name))
        stem = language_name(file.partition(".")[0], "network")
        is_named = network.name not in ("", UNNAMED)
        self.model = names.fresh_of(language_name(network.name, stem) if is_named else stem)
        self.names = names
        self.inputs: dict[str, Array] = {}
        self.large: dict[int, str] = {}

    def written(self) -> ImportedModel:
        """Return the program with its inputs."""
        laws = [self._law(c) for c in self.network.conditionals]
        lines = [*self._head(), *self._domains(), *self._inputs(), f"model {self.model} {{"]
        lines += [*self._declarations(), *laws, "}"]
        text = format_source("\n".join(lines) + "\n")
        return ImportedModel(text, self.inputs, self.network.notes)

    def _head(self) -> Iterator[str]:
        name = commented(self.network.name)
        also = f" `{name}`" if name not in ("", UNNAMED) else ""
        yield f"# {self.model}: the Bayesian network{also} of {commented(self.file)}"
        for note in self.network.notes:
            yield f"# {commented(note)}" if len(note) <= LONGEST_NAME else f"# {note}"
        if self.inputs:
            yield "# its large tables are inputs: `--inputs FILE.npz`"

    def _domains(self) -> Iterator[str]:
        for states, name in self.domains.items():
            yield f"domain {name} = labels({', '.join(map(quoted, states))})"

    def _inputs(self) -> Iterator[str]:
        for c in self.network.conditionals:
            if c.child in self.large:
                axes = [self._domain(k) for k in (*c.parents, c.child)]
                yield f"input {self.large[c.child]}[{', '.join(axes)}] : simplex"

    def _declarations(self) -> Iterator[str]:
        """Yield the variables of each domain together, those with other names than before alone."""
        for states, domain in self.domains.items():
            mine = [k for k, v in enumerate(self.network.variables) if v.states == states]
            same = [k for k in mine if self.variables[k] == self.network.variables[k].name]
            for some in _batches([self.variables[k] for k in same]):
                yield f"var {', '.join(some)} : {domain}"
            for k in sorted(set(mine) - set(same)):
                original = commented(self.network.variables[k].name)
                yield f"var {self.variables[k]} : {domain}  # `{original}` there"

    def _domain(self, variable: int) -> str:
        return self.domains[self.network.variables[variable].states]

    def _law(self, c: Conditional) -> str:
        """Return the statement of one distribution, and keep its table if that is large."""
        child, parents = self.variables[c.child], ", ".join(self.variables[p] for p in c.parents)
        index = f"[{parents}]" * bool(parents)
        if c.table.size > MOST_LITERAL:
            name = self.names.fresh(f"table_{child}")
            self.large[c.child], self.inputs[name] = name, c.table
            return f"{child} ~ categorical({name}{index})"
        return f"{child} ~ categorical({self._literal(c)}{index})"

    def _literal(self, c: Conditional) -> str:
        """Return a row of numbers, or a map from the states of the parents to rows."""
        if not c.parents:
            return _row(c.table)
        states = [[quoted(s) for s in self.network.variables[p].states] for p in c.parents]
        rows = c.table.reshape(-1, c.table.shape[-1])
        entries = zip(itertools.product(*states), rows, strict=True)
        return f"{{{', '.join(f'{_key(key)}: {_row(row)}' for key, row in entries)}}}"


def _key(states: tuple[str, ...]) -> str:
    return states[0] if len(states) == 1 else f"({', '.join(states)})"


def _row(row: Array) -> str:
    return f"[{', '.join(short_number(p) for p in row.tolist())}]"


def _batches(names: list[str], most: int = 88) -> Iterator[list[str]]:
    """Yield names in lines that are not too long."""
    line: list[str] = []
    for name in names:
        if line and sum(len(n) + 2 for n in line) + len(name) > most:
            yield line
            line = []
        line.append(name)
    if line:
        yield line


def _domain_name(states: tuple[str, ...], variable: str) -> str:
    """Return the name of a domain: its values if these are few and short, else after a variable."""
    name = "_".join(language_name(s, "") or "x" for s in states[:8])
    name = "_".join(part for part in name.split("_") if part)
    if len(states) > 8 or len(name) > LONGEST_JOINED or not name[:1].isalpha():
        return f"{variable}_values"
    return name
