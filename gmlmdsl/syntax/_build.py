"""Map each form of the grammar to the function that builds its node from its span and parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .._diagnostics import Span
from . import _tree as tree
from ._lex import ESCAPES, MAX_INTEGER, Token

Builder = Callable[[Span, list[Any]], Any]


def _number(span: Span, parts: list[Token]) -> tree.Number:
    text = parts[0].text
    if not text.isdigit():
        return tree.Number(span, float(text))
    # The lexer has reported an integer that is too long. Its digits are not converted.
    return tree.Number(span, int(text) if len(text.lstrip("0")) <= 10 else MAX_INTEGER)


def _string(span: Span, parts: list[Token]) -> tree.String:
    inside = parts[0].text[1:-1]
    value = re.sub(r"\\(.)", lambda m: ESCAPES.get(m[1], m[1]), inside) if "\\" in inside else inside
    return tree.String(span, value)


def _name(span: Span, parts: list[Token]) -> tree.Name:
    return tree.Name(span, parts[0].text)


def _row_index(span: Span, parts: list[Any]) -> tree.Index:
    word, indices = parts
    return tree.Index(span, tree.Name(Span(span.source, word.start, word.end), word.text), indices)


def _temper_form(span: Span, parts: list[Any]) -> tree.Call:
    word = Span(span.source, span.start, span.start + len("temper"))
    return tree.Call(span, tree.Name(word, "temper"), parts[0] or ())


def _update(span: Span, parts: list[Any]) -> tree.Update:
    target, independently, clauses = parts
    return tree.Update(span, target, independently is not None, clauses, None)


def _update_where(span: Span, parts: list[Any]) -> tree.Update:
    target, independently, where = parts
    return tree.Update(span, target, independently is not None, None, where)


def _update_by(span: Span, parts: list[Any]) -> tree.Update:
    target, independently, mask = parts
    return tree.Update(span, target, independently is not None, None, tree.Where(mask.span, None, mask))


def _mask(span: Span, parts: list[Any]) -> tree.Mask:
    name, model, word, given, body = parts
    return tree.Mask(span, name, model, given or (), body, word.text if word is not None else "")


def _declaring(node: Callable[..., Any]) -> Callable[[Span, list[tree.Declared], tuple[Any, ...]], Any]:
    """Return the builder of a declaration of one or more names."""
    return lambda span, names, rest: node(span, names[0].name, names[0].axes, *rest, also=tuple(names[1:]))


def _arguments(span: Span, parts: list[Any]) -> tuple[tree.Argument, ...]:
    """Return the arguments of a call.

    Loops after a comma are joined to the clauses of the preceding argument. If that argument has no
    clauses, the loops form an argument of their own.
    """
    out: list[tree.Argument] = []
    for part in parts:
        if not isinstance(part, tree.Clauses):
            out.append(part)
        elif out and (over := out[-1].clauses) is not None and over.condition is None:
            before = out[-1]
            joined = tree.Clauses(over.span.to(part.span), (*over.loops, *part.loops), part.condition)
            out[-1] = tree.Argument(before.span.to(part.span), before.keyword, before.value, joined)
        else:
            first, *more = part.loops
            rest = tree.Clauses(part.span, tuple(more), part.condition) if more or part.condition else None
            out.append(tree.Argument(part.span, None, first, rest))  # pyright: ignore[reportArgumentType]
    return tuple(out)


def _negative_key(span: Span, parts: list[tree.Number]) -> tree.Number:
    return tree.Number(span, -parts[0].value)


def _tuple(span: Span, parts: list[Any]) -> tuple[Any, ...]:
    return tuple(p for p in parts if p is not None)


def _first(span: Span, parts: list[Any]) -> Any:
    return parts[0]


def _whole(node: Callable[..., tree.Node]) -> Builder:
    """Return the builder of a node whose fields are the parts, one each."""
    return lambda span, parts: node(span, *parts)


def _listing(node: Callable[..., tree.Node]) -> Builder:
    """Return the builder of a node whose only field is the tuple of the parts."""
    return lambda span, parts: node(span, tuple(p for p in parts if p is not None))


BUILDERS: dict[str, Builder] = {
    # a file
    "program": _tuple,
    "import": _whole(tree.Import),
    "domain": _whole(tree.Domain),
    "input": lambda span, p: _declaring(tree.Input)(span, p[:-2], tuple(p[-2:])),
    "shaped": lambda span, p: tree.Declared(span, p[0], p[1] or ()),
    "shape": _tuple,
    "chosen_set": _whole(tree.ChosenSet),
    "function": lambda span, p: tree.Function(span, p[0], p[1] or (), p[2]),
    "index_set": _whole(tree.IndexSet),
    "graph": _whole(tree.Graph),
    "network": _whole(tree.Network),
    # models
    "model": lambda span, p: tree.Model(span, p[0], tuple(p[1:])),
    "variable": lambda span, p: tree.Variable(span, p[0].text, p[1].name, p[1].axes, *p[-2:], also=tuple(p[2:-2])),
    "declared": lambda span, p: tree.Declared(span, p[0], p[1] or ()),
    "kind": _first,
    "parameter": lambda span, p: _declaring(tree.Parameter)(span, p[:-2], tuple(p[-2:])),
    "let": lambda span, p: tree.Let(span, p[0], p[1] or (), p[2]),
    "gauge": _whole(tree.Gauge),
    "factor": _whole(tree.Factor),
    "require": _whole(tree.Require),
    "distributed": _whole(tree.Distributed),
    "network_conditional": _whole(tree.NetworkConditional),
    "unless": lambda span, p: tree.Conditional(span, p[0], p[1], None),
    "use": lambda span, p: tree.Use(span, p[0], p[1], p[2] or ()),
    "bindings": _tuple,
    "binding": lambda span, p: (p[0], p[1]),
    "model_mixture": lambda span, p: tree.ModelMixture(span, p[0], tuple(p[1:])),
    "component": _whole(tree.Component),
    # masks
    "mask": _mask,
    "sees": _first,
    "mask_mixture": _listing(tree.MaskMixture),
    "mask_row": _whole(tree.MaskRow),
    "mask_list": _listing(tree.MaskList),
    "choose": lambda span, p: tree.Choose(span, *p, weight_last=True),
    "weighted_choose": lambda span, p: tree.Choose(span, p[1], p[2], p[0]),
    "each": lambda span, p: tree.Each(span, *p, rate_last=True),
    "weighted_each": lambda span, p: tree.Each(span, p[1], p[2], p[0]),
    # samplers
    "sampler": _whole(tree.Sampler),
    "judge": lambda span, p: tree.Judge(span, p[0].text, *p[1:]),
    "judge_kind": _first,
    "sampler_body": _tuple,
    "start": _whole(tree.Start),
    "update": _update,
    "update_where": _update_where,
    "update_by": _update_by,
    "independently": _first,
    "where": _whole(tree.Where),
    "cycle": _whole(tree.Cycle),
    "repeat": _whole(tree.Repeat),
    "repeat_over": lambda span, p: tree.RepeatOver(span, p[0], p[1]),
    "temper": _whole(tree.Temper),
    "temper_form": _temper_form,
    "kernel_mixture": _listing(tree.KernelMixture),
    "kernel_row": _whole(tree.KernelRow),
    "row_index": _row_index,
    # loops
    "clauses": lambda span, p: tree.Clauses(span, tuple(p[:-1]), p[-1]),
    "inner_clauses": lambda span, p: tree.Clauses(span, tuple(p[:-1]), p[-1]),
    "further_loops": lambda span, p: tree.Clauses(span, tuple(p[:-1]), p[-1]),
    "axes": _tuple,
    "loop": lambda span, p: tree.Loop(span, tuple(p[:-1]), p[-1]),
    # expressions
    "conditional": _whole(tree.Conditional),
    "binary": lambda span, p: tree.Binary(span, p[1].text, p[0], p[2]),
    "unary": lambda span, p: tree.Unary(span, p[0].text, p[1]),
    "attribute": _whole(tree.Attribute),
    "index": _whole(tree.Index),
    "call": lambda span, p: tree.Call(span, p[0], p[1] or ()),
    "method": lambda span, p: tree.Method(span, p[0], p[1] or ()),
    "looked_up": _whole(tree.LookedUp),
    "map": _tuple,
    "entry": lambda span, p: tree.Entry(span, tuple(p[:-1]), p[-1]),
    "negative_key": _negative_key,
    "expressions": _tuple,
    "arguments": _arguments,
    "argument": lambda span, p: tree.Argument(span, None, *p),
    "named_argument": _whole(tree.Argument),
    "block": _listing(tree.Block),
    "listed_block": lambda span, p: tree.Block(span, (p[0],), p[1]),
    "options": _listing(tree.Options),
    "option": lambda span, p: (p[0], p[1]),
    "list": _listing(tree.List),
    # words
    "names": _tuple,
    "name": _name,
    "number": _number,
    "string": _string,
    "boolean": lambda span, p: tree.Boolean(span, p[0].text == "true"),
}

# Each of these forms adds a level of nesting. The nesting of all other forms is limited by the
# grammar.
NESTING = frozenset(
    {"conditional", "unless", "binary", "unary", "index", "row_index", "call", "method", "block", "listed_block", "options", "list"}
    | {"looked_up", "mask_mixture", "kernel_mixture", "cycle", "repeat", "repeat_over", "temper"}
)
