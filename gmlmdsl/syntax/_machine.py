"""Run the LALR tables on tokens and build nodes on the way, without recursion at any nesting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .._diagnostics import GmlmError, Source, Span
from ._build import BUILDERS, NESTING
from ._lex import MAX_DEPTH, Token, tokenize
from ._tables import ABSENT, END, Rule, Tables, load_tables

# No level of nesting takes as many parts. A longer stack is nested too deep.
MAX_STACK = 10 * MAX_DEPTH


class Chain(NamedTuple):
    """The parts of a repeating form so far: the earlier parts, and the latest ones.

    A chain is immutable, so that stacks can share it.
    """

    before: Chain | None
    items: list[Any]

    def all(self) -> list[Any]:
        """Return all parts in order."""
        links: list[list[Any]] = []
        link: Chain | None = self
        while link is not None:
            links.append(link.items)
            link = link.before
        return [item for items in reversed(links) for item in items]


# the parsed part, the numbers of its first and last token, its depth of nesting
Part = tuple[Any, int, int, int]


@dataclass(slots=True)
class Stack:
    """The state of the parser: the states, and a part for each state except the first."""

    states: list[int] = field(default_factory=lambda: [0])
    parts: list[Part] = field(default_factory=list)

    def kept(self, size: int) -> Stack:
        """Return a copy of the first `size` parts."""
        return Stack(self.states[: size + 1], self.parts[:size])


@dataclass(frozen=True, slots=True)
class Stop:
    """The reason why the parser stopped before the end.

    Token `at` does not fit, or the nesting is too deep there.
    """

    at: int
    too_deep: bool = False


def run(tables: Tables, source: Source, tokens: list[Token], stack: Stack, at: int = 0, until: int = -1) -> Stop | None:
    """Parse the tokens from number `at` on.

    Args:
        tables: the grammar.
        source: the text, for spans.
        tokens: all tokens. The last one is the end token.
        stack: the state of the parser. The parts that are parsed are added to it.
        at: the first token to parse.
        until: the token before which to stop.

    Returns:
        None if all tokens were parsed and the last part is the tuple of statements. Otherwise the
            place and reason of the stop.
    """
    actions, rules, states, parts = tables.actions, tables.rules, stack.states, stack.parts
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
        elif rules[~action].passes:
            states[-1] = _passed(tables, states[-2], rules[~action].origin, token)
        elif not reduce(tables, source, tokens, rules[~action], stack):
            return Stop(at, too_deep=True)
    return Stop(at)


def _passed(tables: Tables, below: int, origin: str, token: Token) -> int:
    """Return the state after all forms that only pass on one part.

    The operand of an expression passes through one form for each binding strength. The chain depends
    on the state below, the first form and the token alone, so that it is followed once.
    """
    key = below, origin, token.terminals
    if key not in tables.passed:
        state = tables.gotos[below][origin]
        action = action_of(tables.actions[state], token)
        while action is not None and action < 0 and tables.rules[~action].passes:
            state = tables.gotos[below][tables.rules[~action].origin]
            action = action_of(tables.actions[state], token)
        tables.passed[key] = state
    return tables.passed[key]


def action_of(actions: dict[str, int], token: Token) -> int | None:
    """Return the action of a state for a token.

    The first terminal of the token that the state accepts determines the action. The result is None
    if there is none.
    """
    for terminal in token.terminals:
        if terminal in actions:
            return actions[terminal]
    return None


def reduce(tables: Tables, source: Source, tokens: list[Token], rule: Rule, stack: Stack) -> bool:
    """Replace the parts of a form by its node.

    The result is False, and the stack unchanged, if the node would be nested too deep.

    Args:
        tables: the grammar.
        source: the text, for spans.
        tokens: all tokens.
        rule: the form.
        stack: the state of the parser.
    """
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
    if rule.plain:
        return [taken[k][0] for k in rule.take]
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
    """Return the terminals that can come next after these states.

    The table of the last state also accepts terminals of other contexts. They are excluded.
    """
    return frozenset(t for t in tables.actions[states[-1]] if can_follow(tables, states, t))


def can_follow(tables: Tables, states: list[int], terminal: str) -> bool:
    """Return whether a terminal would be accepted after these states."""
    return state_after(tables, states, terminal) is not None


def state_after(tables: Tables, states: list[int], terminal: str) -> int | None:
    """Return the state after one more terminal, or None if it would not be accepted."""
    kept, pushed = len(states), []  # the first `kept` states, then the states pushed in this trial
    while True:
        top = pushed[-1] if pushed else states[kept - 1]
        action = tables.actions[top].get(terminal)
        if action is None:
            return top if terminal == END and top == tables.final else None
        if action >= 0:
            return action
        rule = tables.rules[~action]
        drop = min(rule.size, len(pushed))
        del pushed[len(pushed) - drop :]
        kept -= rule.size - drop
        below = pushed[-1] if pushed else states[kept - 1]
        pushed.append(tables.gotos[below][rule.origin])


def _is_name_alone(tables: Tables, state: int) -> bool:
    """Return whether a word that leads to a state can only be a name there."""
    actions = tables.actions[state].values()
    return all(a < 0 and tables.rules[~a].origin in ("name", "_word") for a in actions)


def words_after(text: str) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return what may come next after the beginning of a statement.

    Args:
        text: whole statements, and the beginning of one more.

    Returns:
        The words of the language that may come next, without those that would only be names; and
            the rules of the grammar of which one may begin with a name that continues the
            statement. None if the text has syntax errors.
    """
    tables = load_tables()
    try:
        tokens = tokenize(Source("<text>", text), tables)
    except GmlmError:
        return None
    stack, last = Stack(), len(tokens.tokens) - 1
    stop = run(tables, tokens.source, tokens.tokens, stack, until=last)
    if tokens.faults or stop is None or stop.at != last:
        return None
    terminals = viable(tables, stack.states)
    words = ((word, state_after(tables, stack.states, t)) for word, t in tables.literals.items())
    accepted = ((word, state) for word, state in words if word.isalpha() and state is not None)
    keywords = frozenset(word for word, state in accepted if not _is_name_alone(tables, state))
    ends = terminals & {tables.literals["}"], END}  # after a whole statement, of which another may begin with a name
    named = "NAME" in terminals and (not ends or text.rstrip().endswith("{"))
    return keywords, frozenset(tables.gotos[stack.states[-1]] if named else ())
