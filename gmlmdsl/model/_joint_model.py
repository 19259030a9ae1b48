"""A model with a joint distribution p(x), which is the normalised product of its factors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive, plan
from .._diagnostics import GmlmError, GmlmWarning, counted, fail, is_one_of, listed, tell, whole_number
from .._progress import shows_progress, waiting
from .._types import AnyArray, ArrayLike, Clamp, Given, JsonObject, Likelihood, Missing, ObserveLike, Place, Prompt, Rows
from ..data import (
    Data,
    at_once,
    bound_dataset,
    bound_mask,
    bound_once,
    bound_rows,
    cell_groups,
    clamped_cells,
    encode_given,
    evaluated,
    evidence_factors,
    in_row_order,
    is_traced,
    likelihoods,
    pieces_of,
    row_index,
    verified_seed,
)
from ..evaluate import (
    ApproximationGap,
    Chains,
    Marginals,
    MaxProduct,
    MeanField,
    Mode,
    SimulatedAnnealing,
    answer,
    approximate,
    approximation_method,
    configuration,
    decoder_bounds,
    exact,
    log_completions,
    marginal_gap,
    marginal_method,
    mode_gap,
    mode_method,
    named_conditionals,
    next_symbol,
    parameters,
    prefix_codes,
    substitution_effects,
    traced_completions,
    verified_level,
    verified_partition,
)
from ..evaluate import siblings as small_siblings
from ..fit import (
    WHOLE,
    Evidence,
    FitOptions,
    PersistentContrastiveDivergence,
    best_of_starts,
    estimate_to_fit,
    fit_in_pieces,
    fit_model,
    method_of,
    whole_mask,
)
from ..graph import FactorGraph, GivenRows, Lowered, with_given
from ..guided import GuidedOptions, refuse_guided
from ..masks import AbstractMask
from ..program import allowed, ir, is_decoder
from ..sample import (
    BridgeEstimate,
    BridgeOptions,
    SampleOptions,
    annealed_importance,
    bridge,
    prepare_chains,
    prepare_exact,
    run_chains,
    sampled_marginals,
    stored,
)
from ._fit import Fit
from ._model import Model, Params, labelled_by_columns

if TYPE_CHECKING:
    import optax
    import pandas as pd
    from jaxtyping import PyTree

    from ..assess import Path
    from ..evaluate import BeliefPropagation, Effects
    from ..fit import MonteCarloEM
    from ..guided import Oracle
    from ..posterior import BetaBernoulli, GmlmDistribution, GmlmKernel, Law, NumpyroModel, StochasticBlock


class JointModel(Model):
    """A model with a joint distribution p(x), proportional to the product of its factors.

    Each method is one call into a package that does the work.
    """

    def init_params(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Return the parameters at which a fit starts.

        Real parameters start at 0, positive parameters at 1, and simplex parameters at the uniform
        distribution. If the model has latents, noise with standard deviation 0.01 drawn from `seed`
        is added.
        """
        return {k: v.astype(derive.float_type()) for k, v in parameters.init_params(self.graph, seed).items()}

    # Exact probabilities

    def log_potential(self, params: Params, x: Rows, *, missing: Missing | None = None, given: Given | None = None) -> jax.Array:
        """Return the unnormalised log p of each row, the sum of all factors; shape (rows..).

        The value is -inf if a `require` fails.

        Args:
            params: the parameters.
            x: the configurations. JAX may trace them, as numbers, here and in `log_prob`; the value
                of a row with a number that no cell has is then nan.
            missing: the value that marks a missing cell, as in `fit`. Missing cells are summed out:
                the result is the log of the sum of exp(log p) over their values.
            given: the data of given variables, as in `fit`.

        Raises:
            GmlmError: E601 if the sum over a row's missing cells costs too much, E514 if a factor
                is nan or +inf.
        """
        lowered, rows = bound_rows(self.lowered, x, missing, given, may_be_traced=True)
        arrays = self._params(params, lowered, summed=False)
        if is_traced(rows.codes):
            return answer(traced_completions(lowered.graph, self._device(lowered), arrays, rows), rows.shape)
        kept, codes = self._contractions, rows.codes
        if lowered is self.lowered and self._counted is not kept and (codes < 0).any():
            # The partial sums of gates are summed out with the missing cells.
            kept, codes = self._counted, np.pad(codes, ((0, self._counted.graph.n_cells - len(codes)), (0, 0)), constant_values=-1)
        found = exact.log_sums_of_rows(kept, arrays, codes)
        if found is None:
            found = log_completions(lowered.graph, self._device(lowered), arrays, rows.codes)
        return answer(parameters.verified_answer(lowered.graph, found, jnp.inf), rows.shape)

    def log_partition(self, params: Params, *, given: Given | None = None, likelihood: Likelihood | None = None) -> jax.Array:
        """Return log Z, computed exactly by variable elimination.

        log Z is 0 if distributions cover every cell and the model has no other factor.

        Args:
            params: the parameters.
            given: the data of given variables, as in `fit`. With it, each row has its own log Z,
                and the result has shape (rows..).
            likelihood: uncertain evidence, as in `marginals`. The result is then the log of the sum
                of exp(log_potential) times the weights. Its difference from log Z without evidence
                is the log of the mean weight under p: the log probability of the evidence, if the
                weights are probabilities.

        Raises:
            GmlmError: E601 with the cost, before any work, if the cost is above the budget; E514 if
                a factor is nan or +inf.
        """
        if likelihood is not None:
            return self._given_evidence(likelihood).log_partition(params, given=given)
        found = encode_given(self.graph, given)
        lowered = self._bound(found)
        arrays = self._params(params, lowered)
        if self.graph.is_normalised:
            return derive.on_device(np.zeros(() if found is None else found.shape), derive.float_type())
        values = exact.log_partition(self._counted, self._device(lowered, counted=True), arrays, found)
        values = verified_partition(self.graph, parameters.verified_answer(self.graph, values, jnp.inf))
        return answer(values, () if found is None else found.shape)

    @at_once
    def annealed_log_partition(
        self,
        params: Params,
        sampler: str | None = None,
        *,
        betas: ArrayLike = 1000,
        steps_per_beta: int = 1,
        chains: int = 128,
        seed: int = 0,
        progress: bool | None = None,
    ) -> annealed_importance.LogPartitionEstimate:
        """Estimate log Z with its standard error by annealed importance sampling (Neal 2001).

        The chains start at uniform configurations (beta = 0) and end at p (beta = 1). At each beta,
        `sampler` takes `steps_per_beta` steps on p to the power beta.

        Args:
            params: the parameters.
            sampler: the sampler that moves the chains. If None, sweeps of single cells move them.
            betas: the powers of p, ascending from 0 to 1, or the number of equal steps from 0 to 1.
            steps_per_beta: the number of steps at each beta.
            chains: the number of chains.
            seed: the seed of the chains.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.

        Raises:
            GmlmError: E507 or E509 for options, samplers or models that the method cannot use.
        """
        checked = None if sampler is None else self.sampler(sampler)[1]
        options = annealed_importance.AnnealingOptions(betas, steps_per_beta, chains, seed)
        with waiting("annealed importance sampling", shows_progress(progress)):
            return annealed_importance.estimate(self.lowered, checked, self._known(params), options)

    @at_once
    def bridge_log_partition(
        self,
        params: Params,
        sampler: str | None = None,
        *,
        betas: ArrayLike = 32,
        draws: int = 100,
        warmup: int = 50,
        chains: int = 32,
        seed: int = 0,
        progress: bool | None = None,
    ) -> BridgeEstimate:
        """Estimate log Z with its standard error by bridge sampling (Shirts and Chodera 2008).

        Each chain starts at a uniform configuration (beta = 0). At each beta it takes `warmup`
        steps on p to the power beta, and then one step before each of its `draws`. The draws of all
        betas are joined by their overlaps, which gives log Z at every beta. The estimate assumes
        chains at equilibrium, which `annealed_log_partition` does not. The result says by how much
        log Z still drifts.

        Args:
            params: the parameters.
            sampler: the sampler that moves the chains. If None, sweeps of single cells move them.
            betas: the powers of p, ascending from 0 to 1, or the number of equal steps from 0 to 1.
            draws: the number of draws of each chain at each beta.
            warmup: the number of steps of each chain at each beta before its draws.
            chains: the number of chains, from whose differences the standard error comes.
            seed: the seed of the chains.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.

        Raises:
            GmlmError: E507 or E509 for options, samplers or models that the method cannot use.
        """
        checked = None if sampler is None else self.sampler(sampler)[1]
        with waiting("bridge sampling", shows_progress(progress)):
            return bridge(self.lowered, checked, self._known(params), BridgeOptions(betas, draws, warmup, chains, seed))

    def log_prob(
        self,
        params: Params,
        x: Rows,
        *,
        missing: Missing | None = None,
        given: Given | None = None,
        sampler: str | None = None,
        likelihood: Likelihood | None = None,
    ) -> AnyArray:
        """Return log p(x) = log_potential - log Z of each row; shape (rows..).

        If some cells of a row are `missing`, the result is log p of its observed cells. The value
        is -inf if p(x) = 0. If the model has given variables, the result is log p(x | given).

        If a `sampler` is named, the result is log p of the draws of that decoder. The places of
        each pass of the decoder must not depend on its draws. The result is then the sum along the
        only path that leads to the row.

        Args:
            params: the parameters.
            x: the configurations.
            missing: the value that marks a missing cell, as in `fit`.
            given: the data of given variables, as in `fit`.
            sampler: the name of a decoder. If None, the result is log p of the model.
            likelihood: uncertain evidence, as in `marginals`. The result is then log p(x | the
                evidence).

        Raises:
            GmlmError: E507, with a suggested fix, for a sampler with many paths to a row, and for a
                sampler together with `likelihood`.
        """
        if likelihood is not None:
            if sampler is not None:
                raise fail("E507", "log_prob: `likelihood` is of the model, and `sampler` of a decoder", help="leave one of them out")
            return self._given_evidence(likelihood).log_prob(params, x, missing=missing, given=given)
        if sampler is not None:
            return decoder_bounds.log_prob(self.lowered, self._denoising(params), x, self.sampler(sampler)[1], missing, given)
        given = in_row_order(self.graph, given, row_index(self.graph, x))
        parts = self.log_potential(params, x, missing=missing, given=given), self.log_partition(params, given=given)
        return parts[0] - parts[1] if is_traced(parts) else answer(np.asarray(parts[0]) - np.asarray(parts[1]))

    def log_conditional(
        self, params: Params, x: Rows, K: Sequence[int] | int, mask: str | None = None, *, given: Given | None = None
    ) -> jax.Array:
        """Return the table log p(x_K | x_rest), or log p(x_K | x_rest, K) if `mask` is given.

        log p(x_K | x_rest, K) is proportional to p(x) p(K | x).

        Args:
            params: the parameters.
            x: the configurations; their values in K have no effect.
            K: the positions of cells, see `positions`.
            mask: the mask that drew K.
            given: the data of given variables, as in `fit`.

        Returns:
            An array of shape (rows.., values of the first member, values of the second, ..), with
            the members of K in ascending order. Entries are -inf at impossible values, and nan if
            the rest itself is impossible.

        Raises:
            GmlmError: for positions that do not exist, a K outside the mask's support, or a block
                that is too costly to enumerate.

        Warns:
            GmlmWarning: W901 if no `mask` is given and only data-dependent masks draw K.

        Reference: Li et al. 2024, Definition 7.
        """
        lowered, rows = bound_rows(self.lowered, x, None, given)
        drawn = None if mask is None else self._mask(mask, lowered)
        table = named_conditionals.log_conditional(lowered, self._params(params, lowered), rows.codes, K, drawn)
        if mask is None:
            self._warn_plain(K)
        return answer(table, (*rows.shape, *table.shape[1:]))

    def marginals(
        self,
        params: Params,
        clamp: Clamp | None = None,
        given: Given | None = None,
        over: Sequence[Sequence[Place]] | None = None,
        *,
        x: Rows | None = None,
        missing: Missing | None = None,
        method: BeliefPropagation | MeanField | Chains | str | None = None,
        likelihood: Likelihood | None = None,
    ) -> Marginals:
        """Return p(x_i = v | known cells) of every cell, or joint distributions of groups of cells.

        The answer is exact unless a `method` is named.

        Args:
            params: the parameters. JAX may trace them, unless a `method` is named: the answer can
                then be differentiated, and it is nan where no configuration agrees with the known
                cells.
            clamp: cells or whole variables held at values, as in `sample`. A clamped cell has
                probability 1 at its value.
            given: the data of given variables, as in `fit`.
            over: groups of cells whose joint distributions are computed, such as `[("a", "b"),
                (("x", 0), ("x", 3))]`. A cell is the name of a variable of one cell, or a pair of a
                name and a place.
            x: rows of data, as in `fit`, in place of `clamp`. The known cells of each row are held,
                and the marginals of latents and missing cells are computed. JAX may trace rows that
                lack latents only, as numbers.
            missing: the value that marks a missing cell of x, as in `fit`.
            method: None for the exact answer; "belief-propagation" or "mean-field" for approximate
                ones of single cells given one set of known cells, at the cost of a few hundred
                sweeps; "chains" for their shares in draws, with standard errors.
                `gm.BeliefPropagation(damping=0.5)`, `gm.MeanField(..)` and
                `gm.Chains("sampler", draws=5000, seed=1)` have options.
            likelihood: uncertain evidence ("virtual evidence"): by variable, weights of shape
                (*axes, values), or a dict from places to weights of shape (values,). A weight is
                proportional to the probability of what was seen, if the cell has that value. The
                answer is that of the distribution proportional to p times these weights, in all
                rows of x.

        Returns:
            A dict by variable, latents included, of arrays of shape (*axes, values) with the values
            in domain order. Rows of x or of given data come before these axes. With `over`, a dict
            by group of arrays of shape (values of the first cell, .., values of the last cell). It
            prints with names of cells and values. `labels` has the values of each variable as
            texts, and `table(name)` is a data frame; where JAX traces something, the dict is a
            plain one. With a `method`, the dict has attributes: its `kind`, `is_exact`,
            `converged`; for chains `standard_error`, `r_hat` and `warnings`, otherwise
            `log_partition` (the Bethe value or the lower bound of the mean field), `iterations` and
            `residual`.

        Raises:
            GmlmError: E601 with the cost if no plan is affordable; E512 if no configuration agrees
                with the known cells; E507 for a group that does not consist of cells, an unknown
                method, and a method together with `x` or `over`.

        Warns:
            GmlmWarning: if a method has not converged.

        Reference: Pearl 1988; Yedidia, Freeman and Weiss 2005; Wainwright and Jordan 2008.
        """
        with evaluated([params, x]):
            return self._marginals(params, clamp, given, over, x, missing, method, likelihood)

    def _marginals(
        self,
        params: Params,
        clamp: Clamp | None,
        given: Given | None,
        over: Sequence[Sequence[Place]] | None,
        x: Rows | None,
        missing: Missing | None,
        method: BeliefPropagation | MeanField | Chains | str | None,
        likelihood: Likelihood | None,
    ) -> Any:
        if likelihood is not None:
            return self._given_evidence(likelihood)._marginals(params, clamp, given, over, x, missing, method, None)
        if method is not None:
            chosen = marginal_method(method)
            if x is not None or over is not None:
                message = f"marginals: `method={chosen.name!r}` is of single cells given one `clamp`; `x` and `over` are exact only"
                raise fail("E507", message, help="call it once for each row, with the known cells in `clamp=`; or leave `method` out")
            lowered = bound_once(self.lowered, given, "an approximation")
            if isinstance(chosen, Chains):
                sampler = None if chosen.sampler is None else self.sampler(chosen.sampler)[1]
                if sampler is not None and sampler.call is not None:
                    raise derive.no_chain(sampler.call)
                return sampled_marginals(lowered, sampler, self._known(params, lowered), clamp, chosen)
            graph = lowered.graph if isinstance(chosen, MeanField) or lowered is not self.lowered else self._tabled(self._counted)
            asked = graph, self._known(params, lowered), clamp, lowered.data, chosen, self.graph.n_cells
            found = approximate.approximate_marginals(*asked)
            return found.only(v.name for v in self.graph.variables)
        if x is not None:
            _verify_alone("marginals", clamp=clamp, over=over)
            given = given if is_traced(x) else in_row_order(self.graph, given, row_index(self.graph, x))
            lowered, rows = bound_rows(self.lowered, x, missing, given, may_be_traced=True)
            tables = exact.marginals_of_rows(*self._elimination(params, lowered), rows)
        else:
            found = encode_given(self.graph, given)
            asked = *self._elimination(params, self._bound(found)), clamp, found
            if over is not None:
                groups = cell_groups(self.graph, over)
                return self._told({group: exact.joint_marginals(*asked, cells) for group, cells in groups.items()})
            tables = exact.marginals(*asked)
        return self._told({v.name: tables[v.name] for v in self.graph.variables})

    def _told(self, tables: Mapping[Any, np.ndarray]) -> Any:
        """Return tables with the names of values; traced ones in a plain dict, which JAX takes."""
        return tables if is_traced([*tables.values()]) else Marginals(tables, self.graph.variables)

    @at_once
    def map(
        self,
        params: Params,
        clamp: Clamp | None = None,
        given: Given | None = None,
        *,
        x: Rows | None = None,
        missing: Missing | None = None,
        method: MaxProduct | SimulatedAnnealing | str | None = None,
        seed: int = 0,
        likelihood: Likelihood | None = None,
    ) -> Mode:
        """Return a most probable configuration given the known cells, and its log_prob.

        The configuration is proven to be one unless a `method` is named.

        Args:
            params: the parameters.
            clamp: cells or whole variables held at values, as in `sample`.
            given: the data of given variables, as in `fit`.
            x: rows of data, as in `fit`, in place of `clamp`. The known cells of each row are held,
                and its latents and missing cells have most probable values. One program serves all
                rows. The answers are exact only.
            missing: the value that marks a missing cell of x, as in `fit`.
            method: None for the exact answer; "max-product" or "anneal" for a search, whose result
                is a local optimum: no change of a single cell makes it more probable.
                `gm.MaxProduct(..)` and `gm.SimulatedAnnealing(sweeps=1000)` have options.
            seed: the seed of annealing, and of the random starts of max-product.
            likelihood: uncertain evidence, as in `marginals`. The configuration maximises p times
                its weights, and both numbers of the result are without them.

        Returns:
            A pair. The first element is the configuration: an array if the model has one variable,
            else a dict (latents included), with letters and labels as codes; `labels` has them as
            texts. Rows of x or of given data come before the axes of a variable. If several
            configurations are equally probable, every run returns the same one. The second element
            is log p of the configuration, shape (rows..), or nan if log Z is not affordable. The
            pair has attributes: `labels`, `log_potential`, its `kind`, and `is_proven`, which is
            False if a more probable configuration may exist.

        Raises:
            GmlmError: E601 with the cost if no plan is affordable, or if a factor is too large for
                a search; E512 if no configuration agrees with the known cells, or if a search finds
                none of positive probability; E507 for an unknown method, and for `x` together with
                `clamp` or `method`.

        Reference: Pearl 1988; Kirkpatrick, Gelatt and Vecchi 1983.
        """
        seed, told = verified_seed(seed), self if likelihood is None else self._given_evidence(likelihood)
        if x is not None:
            _verify_alone("map", clamp=clamp, method=method)
            given = in_row_order(self.graph, given, row_index(self.graph, x))
        if method is not None:
            codes, value, kind, is_proven = told._searched(params, clamp, given, mode_method(method), seed)
            shape, log_z = (), self._log_partition_or_nan(params, given, approximate.MOST_BESIDE_A_SEARCH)
        else:
            if x is None:
                codes, value = told._best(params, clamp, given)
            else:
                codes, value = told._best_of_rows(params, x, missing, given)
            shape, kind, is_proven, log_z = value.shape, "exact", True, self._log_partition_or_nan(params, given)
        if likelihood is not None:
            levels = likelihoods(self.graph, likelihood)
            value = value - levels[np.arange(len(levels))[:, None], codes[: len(levels)]].sum(axis=0).reshape(shape)[()]
        found, labels = (configuration(self.graph, codes, shape, texts) for texts in (False, True))
        return Mode(found, value - log_z, value, labels, kind, is_proven)

    def _searched(
        self, params: Params, clamp: Clamp | None, given: Given | None, method: MaxProduct | SimulatedAnnealing, seed: int
    ) -> tuple[np.ndarray, float, str, bool]:
        """Return the codes (cells, 1), the unnormalised log p, the kind, and whether it is proven."""
        lowered = bound_once(self.lowered, given, "a search")
        summed = isinstance(method, MaxProduct) and lowered is self.lowered
        graph, n = self._tabled(self._maximised) if summed else lowered.graph, self.graph.n_cells
        return approximate.approximate_mode(graph, self._known(params, lowered), clamp, lowered.data, method, seed, n)

    def _best(self, params: Params, clamp: Clamp | None, given: Given | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes (cells, rows), and the unnormalised log p of rows."""
        found = encode_given(self.graph, given)
        codes, value = exact.best(*self._elimination(params, self._bound(found), maximised=True), clamp, found)
        return codes, np.asarray(value).reshape(() if found is None else found.shape)[()]

    def _best_of_rows(self, params: Params, x: Rows, missing: Missing | None, given: Given | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes (cells, rows), and the unnormalised log p of the rows of x."""
        lowered, rows = bound_rows(self.lowered, x, missing, given)
        codes, value = exact.modes_of_rows(*self._elimination(params, lowered, maximised=True), rows)
        return codes, value.reshape(rows.shape)[()]

    def approximation_gap(
        self,
        params: Params,
        method: BeliefPropagation | MeanField | Chains | MaxProduct | SimulatedAnnealing | str,
        clamp: Clamp | None = None,
        given: Given | None = None,
        *,
        siblings: int = 5,
        cells: int | None = None,
        warmup: int = 200,
        seed: int = 0,
    ) -> ApproximationGap:
        """Compare a method of `marginals` or `map` with exact answers on small siblings.

        A sibling is the model given all cells but a few, which are connected by factors. The known
        cells have the values of a chain of single-cell updates after its warm-up. A large gap warns
        of the method. A small one is no proof, because a sibling has fewer and shorter cycles.

        Args:
            params: the parameters.
            method: as in `marginals` or `map`.
            clamp: cells or whole variables held at values.
            given: the data of given variables, one row.
            siblings: the number of siblings, each from a chain of its own.
            cells: the largest number of free cells of a sibling; None for as many as are summed
                within about a second.
            warmup: the number of sweeps of each chain.
            seed: the seed of chains, free cells and annealing.

        Returns:
            An `ApproximationGap`: `largest` and `mean` for each sibling, the names of its free
            `cells`, and a `summary`.

        Raises:
            GmlmError: E601 if a sibling is too costly to sum; E507 for an unknown method or for
                numbers below 1.
        """
        chosen = approximation_method(method)
        count, cells = whole_number("siblings", siblings, 1), None if cells is None else whole_number("cells", cells, 1)
        lowered = bound_once(self.lowered, given, "an approximation")
        options = SampleOptions("sweep", 1, warmup, count, 1, seed, clamp, None, None, keep_draws=True, progress=False)
        run = run_chains(lowered, None, self._known(params, lowered), options)
        if run.held[: self.graph.n_random].all():
            raise fail("E507", "approximation_gap: every cell is clamped", help="leave cells free in `clamp=`")
        assert run.draws.codes is not None
        rng = np.random.default_rng(verified_seed(seed))
        asked = list(small_siblings(self.graph, run.draws.codes[:, 0], run.held, cells, rng))
        if isinstance(chosen, MaxProduct | SimulatedAnnealing):
            values = ((self._best(params, known, given)[1], self._searched(params, known, given, chosen, seed)[1]) for _, known in asked)
            pairs = [(free, float(np.ravel(a)[0]), float(b)) for (free, _), (a, b) in zip(asked, values, strict=True)]
            return mode_gap(chosen.name, self.graph, pairs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a method says of a sibling shows in its gap
            pairs = ((self.marginals(params, c, given), self.marginals(params, c, given, method=chosen)) for _, c in asked)
            tables = [(free, *pair) for (free, _), pair in zip(asked, pairs, strict=True)]
        return marginal_gap(chosen.name, self.graph, tables)

    @at_once
    def next_symbol(self, params: Params, prefix: ArrayLike, *, given: Given | None = None) -> np.ndarray:
        """Return p(x_t = v | x_0, .., x_(t-1)) for the first cell t that a prefix lacks.

        Latents and later cells are summed out.

        Args:
            params: the parameters.
            prefix: the first t cells of the model's only `var` in row-major order, as values or
                labels, of shape (rows.., t). Letters may also be one string per row. t is below the
                number of cells and may be 0, which gives the shape (rows.., 0).
            given: the data of given variables, as in `fit`.

        Returns:
            An array of shape (rows.., values) whose rows sum to 1. A row is nan if its prefix is
            impossible, and a warning is then issued. A second call with a different t compiles
            nothing.

        Raises:
            GmlmError: E507 for a model with several `var`s or a prefix that is too long, E601 with
                the cost if no plan is affordable.

        Warns:
            GmlmWarning: with the first prefix that has probability 0.
        """
        found = encode_given(self.graph, given)
        codes, cell, lead = prefix_codes(self.graph, prefix, None if found is None else found.shape)
        lowered = self._bound(found)
        table = next_symbol(self._contractions, self._device(lowered), self._known(params, lowered), codes, cell)
        bad = np.flatnonzero(np.isnan(table).any(axis=1))
        if len(bad):
            first = f"; the first is row {bad[0]}" if len(table) > 1 else ""
            some = f"{len(bad)} of {counted(len(table), 'row')}"
            why = f"{some} with a prefix of probability 0: nothing follows it, and the answer is nan{first}"
            tell(why, GmlmWarning)
        return table.reshape(*lead, table.shape[1])

    @at_once
    def effects(
        self,
        params: Params,
        wildtype: Rows,
        doubles: Iterable[Sequence[int | str]] | pd.DataFrame | None = None,
        *,
        missing: Missing | None = None,
        given: Given | None = None,
        progress: bool | None = None,
    ) -> Effects:
        """Return log p(mutant) - log p(wildtype), in nats, for substitutions in one configuration.

        The result covers every single substitution, and every double substitution at chosen pairs
        of cells. log Z cancels, so only the factors that touch the substituted cells contribute.
        The result is therefore exact whatever the size of the model, the arity of its factors and
        its domains.

        Args:
            params: the parameters.
            wildtype: one configuration, like a row of `fit` without the axis of rows.
            doubles: pairs of cells, given as positions or names such as `("x[0]", "x[3]")`, or a
                table with columns `first` and `second`, such as `fit.couplings(top=10)`. If None,
                no double substitutions are computed.
            missing: the value that marks a missing cell, as in `fit`. Missing cells, and latents
                that `wildtype` lacks, are summed out.
            given: one row of data of given variables, without an axis of rows.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.

        Returns:
            An `Effects` object. `singles` is an array of shape (cells, values), and `table` is a
            DataFrame of the same effects. `doubles` and `double_table` cover the double
            substitutions. Their `epistasis` is the effect of the double substitution minus the
            effects of both single ones. An effect is -inf if the mutant is impossible.
            `gmlmdsl.report.plot_effects` draws the singles.

        Raises:
            GmlmError: E508 if the wildtype is impossible. E506 and E507 for rows or pairs that do
                not exist. E601 if summing out missing cells costs too much. E742 for a conditional
                model.

        Reference: Hopf et al. 2017, equation 3.
        """
        lowered, rows = self._wildtype(wildtype, missing, given)
        if rows.shape:
            message = f"wildtype: effects are of one configuration, without an axis of rows; got rows of shape {rows.shape}"
            raise fail("E501", message, help="call it once for each row: `x[0]`")
        with waiting("effects of substitutions", shows_progress(progress)):
            return substitution_effects(lowered.graph, self._params(params, lowered), rows.codes, doubles)

    def loss(
        self,
        params: Params,
        x: Rows,
        mask: str | None = None,
        *,
        weights: ArrayLike | None = None,
        key: jax.Array | int | None = None,
        n_masks: int | None = None,
        missing: Missing | None = None,
        given: Given | None = None,
    ) -> jax.Array:
        """Return the mean over rows (weighted) and masks of -log p(x_K | x_rest[, K]).

        The loss of a mask is joint over K and is never divided by |K|.

        Args:
            params: the parameters.
            x: the rows. JAX may trace them, as in `log_potential`.
            mask: the mask's name.
            weights: one weight per row.
            key: a JAX key or a seed. With `n_masks`, that many masks per row are drawn instead of
                averaging over all masks. The value of the key must be known: inside a compiled
                function, the masks would be drawn once, with the key at compilation.
            n_masks: the number of masks per row.
            missing: the value that marks a missing cell, as in `fit`. Missing cells are summed out
                of both p(x_K, x_rest) and p(x_rest).
            given: the data of given variables, as in `fit`.

        Raises:
            GmlmError: E511 for missing cells under a data-dependent mask. E601 if summing out
                missing cells costs too much. E602 without `key` and `n_masks` if the mask has more
                blocks than the limit. E514 if a factor is nan or +inf.

        Reference: Li et al. 2024, Definitions 2 and 7.
        """
        lowered, rows = bound_rows(self.lowered, x, missing, given, may_be_traced=True)
        known, weights = self._params(params, lowered), rows.matched(weights, "weights")
        found = named_conditionals.loss(lowered, self._mask(mask, lowered), known, rows, weights, key, n_masks)
        return parameters.verified_answer(lowered.graph, found, -jnp.inf)

    @at_once
    def transition_matrix(self, params: Params, sampler: str | None = None, *, given: Given | None = None) -> np.ndarray:
        """Return one run of a sampler's body as a matrix over all configurations.

        The matrix is float64, its rows sum to 1, and the first position varies slowest.

        Args:
            params: the parameters.
            sampler: the sampler's name; it may be left out if the model has only one.
            given: one row of data of given variables, without an axis of rows.

        Raises:
            GmlmError: E601 for more configurations than the limit.
        """
        _, checked = self.sampler(sampler)
        if checked.call is not None:
            raise derive.no_chain(checked.call)
        lowered = bound_once(self.lowered, given, "a transition matrix")
        with jax.enable_x64(True):
            return derive.Transitions(lowered, self._known(params, lowered)).matrix(checked.kernels)

    @at_once
    def sampler_bias(self, params: Params, sampler: str | None = None, *, given: Given | None = None) -> float:
        """Return the total variation distance between a sampler's stationary distribution and p.

        The distance is max over sets A of |pi(A) - p(A)| = 1/2 sum over x of |pi(x) - p(x)|. pi is
        the stationary distribution of `transition_matrix`, computed in float64. The distance lies
        between 0 and 1 and has no unit.

        It is 0 up to rounding if every update leaves p invariant. An update drawn `independently`
        leaves p invariant only if no two cells of a block interact.

        Returns:
            The total variation distance. It is nan if the chain has several stationary
            distributions, so that its long run depends on the start.

        Raises:
            GmlmError: E601 for more configurations than 2048.

        Reference: Li et al. 2024, Definition 11 (the independent update).
        """
        from ..derive import sampler_bias

        _, checked = self.sampler(sampler)
        sampler_bias.verify_small(self.graph)
        lowered = bound_once(self.lowered, given, "the bias of a sampler")
        matrix = self.transition_matrix(params, checked.name, given=given)
        with jax.enable_x64(True):
            return sampler_bias.total_variation(lowered.graph, parameters.as_params(lowered.graph, params), matrix)

    @at_once
    def export(
        self,
        params: Params,
        path: str | os.PathLike[str],
        *,
        clamp: Clamp | None = None,
    ) -> tuple[str, ...]:
        """Write the model at given parameters as a file of another tool.

        The ending of the path names the format. `.bif` (BIF) and `.xmlbif` or `.xml` (XMLBIF 0.3)
        take Bayesian networks: each cell has one `~` statement, and nothing else stands in the
        model. `.uai` takes every model whose factors fit into tables; the log Z of the file is that
        of the model. `.json` and `.coo` are binary quadratic models of dimod, whose energy is minus
        log p. `.model` (plmc) and `.dat` (adabmDCA) are Potts models: all cells have the same
        values, and each factor is finite and has one or two cells. `gm.read_model` reads each of
        them.

        Args:
            params: the parameters.
            path: the file, which is written completely or not at all.
            clamp: for `.uai`, known cells, as in `marginals`. They are written as evidence into a
                second file, whose name has `.evid` behind it (`ring.uai.evid`). The first file is
                that of the model without them.

        Returns:
            What was changed on the way, a sentence each: what the format cannot hold.

        Raises:
            GmlmError: E534 for a model that the format cannot hold. E535 for tables that are too
                large. E560 for another file ending, and for a file that cannot be written. E507 for
                `clamp` with another format; E502, E506 or E507 for cells or values that the model
                does not have.
        """
        from ..exchange import evidence_path, most_numbers, verified_ending, verify_tables, write_model

        known = None
        if clamp is not None:
            evidence_path(path)
            held, codes = clamped_cells(self.graph, clamp)
            known = {cell: int(codes[cell]) for cell in np.flatnonzero(held).tolist()}
        verify_tables(self.graph, most_numbers(verified_ending(path)))
        with jax.enable_x64(True):
            values = {name: np.asarray(value) for name, value in self._known(params).items()}
        return write_model(self.graph, values, self.name, path, known)

    # Fits, draws and posteriors

    @derive.under_automatic_mesh
    @labelled_by_columns
    def fit(
        self,
        x: Rows,
        mask: str | None = None,
        seed: int = 0,
        n_masks: int | str | None = None,
        weights: ArrayLike | None = None,
        missing: Missing | None = None,
        given: Given | None = None,
        init: Params | None = None,
        fixed: Params | None = None,
        optimizer: optax.GradientTransformation | None = None,
        batch_size: int | None = None,
        *,
        max_steps: int | None = None,
        weights_are: str = "importances",
        progress: bool | None = None,
        impute: bool | None = None,
        method: PersistentContrastiveDivergence | MonteCarloEM | str | None = None,
        gaps: str = "sum",
        starts: int = 1,
        level: float | None = None,
        mesh_axis: str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        rows_at_once: int | None = None,
    ) -> Fit:
        """Minimise c * sum over rows of w loss_r - log prior over the parameters.

        The factor c is (cells the mask can reach) / E|K|, and w is the weight of a row. Masks of
        one cell therefore give the penalised pseudolikelihood, and `everything` gives the usual
        penalised maximum likelihood.

        Args:
            x: the rows. If the program has no labels for the cells, the fit takes those of the
                columns of a frame.
            mask: the mask's name; it may be left out if the model has only one.
            seed: the seed of drawn masks and minibatches.
            n_masks: the number of masks per row. None averages over every mask for every row if
                there are at most 4096 masks; "all" always does. Otherwise that many masks per row
                (1 if None) are drawn once and kept.
            weights: one weight per row, which multiplies its loss. `weights_are` decides how
                standard errors use the weights.
            missing: the value that marks a missing cell: a number or text outside the domain, nan
                for nan and None, or a dict of such values by variable. With such a value, a variable
                that x leaves out is missing in every row. Missing cells are summed out of both
                p(x_K, x_rest) and p(x_rest). A row without an observed cell in K scores 0. This is
                right if cells are missing completely at random, or if the mask is
                `everything`; if cells are only missing at random, see `impute`. Entries that
                `numpy.ma` masks are always missing cells. nan, None and `pandas.NA` are errors
                unless `missing` is nan.
            given: the data of given variables, a dict of arrays by name. Like x, each array has one
                row for each row of x; without rows it applies to all rows.
            init: the starting values of some parameters.
            fixed: values at which some parameters are held.
            optimizer: an optax transformation. If None, full-batch L-BFGS with a line search runs
                in float64; if there are many rows, its first steps run in float32.
            batch_size: the number of rows per step of `optimizer`. If None, each step uses all
                rows.
            max_steps: the maximum number of steps.
            weights_are: "importances" or "counts". With "counts", a row of weight 3 counts as three
                rows, in standard errors too.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.
            impute: the treatment of rows whose missing cells cost too much to sum out. None: these
                cells are drawn inside the fit by block dynamics (Monte Carlo EM). True: the missing
                cells of all rows are drawn. False: such rows raise an error with the cost.
            method: the fitting method. None: the exact objective, in which latents that x lacks are
                summed out; it raises an error if that costs too much. `gm.MonteCarloEM()`: latents
                are drawn inside the fit. `gm.PersistentContrastiveDivergence()`: the likelihood is
                maximised by chains, and `mask` may be left out. "mcem" and "pcd" stand for the
                latter two with their defaults.
            gaps: "sum" or "ignore". With "sum", missing cells are summed out, as `missing`
                describes. With "ignore", missing cells are left out, as the option `-g` of plmc
                does. The term of K is then -log p_O(x_(K and O) | x_(O - K)). O is the set of
                observed cells of a row, and p_O is the product of the factors whose cells are all
                in O. "ignore" is quick and convex, but the term is not a conditional of p if a
                missing cell is a neighbour. "ignore" raises an error for latents that x lacks, and
                for missing cells of a `require` or of a data-dependent mask. It cannot be combined
                with `impute` or `method`.
            starts: the number of fits, of which the one with the lowest objective is returned. The
                first fit starts as usual. The others start at independent standard normal values of
                the unbounded coordinates, except for the parameters in `init`. Use about 20 for
                models with latents, whose objective has several minima. `print(fit)` and
                `fit.starts` state how many starts reach the lowest objective within 0.01 nats, and
                how many of these have other parameters. The parameters may differ because
                exchanging the values of a latent leaves the objective unchanged (label switching).
            level: the probability of the intervals of the fit and of its checks, if a method gets
                no other one. If None, it is 0.94. `fit.with_level` changes it later.
            mesh_axis: an axis of the ambient mesh of devices, over which the rows of a full-batch
                fit are spread: `with jax.set_mesh(jax.make_mesh((4,), ("data",))):` and
                `mesh_axis="data"`. Sums over rows then differ from those on one device by rounding.
            checkpoint: a folder for the state of the fit, which is saved every 30 seconds. The
                same call goes on after the process was killed, with an equal result. SIGTERM and
                Ctrl-C save the state first. The folder is removed when the fit is done. Of several
                processes, only the first one uses the folder.
            rows_at_once: the number of rows that are in memory at a time. x may then be an array on
                disk, such as `numpy.load(path, mmap_mode="r")` or a Zarr array, a dict of such
                arrays, or the path of a Parquet file. It is read once for each evaluation of the
                objective. The fit starts at the estimate of the first rows. Rows must be complete,
                and the fit keeps none of them.

        Returns:
            A `Fit` with estimates, sandwich standard errors, and a status with remedies.

        Raises:
            GmlmError: for data, options or a mask that do not fit, an impossible row, or a cost
                above the budget.

        Reference: Li et al. 2024, Definitions 2 and 7, Lemma 1.
        """
        seed = verified_seed(seed)
        method = method_of(method)
        if rows_at_once is not None:
            if missing is not None or given is not None or starts != 1:
                help = "leave out `missing=`, `given=` and `starts=`"
                raise fail("E507", "`rows_at_once=` takes complete rows and one start", help=help)
            pieces, bound = pieces_of(x, rows_at_once), self.lowered
        else:
            pieces = None
            bound, rows = bound_dataset(self.lowered, x, missing, given)
            weights = rows.matched(weights, "weights")
        whole = mask is None and isinstance(method, PersistentContrastiveDivergence)
        name, lowered = (WHOLE, whole_mask(self.graph)) if whole else self._mask(mask, bound)
        asked = name, seed, n_masks, weights, init, fixed, optimizer, batch_size, max_steps, progress, impute, weights_are, method
        options = FitOptions(*asked, gaps=gaps, mesh_axis=mesh_axis, checkpoint=checkpoint)
        level = None if level is None else verified_level(level)
        meta = self._meta(seed) | ({} if level is None else {"level": level})
        if pieces is not None:
            estimate = fit_in_pieces(bound, lowered, pieces, options)
        elif (count := whole_number("starts", starts, 1)) == 1:
            estimate = fit_model(bound, lowered, rows.codes, options, rows.index)
        else:
            estimate, told = best_of_starts(bound, lowered, rows.codes, options, count, rows.index)
            meta["starts"] = told.as_meta
        return estimate_to_fit(Fit, estimate, self.graph, meta, lambda: self, derive.float_type())

    @labelled_by_columns
    def fit_path(
        self,
        x: Rows,
        mask: str | None = None,
        penalty: ArrayLike | None = None,
        criterion: str = "ebic",
        gamma: float | None = None,
        rule: str | None = None,
        *,
        on: Sequence[str] | None = None,
        folds: int = 10,
        subsamples: int = 100,
        threshold: float = 0.75,
        wrong: float = 1.0,
        seed: int = 0,
        weights: ArrayLike | None = None,
        missing: Missing | None = None,
        given: Given | None = None,
        gaps: str = "sum",
        progress: bool | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Path:
        """Fit under a range of penalties on couplings, and choose one fit by a criterion.

        The penalties hold couplings at 0: the fits range from no couplings to many. Each fit
        minimises (c * sum over rows of w loss - log prior) / (sum of w) + penalty * sum over
        couplings g of sqrt(d_g) ||theta_g||. theta_g are the d_g entries of parameters that stand
        in the tables of the same pairs. The penalty is the lasso if a coupling is one number, and
        the group lasso if it is a table. Each fit starts at the previous one. All fits share one
        compiled program, those of refits, folds and half samples included.

        Args:
            x: the rows. As in `fit`, they may label the cells.
            mask: the mask's name; it may be left out if the model has only one.
            penalty: the penalties, or their number (2 or more, from the smallest penalty without
                couplings to a hundredth of it). If None, the number is 30, or 100 with "stability"
                and "elasso".
            criterion: "ebic", "elasso", "cv" or "stability". "ebic" chooses the minimum of 2 c n
                loss + k (log n + 2 gamma log(candidates)). The couplings that are not 0 are
                refitted without the penalty, which gives the loss. n is the sum of w, and
                `candidates` is the number of couplings. k is the couplings' degrees of freedom,
                tr(H^-1 S) minus the same trace without couplings. H is the Hessian of the summed
                loss, and S is the covariance of its gradient. For a likelihood k is the number of
                couplings; for a pseudolikelihood it is up to twice that number, since a pair is in
                two conditionals. "elasso" is the criterion of IsingFit: each block has its own
                regression (a rule, "and" if none is given), EBIC takes the loss of the penalised
                fit, and k is the number of free directions. The penalty of a coupling is then
                multiplied by a number proportional to the root of the curvature of the loss along
                it, without fields. In a logistic regression this is the standard deviation of the
                predictor, as in glmnet. Penalties fall to 1e-4 of the largest, or to a hundredth
                with fewer rows than couplings of a block. Leave priors out of the program for the
                numbers of IsingFit. "cv" chooses the minimum loss of left-out rows. "stability"
                chooses the couplings that a share `threshold` of the half samples select.
            gamma: the parameter gamma of EBIC: 0 gives BIC, and larger values choose fewer
                couplings. If None, it is 0.5, or 0.25 with "elasso".
            rule: None, "and" or "or". None: one fit covers all blocks of the mask. "and" and "or":
                each block's conditional is fitted separately, with its own parameters, penalties
                and choice. n and candidates are then those of the block, c is 1, and k is the
                number of free directions. A coupling is present if all blocks that see it have
                chosen it ("and") or if some have ("or"). For single cells these fits are the
                neighbourhoods of Meinshausen and Buhlmann. With "elasso" they are those of IsingFit.
            on: the names of the penalised parameters. If None, these are the real parameters in
                factors of two or more cells.
            folds: the number of folds of "cv".
            subsamples: the number of half samples of "stability", in complementary pairs.
            threshold: the share of half samples that must select a stable coupling, above a half.
            wrong: for "stability", a limit on the expected number of wrongly stable couplings. The
                penalties decrease until its bound reaches this limit.
            seed: the seed of folds and half samples.
            weights: one weight per row.
            missing: see `fit`; cells that cost too much to sum out raise an error.
            given: the data of given variables, as in `fit`.
            gaps: see `fit`; a rule can be combined with "ignore".
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.
            checkpoint: a folder for the fits that are done, as in `fit`; the fit under way begins
                anew.

        Returns:
            A `Path` with `.table`, `.chosen_couplings`, `.params` and `.selected`. `.network()` is
            the table of the chosen model's couplings, and `.refit()` fits it without the penalty.
            With "stability" the path also has `.stable` and `.error_bound`. H and S are evaluated
            once, at the refit that would be chosen if cells were independent; above 2000
            parameters, k is its value under that independence. Models that could not win even with
            the loss of the last model are not refitted.

        Raises:
            GmlmError: E506 and E507 for options. E555 if nothing can be penalised. E601 for too
                many copies. E552 if the refit of a latent model is not a minimum. E742 for a
                conditional model. All errors of `fit`.

        Reference: Tibshirani 1996; Yuan and Lin 2006; Hofling and Tibshirani 2009; Chen and Chen
        2008, Foygel and Drton 2010, Barber and Drton 2015 for EBIC, at refits; Varin and Vidoni
        2005, Gao and Song 2010 for its degrees; Meinshausen and Buhlmann 2006, van Borkulo et al.
        2014 for rules and "elasso", Friedman, Hastie and Tibshirani 2010 for its units; Meinshausen
        and Buhlmann 2010, Shah and Samworth 2013 for stability; Meinshausen 2007 for the refit.
        """
        from ..assess import PathOptions, fit_path, path_refit

        bound, rows = bound_dataset(self.lowered, x, missing, given)
        name, lowered = self._mask(mask, bound)
        weights = rows.matched(weights, "weights")
        evidence = Evidence(bound, lowered, rows.codes, FitOptions(name, weights=weights, progress=progress, impute=False, gaps=gaps))

        refit = path_refit(Fit, evidence, rows.index, self.graph, self._meta(seed), lambda: self)
        options = PathOptions(penalty, criterion, gamma, rule, on, folds, subsamples, threshold, wrong, seed, progress, checkpoint)
        return fit_path(evidence, options, refit)

    @at_once
    @derive.under_automatic_mesh
    def sample(
        self,
        params: Params,
        sampler: str | None = None,
        *,
        draws: int | None = None,
        warmup: int | None = None,
        chains: int | None = None,
        thin: int = 1,
        seed: int = 0,
        clamp: Clamp | None = None,
        init: Rows | None = None,
        observe: ObserveLike | None = None,
        keep_draws: bool = True,
        progress: bool | None = None,
        given: Given | None = None,
        prompt: Prompt | None = None,
        oracle: Oracle | None = None,
        mesh_axis: str | None = None,
        cell_axis: str | None = None,
        store: str | os.PathLike[str] | None = None,
        likelihood: Likelihood | None = None,
    ) -> Any:
        """Run many chains of a sampler in one compiled scan, or draw strings by a guided sampler.

        A guided sampler draws all prompts and draws in one compiled loop. Each value is drawn with
        its conditional probability to a relative accuracy of 1e-5 down to probabilities of 1e-30,
        and of 1e-12 in float64.

        Args:
            params: the parameters.
            sampler: the sampler's name; it may be left out if the model has only one. "exact" gives
                independent draws if a plan is affordable, unless the file declares a sampler of
                this name; `warmup`, `thin` and `init` then have no effect.
            draws: the number of kept draws per chain. If None, 1000, or 1 for a guided sampler with
                `prompt=`.
            warmup: the number of steps before the first draw. If None, 500.
            chains: the number of chains. If None, 4, or 1 for a guided sampler.
            thin: the number of steps per draw.
            seed: the seed. Draw t of chain c depends on (seed, c, t) only, and with prompts also on
                their row. The draws of a seed differ with and without `jax_enable_x64`: they follow
                from the same random words, but by numbers and probabilities in float64.
            clamp: cells or whole variables held at values: `{"x": {0: +1}}`.
            init: one start, or one start per chain. If None, the starts are independent uniform
                values that satisfy every `require`. If none is found among 2000 values, starts are
                built by moves of single cells and are not uniform. `gm.annealed(steps=200)` cools
                the same starts.
            observe: a dict by name. A value is a function of one configuration (an array, or a dict
                of arrays), or an expression of the language, such as `"sum(x[i] for i in site)"`;
                or the name of a `let`, or several. Each new function is compiled anew; equal
                expressions are not.
            keep_draws: whether configurations and `lp` are kept. If not, convergence is not
                checked.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.
            given: one row of data of given variables, without an axis of rows, for all chains.
            prompt: for guided samplers and `autoregressive`, the beginnings of the strings: a list
                of prefixes of any length, as values or labels; letters may also be strings. Draws
                then have an axis of rows.
            oracle: for guided samplers, a `gm.Oracle` that draws in the model's place.
            mesh_axis: an axis of the ambient mesh of devices over which chains are spread, as in
                `fit`. The draws are those of one device.
            cell_axis: an axis of the ambient mesh over which the cells of each colour are spread,
                for sweeps of single cells over large graphs. Each device holds all codes, draws its
                share of a colour, and receives the other cells of the colour. The draws are those
                of one device.
            store: a file whose name ends in .nc (netCDF) or .zarr (Zarr). Draws go to this file as
                they are drawn, in bounded memory, and are read from it when they are used. The
                file appears when all draws are in it. Until then a folder `<store>.unfinished`
                has it and the state of the chains, every 30 seconds. The same call goes on after
                the process was killed, and gives equal draws. SIGTERM and Ctrl-C save the state
                first.
            likelihood: uncertain evidence, as in `marginals`. The draws are those of the
                distribution proportional to p times the weights, whose log is `lp`.

        Returns:
            An InferenceData or a DataTree, as the installed ArviZ requires. `posterior` has named
            dimensions and coordinates. `sample_stats` has `lp` (the unnormalised log p of kept
            draws), the flip rate of each update and, under `temper`, the swap rate of each pair of
            betas. For a guided sampler `guided_stats` has `oracle_calls`, `verifier_calls`,
            `backtracks` by position, `length`, `valid` and `failed`. A failed string is -1 (0 for
            spins) throughout. Beams have `log_prob`, the exact log p(string | prompt).

        Raises:
            GmlmError: for options that do not fit, a start of probability zero, or a block that is
                too costly to draw; E745 and E746 for errors of the user's verifiers, values and
                oracles.
        """
        told = self if likelihood is None else self._given_evidence(likelihood)
        lowered = bound_once(told.lowered, given, "a sampler")
        checked = None if is_one_of(sampler, ("exact",)) and sampler not in self.samplers else self.sampler(sampler)[1]
        decodes = checked is not None and checked.call is not None and is_decoder(checked.call)
        if checked is not None and checked.call is not None and not decodes:
            stated = {"thin": thin != 1, "clamp": clamp is not None, "init": init is not None, "observe": observe is not None}
            stated |= {"warmup": bool(warmup), "keep_draws": not keep_draws, "mesh_axis": mesh_axis is not None}
            stated |= {"cell_axis": cell_axis is not None, "store": store is not None, "likelihood": likelihood is not None}
            return self._draw_strings(
                lowered, checked, checked.call, params, GuidedOptions(checked.name, prompt, draws, chains), seed, oracle, stated
            )
        if prompt is not None or oracle is not None:
            refuse_guided(prompt=prompt, oracle=oracle)
        fresh = checked is not None and (decodes or ir.start_of(checked.kernels) is not None)
        defaults = (1000, 0 if fresh else 500, 4)
        draws, warmup, chains = (d if n is None else n for n, d in zip((draws, warmup, chains), defaults, strict=True))
        name = sampler if checked is None else checked.name
        assert name is not None
        plain = name, draws, warmup, chains, thin, seed, clamp, init, observe, keep_draws, progress
        options = SampleOptions(*plain, mesh_axis=mesh_axis, cell_axis=cell_axis, store=store)
        if checked is None:
            prepared = prepare_exact(lowered, told._counted, self._known(params, lowered), options)
        else:
            prepared = prepare_chains(lowered, checked, self._known(params, lowered), options)
        return prepared.labelled(self._provenance()) if store is None else stored(prepared, self._provenance())

    def distribution(self, params: Params, given: Given | None = None) -> GmlmDistribution:
        """Return p(x) as a NumPyro `Distribution`.

        Its `log_prob` is normalised, its `sample` draws exactly, and latents are summed out. Both
        run inside `jax.jit`, `jax.vmap`, plates and NUTS. The parameters may be traced there, and
        so may the value.

        Args:
            params: the parameters, as arrays or JAX tracers. Axes before a parameter's own axes are
                a batch, as in NumPyro's distributions.
            given: the data of given variables, one row each. The batch is then that of its rows,
                and each row has its own log Z.

        Returns:
            A distribution over one configuration. Its event has the shape of the model's only
            `var`. If there are several, the event is their cells one after another; `unpack` splits
            it and `pack` joins it. Values are integers: -1 and +1 for spins, 0 and 1 for bits,
            numbers for ranges, codes from 0 for letters and labels. A value outside a cell's domain
            has `log_prob` -inf.

        Raises:
            GmlmError: E601 with the cost if log Z, or the sum over the latents, is above the
                budget; E742 for a conditional model; E510, E506 and E501 for given data and
                parameters that do not fit.
        """
        from ..posterior import distribution

        return distribution(self._law(given), params)

    def numpyro_kernel(
        self,
        sampler: str | None = None,
        *,
        x: Rows | None = None,
        params: Callable[[Params], Params] | None = None,
        given: Given | None = None,
    ) -> GmlmKernel:
        """Return a sampler as a kernel for `numpyro.infer.Gibbs`.

        The kernel redraws the cells that `x` lacks, given the parameters; NUTS draws the rest.

            kernel = model.numpyro_kernel("alternate", x={"v": v})

            def program():
                W = numpyro.sample("W", ...)
                # the sites of the latents, and the factor log p(v, latents | W, ..)
                kernel.sites({"W": W, ...})

            Gibbs([(kernel, kernel.names), (NUTS(program), None)])

        Args:
            sampler: the sampler's name; it may be left out if the model has only one. One run of
                its body is a step.
            x: a dict of the observed variables, each with all its cells, or an array if that is the
                model's only `var`. If None, no cell is known. All other variables are sites with
                their own names and of shape (rows.., *axes).
            params: a function from the values of all other sites to parameters. If None, the
                parameters are the sites with the parameters' names.
            given: the data of given variables, one row for each row of x, or one for all.

        The distribution of the cells given everything else must be the model's at these parameters.
        All other terms of the NumPyro program that depend on the cells must therefore be factors of
        the model. Chains run by `chain_method="sequential"` or `"parallel"`, as NumPyro's Gibbs
        kernel requires.

        Raises:
            GmlmError: E507 for a sampler under `temper`, or one that draws whole strings; E506 and
                E501 for data that do not fit.
        """
        from ..posterior import numpyro_kernel

        _, checked = self.sampler(sampler)
        if checked.call is not None:
            raise derive.no_chain(checked.call)
        law = self._law(given)
        lowered = self.lowered if law.data is None else with_given(self.lowered, law.data)
        known: Any = {} if x is None else x if isinstance(x, Mapping) else {self.graph.observed[0].name: x}
        with jax.ensure_compile_time_eval():
            return numpyro_kernel(law, derive.build_kernel(lowered, checked).kernel, known, params)

    def to_numpyro(
        self,
        x: Rows,
        mask: str | None = None,
        *,
        weights: ArrayLike | None = None,
        missing: Missing | None = None,
        given: Given | None = None,
        calibrate: str | None = "curvature",
        n_masks: int | str | None = None,
        sampler: str | None = None,
        gaps: str = "sum",
    ) -> NumpyroModel:
        """Return an ordinary NumPyro model of the parameters.

        The model works with NumPyro's kernels, guides and handlers, and within models of the user's
        own. It has a site for each parameter with its declared prior. A parameter without a prior
        has a flat one: uniform on a simplex and between two bounds, improper elsewhere. The factor
        `<model>.data` is -c * sum over rows of w loss, with c as in `fit`. A parameter `J` that
        moves in a subspace (a gauge) has the site `J.tangent` on an orthonormal basis of the
        subspace, and `J` is deterministic. Under `everything` the factor is the log likelihood.

        Under another mask, exp of the factor is not a likelihood, and the factor is calibrated. The
        loss is evaluated at est + C (theta - est) with C' H C = H S^-1 H, the inverse of the
        Godambe covariance. est minimises the loss without priors, H is its Hessian there, and S is
        the covariance over rows of its gradient. C acts in NumPyro's unconstrained coordinates.

        Args:
            x: the rows, as in `fit`.
            mask: the mask's name; it may be left out if the model has only one.
            weights: one weight per row, which multiplies its loss.
            missing: the value that marks a missing cell, as in `fit`; missing cells are summed out.
            given: the data of given variables, as in `fit`.
            calibrate: "curvature"; "simulated", the same with S computed over 1000 data sets
                simulated from the model at est, which is right for one row too; or None for no
                calibration. The option has no effect on a likelihood.
            n_masks: as in `fit`; masks are drawn with seed 0.
            sampler: the sampler that draws simulated data sets, with "simulated" only; see
                `Fit.simulated_errors`.
            gaps: "ignore" leaves missing cells out instead of summing them out; see `fit`.

        Returns:
            A function without arguments, or with the argument `params`, a dict of parameters that
            the caller computes. These parameters have neither a site nor a prior in the function.
            The function returns all parameters by name. `.calibration` describes the calibration,
            and `.log_likelihood(params)` gives -c w loss of each row, at one value of all
            parameters or at a batch of values.

        Raises:
            GmlmError: E507 for `calibrate="open_faced"`, which transforms draws; E554 if the loss
                cannot be calibrated; and the errors of `fit`.

        Reference: Ribatet, Cooley and Davison 2012, Section 2.3.
        """
        from ..assess import How
        from ..posterior import to_numpyro

        bound, rows = bound_dataset(self.lowered, x, missing, given)
        name, lowered = self._mask(mask, bound)
        if sampler is not None and calibrate != "simulated":
            message = f"sampler={sampler!r} draws simulated data sets, and nothing is simulated here"
            raise fail("E507", message, help='leave it out, or `calibrate="simulated"`')
        weights = rows.matched(weights, "weights")
        evidence = Evidence(bound, lowered, rows.codes, FitOptions(name, n_masks=n_masks, weights=weights, impute=False, gaps=gaps))
        return to_numpyro(evidence, calibrate, How(1000, 0, sampler, 500), self._meta(0), lambda: self)

    @labelled_by_columns
    def posterior(
        self,
        x: Rows,
        mask: str | None = None,
        *,
        draws: int = 1000,
        chains: int = 4,
        warmup: int = 500,
        seed: int = 0,
        weights: ArrayLike | None = None,
        missing: Missing | None = None,
        given: Given | None = None,
        gaps: str = "sum",
        inclusion: BetaBernoulli | StochasticBlock | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        calibrate: str | None = "auto",
    ) -> Any:
        """Draw the parameters from their posterior.

        For a parameter under `spike_slab`, the draws also indicate whether each entry is included;
        see `gm.inclusion`. A model without such a prior is fitted, and its parameters are drawn by
        `Fit.posterior`. A model whose priors have fitted parameters as arguments has no mode; it is
        drawn by NUTS on its `to_numpyro`, without calibration. The rest of this text is about
        models with a `spike_slab` prior.

        The target is exp(-c * sum over rows of w loss) times the priors, with c and the loss as in
        `fit`. Under `everything` the target is the posterior. Under a pseudolikelihood mask it is
        not the posterior, and without `calibrate` the draws are labelled "not calibrated". Their
        standard deviations and inclusion probabilities are then those of the pseudolikelihood, and
        may be too certain or too uncertain.

        Args:
            x: the rows. As in `fit`, they may label the cells.
            mask: the mask's name; it may be left out if the model has only one.
            draws: the number of kept draws per chain.
            chains: the number of chains. Each chain starts with its own included entries, drawn
                from the prior.
            warmup: the number of steps before the first draw, which adapt the step of the
                trajectories.
            seed: the seed of chains and of drawn masks.
            weights: one weight per row, which multiplies its loss.
            missing: the value that marks a missing cell, as in `fit`; missing cells are summed out,
                and nothing is imputed.
            given: the data of given variables, as in `fit`.
            gaps: "ignore" leaves missing cells out instead of summing them out; see `fit`.
            inclusion: the prior of the indicators. None: every entry is included with the
                `probability` of the program. `gm.BetaBernoulli(alpha, beta)`: with one unknown
                probability for all entries of a parameter. `gm.StochasticBlock(..)`: with
                probabilities that depend on unknown clusters of the cells. Both replace the
                `probability` of the program, except at entries where it is 0 or 1.
            checkpoint: a folder for the state of the chains and their draws, as in `fit`. The fit
                before the draws is repeated if the run was interrupted.
            calibrate: "curvature" or "simulated" evaluates the loss at est + C (parameters - est),
                as `Fit.posterior` does, so that its curvature is the inverse of the covariance of
                the estimates. est minimises the loss without priors, with all entries included.
                None: no calibration. "auto": None for a model with a `spike_slab` prior, and
                "curvature" for another.

        Returns:
            An InferenceData or a DataTree, as the installed ArviZ requires. `posterior` has each
            parameter `J`, and 0/1 in `J_included` if its prior is `spike_slab`. With
            `inclusion=`, it has `J_probability`, or the `cluster` of each cell (see
            `gm.co_clustering`). `sample_stats` has
            `lp`, `switched` (the share of entries that changed) and `acceptance_rate`. The
            attributes include `calibration`.

        Raises:
            GmlmError: E601 with the cost if the draws, or missing cells, cost too much; E552 if
                neither data nor priors determine some direction; E554 for a loss that cannot be
                calibrated; E742 for a conditional model; and
                the errors of `fit` except E706.

        Reference: Mitchell and Beauchamp 1988; Gottardo and Raftery 2008; Scott and Berger 2010 for
        `gm.BetaBernoulli`.
        """
        from ..posterior import Chains, SampledOptions, has_spikes, hierarchical_posterior, sample_posterior, verify_choice

        verify_choice(calibrate, ("auto", "curvature", "open_faced", "simulated"))
        if inclusion is not None and not has_spikes(self.graph):
            raise fail("E507", "`inclusion=` is the prior of indicators, and no parameter has any", help="`~ spike_slab(1, 0.5)`, say")
        bound, rows = bound_dataset(self.lowered, x, missing, given)
        name, lowered = self._mask(mask, bound)
        if calibrate == "auto":
            calibrate = None if has_spikes(self.graph) or self.graph.hyperpriors else "curvature"
        if self.graph.hyperpriors and not has_spikes(self.graph):
            if calibrate is not None:
                message = "priors with parameters as arguments leave no mode to calibrate at"
                raise fail("E554", message, help="leave `calibrate=` out")
            options = FitOptions(name, weights=rows.matched(weights, "weights"), impute=False, gaps=gaps)
            evidence = Evidence(bound, lowered, rows.codes, options)
            return hierarchical_posterior(evidence, Chains(draws, chains, warmup, seed), self._meta(0), checkpoint)
        if not has_spikes(self.graph):
            fit = self.fit(x, mask, seed, weights=weights, missing=missing, given=given, impute=False, gaps=gaps)
            return fit.posterior(draws, chains, calibrate, seed, warmup=warmup, checkpoint=checkpoint)
        more = rows.matched(weights, "weights"), gaps, inclusion, checkpoint, calibrate
        options = SampledOptions(name, draws, warmup, chains, seed, *more)
        return sample_posterior(bound, lowered, rows.codes, options, self._meta(seed), lambda: self)

    # Display

    def __repr__(self) -> str:
        n_params = sum(p.size for p in self.graph.parameters)
        factors = sum(g.n for g in self.graph.factors)
        sizes = ", ".join((counted(self.graph.n_random, "cell"), counted(n_params, "parameter"), counted(factors, "factor")))
        return f"Model `{self.name}`: {sizes}; masks {listed(self.masks)}; samplers {listed(self.samplers)}"

    # Private helpers

    def _params(self, params: Params, lowered: Lowered, summed: bool = True) -> dict[str, jax.Array]:
        """Return parameters that are verified for the factors of `lowered` and its given data."""
        with evaluated(params):
            return parameters.as_params(lowered.graph, params, summed=summed)

    def _log_partition_or_nan(self, params: Params, given: Given | None, most: float = np.inf) -> np.ndarray | float:
        """Return log Z, or nan if it is not affordable or takes more than so many operations."""
        if not self.graph.is_normalised and not self._counted.is_affordable(most):
            return np.nan
        try:
            return np.asarray(self.log_partition(params, given=given))
        except GmlmError:
            return np.nan

    def _denoising(self, params: Params) -> Mapping[str, PyTree]:
        return self._known(params)

    def _known(self, params: Params, lowered: Lowered | None = None) -> dict[str, jax.Array]:
        """Return verified parameters, which must not be traced.

        `lowered` is the model with its given data, if it has some.
        """
        return parameters.known_params(self.graph if lowered is None else lowered.graph, params)

    def _mask(self, name: str | None, lowered: Lowered) -> tuple[str, AbstractMask]:
        """Return a mask by name, with the given data that `lowered` has."""
        name, mask = self.mask(name)
        return name, bound_mask(lowered, mask)

    def _warn_plain(self, K: Sequence[int] | int) -> None:
        """Warn (W901) of a block that only data-dependent masks draw."""
        checked = self.program.checked
        own = [m for m in checked.masks.values() if m.model == self.name]
        if any(m.adaptive for m in own):
            block = np.unique(np.asarray(K, np.int64))
            found = plan.lint_conditional(self.lowered, ((m, self.mask(m.name)[1]) for m in own if not m.body.is_percolation), block)
            for d in allowed(found, checked.allowances):
                tell(f"\n{d.render()}", GmlmWarning)

    def _device(self, lowered: Lowered, counted: bool = False) -> derive.Graph:
        """Return the device form of the graph, or of the graph with partial sums as cells.

        The device form of the model's own graph is made once for each floating-point type.
        """
        if lowered is not self.lowered:
            return derive.graph_arrays(lowered.graph)  # no partial sums with given data
        key = str(derive.float_type()), counted and self._counted is not self._contractions
        if key not in self._devices:
            # The kept value outlives a function that is traced now.
            with jax.ensure_compile_time_eval():
                self._devices[key] = derive.graph_arrays(self._counted.graph if counted else self.graph)
        return self._devices[key]

    @cached_property
    def _devices(self) -> dict[tuple[str, bool], derive.Graph]:
        return {}

    @cached_property
    def _counted(self) -> exact.Contractions:
        """The contractions of the graph in which partial sums of large factors are cells."""
        graph = plan.with_partial_sums(self.graph)
        return self._contractions if graph is self.graph else exact.Contractions(graph)

    def _elimination(
        self, params: Params, lowered: Lowered, maximised: bool = False
    ) -> tuple[exact.Contractions, derive.Graph, Mapping[str, jax.Array]]:
        """Return the contractions, the device graph and its parameters, for exact answers."""
        kept = self._maximised if maximised else self._counted
        device = self._device(lowered, counted=True) if kept is self._counted else derive.graph_arrays(kept.graph)
        return kept, device, self._known(params, lowered) if maximised else self._params(params, lowered)

    def _tabled(self, kept: exact.Contractions) -> FactorGraph:
        """Return the graph of `_counted` or `_maximised` with tables in the place of links, for messages."""
        return plan.with_partial_sums(self.graph, kept is not self._counted, linked=False) if kept.graph.links else kept.graph

    @cached_property
    def _maximised(self) -> exact.Contractions:
        """The contractions with partial sums as cells that keep maxima too."""
        if plan.keeps_maxima(self.graph, self._counted.graph):
            return self._counted
        graph = plan.with_partial_sums(self.graph, maximised=True)
        return self._contractions if graph is self.graph else exact.Contractions(graph)

    @cached_property
    def _contractions(self) -> exact.Contractions:
        return exact.Contractions(self.graph)

    def _given_evidence(self, likelihood: Likelihood) -> JointModel:
        """Return the model whose distribution is proportional to p times uncertain evidence."""
        levels = likelihoods(self.graph, likelihood)
        found = object.__new__(JointModel)
        vars(found).update(program=self.program, name=self.name, _plan=self._plan, _masks=self._masks)
        kept = {name: getattr(self, name) for name in ("_contractions", "_counted", "_maximised")}
        made = {id(c): c.with_factors(evidence_factors(self.graph, levels)) for c in kept.values()}
        vars(found).update({name: made[id(c)] for name, c in kept.items()})
        found.lowered = replace(self.lowered, graph=found._contractions.graph)
        return found

    def _law(self, given: Given | None) -> Law:
        from ..posterior import Law

        with jax.ensure_compile_time_eval():  # the kept value outlives a function traced now
            found = encode_given(self.graph, given)
            if found is not None:
                lowered = with_given(self.lowered, found)
                return Law(lowered, exact.Contractions(lowered.graph))
            key = str(derive.float_type())
            if key not in self._laws:
                self._laws[key] = Law(self.lowered, self._contractions)
            return self._laws[key]

    @cached_property
    def _laws(self) -> dict[str, Law]:
        return {}

    def _wildtype(self, wildtype: Rows, missing: Missing | None, given: Given | None) -> tuple[Lowered, Data]:
        try:
            return bound_rows(self.lowered, wildtype, missing, given)
        except GmlmError as error:
            if "E501" not in error.codes:
                raise
            cure = "`list(text)` of a text of letters" if isinstance(wildtype, str) else "one configuration, such as `x[0]`, of all cells"
            raise fail("E501", f"wildtype: {error.diagnostics[0].message}", help=f"{cure}; without an axis of rows") from None

    def _meta(self, seed: int) -> JsonObject:
        return self._provenance() | {"seed": seed}

    def _bound(self, found: GivenRows | None) -> Lowered:
        return self.lowered if found is None else with_given(self.lowered, found)


def _verify_alone(verb: str, **others: object) -> None:
    """Raise E507 for arguments that stand without rows of x."""
    if any(value is not None for value in others.values()):
        names = " and ".join(f"`{name}`" for name in others)
        message = f"{verb}: `x` holds what each row knows; {names} stand without it"
        raise fail("E507", message, help="pass one of them")
