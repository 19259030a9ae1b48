"""A model among NumPyro's: its law as a distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax

from .. import derive
from ..data import encode_given
from ..evaluate import Contractions
from ..graph import with_given
from ..program import ir
from ._queries import Params, Queries

if TYPE_CHECKING:
    from ..posterior import GmlmDistribution, GmlmKernel, Law


class Posteriors(Queries):
    """The part of a `Model` that NumPyro, which is imported when it is first needed, works with."""

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

        The law of the cells given everything else must be the model's at these parameters: what else the NumPyro program makes depend on
        them must be factors of the model. Chains run by `chain_method="sequential"` or `"parallel"`, as NumPyro's Gibbs kernel asks.

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
