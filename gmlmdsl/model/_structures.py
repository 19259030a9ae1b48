"""A model as a network of cells: what its factors say of substitutions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import derive
from .._diagnostics import fail
from ..data import bound_rows
from ._posteriors import Posteriors
from ._queries import Params

if TYPE_CHECKING:
    from ..evaluate import Effects


class Structures(Posteriors):
    """The part of a `Model` that people ask who read it as a network."""

    def effects(self, params: Params, wildtype: Any, doubles: Any = None, *, missing: Any = None, given: Any = None) -> Effects:
        """How log p changes where cells of one configuration hold other values: log p(mutant) - log p(wildtype), in nats.

        Every single substitution, and every double one at chosen pairs of cells. log Z cancels, so that only the factors that touch
        the cells count: exact whatever the size of the model, the arity of its factors and its domains.

        Args:
            params: parameters.
            wildtype: one configuration, as a row of `fit` without the axis of rows.
            doubles: pairs of cells, positions or names such as `("x[0]", "x[3]")`, or a table with columns `first` and `second`, such as
                `fit.couplings(top=10)`; none: no double substitutions.
            missing: what stands for a missing cell, as in `fit`; such cells, and latents that `wildtype` lacks, are summed out.
            given: one row of data of given variables, without an axis of rows.

        Returns:
            `Effects`: `singles`, an array (cells, values); `table`, a DataFrame of them; `doubles` and `double_table`, with `epistasis`,
            the effect of both less those of each; -inf where a mutant is impossible. `gmlmdsl.report.plot_effects` draws the singles.

        Raises:
            GmlmError: E508 where the wildtype is impossible, E507 and E506 for rows or pairs that are none, E601 where summing out missing
                cells costs too much, E742 for a conditional model.

        Reference: Hopf et al. 2017, equation 3.
        """
        from ..evaluate import substitution_effects

        if self.graph.network is not None:
            raise derive.no_joint(self.graph)
        lowered, rows = bound_rows(self.lowered, wildtype, missing, given)
        if rows.shape:
            message = f"wildtype: effects are of one configuration, without an axis of rows; got rows of shape {rows.shape}"
            raise fail("E501", message, help="call it once for each row: `x[0]`")
        return substitution_effects(lowered.graph, self._params(params), rows.codes, doubles)
