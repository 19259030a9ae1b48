"""Explanations of samplers: each update, its distribution and cost, and whether p is invariant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from .._diagnostics import GmlmError, listed
from ..program import ir
from ._document import Section
from ._formulas import ModelFormulas
from ._notation import Cells

if TYPE_CHECKING:
    from ..graph import Lowered

KEEPS, BREAKS, MAY_BREAK = "keeps p", "keeps no known distribution", "may keep no known distribution"
UNPROMISED = (
    "A network promises no joint distribution p, so there is none that this could keep: its conditionals for different K need not be "
    "those of one distribution."
)


def add_sampler(
    section: Section,
    body: Sequence[ir.Kernel],
    formulas: ModelFormulas,
    lowered: Lowered | None,
    plans: bool,
) -> None:
    """Add a sampler's body as an indented list, and whether it leaves p invariant.

    Args:
        section: the section.
        body: the kernels of the sampler.
        formulas: the formulas of the model.
        lowered: the model with its inputs, or None.
        plans: whether to add the plans of the updates.
    """
    promised = formulas.model.conditional is None
    teller = _Teller(section, formulas.cells, lowered, promised, plans)
    section.words("One draw runs this in order:" if len(body) > 1 else "One draw:")
    teller.body(body, 0)
    section.words(teller.verdict() if promised else UNPROMISED)


class _Teller:
    """A writer that walks the kernels and adds their lines.

    It records for each update whether p stays invariant, and which cells move.
    """

    def __init__(self, section: Section, cells: Cells, lowered: Lowered | None, promised: bool, plans: bool):
        self.section, self.cells, self.lowered = section, cells, lowered
        self.promised, self.plans = promised, plans
        self.kept: list[tuple[str, str]] = []
        self.moved: set[int] | None = set() if lowered is not None else None

    def body(self, kernels: Sequence[ir.Kernel], depth: int) -> None:
        for k in kernels:
            self.kernel(k, depth)

    def kernel(self, kernel: ir.Kernel, depth: int, mark: str = "-") -> None:
        kernel.accept(_Line(self, depth, mark))

    def ladder(self, temper: ir.Temper, depth: int) -> None:
        if self.lowered is None:
            return
        from ..plan import plan_temper

        try:
            self.plan(plan_temper(self.lowered, temper).words, depth)
        except GmlmError as error:
            self.section.words(f"refused: {error.diagnostics[0].message}", depth)
            self.kept.append((temper.span.text.split("{")[0].strip(), "refused"))

    def plan(self, words: str, depth: int) -> None:
        """Add the words of a plan if plans are requested."""
        if self.plans:
            self.section.words(words, depth)

    def update(self, update: ir.Sweep | ir.RandomUpdate, depth: int, mark: str) -> None:
        say, text = self.section.words, update.span.text
        say(f"`{text}`" + f", {update.turn}" * bool(update.turn), depth, mark)
        if not self.promised:
            say(network_law(update, self.cells), depth + 1)
            return
        say(law(update, self.cells), depth + 1)
        if self.lowered is None:
            self.kept.append((text, MAY_BREAK if update.independently else KEEPS))
            return
        from ..plan import plan_update

        try:
            planned = plan_update(self.lowered, update)
        except GmlmError as error:
            d = error.diagnostics[0]
            say(f"refused: {d.message}" + (f"; {d.help}" if d.help else ""), depth + 1)
            self.kept.append((text, "refused"))
            return
        self.plan(planned.words, depth + 1)
        self.kept.append((text, KEEPS if planned.keeps else BREAKS))
        self.note_moved(planned)

    def note_moved(self, planned: object) -> None:
        from ..plan import ClusterPlan, RandomPlan

        assert self.lowered is not None
        assert self.moved is not None
        n = self.lowered.graph.n_random
        cells = planned.mask.reach if isinstance(planned, RandomPlan | ClusterPlan) else planned.blocks.ravel()  # type: ignore[attr-defined]
        self.moved |= {int(c) for c in cells if c < n}

    def verdict(self) -> str:
        """Return whether p is left invariant, and which cells never move."""
        worst = [(text, word) for text, word in self.kept if word != KEEPS]
        if not worst:
            said = "Leaves p invariant: every update draws exactly from its conditional."
        else:
            text, word = worst[0]
            said = {
                BREAKS: f"Does not keep p: `{text}` redraws interacting cells independently, which keeps no known distribution.",
                MAY_BREAK: f"May not keep p: `{text}` keeps it only where no two cells of a block share a factor.",
            }.get(word, f"Cannot run: `{text}` is {word}.")
        return said + self.still()

    def still(self) -> str:
        if self.moved is None or self.lowered is None or any(word == "refused" for _, word in self.kept):
            return ""
        graph = self.lowered.graph
        missed = [graph.cell_name(c) for c in range(graph.n_random) if c not in self.moved]
        return f" It never moves {listed(missed, 5)}: a chain keeps the values there that it starts with." if missed else ""


def law(update: ir.Sweep | ir.RandomUpdate, cells: Cells) -> str:
    """Return the distribution that a block is drawn from, in words."""
    return update.either(partial(_law_of_sweep, cells), partial(_law_of_random, cells))


def _law_of_sweep(cells: Cells, sweep: ir.Sweep) -> str:
    hidden = sweep.hidden_variables()
    if sweep.independently:
        own = f"every cell of each block from {cells.single(hidden)}"
        return f"{own} at the old values, block after block"
    if not sweep.blocks.clauses.loops:
        return f"jointly from {cells.conditional(hidden)}"
    once = f"every block once, from {cells.conditional(hidden)}"
    return f"{once}; blocks that share no factor at the same time"


def _law_of_random(cells: Cells, update: ir.RandomUpdate) -> str:
    source, hidden = _source(update), update.hidden_variables()
    if update.independently:
        return f"{source}, then every cell of K from {cells.single(hidden)} at the old values"
    block, row = cells.n.inline(cells.block(hidden)), cells.n.inline(cells.row)
    corrected = cells.conditional(hidden, also=", K")
    if update.mask.body.is_percolation:
        images = f"then {block} among its images from {corrected}"
        return f"{source}, the cluster of a random cell, {images}: the bonds cancel, which keeps p"
    if update.mask.adaptive:
        then = f"then {block} from {corrected}"
        return f"{source}, which looks at {row}, {then}: its correction for K keeps p"
    return f"{source}, then {block} from {cells.conditional(hidden)}"


def _source(update: ir.RandomUpdate) -> str:
    return f"K from mask `{update.mask.name}`" if update.mask.name else "K from the mask"


def network_law(update: ir.Sweep | ir.RandomUpdate, cells: Cells) -> str:
    """Return the distribution of a network's update, and its number of passes, in words."""
    of_sweep = partial(_network_law_of_sweep, cells)
    return update.either(of_sweep, partial(_network_law_of_random, cells))


