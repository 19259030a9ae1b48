"""Writing of a model as a file of another tool: the format follows from the file's ending.

GraphML files, which store a network of names and weighted edges, need the standard library alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from .._diagnostics import fail
from ..files import as_path, write_whole
from ..graph import FactorGraph
from ._adabm import adabm_text
from ._bif import bif_text
from ._bqm import bqm_text, coo_text, quadratic_of_graph
from ._graph_tables import network_of_graph
from ._names import short_number
from ._plmc import plmc_bytes
from ._potts import PottsModel, potts_of_graph
from ._uai import evidence_text, uai_text
from ._xmlbif import xmlbif_text
from .limits import MOST_COUPLINGS, MOST_NUMBERS

ENDINGS = {".bif": "bif", ".xmlbif": "xmlbif", ".xml": "xmlbif", ".uai": "uai"}
ENDINGS |= {".json": "bqm", ".coo": "coo", ".model": "plmc", ".dat": "adabm"}
WRITERS = {"bif": bif_text, "xmlbif": xmlbif_text}
POTTS = ("plmc", "adabm")
QUADRATIC = {"bqm": bqm_text, "coo": coo_text}
Edge = tuple[str, str, Mapping[str, float]]
HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
"""
# XML 1.0 cannot hold these characters, in whatever way they are written.
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
NODE_NAMES = ("name", "label")  # igraph and Cytoscape show the first, Gephi the second


def verified_ending(path: str | os.PathLike[str]) -> str:
    """Return the format that the ending of a path names.

    Raises:
        GmlmError: E560 for another ending.
    """
    path = as_path(path, "E560")
    found = ENDINGS.get(path.suffix.lower())
    if found is None:
        help = f"name a file that ends in {', '.join(ENDINGS)}"
        raise fail("E560", f"cannot write {path}: no format has this ending", help=help)
    return found


def most_numbers(kind: str) -> int:
    """Return the most numbers of all tables of a model in a format."""
    return MOST_COUPLINGS if kind in POTTS else MOST_NUMBERS


def evidence_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of the evidence beside a UAI file.

    Raises:
        GmlmError: E507 for a file of another format.
    """
    if verified_ending(path) != "uai":
        message = f"{path}: known values go beside a UAI file, which this is not"
        raise fail("E507", message, help="name a file that ends in .uai, or leave the clamped cells out")
    path = as_path(path, "E560")
    return path.with_name(f"{path.name}.evid")


def write_model(
    graph: FactorGraph,
    params: Mapping[str, np.ndarray],
    name: str,
    path: str | os.PathLike[str],
    known: Mapping[int, int] | None = None,
) -> tuple[str, ...]:
    """Write a model in the format that the ending of the path names.

    Args:
        graph: the factor graph.
        params: the parameters by name.
        name: the name of the model.
        path: the file, which is written completely or not at all.
        known: for UAI, the codes of known cells by position, for the file at `evidence_path`.

    Returns:
        What was changed on the way, a sentence each.

    Raises:
        GmlmError: E534 or E535 for a model that the format cannot hold, E560 for a file that cannot
            be written.
    """
    kind, path = verified_ending(path), as_path(path, "E560")
    if kind == "uai":
        write_whole(path, uai_text(graph, params).encode())
        if known is not None:
            write_whole(evidence_path(path), evidence_text(known).encode())
        return ()
    if kind in QUADRATIC:
        model = quadratic_of_graph(graph, params)
        write_whole(path, QUADRATIC[kind](model).encode())
        left = f"the format has no offset: {model.offset:.12g} is left out of the energy"
        return (left,) * (kind == "coo" and model.offset != 0)
    if kind in POTTS:
        return _write_potts(potts_of_graph(graph, params), kind, path)
    network = network_of_graph(graph, params, name)
    write_whole(path, WRITERS[kind](network).encode())
    return network.notes


def _write_potts(model: PottsModel, kind: str, path: Path) -> tuple[str, ...]:
    """Write fields and couplings, and return what the format cannot hold."""
    if kind == "plmc":
        write_whole(path, plmc_bytes(model))
        return ("plmc's frequencies are 0 there: the file has parameters only",)
    text, notes = adabm_text(model)
    write_whole(path, text.encode())
    return notes


def write_graphml(path: str | os.PathLike[str], nodes: Sequence[str], edges: Sequence[Edge]) -> None:
    """Write an undirected network as a GraphML file.

    Args:
        path: the file, which is written completely or not at all.
        nodes: the names of the nodes, each once.
        edges: the two ends of each edge, and its finite numbers by name. Whole numbers are `int`s.

    Raises:
        GmlmError: E560 for a file that cannot be written.
    """
    write_whole(as_path(path, "E560"), graphml_text(nodes, edges).encode())


def graphml_text(nodes: Sequence[str], edges: Sequence[Edge]) -> str:
    """Return a network as GraphML; its nodes are `n0`, `n1`, .., with their names as attributes."""
    return "\n".join([HEAD.rstrip("\n"), *_lines(nodes, edges), "</graphml>"]) + "\n"


def _lines(nodes: Sequence[str], edges: Sequence[Edge]) -> Iterator[str]:
    for name in NODE_NAMES:
        yield f'  <key id="{name}" for="node" attr.name="{name}" attr.type="string"/>'
    kinds = {name: type(value) for _, _, found in edges for name, value in found.items()}
    for name, kind in kinds.items():
        yield f'  <key id={quoteattr(name)} for="edge" attr.name={quoteattr(name)} attr.type="{"int" if kind is int else "double"}"/>'
    yield '  <graph edgedefault="undirected">'
    for k, node in enumerate(nodes):
        shown = escape(NOT_XML.sub("\ufffd", node))
        data = "".join(f'<data key="{name}">{shown}</data>' for name in NODE_NAMES)
        yield f'    <node id="n{k}">{data}</node>'
    number = {node: k for k, node in enumerate(nodes)}
    for first, second, found in edges:
        data = "".join(f"<data key={quoteattr(name)}>{short_number(value)}</data>" for name, value in found.items())
        yield f'    <edge source="n{number[first]}" target="n{number[second]}">{data}</edge>'
    yield "  </graph>"
