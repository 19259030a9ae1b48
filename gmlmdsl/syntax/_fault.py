"""Locate a syntax error: the statement, the body that contains it, and the possible next tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from .._diagnostics import Diagnostic, Source, Span
from ._lex import CLOSING, OPENING, Token, closing
from ._machine import Chain, Stack, Stop, action_of, can_follow, reduce, run, viable
from ._tables import END, Tables
from ._words import LEVELS, NAMES, STATEMENT_WORDS

# words that occur only inside statements
CONTINUES = frozenset({"weight", "rate", "where", "independently"})


@dataclass(frozen=True)
class Fault:
    """A syntax error: token `at` does not fit after the contents of `stack`.

    Attributes:
        tables: the tables of the parser.
        source: the text.
        tokens: the tokens of the text.
        stack: the stack of the parser before token `at`.
        at: the number of the token that does not fit.
        body: the number of parts of the stack that belong to the enclosing body.
        start: the number of the first token of the broken statement.
        level: the kind of statements of the body, a key of `LEVELS`.
        too_deep: whether the nesting was too deep.
    """

    tables: Tables
    source: Source
    tokens: list[Token]
    stack: Stack
    at: int
    body: int
    start: int
    level: str
    too_deep: bool = False

    @property
    def token(self) -> Token:
        """The token that does not fit."""
        return self.tokens[self.at]

    @property
    def previous(self) -> Token | None:
        """The token before it."""
        return self.tokens[self.at - 1] if self.at else None

    @property
    def alone(self) -> bool:
        """Whether the statement begins a line, or follows a brace or a `;`."""
        return self.tokens[self.start].opens_line or not self.start or self.tokens[self.start - 1].text in ("{", "}", ";")

    @cached_property
    def expected(self) -> frozenset[str]:
        """The texts of words and operators, and the names of other terminals, that could come next.

        If a name may come next, so may every keyword. Only the reserved words are then included.
        """
        texts = {terminal: text for text, terminal in self.tables.literals.items()}
        found = frozenset(texts.get(t, t) for t in viable(self.tables, self.stack.states))
        return found - NAMES if "NAME" in found else found

    def span(self, token: Token) -> Span:
        """Return the place of a token."""
        return Span(self.source, token.start, token.end)

    def make(self, text: str, like: Token) -> Token:
        """Return a new token in the place of another token."""
        return like._replace(terminals=(self.tables.literals[text],), text=text)

    def open_brackets(self) -> list[int]:
        """Return the numbers of the tokens of unclosed opening brackets, outermost first."""
        opened: list[int] = []
        for value, first, _, _ in self.stack.parts:
            if isinstance(value, Token) and value.text in OPENING:
                opened.append(first)
            elif isinstance(value, Token) and value.text in CLOSING and opened:
                opened.pop()
        return opened

    def table_without_index(self) -> int | None:
        """Return the opening token of a list or map that ends before this token and needs an index.

        The result is None if there is no such list or map.
        """
        opens = {"]": "[", "}": "{"}.get(self.tokens[self.at - 1].text)
        if self.expected != {"["} or opens is None:
            return None
        before = range(self.at - 2, self.start, -1)
        return next((k for k in before if self.tokens[k].text == opens and closing(self.tokens, k) == self.at - 1), None)


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of the tokens `start` to `end` (half-open), with the error that describes it.

    Attributes:
        start: the first token that is replaced.
        end: the token after the last one that is replaced.
        tokens: the new tokens.
        diagnostic: the error.
        whole: whether the edit is accepted only if the rest of the statement can be parsed.
        far: otherwise, the number of tokens after it that must be parsed.
    """

    start: int
    end: int
    tokens: tuple[Token, ...]
    diagnostic: Diagnostic
    whole: bool = False
    far: int = 3

    def applied(self, tokens: list[Token]) -> list[Token]:
        """Return the tokens after the edit."""
        return [*tokens[: self.start], *self.tokens, *tokens[self.end :]]


def locate(tables: Tables, source: Source, tokens: list[Token], stack: Stack, stop: Stop) -> Fault:
    """Find the broken statement.

    If a keyword at the start of a line was parsed as a name (after `a *`, for example), the fault
    is at this keyword. A statement that was complete before the fault is not part of the fault if
    the fault is on another line.

    Args:
        tables: the tables of the parser.
        source: the text.
        tokens: the tokens of the text.
        stack: the stack of the parser.
        stop: the token at which the parser stopped.
    """
    at = stop.at
    if not stop.too_deep:
        stack, at = _before_fault(tables, source, tokens, stack, at)
        if tokens[at].opens_line or tokens[at].text == ";" or (at and tokens[at - 1].text == "}"):
            stack = _completed(tables, source, tokens, stack)
    body = _body(tables, stack)
    start = stack.parts[body][1] if len(stack.parts) > body else at
    loop = _loop_in_front(source, tokens, start, at)
    before = stack.kept(body)
    if loop is not None and run(tables, source, tokens, before, start, until=loop) == Stop(loop):
        stack, start, at = _completed(tables, source, tokens, before), loop, loop
    if at == start + 1 and opens_statement(tokens, start) and not _opens_here(tables, stack, body, tokens[start]):
        stack, at = stack.kept(body), start
    return Fault(tables, source, tokens, stack, at, body, start, _level(tables, stack.states[body]), stop.too_deep)


