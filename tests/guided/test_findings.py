"""What a user hears of prompts that nothing completes, of draws that mostly fail, and of strings none of which is valid."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl._diagnostics import GmlmError
from gmlmdsl.explain import explain
from gmlmdsl.sample import SamplingWarning

PROGRAM = """
input n : int = 4
index t = range(n)
model words { var x[i in t] : bit  x[i] ~ categorical([0.9, 0.1]) for i in t }
model wanted { var x[i in t] : bit  require x[i] == 0 for i in t if i < 1  require sum(x[i] for i in t) == 3 }
model never { var x[i in t] : bit  require sum(x[i] for i in t) > n }
verifier can for words = completable(wanted)
verifier no  for words = completable(never)
value truth  for words = expected(wanted)
value rough  for words = noisy(truth, sd = 0.5)
sampler rej   for words = rejection(can)
sampler few   for words = rejection(can, tries = 1)
sampler tok   for words = tokenwise_rejection(can)
sampler back  for words = backtracking(can, quota = 1, stride = 1)
sampler quota for words = backtracking(can, quota = 0, stride = 1)
sampler far   for words = backtracking(can, quota = 1, stride = 4)
sampler erase for words = backtracking(can, quota = 8, stride = 9, erase_prompt = true, regenerate = none)
sampler walk  for words = value_guided(truth, steps = 40)
sampler leaf  for words = value_guided(truth, steps = 2, result = first_leaf)
sampler node  for words = value_guided(rough, steps = 40, result = uniform_node)
sampler best  for words = best_of(truth, n = 2)
sampler none  for words = backtracking(no, quota = 2, stride = 1)
sampler plain for words = autoregressive(decode = sample)
"""


@pytest.fixture(scope="module")
def model() -> Any:
    return gm.parse(PROGRAM).model("words")


def heard(model: Any, sampler: str, **options: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = model.sample({}, sampler, seed=3, **options)
    told = [str(w.message) for w in caught if issubclass(w.category, SamplingWarning)]
    assert found.attrs["warnings"] == "\n".join(told)
    return told


@pytest.mark.parametrize("sampler", thinned(["rej", "tok", "back", "far", "node", "best"], 6, 3))
def test_a_prompt_that_nothing_completes_is_named_and_no_other(model: Any, sampler: str):
    """Strings begin with 0: of `back` and `best` something is drawn, which is not valid, and nothing else would say so."""
    told = heard(model, sampler, prompt=[[0, 1, 1], [1], [0], [1, 0]], draws=30)
    told = [text for text in told if "No string of" not in text]  # of 0.001 the two candidates of `best` may hold nothing
    assert len(told) == 1
    assert "begins with prompt[1], prompt[3] can be valid" in told[0]
    judge = {"node": "value `rough`", "best": "value `truth`"}.get(sampler, "verifier `can`")
    assert f"{judge} is 0 there" in told[0]
    assert ("no string of theirs" if sampler in ("back", "far", "best") else "their draws failed") in told[0]


@pytest.mark.slow
def test_many_such_prompts_are_counted(model: Any):
    (told,) = heard(model, "tok", prompt=[[1]] * 9 + [[0]])
    assert "prompt[4] and 4 more of 10" in told


def test_a_constraint_that_nothing_satisfies_is_told_without_a_prompt(model: Any):
    (told,) = heard(model, "none", draws=1)
    assert told.startswith("No string can be valid: verifier `no` is 0 of the empty prefix")


@pytest.mark.slow
def test_a_prompt_that_may_be_erased_is_not_called_hopeless(model: Any):
    assert not any("prompt[" in text for text in heard(model, "erase", prompt=[[1]], draws=40))


@pytest.mark.parametrize(
    ("sampler", "words"),
    thinned(
        [
            ("walk", "`result = uniform_node` makes it again"),
            ("leaf", "in its 2 steps; write more `steps`"),
            ("few", "write more `tries` than 1"),
        ],
        3,
        2,
    ),
)
def test_draws_that_mostly_fail_are_told_with_their_share_and_what_to_change(model: Any, sampler: str, words: str):
    (told,) = heard(model, sampler, draws=100)
    assert " of 100 draws (" in told
    assert "failed and hold no string" in told
    assert words in told


def test_strings_none_of_which_is_valid_are_told_and_one_string_is_not_enough(model: Any):
    (told,) = heard(model, "quota", draws=20)
    assert told.startswith("No string of 20 draws is valid")
    assert "larger `quota`" in told
    assert heard(model, "quota", draws=1) == []


@pytest.mark.parametrize("sampler", thinned(["rej", "tok", "node", "plain"], 4, 3))
def test_nothing_is_told_of_draws_that_are_strings(model: Any, sampler: str):
    assert heard(model, sampler, draws=50) == []


def test_the_exact_sampler_has_no_output_law_and_the_message_says_where_p_is(model: Any):
    with pytest.raises(GmlmError, match="log_prob") as caught:
        gm.theory.output_law(model, {}, "exact")
    assert caught.value.codes == ("E507",)


def test_explain_says_what_a_stride_of_all_cells_does(model: Any):
    bound = model.program
    told = {s: " ".join(explain(bound.checked, bound.bound, model="words", sampler=s).split()) for s in ("back", "far", "erase")}
    assert "4 symbols at most" not in told["back"]
    assert "every symbol is then its likeliest, to the end" in told["far"]
    assert "all of it is drawn again" in told["erase"]
