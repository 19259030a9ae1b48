"""Find the name in the text of a declaration."""

from __future__ import annotations

import re

from .._diagnostics import Span


def name_in(span: Span, name: str) -> Span:
    """Return the place of a name in its declaration, after the keyword."""
    keyword = re.match(r"\w+", span.text)
    found = re.compile(rf"\b{name}\b").search(span.text, keyword.end() if keyword else 0)
    return Span(span.source, span.start + found.start(), span.start + found.end()) if found else span
