"""A network as a file declares it, sized by what it is applied to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .._diagnostics import Span

Value = int | float | bool | str


@dataclass(frozen=True)
class NetworkForm:
    """A network as a file declares it, sized by what it is applied to.

    Attributes:
        name: of the form: transformer, encoder_decoder, mlp or python.
        options: every option by name, evaluated, defaults filled in; of `python` the user's own
            ones too.
        n_cells: the number of cells that it predicts.
        n_values: the number of values of each.
        given: of each given variable its name, its number of entries and of values, 0 values where
            it is real.
        label: the name that the file gives it, under which its arrays stand among the parameters.
        probes: the verifiers and values that are learnt from it, whose weights stand there under
            their names.
        values: of a `pretrained` network the values of each cell, which are tokens.
        planners: the networks by which samplers of the model plan, sized by its cells; their
            weights stand there too.
    """

    name: str
    options: Mapping[str, Value] = field(hash=False)
    n_cells: int
    n_values: int
    given: tuple[tuple[str, int, int], ...]
    span: Span = field(compare=False, repr=False)
    label: str = "net"
    probes: tuple[str, ...] = ()
    planners: tuple[NetworkForm, ...] = ()
    values: tuple[int | str, ...] = ()
