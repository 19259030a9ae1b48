"""Keep a suggested fix only if a trial succeeds.

After the fix, the fault that it mends is absent, and no new fault is present.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from .._diagnostics import Diagnostic, GmlmError, Source
from ._program import Program

# the maximum number of characters that are checked again, for all fixes together
MOST_TRIED = 100_000
OF_A_FAULT = 300  # the cost in characters of each fault that is met again


def with_clean_fixes(check: Callable[[Source], Program], source: Source) -> Program:
    """Check a program. If it has faults, keep only the fixes that mend a fault and introduce none.

    Raises:
        GmlmError: if the program has faults. The error contains all of them.
    """
    try:
        return check(source)
    except GmlmError as error:
        found, spare = error.diagnostics, MOST_TRIED
    out: list[Diagnostic] = []
    for d in found:
        if d.fix is not None:
            spare -= len(source.text) + OF_A_FAULT * len(found)
            is_clean = spare >= 0 and d.fix.span.source == source and _is_clean(check, source, d, found)
            d = d if is_clean else replace(d, fix=None)
        out.append(d)
    raise GmlmError(out) from None


def _is_clean(check: Callable[[Source], Program], source: Source, d: Diagnostic, found: tuple[Diagnostic, ...]) -> bool:
    assert d.fix is not None
    after: Counter[tuple[str, str]] = Counter()
    try:
        check(Source(source.path, d.fix.applied(source.text)))
    except GmlmError as error:
        after = Counter(map(_key, error.diagnostics))
    before = Counter(map(_key, found))
    return after <= before and after[_key(d)] < before[_key(d)]


def _key(d: Diagnostic) -> tuple[str, str]:
    return d.code, d.message
