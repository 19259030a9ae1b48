"""After a syntax error: report it once, mend it where one edit surely does, else leave the statement out, and read on."""

from __future__ import annotations

from dataclasses import replace

from .._diagnostics import Diagnostic
from ._braces import excess, mend_braces
from ._explain import explain
from ._fault import Edit, Fault, around, locate, names_in, opens_statement, reads_whole, restart, resumption
from ._lex import Tokens
from ._machine import Stack, Stop, can_follow, run
from ._repair import repairs
from ._tables import Tables
from ._words import LEVELS

MAX_ERRORS = 50
MAX_ERRORS_WHEN_LONG = 5
STEPS_OF_AN_ERROR = 4
MOST_LOOKS = 100_000  # tokens, times errors: each error costs a look at all tokens


def recover(tables: Tables, tokens: Tokens, stack: Stack, stop: Stop) -> tuple[Stack, tuple[Diagnostic, ...], frozenset[str]]:
    """Read on after an error, to the end.

    Args:
        tables: the grammar.
        tokens: the tokens of the text.
        stack: what was read before the error.
        stop: the error.

    Returns:
        What could be read, the errors, and the names in the text that was left out.
    """
    recovery = _Recovery(tables, tokens)
    end: Stop | None = stop
    while end is not None:
        stack, at = recovery.step(stack, end)
        end = run(tables, tokens.source, recovery.tokens, stack, at)
    # Faults of tokens that were read all the same: a number too large, an unknown escape.
    whole = {t.start for t in tokens.tokens if t.terminals}
    errors = (*recovery.errors, *(d for start, d in tokens.faults.items() if start in whole))
    return stack, errors, frozenset(recovery.skipped)


class _Recovery:
    def __init__(self, tables: Tables, tokens: Tokens):
        self.tables, self.source, self.faults = tables, tokens.source, tokens.faults
        self.tokens = tokens.tokens
        self.errors: list[Diagnostic] = []
        self.skipped: set[str] = set()
        self.braces_seen = False
        self.resumed = -1  # where reading went on, when not at the start of a line: what follows there may be debris
        self.last = -1  # where reading went on last
        self.edits = 0  # made; those of the rows of one mixture are one error
        self.steps = 0  # places where reading stopped: of one fault there may be several, which say nothing new
        self.mended = -1  # the place of the statement that was mended last

    def step(self, stack: Stack, stop: Stop) -> tuple[Stack, int]:
        """Deal with one error; the stack and the token to read on from."""
        fault = locate(self.tables, self.source, self.tokens, stack, stop)
        self.steps += 1
        if max(len(self.errors), self.edits, self.steps // STEPS_OF_AN_ERROR) >= min(
            MAX_ERRORS, max(MAX_ERRORS_WHEN_LONG, MOST_LOOKS // len(self.tokens))
        ):
            return self._leave_out(fault, len(self.tokens) - 1)
        if not self.braces_seen and excess(self.tokens) and not fault.too_deep:
            edit = mend_braces(fault)
            if edit:
                self._apply(edit)
                self.braces_seen = True
                return restart(fault, edit)
            again = self._mend(fault)
            if again is None and self._is_inside(fault):
                return self._report(fault)
            if again is None:
                self.braces_seen = True
                again = self._give_up_braces(fault)
            return again
        if self._is_debris(fault):
            return self._leave_out(fault, resumption(fault))
        return self._mend(fault) or self._report(fault)

    def _is_inside(self, fault: Fault) -> bool:
        """Whether the fault has nothing to do with braces: those are then looked at when they matter."""
        of_another_level = opens_statement(self.tokens, fault.at) and fault.token.text not in LEVELS[fault.level][0]
        return fault.token.text not in ("{", "}", "") and not of_another_level

    def _report(self, fault: Fault) -> tuple[Stack, int]:
        if fault.tokens[fault.start].start != self.mended:
            self.errors.append(explain(fault, self.faults))
        return self._leave_out(fault, resumption(fault))

    def _apply(self, edit: Edit) -> None:
        said = (edit.diagnostic.span, edit.diagnostic.message)  # what is said again is said of more: of another row of a mixture
        self.errors = [*(d for d in self.errors if (d.span, d.message) != said), edit.diagnostic]
        self.tokens = edit.applied(self.tokens)
        self.edits += 1
        self.last = -1  # tokens have other numbers now; the number of edits is bounded

    def _mend(self, fault: Fault) -> tuple[Stack, int] | None:
        """Make the first edit that surely mends the statement; where to read again, or None where there is no such edit."""
        if fault.too_deep:
            return None
        next_statement = resumption(fault)
        for edit in repairs(fault, self.faults):
            if self._mends(fault, edit, next_statement):
                again = restart(fault, edit)
                self._apply(edit)
                self.mended = fault.tokens[fault.start].start
                return again
        return None

    def _is_debris(self, fault: Fault) -> bool:
        if self.resumed < 0:
            return False
        return not any(t.opens_line for t in self.tokens[self.resumed : fault.at + 1])

    def _mends(self, fault: Fault, edit: Edit, next_statement: int) -> bool:
        tokens = edit.applied(self.tokens)
        shift = len(edit.tokens) - (edit.end - edit.start)
        if edit.whole:
            return reads_whole(fault, tokens, next_statement + shift)
        far = min(edit.end + shift + edit.far, next_statement + shift + 1)
        stack, start = restart(fault, edit)
        stop = run(self.tables, self.source, tokens, stack, start, until=max(start, far))  # no further: it is tried for many edits
        return stop is None or stop.at >= far

    def _leave_out(self, fault: Fault, to: int) -> tuple[Stack, int]:
        """Skip the statement; and the one around it where that cannot end without it, or where the file ends inside it."""
        # Debris can look like the statement that was left out last: reading always goes on further than before.
        to = max(to, min(self.last + 1, len(self.tokens) - 1))
        while self.tokens[to].text in ("}", "") and fault.body:
            states = fault.stack.states[: fault.body + 1]
            if can_follow(self.tables, states, self.tokens[to].terminals[0]):
                break
            fault = around(fault, to)
            to = resumption(fault)
        self.skipped |= names_in(self.tokens[fault.start : to])
        self.last = to
        self.resumed = -1 if opens_statement(self.tokens, to) else to
        return fault.stack.kept(fault.body), to

    def _give_up_braces(self, fault: Fault) -> tuple[Stack, int]:
        """Braces do not pair and no one edit mends it: one error, and on as far as is safe."""
        self.errors.append(explain(fault, self.faults))
        without = Edit(fault.at, fault.at + 1, (), self.errors[-1]).applied(self.tokens)
        if fault.token.text in ("{", "}") and excess(without) == 0:
            # Without this one brace those of the text around pair: only the statement is lost.
            self.tokens = without
            self.last = -1
            if fault.start == fault.at:
                return fault.stack.kept(fault.body), fault.at
            fault = replace(fault, tokens=without, start=min(fault.start, fault.at))
            return self._leave_out(fault, resumption(fault))
        return self._leave_out(fault, len(self.tokens) - 1)
