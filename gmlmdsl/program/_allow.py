"""Warnings allowed on their line: `# gmlm: allow W803` behind a statement silences that warning of that statement.

A comment that silences nothing is itself a warning, so that none outlives its reason. Errors cannot be allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from .._diagnostics import Diagnostic, Fix, Span, codes, listed
from ..syntax import tree

MARK = re.compile(r"#\s*gmlm\s*:\s*(.*)")
CODES = re.compile(r"allow\s+([A-Z]\d+(?:\s*,\s*[A-Z]\d+)*)(?![\w-])")
HOW = "write `# gmlm: allow W803` behind the statement, with the code of the warning"
# Found only where sizes are known (`Model.warnings`), or from Python: a check of the text cannot tell whether they are there.
WITH_SIZES = frozenset({"W811", "W812", "W815", "W820", "W821", "W822", "W823", "W824", "W825", "W901"})


@dataclass(frozen=True, slots=True)
class Allowance:
    """A comment that allows `codes` on the lines `first` to `last` of its file."""

    comment: Span
    codes: tuple[str, ...]
    first: int
    last: int

    def covers(self, warning: Diagnostic) -> bool:
        """Whether a warning opens on these lines; its code is not looked at."""
        if warning.span is None or warning.span.source.path != self.comment.source.path:
            return False
        return self.first <= warning.span.source.position(warning.span.start)[0] <= self.last


def read_allowances(parsed: tree.SyntaxTree) -> Iterator[Allowance | Diagnostic]:
    """The allowances of a file, and a warning for each comment that means to be one and is not."""
    if "gmlm" not in parsed.span.source.text:
        return
    for comment in parsed.comments:
        written = MARK.match(comment.text)
        if written is None:
            continue
        found = CODES.match(written[1])
        if found is None:
            yield Diagnostic("W806", f"`{comment.text}` allows nothing", comment.span, "not understood", help=HOW)
        elif comment.alone:
            help = "put it at the end of the statement's line"
            yield Diagnostic("W806", "this comment allows nothing: it has its line to itself", comment.span, "no statement", help=help)
        else:
            given = tuple(c.strip() for c in found[1].split(","))
            line = parsed.span.source.position(comment.span.start)[0]
            yield Allowance(comment.span, given, *_lines(parsed, line))


def _lines(parsed: tree.SyntaxTree, line: int) -> tuple[int, int]:
    """The lines of the statements that touch `line`: of one with a body its head, or all of it behind its closing brace."""
    first = last = line
    for statement in _statements(parsed.statements):
        source, span = statement.span.source, statement.span
        start, end = source.position(span.start)[0], source.position(span.end)[0]
        inside = next(iter(_inside(statement)), None)
        head = end if inside is None else source.position(source.text.rfind("{", span.start, inside.span.start))[0]
        if start <= line <= head:
            first, last = min(first, start), max(last, head)
        elif line == end:
            first = min(first, start)
    return first, last


def _statements(statements: Iterable[tree.Node]) -> Iterator[tree.Node]:
    for statement in statements:
        yield statement
        yield from _statements(_inside(statement))


_PARTS = (tree.Choose, tree.Each, tree.MaskRow, tree.KernelRow, tree.Update, tree.Cycle, tree.Repeat, tree.KernelMixture, tree.Temper)


def _inside(node: tree.Node) -> tuple[tree.Node, ...]:
    """The statements that a statement holds, through the nodes that stand for its body."""
    if isinstance(node, tree.Model):
        return node.body
    out: list[tree.Node] = []
    for f in fields(node):
        value = getattr(node, f.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, _PARTS):
                out.append(part)
            elif isinstance(part, tree.MaskList | tree.MaskMixture):
                out += _inside(part)
    return tuple(out)


def apply_allowances(warnings: Iterable[Diagnostic], allowances: Iterable[Allowance]) -> Iterator[Diagnostic]:
    """The warnings that no comment allows."""
    given = tuple(allowances)
    return (w for w in warnings if not any(w.code in a.codes and a.covers(w) for a in given))


def idle_allowances(warnings: Iterable[Diagnostic], allowances: Iterable[Allowance]) -> Iterator[Diagnostic]:
    """A warning for each comment that allows what is not there, or what cannot be allowed."""
    found = tuple(warnings)
    for a in allowances:
        present = {w.code for w in found if a.covers(w)} | WITH_SIZES
        idle = [c for c in a.codes if c not in present]
        if idle:
            yield _idle(a, idle)


def _idle(a: Allowance, idle: list[str]) -> Diagnostic:
    kept = [c for c in a.codes if c not in idle]
    unknown = [c for c in idle if c not in codes()]
    if any(c.startswith("E") for c in idle):
        message, help = (
            f"errors cannot be allowed: {listed([c for c in idle if c.startswith('E')])}",
            "mend the error; only warnings, W8.., can be allowed",
        )
    elif unknown:
        message, help = f"there is no warning {listed(unknown)}", HOW
    else:
        message, help = f"this comment allows {listed(idle)}, and the statement has no such warning", "remove it"
    text = a.comment.source.text
    start = len(text[: a.comment.start].rstrip())
    fix = Fix(a.comment, f"# gmlm: allow {', '.join(kept)}") if kept else Fix(Span(a.comment.source, start, a.comment.end), "")
    return Diagnostic("W806", message, a.comment, "allows nothing", help=help, fix=fix)
