"""Programs of words of matching brackets, of several kinds, with or without a limit of the depth.

Reference: Li 2025, Definitions 2.2.1 and 3.2.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from string import ascii_lowercase
from typing import cast

from .._diagnostics import fail, whole_number

# alternately opening and closing: open, close, open, close, ..
LETTERS = "()[]{}<>" + "".join(a + a.upper() for a in ascii_lowercase)
MOST_STACKS = 1 << 13  # maximum number of stacks, whose depths are written into the text
SUM_TOLERANCE = 1e-9  # tolerance of the sum of probabilities around 1


def dyck(
    kinds: int = 2,
    length: int = 32,
    depth: int | None = None,
    *,
    q: float | None = 0.5,
    p: float | Sequence[float] | None = None,
    closed: bool = True,
    model: str = "words",
) -> str:
    """Return the text of a program whose model draws words of matching brackets, or their prefixes.

    Each bracket is drawn by the first of these rules that applies:

    - If no bracket is open, one opens.
    - If `depth` brackets are open, one closes. For whole words, one also closes if as many brackets
      are open as there are cells left.
    - Otherwise one opens with probability q.

    A bracket that opens is of kind a with probability p_a, and a bracket that closes matches the
    last open one.

    With a `depth`, the stack of open brackets is a latent number with (k^(depth + 1) - 1) / (k - 1)
    values. Then `sampler="exact"`, `next_symbol`, `log_prob` and `marginals` are exact. `n` is an
    input of the program, and so are `q` and `kind` unless q is None.

    Without a `depth` there would be too many stacks. In that case all symbols are drawn from the
    same distribution, with weights q p_a and 1 - q. `sampler draw` takes the first symbol that the
    verifier `right`, a stack, accepts. It accepts only one of the closing brackets, so the strings
    have the distribution above.

    Args:
        kinds: k, 1 to 30; the values are letters, `()[]{}<>` first.
        length: the number of symbols of a string.
        depth: the maximum number of brackets that are open at once; None: any number.
        q: the probability that a bracket opens, above 0 and below 1; None: every string is equally
            likely, which is the distribution for `completable` and counts; only with a depth.
        p: the probability of each kind, or of the first one, with equal probabilities of the
            others; None: all kinds are equally likely.
        closed: whether strings are whole words (Definition 3.2.1), which have even length, or
            prefixes of words (Definition 2.2.1).
        model: the name of the model.

    Raises:
        GmlmError: E507 for numbers out of bounds, E601 if a depth has more than 8192 stacks.

    Reference: Li 2025, Definitions 2.2.1 and 3.2.1; Wen et al. 2023.
    """
    kinds, length = whole_number("kinds", kinds, 1), whole_number("length", length, 1)
    if 2 * kinds > len(LETTERS):
        raise fail("E507", f"kinds must be at most {len(LETTERS) // 2}, got {kinds}")
    if closed and length % 2:
        raise fail("E507", f"a word has as many closing brackets as opening ones: length must be even, got {length}", help="`closed=False`")
    if q is not None and not 0 < q < 1:
        raise fail("E507", f"q must be above 0 and below 1, got {q!r}")
    if not model.isidentifier():
        raise fail("E507", f"model must be a name, got {model!r}")
    shares = _shares(kinds, p)
    if depth is not None:
        return _bounded(kinds, length, whole_number("depth", depth, 1), q, shares, closed, model)
    if q is None:
        raise fail("E507", "strings of any depth have no equal probabilities here", help="give a `depth`, at most half the length, or a q")
    return _unbounded(kinds, length, q, shares, closed, model)


def _shares(kinds: int, p: float | Sequence[float] | None) -> list[float]:
    """Return the probability of each kind."""
    if p is None:
        return [1 / kinds] * kinds
    found = (
        [float(p)] + [(1 - float(p)) / max(kinds - 1, 1)] * (kinds - 1)
        if isinstance(p, Real)
        else [float(x) for x in cast("Sequence[float]", p)]
    )
    if len(found) != kinds or not all(x > 0 for x in found) or abs(math.fsum(found) - 1) > SUM_TOLERANCE:
        raise fail("E507", f"p must be above 0 for each of {kinds} kinds and sum to 1, got {p!r}")
    return found


def _stacks(kinds: int, depth: int) -> int:
    """Return the number of stacks of at most that depth."""
    return depth + 1 if kinds == 1 else (kinds ** (depth + 1) - 1) // (kinds - 1)


def _title(kinds: int, length: int, depth: int | None, closed: bool) -> str:
    what = f"Words of {length} brackets" if closed else f"Prefixes of words, {length} brackets"
    deep = "" if depth is None else f", at most {depth} deep"
    source = "3.2.1" if closed else "2.2.1"
    return f"# {what} of {kinds} {'kinds' if kinds > 1 else 'kind'}{deep} (Li 2025, Definition {source}), written by gm.examples.dyck."


def _bounded(kinds: int, length: int, depth: int, q: float | None, shares: list[float], closed: bool, model: str) -> str:
    depth = min(depth, length // 2 if closed else length)
    n = _stacks(kinds, depth)
    if n > MOST_STACKS:
        message = f"{kinds} kinds at most {depth} deep have {n:,} stacks, above the limit of {MOST_STACKS:,}"
        raise fail("E601", message, help="a smaller `depth`, or none: then a stack verifies what is drawn")
    law = q is not None
    deep = [d for d in range(depth + 1) for _ in range(1 if kinds == 1 else kinds**d)]
    most = f"min({depth}, n - i)" if closed else str(depth)
    one = f"{kinds} * " if kinds > 1 else ""
    lines = [
        _title(kinds, length, depth, closed),
        f'domain bracket = letters("{LETTERS[: 2 * kinds]}")',
        f"input n : int = {length}",
        *[f"input q : real = {q!r}  # a bracket opens where one may open or close"] * law,
        *[f"input kind[{kinds}] : real = {shares}  # what an opening one is"] * law,
        *[f"input depth[{n}] : int = {deep}  # how many are open, by number"] * law,
        "index t = range(n)",
        "",
        f"model {model} {{",
        "  var x[i in t] : bracket",
        f"  latent s[i in range(n + 1)] : range({n})  # the open ones before cell i: none is 0, kind a on those of s is {one}s + 1 + a",
        "  require s[0] == 0",
        *[f"  {line}" for a in range(kinds) for line in _moves(a, one)],
        *["  require s[n] == 0"] * closed,
        *[f"  factor if s[i + 1] > s[i] then log(kind[(s[i + 1] - 1) % {kinds}]) else 0 for i in t"] * law,
        *[f"  factor if depth[s[i]] == 0 or depth[s[i]] == {most} then 0 else if s[i + 1] > s[i] then log(q) else log(1 - q) for i in t"]
        * law,
        "}",
    ]
    return "\n".join(lines) + "\n"


def _moves(a: int, one: str) -> list[str]:
    """Return the requirements by which brackets of a kind change the stack of open ones."""
    opening, closing = LETTERS[2 * a], LETTERS[2 * a + 1]
    return [
        f'require (x[i] == "{opening}") == (s[i + 1] == {one}s[i] + {a + 1}) for i in t',
        f'require (x[i] == "{closing}") == (s[i] == {one}s[i + 1] + {a + 1}) for i in t',
    ]


def _unbounded(kinds: int, length: int, q: float, shares: list[float], closed: bool, model: str) -> str:
    total = q + kinds * (1 - q)
    weights = [w / total for share in shares for w in (q * share, 1 - q)]
    option = "" if closed else ", closed = false"
    lines = [
        _title(kinds, length, None, closed),
        "# Of the closing brackets one is right, so among those that are right an opening one has probability q where both may stand.",
        f'domain bracket = letters("{LETTERS[: 2 * kinds]}")',
        f"input n : int = {length}",
        f"input symbol[bracket] : real = {weights}",
        "index t = range(n)",
        "",
        f"model {model} {{",
        "  var x[i in t] : bracket",
        "  x[i] ~ categorical(symbol) for i in t",
        "}",
        f"verifier right for {model} = brackets({kinds}{option})",
        f"sampler draw for {model} = tokenwise_rejection(right)",
    ]
    return "\n".join(lines) + "\n"
