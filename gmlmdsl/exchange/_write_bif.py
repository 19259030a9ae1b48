"""Writer of the Bayesian Interchange Format."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ._names import one_word
from ._network import BayesianNetwork, Conditional
from ._numbers import written_row


def bif_text(network: BayesianNetwork) -> str:
    """Return a network, whose names are words, as a BIF text."""
    return "".join(f"{line}\n" for line in _lines(network))


def _lines(network: BayesianNetwork) -> Iterator[str]:
    yield f"network {one_word(network.name)} {{"
    yield "}"
    for v in network.variables:
        yield f"variable {v.name} {{"
        yield f"  type discrete [ {len(v.states)} ] {{ {', '.join(v.states)} }};"
        yield "}"
    for c in network.conditionals:
        yield from _probability(network, c)


def _probability(network: BayesianNetwork, c: Conditional) -> Iterator[str]:
    parents = [network.variables[p] for p in c.parents]
    given = f" | {', '.join(p.name for p in parents)}" * bool(parents)
    yield f"probability ( {network.variables[c.child].name}{given} ) {{"
    if not parents:
        yield f"  table {', '.join(written_row(c.table))};"
    else:
        rows = c.table.reshape(-1, c.table.shape[-1])
        states = itertools.product(*(p.states for p in parents))
        for key, row in zip(states, rows, strict=True):
            yield f"  ({', '.join(key)}) {', '.join(written_row(row))};"
    yield "}"
