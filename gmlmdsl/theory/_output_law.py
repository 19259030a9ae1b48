"""The exact distribution of the output of a guided sampler or a decoder, for short strings.

The distribution of a decoder's draws is compared with p. Updates may follow the decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import jax
import numpy as np

from .. import derive
from .._diagnostics import fail
from .._types import ArrayLike, Configuration, Given, ParamsLike, Prompt
from ..data import bound_once, decode, encode, encode_prompts, verified_seed
from ..decode import Decoding, refuse_prompt
from ..evaluate import known_params, network_queries, verified_params
from ..graph import FactorGraph, verify_is_model
from ..guided import Backtracking, Beams, Setting, beams_of, game_of, named_of, no_symbols, refuse_given, verify_open
from ..program import ir, is_decoder
from ._configurations import configurations, verify_model
from ._decoder_law import DecoderLaw, decoder_law
from ._string_laws import PrefixTree, StringLaw, prefix_tree, string_law
from .limits import MOST_LAW_ENTRIES

if TYPE_CHECKING:
    from ..guided import Oracle
    from ..model import JointModel, Model

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class DecodedLaw:
    """The exact distribution of a decoder's draws.

    Attributes:
        strings: the rows with a positive probability, with values as in a draw, shape (strings,
            *axes). After a row's length the value is -1, or 0 for spins. A dict by variable for a
            model with several variables.
        string_probabilities: the probability of each row, float64, with sum 1.
        expected_calls: the mean number of passes of the denoiser for one draw, over all candidates.
            Passes of updates after a decode are not counted.
    """

    strings: Configuration
    string_probabilities: Array
    expected_calls: float
    _graph: FactorGraph = field(repr=False)
    _codes: Array = field(repr=False)
    _truth: Any = field(repr=False, default=None)

    @property
    def _sizes(self) -> tuple[int, ...]:
        """The number of values of each cell, plus one for an absent cell if rows end early."""
        g = self._graph
        ends = int((self._codes < 0).any())
        return tuple(int(q) + ends for v in g.observed for q in g.sizes[v.offset : v.offset + v.size])

    @cached_property
    def probabilities(self) -> Array:
        """The probability of every row, shape (values of the first cell, .., values of the last).

        The cells are those of the `var`s in their order. If rows may end early, each axis has one
        more entry, the last, for a cell after the end.

        Raises:
            GmlmError: E601 for more than 2^24 rows.
        """
        entries = float(np.prod(np.array(self._sizes, float)))
        if entries > MOST_LAW_ENTRIES:
            message = f"the table of {len(self._sizes)} cells has {entries:.3g} entries, more than the limit of {MOST_LAW_ENTRIES:,}"
            raise fail("E601", message, help="`strings` and `string_probabilities` list the rows that have a positive probability")
        out = np.zeros(self._sizes)
        last = np.array(self._sizes) - 1
        np.add.at(out, tuple(np.where(self._codes < 0, last, self._codes).T), self.string_probabilities)
        return out

    @property
    def total_variation(self) -> float:
        """The distance 1/2 sum over x of |decoder(x) - p(x)| to the model's p, between 0 and 1.

        Raises:
            GmlmError: E742 for a model of a network, which declares no p; `kl(to=..)` compares with
                another distribution.
        """
        return float(np.abs(self.probabilities - self._compared(None)).sum() / 2)

    def kl(self, to: Any = None) -> float:
        """Return KL(truth || decoder) in nats; infinite if the decoder never draws a possible row.

        It is the sum over x of truth(x) log(truth(x) / decoder(x)).

        Args:
            to: the truth: a model without parameters or `(model, params)`, another `DecodedLaw`, or
                a table of probabilities; None takes the model.

        Raises:
            GmlmError: E742 if the model is a network's and no truth is named; E507 for a truth over
                other cells.
        """
        return divergence(self._compared(to), self.probabilities)

    def _compared(self, to: Any) -> Array:
        if to is None and self._truth is None:
            raise derive.no_joint(self._graph)
        found = truth_table(self._truth if to is None else to)
        if found.shape != self.probabilities.shape:
            message = f"the truth is a table of shape {found.shape}, and this decoder's rows have {self.probabilities.shape}"
            raise fail("E507", message, help="compare distributions of the same cells, in the same order")
        return found

    def probability(self, string: ArrayLike) -> float:
        """Return the probability of one row, 0 if it is never drawn.

        The row is given by values or labels; letters may also be given as text.

        Raises:
            GmlmError: for anything but a row of the model.
        """
        return float(self.string_probabilities[_matches(self._graph, self._codes, string)].sum())


def divergence(p: Array, q: Array) -> float:
    """Return KL(p || q) in nats, infinite if q is 0 at a value that p allows."""
    some = p > 0
    with np.errstate(divide="ignore"):
        return max(0.0, float((p[some] * (np.log(p[some]) - np.log(q[some]))).sum()))


def _matches(graph: FactorGraph, codes: Array, string: ArrayLike) -> Array:
    """Return which rows of codes are a string, shape (rows,)."""
    v = graph.observed[0]
    value = [string] if isinstance(string, str) and v.kind == "letters" else np.asarray(string)[None]
    missing = None if (codes >= 0).all() else v.padding
    found = encode(graph, value if isinstance(string, Mapping) else {v.name: value}, missing=missing).codes
    return (codes == found[np.flatnonzero(graph.is_observed), 0]).all(axis=1)


@dataclass(frozen=True, eq=False)
class _Truth:
    """A model's own distribution, computed on request."""

    model: Model
    params: ParamsLike
    given: Given | None


