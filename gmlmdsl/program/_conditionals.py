"""Check the distribution of a cell, as in `x ~ bernoulli(p)`.

The result is log p of the cell's value. It is normalised for all values of the names that its
arguments mention.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .._diagnostics import Fix, Span, counted, listed
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
    written_number,
)
from ._law_arguments import EXAMPLES, law_arguments, logits_written, trials_come_first, verify_probability
from ._program import Input, Parameter, ValueCount, Variable
from ._references import check_index, check_indices, check_name, slots_of
from ._scope import Scope
from ._sets import check_loop
from ._tables import check_rows_sum
from ._terms import (
    Choice,
    Clauses,
    Expression,
    IndexValue,
    InputValue,
    Kind,
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
    kind_of,
    substitute,
    substitute_in_clauses,
    walk,
)
from .limits import MOST_LABELS


@dataclass(frozen=True)
class Density:
    """log p of a cell's value.

    Attributes:
        value: the expression of log p.
        counts: the numbers of values that the arguments imply.
        arguments: the arguments. An array is represented by its first entry.
    """

    value: Expression
    counts: tuple[ValueCount, ...] = ()
    arguments: tuple[Expression, ...] = ()


class _Law:
    """The distribution of one cell during its check."""

    def __init__(self, call: tree.Call, cell: Variable, target: VariableValue, scope: Scope):
        self.call, self.cell, self.target, self.scope, self.span = call, cell, target, scope, call.span
        self.counts: list[ValueCount] = []
        self.taken: list[Expression] = []

    @property
    def code(self) -> Expression:
        """The code of the cell's value, that is its position among the values of the domain."""
        return self.cell.domain.code(self.target)

    def op(self, operator: str, *operands: Expression) -> Expression:
        return Operation(self.span, operator, operands)

    def number(self, value: float) -> Expression:
        return Literal(self.span, value)

    def chosen(self, value: int, yes: Expression, no: Expression) -> Expression:
        """Return `yes` if the code of the cell's value is `value`, else `no`."""
        return Choice(self.span, self.op("==", self.code, self.number(value)), yes, no)

    def read(self, e: tree.Expression) -> Expression | None:
        found = check_number(e, self.scope, MODEL)
        if is_faulty(found):
            return None
        self.taken.append(found)
        return found

    def fault(self, message: str, help: str, code: str = "E302") -> None:
        self.scope.report(code, message, self.span, f"`{forms.form('distribution', self.call.function.name).signature}`", help=help)  # type: ignore[union-attr]

    def arguments(self, *wanted: str, logit: bool = False) -> dict[str, tree.Expression] | None:
        return law_arguments(self.call, wanted, logit, self.scope)

    def probability(self, e: tree.Expression) -> Expression | None:
        """Check a probability. The range of a number is checked if the text contains the number."""
        p = self.read(e)
        return p if p is not None and verify_probability(p, self.scope) else None

    def complement(self, p: Expression) -> Expression:
        """Return 1 - p; of `1 - q` it is q, which keeps the digits of small ones."""
        match p:
            case Operation(operator="-", operands=(Literal(value=1), q)):
                return q
        return self.op("-", self.number(1), p)

    def count(self, of: Expression | SetOf, more: int, what: str, span: Span) -> None:
        """Record the number of values that the arguments imply."""
        self.counts.append(ValueCount(span, of, more, what))

    # Forms

    def bernoulli(self) -> Expression | None:
        if self.cell.domain.scale is None or self.cell.domain.scale.size != 2:
            help = "a variable of other values takes `categorical([..])`, one probability for each"
            help += ", a count of successes `binomial(n, p)`" * (self.cell.domain.kind == "range")
            self.scope.report(
                "E311", "`bernoulli` is a distribution of bits and spins", self.span, f"`{self.cell.name}` is neither", help=help
            )
            return None
        found = self.arguments("probability", logit=True)
        if found is None:
            return None
        if "logit" in found:
            e = self.read(found["logit"])
            return None if e is None else self.op("-", self.op("*", self.code, e), self.op("softplus", e))
        p = self.probability(found["probability"])
        return None if p is None else self.op("log", self.chosen(1, p, self.complement(p)))

    def binomial(self) -> Expression | None:
        if self.cell.domain.kind != "range" or self.cell.domain.start is not None:
            help = f"declare it as `var {self.cell.name} : range(n + 1)`; one trial is `bernoulli(p)`"
            self.scope.report("E311", "`binomial` is a distribution of counts", self.span, "not a range", help=help)
            return None
        found = None if trials_come_first(self.call, self.scope) else self.arguments("n", "probability", logit=True)
        n = None if found is None else check_number(found["n"], self.scope, INDEXED, integer=True)
        if found is None or n is None or is_faulty(n):
            return None
        self.count(n, 1, "trials", n.span)
        ways, k, rest = self.op("log_binomial", n, self.code), self.code, self.op("-", n, self.code)
        if "logit" in found:
            e = self.read(found["logit"])
            return None if e is None else self.op("-", self.op("+", ways, self.op("*", k, e)), self.op("*", n, self.op("softplus", e)))
        p = self.probability(found["probability"])
        if p is None:
            return None
        parts = ((k, self.op("log", p)), (rest, self.op("log", self.complement(p))))
        won, lost = (
            Choice(self.span, self.op("==", times, self.number(0)), self.number(0), self.op("*", times, log)) for times, log in parts
        )
        return self.op("+", ways, self.op("+", won, lost))

    def ordered_logistic(self) -> Expression | None:
        if self.cell.domain.kind != "range":
            help = f"declare it as `var {self.cell.name} : range(q)`; one of two values is `bernoulli(logit = ..)`"
            self.scope.report("E311", "`ordered_logistic` is a distribution of ordered values", self.span, "not a range", help=help)
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

    def verify_increasing(self, items: list[Expression], e: tree.List) -> bool:
        """Return whether cutpoints that are written as numbers increase. Otherwise report E310."""
        numbers = [n for n in map(written_number, items) if n is not None]
        good = len(numbers) < len(items) or all(a < b for a, b in itertools.pairwise(numbers))
        if not good:
            help = "write them in increasing order: a value lies between two of them"
            self.scope.report("E310", "these cutpoints do not increase", e.span, "not in order", help=help)
        return good

    def last(self) -> Expression:
        """Return the code of the highest value."""
        domain = self.cell.domain
        while domain.of is not None and domain.of.domain is not None:
            domain = domain.of.domain
        size = domain.size if domain.size is not None else self.number(2)
        number = known_number(size)
        return self.op("-", size, self.number(1)) if number is None else self.number(number - 1)

    def categorical(self) -> Expression | None:
        a = self.call.only
        if a is not None and a.keyword is not None and a.keyword.name == "logits":
            return self.logits(a)
        if a is None or not a.is_plain:
            self.fault("`categorical` takes one array of probabilities, or `logits = ..`", f"for example `{EXAMPLES['categorical']}`")
            return None
        row = self.row(a.value, 0)
        if row is None:
            return None
        found = self.op("log", row(self.code))
        return self.op("-", found, self.op("log", total)) if (total := self.total(a.value, row)) is not None else found

    def logits(self, a: tree.Argument) -> Expression | None:
        """Check `logits = e for a in domain`, or a list of logits."""
        if a.clauses is None:
            if not isinstance(a.value, tree.List):
                self.report_logits(a)
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
            if loop is None or not self.is_over_values(loop, a.clauses.loops[0]):
                return None
            body = self.read(a.value)
        if body is None:
            return None
        self.count(loop.over, 0, "members", a.clauses.loops[0].over.span)
        total = Sum(a.value.span, body, Clauses(a.clauses.span, (Loop(loop.span, loop.names, loop.over),)), "logsumexp")
        self.taken[-1] = total  # It mentions the cells that the distribution depends on.
        return self.op("-", self.at_value(body, loop), total)

    def report_logits(self, a: tree.Argument) -> None:
        """Report `logits = h` with neither a loop nor a list.

        It lacks a number for each value.
        """
        written = logits_written(a, self.scope)
        fix = Fix(a.value.span, written, guess=True) if written else None
        help = f"write `logits = {written}`" if written else f"for example `{EXAMPLES['categorical']}`, or a list"
        self.scope.report("E302", "`logits` are a number for each value", a.value.span, "no `for`, and no list", help=help, fix=fix)

    def is_over_values(self, loop: Loop, written: tree.Loop) -> bool:
        """Return whether a loop runs over the values of the cell. Otherwise report E212."""
        domain, mine = loop.over.domain, self.cell.domain
        labelled = not kind_of(mine).numeric
        if (
            len(loop.names) == 1
            and labelled == (domain is not None and not domain.ordered)
            and not (labelled and domain is not None and domain.labels != mine.labels)
        ):
            return True
        message = f"`{loop.over.name}` does not hold the values of `{self.cell.name}`"
        named = mine.name and len(loop.names) == 1
        help, fix = (f"write `for {loop.names[0]} in {mine.name}`", Fix(written.over.span, mine.name, guess=True)) if named else ("", None)
        self.scope.report("E212", message, written.over.span, "other values", related=((mine.span, "its values"),), help=help, fix=fix)
        return False

    def at_value(self, body: Expression, loop: Loop) -> Expression:
        """Return the body of a loop, evaluated at the cell's value.

        If the loop's index determines the range of another loop in the body, the result is a sum
        over the loop. This sum selects the term of the cell's value.
        """
        (name,) = loop.names
        value = loop.over.member(self.code)
        here = {name: value}
        if all(substitute_in_clauses(p.clauses, here) == p.clauses for p in walk(body) if isinstance(p, Sum)):
            return substitute(body, here)
        picked = Choice(body.span, self.op("==", value, IndexValue(body.span, name)), body, self.number(0))
        return Sum(body.span, picked, Clauses(loop.span, (Loop(loop.span, loop.names, loop.over),)), "+")

    def over(self, row: Row, over: SetOf, operator: str) -> Expression:
        """Return a reduction of a row over its entries."""
        body = row(IndexValue(self.span, "value'"))
        return Sum(self.span, body, Clauses(self.span, (Loop(self.span, ("value'",), over),)), operator)

    def total(self, e: tree.Expression, row: Row) -> Expression | None:
        """Return the sum of a written row that mentions a parameter, and None for any other row.

        No check can know this sum, so log p subtracts its logarithm.
        """
        if not isinstance(e, tree.List) or not any(isinstance(p, ParameterValue) for p in walk(row(self.number(0)))):
            return None
        return self.over(row, SetOf(self.span, "range", "values", self.number(len(e.items))), "+")

    # Rows: a row is a number for each value

    def row(self, e: tree.Expression, fewer: int) -> Row | None:
        """Check a row, and return it as a function of the position in it.

        `fewer` is the difference between the number of values of the cell and the length of the
        row.
        """
        match e:
            case tree.List():
                items = [found for item in e.items if (found := self.read(item)) is not None]
                if len(items) < len(e.items) or not self.verify_count(len(items) + fewer, e, fewer):
                    return None
                if fewer and not self.verify_increasing(items, e):
                    return None
                table = Table(e.span, tuple(items))
                if not fewer and not (isinstance(self.call.arguments[0].keyword, tree.Name)):
                    check_rows_sum(table, self.scope)
                return lambda k: TableEntry(e.span, table, (k,))
            case tree.Conditional() if e.no is not None:
                test = check_condition(e.test, self.scope, MODEL)
                self.taken.append(test)
                yes, no = self.row(e.yes, fewer), self.row(e.no, fewer)
                if yes is None or no is None or is_faulty(test):
                    return None
                return lambda k: Choice(e.span, test, yes(k), no(k))
            case tree.LookedUp():
                found = check_table(e, lambda item: self.row(item, fewer), self.scope)
                self.taken += [] if found is None else [found(self.number(0))]
                return found
            case tree.Name() | tree.Index():
                return self.open_row(e, fewer)
        help = "a row is a list `[0.2, 0.8]`, an array with its last axis open, one of them by `if`, or by a map `{..}[x]`"
        self.scope.report("E310", f"`{self.call.function.name}` needs an array of numbers", e.span, "not an array", help=help)
        return None

    def verify_count(self, found: int, e: tree.Expression, fewer: int) -> bool:
        domain = self.cell.domain
        count = domain.count
        if count is None:
            self.count(Literal(e.span, found), 0, "entries", e.span)
        elif count != found:
            wanted, written = (count, found) if fewer == 0 else (count - 1, found - 1)
            message = f"the variable has {count} values, this list {counted_entries(written)}"
            help = f"write {wanted} numbers, one fewer than there are values" if fewer else f"write {wanted} numbers, one for each value"
            self.scope.report("E310", message, e.span, counted_entries(written), help=help, related=((domain.span, "its values"),))
            return False
        return True

    def open_row(self, e: tree.Name | tree.Index, fewer: int) -> Row | None:
        """Check an array with its last axis open."""
        name, given = (e, ()) if isinstance(e, tree.Name) else (e.base, e.indices)
        name = check_name(name)
        symbol = self.scope.find(name.name)
        declared = symbol.value if symbol is not None else None
        if not isinstance(declared, Input | Parameter):
            if symbol is None or not symbol.faulty:
                self.scope.use(name, "param", "input")
            return None
        axes = tuple(a.over or SetOf(a.span, "range", f"range({a.span.text})", a.size) for a in declared.axes)  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(declared, Parameter) and not self.verify_type(declared, fewer, e, symbol.span):  # type: ignore[union-attr]
            return None
        if not self.verify_open(name, given, axes, e):
            return None
        indices, _ = check_indices(name, given, axes, self.scope, MODEL, open_last=True)
        named = isinstance(declared, Input) and declared.axes[-1].over is None and declared.axes[-1].size is None
        size: Expression | SetOf = InputValue(e.span, declared.axes[-1].name) if named else axes[-1]  # type: ignore[union-attr]
        self.count(size, fewer, "cutpoints" if fewer else "entries", e.span)
        make = ParameterValue if isinstance(declared, Parameter) else InputValue
        self.taken.append(make(e.span, name.name, (*indices, self.number(0))))
        return lambda k: make(e.span, name.name, (*indices, k if named else axes[-1].member(k)))

    def verify_type(self, declared: Parameter, fewer: int, e: tree.Expression, place: Span) -> bool:
        """Return whether a parameter has the type that the distribution needs.

        Otherwise report E310.

        The type is a simplex for `categorical`, and ordered for cutpoints.
        """
        name, call = declared.name, self.call.function.name
        wanted = "ordered" if fewer else "simplex" if call == "categorical" else declared.type.kind
        if declared.type.kind == wanted:
            return True
        help = f"declare it as `param {name}[..] : {wanted}`"
        help += f", or write `logits = {name}[.., a] for a in ..`" * (wanted == "simplex")
        what, label = ("a simplex", "need not sum to 1") if wanted == "simplex" else ("ordered", "need not increase")
        self.scope.report("E310", f"`{name}` is not {what}", e.span, label, help=help, related=((place, "declared here"),))
        return False

    def verify_open(self, name: tree.Name, given: tuple[tree.Expression, ...], axes: tuple[SetOf, ...], e: tree.Expression) -> bool:
        """Return whether all axes except the last have an index. Otherwise report E310."""
        wanted = len(slots_of(axes[:-1]))
        if axes and len(given) == wanted:
            return True
        call, is_number = self.call.function.name, len(given) == len(slots_of(axes))
        written = [i.span.text for i in given[:wanted]] + [*"ijklmnpq"][len(given) : wanted]
        text = f"{name.span.text}[{', '.join(written)}]" if written else name.span.text
        message = f"`{call}` needs an array of numbers" + f", and `{e.span.text}` is one number" * is_number
        fix = Fix(e.span, text, guess=True) if axes and len(given) > wanted else None
        help = f"write `{text}`: every axis but the last has an index" if axes else "a list stands in square brackets: `[0.2, 0.8]`"
        self.scope.report("E310", message, e.span, "one number" if is_number else "not one array", help=help, fix=fix)
        return False


