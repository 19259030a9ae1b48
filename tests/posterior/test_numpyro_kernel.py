"""A sampler as a block of NumPyro's Gibbs kernel: latents and parameters against enumeration and quadrature; NumPyro's contract."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from numpyro.infer import MCMC, NUTS, Gibbs
from refusals import refused

import gmlmdsl as gm

TEXT = """
model m {
  latent h : spin
  var    v[i in range(2)] : range(3)
  given  y : real
  param W ~ normal(0, 1)
  param b ~ normal(0, 1)
  factor W * h * v[i] for i in range(2)
  factor b * y * h
  require not (h == 1 and v[0] == 2)
}
sampler turn { update h }
sampler all { update v  update h }
sampler hot { temper(betas = [1.0, 0.5]) { update h } }
"""
V = np.array([[0, 0], [1, 0], [2, 1], [1, 1], [0, 2], [1, 2], [0, 1], [1, 1]])
Y = np.array([0.5, -1.0, 0.2, 1.5, -0.3, 0.8, -0.6, 0.1])
STATES = np.array([s for s in itertools.product([-1, 1], range(3), range(3)) if not (s[0] == 1 and s[1] == 2)])


@pytest.fixture(autouse=True)
def loose() -> Iterator[None]:
    """NumPyro promotes types and ranks."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture(scope="module")
def model() -> gm.Model:
    return gm.parse(TEXT).model()


def joint(W: Any, b: Any, h: Any, v: Any, y: Any) -> Any:
    """The unnormalised log p of one configuration."""
    return W * h * (v[0] + v[1]) + b * y * h


def exact() -> tuple[np.ndarray, np.ndarray]:
    """Posterior means of W and b, and p(h = 1 | all data) of each row, by a grid."""
    grid = np.linspace(-4, 4, 161)
    W, b = np.meshgrid(grid, grid, indexing="ij")
    log, up = -0.5 * (W**2 + b**2), []
    for v, y in zip(V, Y, strict=True):
        z = sum(np.exp(joint(W, b, s[0], s[1:], y)) for s in STATES)
        low, high = (np.exp(joint(W, b, h, v, y)) if h < 0 or v[0] < 2 else np.zeros_like(W) for h in (-1, 1))
        log = log + np.log((low + high) / z)
        up.append(high / (low + high))
    weight = np.exp(log) / np.exp(log).sum()
    return np.array([(weight * W).sum(), (weight * b).sum()]), np.array([(weight * u).sum() for u in up])