def truth_table(truth: Any) -> Array:
    """Return a distribution over all rows as a table.

    It is given by a model, `(model, params)`, a `DecodedLaw`, or an array of probabilities.

    Raises:
        GmlmError: E507 for anything else, E742 for a network, E601 for too many rows.
    """
    if isinstance(truth, DecodedLaw):
        return truth.probabilities
    if isinstance(truth, np.ndarray | list):
        table = np.asarray(truth, float)
        if not (np.isfinite(table).all() and (table >= 0).all() and abs(table.sum() - 1) < 1e-6):
            raise fail("E507", "a table of probabilities has entries of at least 0 that sum to 1")
        return table
    if isinstance(truth, _Truth):
        return configurations(truth.model, truth.params, "the distribution of rows", given=truth.given).p
    model, params = cast(tuple[Any, Any], truth if isinstance(truth, tuple) and len(truth) == 2 else (truth, {}))
    verify_model(model)
    return configurations(model, params, "the distribution of rows").p


def call_of(sampler: ir.Sampler) -> ir.FormCall:
    """Return the decoder of a sampler, or the decoder that it starts from."""
    start = ir.start_of(sampler.body)
    call = sampler.body if start is None else start.call
    assert isinstance(call, ir.FormCall)
    return call


def decoded_law(model: Model, params: ParamsLike, sampler: ir.Sampler, prompt: Prompt | None, given: Given | None) -> DecodedLaw:
    """Return the distribution of a decoder's draws; see `output_law`.

    Updates may follow the decoder.

    Args:
        model: the model.
        params: its parameters.
        sampler: the sampler.
        prompt: must be None, because decoders take no prompt.
        given: one row of data of given variables.
    """
    refuse_prompt(sampler, Decoding(prompt=prompt))
    start, graph, what = ir.start_of(sampler.body), model.graph, f"the output distribution of `{sampler.name}`"
    call = call_of(sampler)
    lowered = bound_once(model.lowered, given, "an output distribution") if graph.network is None else model.lowered
    with jax.enable_x64(True):
        known = verified_params(graph.network, params, call) if graph.network is not None else known_params(lowered.graph, params)
        found = decoder_law(lowered, known, call, given, what)
        if start is not None:
            found = _moved(model, known, sampler, found, given)
    some = found.mass > 0
    codes = found.codes[some]
    full = np.zeros((graph.n_cells, len(codes)), np.int64)
    at = np.flatnonzero(graph.is_observed)
    full[at] = np.maximum(codes, 0).T
    values = decode(graph, full, (len(codes),))
    strings = {v.name: values[v.name] for v in graph.observed}
    if (codes < 0).any():
        v = graph.observed[0]
        strings[v.name] = np.where((codes < 0).reshape(-1, *v.shape), v.padding, strings[v.name])
    truth = None if graph.network is not None else _Truth(model, params, given)
    one = strings if len(strings) > 1 else next(iter(strings.values()))
    return DecodedLaw(one, found.mass[some], found.passes, graph, codes, truth)