Row = Callable[[Expression], Expression]


def counted_entries(n: int) -> str:
    return f"{n} {'entry' if n == 1 else 'entries'}"


def check_density(call: tree.Call, cell: Variable, target: VariableValue, scope: Scope) -> Density | None:
    """Return log p of a cell's value under the distribution of a call, or None after a fault.

    Args:
        call: the distribution.
        cell: the variable of the cell.
        target: the value of the cell.
        scope: the names that are visible. It collects the diagnostics.
    """
    law = _Law(call, cell, target, scope)
    value = getattr(law, call.function.name)()
    return None if value is None else Density(value, tuple(law.counts), tuple(law.taken))


ReadEntry = Callable[[tree.Expression], "Row | None"]


def check_table(e: tree.LookedUp, entry: ReadEntry, scope: Scope, where: Where = MODEL) -> Row | None:
    """Check a map or list with its indices, and return its entry as a row.

    A row is a function of the position in it.

    Args:
        e: the map or list with its indices.
        entry: checks an entry and returns it as a row.
        scope: the names that are visible. It collects the diagnostics.
        where: a description of the names that the indices may mention.
    """
    if isinstance(e.entries, tree.List):
        return _check_list(e, e.entries, entry, scope, where)
    return _check_map(e, e.entries, entry, scope, where)


