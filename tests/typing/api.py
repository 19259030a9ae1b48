"""Calls as users write them: a type checker reports none of them. `make types` reads this file, and nothing runs it."""

from __future__ import annotations

import arviz as az
import jax
import numpy as np
import pandas as pd
import xarray as xr

import gmlmdsl as gm

Numbers = dict[str, np.ndarray]


def load(path: str) -> gm.Model:
    gm.load(path, L=8, edges=[[0, 1]], w={(0, 1): 2.0}, coords={"i": ["a", "b"], "j": range(3)})
    return gm.load(path).model()


def fits(model: gm.JointModel, frame: pd.DataFrame, series: pd.Series, x: np.ndarray, lists: dict[str, list[int]]) -> None:
    model.fit(x, mask="one")
    model.fit(frame, weights=series)
    model.fit([[1, 0], [0, 1]], given=lists)
    model.fit(["abc", "abd"], missing={"x": "-"})
    model.fit(gm.read_table("a.csv"), missing=np.nan)
    fit = model.fit({"x": [[1, -1]], "y": ["a"]}, init={"h": x}, fixed={"h": 0.0}, method="pcd")
    fit.score(frame, groups=series)
    fit.cross_validate(5, groups=frame["g"])
    fit.contrast({"h": 1.0})
    fit.profile(along="h")
    fit.profile(along={"h": 1.0})
    fit.predictive(functions={"t": lambda x: x.sum(), "l": "magnetisation"}, summaries={"a": lambda r: r.mean()})
    model.fit(x, init=fit.params)


def draws(model: gm.JointModel, x: np.ndarray, params: Numbers, on_device: dict[str, jax.Array], places: dict[int, int]) -> None:
    idata = model.sample(params, "gibbs", clamp={"x": {0: 1, (1, 2): -1}}, init=x, observe={"m": lambda x: x.sum()})
    model.sample(on_device, clamp={"x": x}, observe=["energy"])
    model.sample({"h": 0.5}, clamp={"x": {"A1": "yes"}}, observe="energy")
    model.sample(params, clamp={"x": places})
    print(idata.posterior["x"].mean(), idata["posterior"], idata.sample_stats.attrs, az.summary(idata))
    gm.inclusion(model.posterior(x, mask="one"))


def answers(model: gm.JointModel, params: Numbers, frame: pd.DataFrame, labelled: xr.DataArray, x: np.ndarray) -> None:
    model.marginals(params, clamp={"x": {0: 1}}, method=gm.MeanField())
    model.marginals(params, over=[("a", "b"), (("x", 0), ("x", 3))])
    model.map(params, method="anneal")
    model.map(params, x=[[0, 1]], missing=-1)
    model.log_prob(params, x, given=frame)
    model.log_prob(params, labelled)
    model.next_symbol(params, "ab")
    model.next_symbol(params, [[0, 1]])
    model.effects(params, "MKV", doubles=[("x[0]", "x[3]")])
    model.effects(params, x[0], doubles=frame)
    model.predict(params, x, np.array([True, False]))


def networks(model: gm.ConditionalModel, x: np.ndarray) -> None:
    fit = model.fit(x, given={"s": x}, missing=-1, method=gm.Training(batch_size=3))
    model.decode(fit.params, "refine", given={"s": x}, lengths=[3, 4])
    model.log_prob(model.init_params(0), x)
    model.loss(fit.params, x, key=0)
    model.loss(fit.params, x, key=jax.random.key(0))
    model.sample(fit.params, "walk", prompt=["ab", "a"])
    model.sample(fit.params, prompt="ab")
    model.sample(fit.params, prompt=[[0, 1], [2]])
