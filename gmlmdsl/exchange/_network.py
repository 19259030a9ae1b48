"""A Bayesian network over variables with named states, as every reader gives and writer takes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from .._diagnostics import Diagnostic, GmlmError, Span, counted, fail, listed
from .limits import LEAST_ERROR, MOST_ERROR, MOST_NOTED, MOST_NUMBERS

Array = np.ndarray


@dataclass(frozen=True)
class FiniteVariable:
    """A variable of a network.

    Attributes:
        name: its name, as the file has it.
        states: the names of its values.
        span: the place of its declaration.
    """

    name: str
    states: tuple[str, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class Conditional:
    """The distribution of a variable given its parents.

    Attributes:
        child: the number of the variable.
        parents: the numbers of its parents.
        table: the probabilities; one axis for each parent, and the last one for the child.
        span: the place of its head.
    """

    child: int
    parents: tuple[int, ...]
    table: Array
    span: Span | None = None


@dataclass(frozen=True, eq=False)
class BayesianNetwork:
    """A network with one conditional for each variable, without cycles.

    Attributes:
        name: its name, which may be empty.
        variables: the variables in the order of the file.
        conditionals: the conditionals in the order of the file.
        notes: what a reader changed.
    """

    name: str
    variables: tuple[FiniteVariable, ...]
    conditionals: tuple[Conditional, ...]
    notes: tuple[str, ...] = ()


class Rounding:
    """Divides rows of probabilities by their sums, and remembers of which variables."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def verified(self, rows: Array, name: str, place: Callable[[int], Span | None], hint: str = "") -> Array:
        """Return rows of probabilities whose sums are 1.

        Args:
            rows: numbers of at least 0; the last axis runs over the values of the variable.
            name: the name of the variable.
            place: the place of a row, by its number.
            hint: a likelier cure than other numbers.

        Raises:
            GmlmError: E533 for a sum that no rounding explains.
        """
        sums = rows.sum(axis=-1)
        errors = np.abs(sums - 1)
        if not errors.max(initial=0.0) <= MOST_ERROR * (1 + LEAST_ERROR):
            worst = int(np.argmax(errors > MOST_ERROR * (1 + LEAST_ERROR)))
            message = f"probabilities of `{name}` sum to {sums.ravel()[worst]:.10g}"
            help = f"rows must sum to 1; sums that differ by {MOST_ERROR:g} or less are taken as rounded"
            raise fail("E533", message, place(worst), "do not sum to 1", help=hint or help)
        changed = errors > LEAST_ERROR
        if not changed.any():
            return rows
        self.names[name] = self.names.get(name, 0) + int(changed.sum())
        return np.where(changed[..., None], rows / sums[..., None], rows)

    @property
    def notes(self) -> tuple[str, ...]:
        """A note about the rows that were divided, or none."""
        if not self.names:
            return ()
        rows = counted(sum(self.names.values()), "row")
        text = f"{rows} of probabilities did not sum to 1 as rounded, and were divided by their sums: "
        return (text + listed(list(self.names), MOST_NOTED),)


def verify_size(sizes: Sequence[int], name: str, span: Span | None, before: int = 0) -> int:
    """Return the number of entries of a table, before it is allocated.

    Args:
        sizes: the length of each axis.
        name: how the message calls the owner of the table.
        span: the place where the table is declared.
        before: the number of entries of the other tables.

    Raises:
        GmlmError: E535 if all tables have more entries than the limit.
    """
    entries = math.prod(sizes)
    if entries + before > MOST_NUMBERS:
        found = f"{entries:,}" if entries < 10**15 else f"{float(min(entries, 10**300)):.3g}"
        message = f"the table of `{name}` has {found} numbers; all tables may have {MOST_NUMBERS:,}"
        help = "give the variable fewer parents, or fewer states"
        raise fail("E535", message, span, "too large", help=help)
    return entries


def verified_network(network: BayesianNetwork) -> BayesianNetwork:
    """Return the network if every variable has one conditional and no cycle goes through it.

    Raises:
        GmlmError: E532 with the place of the declaration or of a head in the cycle.
    """
    heads: dict[int, Conditional] = {}
    faults: list[Diagnostic] = []
    for c in network.conditionals:
        name = network.variables[c.child].name
        if c.child in heads:
            message = f"`{name}` has two distributions"
            faults.append(Diagnostic("E532", message, c.span, "the second", help="keep one of them"))
        heads[c.child] = c
    for k, v in enumerate(network.variables):
        if k not in heads:
            message, help = f"`{v.name}` has no distribution", "the file may have been cut off"
            faults.append(Diagnostic("E532", message, v.span, "is never given", help=help))
    if faults:
        raise GmlmError(faults)
    cycle = _cycle(heads)
    if cycle:
        path = " -> ".join(network.variables[k].name for k in [*cycle, cycle[0]])
        message, help = f"the network has a cycle: {path}", "drop a parent from one of them"
        raise fail("E532", message, heads[cycle[0]].span, "is its own ancestor", help=help)
    return network


def _cycle(heads: dict[int, Conditional]) -> list[int]:
    """Return the variables of a cycle, each before the next one that depends on it; or none."""
    done: set[int] = set()
    for start in heads:
        path: dict[int, Iterator[int]] = {}
        node = start
        while node not in done:
            if node not in path:
                path[node] = iter(heads[node].parents)
            following = next((p for p in path[node] if p not in done), None)
            if following is None:
                done.add(node)
                del path[node]
                node = next(reversed(path), node)
            elif following in path:
                members = list(path)
                return members[members.index(following) :][::-1]
            else:
                node = following
    return []