def _check_list(e: tree.LookedUp, rows: tree.List, entry: ReadEntry, scope: Scope, where: Where) -> Row | None:
    """Check a list of lists with one level for each index."""
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
            message = f"this list has {counted_entries(count)}, those before it {sizes[depth]}"
            message = message if count else "this list is empty"
            scope.report("E332", message, item.span, counted_entries(count), help="the lists of one level have one length")
            return False
        before = len(scope.diagnostics)
        good = True
        for place, part in enumerate(item.items):
            good = read(part, (*prefix, place)) and good
            # The parts after this one are likely to have the same fault.
            if any(d.code == "E332" for d in scope.diagnostics[before:]):
                return False
        return good

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
        help, fix = f'write a map, which has a value for each label: `{{"a": 0.1, "b": 0.2}}[{index.span.text}]`', None
        labels = kind.domain.labels if kind.domain is not None else ()
        if isinstance(e.entries, tree.List) and len(e.indices) == 1 and len(labels) == size <= MOST_LABELS:
            entries = ", ".join(f"{as_key(a)}: {item.span.text}" for a, item in zip(labels, e.entries.items, strict=True))
            help, fix = f"write `{{{entries}}}[{index.span.text}]`", Fix(e.entries.span, f"{{{entries}}}", guess=True)
        scope.report("E212", "a list is looked up by a whole number, not by a label", index.span, "a label", help=help, fix=fix)
        return Literal(e.span, 0)
    values = len(values_of(kind)) if kind.plain and not kind.spin else 0
    if values > size and not scope.untaken:
        message = f"the list has {counted_entries(size)}, `{index.span.text}` {values} values"
        scope.report("E332", message, e.entries.span, "too short", help="write an entry for each value")  # type: ignore[union-attr]
        return value
    return check_index(index, SetOf(e.span, "range", "the list", Literal(e.span, size)), scope, where)


