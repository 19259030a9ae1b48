"""The explanation of a program: formulas from its text, plans and costs from its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._diagnostics import GmlmError, listed
from ..program import Program, ir
from ._document import Section, as_latex, as_text
from ._formulas import ModelFormulas
from ._guided_formulas import add_judge
from ._info import axes_text, known, lowered_if_bound, needed_inputs
from ._mask_formulas import add_clusters, add_mask, add_objective
from ._network_formulas import add_conditional, add_network_mask
from ._notation import Latex, Notation, Unicode
from ._refinement_formulas import add_decoder
from ._sampler_formulas import add_sampler

if TYPE_CHECKING:
    from ..graph import Bound, FactorGraph, Lowered
    from ..masks import AbstractMask
    from ..plan import BlockPlan, MaskPlan


@dataclass(frozen=True)
class Done:
    """What a fit did, each as a sentence; empty: what a fit does where no option says otherwise.

    Attributes:
        lacking: what became of missing cells and latents.
        masks: which masks its loss averaged over.
    """

    lacking: str = ""
    masks: str = ""


def explain(
    program: Program,
    bound: Bound | None = None,
    *,
    latex: bool = False,
    model: str | None = None,
    mask: str | None = None,
    sampler: str | None = None,
    done: Done | None = None,
) -> str:
    """log p, conditionals, losses and samplers of a program; with its inputs also plans and costs.

    Args:
        program: a checked program.
        bound: the program with its inputs; none: formulas only.
        latex: LaTeX instead of Unicode text.
        model: only this model.
        mask: only this mask.
        sampler: only this sampler.
        done: what a fit did, in the place of what a fit does by default.

    Raises:
        GmlmError: for an unknown name, and for what only the inputs show.
    """
    program = program if bound is None else bound.program  # whose loops of samplers and mixtures are written out
    notation: Notation = Latex() if latex else Unicode()
    sections: list[Section] = []
    for name in _models(program, model, mask, sampler):
        sections += _model(program, program.models[name], bound, notation, mask, sampler, done or Done())
    if bound is None and needed_inputs(program):
        sections.append(_lacking(program))
    return as_latex(sections, notation) if latex else as_text(sections)


def _lacking(program: Program) -> Section:
    numbers = [n for n in needed_inputs(program) if not program.inputs[n].axes]
    arrays = [n for n in needed_inputs(program) if program.inputs[n].axes]
    ways = [f"{listed(numbers)} with `--input {numbers[0]}=8`"] if numbers else []
    ways += [f"{listed(arrays)} as arrays in a file, `--inputs FILE.npz`"] if arrays else []
    section = Section("plans and costs")
    section.words(f"These need inputs: {', and '.join(ways)}.")
    return section


def _models(program: Program, model: str | None, mask: str | None, sampler: str | None) -> Sequence[str]:
    chosen = None if model is None else known(model, list(program.models), "model")
    for name, table, what in ((mask, program.masks, "mask"), (sampler, program.samplers, "sampler")):
        if name is not None:
            owner = table[known(name, list(table), what)].model  # type: ignore[attr-defined]
            chosen = chosen or owner
    return list(program.models) if chosen is None else [chosen]


def _model(
    program: Program, model: ir.Model, bound: Bound | None, n: Notation, mask: str | None, sampler: str | None, done: Done
) -> list[Section]:
    formulas = ModelFormulas(model, n)
    lowered = lowered_if_bound(bound, model.name)
    out = [_head(model, lowered, formulas, done)]
    if model.conditional is not None:
        add_conditional(out[0], program, model, lowered, n)
    for m in program.masks.values():
        if m.model == model.name and (mask == m.name if mask else sampler is None):
            out.append(_mask(m, lowered, formulas, done) if model.conditional is None else _network_mask(m, program, lowered, formulas))
    for judge in program.judges.values():
        if judge.model == model.name and mask is None and sampler is None:
            section = Section(f"{judge.kind} {judge.name}")
            add_judge(section, judge)
            out.append(section)
    for s in program.samplers.values():
        if s.model == model.name and (sampler == s.name if sampler else mask is None):
            section = Section(f"sampler {s.name}")
            if isinstance(s.body, ir.FormCall):
                add_decoder(section, s.body, model, lowered, n)
            else:
                add_sampler(section, s.body, lowered, promised=model.conditional is None)
            out.append(section)
    return out


def _head(model: ir.Model, lowered: Lowered | None, formulas: ModelFormulas, done: Done) -> Section:
    section = Section(f"model {model.name}")
    for v in model.variables.values():
        what = "number" if v.domain.real else "value" if v.role == "given" else "cell"
        count = "" if lowered is None else _counted(lowered.graph.variable(v.name).size, what)
        section.words(f"`{v.role} {v.name}{axes_text(v.axes)} : {domain_text(v.domain)}`{count}", 1)
    for p in model.parameters.values():
        count = "" if lowered is None else _counted(next(q.size for q in lowered.graph.parameters if q.name == p.name), "number")
        kind = "" if p.type.kind == "real" else f" : {p.type.span.text}"
        prior = "" if p.prior is None else f" ~ {p.prior.span.text}"
        section.words(f"`param {p.name}{axes_text(p.axes)}{kind}{prior}`{count}", 1)
    if model.conditional is not None:
        return section
    hidden = [v.name for v in model.variables.values() if v.role == "latent"]
    if hidden:
        section.words(
            f"{listed(hidden)} {'is' if len(hidden) == 1 else 'are'} latent: not in the data, and summed out of conditionals and losses."
        )
    given = [v.name for v in model.variables.values() if v.role == "given"]
    if given:
        section.words(f"{listed(given)} {'comes' if len(given) == 1 else 'come'} with each row: p, Z and what follows are given them.")
    section.words("The model:")
    formulas.add_log_p(section)
    section.words("The terms that hold a cell of a block K; no other enters a conditional given all other cells:")
    formulas.add_block(section)
    if model.requires:
        section.words("Values of x_K that break a requirement have probability zero.")
    lacking = ", ".join([*(f"`{name}`" for name in hidden), "missing cells"])
    summed = f"What a row lacks ({lacking}) is summed out and counts as cells of K: terms that hold nothing else enter too."
    section.words(done.lacking or summed)
    if model.parameters:
        section.words("The prior of the parameters:")
        formulas.add_prior(section)
    discrete = [p.name for p in model.parameters.values() if p.prior is not None and p.prior.form.name == "spike_slab"]
    if discrete:
        section.words(f"The entries of {listed(discrete)} are 0 exactly unless they are in: `posterior` samples them, and `fit` refuses.")
    for name, _ in model.gauges:
        section.words(f"Gauge: the sums of `{name}` over each axis that runs over a domain are zero.")
    _normaliser(section, model, lowered)
    return section


def _counted(n: int, what: str) -> str:
    return f" ({n:,} {what}{'s' * (n != 1)})"


def domain_text(domain: ir.Domain) -> str:
    """A domain as it is named or written."""
    return domain.name or domain.kind if not (domain.labels or domain.real) or domain.name else domain.span.text


def _normaliser(section: Section, model: ir.Model, lowered: Lowered | None) -> None:
    if model.distributed and not model.factors and not model.requires:
        section.words("Only conditionals: log Z = 0 where every cell has its `~`.")
    if lowered is None:
        return
    from ..plan import plan_elimination, sum_memory, with_partial_sums

    try:
        graph = with_partial_sums(lowered.graph)
        plan = plan_elimination(graph)
        size = sum_memory(graph, plan)
        held = f"{size / 2**20:.3g} MiB" if size >= 2**20 else f"{size / 2**10:.3g} KiB"
        section.words(f"log Z by {plan.words}, about {held} in float32.")
    except GmlmError as error:
        section.words(f"log Z is refused: {error.diagnostics[0].message}. No fit and no sampler needs it.")


def _network_mask(mask: ir.Mask, program: Program, lowered: Lowered | None, formulas: ModelFormulas) -> Section:
    section = Section(f"mask {mask.name}")
    add_network_mask(section, mask, formulas, program, lowered)
    if lowered is not None and not mask.body.has_least_confident:
        words = _never_hidden(mask, lowered)
        if words:
            section.words(words)
    return section


def _mask(mask: ir.Mask, lowered: Lowered | None, formulas: ModelFormulas, done: Done) -> Section:
    section = Section(f"mask {mask.name}")
    if mask.body.is_percolation:
        add_clusters(section, mask, formulas)
        return section
    named = [name for name in (*sorted(mask.body.hidden_variables()), *mask.given) if formulas.model.variables[name].role == "latent"]
    add_mask(section, mask, formulas, summed=bool(formulas.latents) and not named)
    if named:
        section.words(f"It names {listed(list(dict.fromkeys(named)))}, which is latent: it may sample, not fit.")
        return section
    factor, plan = "c = (cells that K can reach) / E|K|.", ""
    if lowered is not None:
        from ..masks import lower_mask
        from ..plan import plan_use

        used = plan_use(lowered.graph, lower_mask(lowered, mask))
        size = "the mean over the rows" if used.mean_size is None else f"{used.mean_size:g} = {used.factor:g}"
        factor = f"c = (cells that K can reach) / E|K| = {used.reached} / {size}."
        count = (
            ("all" if used.support > 1 else "the") + f" {used.support:.0f} mask{'s' * (used.support > 1)} for every row"
            if used.all_masks
            else f"1 mask per row, drawn from the seed: there are {used.support:.3g}"
        )
        costly = f"Costliest block by {used.block.words}.{_too_costly(used.block, mask)}"
        if used.whole is not None:
            costly = f"The blocks of all rows in one order, {used.whole.words}."
        plan = f"{done.masks or f'A fit averages over {count}.'} {costly}"
        plan += _layout(lowered.graph, lower_mask(lowered, mask), used)
    if not mask.mentions_parameter and formulas.model.parameters:
        add_objective(section, factor, formulas.n)
    if plan:
        section.words(plan)
    if lowered is not None and lowered.graph.latents and not done.lacking:
        section.words(_latents(mask, lowered))
    words = "" if lowered is None else _never_hidden(mask, lowered)
    if words:
        section.words(words)
    return section


def _layout(graph: FactorGraph, mask: AbstractMask, used: MaskPlan) -> str:
    """How the blocks of a loss over all masks are scored; empty where it is eliminated, drawn, looks at x or is refused."""
    from ..plan import is_large, plan_loss_blocks, support_blocks

    blocks, probabilities = support_blocks(graph, mask) if used.all_masks else (None, None)
    if blocks is None or probabilities is None or is_large(graph, blocks):
        return ""
    try:
        listed_too = "" if used.block.elimination is None else " A fit lists them all the same: they are few."
        return f"{listed_too} Scored: {plan_loss_blocks(graph, blocks, probabilities, mask.span).words}."
    except GmlmError:
        return ""


def _latents(mask: ir.Mask, lowered: Lowered) -> str:
    """How latents are summed out under a mask, or why not."""
    from ..masks import lower_mask
    from ..plan import plan_hidden

    graph, m = lowered.graph, lower_mask(lowered, mask)
    try:
        plan = plan_hidden(graph, graph.is_latent, m, 1, 1, "latents", "")
    except GmlmError as error:
        return f"Refused: {error.diagnostics[0].message}. `method=` of `fit` has other ways."
    return f"Latents that x lacks are summed out: {plan.words}."


def _never_hidden(mask: ir.Mask, lowered: Lowered) -> str:
    """Which cells of the data no block holds; empty where each is held."""
    from ..masks import lower_mask

    graph = lowered.graph
    held = set(lower_mask(lowered, mask).reach.tolist())
    names = [graph.cell_name(c) for c in range(graph.n_random) if c not in held and not graph.is_latent[c]]
    return f"It never hides {listed(names, 5)}: a fit takes these as given." if names else ""


def _too_costly(plan: BlockPlan, mask: ir.Mask) -> str:
    from ..plan import verify_affordable

    if plan.method == "product":
        return ""
    try:
        verify_affordable(plan, "a block", mask.span)
    except GmlmError as error:
        return f" Refused: {error.diagnostics[0].message}."
    return ""
