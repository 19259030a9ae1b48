"""`output_law` of refinement: every pass by enumeration, beside the tests' own enumeration, single decodes and many draws."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from networks_cases import made
from test_refinement_laws import EVERY, MORE, SEED, N, Q, agrees, predictor, redrawn, wanted  # pyright: ignore[reportMissingImports]
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.theory import output_law

PAIRS = f'python("networks_cases:Pairs", seed = {SEED}, scale = 0.6)'
CERTAIN = """
sampler easy    = refinement(steps = 9, schedule = easy_first)
sampler sure    = refinement(steps = 5, schedule = threshold, threshold = 0.6, confidence = entropy)
sampler fixed   = refinement(steps = 9, schedule = all, stop = fixed_point)
sampler cosine  = refinement(steps = 3, schedule = cosine, remask = least_confident, confidence = margin)
"""
RANDOM = """
sampler easy_drawn = refinement(steps = 3, schedule = easy_first, decode = sample)
sampler sure_drawn = refinement(steps = 3, schedule = threshold, threshold = 0.5, decode = sample)
sampler stuttering = refinement(steps = 3, schedule = linear, decode = sample, remask = stutter)
sampler unsure     = refinement(steps = 3, schedule = cosine, decode = sample, confidence = entropy, remask = random, eta = 0.2)
sampler some_fresh = refinement(steps = 3, schedule = one, decode = sample, start = uniform)
sampler best       = refinement(steps = 2, schedule = linear, decode = sample, starts = 3)
sampler least      = refinement(steps = 3, schedule = linear, decode = sample, remask = least_confident)
"""
TWO = "sampler two = refinement(steps = 1, decode = sample, starts = 2)\n"


@pytest.fixture(scope="module")
def model() -> Any:
    return made(PAIRS, N, Q, MORE + CERTAIN + RANDOM + TWO)


@pytest.fixture(scope="module")
def params(model: Any) -> Any:
    with jax.enable_x64(True):
        return model.init_params()


def found(law: Any) -> dict[tuple[int, ...], float]:
    """Probabilities by string."""
    return {tuple(int(v) for v in x): float(p) for x, p in zip(law.strings, law.string_probabilities, strict=True)}


def differs(one: dict[tuple[int, ...], float], other: dict[tuple[int, ...], float]) -> float:
    return max(abs(one.get(x, 0.0) - other.get(x, 0.0)) for x in {*one, *other})


@pytest.mark.parametrize("name", thinned(EVERY, 8, 1))
def test_a_law_is_that_of_the_enumeration(model: Any, params: Any, name: str):
    law = output_law(model, params, name)
    assert differs(found(law), wanted(name, predictor("loose"))) < 1e-12
    assert law.probabilities.sum() == pytest.approx(1, abs=1e-12)
    assert law.expected_calls == pytest.approx(model.sampler(name)[1].body.arguments["steps"].value, abs=1e-12)


def test_the_better_of_two_is_the_law_of_a_maximum(model: Any, params: Any):
    """One pass from hidden cells: two independent rows, of which the one of the larger mean log p counts."""
    table = predictor("loose")((Q,) * N)
    one = redrawn(table, (0,) * N, range(N))
    log_p = {x: sum(np.log(table[i, v]) for i, v in enumerate(x)) for x in one}
    best = {x: p * (p + 2 * sum(q for y, q in one.items() if log_p[y] < log_p[x])) for x, p in one.items()}
    law = output_law(model, params, "two")
    assert differs(found(law), best) < 1e-12
    assert law.expected_calls == 2


@pytest.mark.parametrize("name", thinned(["easy", "sure", "fixed", "cosine"], 4, 2))
def test_a_decoder_without_chance_has_one_row(model: Any, params: Any, name: str):
    """The row and the passes of a decode."""
    decoded, law = model.decode(model.init_params(), name), output_law(model, params, name)
    assert found(law) == {tuple(decoded.tokens[0].tolist()): 1.0}
    assert law.expected_calls == decoded.passes[0]
    assert law.probability(decoded.tokens[0]) == 1
    assert law.probability((decoded.tokens[0] + 1) % Q) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["easy_drawn", "sure_drawn", "stuttering", "unsure", "some_fresh", "best", "least"])
def test_many_decodes_have_the_law(model: Any, params: Any, name: str):
    idata = model.sample(model.init_params(), name, draws=320, chains=64, seed=3)
    law = output_law(model, params, name)
    assert agrees(idata, found(law))
    passes = np.asarray(idata["sample_stats"]["passes"])
    if name != "best":  # whose passes are those of one candidate
        assert abs(passes.mean() - law.expected_calls) < 5 * passes.std() / np.sqrt(passes.size) + 1e-9


GIVEN = """
network net = encoder_decoder(layers = 1, heads = 1, width = 8, positions = 4)
model m {
  given src[i in range(2)] : range(2)
  var   x[j in range(3)] : spin
  conditional x ~ net(src)
}
mask one = subsets(x, size = 1)
sampler few  = refinement(steps = 2, schedule = linear, decode = sample, lengths = 2)
sampler ones = refinement(steps = 2, schedule = one, decode = sample, lengths = 3)
"""


@pytest.mark.slow
def test_rows_of_several_lengths_stand_side_by_side():
    """A network that predicts lengths: of two candidates the better score; behind a row's end stands no value."""
    model = gm.parse(GIVEN).model()
    params, given = model.init_params(5), {"src": np.array([0, 1])}
    law = output_law(model, params, "few", given=given)
    idata = model.sample(params, "few", draws=250, chains=64, seed=1, given=given)
    drawn = np.asarray(idata["posterior"]["x"]).reshape(-1, 3)
    assert {tuple(x) for x in drawn.tolist()} <= {tuple(x) for x in law.strings.tolist()}
    for x, p in zip(law.strings, law.string_probabilities, strict=True):
        share = (drawn == x).all(axis=1).mean()
        assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / len(drawn)) + 1e-9
        assert law.probability(x) == pytest.approx(p)
    assert law.expected_calls == 4
    with pytest.raises(gm.GmlmError, match="draws subsets of a row's cells, and this row has"):
        output_law(model, params, "ones", given=given)
    with pytest.raises(gm.GmlmError, match="takes one row"):
        output_law(model, params, "few", given={"src": np.zeros((2, 2), int)})


