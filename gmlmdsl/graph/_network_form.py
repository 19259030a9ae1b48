"""A network as a file declares it, with the sizes of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .._diagnostics import Span

Value = int | float | bool | str


@dataclass(frozen=True)
class NetworkForm:
    """A network as a file declares it, with the sizes of its inputs and outputs.

    Attributes:
        name: the name of the form: transformer, encoder_decoder, mlp, pretrained or python.
        options: every option by name, evaluated, with defaults filled in. For `python` they include
            the user's own options.
        n_cells: the number of cells that the network predicts.
        n_values: the number of values of each cell.
        given: for each given variable its name, its number of entries and its number of values,
            which is 0 for a real one.
        span: the place of the declaration in the text.
        label: the name in the file. The network's arrays are stored under it among the parameters.
        probes: the verifiers and values that are learned from the network. Their weights are stored
            among the parameters under their own names.
        planners: the networks by which samplers of the model plan, with the sizes of the model's
            cells. Their weights are stored among the parameters too.
        values: the values of a cell, which are tokens of a `pretrained` network; of others empty.
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
