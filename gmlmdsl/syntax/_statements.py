"""Turn statements into pieces: a head, and for some statements a body between braces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import _tree as tree
from ._pieces import BRANCH, CLAUSE, Expected, Item, Piece, bracketed, clauses, flatten, tight, word


class Shape(NamedTuple):
    """The layout of a statement.

    Attributes:
        head: the pieces before the body.
        body: the statements of its body, or None if it has no body.
        tail: the pieces after the closing brace.
    """

    head: list[Piece]
    body: tuple[tree.Node, ...] | None = None
    tail: Sequence[Piece] = ()


def shape(node: Any) -> Shape:
    """Return the layout of a statement or a row."""
    return SHAPES[type(node)](node)


def _shape(items: Sequence[Item], body: tuple[tree.Node, ...] | None = None) -> Shape:
    return Shape(flatten(items), body)


def _defined(keyword: str) -> Callable[[Any], Shape]:
    """Return the layout function of statements such as `domain aa = ..`.

    The second field of the node is the definition of the name.
    """

    def spell(node: Any) -> Shape:
        value = next(getattr(node, field) for field in ("type", "over", "form") if hasattr(node, field))
        return _shape([word(keyword), Expected(node.name), word("="), Expected(value)])

    return spell


def _input(node: tree.Input) -> Shape:
    default: list[Item] = [word("="), Expected(node.default, BRANCH)] if node.default is not None else []
    return _shape([word("input"), *_named(node), word(":", CLAUSE), Expected(node.type), *default])


def _named(node: tree.Input | tree.Variable | tree.Parameter | tree.Let) -> list[Item]:
    items: list[Item] = []
    for declared in (node, *getattr(node, "also", ())):
        items += [tight(","), Expected(declared.name)] if items else [Expected(declared.name)]
        items += bracketed(tight("["), declared.axes) if declared.axes else []
    return items


def _variable(node: tree.Variable) -> Shape:
    law: list[Item] = [word("~", CLAUSE), Expected(node.distribution)] if node.distribution is not None else []
    return _shape([word(node.kind), *_named(node), word(":", CLAUSE), Expected(node.type), *law])


def _chosen_set(node: tree.ChosenSet) -> Shape:
    condition: list[Item] = [word("if", CLAUSE), Expected(node.condition)] if node.condition is not None else []
    return _shape([word("index"), Expected(node.name), word("="), Expected(node.loop), *condition])


def _function(node: tree.Function) -> Shape:
    head: list[Item] = [word("function"), Expected(node.name), *bracketed(tight("("), node.parameters)]
    return _shape([*head, word("="), Expected(node.value, BRANCH)])


def _use(node: tree.Use) -> Shape:
    items: list[Item] = [word("use"), Expected(node.model), word("as"), Expected(node.name)]
    for k, (name, cell) in enumerate(node.bindings):
        items += [tight(",") if k else word("with", CLAUSE), Expected(name), word("="), Expected(cell)]
    return _shape(items)


def _parameter(node: tree.Parameter) -> Shape:
    type_: list[Item] = [word(":", CLAUSE), Expected(node.type)] if node.type is not None else []
    prior: list[Item] = [word("~", CLAUSE), Expected(node.prior)] if node.prior is not None else []
    return _shape([word("param"), *_named(node), *type_, *prior])


def _distributed(node: tree.Distributed) -> Shape:
    return _shape([Expected(node.target), word("~", CLAUSE), Expected(node.distribution), *clauses(node.clauses)])


def _with_body(head: list[Item], body: Any) -> Shape:
    """Return the layout of a head and its body: a mask expression, statements or a call."""
    if isinstance(body, tree.MaskMixture):
        return _shape([*head, word("="), word("mixture")], body.rows)
    if isinstance(body, tree.MaskList):
        return _shape(head, body.body)
    if isinstance(body, tuple):
        return _shape(head, body)
    return _shape([*head, word("="), Expected(body)])


def _mask(node: tree.Mask) -> Shape:
    head: list[Item] = [word("mask"), Expected(node.name), *_for_model(node.model)]
    for k, name in enumerate(node.given):
        head += [tight(","), Expected(name)] if k else [word(node.word, CLAUSE), Expected(name)]
    return _with_body(head, node.body)


def _sampler(node: tree.Sampler) -> Shape:
    return _with_body([word("sampler"), Expected(node.name), *_for_model(node.model)], node.body)


def _for_model(model: tree.Name | None) -> list[Item]:
    return [word("for", CLAUSE), Expected(model)] if model else []


def _choose(node: tree.Choose) -> Shape:
    if not node.weight_last:
        return _shape([word("choose"), Expected(node.weight), word(":"), Expected(node.block), *clauses(node.clauses)])
    return _shape([word("choose"), Expected(node.block), *clauses(node.clauses), word("weight", CLAUSE), Expected(node.weight)])


def _each(node: tree.Each) -> Shape:
    if not node.rate_last:
        return _shape([word("each"), Expected(node.rate), word(":"), Expected(node.cell), *clauses(node.clauses)])
    return _shape([word("each"), Expected(node.cell), *clauses(node.clauses), word("rate", CLAUSE), Expected(node.rate)])


def _update(node: tree.Update) -> Shape:
    head: list[Item] = [word("update"), Expected(node.target)]
    head += [word("independently", CLAUSE)] if node.independently else []
    head += clauses(node.clauses)
    if node.where is None:
        return _shape(head)
    name = node.where.name
    head += [word("by", CLAUSE)] if name is None else [word("where", CLAUSE), Expected(name), word("~")]
    mask = node.where.mask
    if isinstance(mask, tree.MaskMixture):
        return _shape([*head, word("mixture")], mask.rows)
    return _shape([*head, Expected(mask)])


def _row(node: tree.MaskRow | tree.KernelRow) -> Shape:
    weight: list[Item] = [Expected(node.weight), word(":")]
    inner = node.mask if isinstance(node, tree.MaskRow) else node.kernel
    if isinstance(node, tree.MaskRow) and isinstance(inner, tree.Name | tree.Call):
        return _shape([*weight, Expected(inner), *clauses(node.clauses)])
    if isinstance(inner, tree.MaskMixture):
        return _shape([*weight, word("mixture")], inner.rows)
    head, body, _ = shape(inner)
    loops = flatten(clauses(node.clauses))
    loops[:1] = [piece._replace(space=1) for piece in loops[:1]]
    head = [*flatten(weight), head[0]._replace(space=1), *head[1:]]
    return Shape([*head, *loops]) if body is None else Shape(head, body, loops)


SHAPES: dict[type, Callable[[Any], Shape]] = {
    tree.Import: lambda n: _shape([word("import"), Expected(n.path)]),
    tree.Domain: _defined("domain"),
    tree.Input: _input,
    tree.IndexSet: _defined("index"),
    tree.ChosenSet: _chosen_set,
    tree.Function: _function,
    tree.Use: _use,
    tree.ModelMixture: lambda n: _shape([word("mixture"), Expected(n.cell)], n.components),
    tree.Component: lambda n: _shape([Expected(n.key), word(":"), Expected(n.model)]),
    tree.Graph: _defined("graph"),
    tree.Network: _defined("network"),
    tree.Model: lambda n: _shape([word("model"), Expected(n.name)], n.body),
    tree.Variable: _variable,
    tree.Parameter: _parameter,
    tree.Let: lambda n: _shape([word("let"), *_named(n), word("="), Expected(n.value, BRANCH)]),
    tree.Gauge: lambda n: _shape([word("gauge"), Expected(n.form)]),
    tree.Factor: lambda n: _shape([word("factor"), Expected(n.value), *clauses(n.clauses)]),
    tree.Require: lambda n: _shape([word("require"), Expected(n.condition), *clauses(n.clauses)]),
    tree.Distributed: _distributed,
    tree.NetworkConditional: lambda n: _shape([word("conditional"), Expected(n.target), word("~"), Expected(n.network)]),
    tree.Mask: _mask,
    tree.MaskRow: _row,
    tree.Choose: _choose,
    tree.Each: _each,
    tree.Sampler: _sampler,
    tree.Judge: lambda n: _with_body([word(n.kind), Expected(n.name), *_for_model(n.model)], n.form),
    tree.Start: lambda n: _shape([word("start"), word("from"), Expected(n.name)]),
    tree.Update: _update,
    tree.Cycle: lambda n: _shape([word("cycle")], n.body),
    tree.Repeat: lambda n: _shape([word("repeat"), Expected(n.count)], n.body),
    tree.RepeatOver: lambda n: _shape([word("repeat"), Expected(n.loop)], n.body),
    tree.Temper: lambda n: _shape([Expected(n.form)], n.body),
    tree.KernelMixture: lambda n: _shape([word("mixture")], n.rows),
    tree.KernelRow: _row,
}
