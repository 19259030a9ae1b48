"""Lowering of masks: a table from the forms of a program to the functions that build masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._diagnostics import fail
from ..graph import Lowered
from ..program import ir
from ._bernoulli import lower_bernoulli
from ._block_terms import cells_of
from ._independent import lower_independent
from ._listed import certain_mask, lower_listed, lower_stripes
from ._mask import AbstractMask
from ._mixture import lower_mixture
from ._percolation import PercolationMask, lower_percolation
from ._subsets import lower_subsets
from ._visits import lower_visits

BODIES: dict[type, Callable[[Lowered, Any], AbstractMask]] = {
    ir.FormMask: lambda lowered, body: _lower_form(lowered, body),
    ir.Listed: lower_listed,
    ir.Independent: lower_independent,
    ir.MaskMixture: lambda lowered, body: lower_mixture(lowered, body, _lower),
}
FORMS: dict[str, Callable[[Lowered, ir.FormMask], AbstractMask]] = {
    "subsets": lower_subsets,
    "stripes": lower_stripes,
    "everything": lambda lowered, body: certain_mask(cells_of(lowered, body.variables), lowered.graph.n_cells, body.span),
    "bernoulli": lower_bernoulli,
    "percolation": lower_percolation,
    "visits": lower_visits,
}


def lower_mask(lowered: Lowered, mask: ir.Mask) -> AbstractMask:
    """Return the arrays of a mask.

    Raises:
        GmlmError: for a block that contains a cell twice, weights that are not finite and >= 0, or
            a mask that never hides anything.
    """
    return lower_body(lowered, mask.body)


def lower_body(lowered: Lowered, body: ir.MaskBody) -> AbstractMask:
    """Return the arrays of a mask or of a part of one; see `lower_mask`."""
    found = _lower(lowered, body)
    return found if lowered.data is None else found.with_given(lowered.data, lowered.graph.sizes)


def lower_clusters(lowered: Lowered, mask: ir.Mask) -> PercolationMask:
    """Return the arrays of a mask that draws clusters."""
    assert isinstance(mask.body, ir.FormMask)
    return lower_percolation(lowered, mask.body)


def _lower(lowered: Lowered, body: ir.MaskBody) -> AbstractMask:
    return BODIES[type(body)](lowered, body)


def _lower_form(lowered: Lowered, body: ir.FormMask) -> AbstractMask:
    name = body.call.form.name
    if body.is_least_confident:
        message = f"`{name}` depends on what a network gives the present values: it has no distribution of its own"
        raise fail("E316", message, body.span, "only in an update")
    return FORMS[name](lowered, body)
