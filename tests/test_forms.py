"""Every verb beside every form of mask and of sampler, in models of every kind: an answer, or an error of the language that says why not.

A row of the table is a form; its test asks every verb. What is compiled anew for each form is asked of some in the gate, of all nightly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from form_cases import FORM_CASES, FormCase, refusal
from thinned import thinned

import gmlmdsl as gm
from gmlmdsl import theory
from gmlmdsl.assess import _path

pytestmark = [
    pytest.mark.usefixtures("standard_promotion"),  # fits
    pytest.mark.filterwarnings("ignore::gmlmdsl.SamplingWarning"),
]
Verb = Callable[[FormCase, str], Any]


def first(rows: Any) -> np.ndarray:
    """Whether configurations are those whose first cell has its first value, as a set of a theory."""
    x = rows["x"] if isinstance(rows, Mapping) else np.asarray(rows)
    return np.asarray(x)[:, 0] == np.asarray(x).min()


def chain(ask: Callable[..., Any]) -> tuple[Verb, Verb]:
    """A question about a chain: that of a sampler, and that of a mask."""
    return lambda c, s: ask(c.model, c.params, sampler=s, **c.told), lambda c, m: ask(c.model, c.params, mask=m, **c.told)


CHAINS = {
    "spectral_gap": chain(theory.spectral_gap),
    "relaxation_time": chain(theory.relaxation_time),
    "mixing_time": chain(theory.mixing_time),
    "stationary_law": chain(theory.stationary_law),
    "stationary_bias": chain(theory.stationary_bias),
    "total_variation": chain(lambda model, params, **o: theory.total_variation(model, params, steps=3, **o)),
    "divergence": chain(lambda model, params, **o: theory.divergence(model, params, steps=3, **o)),
    "hitting_time": chain(lambda model, params, **o: theory.hitting_time(model, params, first, **o)),
}
SAMPLERS: dict[str, Verb] = {
    **{name: of_sampler for name, (of_sampler, _) in CHAINS.items()},
    "hitting_tail": lambda c, s: theory.hitting_tail(c.model, c.params, first, c.row, s, 3, **c.told),
    "sampler_bias": lambda c, s: c.model.sampler_bias(c.params, s, **c.told),
    "numpyro_kernel": lambda c, s: c.model.numpyro_kernel(s, **c.told),
    "sampler_agreement": lambda c, s: theory.sampler_agreement(c.model, c.params, [s, c.model.samplers[0]], draws=8, **c.told),
    "estimated_covariance": lambda c, s: theory.estimated_covariance(c.model, c.params, c.model.masks[0], sampler=s, draws=8, **c.told),
    "compare_masks": lambda c, s: theory.compare_masks(c.model, c.params, c.model.masks[:1], sampler=s, draws=8, measure=False, **c.told),
    "suggest_masks": lambda c, s: theory.suggest_masks(c.model, c.params, sampler=s, draws=8, measure=False, **c.told),
}
DEAR_SAMPLERS: dict[str, Verb] = {
    "transition_matrix": lambda c, s: c.model.transition_matrix(c.params, s, **c.told),
    "output_law": lambda c, s: theory.output_law(c.model, c.params, s, **c.told),
    "sample": lambda c, s: c.model.sample(c.params, s, draws=3, warmup=1, chains=2, progress=False, **c.told),
    "drawn": lambda c, s: c.model.sample(c.params, s, **c.told),
    "decode": lambda c, s: c.model.decode(c.params, s, **c.told),
}
MASKS: dict[str, Verb] = {
    **{name: of_mask for name, (_, of_mask) in CHAINS.items()},
    "log_conditional": lambda c, m: c.model.log_conditional(c.params, c.x, (0,), m, **c.all_told),
    "asymptotic_covariance": lambda c, m: theory.asymptotic_covariance(c.model, c.params, m, **c.told),
    "one mask a row": lambda c, m: theory.asymptotic_covariance(c.model, c.params, m, 1, **c.told),
    "pseudolikelihood_information": lambda c, m: theory.pseudolikelihood_information(c.model, c.params, m, **c.told),
    "poincare_constant": lambda c, m: theory.poincare_constant(c.model, c.params, m, **c.told),
    "dirichlet_form": lambda c, m: theory.dirichlet_form(c.model, c.params, first, m, **c.told),
    "entropy_tensorization": lambda c, m: theory.entropy_tensorization(c.model, c.params, m, **c.told),
    "log_sobolev_constant": lambda c, m: theory.log_sobolev_constant(c.model, c.params, m, **c.told),
    "product_gap": lambda c, m: theory.product_gap(c.model, c.params, m, **c.told),
    "step_gap": lambda c, m: theory.step_gap(c.model, c.params, c.model, c.params, m, **c.told),
    "mode_separation": lambda c, m: theory.mode_separation(c.model, c.params, m, clique=(0, 1), **c.told),
    "generalization_bound": lambda c, m: theory.generalization_bound(c.model, c.params, m, n=100, m=10, box=1.0, **c.told),
}
DEAR_MASKS: dict[str, Verb] = {
    "loss": lambda c, m: c.model.loss(c.params, c.x, m, **c.all_told),
    "drawn loss": lambda c, m: c.model.loss(c.params, c.x, m, key=0, n_masks=2, **c.all_told),
    "estimated_covariance": lambda c, m: theory.estimated_covariance(c.model, c.params, m, draws=8, **c.told),
    "compare_masks": lambda c, m: theory.compare_masks(c.model, c.params, [m], measure=False, **c.told),
    "fit_path": lambda c, m: c.model.fit_path(c.x, m, 3, progress=False, **c.all_told),
    "to_numpyro": lambda c, m: c.model.to_numpyro(c.x, m, **c.all_told),
    "posterior": lambda c, m: c.model.posterior(c.x, m, draws=2, warmup=2, chains=1, **c.all_told),
}
PLAIN: dict[str, Callable[[FormCase], Any]] = {
    "log_potential": lambda c: c.model.log_potential(c.params, c.x, **c.all_told),
    "log_partition": lambda c: c.model.log_partition(c.params, **c.told),
    "annealed_log_partition": lambda c: c.model.annealed_log_partition(c.params),
    "bridge_log_partition": lambda c: c.model.bridge_log_partition(c.params),
    "log_prob": lambda c: c.model.log_prob(c.params, c.x, **c.all_told),
    "marginals": lambda c: c.model.marginals(c.params, **c.told),
    "map": lambda c: c.model.map(c.params, **c.told),
    "map of rows": lambda c: c.model.map(c.params, x=c.x, **c.all_told),
    "next_symbol": lambda c: c.model.next_symbol(c.params, [[0]], **c.told),
    "effects": lambda c: c.model.effects(c.params, c.row, progress=False, **c.told),
    "distribution": lambda c: c.model.distribution(c.params, **c.told),
    "fisher_information": lambda c: theory.fisher_information(c.model, c.params, **c.told),
    "consistency_gap": lambda c: theory.consistency_gap(c.model, c.params, c.x, **c.told),
    "suggest_masks": lambda c: theory.suggest_masks(c.model, c.params, measure=False, **c.told),
    "compare_masks": lambda c: theory.compare_masks(c.model, c.params, measure=False, **c.told),
    "exact": lambda c: c.model.sample(c.params, "exact", draws=4, progress=False, **c.told),
    "exact law": lambda c: theory.output_law(c.model, c.params, "exact", **c.told),
    "attention": lambda c: c.model.attention(c.params, c.x, **c.all_told),
    "length_coverage": lambda c: c.model.length_coverage(c.params, c.x, **c.all_told),
    "step_gap": lambda c: theory.step_gap(c.model, c.params, FORM_CASES["joint"].model, FORM_CASES["joint"].params, "one"),
}
OF_NETWORKS = ("decode", "attention", "length_coverage")  # no verbs of other models


def answered(verbs: Mapping[str, Callable[..., Any]], case: FormCase, *form: str) -> set[str]:
    """Which verbs answer; others refuse, with a message and a place or a cure. Anything else that is raised fails the test."""
    found = set()
    for name, ask in verbs.items():
        if case.model.graph.network is None and name in OF_NETWORKS:
            continue
        error = refusal(lambda ask=ask: ask(case, *form))
        if error is None:
            found.add(name)
        else:
            assert all(d.message and (d.help or d.span or d.code in SAY_ENOUGH) for d in error.diagnostics), (name, error)
    return found


SAY_ENOUGH = {"E501", "E505", "E742", "E507", "E713"}  # their messages name what was asked and what to ask instead


def forms(kind: str, *cases: str) -> list[Any]:
    found = [(c, f) for c in FORM_CASES.values() if not cases or c.name in cases for f in getattr(c.model, kind)]
    return [pytest.param(c, f, id=f"{c}-{f}") for c, f in found]


@pytest.mark.parametrize("case", thinned(FORM_CASES.values(), 8, 4), ids=str)
def test_every_verb_that_takes_no_form(case: FormCase):
    assert answered(PLAIN, case)


@pytest.mark.parametrize(("case", "sampler"), forms("samplers", "network", "told", "causal", "words"))
def test_every_verb_of_a_sampler_without_a_chain_on_a_joint_distribution(case: FormCase, sampler: str):
    found = answered(SAMPLERS, case, sampler)
    assert not found or case.name == "words"


@pytest.mark.parametrize(("case", "sampler"), thinned(forms("samplers", "joint", "shut", "latent", "given"), 48, 3))
def test_every_verb_of_a_chain(case: FormCase, sampler: str):
    runs_on_replicas = sampler in ("ladder", "nested")
    assert bool(answered(SAMPLERS, case, sampler)) or runs_on_replicas


@pytest.mark.parametrize(("case", "sampler"), thinned(forms("samplers"), 60, 53))
def test_every_dear_verb_of_a_sampler(case: FormCase, sampler: str):
    assert answered(DEAR_SAMPLERS, case, sampler)


@pytest.mark.parametrize(("case", "mask"), thinned(forms("masks"), 80, 4))
def test_every_verb_of_a_mask(case: FormCase, mask: str):
    answered(MASKS, case, mask)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "mask"), forms("masks"))
def test_every_dear_verb_of_a_mask(case: FormCase, mask: str):
    answered(DEAR_MASKS, case, mask)


# What the table found


@pytest.mark.parametrize(
    "ask",
    [lambda m, x: m.fit_path(x, "one"), lambda m, x: m.posterior(x, "one")],
    ids=["fit_path", "posterior"],
)
def test_what_takes_a_likelihood_names_what_a_network_lacks(ask: Callable[..., Any]):
    """Not an option that nobody stated, or a parameter that is not there."""
    case = FORM_CASES["network"]
    with pytest.raises(gm.GmlmError) as caught:
        ask(case.model, case.x)
    assert caught.value.codes == ("E742",)


@pytest.mark.slow
def test_a_path_whose_refit_is_no_minimum_says_so():
    """A latent model, whose pseudolikelihood curves down at the refit."""
    case = FORM_CASES["latent"]
    with pytest.raises(gm.GmlmError, match="no minimum") as caught:
        case.model.fit_path(case.x, "rated", 3, progress=False)
    assert caught.value.codes == ("E552",)


@pytest.mark.parametrize(("hessian", "refused"), [(np.diag([1.0, -1e-3]), True), (np.diag([4.0, 0.0]), False), (np.ones((2, 2)), False)])
def test_a_curvature_may_be_flat_and_not_negative(hessian: np.ndarray, refused: bool):
    if refused:
        with pytest.raises(gm.GmlmError, match="no minimum"):
            _path._verify_minimum(hessian)
    else:
        _path._verify_minimum(hessian)
