"""Names of columns belong to the sets whose index names are cells, and to no set of something else that has as many members."""

import pytest

import gmlmdsl as gm
from gmlmdsl.graph import sets_of_cells

FIELDS = "param h[i in range(n)]  factor h[i] * x[i] for i in range(n)"
PAIRS = "param J[(i, j) in G.edges]  factor J[i, j] * {0}[i] * {0}[j] for (i, j) in G.edges"
STATES = 'let s[i in range(n)] = if x[i] == "yes" then 1 else -1  '


def parsed(model, axis="range(n)", kind="bit", top="graph G = complete(n)", **options):
    return gm.parse(f"input n : int = 5 {top} model m {{ var x[i in {axis}] : {kind}  {model} }}", **options)


def found(model, **options):
    program = parsed(model, **options)
    return sets_of_cells(program.bound, program.checked.models["m"], "x")


@pytest.mark.parametrize(
    ("model", "options", "want"),
    [
        (FIELDS, {}, ("range(n)",)),
        ("param h[i in range(5)]  factor h[i] * x[i] for i in range(5)", {}, ("range(n)", "range(5)")),
        (PAIRS.format("x"), {}, ("range(n)", "G.nodes")),
        (STATES + PAIRS.format("s"), {"kind": 'labels("no", "yes")'}, ("range(n)", "G.nodes")),
        ("let e = sum(x[i] * x[j] for (i, j) in G.edges)  param b  factor b * e", {}, ("range(n)", "G.nodes")),
        (PAIRS.format("x"), {"axis": "G.nodes"}, ("G.nodes",)),
        (PAIRS.format("x"), {"axis": "G.nodes", "top": "graph G = complete(range(5))"}, ("range(5)",)),
        (PAIRS.format("x"), {"axis": "G.nodes", "top": "index item = range(n) graph G = complete(item)"}, ("item",)),
        (PAIRS.format("x"), {"axis": "item", "top": "index item = range(n) graph G = complete(n)"}, ("item", "G.nodes")),
        ("param p[i in range(n), a in range(2)] : simplex  x[i] ~ categorical(p[i]) for i in range(n)", {}, ("range(n)",)),
    ],
)
def test_columns_name_the_sets_of_cells(model, options, want):
    assert found(model, **options) == want
    assert parsed(model, **options, coords=dict.fromkeys(want, "abcde")).model().graph.cell_name(2) == "x[c]"


def test_columns_of_edges_name_no_nodes():
    program = gm.parse("graph G = complete(4) model m { var x[(i, j) in G.edges] : bit  factor 0.1 * x[i, j] for (i, j) in G.edges }")
    assert sets_of_cells(program.bound, program.checked.models["m"], "x") == ()


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("param T[k in range(n)]  factor T[x[i]] for i in range(n)", "range(n)"),  # a value
        (
            "latent z[k in range(n)] : bit  param W[i in range(n), k in range(n)]  factor W[i, k] * x[i] * z[k] for i in range(n) for k in range(n)",
            "bit",
        ),
        ("param W[d in range(n)]  factor W[d] * x[i] * x[(i + d) % n] for i in range(n) for d in range(n)", "bit"),  # a distance
        ("param W[d in range(n)]  factor W[0] * x[i] for i in range(n)", "bit"),
        ("param W[k in range(n)]  latent z : range(n)  let w = W[z]  factor w * x[i] for i in range(n)", "bit"),
    ],
)
def test_a_set_of_something_else_leaves_the_cells_without_names(model, kind):
    assert found(model, kind=kind) == ()


def test_a_distance_along_edges_leaves_the_names_of_the_cells():
    """The nodes of the graph are left out, and the named index set stays."""
    text = PAIRS.format("x").replace("J[i, j]", "J[0, 1]")
    assert found(text, axis="item", top="index item = range(n) graph G = complete(n)") == ("item",)


def test_a_smaller_graph_is_no_graph_of_all_cells():
    assert found(PAIRS.format("x"), top="graph G = complete(4)") == ("range(n)",)


def test_coords_name_a_range_by_its_text():
    program = gm.parse("model m { var x[i in range(1, 4)] : bit  factor 0.1 * x[i] for i in range(1, 4) }", coords={"range(1, 4)": "abc"})
    assert program.model().graph.cell_name(2) == "x[c]"
    with pytest.raises(gm.GmlmError, match="E402") as caught:
        gm.parse("model m { var x[i in range(3)] : bit  factor 0.1 * x[0] }", coords={"rang(3)": "abc"})
    assert caught.value.diagnostics[0].help == "did you mean `range(3)`?"