def _loop_in_front(source: Source, tokens: list[Token], start: int, at: int) -> int | None:
    """Return the `for` that seems to begin the next statement, or None.

    It is the first token of a line, and it is not further to the right than the statement that
    contains it.
    """
    depth = depth_of(tokens[start : at + 1])
    for k in range(at, start, -1):
        # the depth of the tokens before this one
        depth -= (tokens[k].text in OPENING) - (tokens[k].text in CLOSING)
        if tokens[k].text == "for" and tokens[k].opens_line and not depth:
            left = source.position(tokens[k].start)[1] <= source.position(tokens[start].start)[1]
            return k if tokens[start].opens_line and left else None
    return None


def depth_of(tokens: list[Token]) -> int:
    """Return how many more brackets are opened than closed among tokens."""
    return sum((t.text in OPENING) - (t.text in CLOSING) for t in tokens)


def _before_fault(tables: Tables, source: Source, tokens: list[Token], stack: Stack, at: int) -> tuple[Stack, int]:
    """Return the stack before the unexpected token made the parser close complete parts."""
    body = _body(tables, stack)
    base, start = stack.kept(body), stack.parts[body][1] if len(stack.parts) > body else at
    if start == at or opens_statement(tokens, start - 1):
        base, start = reopened(base, tokens, start)
    again, read = base, start
    for k in [k for k in range(start + 1, at) if opens_statement(tokens, k)] + [at]:
        if run(tables, source, tokens, again, read, until=k) != Stop(k):
            return stack, at
        if k < at and not _may_open(tables, source, tokens, again):
            return again, k
        read = k
    return again, at


def _may_open(tables: Tables, source: Source, tokens: list[Token], stack: Stack) -> bool:
    """Return whether a statement may begin after the contents of the stack."""
    top = _completed(tables, source, tokens, stack).states[-1]
    return any(name in tables.gotos[top] for name in LEVELS)


def reopened(base: Stack, tokens: list[Token], start: int) -> tuple[Stack, int]:
    """Return the stack without the last complete statement, and the statement's first token."""
    if not base.parts or not isinstance(base.parts[-1][0], Chain):
        return base, start
    statements, first, last, depth = base.parts[-1]
    place = statements.items[-1].span.start
    start = next(k for k in range(start - 1, -1, -1) if tokens[k].start <= place)
    if statements.before is None:
        return base.kept(len(base.parts) - 1), start
    return Stack(base.states, [*base.parts[:-1], (statements.before, first, last, depth)]), start


def restart(fault: Fault, edit: Edit) -> tuple[Stack, int]:
    """Return the stack and token from which to parse an edited statement again.

    If the edit reaches back beyond the statement, parsing begins with the preceding statement, or
    with the whole text.
    """
    stack, start = fault.stack.kept(fault.body), fault.start
    if edit.start < start:
        stack, start = reopened(stack, fault.tokens, start)
    return (stack, start) if edit.start >= start else (Stack(), 0)


def _opens_here(tables: Tables, stack: Stack, body: int, token: Token) -> bool:
    """Return whether a keyword begins a statement at this level.

    The parser alone cannot tell, because every keyword may be a name before a `~`.
    """
    gotos = tables.gotos[stack.states[body]]
    return any(token.text in words for name, (words, _) in LEVELS.items() if name in gotos)


def _body(tables: Tables, stack: Stack) -> int:
    return next(k for k in reversed(range(len(stack.states))) if _is_body(tables, stack.states[k]))


def _level(tables: Tables, state: int) -> str:
    return next(name for name in LEVELS if name in tables.gotos[state])


def around(fault: Fault, at: int) -> Fault:
    """Return the statement that contains the broken one, as broken from token `at` on."""
    inner = fault.stack.kept(fault.body - 1)
    body = _body(fault.tables, inner)
    start = fault.stack.parts[body][1]
    return replace(fault, body=body, start=start, at=at, level=_level(fault.tables, fault.stack.states[body]))


def _is_body(tables: Tables, state: int) -> bool:
    """Return whether any number of statements may follow.

    After the colon of a row exactly one statement follows.
    """
    gotos = tables.gotos[state]
    if "sampler_statement" in gotos:
        return tables.literals["}"] in tables.actions[state]
    return any(name in gotos for name in LEVELS)


