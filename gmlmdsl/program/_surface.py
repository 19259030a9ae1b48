"""Replace names in the syntax tree of expressions and statements.

Calls of functions are expanded, and models are copied under a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from .._diagnostics import Fix
from ..syntax import tree
from ._scope import Scope

Values = Mapping[str, tree.Expression]


def called(function: tree.Function, call: tree.Call, scope: Scope) -> tree.Expression | None:
    """Return the expression of a function with a call's arguments substituted.

    The result is None after a fault.
    """
    given = [a.value for a in call.arguments]
    plain = call.is_plain
    if not plain or len(given) != len(function.parameters):
        wanted = len(function.parameters)
        message = f"`{function.name.name}` takes {wanted} argument{'s' * (wanted != 1)}, found {len(given) or 'none'}"
        message = message if plain else f"`{function.name.name}` takes plain arguments, without a name or `for`"
        place = ((function.name.span, "declared here"),)
        signature = f"`{function.name.name}({', '.join(p.name for p in function.parameters)})`"
        keywords = {a.keyword.name: a.value.span.text for a in call.arguments if a.keyword is not None}
        text = ", ".join(keywords.get(p.name, "") for p in function.parameters)
        in_order = len(keywords) == len(given) and {*keywords} == {p.name for p in function.parameters}
        fix = Fix(call.arguments[0].span.to(call.arguments[-1].span), text) if in_order else None
        help = f"write `{function.name.name}({text})`" if in_order else "give each of its arguments once, in their order"
        scope.report("E302", message, call.span, signature, related=place, help=help, fix=fix)
        return None
    values = {p.name: value for p, value in zip(function.parameters, given, strict=True)}
    taken = {n.name for value in given for n in tree.names_in(value)}
    return _Replaced(values, taken, scope).of(function.value)


def copied(statement: tree.ModelStatement, values: Values, scope: Scope) -> Any:
    """Return a statement of a model with its names replaced, including the declared names."""
    return _Replaced(values, {n.name for v in values.values() for n in tree.names_in(v)}, scope).of(statement)


class _Replaced:
    """A replacement of names in a tree.

    An index name that would hide or capture a name gets a prime.
    """

    def __init__(self, values: Values, taken: set[str], scope: Scope):
        self.values, self.taken, self.scope = dict(values), taken, scope

    def of(self, node: Any) -> Any:
        match node:
            case tree.Name():
                return self.values.get(node.name, node)
            case tree.Index():
                return self.index(node)
            case tree.Call():
                return replace(node, arguments=self.of(node.arguments))
            case tree.Method() | tree.Attribute() | tree.Options():
                return replace(node, arguments=self.of(node.arguments)) if isinstance(node, tree.Method) else node
            case tree.Argument():
                inner = self.inside(node.clauses.loops if node.clauses is not None else ())
                return replace(node, value=inner.of(node.value), clauses=inner.of(node.clauses))
            case tree.Loop():
                return replace(node, names=tuple(self.renamed(n) for n in node.names), over=self.of(node.over))
            case tuple():
                return tuple(self.of(x) for x in node)
        if not isinstance(node, tree.Node):
            return node
        inner = self.inside(self.loops_of(node))
        changed = {f.name: inner.of(getattr(node, f.name)) for f in fields(node) if f.name != "span"}
        return replace(node, **changed)

    def index(self, node: tree.Index) -> tree.Expression:
        indices = self.of(node.indices)
        base = self.values.get(node.base.name) if isinstance(node.base, tree.Name) else None
        match base:
            case None:
                return replace(node, indices=indices)
            case tree.Name() | tree.Attribute():
                return replace(node, base=base, indices=indices)
            case tree.Index():
                return replace(node, base=base.base, indices=(*base.indices, *indices))
        message = f"`{node.base.span.text}` is indexed here, and `{base.span.text}` is not an array"
        self.scope.report("E210", message, base.span, "not an array", related=((node.span, "indexed here"),))
        return tree.Number(base.span, 0)

    def loops_of(self, node: tree.Node) -> tuple[tree.Loop, ...]:
        """Return the loops whose names the parts of a node may use."""
        clauses = getattr(node, "clauses", None)
        axes = tuple(a for a in getattr(node, "axes", ()) if isinstance(a, tree.Loop))
        return (*axes, *(clauses.loops if isinstance(clauses, tree.Clauses) else ()))

    def inside(self, loops: tuple[tree.Loop, ...]) -> _Replaced:
        names = [n for loop in loops for n in loop.names]
        if not names:
            return self
        values = {k: v for k, v in self.values.items() if k not in {n.name for n in names}}
        for n in names:
            fresh = n.name
            while fresh in self.taken or self.scope.find(fresh) is not None:
                fresh += "'"
            if fresh != n.name:
                values[n.name] = tree.Name(n.span, fresh)
        return _Replaced(values, self.taken | {n.name for n in names}, self.scope)

    def renamed(self, name: tree.Name) -> tree.Name:
        found = self.values.get(name.name, name)
        return found if isinstance(found, tree.Name) and found.name.rstrip("'") == name.name else name
