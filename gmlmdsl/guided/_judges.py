"""Verifiers and values of prefixes: exact ones, noisy ones, and the same with another judge of whole strings."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.nn import logsumexp
from jaxtyping import Array, Bool, Float, Int, UInt32

from ..derive import CausalOracle, CausalState, PrefixMachine, PrefixOracle, PrefixState, finite, float_type
from ..networks import Probe


class View(eqx.Module):
    """The prefixes that are judged.

    Attributes:
        codes: of shape (rows, cells); what stands behind a row's length has no meaning.
        lengths: symbols of each row.
        whole: whether they are whole strings.
        asked: whether the answer counts; of continuations also by symbol.
    """

    codes: Int[Array, "rows cells"]
    lengths: Int[Array, " rows"]
    whole: Bool[Array, " rows"]
    asked: Bool[Array, "rows ..."]


class AbstractJudge(eqx.Module):
    """A function of prefixes that grow and are taken back with those of an oracle: 0 or 1 of a verifier, at least 0 of a value.

    What is passed on is log V, -inf where V is 0: values of long strings are smaller than any
    number of single precision. `oracle` and `at` are the oracle and its state for the same
    prefixes.
    """

    @property
    def looks_ahead(self) -> bool:
        """Whether V = 0 of a prefix says that V = 0 of every string that begins with it."""
        return False

    @property
    def is_host(self) -> bool:
        """Whether Python of the user's runs in it."""
        return False

    @abc.abstractmethod
    def start(self, prompts: Int[Array, "rows cells"]) -> Any:
        """The state of rows that begin with prompts, -1 behind each."""

    @abc.abstractmethod
    def push(self, state: Any, symbols: Int[Array, " rows"]) -> Any:
        """One symbol more for each row whose symbol is not below 0."""

    @abc.abstractmethod
    def pop(self, state: Any, n: Int[Array, " rows"]) -> Any:
        """Each row without its last n symbols."""

    @abc.abstractmethod
    def values(self, state: Any, view: View, oracle: Any, at: Any) -> Float[Array, " rows"]:
        """log V of each row's prefix."""

    def children(self, state: Any, view: View, whole: Bool[Array, "rows values"], oracle: Any, at: Any) -> Float[Array, "rows values"]:
        """log V of each row's prefix with each symbol more; `whole` says which of these are whole strings."""
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
    """What remembers of prefixes what a model's machine does.

    Attributes:
        machine: of the model.
    """

    machine: eqx.AbstractVar[PrefixOracle]

    def start(self, prompts: Int[Array, "rows cells"]) -> PrefixState:
        """What the model remembers of each prompt."""
        return self.machine.start(prompts)

    def push(self, state: PrefixState, symbols: Int[Array, " rows"]) -> PrefixState:
        """One symbol more."""
        return self.machine.push(state, symbols)

    def pop(self, state: PrefixState, n: Int[Array, " rows"]) -> PrefixState:
        """Without the last symbols."""
        return self.machine.pop(state, n)


class Completable(AbstractMachineJudge):
    """1 where some completion has p > 0 in a model: the sum over completions of weights 0 and 1; a whole string is completed by its end.

    Attributes:
        machine: of the model's support.
    """

    machine: PrefixOracle

    @property
    def looks_ahead(self) -> bool:
        """A string with p > 0 is a completion of each of its prefixes."""
        return True

    def values(self, state: PrefixState, view: View, oracle: Any, at: Any) -> Float[Array, " rows"]:
        """The logarithm of 0 or 1."""
        found = jnp.where(view.whole, self.machine.ended(state), self.machine.possible(state))
        return log_of(found > -jnp.inf)

    def children(
        self, state: PrefixState, view: View, whole: Bool[Array, "rows values"], oracle: Any, at: Any
    ) -> Float[Array, "rows values"]:
        """The same behind each symbol."""
        return log_of(self.machine.possible_after(state) > -jnp.inf)


def log_of(yes: Bool[Array, "*shape"]) -> Float[Array, "*shape"]:
    """0 where it is true, -inf where it is not."""
    return jnp.where(yes, 0, -jnp.inf).astype(float_type())


