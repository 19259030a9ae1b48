"""What a compiled model answers: its parts, its probabilities and conditionals, exact answers where structure allows them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive, plan
from .._diagnostics import Diagnostic, GmlmError, GmlmWarning, counted, fail, known, only
from .._progress import shows_progress, waiting
from ..data import bound_mask, bound_rows, encode_given, evaluated, in_row_order, row_index
from ..evaluate import answer, decoder_bounds, exact, is_traced, parameters, verified_partition
from ..graph import GivenRows, Lowered, lower_model, with_given
from ..masks import AbstractMask, lower_mask
from ..plan import with_others
from ..program import allowed, ir
from ..sample import annealed_importance

if TYPE_CHECKING:
    from ..evaluate import LogProbBound
    from ..graph import AbstractProgram

Params = Mapping[str, Any]


def _made_again(program: AbstractProgram, name: str, plan: str | None) -> Any:
    return program.model(name, plan=plan)


class Queries:
    """The part of a `Model` that asks and neither fits nor samples."""

    def __init__(self, program: AbstractProgram, name: str, plan: str | None = None):
        self.program, self.name = program, name
        try:
            self.lowered: Lowered = lower_model(program.bound, name)
        except GmlmError as error:
            raise with_others(error, program.bound, name) from None
        if plan is not None:
            self.lowered = replace(self.lowered, graph=replace(self.lowered.graph, method=plan))
        self._plan = plan

    def __reduce__(self) -> tuple[Any, ...]:
        """How it travels to another process: by its program, of which it is made again; nothing compiled is kept.

        Raises:
            GmlmError: E739 for a model whose network is a class of Python: making it again would import and run that class.
        """
        network = self.graph.network
        if network is not None and network.name == "python":
            help = "send the program's text or a saved fit, and load it there with `allow_python=True`"
            raise fail("E739", f"model `{self.name}` is not pickled: to load it would run the class of its network", help=help)
        return _made_again, (self.program, self.name, self._plan)

    def __deepcopy__(self, memo: Any) -> Queries:
        return self  # nothing changes it

    # What there is

    @property
    def graph(self) -> Any:
        """The factor graph: variables, parameters, groups of factors."""
        return self.lowered.graph

    @property
    def masks(self) -> tuple[str, ...]:
        """The names of the model's masks."""
        return tuple(n for n, m in self.program.checked.masks.items() if m.model == self.name)

    @property
    def samplers(self) -> tuple[str, ...]:
        """The names of the model's samplers."""
        return tuple(n for n, s in self.program.checked.samplers.items() if s.model == self.name)

    def positions(self, variable: str) -> np.ndarray:
        """The global positions of a variable's cells, in its shape."""
        return self.graph.variable(known(variable, [v.name for v in self.graph.variables], "variable")).positions

    def mask(self, name: str | None) -> tuple[str, AbstractMask]:
        """A lowered mask by name; without one, the model's only mask that may fit.

        Raises:
            GmlmError: E707 for a mask that draws clusters, which only an update takes.
        """
        checked = self.program.checked.masks
        with_loss = tuple(n for n in self.masks if not checked[n].body.is_percolation)
        name = only(name, with_loss if name is None and with_loss else self.masks, "mask", self.name)
        if checked[name].body.is_percolation:
            raise plan.no_loss(name, checked[name])
        if name not in self._masks:
            checked = self.program.checked.masks[name]
            try:
                self._masks[name] = lower_mask(self.lowered, checked)
            except GmlmError as error:
                raise with_others(error, self.program.bound, self.name) from None
        return name, self._masks[name]

    @cached_property
    def _masks(self) -> dict[str, AbstractMask]:
        return {}

    def sampler(self, name: str | None) -> tuple[str, ir.Sampler]:
        """A checked sampler by name; without one, the model's only sampler."""
        name = only(name, self.samplers, "sampler", self.name)
        return name, self.program.checked.samplers[name]

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What the checker warns of in the program, and what only the sizes show: cells never hidden or moved, factors that reach -inf.

        Warnings that a comment `# gmlm: allow CODE` allows are left out. Each has `code`, `message` and `render()`.
        """
        checked = self.program.checked
        return (*self.program.warnings, *allowed(plan.lint_sizes(self.lowered, checked, self.name), checked.allowances))

    def init_params(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Where a fit starts: 0, positive 1, simplex uniform; with noise of sd 0.01 from `seed` where the model has latents."""
        return {k: v.astype(derive.float_type()) for k, v in parameters.init_params(self.graph, seed).items()}

    # Exact answers

    def log_potential(self, params: Params, x: Any, *, missing: Any = None, given: Any = None) -> jax.Array:
        """The unnormalised log p of each row: the sum of all factors, -inf where a `require` fails; shape (rows..).

        Args:
            params: parameters.
            x: configurations.
            missing: what stands for a missing cell, as in `fit`; such cells are summed out: the log of the sum of exp(log p).
            given: data of given variables, as in `fit`.

        Raises:
            GmlmError: E601 where the sum over a row's missing cells costs too much, E514 where a factor is nan or +inf.
        """
        from ..evaluate import log_completions

        if self.graph.network is not None:
            raise derive.no_joint(self.graph)
        lowered, rows = bound_rows(self.lowered, x, missing, given)
        found = log_completions(lowered.graph, self._device(lowered), self._params(params, lowered, summed=False), rows.codes)
        return answer(parameters.verified_answer(lowered.graph, found, jnp.inf), rows.shape)

    def log_partition(self, params: Params, *, given: Any = None) -> jax.Array:
        """log Z, exact, by variable elimination; 0 where distributions cover every cell and nothing else stands.

        Args:
            params: parameters.
            given: data of given variables, as in `fit`: there is one log Z for each row, of shape (rows..).

        Raises:
            GmlmError: E601 with the cost where it is above the budget, before any work; E514 where a factor is nan or +inf.
        """
        found = encode_given(self.graph, given)
        lowered = self._bound(found)
        arrays = self._params(params, lowered)
        if self.graph.is_normalised:
            return derive.on_device(np.zeros(() if found is None else found.shape), derive.float_type())
        values = exact.log_partition(self._contractions, self._device(lowered), arrays, found)
        values = verified_partition(self.graph, parameters.verified_answer(self.graph, values, jnp.inf))
        return answer(values, () if found is None else found.shape)

    @cached_property
    def _contractions(self) -> exact.Contractions:
        return exact.Contractions(self.graph)

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

        `sampler` takes `steps_per_beta` steps on p to the power of each of `betas` (ascending from 0 to 1, or a number of even
        steps); none: sweeps of single cells. `progress`: whether to show a bar; none: where a person watches. E507, E509 for options,
        samplers or models that it cannot use.
        """
        checked = None if sampler is None else self.sampler(sampler)[1]
        options = annealed_importance.AnnealingOptions(betas, steps_per_beta, chains, seed)
        with waiting("annealed importance sampling", shows_progress(progress)):
            return annealed_importance.estimate(self.lowered, checked, self._known(params), options)

    def log_prob(self, params: Params, x: Any, *, missing: Any = None, given: Any = None, sampler: str | None = None) -> jax.Array:
        """log p(x) = log_potential - log Z of each row, of its observed cells where some are `missing`; shape (rows..).

        -inf where p(x) = 0. Of a model with given variables it is log p(x | given). With `sampler` it is log p of what that decoder draws,
        where the places of each pass do not depend on what it draws: the sum along the row's one path.

        Raises:
            GmlmError: E507 for a sampler with many paths to a row, with the cure.
        """
        if sampler is not None:
            return decoder_bounds.log_prob(self.lowered, self._decoding_params(params), x, self.sampler(sampler)[1], missing, given)
        given = in_row_order(self.graph, given, row_index(self.graph, x))
        parts = self.log_potential(params, x, missing=missing, given=given), self.log_partition(params, given=given)
        return parts[0] - parts[1] if is_traced(parts) else answer(np.asarray(parts[0]) - np.asarray(parts[1]))

    def log_prob_bound(
        self,
        params: Params,
        x: Any,
        sampler: str | None = None,
        *,
        draws: int = 64,
        seed: int = 0,
        missing: Any = None,
        given: Any = None,
    ) -> LogProbBound:
        """Lower bounds of log p of what a decoder draws, by the passes that it makes; in nats, one for each row.

        Of a random order: the sum over t of (n_t / k_t) times the mean over K, |K| = k_t, of the sum over K of log p(x_i | x_rest, K
        hidden), where pass t settles n_t of k_t open cells. Where the places are known it is log p itself.

        Args:
            params: parameters.
            x: rows.
            sampler: the decoder's name; left out where the model has one sampler.
            draws: passes that are drawn for a row, where they are not all listed: up to 8 times as many are.
            seed: what is drawn for row r depends on (seed, r) only.
            missing: what stands for padding at the end of a network's row.
            given: data of given variables, as in `fit`.

        Returns:
            `values`, `standard_error`, and `exact`: whether nothing was drawn.

        Raises:
            GmlmError: E507 for a decoder without such a bound, with the cure; E601 where a joint distribution's conditionals cost too much.

        Reference: Hoogeboom et al. 2022 (any-order models), Sahoo et al. 2024 (masked diffusion).
        """
        found = self.sampler(sampler)[1]
        return decoder_bounds.log_prob_bound(self.lowered, self._decoding_params(params), x, found, draws, seed, missing, given)

    def predict(self, params: Params, x: Any, hidden: Any, *, missing: Any = None, given: Any = None) -> np.ndarray:
        """log p(x_i = v | the cells that are not hidden) of each hidden cell; of a network its prediction, all hidden cells at once.

        Args:
            params: parameters.
            x: rows; what they hold in hidden cells does not matter.
            hidden: booleans, (rows.., cells) or (cells,), cells of the `var`s in their order.
            missing: what stands for a missing cell: it is hidden too.
            given: data of given variables, as in `fit`.

        Returns:
            Shape (rows.., cells, values), of cells with fewer values -inf behind; of a cell that is seen 0 at its value, else -inf. In a
            joint distribution other hidden cells and latents are summed out; where what is seen is impossible all values are alike.

        Raises:
            GmlmError: E601 where that costs too much.
        """
        return decoder_bounds.predict(self.lowered, self._decoding_params(params), x, hidden, missing, given)

    def _decoding_params(self, params: Params) -> Params:
        """The parameters that decoders read."""
        return self._known(params)

    def log_conditional(self, params: Params, x: Any, K: Sequence[int] | int, mask: str | None = None, *, given: Any = None) -> jax.Array:
        """The table log p(x_K | x_rest), or with `mask` log p(x_K | x_rest, K), proportional to p(x) p(K | x).

        Args:
            params: parameters.
            x: configurations; what they hold in K does not matter.
            K: positions of cells, see `positions`.
            mask: the mask that drew K.
            given: data of given variables, as in `fit`.

        Returns:
            Shape (rows.., values of the first member, values of the second, ..), members ascending; -inf at impossible values,
            nan where the rest itself is impossible.

        Raises:
            GmlmError: for positions that are none, a K outside the mask's support, a block too costly to enumerate.

        Warns:
            GmlmWarning: W901 without `mask`, where only masks that look at x draw K.

        Reference: Li et al. 2024, Definition 7.
        """
        from ..evaluate import named_conditionals

        lowered, rows = bound_rows(self.lowered, x, None, given)
        drawn = None if mask is None else self._mask(mask, lowered)
        table = named_conditionals.log_conditional(lowered, self._params(params, lowered), rows.codes, K, drawn)
        if mask is None:
            self._warn_plain(K)
        return answer(table, (*rows.shape, *table.shape[1:]))

    def _warn_plain(self, K: Sequence[int] | int) -> None:
        """Say W901 of a block that only adaptive masks draw."""
        checked = self.program.checked
        own = [m for m in checked.masks.values() if m.model == self.name]
        if any(m.adaptive for m in own):
            block = np.unique(np.asarray(K, np.int64))
            found = plan.lint_conditional(self.lowered, ((m, self.mask(m.name)[1]) for m in own if not m.body.is_percolation), block)
            for d in allowed(found, checked.allowances):
                warnings.warn(f"\n{d.render()}", GmlmWarning, stacklevel=3)

    def marginals(self, params: Params, clamp: Mapping[str, Any] | None = None, given: Any = None) -> dict[str, np.ndarray]:
        """p(x_i = v | clamped cells) of every cell, exact.

        Args:
            params: parameters.
            clamp: cells or whole variables held at values, as in `sample`; they are sure of them.
            given: data of given variables, as in `fit`.

        Returns:
            By variable (latents too), shape (*axes, values), values in domain order; rows of given data before them.

        Raises:
            GmlmError: E601 with the cost where no plan is affordable; E512 where no configuration agrees with the clamped cells.
        """
        found = encode_given(self.graph, given)
        lowered = self._bound(found)
        return exact.marginals(self._contractions, self._device(lowered), self._known(params, lowered), clamp, found)

    def map(self, params: Params, clamp: Mapping[str, Any] | None = None, given: Any = None) -> tuple[Any, Any]:
        """A most probable configuration that agrees with the clamped cells, and its log_prob.

        Args:
            params: parameters.
            clamp: cells or whole variables held at values, as in `sample`.
            given: data of given variables, as in `fit`.

        Returns:
            The configuration, an array where the model has one variable, else a dict (latents too), letters and labels as codes; of
            equally probable ones, the same in every run. And log p of it, nan where log Z is not affordable (while the mode is).

        Raises:
            GmlmError: E601 with the cost where no plan is affordable; E512 where no configuration agrees with the clamped cells.
        """
        found = encode_given(self.graph, given)
        shape = () if found is None else found.shape
        lowered = self._bound(found)
        codes, value = exact.best(self._contractions, self._device(lowered), self._known(params, lowered), clamp, found)
        try:
            log_z = np.asarray(self.log_partition(params, given=given))
        except GmlmError:
            log_z = np.nan
        return exact.configuration(self.graph, codes, shape), value.reshape(shape)[()] - log_z

    def next_symbol(self, params: Params, prefix: Any, *, given: Any = None) -> np.ndarray:
        """p(x_t = v | x_0, .., x_(t-1)), of the first cell that a prefix lacks; latents and later cells are summed out.

        Args:
            params: parameters.
            prefix: the first t cells of the model's only `var`, in row-major order, shape (rows.., t), values or labels; of letters also
                one string per row. t is below the number of cells, and may be 0: shape (rows.., 0).
            given: data of given variables, as in `fit`.

        Returns:
            Shape (rows.., values), rows sum to 1; nan where the prefix is impossible, which is warned of. A second call with another t
            compiles nothing.

        Raises:
            GmlmError: E507 for a model with several `var`s or a prefix that is too long, E601 with the cost where no plan is affordable.

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

    # Inside

    def _params(self, params: Params, lowered: Lowered, summed: bool = True) -> dict[str, jax.Array]:
        """Parameters, with which the factors of `lowered` are judged: those that read given data where it has them."""
        with evaluated(params):
            return parameters.as_params(lowered.graph, params, summed=summed)

    def _known(self, params: Params, lowered: Lowered | None = None) -> dict[str, jax.Array]:
        """The same where nothing may be traced; `lowered`: the model with its given data, where it has some."""
        return parameters.known_params(self.graph if lowered is None else lowered.graph, params)

    def _mask(self, name: str | None, lowered: Lowered) -> tuple[str, AbstractMask]:
        """A mask by name, with the given data that `lowered` has."""
        name, mask = self.mask(name)
        return name, bound_mask(lowered, mask)

    def _device(self, lowered: Lowered) -> derive.Graph:
        if lowered is not self.lowered:
            return derive.graph_arrays(lowered.graph)
        key = str(derive.float_type())
        if key not in self._devices:
            with jax.ensure_compile_time_eval():  # what is kept outlives a function that is traced now
                self._devices[key] = derive.graph_arrays(self.graph)
        return self._devices[key]

    @cached_property
    def _devices(self) -> dict[str, derive.Graph]:
        return {}

    def _bound(self, found: GivenRows | None) -> Lowered:
        return self.lowered if found is None else with_given(self.lowered, found)