@pytest.mark.slow
@pytest.mark.parametrize("bar", [pytest.param(False, marks=pytest.mark.slow), True])
def test_latents_by_blocks_and_parameters_by_nuts_keep_the_posterior(model: gm.Model, float64: None, bar: bool, monkeypatch: Any):
    """Means within four of their Monte Carlo errors, seeds chosen before; half of the parameters pass through a function."""
    monkeypatch.delenv("CI", raising=False)  # else no bar is shown, and no loop in Python is run
    kernel = model.numpyro_kernel("turn", x={"v": V}, given={"y": Y}, params=lambda sites: {"W": sites["W"], "b": 2 * sites["half_b"]})

    def program() -> None:
        W, half_b = numpyro.sample("W", dist.Normal(0, 1)), numpyro.sample("half_b", dist.Normal(0, 0.5))
        kernel.sites({"W": W, "b": 2 * half_b})

    count = 100 if bar else 3000
    mcmc = MCMC(Gibbs([(kernel, kernel.names), (NUTS(program), None)]), num_warmup=count // 10, num_samples=count, progress_bar=bar)
    mcmc.run(jax.random.key(2))
    draws = mcmc.get_samples()
    assert draws["h"].shape == (count, 8)
    assert draws["h"].dtype == jnp.int32
    assert set(np.unique(draws["h"])) == {-1, 1}
    assert (draws["h"][:, 2] == -1).all()  # required
    if bar:
        return
    means, up = exact()
    for found, mean in ((draws["W"], means[0]), (2 * draws["half_b"], means[1]), *((draws["h"][:, r] == 1, up[r]) for r in (0, 1, 3))):
        values = np.asarray(found, float)
        error = values.std() / np.sqrt(numpyro.diagnostics.effective_sample_size(values[None]))
        assert abs(values.mean() - mean) < 4 * error


@pytest.mark.slow
def test_alone_it_samples_at_fixed_parameters(model: gm.Model):
    """Without data and with it: the law of the cells; chains one after another and at once are the same."""
    params = {"W": 0.4, "b": -0.5}
    kernel = model.numpyro_kernel("all", given={"y": 0.7}, params=lambda sites: params)
    runs = []
    for method in ("sequential", "vectorized"):
        mcmc = MCMC(kernel, num_warmup=50, num_samples=2000, num_chains=2, chain_method=method, progress_bar=False)
        mcmc.run(jax.random.key(1), extra_fields=("changed",))
        runs.append({k: np.asarray(a) for k, a in mcmc.get_samples(group_by_chain=True).items()})
    assert kernel.names == ("h", "v")
    assert all((runs[0][k] == runs[1][k]).all() for k in kernel.names)
    law = np.exp([joint(0.4, -0.5, s[0], s[1:], 0.7) for s in STATES])
    for f in (lambda h, v: h == 1, lambda h, v: v[..., 0] == 2, lambda h, v: (v[..., 1] == 1) & (h == -1)):
        found = f(runs[0]["h"], runs[0]["v"]).astype(float)
        mean = (law * f(STATES[:, 0], STATES[:, 1:])).sum() / law.sum()
        error = found.std() / np.sqrt(numpyro.diagnostics.effective_sample_size(found))
        assert abs(found.mean() - mean) < 4 * error


@pytest.mark.slow
def test_it_starts_where_it_may_and_at_what_it_is_told(model: gm.Model):
    kernel = model.numpyro_kernel("turn", x={"v": V}, given={"y": 0.0})
    told = kernel.init(jax.random.key(0), 0, {"h": jnp.ones(8)}, (), {})
    assert told.z["h"].tolist() == [1, 1, -1, 1, 1, 1, 1, 1]
    assert (
        kernel.init(jax.random.key(0), 0, None, (), {}).z["h"].tolist() == kernel.init(jax.random.key(0), 5, None, (), {}).z["h"].tolist()
    )
    assert kernel.refresh(told, (), {}) is told
    assert repr(kernel) == "NumPyro kernel of `h` in 8 rows"


@pytest.mark.slow
def test_data_stay_under_a_sampler_that_would_move_them(model: gm.Model):
    """Where v[0] is 2, h is -1 by requirement: the sampler redraws v first, were it not data."""
    kernel = model.numpyro_kernel("all", x={"v": V}, given={"y": Y}, params=lambda sites: {"W": 0.0, "b": 0.0})
    state, h = kernel.init(jax.random.key(3), 0, None, (), {}), []
    step = jax.jit(lambda s: kernel.sample(s, (), {}))
    for _ in range(20):
        state = step(state)
        h.append(np.asarray(state.z["h"]))
    assert (np.array(h)[:, 2] == -1).all()
    assert (np.array(h)[:, 0] == 1).any()


def test_what_it_cannot_do_is_refused(model: gm.Model):
    refused("E507", lambda: model.numpyro_kernel("hot", x={"v": V}, given={"y": Y}), "without `temper`")
    refused("E507", lambda: model.numpyro_kernel("turn", x={"v": V, "h": [1] * 8}, given={"y": Y}), "no cell to redraw")
    refused("E506", lambda: model.numpyro_kernel("turn", x={"w": V}, given={"y": Y}), "`w`")
    refused("E501", lambda: model.numpyro_kernel("turn", x={"v": V[:3]}, given={"y": Y}), "rows of different shapes")
    refused("E506", lambda: model.numpyro_kernel("never", x={"v": V}, given={"y": Y}))
