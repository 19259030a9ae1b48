"""Bodies as other languages write them: behind a colon and indented, or without a name before the brace."""

from __future__ import annotations

from .._diagnostics import Diagnostic, Fix, Span
from ._fault import Edit, Fault, column

Faults = dict[int, Diagnostic]
NAMELESS = {"model": "m", "sampler": "s"}


def indented_body(fault: Fault, faults: Faults) -> Edit | None:
    """`model m:` with a body that is indented, as in Python: the braces are put in, and what is wrong between them is said as ever."""
    tokens, at = fault.tokens, fault.at
    first = tokens[_line_of(fault)]
    if fault.token.text != ":" or "{" not in fault.expected or not tokens[at + 1].opens_line:
        return None
    margin = column(fault, first)
    end = next(k for k in range(at + 1, len(tokens)) if not tokens[k].text or (tokens[k].opens_line and column(fault, tokens[k]) <= margin))
    if end == at + 1:
        return None
    inside = tuple(tokens[at + 1 : end])
    header = fault.source.text[first.start : fault.token.start].rstrip()
    span = Span(fault.source, fault.token.start, inside[-1].end)
    fix = Fix(span, f" {{{span.text[1:]}\n{' ' * (margin - 1)}}}")
    diagnostic = Diagnostic(
        "E101", "a body stands between braces, not behind a colon", fault.span(fault.token), help=f"write `{header} {{ .. }}`", fix=fix
    )
    made = (fault.make("{", fault.token), *inside, fault.make("}", inside[-1])._replace(opens_line=False))
    return Edit(at, end, made, diagnostic, far=-len(inside))  # believed where the body opens: its faults are its own


def _line_of(fault: Fault) -> int:
    """The first token of the line of the fault."""
    return next(k for k in range(fault.at, -1, -1) if fault.tokens[k].opens_line or not k)


def name_left_out(fault: Fault, faults: Faults) -> Edit | None:
    """`model { .. }` and `sampler { .. }`: read on as if a name stood there; `model { m` has it behind the brace."""
    tokens, at = fault.tokens, fault.at
    word = tokens[fault.start].text
    if word not in NAMELESS or fault.token.text != "{" or at != fault.start + 1:
        return None
    span = fault.span(fault.token)
    message, help_ = f"expected the name of the {word} after `{word}`", f"a {word} has a name: `{word} name {{ .. }}`"
    behind = tokens[at + 1]
    if "NAME" in behind.terminals and not behind.opens_line and tokens[at + 2].opens_line:
        fix = Fix(span.to(fault.span(behind)), f"{behind.text} {{")
        diagnostic = Diagnostic("E101", message, span, "found `{`", help=f"write `{word} {behind.text} {{`", fix=fix)
        return Edit(at, at + 2, (behind, fault.token), diagnostic, far=1)
    taken = {t.text for t in tokens}
    name = next(n for n in (f"{NAMELESS[word]}{k or ''}" for k in range(len(taken) + 2)) if n not in taken)
    fix = Fix(Span(fault.source, span.start, span.start), f"{name} ", guess=True)
    made = fault.token._replace(terminals=("NAME",), text=name, opens_line=False)
    return Edit(at, at, (made,), Diagnostic("E101", message, span, "found `{`", help=help_, fix=fix), far=1)
