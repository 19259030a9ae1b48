"""Find forms of earlier versions, which are still accepted, and their current equivalents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .._diagnostics import Fix, Span
from . import _tree as tree

WORD = re.compile(r"#[^\n]*|\w+")  # matches a comment or a word


@dataclass(frozen=True, slots=True)
class OldForm:
    """One old form.

    Attributes:
        today: a short description of the current form.
        span: the place of the old form.
        fix: the edit, or None if the old form contains a comment.
    """

    today: str
    span: Span
    fix: Fix | None


def old_forms(mask: tree.Mask) -> Iterator[OldForm]:
    """Yield the old forms of a mask.

    They are `given x` in its header, and weights and rates that come last.
    """
    if mask.word == "given":
        found = [m for m in WORD.finditer(mask.span.source.text, mask.span.start, mask.given[0].span.start) if m[0] == "given"]
        span = Span(mask.span.source, *found[-1].span())
        yield OldForm("`sees`", span, Fix(span, "sees"))
    for part in mask.body.body if isinstance(mask.body, tree.MaskList) else ():
        if isinstance(part, tree.Choose) and part.weight_last:
            yield _weight_first(part.span, part.block.span, part.clauses, "choose", "weight", "choose w : BLOCK")
        elif isinstance(part, tree.Each) and part.rate_last:
            yield _weight_first(part.span, part.cell.span, part.clauses, "each", "rate", "each r : CELL")


def _weight_first(whole: Span, target: Span, clauses: tree.Clauses | None, head: str, word: str, today: str) -> OldForm:
    """Rewrite `choose BLOCK for .. weight w` as `choose w : BLOCK for ..`.

    Args:
        whole: the place of the statement.
        target: the place of its block or cell.
        clauses: its clauses.
        head: its first keyword.
        word: the keyword before the weight or rate.
        today: a short description of the current form.
    """
    text = whole.source.text
    last = target.end if clauses is None else clauses.span.end
    found = re.compile(rf"\b{word}\b").search(text, last, whole.end)
    if found is None or "#" in whole.text:
        return OldForm(f"`{today}`", whole, None)
    weight, rest = text[found.end() : whole.end].strip(), text[target.start : found.start()].rstrip()
    return OldForm(f"`{today}`", whole, Fix(whole, f"{head} {weight} : {rest}"))


def modernised(read: tree.SyntaxTree) -> str | None:
    """Return the text of a program with its old forms replaced by their current equivalents.

    The result is None if no form can be replaced.
    """
    masks = [s for s in read.statements if isinstance(s, tree.Mask)]
    masks += [s for m in read.statements if isinstance(m, tree.Model) for s in m.body if isinstance(s, tree.Mask)]
    fixes = [form.fix for mask in masks for form in old_forms(mask) if form.fix is not None]
    text = read.span.source.text
    for fix in sorted(fixes, key=lambda f: -f.span.start):
        text = text[: fix.span.start] + fix.text + text[fix.span.end :]
    return text if fixes else None