def _moved(model: Model, params: ParamsLike, sampler: ir.Sampler, found: DecoderLaw, given: Given | None) -> DecoderLaw:
    """Return the distribution after the updates that follow a decode.

    It is the distribution of the decodes times the matrix of the updates. Latents are drawn given
    the decode.
    """
    graph, body = model.graph, sampler.body[1:]  # type: ignore[index]
    if (found.codes < 0).any():
        raise fail("E601", f"sampler `{sampler.name}`: updates of rows that end early have no matrix", sampler.span, help="`sample` draws")
    if graph.network is not None:
        label = graph.network.label
        network: Any = params[label]
        # updates do not use a planner
        matrix = network_queries.updates_matrix(model.lowered, {label: network}, body, given)
        states = derive.all_states(graph).T
    else:
        lowered = bound_once(model.lowered, given, "a transition matrix")
        steps = derive.Transitions(lowered, params)  # type: ignore[arg-type]
        matrix, states = steps.matrix(body), steps.states.T
    at = np.flatnonzero(graph.is_observed)
    seen, place = np.unique(states[:, at], axis=0, return_inverse=True)
    place = place.ravel()
    by_row = {u.tobytes(): k for k, u in enumerate(seen.astype(np.int64))}
    mass = np.zeros(len(seen))
    np.add.at(mass, [by_row[c.tobytes()] for c in found.codes.astype(np.int64)], found.mass)
    share = np.ones(len(states))
    if graph.latents:
        p = configurations(cast("JointModel", model), params, "the distribution of the latents", latents=True, given=given).p.ravel()
        of_row = np.bincount(place, p, len(seen))
        if (mass[of_row == 0] > 0).any():
            message = f"sampler `{sampler.name}`: some decodes have probability zero, and their latents no distribution"
            raise fail("E507", message, sampler.span, help="more passes, or updates of the `var`s alone in a model without latents")
        share = np.divide(p, of_row[place], out=np.zeros(len(states)), where=of_row[place] > 0)
    law = (mass[place] * share) @ matrix
    return DecoderLaw(seen.astype(np.int64), np.bincount(place, law, len(seen)), found.passes)


@dataclass(frozen=True, eq=False)
class OutputLaw:
    """The exact distribution of the output of a guided sampler.

    Attributes:
        strings: the strings with a positive probability, with values as in a draw, shape (strings,
            *axes). Cells after the end of a string have the value of `end`.
        probabilities: the probability of each string, float64, with sum 1 - `fail`.
        fail: the probability that a draw fails.
        expected_calls: the mean number of calls of the oracle for one draw. It is nan for a walk
            whose number of calls is too costly to compute, unlike its distribution.
        expected_verifications: the mean number of calls of the verifier or value for one draw.
        expected_runs: the mean number of runs of a walk with `uniform_node`, which is repeated
            until it ends on a string. It is 1 / the probability that a run does so, and 1 for every
            other sampler.
    """

    strings: Array
    probabilities: Array
    fail: float
    expected_calls: float
    expected_verifications: float
    expected_runs: float
    _graph: FactorGraph = field(repr=False)
    _codes: Array = field(repr=False)

    def probability(self, string: ArrayLike) -> float:
        """Return the probability of one string, 0 if it is never drawn.

        The string is given by values or labels; letters may also be given as text.

        Raises:
            GmlmError: for anything but a string of the model.
        """
        return float(self.probabilities[_matches(self._graph, self._codes, string)].sum())


