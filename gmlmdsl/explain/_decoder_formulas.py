"""Explanations of samplers that decode, and of verifiers and values.

`refinement` and its presets decode pass by pass, `autoregressive` and guided samplers cell by cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .._diagnostics import GmlmError
from ..program import PUBLISHED, autoregressive_options, guided_options, ir, is_function, is_guided, reasons_unlike_p, refinement_options
from ._document import Section
from ._formulas import ModelFormulas
from ._network_formulas import stated_options
from ._notation import Cells, Notation
from .limits import MOST_COUNTS

if TYPE_CHECKING:
    from ..graph import Lowered, NetworkForm

EXACT = '`require` in the model and `sampler="exact"` draw from p given a constraint exactly, where a plan affords it.'
BY_REJECTION = "Over a network no plan affords p given a constraint; `rejection` draws from it exactly."
COMPUTED = "for short strings `gm.theory.output_law` computes it."
CONFIDENCE = {
    "probability": "the probability of its value",
    "margin": "the lead of the likeliest value over the next",
    "entropy": "1 − entropy / log q of its distribution",
}
SETTLE = {"random": "any {n}, drawn anew in each pass", "left_to_right": "the {n} on the right", "confidence": "the {n} least confident"}
_OF_ORACLE = (
    "The conditionals are those of p. One cell in each pass, placed by chance, by its place or by what is seen, is a draw from p; several "
    "at once lose what they have to do with one another: `gm.theory.output_law` says how much, `gm.theory.information_profile` in nats."
)
_NOT_P = (
    "The conditionals are those of p. Even with one cell in each pass the draws need not follow p: "
    "the sampler {}. `gm.theory.output_law` says how far they are from p."
)
_PLANNED = "; of an open cell the confidence is the probability of the value drawn in it, of a settled one its planner's."


def add_judge(section: Section, judge: ir.Judge) -> None:
    """Add the meaning of a verifier or value for a prefix."""
    section.words(f"`{judge.body.span.text}`: {judge.body.form.doc}")


def add_guided(section: Section, call: ir.FormCall, lowered: Lowered | None, cells: Cells, plans: bool) -> None:
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
    law = f"{o['n']} strings are drawn from p: the more of them, the further their distribution"
    return (f"{law} moves from p to its best strings; {COMPUTED}",)


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


def add_decoder(section: Section, call: ir.FormCall, formulas: ModelFormulas, lowered: Lowered | None, plans: bool) -> None:
    """Add the explanation of a sampler that decodes.

    Args:
        section: the section.
        call: the decoder.
        formulas: the formulas of the model.
        lowered: the model with its inputs, or None.
        plans: whether to add the cost of the symbols of a guided sampler.
    """
    if is_guided(call.form.name):
        add_guided(section, call, lowered, formulas.cells, plans)
        return
    add = _add_autoregressive if call.form.name == "autoregressive" else _add_refinement
    add(section, call, formulas, lowered)


def _add_autoregressive(section: Section, call: ir.FormCall, formulas: ModelFormulas, lowered: Lowered | None) -> None:
    """Add how a row grows, when it ends, and which row is the draw."""
    n, o = formulas.n, stated_options(autoregressive_options(call), lowered)
    section.words(f"`{call.span.text}`: {call.form.doc}")
    ends = "after its last cell"
    if o["end"] != "none":
        ends = f"after the value {o['end']}, which is its last cell, or when all cells are used up"
    section.words(f"A row grows from its first cell, and ends {ends}. What `prompt=` or `clamp=` holds is not free.")
    if o["decode"] == "sample":
        section.words(_decode({**o, "schedule": "all"}).replace("every free cell", "Each free cell"))
        plain = o["temperature"] == "1" and o["top_k"] == o["top_p"] == "none"
        section.words("A draw is a draw from p." if plain else "Draws are not from p: it is sharpened or cut.")
        return
    if o["beam"] == "1":
        section.words("Each free cell takes its likeliest value, given those before it (greedy search).")
    else:
        section.words(f"The {o['beam']} rows of the highest log p so far go on side by side; it is done when as many have ended.")
    log_p = n.given(formulas.log("p"), formulas.cells.row)
    below = "n" if o["length_penalty"] == "1" else n.power("n", o["length_penalty"])
    section.formula(n.either("score", "\\text{score}"), n.fraction(log_p, below))
    section.words(
        "n is the number of free cells of the row. The row with the highest score that search finds is the draw: it is not drawn from p."
    )


def _add_refinement(section: Section, call: ir.FormCall, formulas: ModelFormulas, lowered: Lowered | None) -> None:
    """Add the start, a pass, the open cells after it, the end, and the score of a candidate."""
    n, o, c = formulas.n, _stated(call, lowered), formulas.model.conditional
    section.words(f"`{call.span.text}`: {call.form.doc}")
    passes = "as many passes as cells" if o["steps"] == "cells" else f"{o['steps']} passes"
    if o["by"] == "counts" and not isinstance(call.arguments["schedule"], tuple):
        passes = "as many passes as the schedule lists"
    if o["block"] != "none":
        section.words(f"Blocks of {o['block']} cells from the left, T = {passes} over each.")
    elif c is None:
        section.words(f"T = {passes}.")
    else:
        shared = f", which share one encoding of {', '.join(f'`{g}`' for g in c.given)}" if c.given else ""
        many = _many(o["lengths"], "candidate length") + (", the likeliest first" if o["lengths"] != "1" else "")
        section.words(f"T = {passes} over {many}, {_many(o['starts'], 'start')} of each{shared}.")
    start = "is hidden" if o["start"] == "hide" else "holds a uniform value"
    instead = "a draft of the call, `init=`, stands instead, and what `clamp=` holds is not free."
    section.words(f"start: every free cell {start}; {instead}", 0, "-")
    section.words(f"pass t = 1..T: {_pass(formulas.cells, c is not None)}; {_decode(o)}", 0, "-")
    again = "is hidden again" if o["start"] == "hide" else "holds a new uniform value"
    if o["schedule"] == "all":
        repeated = f"the second and later cell of a run of equal values {again}; the first cell of a row has none before it."
        section.words(f"pass t + 1 sees what pass t predicted; {repeated}" if o["remask"] == "stutter" else "pass t + 1 sees it.", 0, "-")
    elif o["by"] == "mask":
        section.words("cells that no pass has predicted yet are shown as at the start; the last pass predicts them too.", 0, "-")
    else:
        section.words(f"pass t + 1 predicts the open cells alone; each {again} before it. Open are:", 0, "-")
        if o["remask"] in PUBLISHED:
            _add_rates(section, o, n)
        else:
            _add_schedule(section, o, call, lowered, n)
            _add_remask(section, o)
    section.words(f"stop: {_stop(o)}", 0, "-")
    if c is None:
        values = [len(v.labels) for v in lowered.graph.observed] if lowered else [float("inf")]
        reasons = " and ".join(reasons_unlike_p(o, max(values)).values())
        section.words(_NOT_P.format(reasons) if reasons else _OF_ORACLE)
        return
    free, seen = n.either("i free", "i \\text{ free}"), n.either("seen", "\\text{seen}")
    log_p = n.given(formulas.log("p"), n.sub(formulas.cells.row, "i"), seen)
    mean = n.fraction("1", "n") + n.times + n.over("sum", free, log_p)
    section.formula(n.either("score", "\\text{score}"), mean)
    section.words("n is the number of free cells of a candidate; each log p is that of the pass which last predicted the cell.")
    none = "A network promises no joint distribution p, so there is none that this could keep."
    section.words(f"The candidate with the highest score is the draw. {none}")


def _pass(cells: Cells, network: bool) -> str:
    """Return the inputs and outputs of a pass, in words."""
    law = cells.predicted(cells.n.either("seen", "\\text{seen}"))
    if network:
        return f"the network sees all cells and gives {law} of each at once"
    return f"{law} of each cell, others summed out"


def _stated(call: ir.FormCall, lowered: Lowered | None) -> dict[str, str]:
    """Return the options as texts.

    `by` is the kind of schedule: its name, `counts` or `mask`.
    """
    options = refinement_options(call)
    schedule = options["schedule"]
    counted = isinstance(schedule, tuple | ir.Input) or is_function(schedule)
    by = "counts" if counted else schedule if isinstance(schedule, str) else "mask"
    return {**stated_options(options, lowered), "by": by}


def _many(count: str, what: str) -> str:
    return f"{count} {what}{'s' * (count != '1')}"


def _decode(o: Mapping[str, str]) -> str:
    who = "every free cell" if o["schedule"] == "all" else "each open cell, in pass 1 every free one,"
    if o.get("by") == "mask":
        who = f"each cell of K, drawn from mask `{o['schedule']}` in every pass and shown as at the start,"
    if o["decode"] == "argmax":
        return f"{who} takes its likeliest value."
    among = [f"the {o['top_k']} likeliest values"] * (o["top_k"] != "none")
    among += [f"the fewest values with probability {o['top_p']}"] * (o["top_p"] != "none")
    heat = "" if o["temperature"] == "1" else f" with log p divided by {o['temperature']}"
    return f"{who} is drawn from it{heat}{', among ' + ' and '.join(among) if among else ''}."


def _add_schedule(section: Section, o: Mapping[str, str], call: ir.FormCall, lowered: Lowered | None, n: Notation) -> None:
    """Add the cells that are open after pass t."""
    planned = o["planner"] != "none"
    pool = "all free cells" if o["remask"] == "least_confident" or planned else "the open cells"
    sure = CONFIDENCE.get(o["confidence"], f"`{o['confidence']}` of log p of its values")
    by = _PLANNED if planned else f"; the confidence in a cell is {sure}." if o["order"] == "confidence" else "."
    t, those = n.sub("n", "t"), f"{SETTLE[o['order']].format(n='n_t')} of {pool}{by}{_counts(o, call, lowered)}"
    match o["by"]:
        case "linear":
            section.formula(t, n.call("floor", [n.fraction(n.times.join(("n", n.parens(f"T {n.minus} t"))), "T")]))
            section.words(those, 1)
        case "counts":
            section.words(f"after {o['schedule']}, how many each pass settles, n_t are left: {those}", 1)
        case "cosine":
            angle = n.fraction(n.either("π t", "\\pi t"), n.either(n.parens("2 T"), "2 T"))
            section.formula(t, n.call("floor", [n.times.join(("n", n.call("cos", [angle])))]))
            section.words(those, 1)
        case "threshold":
            section.words(f"those of {pool} with a confidence below {o['threshold']}, but at least one is settled{by}", 1)
        case "easy_first":
            one = {"random": "any one", "left_to_right": "the first one", "confidence": "the most confident one"}[o["order"]]
            section.words(f"all of {pool} but {one}{by}", 1)


def _counts(o: Mapping[str, str], call: ir.FormCall, lowered: Lowered | None) -> str:
    """Return ` For n = 8, after each pass: 6, 4, 2, 0.`; empty if the sizes are unknown."""
    if lowered is None or o["by"] not in ("linear", "cosine", "counts"):
        return ""
    from ..graph import passes_of, refinement

    found = passes_of(call, refinement(call, lowered.bound), sum(v.size for v in lowered.graph.observed))
    if found.open_after is None or found.steps > MOST_COUNTS:
        return ""
    return f" For n = {found.block}, after each pass: {', '.join(map(str, found.open_after[-1, 1:].tolist()))}."


def _add_rates(section: Section, o: Mapping[str, str], n: Notation) -> None:
    """Add the probabilities that a cell settles, and that it is hidden again."""
    alpha, sigma = n.either("alpha", "\\alpha"), n.either("sigma", "\\sigma")
    a, b, s = n.sub(alpha, "t-1"), n.sub(alpha, "t"), n.sub(sigma, "t")
    most = f"min(1, {n.fraction(n.parens(f'1 {n.minus} {b}'), a)})"
    grown = n.fraction(n.parens(f"{b} {n.minus} {a}"), a)
    rule = {
        "remdm_cap": f"min({o['eta']}, {most})",
        "remdm_rescale": n.times.join((o["eta"], most)),
        "remdm_confidence": n.times.join((o["eta"], most)),
        "forward_backward": f"min({grown}, {most})",
        "dfm": f"min({n.times.join((n.name('beta'), grown))}, {most})",
    }[o["remask"]]
    section.formula(s, n.either(rule, rule.replace("min", "\\min")))
    shares = {"linear": "t / T", "cosine": "1 - cos(pi t / 2 T)"}.get(o["by"], f"the share that {o['schedule']} has settled")
    settle = n.fraction(n.parens(f"{b} {n.minus} {n.parens(f'1 {n.minus} {s}')}{n.times}{a}"), n.parens(f"1 {n.minus} {a}"))
    section.formula(n.given("p", n.either("settles", "\\text{settles}")), settle)
    section.words(f"each open cell that does not settle, and each settled one with probability sigma_t; alpha_t is {shares}.", 1)
    if o["remask"] == "remdm_confidence":
        section.words(
            "Of a settled cell sigma_t counts by the share of exp(-p) among all settled, p its probability; of an open one it is 0.", 1
        )
    if o["remask"] == "dfm":
        section.words("beta is 10 (t (1 - t))^(1/4), t = alpha_(t-1).", 1)
    if (o["from"], o["until"]) != ("0", "1"):
        section.words(f"sigma_t is 0 but in the passes from {o['from']} until {o['until']} of all.", 1)
    if o["loop"] != "none":
        section.words(f"In these alpha stays at {o['loop']}; before and behind them it rises linearly.", 1)


def _add_remask(section: Section, o: Mapping[str, str]) -> None:
    if o["planner"] != "none":
        who = "in the same pass" if o["planner"] == "self" else f"by network `{o['planner']}`, which sees the whole row"
        score = f"the probability of its value {who}"
        if is_function(o["planner"]):
            score = f"exp of `{o['planner']}` of the row and of log p of the pass"
        section.words(f"A settled cell counts by {score}, to the power of {o['eta']}; 0 hides none again.", 1)
        section.words("What stays is selected by what was drawn: draws are not those of a random order.", 1)
    match o["remask"]:
        case "stutter":
            section.words("and the second and later cells of a run of equal values; the first cell of a row has none before it.", 1)
        case "random":
            section.words(f"and each cell that was settled, with probability {o['eta']}.", 1)


def _stop(o: Mapping[str, str]) -> str:
    if o["schedule"] in ("threshold", "easy_first"):
        return "after T passes, for a row already when nothing in it is open. Pass T leaves nothing open."
    if o["stop"] == "fixed_point":
        return "after T passes, for a row already after the first that changes nothing in it."
    return "after T passes."
