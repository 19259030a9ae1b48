"""A fit with the verbs that check it; each loads what it needs when it is first called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from .._progress import shows_progress, waiting
from ..evaluate import Estimate, bits_per_cell
from ..fit import FitRecord

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..assess import Bootstrap, Contrast, CrossValidation, InformationCriterion, PredictiveCheck, Profile, Score


@final
@dataclass(frozen=True, repr=False)
class Fit(FitRecord):
    """A fitted model: estimates, standard errors, status, and the verbs that check it.

    Attributes:
        params: estimates by parameter name.
        status: whether it converged, and what has no estimate, with remedies.
        loss_trace: the objective per unit of row weight, step by step.
        objective: c * sum over rows of w loss - log prior at the estimate.
        mask: the mask's name. n_masks: masks drawn per row, None where all were used.
        meta: program text, inputs, seed, versions, seconds: what `save` keeps.
        missing: how many cells were missing, and what was done about them.
    """

    def contrast(self, parts: Mapping[str, Any], errors: str = "sandwich") -> Contrast:
        """A linear combination of parameters, with its standard error: finite also where it is determined and its entries are not.

        Args:
            parts: coefficients by parameter, each of the parameter's shape: `{"h": [1, -1, 0]}`.
            errors: see `determined_covariance`.

        Raises:
            GmlmError: E544 for coefficients that do not fit.
        """
        from ..assess import contrast

        return contrast(self, parts, errors)

    def bootstrap(self, replications: int = 200, seed: int = 0, *, max_seconds: float = 3600.0, progress: bool | None = None) -> Bootstrap:
        """Refit to rows drawn with replacement: a second opinion on the standard errors. Nothing is compiled anew.

        As many rows are drawn as there are, single rows where weights are counts; a row keeps its
        importance and its drawn masks. Where rows come in groups (time series, families) they are
        not independent, and neither this nor the sandwich is valid.

        Args:
            replications: refits, each started at the estimate; with 200 a standard error is within
                5 % of what more would give.
            seed: replication r depends on (seed, r) only.
            max_seconds: refused, after the first refit, where the others are expected to take
                longer.
            progress: whether to show a bar; none: where a person watches.

        Returns:
            A `Bootstrap`: estimates, standard errors, percentile intervals, and how many
            replications have no finite estimate.

        Raises:
            GmlmError: E505 for a fit without its data, E507 for options, E546 with the cost where
                it is above `max_seconds`.

        Reference: Efron and Tibshirani 1993, Chapters 6 and 13.
        """
        from ..assess import bootstrap

        return bootstrap(self, replications, seed, max_seconds, progress)

    def profile(self, along: Any = None, points: int = 13, *, probability: float = 0.94, progress: bool | None = None) -> Profile:
        """The objective along one entry or one direction d, minimised over all else at each point of a grid.

        Twice the rise of a likelihood is chi-square at the true value. That of a composite
        likelihood is near lambda chi-square, lambda = (d'Vd) / (d'H^-1 d) with V the sandwich and H
        the Hessian, and is divided by it. A prior counts as a fixed penalty.

        Args:
            along: an entry, `"J[0, 1]"`; a dict of coefficients, see `contrast`; none: the
                direction in which the Hessian is weakest, of those that move unbounded parameters
                only.
            points: of the grid, 5 or more; a side on which the interval is still open gets up to
                six more, each twice as far.
            probability: of the interval.
            progress: whether to show a bar; none: where a person watches.

        Returns:
            A `Profile`: grid, objective, adjusted drop, interval; `gmlmdsl.report.plot_profile`
            draws it.

        Raises:
            GmlmError: E505 for a fit without its data, E506 for an unknown entry, E547 for a
                direction that has no profile.

        Reference: Varin, Reid and Firth 2011, Section 2.3; Pace, Salvan and Sartori 2011.
        """
        from ..assess import profile

        return profile(self, along, points, probability, progress)

    def refit_selected(self, x: Any = None, weights: Any = None, *, missing: Any = None, given: Any = None) -> Fit:
        """The entries that laplace priors left free, fitted without these priors; those at their centre are held there.

        So they are not shrunk (Meinshausen 2007, the relaxed lasso). The choice of entries counts
        as given, which it is not where the same rows made it: then intervals hold the true value
        less often than they say, and the fit tells so. Rows that had no part in the choice mend
        that.

        Args:
            x: other rows; none: those of the fit.
            weights: of other rows.
            missing: what stands for a missing cell of other rows.
            given: data of given variables of other rows.

        Returns:
            A fit like any other, under the same mask and options; it can be saved.

        Raises:
            GmlmError: E549 where no parameter that was fitted has a laplace prior; E505 for a fit
                without its data.
        """
        from ..assess import refit_selected

        return refit_selected(self, x, weights, missing, given)

    def predictive(
        self,
        sampler: str | None = None,
        *,
        draws: int = 400,
        statistics: Sequence[str] = ("marginals", "pairs"),
        functions: Mapping[str, Any] | None = None,
        summaries: Mapping[str, Callable[[Any], Any]] | None = None,
        x: Any = None,
        weights: Any = None,
        missing: Any = None,
        seed: int = 0,
        chains: int = 8,
        warmup: int = 500,
        thin: int | None = None,
        progress: bool | None = None,
    ) -> PredictiveCheck:
        """Compare statistics of the data with those of replicated data sets: as many rows from the fitted model, with the same gaps.

        Args:
            sampler: whose draws the rows come from; none: independent rows where all configurations
                can be listed (`"exact"` insists on that), else the model's only sampler.
            draws: how many data sets.
            statistics: `marginals`, the share of each value of each cell, and `pairs`, for each two
                cells the share of rows in which they agree, or their joint table where their
                domains differ; among the rows where the cells are observed.
            functions: by name, functions of one configuration as in `observe=`, or names of `let`s:
                mean, spread, and shares of values.
            summaries: by name, NumPy functions of a whole data set that give one number; like
                functions, of the complete rows.
            x: other rows than the fit's, or its own where it was loaded from a file; with `weights`
                and `missing` as in `Model.fit`.
            weights: one per row of x.
            missing: see `Model.fit`.
            seed: of chains and of data sets.
            chains: number of chains.
            warmup: steps before the first draw.
            thin: steps per draw; none: a short run says how many make draws nearly independent.
            progress: whether to show a bar; none: where a person watches.

        Returns:
            A `PredictiveCheck`; `gmlmdsl.report.plot_predictive` draws it. The parameters are held
            at the estimates: statistics that the
            fit matched are near z = 0 by construction, and p-values of the others are, on average,
            rather too large than too small.

        Raises:
            GmlmError: E510 for a model with given variables, whose rows have a distribution each;
                E553 for a statistic that does not fit, E601 with the figure where all pairs are too
                many, E505 without rows.

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
            seed=seed,
            chains=chains,
            warmup=warmup,
            thin=thin,
            progress=progress,
        )

    def score(
        self,
        x: Any,
        weights: Any = None,
        *,
        mask: str | None = None,
        missing: Any = None,
        given: Any = None,
        groups: Any = None,
        n_masks: Any = None,
    ) -> Score:
        """The losses of new rows: held-out pseudolikelihood, in nats per row.

        Args:
            x: rows that the fit has not seen.
            weights: one per row.
            mask: the mask to score under; none: the fit's.
            missing: see `Model.fit`.
            given: of these rows, see `Model.fit`.
            groups: one label per row; rows of one group count as one observation in the standard
                error.
            n_masks: see `Model.fit`; none: what the fit did.

        Returns:
            A `Score`: c * loss of each row, their mean and its standard error.

        Raises:
            GmlmError: for data or a mask that do not fit.
        """
        from ..assess import score

        return score(self, x, weights, mask, missing, given, groups, n_masks)

    def cross_validate(
        self,
        folds: int = 10,
        seed: int = 0,
        *,
        mask: str | None = None,
        groups: Any = None,
        strata: Any = None,
        x: Any = None,
        weights: Any = None,
        missing: Any = None,
        given: Any = None,
        n_masks: Any = None,
        progress: bool | None = None,
    ) -> CrossValidation:
        """The loss of each row under a fit, made in the same way, to the other folds.

        Args:
            folds: how many fits; as many as rows leaves out one row at a time.
            seed: of the folds.
            mask: the mask to score under; none: the fit's.
            groups: one label per row; a group is held out as a whole.
            strata: one label per row; every fold has its share of each stratum.
            x: the rows, where the fit was loaded from a file; with `weights` and `missing` as in
                `Model.fit`.
            weights: one per row of x.
            missing: see `Model.fit`.
            given: of the rows x, see `Model.fit`.
            n_masks: of the scoring mask, see `Model.fit`.
            progress: whether to show a bar; none: where a person watches.

        Returns:
            A `CrossValidation`: held-out losses, their mean and its standard error.

        Raises:
            GmlmError: E507 for folds, groups or strata that do not fit, E505 without rows, E601 for
                too many folds.

        Reference: Stone 1974, "Cross-validatory choice and assessment of statistical predictions".
        """
        from ..assess import cross_validate

        options = {"mask": mask, "groups": groups, "strata": strata, "x": x, "weights": weights, "missing": missing, "given": given}
        return cross_validate(self, folds, seed, n_masks=n_masks, progress=progress, **options)

    def bits_per_cell(
        self, x: Any, sampler: str | None = None, *, draws: int = 64, seed: int = 0, missing: Any = None, given: Any = None
    ) -> Estimate:
        """-log2 p of rows under a decoder for each cell of a `var`, by its bound, with a standard error over rows; see `log_prob_bound`."""
        bound = self.model.log_prob_bound(self.params, x, sampler, draws=draws, seed=seed, missing=missing, given=given)
        return bits_per_cell(bound, np.full(bound.values.size, int(self.model.graph.is_observed.sum())))

    def information_criterion(self, x: Any = None, weights: Any = None, missing: Any = None, given: Any = None) -> InformationCriterion:
        """CLIC = 2 * (loss + tr(S H^-1)), the composite-likelihood information criterion.

        S = sum_r (u_r - mean u)(u_r - mean u)', u_r = c w_r grad loss_r; H is the Hessian of c sum
        w loss - log prior, so with a prior the trace is the effective number of parameters. Under
        `everything` it is Takeuchi's criterion, and without a prior and where the model is right
        Akaike's. Half of it is nearly the loss by leaving out one row at a time.

        Args:
            x: the rows of the fit, where it was loaded from a file; with `weights` and `missing` as
                in `Model.fit`.
            weights: one per row of x.
            missing: see `Model.fit`.
            given: of the rows x, see `Model.fit`.

        Raises:
            GmlmError: E552 where the fit is no minimum, E551 where x is not what was fitted, E601
                for too many parameters.

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
        x: Any = None,
        missing: Any = None,
        given: Any = None,
        progress: bool | None = None,
    ) -> Any:
        """Draws of the parameters from their posterior, by NUTS on the model of `Model.to_numpyro`, for ArviZ.

        Under `everything` the posterior is that of the likelihood. Under another mask exp(-c * sum
        over rows of w loss) times the priors is no posterior: its spread is H^-1 where estimates
        spread by the Godambe covariance H^-1 S H^-1. "curvature" takes the loss at est + C (theta -
        est), C' H C = H S^-1 H; "open_faced" multiplies draws around the estimate by a matrix that
        takes H^-1 to H^-1 S H^-1; "simulated" is "curvature" with S over 1000 data sets that the
        model at est makes, right for one row too; None leaves it as it is, and says "not
        calibrated". est, H and S are those of the loss without priors, C acts in NumPyro's
        unconstrained coordinates. Of a fit by `simulated_errors` S is simulated too.

        Args:
            draws: per chain.
            chains: number of chains; they start at draws of the normal approximation around the
                estimate.
            calibrate: "curvature", "open_faced", "simulated" or None; of a likelihood without
                meaning.
            seed: of the draws.
            warmup: steps before the first draw, which find the step size.
            x: the rows of the fit, where it was loaded from a file.
            missing: see `Model.fit`.
            given: of the rows x, see `Model.fit`.
            progress: whether to show a bar; none: where a person watches.

        Returns:
            InferenceData or DataTree with the groups `posterior`, `sample_stats` (`lp` in
            unconstrained coordinates, `diverging`,
            `n_steps`, `acceptance_rate`), `observed_data`, and what each row adds to log p of the
            parameters, (chain, draw, row):
            `log_likelihood` where the draws have that density (under `everything` it is log
            p(x_r)), `log_pseudolikelihood` (-c w loss)
            where they were calibrated, so that no row can be left out by weights. The attribute
            `calibration` says how it was done.

        Raises:
            GmlmError: E552 where the fit is no minimum; E554 where the loss cannot be calibrated:
                it has no minimiser, or the rows do not tell S; E601 with the figure where the draws
                cost too much; E505 for a fit without its data, E507 for options.

        Reference: Hoffman and Gelman 2014; Ribatet, Cooley and Davison 2012, Section 2.3; Shaby
        2014.
        """
        from ..posterior import Chains, posterior

        with waiting("drawing from the posterior", shows_progress(progress)):
            return posterior(self, Chains(draws, chains, warmup, seed), calibrate, x, missing, given)

    def to_arviz(
        self,
        *,
        draws: int = 1000,
        chains: int = 4,
        seed: int = 0,
        x: Any = None,
        missing: Any = None,
        given: Any = None,
        progress: bool | None = None,
    ) -> Any:
        """`posterior` of a fit that has a likelihood: draws with log p(x_r) of each row, for `arviz.loo` and `arviz.compare`.

        Arguments are those of `posterior`.

        Returns:
            What `posterior` gives.

        Raises:
            GmlmError: E550 for a fit under a mask other than `everything`, or with weights: it has
                no likelihood of rows; and what `posterior` refuses.

        Reference: Vehtari, Gelman and Gabry 2017 for what the draws serve.
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
        """The sandwich H^-1 S H^-1 with S measured over data sets that the fitted model makes: right for one row too.

        H is the Hessian of the objective at the data given. S is the covariance of the gradient of
        c * sum over rows of w loss over data sets of the same rows, weights, missing cells, drawn
        masks and given data, whose cells are drawn from the model at the estimate. Rows are
        independent given the model, so S is the sum over rows of the covariance of a row's gradient
        over `draws` configurations; like rows share them. A prior counts as a fixed penalty. The
        errors assume the model; the sandwich by the rows does not.

        Args:
            draws: simulated data sets; the Monte Carlo error of a standard error is about 1 /
                sqrt(2 draws) of it.
            seed: of the draws.
            sampler: whose draws they are; none: exact draws where a plan affords them (`"exact"`
                insists on that), else the model's only sampler, by 8 chains for each row of given
                data.
            warmup: steps before the first draw; of exact draws without meaning, as `thin`.
            thin: steps per draw; none: a short run says how many make draws nearly independent.
            progress: whether to show a bar; none: where a person watches.

        Returns:
            The fit with these standard errors in place of the sandwich's; `print`, `summary`,
            reports and files say that they assume the
            model, and, of a sampler's draws, how many independent ones they are worth.

        Raises:
            GmlmError: E552 for a fit that is no minimum, that drew missing cells or latents, or
                that maximised by sampling; E505 for one loaded from a file; E548 where no row has
                an observed cell to score; E507, E506 or E704 for options or samplers that do not
                fit; E601 with the figure where draws or gradients cost too much, before they start.

        Reference: Godambe 1960; Varin, Reid and Firth 2011, Section 5.1; for graphs Schmid and
        Hunter 2023.
        """
        from ..assess import How, simulated_errors

        with waiting("errors by simulation", shows_progress(progress)):
            return simulated_errors(self, How(draws, seed, sampler, warmup, thin))

    # The couplings of its cells

    def couplings(
        self,
        top: int | None = None,
        gauge: str = "zero_sum",
        score: str = "norm",
        probability: float = 0.94,
        *,
        progress: bool | None = None,
    ) -> DataFrame:
        """One row for each two cells that share a factor, the strongest first: how strongly they are coupled, with errors and intervals.

        T_ij(a, b) is the part of log p of both cells, with sums 0 over a and over b: what belongs
        to one cell is taken off, whatever the gauge of the parameters. Of a factor of three cells
        and more its mean over the others counts, of requirements nothing.

        Args:
            top: how many rows; none: all.
            gauge: "zero_sum", the only one.
            score: "norm", ||T_ij|| = sqrt(sum of T_ij(a, b)^2); "apc", S_ij - S_i S_j / S of these
                norms; or "value", of cells with two values, T_ij(last, last), with its sign: J of a
                factor J * s * t of two spins.
            probability: of the intervals.
            progress: whether to show a bar; none: where a person watches.

        Returns:
            Columns `first`, `second`, `value`, `std_error` (delta method; not valid of norms near
            0), the ends of the interval, `score`.

        Raises:
            GmlmError: E555 for a model without couplings, E507 for options, E601 for too many
                terms.

        Reference: Ekeberg et al. 2013, Section II.E; Dunn, Wahl and Gloor 2008.
        """
        from ..assess import couplings

        return couplings(self, top, gauge, score, probability, progress)

    def centrality(
        self, score: str = "norm", bootstrap: Bootstrap | None = None, probability: float = 0.94, *, progress: bool | None = None
    ) -> DataFrame:
        """How central each cell is in the network of couplings w: one row for each cell that has one.

        `strength` is the sum of |w| over a cell's couplings, `expected_influence` the sum of w with
        signs. `closeness` is 1 / (sum of the distances to all other cells), 0 where one is out of
        reach. `betweenness` is the number of pairs of other cells between which the shortest path
        runs through it, ties shared. A coupling has the length 1 / |w|.

        Args:
            score: "norm" or, of cells with two values, "value", which has signs; see `couplings`. A
                norm takes the sign of sum over a, b of T_ij(a, b) s(a) t(b), s and t the values of
                both cells less their means: that of J where the factor is J * x[i] * x[j]. Values
                without an order (letters, labels) have no sign: `expected_influence` is nan for a
                cell with such a coupling, and `attrs["note"]` says so.
            bootstrap: from `bootstrap`; then each measure has a percentile interval over its
                replications.
            probability: of the intervals. Those of sums of |w| tend to lie above the fit's own
                numbers, for noise makes |w| larger.
            progress: whether to show a bar; none: where a person watches.

        Returns:
            A DataFrame; with `bootstrap`, `attrs["stability"]` has by measure the mean rank
            correlation of a replication with the fit:
            near 1 where the order of the cells is told, near 0 where it is not.
            `gmlmdsl.report.plot_centrality` draws it.

        Raises:
            GmlmError: E507 for options, E555 for a model without couplings.

        Reference: Opsahl, Agneessens and Skvoretz 2010; Robinaugh, Millner and McNally 2016;
        Epskamp, Borsboom and Fried 2018.
        """
        from ..assess import centrality

        return centrality(self, score, bootstrap, probability, progress)

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
        """Which couplings differ between two fits of one model to independent rows: two groups of people, say.

        Without permutations, d' V^- d of each pair, d the difference of the tables T_ij of
        `couplings` in the zero-sum gauge, V the sum of their sandwich covariances and of what
        priors add (see `gm.wald_test`), is compared with chi-square of its rank. With permutations,
        rows are exchanged between the groups at random and both groups refitted: p = (1 + how many
        are at least as far apart) / (1 + permutations), exact where the groups' rows have one
        distribution.

        Args:
            other: a fit of the same program, model and mask to the other group's rows.
            correction: "holm", which bounds the chance of any wrong difference; "bh", Benjamini and
                Hochberg's, which bounds the expected share of wrong ones among those told; "none",
                of pairs chosen before the data were seen.
            level: of that chance, or share.
            permutations: how many; p is 1 / (1 + permutations) at least, and is then corrected:
                fewer than m / level - 1 of m pairs, which tell none under Holm's correction, give a
                warning.
            seed: permutation r depends on (seed, r) only.
            max_seconds: refused, after the first two refits, where all are expected to take longer.
            progress: whether to show a bar; none: where a person watches.

        Returns:
            A DataFrame, the smallest p-values first: `first`, `second`, `a` and `b` (the couplings
            of both fits; of cells with more than
            two values their norms), `value` (their difference, or its norm), `p_value`,
            `p_adjusted`, `differs`; nan where a fit has no
            error. With permutations `attrs` has `p_largest`, of the largest difference, and
            `p_strength`, of the difference of the sums of
            all norms. `gmlmdsl.report.plot_network` draws it, what does not differ pale.

        Raises:
            GmlmError: E545 for fits that cannot be compared, E507 for options, E505 for
                permutations of a fit without its data, E510 with given data, E546 with the cost
                where it is above `max_seconds`, E601 for Wald tests of more than nine values a
                cell.

        Reference: Wald 1943; Holm 1979; Benjamini and Hochberg 1995; van Borkulo et al. 2022 for
        the permutation test of networks.
        """
        from ..assess import Permutations, differences

        return differences(self, other, correction, level, Permutations(permutations, seed, max_seconds, progress))
