"""The forms that read something declared: inputs, cells, given variables, parameters and `let`s, from every kind of index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._forms import BIT, CELLS, FORMS, GIVEN, INDEX, LATENT, LETS, PAIR, PARAMS, Expr, Want, anything, form

if TYPE_CHECKING:
    from ._world import Place, World


def site_index(w: World, p: Place, cells: bool = False) -> Expr:
    """An index into the sites: of index names and inputs, or of cells too."""
    allows = p.allows & ({INDEX, CELLS} if cells else {INDEX})
    return anything(w, p.allowing(allows), Want(0, w.n - 1, True), 0)


def cell_index(w: World, p: Place, size: int) -> Expr | None:
    """An index of 0 to size - 1 that a bit or range cell makes."""
    name = w.choice(["cell bit", "cell range"])
    e = FORMS[name].build(w, p, Want(0, size - 1, True), 0)
    if e is None or e.low < 0:
        return None
    if e.high >= size:
        e = Expr("%", f"({{0}} % {size})", (e,), 0, size - 1, True)
    return e


# Inputs


@form("input real", whole=False)
def _real(w: World, p: Place, want: Want, depth: int):
    value = w.number(want)
    return Expr("input real", w.input("real", value), (), value, value)


@form("input int")
def _int(w: World, p: Place, want: Want, depth: int):
    value = w.number(Want(want.low, want.high, True))
    return None if value is None else Expr("input int", w.input("int", value), (), value, value, True)


@form("length")
def _length(w: World, p: Place, want: Want, depth: int):
    return Expr("length", w.length(2), (), 2, 2, True) if w.rng.random() < 0.5 else Expr("length", w.length(1), (), 1, 1, True)


@form("input by index", INDEX)
def _by_index(w: World, p: Place, want: Want, depth: int):
    if not p.names:
        return None
    name = w.choice(sorted(p.names))
    e = Expr("index name", name, (), *p.names[name], True)
    values = [w.number(want) for _ in range(int(e.high) + 1)]
    return Expr("input by index", f"{w.array(want, values)}[{{0}}]", (e,), min(values), max(values), want.integer)


@form("input by number")
def _by_number(w: World, p: Place, want: Want, depth: int):
    values = [w.number(want) for _ in range(2)]
    e = anything(w, p.allowing(frozenset()), Want(0, 1, True), 0)
    return Expr("input by number", f"{w.array(want, values)}[{{0}}]", (e,), min(values), max(values), want.integer)


@form("input by cell", CELLS)
def _by_cell(w: World, p: Place, want: Want, depth: int):
    e = cell_index(w, p, 3)
    values = [w.number(want) for _ in range(3)]
    return None if e is None else Expr("input by cell", f"{w.array(want, values)}[{{0}}]", (e,), min(values), max(values), want.integer)


@form("input of two axes", CELLS)
def _two_axes(w: World, p: Place, want: Want, depth: int):
    e = cell_index(w, p, 2)
    if e is None:
        return None
    values = [[w.number(want) for _ in range(2)] for _ in range(w.n)]
    flat = [v for row in values for v in row]
    parts = (site_index(w, p), e)
    return Expr("input of two axes", f"{w.array(want, values)}[{{0}}, {{1}}]", parts, min(flat), max(flat), want.integer)


@form("input by label")
def _by_label(w: World, p: Place, want: Want, depth: int):
    table, low, high = w.table_over_domain(want)
    return Expr("input by label", f'{table}["rain"]', (), low, high, want.integer)


@form("input by a cell's label", CELLS)
def _by_label_cell(w: World, p: Place, want: Want, depth: int):
    table, low, high = w.table_over_domain(want)
    cell = w.label_cell(p)
    return None if cell is None else Expr("input by a cell's label", f"{table}[{cell}]", (), low, high, want.integer)


@form("input label ==", condition=True)
def _input_label(w: World, p: Place, want: Want, depth: int):
    name, code = w.input_label()
    truth = bool(want.low > 0 or (want.high >= 1 and w.rng.random() < 0.5))
    value = ("sun", "rain", "snow")[code if truth else (code + 1) % 3]
    return Expr("input label ==", f'({name} == "{value}")', (), int(truth), int(truth), condition=True)


# Cells


@form("cell spin", CELLS, whole=False)
def _cell_spin(w: World, p: Place, want: Want, depth: int):
    name = w.variable(p, "x")
    return None if name is None else Expr("cell spin", f"{name}[{{0}}]", (site_index(w, p),), -1, 1, domain="spin")


@form("cell bit", CELLS)
def _cell_bit(w: World, p: Place, want: Want, depth: int):
    name = w.variable(p, "b")
    e = anything(w, p.allowing(p.allows & {INDEX}), BIT, 0)
    return None if name is None else Expr("cell bit", f"{name}[{{0}}]", (e,), 0, 1, True, domain="other")


@form("cell range", CELLS)
def _cell_range(w: World, p: Place, want: Want, depth: int):
    name = w.variable(p, "k")
    return None if name is None else Expr("cell range", name, (), 0, 2, True, domain="other")


@form("cell by cell", CELLS)
def _cell_by_cell(w: World, p: Place, want: Want, depth: int):
    e = cell_index(w, p, 2)
    name = w.variable(p, w.choice(["x", "b"]) if want.low < 0 else "b")
    if e is None or name is None:
        return None
    spin = name == "x"
    return Expr("cell by cell", f"{name}[{{0}}]", (e,), -1 if spin else 0, 1, not spin, domain="spin" if spin else "other")


@form("cell of an edge", CELLS)
def _cell_edge(w: World, p: Place, want: Want, depth: int):
    name = w.variable(p, "y")
    if name is None:
        return None
    i, j = w.pair(p)
    return Expr("cell of an edge", f"{name}[{i}, {j}]" if w.rng.random() < 0.5 else f"{name}[{j}, {i}]", (), 0, 1, True, domain="other")


@form("latent", CELLS, LATENT)
def _latent(w: World, p: Place, want: Want, depth: int):
    name = w.variable(p, "z")
    return None if name is None else Expr("latent", name, (), 0, 1, True, domain="other")


@form("cell label ==", CELLS, condition=True)
def _label_is(w: World, p: Place, want: Want, depth: int):
    cell = w.label_cell(p)
    right = w.choice(['"sun"', '"snow"', w.input_label()[0]])
    return None if cell is None else Expr("cell label ==", f"({cell} == {right})", (), 0, 1, condition=True)


@form("cell label !=", CELLS, condition=True)
def _label_is_not(w: World, p: Place, want: Want, depth: int):
    cell = w.label_cell(p)
    return None if cell is None else Expr("cell label !=", f'({cell} != "rain")', (), 0, 1, condition=True)


@form("given real", GIVEN, whole=False)
def _given_real(w: World, p: Place, want: Want, depth: int):
    name, low, high = w.given(p, "real")
    return Expr("given real", f"{name}[{{0}}]", (site_index(w, p),), low, high)


@form("given bit", GIVEN, vague=True)
def _given_bit(w: World, p: Place, want: Want, depth: int):
    name, low, high = w.given(p, "bit")
    return Expr("given bit", name, (), low, high, True, domain="other")


@form("given label ==", GIVEN, condition=True)
def _given_label(w: World, p: Place, want: Want, depth: int):
    name, _, _ = w.given(p, "label")
    return Expr("given label ==", f'({name} == "sun")', (), 0, 1, condition=True)


# Parameters


@form("param", PARAMS, whole=False)
def _param(w: World, p: Place, want: Want, depth: int):
    value = w.number(want)
    return Expr("param", w.param("", "", (), want, value), (), value, value)


@form("param bounded", PARAMS, whole=False)
def _bounded(w: World, p: Place, want: Want, depth: int):
    value = w.number(want)
    return Expr("param bounded", w.param("", f"real(lower = {value - 1:.6f}, upper = {value + 2:.6f})", (), want, value), (), value, value)


def _entry(w: World, want: Want, axes: str, shape: tuple[int, ...], kind: str = "") -> tuple[str, float, float]:
    values = w.numbers(want, shape)
    return w.param(axes, kind, shape, want, values), float(values.min()), float(values.max())


@form("param by index", PARAMS, INDEX, whole=False)
def _param_index(w: World, p: Place, want: Want, depth: int):
    i = w.fresh("q")
    name, low, high = _entry(w, want, f"[{i} in {w.site()}]", (w.n,))
    return Expr("param by index", f"{name}[{{0}}]", (site_index(w, p),), low, high)


@form("param by cell", PARAMS, CELLS, whole=False)
def _param_cell(w: World, p: Place, want: Want, depth: int):
    a, e = w.fresh("q"), cell_index(w, p, 3)
    if e is None:
        return None
    name, low, high = _entry(w, want, f"[{a} in range(3)]", (3,))
    return Expr("param by cell", f"{name}[{{0}}]", (e,), low, high)


@form("param by a cell's label", PARAMS, CELLS, whole=False)
def _param_label(w: World, p: Place, want: Want, depth: int):
    a, cell = w.fresh("q"), w.label_cell(p)
    if cell is None:
        return None
    name, low, high = _entry(w, want, f"[{a} in {w.domain()}]", (3,))
    return Expr("param by a cell's label", f"{name}[{cell}]", (), low, high)


@form("param of an edge", PARAMS, PAIR, whole=False)
def _param_edge(w: World, p: Place, want: Want, depth: int):
    i, j = w.fresh("q"), w.fresh("q")
    name, low, high = _entry(w, want, f"[({i}, {j}) in {w.graph()}.edges]", (len(w.edges),))
    a, b = w.pair(p)
    return Expr("param of an edge", f"{name}[{a}, {b}]", (), low, high)


@form("param of an edge reversed", PARAMS, PAIR, whole=False)
def _param_reversed(w: World, p: Place, want: Want, depth: int):
    i, j = w.fresh("q"), w.fresh("q")
    name, low, high = _entry(w, want, f"[({i}, {j}) in {w.graph()}.edges]", (len(w.edges),))
    a, b = w.pair(p)
    return Expr("param of an edge reversed", f"{name}[{b}, {a}]", (), low, high)


def _edge_table(w: World, p: Place, want: Want, turned: bool, name: str):
    i, j, a, c = (w.fresh("q") for _ in range(4))
    first, second = w.label_cell(p), w.label_cell(p)
    if first is None or second is None:
        return None
    axes = f"[({i}, {j}) in {w.graph()}.edges, {a} in {w.domain()}, {c} in {w.domain()}]"
    table, low, high = _entry(w, want, axes, (len(w.edges), 3, 3))
    u, v = w.pair(p)
    ends = f"{v}, {u}" if turned else f"{u}, {v}"
    value = w.choice([second, '"snow"'])
    return Expr(name, f"{table}[{ends}, {first}, {value}]", (), low, high)


@form("param of an edge and labels", PARAMS, CELLS, PAIR, whole=False)
def _param_edge_labels(w: World, p: Place, want: Want, depth: int):
    return _edge_table(w, p, want, False, "param of an edge and labels")


@form("param of an edge and labels reversed", PARAMS, CELLS, PAIR, whole=False)
def _param_edge_labels_reversed(w: World, p: Place, want: Want, depth: int):
    return _edge_table(w, p, want, True, "param of an edge and labels reversed")


@form("param simplex", PARAMS, whole=False)
def _simplex(w: World, p: Place, want: Want, depth: int):
    a, name = w.fresh("q"), ""
    name, low, high = w.simplex(f"[{a} in range(3)]", (3,))
    e = cell_index(w, p, 3) if CELLS in p.allows else None
    part = e or Expr("whole number", "1", (), 1, 1, True)
    return Expr("param simplex", f"{name}[{{0}}]", (part,), low, high)


# Lets


@form("let", LETS, vague=True)
def _let(w: World, p: Place, want: Want, depth: int):
    body = anything(w, p.outside(), want, depth - 1)
    return Expr("let", w.let("", body), (), body.low, body.high, body.integer, body.condition)


@form("let by index", LETS, INDEX, vague=True)
def _let_index(w: World, p: Place, want: Want, depth: int):
    i = w.fresh("q")
    body = anything(w, p.outside({i: (0, w.n - 1)}), want, depth - 1)
    name = w.let(f"[{i} in {w.site()}]", body)
    return Expr("let by index", f"{name}[{{0}}]", (site_index(w, p),), body.low, body.high, body.integer, body.condition)


@form("let by cell", LETS, CELLS, vague=True)
def _let_cell(w: World, p: Place, want: Want, depth: int):
    i, e = w.fresh("q"), cell_index(w, p, 2)
    if e is None:
        return None
    body = anything(w, p.outside({i: (0, 1)}), want, depth - 1)
    name = w.let(f"[{i} in range(2)]", body)
    return Expr("let by cell", f"{name}[{{0}}]", (e,), body.low, body.high, body.integer, body.condition)
