"""Checks the distribution of a cell, `x ~ bernoulli(p)` and its like: log p of the value it has, normalised whatever it mentions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .._diagnostics import did_you_mean, listed
from ..syntax import tree
from . import _forms as forms
from ._expressions import (
    INDEXED,
    MODEL,
    Checked,
    Where,
    check_condition,
    check_expression,
    check_label,
    check_number,
    faulty,
    is_faulty,
    known_number,
    require_number,
    rule,
)
from ._kinds import Kind, kind_of
from ._program import Input, Parameter, Variable
from ._references import check_index, check_indices, check_name
from ._scope import Scope
from ._sets import check_loop
from ._tables import check_rows_sum
from ._terms import (
    Choice,
    Clauses,
    Expression,
    IndexValue,
    InputValue,
    LabelCode,
    Literal,
    Loop,
    Operation,
    ParameterValue,
    SetOf,
    Sum,
    Table,
    TableEntry,
    VariableValue,
    substitute,
    substitute_in_clauses,
    walk,
)

Count = tuple[Expression | SetOf, int]


@dataclass(frozen=True)
class Density:
    """log p of a cell's value.

    `counts` are the numbers of values that its arguments speak of: the size of a set or an expression, and what is added.
    """

    value: Expression
    counts: tuple[Count, ...] = ()


class _Law:
    """The distribution of one cell while it is checked."""

    def __init__(self, call: tree.Call, cell: Variable, target: VariableValue, scope: Scope):
        self.call, self.cell, self.target, self.scope, self.span = call, cell, target, scope, call.span
        self.counts: list[Count] = []

    @property
    def code(self) -> Expression:
        """The place of the cell's value among its values."""
        return self.op("bit", self.target) if self.cell.domain.kind == "spin" else self.target

    def op(self, operator: str, *operands: Expression) -> Expression:
        return Operation(self.span, operator, operands)

    def number(self, value: float) -> Expression:
        return Literal(self.span, value)

    def chosen(self, value: int, yes: Expression, no: Expression) -> Expression:
        """`yes` where the cell has the value of that place."""
        return Choice(self.span, self.op("==", self.code, self.number(value)), yes, no)

    def read(self, e: tree.Expression) -> Expression | None:
        found = check_number(e, self.scope, MODEL)
        return None if is_faulty(found) else found

    def fault(self, message: str, help: str, code: str = "E302") -> None:
        self.scope.report(code, message, self.span, f"`{forms.form('distribution', self.call.function.name).signature}`", help=help)  # type: ignore[union-attr]

    def arguments(self, *wanted: str, instead: tuple[str, str] | None = None) -> dict[str, tree.Expression] | None:
        """The arguments by name: plain ones in their order, `instead` by its keyword in the place of another."""
        found: dict[str, tree.Expression] = {}
        for k, a in enumerate(self.call.arguments):
            name = a.keyword.name if a.keyword is not None else wanted[k] if k < len(wanted) else ""
            if a.clauses is not None or name in found or name not in (*wanted, *(instead or ())[1:]):
                name = ""
            if not name:
                break
            found[name] = a.value
        else:
            needed = [set(wanted)] + ([set(wanted) - {instead[0]} | {instead[1]}] if instead else [])
            if set(found) in needed:
                return found
        name, last = self.call.function.name, f", or `{instead[1]} = ..` for `{instead[0]}`" if instead else ""
        known = (*wanted, *(instead or ())[1:])
        odd = [a.keyword.name for a in self.call.arguments if a.keyword is not None and a.keyword.name not in known]
        meant = "".join(f"did you mean `{near}`? " for name in odd[:1] if (near := did_you_mean(name, known)))
        self.fault(f"`{name}` takes {listed(list(wanted))}{last}", f"{meant}for example `{EXAMPLES[name]}`")
        return None

    # Forms

    def bernoulli(self) -> Expression | None:
        if self.cell.domain.kind not in ("bit", "spin"):
            help = "a variable of other values takes `categorical([..])`, one probability for each"
            self.scope.report("E311", "`bernoulli` is a distribution of bits and spins", self.span, "neither", help=help)
            return None
        found = self.arguments("probability", instead=("probability", "logit"))
        if found is None:
            return None
        if "logit" in found:
            e = self.read(found["logit"])
            return None if e is None else self.op("-", self.op("*", self.code, e), self.op("softplus", e))
        p = self.read(found["probability"])
        return None if p is None else self.op("log", self.chosen(1, p, self.op("-", self.number(1), p)))

    def binomial(self) -> Expression | None:
        if self.cell.domain.kind != "range":
            self.scope.report("E311", "`binomial` is a distribution of counts: declare `range(n + 1)`", self.span, "not a range")
            return None
        found = self.arguments("n", "probability", instead=("probability", "logit"))
        n = None if found is None else check_number(found["n"], self.scope, INDEXED, integer=True)
        if found is None or n is None or is_faulty(n):
            return None
        self.counts.append((n, 1))
        ways, k, rest = self.op("log_binomial", n, self.code), self.code, self.op("-", n, self.code)
        if "logit" in found:
            e = self.read(found["logit"])
            return None if e is None else self.op("-", self.op("+", ways, self.op("*", k, e)), self.op("*", n, self.op("softplus", e)))
        p = self.read(found["probability"])
        if p is None:
            return None
        parts = ((k, self.op("log", p)), (rest, self.op("log", self.op("-", self.number(1), p))))
        won, lost = (
            Choice(self.span, self.op("==", times, self.number(0)), self.number(0), self.op("*", times, log)) for times, log in parts
        )
        return self.op("+", ways, self.op("+", won, lost))

    def ordered_logistic(self) -> Expression | None:
        if self.cell.domain.kind != "range":
            self.scope.report(
                "E311", "`ordered_logistic` is a distribution of ordered values: declare `range(q)`", self.span, "not a range"
            )
            return None
        found = self.arguments("location", "cutpoints")
        location = None if found is None else self.read(found["location"])
        cut = None if found is None else self.row(found["cutpoints"], 1)
        if location is None or cut is None:
            return None
        y, last = self.code, self.last()

        def above(k: Expression) -> Expression:
            return self.op("-", location, cut(k))

        below = self.op("-", y, self.number(1))
        lowest = self.op("neg", self.op("softplus", above(self.number(0))))
        highest = self.op("neg", self.op("softplus", self.op("neg", above(below))))
        gap = self.op("log", self.op("neg", self.op("expm1", self.op("-", cut(below), cut(y)))))
        between = self.op("-", gap, self.op("+", self.op("softplus", above(y)), self.op("softplus", self.op("neg", above(below)))))
        inner = Choice(self.span, self.op("==", y, last), highest, between)
        return Choice(self.span, self.op("==", y, self.number(0)), lowest, inner)

    def last(self) -> Expression:
        """The place of the highest value."""
        domain = self.cell.domain
        while domain.of is not None and domain.of.domain is not None:
            domain = domain.of.domain
        size = domain.size if domain.size is not None else self.number(2)
        number = known_number(size)
        return self.op("-", size, self.number(1)) if number is None else self.number(number - 1)

    def categorical(self) -> Expression | None:
        a = self.call.arguments[0] if len(self.call.arguments) == 1 else None
        if a is not None and a.keyword is not None and a.keyword.name == "logits":
            return self.logits(a)
        if a is None or a.keyword is not None or a.clauses is not None:
            self.fault("`categorical` takes one array of probabilities, or `logits = ..`", f"for example `{EXAMPLES['categorical']}`")
            return None
        row = self.row(a.value, 0)
        if row is None:
            return None
        found = self.op("log", row(self.code))
        return self.op("-", found, self.op("log", total)) if (total := self.total(a.value, row)) is not None else found

    def logits(self, a: tree.Argument) -> Expression | None:
        """`logits = e for a in domain`, or a list of them."""
        if a.clauses is None:
            if not isinstance(a.value, tree.List):
                self.fault("`logits` are a number for each value", f"for example `{EXAMPLES['categorical']}`, or a list")
                return None
            row = self.row(a.value, 0)
            if row is None:
                return None
            over = SetOf(self.span, "range", "values", self.number(len(a.value.items)))
            return self.op("-", row(self.code), self.over(row, over, "logsumexp"))
        with self.scope.nested():
            one = len(a.clauses.loops) == 1 and a.clauses.condition is None
            loop = check_loop(a.clauses.loops[0], self.scope) if one else None
            if not one:
                self.fault("`logits` run over the values of the variable", f"for example `{EXAMPLES['categorical']}`")
            if loop is None:
                return None
            body = self.read(a.value)
        domain = loop.over.domain
        labelled = not kind_of(self.cell.domain).numeric
        if (
            len(loop.names) != 1
            or labelled != (domain is not None and not domain.ordered)
            or (labelled and domain is not None and domain.labels != self.cell.domain.labels)
        ):
            message = f"`{loop.over.name}` does not hold the values of `{self.cell.name}`"
            self.scope.report("E212", message, a.clauses.span, "two domains", related=((self.cell.domain.span, "its values"),))
            return None
        if body is None:
            return None
        self.counts.append((loop.over, 0))
        total = Sum(a.value.span, body, Clauses(a.clauses.span, (Loop(loop.span, loop.names, loop.over),)), "logsumexp")
        return self.op("-", self.at_value(body, loop), total)

    def at_value(self, body: Expression, loop: Loop) -> Expression:
        """An expression of the loop's value at that of the cell; a sum that picks it, where it says what another loop runs over."""
        (name,) = loop.names
        here = {name: self.code}
        if all(substitute_in_clauses(p.clauses, here) == p.clauses for p in walk(body) if isinstance(p, Sum)):
            return substitute(body, here)
        picked = Choice(body.span, self.op("==", self.code, IndexValue(body.span, name)), body, self.number(0))
        return Sum(body.span, picked, Clauses(loop.span, (Loop(loop.span, loop.names, loop.over),)), "+")

    def over(self, row: Row, over: SetOf, operator: str) -> Expression:
        """A reduction of a row over its places."""
        body = row(IndexValue(self.span, "value'"))
        return Sum(self.span, body, Clauses(self.span, (Loop(self.span, ("value'",), over),)), operator)

    def total(self, e: tree.Expression, row: Row) -> Expression | None:
        """What a written row sums to, where it mentions a parameter: a number that no check can know."""
        if not isinstance(e, tree.List) or not any(isinstance(p, ParameterValue) for p in walk(row(self.number(0)))):
            return None
        return self.over(row, SetOf(self.span, "range", "values", self.number(len(e.items))), "+")

    # Rows: a number for each value

    def row(self, e: tree.Expression, fewer: int) -> Row | None:
        """A row as a function of the place in it; `fewer`: by how much it is shorter than the values of the cell."""
        match e:
            case tree.List():
                items = [self.read(item) for item in e.items]
                if any(item is None for item in items) or not self.verify_count(len(items) + fewer, e):
                    return None
                table = Table(e.span, tuple(i for i in items if i is not None))
                if not fewer and not (isinstance(self.call.arguments[0].keyword, tree.Name)):
                    check_rows_sum(table, self.scope)
                return lambda k: TableEntry(e.span, table, (k,))
            case tree.Conditional() if e.no is not None:
                test = check_condition(e.test, self.scope, MODEL)
                yes, no = self.row(e.yes, fewer), self.row(e.no, fewer)
                if yes is None or no is None or is_faulty(test):
                    return None
                return lambda k: Choice(e.span, test, yes(k), no(k))
            case tree.LookedUp():
                return check_table(e, lambda item: self.row(item, fewer), self.scope)
            case tree.Name() | tree.Index():
                return self.open_row(e, fewer)
        help = "a row is a list `[0.2, 0.8]`, an array with its last axis open, one of them by `if`, or by a map `{..}[x]`"
        self.scope.report("E310", f"`{self.call.function.name}` needs an array of numbers", e.span, "not an array", help=help)
        return None

    def verify_count(self, found: int, e: tree.Expression) -> bool:
        domain = self.cell.domain
        count = len(domain.labels) or (2 if domain.kind in ("spin", "bit") else known_number(domain.size))
        if count is None:
            self.counts.append((Literal(e.span, found), 0))
        elif count != found:
            message = f"the variable has {count} values, this row is for {found}"
            self.scope.report("E310", message, e.span, f"for {found} values", related=((domain.span, "its values"),))
            return False
        return True

    def open_row(self, e: tree.Name | tree.Index, fewer: int) -> Row | None:
        """An array with its last axis open."""
        name, given = (e, ()) if isinstance(e, tree.Name) else (e.base, e.indices)
        name = check_name(name)
        symbol = self.scope.find(name.name)
        declared = symbol.value if symbol is not None else None
        if not isinstance(declared, Input | Parameter):
            if symbol is None or not symbol.faulty:
                self.scope.use(name, "param", "input")
            return None
        axes = tuple(a.over or SetOf(a.span, "range", f"range({a.span.text})", a.size) for a in declared.axes)  # pyright: ignore[reportAttributeAccessIssue]
        if fewer == 0 and isinstance(declared, Parameter) and declared.type.kind != "simplex" and self.call.function.name == "categorical":
            help = f"declare it as `param {name.name}[..] : simplex`, or write `logits = {name.name}[.., a] for a in ..`"
            self.scope.report("E310", f"`{name.name}` is not a simplex", e.span, "need not sum to 1", help=help)
            return None
        indices, is_open = check_indices(name, given, axes, self.scope, MODEL, open_last=True)
        if not is_open:
            return None
        named = isinstance(declared, Input) and declared.axes[-1].over is None and declared.axes[-1].size is None
        size: Expression | SetOf = InputValue(e.span, declared.axes[-1].name) if named else axes[-1]  # type: ignore[union-attr]
        self.counts.append((size, fewer))
        make = ParameterValue if isinstance(declared, Parameter) else InputValue
        return lambda k: make(e.span, name.name, (*indices, k))


