"""Guided samplers at their edges, computed checks of the thesis, and functions and oracles of the user's."""

from __future__ import annotations

import sys
import types
from collections import OrderedDict
from collections.abc import Iterator

import jax
import numpy as np
import pytest
from guided_cases import BITS, ZEROS, bits
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl._diagnostics import GmlmError
from gmlmdsl.derive import _bounded_jit
from gmlmdsl.explain import explain
from gmlmdsl.guided import _loop, _walk
from gmlmdsl.sample import SamplingWarning

# Computed checks


@pytest.mark.parametrize("n", thinned([1, 3, 6], 3, 1))
def test_rejection_takes_n_2_to_the_n_calls_and_rejection_of_symbols_2_n(n: int):
    """Li 2025, Proposition 3.1.1: the set of one string of zeros, fair bits."""
    model = bits(n=n)
    assert gm.theory.output_law(model, {}, "rej").expected_calls == pytest.approx(n * 2.0**n, abs=1e-9)
    assert gm.theory.output_law(model, {}, "tok").expected_calls == pytest.approx(2.0 * n, abs=1e-9)


@pytest.mark.slow
def test_rejection_of_symbols_gives_one_string_twice_its_share():
    """Li 2025, Proposition 3.1.2: all strings but that of ones; 1..10 gets 2^-(L-1), the others 2^-L."""
    law = gm.theory.output_law(bits("require sum(x[t] for t in range(n)) < n"), {}, "tok")
    for s, p in zip(law.strings.tolist(), law.probabilities, strict=True):
        assert p == pytest.approx(2.0 ** -(5 if s == [1] * 5 + [0] else 6), abs=1e-12)


@pytest.mark.slow
def test_the_walk_has_half_of_a_level_at_root_and_leaves_where_values_are_exact():
    """After many steps: 1 / (2 L) of the mass lies on the leaves."""
    law = gm.theory.output_law(bits(n=3, steps=4000), {}, "walk")
    assert law.probabilities.sum() == pytest.approx(1 / 6, abs=1e-9)
    assert law.fail == pytest.approx(5 / 6, abs=1e-9)


@pytest.mark.slow
def test_rejection_of_strings_is_the_law_that_require_gives():
    """The ideal: the same model with the requirement in it, whose log p is exact."""
    text = "model words { var x[t in range(5)] : bit  x[0] ~ categorical([0.3, 0.7])\n"
    text += "  x[t] ~ categorical(move[x[t - 1]]) for t in range(5) if t > 0\n"
    head, wanted = "input move[2, 2] : simplex = [[0.2, 0.8], [0.6, 0.4]]\n", "  require sum(x[t] for t in range(5)) == 2\n}\n"
    program = gm.parse(head + text + "}\nmodel ideal {" + text.split("{", 1)[1] + wanted + "model two { var x[t in range(5)] : bit\n" + wanted
                       + "verifier can for words = completable(two)\nsampler rej for words = rejection(can)\n")  # fmt: skip
    law = gm.theory.output_law(program.model("words"), {}, "rej")
    with jax.enable_x64(True):
        np.testing.assert_allclose(np.log(law.probabilities), program.model("ideal").log_prob({}, law.strings), atol=1e-12)


@pytest.mark.parametrize(("steps", "away"), thinned([(50, 0.018), (2000, 0.0004)], 2))
def test_a_walk_of_a_uniform_number_of_steps_is_as_far_from_stationary_as_the_levels_are(steps: int, away: float):
    """With exact values the levels are a lazy walk on 0..L: one run ends on a leaf with probability 1 / (2 L) but for what T leaves.

    That is its total variation to the stationary law as well, what is no string being one outcome: on leaves both are the target.
    """
    n = 3
    move = 0.5 * np.eye(n + 1)
    for level in range(n + 1):
        ways = [k for k in (level - 1, level + 1) if 0 <= k <= n]
        move[level, ways] += 0.5 / len(ways)
    here, leaf = np.eye(n + 1)[0], 0.0
    for _ in range(steps):
        here = here @ move
        leaf += here[n] / steps
    law = gm.theory.output_law(bits("factor 0.9 * x[t] * x[(t + 1) % n] for t in range(n)", n=n, nodes=steps), {}, "node")
    target = np.exp([0.9 * (x[0] * x[1] + x[1] * x[2] + x[2] * x[0]) for x in law.strings.tolist()])
    np.testing.assert_allclose(law.probabilities, target / target.sum(), atol=1e-12)
    assert 1 / law.expected_runs == pytest.approx(leaf, abs=1e-12)
    assert abs(1 / law.expected_runs - 1 / (2 * n)) == pytest.approx(away, rel=0.12)  # printed to one figure


