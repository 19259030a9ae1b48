"""A model among NumPyro's: its distribution as a distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax

from .. import derive
from .._diagnostics import fail
from ..data import bound_rows, encode_given
from ..evaluate import Contractions
from ..graph import with_given
from ..program import ir
from ._queries import Params, Queries

if TYPE_CHECKING:
    from ..posterior import GmlmDistribution, GmlmKernel, Law


class Posteriors(Queries):
    """The part of a `Model` that NumPyro, which is imported when it is first needed, works with."""

    if TYPE_CHECKING:

        def fit(self, *args: Any, **options: Any) -> Any:
            """See `Model.fit`."""

    def distribution(self, params: Params, given: Any = None) -> GmlmDistribution:
        """p(x) as a NumPyro `Distribution`: `log_prob` is normalised, `sample` draws exactly, latents are summed out.

        Both run inside `jax.jit`, `jax.vmap`, plates and NUTS, where the parameters are traced, and so may a value be.

        Args:
            params: parameters, arrays or what JAX traces; axes before a parameter's own are a batch, as NumPyro's distributions have.
            given: data of given variables, a row each: the batch is then that of its rows, and log Z is one for each.

        Returns:
            A distribution over one configuration: its event has the shape of the model's only `var`; of several, they are their cells one
            after another, which `unpack` takes apart and `pack` puts together. Values are integers: -1 and +1 of spins, 0 and 1 of
            bits, numbers of ranges, codes from 0 of letters and labels. What is no value of a cell has `log_prob` -inf.

        Raises:
            GmlmError: E601 with the cost where log Z, or the sum over the latents, is above the budget; E742 for a conditional model;
                E510, E506 and E501 for given data and parameters that do not fit.
        """
        from ..posterior import distribution

        return distribution(self._law(given), params)

    def numpyro_kernel(
        self, sampler: str | None = None, *, x: Any = None, params: Callable[[Mapping[str, Any]], Params] | None = None, given: Any = None
    ) -> GmlmKernel:
        """A sampler as a kernel for `numpyro.infer.Gibbs`: it redraws the cells that `x` lacks, given the parameters, and NUTS the rest.

            kernel = model.numpyro_kernel("alternate", x={"v": v})

            def program():
                W = numpyro.sample("W", ...)
                kernel.sites({"W": W, ...})      # the sites of the latents, and the factor log p(v, latents | W, ..)

            Gibbs([(kernel, kernel.names), (NUTS(program), None)])

        Args:
            sampler: the sampler's name; left out where the model has one. One run of its body is a step.
            x: a dict of the variables that data hold, each in all its cells, an array where that is the model's only `var`; none: no cell
                is known. All other variables are sites, of their own names and of shape (rows.., *axes).
            params: from the values of all other sites to parameters; none: the sites called like parameters.
            given: data of given variables, one row for each of x, or one for all.

        The distribution of the cells given everything else must be the model's at these parameters: what else the NumPyro program makes
        depend on them must be factors of the model. Chains run by `chain_method="sequential"` or `"parallel"`, as NumPyro's Gibbs kernel
        asks.

        Raises:
            GmlmError: E507 for a sampler under `temper`, or one that draws whole strings; E506 and E501 for data that do not fit.
        """
        from ..posterior import numpyro_kernel

        _, checked = self.sampler(sampler)
        if isinstance(checked.body, ir.FormCall):
            raise derive.no_chain(checked.body)
        law = self._law(given)
        lowered = self.lowered if law.data is None else with_given(self.lowered, law.data)
        known = {} if x is None else x if isinstance(x, Mapping) else {self.graph.observed[0].name: x}
        with jax.ensure_compile_time_eval():
            return numpyro_kernel(law, derive.build_kernel(lowered, checked).kernel, known, params)

    def posterior(
        self,
        x: Any,
        mask: str | None = None,
        *,
        draws: int = 1000,
        chains: int = 4,
        warmup: int = 500,
        seed: int = 0,
        weights: Any = None,
        missing: Any = None,
        given: Any = None,
        gaps: str = "sum",
    ) -> Any:
        """Draws of the parameters, those under `spike_slab` with whether each entry is in; see `gm.inclusion`.

        A model without such a prior is fitted, and its parameters drawn by `Fit.posterior`; one whose priors have fitted parameters for
        arguments, which has no mode, is drawn by NUTS on its `to_numpyro`, not calibrated. What follows is of the others.

        The target is exp(-c * sum over rows of w loss) times the priors, with c and the loss as in `fit`. Under `everything` that is the
        posterior. Under a pseudolikelihood mask it is not: the draws are labelled "not calibrated", their spread and the probabilities
        of being in are those of the pseudolikelihood, and may be too sure or too unsure.

        Args:
            x: rows.
            mask: the mask's name; left out where the model has one.
            draws: kept draws per chain.
            chains: number of chains; each starts with its own entries in, drawn from the prior.
            warmup: steps before the first draw, which adapt the step of the trajectories.
            seed: of chains, and of drawn masks.
            weights: one per row, multiplying its loss.
            missing: what stands for a missing cell, as in `fit`; such cells are summed out, and nothing is imputed.
            given: data of given variables, as in `fit`.
            gaps: "ignore" leaves missing cells out in place of summing them out; see `fit`.

        Returns:
            What the installed ArviZ takes: `posterior` with each parameter `J`, and 0/1 in `J_included` where its prior is `spike_slab`;
            `sample_stats` with `lp`, `switched` (the share of entries that changed) and `acceptance_rate`; `calibration` among the
            attributes.

        Raises:
            GmlmError: E601 with the cost where the draws, or missing cells, take too much; E552 where neither data nor priors determine
                some direction; E742 for a conditional model; what `fit` refuses, E706 aside.

        Reference: Mitchell and Beauchamp 1988; Gottardo and Raftery 2008.
        """
        from ..posterior import SampledOptions, draw_hierarchical, has_spikes, sample_posterior

        if self.graph.network is not None:
            raise derive.no_joint(self.graph)
        bound, rows = bound_rows(self.lowered, x, missing, given)
        if len(rows.shape) != 1:
            message = f"x must have one axis of rows before the variable's axes, got rows of shape {rows.shape}"
            raise fail("E501", message, help="one row is `x[None]`")
        if self.graph.hyperpriors and not has_spikes(self.graph):
            name, _ = self._mask(mask, bound)
            target = self.to_numpyro(x, mask, weights=weights, missing=missing, given=given, calibrate=None)
            options = SampledOptions(name, draws, warmup, chains, seed, weights, gaps)
            return draw_hierarchical(target, self.graph, options, self.program.provenance() | {"model": self.name})
        if not has_spikes(self.graph):
            fit = self.fit(x, mask, seed, weights=weights, missing=missing, given=given, impute=False, gaps=gaps)
            return fit.posterior(draws, chains, seed=seed, warmup=warmup)
        name, lowered = self._mask(mask, bound)
        weights = rows.matched(weights, "weights")
        options = SampledOptions(name, draws, warmup, chains, seed, weights, gaps)
        return sample_posterior(bound, lowered, rows.codes, options, self.program.provenance() | {"model": self.name})

    def _law(self, given: Any) -> Law:
        from ..posterior import Law

        with jax.ensure_compile_time_eval():  # what is kept outlives a function that is traced now
            found = encode_given(self.graph, given)
            if found is not None:
                lowered = with_given(self.lowered, found)
                return Law(lowered, Contractions(lowered.graph))
            key = str(derive.float_type())
            if key not in self._laws:
                self._laws[key] = Law(self.lowered, self._contractions)
            return self._laws[key]

    @cached_property
    def _laws(self) -> dict[str, Law]:
        return {}
