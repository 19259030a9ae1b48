"""Where a program stopped being readable: the statement, the body it stands in, and what could have come next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from .._diagnostics import Diagnostic, Source, Span
from ._lex import CLOSING, OPENING, Token, closing
from ._machine import Chain, Stack, Stop, action_of, can_follow, reduce, run, viable
from ._tables import END, Tables
from ._words import LEVELS, NAMES, STATEMENT_WORDS

CONTINUES = frozenset({"weight", "rate", "where", "independently"})  # words that stand inside statements only


@dataclass(frozen=True)
class Fault:
    """Token `at` does not fit after what `stack` holds.

    The first `body` parts of the stack are what stands around the broken statement, which opens at token `start`.
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
        """Whether the statement opens a line, or stands behind a brace or a `;`."""
        return self.tokens[self.start].opens_line or not self.start or self.tokens[self.start - 1].text in ("{", "}", ";")

    @cached_property
    def expected(self) -> frozenset[str]:
        """The texts of words and operators, and the names of other terminals, that could have come.

        Where a name may stand every keyword may; then only the reserved words say something of their own.
        """
        texts = {terminal: text for text, terminal in self.tables.literals.items()}
        found = frozenset(texts.get(t, t) for t in viable(self.tables, self.stack.states))
        return found - NAMES if "NAME" in found else found

    def span(self, token: Token) -> Span:
        """Where a token stands."""
        return Span(self.source, token.start, token.end)

    def make(self, text: str, like: Token) -> Token:
        """A token of our own in the place of another."""
        return like._replace(terminals=(self.tables.literals[text],), text=text)

    def open_brackets(self) -> list[int]:
        """The numbers of the tokens that opened brackets and are not closed yet, outermost first."""
        opened: list[int] = []
        for value, first, _, _ in self.stack.parts:
            if isinstance(value, Token) and value.text in OPENING:
                opened.append(first)
            elif isinstance(value, Token) and value.text in CLOSING and opened:
                opened.pop()
        return opened

    def table_without_index(self) -> int | None:
        """Where the list or map opens that ends before this token, if it stands where only one with an index may."""
        opens = {"]": "[", "}": "{"}.get(self.tokens[self.at - 1].text)
        if self.expected != {"["} or opens is None:
            return None
        before = range(self.at - 2, self.start, -1)
        return next((k for k in before if self.tokens[k].text == opens and closing(self.tokens, k) == self.at - 1), None)


@dataclass(frozen=True, slots=True)
class Edit:
    """Tokens `start` to `end` (half-open) replaced by others, and the error that says so.

    An edit is believed when `far` tokens after it can be read; one that must be `whole`, when the rest of the statement can.
    """

    start: int
    end: int
    tokens: tuple[Token, ...]
    diagnostic: Diagnostic
    whole: bool = False
    far: int = 3

    def applied(self, tokens: list[Token]) -> list[Token]:
        """The tokens with the edit made."""
        return [*tokens[: self.start], *self.tokens, *tokens[self.end :]]


