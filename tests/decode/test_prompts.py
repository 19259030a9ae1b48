"""Prompts: rows of an autoregressive sampler that begin with what is given, of any length, beside enumeration of all rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from chi_square import p_value
from thinned import thinned

import gmlmdsl as gm

Q, N, END = 3, 4, 2
PROGRAM = """
network lm = transformer(layers = 1, heads = 2, width = 8, causal = true)
model words {
  var x[i in range(4)] : range(3)
  conditional x ~ lm()
}
sampler greedy = autoregressive(end = 2)
sampler drawn  = autoregressive(end = 2, decode = sample)
sampler cut    = autoregressive(end = 2, decode = sample, top_p = 0.9, temperature = 1.5)
sampler beam   = autoregressive(end = 2, beam = 27, length_penalty = 0)
sampler other  = autoregressive()
"""
EVERY = [tuple(row) for row in itertools.product(range(Q), repeat=N)]
PROMPTS = [[], [1], [0, 1], [1, 1, 0, 1], [0, 2]]
pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture(scope="module")
def model() -> gm.Model:
    return gm.parse(PROGRAM).model()


def weights(model: gm.Model) -> dict:
    return model.init_params(5)


def next_law(model: gm.Model) -> dict[tuple[int, ...], np.ndarray]:
    """p(x_t | prefix), from log p of whole rows."""
    p = np.exp(np.asarray(model.log_prob(weights(model), np.array(EVERY)))).reshape((Q,) * N)
    found = {}
    for t in range(N):
        joint = p.sum(axis=tuple(range(t + 1, N)))
        found |= {prefix: joint[prefix] / joint[prefix].sum() for prefix in itertools.product(range(Q), repeat=t)}
    return found


def nucleus(p: np.ndarray, temperature: float, mass: float) -> np.ndarray:
    """The fewest values with so much of p to a power, renormalised."""
    sharp = p ** (1 / temperature) / (p ** (1 / temperature)).sum()
    order, kept = np.argsort(-sharp), np.zeros(Q)
    for v in order:
        kept[v] = sharp[v]
        if kept.sum() >= mass:
            break
    return kept / kept.sum()


def law_of_rows(tables: dict, prompt: list[int], narrowed) -> np.ndarray:
    """Over all rows: those that begin with the prompt, filled up behind their first end."""
    found = {tuple(prompt): 1.0}
    for _ in range(N - len(prompt)):
        after: dict[tuple[int, ...], float] = {}
        for row, mass in found.items():
            steps = np.eye(Q)[END] if row[-1:] == (END,) else narrowed(tables[row])
            after |= {(*row, v): mass * steps[v] for v in range(Q)}
        found = after
    return np.array([found.get(row, 0.0) for row in EVERY])


def drawn_rows(model: gm.Model, sampler: str, **options) -> np.ndarray:
    found = model.sample(weights(model), sampler, prompt=PROMPTS, progress=False, **options)
    assert found["posterior"]["x"].dims == ("chain", "draw", "row", found["posterior"]["x"].dims[-1])
    return np.asarray(found["posterior"]["x"].values)[0]


@pytest.mark.parametrize(("sampler", "temperature", "mass"), thinned([("drawn", 1.0, 1.0), ("cut", 1.5, 0.9)], 2))
@pytest.mark.slow
def test_rows_are_drawn_given_their_prompts(model: gm.Model, sampler: str, temperature: float, mass: float) -> None:
    rows, tables = drawn_rows(model, sampler, draws=3000, seed=0), next_law(model)
    for r, prompt in enumerate(PROMPTS):
        law = law_of_rows(tables, prompt, lambda p: nucleus(p, temperature, mass) if mass < 1 else p)
        counts = np.zeros(len(EVERY))
        np.add.at(counts, (rows[:, r] * Q ** np.arange(N - 1, -1, -1)).sum(axis=1), 1)
        assert p_value(counts, law) > 1e-4, prompt


@pytest.mark.slow
def test_greedy_search_and_beams_go_on_from_prompts(model: gm.Model) -> None:
    tables = next_law(model)
    greedy, beam = (model.decode(weights(model), s, prompt=PROMPTS) for s in ("greedy", "beam"))
    for r, prompt in enumerate(PROMPTS):
        row, log_p = tuple(prompt), 0.0
        while len(row) < N and row[-1:] != (END,):
            step = int(tables[row].argmax())
            row, log_p = (*row, step), log_p + np.log(tables[row][step])
        assert greedy.tokens[r, 0].tolist() == [*row, *[-1] * (N - len(row))]
        assert greedy.score[r, 0] == pytest.approx(log_p / max(len(row) - len(prompt), 1), abs=1e-12)
        law = law_of_rows(tables, prompt, lambda p: p)
        best = EVERY[int(law.argmax())]
        length = best.index(END) + 1 if END in best else N
        assert beam.tokens[r, 0].tolist() == [*best[:length], *[-1] * (N - length)]
        assert beam.score[r, 0] == pytest.approx(np.log(law.max()) / max(length - len(prompt), 1), abs=1e-12)  # the mean


@pytest.mark.parametrize("prompts", thinned([[[2], [0, 1]], [[0, 1, 2], [1, 1, 1]], [[1, 0, 0, 1]]], 2))
def test_a_prompt_that_is_whole_stays_as_it_is(model: gm.Model, prompts: list[list[int]]) -> None:
    """Even where every row begins with as many cells as the shortest prompt, whose end is its last."""
    tables, found = next_law(model), model.decode(weights(model), "greedy", prompt=prompts)
    for r, prompt in enumerate(prompts):
        row = tuple(prompt)
        while len(row) < N and row[-1] != END:
            row = (*row, int(tables[row].argmax()))
        assert found.tokens[r, 0].tolist() == [*row, *[-1] * (N - len(row))]


@pytest.mark.slow
def test_a_row_is_drawn_alike_alone_and_beside_others(model: gm.Model) -> None:
    together = drawn_rows(model, "drawn", draws=5, seed=4)
    alone = model.sample(weights(model), "drawn", prompt=PROMPTS[:1], draws=5, seed=4, progress=False)
    np.testing.assert_array_equal(together[:, 0], np.asarray(alone["posterior"]["x"].values)[0, :, 0])


def test_prompts_of_letters_are_texts_and_of_labels_lists() -> None:
    letters = gm.parse(PROGRAM.replace("range(3)", 'letters("abc")')).model()
    labels = gm.parse(PROGRAM.replace("range(3)", 'labels("(", "--", ")")')).model()
    for model, prompt in ((letters, ["ba", "", np.str_("c"), ["b", "b"]]), (labels, [["--", "("], [], [2], (1, 1)])):
        tokens = model.decode(weights(model), "other", prompt=prompt).tokens[:, 0]
        assert tokens[0, :2].tolist() == [1, 0]
        assert tokens[2, 0] == 2
        assert tokens[3, :2].tolist() == [1, 1]
        assert (tokens >= 0).all()
    array = letters.decode(weights(letters), "other", prompt=np.array([[1, 0], [2, 2]])).tokens[:, 0, :2]
    np.testing.assert_array_equal(array, [[1, 0], [2, 2]])


REFUSED = {
    "a value outside the alphabet": ([[0], [1, 3]], "E502", r"prompt\[1\]"),
    "a text": ([["a"]], "E502", "numbers"),
    "too long": ([[0], [0, 1, 0, 1, 0]], "E507", r"prompt\[1\] has 5 cells: more than the 4"),
    "no rows": ([], "E505", "no prefix"),
    "no list": (3, "E501", "must list prefixes"),
    "a text for rows": ("ab", "E501", "must list prefixes"),
    "values and no prefixes": ([0, 1], "E501", r"prompt\[0\] must be the first cells"),
    "two axes": ([[[0, 1]]], "E501", r"prompt\[0\]"),
    "rows inside a prefix": ([[0, [1]]], "E501", r"prompt\[0\]"),
    "not a number": ([[float("nan")]], "E504", r"prompt\[0\]"),
    "a masked cell": (np.ma.array([[0, 1]], mask=[[0, 1]]), "E504", "masked"),
    "what goes on behind its end": ([[0], [1, 2, 0]], "E507", r"prompt\[1\] ends with the value at 1"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_prompts_that_do_not_fit(model: gm.Model, what: str) -> None:
    prompt, code, words = REFUSED[what]
    with pytest.raises(gm.GmlmError, match=words) as caught:
        model.decode(weights(model), "greedy", prompt=prompt)
    assert caught.value.codes == (code,)


def test_prompts_and_other_ways_to_hold_cells(model: gm.Model) -> None:
    with pytest.raises(gm.GmlmError, match="both hold cells"):
        model.decode(weights(model), "greedy", prompt=[[0]], clamp={"x": {1: 0}})
    with pytest.raises(gm.GmlmError, match="held cell stands at position 1, behind the 1 cells"):
        model.decode(weights(model), "greedy", prompt=[[0, 0]], lengths=1)


def test_samplers_that_do_not_grow_rows_take_no_prompt() -> None:
    text = """
network net = transformer(layers = 1, heads = 2, width = 8)
model m {
  var x[i in range(4)] : range(3)
  conditional x ~ net()
}
sampler passes = refinement()
sampler sites { update x[i] for i in range(4) }
"""
    model = gm.parse(text).model()
    for sampler in ("passes", "sites"):
        with pytest.raises(gm.GmlmError, match="does not go from the first cell on") as caught:
            model.sample(model.init_params(0), sampler, prompt=[[0]], draws=1)
        assert caught.value.codes == ("E507",)
