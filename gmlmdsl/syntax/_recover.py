"""Recover from a syntax error and continue to parse.

The error is reported once. It is mended if one edit certainly mends it. Otherwise the statement is
skipped.
"""

from __future__ import annotations

from dataclasses import replace

from .._diagnostics import Diagnostic
from ._explain import explain
from ._fault import Edit, Fault, around, locate, names_in, opens_statement, reads_whole, restart, resumption
from ._lex import Tokens
from ._machine import Stack, Stop, can_follow, run
from ._repair import excess, mend_braces, repairs
from ._tables import Tables
from ._words import LEVELS
from .limits import MAX_ERRORS, MAX_ERRORS_WHEN_LONG, MOST_LOOKS, STEPS_OF_AN_ERROR


def recover(tables: Tables, tokens: Tokens, stack: Stack, stop: Stop) -> tuple[Stack, tuple[Diagnostic, ...], frozenset[str]]:
    """Continue after an error up to the end of the text.

    Args:
        tables: the grammar.
        tokens: the tokens of the text.
        stack: the state of the parser before the error.
        stop: the error.

    Returns:
        The parts that could be parsed, the errors, and the names in the skipped text.
    """
    recovery = _Recovery(tables, tokens)
    end: Stop | None = stop
    while end is not None:
        stack, at = recovery.step(stack, end)
        end = run(tables, tokens.source, recovery.tokens, stack, at)
    # Some tokens are accepted in spite of a fault: a number that is too large, an unknown escape.
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
        # the token at which parsing resumed inside a line. The rest of the line may be debris.
        self.resumed = -1
        self.last = -1  # the token at which parsing resumed last
        # the number of edits made. Those of the rows of one mixture count as one error.
        self.edits = 0
        # the number of stops. One fault may cause several stops, which add no information.
        self.steps = 0
        self.mended = -1  # the start of the last statement that was mended

    def step(self, stack: Stack, stop: Stop) -> tuple[Stack, int]:
        """Handle one error. Return the stack and the token at which parsing resumes."""
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
        """Return whether the fault is unrelated to braces.

        Braces are then checked at a later fault.
        """
        of_another_level = opens_statement(self.tokens, fault.at) and fault.token.text not in LEVELS[fault.level][0]
        return fault.token.text not in ("{", "}", "") and not of_another_level

    def _report(self, fault: Fault) -> tuple[Stack, int]:
        if fault.tokens[fault.start].start != self.mended:
            self.errors.append(explain(fault, self.faults))
        return self._leave_out(fault, resumption(fault))

    def _apply(self, edit: Edit) -> None:
        # A repeated diagnostic replaces the earlier one: it covers another row of a mixture.
        said = (edit.diagnostic.span, edit.diagnostic.message)
        self.errors = [*(d for d in self.errors if (d.span, d.message) != said), edit.diagnostic]
        self.tokens = edit.applied(self.tokens)
        self.edits += 1
        self.last = -1  # The edit changed the numbers of tokens. The number of edits is bounded.

    def _mend(self, fault: Fault) -> tuple[Stack, int] | None:
        """Make the first edit that certainly mends the statement.

        Return the stack and token from which to parse again, or None if there is no such edit.
        """
        if fault.too_deep:
            return None
        next_statement = resumption(fault)
        for edit in repairs(fault, self.faults):
            # The last token ends the text, and no edit replaces it.
            if edit.end < len(self.tokens) and self._mends(fault, edit, next_statement):
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
        # The trial stops here, because it is repeated for many edits.
        stop = run(self.tables, self.source, tokens, stack, start, until=max(start, far))
        return stop is None or stop.at >= far

    def _leave_out(self, fault: Fault, to: int) -> tuple[Stack, int]:
        """Skip the statement.

        The enclosing statement is skipped too if it cannot end without this one, or if the file
        ends inside it.
        """
        # Debris can look like the last statement that was skipped. Parsing therefore always resumes
        # at a later token than before.
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
        """Report one error for unbalanced braces that no single edit mends.

        The statement is skipped if the braces are balanced without one brace. Otherwise the rest of
        the text is skipped.
        """
        self.errors.append(explain(fault, self.faults))
        without = Edit(fault.at, fault.at + 1, (), self.errors[-1]).applied(self.tokens)
        if fault.token.text in ("{", "}") and excess(without) == 0:
            # Without this one brace, the other braces of the text are balanced. Only the statement
            # is lost.
            self.tokens = without
            self.last = -1
            if fault.start == fault.at:
                return fault.stack.kept(fault.body), fault.at
            fault = replace(fault, tokens=without, start=min(fault.start, fault.at))
            return self._leave_out(fault, resumption(fault))
        return self._leave_out(fault, len(self.tokens) - 1)
