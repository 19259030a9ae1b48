"""Lowering of a model: its arrays, and a group of factors of one form for each statement.

A factor that is a sum becomes one factor for each term. `factor -beta * energy` with `let energy =
-sum(s[i] * s[j] for (i, j) in G.edges)` is one factor of all cells as it is written. log p is the
sum of its terms in any case. So each term becomes a separate factor of two cells, and conditionals
and sums evaluate only the factors that they need.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from .._diagnostics import Diagnostic, Faults, GmlmError, counted, each, fail, in_text_order, listed
from ..program import forms, ir, without_names
from ._bound import Bound, lazy_labels
from ._by_edge import EdgeNames
from ._constants import constant
from ._factor_graph import FactorGraph, FactorGroup, Hyperprior
from ._given_rows import GivenRows, graph_with, group_with, reads_real
from ._graph_variables import GivenArray, ParameterArray, Prior, VariableArray
from ._infinite import verify_finite
from ._lower import Lowering, Names
from ._network import lower_network
from ._turns import Turns, unroll
from ._weights import fixed_values, totals
from .limits import MOST_CELLS, MOST_SUMMANDS, TRIED_SHARES
from .nodes import Apply, CellValue, Column, Constant, Gather, Node, nodes_in

Array = np.ndarray


@dataclass(frozen=True)
class Lowered:
    """A model and its factor graph, from which later stages lower masks and observables.

    Attributes:
        graph: the factor graph.
        names: the model's variables, parameters and lets.
        bound: the bound program.
        data: the data of the given variables. Masks and lets that are lowered later read them too.
        notes: W815 for factors that are -inf for some values.
        kept: plans that later stages cache.
    """

    graph: FactorGraph
    names: Names
    bound: Bound
    data: GivenRows | None = None
    notes: tuple[Diagnostic, ...] = field(default=(), compare=False)
    kept: dict[Hashable, Any] = field(default_factory=dict, init=False, compare=False, repr=False)


def with_given(lowered: Lowered, data: GivenRows) -> Lowered:
    """Return the model with the data of its given variables: one row, or one per row of x.

    Masks and lets that are lowered for this model have the data too.
    """
    graph = graph_with(lowered.graph, data)
    verify_finite(graph, [g for g in graph.groups if reads_real(g)])
    return replace(lowered, graph=graph, data=data)


def lower_model(bound: Bound, name: str) -> Lowered:
    """Return the factor graph of a bound program's model.

    Raises:
        GmlmError: for faults that only the inputs reveal, such as an index out of range, a pair
            that is not an edge, a cell with two distributions, or a program that is too large.
    """
    lowered, faults = lower_sound(bound, name)
    if faults:
        raise GmlmError(in_text_order(faults))
    return lowered


def lower_sound(bound: Bound, name: str) -> tuple[Lowered, list[Diagnostic]]:
    """Lower the sound part of a bound program's model, and return all faults of the rest.

    Statements that need a faulty part are skipped.
    """
    faults = Faults()
    model = bound.program.models[name]
    variables, given = _variables(model, bound, faults), _given(model, bound, faults)
    found = [faults.of(_parameter, p, model, bound) for p in model.parameters.values()]
    parameters = tuple(p for p in found if p is not None)
    whole = {v.name for v in (*variables, *given)} | {p.name for p in parameters}
    model = without_names(model, {*model.variables, *model.parameters} - whole)
    network = faults.of(lower_network, model, bound, variables, given)
    n_cells = sum(v.size for v in variables) + bool(given)
    names = Names({v.name: v for v in (*variables, *given)}, {p.name: p for p in parameters}, model, n_cells)
    terms = [term for f in model.factors for term in summands(f.value, f.clauses, model)]
    groups = _groups(terms, "factor", bound, names, faults)
    factors = (*groups, *(g for g in _categorical(model, bound, names, faults) if g.n))
    requires = _groups([(r.condition, r.clauses) for r in model.requires], "require", bound, names, faults)
    hyperpriors = _hyperpriors(model, bound, names, faults)
    graph = FactorGraph(variables, parameters, factors, requires, given, network=network, hyperpriors=hyperpriors)
    notes = [n for g in graph.groups for n in faults.of(verify_finite, graph, [g]) or ()]
    return Lowered(graph, names, bound, notes=tuple(notes)), faults.found


def _groups(
    terms: Sequence[tuple[ir.Expression, ir.Clauses]], kind: str, bound: Bound, names: Names, faults: Faults
) -> tuple[FactorGroup, ...]:
    """Return the groups of sound terms that have instances."""
    groups = [faults.of(_group, *term, kind, bound, names) for term in terms]
    return tuple(g for g in groups if g is not None and g.n)


def _variables(model: ir.Model, bound: Bound, faults: Faults) -> tuple[VariableArray, ...]:
    out: list[VariableArray] = []
    for v in (v for v in model.variables.values() if v.role != "given"):
        found = faults.of(_variable, v, out[-1].offset + out[-1].size if out else 0, bound)
        out += [] if found is None else [found]
    return tuple(out)


def _variable(v: ir.Variable, start: int, bound: Bound) -> VariableArray:
    shape = tuple(each(lambda a: bound.set_size(a.over), v.axes))
    offset = start + math.prod(shape)
    if offset > MOST_CELLS:
        raise fail("E412", f"the model has {offset:,} cells, more than {MOST_CELLS:,}", v.span, "too large")
    if offset == start:
        raise fail("E406", f"variable `{v.name}` has no cells: an index set is empty", v.span, "empty")
    coords = tuple(lazy_labels(bound, a.over) for a in v.axes)
    labels, members = bound.domain_labels(v.domain), _members(v, bound)
    return VariableArray(
        v.name, v.role, start, shape, v.domain.kind, labels, _dims(v.axes), coords, members=members, scale=bound.scale(v.domain)
    )


def _members(v: ir.Variable, bound: Bound) -> Array | None:
    """Return the indices of each cell of a ragged variable, else None."""
    over = v.axes[0].over if len(v.axes) == 1 else None
    return np.stack(bound.members(over), axis=1) if over is not None and over.clauses is not None and over.arity > 1 else None


def _given(model: ir.Model, bound: Bound, faults: Faults) -> tuple[GivenArray, ...]:
    found = [faults.of(_given_array, v, bound) for v in model.variables.values() if v.role == "given"]
    return tuple(v for v in found if v is not None)


def _given_array(v: ir.Variable, bound: Bound) -> GivenArray:
    shape = tuple(each(lambda a: bound.set_size(a.over), v.axes))
    if not 0 < math.prod(shape) <= MOST_CELLS:
        raise fail("E406", f"given variable `{v.name}` has {math.prod(shape):,} entries", v.span, "empty" if 0 in shape else "too large")
    labels = () if v.domain.real else bound.domain_labels(v.domain)
    coords = tuple(lazy_labels(bound, a.over) for a in v.axes)
    bounds = _bounds(v.domain, f"given variable `{v.name}`", bound)
    names, scale = _dims(v.axes), bound.scale(v.domain)
    return GivenArray(v.name, v.role, 0, shape, v.domain.kind, labels, names, coords, *bounds, members=_members(v, bound), scale=scale)


def _bounds(type_: ir.ValueType | ir.Domain, what: str, bound: Bound) -> tuple[float, float]:
    """Return the bounds of the values of a type; they are infinite if the type states none."""
    lower = 0.0 if type_.kind == "positive" else -math.inf if type_.lower is None else bound.number(type_.lower)
    upper = math.inf if type_.upper is None else bound.number(type_.upper)
    if lower >= upper:
        raise fail("E404", f"{what} lies between {lower:g} and {upper:g}: nothing is left", type_.span, "empty")
    return lower, upper


def _dims(axes: tuple[ir.Loop, ...]) -> tuple[str, ...]:
    """Return the names of axes for tables and ArviZ.

    An axis has the name of its index set; a second axis over the same set is numbered.
    """
    names = [a.over.name for a in axes]
    return tuple(n if names.index(n) == k else f"{n}_{names[: k + 1].count(n)}" for k, n in enumerate(names))


def _parameter(p: ir.Parameter, model: ir.Model, bound: Bound) -> ParameterArray:
    shape = tuple(each(lambda a: bound.set_size(a.over), p.axes))
    if math.prod(shape) > MOST_CELLS:
        raise fail("E412", f"parameter `{p.name}` has {math.prod(shape):,} entries, more than {MOST_CELLS:,}", p.span, "too large")
    lower, upper = _bounds(p.type, f"parameter `{p.name}`", bound)
    gauge = tuple(k for k, a in enumerate(p.axes) if a.over.kind == "domain") if p.name in [g for g, _ in model.gauges] else ()
    coords = tuple(lazy_labels(bound, a.over) for a in p.axes)
    edges = tuple(EdgeNames(bound, [a.over for a in p.axes], k) for k, a in enumerate(p.axes) if a.over.is_edges)
    prior, dims = _prior(p, shape, bound), _dims(p.axes)
    return ParameterArray(p.name, shape, p.type.kind, lower, upper, prior, gauge, dims, coords, p.span, edges=edges)


def _prior(p: ir.Parameter, shape: tuple[int, ...], bound: Bound) -> Prior | None:
    if p.prior is None or p.prior.mentions_parameter:
        return None
    names: dict[str, Array] = {}
    for k, axis in enumerate(p.axes):
        for name, values in zip(axis.names, bound.members(axis.over), strict=True):
            names[name] = np.asarray(values).reshape((-1,) + (1,) * (len(shape) - k - 1))
    arguments: dict[str, Array] = {}
    for option in p.prior.form.options:
        value = np.asarray(constant(p.prior.arguments[option.name], bound, names), np.float64)  # type: ignore[arg-type]
        _verify_argument(value, option, p.prior)
        arguments[option.name] = value
    return Prior(p.prior.form.name, arguments, p.prior.span)


def _verify_argument(value: Array, option: forms.Option, prior: ir.FormCall) -> None:
    above = option.doc.endswith("above 0")
    if not np.isfinite(value).all() or (above and (value <= 0).any()):
        found = f"{value.min():g}" if np.isfinite(value).all() else "a number that is not finite"
        message = f"`{option.name}` of `{prior.form.name}` is {'above 0' if above else 'finite'}, found {found}"
        raise fail("E404", message, prior.span, "out of bounds")
    if option.bounds is None:
        return
    outside = [v for v in value.ravel() if not option.bounds.holds(v)]
    if outside:
        message = f"`{option.name}` of `{prior.form.name}` is {option.bounds.words}, found {outside[0]:g}"
        raise fail("E404", message, prior.span, "out of bounds")


def _hyperpriors(model: ir.Model, bound: Bound, names: Names, faults: Faults) -> tuple[Hyperprior, ...]:
    """Return priors that mention parameters or are statements, and check that no entry has two."""
    stated = [
        ir.PriorTerm(
            p.span,
            ir.ParameterValue(p.span, p.name, tuple(ir.IndexValue(p.span, n) for a in p.axes for n in a.names)),
            p.prior,
            ir.Clauses(p.span, p.axes),
        )
        for p in model.parameters.values()
        if p.prior is not None and p.prior.mentions_parameter
    ]
    seen: dict[str, set[int]] = {p.name: {*range(p.size)} for p in names.parameters.values() if p.prior is not None}
    found = [faults.of(_hyperprior, t, bound, names, seen) for t in (*stated, *model.priors)]
    priors = tuple(h for h in found if h is not None)
    if len(priors) == len(found):
        faults.of(verify_acyclic_priors, priors, {p.name: p.size for p in names.parameters.values()})
    return priors


def _hyperprior(t: ir.PriorTerm, bound: Bound, names: Names, seen: dict[str, set[int]]) -> Hyperprior | None:
    turns = unroll(t.clauses, bound)
    if not turns.n:
        return None
    place = Lowering(bound, names)
    target = place.parameter(t.target, turns)
    assert isinstance(target, Gather)
    at = place.columns[target.base.k] if isinstance(target.base, Column) else np.full(1, target.base.value)  # type: ignore[union-attr]
    entries = np.broadcast_to(at.reshape(-1), (turns.n,)).astype(np.int64)
    mine = seen.setdefault(t.target.name, set())
    if len(set(entries.tolist())) < turns.n or mine & set(entries.tolist()):
        help = "an entry has one prior: drop one of the two, or limit their loops with `if`"
        raise fail("E413", f"an entry of `{t.target.name}` has two priors", t.target.span, "a second prior", help=help)
    mine |= set(entries.tolist())
    groups = {}
    for option in t.prior.form.options:
        lowering = Lowering(bound, names)
        e = t.prior.arguments[option.name]
        group = lowering.group(lowering.lower(e, turns), turns, "prior", t.prior.span)  # type: ignore[arg-type]
        if not group.parameters:
            _verify_argument(fixed_values(group), option, t.prior)
        elif option.doc.endswith("above 0"):
            _verify_above_0(group, names, option, t.prior)
        groups[option.name] = group
    return Hyperprior(t.target.name, entries, t.prior.form.name, groups, t.prior.span)


def _verify_above_0(group: FactorGroup, names: Names, option: forms.Option, prior: ir.FormCall) -> None:
    """Raise E404 if an argument can be below 0 at some values that its parameters may have.

    A few values are tried, equal and unequal ones.
    """
    tried = [names.parameters[name] for name in group.parameters]
    for k in range(len(TRIED_SHARES)):
        for step in range(2):
            params = {p.name: np.full(p.size, p.within(TRIED_SHARES[(k + step * j) % len(TRIED_SHARES)])) for j, p in enumerate(tried)}
            least = float(np.min(fixed_values(group, params), initial=0.0))
            if least < 0:
                message = f"`{option.name}` of `{prior.form.name}` is above 0, and this can be {least:.3g}"
                help = f"declare `{tried[0].name} : positive`, or write `exp(..)`, which is above 0"
                raise fail("E404", message, prior.span, "can be below 0", help=help)


def _group(e: ir.Expression, clauses: ir.Clauses, kind: str, bound: Bound, names: Names) -> FactorGroup:
    turns = unroll(clauses, bound)
    lowering = Lowering(bound, names)
    root = lowering.lower(e, turns) if turns.n else Constant(0)
    return lowering.group(root, turns, kind, e.span)


def _categorical(model: ir.Model, bound: Bound, names: Names, faults: Faults) -> list[FactorGroup]:
    """Return the factors log p[.., z] of statements `z ~ categorical(p)`.

    No cell may have two distributions, and the distributions may not form a cycle.
    """
    # The number of the statement that gives each cell its distribution, -1 for none.
    owners = np.full(names.n_cells, -1)
    before = len(faults.found)
    found = [faults.of(_law, k, model.distributed, bound, names, owners) for k in range(len(model.distributed))]
    groups = [g for g in found if g is not None]
    if len(faults.found) == before:
        faults.of(verify_acyclic, groups, model, names.n_cells)
    return groups


def _law(k: int, statements: Sequence[ir.Distributed], bound: Bound, names: Names, owners: Array) -> FactorGroup | None:
    """Return the factor of statement `k`, and enter its cells in `owners`."""
    d = statements[k]
    turns = unroll(d.clauses, bound)
    if not turns.n:
        return None
    lowering = Lowering(bound, names)
    target = lowering.cell(d.target, turns)
    if not isinstance(target, CellValue):
        help = "index it by names of loops, and choose the probabilities by cells: `categorical(p[..])`"
        raise fail("E413", f"which cell of `{d.target.name}` has this distribution varies", d.target.span, "no certain cell", help=help)
    faults = Faults()
    cells = np.broadcast_to(lowering.slots[0], (turns.n,)) if lowering.slots else np.zeros(0, int)
    faults.of(_verify_once, statements, owners, cells, d)
    owners[cells] = np.where(owners[cells] < 0, k, owners[cells])
    faults.of(_verify_counts if d.is_density else _verify_length, d, bound, names, turns)
    faults.tell()
    if d.is_density:
        _verify_own_parent(d, bound, names, turns)
        group = lowering.group(lowering.lower(d.probabilities, turns), turns, "categorical", d.span)
        _verify_total(group, names, d)
        return group
    code = lowering.lower(names.model.variables[d.target.name].domain.code(d.target), turns)
    found = _entry(lowering, d.probabilities, turns, code)
    if any(target.start == start for term, _ in found.terms[:-1] for start in _slots(term)):
        help = "a cell comes after its parents: limit the loop with `if`"
        raise fail("E413", f"a cell of `{d.target.name}` is its own parent", d.span, "a cycle", help=help)
    return lowering.group(Apply("log", (found,)), turns, "categorical", d.span)


def _verify_own_parent(d: ir.Distributed, bound: Bound, names: Names, turns: Turns) -> None:
    """Raise E413 if a distribution mentions its own cell. Longer cycles are found elsewhere."""
    named = [a for a in d.arguments if any(isinstance(part, ir.VariableValue | ir.LetValue) for part in ir.walk(a))]
    if not named:
        return
    lowering = Lowering(bound, names)
    target = lowering.cell(d.target, turns)
    if not isinstance(target, CellValue):
        return  # Which cell it is varies, which is an error of its own.
    place = next((a.span for a in named if target.start in set(_slots(lowering.lower(a, turns)))), None)
    if place is not None:
        help = "a distribution mentions other cells, such as `x[i - 1]`; what weighs the values of one cell is a `factor`"
        raise fail("E413", f"a cell of `{d.target.name}` is its own parent", place, "of itself", help=help)


def _slots(node: Node) -> Iterator[int]:
    """Return the first slot of each leaf of cells in a tree."""
    return (n.start for n in nodes_in(node) if isinstance(n, CellValue))


def _entry(lowering: Lowering, p: ir.Expression, turns: Turns, code: Node) -> Gather:
    """Return the probability of one value."""
    match p:
        case ir.Table():
            return lowering.row(p, turns, code)
        case ir.ParameterValue():
            found = lowering.parameter(p, turns, code)
        case ir.InputValue():
            found = lowering.input(p, turns, code)
        case _:
            raise AssertionError(f"not a row: {type(p).__name__}")
    assert isinstance(found, Gather)
    return found


def _verify_once(statements: Sequence[ir.Distributed], owners: Array, cells: Array, d: ir.Distributed) -> None:
    """Raise E413 if a cell has a second `~`, in this statement or in an earlier one."""
    twice = len(np.unique(cells)) < len(cells)
    owned = owners[cells][owners[cells] >= 0]
    earlier = statements[owned.min()] if len(owned) else None
    if not twice and earlier is None:
        return
    help = "a cell has one `~`: drop one of the two, or limit their loops with `if`"
    related = ((earlier.target.span, "the first one"),) if earlier is not None else ()
    message = f"a cell of `{d.target.name}` has two distributions"
    raise GmlmError(Diagnostic("E413", message, d.target.span, "a second distribution", related, help))


def _verify_counts(d: ir.Distributed, bound: Bound, names: Names, turns: Turns) -> None:
    """Raise E403 unless the arguments describe as many values as the cell has."""
    values = len(names.variables[d.target.name].labels)
    for count in d.counts:
        found = bound.set_size(count.of) if isinstance(count.of, ir.SetOf) else constant(count.of, bound, turns.names)
        wrong = np.asarray(found + count.more) != values
        if wrong.any():
            raise _wrong_count(count, int(np.broadcast_to(found, wrong.shape)[wrong].ravel()[0]), d.target.name, values)


def _wrong_count(count: ir.ValueCount, found: int, name: str, values: int) -> GmlmError:
    """What is said of an argument that speaks of `found` entries, members, cutpoints or trials where the cell has so many values."""
    of = f"`{name}` has {values} values"
    match count.what:
        case "trials":
            message, label = f"{of}, 0 to {values - 1}: {found} trials have 0 to {found} successes", f"{found} trials"
            help = f"declare `{name}` over `range({found + 1})`"
        case "cutpoints":
            message, label = f"{of}, which take {counted(values - 1, 'cutpoint')}, found {found}", f"{counted(found, 'cutpoint')}"
            help = "there is one cutpoint fewer than there are values"
        case "members":
            message, label, help = f"{of}, this loop runs over {found}", f"{found} members", "logits run over the values of the variable"
        case _:
            message, label = f"{of}, this row {found} {'entry' if found == 1 else 'entries'}", "one entry for each value"
            help = f"a row of `{name}` has {counted(values, 'number')}"
    return fail("E403", message, count.span, label, help=help)


def _verify_total(group: FactorGroup, names: Names, d: ir.Distributed) -> None:
    """Raise E415 unless the probabilities of a cell sum to 1 over its values.

    Probabilities that depend on a parameter or on a real given number are not checked.
    """
    if group.parameters or reads_real(group):
        return
    sizes = [len(v.labels) for v in names.variables.values() if not isinstance(v, GivenArray) for _ in range(v.size)]
    for total in totals(group, np.array([*sizes, 1])):
        if not np.abs(total - 1).max(initial=0) <= 1e-6:
            help = "a probability lies between 0 and 1, and those of all values sum to 1"
            found = float(total.ravel()[np.argmax(~(np.abs(total.ravel() - 1) <= 1e-6))])
            does = "are not all between 0 and 1" if np.isnan(found) else f"sum to {found:g}"
            message = f"the probabilities of `{d.target.name}` {does} for some values of what they mention"
            raise fail("E415", message, d.span, "not normalised", help=help)


def _verify_length(d: ir.Distributed, bound: Bound, names: Names, turns: Turns) -> None:
    p, values = d.probabilities, len(names.variables[d.target.name].labels)
    if isinstance(p, ir.Table):
        if len(p.items) != values:
            message = f"`{d.target.name}` has {values} values, this list {len(p.items)} entries"
            raise fail("E403", message, p.span, "one entry for each value", help=f"write {values} probabilities that sum to 1")
        return
    assert isinstance(p, ir.ParameterValue | ir.InputValue)
    shape = names.parameters[p.name].shape if isinstance(p, ir.ParameterValue) else bound.inputs[p.name].shape
    if shape[-1] != values:
        message = f"`{d.target.name}` has {values} values, the last axis of `{p.name}` has {shape[-1]}"
        help = f"the last axis runs over the values: {values} of them"
        raise fail("E403", message, p.span, f"length {shape[-1]}", help=help)
    if isinstance(p, ir.InputValue):
        array = bound.inputs[p.name]
        if (array < 0).any() or np.abs(array.sum(-1) - 1).max() > 1e-6:
            help = "divide each row by its sum"
            raise fail("E415", f"the rows of input `{p.name}` must be non-negative with sum 1", p.span, "not normalised", help=help)


def lower_let(lowered: Lowered, name: str) -> tuple[FactorGroup, tuple[int, ...]]:
    """Return a `let` as a group with one instance per entry, and the shape of its axes."""
    return lower_added_let(lowered, lowered.names.model.lets[name])


def lower_added_let(lowered: Lowered, let: ir.Let) -> tuple[FactorGroup, tuple[int, ...]]:
    """Return a `let`, which the model itself need not have, as in `lower_let`."""
    clauses = ir.Clauses(let.span, let.axes)
    group = _group(let.value, clauses, "let", lowered.bound, lowered.names)
    group = group if lowered.data is None else group_with(group, lowered.data)
    verify_finite(lowered.graph, [group])
    return group, tuple(lowered.bound.set_size(a.over) for a in let.axes)


def verify_acyclic_priors(priors: Sequence[Hyperprior], sizes: Mapping[str, int]) -> None:
    """Refuse priors that form a cycle: no product of them is a density. What stands in an `if` or a sum is not looked at.

    Args:
        priors: those that mention parameters.
        sizes: the number of entries of each parameter.

    Raises:
        GmlmError: E413 at the first prior on a cycle.
    """
    starts = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
    pairs = [(p.entries + starts[p.parameter], parents) for p in priors for parents in _parents(p, starts)]
    if not pairs:
        return
    head, tail = (np.concatenate(side).astype(np.int64) for side in zip(*pairs, strict=True))
    left = remaining(head, tail, np.ones(sum(sizes.values()), bool))
    left = remaining(tail, head, left)
    on = [p for p in priors if left[p.entries + starts[p.parameter]].any()]
    if on:
        help = "an entry comes after those that its prior mentions: limit the loop with `if`, or drop one of the priors"
        names = listed(list(dict.fromkeys(p.parameter for p in on)))
        raise fail("E413", f"the priors of entries of {names} form a cycle", on[0].span, "on the cycle", help=help)


def _parents(p: Hyperprior, starts: Mapping[str, int]) -> Iterator[Array]:
    """The entries that each argument of a prior mentions, one for each entry that has it."""
    for group in p.arguments.values():
        for node in _plain(group.root):
            if isinstance(node, Gather) and node.name and not node.terms:
                yield np.broadcast_to(_entries(node.base, group).reshape(-1), p.entries.shape) + starts[node.name]


def _plain(root: Node) -> Iterator[Node]:
    """The nodes that count at each turn, whatever holds."""
    todo = [root]
    while todo:
        node = todo.pop()
        yield node
        todo += node.operands if isinstance(node, Apply) else ()


def _entries(base: Node, group: FactorGroup) -> Array:
    if isinstance(base, Column):
        return group.columns[base.k]
    assert isinstance(base, Constant)
    return np.full(1, base.value)


HELP = "a cell comes after its parents: drop one of the `~`, or write its table as a factor, `factor log(p[y, x])`"


def verify_acyclic(groups: Sequence[FactorGroup], model: ir.Model, n_cells: int) -> None:
    """Raise if conditional distributions form a cycle.

    Args:
        groups: the groups of the statements `z ~ categorical(p)`. The first slot of the scope is
            the cell itself, the others are its parents.
        model: the model of these statements.
        n_cells: the number of cells of the model. Given cells come after them.

    Raises:
        GmlmError: E413 at the first statement of the cycles, with the next one.
    """
    if not groups:
        return
    heads = [np.repeat(g.scope[:, :1], g.scope.shape[1] - 1, axis=1).ravel() for g in groups]
    head, tail = np.concatenate(heads), np.concatenate([g.scope[:, 1:].ravel() for g in groups])
    head, tail = head[tail < n_cells], tail[tail < n_cells]
    if (tail < head).all() or (tail > head).all():
        return  # All parents come before their children, or all come after them.
    left = remaining(head, tail, np.ones(n_cells, bool))
    left = remaining(tail, head, left)  # A cell that only comes after a cycle is not on it.
    if not left.any():
        return
    spans = [g.span for g in groups if left[g.scope[:, 0]].any()]
    names = list(dict.fromkeys(d.target.name for d in model.distributed if d.span in spans))
    what = f"of {listed(names[:-1])} and `{names[-1]}`" if len(names) > 1 else f"of cells of `{names[0]}`"
    related = ((spans[1], "and this one"),) if len(spans) > 1 else ()
    raise GmlmError(Diagnostic("E413", f"the conditional distributions {what} form a cycle", spans[0], "on the cycle", related, HELP))


def remaining(head: Array, tail: Array, among: Array) -> Array:
    """Return the cells that remain if a cell is removed as soon as all its parents are removed.

    This is Kahn's algorithm on arrays, restricted to the cells of the mask `among`.
    """
    kept = among[head] & among[tail]
    head, tail = head[kept], tail[kept]
    waiting = np.bincount(head, minlength=len(among))
    order = np.argsort(tail, kind="stable")
    head, starts = head[order], np.searchsorted(tail[order], np.arange(len(among) + 1))
    left, free = among.copy(), np.flatnonzero(among & (waiting == 0))
    while len(free):
        left[free] = False
        children = np.concatenate([head[starts[c] : starts[c + 1]] for c in free])
        np.subtract.at(waiting, children, 1)
        free = np.unique(children[waiting[children] == 0])
    return left


def summands(e: ir.Expression, clauses: ir.Clauses, model: ir.Model) -> list[tuple[ir.Expression, ir.Clauses]]:
    """Return terms with their clauses. Their sum over all iterations is an expression's sum.

    A sum with a `for` joins its loops to those of the clauses. It may stand in other sums and
    differences, beside a factor or over a divisor without such a sum, and in a `let` without axes.
    A sum whose terms mention no cell, as over covariates, stays whole: apart, its terms would be
    factors of the same cells. So does an expression of more than `MOST_SUMMANDS` terms.
    """
    if not _is_sum(e, model):
        return [(e, clauses)]
    found = list(islice(_terms(e, clauses, model), MOST_SUMMANDS + 1))
    return found if len(found) <= MOST_SUMMANDS else [(e, clauses)]


def _is_sum(e: ir.Expression, model: ir.Model) -> bool:
    """Return whether an expression has a sum with a `for` that can be written as several terms."""
    match e:
        case ir.Sum(operator="+"):
            return _has_cell(e.body, model)
        case ir.Operation(operator="+" | "-" | "neg", operands=operands):
            return any(_is_sum(o, model) for o in operands)
        case ir.Operation(operator="*", operands=(left, right)):
            return _is_sum(left, model) != _is_sum(right, model)
        case ir.Operation(operator="/", operands=(left, right)):
            return _is_sum(left, model) and not _is_sum(right, model)
        case ir.LetValue(indices=()) if e.name in model.lets:
            return _is_sum(model.lets[e.name].value, model)
    return False


def _has_cell(e: ir.Expression, model: ir.Model) -> bool:
    """Return whether an expression mentions a cell that a model gives a probability."""
    for part in ir.walk(e):
        if isinstance(part, ir.VariableValue) and model.variables[part.name].role != "given":
            return True
        if isinstance(part, ir.LetValue) and part.name in model.lets and _has_cell(model.lets[part.name].value, model):
            return True
    return False


def _terms(e: ir.Expression, clauses: ir.Clauses, model: ir.Model) -> Iterator[tuple[ir.Expression, ir.Clauses]]:
    if not _is_sum(e, model):
        yield e, clauses
        return
    match e:
        case ir.Sum(body=body, clauses=inner):
            joined = _joined(clauses, inner, body)
            if joined is None:
                yield e, clauses
            else:
                yield from _terms(*joined, model)
        case ir.LetValue():
            yield from _terms(model.lets[e.name].value, clauses, model)
        case ir.Operation(operator="neg", operands=(inside,)):
            yield from ((replace(e, operands=(t,)), c) for t, c in _terms(inside, clauses, model))
        case ir.Operation(operator="+" | "-", operands=(left, right)):
            yield from _terms(left, clauses, model)
            sign = "neg" if e.operator == "-" else ""
            yield from ((replace(e, operator=sign, operands=(t,)) if sign else t, c) for t, c in _terms(right, clauses, model))
        case ir.Operation(operands=(left, right)) if _is_sum(left, model):
            yield from ((replace(e, operands=(t, right)), c) for t, c in _terms(left, clauses, model))
        case ir.Operation(operands=(left, right)):
            yield from ((replace(e, operands=(left, t)), c) for t, c in _terms(right, clauses, model))


def _joined(outer: ir.Clauses, inner: ir.Clauses, body: ir.Expression) -> tuple[ir.Expression, ir.Clauses] | None:
    """Return the body of a sum with the loops of its clauses behind those around it.

    Index names that both have are renamed within the sum. The result is None if a set of the sum
    depends on index names that a condition around it restricts.
    """
    if outer.condition is not None and any(loop.over.is_dependent for loop in inner.loops):
        return None
    taken = {n for loop in outer.loops for n in loop.names}
    new: dict[str, ir.Expression] = {}
    loops = []
    for loop in inner.loops:
        names = []
        for name in loop.names:
            fresh = name
            while fresh in taken:
                fresh += "'"
            taken.add(fresh)
            names.append(fresh)
            new[name] = ir.IndexValue(loop.span, fresh)
        loops.append(replace(loop, names=tuple(names), over=ir.substitute_in_set(loop.over, new)))
    condition = None if inner.condition is None else ir.substitute(inner.condition, new)
    conditions = tuple(c for c in (outer.condition, condition) if c is not None)
    both = ir.Operation(inner.span, "and", conditions) if len(conditions) > 1 else next(iter(conditions), None)
    return ir.substitute(body, new), replace(outer, loops=(*outer.loops, *loops), condition=both)