def locate(tables: Tables, source: Source, tokens: list[Token], stack: Stack, stop: Stop) -> Fault:
    """Find the broken statement.

    A keyword that opens a line and was read as a name (after `a *`, say) is where the reading went wrong: the fault is there.
    A statement that was complete before the fault is kept when the fault is on another line.
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
    """A `for` on a line of its own, no further to the right than the statement that it was read to: it seems to open the next one."""
    depth = _brackets(tokens[start : at + 1])
    for k in range(at, start, -1):
        depth -= (tokens[k].text in OPENING) - (tokens[k].text in CLOSING)  # of the tokens before this one
        if tokens[k].text == "for" and tokens[k].opens_line and not depth:
            left = source.position(tokens[k].start)[1] <= source.position(tokens[start].start)[1]
            return k if tokens[start].opens_line and left else None
    return None


def _brackets(tokens: list[Token]) -> int:
    return sum((t.text in OPENING) - (t.text in CLOSING) for t in tokens)


def _before_fault(tables: Tables, source: Source, tokens: list[Token], stack: Stack, at: int) -> tuple[Stack, int]:
    """The stack as it was before the token that does not fit made the machine close what it thought complete."""
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
    """Whether a statement may open after what the stack holds."""
    top = _completed(tables, source, tokens, stack).states[-1]
    return any(name in tables.gotos[top] for name in LEVELS)


def reopened(base: Stack, tokens: list[Token], start: int) -> tuple[Stack, int]:
    """The stack without the last statement that was read whole, and where that one starts."""
    if not base.parts or not isinstance(base.parts[-1][0], Chain):
        return base, start
    statements, first, last, depth = base.parts[-1]
    place = statements.items[-1].span.start
    start = next(k for k in range(start - 1, -1, -1) if tokens[k].start <= place)
    if statements.before is None:
        return base.kept(len(base.parts) - 1), start
    return Stack(base.states, [*base.parts[:-1], (statements.before, first, last, depth)]), start


def restart(fault: Fault, edit: Edit) -> tuple[Stack, int]:
    """Where to read an edited statement again: the one before it, or all, where the edit reaches back so far."""
    stack, start = fault.stack.kept(fault.body), fault.start
    if edit.start < start:
        stack, start = reopened(stack, fault.tokens, start)
    return (stack, start) if edit.start >= start else (Stack(), 0)


def _opens_here(tables: Tables, stack: Stack, body: int, token: Token) -> bool:
    """Whether a keyword opens a statement at this level (every keyword may open one as a name, before a `~`)."""
    gotos = tables.gotos[stack.states[body]]
    return any(token.text in words for name, (words, _) in LEVELS.items() if name in gotos)


def _body(tables: Tables, stack: Stack) -> int:
    return next(k for k in reversed(range(len(stack.states))) if _is_body(tables, stack.states[k]))


def _level(tables: Tables, state: int) -> str:
    return next(name for name in LEVELS if name in tables.gotos[state])


def around(fault: Fault, at: int) -> Fault:
    """The statement that holds the broken one, broken as well, from token `at` on."""
    inner = fault.stack.kept(fault.body - 1)
    body = _body(fault.tables, inner)
    start = fault.stack.parts[body][1]
    return replace(fault, body=body, start=start, at=at, level=_level(fault.tables, fault.stack.states[body]))


def _is_body(tables: Tables, state: int) -> bool:
    """Whether any number of statements may follow (after the colon of a row stands exactly one)."""
    gotos = tables.gotos[state]
    if "sampler_statement" in gotos:
        return tables.literals["}"] in tables.actions[state]
    return any(name in gotos for name in LEVELS)


def reads_whole(fault: Fault, tokens: list[Token], end: int) -> bool:
    """Whether the tokens from the start of the broken statement to `end` (without it) are one statement."""
    stack = fault.stack.kept(fault.body)
    if run(fault.tables, fault.source, tokens, stack, fault.start, until=end) != Stop(end):
        return False
    done = _completed(fault.tables, fault.source, tokens, stack)
    return _is_body(fault.tables, done.states[-1]) and len(done.parts) <= fault.body + 1


def _completed(tables: Tables, source: Source, tokens: list[Token], stack: Stack) -> Stack:
    """The stack after the statement on it, where that is complete; else the stack as it is."""
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
    """Whether a statement seems to open here: its keyword, first on a line, and what may follow a keyword."""
    token = tokens[index]
    if token.text not in STATEMENT_WORDS or not (token.opens_line or tokens[index - 1].text == ";"):
        return False
    after = tokens[index + 1] if index + 1 < len(tokens) else token
    if after.text == ":" and token.text in ("var", "latent", "given", "param", "input"):
        return True  # the name was left out
    return after.text in ("{", "(", "-", "not", "if") or not after.terminals or not {"NAME", "NUMBER", "STRING"}.isdisjoint(after.terminals)


def resumption(fault: Fault) -> int:
    """The number of the token at which reading goes on once the broken statement is left out."""
    # A first token that fits nowhere goes itself; unless it is the brace that closes the body.
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
    """What `_opens_next` is asked of: very many tokens are passed over, and of most of them this alone tells."""
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
    if token.text == "for" and _is_beside(fault, token) and not _brackets(tokens[fault.start : index]):
        return True
    could = "NAME" in token.terminals or (fault.level == "model_statement" and token.terminals == ("NUMBER",))
    if could and token.text not in CONTINUES and _is_beside(fault, token):
        return True  # a keyword left out or misspelt
    return fault.level.endswith("row") and (token.terminals == ("NUMBER",) or "ROW_NAME" in token.terminals)


def _is_beside(fault: Fault, token: Token) -> bool:
    """Whether a line stands as far to the left as the one on which the broken statement opens: then it is hardly a part of it."""
    first = fault.tokens[fault.start]
    return first.opens_line and token.start > first.start and column(fault, token) <= column(fault, first)


def column(fault: Fault, token: Token) -> int:
    """Where a token stands on its line, from 1."""
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
    """The names that occur among the tokens."""
    return {t.text for t in tokens if "NAME" in t.terminals}
