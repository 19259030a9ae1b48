"""Judges of prefixes, which are verifiers and values.

There are exact, probed and noisy judges, and combinations.

A judge may be a Python function of the user. The verifier of matching brackets stores, for each
prefix, the place of the last open bracket.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from .._diagnostics import GmlmError, Span, fail
from .._types import ArrayLike
from ..derive import CausalOracle, CausalState, PrefixMachine, PrefixOracle, PrefixState, finite, float_type
from ..graph import VariableArray
from ..networks import Probe

Rows = Int[Array, " rows"]
WRONG = -1  # The depth of a prefix with which no string of the language begins.


class View(eqx.Module):
    """The prefixes that are judged.

    Attributes:
        codes: shape (rows, cells); entries after a row's length are undefined.
        lengths: the number of symbols of each row.
        whole: whether the prefixes are whole strings.
        asked: whether the result counts; for continuations also by symbol.
    """

    codes: Int[Array, "rows cells"]
    lengths: Int[Array, " rows"]
    whole: Bool[Array, " rows"]
    asked: Bool[Array, "rows ..."]


class AbstractJudge(eqx.Module):
    """A function V of prefixes: 0 or 1 for a verifier, at least 0 for a value.

    The prefixes grow and shrink together with those of an oracle. Results are log V, and -inf if V
    is 0, because values of long strings underflow in single precision. `oracle` and `at` are the
    oracle and its state for the same prefixes.
    """

    @property
    def looks_ahead(self) -> bool:
        """Whether V = 0 for a prefix implies V = 0 for every string that begins with it."""
        return False

    @property
    def is_host(self) -> bool:
        """Whether it runs user-defined Python."""
        return False

    @abc.abstractmethod
    def start(self, prompts: Int[Array, "rows cells"]) -> PyTree:
        """Return the state of rows that begin with prompts, padded with -1."""

    @abc.abstractmethod
    def push(self, state: PyTree, symbols: Int[Array, " rows"]) -> PyTree:
        """Append a symbol to each row whose symbol is not negative."""

    @abc.abstractmethod
    def pop(self, state: PyTree, n: Int[Array, " rows"]) -> PyTree:
        """Remove the last n symbols of each row."""

    @abc.abstractmethod
    def values(self, state: PyTree, view: View, oracle: Any, at: PyTree) -> Float[Array, " rows"]:
        """Return log V of each row's prefix.

        Args:
            state: the state of the judge.
            view: the prefixes.
            oracle: the oracle.
            at: the state of the oracle.
        """

    def children(
        self, state: PyTree, view: View, whole: Bool[Array, "rows values"], oracle: Any, at: PyTree
    ) -> Float[Array, "rows values"]:
        """Return log V of each row's prefix with each further symbol.

        Args:
            state: the state of the judge.
            view: the prefixes.
            whole: whether each continuation is a whole string.
            oracle: the oracle.
            at: the state of the oracle.
        """
        rows, n = view.codes.shape

        def one(symbol: Array) -> Array:
            symbols = jnp.full(rows, symbol, jnp.int32)
            codes = view.codes.at[jnp.arange(rows), view.lengths].set(symbol, mode="drop")
            ends = jnp.take(whole, symbol, axis=1)
            asked = view.asked if view.asked.ndim == 1 else jnp.take(view.asked, symbol, axis=1)
            after = View(codes, jnp.minimum(view.lengths + 1, n), ends, asked)
            return self.values(self.push(state, symbols), after, oracle, oracle.push(at, symbols))

        return jax.lax.map(one, jnp.arange(whole.shape[1], dtype=jnp.int32)).T


class AbstractMachineJudge(AbstractJudge):
    """A judge whose state is the state of a model's prefix machine.

    Attributes:
        machine: the prefix oracle of the model.
    """

    machine: eqx.AbstractVar[PrefixOracle]

    def start(self, prompts: Int[Array, "rows cells"]) -> PrefixState:
        """Return the machine's state after each prompt."""
        return self.machine.start(prompts)

    def push(self, state: PrefixState, symbols: Int[Array, " rows"]) -> PrefixState:
        """Append a symbol to each row."""
        return self.machine.push(state, symbols)

    def pop(self, state: PrefixState, n: Int[Array, " rows"]) -> PrefixState:
        """Remove the last symbols of each row."""
        return self.machine.pop(state, n)


