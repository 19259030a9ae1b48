"""Draws the rules of the grammar as railroad diagrams, for the page of the site that shows them."""

from __future__ import annotations

import re
from typing import Any

import railroad as rr
from lark import Token, Tree
from lark.grammar import NonTerminal
from lark.load_grammar import load_grammar

SECTION = re.compile(r"\n\n\n// ([^.:,;\n]{1,45})(?=[.:,;\n])")
RULE = re.compile(r"^[?!]*([a-z_]+):", re.M)


def diagrams(grammar: str) -> str:
    """Return Markdown: a heading for each section of the grammar and for each rule, and the diagram of the rule.

    Args:
        grammar: the text of `grammar/gmlm.lark`.
    """
    rules = {str(name): tree for name, _, tree, _ in load_grammar(grammar, "gmlm", [], False)[0].rule_defs}
    marks = [(m.start(), f"## {m[1]}") for m in SECTION.finditer(grammar)]
    marks += [(m.start(), diagram(m[1], rules[m[1]])) for m in RULE.finditer(grammar)]
    terminals = re.findall(r"^([A-Z_]+)(?:\.\d+)?:\s*(.*)$", grammar, re.M)
    rows = ["```text", *(f"{name:9} {pattern}" for name, pattern in terminals), "```"]
    return "\n\n".join([*(text for _, text in sorted(marks)), "\n".join(rows), ""])


def diagram(name: str, tree: Tree[Any]) -> str:
    """Return a heading and the SVG of one rule; names of other rules link to their diagrams."""
    parts: list[str] = []
    rr.Diagram(drawn(tree), type="complex").writeSvg(parts.append)
    svg = re.sub(r"\n\s*", " ", "".join(parts))
    svg = re.sub(r"(<text[^>]*>[^<]*</text>)\1", r"\1", svg)  # The package writes the text of a link twice.
    return f'### {name}\n\n<div class="railroad" id="rule-{name}">{svg}</div>'


def drawn(tree: Any) -> rr.DiagramItem:
    """Return the drawing of a part of a rule, as Lark reads it."""
    if isinstance(tree, NonTerminal):
        return rr.NonTerminal(tree.name, href=f"#rule-{tree.name}")
    if not isinstance(tree, Tree):
        return rr.Terminal(tree.name if hasattr(tree, "name") else str(tree).strip('"'))
    parts = tree.children
    if tree.data == "expansions" and len(parts) > 1:
        return rr.Choice(0, *map(drawn, parts))
    if tree.data == "expansion":
        return in_order(parts)
    if tree.data == "maybe":
        return rr.Optional(drawn(parts[0]))
    if tree.data == "expr":
        repeat = {"*": rr.ZeroOrMore, "+": rr.OneOrMore, "?": rr.Optional}[str(parts[1])]
        return repeat(drawn(parts[0]))
    return drawn(parts[0])  # what an alias or a value is of


def in_order(parts: list[Any]) -> rr.DiagramItem:
    """Return the drawing of parts that follow one another; `x ("," x)*` is one loop of x."""
    found: list[rr.DiagramItem] = []
    previous: Any = None
    for part in parts:
        repeated = listed_again(part, previous)
        if repeated is not None:
            found[-1] = rr.OneOrMore(drawn(previous), repeated)
        else:
            found.append(drawn(part))
        previous = part
    return found[0] if len(found) == 1 else rr.Sequence(*found)


def listed_again(part: Any, item: Any) -> rr.DiagramItem | None:
    """Return the drawing of the separator if `part` is `(separator item)*`, else None."""
    if not (isinstance(part, Tree) and part.data == "expr" and part.children[1] == Token("OP", "*")):
        return None
    inner = part.children[0]
    while isinstance(inner, Tree) and inner.data == "expansions" and len(inner.children) == 1:
        inner = inner.children[0]
    if isinstance(inner, Tree) and inner.data == "expansion" and len(inner.children) > 1 and inner.children[-1] == item:
        return in_order(inner.children[:-1])
    return None
