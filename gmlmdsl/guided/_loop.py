"""The loop that draws all rows together.

It is compiled, or runs in Python for user-defined parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..derive import bounded_jit, on_device, undefined_outputs
from ..plan import verify_held
from ..program import ir
from ._judges import View, no_value
from ._methods import Rejection
from ._oracle import is_host, verify_law
from ._run import Game, Rules, Run, Standing, Wrong, begun, judged, law_here, moved, one_turn, pushed, refused, refused_behind, seen_before
from ._walk import Walk, brought_up, walk_turn
from .limits import FEW_ROWS, MOST_FRUITLESS, MOST_FRUITLESS_TURNS, MOST_HOST_TURNS, MOST_ROWS, MOST_STATE_BYTES, TURNS_PER_CALL

if TYPE_CHECKING:
    from jaxtyping import PyTree

Array = np.ndarray


class Found(NamedTuple):
    """Strings and the numbers of calls that they took, with rows as the first axis.

    Codes are -1 after a string's length, and in rows without a string.
    """

    codes: Array
    lengths: Array
    calls: Array
    checks: Array
    backs: Array
    failed: Array
    valid: Array
    given_up: Array  # The number of iterations after which the row was given up, otherwise 0.


def play(game: Game, prompts: Array, keys: jax.Array, named: Named) -> Found:
    """Draw a string for each prompt.

    Args:
        game: the oracle, judge, method and rules.
        prompts: codes, shape (rows, cells), padded with -1.
        keys: the random key of each row.
        named: the names of judges and oracle, for messages.

    Raises:
        GmlmError: E601 if the state of a row is too large; E745 if a verifier or value returns
            anything but a number of at least 0; E747 if the oracle returns no distribution; errors
            of user-defined Python.
    """
    size, parts = _rows_at_once(game, prompts, keys), []
    for start in range(0, len(prompts), size):
        piece, own = prompts[start : start + size], keys[start : start + size]
        live = np.arange(size) < len(piece)
        if len(piece) < size:
            piece = np.concatenate([piece, np.full((size - len(piece), piece.shape[1]), -1, piece.dtype)])
            own = jnp.concatenate([own, jnp.broadcast_to(own[:1], (size - len(own),))])
        parts.append(_some(game, piece, own, live, named)._asdict())
    return Found(**{name: np.concatenate([p[name] for p in parts])[: len(prompts)] for name in Found._fields})


def _rows_at_once(game: Game, prompts: Array, keys: jax.Array) -> int:
    """Return the number of rows to draw together.

    It is the number of all rows, or a power of two whose states fit in memory.
    """
    if is_host(game.oracle) or is_host(game.judge):
        return max(1, min(MOST_ROWS, len(prompts)))
    many = 2
    shape = jax.ShapeDtypeStruct((many, prompts.shape[1]), np.int32)
    rows = jax.ShapeDtypeStruct((many,), keys.dtype), jax.ShapeDtypeStruct((many,), bool)
    held = jax.eval_shape(lambda p, k, live: begun(game, p, k, live), shape, *rows)
    each = sum(float(np.prod(a.shape)) * a.dtype.itemsize for a in jax.tree.leaves(held) if hasattr(a, "shape")) / many
    each += getattr(game.oracle, "row_bytes", 0.0)
    verify_held(3 * each, "one string and what is remembered of it", "fewer `steps`, or a shorter string")
    most = max(1, int(MOST_STATE_BYTES // max(each, 1.0)))
    size = min(MOST_ROWS, 1 << (most.bit_length() - 1))
    return min(size, max(1, len(prompts)))


def _some(game: Game, prompts: Array, keys: jax.Array, live: Array, named: Named) -> Found:
    hosted = is_host(game.oracle) or is_host(game.judge)
    at, wrong = (_hosted if hosted else _compiled)(game, on_device(prompts, np.int32), keys, on_device(live))
    run, prefixes = at.run, _cut(np.asarray(wrong.codes), np.asarray(wrong.lengths))
    verify_laws(np.asarray(wrong.lawless), prefixes, named.oracle)
    verify_values(np.asarray(wrong.values), np.asarray(wrong.rows), prefixes, named)
    lengths, given_up = np.asarray(run.lengths), np.where(np.asarray(run.done), 0, int(run.turn))
    failed = np.asarray(run.failed) | (given_up > 0)
    codes = np.where((np.arange(prompts.shape[1]) < lengths[:, None]) & ~failed[:, None], np.asarray(run.codes), -1)
    valid = _valid(game, at, ~failed) & ~failed
    calls, checks, backs = (np.asarray(a) for a in (run.calls, run.checks, run.backs))
    return Found(codes, np.where(failed, 0, lengths), calls, checks, backs, failed, valid, given_up)


def _cut(codes: Array, lengths: Array) -> Array:
    return np.where(np.arange(codes.shape[1]) < lengths[:, None], codes, -1)


class Named(NamedTuple):
    """The parts of a sampler that messages name.

    Attributes:
        judge: the verifier or value.
        leaf: the verifier or value of whole strings.
        rules: the rules, which determine whole strings.
        oracle: the name of the oracle.
    """

    judge: ir.Judge | None
    leaf: ir.Judge | None
    rules: Rules
    oracle: str = "the oracle"


def verify_laws(lawless: Array, codes: Array, oracle: str) -> None:
    """Raise an error for rows whose oracle returned no distribution of the next symbol.

    Raises:
        GmlmError: E747 with the first such prefix.
    """
    if lawless.any():
        prefix = codes[int(np.argmax(lawless))]
        raise undefined_outputs(oracle, f"behind the prefix {prefix[prefix >= 0].tolist()}")


def verify_values(values: Array, counts: Array, codes: Array, named: Named) -> None:
    """Raise an error for log values that count and are nan or +infinity.

    Args:
        values: the log value of each row.
        counts: whether the value of each row counts.
        codes: the prefixes, padded with -1.
        named: the names of the judges.

    Raises:
        GmlmError: E745 with the first such value, its prefix, and its verifier or value.
    """
    bad = counts & (np.isnan(values) | (values == np.inf))
    if bad.any():
        r = int(np.argmax(bad))
        prefix = codes[r][codes[r] >= 0].tolist()
        judge = named.leaf if named.rules.whole(len(prefix), prefix[-1] if prefix else -1) else named.judge
        assert judge is not None
        raise no_value(f"{judge.kind} `{judge.name}`", values[r], prefix, judge.body.span)


def _valid(game: Game, at: Standing, counts: Array) -> Array:
    """Return whether V of each string is above 0; true without a judge."""
    if game.judge is None:
        return np.ones(at.run.codes.shape[0], bool)
    if not is_host(game.judge):
        return np.asarray(_last_values(game, at)) > -np.inf
    view = at.run.having(asked=on_device(counts)).view(game.rules)
    return np.asarray(game.judge.values(at.judge, view, game.oracle, at.oracle)) > -np.inf


@bounded_jit
def _last_values(game: Game, at: Standing) -> jax.Array:
    assert game.judge is not None
    return game.judge.values(at.judge, at.run.view(game.rules), game.oracle, at.oracle)


def opened(game: Game, at: Standing) -> tuple[Standing, Wrong]:
    """Judge rows before the first iteration of rejection.

    Two kinds of rows are judged, and end here if V = 0. The first are strings that are already
    whole. The second are prompts of rejection without `tries` under a judge that looks ahead, since
    rejection would never end.

    Returns:
        The rows and states, and the rows with an invalid value.
    """
    run = at.run
    if not isinstance(game.method, Rejection) or game.judge is None:
        return at, refused(run, None)
    view = run.view(game.rules)
    endless = game.method.tries is None and game.judge.looks_ahead
    asked = view.whole | endless
    v = game.judge.values(at.judge, View(view.codes, view.lengths, view.whole, asked), game.oracle, at.oracle)
    out = (v == -jnp.inf) & asked
    # A prompt that can be completed does not count, since its strings are judged later.
    counted = (view.whole | out).astype(jnp.int32)
    after = run.having(done=run.done | out, failed=run.failed | out, checks=run.checks + counted)
    return Standing(after, at.oracle, at.judge), refused(run.having(asked=asked), v)


def _compiled(game: Game, prompts: jax.Array, keys: jax.Array, live: jax.Array) -> tuple[Standing, Wrong]:
    """Run all iterations in the compiled loop.

    Most runs end within the first slice of iterations. The second program is compiled only for the
    others.
    """
    at, wrong, goes = _first_turns(game, prompts, keys, live, jnp.asarray(TURNS_PER_CALL, jnp.int32))
    while goes and not _fruitless(game, at.run):
        at, wrong, goes = _more_turns(game, at, wrong, at.run.turn + TURNS_PER_CALL)
    return at, wrong


def _fruitless(game: Game, run: Run) -> bool:
    """Return whether rejection without `tries` has accepted no row for too long.

    It might never end.
    """
    if not _endless(game) or int(run.turn) * max(FEW_ROWS, len(run.done)) < MOST_FRUITLESS:
        return False
    return not bool((run.done & (run.calls > 0)).any())


def _endless(game: Game) -> bool:
    return isinstance(game.method, Rejection) and game.method.tries is None


@bounded_jit
def _first_turns(game: Game, prompts: jax.Array, keys: jax.Array, live: jax.Array, last: jax.Array) -> tuple[Standing, Wrong, jax.Array]:
    return _turns(game, *opened(game, begun(game, prompts, keys, live)), last)


@bounded_jit
def _more_turns(game: Game, at: Standing, wrong: Wrong, last: jax.Array) -> tuple[Standing, Wrong, jax.Array]:
    return _turns(game, at, wrong, last)


def _turns(game: Game, at: Standing, wrong: Wrong, last: jax.Array) -> tuple[Standing, Wrong, jax.Array]:
    """Run the iterations up to number `last`, and return whether more are needed."""
    turn = walk_turn if isinstance(game.method, Walk) else one_turn

    def goes(at: Standing, wrong: Wrong) -> jax.Array:
        return game.method.unfinished(at.run).any() & ~wrong.any

    def within(state: tuple[Standing, Wrong]) -> jax.Array:
        return goes(*state) & (state[0].run.turn < last)

    at, wrong = jax.lax.while_loop(within, lambda state: turn(game, state[0]), (at, wrong))
    return at, wrong, goes(at, wrong)


def _hosted(game: Game, prompts: jax.Array, keys: jax.Array, live: jax.Array) -> tuple[Standing, Wrong]:
    """Run the iterations in a Python loop.

    All parts that are not user-defined are compiled.
    """
    if not is_host(game.oracle):
        game = Game(Pieces(game.oracle), game.judge, game.method, game.rules)
    at, wrong = opened(game, begun(game, prompts, keys, live))
    first, endless = int(at.run.done.sum()), _endless(game)
    turn, turns = _hosted_walk if isinstance(game.method, Walk) else _hosted_turn, 0
    while np.asarray(game.method.unfinished(at.run)).any() and not np.asarray(wrong.any):
        most = MOST_FRUITLESS_TURNS if endless and int(at.run.done.sum()) == first else MOST_HOST_TURNS
        if turns >= most:
            break
        at, wrong = turn(game, at)
        turns += 1
    return at, wrong


def _hosted_walk(game: Game, at: Standing) -> tuple[Standing, Wrong]:
    walk, rules = game.method, game.rules
    assert isinstance(walk, Walk)
    run, back, symbols = _strolled(walk, rules, at.run)
    at = brought_up(game, at, run, back, symbols)
    ready = walk.ready(run)
    if not np.asarray(ready).any():
        return at, refused(run, None)
    law, children = _law_there(game, at, np.asarray(ready)), seen_before(game, at, ready)
    wrong = refused_behind(run, ready, children).with_law(run, ready, law)
    return Standing(_learnt(walk, rules, run, ready, law, children), at.oracle, at.judge), wrong


@bounded_jit
def _strolled(walk: Walk, rules: Rules, run: Run) -> tuple[Run, jax.Array, jax.Array]:
    return walk.strolled(rules, run)


@bounded_jit
def _learnt(walk: Walk, rules: Rules, run: Run, ready: jax.Array, law: jax.Array, children: jax.Array) -> Run:
    return walk.learnt(rules, run, ready, law, children)


def _law_there(game: Game, at: Standing, counts: Array) -> Any:
    """Return the distribution that rows draw from; verify that of a user-defined oracle."""
    if not is_host(game.oracle):
        return law_here(game, at)
    log_p = game.oracle.next_log_probs(at.oracle)
    verify_law(log_p, counts)
    return game.rules.law(log_p)


def _hosted_turn(game: Game, at: Standing) -> tuple[Standing, Wrong]:
    law = _law_there(game, at, ~np.asarray(at.run.done))
    seen = seen_before(game, at, ~at.run.done) if game.method.before else None
    symbols, run = _moved(Game(None, None, game.method, game.rules), at.run, law, seen)
    oracle, judge, v = pushed(game, at, run, symbols)
    back, run, wrong = _judged(Game(None, None, game.method, game.rules), at.run, run, seen, v)
    judge = None if game.judge is None else game.judge.pop(judge, back)
    return Standing(run, game.oracle.pop(oracle, back), judge), wrong.with_law(at.run, ~at.run.done, law)


@bounded_jit
def _moved(game: Game, run: Run, law: jax.Array, seen: jax.Array | None) -> tuple[jax.Array, Run]:
    return moved(game, Standing(run, None, None), law, seen)


@bounded_jit
def _judged(game: Game, before: Run, run: Run, seen: jax.Array | None, v: jax.Array | None) -> tuple[jax.Array, Run, Wrong]:
    wrong = refused(run, v) if seen is None else refused_behind(before, ~before.done, seen)
    return *judged(game, run, v), wrong


class Pieces(eqx.Module):
    """An oracle whose methods are compiled each as one program, instead of operation by operation.

    Attributes:
        oracle: the oracle of a model or of a causal network, never a user-defined one.
    """

    oracle: Any

    def start(self, prompts: jax.Array) -> PyTree:
        """Return the state of rows that begin with prompts."""
        return _asked(self.oracle, "start", prompts)

    def next_log_probs(self, state: PyTree) -> jax.Array:
        """Return log p(next symbol | prefix)."""
        return _asked(self.oracle, "next_log_probs", state)

    def push(self, state: PyTree, symbols: jax.Array) -> PyTree:
        """Return the state with a further symbol in each row."""
        return _asked(self.oracle, "push", state, symbols)

    def pop(self, state: PyTree, n: jax.Array) -> PyTree:
        """Return the state without the last symbols of each row."""
        return _asked(self.oracle, "pop", state, n)

    def features(self, state: PyTree) -> jax.Array:
        """Return the features that a probe of a network reads."""
        return _asked(self.oracle, "features", state)

    def features_after(self, state: PyTree) -> jax.Array:
        """Return these features after each further symbol."""
        return _asked(self.oracle, "features_after", state)

    @property
    def machine(self) -> PyTree:
        """The tables of a model's oracle, whose scales a value divides by."""
        return self.oracle.machine

    def possible(self, state: PyTree) -> jax.Array:
        """Return the log weight of all completions of each row, up to the scale of the row."""
        return _asked(self.oracle, "possible", state)

    def possible_after(self, state: PyTree) -> jax.Array:
        """Return this log weight after each further symbol."""
        return _asked(self.oracle, "possible_after", state)


@bounded_jit
def _asked(oracle: Any, question: str, *state: PyTree) -> PyTree:
    return getattr(oracle, question)(*state)
