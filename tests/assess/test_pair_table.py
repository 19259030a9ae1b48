"""Couplings as a network of other tools: GraphML and networkx, read back by networkx and by the standard library."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from refusals import refused

import gmlmdsl as gm
from gmlmdsl.assess._pair_table import PairTable
from gmlmdsl.exchange import write_graphml

NAMESPACE = "{http://graphml.graphdrawing.org/xmlns}"
NAMES = ["x[tea & milk]", "x[<b>]", 'x["c"]', "x[alone]"]


def table(score: str = "value") -> PairTable:
    """Three couplings of four cells, of which the last has none."""
    value = np.array([-2.0, 0.5, 1e-300]) if score == "value" else np.array([2.0, 0.5, 1e-300])
    columns = {"first": [NAMES[0], NAMES[2], NAMES[0]], "second": [NAMES[1], NAMES[1], NAMES[2]], "value": value}
    columns |= {"std_error": [0.5, np.inf, np.nan], "3%": value - 1, "97%": value + 1, "score": np.abs(value)}
    frame = PairTable(columns)
    frame.attrs = {"cells": NAMES, "score": score}
    return frame


EDGES = {
    (0, 1): {"weight": 2.0, "value": -2.0, "sign": -1, "std_error": 0.5, "low": -3.0, "high": -1.0},
    (1, 2): {"weight": 0.5, "value": 0.5, "sign": 1, "low": -0.5, "high": 1.5},
    (0, 2): {"weight": 1e-300, "value": 1e-300, "sign": 1, "low": -1.0, "high": 1.0},
}


def expected(score: str = "value") -> dict[frozenset[str], dict[str, float]]:
    found = {frozenset((NAMES[a], NAMES[b])): dict(e) for (a, b), e in EDGES.items()}
    if score == "norm":
        for e in found.values():
            del e["sign"]
        found[frozenset(NAMES[:2])] |= {"value": 2.0, "low": 1.0, "high": 3.0}
    return found


def read(path: Path) -> tuple[list[str], dict[frozenset[str], dict[str, float]]]:
    """Nodes and edges by the standard library, with the types that the file declares."""
    root = ElementTree.parse(path).getroot()
    kinds = {k.get("id"): {"int": int, "double": float, "string": str}[k.get("attr.type") or ""] for k in root.iter(NAMESPACE + "key")}

    def data(item: ElementTree.Element) -> dict[str, float]:
        return {d.get("key") or "": kinds[d.get("key")](d.text or "") for d in item.iter(NAMESPACE + "data")}

    nodes = {n.get("id"): data(n) for n in root.iter(NAMESPACE + "node")}
    assert all(n["name"] == n["label"] for n in nodes.values())
    edges = {frozenset(str(nodes[e.get(end)]["name"]) for end in ("source", "target")): data(e) for e in root.iter(NAMESPACE + "edge")}
    return [str(n["name"]) for n in nodes.values()], edges


@pytest.mark.parametrize("score", ["value", "norm"])
def test_a_file_has_all_nodes_and_the_numbers_of_the_table(score, tmp_path):
    table(score).to_graphml(tmp_path / "n.graphml")
    assert read(tmp_path / "n.graphml") == (NAMES, expected(score))


def test_networkx_reads_the_file_as_the_graph(tmp_path):
    networkx = pytest.importorskip("networkx")
    made = table().to_networkx()
    assert list(made) == NAMES
    assert {frozenset((a, b)): found for a, b, found in made.edges(data=True)} == expected()
    table().to_graphml(tmp_path / "n.graphml")
    found = networkx.read_graphml(tmp_path / "n.graphml")
    found = networkx.relabel_nodes(found, networkx.get_node_attributes(found, "name"))
    assert {frozenset((a, b)): e for a, b, e in found.edges(data=True)} == expected()
    assert list(found) == NAMES and not found.is_directed()


def test_a_part_of_a_table_is_a_network_too(tmp_path):
    some = table()
    some[some["score"] > 0.4].head(1).to_graphml(tmp_path / "n.graphml")
    assert read(tmp_path / "n.graphml") == (NAMES, {frozenset(NAMES[:2]): expected()[frozenset(NAMES[:2])]})


def test_characters_that_xml_cannot_hold_are_replaced(tmp_path):
    write_graphml(tmp_path / "n.graphml", ["a\x01b", "c\td\n"], [])
    assert read(tmp_path / "n.graphml")[0] == ["a\ufffdb", "c\td\n"]


def test_what_is_absent_is_named(tmp_path, monkeypatch):
    refused("E507", lambda: table().drop(columns="score").to_graphml(tmp_path / "n.graphml"), "no column `score`")
    refused("E560", lambda: table().to_graphml(tmp_path / "no" / "n.graphml"))
    monkeypatch.setitem(sys.modules, "networkx", None)
    refused("E561", lambda: table().to_networkx(), "gmlmdsl[network]", "to_graphml")


SPINS = """graph G = complete(range(3))
model m {
  var x[i in range(3)] : spin
  param J[(i, j) in G.edges] ~ normal(0, 1)
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask one = subsets(x, size = 1)
"""


@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.parametrize("score", ["value", "norm", "apc"])
def test_couplings_of_a_fit_are_such_a_table(score, tmp_path):
    x = np.where(np.random.default_rng(0).random((40, 3)) < 0.5, -1, 1)
    found = gm.parse(SPINS).model().fit(x).couplings(score=score)
    found.to_graphml(tmp_path / "n.graphml")
    nodes, edges = read(tmp_path / "n.graphml")
    assert nodes == ["x[0]", "x[1]", "x[2]"] and isinstance(found, pd.DataFrame)
    for _, row in found.iterrows():
        edge = edges[frozenset((row["first"], row["second"]))]
        assert (edge["value"], edge["weight"], edge["low"]) == (row["value"], row["score"], row["3%"])
        assert edge.get("sign") == (np.sign(row["value"]) if score == "value" else None)
