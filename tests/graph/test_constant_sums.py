"""A number may be written as a sum wherever a number may stand: each position gives what the number itself gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from oracle import Oracle
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.graph import guided, refinement
from gmlmdsl.graph._weights import alive
from gmlmdsl.masks import lower_mask
from gmlmdsl.plan import plan_temper

MASKS = """
input U[4] : real
model m {
  var x[i in range(3)] : bit
  param h[i in range(3)]
  param J
  let c = sum(0.1 for q in range(3))
  let d[i in range(3)] = if i == 1 then c else sum(U[q] for q in range(4) if q < i + 2)
  factor h[i] * x[i] for i in range(3)
  factor J * x[0] * x[1] * x[2]
}
mask alike    { choose {x[i]} for i in range(3) weight sum(0.1 for q in range(3)) }
mask varied   {
  choose {x[i]}       for i in range(3) weight 0.1 * sum(i + q for q in range(3) if q != i)
  choose {x[0], x[1]} weight sum(U[q] for q in range(4))
}
mask named    { choose {x[i]} for i in range(3) weight c + i }
mask chosen   { choose {x[i]} for i in range(3) weight d[i] }
mask nested   { choose {x[i]} for i in range(3) weight sum(sum(U[r] for r in range(4) if r <= q) for q in range(3) if q <= i) }
mask mixed    { choose {x[0]} weight c  choose {x[1]} weight 0.3 }
mask beside given x { choose {x[i]} for i in range(3) weight sum(0.1 for q in range(3))  choose {x[0], x[1]} weight x[2] }
mask drawn    { each x[i] for i in range(3) rate sum(0.1 * q for q in range(3)) + i / 10 }
mask rate     { each x[i] for i in range(3) rate c }
mask some given x { each x[0] rate c  each x[1] rate 0.1 + sum(x[q] for q in range(3)) / 4 }
mask one_rate = bernoulli(x, rate = sum(0.1 for q in range(3)))
mask any_rate = bernoulli(x, rate = uniform(sum(0.05 for q in range(3)), 1 - sum(0.1 for q in range(3) if q > 0)))
mask sized    = subsets(x, size = sum(1 for q in range(2)))
mask rows     = mixture { 0 + sum(0.2 for q in range(3)) : subsets(x, size = 1)  1 - sum(0.2 for q in range(3)) : everything(x) }
mask parts    = mixture { 1 : alike  2 : drawn  1 : mixture { 1 : chosen  0 + c_weight : one_rate } }
sampler listed { update x[K] where K ~ varied }
sampler each_  { update x[K] where K ~ drawn  update x[K] where K ~ parts }
sampler often  {
  repeat sum(1 for q in range(2)) { update x[0] }
  mixture { 0 + sum(0.1 for q in range(3)) : update x[1]  1 : update x[2] }
}
"""
NUMBERS = np.array([0.1, 0.2, 0.3, 0.05])
TEXT = MASKS.replace("c_weight", "sum(U[q] for q in range(3))")
PROGRAM = gm.parse(TEXT, U=NUMBERS)
ORACLE = Oracle(PROGRAM.checked, "m", {"U": NUMBERS})
PARAMS = ORACLE.random_params(1)
ROWS = ORACLE.states[[1, 3, 3, 6]]


@pytest.mark.parametrize("mask", thinned(PROGRAM.model().masks, 2))
def test_a_weight_or_rate_without_a_cell_counts_what_it_is(mask: str) -> None:
    with jax.enable_x64(True):
        loss = PROGRAM.model().loss(PARAMS, ROWS, mask)
    assert float(loss) == pytest.approx(ORACLE.loss(PARAMS, ROWS, mask), abs=1e-12)


@pytest.mark.parametrize("sampler", thinned(["listed", "each_", "often"], 3))
def test_the_kernels_of_such_masks_are_exact(sampler: str) -> None:
    found = PROGRAM.model().transition_matrix(PARAMS, sampler)
    np.testing.assert_allclose(found, ORACLE.transition_matrix(PARAMS, sampler), atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)


@pytest.mark.slow
def test_draws_of_such_masks_move_every_cell() -> None:
    draws = PROGRAM.model().sample({"h": np.zeros(3), "J": 0.0}, "listed", draws=2000, chains=4, seed=0).posterior["x"]
    np.testing.assert_allclose(np.asarray(draws).mean(axis=(0, 1)), 0.5, atol=0.05)


def parameters(program: gm.Program) -> Any:
    """Kinds, bounds and priors of the parameters."""
    found = program.model().lowered.graph.parameters
    return [(p.kind, p.lower, p.upper, p.prior and p.prior.arguments) for p in found]


def probabilities(program: gm.Program) -> Any:
    model = program.model()
    return model.marginals(model.init_params())


def mask_arrays(program: gm.Program) -> Any:
    return [lower_mask(program.model().lowered, mask) for mask in program.checked.masks.values()]


def kernel(program: gm.Program) -> Any:
    model = program.model()
    return model.transition_matrix(model.init_params())


def shapes(program: gm.Program) -> Any:
    graph = program.model().lowered.graph
    return [(v.shape, v.labels) for v in graph.variables], {k: v.edges for k, v in program.bound.graphs.items()}, program.bound.inputs


def network_options(program: gm.Program) -> Any:
    return program.model().lowered.graph.network


def betas(program: gm.Program) -> Any:
    (sampler,) = program.checked.samplers.values()
    return plan_temper(program.model().lowered, sampler.body[0]).betas


def passes(program: gm.Program) -> Any:
    lowered = program.model().lowered
    (sampler,) = program.checked.samplers.values()
    return refinement(sampler.body, lowered.bound)


def judged(program: gm.Program) -> Any:
    lowered = program.model("m").lowered
    bodies = [s.body for s in program.checked.samplers.values()] + [j.body for j in program.checked.judges.values()]
    return [{k: v for k, v in guided(b, lowered.bound, lowered.graph.variables[0]).items() if not hasattr(v, "body")} for b in bodies]


X = "model m { var x[i in range(3)] : bit  factor 0.3 * x[i] for i in range(3) factor 0.4 * x[0] * x[1] }"
NET = "network net = mlp(width = 4) model m { var x[i in range(3)] : range(3) conditional x ~ net() }"
BRACKETS = """domain bracket = labels("(", ")")
model m { var x[i in range(4)] : bracket  x[i] ~ categorical([0.6, 0.4]) for i in range(4) }
verifier can for m = brackets(<1>)
"""
# Marked numbers stand as they are in one program, as sums in the other.
POSITIONS: dict[str, tuple[str, Callable[[gm.Program], Any]]] = {
    "prior": ("model m { var x : bit  param h[i in range(2)] ~ normal(<0.3> - i, <0.5>)  factor h[0] * x }", parameters),
    "dirichlet": ("model m { var x : bit  param h[i in range(2)] : simplex ~ dirichlet(<1.5>)  x ~ categorical(h) }", parameters),
    "bounds": ("model m { var x : bit  param h : real(lower = -<0.3>, upper = <0.5>)  factor h * x }", parameters),
    "list": ("model m { var x : bit  x ~ categorical([<0.4>, <0.6>]) }", probabilities),
    "list by turn": ("model m { var x[i in range(2)] : bit x[i] ~ categorical([<0.4> / (i + 1), 1 - <0.4> / (i + 1)]) for i in range(2) }", probabilities),
    "loop": ("model m { var x[i in range(4)] : bit  factor 0.5 * x[i] for i in range(4) if i < <2> }", probabilities),
    "index": ("model m { var x[i in range(4)] : bit  factor <0.5> * x[i % <2>] for i in range(4) }", probabilities),
    "branch": ("model m { var x[i in range(4)] : bit  factor if i < <2> then x[i] else 0.2 * x[0] for i in range(4) }", probabilities),
    "entry": ("input U[3] : real = 0.4 model m { var x : bit  factor U[<2>] * x }", probabilities),
    "require": ("model m { var x[i in range(3)] : range(3)  require x[i] < <2> for i in range(3) }", probabilities),
    "cells": (X + " mask a = blocks({x[i], x[i + <1>]} for i in range(3) if i < <2>)", mask_arrays),
    "size": (X + " mask a = subsets(size = <2>)", mask_arrays),
    "rate": (X + " mask a = bernoulli(rate = <0.3>) mask b = bernoulli(rate = uniform(<0.3>, <0.5>))", mask_arrays),
    "rows": (X + " mask a = mixture { 0 + <0.3> : subsets(size = 1)  0 + <0.5> : everything() }", mask_arrays),
    "weight": (X + " mask a { choose {x[i]} for i in range(3) weight <0.3> + i }", mask_arrays),
    "each": (X + " mask a { each x[i] for i in range(3) rate <0.3> + i / 4 }", mask_arrays),
    "repeat": (X + " sampler s { repeat <2> { update x[1] update x[0] } }", kernel),
    "mixture": (X + " sampler s { mixture { 0 + <0.3> : update x[0]  1 : update x[1] } }", kernel),
    "betas": (X + " sampler s { temper(betas = [<0.5>, 1]) { update x[0] } }", betas),
    "clusters": ("graph G = chain(<2>) model m { var x[i in G.nodes] : spin factor <0.5> * x[0] * x[1] }"
                 " sampler s { update x[K] where K ~ percolation({x[i], x[j]} for (i, j) in G.edges) }", kernel),
    "sets": ("index s = range(<2>) graph G = grid(<2>, <3>) domain d = range(<3>) input U[<2>] : real = <0.3>"
             " model m { var x[i in s] : d var y : range(<2>) factor U[0] * y }", shapes),
    "input": ("input n : int = <2> input u[2] : real = [<0.3>, 1] input w : real(lower = <0.3>, upper = <3>) = 1"
              " model m { var x[i in range(n)] : bit factor u[1] * w * x[0] }", shapes),
    "network": (NET.replace("= 4", "= <4>"), network_options),
    "refinement": (NET + " sampler s = refinement(steps = <2>, lengths = <1>, temperature = <0.5>, decode = sample)", passes),
    "judges": (BRACKETS + "sampler s for m = backtracking(can, quota = <2>, stride = <1>, temperature = <0.5>)", judged),
}  # fmt: skip


def as_sum(number: str) -> str:
    """A sum of equal terms, in whole numbers where the number is one."""
    return f"sum(1 for q in range({number}))" if "." not in number else f"sum({float(number) / 5!r} for q in range(5))"


@pytest.mark.parametrize("position", POSITIONS)
def test_a_sum_of_numbers_is_a_number(position: str) -> None:
    text, asked = POSITIONS[position]
    plain = re.sub(r"<([0-9.]+)>", r"\1", text)
    summed = re.sub(r"<([0-9.]+)>", lambda found: as_sum(found[1]), text)
    assert plain != summed
    same(asked(gm.parse(plain)), asked(gm.parse(summed)))


def same(a: Any, b: Any) -> None:
    """Whether two structures hold the same numbers, to 1e-12."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, float | np.ndarray):
        np.testing.assert_allclose(a, b, atol=1e-12 if np.asarray(a).dtype == float else 1e-6, equal_nan=False)
    elif hasattr(a, "__dataclass_fields__"):
        same({k: v for k, v in vars(a).items() if k != "span"}, {k: v for k, v in vars(b).items() if k != "span"})
    else:
        assert a == b


