"""The protocol of oracles, which give distributions of the next symbol of many prefixes.

The prefixes grow and shrink.

A causal language model of the Hugging Face library `transformers` is such an oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import GmlmError, fail
from .._optional import need
from .._types import AnyArray
from ..graph import Lowered, NetworkForm
from ..plan import plan_instead, plan_prefixes
from ._judges import numbers
from .limits import MOST_OFF

if TYPE_CHECKING:
    import jax
    from jaxtyping import PyTree

Array = np.ndarray
OF_LAWS = "`next_log_probs` returns logarithms of probabilities, one row for each prefix"


@runtime_checkable
class Oracle(Protocol):
    """The distribution of the next symbol of prefixes, one prefix for each row.

    Each row grows and shrinks independently. A model without a network and a causal network have
    compiled oracles. A user-defined object with these methods is accepted wherever a model's oracle
    is: `model.sample(params, "back", oracle=..)`, `gm.theory.output_law(.., oracle=..)`. Its state
    may be any object.
    """

    def start(self, prompts: Any) -> Any:
        """Return the state of rows that begin with prompts.

        The prompts are codes of shape (rows, cells), padded with -1.
        """
        ...

    def next_log_probs(self, state: Any) -> Any:
        """Return log p(next symbol | prefix), shape (rows, values).

        Rows that are full may contain any numbers.
        """
        ...

    def push(self, state: Any, symbols: Any) -> Any:
        """Return the state with a further symbol in each row.

        A negative symbol leaves the row unchanged.
        """
        ...

    def pop(self, state: Any, n: Any) -> Any:
        """Return the state without the last n symbols of each row."""
        ...


def refuse_given(network: NetworkForm) -> None:
    """Raise an error for a network that reads given data.

    Raises:
        GmlmError: E510.
    """
    if network.given:
        message = "guided samplers over a network take no given data: its strings would be answers to them"
        raise fail("E510", message, network.span, "reads given data", help="`transformer(causal = true)` takes none")


def oracle_of(lowered: Lowered, params: dict[str, PyTree]) -> Any:
    """Return the compiled oracle of a model.

    If remembering its prefixes costs too much, the oracle sums over all continuations at each
    symbol.

    Raises:
        GmlmError: E601 with the cost if both cost too much for a model without a network; E510 for
            a network that reads given data.
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
    """A user-defined oracle whose results are verified.

    Args:
        oracle: an object with the methods of `Oracle`.
        n_values: the number of values of a symbol.
    """

    is_host = True

    def __init__(self, oracle: object, n_values: int):
        if not isinstance(oracle, Oracle):
            help = "it has `start`, `next_log_probs`, `push` and `pop`: see `gm.Oracle`"
            raise fail("E744", f"oracle: {type(oracle).__name__} is not an oracle", help=help)
        self.oracle, self.n_values = oracle, n_values

    def start(self, prompts: AnyArray) -> Any:
        """Return the user's state of rows that begin with prompts."""
        return self._asked("start", np.asarray(prompts))

    def push(self, state: Any, symbols: AnyArray) -> Any:
        """Append a symbol to each row whose symbol is not negative."""
        return self._asked("push", state, np.asarray(symbols))

    def pop(self, state: Any, n: AnyArray) -> Any:
        """Remove the last n symbols of each row."""
        return self._asked("pop", state, np.asarray(n))

    def next_log_probs(self, state: Any) -> jax.Array:
        """Return the user's log probabilities after a check of their shape.

        `verify_law` checks the rows that count.
        """
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


