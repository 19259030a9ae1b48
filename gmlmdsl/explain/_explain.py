"""The explanation of a program: formulas from its text, plans and costs from its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._diagnostics import GmlmError, listed
from ..program import Program, ir
from ._decoder_formulas import add_decoder, add_judge
from ._document import WIDTH, Section, as_latex, as_text
from ._formulas import ModelFormulas
from ._info import axes_text, known, lowered_if_bound, needed_inputs
from ._mask_formulas import add_clusters, add_mask, add_objective
from ._network_formulas import add_conditional, add_network_mask
from ._notation import Latex, Notation, Unicode
from ._sampler_formulas import add_sampler

if TYPE_CHECKING:
    from ..graph import Bound, FactorGraph, Lowered
    from ..masks import AbstractMask
    from ..plan import BlockPlan, MaskPlan


@dataclass(frozen=True)
class Done:
    """The treatment of data by a fit, as sentences; an empty one stands for the default treatment.

    Attributes:
        lacking: the treatment of missing cells and latents.
        masks: the masks that the loss averaged over.
    """

    lacking: str = ""
    masks: str = ""


@dataclass(frozen=True)
class Explanation:
    """The parts of a program to explain, and the amount of detail.

    Attributes:
        program: a checked program.
        bound: the program with its inputs; None gives formulas only.
        model: the only model to explain, or None for all.
        mask: the only mask to explain, or None for all.
        sampler: the only sampler to explain, or None for all.
        done: the treatment of data by a fit, in place of the default treatment.
        plans: whether to add the computation of each sum, and its cost.
    """

    program: Program
    bound: Bound | None = None
    model: str | None = None
    mask: str | None = None
    sampler: str | None = None
    done: Done = Done()
    plans: bool = False

    def text(self, width: int = WIDTH) -> str:
        """Return the explanation for a terminal, in lines of `width` columns."""
        sections = self._sections(Unicode())
        if self.bound is None and needed_inputs(self.program):
            sections.append(_lacking(self.program))
        elif self.bound is not None and not self.plans:
            sections.append(_more())
        return as_text(sections, width)

    def latex(self) -> str:
        """Return the explanation as LaTeX for a paper."""
        notation = Latex()
        sections = self._sections(notation)
        if self.bound is None and needed_inputs(self.program):
            sections.append(_lacking(self.program))
        return as_latex(sections, notation)

    def _sections(self, notation: Notation) -> list[Section]:
        # In a bound program the loops of samplers and mixtures are unrolled.
        program = self.program if self.bound is None else self.bound.program
        return [
            section
            for name in _models(program, self.model, self.mask, self.sampler)
            for section in self._of_model(program, program.models[name], notation)
        ]

    def _of_model(self, program: Program, model: ir.Model, notation: Notation) -> list[Section]:
        lowered = lowered_if_bound(self.bound, model.name)
        formulas = ModelFormulas(model, notation)
        told = _Told(program, model, lowered, formulas, self.done, self.plans)
        masks = [m for m in program.masks.values() if m.model == model.name]
        samplers = [s for s in program.samplers.values() if s.model == model.name]
        judges = [j for j in program.judges.values() if j.model == model.name]
        if self.mask or self.sampler:
            masks = [m for m in masks if m.name == self.mask]
            samplers = [s for s in samplers if s.name == self.sampler]
            judges = []
        return [
            _head(told),
            *(_mask(told, mask) for mask in masks),
            *(_judge(judge) for judge in judges),
            *(_sampler(told, sampler) for sampler in samplers),
        ]


@dataclass(frozen=True)
class _Told:
    """One model, with all the data that its sections are written from."""

    program: Program
    model: ir.Model
    lowered: Lowered | None
    formulas: ModelFormulas
    done: Done
    plans: bool


def explain(
    program: Program,
    bound: Bound | None = None,
    *,
    latex: bool = False,
    model: str | None = None,
    mask: str | None = None,
    sampler: str | None = None,
    done: Done | None = None,
    plans: bool = False,
) -> str:
    """Explain log p, conditionals, losses and samplers of a program; with its inputs also counts.

    Args:
        program: a checked program.
        bound: the program with its inputs; None gives formulas only.
        latex: LaTeX instead of Unicode text, which has lines of at most 100 columns.
        model: the only model to explain, or None for all.
        mask: the only mask to explain, or None for all.
        sampler: the only sampler to explain, or None for all.
        done: the treatment of data by a fit, in place of the default treatment.
        plans: whether to add the computation of each sum, and its cost; computations that exceed
            the budget are reported always.

    Raises:
        GmlmError: for an unknown name, and for faults that only the inputs show.
    """
    told = Explanation(program, bound, model, mask, sampler, done or Done(), plans)
    return told.latex() if latex else told.text()


def _more() -> Section:
    section = Section("plans and costs")
    section.words("`gmlm explain --plans` prints how each sum is computed, and what it costs.")
    return section


def _lacking(program: Program) -> Section:
    numbers = [n for n in needed_inputs(program) if not program.inputs[n].axes]
    arrays = [n for n in needed_inputs(program) if program.inputs[n].axes]
    ways = [f"{listed(numbers)} with `--input {numbers[0]}=8`"] if numbers else []
    ways += [f"{listed(arrays)} as arrays in a file, `--inputs FILE.npz`"] if arrays else []
    section = Section("sizes, plans and costs")
    section.words(f"These need inputs: {', and '.join(ways)}.")
    return section


def _models(program: Program, model: str | None, mask: str | None, sampler: str | None) -> Sequence[str]:
    chosen = None if model is None else known(model, list(program.models), "model")
    for name, table, what in ((mask, program.masks, "mask"), (sampler, program.samplers, "sampler")):
        if name is not None:
            owner = table[known(name, list(table), what)].model  # type: ignore[attr-defined]
            chosen = chosen or owner
    return list(program.models) if chosen is None else [chosen]


def _judge(judge: ir.Judge) -> Section:
    section = Section(f"{judge.kind} {judge.name}")
    add_judge(section, judge)
    return section


def _sampler(told: _Told, sampler: ir.Sampler) -> Section:
    section = Section(f"sampler {sampler.name}")
    if isinstance(sampler.body, ir.FormCall):
        add_decoder(section, sampler.body, told.formulas, told.lowered, told.plans)
    else:
        add_sampler(section, sampler.body, told.formulas, told.lowered, told.plans)
    return section


def _head(told: _Told) -> Section:
    section, model, lowered = Section(f"model {told.model.name}"), told.model, told.lowered
    _declarations(section, model, lowered)
    if model.conditional is not None:
        add_conditional(section, told.program, told.formulas, lowered)
        return section
    _roles(section, told)
    _terms(section, told)
    if model.parameters:
        _prior(section, told)
    for name, _ in model.gauges:
        section.words(f"Gauge: the sums of `{name}` over each axis that runs over a domain are zero.")
    _normaliser(section, told)
    return section


def _declarations(section: Section, model: ir.Model, lowered: Lowered | None) -> None:
    for v in model.variables.values():
        what = "number" if v.domain.real else "value" if v.role == "given" else "cell"
        count = "" if lowered is None else _counted(lowered.graph.variable(v.name).size, what)
        section.words(f"`{v.role} {v.name}{axes_text(v.axes)} : {domain_text(v.domain)}`{count}", 1)
    sizes = {} if lowered is None else {q.name: q.size for q in lowered.graph.parameters}
    for p in model.parameters.values():
        count = _counted(sizes[p.name], "number") if p.name in sizes else ""
        kind = "" if p.type.span == p.span else f" : {p.type.span.text}"
        prior = "" if p.prior is None else f" ~ {p.prior.span.text}"
        section.words(f"`param {p.name}{axes_text(p.axes)}{kind}{prior}`{count}", 1)


def _roles(section: Section, told: _Told) -> None:
    """Add the latent and the given variables, and the meaning of a letter for several variables."""
    cells, n = told.formulas.cells, told.formulas.n
    if cells.stands_for:
        every = n.inline(f"({', '.join(cells.stands_for)})")
        section.words(f"{n.inline(cells.row)} stands for {every}, all cells of a row.")
    hidden = _names(told.model, "latent")
    if hidden:
        verb = "is" if len(hidden) == 1 else "are"
        what = "not in the data, and summed out of conditionals and losses"
        section.words(f"{listed(hidden)} {verb} latent: {what}.")
    given = _names(told.model, "given")
    if given:
        verb = "comes" if len(given) == 1 else "come"
        what = "p, Z and what follows are given them"
        section.words(f"{listed(given)} {verb} with each row: {what}.")


def _names(model: ir.Model, role: str) -> list[str]:
    return [v.name for v in model.variables.values() if v.role == role]


def _terms(section: Section, told: _Told) -> None:
    """Add log p, and its terms that enter the conditional of a block."""
    section.words("The model:")
    told.formulas.add_log_p(section)
    others = "no other enters a conditional given all other cells"
    section.words(f"The terms that hold a cell of a block K; {others}:")
    told.formulas.add_block(section)
    if told.model.requires:
        section.words("Values of the cells of K that break a requirement have probability zero.")
    lacking = " and ".join(["Missing cells", *(f"`{z}`" for z in _names(told.model, "latent"))])
    summed = f"{lacking} count as cells of K and are summed out"
    section.words(told.done.lacking or f"{summed}, so terms that hold one of them enter too.")


def _prior(section: Section, told: _Told) -> None:
    section.words("The prior of the parameters:")
    told.formulas.add_prior(section)
    parameters = told.model.parameters.values()
    priors = [(p.name, p.prior) for p in parameters if p.prior is not None]
    discrete = [name for name, prior in priors if prior.form.name == "spike_slab"]
    if discrete:
        entries = f"The entries of {listed(discrete)} are 0 exactly unless they are in"
        section.words(f"{entries}: `posterior` samples them, and `fit` refuses.")


def _counted(n: int, what: str) -> str:
    return f" ({n:,} {what}{'s' * (n != 1)})"


def domain_text(domain: ir.Domain) -> str:
    """Return a domain by its name or as it is written."""
    return domain.name or domain.kind if not (domain.labels or domain.real) or domain.name else domain.span.text


def _normaliser(section: Section, told: _Told) -> None:
    model, lowered = told.model, told.lowered
    only_conditionals = bool(model.distributed) and not model.factors and not model.requires
    if only_conditionals:
        section.words("Only conditionals: log Z = 0 where every cell has its `~`.")
    if lowered is None:
        return
    from ..plan import plan_elimination, sum_memory, with_partial_sums

    try:
        graph = with_partial_sums(lowered.graph)
        plan = plan_elimination(graph)
        size = sum_memory(graph, plan)
    except GmlmError as error:
        reason = error.diagnostics[0].message
        section.words(f"log Z is refused: {reason}. No fit and no sampler needs it.")
        return
    if told.plans:
        held = f"{size / 2**20:.3g} MiB" if size >= 2**20 else f"{size / 2**10:.3g} KiB"
        section.words(f"log Z by {plan.words}, about {held} in float32.")
    elif not only_conditionals:
        section.words("log Z is summed exactly.")


def _mask(told: _Told, mask: ir.Mask) -> Section:
    section = Section(f"mask {mask.name}")
    if told.model.conditional is not None:
        _network_mask(section, told, mask)
    elif mask.body.is_percolation:
        add_clusters(section, mask, told.formulas)
    else:
        _joint_mask(section, told, mask)
    return section


def _network_mask(section: Section, told: _Told, mask: ir.Mask) -> None:
    add_network_mask(section, mask, told.formulas, told.program, told.lowered)
    if told.lowered is not None and not mask.body.has_least_confident:
        section.words(_never_hidden(mask, told.lowered))


def _joint_mask(section: Section, told: _Told, mask: ir.Mask) -> None:
    """Add the formulas of a mask of a joint distribution, and what a fit under it computes."""
    latents = _names(told.model, "latent")
    mentioned = [*sorted(mask.body.hidden_variables()), *mask.given]
    named = list(dict.fromkeys(name for name in mentioned if name in latents))
    add_mask(section, mask, told.formulas, summed=bool(latents) and not named)
    if named:
        section.words(f"It names {listed(named)}, which is latent: it may sample, not fit.")
        return
    factor, plan = "c = (cells that K can reach) / E|K|.", ""
    if told.lowered is not None:
        factor, plan = _use(told, mask, told.lowered)
    if not mask.mentions_parameter and told.model.parameters:
        add_objective(section, factor, told.formulas)
    section.words(plan)
    if told.lowered is not None:
        section.words(_latents(told, mask, told.lowered))
        section.words(_never_hidden(mask, told.lowered))


def _use(told: _Told, mask: ir.Mask, lowered: Lowered) -> tuple[str, str]:
    """Return the factor of the objective in numbers, and the masks that a fit averages over."""
    from ..masks import lower_mask
    from ..plan import plan_use

    used = plan_use(lowered.graph, lower_mask(lowered, mask))
    mean = used.mean_size
    size = "the mean over the rows" if mean is None else f"{mean:g} = {used.factor:g}"
    factor = f"c = (cells that K can reach) / E|K| = {used.reached} / {size}."
    said = [told.done.masks or f"A fit averages over {_averaged(used)}."]
    refused = _too_costly(used.block, mask) if used.whole is None and used.counted is None else ""
    if told.plans:
        said.append(_costliest(used))
    said.append(refused)
    if told.plans:
        said.append(_layout(lowered.graph, lower_mask(lowered, mask), used))
    return factor, " ".join(filter(None, said))


def _averaged(used: MaskPlan) -> str:
    if not used.all_masks:
        return f"1 mask per row, drawn from the seed: there are {used.support:.3g}"
    many = "all" if used.support > 1 else "the"
    return f"{many} {used.support:.0f} mask{'s' * (used.support > 1)} for every row"


def _costliest(used: MaskPlan) -> str:
    if used.whole is not None:
        return f"The blocks of all rows in one order, {used.whole.words}."
    if used.counted is not None:
        return f"All blocks with partial sums for cells, by {used.counted.words}."
    return f"Costliest block by {used.block.words}."


def _layout(graph: FactorGraph, mask: AbstractMask, used: MaskPlan) -> str:
    """Return how the blocks of a loss over all masks are scored.

    The text is empty for a loss that is eliminated, drawn, data-dependent or above the budget.
    """
    from ..plan import is_large, plan_loss_blocks, support_blocks

    blocks, probabilities = support_blocks(graph, mask) if used.all_masks else (None, None)
    if blocks is None or probabilities is None or is_large(graph, blocks):
        return ""
    try:
        words = f"Scored: {plan_loss_blocks(graph, blocks, probabilities, mask.span).words}."
    except GmlmError:
        return ""
    few = "A fit lists them all the same: they are few. "
    return f"{few * (used.block.elimination is not None)}{words}"


def _latents(told: _Told, mask: ir.Mask, lowered: Lowered) -> str:
    """Return how latents are summed out under a mask, or why they are not.

    The text is empty without latents, or if `done` describes them. It is also empty without `plans`
    if the sum is affordable.
    """
    if not lowered.graph.latents or told.done.lacking:
        return ""
    from ..masks import lower_mask
    from ..plan import plan_hidden

    graph, m = lowered.graph, lower_mask(lowered, mask)
    try:
        plan = plan_hidden(graph, graph.is_latent, m, 1, 1, "latents", "")
    except GmlmError as error:
        return f"Refused: {error.diagnostics[0].message}. `method=` of `fit` has other ways."
    return f"Latents that a row lacks are summed out: {plan.words}." if told.plans else ""


def _never_hidden(mask: ir.Mask, lowered: Lowered) -> str:
    """Return the cells of the data that no block contains, as a sentence; empty without any."""
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
        return f"Refused: {error.diagnostics[0].message}."
    return ""
