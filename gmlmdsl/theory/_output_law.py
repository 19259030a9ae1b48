"""The exact distribution of what a guided sampler or a decoder gives, of short strings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._diagnostics import fail
from ..data import bound_once, decode, encode, encode_prompts, verified_seed
from ..graph import FactorGraph, verify_is_model
from ..guided import Backtracking, Setting, game_of, named_of, no_symbols, refuse_given, verify_open
from ..program import ir, is_decoder
from ._decoded_law import DecodedLaw, call_of, decoded_law
from ._prefix_tree import PrefixTree, prefix_tree
from ._string_laws import StringLaw, string_law

if TYPE_CHECKING:
    from ..model import JointModel

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class OutputLaw:
    """What a guided sampler or a decoder gives, exactly.

    Attributes:
        strings: those with a positive probability, values as a draw has them, shape (strings,
            *axes); behind a row's length -1, of spins 0.
        probabilities: of each, float64; they sum to 1 - `fail`.
        fail: the probability that a draw fails; 0 of `refinement`.
        expected_calls: of the oracle, for one draw; nan of a walk whose calls take too much to
            compute, while its distribution does not. Of `refinement` the passes of the network,
            over all candidates.
        expected_verifications: calls of the verifier or value, for one draw.
        expected_runs: of a walk with `uniform_node`, which is made again until it ends on a string:
            1 / the probability that a run does; 1 of every other sampler.
    """

    strings: Array
    probabilities: Array
    fail: float
    expected_calls: float
    expected_verifications: float
    expected_runs: float
    _graph: FactorGraph = field(repr=False)
    _codes: Array = field(repr=False)

    def probability(self, string: Any) -> float:
        """Of one string: values or labels, of letters also a text; 0 where it is never drawn.

        Raises:
            GmlmError: for what is no string of the model.
        """
        v = self._graph.observed[0]
        value = [string] if isinstance(string, str) and v.kind == "letters" else np.asarray(string)[None]
        missing = None if (self._codes >= 0).all() else v.padding
        wanted = encode(self._graph, {v.name: value}, missing=missing).codes[v.offset : v.offset + v.size, 0]
        found = (self._codes == wanted).all(axis=1)
        return float(self.probabilities[found].sum())


def output_law(
    model: JointModel,
    params: Mapping[str, Any],
    sampler: str | None = None,
    *,
    prompt: Any = None,
    seed: int = 0,
    given: Any = None,
    oracle: Any = None,
) -> OutputLaw | DecodedLaw:
    """The distribution of the strings of a guided sampler or a decoder, and what a draw takes on average, in float64.

    Of samplers that draw symbol by symbol every prefix is listed. Rejection and unbounded tries are
    geometric series; Algorithm 1 is dynamic programming over (prefix, quota); the walk's
    distribution is its matrix to the power of `steps`, and its calls are the nodes that it leaves
    for the first time; best of n is the distribution of a maximum.

    Of `refinement` and its presets, over a network or over the exact conditionals of a joint
    distribution, every pass is followed: rows with what is open and how sure the passes were of it,
    split by each draw of tokens, of values that open cells show, of cells that settle, of the
    schedule's mask and of cells that are opened; of candidates the best score counts. Updates that
    follow a decode are their matrix. What rounding alone tells apart, such as two equal
    confidences, a draw in single precision may order otherwise.

    Args:
        model: a model with one `var`.
        params: parameters, as in `Model.sample`.
        sampler: the sampler's name; left out where the model has one.
        prompt: one prefix that every string begins with; none: nothing.
        seed: of the noise of `noisy` values, as in `Model.sample`.
        given: one row of data of given variables.
        oracle: a `gm.Oracle` in the model's place.

    Returns:
        Of samplers that draw symbol by symbol an `OutputLaw`: strings, probabilities, and averages.
        Of decoders, and of samplers that
        `start from` one, a `DecodedLaw`: a table of all rows, and its distance to p.

    Raises:
        GmlmError: E601 for more than 65,536 prefixes, too long a walk, or a pass of more than 2^20
            branches; E602 for a schedule's mask of too many blocks; E507 for a sampler of updates,
            for `exact`, and for `prompt=` or `oracle=` of `refinement`.

    Reference: Li 2025, Section 3.1, Algorithms 1 and 2.
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
        game = game_of(setting, checked.body)
        erased = isinstance(game.method, Backtracking) and game.method.erase_prompt
        verify_open(codes[None], game.rules.end)
        tree = prefix_tree(game, named_of(setting, checked.body, game), codes, erased, f"the output distribution of `{name}`")
        found = string_law(tree, game.method, game.judge is not None and game.judge.looks_ahead)
    return _as_law(lowered.graph, tree, found, game.rules.end)


def _of_chains(model: JointModel) -> str:
    """What tells the distribution of a chain's states."""
    return "`stationary_law`" if model.graph.network is None else "`model.transition_matrix`, whose powers are its distributions"


def _prompt_codes(graph: FactorGraph, prompt: Any) -> Array:
    if prompt is None:
        return np.zeros(0, np.int32)
    found = encode_prompts(graph, [prompt])
    return found.codes[0, : found.lengths[0]]


def _as_law(graph: FactorGraph, tree: PrefixTree, found: StringLaw, end: int | None) -> OutputLaw:
    v, some = graph.observed[0], found.mass > 0
    codes = tree.codes[some]
    codes = codes if end is None else np.where(codes < 0, end, codes)
    full = np.zeros((graph.n_cells, len(codes)), np.int64)
    full[v.offset : v.offset + v.size] = codes.T
    strings = decode(graph, full, (len(codes),))[v.name]
    averages = float(found.calls), float(found.checks), float(found.runs)
    return OutputLaw(strings, found.mass[some], max(0.0, float(found.fail)), *averages, graph, codes)