def output_law(
    model: JointModel,
    params: ParamsLike,
    sampler: str | None = None,
    *,
    prompt: Prompt | None = None,
    seed: int = 0,
    given: Given | None = None,
    oracle: Oracle | None = None,
) -> OutputLaw | DecodedLaw:
    """Return the exact distribution of the strings of a guided sampler or a decoder, in float64.

    The mean costs of a draw are returned too.

    For samplers that draw symbol by symbol every prefix is enumerated. If these are too many and
    the sampler has `top_k` or `top_p`, the prefixes that can be drawn are enumerated instead,
    unless it may erase symbols of the prompt. Rejection and unbounded tries are geometric series.
    Algorithm 1 is dynamic programming over (prefix, quota). The walk's distribution is its matrix
    to the power of `steps`, and its calls are the nodes that it leaves for the first time. Best of
    n is the distribution of a maximum.

    For `refinement` and its presets every pass is enumerated, for a network or for the exact
    conditionals of a joint distribution. The hypotheses are rows with their open cells and the
    confidence of earlier passes in each cell. They are split by each random choice: tokens, values
    that open cells show, cells that settle, the schedule's mask, and cells that are opened. Among
    candidates the best score wins. Updates that follow a decode are applied as a matrix. Numbers
    that differ by rounding only, such as two equal confidences, may be ordered differently by a
    draw in single precision.

    Args:
        model: a model with one `var`.
        params: parameters, as in `Model.sample`.
        sampler: the sampler's name; it may be left out if the model has one.
        prompt: one prefix of every string; None for no prompt.
        seed: the seed of the noise of `noisy` values, as in `Model.sample`.
        given: one row of data of given variables.
        oracle: a `gm.Oracle` in place of the model.

    Returns:
        An `OutputLaw` of strings, probabilities and means for samplers that draw symbol by symbol.
            A `DecodedLaw`, a table of all rows with its distance to p, for decoders and for
            samplers that `start from` one.

    Raises:
        GmlmError: E601 for more than 65,536 prefixes, too long a walk, or a pass of more than 2^20
            branches; E602 for a schedule's mask of too many blocks; E507 for a sampler of updates,
            for `exact`, and for `prompt=` or `oracle=` of `refinement`.

    Reference: Li 2025, Definitions 3.1.4 and 3.1.5 (rejection), Section 3.2 (Algorithm 1), Section
    3.3.1 (Algorithm 2); Li et al. 2024, Appendix L.1 (refinement).
    """
    verify_is_model(model)
    if sampler == "exact" and sampler not in model.samplers:
        message = f"`exact` draws from model `{model.name}` itself: the distribution of its strings is p, which takes no sampler"
        raise fail("E507", message, help="`exp(model.log_prob(params, strings))` is the probability of each of some strings")
    name, checked = model.sampler(sampler)
    if ir.start_of(checked.kernels) is not None or (checked.call is not None and is_decoder(checked.call)):
        if oracle is not None:
            raise no_symbols(call_of(checked))
        return decoded_law(model, params, checked, prompt, given)
    if not isinstance(checked.body, ir.FormCall):
        raise fail("E507", f"sampler `{name}` runs a chain: its strings are not drawn one by one", checked.span, help=_of_chains(model))
    if model.graph.network is not None:
        refuse_given(model.graph.network)
    lowered = bound_once(model.lowered, given, "an output distribution")
    codes = _prompt_codes(lowered.graph, prompt)
    with jax.enable_x64(True):
        setting = Setting(lowered, params, verified_seed(seed), model.program.allow_python, oracle)
        beams = beams_of(setting, checked.body)
        if beams is not None:
            verify_open(codes[None], beams.rules.end)
            return _of_beams(lowered.graph, beams, codes)
        game = game_of(setting, checked.body)
        erased = isinstance(game.method, Backtracking) and game.method.erase_prompt
        verify_open(codes[None], game.rules.end)
        tree = prefix_tree(game, named_of(setting, checked.body, game), codes, erased, f"the output distribution of `{name}`")
        found = string_law(tree, game.method, game.judge is not None and game.judge.looks_ahead)
    return _as_law(lowered.graph, tree, found, game.rules.end)


def _of_chains(model: JointModel) -> str:
    """Return the suggested function for the distribution of a chain's states."""
    return "`stationary_law`" if model.graph.network is None else "`model.transition_matrix`, whose powers are its distributions"


def _prompt_codes(graph: FactorGraph, prompt: Any) -> Array:
    if prompt is None:
        return np.zeros(0, np.int32)
    found = encode_prompts(graph, [prompt])
    return found.codes[0, : found.lengths[0]]


def _of_beams(graph: FactorGraph, beams: Beams, prompt: Array) -> OutputLaw:
    """Return the distribution of a search, which always ends with the same string."""
    string = graph.observed[0]
    best, _ = beams.strings(np.pad(prompt, (0, string.size - len(prompt)), constant_values=-1)[None].astype(np.int32))
    mass, failed = np.ones(int((~best.failed).sum())), float(best.failed.mean())
    return _labelled_law(graph, best.codes[~best.failed], mass, failed, (float(best.calls.mean()), 0.0, 1.0), beams.rules.end)


def _as_law(graph: FactorGraph, tree: PrefixTree, found: StringLaw, end: int | None) -> OutputLaw:
    some, averages = found.mass > 0, (float(found.calls), float(found.checks), float(found.runs))
    return _labelled_law(graph, tree.codes[some], found.mass[some], max(0.0, float(found.fail)), averages, end)


def _labelled_law(
    graph: FactorGraph, codes: Array, mass: Array, fail: float, averages: tuple[float, float, float], end: int | None
) -> OutputLaw:
    v = graph.observed[0]
    codes = codes if end is None else np.where(codes < 0, end, codes)
    full = np.zeros((graph.n_cells, len(codes)), np.int64)
    full[v.offset : v.offset + v.size] = codes.T
    strings = decode(graph, full, (len(codes),))[v.name]
    return OutputLaw(strings, mass, fail, *averages, graph, codes)
