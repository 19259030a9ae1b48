"""Turn a tree into pieces of text.

The pieces of a statement are its tokens in order, with the spaces and the possible line breaks
between them. The code is iterative, as in this whole package, because a tree may be 200 levels
deep.

A statement is a head, and for some statements a body between braces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import _tree as tree
from ._lex import CLOSING, OPENING

# The binding strengths of operators. A part that binds less than its place requires is put in
# parentheses.
BRANCH, LOOSEST, OR, AND, NOT, COMPARISON, SUM, PRODUCT, SIGN, POWER, ATOM = range(-1, 10)
BINDING = {
    "or": OR,
    "and": AND,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), COMPARISON),
    **dict.fromkeys("+-", SUM),
    **dict.fromkeys(("*", "/", "//", "%"), PRODUCT),
    "^": POWER,
}
# The minimum binding strengths of the operands of an operator.
OPERANDS = {OR: (OR, AND), AND: (AND, NOT), COMPARISON: (SUM, SUM), SUM: (SUM, PRODUCT), PRODUCT: (PRODUCT, SIGN), POWER: (ATOM, SIGN)}

# Some parentheses are redundant but help the reader, as in `not (a == b) or c` and `(a % b) * c`.
# They are kept if the text contains them.
COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))
PRODUCTS = frozenset(("*", "/", "//", "%"))
HELPED = {"not": COMPARISONS, "or": {"and", "not"}, "and": {"not"}, "neg": {"^"}, **{p: PRODUCTS - {p} for p in PRODUCTS}}

NO_BREAK = 99
# The best place for a line break is before `for`, `weight`, .., then after commas, then before
# operators.
CLAUSE = 0
COMMA = 1
LATE = 20  # between the indices of a map or list: the last choice at that depth


class Piece(NamedTuple):
    """A token as it is written.

    Attributes:
        text: the text.
        space: the number of spaces before it.
        looseness: the kind of the place before it. A smaller number means a better line break.
        depth: the number of enclosing brackets. A break at a smaller depth is better.
    """

    text: str
    space: int = 1
    looseness: int = NO_BREAK
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Expected:
    """A part still to be written, with the minimum binding strength that its place requires."""

    node: tree.Node
    binding: int = LOOSEST


Item = Piece | Expected


def word(text: str, looseness: int = NO_BREAK) -> Piece:
    """Return a piece after a space."""
    return Piece(text, 1, looseness)


def tight(text: str) -> Piece:
    """Return a piece without a space before it."""
    return Piece(text, 0)


def flatten(items: Sequence[Item]) -> list[Piece]:
    """Expand every part into pieces.

    There is no space after an opening bracket, bracket depths are counted, and a line may break
    after a comma.
    """
    todo = list(reversed(items))
    done: list[Piece] = []
    depth, glued, late = 0, True, False
    while todo:
        item = todo.pop()
        if isinstance(item, Expected):
            todo += reversed(_spell(item))
            continue
        depth -= item.text in CLOSING
        looseness = LATE if late else COMMA if done and done[-1].text == "," else item.looseness
        done.append(Piece(item.text, 0 if glued else item.space, looseness, depth))
        depth += item.text in OPENING
        glued = item.text in OPENING or item is MINUS or item is CARET
        late = item is LATE_COMMA
    return done


MINUS = Piece("-", 1)  # the sign, without a space before its operand
CARET = Piece("^", 0)
LATE_COMMA = Piece(",", 0)


def _spell(item: Expected) -> list[Item]:
    node = item.node
    if isinstance(node, tree.Binary):
        return _parenthesised(_binary(node), BINDING[node.operator], item.binding)
    if isinstance(node, tree.Unary):
        own = NOT if node.operator == "not" else SIGN
        sign = word("not") if node.operator == "not" else MINUS
        parent = "not" if node.operator == "not" else "neg"
        return _parenthesised([sign, _operand(node.operand, own, parent)], own, item.binding)
    if isinstance(node, tree.Conditional):
        parts: list[Item] = [word("if"), Expected(node.test), word("then", 2), Expected(node.yes, BRANCH)]
        parts += [] if node.no is None else [word("else", 2), Expected(node.no, BRANCH)]
        return _parenthesised(parts, LOOSEST, item.binding)
    if isinstance(node, tree.LookedUp) and isinstance(node.entries, tree.List):
        return _parenthesised([Expected(node.entries), *_looked_up_at(node)], BRANCH, item.binding)
    return _atom(node)


def _parenthesised(items: list[Item], own: int, wanted: int) -> list[Item]:
    return [word("("), *items, tight(")")] if own < wanted else items


def _binary(node: tree.Binary) -> list[Item]:
    binding = BINDING[node.operator]
    left, right = OPERANDS[binding]
    operator = CARET if node.operator == "^" else word(node.operator, 2 + binding)
    return [_operand(node.left, left, node.operator), operator, _operand(node.right, right, node.operator)]


def _operand(node: tree.Node, binding: int, parent: str) -> Expected:
    helps = isinstance(node, tree.Binary | tree.Unary) and node.operator in HELPED.get(parent, ())
    return Expected(node, ATOM if helps and _is_bracketed(node) else binding)


def _is_bracketed(node: tree.Node) -> bool:
    """Return whether an operand was written in parentheses of its own.

    Any other parentheses are separated from the operand by an operator.
    """
    text, before, after = node.span.source.text, node.span.start - 1, node.span.end
    while before > 0 and text[before].isspace():
        before -= 1
    while after < len(text) - 1 and text[after].isspace():
        after += 1
    return text[before : before + 1] == "(" and text[after : after + 1] == ")"


def _atom(node: tree.Node) -> list[Item]:
    if isinstance(node, tree.Number) and node.span.text.startswith("-"):
        # a key of a map: a comment may follow its sign
        return [MINUS, word(node.span.text.split()[-1].lstrip("-"))]
    if isinstance(node, tree.Number | tree.String):
        return [word(node.span.text)]  # numbers keep their spelling
    if isinstance(node, tree.Boolean):
        return [word("true" if node.value else "false")]
    if isinstance(node, tree.Name):
        return [word(node.name)]
    if isinstance(node, tree.Attribute):
        return [Expected(node.base), tight("."), tight(node.attribute.name)]
    if isinstance(node, tree.Index):
        return [Expected(node.base), *bracketed(tight("["), node.indices)]
    if isinstance(node, tree.Call):
        return [Expected(node.function), *bracketed(tight("("), node.arguments)]
    if isinstance(node, tree.Method):
        return [Expected(node.base), *bracketed(tight("("), node.arguments)]
    if isinstance(node, tree.LookedUp) and not isinstance(node.entries, tree.List):
        return [*bracketed(word("{"), node.entries), *_looked_up_at(node)]
    return _compound(node)


def _compound(node: tree.Node) -> list[Item]:
    if isinstance(node, tree.Argument):
        if node.keyword:
            return [Expected(node.keyword), word("="), Expected(node.value, BRANCH), *clauses(node.clauses)]
        return [Expected(node.value, BRANCH), *clauses(node.clauses)]
    if isinstance(node, tree.Loop):
        return [*_loop_names(node.names), word("in"), Expected(node.over)]
    if isinstance(node, tree.Block):
        cells = bracketed(word("{"), node.cells)
        return [*cells[:-1], *clauses(node.clauses), cells[-1]]
    if isinstance(node, tree.Entry):
        keys = [Expected(node.keys[0])] if len(node.keys) == 1 else bracketed(word("("), node.keys)
        return [*keys, tight(":"), Expected(node.value, BRANCH)]
    if isinstance(node, tree.List):
        return bracketed(word("["), node.items, BRANCH)
    assert isinstance(node, tree.Options)
    items: list[Item] = [word("{")]
    for k, (name, value) in enumerate(node.items):
        items += [tight(","), Expected(name)] if k else [Expected(name)]
        items += [tight(":"), Expected(value)]
    return [*items, tight("}")]


def _looked_up_at(node: tree.LookedUp) -> list[Item]:
    return [LATE_COMMA if item == LATE_COMMA else item for item in bracketed(tight("["), node.indices)]


def bracketed(opening: Piece, nodes: Sequence[tree.Node], binding: int = LOOSEST) -> list[Item]:
    """Return nodes between brackets, separated by commas."""
    items: list[Item] = [opening]
    for k, node in enumerate(nodes):
        items += [tight(","), Expected(node, binding)] if k else [Expected(node, binding)]
    return [*items, tight(OPENING[opening.text])]


def _loop_names(names: Sequence[tree.Name]) -> list[Item]:
    return [Expected(names[0])] if len(names) == 1 else bracketed(word("("), names)


def clauses(node: tree.Clauses | None) -> list[Item]:
    """Return `for .. if ..`, or [] if there are no clauses."""
    if node is None:
        return []
    items: list[Item] = []
    for k, loop in enumerate(node.loops):
        between = loop.span.source.text[node.loops[k - 1].span.end : loop.span.start] if k else ""
        items += [tight(",") if "," in re.sub("#[^\n]*", "", between) else word("for", CLAUSE), Expected(loop)]
    if node.condition is not None:
        items += [word("if", CLAUSE), Expected(node.condition)]
    return items


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
