"""What the first calls of a fresh process compile: that, and imports, is nearly all the time that they take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from events import programs, traced_or_compiled
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl.derive._bounded_jit import PROGRAMS

CHAIN = """
index time = range(12)
index tag  = range(2)
index sign = range(3)
model chain {
  latent z[t in time] : tag
  var    x[t in time] : sign
  param start[a in tag]
  param move[a in tag, b in tag]
  param emit[a in tag, c in sign]
  factor start[z[0]]
  factor move[z[t - 1], z[t]] for t in time if t > 0
  factor emit[z[t], x[t]]     for t in time
}
sampler gibbs {
  update z[t] for t in time
  update x[t] for t in time
}
"""
SCRIPT = """
import json, sys
import jax
import numpy as np

import gmlmdsl as gm

compiled = []
jax.monitoring.register_event_duration_secs_listener(lambda event, _, **more: compiled.append(event) if "backend_compile" in event else None)
model = gm.parse(sys.stdin.read()).model()
params = {"start": np.ones(2), "move": np.ones((2, 2)), "emit": np.ones((2, 3))}
calls = {
    "log_partition": lambda: model.log_partition(params),
    "map": lambda: model.map(params),
    "marginals": lambda: model.marginals(params),
    "next_symbol": lambda: model.next_symbol(params, [0, 1, 2]),
    "exact": lambda: model.sample(params, "exact", draws=10, chains=4, progress=False),
    "gibbs": lambda: model.sample(params, "gibbs", draws=10, warmup=0, chains=4, progress=False),
    "after a warm-up": lambda: model.sample(params, "gibbs", draws=10, warmup=5, chains=4, progress=False),
}
counts, loaded = {}, {}
for name, call in calls.items():
    compiled.clear()
    loaded[name] = [m for m in ("arviz", "matplotlib", "numpyro", "scipy.optimize", "scipy.special", "scipy.stats") if m in sys.modules]
    call()
    counts[name] = len(compiled)
