"""The verifier `brackets`: every prefix beside every string that continues it, symbols taken back, and what is refused."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import guided_brute as brute
import jax.numpy as jnp
import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.guided import Setting, View

N = 5
PROGRAM = """
model words {{
  var x[i in range({n})] : range({q})
  x[i] ~ categorical([{p}]) for i in range({n})
}}
verifier right for words = brackets({options})
sampler rej  for words = rejection(right, tries = 3)
sampler back for words = backtracking(right, quota = 2, stride = 2)
sampler walk for words = value_guided(right, steps = 6)
"""


def program(options: str, q: int, n: int = N) -> gm.Model:
    """Strings of n of q values, all alike."""
    return gm.parse(PROGRAM.format(options=options, q=q, n=n, p=", ".join([str(1 / q)] * q))).model("words")


def is_right(string: tuple[int, ...], kinds: int, depth: int, closed: bool) -> bool:
    """Whether its brackets match, by a list of those that are open."""
    stack: list[int] = []
    for symbol in string:
        kind, closes = divmod(symbol, 2)
        if kind < kinds and closes and (not stack or stack.pop() != kind):
            return False
        if kind < kinds and not closes:
            stack.append(kind)
        if len(stack) > depth:
            return False
    return not (closed and stack)


@cache
def prefixes_of(n: int, q: int, kinds: int, depth: int, closed: bool, end: int | None) -> tuple[set, set]:
    """Right strings, and what they begin with."""
    strings: set[tuple[int, ...]] = set()
    for s in itertools.product(range(q), repeat=n):
        cut = s[: s.index(end) + 1] if end in s else s
        if is_right(cut, kinds, depth, closed):
            strings.add(cut)
    return strings, {s[:t] for s in strings for t in range(len(s))}


CASES = [
    ("2", 4, 2, 99, True, None),
    ("2, closed = false", 4, 2, 99, False, None),
    ("2, depth = 1", 5, 2, 1, True, None),
    ("1, depth = 2", 4, 1, 2, True, 3),
    ("1, depth = 2, closed = false", 2, 1, 2, False, None),
]


@pytest.mark.parametrize("case", thinned([pytest.param(c, id=c[0]) for c in CASES], 4, 1))
@pytest.mark.slow
def test_a_prefix_is_right_where_some_right_string_begins_with_it(case: tuple) -> None:
    options, q, kinds, depth, closed, end = case
    for n in (N, N - 1):
        model = program(options, q, n)
        setting = Setting(model.lowered, {})
        judge = setting.judge(model.program.checked.judges["right"], end)
        strings, begun = prefixes_of(n, q, kinds, depth, closed, end)
        rows = [s for t in range(n + 1) for s in itertools.product(range(q), repeat=t) if end is None or end not in s[:-1]]
        whole = np.array([len(s) == n or (end is not None and s[-1:] == (end,)) for s in rows])
        codes = jnp.asarray([[*s, *[-1] * (n - len(s))] for s in rows], jnp.int32)
        view = View(jnp.maximum(codes, 0), jnp.asarray([len(s) for s in rows]), jnp.asarray(whole), jnp.ones(len(rows), bool))
        state = judge.start(codes)
        found = np.asarray(judge.values(state, view, None, None)) == 0
        wanted = np.array([s in (strings if w else begun) for s, w in zip(rows, whole, strict=True)])
        np.testing.assert_array_equal(found, wanted)
        ends = np.array([[len(s) + 1 == n or a == end for a in range(q)] for s in rows])
        behind = np.asarray(judge.children(state, view, jnp.asarray(ends), None, None)) == 0
        verdict = dict(zip(rows, wanted, strict=True))
        goes_on = ~whole
        np.testing.assert_array_equal(
            behind[goes_on], [[verdict[(*s, a)] for a in range(q)] for s, w in zip(rows, whole, strict=True) if not w]
        )


@pytest.mark.slow
def test_symbols_that_are_taken_back_leave_nothing() -> None:
    """Rows that grow and shrink at random, each by its own number, beside rows that are begun anew."""
    model = program("2", 4, 12)
    judge = Setting(model.lowered, {}).judge(model.program.checked.judges["right"])
    rng, rows = np.random.default_rng(3), [[0, 2], [], [0], [2, 0, 1]]

    def padded() -> Any:
        return jnp.asarray([[*r, *[-1] * (12 - len(r))] for r in rows], jnp.int32)

    state = judge.start(padded())
    for _ in range(60):
        symbols, n = rng.integers(-1, 4, 4), rng.integers(0, 3, 4) * (rng.random(4) < 0.4)
        state = judge.pop(judge.push(state, jnp.asarray(symbols, jnp.int32)), jnp.asarray(n, jnp.int32))
        for row, symbol, back in zip(rows, symbols, n, strict=True):
            row.extend([int(symbol)] if symbol >= 0 and len(row) < 12 else [])
            del row[max(len(row) - int(back), 0) :]
        lengths = jnp.asarray([len(r) for r in rows])
        view = View(jnp.maximum(padded(), 0), lengths, lengths == 12, jnp.ones(4, bool))
        anew = judge.values(judge.start(padded()), view, None, None)
        np.testing.assert_array_equal(np.asarray(judge.values(state, view, None, None)), np.asarray(anew))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("sampler", ["rej", "back", "walk"])
def test_samplers_ask_it_as_they_ask_others(sampler: str) -> None:
    model = program("1", 3, 4)
    strings, begun = prefixes_of(4, 3, 1, 99, True, None)
    table = brute.Table(model.program, "words", {}, 4, 3)

    def v(prefix: tuple[int, ...]) -> float:
        return float(prefix in (strings if len(prefix) == 4 else begun))

    runs = {
        "rej": lambda: brute.rejection(table, v, tries=3),
        "back": lambda: brute.backtracking(table, v, 2, 2),
        "walk": lambda: brute.walk(table, v, 6),
    }
    wanted, found = runs[sampler](), gm.theory.output_law(model, {}, sampler)
    assert found.fail == pytest.approx(wanted.fail, abs=1e-12)
    assert found.expected_calls == pytest.approx(wanted.calls, rel=1e-12)
    for string, p in zip(found.strings, found.probabilities, strict=True):
        assert p == pytest.approx(wanted.law.get(tuple(int(a) for a in string), 0.0), abs=1e-12)


def test_brackets_that_are_no_values_are_refused() -> None:
    with pytest.raises(gm.GmlmError, match="E409.*3 kinds of brackets are 6 values"):
        program("3", 4).sample({}, "rej", draws=1)
    with pytest.raises(gm.GmlmError, match="at least 1"):
        program("0", 4)
    ended = PROGRAM.replace("tries = 3", "tries = 3, end = 1").format(options="2", q=5, n=N, p=", ".join(["0.2"] * 5))
    with pytest.raises(gm.GmlmError, match="E409.*`end` is a bracket"):
        gm.parse(ended).model().sample({}, "rej", draws=1)


def test_it_can_be_asked_by_name_of_prefixes_of_any_length() -> None:
    model = program("2", 5)
    strings, begun = prefixes_of(N, 5, 2, 99, True, None)
    rows = [[], [0, 2], [1], [0, 4, 1, 2, 3], [0, 4, 1, 2], [0, 3]]
    wanted = [float(tuple(r) in (strings if len(r) == N else begun)) for r in rows]
    np.testing.assert_array_equal(gm.prefix_values(model, {}, "right", rows), wanted)
    assert wanted == [1, 1, 0, 1, 1, 0]
    assert gm.prefix_values(model, {}, "right", [[0, 1, 4], [0, 4]], end=4).tolist() == [1, 0]
    with pytest.raises(gm.GmlmError, match="(?s)E506.*`right`"):
        gm.prefix_values(model, {}, "rigth", rows)
