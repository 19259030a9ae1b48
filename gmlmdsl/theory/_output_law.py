"""The exact distribution of what a guided sampler gives, of short strings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .._diagnostics import fail
from ..data import bound_once, decode, encode, encode_prompts, verified_seed
from ..graph import FactorGraph, verify_is_model
from ..guided import Backtracking, Setting, game_of, named_of, refuse_given, verify_open
from ..program import ir
from ._prefix_tree import PrefixTree, prefix_tree
from ._string_laws import StringLaw, string_law

if TYPE_CHECKING:
    from ..model import Queries

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class OutputLaw:
    """What a guided sampler gives, exactly.

    Attributes:
        strings: those with a positive probability, values as a draw has them, shape (strings, *axes).
        probabilities: of each, float64; they sum to 1 - `fail`.
        fail: the probability that a draw fails.
        expected_calls: of the oracle, for one draw; nan of a walk whose calls take too much to compute, while its distribution does not.
        expected_verifications: calls of the verifier or value, for one draw.
        expected_runs: of a walk with `uniform_node`, which is made again until it ends on a string: 1 / the probability that a run does;
            1 of every other sampler.
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
        wanted = encode(self._graph, {v.name: value}).codes[v.offset : v.offset + v.size, 0]
        found = (self._codes == wanted).all(axis=1)
        return float(self.probabilities[found].sum())


def output_law(
    model: Queries,
    params: Mapping[str, Any],
    sampler: str | None = None,
    *,
    prompt: Any = None,
    seed: int = 0,
    given: Any = None,
    oracle: Any = None,
) -> OutputLaw:
    """The distribution of the strings of a guided sampler, and what a draw takes on average: by listing every prefix, in float64.

    Rejection and unbounded tries are geometric series; Algorithm 1 is dynamic programming over (prefix, quota); the walk's distribution is
    its matrix to the power of `steps`, and its calls are the nodes that it leaves for the first time; best of n is the distribution of a
    maximum.

    Args:
        model: a model with one `var`.
        params: parameters, as in `Model.sample`.
        sampler: the sampler's name; left out where the model has one.
        prompt: one prefix that every string begins with; none: nothing.
        seed: of the noise of `noisy` values, as in `Model.sample`.
        given: one row of data of given variables.
        oracle: a `gm.Oracle` in the model's place.

    Returns:
        Strings, probabilities, and averages.

    Raises:
        GmlmError: E601 for more than 65,536 prefixes, or too long a walk; E507 for a sampler of updates, and for `exact`.

    Reference: Li 2025, Section 3.1; theory.md section 8 has the readings of Algorithms 1 and 2.
    """
    verify_is_model(model)
    if model.graph.network is not None:
        refuse_given(model.graph.network)
    if sampler == "exact" and sampler not in model.samplers:
        message = f"`exact` draws from model `{model.name}` itself: the distribution of its strings is p, which takes no sampler"
        raise fail("E507", message, help="`exp(model.log_prob(params, strings))` is the probability of each of some strings")
    lowered = bound_once(model.lowered, given, "an output distribution")
    name, checked = model.sampler(sampler)
    if not isinstance(checked.body, ir.FormCall):
        raise fail("E507", f"sampler `{name}` runs a chain: its strings are not drawn one by one", checked.span, help="`stationary_law`")
    codes = _prompt_codes(lowered.graph, prompt)
    with jax.enable_x64(True):
        setting = Setting(lowered, params, verified_seed(seed), model.program.allow_python, oracle)
        game = game_of(setting, checked.body)
        erased = isinstance(game.method, Backtracking) and game.method.erase_prompt
        verify_open(codes[None], game.rules.end)
        tree = prefix_tree(game, named_of(setting, checked.body, game), codes, erased, f"the output distribution of `{name}`")
        found = string_law(tree, game.method, game.judge is not None and game.judge.looks_ahead)
    return _as_law(lowered.graph, tree, found, game.rules.end)


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