# Edges

NOTHING = "require x[0] == 0 and x[0] == 1"


@pytest.mark.parametrize("sampler", thinned(["rej", "few", "tok", "back", "walk", "node"], 6))
@pytest.mark.slow
def test_a_verifier_that_takes_nothing_ends_every_draw(sampler: str):
    """Failed, or of Algorithm 1 what is left after its quota; the law says the same."""
    model = bits(NOTHING, n=3)
    law = gm.theory.output_law(model, {}, sampler)
    stats = model.sample({}, sampler, draws=200, seed=0)["guided_stats"]
    assert law.fail == pytest.approx(0.0 if sampler == "back" else 1.0)
    assert float(stats["failed"].mean()) == law.fail
    assert not stats["valid"].any()


@pytest.mark.slow
def test_what_was_refused_at_one_position_may_be_taken_at_the_next():
    """Neighbours differ: a symbol is refused at every other position, and no draw fails."""
    stats = bits("require x[t] != x[t + 1] for t in range(n - 1)", n=4).sample({}, "tok", draws=100, seed=0)["guided_stats"]
    assert stats["valid"].all()
    assert stats["oracle_calls"].values.max() > 5  # several were refused


@pytest.mark.slow
def test_a_prompt_that_cannot_be_completed_fails_and_others_do_not_notice():
    stats = bits(n=4).sample({}, "rej", prompt=[[1], [0, 0], []], draws=20, seed=3)["guided_stats"]
    assert stats["failed"].values[0].mean(axis=0).tolist() == [1, 0, 0]


@pytest.mark.slow
def test_a_prompt_may_be_the_whole_string():
    model = bits(n=2)
    stats = model.sample({}, "rej", prompt=[[0, 0], [0, 1]], draws=1)["guided_stats"]
    assert stats["failed"].values[0, 0].tolist() == [0, 1]
    assert stats["oracle_calls"].values.max() == 0
    few = model.sample({}, "few", prompt=[[0, 0], [0, 1]], draws=1)["guided_stats"]
    assert few["failed"].values[0, 0].tolist() == [0, 1]
    assert [gm.theory.output_law(model, {}, "few", prompt=p).fail for p in ([0, 0], [0, 1])] == [0, 1]
    draws = model.sample({}, "back", prompt=[[0, 1]], draws=1)
    assert draws["posterior"]["x"].values[0, 0].tolist() == [[0, 1]]
    assert not draws["guided_stats"]["valid"].any()


@pytest.mark.parametrize(
    ("prompt", "code", "words"),
    [
        ([[], [2]], "E502", "prompt[1] at 0 is 2: not a value of `x`; its values are `0`, `1`"),
        ([[0, -1]], "E502", "leave out what is behind it"),
        ([[0] * 7], "E507", "more than the 6"),
        ([], "E505", "no prefix"),
        ("01", "E501", "must list prefixes"),
    ],
)
def test_a_prompt_that_is_none_is_refused(prompt: object, code: str, words: str):
    with pytest.raises(GmlmError) as caught:
        bits().sample({}, "tok", prompt=prompt)
    assert caught.value.codes == (code,)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("sampler", "law", "calls"),
    thinned([("rej", 1, 2), ("tok", 1, 2), ("back", 1, 1.5), ("walk", 0.5, None), ("node", 1, None), ("best", 7 / 8, 3)], 2),
)
def test_a_string_may_be_one_symbol(sampler: str, law: float, calls: float | None):
    """A fair bit that should be 0; a refused one is made the likeliest, the first of equals."""
    found = gm.theory.output_law(bits(n=1), {}, sampler)
    assert found.probability([0]) == pytest.approx(law, abs=1e-9)
    assert calls is None or found.expected_calls == pytest.approx(calls)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", thinned(["rej", "walk"], 2))