class Expected(AbstractMachineJudge):
    """E[exp(log_potential of a model) | prefix] under the oracle: sums over completions of the product of both machines.

    Of strings that end before the last cell the model's potential is that with the end in the cells
    behind it.

    Attributes:
        machine: of the model.
        joint: log sums over completions, by (symbols so far, both known parts, both hidden parts).
        scale: their log scales.
        ahead: the same behind each symbol, by (step, both known parts, symbol, both hidden parts).
    """

    machine: PrefixOracle
    joint: Float[Array, "steps known1 known2 hidden1 hidden2"]
    scale: Float[Array, " steps"]
    ahead: Float[Array, "n known1 known2 values hidden1 hidden2"]

    @property
    def looks_ahead(self) -> bool:
        """A sum of what is at least 0 is 0 where each of it is."""
        return True

    def values(self, state: PrefixState, view: View, oracle: PrefixOracle, at: PrefixState) -> Float[Array, " rows"]:
        """The log sum of both less that of the oracle alone; -inf of a prefix that the oracle never gives."""
        (k1, h1, _), (k2, h2, scale), t = at.here(), state.here(), state.lengths
        both = logsumexp(h1[:, :, None] + self.joint[t, k1, k2] + h2[:, None], axis=(1, 2))
        own = oracle.possible(at)
        goes_on = _log_ratio(both, own, scale + self.scale[t] - oracle.machine.back[t])
        return jnp.where(view.whole, _log_ratio(self.machine.ended(state), jnp.where(own > -jnp.inf, 0, own), scale), goes_on)

    def children(
        self, state: PrefixState, view: View, whole: Bool[Array, "rows values"], oracle: PrefixOracle, at: PrefixState
    ) -> Float[Array, "rows values"]:
        """The same behind each symbol."""
        (k1, h1, _), (k2, h2, scale) = at.here(), state.here()
        t = jnp.minimum(state.lengths, self.machine.n_cells - 1)
        both = logsumexp(h1[:, None, :, None] + self.ahead[t, k1, k2] + h2[:, None, None], axis=(2, 3))
        own = oracle.possible_after(at)
        scale = scale + self.machine.machine.shift[t] + self.scale[t + 1] - oracle.machine.back[t + 1]
        return _log_ratio(both, own, scale[:, None])


def _log_ratio(above: Array, below: Array, scale: Array) -> Array:
    """The log ratio at a log scale; -inf where nothing stands below."""
    return jnp.where(below > -jnp.inf, above - finite(below) + scale, -jnp.inf)


def expected(oracle: PrefixMachine, model: PrefixMachine, end: int | None = None) -> Expected:
    """The value of a model under an oracle, by one backward pass over both; behind `end` the model's strings hold it alone."""

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
    """The probability of a probe of the oracle's network, or 1 where it reaches a threshold, else 0.

    Attributes:
        probe: a linear layer on the features of a prefix.
        threshold: of a verifier; None: the probability itself.
        first: the network of the layers up to the one that is read; None where that is the last
            one, whose states the oracle has.
    """

    probe: Probe
    threshold: Any
    first: CausalOracle | None = None

    def start(self, prompts: Int[Array, "rows cells"]) -> CausalState | None:
        """Of the first layers; the last one's states are the oracle's."""
        return None if self.first is None else self.first.start(prompts)

    def push(self, state: CausalState | None, symbols: Int[Array, " rows"]) -> CausalState | None:
        """One symbol more."""
        return None if self.first is None else self.first.push(state, symbols)  # type: ignore[arg-type]

    def pop(self, state: CausalState | None, n: Int[Array, " rows"]) -> CausalState | None:
        """Without the last symbols."""
        return None if self.first is None else self.first.pop(state, n)  # type: ignore[arg-type]

    def values(self, state: CausalState | None, view: View, oracle: Any, at: Any) -> Float[Array, " rows"]:
        """Of the state at each row's last symbol."""
        return self._of(oracle.features(at) if self.first is None else self.first.features(state))  # type: ignore[arg-type]

    def children(
        self, state: CausalState | None, view: View, whole: Bool[Array, "rows values"], oracle: Any, at: Any
    ) -> Float[Array, "rows values"]:
        """Of the states behind each symbol, in one pass."""
        return self._of(oracle.features_after(at) if self.first is None else self.first.features_after(state))  # type: ignore[arg-type]

    def _of(self, states: Float[Array, "*rows width"]) -> Float[Array, "*rows"]:
        if self.threshold is None:
            return self.probe.log(states)
        p = self.probe(states)
        return log_of(p >= jnp.asarray(self.threshold, p.dtype))


class NoisyState(eqx.Module):
    """`words` are the words of a key for each prefix of each row: that of the call with its symbols folded in."""

    inner: Any
    lengths: Int[Array, " rows"]
    words: UInt32[Array, "rows steps 2"]


