"""Posteriors of models whose priors have fitted parameters as arguments.

The draws come from NUTS on the NumPyro model, which needs no mode.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from .._diagnostics import with_whole_numbers
from .._types import Draws, JsonObject, Label
from ..data import random_key
from ..graph import FactorGraph
from ..sample import to_arviz
from ._numpyro_model import NumpyroModel
from ._sampled import SampledOptions


def draw_hierarchical(model: NumpyroModel, graph: FactorGraph, options: SampledOptions, provenance: JsonObject) -> Draws:
    """Return draws of all parameters for ArviZ; see `Model.posterior`.

    Args:
        model: the priors, and the likelihood of the rows or its replacement under a mask.
        graph: the factor graph with the parameters.
        options: the numbers of draws and chains, and the seed.
        provenance: the text and versions of the program.
    """
    from numpyro.infer import MCMC, NUTS

    options = with_whole_numbers(options, {"draws": 1, "warmup": 0, "chains": 1})
    with jax.enable_x64(True):  # pyright: ignore[reportAttributeAccessIssue]
        run = MCMC(
            NUTS(model),
            num_warmup=options.warmup,
            num_samples=options.draws,
            num_chains=options.chains,
            chain_method="vectorized",
            progress_bar=False,
        )
        run.run(random_key(options.seed), extra_fields=("diverging", "potential_energy"))
        samples, extra = run.get_samples(group_by_chain=True), run.get_extra_fields(group_by_chain=True)
    draws = {p.name: np.asarray(samples[p.name]) for p in graph.parameters}
    dims = {p.name: list(p.dims) for p in graph.parameters}
    coords: dict[str, Sequence[Label]] = {d: list(c) for p in graph.parameters for d, c in zip(p.dims, p.coords, strict=True)}
    attrs = {
        "model": provenance["model"],
        "program_sha256": provenance["sha256"],
        "versions": ", ".join(f"{k} {v}" for k, v in provenance["versions"].items()),
        "inference": f"{model.calibration}; NUTS on all parameters and those of their priors",
        "calibration": model.calibration,
        "mask": options.mask,
        "seed": options.seed,
        "warmup": options.warmup,
    }
    stats = {"lp": -np.asarray(extra["potential_energy"]), "diverging": np.asarray(extra["diverging"])}
    return to_arviz(draws, dims, coords, stats, None, attrs)