def test_loops_are_cut_into_slices_so_that_an_interrupt_is_heard_and_draw_the_same(sampler: str, monkeypatch: pytest.MonkeyPatch):
    """A row's draw follows from its key alone."""
    model = bits("require sum(x[t] for t in range(n)) == 2", n=4)

    def drawn() -> list:
        draws = model.sample({}, sampler, draws=20, seed=3)
        return [draws["posterior"]["x"].values.tolist(), draws["guided_stats"]["oracle_calls"].values.tolist()]

    whole = drawn()
    monkeypatch.setattr(_loop, "TURNS_PER_CALL", 3)
    monkeypatch.setattr(_walk, "LONGEST_STROLL", 2)
    monkeypatch.setattr(_bounded_jit.PROGRAMS, "kept", OrderedDict())
    assert drawn() == whole


@pytest.mark.slow
def test_rejection_that_takes_no_string_of_any_row_is_given_up(monkeypatch: pytest.MonkeyPatch):
    """The oracle's likeliest symbols alone, 0 throughout, and a verifier that takes ones: some completion is good, and is never drawn."""
    monkeypatch.setattr(_loop, "TURNS_PER_CALL", 8)
    monkeypatch.setattr(_loop, "MOST_FRUITLESS", 40 * _loop.FEW_ROWS)
    text = BITS.format(require="require x[t] == 1 for t in range(n)", steps=50, nodes=40).replace("[0.5, 0.5]", "[0.6, 0.4]")
    model = gm.parse(text + "sampler lost for words = rejection(can, top_k = 1)\n", n=2).model("words")
    with pytest.warns(SamplingWarning, match=r"3 draws were given up after 40 turns .* `tries =`"):
        stats = model.sample({}, "lost", draws=3)["guided_stats"]
    assert stats["failed"].all()


def test_options_of_chains_are_refused():
    model = bits()
    for options in ({"clamp": {"x": {0: 1}}}, {"thin": 2}, {"init": [0] * 6}, {"warmup": 3}):
        with pytest.raises(GmlmError) as caught:
            model.sample({}, "tok", draws=1, **options)
        assert caught.value.codes == ("E507",)
    with pytest.raises(GmlmError):
        model.transition_matrix({}, "tok")


def test_what_is_too_large_is_refused_before_it_starts():
    with pytest.raises(GmlmError) as caught:
        gm.theory.output_law(bits(n=20), {}, "tok")
    assert caught.value.codes == ("E601",)
    far = "model m { var x[t in range(40)] : bit  factor 0.1 * x[i] * x[j] for i in range(40) for j in range(40) if i < j }\n"
    far += "verifier v = completable(m)\nsampler s = rejection(v)"
    with pytest.raises(GmlmError) as caught:
        gm.parse(far).model("m").sample({}, "s", draws=1)
    assert caught.value.codes == ("E601",)


def test_what_is_compiled_ahead_and_what_explain_says_of_the_cost():
    model = bits("require sum(x[t] for t in range(n)) == 2", n=4)
    model.compile(sampler="tok", draws=3, chains=1)
    assert model.sample({}, "tok", draws=3)["guided_stats"]["valid"].all()
    told = explain(model.program.checked, model.program.bound, sampler="tok", plans=True)
    assert "4 steps, 1 known and 1 summed states of a prefix" in " ".join(told.split())


# Python of the user's


@pytest.fixture
def functions() -> Iterator[types.ModuleType]:
    """A module that programs can name."""
    module = types.ModuleType("guided_functions")
    module.zeros = lambda prefixes, lengths: ((prefixes <= 0).all(axis=1)).astype(float)  # type: ignore[attr-defined]
    module.value = lambda prefixes, lengths: 0.5 ** (prefixes == 1).sum(axis=1)  # type: ignore[attr-defined]
    sys.modules["guided_functions"] = module
    yield module
    del sys.modules["guided_functions"]


@pytest.mark.slow
def test_a_python_verifier_draws_as_the_exact_one(functions: types.ModuleType):
    model = bits(n=4, allow=True)
    one, two = (model.sample({}, s, draws=30, seed=5) for s in ("python", "tok"))
    for name in ("oracle_calls", "verifier_calls", "valid"):
        assert np.array_equal(one["guided_stats"][name].values, two["guided_stats"][name].values)
    law, exact = (gm.theory.output_law(model, {}, s) for s in ("python", "tok"))
    assert law.expected_calls == exact.expected_calls
    assert model.sample({}, "values", draws=20, seed=1)["guided_stats"]["oracle_calls"].values.min() > 0


