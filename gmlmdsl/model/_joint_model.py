"""A model with a joint distribution p(x), the normalised product of its factors, and its verbs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive, plan
from .._diagnostics import GmlmError, GmlmWarning, counted, fail, is_one_of, listed
from .._progress import shows_progress, waiting
from ..data import (
    at_once,
    bound_dataset,
    bound_mask,
    bound_once,
    bound_rows,
    cell_groups,
    encode_given,
    evaluated,
    in_row_order,
    row_index,
    verified_seed,
)
from ..evaluate import (
    answer,
    decoder_bounds,
    exact,
    is_traced,
    log_completions,
    named_conditionals,
    parameters,
    substitution_effects,
    verified_partition,
)
from ..fit import WHOLE, Evidence, FitOptions, PersistentContrastiveDivergence, estimate_to_fit, fit_model, method_of, whole_mask
from ..graph import GivenRows, Lowered, with_given
from ..guided import GuidedOptions, only_guided
from ..masks import AbstractMask
from ..program import allowed, ir, is_decoder
from ..sample import SampleOptions, annealed_importance, draw_chains, draw_exact
from ._fit import Fit
from ._model import Model, Params

if TYPE_CHECKING:
    import optax

    from ..assess import Path
    from ..evaluate import Effects
    from ..posterior import GmlmDistribution, GmlmKernel, Law, NumpyroModel


class JointModel(Model):
    """A model with a joint distribution: p(x) is proportional to the product of its factors, and each verb is one call into a room."""

    def init_params(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Where a fit starts: 0, positive 1, simplex uniform; with noise of sd 0.01 from `seed` where the model has latents."""
        return {k: v.astype(derive.float_type()) for k, v in parameters.init_params(self.graph, seed).items()}

    # Probabilities, exact

    def log_potential(self, params: Params, x: Any, *, missing: Any = None, given: Any = None) -> jax.Array:
        """The unnormalised log p of each row: the sum of all factors, -inf where a `require` fails; shape (rows..).

        Args:
            params: parameters.
            x: configurations.
            missing: what stands for a missing cell, as in `fit`; such cells are summed out: the log
                of the sum of exp(log p).
            given: data of given variables, as in `fit`.

        Raises:
            GmlmError: E601 where the sum over a row's missing cells costs too much, E514 where a
                factor is nan or +inf.
        """
        lowered, rows = bound_rows(self.lowered, x, missing, given)
        found = log_completions(lowered.graph, self._device(lowered), self._params(params, lowered, summed=False), rows.codes)
        return answer(parameters.verified_answer(lowered.graph, found, jnp.inf), rows.shape)

    def log_partition(self, params: Params, *, given: Any = None) -> jax.Array:
        """log Z, exact, by variable elimination; 0 where distributions cover every cell and nothing else stands.

        Args:
            params: parameters.
            given: data of given variables, as in `fit`: there is one log Z for each row, of shape
                (rows..).

        Raises:
            GmlmError: E601 with the cost where it is above the budget, before any work; E514 where
                a factor is nan or +inf.
        """
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
        betas: Any = 1000,
        steps_per_beta: int = 1,
        chains: int = 128,
        seed: int = 0,
        progress: bool | None = None,
    ) -> annealed_importance.LogPartitionEstimate:
        """log Z with its standard error by annealed importance sampling (Neal 2001), from uniform configurations at beta 0 to p at 1.

        `sampler` takes `steps_per_beta` steps on p to the power of each of `betas` (ascending from
        0 to 1, or a number of even steps); none: sweeps of single cells. `progress`: whether to
        show a bar; none: where a person watches. E507, E509 for options, samplers or models that it
        cannot use.
        """
        checked = None if sampler is None else self.sampler(sampler)[1]
        options = annealed_importance.AnnealingOptions(betas, steps_per_beta, chains, seed)
        with waiting("annealed importance sampling", shows_progress(progress)):
            return annealed_importance.estimate(self.lowered, checked, self._known(params), options)

    def log_prob(self, params: Params, x: Any, *, missing: Any = None, given: Any = None, sampler: str | None = None) -> Any:
        """log p(x) = log_potential - log Z of each row, of its observed cells where some are `missing`; shape (rows..).

        -inf where p(x) = 0. Of a model with given variables it is log p(x | given). With `sampler`
        it is log p of what that decoder draws, where the places of each pass do not depend on what
        it draws: the sum along the row's one path.

        Raises:
            GmlmError: E507 for a sampler with many paths to a row, with the cure.
        """
        if sampler is not None:
            return decoder_bounds.log_prob(self.lowered, self._denoising(params), x, self.sampler(sampler)[1], missing, given)
        given = in_row_order(self.graph, given, row_index(self.graph, x))
        parts = self.log_potential(params, x, missing=missing, given=given), self.log_partition(params, given=given)
        return parts[0] - parts[1] if is_traced(parts) else answer(np.asarray(parts[0]) - np.asarray(parts[1]))

    def log_conditional(self, params: Params, x: Any, K: Sequence[int] | int, mask: str | None = None, *, given: Any = None) -> jax.Array:
        """The table log p(x_K | x_rest), or with `mask` log p(x_K | x_rest, K), proportional to p(x) p(K | x).

        Args:
            params: parameters.
            x: configurations; what they hold in K does not matter.
            K: positions of cells, see `positions`.
            mask: the mask that drew K.
            given: data of given variables, as in `fit`.

        Returns:
            Shape (rows.., values of the first member, values of the second, ..), members ascending;
            -inf at impossible values,
            nan where the rest itself is impossible.

        Raises:
            GmlmError: for positions that are none, a K outside the mask's support, a block too
                costly to enumerate.

        Warns:
            GmlmWarning: W901 without `mask`, where only masks that look at x draw K.

        Reference: Li et al. 2024, Definition 7.
        """
        lowered, rows = bound_rows(self.lowered, x, None, given)
        drawn = None if mask is None else self._mask(mask, lowered)
        table = named_conditionals.log_conditional(lowered, self._params(params, lowered), rows.codes, K, drawn)
        if mask is None:
            self._warn_plain(K)
        return answer(table, (*rows.shape, *table.shape[1:]))

    @at_once
    def marginals(
        self,
        params: Params,
        clamp: Mapping[str, Any] | None = None,
        given: Any = None,
        over: Any = None,
        *,
        x: Any = None,
        missing: Any = None,
    ) -> dict[Any, np.ndarray]:
        """p(x_i = v | known cells) of every cell, or of groups of cells together, exact.

        Args:
            params: parameters.
            clamp: cells or whole variables held at values, as in `sample`; they are sure of them.
            given: data of given variables, as in `fit`.
            over: groups of cells whose joint distributions are asked for, such as `[("a", "b"),
                (("x", 0), ("x", 3))]`: a cell is the name of a variable of one cell, or its name
                and place.
            x: rows of data, as in `fit`, in place of `clamp`: what each knows is held, and latents
                and missing cells are asked for.
            missing: what stands for a missing cell of x, as in `fit`.

        Returns:
            By variable (latents too), shape (*axes, values), values in domain order; rows of x or
            given data before them. With `over`,
            by group, shape (values of its first cell, .., of its last).

        Raises:
            GmlmError: E601 with the cost where no plan is affordable; E512 where no configuration
                agrees with the known cells; E507 for what is no group of cells.
        """
        if x is not None:
            if clamp is not None or over is not None:
                raise fail("E507", "marginals: `x` holds what each row knows; `clamp` and `over` stand without it", help="pass one of them")
            lowered, rows = bound_rows(self.lowered, x, missing, in_row_order(self.graph, given, row_index(self.graph, x)))
            counts = np.full((self._counted.graph.n_cells - len(rows.codes), rows.codes.shape[1]), -1)  # partial sums are cells behind
            tables = exact.marginals_of_rows(*self._elimination(params, lowered), np.concatenate([rows.codes, counts]), rows.shape)
            return {v.name: tables[v.name] for v in self.graph.variables}
        found = encode_given(self.graph, given)
        asked = *self._elimination(params, self._bound(found)), clamp, found
        if over is not None:
            return {group: exact.joint_marginals(*asked, cells) for group, cells in cell_groups(self.graph, over).items()}
        tables = exact.marginals(*asked)
        return {v.name: tables[v.name] for v in self.graph.variables}

    @at_once
    def map(self, params: Params, clamp: Mapping[str, Any] | None = None, given: Any = None) -> tuple[Any, Any]:
        """A most probable configuration that agrees with the clamped cells, and its log_prob.

        Args:
            params: parameters.
            clamp: cells or whole variables held at values, as in `sample`.
            given: data of given variables, as in `fit`.

        Returns:
            The configuration, an array where the model has one variable, else a dict (latents too),
            letters and labels as codes; of
            equally probable ones, the same in every run. And log p of it, nan where log Z is not
            affordable (while the mode is).

        Raises:
            GmlmError: E601 with the cost where no plan is affordable; E512 where no configuration
                agrees with the clamped cells.
        """
        found = encode_given(self.graph, given)
        shape = () if found is None else found.shape
        lowered = self._bound(found)
        codes, value = exact.best(*self._elimination(params, lowered), clamp, found)
        try:
            log_z = np.asarray(self.log_partition(params, given=given))
        except GmlmError:
            log_z = np.nan
        return exact.configuration(self.graph, codes, shape), value.reshape(shape)[()] - log_z

    @at_once
    def next_symbol(self, params: Params, prefix: Any, *, given: Any = None) -> np.ndarray:
        """p(x_t = v | x_0, .., x_(t-1)), of the first cell that a prefix lacks; latents and later cells are summed out.

        Args:
            params: parameters.
            prefix: the first t cells of the model's only `var`, in row-major order, shape (rows..,
                t), values or labels; of letters also one string per row. t is below the number of
                cells, and may be 0: shape (rows.., 0).
            given: data of given variables, as in `fit`.

        Returns:
            Shape (rows.., values), rows sum to 1; nan where the prefix is impossible, which is
            warned of. A second call with another t
            compiles nothing.

        Raises:
            GmlmError: E507 for a model with several `var`s or a prefix that is too long, E601 with
                the cost where no plan is affordable.

        Warns:
            GmlmWarning: with the first prefix that has probability 0.
        """
        found = encode_given(self.graph, given)
        codes, cell, lead = exact.prefix_codes(self.graph, prefix, None if found is None else found.shape)
        lowered = self._bound(found)
        table = exact.next_symbol(self._contractions, self._device(lowered), self._known(params, lowered), codes, cell)
        bad = np.flatnonzero(np.isnan(table).any(axis=1))
        if len(bad):
            first = f"; the first is row {bad[0]}" if len(table) > 1 else ""
            some = f"{len(bad)} of {counted(len(table), 'row')}"
            why = f"{some} with a prefix of probability 0: nothing follows it, and the answer is nan{first}"
            warnings.warn(why, GmlmWarning, stacklevel=2)
        return table.reshape(*lead, table.shape[1])

    @at_once
    def effects(
        self,
        params: Params,
        wildtype: Any,
        doubles: Any = None,
        *,
        missing: Any = None,
        given: Any = None,
        progress: bool | None = None,
    ) -> Effects:
        """How log p changes where cells of one configuration hold other values: log p(mutant) - log p(wildtype), in nats.

        Every single substitution, and every double one at chosen pairs of cells. log Z cancels, so
        that only the factors that touch the cells count: exact whatever the size of the model, the
        arity of its factors and its domains.

        Args:
            params: parameters.
            wildtype: one configuration, as a row of `fit` without the axis of rows.
            doubles: pairs of cells, positions or names such as `("x[0]", "x[3]")`, or a table with
                columns `first` and `second`, such as `fit.couplings(top=10)`; none: no double
                substitutions.
            missing: what stands for a missing cell, as in `fit`; such cells, and latents that
                `wildtype` lacks, are summed out.
            given: one row of data of given variables, without an axis of rows.
            progress: whether to show a bar; none: where a person watches.

        Returns:
            `Effects`: `singles`, an array (cells, values); `table`, a DataFrame of them; `doubles`
                and `double_table`, with `epistasis`,
            the effect of both less those of each; -inf where a mutant is impossible.
            `gmlmdsl.report.plot_effects` draws the singles.

        Raises:
            GmlmError: E508 where the wildtype is impossible, E507 and E506 for rows or pairs that
                are none, E601 where summing out missing cells costs too much, E742 for a
                conditional model.

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
        x: Any,
        mask: str | None = None,
        *,
        weights: Any = None,
        key: jax.Array | int | None = None,
        n_masks: int | None = None,
        missing: Any = None,
        given: Any = None,
    ) -> jax.Array:
        """The mean over rows (weighted) of the mean over masks of -log p(x_K | x_rest[, K]), joint over K, never divided by |K|.

        Args:
            params: parameters.
            x: rows.
            mask: the mask's name.
            weights: one per row.
            key: a key of JAX or a seed; with `n_masks`, draws that many masks per row instead of
                averaging over all. Its value must be known: within a function that is compiled as a
                whole, the masks are those of the key at its compilation.
            n_masks: masks per row.
            missing: what stands for a missing cell, as in `fit`; such cells are summed out of both
                p(x_K, x_rest) and p(x_rest).
            given: data of given variables, as in `fit`.

        Raises:
            GmlmError: E511 for missing cells under a mask that looks at x, E601 where summing them
                out costs too much, E602 where the mask has more blocks than the limit and no `key`
                and `n_masks` are given, E514 where a factor is nan or +inf.

        Reference: Li et al. 2024, Definitions 2 and 7.
        """
        lowered, rows = bound_rows(self.lowered, x, missing, given)
        known, weights = self._params(params, lowered), rows.matched(weights, "weights")
        found = named_conditionals.loss(lowered, self._mask(mask, lowered), known, rows.codes, weights, key, n_masks)
        return parameters.verified_answer(lowered.graph, found, -jnp.inf)

    @at_once
    def transition_matrix(self, params: Params, sampler: str | None = None, *, given: Any = None) -> np.ndarray:
        """One run of a sampler's body as a matrix over all configurations, first position slowest; float64, rows sum to 1.

        Args:
            params: parameters.
            sampler: the sampler's name; left out where the model has one.
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
    def sampler_bias(self, params: Params, sampler: str | None = None, *, given: Any = None) -> float:
        """How far a sampler's long run is from p: max over sets A of |pi(A) - p(A)| = 1/2 sum over x of |pi(x) - p(x)|.

        pi is the stationary distribution of `transition_matrix`, solved for in float64. 0 up to
        rounding where every update keeps p; an update drawn `independently` keeps it only where no
        two cells of a block interact. Between 0 and 1, without a unit.

        Returns:
            The total variation distance; nan where the chain settles in no single distribution, so
            that its long run depends on the start.

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

    # Fits, draws and posteriors

    def fit(
        self,
        x: Any,
        mask: str | None = None,
        seed: int = 0,
        n_masks: int | str | None = None,
        weights: Any = None,
        missing: Any = None,
        given: Any = None,
        init: Params | None = None,
        fixed: Params | None = None,
        optimizer: optax.GradientTransformation | None = None,
        batch_size: int | None = None,
        *,
        max_steps: int | None = None,
        weights_are: str = "importances",
        progress: bool | None = None,
        impute: bool | None = None,
        method: Any = None,
        gaps: str = "sum",
    ) -> Fit:
        """Minimise c * sum over rows of w loss_r - log prior, c = (cells the mask can reach) / E|K|.

        So masks of one cell give penalised pseudolikelihood, and `everything` the usual penalised
        maximum likelihood.

        Args:
            x: rows.
            mask: the mask's name; left out where the model has one.
            seed: of drawn masks and minibatches.
            n_masks: None averages over every mask for every row where there are at most 4096 ("all"
                forces it); otherwise that many masks per row (1 where None) are drawn once and
                kept.
            weights: one per row, multiplying its loss; standard errors take them as `weights_are`
                says.
            missing: a number or text outside the domain, nan for nan and None, or a dict of them by
                variable: such cells are summed out of both p(x_K, x_rest) and p(x_rest); a row
                without an observed cell in K scores 0. Right where cells are missing completely at
                random, or the mask is `everything`; where at random only, see `impute`. Whatever
                `missing` says, what `numpy.ma` masks is such a cell; nan, None and `pandas.NA` are
                errors unless it is nan.
            given: data of given variables, a dict of arrays by name: as x, one row for each row of
                x, or without rows, the same for all.
            init: starts of some parameters.
            fixed: values at which some are held.
            optimizer: an optax transformation; none: full-batch L-BFGS with a line search, in
                float64; where rows are many its first steps are taken in float32.
            batch_size: rows per step of `optimizer`; none: all.
            max_steps: the most steps.
            weights_are: "importances", or "counts": then a row of weight 3 is three rows, in
                standard errors too.
            progress: whether to show a bar; none: where a person watches.
            impute: what becomes of rows whose missing cells cost too much to sum out. None: they
                are drawn inside the fit by block dynamics (Monte Carlo EM); True: so are all rows
                with missing cells; False: they are refused with the cost.
            method: none: the exact objective, latents that x lacks summed out (refused where that
                costs too much); `gm.MonteCarloEM()`: they are drawn inside the fit;
                `gm.PersistentContrastiveDivergence()`: the likelihood, by chains, and then `mask`
                may be left out. "mcem" and "pcd" stand for these with their defaults.
            gaps: "sum": missing cells are summed out, as `missing` says. "ignore": they are left
                out, as plmc's `-g` does: with O the observed cells of a row, the term of K is -log
                p_O(x_(K and O) | x_(O - K)), p_O the product of the factors whose cells are all in
                O. Quick and convex, and no conditional of p where a missing cell is a neighbour. It
                refuses latents that x lacks, missing cells of a `require` or of a mask that looks
                at x, `impute` and `method`.

        Returns:
            A `Fit`: estimates, sandwich standard errors, status with remedies.

        Raises:
            GmlmError: for data, options or a mask that do not fit, an impossible row, or a cost
                above the budget.

        Reference: Li et al. 2024, Definitions 2 and 7, Lemma 1.
        """
        seed = verified_seed(seed)
        bound, rows = bound_dataset(self.lowered, x, missing, given)
        method, weights = method_of(method), rows.matched(weights, "weights")
        whole = mask is None and isinstance(method, PersistentContrastiveDivergence)
        name, lowered = (WHOLE, whole_mask(self.graph)) if whole else self._mask(mask, bound)
        options = FitOptions(
            name, seed, n_masks, weights, init, fixed, optimizer, batch_size, max_steps, progress, impute, weights_are, method, gaps=gaps
        )
        estimate = fit_model(bound, lowered, rows.codes, options, rows.index)
        return estimate_to_fit(Fit, estimate, self.graph, self._meta(seed), lambda: self, derive.float_type())

    def fit_path(
        self,
        x: Any,
        mask: str | None = None,
        penalty: Any = None,
        criterion: str = "ebic",
        gamma: float = 0.5,
        rule: str | None = None,
        *,
        on: Sequence[str] | None = None,
        folds: int = 10,
        subsamples: int = 100,
        threshold: float = 0.75,
        wrong: float = 1.0,
        seed: int = 0,
        weights: Any = None,
        missing: Any = None,
        given: Any = None,
        gaps: str = "sum",
        progress: bool | None = None,
    ) -> Path:
        """Fits under a penalty that holds couplings at 0, from none to many, and the one that a criterion chooses.

        Each minimises (c * sum over rows of w loss - log prior) / (sum of w) + penalty * sum over
        couplings g of sqrt(d_g) ||theta_g||, theta_g the d_g entries of parameters that stand in
        the tables of the same pairs: the lasso where a coupling is one number, the group lasso
        where it is a table. Each fit starts at the one before; all, those of refits, folds and
        halves too, share one program.

        Args:
            x: rows, as in `fit`.
            mask: the mask's name; left out where the model has one.
            penalty: numbers, a number of them (2 or more, from the least without couplings to a
                hundredth of it), or none: 30, with "stability" 100.
            criterion: "ebic": the least 2 c n loss + k (log n + 2 gamma log(candidates)), the loss
                that of a refit of the couplings that are not 0 without the penalty, n the sum of w,
                `candidates` how many couplings there are, and k the couplings' degrees of freedom,
                tr(H^-1 S) with the Hessian H of the summed loss and the covariance S of its
                gradient, less the same without couplings: of a likelihood their number, of a
                pseudolikelihood up to twice as many, since a pair is in two conditionals. "cv": the
                least loss of rows left out. "stability": the couplings that `threshold` of the half
                samples select.
            gamma: 0 for BIC; larger ones choose fewer couplings.
            rule: none: one fit of all blocks of the mask. "and", "or": each block's conditional is
                fitted by itself, with parameters, penalties and a choice of its own (n and
                candidates are those of the block, c is 1, k the number of free directions); a
                coupling is there where all blocks that see it have chosen it, or some have. Of
                single cells these are the neighbourhoods of Meinshausen and Buhlmann; IsingFit's
                differ in that its EBIC takes the penalised loss.
            on: names of the parameters that are penalised; none: the real ones in factors of two
                cells and more.
            folds: of "cv".
            subsamples: half samples of "stability", in complementary pairs.
            threshold: share of them that must select a stable coupling, above a half.
            wrong: of "stability", the expected number of wrongly stable couplings up to whose bound
                the penalties go down.
            seed: of folds and half samples.
            weights: one per row.
            missing: see `fit`; cells that cost too much to sum out are refused.
            given: data of given variables, as in `fit`.
            gaps: see `fit`; a rule goes with "ignore".
            progress: whether to show a bar; none: where a person watches.

        Returns:
            A `Path`: `.table`, `.chosen_couplings`, `.params`, `.selected`, `.refit()`, the chosen
            model without penalty; with "stability"
            `.stable` and `.error_bound`. H and S are taken once, at the refit that would be chosen
            were cells independent; above 2000
            parameters k is what it would be then. Models that could not win with the loss of the
            last one are not refitted.

        Raises:
            GmlmError: E507 and E506 for options, E555 where nothing can be penalised, E601 for too
                many copies, E552 where a latent model's refit is no minimum, E742 for a conditional
                model, and what `fit` refuses.

        Reference: Tibshirani 1996; Yuan and Lin 2006; Hofling and Tibshirani 2009; Chen and Chen
        2008, Foygel and Drton 2010, Barber and Drton 2015 for EBIC, at refits; Varin and Vidoni
        2005, Gao and Song 2010 for its degrees; Meinshausen and Buhlmann 2006, van Borkulo et al.
        2014 for rules; Meinshausen and Buhlmann 2010, Shah and Samworth 2013 for stability;
        Meinshausen 2007 for the refit.
        """
        from ..assess import PathOptions, fit_path, path_refit

        bound, rows = bound_dataset(self.lowered, x, missing, given)
        name, lowered = self._mask(mask, bound)
        weights = rows.matched(weights, "weights")
        evidence = Evidence(bound, lowered, rows.codes, FitOptions(name, weights=weights, progress=progress, impute=False, gaps=gaps))

        refit = path_refit(Fit, evidence, rows.index, self.graph, self._meta(seed), lambda: self)
        options = PathOptions(penalty, criterion, gamma, rule, on, folds, subsamples, threshold, wrong, seed, progress)
        return fit_path(evidence, options, refit)

    @at_once
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
        clamp: Mapping[str, Any] | None = None,
        init: Any = None,
        observe: Mapping[str, Callable[[Any], Any]] | Sequence[str] | str | None = None,
        keep_draws: bool = True,
        progress: bool | None = None,
        given: Any = None,
        prompt: Any = None,
        oracle: Any = None,
    ) -> Any:
        """Run many chains of a sampler in one compiled scan; a guided one draws strings, all prompts and draws in one compiled loop.

        Each value is drawn with its probability given what it is drawn from to 1e-5 of itself down
        to 1e-30, in float64 to 1e-12.

        Args:
            params: parameters.
            sampler: the sampler's name; left out where the model has one; "exact" (unless the file
                has a sampler of that name): independent draws, where a plan is affordable, for
                which `warmup`, `thin` and `init` have no meaning.
            draws: kept draws per chain; none: 1000, of a guided sampler with `prompt=` 1.
            warmup: steps before the first; none: 500.
            thin: steps per draw.
            chains: number of chains; none: 4, of a guided sampler 1.
            seed: draw t of chain c depends on (seed, c, t) only, with prompts of their row too.
                Draws of a seed are others under `jax_enable_x64` than without it: they follow from
                the same random words, by numbers and probabilities in float64.
            clamp: cells or whole variables held at values: `{"x": {0: +1}}`.
            init: a start, or one per chain; none: independent uniform values that satisfy every
                `require` (where none is found among 2000, values built by moves of single cells,
                which are not uniform); `gm.annealed(steps=200)`: the same, then cooled.
            observe: functions of one configuration (a value array, or a dict of them), or the name
                of a `let`, or several.
            keep_draws: whether configurations, and `lp`, are kept; nothing is checked for
                convergence where they are not.
            progress: whether to show a bar; none: where a person watches.
            given: one row of data of given variables, without an axis of rows, for all chains.
            prompt: of guided samplers and `autoregressive`: what strings begin with, a list of
                prefixes of any length, values or labels, of letters also strings. Draws then have
                an axis of rows.
            oracle: of guided samplers: a `gm.Oracle` that draws in the model's place.

        Returns:
            What the installed ArviZ takes (InferenceData or DataTree): `posterior` with named dims
            and coords, `sample_stats`
            with `lp` (unnormalised log p of kept draws), the flip rate of each update, and under
            `temper` the swap rate of each pair
            of betas.
            Of a guided sampler `guided_stats`: `oracle_calls`, `verifier_calls`, `backtracks` by
            position, `length`, `valid`, and
            `failed`, where the string is -1 (0 of spins) throughout.

        Raises:
            GmlmError: for options that do not fit, a start of probability zero, a block too costly
                to draw; E745, E746 for what verifiers, values and oracles of the user's do.
        """
        lowered = bound_once(self.lowered, given, "a sampler")
        checked = None if is_one_of(sampler, ("exact",)) and sampler not in self.samplers else self.sampler(sampler)[1]
        decodes = checked is not None and checked.call is not None and is_decoder(checked.call)
        if checked is not None and checked.call is not None and not decodes:
            stated = {"thin": thin != 1, "clamp": clamp is not None, "init": init is not None, "observe": observe is not None}
            stated |= {"warmup": bool(warmup), "keep_draws": not keep_draws}
            return self._draw_strings(
                lowered, checked, checked.call, params, GuidedOptions(checked.name, prompt, draws, chains), seed, oracle, stated
            )
        only_guided(prompt=prompt, oracle=oracle)
        fresh = checked is not None and (decodes or ir.start_of(checked.kernels) is not None)
        defaults = (1000, 0 if fresh else 500, 4)
        draws, warmup, chains = (d if n is None else n for n, d in zip((draws, warmup, chains), defaults, strict=True))
        if checked is None:
            assert sampler is not None
            options = SampleOptions(sampler, draws, warmup, chains, thin, seed, clamp, init, observe, keep_draws, progress)
            return draw_exact(lowered, self._counted, self._known(params, lowered), options, self._provenance())
        options = SampleOptions(checked.name, draws, warmup, chains, thin, seed, clamp, init, observe, keep_draws, progress)
        return draw_chains(lowered, checked, self._known(params, lowered), options, self._provenance())

    def distribution(self, params: Params, given: Any = None) -> GmlmDistribution:
        """p(x) as a NumPyro `Distribution`: `log_prob` is normalised, `sample` draws exactly, latents are summed out.

        Both run inside `jax.jit`, `jax.vmap`, plates and NUTS, where the parameters are traced, and
        so may a value be.

        Args:
            params: parameters, arrays or what JAX traces; axes before a parameter's own are a
                batch, as NumPyro's distributions have.
            given: data of given variables, a row each: the batch is then that of its rows, and log
                Z is one for each.

        Returns:
            A distribution over one configuration: its event has the shape of the model's only
            `var`; of several, they are their cells one
            after another, which `unpack` takes apart and `pack` puts together. Values are integers:
            -1 and +1 of spins, 0 and 1 of
            bits, numbers of ranges, codes from 0 of letters and labels. What is no value of a cell
            has `log_prob` -inf.

        Raises:
            GmlmError: E601 with the cost where log Z, or the sum over the latents, is above the
                budget; E742 for a conditional model; E510, E506 and E501 for given data and
                parameters that do not fit.
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
            sampler: the sampler's name; left out where the model has one. One run of its body is a
                step.
            x: a dict of the variables that data hold, each in all its cells, an array where that is
                the model's only `var`; none: no cell is known. All other variables are sites, of
                their own names and of shape (rows.., *axes).
            params: from the values of all other sites to parameters; none: the sites called like
                parameters.
            given: data of given variables, one row for each of x, or one for all.

        The distribution of the cells given everything else must be the model's at these parameters:
        what else the NumPyro program makes depend on them must be factors of the model. Chains run
        by `chain_method="sequential"` or `"parallel"`, as NumPyro's Gibbs kernel asks.

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
        known = {} if x is None else x if isinstance(x, Mapping) else {self.graph.observed[0].name: x}
        with jax.ensure_compile_time_eval():
            return numpyro_kernel(law, derive.build_kernel(lowered, checked).kernel, known, params)

    def to_numpyro(
        self,
        x: Any,
        mask: str | None = None,
        *,
        weights: Any = None,
        missing: Any = None,
        given: Any = None,
        calibrate: str | None = "curvature",
        n_masks: int | str | None = None,
        sampler: str | None = None,
        gaps: str = "sum",
    ) -> NumpyroModel:
        """An ordinary NumPyro model of the parameters: for its kernels, guides and handlers, and within models of the user's own.

        It has a site for each parameter with its declared prior, flat where there is none (uniform
        on a simplex and between two bounds, improper elsewhere), and the factor `<model>.data`: -c
        * sum over rows of w loss, c as in `fit`. What moves in a subspace (a gauge) has the site
        `J.tangent` on an orthonormal basis of it, and `J` is deterministic. Under `everything` the
        factor is the log likelihood.

        Under another mask exp of the factor is no likelihood, and is calibrated: the loss is taken
        at est + C (theta - est) with C' H C = H S^-1 H, the inverse of the Godambe covariance. est
        minimises the loss without priors, H is its Hessian there, S the covariance over rows of its
        gradient, and C acts in NumPyro's unconstrained coordinates.

        Args:
            x: rows, as in `fit`.
            mask: the mask's name; left out where the model has one.
            weights: one per row, multiplying its loss.
            missing: as in `fit`; such cells are summed out.
            given: data of given variables, as in `fit`.
            calibrate: "curvature"; "simulated", the same with S over 1000 data sets that the model
                at est makes, right for one row too; None: not calibrated. Of a likelihood without
                meaning.
            n_masks: as in `fit`; masks are drawn with seed 0.
            sampler: whose draws simulated data sets are, with "simulated" alone; see
                `Fit.simulated_errors`.
            gaps: "ignore" leaves missing cells out in place of summing them out; see `fit`.

        Returns:
            A function without arguments, or of `params`, a dict of parameters that the caller
            computes: these have no site and no
            prior in it. It returns all parameters by name. `.calibration` says how it was
            calibrated, `.log_likelihood(params)` gives
            -c w loss of each row, at one value of all parameters or a batch of them.

        Raises:
            GmlmError: E507 for `calibrate="open_faced"`, which transforms draws; E554 where the
                loss cannot be calibrated; what `fit` refuses.

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

        A model without such a prior is fitted, and its parameters drawn by `Fit.posterior`; one
        whose priors have fitted parameters for arguments, which has no mode, is drawn by NUTS on
        its `to_numpyro`, not calibrated. What follows is of the others.

        The target is exp(-c * sum over rows of w loss) times the priors, with c and the loss as in
        `fit`. Under `everything` that is the posterior. Under a pseudolikelihood mask it is not:
        the draws are labelled "not calibrated", their spread and the probabilities of being in are
        those of the pseudolikelihood, and may be too sure or too unsure.

        Args:
            x: rows.
            mask: the mask's name; left out where the model has one.
            draws: kept draws per chain.
            chains: number of chains; each starts with its own entries in, drawn from the prior.
            warmup: steps before the first draw, which adapt the step of the trajectories.
            seed: of chains, and of drawn masks.
            weights: one per row, multiplying its loss.
            missing: what stands for a missing cell, as in `fit`; such cells are summed out, and
                nothing is imputed.
            given: data of given variables, as in `fit`.
            gaps: "ignore" leaves missing cells out in place of summing them out; see `fit`.

        Returns:
            What the installed ArviZ takes: `posterior` with each parameter `J`, and 0/1 in
            `J_included` where its prior is `spike_slab`;
            `sample_stats` with `lp`, `switched` (the share of entries that changed) and
            `acceptance_rate`; `calibration` among the
            attributes.

        Raises:
            GmlmError: E601 with the cost where the draws, or missing cells, take too much; E552
                where neither data nor priors determine some direction; E742 for a conditional
                model; what `fit` refuses, E706 aside.

        Reference: Mitchell and Beauchamp 1988; Gottardo and Raftery 2008.
        """
        from ..posterior import SampledOptions, draw_hierarchical, has_spikes, sample_posterior

        bound, rows = bound_dataset(self.lowered, x, missing, given)
        if self.graph.hyperpriors and not has_spikes(self.graph):
            name, _ = self._mask(mask, bound)
            target = self.to_numpyro(x, mask, weights=weights, missing=missing, given=given, calibrate=None)
            options = SampledOptions(name, draws, warmup, chains, seed, weights, gaps)
            return draw_hierarchical(target, self.graph, options, self._provenance())
        if not has_spikes(self.graph):
            fit = self.fit(x, mask, seed, weights=weights, missing=missing, given=given, impute=False, gaps=gaps)
            return fit.posterior(draws, chains, seed=seed, warmup=warmup)
        name, lowered = self._mask(mask, bound)
        weights = rows.matched(weights, "weights")
        options = SampledOptions(name, draws, warmup, chains, seed, weights, gaps)
        return sample_posterior(bound, lowered, rows.codes, options, self.program.provenance() | {"model": self.name})

    # How it is shown

    def __repr__(self) -> str:
        n_params = sum(p.size for p in self.graph.parameters)
        factors = sum(g.n for g in self.graph.factors)
        sizes = ", ".join((counted(self.graph.n_random, "cell"), counted(n_params, "parameter"), counted(factors, "factor")))
        return f"Model `{self.name}`: {sizes}; masks {listed(self.masks)}; samplers {listed(self.samplers)}"

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(f"<tr><td>{escape(v.name)}</td><td>{v.kind}</td><td>{v.shape}</td></tr>" for v in self.graph.variables)
        rows += "".join(f"<tr><td>{escape(p.name)}</td><td>{p.kind}</td><td>{p.shape}</td></tr>" for p in self.graph.parameters)
        return f"<div><p>{escape(repr(self))}</p><table><tr><th>name</th><th>kind</th><th>shape</th></tr>{rows}</table></div>"

    # Inside

    def _params(self, params: Params, lowered: Lowered, summed: bool = True) -> dict[str, jax.Array]:
        """Parameters, with which the factors of `lowered` are judged: those that read given data where it has them."""
        with evaluated(params):
            return parameters.as_params(lowered.graph, params, summed=summed)

    def _denoising(self, params: Params) -> Mapping[str, Any]:
        return self._known(params)

    def _known(self, params: Params, lowered: Lowered | None = None) -> dict[str, jax.Array]:
        """The same where nothing may be traced; `lowered`: the model with its given data, where it has some."""
        return parameters.known_params(self.graph if lowered is None else lowered.graph, params)

    def _mask(self, name: str | None, lowered: Lowered) -> tuple[str, AbstractMask]:
        """A mask by name, with the given data that `lowered` has."""
        name, mask = self.mask(name)
        return name, bound_mask(lowered, mask)

    def _warn_plain(self, K: Sequence[int] | int) -> None:
        """Say W901 of a block that only adaptive masks draw."""
        checked = self.program.checked
        own = [m for m in checked.masks.values() if m.model == self.name]
        if any(m.adaptive for m in own):
            block = np.unique(np.asarray(K, np.int64))
            found = plan.lint_conditional(self.lowered, ((m, self.mask(m.name)[1]) for m in own if not m.body.is_percolation), block)
            for d in allowed(found, checked.allowances):
                warnings.warn(f"\n{d.render()}", GmlmWarning, stacklevel=3)

    def _device(self, lowered: Lowered, counted: bool = False) -> derive.Graph:
        """The device form of the graph, or of the one with partial sums for cells; the model's own is made once for each type."""
        if lowered is not self.lowered:
            return derive.graph_arrays(lowered.graph)  # given data, with which nothing is counted
        key = str(derive.float_type()), counted and self._counted is not self._contractions
        if key not in self._devices:
            # what is kept outlives a function that is traced now
            with jax.ensure_compile_time_eval():
                self._devices[key] = derive.graph_arrays(self._counted.graph if counted else self.graph)
        return self._devices[key]

    @cached_property
    def _devices(self) -> dict[tuple[str, bool], derive.Graph]:
        return {}

    @cached_property
    def _counted(self) -> exact.Contractions:
        """Those of the model with partial sums of its large factors for cells, where it has such."""
        graph = plan.with_partial_sums(self.graph)
        return self._contractions if graph is self.graph else exact.Contractions(graph)

    def _elimination(self, params: Params, lowered: Lowered) -> tuple[exact.Contractions, derive.Graph, Mapping[str, jax.Array]]:
        """What exact answers are computed by: contractions, the graph on the device, and its parameters."""
        return self._counted, self._device(lowered, counted=True), self._known(params, lowered)

    @cached_property
    def _contractions(self) -> exact.Contractions:
        return exact.Contractions(self.graph)

    def _law(self, given: Any) -> Law:
        from ..posterior import Law

        with jax.ensure_compile_time_eval():  # what is kept outlives a function that is traced now
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

    def _wildtype(self, wildtype: Any, missing: Any, given: Any) -> Any:
        try:
            return bound_rows(self.lowered, wildtype, missing, given)
        except GmlmError as error:
            if "E501" not in error.codes:
                raise
            cure = "`list(text)` of a text of letters" if isinstance(wildtype, str) else "one configuration, such as `x[0]`, of all cells"
            raise fail("E501", f"wildtype: {error.diagnostics[0].message}", help=f"{cure}; without an axis of rows") from None

    def _meta(self, seed: int) -> dict[str, Any]:
        return self._provenance() | {"seed": seed}

    def _bound(self, found: GivenRows | None) -> Lowered:
        return self.lowered if found is None else with_given(self.lowered, found)
