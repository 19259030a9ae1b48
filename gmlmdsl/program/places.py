"""Where in a declaration its name stands."""

from __future__ import annotations

import re

from .._diagnostics import Span


def name_in(span: Span, name: str) -> Span:
    """Where a declaration writes its name: behind its keyword."""
    keyword = re.match(r"\w+", span.text)
    found = re.compile(rf"\b{name}\b").search(span.text, keyword.end() if keyword else 0)
    return Span(span.source, span.start + found.start(), span.start + found.end()) if found else span
