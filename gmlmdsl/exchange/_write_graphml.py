"""Writer of GraphML: a network of names and weighted edges, by the standard library alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from ..files import as_path, write_whole
from ._names import short_number

Edge = tuple[str, str, Mapping[str, float]]
HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
"""
# XML 1.0 cannot hold these characters, in whatever way they are written.
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
NODE_NAMES = ("name", "label")  # igraph and Cytoscape show the first, Gephi the second


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
