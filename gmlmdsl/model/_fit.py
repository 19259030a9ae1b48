"""A fitted model with the methods that check it; each method loads its module at the first call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from .._progress import shows_progress, waiting
from .._types import ArrayLike, Given, Missing, OfConfiguration, Rows
from ..derive import under_automatic_mesh
from ..evaluate import Estimate, bits_per_cell
from ..fit import FitRecord

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..assess import (
        Bootstrap,
        CaseDropping,
        Contrast,
        CrossValidation,
        InformationCriterion,
        PairTable,
        PredictiveCheck,
        Profile,
        Score,
    )


@final
@dataclass(frozen=True, repr=False)
class Fit(FitRecord):
    """A fitted model: estimates, standard errors, status, and the methods that check it.

    Attributes:
        params: the estimates by parameter name.
        status: whether the fit converged, and which entries have no estimate, with remedies.
        loss_trace: the objective per unit of row weight, step by step.
        objective: c * sum over rows of w loss - log prior at the estimate.
        mask: the mask's name.
        n_masks: the number of masks drawn per row, None if all were used.
        meta: the contents that `save` writes: program text, inputs, seed, versions, seconds.
        missing: the number of missing cells, and how they were treated.
    """

    def contrast(self, parts: Mapping[str, ArrayLike], errors: str = "sandwich") -> Contrast:
        """Return a linear combination of parameters with its standard error.

        The error is finite if the combination is determined, even if its entries are not.

        Args:
            parts: the coefficients by parameter, each of the parameter's shape: `{"h": [1, -1,
                0]}`.
            errors: see `determined_covariance`.

        Raises:
            GmlmError: E544 for coefficients that do not fit.
        """
        from ..assess import contrast

        return contrast(self, parts, errors)

    @under_automatic_mesh
    def bootstrap(
        self,
        replications: int = 200,
        seed: int = 0,
        *,
        max_seconds: float = 3600.0,
        progress: bool | None = None,
        mesh_axis: str | None = None,
    ) -> Bootstrap:
        """Refit to rows drawn with replacement, as a check of the standard errors.

        All replications share one compiled program, and each starts at the estimate, scaled by the
        curvature there. Each replication draws as many rows as there are; if weights are
        counts, single rows are drawn. A row keeps its importance and its drawn masks. If rows come
        in groups (time series, families), they are not independent, and neither the bootstrap nor
        the sandwich is valid.

        Args:
            replications: the number of refits, each started at the estimate. With 200, a standard
                error is within 5 % of its value with more replications.
            seed: the seed; replication r depends on (seed, r) only.
            max_seconds: an error is raised, after the first refit, if the others are expected to
                take longer.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.
            mesh_axis: an axis of the ambient mesh of devices, over which the rows of each refit are
                spread, as in `Model.fit`.

        Returns:
            A `Bootstrap` with estimates, standard errors, percentile intervals, and the number of
            replications without a finite estimate.

        Raises:
            GmlmError: E505 for a fit without its data, E507 for options, E546 with the cost if it
                is above `max_seconds`.

        Reference: Efron and Tibshirani 1993, Chapters 6 and 13.
        """
        from ..assess import bootstrap

        return bootstrap(self, replications, seed, max_seconds, progress, mesh_axis)

    def profile(
        self,
        along: str | Mapping[str, ArrayLike] | None = None,
        points: int = 13,
        *,
        probability: float | None = None,
        progress: bool | None = None,
    ) -> Profile:
        """Profile the objective along one direction d.

        At each point of a grid along d, the objective is minimised over all other directions. Twice
        the rise of a likelihood has a chi-square distribution at the true value. Twice the rise of
        a composite likelihood is nearly lambda times chi-square and is divided by lambda = (d'Vd) /
        (d'H^-1 d). V is the sandwich and H is the Hessian. A prior counts as a fixed penalty.

        Args:
            along: an entry, `"J[0, 1]"`, or a dict of coefficients, see `contrast`. If None, the
                direction in which the Hessian is weakest among those that move unbounded parameters
                only.
            points: the number of grid points, 5 or more. A side on which the interval is still open
                gets up to six more points. Each is twice as far from the estimate as the previous
                one.
            probability: the probability of the interval. If None, that of the fit, `level`.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.

        Returns:
            A `Profile` with grid, objective, adjusted drop and interval;
            `gmlmdsl.report.plot_profile` draws it.

        Raises:
            GmlmError: E505 for a fit without its data, E506 for an unknown entry, E547 for a
                direction that has no profile.

        Reference: Varin, Reid and Firth 2011, Section 2.3; Pace, Salvan and Sartori 2011.
        """
        from ..assess import profile

        return profile(self, along, points, self.level if probability is None else probability, progress)

    def refit_selected(
        self, x: Rows | None = None, weights: ArrayLike | None = None, *, missing: Missing | None = None, given: Given | None = None
    ) -> Fit:
        """Refit the entries that laplace priors left free, without these priors.

        Entries at the centre of their prior are held there. The free entries are therefore not
        shrunk (Meinshausen 2007, the relaxed lasso). The selection of entries is treated as given.
        If the same rows made the selection, intervals cover the true value less often than their
        nominal probability, and the status of the fit reports it. Rows that had no part in the
        selection avoid this.

        Args:
            x: other rows. If None, the rows of the fit.
            weights: the weights of other rows.
            missing: the value that marks a missing cell of other rows.
            given: the data of given variables of other rows.

        Returns:
            An ordinary fit under the same mask and options, which can be saved.

        Raises:
            GmlmError: E549 if no fitted parameter has a laplace prior; E505 for a fit without its
                data.
        """
        from ..assess import refit_selected

        return refit_selected(self, x, weights, missing, given)

    def predictive(
        self,
        sampler: str | None = None,
        *,
        draws: int = 400,
        statistics: Sequence[str] = ("marginals", "pairs"),
        functions: Mapping[str, OfConfiguration | str] | None = None,
        summaries: Mapping[str, Callable[[Any], float]] | None = None,
        x: Rows | None = None,
        weights: ArrayLike | None = None,
        missing: Missing | None = None,
        given: Given | None = None,
        level: float | None = None,
        seed: int = 0,
        chains: int = 8,
        warmup: int = 500,
        thin: int | None = None,
        progress: bool | None = None,
    ) -> PredictiveCheck:
        """Compare statistics of the data and of data sets that are simulated from the fitted model.

        A simulated data set has as many rows as the data, with the same missing cells. With given
        variables, each of its rows is drawn from the distribution given the data of that row.

        Args:
            sampler: the sampler that draws the rows. If None, the rows are independent if all
                configurations can be enumerated, and else come from the model's only sampler.
                `"exact"` requires independent rows. With given variables rows are independent.
            draws: the number of data sets.
            statistics: `marginals` and `pairs`. `marginals` is the share of each value of each
                cell. `pairs` is, for each two cells, the share of rows in which they agree, or
                their joint table if their domains differ. Both use the rows in which the cells are
                observed.
            functions: a dict by name of functions of one configuration as in `observe=`, or names
                of `let`s. Their mean, standard deviation and shares of values are compared, over
                the complete rows.
            summaries: a dict by name of NumPy functions of a whole data set that return one number,
                over the complete rows.
            x: other rows than those of the fit, or its own if the fit was loaded from a file; with
                `weights` and `missing` as in `Model.fit`.
            weights: one weight per row of x.
            missing: see `Model.fit`.
            given: the data of given variables of the rows x, as in `Model.fit`.
            level: the probability of the bands of the statistics. If None, that of the fit,
                `level`. It needs at least 2 / (1 - level) - 1 data sets.
            seed: the seed of chains and of data sets.
            chains: the number of chains.
            warmup: the number of steps before the first draw.
            thin: the number of steps per draw. If None, a short run determines how many steps make
                draws nearly independent.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.

        Returns:
            A `PredictiveCheck`; `gmlmdsl.report.plot_predictive` draws it. The parameters are held
            at the estimates. Statistics that the fit matched are therefore near z = 0 by
            construction. The p-values of the other statistics are, on average, too large rather
            than too small.

        Raises:
            GmlmError: E510 for a sampler of a model with given variables, whose rows would need a
                chain each; E553 for a statistic that does not fit, E601 with the figure if there
                are too many pairs, or too many configurations with given variables; E505 without
                rows.

        Reference: Gelman, Meng and Stern 1996, section 2; Davison and Hinkley 1997, section 4.2.5,
        for the p-value.
        """
        from ..assess import predictive

        return predictive(
            self,
            sampler,
            draws=draws,
            statistics=statistics,
            functions={} if functions is None else functions,
            summaries={} if summaries is None else summaries,
            x=x,
            weights=weights,
            missing=missing,
            given=given,
            level=level,
            seed=seed,
            chains=chains,
            warmup=warmup,
            thin=thin,
            progress=progress,
        )

    def score(
        self,
        x: Rows,
        weights: ArrayLike | None = None,
        *,
        mask: str | None = None,
        missing: Missing | None = None,
        given: Given | None = None,
        groups: ArrayLike | None = None,
        n_masks: int | None = None,
    ) -> Score:
        """Return the losses of new rows (held-out pseudolikelihood), in nats per row.

        Args:
            x: rows that were not part of the fit.
            weights: one weight per row.
            mask: the mask of the scored loss. If None, the mask of the fit.
            missing: see `Model.fit`.
            given: the data of given variables of these rows, see `Model.fit`.
            groups: one label per row; rows of one group count as one observation in the standard
                error.
            n_masks: see `Model.fit`. If None, the value of the fit.

        Returns:
            A `Score` with c * loss of each row, their mean and its standard error.

        Raises:
            GmlmError: for data or a mask that do not fit.
        """
        from ..assess import score

        return score(self, x, weights, mask, missing, given, groups, n_masks)

    @under_automatic_mesh
    def cross_validate(
        self,
        folds: int = 10,
        seed: int = 0,
        *,
        mask: str | None = None,
        groups: ArrayLike | None = None,
        strata: ArrayLike | None = None,
        x: Rows | None = None,
        weights: ArrayLike | None = None,
        missing: Missing | None = None,
        given: Given | None = None,
        n_masks: int | None = None,
        progress: bool | None = None,
        mesh_axis: str | None = None,
    ) -> CrossValidation:
        """Return the loss of each row under a fit to the other folds.

        The fits are made in the same way as this one.

        Args:
            folds: the number of folds and fits; as many folds as rows leave out one row at a time.
            seed: the seed of the folds.
            mask: the mask of the scored loss. If None, the mask of the fit.
            groups: one label per row; a group is held out as a whole.
            strata: one label per row; every fold has its share of each stratum.
            x: the rows, if the fit was loaded from a file; with `weights` and `missing` as in
                `Model.fit`.
            weights: one weight per row of x.
            missing: see `Model.fit`.
            given: the data of given variables of the rows x, see `Model.fit`.
            n_masks: the number of masks of the scoring mask, see `Model.fit`.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.
            mesh_axis: an axis of the ambient mesh of devices, over which the rows of each fit are
                spread, as in `Model.fit`.

        Returns:
            A `CrossValidation` with held-out losses, their mean and its standard error.

        Raises:
            GmlmError: E507 for folds, groups or strata that do not fit, E505 without rows, E601 for
                too many folds.

        Reference: Stone 1974, "Cross-validatory choice and assessment of statistical predictions".
        """
        from ..assess import cross_validate

        options = {"mask": mask, "groups": groups, "strata": strata, "x": x, "weights": weights, "missing": missing, "given": given}
        return cross_validate(self, folds, seed, n_masks=n_masks, progress=progress, mesh_axis=mesh_axis, **options)

    def bits_per_cell(
        self,
        x: Rows,
        sampler: str | None = None,
        *,
        draws: int = 64,
        seed: int = 0,
        missing: Missing | None = None,
        given: Given | None = None,
    ) -> Estimate:
        """Return -log2 p of rows under a decoder, per cell of a `var`.

        The result has a standard error over rows. log p is bounded by `log_prob_bound`.

        Args:
            x: the rows.
            sampler: the decoder's name, as in `log_prob_bound`.
            draws: as in `log_prob_bound`.
            seed: as in `log_prob_bound`.
            missing: as in `log_prob_bound`.
            given: as in `log_prob_bound`.
        """
        bound = self.model.log_prob_bound(self.params, x, sampler, draws=draws, seed=seed, missing=missing, given=given)
        return bits_per_cell(bound, np.full(bound.values.size, int(self.model.graph.is_observed.sum())))

    def information_criterion(
        self, x: Rows | None = None, weights: ArrayLike | None = None, missing: Missing | None = None, given: Given | None = None
    ) -> InformationCriterion:
        """Return CLIC = 2 * (loss + tr(S H^-1)), the composite-likelihood information criterion.

        S = sum_r (u_r - mean u)(u_r - mean u)' with u_r = c w_r grad loss_r. H is the Hessian of c
        sum w loss - log prior, so the trace is the effective number of parameters if there is a
        prior. Under `everything` CLIC is Takeuchi's criterion. It is Akaike's if there is also no
        prior and the model is right. Half of CLIC is nearly the leave-one-out loss.

        Args:
            x: the rows of the fit, if it was loaded from a file; with `weights` and `missing` as in
                `Model.fit`.
            weights: one weight per row of x.
            missing: see `Model.fit`.
            given: the data of given variables of the rows x, see `Model.fit`.

        Raises:
            GmlmError: E552 if the fit is not a minimum, E551 if x are not the fitted rows, E601 for
                too many parameters.

        Reference: Varin and Vidoni 2005, equation 3; Shibata 1989 for penalised fits; Takeuchi
        1976.
        """
        from ..assess import information_criterion

        return information_criterion(self, x, weights, missing, given)

    def posterior(
        self,
        draws: int = 1000,
        chains: int = 4,
        calibrate: str | None = "curvature",
        seed: int = 0,
        *,
        warmup: int = 500,
        x: Rows | None = None,
        missing: Missing | None = None,
        given: Given | None = None,
        progress: bool | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Any:
        """Draw the parameters from their posterior by NUTS on the model of `Model.to_numpyro`.

        Under `everything` the posterior is that of the likelihood. Under another mask, exp(-c * sum
        over rows of w loss) times the priors is not a posterior. Its covariance is H^-1, but the
        covariance of estimates is the Godambe covariance H^-1 S H^-1. est, H and S are those of the
        loss without priors, and C acts in NumPyro's unconstrained coordinates. `calibrate` has
        these options:

        - "curvature" evaluates the loss at est + C (theta - est), C' H C = H S^-1 H.
        - "open_faced" multiplies draws around the estimate by a matrix that maps H^-1 to H^-1 S
          H^-1.
        - "simulated" is "curvature" with S computed over 1000 data sets that are simulated from the
          model at est. It is right for one row too.
        - None does not calibrate, and labels the draws "not calibrated".

        If the fit comes from `simulated_errors`, S is simulated too.

        If the draws are not calibrated and the estimate is a saddle or at the edge of a parameter's
        range, no normal distribution is near. Then NUTS starts at random and adapts its scale.

        Args:
            draws: the number of draws per chain.
            chains: the number of chains; they start at draws of the normal approximation around the
                estimate.
            calibrate: "curvature", "open_faced", "simulated" or None. The option has no effect on a
                likelihood.
            seed: the seed of the draws.
            warmup: the number of steps before the first draw, which adapt the step size.
            x: the rows of the fit, if it was loaded from a file.
            missing: see `Model.fit`.
            given: the data of given variables of the rows x, see `Model.fit`.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.
            checkpoint: a folder for the state of the chains and their draws, as in `Model.fit`.

        Returns:
            An InferenceData or a DataTree with the groups `posterior`, `sample_stats` and
            `observed_data`. `sample_stats` has `lp` in unconstrained coordinates, `diverging`,
            `n_steps` and `acceptance_rate`. One more group has the contribution of each row to log
            p of the parameters, of shape (chain, draw, row). That group is `log_likelihood` if the
            draws have that density; under `everything` its entries are log p(x_r). It is
            `log_pseudolikelihood` (-c w loss) if the draws were calibrated, so that no row can be
            left out by weights. The attribute `calibration` describes the calibration.

        Raises:
            GmlmError: E552 if the fit is not a minimum; E554 if the loss cannot be calibrated
                because it has no minimiser or the rows do not determine S; E601 with the figure if
                the draws cost too much; E505 for a fit without its data; E507 for options.

        Reference: Hoffman and Gelman 2014; Ribatet, Cooley and Davison 2012, Section 2.3; Shaby
        2014.
        """
        from ..posterior import Chains, posterior

        with waiting("drawing from the posterior", shows_progress(progress)):
            return posterior(self, Chains(draws, chains, warmup, seed), calibrate, x, missing, given, checkpoint=checkpoint)

    def to_arviz(
        self,
        *,
        draws: int = 1000,
        chains: int = 4,
        seed: int = 0,
        x: Rows | None = None,
        missing: Missing | None = None,
        given: Given | None = None,
        progress: bool | None = None,
    ) -> Any:
        """Draw the `posterior` of a fit that has a likelihood, with log p(x_r) of each row.

        The draws serve `arviz.loo` and `arviz.compare`.

        Args:
            draws: as in `posterior`.
            chains: as in `posterior`.
            seed: as in `posterior`.
            x: as in `posterior`.
            missing: as in `posterior`.
            given: as in `posterior`.
            progress: as in `posterior`.

        Returns:
            The result of `posterior`.

        Raises:
            GmlmError: E550 for a fit under a mask other than `everything`, or with weights, since
                it has no likelihood of rows; and the errors of `posterior`.

        Reference: Vehtari, Gelman and Gabry 2017 for the use of the draws.
        """
        from ..posterior import Chains, posterior

        with waiting("drawing from the posterior", shows_progress(progress)):
            return posterior(self, Chains(draws, chains, 500, seed), None, x, missing, given, rows_only=True)

    def simulated_errors(
        self,
        draws: int = 1000,
        seed: int = 0,
        *,
        sampler: str | None = None,
        warmup: int = 500,
        thin: int | None = None,
        progress: bool | None = None,
    ) -> Fit:
        """Compute the sandwich H^-1 S H^-1 with S measured over data sets simulated from the model.

        The errors are right for one row too. H is the Hessian of the objective at the given data. S
        is the covariance of the gradient of c * sum over rows of w loss over simulated data sets.
        These have the same rows, weights, missing cells, drawn masks and given data, and their
        cells are drawn from the model at the estimate. Rows are independent given the model, so S
        is the sum over rows of the covariance of a row's gradient over `draws` configurations;
        identical rows share the configurations. A prior counts as a fixed penalty. These errors
        assume the model, whereas the sandwich by the rows does not.

        Args:
            draws: the number of simulated data sets. The relative Monte Carlo error of a standard
                error is about 1 / sqrt(2 draws).
            seed: the seed of the draws.
            sampler: the sampler of the draws. If None, the draws are exact if a plan affords them.
                Otherwise the model's only sampler draws by 8 chains for each row of given data.
                `"exact"` requires exact draws.
            warmup: the number of steps before the first draw. Like `thin`, it has no effect on
                exact draws.
            thin: the number of steps per draw. If None, a short run determines how many steps make
                draws nearly independent.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.

        Returns:
            The fit with these standard errors in place of those of the sandwich. `print`,
            `summary`, reports and files state that the errors assume the model. For the draws of a
            sampler they also give the effective number of independent draws.

        Raises:
            GmlmError: E552 for a fit that is not a minimum, that drew missing cells or latents, or
                that maximised by sampling; E505 for a fit loaded from a file; E548 if no row has an
                observed cell to score; E507, E506 or E704 for options or samplers that do not fit;
                E601 with the figure if draws or gradients cost too much, before they start.

        Reference: Godambe 1960; Varin, Reid and Firth 2011, Section 5.1; for graphs Schmid and
        Hunter 2023.
        """
        from ..assess import How, simulated_errors

        with waiting("errors by simulation", shows_progress(progress)):
            return simulated_errors(self, How(draws, seed, sampler, warmup, thin))

    # Couplings

    def couplings(
        self,
        top: int | None = None,
        gauge: str | None = "zero_sum",
        score: str = "norm",
        probability: float | None = None,
        *,
        progress: bool | None = None,
    ) -> PairTable:
        """Return a table of the strengths of couplings between cells.

        The table has one row for each two cells that share a factor. The strongest couplings come
        first, with errors and intervals. T_ij(a, b) is the part of log p that depends on both
        cells, with sums 0 over a and over b. Terms that belong to one cell are removed, whatever
        the gauge of the parameters. A factor of three or more cells contributes its mean over the
        other cells, and a requirement contributes nothing.

        Args:
            top: the number of rows. If None, all.
            gauge: "zero_sum", or None for raw tables R_ij(a, b) in place of T_ij: the sum of the
                factors that contain both cells, as the program states them. Norms of raw tables
                depend on the gauge of the parameters.
            score: "norm", "apc" or "value". "norm" is ||T_ij|| = sqrt(sum of T_ij(a, b)^2). "apc"
                is S_ij - S_i S_j / S of these norms. "value" has a sign. It is the mean over a and
                b of T_ij(a, b) u(a) v(b). Here u and v are the standardised values of both cells:
                their mean and standard deviation over the list of values are 0 and 1. For two spins
                or bits it is T_ij(last, last). For a factor J * s * t it is J sd(s) sd(t), which is
                J for spins and J / 4 for bits. Its absolute value is at most ||T_ij|| / sqrt(q r)
                of cells with q and r values, and is equal to it if T_ij is a multiple of u(a) v(b).
                With `gauge=None`, "value" is the least-squares slope of R_ij in s(a) t(b), the
                centred values: J for a factor J * s * t, whatever the values; of bits it is the
                slope of a logistic regression, as IsingFit reports it. A cell with more than two
                values must have numbers as values, such as `range(1, 6)`. Two labels count as 0 and
                1.
            probability: the probability of the intervals. If None, that of the fit, `level`.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.

        Returns:
            A DataFrame with the columns `first`, `second`, `value` (the score: a norm, which has no
            sign, by default), `std_error` (delta method; not valid for norms near 0), the ends of
            the interval, and `score`. Its methods
            `to_graphml(path)` and `to_networkx()` export the network, or a part of it:
            `fit.couplings().head(20).to_graphml("top.graphml")`.

        Raises:
            GmlmError: E555 for a model without couplings, E507 for options or for values without an
                order under "value", E601 for too many terms.

        Reference: Ekeberg et al. 2013, Section II.E; Dunn, Wahl and Gloor 2008; for "value" the
        linear-by-linear association of Goodman 1979.
        """
        from ..assess import couplings

        return couplings(self, top, gauge, score, self.level if probability is None else probability, progress)

    def centrality(
        self,
        score: str = "norm",
        bootstrap: Bootstrap | None = None,
        probability: float | None = None,
        *,
        gauge: str | None = "zero_sum",
        progress: bool | None = None,
    ) -> DataFrame:
        """Return the centrality of each cell that has a coupling in the network of couplings w.

        A coupling has the length 1 / |w|. The measures are:

        - `strength`: the sum of |w| over a cell's couplings
        - `expected_influence`: the sum of w with signs
        - `closeness`: 1 / (sum of the distances to all other cells), 0 if one of them is out of
          reach
        - `betweenness`: the number of pairs of other cells whose shortest path runs through the
          cell, with ties shared

        Args:
            score: "norm" or "value", which has signs; see `couplings`.
                A norm takes the sign of sum over a, b of T_ij(a, b) s(a) t(b). s and t are the
                values of both cells minus their means. This sign is that of J if the factor is J *
                x[i] * x[j]. Values without an order (letters, labels) have no sign:
                `expected_influence` is nan for a cell with such a coupling, and `attrs["note"]`
                states it.
            bootstrap: the result of `bootstrap`. Each measure then has a percentile interval over
                its replications.
            probability: the probability of the intervals. If None, that of the fit, `level`.
                Intervals of sums of |w| tend to lie above the estimates of the fit, because noise
                makes |w| larger.
            gauge: "zero_sum" or None, see `couplings`.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.

        Returns:
            A DataFrame. With `bootstrap`, `attrs["stability"]` has by measure the mean rank
            correlation of a replication with the fit: near 1 if the order of the cells is well
            determined, near 0 if it is not. `gmlmdsl.report.plot_centrality` draws it.

        Raises:
            GmlmError: E507 for options, E555 for a model without couplings.

        Reference: Opsahl, Agneessens and Skvoretz 2010; Robinaugh, Millner and McNally 2016;
        Epskamp, Borsboom and Fried 2018.
        """
        from ..assess import centrality

        return centrality(self, score, bootstrap, self.level if probability is None else probability, gauge, progress)

    def case_dropping(
        self,
        replications: int = 100,
        shares: ArrayLike | None = None,
        seed: int = 0,
        *,
        score: str = "norm",
        gauge: str | None = "zero_sum",
        correlation: float = 0.7,
        certainty: float = 0.95,
        max_seconds: float = 3600.0,
        progress: bool | None = None,
    ) -> CaseDropping:
        """Refit to subsets of the rows, and correlate the networks with the network of all rows.

        Each subset leaves out a share of the rows, drawn without replacement; if weights are
        counts, single rows are drawn. For each subset, the (Pearson) correlation of the statistic's
        values with the values of all rows is computed. The CS coefficient of the statistic is the
        largest share of rows left out at which the correlation exceeds `correlation` in more than a
        share `certainty` of the subsets. It is 0 if no share is small enough. Epskamp, Borsboom and
        Fried advise a coefficient of 0.25 or more, better above 0.5, before the order of cells is
        interpreted.

        Args:
            replications: the number of subsets for each share.
            shares: the shares of rows left out, between 0 and 1. If None, there are ten from 0.05
                to 0.75.
            seed: the seed; subset r of share k depends on (seed, k, r) only.
            score: "norm" or "value", see `couplings`.
            gauge: "zero_sum" or None, see `couplings`.
            correlation: the correlation of the CS coefficient.
            certainty: the share of subsets of the CS coefficient.
            max_seconds: an error is raised, after the first refit, if the others are expected to
                take longer.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.

        Returns:
            A `CaseDropping`: `.coefficients` by statistic (`edges`, and the measures of
            `centrality`), `.correlations` of shape (shares, replications), and `.table()`.
            `gmlmdsl.report.plot_case_dropping` draws it. Measures without a sign are left out, see
            `centrality`.

        Raises:
            GmlmError: E505 for a fit without its data, E507 for options, E546 with the cost if it
                is above `max_seconds`, E555 for a model without couplings.

        Reference: Epskamp, Borsboom and Fried 2018, for case dropping and the CS coefficient.
        """
        from ..assess import case_dropping

        rest = {"score": score, "gauge": gauge, "correlation": correlation, "certainty": certainty}
        return case_dropping(self, replications, shares, seed, **rest, max_seconds=max_seconds, progress=progress)  # pyright: ignore[reportArgumentType]

    def bootstrap_differences(
        self,
        bootstrap: Bootstrap,
        of: str = "edges",
        *,
        score: str = "value",
        gauge: str | None = "zero_sum",
        level: float | None = None,
        progress: bool | None = None,
    ) -> DataFrame:
        """Test which edges of this network, or centralities of its cells, differ from each other.

        The difference of each two edges (or cells) is computed in every replication of a bootstrap.
        They differ if its percentile interval excludes 0. Intervals are not corrected for the
        number of pairs, as in bootnet. Differences between two groups have their own test,
        `differences`.

        Args:
            bootstrap: the result of `bootstrap`, with 1000 replications or more for small p-values.
            of: "edges", or a measure of `centrality`, such as "strength".
            score: "value" or "norm", see `couplings`.
            gauge: "zero_sum" or None, see `couplings`.
            level: the probability of the intervals. If None, that of the fit, `level`.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.

        Returns:
            A DataFrame, the smallest p-values first. `first` and `second` are names of edges, such
            as `"x[0] - x[1]"`, or of cells. `a` and `b` are their values in the fit, and `value` is
            a - b. The other columns are the ends of the interval, `p_value` and `differs`. With r
            of R replications at or beyond 0 on the nearer side, p = 2 (r + 1) / (R + 1), at most 1.

        Raises:
            GmlmError: E507 for options or another bootstrap, E555 for a model without couplings,
                E601 for too many differences.

        Reference: Epskamp, Borsboom and Fried 2018, for bootstrapped difference tests; Efron and
        Tibshirani 1993, Section 13.3, for percentile intervals.
        """
        from ..assess import bootstrap_differences

        return bootstrap_differences(self, bootstrap, of, score, gauge, self.level if level is None else level, progress)

    def differences(
        self,
        other: FitRecord,
        *,
        correction: str = "holm",
        level: float = 0.05,
        permutations: int = 0,
        seed: int = 0,
        max_seconds: float = 3600.0,
        progress: bool | None = None,
    ) -> DataFrame:
        """Test which couplings differ between two fits of one model to independent sets of rows.

        The two sets may be two groups of respondents. Without permutations, d' V^- d of each pair
        is compared with the chi-square distribution whose degrees of freedom are its rank. d is the
        difference of the tables T_ij of `couplings` in the zero-sum gauge. V is the sum of their
        sandwich covariances and of the contributions of priors (see `gm.wald_test`).

        With permutations, rows are exchanged between the groups at random and both groups are
        refitted. p = (1 + number of permutations with at least as large a difference) / (1 +
        permutations). It is exact if the groups' rows have one distribution.

        Args:
            other: a fit of the same program, model and mask to the other group's rows.
            correction: "holm", "bh" or "none". "holm" bounds the probability of any wrong
                difference. "bh" (Benjamini and Hochberg) bounds the expected share of wrong
                differences among those reported. "none" is for pairs chosen before the data were
                seen.
            level: the bound on that probability or share.
            permutations: the number of permutations. p is at least 1 / (1 + permutations) and is
                then corrected. A warning is issued for fewer than m / level - 1 permutations of m
                pairs, which cannot detect a difference under Holm's correction.
            seed: the seed; permutation r depends on (seed, r) only.
            max_seconds: an error is raised, after the first two refits, if all refits are expected
                to take longer.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.

        Returns:
            A DataFrame, the smallest p-values first, with the columns `first`, `second`, `a` and
            `b` (the couplings of both fits; norms for cells with more than two values), `value`
            (their difference, or its norm), `p_value`, `p_adjusted` and `differs`. Entries are nan
            if a fit has no error. With permutations, `attrs` has `p_largest`, for the largest
            difference, and `p_strength`, for the difference of the sums of all norms.
            `gmlmdsl.report.plot_network` draws the table, with couplings that do not differ in pale
            colours.

        Raises:
            GmlmError: E545 for fits that cannot be compared. E507 for options. E505 for
                permutations of a fit without its data. E510 with given data. E546 with the cost if
                it is above `max_seconds`. E601 for Wald tests of cells with more than nine values.

        Reference: Wald 1943; Holm 1979; Benjamini and Hochberg 1995; van Borkulo et al. 2022 for
        the permutation test of networks.
        """
        from ..assess import Permutations, differences

        return differences(self, other, correction, level, Permutations(permutations, seed, max_seconds, progress))