class Noisy(AbstractJudge):
    """V exp(s e): e is a standard normal that follows from the prefix and the seed of the call, and is 0 of whole strings.

    Attributes:
        inner: V.
        sd: s.
        key: the words of the key of the seed.
    """

    inner: AbstractJudge
    sd: Float[Array, ""]
    key: UInt32[Array, " 2"]

    @property
    def looks_ahead(self) -> bool:
        """As its V does: noise leaves 0 what it is."""
        return self.inner.looks_ahead

    @property
    def is_host(self) -> bool:
        """As its V is."""
        return self.inner.is_host

    def start(self, prompts: Int[Array, "rows cells"]) -> NoisyState:
        """The prompt's symbols folded in, one after another."""
        rows, n = prompts.shape
        words = jnp.zeros((rows, n + 1, 2), jnp.uint32).at[:, 0].set(self.key)
        lengths = (prompts >= 0).sum(axis=1, dtype=jnp.int32)

        def add(words: Array, t: Array) -> tuple[Array, None]:
            return words.at[:, t + 1].set(_folded(words[:, t], jnp.maximum(prompts[:, t], 0))), None

        words, _ = jax.lax.scan(add, words, jnp.arange(n, dtype=jnp.int32))
        return NoisyState(self.inner.start(prompts), lengths, words)

    def push(self, state: NoisyState, symbols: Int[Array, " rows"]) -> NoisyState:
        """One symbol more, folded in."""
        rows = jnp.arange(symbols.shape[0])
        new = _folded(state.words[rows, state.lengths], jnp.maximum(symbols, 0))
        words = state.words.at[rows, state.lengths + 1].set(new, mode="drop")
        more = (symbols >= 0) & (state.lengths + 1 < state.words.shape[1])
        return NoisyState(self.inner.push(state.inner, symbols), state.lengths + more.astype(jnp.int32), words)

    def pop(self, state: NoisyState, n: Int[Array, " rows"]) -> NoisyState:
        """Without the last symbols."""
        return NoisyState(self.inner.pop(state.inner, n), jnp.maximum(state.lengths - n, 0), state.words)

    def values(self, state: NoisyState, view: View, oracle: Any, at: Any) -> Float[Array, " rows"]:
        """V, with noise where the string goes on."""
        words = state.words[jnp.arange(view.codes.shape[0]), state.lengths]
        return self._with_noise(self.inner.values(state.inner, view, oracle, at), words, view.whole)

    def children(
        self, state: NoisyState, view: View, whole: Bool[Array, "rows values"], oracle: Any, at: Any
    ) -> Float[Array, "rows values"]:
        """The same behind each symbol."""
        (rows, q), here = whole.shape, state.words[jnp.arange(view.codes.shape[0]), state.lengths]
        words = _folded(jnp.repeat(here, q, axis=0), jnp.tile(jnp.arange(q, dtype=jnp.int32), rows))
        inner = self.inner.children(state.inner, view, whole, oracle, at)
        return self._with_noise(jnp.ravel(inner), words, whole.ravel()).reshape(rows, q)

    def _with_noise(self, v: Array, words: Array, whole: Array) -> Array:
        noise = jax.vmap(lambda w: jax.random.normal(_key(w), dtype=jnp.float32))(words).astype(v.dtype)
        return jnp.where(whole, v, v + self.sd.astype(v.dtype) * noise)


def _key(words: Array) -> Any:
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _folded(words: Array, symbols: Array) -> Array:
    return jax.random.key_data(jax.vmap(lambda w, s: jax.random.fold_in(_key(w), s))(words, symbols))


class WithLeaves(AbstractJudge):
    """One judge of prefixes that go on, and another of whole strings."""

    inner: AbstractJudge
    leaf: AbstractJudge

    @property
    def is_host(self) -> bool:
        """As one of both is."""
        return self.inner.is_host or self.leaf.is_host

    def start(self, prompts: Int[Array, "rows cells"]) -> tuple[Any, Any]:
        """Of both."""
        return self.inner.start(prompts), self.leaf.start(prompts)

    def push(self, state: tuple[Any, Any], symbols: Int[Array, " rows"]) -> tuple[Any, Any]:
        """Of both."""
        return self.inner.push(state[0], symbols), self.leaf.push(state[1], symbols)

    def pop(self, state: tuple[Any, Any], n: Int[Array, " rows"]) -> tuple[Any, Any]:
        """Of both."""
        return self.inner.pop(state[0], n), self.leaf.pop(state[1], n)

    def values(self, state: tuple[Any, Any], view: View, oracle: Any, at: Any) -> Float[Array, " rows"]:
        """V of the one or the other."""
        ends, goes_on = (View(view.codes, view.lengths, view.whole, view.asked & w) for w in (view.whole, ~view.whole))
        found = self.inner.values(state[0], goes_on, oracle, at)
        return jnp.where(view.whole, self.leaf.values(state[1], ends, oracle, at), found)

    def children(
        self, state: tuple[Any, Any], view: View, whole: Bool[Array, "rows values"], oracle: Any, at: Any
    ) -> Float[Array, "rows values"]:
        """The same behind each symbol."""
        asked = view.asked[:, None] if view.asked.ndim == 1 else view.asked
        ends, goes_on = (View(view.codes, view.lengths, view.whole, asked & w) for w in (whole, ~whole))
        found = self.inner.children(state[0], goes_on, whole, oracle, at)
        return jnp.where(whole, self.leaf.children(state[1], ends, whole, oracle, at), found)
