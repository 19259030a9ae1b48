"""Binding of inputs: arrays, members of index sets, edges of graphs, iterations of loops."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from operator import is_not
from typing import Any, TypeVar

import numpy as np

from .._diagnostics import Diagnostic, Faults, GmlmError, Source, Span, did_you_mean, fail, in_text_order, listed, unknown
from .._types import InputLike, Label
from ..program import Program, forms, ir, without_inputs
from ._bound import Bound
from ._constants import listed_turns
from ._graph_arrays import swaps_further
from ._graphs import build_graph, graph_size
from ._sets_of_cells import unnamed_ranges
from .limits import MOST_MEMBERS, MOST_REPEATS, MOST_SHOWN_PAIRS

Array = np.ndarray
Values = Mapping[str, ir.Literal]
Some = TypeVar("Some")
# the parts in which no loop can stand
PLAIN = frozenset((Span, str, int, float, bool, type(None), Source, forms.Form))


def bind(program: Program, inputs: Mapping[str, InputLike], coords: Mapping[str, Sequence[Label]] | None = None) -> Bound:
    """Bind a program to its inputs.

    Args:
        program: a checked program.
        inputs: numbers, arrays, or label texts for inputs over a domain, by name.
        coords: one label per member, by index set, by the text of a range without a name
            (`range(5)`), or by the nodes of a graph (`G.nodes`).

    Returns:
        The bound program. Its arrays are int64 or float64.

    Raises:
        GmlmError: for every missing or unknown input, and for every input whose shape or type does
            not fit or whose edges form no valid graph.
    """
    _verify_names(program, inputs)
    coords = verified_coords(coords)
    partial, faults = bind_sound(program, inputs, coords=coords)
    if faults:
        raise GmlmError(in_text_order(faults))
    return replace(partial, coords=_coords(partial, coords))


def verified_coords(coords: object) -> dict[str, tuple[Label, ...]]:
    """Return the labels by index set, as tuples.

    Raises:
        GmlmError: E403 if `coords` is not a dict of lists of labels.
    """
    help = 'name the index set: `coords={"item": ["A1", "A2"]}`'
    if coords is not None and not isinstance(coords, Mapping):
        raise fail("E403", f"coords must be a dict of labels by index set, got {coords!r:.60}", help=help)
    found = {}
    for name, labels in (coords or {}).items():
        if isinstance(labels, bytes) or not isinstance(labels, Iterable) or getattr(labels, "ndim", 1) != 1:
            raise fail("E403", f"coords[{name!r}] must list labels, one for each member, got {labels!r:.60}", help=help)
        found[name] = tuple(labels)
        if (wrong := next((x for x in found[name] if x is None or not isinstance(x, Hashable)), ...)) is not ...:
            raise fail("E403", f"coords[{name!r}] must list labels, texts or numbers, and one is {wrong!r:.60}", help=help)
    return found


def bind_sound(
    program: Program, inputs: Mapping[str, InputLike], most: float = math.inf, coords: Mapping[str, tuple[Label, ...]] | None = None
) -> tuple[Bound, list[Diagnostic]]:
    """Bind the valid inputs and graphs of a program, and collect every fault of the others.

    Args:
        program: a checked program.
        inputs: values by name.
        most: graphs with more nodes and edges than this are left out too, without a fault.
        coords: labels by index set. Inputs with labels are ordered by them.

    Returns:
        The bound program without the faulty parts, and the faults.
    """
    faults = Faults()
    bound = Bound(program, {}, {}, {}, dict(coords or {}))
    for name in program.inputs:
        bound = _build_ready_graphs(bound, faults, most)
        if name in bound.program.inputs:
            value = faults.of(_input, bound.program.inputs[name], inputs, bound)
            bound = without(bound, name) if value is None else bound
            bound.inputs.update({} if value is None else {name: value})
    bound = _build_ready_graphs(bound, faults, most, all_ready=True)
    lists_edges = any(g.given is not None for g in bound.graphs.values())  # Else no order was stated.
    notes = tuple(edge_orders(bound)) if lists_edges else ()
    return replace(bound, program=_written_out(bound, faults), notes=notes), faults.found


def _verify_names(program: Program, inputs: Mapping[str, InputLike]) -> None:
    faults = []
    for d in program.inputs.values():
        if d.name not in inputs and d.default is None:
            faults.append(Diagnostic("E401", f"input `{d.name}` is not given", d.span, "needs a value", help=f"pass `{d.name}=..`"))
    for name in inputs:
        if name not in program.inputs:
            otherwise = f"the inputs are {listed(sorted(program.inputs))}"
            message = f"the program has no input `{name}`"
            faults += unknown(message, name, program.inputs, "E402", otherwise).diagnostics
    if faults:
        raise GmlmError(faults)


def _input(d: ir.Input, given: Mapping[str, InputLike], bound: Bound) -> Array:
    value = given[d.name] if d.name in given else bound.table(d.default) if d.default is not None else None
    array = _as_array(d, value, given, bound)
    if d.axes and d.name not in given and not isinstance(d.default, ir.Table):
        shape = _shape(d, bound)
        if any(n < 0 for n in shape):
            raise fail("E406", f"input `{d.name}` has an axis of length {min(shape)}", d.span, "negative")
        if math.prod(shape) > MOST_MEMBERS:
            raise fail("E412", f"input `{d.name}` has {math.prod(shape):,} numbers, more than {MOST_MEMBERS:,}", d.span, "too large")
        array = np.broadcast_to(array, shape)
    if array.ndim != len(d.axes):
        message, help = f"input `{d.name}` has {_axes(len(d.axes))}, got an array of shape {array.shape}", _wanted_shape(d, bound)
        raise fail("E403", message, d.span, _axes(len(d.axes)), help=help)
    for k, axis in enumerate(d.axes):
        if axis.name:
            bound.lengths[axis.name] = array.shape[k]
        else:
            _verify_length(d, k, axis, array, bound)
    _verify_values(d, array, bound)
    return array


def _axes(n: int) -> str:
    return "no axes" if n == 0 else f"{n} axis" if n == 1 else f"{n} axes"


def _shape(d: ir.Input, bound: Bound) -> tuple[int, ...]:
    named = next((a for a in d.axes if a.name), None)
    if named is not None:
        message, help = f"input `{d.name}` is not given, and its length `{named.name}` is not known", f"pass `{d.name}=..`, an array"
        raise fail("E401", message, d.span, "needs a value", help=help)
    return tuple(bound.set_size(a.over) if a.over is not None else bound.integer(a.size) for a in d.axes if a.over or a.size)  # pyright: ignore[reportArgumentType]


def _verify_length(d: ir.Input, k: int, axis: ir.InputAxis, array: Array, bound: Bound) -> None:
    assert axis.over is not None or axis.size is not None
    wanted = bound.set_size(axis.over) if axis.over is not None else bound.integer(axis.size)  # type: ignore[arg-type]
    if array.shape[k] != wanted:
        message = f"axis {k} of input `{d.name}` has length {wanted}, got an array of shape {array.shape}"
        raise fail("E403", message, axis.span, f"length {wanted}", help=_wanted_shape(d, bound))


def _wanted_shape(d: ir.Input, bound: Bound) -> str:
    """Return the expected shape of an input in words.

    An axis is written as its length, or as its name if the array itself determines the length.
    """
    sizes = [a.name or str(bound.set_size(a.over) if a.over is not None else bound.integer(a.size)) for a in d.axes]  # type: ignore[arg-type]
    if not sizes:
        return "give one value"
    return f"give an array of shape ({', '.join(sizes)}{',' * (len(sizes) == 1)})"


_WANTED = {"int": ("an integer", "integers"), "domain": ("a value of its domain", "values of its domain")}


def _shown(allowed: Sequence[object]) -> str:
    return f"{allowed[0]} to {allowed[-1]}" if len(allowed) > 3 else ", ".join(map(str, allowed))


def _first(array: Array) -> float:
    """Return the first number that is not finite or has a fraction."""
    return float(array[~(np.isfinite(array) & (array == np.floor(array)))].ravel()[0])


def _as_array(d: ir.Input, value: InputLike | None, given: Mapping[str, InputLike], bound: Bound) -> Array:
    one, several = _WANTED.get(d.type.kind, ("a real number", "real numbers"))
    wanted = several if d.axes else one
    if d.name in given:
        from ..read import verify_unmasked

        value = _by_labels(d, value, bound)
        verify_unmasked(value, f"input `{d.name}`", "E404")
    try:
        array = np.asarray(value)
    except ValueError:
        help = "give rows of one length, as in `[[1, 2], [3, 4]]`"
        raise fail("E403", f"input `{d.name}` must be a regular array", d.span, "rows differ in length", help=help) from None
    if d.type.domain is not None and array.dtype.kind in "US":
        return _codes_of(d, array, bound)
    if array.dtype.kind not in "iuf" or (array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max):
        found = "strings" if array.dtype.kind in "US" else str(array.dtype)
        found = found if array.ndim else f"{value!r:.40}"
        raise fail("E404", f"input `{d.name}` must be {wanted}, got {found}", d.span, wanted, help=f"pass {wanted}: `{d.name}=..`")
    if d.type.kind in ("int", "domain"):
        if array.dtype.kind == "f" and not (np.isfinite(array).all() and (array == np.floor(array)).all()):
            raise fail(
                "E404",
                f"input `{d.name}` must be {wanted}, got {_first(array):g}",
                d.span,
                wanted,
                help=f"an integer has no fraction; for other numbers declare `input {d.name} : real`",
            )
        return array.astype(np.int64)
    return array.astype(np.float64)


def _by_labels(d: ir.Input, value: InputLike | None, bound: Bound) -> InputLike | None:
    """Return an input with labels in the order of its axes.

    If an axis has no labels, the value keeps its own order except along axes over edges.
    """
    from ._by_edge import EdgeNames, by_name

    axes = bound.axes(d.name)
    edges = [EdgeNames(bound, axes, k, as_given=True) for k, over in enumerate(axes) if over.is_edges]
    has_labels = all(a.over is not None for a in d.axes)
    labels = [bound.labels(s) for s in axes] if has_labels else []
    if not has_labels or any(len(found) != bound.set_size(s) for found, s in zip(labels, axes, strict=True)):
        return value if not edges else by_name(value, edges, [s.name for s in axes], [()] * len(axes), f"input `{d.name}`", "E403")
    return by_name(value, edges, [s.name for s in axes], labels, f"input `{d.name}`", "E403")


def _codes_of(d: ir.Input, array: Array, bound: Bound) -> Array:
    assert d.type.domain is not None
    labels = [str(v) for v in bound.domain_labels(d.type.domain)]
    place = {v: k for k, v in enumerate(labels)}
    stray = next((str(v) for v in array.ravel() if str(v) not in place), None)
    if stray is not None:
        near = did_you_mean(stray, labels)
        help = f"did you mean `{near}`?" if near else "write one of these; upper and lower case differ"
        raise fail("E408", f'input `{d.name}`: "{stray}" is not in its domain', d.span, f"values are {listed(labels)}", help=help)
    return np.vectorize(place.__getitem__, otypes=[np.int64])(array)


def _verify_values(d: ir.Input, array: Array, bound: Bound) -> None:
    def refuse(what: str, help: str = f"pass other values, `{d.name}=..`, or declare another type") -> GmlmError:
        return fail("E404", f"input `{d.name}` {what}", d.span, d.type.span.text, help)

    if array.dtype.kind == "f" and np.isnan(array).any():
        raise refuse("has a NaN", "an input has no missing values: fill it in")
    match d.type.kind:
        case "positive" if array.size and not (array > 0).all():
            raise refuse(f"must be above 0, got {array.min():g}")
        case "simplex" if array.size and ((array < 0).any() or np.abs(array.sum(-1) - 1).max() > 1e-6):
            found = f"{array.min():g}" if (array < 0).any() else f"a sum of {max(array.sum(-1).flat, key=lambda s: abs(s - 1)):g}"
            raise refuse(f"must be non-negative with sum 1 over its last axis, got {found}")
        case "bounded":
            low = -np.inf if d.type.lower is None else bound.number(d.type.lower)
            high = np.inf if d.type.upper is None else bound.number(d.type.upper)
            if array.size and (array.min() < low or array.max() > high):
                raise refuse(f"must lie between {low:g} and {high:g}, got {array[(array < low) | (array > high)].ravel()[0]:g}")
        case "domain":
            assert d.type.domain is not None
            allowed = bound.domain_labels(d.type.domain) if d.type.domain.ordered else range(bound.domain_size(d.type.domain))
            outside = array[~np.isin(array, np.asarray(list(allowed)))]
            if outside.size:
                raise refuse(f"has the value {outside.ravel()[0]}, outside its domain", f"its values are {_shown(allowed)}")


def _build_ready_graphs(bound: Bound, faults: Faults, most: float, all_ready: bool = False) -> Bound:
    """Build graphs in order, each as soon as the inputs that it needs are bound.

    The order matters because sizes of later inputs may depend on a graph.
    """
    for name in list(bound.program.graphs):
        call = bound.program.graphs.get(name)
        if name in bound.graphs or call is None:
            continue
        if not (all_ready or all(n in bound.inputs or n in bound.lengths for n in _names_in(call, bound))):
            return bound
        size = faults.of(graph_size, call, bound)
        graph = faults.of(build_graph, call, bound) if size is not None and size <= most else None
        bound = without(bound, name) if graph is None else bound
        bound.graphs.update({} if graph is None else {name: graph})
    return bound


def without(bound: Bound, name: str) -> Bound:
    """Return the bound program without an input or graph and everything that depends on it.

    The numbers are shared with the original.
    """
    return replace(bound, program=without_inputs(bound.program, {name}))


def _names_in(call: ir.FormCall, bound: Bound) -> set[str]:
    out: set[str] = set()
    parts = [part for value in call.arguments.values() for part in (value if isinstance(value, tuple) else (value,))]
    for value in parts:
        if isinstance(value, str):
            out.add(value)
        elif isinstance(value, ir.SetOf):
            if value.kind == "graph" and value.graph not in bound.graphs:
                out.add(value.graph)
            out |= _inputs_of(value.size) | (_inputs_of(value.domain.size) if value.domain is not None else set())
        elif not isinstance(value, bool) and value is not None:
            out |= _inputs_of(value)  # type: ignore[arg-type]
    return out


def _inputs_of(e: ir.Expression | None) -> set[str]:
    return set() if e is None else {p.name for p in ir.walk(e) if isinstance(p, ir.InputValue)}


def _coords(bound: Bound, coords: Mapping[str, Sequence[Label]]) -> dict[str, tuple[Label, ...]]:
    out = {}
    sets = unnamed_ranges(bound.program) | bound.program.index_sets
    nodes = {f"{g}.nodes": g for g in bound.program.graphs if not bound.graphs[g].bipartite}
    for name, labels in coords.items():
        if name not in sets and name not in nodes:
            named = sorted([*sets, *nodes])
            message = f"coords: the program has no index set `{name}`"
            raise unknown(message, name, named, "E402", f"the index sets are {listed(named)}")
        span = sets[name].span if name in sets else bound.program.graphs[nodes[name]].span
        size, labels = bound.set_size(sets[name]) if name in sets else bound.graphs[nodes[name]].n, tuple(labels)
        if len(labels) != size:
            help = "give one label for each member, in their order"
            raise fail("E403", f"coords: index set `{name}` has {size} members, got {len(labels)} labels", span, help=help)
        if len(set(labels)) != size:
            twice = next(x for k, x in enumerate(labels) if x in labels[:k])
            raise fail("E403", f"coords: two members of index set `{name}` are called `{twice}`", span)
        out[name] = labels
    return out


# Expansion of the loops of samplers and mixtures


def _written_out(bound: Bound, faults: Faults) -> Program:
    """Return the program with the loops in samplers and mixtures expanded.

    These are `repeat s in range(3) { .. }` and rows of mixtures with a `for`. A mask or sampler
    with too many iterations is left out.
    """
    p = bound.program

    def expanded(part: Some, has_loops: bool) -> Some | None:
        if has_loops:
            return faults.of(_written, part, bound, {})
        return part

    masks = {n: expanded(m, m.body.has_loops) for n, m in p.masks.items()}
    samplers = {n: expanded(s, s.call is not None or any(k.has_loops for k in s.kernels)) for n, s in p.samplers.items()}
    return replace(
        p, masks={n: m for n, m in masks.items() if m is not None}, samplers={n: s for n, s in samplers.items() if s is not None}
    )


def _written(part: Any, bound: Bound, values: Values) -> Any:
    """Return a part with its loops expanded.

    Index names of loops around the part are replaced by `values`.
    """
    kind = type(part)
    if kind in PLAIN:
        return part
    if kind is tuple:
        items = tuple([_written(x, bound, values) for x in part])
        return items if any(map(is_not, items, part)) else part
    match part:
        case ir.IndexValue():
            return values.get(part.name, part)
        case ir.Repeat(loop=ir.Loop() as loop):
            turns = _turns(ir.Clauses(part.span, (loop,)), bound, values)
            return ir.Cycle(part.span, tuple(_written(k, bound, {**values, **t}) for t in turns for k in part.body))
        case ir.MaskMixture(turns=(_, *_)) | ir.KernelMixture(turns=(_, *_)):
            return _rows(part, bound, values)
        case ir.Temper(source=ir.InputValue() as source):
            places = [ir.Literal(source.span, k) for k in range(len(bound.inputs[source.name]))]
            return _fields(replace(part, betas=tuple(replace(source, indices=(k,)) for k in places), source=None), bound, values)
        case type():
            return part
        case dict():
            entries = {k: _written(v, bound, values) for k, v in part.items()}
            return entries if any(entries[k] is not part[k] for k in part) else part
        case _:
            return _fields(part, bound, values) if is_dataclass(part) else part


def _fields(part: Any, bound: Bound, values: Values) -> Any:
    changed = {n: _written(getattr(part, n), bound, values) for n in _field_names(type(part))}
    if values and isinstance(part, ir.Update):
        changed["turn"] = ", ".join(f"{name} = {value.value}" for name, value in values.items())
    return replace(part, **changed) if any(changed[n] is not getattr(part, n) for n in changed) else part


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if f.init)


def _rows(mixture: Any, bound: Bound, values: Values) -> Any:
    rows = []
    for row, clauses in zip(mixture.rows, mixture.turns, strict=True):
        turns = [{}] if clauses is None else _turns(clauses, bound, values)
        rows += [_written(row, bound, {**values, **t}) for t in turns]
    if not rows:
        help = "its loops run over nothing, or their `if` never holds"
        raise fail("E411", "no row of this mixture has a turn", mixture.span, "empty", help=help)
    return replace(mixture, rows=tuple(rows), turns=())


def _turns(clauses: ir.Clauses, bound: Bound, values: Values) -> list[dict[str, ir.Literal]]:
    names, count = listed_turns(ir.substitute_in_clauses(clauses, values), bound)
    if count > MOST_REPEATS:
        message = f"this has {count:,} turns, each a statement of its own: more than {MOST_REPEATS:,}"
        raise fail("E412", message, clauses.span, "too many")
    return [{n: ir.Literal(clauses.span, int(v[k])) for n, v in names.items()} for k in range(count)]


def edge_orders(bound: Bound) -> Iterator[Diagnostic]:
    """Yield W825 for each graph that orders its edges differently from the input that lists them.

    A graph counts only if a parameter or a variable runs over its edges.
    """
    for name, graph in bound.graphs.items():
        if graph.given is None or np.array_equal(graph.given, graph.edges):
            continue
        moved = not np.array_equal(np.sort(graph.given, axis=1), graph.edges)
        models = bound.program.models.values()
        parameters = [p.name for m in models for p in m.parameters.values() if _differs(p, name, moved)]
        variables = [v.name for m in models for v in m.variables.values() if _differs(v, name, moved)]
        if parameters or variables:
            help = _naming(name, parameters, bound.program.graphs[name], graph.given)
            yield _note(bound.program.graphs[name], name, [*dict.fromkeys(parameters + variables)], graph.given, graph.edges, help)


def _differs(p: ir.Parameter | ir.Variable, graph: str, moved: bool) -> bool:
    """Return whether the order of the input changes the reading of an array.

    This is so if its entries move, or if the entries of an edge depend on which end is first.
    """
    axes = [a.over for a in p.axes]
    return any(a.graph == graph and a.part == "edges" and (moved or swaps_further(axes[k + 1 :])) for k, a in enumerate(axes))


def _naming(graph: str, parameters: list[str], call: ir.FormCall, given: Array) -> str:
    rows, edges = call.arguments["pairs"], f"`program.graph({graph!r}).edges`"
    if not parameters:
        return f"order data as {edges} lists the pairs; an `input` over `{graph}.edges` has the order of `{rows}`; or sort `{rows}`"
    (i, j), one = given[0].tolist(), parameters[0]
    help = f"name the pairs, `{one} = {{({i}, {j}): .., ..}}`, which may stand in any order; read `fit.params[{one!r}]` beside {edges}; "
    return help + f"an `input` over `{graph}.edges` has the order of `{rows}`; or sort `{rows}`"


def _note(call: ir.FormCall, name: str, arrays: list[str], given: Array, edges: Array, help: str) -> Diagnostic:
    has = "have" if len(arrays) > 1 else "has"
    message = f"{listed(arrays)} {has} one entry an edge in the order of `{name}.edges`, {_shown_pairs(edges)}"
    message += f"; the rows of `{call.arguments['pairs']}` are {_shown_pairs(given)}"
    return Diagnostic("W825", message, call.span, "sorted here", help=help)


def _shown_pairs(pairs: Array) -> str:
    shown = [f"({i}, {j})" for i, j in pairs[:MOST_SHOWN_PAIRS].tolist()]
    return ", ".join([*shown, ".."] if len(pairs) > MOST_SHOWN_PAIRS else shown)
