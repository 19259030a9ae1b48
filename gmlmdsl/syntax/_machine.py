"""The LALR machine: runs the tables on tokens and builds nodes on the way; no recursion, whatever the nesting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .._diagnostics import Source, Span
from ._build import BUILDERS, NESTING
from ._lex import MAX_DEPTH, Token
from ._tables import ABSENT, END, Rule, Tables

MAX_STACK = 10 * MAX_DEPTH  # no level of nesting takes as many parts: a longer stack is nested too deep


class Chain(NamedTuple):
    """The parts of a form that repeats, so far: those before, and the latest. Never changed, so stacks can share it."""

    before: Chain | None
    items: list[Any]

    def all(self) -> list[Any]:
        """All parts in order."""
        links: list[list[Any]] = []
        link: Chain | None = self
        while link is not None:
            links.append(link.items)
            link = link.before
        return [item for items in reversed(links) for item in items]


Part = tuple[Any, int, int, int]  # what was read, the numbers of its first and last token, its depth of nesting


@dataclass(slots=True)
class Stack:
    """What has been read: the states, and a part for each state but the first."""

    states: list[int] = field(default_factory=lambda: [0])
    parts: list[Part] = field(default_factory=list)

    def kept(self, size: int) -> Stack:
        """A copy of the first `size` parts."""
        return Stack(self.states[: size + 1], self.parts[:size])


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the machine stopped before the end: token `at` fits nowhere, or nesting is too deep there."""

    at: int
    too_deep: bool = False


def run(tables: Tables, source: Source, tokens: list[Token], stack: Stack, at: int = 0, until: int = -1) -> Stop | None:
    """Read tokens from number `at` on.

    Args:
        tables: the grammar.
        source: the text, for spans.
        tokens: all tokens, the end token last.
        stack: what has been read before; what is read is added to it.
        at: the first token to read.
        until: the token to stop at, before it is looked at.

    Returns:
        None where all was read and the last part is the tuple of statements; else where and why it stopped.
    """
    actions, states, parts = tables.actions, stack.states, stack.parts
    while at != until:
        token = tokens[at]
        action = action_of(actions[states[-1]], token)
        if action is None:
            if token.terminals == (END,) and states[-1] == tables.final:
                return None
            return Stop(at)
        if action >= 0:
            if len(states) > MAX_STACK:
                return Stop(at, too_deep=True)
            states.append(action)
            parts.append((token, at, at, 0))
            at += 1
        elif not reduce(tables, source, tokens, tables.rules[~action], stack):
            return Stop(at, too_deep=True)
    return Stop(at)


def action_of(actions: dict[str, int], token: Token) -> int | None:
    """What a state does with a token: the first of its terminals that the state knows decides."""
    for terminal in token.terminals:
        if terminal in actions:
            return actions[terminal]
    return None


def reduce(tables: Tables, source: Source, tokens: list[Token], rule: Rule, stack: Stack) -> bool:
    """Replace the parts of a form by its node; False, and nothing done, where the node would be nested too deep."""
    states, parts = stack.states, stack.parts
    if rule.passes:
        states[-1] = tables.gotos[states[-2]][rule.origin]
        return True
    here = len(parts) - rule.size
    taken = parts[here:]
    depth = 0
    for part in taken:
        if part[3] > depth:
            depth = part[3]
    first, last = (taken[0][1], taken[-1][2]) if taken else (0, 0)
    if rule.inline:
        value: Any = _chained(rule, taken)
    else:
        children = _children(rule, taken)
        if rule.single and len(children) == 1:
            value = children[0]
        else:
            depth += rule.name in NESTING
            if depth > MAX_DEPTH:
                return False
            value = BUILDERS[rule.name](Span(source, tokens[first].start, tokens[last].end), children)
    del parts[here:], states[here + 1 :]
    states.append(tables.gotos[states[-1]][rule.origin])
    parts.append((value, first, last, depth))
    return True


def _children(rule: Rule, taken: list[Part]) -> list[Any]:
    children: list[Any] = []
    for k in rule.take:
        if k >= 0:
            children.append(taken[k][0])
        elif k == ABSENT:
            children.append(None)
        else:
            children += taken[-2 - k][0].all()
    return children


def _chained(rule: Rule, taken: list[Part]) -> Chain:
    if rule.take[0] == -2:
        return Chain(taken[0][0], [taken[k][0] for k in rule.take[1:]])
    return Chain(None, [taken[k][0] for k in rule.take])


def viable(tables: Tables, states: list[int]) -> frozenset[str]:
    """The terminals that can really come next: those of the state, less those that only another context would take."""
    return frozenset(t for t in tables.actions[states[-1]] if can_follow(tables, states, t))


def can_follow(tables: Tables, states: list[int], terminal: str) -> bool:
    """Whether a terminal would be read after these states."""
    kept, pushed = len(states), []  # the first `kept` states, then those pushed on a trial
    while True:
        top = pushed[-1] if pushed else states[kept - 1]
        action = tables.actions[top].get(terminal)
        if action is None:
            return terminal == END and top == tables.final
        if action >= 0:
            return True
        rule = tables.rules[~action]
        drop = min(rule.size, len(pushed))
        del pushed[len(pushed) - drop :]
        kept -= rule.size - drop
        below = pushed[-1] if pushed else states[kept - 1]
        pushed.append(tables.gotos[below][rule.origin])
