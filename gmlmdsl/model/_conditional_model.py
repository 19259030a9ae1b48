"""A model whose conditionals are given by a network, without a joint distribution.

It has the methods of `JointModel` except those that need a joint distribution.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import derive
from .._diagnostics import GmlmAttributeError, fail, is_one_of, only
from .._types import AnyArray, ArrayLike, Clamp, Given, Missing, ObserveLike, Prompt, Rows
from ..data import verified_seed, verify_untraced_leaves
from ..decode import Decodes, Decoding, RowDecoder, decoding, length_coverage, row_decoder
from ..evaluate import decoder_bounds, network_queries, verified_params
from ..fit import training_of
from ..guided import GuidedOptions, no_symbols, refuse_given, refuse_guided
from ..program import ir, is_decoder, is_guided
from ..sample import SampleOptions
from ..train import network_fit
from ._joint_model import JointModel
from ._model import Model, Params

if TYPE_CHECKING:
    import optax
    from jaxtyping import PyTree

    from ..fit import Training
    from ..graph import NetworkForm
    from ..guided import Oracle
    from ..networks import AbstractNetwork


class ConditionalModel(Model):
    """A model with `conditional x ~ net(..)`, which has no joint distribution.

    For any set K of cells, the network gives p(x_i | x_rest, K) for every cell i of K separately.
    Parameters are `{"net": module}`, an Equinox module under the network's name. Rows of x and of
    given data may end early. Missing cells after the last value (`missing=`) are padding, which is
    never attended to, scored or replaced by noise. log p, marginals, modes and exact draws raise
    E742, and so does everything in `gm.theory` that needs a joint distribution. A network with
    `causal = true` gives p(x_i | the cells before it) instead. Such a model has a `log_prob` and is
    sampled by `autoregressive`.
    """

    def __getattr__(self, name: str) -> Any:
        """Raise E742 for a method that needs a joint distribution.

        Raises:
            GmlmAttributeError: E742.
        """
        if not name.startswith("_") and hasattr(JointModel, name):
            raise GmlmAttributeError(derive.no_joint(self.graph).diagnostics[0])
        return super().__getattr__(name)

    def init_params(self, seed: int = 0) -> dict[str, AbstractNetwork]:
        """Return a network with random weights, under its name."""
        return network_queries.init_params(self.graph, seed)

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
        """Return the mean over rows (weighted), masks and their noise of the loss of a mask.

        The loss of a mask K is the sum over the cells i of K of -log p(x_i | x_rest, K).

        Args:
            params: `{"net": module}`.
            x: the rows.
            mask: the mask's name.
            weights: one weight per row.
            key: a JAX key or a seed. With `n_masks` (1 by default), that many masks with their
                noise are drawn for each row.
            n_masks: the number of masks per row.
            missing: the value that marks a missing cell. At the end of a row missing cells are
                padding; before the end they are hidden and never scored.
            given: the data of given variables, as in `fit`.

        Raises:
            GmlmError: E602 if no `key` is given, and the masks cannot be enumerated or the input of
                the network is random.

        Reference: Li et al. 2024, Definition 2; Section 3.2 for stages.
        """
        return network_queries.loss(self.lowered, self._network(params), x, self._checked(mask), weights, key, n_masks, missing, given)

    def log_prob(
        self, params: Params, x: Rows, *, missing: Missing | None = None, given: Given | None = None, sampler: str | None = None
    ) -> AnyArray:
        """Return log p(x) of each row under a causal network; shape (rows..).

        log p(x) is the sum over the cells of log p(x_i | the cells before it).

        Args:
            params: `{"net": module}`.
            x: the rows; the end of a row is not part of its distribution unless its last value
                marks the end.
            missing: the value that marks padding at the end of a row.
            given: the data of given variables, as in `fit`.
            sampler: for any network, the name of a decoder whose places do not depend on its draws.
                The result is then log p of its draws, along the only path that leads to a row.

        Raises:
            GmlmError: E742 for a network that is not causal, whose conditionals declare no joint
                distribution; E507 for a sampler with many paths.
        """
        if sampler is not None:
            return decoder_bounds.log_prob(self.lowered, self._denoising(params), x, self.sampler(sampler)[1], missing, given)
        network_queries.verify_causal(self.graph)
        return network_queries.log_prob(self.lowered, self._network(params), x, missing, given)

    def next_symbol(self, params: Params, prefix: ArrayLike, *, given: Given | None = None, missing: Missing | None = None) -> np.ndarray:
        """Return p(x_t = v | x_0, .., x_(t-1)) for the first cell t that a prefix lacks.

        The network must be causal.

        Args:
            params: `{"net": module}`.
            prefix: the first t cells in row-major order, as values or labels, of shape (rows.., t).
                Letters may also be one string per row.
            given: the data of given variables, as in `fit`.
            missing: the value that marks padding in given data.

        Returns:
            An array of shape (rows.., values) whose rows sum to 1. A second call with a different t
            compiles nothing.

        Raises:
            GmlmError: E507 for a prefix that is too long, E742 for a network that is not causal.
        """
        network_queries.verify_causal(self.graph)
        return network_queries.next_symbol(self.lowered, self._network(params), prefix, given, missing)

    def log_conditional(
        self, params: Params, x: Rows, K: Sequence[int] | int, mask: str | None = None, *, given: Given | None = None
    ) -> jax.Array:
        """Return the table log p(x_K | x_rest, K).

        It is the sum over the cells i of K of the network's log p(x_i | x_rest, K), with all of K
        hidden.

        Args:
            params: `{"net": module}`.
            x: the configurations; their values in K have no effect.
            K: the positions of cells, see `positions`.
            mask: has no effect, because the network knows K and nothing corrects its output.
            given: the data of given variables, as in `fit`.

        Returns:
            An array of shape (rows.., values of the first member, values of the second, ..), with
            the members of K in ascending order.

        Raises:
            GmlmError: for positions that do not exist, or a table that is too large.
        """
        return network_queries.log_conditional(self.lowered, self._network(params), x, K, given)

    def transition_matrix(self, params: Params, sampler: str | None = None, *, given: Given | None = None) -> np.ndarray:
        """Return one run of a sampler's body as a matrix over all configurations.

        The matrix is float64, its rows sum to 1, and the first position varies slowest.

        Raises:
            GmlmError: E601 for more configurations than the limit; E507 for a refinement sampler,
                whose draws do not depend on earlier draws.
        """
        _, checked = self.sampler(sampler)
        return network_queries.transition_matrix(self.lowered, self._known(params), checked, given)

    @derive.under_automatic_mesh
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
        optimizer: optax.GradientTransformation | None = None,
        batch_size: int | None = None,
        *,
        max_steps: int | None = None,
        progress: bool | None = None,
        method: Training | None = None,
        mesh_axis: str | None = None,
        weight_axis: str | None = None,
    ) -> Any:
        """Train the network by minibatches on the loss of the mask, in nats per hidden cell.

        If the network predicts lengths, the loss of lengths is added.

        Args:
            x: the rows; they may end early.
            mask: the mask's name; it may be left out if the model has only one.
            seed: the seed of the first weights, the order of rows, masks, noise and dropout. Those
                of a step depend on (seed, step) only.
            n_masks: the number of masks drawn for each row and step; 1 if None.
            weights: one weight per row, which multiplies its loss.
            missing: the value that marks a missing cell or given entry; at the end of a row it is
                padding.
            given: the data of given variables, with one row for each row of x, or without rows for
                all rows.
            init: the first weights, `{"net": module}`. If None, they are random.
            optimizer: an optax transformation. If None, AdaFactor with linear warm-up and a cosine
                schedule (Li et al. 2024, Appendix L).
            batch_size: the number of rows per step; with `max_steps`, a short form of
                `method=gm.Training(batch_size=..)`.
            max_steps: the number of steps.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.
            method: `gm.Training(..)`, which has the steps, smoothing, averages, validation and
                checkpoints. If None, its defaults.
            mesh_axis: an axis of the ambient mesh of devices, over which the rows of each batch are
                spread: `with jax.set_mesh(jax.make_mesh((4,), ("data",))):` and `mesh_axis="data"`.
                Losses then differ from those on one device by rounding.
            weight_axis: an axis of the mesh over which weights, their averages and the state of the
                optimiser are spread, for networks that do not fit on one device; it may be that of
                `mesh_axis`. Each array is spread along its longest axis that the devices share
                equally.

        Returns:
            A `NetworkFit` with the network, traces of the loss, and the contents that `save`
            writes.

        Raises:
            GmlmError: for data, options or a mask that do not fit.
        """
        seed = verified_seed(seed)
        training = training_of(method, batch_size, max_steps)
        checked = self._checked(mask)
        options = network_fit.NetworkOptions(
            checked, seed, n_masks, weights, missing, init, optimizer, progress, training, mesh_axis, weight_axis
        )
        meta = self._provenance() | {"seed": seed, "mask": checked.name}
        return network_fit.fit(self.lowered, x, given, options, meta, lambda: self)

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
        missing: Missing | None = None,
        lengths: ArrayLike | None = None,
        prompt: Prompt | None = None,
        oracle: Oracle | None = None,
        store: str | os.PathLike[str] | None = None,
        mesh_axis: str | None = None,
    ) -> Any:
        """Run chains of updates, or decode by refinement.

        A sampler of updates draws from the network's conditionals: cell by cell or,
        `independently`, many cells in one pass. The conditionals need not belong to any joint
        distribution, so the stationary distribution of such a chain is unknown. A refinement
        sampler decodes: each draw is a separate decode.

        Args:
            params: `{"net": module}`.
            sampler: the sampler's name; it may be left out if the model has only one.
            draws: the number of kept draws per chain. If None, 1000, or 1 for a refinement sampler.
            warmup: the number of steps before the first draw. If None, 500, or 0 for a refinement
                sampler.
            chains: the number of chains. If None, 4, or 1 for a refinement sampler.
            thin: the number of steps per draw.
            seed: the seed. Draw t of chain c for row r depends on (seed, c, r, t) only, and on the
                precision, float32 or float64.
            clamp: cells or whole variables held at values. With `missing`, a whole variable may
                have missing cells, which are free.
            init: one start, or one for each row: the start of chains, or the draft at which a
                refinement begins. The padding of a draft determines the lengths.
            observe: for chains, as in `JointModel.sample`. For a decode, a list of "candidates" and
                "trace". "candidates" keeps all candidates by falling score, or all beams by falling
                log p / n^a. "trace" keeps the tokens after each pass of a refinement.
                `sample_stats` then has these arrays.
            keep_draws: whether configurations are kept.
            progress: whether a progress bar is shown. If None, it is shown if the standard error is
                a terminal and the environment variable `CI` is not set.
            given: the data of given variables, one row or many. Draws then have an axis of rows.
            missing: the value that marks padding in given data, `init` and `clamp`.
            lengths: the lengths of the rows, if they are known. If None, they are those of `init`,
                else predicted, else all cells are used.
            prompt: for `autoregressive` and guided samplers, the beginning of each row: a list of
                prefixes of any length, as values or labels; letters may also be strings. Draws then
                have an axis of rows.
            oracle: for guided samplers, a `gm.Oracle` that draws in the network's place.
            store: a file for the draws of chains of one row, as in `JointModel.sample`.
            mesh_axis: an axis of the ambient mesh of devices, over which chains are spread, or the
                batches of rows that are decoded. Decodes are those of one device, to the bit.
                Chains are equal unless rounding decides a draw.

        Returns:
            An InferenceData or a DataTree, as the installed ArviZ requires. `posterior` has the
            cells, with -1 (0 for spins) after the end of a row. In a model without given data the
            cells after `end` hold `end`. For a decode, `sample_stats` has `score`, the mean log p
            of the predicted tokens, `length`, and `passes`, the number of passes that were run. All
            of `steps` are run unless `stop` or the schedule ends them earlier; passes that would
            repeat the one before are counted, but not computed. `autoregressive` runs one for each
            cell.

        Raises:
            GmlmError: for options or data that do not fit.
        """
        if is_one_of(sampler, ("exact",)) and "exact" not in self.samplers:
            raise derive.no_joint(self.graph)
        name, checked = self.sampler(sampler)
        if checked.call is not None and (oracle is not None or is_guided(checked.call.form.name)):
            refuse_given(self._form)
            stated = {"given": given is not None, "missing": missing is not None, "lengths": lengths is not None, "thin": thin != 1}
            stated |= {"clamp": clamp is not None, "init": init is not None, "observe": observe is not None}
            stated |= {"warmup": bool(warmup), "keep_draws": not keep_draws, "store": store is not None, "mesh_axis": mesh_axis is not None}
            return self._draw_strings(
                self.lowered, checked, checked.call, params, GuidedOptions(name, prompt, draws, chains), seed, oracle, stated
            )
        if oracle is not None and checked.call is not None:
            raise no_symbols(checked.call)
        if oracle is not None:
            refuse_guided(oracle=oracle)
        fresh = ir.start_of(checked.kernels) is not None
        defaults = (1, 0, 1) if checked.call is not None else (1000, 0 if fresh else 500, 4)
        counts = (d if n is None else n for n, d in zip((draws, warmup, chains), defaults, strict=True))
        kept, before, runs = counts
        options = SampleOptions(name, kept, before, runs, thin, seed, clamp, init, observe, keep_draws, progress, mesh_axis, store=store)
        more = Decoding(given, missing, lengths, prompt=prompt)
        return decoding.draw_rows(self.lowered, checked, self._known(params, checked), options, more, self._provenance())

    @derive.under_automatic_mesh
    def decode(
        self,
        params: Params,
        sampler: str | None = None,
        *,
        given: Given | None = None,
        missing: Missing | None = None,
        lengths: ArrayLike | None = None,
        clamp: Clamp | None = None,
        init: Rows | None = None,
        seed: int = 0,
        rows: ArrayLike | None = None,
        trace: bool = False,
        prompt: Prompt | None = None,
        mesh_axis: str | None = None,
    ) -> Decodes:
        """Decode each row once and return plain arrays.

        The results are those of `sample` without labels, for programs that decode many rows.

        Args:
            params: `{"net": module}`.
            sampler: a sampler that decodes: `autoregressive`, `refinement` or one of its presets.
            given: the data of given variables, one row or many.
            missing: the value that marks padding in given data, `init` and `clamp`.
            lengths: the lengths of the rows, if they are known.
            clamp: cells that are held, as in `sample`.
            init: the draft at which a refinement begins.
            seed: the seed; row r depends on (seed, r) only.
            rows: the numbers r, if these rows are a part of a larger set. If None, 0, 1, 2, ..
            trace: whether the tokens after each pass of a refinement are kept.
            prompt: for `autoregressive`, the beginning of each row, as in `sample`.
            mesh_axis: an axis of the ambient mesh of devices, over which batches of rows are
                spread. The results are those of one device, to the bit.

        Returns:
            A `Decodes` object with these arrays:

            - `tokens`: shape (rows.., candidates, cells), codes, -1 after the end of a row
            - `score`, `length` and `passes`: shape (rows.., candidates), the best candidate first
            - `trace`: shape (rows.., passes, cells), for the best candidate
            - `traces`: shape (rows.., candidates, passes, cells), for all candidates
            - `seen`: shape (rows.., candidates, cells), the input of the last pass, -1 in hidden
              cells

        Raises:
            GmlmError: E507 for a sampler of updates; for options or data that do not fit.
        """
        return self.decoder(params, sampler).decode(seed, clamp, init, Decoding(given, missing, lengths, rows, prompt), trace, mesh_axis)

    @derive.under_automatic_mesh
    def decoder(
        self, params: Params, sampler: str | None = None, form: Callable[[AbstractNetwork], AbstractNetwork] | None = None
    ) -> RowDecoder:
        """Return a sampler that decodes, with parameters that are verified once.

        Args:
            params: `{"net": module}`.
            sampler: a sampler that decodes, as in `decode`.
            form: a function that returns the network in the form in which it decodes, such as one
                with matrices of fewer bits; None: as it is.

        Raises:
            GmlmError: E507 for a sampler of updates; E504 or E509 for parameters that do not fit.
        """
        _, checked = self.sampler(sampler)
        known = self._known(params, checked)
        if form is not None:
            if not callable(form):
                raise fail("E507", f"decoder: `form` is a function of a network, got {type(form).__name__}")
            known[self._form.label] = form(known[self._form.label])
        return row_decoder(self.lowered, checked, known)

    def length_coverage(
        self, params: Params, x: Rows, *, given: Given | None = None, missing: Missing | None = None, top: Sequence[int] = (1, 3, 5)
    ) -> dict[int, float]:
        """Return the share of rows whose true length is among the k most probable lengths.

        The network predicts the lengths. The share for k = 1 is the accuracy.

        Args:
            params: `{"net": module}`.
            x: the rows, whose lengths are the true ones.
            given: the data of given variables, as in `fit`.
            missing: the value that marks padding.
            top: the values of k.

        Returns:
            A dict of shares by k.

        Raises:
            GmlmError: E507 for a network that predicts no length.
        """
        return length_coverage(self.lowered, self._known(params), x, given, missing, top)

    def attention(
        self, params: Params, x: Rows, *, given: Given | None = None, missing: Missing | None = None, lengths: ArrayLike | None = None
    ) -> dict[str, np.ndarray]:
        """Return the attention weights of one pass whose input is x.

        Rows of weights sum to 1 over the last axis. For the last pass of a decode, x is the input
        of that pass, with the row's length: `seen` and `length` of `decode(.., trace=True)`.

        Args:
            params: `{"net": module}`.
            x: rows of cells.
            given: the data of given variables, as in `fit`.
            missing: the value that marks padding and, within a row, a hidden cell.
            lengths: the lengths of the rows. If None, the rows end with their last value.

        Returns:
            A dict by kind of attention. `self` has shape (rows, layers, heads, cells, cells). An
            encoder-decoder also has `cross`, of shape (rows, layers, heads, cells, given entries),
            and `positional` if it has such attention.

        Raises:
            GmlmError: E738 for a network without attention, including a Python class without a
                method `attention`; E507 for lengths that do not fit.

        Reference: Li et al. 2024, Section 3.4, whose quantity `gm.attention_dependency` computes
        from the weights.
        """
        return network_queries.attention(self.lowered, self._known(params), x, given, missing, lengths)

    def __repr__(self) -> str:
        form = self._form
        counts = network_queries.counts(form)
        return f"Model `{self.name}`: {self.graph.n_random} cells, network `{form.label}` of {sum(counts.values()):,} parameters"

    @property
    def _form(self) -> NetworkForm:
        """The network as it is declared, which every conditional model has."""
        form = self.graph.network
        assert form is not None
        return form

    def _checked(self, mask: str | None) -> ir.Mask:
        return self.program.checked.masks[only(mask, self.masks, "mask", self.name)]

    def _known(self, params: Params, sampler: ir.Sampler | None = None) -> dict[str, AbstractNetwork]:
        verify_untraced_leaves(params)
        start = None if sampler is None else ir.start_of(sampler.kernels)
        call = start.call if start is not None else None if sampler is None else sampler.call
        return verified_params(self._form, params, call if call is not None and is_decoder(call) else None)

    def _denoising(self, params: Params) -> Mapping[str, PyTree]:
        network_queries.verify_all_seen(self.graph)
        return self._network(params)

    def _network(self, params: Params) -> dict[str, AbstractNetwork]:
        return verified_params(self._form, params)