def _check_map(e: tree.LookedUp, entries: tuple[tree.Entry, ...], entry: ReadEntry, scope: Scope, where: Where) -> Row | None:
    """Check a map, and return the row of the key that the indices form."""
    checked = [check_expression(i, scope, where) for i in e.indices]
    if any(kind.tag == "error" for _, kind in checked):
        return None
    values = [values_of(kind, [one.keys[k] for one in entries if len(one.keys) > k]) for k, (_, kind) in enumerate(checked)]
    places: dict[tuple[int, ...], Row] = {}
    first: dict[tuple[int, ...], tree.Entry] = {}
    good, before = True, len(scope.diagnostics)
    for one in entries:
        # The entries after this one are likely to have the same fault.
        if any(d.code == "E332" for d in scope.diagnostics[before:]):
            return None
        key = _key(one, e, checked, values, scope)
        found = entry(one.value)
        if key is None or found is None:
            good = False
        elif key in places:
            place = ((first[key].span, "the first one"),)
            scope.report("E332", "this key stands twice in the map", one.span, "again here", related=place, help="remove one of the two")
            good = False
        else:
            places[key], first[key] = found, one
    if not good or _lacks_key(e, places, values, scope):
        return None
    codes = [_code(c, kind, v, e) for (c, kind), v in zip(checked, values, strict=True)]
    return _row_of_places(e, places, [len(v) for v in values], codes)


