"""Read comments that allow warnings, and apply them to the warnings of a program.

The comment `# gmlm: allow W803` after a statement silences that warning of that statement. A
comment that silences nothing is itself a warning (W806), so that no comment outlives its reason.
Errors cannot be allowed.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from .._diagnostics import Diagnostic, Fix, Span, codes, listed
from ..syntax import tree

MARK = re.compile(r"#\s*gmlm\s*:\s*(.*)")
CODES = re.compile(r"allow\s+([A-Z]\d+(?:\s*,\s*[A-Z]\d+)*)(?![\w-])")
HOW = "write `# gmlm: allow W803` behind the statement, with the code of the warning"
# These warnings need sizes (`Model.warnings`) or come from Python. A check of the text cannot tell
# whether they occur.
WITH_SIZES = frozenset({"W811", "W812", "W815", "W820", "W821", "W822", "W823", "W824", "W825", "W828", "W832", "W901"})


@dataclass(frozen=True, slots=True)
class Allowance:
    """A comment that allows the warnings `codes` on the lines `first` to `last` of its file."""

    comment: Span
    codes: tuple[str, ...]
    first: int
    last: int


def read_allowances(parsed: tree.SyntaxTree) -> Iterator[Allowance | Diagnostic]:
    """Yield the allowances of a file, and a warning W806 for each malformed comment."""
    if "gmlm" not in parsed.span.source.text:
        return
    lines = _Lines(parsed)
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
            yield Allowance(comment.span, given, *lines.around(line))


class _Lines:
    """The lines on which the statements of a file begin and end, and the lines of their heads."""

    def __init__(self, parsed: tree.SyntaxTree):
        self.parsed = parsed

    def around(self, line: int) -> tuple[int, int]:
        """Return the first and last line to which a comment on `line` applies.

        These are the lines of the statements that touch `line`. For a statement with a body, they
        are the lines of its head. If `line` is the line of the closing brace, they are all lines of
        the statement.
        """
        return self._touched.get(line, (line, line))

    @cached_property
    def _touched(self) -> dict[int, tuple[int, int]]:
        touched: dict[int, tuple[int, int]] = {}
        for start, head, end in map(self._place, _statements(self.parsed.statements)):
            for line in range(start, head + 1):
                first, last = touched.get(line, (line, line))
                touched[line] = min(first, start), max(last, head)
            if end > head:
                first, last = touched.get(end, (end, end))
                touched[end] = min(first, start), last
        return touched

    @staticmethod
    def _place(statement: tree.Node) -> tuple[int, int, int]:
        source, span = statement.span.source, statement.span
        start, end = source.position(span.start)[0], source.position(span.end)[0]
        inside = next(iter(_inside(statement)), None)
        head = end if inside is None else source.position(source.text.rfind("{", span.start, inside.span.start))[0]
        return start, head, end


def _statements(statements: Iterable[tree.Node]) -> Iterator[tree.Node]:
    for statement in statements:
        yield statement
        yield from _statements(_inside(statement))


_PARTS = (
    tree.Choose,
    tree.Each,
    tree.MaskRow,
    tree.KernelRow,
    tree.Start,
    tree.Update,
    tree.Cycle,
    tree.Repeat,
    tree.KernelMixture,
    tree.Temper,
)


def _inside(node: tree.Node) -> tuple[tree.Node, ...]:
    """Return the statements inside a statement, including those inside the nodes of its body."""
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
    """Return the warnings that no comment allows."""
    # For each file and code: the first line of each comment in order, and the greatest last line of
    # the comments up to it.
    reach: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for a in sorted(allowances, key=lambda a: a.first):
        for code in a.codes:
            so_far = reach.setdefault((a.comment.source.path, code), [])
            so_far.append((a.first, max(a.last, so_far[-1][1] if so_far else 0)))
    return (w for w in warnings if not _is_allowed(w, reach))


def _is_allowed(warning: Diagnostic, reach: Mapping[tuple[str, str], Sequence[tuple[int, int]]]) -> bool:
    if warning.span is None:
        return False
    so_far, line = reach.get((warning.span.source.path, warning.code), ()), _line(warning)
    k = bisect.bisect_right(so_far, line, key=lambda r: r[0])
    return k > 0 and line <= so_far[k - 1][1]


def _line(warning: Diagnostic) -> int:
    assert warning.span is not None
    return warning.span.source.position(warning.span.start)[0]


def idle_allowances(warnings: Iterable[Diagnostic], allowances: Iterable[Allowance]) -> Iterator[Diagnostic]:
    """Yield W806 for each comment that allows an absent warning, an error or an unknown code."""
    lines: dict[tuple[str, str], list[int]] = {}  # the lines of the warnings, by file and code
    for w in warnings:
        if w.span is not None:
            lines.setdefault((w.span.source.path, w.code), []).append(_line(w))
    for found in lines.values():
        found.sort()
    for a in allowances:
        idle = [c for c in a.codes if c not in WITH_SIZES and not _any_between(lines.get((a.comment.source.path, c), ()), a.first, a.last)]
        if idle:
            yield _idle(a, idle)


def _any_between(lines: Sequence[int], first: int, last: int) -> bool:
    k = bisect.bisect_left(lines, first)
    return k < len(lines) and lines[k] <= last


def _idle(a: Allowance, idle: list[str]) -> Diagnostic:
    kept = [c for c in a.codes if c not in idle]
    unknown = [c for c in idle if c not in codes()]
    errors = [c for c in idle if c.startswith("E")]
    if errors:
        message, help = f"errors cannot be allowed: {listed(errors)}", "mend the error; only warnings, W8.., can be allowed"
    elif unknown:
        message, help = f"there is no warning {listed(unknown)}", HOW
    else:
        message, help = f"this comment allows {listed(idle)}, and the statement has no such warning", "remove it"
    text = a.comment.source.text
    start = len(text[: a.comment.start].rstrip())
    fix = Fix(a.comment, f"# gmlm: allow {', '.join(kept)}") if kept else Fix(Span(a.comment.source, start, a.comment.end), "")
    return Diagnostic("W806", message, a.comment, "allows nothing", help=help, fix=fix)
