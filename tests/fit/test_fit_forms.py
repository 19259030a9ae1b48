"""Every verb of a fit beside every form of mask and every way to fit: an answer, or an error of the language. See `test_forms.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import optax
import pytest
from form_cases import FORM_CASES, FormCase, refusal
from thinned import thinned

import gmlmdsl as gm

pytestmark = [
    pytest.mark.usefixtures("standard_promotion"),
    pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning", "ignore:overflow|divide|invalid:RuntimeWarning"),
]
JOINT = ("joint", "shut", "latent", "given")


def holed(case: FormCase) -> Any:
    """The rows with a cell that is missing, as a float array: NaN."""
    if isinstance(case.x, Mapping):
        return {**case.x, "y": np.ma.masked_array(case.x["y"], [True] + [False] * (len(case.x["y"]) - 1))}
    return np.ma.masked_array(case.x, np.eye(*case.x.shape, dtype=bool))


def first_fixed(case: FormCase) -> dict[str, Any]:
    name = case.model.graph.parameters[0].name
    return {name: case.params[name]}


OPTIONS: dict[str, Callable[[FormCase], dict[str, Any]]] = {
    "plain": lambda c: {},
    "weights": lambda c: {"weights": np.arange(1.0, len(next(iter(c.x.values())) if isinstance(c.x, Mapping) else c.x) + 1)},
    "drawn masks": lambda c: {"n_masks": 2},
    "all masks": lambda c: {"n_masks": "all"},
    "fixed": lambda c: {"fixed": first_fixed(c)},
    "init": lambda c: {"init": c.params},
    "adam": lambda c: {"optimizer": optax.adam(0.1), "max_steps": 3},
    "batches": lambda c: {"optimizer": optax.adam(0.1), "max_steps": 3, "batch_size": 2},
    "holes": lambda c: {"x": holed(c)},
    "holes ignored": lambda c: {"x": holed(c), "gaps": "ignore"},
    "holes imputed": lambda c: {"x": holed(c), "impute": True, "method": gm.MonteCarloEM(2, 2, 1)},
    "monte carlo": lambda c: {"method": gm.MonteCarloEM(2, 2, 1)},
    "divergence": lambda c: {"method": gm.PersistentContrastiveDivergence(c.model.samplers[0], chains=4, steps=32, burn_in=1)},
}
VERBS: dict[str, Callable[[FormCase, Any], Any]] = {
    "print": lambda c, f: (str(f), repr(f), f.status, f.missing, f.determined, f.effective_rows),
    "summary": lambda c, f: f.summary(),
    "covariance": lambda c, f: (f.covariance, f.standard_errors, f.interval(), f.full_covariance, f.one_mask_covariance),
    "errors": lambda c, f: (f.covariance_of("hessian"), f.determined_covariance(), f.undetermined_directions()),
    "contrast": lambda c, f: f.contrast({k: np.ones_like(v) for k, v in f.params.items()}),
    "refit_selected": lambda c, f: f.refit_selected(),
    "score": lambda c, f: f.score(c.x, **c.all_told),
    "information_criterion": lambda c, f: f.information_criterion(),
    "couplings": lambda c, f: f.couplings(progress=False),
    "value": lambda c, f: f.couplings(score="value", progress=False),
    "centrality": lambda c, f: f.centrality(progress=False),
    "differences": lambda c, f: f.differences(f, progress=False),
    "compare": lambda c, f: gm.compare({"a": f, "b": f}),
    "wald_test": lambda c, f: gm.wald_test(f, f),
    "cross_validate": lambda c, f: f.cross_validate(2, progress=False),
    "bootstrap": lambda c, f: f.bootstrap(2, progress=False),
    "profile": lambda c, f: f.profile(points=3, progress=False),
}
CHAINS: dict[str, Callable[[FormCase, Any], Any]] = {
    "sample": lambda c, f: f.sample(c.model.samplers[0], draws=2, warmup=1, chains=1, progress=False, **c.told),
    "predictive": lambda c, f: f.predictive(c.model.samplers[0], draws=8, chains=2, warmup=1, progress=False),
    "simulated_errors": lambda c, f: f.simulated_errors(8, sampler=c.model.samplers[0], warmup=1, progress=False),
    "posterior": lambda c, f: f.posterior(2, 1, warmup=2, progress=False),
    "to_arviz": lambda c, f: f.to_arviz(draws=2, chains=1, progress=False),
}


@cache
def fitted(case: FormCase, mask: str, option: str) -> Any:
    """A fit, or None where it is refused."""
    found = []
    options = {"x": case.x, "mask": mask, "progress": False} | case.all_told | OPTIONS[option](case)
    error = refusal(lambda: found.append(case.model.fit(**options)))
    assert error is None or all(d.message for d in error.diagnostics)
    return None if error else found[0]


def asked(case: FormCase, fit: Any, verbs: Mapping[str, Callable[[FormCase, Any], Any]]) -> set[str]:
    found = set()
    for name, ask in verbs.items():
        error = refusal(lambda ask=ask: ask(case, fit))
        if error is None:
            found.add(name)
        else:
            assert all(d.message for d in error.diagnostics), name
    return found


EACH = [
    pytest.param(FORM_CASES[name], mask, option, id=f"{name}-{mask}-{option}")
    for name in JOINT
    for k, mask in enumerate(FORM_CASES[name].model.masks)
    for j, option in enumerate(OPTIONS)
    if option == "plain" or (k + j) % 4 == 0  # each option meets a quarter of the masks
]


@pytest.mark.parametrize(("case", "mask", "option"), thinned(EACH, 180, 30))
def test_every_verb_of_a_fit(case: FormCase, mask: str, option: str):
    fit = fitted(case, mask, option)
    assert fit is None or {"print", "score"} <= asked(case, fit, VERBS)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "mask", "option"), [p for k, p in enumerate(EACH) if k % 6 == 0])
def test_every_verb_of_a_fit_that_runs_chains(case: FormCase, mask: str, option: str):
    fit = fitted(case, mask, option)
    assert fit is None or isinstance(asked(case, fit, CHAINS), set)