def _lacks_key(e: tree.LookedUp, places: dict[tuple[int, ...], Row], values: list[list[str | float]], scope: Scope) -> bool:
    """Return whether a map has no value for some key, and report it."""
    missing = [key for key in _all_keys(values) if key not in places]
    if not missing:
        return False
    shown = ", ".join(as_key(v[place]) for v, place in zip(values, missing[0], strict=True))
    message = f"the map has no value for {shown if len(values) == 1 else f'({shown})'}"
    more = f", nor for {len(missing) - 1} other{'s' * (len(missing) > 2)}" if len(missing) > 1 else ""
    scope.report("E332", message + more, e.span, "a key is missing", help="a map has a value for every key")
    return True


def _row_of_places(e: tree.LookedUp, places: dict[tuple[int, ...], Row], sizes: list[int], codes: list[Expression]) -> Row:
    """Return the row at the position that the codes give."""

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
    """Check a map or list of numbers."""
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
    """Merge an entry of tables with identical indices into an entry of one table.

    The new table has the levels of both.
    """
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


def values_of(kind: Kind, keys: Sequence[tree.Expression] = ()) -> list[str | float]:
    """Return the values that an index of a map may take, in the order of their codes.

    If the values are unknown, the result is the sorted numbers among the keys.
    """
    domain = kind.domain
    if domain is not None and domain.labels:
        return [*domain.labels]
    numbers = domain.numbers if domain is not None and kind.plain else None
    if numbers is not None:
        return [*numbers]
    return sorted({k.value for k in keys if isinstance(k, tree.Number)})