def test_python_runs_only_where_the_call_allows_it(functions: types.ModuleType):
    with pytest.raises(GmlmError) as caught:
        bits(n=2).sample({}, "python", draws=1)
    assert caught.value.codes == ("E739",)


SAID = {
    "nan": (lambda p, n: n * np.nan, "gives nan of the prefix"),
    "negative": (lambda p, n: n * -1.0, "gives -1 of the prefix"),
    "a half": (lambda p, n: 0 * n + 0.5, "gives 0.5 of the prefix"),  # a verifier's answers are 0 and 1
    "one number": (lambda p, n: 1.0, "must return numbers of shape"),
    "a ragged list": (lambda p, n: [[1], [1, 0]], "must return numbers of shape"),
    "nothing": (lambda p, n: None, "got None"),
    "texts": (lambda p, n: ["1"] * len(n), "must return numbers of shape"),
    "complex numbers": (lambda p, n: n * 1j, "must return numbers of shape"),
    "an error": (lambda p, n: 1 / 0, "raised ZeroDivisionError"),
}


@pytest.mark.parametrize("what", SAID)
def test_what_a_python_verifier_may_not_say(functions: types.ModuleType, what: str):
    answer, words = SAID[what]
    functions.zeros = answer  # type: ignore[attr-defined]
    model = bits(n=2, allow=True)
    for call in (lambda: model.sample({}, "python", draws=3), lambda: gm.theory.output_law(model, {}, "python")):
        with pytest.raises(GmlmError, match=words) as caught:
            call()
        assert caught.value.codes == ("E745",)


@pytest.mark.slow
def test_a_python_value_is_asked_once_about_a_position_however_many_symbols_are_refused_there(functions: types.ModuleType):
    """All rows in one call, which has all continuations of each; a symbol is refused with probability 0.49."""
    asked = []
    functions.value = lambda prefixes, lengths: (asked.append(lengths.tolist()), 0.02 ** (prefixes == 1).sum(axis=1))[1]  # type: ignore[attr-defined]
    stats = bits(n=3, allow=True).sample({}, "tokens", draws=8, seed=0)["guided_stats"]
    assert [a for a in asked if len(a) > 8] == [[k] * 16 for k in (1, 2, 3)]
    assert stats["verifier_calls"].values.tolist() == [[6] * 8]
    assert stats["oracle_calls"].values.max() > 5


class Coins:
    """An oracle of the user's: a coin that falls on 1 with probability p, or rows that are no laws."""

    asked = 0

    def __init__(self, p: float, rows: list[float] | None = None):
        self.rows = rows or [1 - p, p]

    def start(self, prompts: np.ndarray) -> np.ndarray:
        return (prompts >= 0).sum(axis=1)

    def next_log_probs(self, state: np.ndarray) -> np.ndarray:
        self.asked += 1
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(np.tile(self.rows, (len(state), 1)))

    def push(self, state: np.ndarray, symbols: np.ndarray) -> np.ndarray:
        return state + (symbols >= 0)

    def pop(self, state: np.ndarray, n: np.ndarray) -> np.ndarray:
        return state - n


@pytest.mark.slow
def test_an_oracle_of_the_users_draws_in_the_models_place():
    assert isinstance(Coins(0.5), gm.Oracle)
    model = bits("require x[0] == 1", n=3)
    law = gm.theory.output_law(model, {}, "back", oracle=Coins(0.9))
    assert law.expected_calls == pytest.approx(3 + 0.1 * 1, abs=1e-9)  # one call more where the first coin is taken back
    draws = model.sample({}, "back", draws=300, seed=2, oracle=Coins(0.9))
    assert abs(draws["posterior"]["x"].values.mean() - 0.9) < 0.1
    with pytest.raises(GmlmError) as caught:
        model.sample({}, "walk", draws=1, oracle=Coins(0.9))
    assert caught.value.codes == ("E507",)  # `expected` sums over the completions of the model


