"""Explanations of models with a network's conditionals: the conditional, masks, and the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .._diagnostics import listed
from ..program import Program, input_options, ir, network_options, refinement_options
from ._document import Section
from ._formulas import ModelFormulas
from ._mask_formulas import add_law, loss_of
from ._notation import Cells, Notation

if TYPE_CHECKING:
    from ..graph import Lowered

LENGTHS = {
    "classifier": "a softmax over every length, from the final state of a place of its own before {given}, which no other place sees",
    "affine": "a·(length of {given}) + b, with squared error; candidates are the lengths nearest to it",
    "fertility": "(length of {given}) + a sum over its cells of what each adds, with squared error; no gradient goes into the encoder",
}
SHOWN = {"hide": "is hidden", "uniform": "holds a uniform value", "keep": "holds its true value"}


def add_conditional(section: Section, program: Program, formulas: ModelFormulas, lowered: Lowered | None) -> None:
    """Add the conditional, the network that computes it, and the end of a row.

    Args:
        section: the section.
        program: the program.
        formulas: the formulas of the model.
        lowered: the model with its inputs, or None.
    """
    n, c, cells = formulas.n, formulas.model.conditional, formulas.cells
    assert c is not None
    x, call = n.name(c.target), program.networks[c.network]
    rest = [cells.rest(()), "K", *map(n.name, c.given)]
    options = stated_options(network_options(call), lowered)
    causal = options.get("causal") == "true"
    if causal:
        rest = [n.sub(x, n.either("<i", "{<i}")), *map(n.name, c.given)]
    section.formula(n.given("p", n.sub(x, "i"), ", ".join(rest)), n.call("softmax", [n.sub(n.call(c.network, rest), "i")]))
    section.words(_causal(cells) if causal else _unpromised(cells))
    idle = {"target", *(("positions", "positional_attention", "position_embeddings", "length") if causal else ("causal",))}
    idle |= {"length_weight"} if options.get("length") == "oracle" else set()
    written = ", ".join(f"{name} = {value}" for name, value in options.items() if name not in idle)
    section.words(f"`{c.network}` is `{call.form.name}`, with {written or 'no options'}. `gmlm info` counts its parameters.")
    section.words("A row ends at its last value: cells behind it are padding, which is never seen, scored or noised.")
    kind = options.get("length", "oracle")
    if kind != "oracle":
        given = listed(c.given)
        section.words(f"The number of cells of a row is predicted ({kind}): {LENGTHS[kind].format(given=given)}.")


def _unpromised(cells: Cells) -> str:
    product = f"A network's product over the cells i of K of {cells.predicted()}, for any K"
    return f"{product}: no joint distribution, no log p, no joint updates."


def _causal(cells: Cells) -> str:
    return (
        f"The network sees the cells before i only, so that {cells.n.inline(f'p({cells.row})')} is "
        "the product over i: log p is known, and rows are drawn cell by cell."
    )


def stated_options(options: Mapping[str, object], lowered: Lowered | None) -> dict[str, str]:
    """Return options for display: as numbers if they are known, else as they are written."""
    return {name: _shown(value, lowered) for name, value in options.items()}


def _shown(value: object, lowered: Lowered | None) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if isinstance(value, ir.Mask | ir.Input):
        return value.name
    if isinstance(value, tuple):
        return f"counts([{', '.join(_shown(e, lowered) for e in value)}])"
    if lowered is not None:
        return f"{lowered.bound.number(value):g}"  # type: ignore[arg-type]
    # A default has no text of its own.
    if isinstance(value, ir.Operation) and len(value.operands) == 2:
        return f" {value.operator} ".join(_shown(e, lowered) for e in value.operands)
    return f"{value.value:g}" if isinstance(value, ir.Literal) else value.span.text  # type: ignore[attr-defined]


def add_network_mask(section: Section, mask: ir.Mask, formulas: ModelFormulas, program: Program, lowered: Lowered | None) -> None:
    """Add the distribution of K, the input of the network, the loss and the objective.

    Args:
        section: the section.
        mask: the mask.
        formulas: the formulas of the model.
        program: the program.
        lowered: the model with its inputs, or None.
    """
    add_law(section, mask.body, formulas, mask.adaptive)
    if mask.body.is_visits:
        _add_visits(section, mask.body, formulas)
        _add_objective(section, formulas, program, lowered)
        return
    parts = list(mask.body.leaves())
    if mask.body.has_least_confident:
        section.words("It asks the network, and so has no distribution to train with: it belongs to an update.")
        return
    if mask.adaptive:
        section.words(
            f"It looks at {formulas.n.inline(formulas.cells.row)}: the network learns "
            f"{formulas.cells.predicted()} for it. No sampler of a network draws K from it."
        )
    for k, part in enumerate(parts):
        noise = stated_options(input_options(part)["noise"], lowered)  # type: ignore[arg-type]
        words = ", ".join(SHOWN[w] + (f" with probability {p}" if p != "1" else "") for w, p in noise.items() if p != "0")
        of = f" of part {k + 1}" if len(parts) > 1 else ""
        section.words(f"What the network sees: a cell outside K as it is; each cell of K{of} {words}.")
    fed = input_options(parts[0])
    true = all(stated_options(input_options(p)["noise"], lowered).get("keep") == "1" for p in parts)  # type: ignore[arg-type]
    _add_loss(section, formulas, _shown(fed["stages"], lowered), str(fed["stage_inputs"]), _is_causal(formulas, program), true)
    _add_objective(section, formulas, program, lowered)


def _add_visits(section: Section, body: ir.MaskBody, formulas: ModelFormulas) -> None:
    """Add the bound of a decoder, or log p by its one path."""
    n, sampler = formulas.n, body.options["sampler"]
    assert isinstance(sampler, ir.Sampler)
    assert isinstance(sampler.body, ir.FormCall)
    c, o = formulas.model.conditional, refinement_options(sampler.body)
    assert c is not None
    loss, seen = loss_of(formulas), n.either("seen", "\\tilde{x}")
    k, settled = n.sub("k", "t"), n.sub("n", "t")
    x, known = n.sub(formulas.cells.row, "i"), ", ".join([seen, "K", *map(n.name, c.given)])
    own = f"{n.minus}{n.given(formulas.log('p'), x, known)}"
    log_p = n.inline(f"{n.minus}{n.given(formulas.log('p'), formulas.cells.row)}")
    if o["order"] == "random" and o["schedule"] != "threshold":
        mean = n.either(f"mean over K, |K| = {k}, of ", f"\\operatorname{{mean}}_{{|K| = {k}}} ")
        term = n.times.join((n.fraction(settled, k), f"{mean}{n.over('sum', n.members(['i'], 'K'), own)}"))
        section.formula(loss, n.over("sum", "t", term))
        section.words(
            "Pass t settles n_t of the k_t open cells (of a block, where there are blocks). "
            f"The loss is at least {log_p} of what `{sampler.name}` draws, in nats for a row: its own "
            "bound. One pass is drawn for a row, with probability n_t / n, and weighs n / k_t; the "
            "passes of a batch are stratified."
        )
        return
    settles = n.either("i settled in t", "i \\text{ settled in } t")
    section.formula(loss, n.over("sum", "t", n.over("sum", settles, own)))
    section.words(
        "The places of each pass follow from what is seen: a row has one path, and the loss is "
        f"{log_p} of what `{sampler.name}` draws, in nats. One pass is drawn for a row in a fit, with "
        "probability n_t / n, and weighs n / n_t."
    )


def _is_causal(formulas: ModelFormulas, program: Program) -> bool:
    c = formulas.model.conditional
    assert c is not None
    return network_options(program.networks[c.network]).get("causal") is True


def _add_loss(section: Section, formulas: ModelFormulas, stages: str, inputs: str, causal: bool, true: bool) -> None:
    """Add the loss, over stages if there are several.

    `true` states that the network sees true values only. The loss of a `causal` network is then an
    exact sum of next-symbol terms.
    """
    n, c = formulas.n, formulas.model.conditional
    assert c is not None
    x, loss = n.sub(formulas.cells.row, "i"), loss_of(formulas)
    seen = formulas.cells.row if causal and true else n.either("seen", "\\tilde{x}")

    def scored(shown: str) -> str:
        return n.over("sum", n.members(["i"], "K"), f"{n.minus}{n.given(formulas.log('p'), x, known(shown))}")

    def known(shown: str) -> str:
        before = [n.sub(shown, n.either("<i", "{<i}"))] if causal else [shown, "K"]
        return ", ".join([*before, *map(n.name, c.given)])

    if stages == "1":
        section.formula(loss, _mean(n, scored(seen)))
        section.words("The mean is over K." if causal and true else "The mean is over K and what is seen of it.")
        return
    here, after = (n.either(f"{seen}({k})", f"{seen}^{{({k})}}") for k in ("s", "s + 1"))
    section.formula(loss, _mean(n, n.times.join((n.fraction("1", stages), n.over("sum", f"s = 1..{stages}", scored(here))))))
    argmax = n.either("argmax_v", "\\arg\\max_v")
    draw = n.either("a draw from", "\\text{a draw from }")
    value = f"{argmax} {n.given('p', 'v', known(here))}" if inputs == "argmax" else f"{draw} {n.given('p', x, known(here))}"
    section.formula(n.sub(after, "i"), f"{value}{_for(n, n.members(['i'], 'K'))}")
    section.words(
        f"The mean is over K and what is first seen of it. In each of {stages} stages but the first, the cells of K hold the network's own "
        "prediction; no gradient goes through it, and every stage is scored on the cells of K."
    )


def _for(n: Notation, where: str) -> str:
    return n.either(f"  for {where}", f" \\quad \\text{{for }} {where}")


def _mean(n: Notation, text: str) -> str:
    return n.either(f"E[{text}]", f"\\mathbb{{E}}\\left[{text}\\right]")


def _add_objective(section: Section, formulas: ModelFormulas, program: Program, lowered: Lowered | None) -> None:
    n, c = formulas.n, formulas.model.conditional
    assert c is not None
    loss, size = loss_of(formulas, "r"), n.either("E|K_r|", "\\mathbb{E}|K_r|")
    weight = n.sub(n.either("weight", "\\text{weight}"), "r")
    rows = n.either("rows r", "r")
    rows_of = [n.over("sum", rows, n.times.join((weight, part))) for part in (loss, size)]
    objective = [n.fraction(*(n.either(n.parens(part), part) for part in rows_of))]
    options = stated_options(network_options(program.networks[c.network]), lowered)
    if options.get("length", "oracle") != "oracle":
        word = n.either("mean length loss", "\\text{mean length loss}")
        objective.append(f"+ {n.times.join((options['length_weight'], word))}")
    section.formula(n.either("objective", "\\text{objective}"), *objective)
    section.words("A fit minimises it by steps on batches of rows: nats per cell of K.")
