"""A compiled model and its verbs, each one call into a room."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import counted, fail, is_one_of, listed, whole_number
from ..data import bound_once, bound_rows, decode, generator, verified_seed
from ..evaluate import init_params, parameters
from ..fit import WHOLE, Evidence, FitOptions, PersistentContrastiveDivergence, estimate_to_fit, fit_model, method_of, whole_mask
from ..graph import FactorGraph
from ..guided import GuidedOptions, Setting, draw_guided, no_symbols, refuse_options
from ..plan import verify_held
from ..program import ir, is_decoder
from ..sample import SampleOptions, SamplingWarning, draw_chains, draw_exact, starts
from ._fit import Fit
from ._queries import Params
from ._structures import Structures

if TYPE_CHECKING:
    import optax

    from ..posterior import NumpyroModel


class Model(Structures):
    """A model of a bound program.

    Configurations `x` are arrays where the model has one variable, else dicts by variable, of shape (rows.., *axes): values
    for spin, bit and range, texts or 0-based codes for letters and labels. Parameters are dicts of arrays by name.
    """

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
            key: a key of JAX or a seed; with `n_masks`, draws that many masks per row instead of averaging over all. Its value must
                be known: within a function that is compiled as a whole, the masks are those of the key at its compilation.
            n_masks: masks per row.
            missing: what stands for a missing cell, as in `fit`; such cells are summed out of both p(x_K, x_rest) and p(x_rest).
            given: data of given variables, as in `fit`.

        Raises:
            GmlmError: E511 for missing cells under a mask that looks at x, E601 where summing them out costs too much, E602
                where the mask has more blocks than the limit and no `key` and `n_masks` are given, E514 where a factor is nan or +inf.

        Reference: Li et al. 2024, Definitions 2 and 7.
        """
        from ..evaluate import named_conditionals

        lowered, rows = bound_rows(self.lowered, x, missing, given)
        known, weights = self._params(params, lowered), rows.matched(weights, "weights")
        found = named_conditionals.loss(lowered, self._mask(mask, lowered), known, rows.codes, weights, key, n_masks)
        return parameters.verified_answer(lowered.graph, found, -jnp.inf)

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
        if isinstance(checked.body, ir.FormCall):
            raise derive.no_chain(checked.body)
        lowered = bound_once(self.lowered, given, "a transition matrix")
        with jax.enable_x64(True):
            return derive.Transitions(lowered, self._known(params, lowered)).matrix(checked.body)

    def sampler_bias(self, params: Params, sampler: str | None = None, *, given: Any = None) -> float:
        """How far a sampler's long run is from p: max over sets A of |pi(A) - p(A)| = 1/2 sum over x of |pi(x) - p(x)|.

        pi is the stationary distribution of `transition_matrix`, solved for in float64. 0 up to rounding where every update keeps p; an
        update drawn `independently` keeps it only where no two cells of a block interact. Between 0 and 1, without a unit.

        Returns:
            The total variation distance; nan where the chain settles in no single distribution, so that its long run depends on the start.

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

    # Fitting and sampling

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

        So masks of one cell give penalised pseudolikelihood, and `everything` the usual penalised maximum likelihood.

        Args:
            x: rows.
            mask: the mask's name; left out where the model has one.
            seed: of drawn masks and minibatches.
            n_masks: None averages over every mask for every row where there are at most 4096 ("all" forces it); otherwise that
                many masks per row (1 where None) are drawn once and kept.
            weights: one per row, multiplying its loss; standard errors take them as `weights_are` says.
            missing: a number or text outside the domain, nan for nan and None, or a dict of them by variable: such cells are summed
                out of both p(x_K, x_rest) and p(x_rest); a row without an observed cell in K scores 0. Right where cells are missing
                completely at random, or the mask is `everything`; where at random only, see `impute`. Whatever `missing` says, what
                `numpy.ma` masks is such a cell; nan, None and `pandas.NA` are errors unless it is nan.
            given: data of given variables, a dict of arrays by name: as x, one row for each row of x, or without rows, the same for all.
            init: starts of some parameters.
            fixed: values at which some are held.
            optimizer: an optax transformation; none: full-batch L-BFGS with a line search, in float64; where rows are many
                its first steps are taken in float32.
            batch_size: rows per step of `optimizer`; none: all.
            max_steps: the most steps.
            weights_are: "importances", or "counts": then a row of weight 3 is three rows, in standard errors too.
            progress: whether to show a bar; none: where a person watches.
            impute: what becomes of rows whose missing cells cost too much to sum out. None: they are drawn inside the fit by block
                dynamics (Monte Carlo EM); True: so are all rows with missing cells; False: they are refused with the cost.
            method: none: the exact objective, latents that x lacks summed out (refused where that costs too much);
                `gm.MonteCarloEM()`: they are drawn inside the fit; `gm.PersistentContrastiveDivergence()`: the likelihood, by
                chains, and then `mask` may be left out. "mcem" and "pcd" stand for these with their defaults.
            gaps: "sum": missing cells are summed out, as `missing` says. "ignore": they are left out, as plmc's `-g` does: with O the
                observed cells of a row, the term of K is -log p_O(x_(K and O) | x_(O - K)), p_O the product of the factors whose cells
                are all in O. Quick and convex, and no conditional of p where a missing cell is a neighbour. It refuses latents that x
                lacks, missing cells of a `require` or of a mask that looks at x, `impute` and `method`.

        Returns:
            A `Fit`: estimates, sandwich standard errors, status with remedies.

        Raises:
            GmlmError: for data, options or a mask that do not fit, an impossible row, or a cost above the budget.

        Reference: Li et al. 2024, Definitions 2 and 7, Lemma 1.
        """
        seed = verified_seed(seed)
        bound, rows = bound_rows(self.lowered, x, missing, given)
        if len(rows.shape) != 1:
            message = f"x must have one axis of rows before the variable's axes, got rows of shape {rows.shape}"
            raise fail("E501", message, help="one row is `x[None]`")
        method, weights = method_of(method), rows.matched(weights, "weights")
        whole = mask is None and isinstance(method, PersistentContrastiveDivergence)
        name, lowered = (WHOLE, whole_mask(self.graph)) if whole else self._mask(mask, bound)
        options = FitOptions(
            name, seed, n_masks, weights, init, fixed, optimizer, batch_size, max_steps, progress, impute, weights_are, method, gaps=gaps
        )
        estimate = fit_model(bound, lowered, rows.codes, options, rows.index)
        return estimate_to_fit(Fit, estimate, self.graph, self._meta(seed), lambda: self, derive.float_type())

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

        It has a site for each parameter with its declared prior, flat where there is none (uniform on a simplex and between two
        bounds, improper elsewhere), and the factor `<model>.data`:
        -c * sum over rows of w loss, c as in `fit`. What moves in a subspace (a gauge) has the site `J.tangent` on an orthonormal
        basis of it, and `J` is deterministic. Under `everything` the factor is the log likelihood.

        Under another mask exp of the factor is no likelihood, and is calibrated: the loss is taken at est + C (theta - est) with
        C' H C = H S^-1 H, the inverse of the Godambe covariance. est minimises the loss without priors, H is its Hessian there, S the
        covariance over rows of its gradient, and C acts in NumPyro's unconstrained coordinates.

        Args:
            x: rows, as in `fit`.
            mask: the mask's name; left out where the model has one.
            weights: one per row, multiplying its loss.
            missing: as in `fit`; such cells are summed out.
            given: data of given variables, as in `fit`.
            calibrate: "curvature"; "simulated", the same with S over 1000 data sets that the model at est makes, right for one row too;
                None: not calibrated. Of a likelihood without meaning.
            n_masks: as in `fit`; masks are drawn with seed 0.
            sampler: whose draws simulated data sets are, with "simulated" alone; see `Fit.simulated_errors`.
            gaps: "ignore" leaves missing cells out in place of summing them out; see `fit`.

        Returns:
            A function without arguments, or of `params`, a dict of parameters that the caller computes: these have no site and no
            prior in it. It returns all parameters by name. `.calibration` says how it was calibrated, `.log_likelihood(params)` gives
            -c w loss of each row, at one value of all parameters or a batch of them.

        Raises:
            GmlmError: E507 for `calibrate="open_faced"`, which transforms draws; E554 where the loss cannot be calibrated; what `fit`
                refuses.

        Reference: Ribatet, Cooley and Davison 2012, Section 2.3.
        """
        from ..assess import How
        from ..posterior import to_numpyro

        bound, rows = bound_rows(self.lowered, x, missing, given)
        if len(rows.shape) != 1:
            message = f"x must have one axis of rows before the variable's axes, got rows of shape {rows.shape}"
            raise fail("E501", message, help="one row is `x[None]`")
        name, lowered = self._mask(mask, bound)
        if sampler is not None and calibrate != "simulated":
            message = f"sampler={sampler!r} draws simulated data sets, and nothing is simulated here"
            raise fail("E507", message, help='leave it out, or `calibrate="simulated"`')
        weights = rows.matched(weights, "weights")
        evidence = Evidence(bound, lowered, rows.codes, FitOptions(name, n_masks=n_masks, weights=weights, impute=False, gaps=gaps))
        return to_numpyro(evidence, calibrate, How(1000, 0, sampler, 500), self._meta(0), lambda: self)

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

        Each value is drawn with its probability given what it is drawn from to 1e-5 of itself down to 1e-30, in float64 to 1e-12.

        Args:
            params: parameters.
            sampler: the sampler's name; left out where the model has one; "exact" (unless the file has a sampler of that name):
                independent draws, where a plan is affordable, for which `warmup`, `thin` and `init` have no meaning.
            draws: kept draws per chain; none: 1000, of a guided sampler with `prompt=` 1.
            warmup: steps before the first; none: 500.
            thin: steps per draw.
            chains: number of chains; none: 4, of a guided sampler 1.
            seed: draw t of chain c depends on (seed, c, t) only, with prompts of their row too. Draws of a seed are others under
                `jax_enable_x64` than without it: they follow from the same random words, by numbers and probabilities in float64.
            clamp: cells or whole variables held at values: `{"x": {0: +1}}`.
            init: a start, or one per chain; none: independent uniform values that satisfy every `require` (where none is found among
                2000, values built by moves of single cells, which are not uniform); `gm.annealed(steps=200)`: the same, then cooled.
            observe: functions of one configuration (a value array, or a dict of them), or the name of a `let`, or several.
            keep_draws: whether configurations, and `lp`, are kept; nothing is checked for convergence where they are not.
            progress: whether to show a bar; none: where a person watches.
            given: one row of data of given variables, without an axis of rows, for all chains.
            prompt: of guided samplers and `autoregressive`: what strings begin with, a list of prefixes of any length, values or labels,
                of letters also strings. Draws then have an axis of rows.
            oracle: of guided samplers: a `gm.Oracle` that draws in the model's place.

        Returns:
            What the installed ArviZ takes (InferenceData or DataTree): `posterior` with named dims and coords, `sample_stats`
            with `lp` (unnormalised log p of kept draws), the flip rate of each update, and under `temper` the swap rate of each pair
            of betas.
            Of a guided sampler `guided_stats`: `oracle_calls`, `verifier_calls`, `backtracks` by position, `length`, `valid`, and
            `failed`, where the string is -1 (0 of spins) throughout.

        Raises:
            GmlmError: for options that do not fit, a start of probability zero, a block too costly to draw; E745, E746 for what verifiers,
                values and oracles of the user's do.
        """
        lowered = bound_once(self.lowered, given, "a sampler")
        checked = None if is_one_of(sampler, ("exact",)) and sampler not in self.samplers else self.sampler(sampler)[1]
        if checked is not None and isinstance(checked.body, ir.FormCall) and not is_decoder(checked.body):
            stated = {"thin": thin != 1, "clamp": clamp is not None, "init": init is not None, "observe": observe is not None}
            setting = Setting(lowered, params, verified_seed(seed), self.program.allow_python, oracle)
            refuse_options(checked, stated | {"warmup": bool(warmup), "keep_draws": not keep_draws})
            return draw_guided(setting, checked.body, GuidedOptions(checked.name, prompt, draws, chains), self._provenance())
        if oracle is not None and checked is not None and isinstance(checked.body, ir.FormCall):
            raise no_symbols(checked.body)
        for option, value in (("prompt", prompt), ("oracle", oracle)):
            if value is not None:
                message = f"`{option}=` is of guided samplers, which grow strings from their first symbol on"
                raise fail("E507", message, help="clamp cells: `clamp=`" if option == "prompt" else "")
        fresh = checked is not None and (isinstance(checked.body, ir.FormCall) or ir.start_of(checked.body) is not None)
        defaults = (1000, 0 if fresh else 500, 4)
        draws, warmup, chains = (d if n is None else n for n, d in zip((draws, warmup, chains), defaults, strict=True))
        if checked is None:
            assert sampler is not None
            options = SampleOptions(sampler, draws, warmup, chains, thin, seed, clamp, init, observe, keep_draws, progress)
            return draw_exact(lowered, self._contractions, self._known(params, lowered), options, self._provenance())
        options = SampleOptions(checked.name, draws, warmup, chains, thin, seed, clamp, init, observe, keep_draws, progress)
        return draw_chains(lowered, checked, self._known(params, lowered), options, self._provenance())

    def _provenance(self) -> dict[str, Any]:
        return self.program.provenance() | {"model": self.name}

    def _meta(self, seed: int) -> dict[str, Any]:
        return self._provenance() | {"seed": seed}

    def compile(
        self, rows: int | None = None, mask: str | None = None, *, sampler: str | None = None, draws: int = 1000, chains: int = 4
    ) -> None:
        """Compile ahead what `fit` of so many rows, and `sample` of so many draws and chains, will run.

        The programs are there for the first such calls of this process and, kept on disk, of later ones. For a fit, one of random
        rows takes a single step; for draws nothing is run. What depends on more than shapes is compiled when it is met: weights,
        missing cells, other options, and what only some data need, such as a search for parameters without a finite estimate.

        Args:
            rows: of the fit; none: no fit is compiled.
            mask: of the fit; left out where the model has one.
            sampler: of the draws, as in `sample`; none: no draws are compiled.
            draws: as in `sample`.
            chains: as in `sample`.

        Raises:
            GmlmError: E507 for neither `rows` nor `sampler`; what `fit` and `sample` refuse, given variables without their data among it.
        """
        if rows is None and sampler is None:
            raise fail("E507", "compile: neither `rows` nor `sampler` says what for", help="`rows=1000` for a fit, `sampler=` for draws")
        if rows is not None:
            self.fit(random_rows(self.graph, whole_number("compile: rows", rows, 1)), mask, max_steps=1, progress=False)
        if sampler is not None:
            with derive.compiled_only(), warnings.catch_warnings():
                warnings.simplefilter("ignore", SamplingWarning)
                chain = not is_one_of(sampler, self.samplers) or not isinstance(self.sampler(sampler)[1].body, ir.FormCall)
                steps: dict[str, Any] = {"warmup": 1} if chain else {}
                self.sample(self.init_params(), sampler, draws=draws, chains=chains, progress=False, **steps)

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


FEW = 64  # rows that are looked for where most random ones are impossible


def random_rows(graph: FactorGraph, rows: int) -> dict[str, Any]:
    """Uniform configurations by variable, latents left out; where some are impossible, copies of a few possible ones take their place."""
    verify_held(4 * rows * graph.n_cells, f"{rows:,} random rows of {counted(graph.n_cells, 'cell')}", "fewer `rows=`")
    params = {k: jnp.asarray(v) for k, v in init_params(graph).items()}
    codes = generator(0).integers(0, graph.sizes[:, None], (graph.n_cells, rows), dtype=np.int32)
    bad = ~(np.asarray(derive.compiled.log_potential(derive.graph_arrays(graph), params, jnp.asarray(codes))) > -np.inf)
    if bad.any():
        nothing_held = np.zeros(graph.n_cells, bool), np.zeros(graph.n_cells, np.int32)
        possible = starts(graph, FEW, 0, None, nothing_held, params).codes
        codes[:, bad] = possible[:, np.arange(bad.sum()) % FEW]
    latents = {v.name for v in graph.latents}
    return {name: values for name, values in decode(graph, codes, (rows,)).items() if name not in latents}
