"""What samplers that decode a network do: `refinement` and its presets pass by pass, `autoregressive` cell by cell."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..program import AUTOREGRESSIVE, autoregressive_options, ir, is_guided, refinement_options
from ._document import Section
from ._guided_formulas import add_guided
from ._network_formulas import stated_options
from ._notation import Notation

if TYPE_CHECKING:
    from ..graph import Lowered

CONFIDENCE = {
    "probability": "the probability of its value",
    "margin": "the lead of the likeliest value over the next",
    "entropy": "1 − entropy / log q of its distribution",
}
MOST_COUNTS = 16
SCHEDULES = ("all", "linear", "cosine", "threshold", "easy_first")  # any other is the name of a mask


def add_decoder(section: Section, call: ir.FormCall, model: ir.Model, lowered: Lowered | None, n: Notation) -> None:
    """What a sampler that decodes does."""
    if is_guided(call.form.name):
        add_guided(section, call, lowered)
        return
    (_add_autoregressive if call.form is AUTOREGRESSIVE else _add_refinement)(section, call, model, lowered, n)


def _add_autoregressive(section: Section, call: ir.FormCall, model: ir.Model, lowered: Lowered | None, n: Notation) -> None:
    """How a row grows, when it ends, and which row is the draw."""
    o = stated_options(autoregressive_options(call), lowered)
    section.words(f"`{call.span.text}`: {call.form.doc}")
    ends = (
        "after its last cell"
        if o["end"] == "none"
        else f"after the value {o['end']}, which is its last cell, or when all cells are used up"
    )
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
    log_p, text = ("log p(row)", "n") if n.one_line else ("\\log p(\\text{row})", "n")
    section.formula(
        "score" if n.one_line else "\\text{score}",
        n.fraction(log_p, text if o["length_penalty"] == "1" else f"{text}^{o['length_penalty']}"),
    )
    section.words(
        "n is the number of free cells of the row. The row with the highest score that search finds is the draw: it is not drawn from p."
    )


def _add_refinement(section: Section, call: ir.FormCall, model: ir.Model, lowered: Lowered | None, n: Notation) -> None:
    """The start, a pass, which cells are open after it, when it stops, and the score of a candidate."""
    o = stated_options(refinement_options(call), lowered)
    c = model.conditional
    assert c is not None
    shared = f", which share one encoding of {', '.join(f'`{g}`' for g in c.given)}" if c.given else ""
    section.words(f"`{call.span.text}`: {call.form.doc}")
    many = _many(o["lengths"], "candidate length") + (", the likeliest first" if o["lengths"] != "1" else "")
    section.words(f"T = {o['steps']} passes over {many}, {_many(o['starts'], 'start')} of each{shared}.")
    start = "is hidden" if o["start"] == "hide" else "holds a uniform value"
    instead = "a draft of the call, `init=`, stands instead, and what `clamp=` holds is not free."
    section.words(f"start: every free cell {start}; {instead}", 0, "-")
    section.words(f"pass t = 1..T: the network sees all cells and gives p(x_i | seen) of each at once; {_decode(o)}", 0, "-")
    again = "is hidden again" if o["start"] == "hide" else "holds a new uniform value"
    if o["schedule"] == "all":
        repeated = f"the second and later cell of a run of equal values {again}; the first cell of a row has none before it."
        section.words(f"pass t + 1 sees what pass t predicted; {repeated}" if o["remask"] == "stutter" else "pass t + 1 sees it.", 0, "-")
    elif o["schedule"] not in SCHEDULES:
        section.words("cells that no pass has predicted yet are shown as at the start; the last pass predicts them too.", 0, "-")
    else:
        section.words(f"pass t + 1 predicts the open cells alone; each {again} before it. Open are:", 0, "-")
        _add_schedule(section, o, lowered, n)
        _add_remask(section, o)
    section.words(f"stop: {_stop(o)}", 0, "-")
    free = "i free" if n.one_line else "i \\text{ free}"
    log_p = n.given("log p" if n.one_line else "\\log p", n.sub("x", "i"), "seen" if n.one_line else "\\text{seen}")
    total = n.over("sum", free, log_p)
    section.formula("score" if n.one_line else "\\text{score}", n.fraction("1", "n") + (n.times + total))
    section.words("n is the number of free cells of a candidate; each log p is that of the pass which last predicted the cell.")
    section.words(f"The candidate with the highest score is the draw. {_promise()}")


def _promise() -> str:
    return "A network promises no joint distribution p, so there is none that this could keep."


def _many(count: str, what: str) -> str:
    return f"{count} {what}{'s' * (count != '1')}"


def _decode(o: Mapping[str, str]) -> str:
    who = "every free cell" if o["schedule"] == "all" else "each open cell, in pass 1 every free one,"
    if o["schedule"] not in SCHEDULES:
        who = f"each cell of K, drawn from mask `{o['schedule']}` in every pass and shown as at the start,"
    if o["decode"] == "argmax":
        return f"{who} takes its likeliest value."
    among = [f"the {o['top_k']} likeliest values"] * (o["top_k"] != "none")
    among += [f"the fewest values with probability {o['top_p']}"] * (o["top_p"] != "none")
    heat = "" if o["temperature"] == "1" else f" with log p divided by {o['temperature']}"
    return f"{who} is drawn from it{heat}{', among ' + ' and '.join(among) if among else ''}."


def _add_schedule(section: Section, o: Mapping[str, str], lowered: Lowered | None, n: Notation) -> None:
    """Which cells are open after pass t."""
    pool = "all free cells" if o["remask"] == "least_confident" else "the open cells"
    by = f"; the confidence in a cell is {CONFIDENCE[o['confidence']]}."
    t = n.sub("n", "t")
    match o["schedule"]:
        case "linear":
            section.formula(t, n.call("floor", [n.fraction(n.times.join(("n", n.parens(f"T {n.minus} t"))), "T")]))
            section.words(f"the n_t least confident of {pool}{by}{_counts(o, lowered)}", 1)
        case "cosine":
            angle = n.fraction("π t" if n.one_line else "\\pi t", n.parens("2 T") if n.one_line else "2 T")
            section.formula(t, n.call("floor", [n.times.join(("n", n.call("cos", [angle])))]))
            section.words(f"the n_t least confident of {pool}{by}{_counts(o, lowered)}", 1)
        case "threshold":
            section.words(f"those of {pool} with a confidence below {o['threshold']}, but at least one is settled{by}", 1)
        case "easy_first":
            section.words(f"all of {pool} but the most confident one{by}", 1)


def _counts(o: Mapping[str, str], lowered: Lowered | None) -> str:
    """` For n = 8: 6, 4, 2, 0.`, where the sizes are known."""
    if lowered is None or not o["steps"].isdigit() or int(o["steps"]) > MOST_COUNTS:
        return ""
    n, steps = lowered.graph.n_random, int(o["steps"])
    if o["schedule"] == "linear":
        found = [n * (steps - t) // steps for t in range(1, steps + 1)]
    else:
        found = [math.floor(n * math.cos(math.pi * t / (2 * steps)) + 1e-6) for t in range(1, steps + 1)]
    return f" For n = {n}, after each pass: {', '.join(map(str, found))}."


def _add_remask(section: Section, o: Mapping[str, str]) -> None:
    match o["remask"]:
        case "stutter":
            section.words("and the second and later cells of a run of equal values; the first cell of a row has none before it.", 1)
        case "remdm":
            section.words(f"and each cell that was settled, with probability {o['eta']}.", 1)


def _stop(o: Mapping[str, str]) -> str:
    if o["schedule"] in ("threshold", "easy_first"):
        return "after T passes, for a row already when nothing in it is open. Pass T leaves nothing open."
    if o["stop"] == "fixed_point":
        return "after T passes, for a row already after the first that changes nothing in it."
    return "after T passes."
