"""Check `percolation`, a mask that draws clusters. Only an update can use it."""

from __future__ import annotations

from collections.abc import Sequence

from .._diagnostics import Span
from ..syntax import tree
from ._blocks import BlockTerm, Cells, FormCall
from ._form import Form
from ._mask_bodies import FormMask, MaskBody
from ._program import Model
from ._scope import Scope
from ._terms import IndexValue, SetOf

WHY = "clusters grow by p, which a network does not declare"


def check_percolation(call: tree.Call, form: Form, edges: Sequence[BlockTerm], model: Model, scope: Scope) -> FormMask | None:
    """Return the mask of `percolation(..)`, or None after a fault (E331).

    Each edge must have two cells, and the model must have a joint distribution.

    Args:
        call: the call in the program's text.
        form: the form `percolation`.
        edges: the checked edges, as blocks.
        model: the model of the mask.
        scope: the names that are visible. It collects the diagnostics.
    """
    if model.conditional is not None:
        if scope.is_whole():
            place = ((model.conditional.span, "conditionals only"),)
            help = "an update of a network takes cells one by one, or a block `independently`, by `subsets(..)` or `blocks(..)`"
            scope.report("E331", f"`percolation` needs log p: {WHY}", call.span, "no joint distribution", help=help, related=place)
        return None
    for term in edges:
        if _count(term, model, scope) != 2:
            help = "write `percolation(G.edges)`, or `{x[i], x[j]} for (i, j) in G.edges`"
            scope.report("E331", "an edge of `percolation` has two cells", term.span, "no pair of cells", help=help)
            return None
    names = tuple(dict.fromkeys(c.variable for term in edges for c in term.cells))
    return FormMask(call.span, FormCall(call.span, form, {}), names, tuple(edges))


def _count(term: BlockTerm, model: Model, scope: Scope) -> int | None:
    """Return the number of cells of a block, or None if the block contains whole arrays or rows."""
    return len(term.cells) if all(_is_one(c, term, model, scope) for c in term.cells) else None


def _is_one(cells: Cells, term: BlockTerm, model: Model, scope: Scope) -> bool:
    if cells.indices is None:
        return not model.variables[cells.variable].axes
    rows = {name for loop in term.clauses.loops for name in loop.names if loop.over.lists_cells}
    outer = (scope.find(i.name) for i in cells.indices if isinstance(i, IndexValue))
    listed = any(s is not None and isinstance(s.value, SetOf) and s.value.lists_cells for s in outer)
    return not listed and not any(isinstance(i, IndexValue) and i.name in rows for i in cells.indices)


def check_no_clusters(e: tree.MaskMixture, parts: Sequence[MaskBody | None], scope: Scope) -> bool:
    """Return whether no row of a mixture of masks draws clusters. Report E331 for each such row.

    A row that draws clusters does not draw a block with a weight of its own.
    """
    found: list[Span] = [row.mask.span for row, part in zip(e.rows, parts, strict=True) if part is not None and part.is_percolation]
    for span in found:
        help = "mix updates instead: `mixture { 0.5 : update x[K] where K ~ clusters  0.5 : update x[i] for i in site }` in a sampler"
        scope.report("E331", "`percolation` is no row of a mixture of masks", span, "stands alone", help=help)
    return not found
