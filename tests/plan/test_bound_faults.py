"""Every fault of a bound program is said in one run: by `model()`, by a mask that is asked for, and by `gmlm check`."""

from __future__ import annotations

import pytest

import gmlmdsl as gm
from gmlmdsl._diagnostics import GmlmError, Source
from gmlmdsl.graph import bind, lower_model
from gmlmdsl.plan import check_bound, sound_model
from gmlmdsl.program import check_source

SIX = """\
index t = range(4)
model m {
  var x[i in t] : bit
  var y[i in t] : bit
  factor x[i] * x[i + 1] for i in t
  factor 0.5 * x[4] + y[i - 1] for i in t
}
mask five   = subsets(x, size = 5)
mask listed = blocks({x[0], x[4]})
mask fine   = subsets(x, size = 1)
sampler sweep { update x[i] for i in range(5) }
"""
FOUND = [
    ("E407", "an index of `x` is 4, outside 0..3"),
    ("E407", "an index of `x` is 4, outside 0..3"),
    ("E407", "an index of `y` is -1, outside 0..3"),
    ("E410", "there is no subset of 5 among 4 cells"),
    ("E407", "an index of `x` is 4, outside 0..3"),
    ("E407", "an index of `x` is 4, outside 0..3"),
]


def said(error: GmlmError) -> list[tuple[str, str]]:
    return [(d.code, d.message) for d in error.diagnostics]


def faults(text: str, **inputs: object) -> list[str]:
    bound = bind(check_source(Source("p.gmlm", text)), inputs)
    return [d.code for name in bound.program.models for d in sound_model(bound, name)[1]]


def test_six_faults_of_six_are_one_error() -> None:
    with pytest.raises(GmlmError) as caught:
        gm.parse(SIX).model()
    assert said(caught.value) == FOUND
    places = [d.span.text for d in caught.value.diagnostics if d.span is not None]
    assert places == ["i + 1", "4", "i - 1", "subsets(x, size = 5)", "4", "i"]


def test_a_faulty_mask_of_a_sound_model_says_what_else_is_faulty() -> None:
    good = SIX.replace("x[i + 1]", "x[i]").replace("x[4] + y[i - 1]", "x[3]")
    model = gm.parse(good).model()
    assert model.mask("fine")[0] == "fine"
    with pytest.raises(GmlmError) as caught:
        model.mask("five")
    assert said(caught.value) == FOUND[3:]


def test_what_needs_a_faulty_part_is_passed_over() -> None:
    """The set is too large, said once; what runs over it is no fault of its own, and the rest is still looked at."""
    text = "input n : int = 0\nindex t = range(2000000000)\nmodel m {\n  var x[i in t] : bit\n  var y : bit\n  let both = x[0] * y\n  factor both\n"
    text += "  factor x[i] * y for i in t\n  factor 1 / (y - y)\n}\nmask a = subsets(x, size = 1)\nmask b = subsets(y, size = 2)\n"
    text += "sampler s { repeat n { update x } }\nsampler w { repeat n { update y } }\n"
    assert faults(text) == ["E406", "E416", "E410", "E409"]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("factor if i > 0 then x[i + 4] else x[i - 1] for i in t", ["E407", "E407"]),
        ("factor if x[4] == 1 then x[5] else x[6]", ["E407"]),  # what a test decides is not looked at before the test is sound
        ("factor U[x[0] + 3] + U[x[1] + 3]", ["E407", "E407"]),
        ("factor W[4, 5] * x[0]", ["E407", "E407"]),
        ("param J[i in t, j in t]\n  factor J[i + 1, i - 1] * x[i] for i in t", ["E407", "E407"]),
        ("factor x[0] / 0\n  require x[0] // 0 == 1", ["E416", "E416"]),
        ("x[0] ~ categorical(U)\n  x[0] ~ categorical(P)\n  x[1] ~ categorical(P)", ["E403", "E413", "E415", "E415"]),
    ],
)
def test_every_part_of_a_statement_is_looked_at(statements: str, expected: list[str]) -> None:
    text = "index t = range(4)\ninput U[3] : real = 0\ninput W[3, 3] : real = 0\ninput P[2] : real = 1\n"
    assert sorted(faults(f"{text}model m {{\n  var x[i in t] : bit\n  {statements}\n}}\n")) == expected


