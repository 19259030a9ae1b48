"""The protocol of oracles: what gives the distribution of the next symbol of many prefixes, which grow and are taken back."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import GmlmError, fail
from ..graph import Lowered, NetworkForm
from ..plan import plan_instead, plan_prefixes
from ._host import numbers

Array = np.ndarray
MOST_OFF = 1e-4  # how far from 1 the probabilities of a row may sum
OF_LAWS = "`next_log_probs` returns logarithms of probabilities, one row for each prefix"


@runtime_checkable
class Oracle(Protocol):
    """The distribution of the next symbol of prefixes, one for each row; each row grows and is taken back on its own.

    A model without a network and a causal network have compiled ones. An object of the user's with
    these functions goes wherever a model's own goes: `model.sample(params, "back", oracle=..)`,
    `gm.theory.output_law(.., oracle=..)`. Its state is whatever it likes.
    """

    def start(self, prompts: Any) -> Any:
        """The state of rows that begin with prompts: codes of shape (rows, cells), -1 behind each."""
        ...

    def next_log_probs(self, state: Any) -> Any:
        """log p(next symbol | prefix), of shape (rows, values); of no meaning where a row is full."""
        ...

    def push(self, state: Any, symbols: Any) -> Any:
        """The state with one symbol more for each row; a row whose symbol is below 0 stays as it is."""
        ...

    def pop(self, state: Any, n: Any) -> Any:
        """The state without the last n symbols of each row."""
        ...


def refuse_given(network: NetworkForm) -> None:
    """Refuse a network that reads given data.

    Raises:
        GmlmError: E510.
    """
    if network.given:
        message = "guided samplers over a network take no given data: its strings would be answers to them"
        raise fail("E510", message, network.span, "reads given data", help="`transformer(causal = true)` takes none")


def oracle_of(lowered: Lowered, params: dict[str, Any]) -> Any:
    """The compiled oracle of a model; where its prefixes are too dear to remember, one that sums all that is behind them at each symbol.

    Raises:
        GmlmError: E601 with the cost where a model without a network affords neither.
    """
    network = lowered.graph.network
    if network is not None:
        refuse_given(network)
        return derive.causal_oracle(params[network.label], network.n_cells)
    try:
        plan = plan_prefixes(lowered.graph)
    except GmlmError as dear:
        return derive.contracted_oracle(lowered.graph, plan_instead(lowered.graph, dear), params)
    return derive.PrefixOracle(derive.prefix_machine(lowered.graph, plan, params))


class HostOracle:
    """An oracle of the user's, its answers checked.

    Args:
        oracle: an object with the functions of `Oracle`.
        n_values: the values of a symbol.
    """

    is_host = True

    def __init__(self, oracle: Any, n_values: int):
        if not isinstance(oracle, Oracle):
            help = "it has `start`, `next_log_probs`, `push` and `pop`: see `gm.Oracle`"
            raise fail("E744", f"oracle: {type(oracle).__name__} is not an oracle", help=help)
        self.oracle, self.n_values = oracle, n_values

    def start(self, prompts: Any) -> Any:
        """The user's state of rows."""
        return self._asked("start", np.asarray(prompts))

    def push(self, state: Any, symbols: Any) -> Any:
        """One symbol more for each row whose symbol is not below 0."""
        return self._asked("push", state, np.asarray(symbols))

    def pop(self, state: Any, n: Any) -> Any:
        """Each row without its last n symbols."""
        return self._asked("pop", state, np.asarray(n))

    def next_log_probs(self, state: Any) -> Any:
        """The user's distribution of each row, as it is; `verify_law` looks at the rows that count."""
        answer = self._asked("next_log_probs", state)
        found = numbers(answer)
        if found is None or found.ndim != 2 or found.shape[1] != self.n_values:
            got = f"{answer!r:.60}" if found is None else str(found.shape)
            message = f"oracle: `next_log_probs` must return numbers of shape (rows, {self.n_values}), got {got}"
            raise fail("E746", message, help=OF_LAWS)
        return jnp.asarray(found, derive.float_type())

    def _asked(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self.oracle, name)(*arguments)
        except Exception as error:
            raise fail("E746", f"oracle: `{name}` raised {type(error).__name__}: {error}") from error


def verify_law(law: Any, counts: Array) -> None:
    """Refuse log probabilities of rows that count and are no probabilities, and of fewer or more rows than there are.

    Raises:
        GmlmError: E746, with the first row that is none.
    """
    if len(law) != len(counts):
        raise fail("E746", f"oracle: `next_log_probs` must return a row for each of {len(counts)} prefixes, got {len(law)}", help=OF_LAWS)
    with np.errstate(over="ignore"):
        p = np.exp(np.asarray(law, np.float64))
    total = p.sum(axis=1)
    bad = counts & ~(np.abs(total - 1) <= MOST_OFF)
    if bad.any():
        r = int(np.argmax(bad))
        message = f"oracle: the probabilities of row {r} sum to {total[r]:.6g}, not 1"
        raise fail("E746", message, help=OF_LAWS)


def is_host(part: Any) -> bool:
    """Whether Python of the user's runs in it, so that a loop over it is one of Python."""
    return bool(getattr(part, "is_host", False))