Row = Callable[[Expression], Expression]
EXAMPLES = {
    "bernoulli": "x ~ bernoulli(0.3)",
    "binomial": "k ~ binomial(10, 0.3)",
    "categorical": "z ~ categorical(logits = h[a] for a in domain)",
    "ordered_logistic": "y ~ ordered_logistic(b * age, cut)",
}


def check_density(call: tree.Call, cell: Variable, target: VariableValue, scope: Scope) -> Density | None:
    """log p of a cell's value under the distribution that a call names; None after a fault."""
    law = _Law(call, cell, target, scope)
    value = getattr(law, call.function.name)()
    return None if value is None else Density(value, tuple(law.counts))


ReadEntry = Callable[[tree.Expression], "Row | None"]


def check_table(e: tree.LookedUp, entry: ReadEntry, scope: Scope, where: Where = MODEL) -> Row | None:
    """A map or a list with its indices as a function of the place in its rows."""
    if isinstance(e.entries, tree.List):
        return _check_list(e, e.entries, entry, scope, where)
    return _check_map(e, e.entries, entry, scope, where)


def _check_list(e: tree.LookedUp, rows: tree.List, entry: ReadEntry, scope: Scope, where: Where) -> Row | None:
    """A list of lists, one level for each index."""
    places: dict[tuple[int, ...], Row] = {}
    sizes: list[int] = []

    def read(item: tree.Expression, prefix: tuple[int, ...]) -> bool:
        depth = len(prefix)
        if depth == len(e.indices):
            found = entry(item)
            if found is not None:
                places[prefix] = found
            return found is not None
        if not isinstance(item, tree.List):
            message = f"the list has {len(e.indices)} indices, this part of it {depth} level{'s' * (depth != 1)}"
            scope.report("E332", message, item.span, "a list is wanted here", help="write `[[a, b], [c, d]][i, j]`: a level for each index")
            return False
        if depth == len(sizes):
            sizes.append(len(item.items))
        if len(item.items) != sizes[depth] or not item.items:
            count = len(item.items)
            message = f"this list has {count} entr{'y' if count == 1 else 'ies'}, those before it {sizes[depth]}"
            message = message if count else "this list is empty"
            scope.report("E332", message, item.span, "another number", help="the lists of one level have one length")
            return False
        return all([read(part, (*prefix, place)) for place, part in enumerate(item.items)])

    if not read(rows, ()):
        return None
    before = len(scope.diagnostics)
    codes = [_check_place(i, size, e, scope, where) for i, size in zip(e.indices, sizes, strict=True)]
    return _row_of_places(e, places, sizes, codes) if len(scope.diagnostics) == before else None