def test_a_constant_sum_has_a_limit_and_its_faults_have_a_place() -> None:
    model = "model m {{ var x : bit  param h ~ normal({}, 1)  factor h * x }}"
    wide = "sum(" * 3 + "0.1" + " for q in range(1000))" + " for r in range(1000))" + " for s in range(1000))"
    for text, code in ((wide, "E412"), ("sum(1 / q for q in range(2))", "E416"), ("sum(U[q] for q in range(4))", "E407")):
        with pytest.raises(gm.GmlmError) as caught:
            gm.parse("input U[3] : real = 1 " + model.format(text)).model()
        assert caught.value.codes == (code,), text


def test_terms_that_a_sum_leaves_out_are_not_judged() -> None:
    text = "input U[3] : real = 0.5 model m { var x : bit  param h ~ normal(sum(U[q] / q for q in range(9) if 0 < q and q < 3), 1) factor h * x }"
    assert parameters(gm.parse(text))[0][3]["mean"] == pytest.approx(0.75)


def test_an_index_of_a_sum_hides_nothing_around_it() -> None:
    text = (
        "model m { var x : bit  param h[i in range(2), j in range(3)] ~ normal(sum(i * q + j for q in range(2)), 1)  factor h[0, 0] * x }"
    )
    np.testing.assert_allclose(parameters(gm.parse(text))[0][3]["mean"], np.arange(2)[:, None] + 2 * np.arange(3))


def test_weights_that_do_not_vary_stand_for_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are tried some at a time; what does not vary over them comes once a time."""
    monkeypatch.setattr("gmlmdsl.graph._weights.TRIED_AT_ONCE", 4)
    text = "model m { var x[i in range(5)] : bit } mask a given x { choose {x[i]} for i in range(5) weight 1 + x[i] }"
    program = gm.parse(text)
    mask = lower_mask(program.model().lowered, program.checked.masks["a"])
    assert mask.blocks[:, 0].tolist() == [0, 1, 2, 3, 4]  # type: ignore[union-attr]
    assert alive(mask.weights[0], [2], 5).tolist() == [True] * 5  # type: ignore[union-attr]