@pytest.mark.parametrize(("rows", "total"), [([0.5, 0.4], "0.9"), ([0.0, 0.0], "0"), ([np.nan, 1.0], "nan"), ([1.5, -0.5], "nan")])
def test_rows_of_an_oracle_that_are_no_laws_are_told_with_their_sum(rows: list[float], total: str):
    model = bits(n=3)
    for call in (lambda o: model.sample({}, "back", draws=2, oracle=o), lambda o: gm.theory.output_law(model, {}, "back", oracle=o)):
        with pytest.raises(GmlmError, match=rf"row 0 sum to {total}, not 1") as caught:
            call(Coins(0.5, rows))
        assert caught.value.codes == ("E746",)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[0.5, 0.5]], "a row for each of"),
        ([[0.2, 0.3, 0.5]] * 2, r"shape \(rows, 2\), got \(2, 3\)"),
        ("no", "got 'no'"),
        (None, "got None"),
    ],
)
def test_what_an_oracle_may_not_return(monkeypatch: pytest.MonkeyPatch, rows: object, words: str):
    """One row for all, which would be taken for the law of each, among them."""
    monkeypatch.setattr(Coins, "next_log_probs", lambda self, state: np.log(rows) if isinstance(rows, list) else rows)
    model = bits(n=3)
    for call in (
        lambda: model.sample({}, "back", draws=2, oracle=Coins(0.5)),
        lambda: gm.theory.output_law(model, {}, "back", oracle=Coins(0.5)),
    ):
        with pytest.raises(GmlmError, match=words) as caught:
            call()
        assert caught.value.codes == ("E746",)


@pytest.mark.slow
def test_a_walk_asks_an_oracle_once_about_a_prefix(functions: types.ModuleType):
    coins, model = Coins(0.5), bits(n=3, allow=True)
    draws = model.sample({}, "values", draws=1, seed=4, oracle=coins)
    assert coins.asked <= int(draws["guided_stats"]["oracle_calls"].values.item())


def test_where_the_value_of_a_prefix_is_zero_the_walk_never_comes(functions: types.ModuleType):
    """So the target is missed there, whatever whole strings are worth; of any positive value it is not."""
    functions.zeros = lambda prefixes, lengths: 1.0 + 0 * lengths  # type: ignore[attr-defined]
    text, found = BITS.format(require=ZEROS, steps=50, nodes=40).replace("steps = 20", "steps = 400"), []
    for v in (0.0, 0.3):
        functions.value = lambda prefixes, lengths, v=v: np.where((lengths == 1) & (prefixes[:, 0] == 0), v, 1.0)  # type: ignore[attr-defined]
        law = gm.theory.output_law(gm.parse(text, n=2, allow_python=True).model("words"), {}, "values")
        found.append([law.probability([0, 1]), law.probability([1, 1])])
    assert found[0][0] == 0 < found[0][1]
    assert found[1][0] == pytest.approx(found[1][1], rel=1e-9)


@pytest.mark.slow  # dear to compile; laws of the walk are compared with brute force in test_output_laws.py
def test_with_inexact_values_the_walk_comes_to_the_target_and_the_first_leaf_does_not():
    """Whole strings are judged by the tilt itself: what noise does to shorter prefixes is forgotten, but not by the first leaf."""
    text = BITS.format(require="factor 0.9 * x[t] * x[(t + 1) % n] for t in range(n)", steps=50, nodes=40)
    text += "value rough for words = noisy(truth, sd = 1)\n"
    for steps in (30, 3000):
        text += f"sampler walk{steps} for words = value_guided(rough, steps = {steps})\n"
    text += "sampler first for words = value_guided(rough, steps = 3000, result = first_leaf)\n"
    model = gm.parse(text, n=3).model("words")
    target = np.exp([0.9 * (x[0] * x[1] + x[1] * x[2] + x[2] * x[0]) for x in np.ndindex(2, 2, 2)])
    away = {}
    for name in ("walk30", "walk3000", "first"):
        law = gm.theory.output_law(model, {}, name, seed=2)
        p = np.array([law.probability(x) for x in np.ndindex(2, 2, 2)])
        away[name] = 0.5 * np.abs(p / p.sum() - target / target.sum()).sum()
    assert away["walk3000"] < 1e-6 < 0.01 < away["walk30"]
    assert away["first"] > 0.01