print(json.dumps([counts, loaded]))
"""


@pytest.mark.slow
def test_first_calls_share_their_programs(tmp_path: Path):
    """They compiled 18, and one for a warm-up besides; then ten; then four."""
    environment = os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    run = subprocess.run(command, input=CHAIN, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert run.returncode == 0, run.stderr
    counts, loaded = json.loads(run.stdout)
    # Sums of a small model are in NumPy: they compile nothing.
    assert counts["log_partition"] == counts["map"] == counts["marginals"] == counts["next_symbol"] == 0
    assert counts["exact"] <= 2
    assert counts["gibbs"] <= 1
    assert counts["after a warm-up"] == 0
    assert loaded["after a warm-up"] == []  # labelled draws are there, and nothing was asked of them


VOTES = """
index member = range(4)
graph G      = complete(member)
model votes {
  var   x[i in member]       : spin
  param h[i in member]       ~ normal(0, 1)
  param J[(i, j) in G.edges] ~ normal(0, 1)
  let m = sum(x[i] for i in member)
  factor h[i] * x[i]           for i in member
  factor J[i, j] * x[i] * x[j] for (i, j) in G.edges
}
mask pairs  = subsets(x, size = 2)
mask rate   = bernoulli(x, rate = 0.3)
mask listed = blocks(G.edges)
mask agreeing given x { choose {x[i], x[j]} for (i, j) in G.edges weight 1 + (x[i] == x[j]) }
sampler gibbs    { repeat 4 { update x[K] where K ~ pairs } }
sampler sweep    { update x[i] for i in member }
sampler whole    { update x }
sampler sizes    { update x[K] where K ~ rate }
sampler list     { update x[K] where K ~ listed }
sampler adaptive { update x[K] where K ~ agreeing }
sampler apart    { update x[K] independently where K ~ rate }
sampler tempered { temper(betas = [0.5, 1]) { update x[i] for i in member } }
sampler mixed    { mixture { 1 : update x[K] where K ~ pairs  2 : update x[i] for i in member } }
"""
NETWORK = """
index pos   = range(3)
network net = mlp(layers = 1, width = 4)
model words {
  var x[t in pos] : range(3)
  conditional x ~ net()
}
mask one = subsets(x, size = 1)
sampler one_by_one { update x[K] where K ~ one }
sampler refine = refinement(steps = 2, start = uniform)
"""
PARAMS = {"h": np.linspace(-0.5, 0.5, 4), "J": np.linspace(-0.3, 0.4, 6)}
ROWS = np.where(np.random.default_rng(0).random((700, 4)) < 0.5, -1, 1)
Verb = Callable[[Any, np.ndarray], Any]


def drawing(sampler: str, **options: Any) -> Verb:
    chosen = {"draws": 20, "warmup": 5, "chains": 3, "progress": False} | options
    return lambda model, rows: model.sample(PARAMS, sampler, **chosen)


# The most programs that the first call of a verb compiles. Each takes some tenths of a second, whatever it does.
FEW: dict[str, tuple[int, Verb]] = {
    "sweep": (1, drawing("sweep")),
    "exact": (2, drawing("exact")),
    "log_prob": (2, lambda model, rows: model.log_prob(PARAMS, rows)),
    "log_conditional": (1, lambda model, rows: model.log_conditional(PARAMS, rows, K=(0, 3))),
    "loss": (2, lambda model, rows: model.loss(PARAMS, rows, "pairs")),
    "marginals": (2, lambda model, rows: model.marginals(PARAMS)),
    "map": (2, lambda model, rows: model.map(PARAMS)),
    "next_symbol": (2, lambda model, rows: model.next_symbol(PARAMS, rows[:, :2])),
}
MORE: dict[str, tuple[int, Verb]] = {
    "gibbs": (1, drawing("gibbs")),
    "clamped": (1, drawing("sweep", clamp={"x": {0: 1}})),
    "annealed": (2, drawing("sweep", init=gm.annealed(steps=3))),
    "observed": (1, drawing("sweep", observe=["m"])),
    "tempered": (2, drawing("tempered")),
    "drawn loss": (2, lambda model, rows: model.loss(PARAMS, rows, "pairs", key=0, n_masks=2)),
    "whole": (1, drawing("whole")),
    "sizes": (1, drawing("sizes")),
    "list": (1, drawing("list")),
    "adaptive": (1, drawing("adaptive")),
    "apart": (1, drawing("apart")),
    "mixed": (1, drawing("mixed")),
    "log_partition": (1, lambda model, rows: model.log_partition(PARAMS)),
    "annealed_log_partition": (1, lambda model, rows: model.annealed_log_partition(PARAMS, betas=5, chains=10)),
    "bridge_log_partition": (1, lambda model, rows: model.bridge_log_partition(PARAMS, betas=5, draws=5, chains=10)),
    "transition_matrix": (1, lambda model, rows: model.transition_matrix(PARAMS, "gibbs")),
    "adaptive loss": (1, lambda model, rows: model.loss(PARAMS, rows, "agreeing")),
    "loss of many blocks": (5, lambda model, rows: model.loss(PARAMS, rows, "rate")),
}


@contextmanager
def compiled() -> Iterator[list[str]]:
    """What is compiled anew, by events; nothing that was compiled before is there."""
    PROGRAMS.kept.clear()
    jax.clear_caches()
    with traced_or_compiled() as events:
        yield events


@pytest.mark.usefixtures("compiled_sums")
@pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning", "ignore::gmlmdsl.SamplingWarning")
@pytest.mark.parametrize("verb", [*thinned(FEW, 4, 3), *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)])
def test_a_first_call_compiles_few_programs_and_like_calls_none(verb: str):
    """Like calls: of the program parsed anew, with 200 more rows."""
    most, call = (FEW | MORE)[verb]
    model = gm.parse(VOTES).model()
    with compiled() as events:
        call(model, ROWS[:500])
        assert 0 < programs(events) <= most
        events.clear()
        call(gm.parse(VOTES).model(), ROWS)
        assert programs(events) == 0


@pytest.mark.slow  # a fit and three verbs; test_fit_errors.py and test_path.py count programs of replicates
@pytest.mark.usefixtures("standard_promotion")
@pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning", "ignore::gmlmdsl.SamplingWarning")
@pytest.mark.parametrize("missing", [None, 9])
def test_all_replicates_share_one_program(missing: int | None):
    """`cross_validate` compiled four, and six where rows have gaps."""
    x = np.where(np.random.default_rng(1).random((300, 4)) < 0.1, 9, ROWS[:300]) if missing else ROWS[:300]
    fit = gm.parse(VOTES).model().fit(x, mask="pairs", missing=missing, progress=False)
    assert fit.status and fit.standard_errors  # a fit is judged when it is first asked: that is no replicate's program
    verbs: dict[str, tuple[int, Callable[[int], Any]]] = {
        "cross_validate": (1, lambda n: fit.cross_validate(n)),
        "bootstrap": (3, lambda n: fit.bootstrap(n, progress=False)),  # as for a fit, to the distinct rows with weights
        "predictive": (1, lambda n: fit.predictive("gibbs", draws=20 * n, warmup=5)),
    }
    for most, call in verbs.values():
        with traced_or_compiled() as events:
            call(2)
            assert programs(events) <= most
            events.clear()
            call(4)
            assert programs(events) == 0


@pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning", "ignore::gmlmdsl.SamplingWarning")
def test_other_numbers_of_draws_chains_and_steps_compile_nothing():
    model = gm.parse(VOTES).model()
    drawing("sweep")(model, ROWS)
    others: list[dict[str, Any]] = [
        {"draws": 1},
        {"draws": 300},
        {"chains": 4},
        {"thin": 3},
        {"warmup": 0},
        {"warmup": 70},
        {"seed": 2**40},
    ]
    with traced_or_compiled() as events:
        for options in others:
            drawing("sweep", **options)(model, ROWS)
    assert programs(events) == 0


@pytest.mark.filterwarnings("ignore::gmlmdsl.GmlmWarning", "ignore::gmlmdsl.SamplingWarning")
@pytest.mark.parametrize(
    ("verb", "most"), [("one_by_one", 2), pytest.param("refine", 3, marks=pytest.mark.slow), ("loss", 1), ("table", 1)]
)
def test_first_calls_of_conditional_models(verb: str, most: int):
    x = np.random.default_rng(0).integers(0, 3, (40, 3))
    calls: dict[str, Verb] = {
        "loss": lambda model, rows: model.loss(params, rows, "one"),
        "table": lambda model, rows: model.log_conditional(params, rows, K=(1,)),
    }
    call = calls.get(verb, lambda model, rows: model.sample(params, verb, draws=len(rows) - 20, warmup=0, chains=2, progress=False))
    model = gm.parse(NETWORK).model()
    params = model.init_params(seed=0)
    with compiled() as events:
        call(model, x[:37])
        assert 0 < programs(events) <= most
        events.clear()
        call(gm.parse(NETWORK).model(), x)
        assert programs(events) == 0