def _network_law_of_sweep(cells: Cells, sweep: ir.Sweep) -> str:
    law = cells.predicted()
    if not sweep.blocks.clauses.loops:
        return f"every cell hidden, then each from {law}, all in one pass"
    once = "every block once, in order: hidden, then each of its cells"
    return f"{once} from {law}; a pass for each block"


def _network_law_of_random(cells: Cells, update: ir.RandomUpdate) -> str:
    law = cells.predicted()
    if update.mask.body.has_least_confident:
        own = cells.single(())
        least = f"K the cells whose present values have the lowest {own}, a pass for each"
        return f"{least}; hidden, then each from {law}"
    return f"{_source(update)}, hidden, then each cell of K from {law}, all in one pass"


@dataclass(frozen=True)
class _Line:
    """The lines of one kernel, at a depth of the list, after a mark."""

    teller: _Teller
    depth: int
    mark: str

    def start(self, kernel: ir.Start) -> None:
        self.teller.section.words(f"`{kernel.span.text}`, whatever stood before: {kernel.call.form.doc}", self.depth, self.mark)

    def update(self, kernel: ir.Sweep | ir.RandomUpdate) -> None:
        self.teller.update(kernel, self.depth, self.mark)

    sweep = random = update

    def cycle(self, kernel: ir.Cycle) -> None:
        self.headed("cycle, in order:", kernel)

    def repeat(self, kernel: ir.Repeat) -> None:
        times = f"{kernel.count.span.text} times" if kernel.loop is None else f"for {kernel.loop.span.text}"
        self.headed(f"repeat {times}:", kernel)

    def mixture(self, kernel: ir.KernelMixture) -> None:
        self.teller.section.words("one of these, picked at random:", self.depth, self.mark)
        for weight, row in kernel.rows:
            self.teller.kernel(row, self.depth + 1, f"{weight.span.text}:")

    def temper(self, kernel: ir.Temper) -> None:
        betas = ", ".join(dict.fromkeys(b.span.text for b in kernel.betas))
        head = f"on replicas of log p scaled by {betas}, then exchanges of neighbours, even and odd pairs in turn:"
        self.teller.section.words(head, self.depth, self.mark)
        self.teller.ladder(kernel, self.depth + 1)
        self.teller.body(kernel.body, self.depth + 1)

    def headed(self, head: str, kernel: ir.Kernel) -> None:
        self.teller.section.words(head, self.depth, self.mark)
        self.teller.body(kernel.parts, self.depth + 1)
