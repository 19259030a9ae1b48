"""Potts models: fields and couplings of sites that share one alphabet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .._diagnostics import fail
from ..graph import FactorGraph
from ..syntax import format_source
from ._graph_tables import pairwise_tables, verify_tables
from ._names import Names, commented, language_name, quoted
from ._program_text import ImportedModel
from .limits import MOST_COUPLINGS

Array = np.ndarray
PAIRWISE = "a Potts model has cells with the same values, and finite factors of one or two of them"
AMINO_ACIDS = "-ACDEFGHIKLMNPQRSTVWY"


@dataclass(frozen=True, eq=False)
class PottsModel:
    """log p = sum_i h_i(x_i) + sum_k J_k(x_a, x_b), up to log Z, with pairs (a, b) = `pairs[k]`.

    Attributes:
        values: the value of each code, as text.
        fields: h, shape (sites, values).
        pairs: the sites a < b of each coupling, in ascending order, each pair once; shape
            (pairs, 2).
        couplings: J, shape (pairs, values, values); its second axis is the value of site a.
        labels: the names of the sites, such as `M1`; None if they are numbered.
        notes: what was changed on the way, a sentence each.
    """

    values: tuple[str, ...]
    fields: Array
    pairs: Array
    couplings: Array
    labels: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether all pairs of sites have a coupling."""
        sites = len(self.fields)
        return len(self.pairs) == sites * (sites - 1) // 2


def all_pairs(sites: int) -> Array:
    """Return the pairs a < b of sites in ascending order, shape (pairs, 2)."""
    return np.stack(np.triu_indices(sites, 1), axis=1)


def program_of_potts(model: PottsModel, file: str) -> ImportedModel:
    """Return a program with the parameters h and J, and their values.

    Args:
        model: the model.
        file: the name of its file, for comments.
    """
    letters = all(len(v) == 1 for v in model.values) and not _are_numbers(model.values)
    domain = f"letters({quoted(''.join(model.values))})" if letters else f"range({len(model.values)})"
    inputs: dict[str, Array] = {}
    params = {"h": model.fields}
    lines = [f"# log p of {commented(file)} up to log Z; h and J are its parameters, `--params FILE.npz`"]
    lines.append("# the priors are those of new fits: the file has none")
    lines += [f"# {note}" for note in model.notes]
    lines.append(f"domain value = {domain}")
    body = ["var x[i in site] : value", "param h[i in site, a in value] ~ normal(0, 1)"]
    terms = ["factor h[i, x[i]] for i in site"]
    graph = ["graph G = complete(site)"]
    if len(model.pairs):
        if not model.is_complete:
            inputs["pairs"] = model.pairs
            lines.append("input pairs[count, 2] : int")
            graph = ["graph G = edges(pairs, nodes = site)"]
        params["J"] = model.couplings
        body.append("param J[(i, j) in G.edges, a in value, b in value] ~ normal(0, 0.1)")
        terms.append("factor J[i, j, x[i], x[j]] for (i, j) in G.edges")
    lines += [f"index site = range({len(model.fields)})", *(graph if len(model.pairs) else [])]
    names = Names()
    for word in ("value", "pairs", "count", "site", "G", "x", "h", "J", "i", "j", "a", "b", "one"):
        names.fresh(word)
    name = names.fresh_of(language_name(file.partition(".")[0], "potts"))
    lines += [f"model {name} {{", *body, *terms, "}", "mask one = subsets(x, size = 1)"]
    coords = {} if model.labels is None else {"site": model.labels}
    return ImportedModel(format_source("\n".join(lines) + "\n"), inputs, model.notes, params, coords)


def _are_numbers(values: tuple[str, ...]) -> bool:
    """Return whether values are the numbers 0, 1, 2 and so on."""
    return values == tuple(map(str, range(len(values))))


def potts_of_graph(graph: FactorGraph, params: Mapping[str, Array]) -> PottsModel:
    """Return a model as fields and couplings; constants of log p are left out.

    Args:
        graph: the factor graph.
        params: the parameters by name.

    Raises:
        GmlmError: E534 for cells with different values, for a factor of three cells or more, and
            for one that is infinite; as `verify_tables`.
    """
    verify_tables(graph, MOST_COUPLINGS)
    first = graph.variables[0]
    other = next((v for v in graph.variables if tuple(v.labels) != tuple(first.labels)), None)
    if other is not None:
        message = f"`{first.name}` and `{other.name}` have different values"
        raise fail("E534", message, help=PAIRWISE)
    values = tuple(map(str, first.labels))
    fields = np.zeros((graph.n_random, len(values)))
    couplings: dict[tuple[int, int], Array] = {}
    for t in pairwise_tables(graph, params, PAIRWISE):
        if len(t.cells) == 1:
            fields[t.cells[0]] += t.log
        elif len(t.cells) == 2:
            a, b = sorted(t.cells)
            table = t.log if t.cells[0] == a else t.log.T
            couplings[a, b] = couplings[a, b] + table if (a, b) in couplings else table
    pairs = sorted(couplings)
    tables = np.array([couplings[pair] for pair in pairs]).reshape(-1, len(values), len(values))
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    return PottsModel(values, fields, ends, tables, _labels(graph))


def _labels(graph: FactorGraph) -> tuple[str, ...] | None:
    """Return the labels of cells that are called as residues, `x[M1]`, else None."""
    names = (graph.cell_name(k) for k in range(graph.n_random))
    found = [re.fullmatch(r"\w+\[(\S\d{1,9})\]", name, re.ASCII) for name in names]
    labels = tuple(m[1] for m in found if m is not None and not m[1][0].isdigit())
    return labels if len(labels) == graph.n_random else None
