"""What grows with a number that a user passes is refused before it starts, with the estimate, the limit and what to do instead."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gmlmdsl as gm
from gmlmdsl import derive
from gmlmdsl.sample._draw import verify_chains, verify_draws

pytestmark = pytest.mark.usefixtures("standard_promotion")
MANY = 10**9
TEXT = """
input n : int
input times : int = 2
index sites = range(n)
model m {
  var x[i in sites] : spin
  param h ~ normal(0, 1)
  param J ~ normal(0, 1)
  factor h * x[i] for i in sites
  factor J * x[i] * x[j] for i in sites for j in sites if i < j
}
mask single = subsets(x, size = 1)
mask pairs  = subsets(x, size = 2)
mask all    = everything(x)
mask some { each x[i] for i in sites rate 0.5 }
sampler sweep { update x[i] for i in sites }
sampler joint { update K where K ~ some }
sampler often { repeat times { update x[i] for i in sites } }
"""
PARAMS = {"h": 0.1, "J": 0.05}


@cache
def model(n: int = 5, **inputs: Any) -> Any:
    return gm.parse(TEXT, n=n, **inputs).model()


def spins(rows: int = 40, n: int = 5) -> np.ndarray:
    return np.random.default_rng(rows).choice([-1, 1], size=(rows, n))


@pytest.fixture(scope="module")
def fit() -> Any:
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        return model().fit(spins(), "single", progress=False)


def sample(sampler: str = "sweep", n: int = 5, **options: Any) -> Callable[[gm.Fit], Any]:
    return lambda fit: model(n).sample(PARAMS, sampler, progress=False, **options)


REFUSED: dict[str, tuple[Callable[[gm.Fit], Any], str]] = {
    "draws": (sample(draws=MANY), "fewer `draws=`"),
    "draws that are not kept": (sample(draws=MANY, keep_draws=False), "fewer `draws=`"),
    "exact draws": (sample("exact", draws=MANY), "fewer `draws=`"),
    "chains": (sample(chains=MANY), "fewer chains"),
    "chains of joint blocks": (sample("joint", 16, chains=6000), "smaller blocks"),
    "a warm-up": (sample(warmup=10**13), "fewer draws"),
    "thinning": (sample(thin=10**12), "a smaller `thin`"),
    "annealing": (sample(init=gm.annealed(steps=10**12)), "fewer draws"),
    "repeat": (lambda fit: model(times=10**6).sample(PARAMS, "often", draws=10**6, progress=False), "a smaller `repeat`"),
    "a fit's draws": (lambda fit: fit.sample("sweep", draws=MANY), "fewer `draws=`"),
    "masks of a loss": (lambda fit: model().loss(PARAMS, spins(), "pairs", key=0, n_masks=MANY), "a smaller `n_masks=`"),
    "masks of a fit": (lambda fit: model().fit(spins(), "pairs", n_masks=MANY), "a smaller `n_masks=`"),
    "steps of a fit": (lambda fit: model().fit(spins(), "single", max_steps=MANY), "a smaller `max_steps=`"),
    "copies": (lambda fit: holed_fit(gm.MonteCarloEM(copies=MANY)), "fewer `copies=`"),
    "persistent chains": (
        lambda fit: model().fit(spins(), method=gm.PersistentContrastiveDivergence("sweep", chains=MANY)),
        "fewer chains",
    ),
    "persistent steps": (
        lambda fit: model().fit(spins(), method=gm.PersistentContrastiveDivergence("sweep", steps=MANY)),
        "fewer `steps=`",
    ),
    "annealed importance": (lambda fit: model().annealed_log_partition(PARAMS, chains=MANY), "fewer chains"),
    "bridge sampling": (lambda fit: model().bridge_log_partition(PARAMS, betas=2000), "fewer `betas=` or `draws=`"),
    "chains of bridge sampling": (lambda fit: model().bridge_log_partition(PARAMS, chains=MANY), "fewer"),
    "betas": (lambda fit: model().annealed_log_partition(PARAMS, betas=MANY), "fewer `betas=`"),
    "steps for each beta": (lambda fit: model().annealed_log_partition(PARAMS, steps_per_beta=10**12), "fewer draws"),
    "data sets of a check": (lambda fit: fit.predictive(draws=MANY), "fewer `draws=`"),
    "points of a profile": (lambda fit: fit.profile("h", points=MANY), "41 points"),
    "draws of a posterior": (lambda fit: whole().posterior(draws=MANY), "fewer `draws=`"),
    "a warm-up of a posterior": (lambda fit: whole().posterior(warmup=10**13), "fewer `draws=`"),
    "draws of information": (lambda fit: gm.theory.compare_masks(model(30), PARAMS, draws=MANY), "fewer `draws=`"),
    "draws of a gap": (lambda fit: gm.theory.spectral_gap(model(30), PARAMS, sampler="sweep", draws=MANY), "fewer `draws=`"),
    "draws of an agreement": (
        lambda fit: gm.theory.sampler_agreement(model(), PARAMS, ["sweep", "joint"], draws=MANY),
        "fewer `draws=`",
    ),
    "draws of a suggestion": (lambda fit: gm.theory.suggest_masks(model(30), PARAMS, draws=MANY), "fewer `draws=`"),
}


def whole() -> Any:
    return model().fit(spins(), "all", progress=False)


def holed_fit(method: Any) -> Any:
    x = spins().astype(float)
    x[::3, 2] = np.nan
    return model().fit(x, "single", missing=np.nan, method=method)


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_take_too_much_is_refused_before_it_starts(name: str, fit: gm.Fit):
    call, remedy = REFUSED[name]
    started = time.process_time()
    with pytest.raises(gm.GmlmError) as caught:
        call(fit)
    assert time.process_time() - started < 60
    assert caught.value.codes == ("E601",)
    (found,) = caught.value.diagnostics
    assert remedy in found.help, found.help
    assert re.search(r"(more than|above) the limit of [\d.,e+]+", found.message), found.message
    assert len(re.findall(r"\d[\d.,]*", found.message)) >= 2, found.message


def test_draws_that_are_not_kept_may_be_many_more():
    kernel = derive.single_site_sweep(model().graph)
    with pytest.raises(gm.GmlmError, match="`keep_draws=False`") as caught:
        verify_draws(kernel, 2000, 2, 4, 2_000_000, True)
    assert caught.value.codes == ("E601",)
    verify_draws(kernel, 2000, 2, 4, 2_000_000, False)
    verify_chains(kernel, 2000, 1000, 10**6)


@pytest.mark.slow
def test_memory_of_joint_blocks_is_foretold_within_a_quarter():
    small = model(10)
    kernel = derive.build_kernel(small.lowered, small.sampler("joint")[1]).kernel
    chains = 50
    target = derive.Target(derive.graph_arrays(small.graph), {k: jnp.asarray(v) for k, v in PARAMS.items()}, None)
    keys = jax.vmap(lambda c: jax.random.fold_in(jax.random.key(0), c))(jnp.arange(chains))
    state = kernel.init(jnp.zeros((10, chains), jnp.int32))
    compiled = jax.jit(lambda k, s: kernel.step(target, derive.fold(k, 1), s)[0]).lower(keys, state).compile()
    found = compiled.memory_analysis()
    assert found is not None and 0.75 < kernel.held(10) * chains / found.temp_size_in_bytes < 1.25


@pytest.mark.slow
def test_a_repeated_body_counts_as_before():
    draws = model(times=3).sample(PARAMS, "often", draws=200, chains=4, progress=False)
    again = model().sample(PARAMS, "sweep", draws=200, chains=4, progress=False)
    flips = [float(np.asarray(d["sample_stats"]["flip_rate"]).mean()) for d in (draws, again)]
    assert 0.3 < flips[0] < 0.6 and abs(flips[0] - flips[1]) < 0.05