@pytest.mark.parametrize(
    ("options", "name", "code", "words"),
    [
        ({"prompt": ["0"]}, "fewer", "E507", "does not go from the first cell on"),
        ({"oracle": object()}, "fewer", "E507", "predicts all cells of a row at once"),
        ({"given": {"src": 1}}, "fewer", "E510", "the model has no given variable"),
        ({}, "steps_of_ends", "E507", "its strings are not drawn one by one"),
        ({}, "exact", "E507", "`exact` draws from model"),
    ],
)
def test_what_has_no_law_is_refused(model: Any, params: Any, options: dict[str, Any], name: str, code: str, words: str):
    with pytest.raises(gm.GmlmError, match=words) as caught:
        output_law(model, params, name, **options)
    assert caught.value.codes == (code,)


def test_a_pass_with_too_many_branches_is_refused_before_it_starts():
    text = "mask most = bernoulli(x, rate = 0.5)\nsampler all = refinement(steps = 1, decode = sample)\n"
    text += "sampler start = refinement(steps = 1, start = uniform)\nsampler masked = refinement(schedule = most)\n"
    model = made('python("networks_cases:Pairs")', 14, 3, text)
    for name, code in (("all", "E601"), ("start", "E601"), ("masked", "E602")):
        with pytest.raises(gm.GmlmError, match="than the") as caught:
            output_law(model, model.init_params(), name)
        assert caught.value.codes == (code,)


def test_an_oracle_of_the_users_is_refused_where_all_cells_are_predicted_at_once(model: Any):
    with pytest.raises(gm.GmlmError, match="`oracle=` gives symbol after symbol"):
        model.sample(model.init_params(), "fewer", oracle=object())
