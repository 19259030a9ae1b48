"""A model as a network of cells: what its factors say of substitutions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import derive
from .._diagnostics import GmlmError, fail
from .._progress import shows_progress, waiting
from ..data import bound_rows
from ..fit import Evidence, FitOptions, estimate_to_fit, fit_model, held_graph
from ._fit import Fit
from ._posteriors import Posteriors
from ._queries import Params

if TYPE_CHECKING:
    from ..assess import Path
    from ..evaluate import Effects


class Structures(Posteriors):
    """The part of a `Model` that people ask who read it as a network."""

    if TYPE_CHECKING:

        def _meta(self, seed: int) -> dict[str, Any]:
            """What a fit keeps of its program."""
            return {}

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

        Every single substitution, and every double one at chosen pairs of cells. log Z cancels, so that only the factors that touch
        the cells count: exact whatever the size of the model, the arity of its factors and its domains.

        Args:
            params: parameters.
            wildtype: one configuration, as a row of `fit` without the axis of rows.
            doubles: pairs of cells, positions or names such as `("x[0]", "x[3]")`, or a table with columns `first` and `second`, such as
                `fit.couplings(top=10)`; none: no double substitutions.
            missing: what stands for a missing cell, as in `fit`; such cells, and latents that `wildtype` lacks, are summed out.
            given: one row of data of given variables, without an axis of rows.
            progress: whether to show a bar; none: where a person watches.

        Returns:
            `Effects`: `singles`, an array (cells, values); `table`, a DataFrame of them; `doubles` and `double_table`, with `epistasis`,
            the effect of both less those of each; -inf where a mutant is impossible. `gmlmdsl.report.plot_effects` draws the singles.

        Raises:
            GmlmError: E508 where the wildtype is impossible, E507 and E506 for rows or pairs that are none, E601 where summing out missing
                cells costs too much, E742 for a conditional model.

        Reference: Hopf et al. 2017, equation 3.
        """
        from ..evaluate import substitution_effects

        if self.graph.network is not None:
            raise derive.no_joint(self.graph)
        lowered, rows = self._wildtype(wildtype, missing, given)
        if rows.shape:
            message = f"wildtype: effects are of one configuration, without an axis of rows; got rows of shape {rows.shape}"
            raise fail("E501", message, help="call it once for each row: `x[0]`")
        with waiting("effects of substitutions", shows_progress(progress)):
            return substitution_effects(lowered.graph, self._params(params, lowered), rows.codes, doubles)

    def _wildtype(self, wildtype: Any, missing: Any, given: Any) -> Any:
        try:
            return bound_rows(self.lowered, wildtype, missing, given)
        except GmlmError as error:
            if "E501" not in error.codes:
                raise
            cure = "`list(text)` of a text of letters" if isinstance(wildtype, str) else "one configuration, such as `x[0]`, of all cells"
            raise fail("E501", f"wildtype: {error.diagnostics[0].message}", help=f"{cure}; without an axis of rows") from None

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

        Each minimises (c * sum over rows of w loss - log prior) / (sum of w) + penalty * sum over couplings g of sqrt(d_g) ||theta_g||,
        theta_g the d_g entries of parameters that stand in the tables of the same pairs: the lasso where a coupling is one number, the
        group lasso where it is a table. Each fit starts at the one before; all, those of refits, folds and halves too, share one program.

        Args:
            x: rows, as in `fit`.
            mask: the mask's name; left out where the model has one.
            penalty: numbers, a number of them (2 or more, from the least without couplings to a hundredth of it), or none: 30,
                with "stability" 100.
            criterion: "ebic": the least 2 c n loss + k (log n + 2 gamma log(candidates)), the loss that of a refit of the couplings that
                are not 0 without the penalty, n the sum of w, `candidates` how many couplings there are, and k the couplings' degrees of
                freedom, tr(H^-1 S) with the Hessian H of the summed loss and the covariance S of its gradient, less the same without
                couplings: of a likelihood their number, of a pseudolikelihood up to twice as many, since a pair is in two conditionals.
                "cv": the least loss of rows left out. "stability": the couplings that `threshold` of the half samples select.
            gamma: 0 for BIC; larger ones choose fewer couplings.
            rule: none: one fit of all blocks of the mask. "and", "or": each block's conditional is fitted by itself, with parameters,
                penalties and a choice of its own (n and candidates are those of the block, c is 1, k the number of free directions); a
                coupling is there where all blocks that see it have chosen it, or some have. Of single cells these are the neighbourhoods
                of Meinshausen and Buhlmann; IsingFit's differ in that its EBIC takes the penalised loss.
            on: names of the parameters that are penalised; none: the real ones in factors of two cells and more.
            folds: of "cv".
            subsamples: half samples of "stability", in complementary pairs.
            threshold: share of them that must select a stable coupling, above a half.
            wrong: of "stability", the expected number of wrongly stable couplings up to whose bound the penalties go down.
            seed: of folds and half samples.
            weights: one per row.
            missing: see `fit`; cells that cost too much to sum out are refused.
            given: data of given variables, as in `fit`.
            gaps: see `fit`; a rule goes with "ignore".
            progress: whether to show a bar; none: where a person watches.

        Returns:
            A `Path`: `.table`, `.chosen_couplings`, `.params`, `.selected`, `.refit()`, the chosen model without penalty; with "stability"
            `.stable` and `.error_bound`. H and S are taken once, at the refit that would be chosen were cells independent; above 2000
            parameters k is what it would be then. Models that could not win with the loss of the last one are not refitted.

        Raises:
            GmlmError: E507 and E506 for options, E555 where nothing can be penalised, E601 for too many copies, E552 where a
                latent model's refit is no minimum, E742 for a conditional model, and what `fit` refuses.

        Reference: Tibshirani 1996; Yuan and Lin 2006; Hofling and Tibshirani 2009; Chen and Chen 2008, Foygel and Drton 2010, Barber and
        Drton 2015 for EBIC, at refits; Varin and Vidoni 2005, Gao and Song 2010 for its degrees; Meinshausen and Buhlmann 2006, van
        Borkulo et al. 2014 for rules; Meinshausen and Buhlmann 2010, Shah and Samworth 2013 for stability; Meinshausen 2007 for the refit.
        """
        from ..assess import PathOptions, fit_path, with_choice

        if self.graph.network is not None:
            raise derive.no_joint(self.graph)
        bound, rows = bound_rows(self.lowered, x, missing, given)
        if len(rows.shape) != 1:
            message = f"x must have one axis of rows before the variable's axes, got rows of shape {rows.shape}"
            raise fail("E501", message, help="one row is `x[None]`")
        name, lowered = self._mask(mask, bound)
        weights = rows.matched(weights, "weights")
        evidence = Evidence(bound, lowered, rows.codes, FitOptions(name, weights=weights, progress=progress, impute=False, gaps=gaps))

        def refit(still: Mapping[str, Any], start: Params) -> Fit:
            gauged = [p.name for p in self.graph.parameters if p.name in still and p.gauge]
            if gauged:
                message = f"`{gauged[0]}` has a gauge: its entries move together, and none can be held at 0 alone"
                raise fail(
                    "E549", message, help="leave the gauge out and give a weak prior: couplings are compared in the zero-sum gauge anyway"
                )
            options = dataclasses.replace(evidence.options, init=start)
            found = fit_model(dataclasses.replace(bound, graph=held_graph(bound.graph, still)), lowered, rows.codes, options, rows.index)
            found = with_choice(found, still, {p.name: p.size for p in self.graph.parameters}, False, "A penalty around 0")
            meta = self._meta(seed) | {"selected": dict(still)}
            return estimate_to_fit(Fit, found, held_graph(self.graph, still), meta, lambda: self, derive.float_type())

        return fit_path(
            evidence, PathOptions(penalty, criterion, gamma, rule, on, folds, subsamples, threshold, wrong, seed, progress), refit
        )