class Completable(AbstractMachineJudge):
    """A verifier that is 1 if some completion of the prefix has p > 0 in a model.

    The machine sums weights 0 and 1 over the completions. A whole string is complete with its end.

    Attributes:
        machine: the prefix oracle of the model's support.
    """

    machine: PrefixOracle

    @property
    def looks_ahead(self) -> bool:
        """True, since a string with p > 0 is a completion of each of its prefixes."""
        return True

    def values(self, state: PrefixState, view: View, oracle: Any, at: PyTree) -> Float[Array, " rows"]:
        """Return the logarithm of 0 or 1 for each row's prefix."""
        found = jnp.where(view.whole, self.machine.ended(state), self.machine.possible(state))
        return log_of(found > -jnp.inf)

    def children(
        self, state: PrefixState, view: View, whole: Bool[Array, "rows values"], oracle: Any, at: PyTree
    ) -> Float[Array, "rows values"]:
        """Return the logarithm of 0 or 1 for each row's prefix with each further symbol."""
        return log_of(self.machine.possible_after(state) > -jnp.inf)


def log_of(yes: Bool[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return 0 for true entries and -inf for false ones."""
    return jnp.where(yes, 0, -jnp.inf).astype(float_type())


class Expected(AbstractMachineJudge):
    """A value E[exp(log_potential of a model) | prefix], with the expectation under the oracle.

    It is computed from sums over completions of the product of both machines. If a string ends
    before the last cell, the model's potential has the end symbol in the remaining cells.

    Attributes:
        machine: the prefix oracle of the model.
        joint: log sums over completions, by (number of symbols, both known parts, both hidden
            parts).
        scale: the log scales of these sums.
        ahead: log sums after each symbol, by (step, both known parts, symbol, both hidden parts).
    """

    machine: PrefixOracle
    joint: Float[Array, "steps known1 known2 hidden1 hidden2"]
    scale: Float[Array, " steps"]
    ahead: Float[Array, "n known1 known2 values hidden1 hidden2"]

    @property
    def looks_ahead(self) -> bool:
        """True, since a sum of nonnegative terms is 0 only if each term is 0."""
        return True

    def values(self, state: PrefixState, view: View, oracle: PrefixOracle, at: PrefixState) -> Float[Array, " rows"]:
        """Return the log sum of both models minus the log sum of the oracle alone.

        The result is -inf for a prefix that has probability 0 under the oracle.
        """
        (k1, h1, _), (k2, h2, scale), t = at.here(), state.here(), state.lengths
        both = logsumexp(h1[:, :, None] + self.joint[t, k1, k2] + h2[:, None], axis=(1, 2))
        own = oracle.possible(at)
        goes_on = _log_ratio(both, own, scale + self.scale[t] - oracle.machine.back[t])
        return jnp.where(view.whole, _log_ratio(self.machine.ended(state), jnp.where(own > -jnp.inf, 0, own), scale), goes_on)

    def children(
        self, state: PrefixState, view: View, whole: Bool[Array, "rows values"], oracle: PrefixOracle, at: PrefixState
    ) -> Float[Array, "rows values"]:
        """Return the same difference of log sums after each further symbol."""
        (k1, h1, _), (k2, h2, scale) = at.here(), state.here()
        t = jnp.minimum(state.lengths, self.machine.n_cells - 1)
        both = logsumexp(h1[:, None, :, None] + self.ahead[t, k1, k2] + h2[:, None, None], axis=(2, 3))
        own = oracle.possible_after(at)
        scale = scale + self.machine.machine.shift[t] + self.scale[t + 1] - oracle.machine.back[t + 1]
        return _log_ratio(both, own, scale[:, None])


def _log_ratio(above: Array, below: Array, scale: Array) -> Array:
    """Return a log ratio at a log scale, and -inf if the denominator is 0."""
    return jnp.where(below > -jnp.inf, above - finite(below) + scale, -jnp.inf)


def expected(oracle: PrefixMachine, model: PrefixMachine, end: int | None = None) -> Expected:
    """Return the value of a model under an oracle, computed by one backward pass over both.

    After the symbol `end`, the model's strings contain only `end`.
    """

    def before(behind: tuple[Array, Array], step: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
        (after, back), (w1, f1, s1, own, size1, w2, f2, s2, closed) = behind, step
        joint = after[f1[:, None], f2[None]]  # known1, known2, values, hidden1, hidden2
        if end is not None:
            ended = own[f1[:, end]][:, None, :, None] + closed[f2[:, end]][None, :, None, :] + size1 - back
            joint = joint.at[:, :, end].set(ended)
        # known1, known2, values, before1, hidden2
        half = logsumexp(w1[:, None, :, :, :, None] + joint[:, :, :, None], axis=4)
        ahead = logsumexp(half[:, :, :, :, None] + w2[None, :, :, None], axis=5)
        found = logsumexp(ahead, axis=2)
        size = finite(found.max())
        new = found - size, back + size + s1 + s2
        return new, (*new, ahead)

    (_, k1, h1), (_, k2, h2) = oracle.backward.shape, model.backward.shape
    last = jnp.zeros((k1, k2, h1, h2), oracle.backward.dtype), jnp.zeros((), oracle.backward.dtype)
    first = oracle.weights, oracle.follow, oracle.shift, oracle.backward[1:], oracle.back[1:]
    _, (joint, scale, ahead) = jax.lax.scan(
        before, last, (*first, model.weights, model.follow, model.shift, model.closed[1:]), reverse=True
    )
    joint, scale = jnp.concatenate([joint, last[0][None]]), jnp.append(scale, last[1])
    return Expected(PrefixOracle(model), joint, scale, ahead)


class Probed(AbstractJudge):
    """The probability of a probe of the oracle's network, or whether it reaches a threshold.

    Attributes:
        probe: a linear layer on the features of a prefix.
        threshold: the threshold of a verifier, which is 1 from there on, otherwise 0. None returns
            the probability.
        first: the network of the layers up to the one that the probe reads. None stands for the
            last layer, whose states the oracle has.
    """

    probe: Probe
    threshold: np.float64 | None
    first: CausalOracle | None = None

    def start(self, prompts: Int[Array, "rows cells"]) -> CausalState | None:
        """Return the state of the first layers, or None if the oracle's state suffices."""
        return None if self.first is None else self.first.start(prompts)

    def push(self, state: CausalState | None, symbols: Int[Array, " rows"]) -> CausalState | None:
        """Append a symbol to each row."""
        return None if self.first is None else self.first.push(state, symbols)  # type: ignore[arg-type]

    def pop(self, state: CausalState | None, n: Int[Array, " rows"]) -> CausalState | None:
        """Remove the last symbols of each row."""
        return None if self.first is None else self.first.pop(state, n)  # type: ignore[arg-type]

    def values(self, state: CausalState | None, view: View, oracle: CausalOracle, at: PyTree) -> Float[Array, " rows"]:
        """Evaluate the probe at the features of each row's last symbol."""
        return self._of(oracle.features(at) if self.first is None else self.first.features(state))  # type: ignore[arg-type]

    def children(
        self, state: CausalState | None, view: View, whole: Bool[Array, "rows values"], oracle: CausalOracle, at: PyTree
    ) -> Float[Array, "rows values"]:
        """Evaluate the probe after each further symbol, in one pass."""
        return self._of(oracle.features_after(at) if self.first is None else self.first.features_after(state))  # type: ignore[arg-type]

    def _of(self, states: Float[Array, "*rows width"]) -> Float[Array, "*rows"]:
        if self.threshold is None:
            return self.probe.log(states)
        p = self.probe(states)
        return log_of(p >= jnp.asarray(self.threshold, p.dtype))


class NoisyState(eqx.Module):
    """The state of a noisy value.

    `words` are the words of a random key for each prefix of each row. The key is that of the call
    with the symbols of the prefix folded in.
    """

    inner: Any
    lengths: Int[Array, " rows"]
    words: UInt32[Array, "rows steps 2"]


class Noisy(AbstractJudge):
    """A value V exp(s e) with noise for prefixes, and V itself for whole strings.

    e is a standard normal number that depends on the prefix and the seed of the call only.

    Attributes:
        inner: V.
        sd: s.
        key: the words of the seed's key.
    """

    inner: AbstractJudge
    sd: Float[Array, ""]
    key: UInt32[Array, " 2"]

    @property
    def looks_ahead(self) -> bool:
        """Whether V looks ahead, since noise does not change 0."""
        return self.inner.looks_ahead

    @property
    def is_host(self) -> bool:
        """Whether V runs user-defined Python."""
        return self.inner.is_host

    def start(self, prompts: Int[Array, "rows cells"]) -> NoisyState:
        """Return the state after folding in the prompt's symbols one after another."""
        rows, n = prompts.shape
        words = jnp.zeros((rows, n + 1, 2), jnp.uint32).at[:, 0].set(self.key)
        lengths = (prompts >= 0).sum(axis=1, dtype=jnp.int32)

        def add(words: Array, t: Array) -> tuple[Array, None]:
            return words.at[:, t + 1].set(_folded(words[:, t], jnp.maximum(prompts[:, t], 0))), None

        words, _ = jax.lax.scan(add, words, jnp.arange(n, dtype=jnp.int32))
        return NoisyState(self.inner.start(prompts), lengths, words)

    def push(self, state: NoisyState, symbols: Int[Array, " rows"]) -> NoisyState:
        """Append a symbol to each row and fold it into the key."""
        rows = jnp.arange(symbols.shape[0])
        new = _folded(state.words[rows, state.lengths], jnp.maximum(symbols, 0))
        words = state.words.at[rows, state.lengths + 1].set(new, mode="drop")
        more = (symbols >= 0) & (state.lengths + 1 < state.words.shape[1])
        return NoisyState(self.inner.push(state.inner, symbols), state.lengths + more.astype(jnp.int32), words)

    def pop(self, state: NoisyState, n: Int[Array, " rows"]) -> NoisyState:
        """Remove the last symbols of each row."""
        return NoisyState(self.inner.pop(state.inner, n), jnp.maximum(state.lengths - n, 0), state.words)

    def values(self, state: NoisyState, view: View, oracle: Any, at: PyTree) -> Float[Array, " rows"]:
        """Return log V, with noise for prefixes that are not whole strings."""
        words = state.words[jnp.arange(view.codes.shape[0]), state.lengths]
        return self._with_noise(self.inner.values(state.inner, view, oracle, at), words, view.whole)

    def children(
        self, state: NoisyState, view: View, whole: Bool[Array, "rows values"], oracle: Any, at: PyTree
    ) -> Float[Array, "rows values"]:
        """Return log V with noise after each further symbol."""
        (rows, q), here = whole.shape, state.words[jnp.arange(view.codes.shape[0]), state.lengths]
        words = _folded(jnp.repeat(here, q, axis=0), jnp.tile(jnp.arange(q, dtype=jnp.int32), rows))
        inner = self.inner.children(state.inner, view, whole, oracle, at)
        return self._with_noise(jnp.ravel(inner), words, whole.ravel()).reshape(rows, q)

    def _with_noise(self, v: Array, words: Array, whole: Array) -> Array:
        noise = jax.vmap(lambda w: jax.random.normal(_key(w), dtype=jnp.float32))(words).astype(v.dtype)
        return jnp.where(whole, v, v + self.sd.astype(v.dtype) * noise)


def _key(words: Array) -> jax.Array:
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _folded(words: Array, symbols: Array) -> Array:
    return jax.random.key_data(jax.vmap(lambda w, s: jax.random.fold_in(_key(w), s))(words, symbols))


class WithLeaves(AbstractJudge):
    """A combination of two judges: one of prefixes, and another of whole strings."""

    inner: AbstractJudge
    leaf: AbstractJudge

    @property
    def is_host(self) -> bool:
        """Whether one of both runs user-defined Python."""
        return self.inner.is_host or self.leaf.is_host

    def start(self, prompts: Int[Array, "rows cells"]) -> tuple[PyTree, PyTree]:
        """Return the states of both judges."""
        return self.inner.start(prompts), self.leaf.start(prompts)

    def push(self, state: tuple[PyTree, PyTree], symbols: Int[Array, " rows"]) -> tuple[PyTree, PyTree]:
        """Append a symbol to each row for both judges."""
        return self.inner.push(state[0], symbols), self.leaf.push(state[1], symbols)

    def pop(self, state: tuple[PyTree, PyTree], n: Int[Array, " rows"]) -> tuple[PyTree, PyTree]:
        """Remove the last symbols of each row for both judges."""
        return self.inner.pop(state[0], n), self.leaf.pop(state[1], n)

    def values(self, state: tuple[PyTree, PyTree], view: View, oracle: Any, at: PyTree) -> Float[Array, " rows"]:
        """Return log V of the judge that applies to each row."""
        ends, goes_on = (View(view.codes, view.lengths, view.whole, view.asked & w) for w in (view.whole, ~view.whole))
        found = self.inner.values(state[0], goes_on, oracle, at)
        return jnp.where(view.whole, self.leaf.values(state[1], ends, oracle, at), found)

    def children(
        self, state: tuple[PyTree, PyTree], view: View, whole: Bool[Array, "rows values"], oracle: Any, at: PyTree
    ) -> Float[Array, "rows values"]:
        """Return log V of the prefix with each further symbol: the leaf's V if it is whole, else V."""
        asked = view.asked[:, None] if view.asked.ndim == 1 else view.asked
        ends, goes_on = (View(view.codes, view.lengths, view.whole, asked & w) for w in (whole, ~whole))
        found = self.inner.children(state[0], goes_on, whole, oracle, at)
        return jnp.where(whole, self.leaf.children(state[1], ends, whole, oracle, at), found)


class BracketState(eqx.Module):
    """The state of the prefixes of each row.

    Entries after a row's length are never read. Removing symbols therefore only lowers the length.

    Attributes:
        lengths: the number of symbols of each row.
        kind: the kind of the bracket at each place, counted from 1; place 0 contains 0.
        top: the place of the last open bracket after each number of symbols, 0 if there is none.
        depth: the number of open brackets, or WRONG if a bracket was closed that is not the last
            open one.
    """

    lengths: Rows
    kind: Int[Array, "rows places"]
    top: Int[Array, "rows places"]
    depth: Int[Array, "rows places"]


class Brackets(AbstractJudge):
    """A verifier that is 1 if the brackets of a prefix match, otherwise 0.

    If strings must be closed, the open brackets must also fit into the remaining cells.

    Attributes:
        kinds: the number k of kinds; the values 2 a and 2 a + 1 open and close a bracket of kind a
            < k.
        others: whether there are values above these, which may occur anywhere.
        most: the maximum number of simultaneously open brackets; None allows any number.
        closed: whether every bracket of a whole string must be closed.
        n_cells: the maximum number of symbols of a string.
    """

    kinds: int = eqx.field(static=True)
    others: bool = eqx.field(static=True)
    most: int | None = eqx.field(static=True)
    closed: bool = eqx.field(static=True)
    n_cells: int = eqx.field(static=True)

    @property
    def looks_ahead(self) -> bool:
        """True, since a wrong bracket stays wrong."""
        return True

    def start(self, prompts: Int[Array, "rows cells"]) -> BracketState:
        """Return the state after the symbols of each prompt; prompts are padded with -1."""
        none = jnp.zeros((prompts.shape[0], self.n_cells + 1), jnp.int32)
        empty = BracketState(jnp.zeros(prompts.shape[0], jnp.int32), none, none, none)
        return jax.lax.scan(lambda state, symbols: (self.push(state, symbols), None), empty, prompts.T.astype(jnp.int32))[0]

    def push(self, state: BracketState, symbols: Rows) -> BracketState:
        """Append a symbol to each row whose symbol is not negative."""
        more = (symbols >= 0) & (state.lengths < self.n_cells)
        kind, top, depth = self._after(state, symbols)
        rows, place = jnp.arange(symbols.shape[0]), jnp.where(more, state.lengths + 1, self.n_cells + 1)
        old, new = (state.kind, state.top, state.depth), (kind, top, depth)
        written = (a.at[rows, place].set(b, mode="drop") for a, b in zip(old, new, strict=True))
        return BracketState(state.lengths + more.astype(jnp.int32), *written)

    def pop(self, state: BracketState, n: Rows) -> BracketState:
        """Remove the last n symbols of each row."""
        return BracketState(jnp.maximum(state.lengths - n, 0), state.kind, state.top, state.depth)

    def _after(self, state: BracketState, symbols: Int[Array, "rows ..."]) -> tuple[Array, Array, Array]:
        """Return kind, place of the last open bracket, and depth after a further symbol.

        The kind is that of the symbol. The first axis of `symbols` is that of the rows.
        """
        wide = (slice(None), *(None,) * (symbols.ndim - 1))
        rows = jnp.arange(symbols.shape[0])
        top, depth = state.top[rows, state.lengths], state.depth[rows, state.lengths]
        below, kind = state.top[rows, jnp.maximum(top - 1, 0)][wide], symbols // 2
        bracket = symbols < 2 * self.kinds
        opens, closes = bracket & (symbols % 2 == 0), bracket & (symbols % 2 == 1)
        right = (depth > 0)[wide] & (state.kind[rows, top][wide] == kind)
        top, before = top[wide], depth[wide]
        depth = before + jnp.where(opens, 1, jnp.where(closes, -1, 0))
        wrong = (before == WRONG) | (closes & ~right)
        if self.most is not None:
            wrong |= depth > self.most
        top = jnp.where(opens, (state.lengths + 1)[wide], jnp.where(closes, below, top))
        return kind, top, jnp.where(wrong, WRONG, depth)

    def values(self, state: BracketState, view: View, oracle: Any, at: PyTree) -> Float[Array, " rows"]:
        """Return 0 for each row whose prefix is accepted, and -inf for the others."""
        depth = state.depth[jnp.arange(view.lengths.shape[0]), state.lengths]
        return log_of(self._may(depth, state.lengths, view.whole))

    def children(
        self, state: BracketState, view: View, whole: Bool[Array, "rows values"], oracle: Any, at: PyTree
    ) -> Float[Array, "rows values"]:
        """Return 0 for each row and further symbol that are accepted, and -inf for the others."""
        symbols = jnp.broadcast_to(jnp.arange(whole.shape[1], dtype=jnp.int32), whole.shape)
        return log_of(self._may(self._after(state, symbols)[2], (state.lengths + 1)[:, None], whole))

    def _may(self, depth: Array, lengths: Array, whole: Array) -> Bool[Array, "rows ..."]:
        """Return whether a prefix can become a string of the language, or is one if it is whole."""
        if not self.closed:
            return depth != WRONG
        left = self.n_cells - lengths
        fits = (depth <= left) & ((left - depth) % 2 == 0 if not self.others else True)
        return (depth != WRONG) & jnp.where(whole, depth == 0, fits)


class PythonJudge(AbstractJudge):
    """A function `V(prefixes, lengths) -> rows`, called once per iteration for all rows that count.

    Attributes:
        function: takes values of shape (rows, cells), letters and labels as codes, with the padding
            of `string` after each length, and lengths of shape (rows,).
        string: the variable whose cells are judged.
        verifies: whether its results are 0 and 1.
        name: its name in messages.
        target: the function's name.
        place: its place in the program.
    """

    function: Callable[[np.ndarray, np.ndarray], ArrayLike] = eqx.field(static=True)
    string: VariableArray = eqx.field(static=True)
    verifies: bool = eqx.field(static=True)
    name: str = eqx.field(static=True)
    target: str = eqx.field(static=True)
    place: Span | None = eqx.field(static=True)

    @property
    def is_host(self) -> bool:
        """True, since it runs user-defined Python."""
        return True

    def start(self, prompts: Int[Array, "rows cells"]) -> None:
        """Return no state, since the function receives whole prefixes."""

    def push(self, state: None, symbols: Int[Array, " rows"]) -> None:
        """Return no state, since the function receives whole prefixes."""

    def pop(self, state: None, n: Int[Array, " rows"]) -> None:
        """Return no state, since the function receives whole prefixes."""

    def values(self, state: None, view: View, oracle: Any, at: PyTree) -> Float[Array, " rows"]:
        """Return log V of the rows that count, and -inf for the others."""
        asked = np.asarray(view.asked)
        found = np.full(len(asked), -np.inf)
        if asked.any():
            found[asked] = self._called(np.asarray(view.codes)[asked], np.asarray(view.lengths)[asked])
        return jnp.asarray(found, float_type())

    def children(self, state: None, view: View, whole: Bool[Array, "rows values"], oracle: Any, at: PyTree) -> Float[Array, "rows values"]:
        """Return log V after each symbol that counts, from one call.

        A full row has no continuation.
        """
        codes, lengths, asked = np.asarray(view.codes), np.asarray(view.lengths), np.asarray(view.asked)
        wanted = np.broadcast_to(asked[:, None] if asked.ndim == 1 else asked, whole.shape) & (lengths < codes.shape[1])[:, None]
        found, (rows, symbols) = np.full(whole.shape, -np.inf), np.nonzero(wanted)
        if len(rows):
            longer = codes[rows]
            longer[np.arange(len(rows)), lengths[rows]] = symbols
            found[rows, symbols] = self._called(longer, lengths[rows] + 1)
        return jnp.asarray(found, float_type())

    def _called(self, codes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return log V of some prefixes.

        Raises:
            GmlmError: E745 if a result is not a finite number of at least 0, or not 0 or 1 for a
                verifier; if the shape is wrong, or the function raises an exception.
        """
        values = np.where(np.arange(codes.shape[1]) < lengths[:, None], self.string.values_of(codes), self.string.padding)
        try:
            answer = self.function(values, lengths)
        except Exception as error:
            message = f"{self.name}, `{self.target}`, raised {type(error).__name__}: {error}"
            raise fail("E745", message, self.place, "raised here") from error
        found = numbers(answer)
        if found is None or found.shape != (len(lengths),):
            got = f"{answer!r:.60}" if found is None else str(found.shape)
            help = "`V(prefixes, lengths)` returns one number for each row"
            message = f"{self.name}, `{self.target}`, must return numbers of shape ({len(lengths)},), got {got}"
            raise fail("E745", message, self.place, "no numbers" if found is None else "wrong shape", help=help)
        good = np.isin(found, (0, 1)) if self.verifies else np.isfinite(found) & (found >= 0)
        if not good.all():
            r = int(np.argmin(good))
            raise no_value(self.name, found[r], codes[r, : lengths[r]].tolist(), self.place)
        with np.errstate(divide="ignore"):
            return np.log(found)


def numbers(answer: object) -> np.ndarray | None:
    """Return the result of a user-defined function as float64, or None if it is not real."""
    try:
        found = np.asarray(answer)
    except Exception:  # The lists may be ragged, or the object may fail to convert itself.
        return None
    return found.astype(np.float64) if found.dtype.kind in "biu" or jnp.issubdtype(found.dtype, jnp.floating) else None


def no_value(name: str, value: float, prefix: list[int], place: Span | None) -> GmlmError:
    """Return the error for an invalid result.

    A result of a value is a finite number of at least 0; that of a verifier is 0 or 1.

    Args:
        name: the name of the verifier or value.
        value: its result.
        prefix: the codes of the prefix.
        place: its place in the program.
    """
    help = "0 and 1 are a verifier's; a value is finite and at least 0"
    return fail("E745", f"{name} gives {value:g} of the prefix {prefix} (codes)", place, f"gives {value:g}", help=help)