def reads_whole(fault: Fault, tokens: list[Token], end: int) -> bool:
    """Return whether the tokens from the start of the broken statement to `end` are one statement.

    The token `end` is excluded.
    """
    stack = fault.stack.kept(fault.body)
    if run(fault.tables, fault.source, tokens, stack, fault.start, until=end) != Stop(end):
        return False
    done = _completed(fault.tables, fault.source, tokens, stack)
    return _is_body(fault.tables, done.states[-1]) and len(done.parts) <= fault.body + 1


def _completed(tables: Tables, source: Source, tokens: list[Token], stack: Stack) -> Stack:
    """Return the stack after completing the statement on it.

    If the statement is incomplete, the stack is returned unchanged.
    """
    for terminal in (END, tables.literals["}"]):
        trial = stack.kept(len(stack.parts))
        mark = Token((terminal,), "", 0, 0)
        while can_follow(tables, trial.states, terminal):
            action = action_of(tables.actions[trial.states[-1]], mark)
            if action is None or action >= 0 or not reduce(tables, source, tokens, tables.rules[~action], trial):
                break
            if _is_body(tables, trial.states[-1]):
                return trial
    return stack


def opens_statement(tokens: list[Token], index: int) -> bool:
    """Return whether a statement seems to begin at a token.

    It needs a keyword at the start of a line, followed by a token that may follow a keyword.
    """
    token = tokens[index]
    if token.text not in STATEMENT_WORDS or not (token.opens_line or tokens[index - 1].text == ";"):
        return False
    after = tokens[index + 1] if index + 1 < len(tokens) else token
    if after.text == ":" and token.text in ("var", "latent", "given", "param", "input"):
        return True  # The name is missing.
    return after.text in ("{", "(", "-", "not", "if") or not after.terminals or not {"NAME", "NUMBER", "STRING"}.isdisjoint(after.terminals)


def resumption(fault: Fault) -> int:
    """Return the number of the token at which parsing resumes after the broken statement."""
    # If the first token does not fit, it is skipped, unless it is the brace that closes the body.
    passed = fault.at == fault.start and (fault.token.text != "}" or fault.level == "statement")
    index = min(fault.at + passed, len(fault.tokens) - 1)
    depth = sum((t.text == "{") - (t.text == "}") for t in fault.tokens[fault.start : index])
    for k in range(index, len(fault.tokens) - 1):
        token = fault.tokens[k]
        text = token.text
        if depth <= 0 and ((text == "}" and fault.level != "statement") or (_may_open_next(token) and _opens_next(fault, k))):
            return k
        depth = depth + 1 if text == "{" else max(0, depth - (text == "}"))
    return max(index, len(fault.tokens) - 1)


def _may_open_next(token: Token) -> bool:
    """Return whether a token may satisfy `_opens_next`.

    This check is cheap. It excludes most of the tokens, of which there may be very many.
    """
    return token.opens_line or token.text in STATEMENT_WORDS


def _opens_next(fault: Fault, index: int) -> bool:
    tokens, token = fault.tokens, fault.tokens[index]
    if opens_statement(tokens, index):
        return True
    if not token.opens_line or index + 1 >= len(tokens):
        return False
    in_model = fault.level == "model_statement" and "NAME" in token.terminals
    if in_model and (tokens[index + 1].text in ("~", ":") or _before_tilde(tokens, index + 1)):
        return True
    if token.text == "for" and _is_beside(fault, token) and not depth_of(tokens[fault.start : index]):
        return True
    could = "NAME" in token.terminals or (fault.level == "model_statement" and token.terminals == ("NUMBER",))
    if could and token.text not in CONTINUES and _is_beside(fault, token):
        return True  # A keyword is missing or misspelt.
    return fault.level.endswith("row") and (token.terminals == ("NUMBER",) or "ROW_NAME" in token.terminals)


def _is_beside(fault: Fault, token: Token) -> bool:
    """Return whether a line begins as far to the left as the line of the broken statement.

    Such a line is probably not a part of the statement.
    """
    first = fault.tokens[fault.start]
    return first.opens_line and token.start > first.start and column(fault, token) <= column(fault, first)


def column(fault: Fault, token: Token) -> int:
    """Return the column of a token on its line, counted from 1."""
    return fault.source.position(token.start)[1]


def _before_tilde(tokens: list[Token], index: int) -> bool:
    if tokens[index].text != "[":
        return False
    depth = 0
    for k in range(index, min(index + 40, len(tokens) - 1)):
        depth += (tokens[k].text in OPENING) - (tokens[k].text in CLOSING)
        if depth == 0:
            return tokens[k + 1].text == "~"
    return False


def names_in(tokens: list[Token]) -> set[str]:
    """Return the names that occur among the tokens."""
    return {t.text for t in tokens if "NAME" in t.terminals}
