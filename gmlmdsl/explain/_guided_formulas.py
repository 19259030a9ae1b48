"""Explanations of verifiers, values and guided samplers, and of the distribution of strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._diagnostics import GmlmError
from ..program import guided_options, ir
from ._document import Section
from ._network_formulas import stated_options
from ._notation import Cells

if TYPE_CHECKING:
    from ..graph import Lowered, NetworkForm

EXACT = '`require` in the model and `sampler="exact"` draw from p given a constraint exactly, where a plan affords it.'
BY_REJECTION = "Over a network no plan affords p given a constraint; `rejection` draws from it exactly."
COMPUTED = "for short strings `gm.theory.output_law` computes it."


def add_judge(section: Section, judge: ir.Judge) -> None:
    """Add the meaning of a verifier or value for a prefix."""
    section.words(f"`{judge.body.span.text}`: {judge.body.form.doc}")


def add_guided(
    section: Section,
    call: ir.FormCall,
    lowered: Lowered | None,
    cells: Cells,
    plans: bool,
) -> None:
    """Add how a string grows and ends, its distribution, and with `plans` its cost.

    Args:
        section: the section.
        call: the guided sampler.
        lowered: the model with its inputs, or None.
        cells: the names of the model's cells.
        plans: whether to add the cost.
    """
    stated = {k: v.name if isinstance(v, ir.Judge) else v for k, v in guided_options(call).items()}
    end = stated["end"]
    o = stated_options({**stated, "end": end.label if isinstance(end, ir.LabelCode) else end}, lowered)
    o["p V"] = cells.n.inline(f"p({cells.row}) V({cells.row})")
    section.words(f"`{call.span.text}`: {call.form.doc}")
    if not (o["temperature"] == "1" and o["top_k"] == o["top_p"] == "none"):
        section.words("The oracle is p sharpened or cut, in draws and in weights alike: what is said of p here is said of it.")
    if o["end"] != "none":
        section.words(f"A string ends after the value {o['end']}, its last symbol, or when all cells are used up.")
    network = None if lowered is None else lowered.graph.network
    if lowered is not None:
        cost = _cost(lowered) if network is None else _kept(network)
        if plans or cost.startswith("refused"):
            section.words(f"The distribution of the next symbol: {cost}.")
    for sentence in _LAWS[call.form.name](o):
        section.words(BY_REJECTION if sentence is EXACT and network is not None else sentence)
    if call.form.name == "backtracking" and lowered is not None and float(o["stride"]) >= (most := lowered.graph.observed[0].size):
        again = "every symbol is then its likeliest, to the end" if o["regenerate"] == "argmax" else "all of it is drawn again"
        section.words(f"A string has {most} symbols at most, so a refused one loses all behind its prompt, and {again}.")
    if o.get("tries", "none") != "none":
        section.words(f"After {o['tries']} refusals the draw is FAIL, which is counted.")


def _cost(lowered: Lowered) -> str:
    """Return the memory of a prefix, in words.

    If it exceeds the budget, the result is the sum that is computed at each symbol. If that exceeds
    the budget too, the result is the error.
    """
    from ..plan import plan_instead, plan_prefixes

    try:
        return plan_prefixes(lowered.graph).words
    except GmlmError as error:
        try:
            return f"all that is behind a prefix summed out at each symbol, {plan_instead(lowered.graph, error).words}"
        except GmlmError:
            return f"refused: {error.diagnostics[0].message}"


def _kept(network: NetworkForm) -> str:
    """Return the memory of a row, in words.

    For a network of the language it consists of the keys and values of every layer, and the last
    layer's states.
    """
    words, places = "a pass of the network for each symbol, what it keeps of a row", network.n_cells + 2
    if not {"layers", "width"} <= set(network.options):
        return words
    size = 4 * (2 * int(network.options["layers"]) + 1) * int(network.options["width"]) * places
    return f"{words} {size / 2**20:.3g} MiB of keys, values and states in float32"


def _rejection(o: dict[str, str]) -> tuple[str, ...]:
    return (f"A draw is a draw from p given that `{o['verifier']}` takes the whole string; every symbol of a refused one is a call too.",)


def _tokenwise(o: dict[str, str]) -> tuple[str, ...]:
    law = "Each symbol is from p(symbol | prefix) V(prefix and symbol), normalised: of a verifier among those that it takes. "
    law += "What comes after has no say but by V."
    return law, f"So the distribution of the strings is not p given that they are right; {COMPUTED}", EXACT


def _backtracking(o: dict[str, str]) -> tuple[str, ...]:
    again = "then each of them takes its likeliest value, unverified" if o["regenerate"] == "argmax" else "which are drawn again"
    reach = "into the prompt too" if o["erase_prompt"] == "true" else "never one of the prompt"
    how = f"A refused prefix loses its last {o['stride']} symbols, {reach}; {again}. After {o['quota']} times nothing is verified."
    return how, f"The distribution of the strings is not p given that they are right; {COMPUTED}", EXACT


def _walk(o: dict[str, str]) -> tuple[str, ...]:
    leaf = o["leaf"] if o["leaf"] != "none" else o["value"]
    law = f"T = {o['steps']} steps, each of which stays with probability 1/2. Its stationary distribution on whole strings is proportional "
    law += f"to {o['p V']}, V as `{leaf}` has it, whatever positive values shorter prefixes have."
    result = {
        "first_leaf": "The first whole string is not from that distribution where values of shorter prefixes are inexact, "
        "however many the steps.",
        "uniform_node": "The walk takes a uniform number of steps, and is made again where it does not end at a whole string; "
        "all calls count.",
        "last_node": "Where the walk does not end at a whole string the draw is FAIL, which is counted: with exact values and L symbols "
        "behind the prompt all but 1/(2 L) of the draws in the long run. `result = uniform_node` makes it again until there is a string.",
    }
    return law, result[o["result"]]


def _best(o: dict[str, str]) -> tuple[str, ...]:
    return (
        f"{o['n']} strings are drawn from p: the more of them, the further their distribution moves from p to its best strings; {COMPUTED}",
    )


def _blocks(o: dict[str, str]) -> tuple[str, ...]:
    how = f"{o['n']} continuations of {o['block']} symbols are drawn from p, the one of the highest value is kept, and so on."
    return how, f"The distribution of the strings has no short formula; {COMPUTED}"


_LAWS = {
    "rejection": _rejection,
    "tokenwise_rejection": _tokenwise,
    "backtracking": _backtracking,
    "value_guided": _walk,
    "best_of": _best,
    "block_best_of": _blocks,
}