def test_masks_samplers_and_their_numbers_are_looked_at() -> None:
    text = "input n : int = 0\ninput w : real = -1\nmodel m {\n  var x[i in range(3)] : bit\n  factor 0.1 * x[0]\n}\n"
    text += (
        "mask a = mixture { 1 : subsets(size = 4)  1 : bernoulli(rate = w) }\nmask b { choose {x[0]} weight w  choose {x[3]} weight 1 }\n"
    )
    text += "mask c { each x[0] rate 3 + w }\n"
    text += "sampler s { repeat n { update x[0] }  mixture { w : update x[1]  1 : update x[2] }  temper(betas = [w]) { update x } }\n"
    assert sorted(faults(text)) == ["E407", "E409", "E409", "E409", "E409", "E409", "E410", "E421"]
    assert sorted(faults(text, n=1, w=-1.5)) == ["E407", "E409", "E409", "E409", "E409", "E410", "E421"]
    assert sorted(faults(text, n=10**6 + 1, w=1)) == sorted([*faults(text, n=10**6, w=1), "E409"])  # one draw would not end


def test_a_sound_program_is_lowered_as_before() -> None:
    bound = bind(check_source(Source("p.gmlm", "model m {\n  var x : bit\n  factor 0.5 * x\n}\nmask a = subsets(size = 1)\n")), {})
    found, nothing = sound_model(bound, "m")
    assert nothing == [] and found.graph == lower_model(bound, "m").graph


def test_a_faulty_sampler_says_what_else_is_faulty() -> None:
    good = SIX.replace("x[i + 1]", "x[i]").replace("x[4] + y[i - 1]", "x[3]")
    with pytest.raises(GmlmError) as caught:
        gm.parse(good).model().sample({}, "sweep", draws=1)
    assert said(caught.value) == FOUND[3:]


@pytest.mark.parametrize(
    ("cells", "form", "expected"),
    [(8, "completable(other)", []), (9, "completable(other)", ["E515"]), (9, "brackets(1)", []), (8, "brackets(2)", ["E409"])],
)
def test_what_judges_strings_is_looked_at(cells: int, form: str, expected: list[str]) -> None:
    text = 'model m {\n  var x[i in range(8)] : labels("(", ")")\n  x[i] ~ categorical([0.5, 0.5]) for i in range(8)\n}\n'
    text += f'model other {{\n  var y[i in range({cells})] : labels("(", ")")\n  require y[0] == "("\n}}\nverifier v for m = {form}\n'
    assert faults(text) == expected


def test_what_draws_a_faulty_string_is_passed_over() -> None:
    text = 'input n : int = 8\nmodel m {\n  var x[i in range(n - 9)] : labels("(", ")")\n}\n'
    text += 'model o {\n  var y[i in range(n)] : labels("(", ")")\n}\nverifier v for m = completable(o)\nsampler s for m = rejection(v)\n'
    assert [d.code for d in check_bound(check_source(Source("p.gmlm", text)), {})[0]] == ["E406"]


@pytest.mark.parametrize(("factor", "expected"), [("J * (x[i] == x[j])", []), ("J * T[x[i], x[j]]", ["E418"]), ("J * x[i]", ["E418"])])
def test_clusters_have_bonds_and_a_symmetry(factor: str, expected: list[str]) -> None:
    text = "input T[3, 3] : real = [[0.2, 0.9, 0.1], [0.9, 1.5, 0.3], [0.1, 0.3, 0.7]]\ngraph G = grid(3, 3)\n"
    text += f"model m {{\n  var x[i in G.nodes] : range(3)\n  param J\n  factor {factor} for (i, j) in G.edges\n}}\n"
    assert faults(text + "sampler c { update x[K] where K ~ percolation(G.edges) }\n") == expected


def test_a_decoder_of_a_variable_without_values_is_no_further_fault() -> None:
    text = """
    input vocab : int = 0
    network net = transformer(layers = 1, heads = 1, width = 8)
    model m {
      var x[t in range(4)] : range(vocab)
      conditional x ~ net()
    }
    mask all = everything(x, noise = {hide: 1})
    sampler s = refinement(steps = 3, start = hide)
    """
    with pytest.raises(gm.GmlmError) as caught:
        gm.parse(text).model()
    assert caught.value.codes == ("E406",)
