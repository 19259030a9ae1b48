"""Factor graphs as SVG: every cell and factor is drawn, a block is lit with the factors that touch it, and texts are escaped."""

from __future__ import annotations

import re
import warnings
import xml.etree.ElementTree as ET

import pytest

import gmlmdsl as gm
from gmlmdsl.explain._factor_picture import LIT, shown_block

CHAIN = """model chain {
  var   x[t in range(5)] : bit
  param h[t in range(5)]
  factor h[t] * x[t]           for t in range(5)
  factor x[t] * x[t + 1]       for t in range(5) if t < 4
}
mask two = blocks({x[1], x[2]})
"""
GRID = """graph G = grid(3, 3, wrap = true)
model grid { var x[i in G.nodes] : spin  factor 0.2 * x[i] * x[j] for (i, j) in G.edges }
mask one = subsets(x, size = 1)
"""


def shown(text: str, **inputs: object) -> tuple[str, list[ET.Element]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        html = gm.parse(text, **inputs).model()._repr_html_()
    return html, [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", html, re.S)]


def drawn(svg: ET.Element, tag: str) -> list[ET.Element]:
    return [e for e in svg.iter() if e.tag.endswith(f"}}{tag}")]


def centres(svg: ET.Element, tag: str) -> list[tuple[float, float]]:
    x, y = ("cx", "cy") if tag == "circle" else ("x", "y")
    return [(float(e.attrib[x]), float(e.attrib[y])) for e in drawn(svg, tag)]


def test_a_block_is_lit_and_the_factors_that_touch_it_are_dark():
    html, (svg,) = shown(CHAIN)
    assert [e.attrib["fill"] == LIT for e in drawn(svg, "circle")] == [False, True, True, False, False]
    groups = [g for g in drawn(svg, "g") if "opacity" in g.attrib]
    dark = [g.attrib["opacity"] == "1" for g in groups]
    assert dark == [False, True, True, False, False, True, True, True, False]
    assert "mask two: its only block of 2 cells, whose conditional evaluates 5 of 9 factors" in html
    assert [t.text for t in drawn(svg, "text")] == ["0", "1", "2", "3", "4"]
    assert "x[t] * x[t + 1]: x[2], x[3]" in [t.text for t in drawn(svg, "title")]


def test_a_factor_has_a_line_to_each_of_its_cells():
    _, (svg,) = shown(CHAIN)
    at = centres(svg, "circle")
    lines = [[p.attrib["d"] for p in drawn(g, "path")] for g in drawn(svg, "g") if "opacity" in g.attrib]
    ends = [[next(k for k, (x, y) in enumerate(at) if d.endswith(f"L{x:.1f} {y:.1f}")) for d in of_factor] for of_factor in lines]
    assert ends == [[0], [1], [2], [3], [4], [0, 1], [1, 2], [2, 3], [3, 4]]


@pytest.mark.parametrize("text", [CHAIN, GRID, CHAIN.replace("x[t] * x[t + 1]       for", "sum(x[s] for s in range(5)) * x[t] for")])
def test_no_two_marks_lie_on_one_another(text):
    _, (svg,) = shown(text)
    for tag in ("circle", "rect"):
        places = centres(svg, tag)
        assert len({(round(x), round(y)) for x, y in places}) == len(places)


def test_a_grid_is_a_lattice_and_wrapped_edges_leave_it():
    _, (svg,) = shown(GRID)
    places = centres(svg, "circle")
    assert len({x for x, _ in places}) == len({y for _, y in places}) == 3
    assert len(drawn(svg, "rect")) == 18
    assert len(drawn(svg, "path")) == 36
    assert max(x for x, _ in centres(svg, "rect")) > max(x for x, _ in places)


def test_a_large_graph_is_drawn_by_its_variables():
    text = """input n : int
model wide {
  var   x[i in range(n)] : spin
  var   y[i in range(n)] : bit
  factor 0.1 * x[i]        for i in range(n)
  factor 0.3 * x[i] * y[i] for i in range(n)
}
mask some = subsets(y, size = 2)
"""
    html, (svg,) = shown(text, n=1000)
    assert len(drawn(svg, "circle")) == 2
    assert [e.attrib["fill"] == LIT for e in drawn(svg, "circle")] == [False, True]
    assert len(drawn(svg, "rect")) == 2
    assert "evaluates 2 of 2,000 factors" in html or "evaluates 1,000 of 2,000 factors" in html
    assert len(html) < 4000


def test_names_are_escaped_and_there_is_no_script():
    text = 'domain d = labels("<b>&", "ok")\nmodel m { var x[a in d] : bit  factor if x["<b>&"] < 1 then 1 else 0 }\nmask one = subsets(size = 1)'
    html, (svg,) = shown(text)
    assert "<b>" not in html
    assert "x[<b>&]" in [t.text for t in drawn(svg, "title")]
    assert "<script" not in html
    assert not re.search(r'(href|src)="', html)


def test_a_model_with_a_network_and_one_without_masks_are_drawn():
    html, (svg,) = shown(
        "network net = mlp(width = 8)\nmodel m { var x[i in range(6)] : bit  conditional x ~ net() }\nmask one = subsets(size = 1)"
    )
    assert "which a network predicts" in html
    assert len(drawn(svg, "circle")) == 1
    _, (svg,) = shown("model m { var a, b : bit  factor 0.3 * a * b }")
    assert (len(drawn(svg, "circle")), len(drawn(svg, "rect"))) == (2, 1)


def test_a_typical_block_is_the_middle_of_a_short_list_and_never_empty():
    program = gm.parse("model m { var x[i in range(5)] : bit  factor 0.1 * x[i] for i in range(5) }\nmask b = bernoulli(x, rate = 0.5)")
    assert shown_block(program.model().mask("b")[1])


def test_a_program_shows_each_of_its_models_and_its_refusals():
    text = """network net = python("no.such:Class")
model a { var x : bit  factor 0.5 * x }
model b { var y[i in range(2)] : bit  conditional y ~ net() }
"""
    html = gm.parse(text)._repr_html_()
    assert html.count("<svg") == 1
    assert "E739" in html


def test_an_error_is_shown_as_a_block_with_its_text_escaped():
    with pytest.raises(gm.GmlmError) as raised:
        gm.parse("model m { var x : bit  factor x < y }")
    html = raised.value._repr_html_()
    assert html.startswith("<pre")
    assert "x &lt; y" in html
    assert "E203" in html
