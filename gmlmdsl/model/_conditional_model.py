"""A model whose conditionals are a network's: the same verbs, but for those that ask for a joint distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import derive
from .._diagnostics import GmlmAttributeError, is_one_of, only
from ..data import verified_seed, verify_untraced_leaves
from ..decode import Decodes, Decoding, decoding, length_coverage
from ..evaluate import decoder_bounds, network_queries, verified_params
from ..fit import training_of
from ..guided import GuidedOptions, no_symbols, only_guided, refuse_given
from ..program import ir, is_decoder, is_guided
from ..sample import SampleOptions
from ..train import network_fit
from ._joint_model import JointModel
from ._model import Model, Params

if TYPE_CHECKING:
    import optax


class ConditionalModel(Model):
    """A model with `conditional x ~ net(..)`: p(x_i | x_rest, K) for every cell i of K on its own, for any K, and no joint distribution.

    Parameters are `{"net": module}`, an Equinox module under the network's name. Rows of x and of
    given data may end early: missing cells behind the last value (`missing=`) are padding, never
    attended, scored or noised. log p, marginals, modes and exact draws are refused (E742), as is
    everything in `gm.theory` that needs a joint distribution. A network with `causal = true` gives
    p(x_i | the cells before it) instead: it has a `log_prob`, and is sampled by `autoregressive`.
    """

    def __getattr__(self, name: str) -> Any:
        """A verb that needs a joint distribution is refused as what it is.

        Raises:
            GmlmAttributeError: E742.
        """
        if not name.startswith("_") and hasattr(JointModel, name):
            raise GmlmAttributeError(derive.no_joint(self.graph).diagnostics[0])
        return super().__getattr__(name)

    def init_params(self, seed: int = 0) -> dict[str, Any]:
        """A network with random weights, under its name."""
        return network_queries.init_params(self.graph, seed)

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
        """The mean over rows (weighted) of the mean over masks and their noise of the sum over K of -log p(x_i | x_rest, K).

        Args:
            params: `{"net": module}`.
            x: rows.
            mask: the mask's name.
            weights: one per row.
            key: a key of JAX or a seed; with `n_masks` (1 if not said), draws that many masks, with
                their noise, for each row.
            n_masks: masks per row.
            missing: what stands for a missing cell: padding at the end of a row, hidden and never
                scored before it.
            given: data of given variables, as in `fit`.

        Raises:
            GmlmError: E602 where the mean over all masks cannot be listed, or what the network sees
                is random, and no `key` is given.

        Reference: Li et al. 2024, Definition 2; Section 3.2 for stages.
        """
        return network_queries.loss(self.lowered, self._network(params), x, self._checked(mask), weights, key, n_masks, missing, given)

    def log_prob(self, params: Params, x: Any, *, missing: Any = None, given: Any = None, sampler: str | None = None) -> Any:
        """log p(x) of each row by a causal network, the sum over its cells of log p(x_i | the cells before it); shape (rows..).

        Args:
            params: `{"net": module}`.
            x: rows; where a row ends is not part of its distribution unless its last value says so.
            missing: what stands for padding at the end of a row.
            given: data of given variables, as in `fit`.
            sampler: of any network a decoder whose places do not depend on what it draws: log p of
                what that draws, by a row's one path.

        Raises:
            GmlmError: E742 for every other network: its conditionals declare no joint distribution;
                E507 for a sampler with many paths.
        """
        if sampler is not None:
            return decoder_bounds.log_prob(self.lowered, self._denoising(params), x, self.sampler(sampler)[1], missing, given)
        network_queries.verify_causal(self.graph)
        return network_queries.log_prob(self.lowered, self._network(params), x, missing, given)

    def next_symbol(self, params: Params, prefix: Any, *, given: Any = None) -> np.ndarray:
        """p(x_t = v | x_0, .., x_(t-1)) by a causal network, of the first cell that a prefix lacks.

        Args:
            params: `{"net": module}`.
            prefix: the first t cells in row-major order, shape (rows.., t), values or labels; of
                letters also one string per row.
            given: data of given variables, as in `fit`.

        Returns:
            Shape (rows.., values), rows sum to 1. A second call with another t compiles nothing.

        Raises:
            GmlmError: E507 for a prefix that is too long, E742 for a network that is not causal.
        """
        network_queries.verify_causal(self.graph)
        return network_queries.next_symbol(self.lowered, self._network(params), prefix, given)

    def log_conditional(self, params: Params, x: Any, K: Sequence[int] | int, mask: str | None = None, *, given: Any = None) -> jax.Array:
        """The table log p(x_K | x_rest, K), the sum over the cells of K of the network's log p(x_i | x_rest, K), all of K hidden.

        Args:
            params: `{"net": module}`.
            x: configurations; what they hold in K does not matter.
            K: positions of cells, see `positions`.
            mask: has no effect: the network knows K, and nothing corrects its output.
            given: data of given variables, as in `fit`.

        Returns:
            Shape (rows.., values of the first member, values of the second, ..), members ascending.

        Raises:
            GmlmError: for positions that are none, a table too large.
        """
        return network_queries.log_conditional(self.lowered, self._network(params), x, K, given)

    def transition_matrix(self, params: Params, sampler: str | None = None, *, given: Any = None) -> np.ndarray:
        """One run of a sampler's body as a matrix over all configurations, first position slowest; float64, rows sum to 1.

        Raises:
            GmlmError: E601 for more configurations than the limit, E507 for a refinement sampler:
                its draw depends on no draw before.
        """
        _, checked = self.sampler(sampler)
        return network_queries.transition_matrix(self.lowered, self._known(params), checked, given)

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
        optimizer: optax.GradientTransformation | None = None,
        batch_size: int | None = None,
        *,
        max_steps: int | None = None,
        progress: bool | None = None,
        method: Any = None,
    ) -> Any:
        """Train the network: the loss of the mask by minibatches, in nats per hidden cell, and the loss of lengths where it predicts them.

        Args:
            x: rows, of cells that may end early.
            mask: the mask's name; left out where the model has one.
            seed: of the first weights, the order of rows, masks, noise and dropout; those of a step
                depend on (seed, step) only.
            n_masks: masks drawn for each row and step; 1 where None.
            weights: one per row, multiplying its loss.
            missing: what stands for a missing cell or given entry; at the end of a row it is
                padding.
            given: data of given variables, one row for each row of x, or without rows, the same for
                all.
            init: the first weights, `{"net": module}`; none: random ones.
            optimizer: an optax transformation; none: AdaFactor with linear warm-up and a cosine (Li
                et al. 2024, Appendix L).
            batch_size: rows per step; with `max_steps`, a short way to write
                `method=gm.Training(batch_size=..)`.
            max_steps: steps.
            progress: whether to show a bar; none: where a person watches.
            method: `gm.Training(..)`: steps, smoothing, averages, validation, checkpoints; none:
                its defaults.

        Returns:
            A `NetworkFit`: the network, traces of the loss, and what `save` keeps.

        Raises:
            GmlmError: for data, options or a mask that do not fit.
        """
        seed = verified_seed(seed)
        training = training_of(method, batch_size, max_steps)
        checked = self._checked(mask)
        options = network_fit.NetworkOptions(checked, seed, n_masks, weights, missing, init, optimizer, progress, training)
        meta = self._provenance() | {"seed": seed, "mask": checked.name}
        return network_fit.fit(self.lowered, x, given, options, meta, lambda: self)

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
        observe: Mapping[str, Callable[[Any], Any]] | Sequence[str] | None = None,
        keep_draws: bool = True,
        progress: bool | None = None,
        given: Any = None,
        missing: Any = None,
        lengths: Any = None,
        prompt: Any = None,
        oracle: Any = None,
    ) -> Any:
        """Run chains of updates, or decode by refinement.

        A sampler of updates draws from the network's conditionals, cell by cell or,
        `independently`, many cells in one pass. They need not belong to any joint distribution, and
        what such a chain keeps is not known. A refinement sampler decodes: each draw is a decode of
        its own.

        Args:
            params: `{"net": module}`.
            sampler: the sampler's name; left out where the model has one.
            draws: kept draws per chain; none: 1000, of a refinement sampler 1.
            warmup: steps before the first; none: 500, of a refinement sampler 0.
            chains: number of chains; none: 4, of a refinement sampler 1.
            thin: steps per draw.
            seed: draw t of chain c for row r depends on (seed, c, r, t) only, and on the precision,
                float32 or float64.
            clamp: cells or whole variables held at values; with `missing`, a whole variable may be
                rows with holes, which are free.
            init: a start, or one for each row: of chains, or the draft that a refinement begins
                with; its padding says the lengths.
            observe: of chains as everywhere. Of a decode a list of "candidates" (all candidates, or
                beams, by falling score) and, of a refinement, "trace" (the tokens after each pass),
                which `sample_stats` then holds.
            keep_draws: whether configurations are kept.
            progress: whether to show a bar; none: where a person watches.
            given: data of given variables, one row or many: draws then have an axis of rows.
            missing: what stands for padding in given data, `init` and `clamp`.
            lengths: of the rows, where they are known; none: those of `init`, else predicted, else
                all cells.
            oracle: of guided samplers: a `gm.Oracle` that draws in the network's place.
            prompt: of `autoregressive` and guided samplers, what each row begins with: a list of
                prefixes of any length, values or labels, of letters also strings. Draws then have
                an axis of rows.

        Returns:
            What the installed ArviZ takes. `posterior` holds the cells, behind a row's length -1,
            of spins 0; in a model without given
            data the cells behind `end` hold `end`. Of a decode
            `sample_stats` has `score`, the mean log p of the tokens that are predicted, `length`,
            and `passes`, how many
            were run: all of `steps`, unless `stop` or the schedule ends them earlier (of
            `autoregressive` one for each cell).

        Raises:
            GmlmError: for options or data that do not fit.
        """
        if is_one_of(sampler, ("exact",)) and "exact" not in self.samplers:
            raise derive.no_joint(self.graph)
        name, checked = self.sampler(sampler)
        if checked.call is not None and (oracle is not None or is_guided(checked.call.form.name)):
            refuse_given(self.graph.network)
            stated = {"given": given is not None, "missing": missing is not None, "lengths": lengths is not None, "thin": thin != 1}
            stated |= {"clamp": clamp is not None, "init": init is not None, "observe": observe is not None}
            stated |= {"warmup": bool(warmup), "keep_draws": not keep_draws}
            return self._draw_strings(
                self.lowered, checked, checked.call, params, GuidedOptions(name, prompt, draws, chains), seed, oracle, stated
            )
        if oracle is not None and checked.call is not None:
            raise no_symbols(checked.call)
        only_guided(oracle=oracle)
        fresh = ir.start_of(checked.kernels) is not None
        defaults = (1, 0, 1) if checked.call is not None else (1000, 0 if fresh else 500, 4)
        counts = (d if n is None else n for n, d in zip((draws, warmup, chains), defaults, strict=True))
        kept, before, runs = counts
        options = SampleOptions(name, kept, before, runs, thin, seed, clamp, init, observe, keep_draws, progress)
        more = Decoding(given, missing, lengths, prompt=prompt)
        return decoding.draw_rows(self.lowered, checked, self._known(params, checked), options, more, self._provenance())

    def decode(
        self,
        params: Params,
        sampler: str | None = None,
        *,
        given: Any = None,
        missing: Any = None,
        lengths: Any = None,
        clamp: Mapping[str, Any] | None = None,
        init: Any = None,
        seed: int = 0,
        rows: Any = None,
        trace: bool = False,
        prompt: Any = None,
    ) -> Decodes:
        """One decode of each row as plain arrays: what `sample` gives, without labels, for programs that decode many rows.

        Args:
            params: `{"net": module}`.
            sampler: a sampler that decodes: `autoregressive`, `refinement` or one of its presets.
            given: data of given variables, one row or many.
            missing: what stands for padding in given data, `init` and `clamp`.
            lengths: of the rows, where they are known.
            clamp: cells that are held, as in `sample`.
            init: the draft that a refinement begins with.
            seed: row r depends on (seed, r) only.
            rows: the numbers r, where these rows are some of many; none: 0, 1, 2, ..
            trace: whether the tokens after each pass of a refinement are kept.
            prompt: of `autoregressive`, what each row begins with, as in `sample`.

        Returns:
            `tokens` (rows.., candidates, cells), codes, -1 behind a row's length; `score`, `length`
            and `passes` (rows.., candidates), the
            best candidate first; `trace` (rows.., passes, cells) of the best, `traces` (rows..,
            candidates, passes, cells) of all; `seen`
            (rows.., candidates, cells), what the last pass saw, -1 in cells that were hidden.

        Raises:
            GmlmError: E507 for a sampler of updates; for options or data that do not fit.
        """
        _, checked = self.sampler(sampler)
        more = Decoding(given, missing, lengths, rows, prompt)
        return decoding.decode(self.lowered, checked, self._known(params, checked), seed, clamp, init, more, trace)

    def length_coverage(
        self, params: Params, x: Any, *, given: Any = None, missing: Any = None, top: Sequence[int] = (1, 3, 5)
    ) -> dict[int, float]:
        """The share of rows whose true length is among the k that the network finds likeliest; k = 1 is its accuracy.

        Args:
            params: `{"net": module}`.
            x: rows, whose lengths are the true ones.
            given: data of given variables, as in `fit`.
            missing: what stands for padding.
            top: the k.

        Returns:
            Shares by k.

        Raises:
            GmlmError: E507 for a network that predicts no length.
        """
        return length_coverage(self.lowered, self._known(params), x, given, missing, top)

    def attention(self, params: Params, x: Any, *, given: Any = None, missing: Any = None, lengths: Any = None) -> dict[str, np.ndarray]:
        """The attention weights of one pass that sees x; rows of weights sum to 1 over the last axis.

        For the last pass of a decode, x is what it saw, with the row's length: `seen` and `length`
        of `decode(.., trace=True)`.

        Args:
            params: `{"net": module}`.
            x: rows of cells.
            given: data of given variables, as in `fit`.
            missing: what stands for padding, and within a row for a cell that is hidden.
            lengths: of the rows; None: they end with their last value.

        Returns:
            By kind: `self`, shape (rows, layers, heads, cells, cells); of an encoder-decoder
            `cross`, (rows, layers, heads, cells, given
            entries), and `positional` where it has such attention.

        Raises:
            GmlmError: E738 for a network without attention, a class of Python without a method
                `attention` among them; E507 for lengths that do not fit.

        Reference: Li et al. 2024, Section 3.4, which `gm.attention_dependency` computes from them.
        """
        return network_queries.attention(self.lowered, self._known(params), x, given, missing, lengths)

    def __repr__(self) -> str:
        form = self.graph.network
        counts = network_queries.counts(form)
        return f"Model `{self.name}`: {self.graph.n_random} cells, network `{form.label}` of {sum(counts.values()):,} parameters"

    def _checked(self, mask: str | None) -> ir.Mask:
        return self.program.checked.masks[only(mask, self.masks, "mask", self.name)]

    def _known(self, params: Params, sampler: ir.Sampler | None = None) -> dict[str, Any]:
        verify_untraced_leaves(params)
        start = None if sampler is None else ir.start_of(sampler.kernels)
        call = start.call if start is not None else None if sampler is None else sampler.call
        return verified_params(self.graph.network, params, call if call is not None and is_decoder(call) else None)

    def _denoising(self, params: Params) -> Mapping[str, Any]:
        network_queries.verify_all_seen(self.graph)
        return self._network(params)

    def _network(self, params: Params) -> dict[str, Any]:
        return verified_params(self.graph.network, params)