def _check_place(index: tree.Expression, size: int, e: tree.LookedUp, scope: Scope, where: Where) -> Expression:
    value, kind = check_expression(index, scope, where)
    if kind.tag == "error":
        return value
    if kind.tag == "label":
        help = f'write a map, which has a value for each label: `{{"a": 0.1, "b": 0.2}}[{index.span.text}]`'
        scope.report("E212", "a list is looked up by a whole number, not by a label", index.span, "a label", help=help)
        return Literal(e.span, 0)
    return check_index(index, SetOf(e.span, "range", "the list", Literal(e.span, size)), scope, where)


def _check_map(e: tree.LookedUp, entries: tuple[tree.Entry, ...], entry: ReadEntry, scope: Scope, where: Where) -> Row | None:
    """What stands behind the keys that the indices are."""
    checked = [check_expression(i, scope, where) for i in e.indices]
    if any(kind.tag == "error" for _, kind in checked):
        return None
    values = [_values_of(kind, [one.keys[k] for one in entries if len(one.keys) > k]) for k, (_, kind) in enumerate(checked)]
    places: dict[tuple[int, ...], Row] = {}
    first: dict[tuple[int, ...], tree.Entry] = {}
    good = True
    for one in entries:
        key = _key(one, checked, values, scope)
        found = entry(one.value)
        if key is None or found is None:
            good = False
        elif key in places:
            place = ((first[key].span, "the first one"),)
            scope.report("E332", "this key stands twice in the map", one.span, "again here", related=place, help="remove one of the two")
            good = False
        else:
            places[key], first[key] = found, one
    if not good:
        return None
    missing = [key for key in _all_keys(values) if key not in places]
    if missing:
        shown = ", ".join(_shown(v[place]) for v, place in zip(values, missing[0], strict=True))
        message = f"the map has no value for {shown if len(values) == 1 else f'({shown})'}"
        more = f", nor for {len(missing) - 1} other{'s' * (len(missing) > 2)}" if len(missing) > 1 else ""
        scope.report("E332", message + more, e.span, "a key is missing", help="a map has a value for every key")
        return None
    codes = [_code(c, kind, v, e) for (c, kind), v in zip(checked, values, strict=True)]
    return _row_of_places(e, places, [len(v) for v in values], codes)