def _key(
    one: tree.Entry, e: tree.LookedUp, checked: list[tuple[Expression, Kind]], values: list[list[str | float]], scope: Scope
) -> tuple[int, ...] | None:
    if len(one.keys) != len(checked):
        message = f"the map has {len(checked)} {'index' if len(checked) == 1 else 'indices'}, this key {counted(len(one.keys), 'part')}"
        scope.report("E332", message, one.span, "another number of parts", help='a key of several parts is written `("no", 1)`')
        return None
    found: list[int] = []
    for k, index, (_, kind), of in zip(one.keys, e.indices, checked, values, strict=True):
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
                f"`{k.span.text}` is not a value of `{index.span.text}`",
                k.span,
                "not a key",
                help=f"its values are {listed([as_key(v) for v in of])}",
            )
            return None
    return tuple(found)


def _all_keys(values: list[list[str | float]]) -> list[tuple[int, ...]]:
    keys: list[tuple[int, ...]] = [()]
    for v in values:
        keys = [(*key, place) for key in keys for place in range(len(v))]
    return keys


def _code(e: Expression, kind: Kind, values: list[str | float], looked: tree.LookedUp) -> Expression:
    """Return the code of an index, that is the position of its value among `values`."""
    if kind.plain and kind.domain is not None and kind.domain.numbers is not None:
        return kind.domain.code(e)
    if kind.spin:
        return Operation(e.span, "bit", (e,))
    if kind.tag == "label" or values == [*range(len(values))]:
        return e
    found: Expression = Literal(looked.span, len(values))  # out of range: no key has that value
    for place, value in enumerate(values):
        found = Choice(e.span, Operation(e.span, "==", (e, Literal(e.span, value))), Literal(e.span, place), found)  # type: ignore[arg-type]
    return found


def as_key(value: str | float) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"
