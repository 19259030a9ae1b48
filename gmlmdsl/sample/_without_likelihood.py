"""Draws for ArviZ 0.x from which no row can be left out.

An access to the likelihood of their rows raises an error that explains why, and what to do.
"""

from __future__ import annotations

from arviz import InferenceData

from .._diagnostics import fail


class _Refused:
    """Descriptor in place of the group; a group that a user adds takes precedence."""

    def __get__(self, draws: object, kind: type) -> _Refused:
        if draws is None:
            return self
        message = (
            "draws from a calibrated pseudolikelihood have no `log_likelihood`: leaving a row out by importance weighs draws by "
            "1 / p(x_r), which is right where their density is a product of the p(x_r), and calibration gives them another"
        )
        help = (
            "`fit.information_criterion()` (CLIC) and `fit.cross_validate(folds=10)` compare such fits; "
            "`log_pseudolikelihood` has the terms of the rows at each draw"
        )
        raise fail("E550", message, help=help)


class WithoutLikelihood(InferenceData):
    """InferenceData without a group `log_likelihood`.

    Raises:
        GmlmError: E550 on access to that group, as by `arviz.loo`, `waic` and `compare`.
    """

    log_likelihood = _Refused()