def _row_of_places(e: tree.LookedUp, places: dict[tuple[int, ...], Row], sizes: list[int], codes: list[Expression]) -> Row:
    """The row at the place that the codes are."""

    def row(k: Expression) -> Expression:
        def table(prefix: tuple[int, ...]) -> Expression:
            depth = len(prefix)
            if depth == len(sizes):
                return places[prefix](k)
            return Table(e.span, tuple(table((*prefix, place)) for place in range(sizes[depth])))

        whole = table(())
        assert isinstance(whole, Table)
        return _flattened(TableEntry(e.span, whole, tuple(codes)))

    return row


@rule(tree.LookedUp)
def _looked_up(e: tree.LookedUp, scope: Scope, where: Where) -> Checked:
    """A map or a list of numbers."""
    kinds: list[Kind] = []

    def entry(item: tree.Expression) -> Row | None:
        value, kind = check_expression(item, scope, where)
        kinds.append(kind)
        return None if kind.tag == "error" or not require_number(kind, item, scope) else lambda k: value

    found = check_table(e, entry, scope, where)
    if found is None:
        return faulty(e.span)
    return found(Literal(e.span, 0)), Kind("number", integer=all(k.integer for k in kinds))


def _flattened(e: TableEntry) -> Expression:
    """An entry of tables that are all indexed alike is one of a table with one level more."""
    entries = e.entries
    if not all(isinstance(x, TableEntry) and x.indices == entries[0].indices and x.shape == entries[0].shape for x in entries):  # type: ignore[union-attr]
        return e
    inner = entries[0]
    assert isinstance(inner, TableEntry)

    def deeper(part: Expression, depth: int) -> Expression:
        if depth == 0:
            assert isinstance(part, TableEntry)
            return part.table
        assert isinstance(part, Table)
        return Table(part.span, tuple(deeper(item, depth - 1) for item in part.items))

    table = deeper(e.table, len(e.indices))
    assert isinstance(table, Table)
    return TableEntry(e.span, table, (*e.indices, *inner.indices))


