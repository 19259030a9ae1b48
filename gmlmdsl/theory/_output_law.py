"""The exact distribution of the output of a guided sampler or a decoder, for short strings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._diagnostics import fail
from .._types import ArrayLike, Given, ParamsLike, Prompt
from ..data import bound_once, decode, encode, encode_prompts, verified_seed
from ..graph import FactorGraph, verify_is_model
from ..guided import Backtracking, Beams, Setting, beams_of, game_of, named_of, no_symbols, refuse_given, verify_open
from ..program import ir, is_decoder
from ._decoded_law import DecodedLaw, call_of, decoded_law
from ._prefix_tree import PrefixTree, prefix_tree
from ._string_laws import StringLaw, string_law

if TYPE_CHECKING:
    from ..guided import Oracle
    from ..model import JointModel

Array = np.ndarray


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
        v = self._graph.observed[0]
        value = [string] if isinstance(string, str) and v.kind == "letters" else np.asarray(string)[None]
        missing = None if (self._codes >= 0).all() else v.padding
        wanted = encode(self._graph, {v.name: value}, missing=missing).codes[v.offset : v.offset + v.size, 0]
        found = (self._codes == wanted).all(axis=1)
        return float(self.probabilities[found].sum())


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

    For samplers that draw symbol by symbol every prefix is enumerated. Rejection and unbounded
    tries are geometric series. Algorithm 1 is dynamic programming over (prefix, quota). The walk's
    distribution is its matrix to the power of `steps`, and its calls are the nodes that it leaves
    for the first time. Best of n is the distribution of a maximum.

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
