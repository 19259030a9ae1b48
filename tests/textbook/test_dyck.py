"""Programs of `gm.examples.dyck`: numbers computed elsewhere, and every string beside the process that the definitions describe."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from thinned import thinned

import gmlmdsl as gm

Array = np.ndarray


def process(word: str, n: int, depth: int | None, q: float, p: list[float], closed: bool) -> Iterator[dict[str, float]]:
    """The law of the symbol behind each prefix of a word, by the words of Definitions 2.2.1 and 3.2.1; no more where it is wrong."""
    letters, stack = "()[]{}", []
    for i in range(n):
        least, most = len(stack) == 0, len(stack) == depth or (closed and len(stack) == n - i)
        opening = 1.0 if least else 0.0 if most else q
        law = {letters[2 * a]: opening * share for a, share in enumerate(p)}
        if stack:
            law[letters[2 * stack[-1] + 1]] = 1 - opening
        yield law
        if i == len(word) or law.get(word[i], 0) == 0:
            return
        kind, closes = divmod(letters.index(word[i]), 2)
        stack.pop() if closes else stack.append(kind)


def probability(word: str, *setting: float) -> float:
    """Of a whole string."""
    laws = list(process(word, len(word), *setting))
    return float(np.prod([law.get(a, 0.0) for law, a in zip(laws, word, strict=False)])) if len(laws) == len(word) else 0.0


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
def test_depths_of_a_prefix_of_28_symbols_are_those_computed() -> None:
    model = gm.parse(gm.examples.dyck(2, 28, 4, closed=False)).model()
    assert model.log_partition({}) == pytest.approx(0, abs=1e-12)
    last = np.asarray(model.marginals({})["s"])[28]
    found = np.bincount(np.repeat(np.arange(5), 2 ** np.arange(5)), last)
    np.testing.assert_allclose(found, [0.250031, 0, 0.5, 0, 0.249969], atol=5e-7)


@pytest.mark.usefixtures("float64")
def test_words_of_28_symbols_are_as_many_as_computed() -> None:
    model = gm.parse(gm.examples.dyck(2, 28, 4, q=None)).model()
    assert np.exp(model.log_partition({})) == pytest.approx(13_060_702_208, rel=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
def test_the_least_loss_of_whole_words_is_that_computed() -> None:
    """The entropy of 32 symbols of any depth: that of the depths, and of the kind of each of 16 brackets."""
    model = gm.parse(gm.examples.dyck(1, 32, 16)).model()
    depths = np.asarray(model.marginals({})["s"])
    free = sum(depths[i, d] for i in range(32) for d in range(1, 17) if d < 32 - i)
    kinds = -(0.2 * np.log(0.2) + 0.8 * np.log(0.8))
    assert free * np.log(2) + 16 * kinds == pytest.approx(23.9788, abs=5e-5)
    assert (free * np.log(2) + 16 * kinds) / 32 == pytest.approx(0.74934, abs=5e-6)


SETTINGS = [
    (2, 6, 2, 0.4, [0.2, 0.8], True),
    (3, 4, 1, 0.4, [0.2, 0.3, 0.5], False),
]


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("setting", thinned([pytest.param(s) for s in SETTINGS], 2))
def test_every_string_has_the_probability_of_the_process(setting: tuple) -> None:
    kinds, n, depth, q, p, closed = setting
    model = gm.parse(gm.examples.dyck(kinds, n, depth, q=q, p=p, closed=closed)).model()
    words = ["".join(w) for w in itertools.product("()[]{}"[: 2 * kinds], repeat=n)]
    wanted = np.array([probability(w, depth, q, p, closed) for w in words])
    assert wanted.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(np.exp(model.log_prob({}, words)), wanted, atol=1e-12)
    before = [w[:3] for w, r in zip(words, wanted, strict=True) if r > 0]
    law = [list(process(w, n, depth, q, p, closed))[3] for w in before]
    shown = [[row.get(a, 0.0) for a in "()[]{}"[: 2 * kinds]] for row in law]
    np.testing.assert_allclose(np.asarray(model.next_symbol({}, before)), shown, atol=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(("q", "p", "closed"), [(0.4, [0.2, 0.8], True), (0.7, [0.6, 0.4], False)])
def test_where_no_depth_is_stated_what_the_stack_lets_stand_has_that_law_too(q: float, p: list[float], closed: bool) -> None:
    model = gm.parse(gm.examples.dyck(2, 6, q=q, p=p, closed=closed)).model()
    law = gm.theory.output_law(model, {}, "draw")
    assert law.fail == 0
    for string, found in zip(law.strings, law.probabilities, strict=True):
        word = "".join(str(a) if isinstance(a, str) else "()[]"[int(a)] for a in string)
        assert found == pytest.approx(probability(word, None, q, p, closed), abs=1e-12)
    assert law.probabilities.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.slow
def test_probabilities_and_lengths_are_inputs() -> None:
    text = gm.examples.dyck(2, 6, 3)
    model = gm.parse(text, q=0.25, kind=[0.9, 0.1], n=4).model()
    assert float(np.exp(model.log_prob({}, "()[]"))) == pytest.approx(0.75 * 0.9 * 0.1, rel=1e-5)  # the last one must close


def test_one_number_is_the_share_of_the_first_kind() -> None:
    assert gm.examples.dyck(3, 4, 2, p=0.5) == gm.examples.dyck(3, 4, 2, p=[0.5, 0.25, 0.25])
    assert "kind[2] : real = [0.5, 0.5]" in gm.examples.dyck(2, 4, 2)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"length": 7}, "E507", "even"),
        ({"kinds": 31}, "E507", "at most 30"),
        ({"kinds": 0}, "E507", "kinds"),
        ({"q": 1.0}, "E507", "below 1"),
        ({"p": 1.0}, "E507", "each of 2 kinds"),
        ({"p": [0.5, 0.2]}, "E507", "sum to 1"),
        ({"q": None}, "E507", "depth"),
        ({"depth": 16}, "E601", "131,071 stacks"),
        ({"model": "a b"}, "E507", "a name"),
    ],
)
def test_what_cannot_be_written_is_said(options: dict, code: str, said: str) -> None:
    with pytest.raises(gm.GmlmError, match=said) as caught:
        gm.examples.dyck(**options)
    assert caught.value.diagnostics[0].code == code