def verify_law(law: AnyArray, counts: Array) -> None:
    """Raise an error for a wrong number of rows, and for rows that count without probabilities.

    Raises:
        GmlmError: E746, with the first row whose probabilities do not sum to 1.
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


def is_host(part: object) -> bool:
    """Return whether a part runs user-defined Python, so that its loop runs in Python."""
    return bool(getattr(part, "is_host", False))


class _Prefixes(NamedTuple):
    codes: Array
    lengths: Array


class PretrainedOracle:
    """An oracle log p(next value | prefix) from a causal language model in a local folder.

    The model belongs to the library `transformers`. p is the model's distribution of the next token
    given the previous tokens, restricted to the tokens of values and normalised over them. Each
    call reads whole prefixes, without a cache of previous tokens. Nothing is downloaded;
    `save_pretrained` writes such a folder. The class needs `pip install "gmlmdsl[pretrained]"`.

    Args:
        path: the folder.
        tokens: the model's token for each value of the string, in the order of values. None maps
            value k to token k.
        before: tokens before every prefix, such as an instruction or the start of a text.

    Raises:
        GmlmError: E501 if the folder contains no such model; E507 if a token does not exist in the
            model or stands for two values; E561 if a library is missing.
    """

    def __init__(self, path: str | PathLike[str], tokens: Sequence[int] | None = None, before: Sequence[int] = ()):
        transformers = need("transformers", "a pretrained language model needs transformers", '"gmlmdsl[pretrained]"')
        self._torch = need("torch", "a pretrained language model needs PyTorch", '"gmlmdsl[pretrained]"')
        try:
            self.model = transformers.AutoModelForCausalLM.from_pretrained(path, local_files_only=True).eval()
        except (OSError, ValueError, KeyError) as error:
            help = "name a folder that `save_pretrained` of a causal language model wrote"
            raise fail("E501", f"{path} holds no causal language model: {error}", help=help) from error
        size = self.model.get_output_embeddings().weight.shape[0]
        self.tokens = np.arange(size) if tokens is None else _verified(tokens, "tokens", size)
        self.before = _verified(before, "before", size)
        if len(set(self.tokens.tolist())) < len(self.tokens):
            raise fail("E507", "tokens: a token stands for two values", help="name each token once")

    def start(self, prompts: Any) -> _Prefixes:
        """Return prefixes of codes, padded with -1."""
        codes = np.asarray(prompts)
        return _Prefixes(codes, (codes >= 0).sum(axis=1))

    def push(self, state: _Prefixes, symbols: Any) -> _Prefixes:
        """Append a symbol to each row whose symbol is not negative."""
        codes, lengths, symbols = state.codes.copy(), state.lengths, np.asarray(symbols)
        more = np.flatnonzero(symbols >= 0)
        codes[more, lengths[more]] = symbols[more]
        return _Prefixes(codes, lengths + (symbols >= 0))

    def pop(self, state: _Prefixes, n: Any) -> _Prefixes:
        """Remove the last n symbols of each row."""
        return _Prefixes(state.codes, state.lengths - np.asarray(n))

    def next_log_probs(self, state: _Prefixes) -> Array:
        """Return log p(next value | prefix), shape (rows, values).

        Raises:
            GmlmError: E507 for an empty prefix without `before`.
        """
        torch, (codes, lengths) = self._torch, state
        own, most = len(self.before), int(lengths.max(initial=0))
        if own + int(lengths.min(initial=0)) == 0:
            raise self._nothing()
        # Padding follows the tokens, so that no token attends to it.
        inside = np.arange(most) < lengths[:, None]
        read = np.where(inside, self.tokens[np.where(inside, codes[:, :most], 0)], 0)
        read = np.concatenate([np.tile(self.before, (len(read), 1)), read], axis=1).astype(np.int64)
        seen = np.concatenate([np.ones((len(read), own), bool), inside], axis=1).astype(np.int64)
        with torch.no_grad():
            logits = self.model(input_ids=torch.from_numpy(read), attention_mask=torch.from_numpy(seen)).logits
            last = logits[torch.arange(len(read)), torch.from_numpy(own + lengths - 1)].double()
            return torch.log_softmax(last[:, torch.from_numpy(self.tokens)], dim=-1).numpy()

    def _nothing(self) -> GmlmError:
        help = "give `before=` the token that begins a text, or prompts of at least one symbol"
        return fail("E507", "a pretrained model has no distribution of the first token of nothing", help=help)


def _verified(tokens: Sequence[int], name: str, size: int) -> Array:
    found = np.asarray(tokens)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu") or (found.size and not (0 <= found.min() <= found.max() < size)):
        raise fail("E507", f"{name}: must be tokens of the model, whole numbers from 0 to {size - 1}, got {tokens!r:.60}")
    return found.astype(np.int64)