def _values_of(kind: Kind, keys: list[tree.Expression]) -> list[str | float]:
    """The values that an index of a map may take, in the order of their places; of one whose values are not known, the keys."""
    domain = kind.domain
    if domain is not None and domain.labels:
        return [*domain.labels]
    if domain is not None and kind.plain and domain.kind in ("spin", "bit"):
        return [-1, 1] if domain.kind == "spin" else [0, 1]
    size = known_number(domain.size) if domain is not None and kind.plain else None
    if size is not None:
        return [*range(int(size))]
    return sorted({k.value for k in keys if isinstance(k, tree.Number)})


def _key(one: tree.Entry, checked: list[tuple[Expression, Kind]], values: list[list[str | float]], scope: Scope) -> tuple[int, ...] | None:
    if len(one.keys) != len(checked):
        message = f"the map has {len(checked)} {'index' if len(checked) == 1 else 'indices'}, this key {len(one.keys)} parts"
        scope.report("E332", message, one.span, "another number of parts", help='a key of several parts is written `("no", 1)`')
        return None
    found: list[int] = []
    for k, (_, kind), of in zip(one.keys, checked, values, strict=True):
        if isinstance(k, tree.String) and kind.tag == "label" and kind.domain is not None:
            label = check_label(k, kind.domain, scope)
            if not isinstance(label, LabelCode):
                return None
            found.append(label.code)
        elif isinstance(k, tree.Number) and kind.tag != "label" and k.value in of:
            found.append(of.index(k.value))
        else:
            scope.report(
                "E332",
                f"`{k.span.text}` is no value of this index",
                k.span,
                "not a key",
                help=f"its values are {listed([_shown(v) for v in of])}",
            )
            return None
    return tuple(found)


def _all_keys(values: list[list[str | float]]) -> list[tuple[int, ...]]:
    keys: list[tuple[int, ...]] = [()]
    for v in values:
        keys = [(*key, place) for key in keys for place in range(len(v))]
    return keys


def _code(e: Expression, kind: Kind, values: list[str | float], looked: tree.LookedUp) -> Expression:
    """The place of an index among its values."""
    if kind.spin:
        return Operation(e.span, "bit", (e,))
    if kind.tag == "label" or values == [*range(len(values))]:
        return e
    found: Expression = Literal(looked.span, len(values))  # out of range: no key is that value
    for place, value in enumerate(values):
        found = Choice(e.span, Operation(e.span, "==", (e, Literal(e.span, value))), Literal(e.span, place), found)  # type: ignore[arg-type]
    return found


def _shown(value: str | float) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"
