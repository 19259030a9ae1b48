"""The distribution of strings under each guided method, from the tree of prefixes.

The distributions come from dynamic programming, series and powers of a matrix. `law` is p(next
symbol | prefix), and V is the value of a prefix, 0 for a rejected prefix.

In the tree of all prefixes of short strings, each prefix has the distribution of its next symbol,
and a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate
import scipy.sparse

from .. import derive
from .._diagnostics import fail
from ..derive import bounded_jit
from ..guided import (
    TIE,
    Backtracking,
    BlockBest,
    Game,
    Named,
    Plain,
    Rejection,
    TokenwiseByValue,
    TokenwiseRejection,
    View,
    Walk,
    is_host,
    verify_law,
    verify_laws,
    verify_values,
)
from ..plan import BUDGET
from .limits import INPUTS_AT_ONCE, LISTED_COUPONS, MOST_NODES, MOST_WALK_OPERATIONS, PREFIXES_AT_ONCE

if TYPE_CHECKING:
    from jaxtyping import PyTree

    from ..guided import AbstractMethod

Array = np.ndarray
NEVER = -np.inf  # log V of a rejected prefix


class Values:
    """log V of the requested prefixes; each prefix is evaluated once.

    Args:
        codes: the codes of every prefix.
        ask: a function that returns log V of some prefixes, given by their numbers.
        named: the name of the judge in messages.
    """

    def __init__(self, codes: Array, ask: Callable[[Array], Array], named: Named):
        self._codes, self._ask, self._named = codes, ask, named
        self._found, self._known = np.zeros(len(codes)), np.zeros(len(codes), bool)

    def __getitem__(self, nodes: Any) -> Any:
        """Return log V of some nodes.

        Raises:
            GmlmError: E745 if it is not a finite number of at least 0; exceptions of the user's
                Python code.
        """
        wanted = np.unique(nodes)
        new = wanted[~self._known[wanted]]
        if len(new):
            self._found[new] = self._ask(new)
            self._known[new] = True
            verify_values(self._found[new], np.ones(len(new), bool), self._codes[new], self._named)
        return self._found[nodes]


@dataclass(frozen=True, eq=False)
class PrefixTree:
    """All prefixes that begin with the root prefix, ordered by length.

    The tree of all prefixes also has those that contain an `end` symbol, which no walk reaches. In
    a tree of the prefixes that can be drawn, symbols of probability 0 have no child.

    Attributes:
        codes: shape (nodes, cells), -1 after each prefix.
        depth: the number of symbols of each prefix.
        law: p(next symbol | prefix) from which the sampler draws, shape (nodes, values). It is 0
            throughout if there is no next symbol.
        value: log V of prefixes as `value[nodes]`, -inf if V is 0.
        whole: whether a prefix is a whole string.
        parent: the node of the prefix without its last symbol, -1 for the root.
        child: the nodes with one more symbol, shape (nodes, values), -1 if a string is full or the
            symbol has no child.
        start: the node of the prompt.
    """

    codes: Array
    depth: Array
    law: Array
    value: Values
    whole: Array
    parent: Array
    child: Array
    start: int

    @property
    def n(self) -> int:
        """The number of nodes."""
        return len(self.depth)

    @cached_property
    def likeliest(self) -> Array:
        """The child by the most probable symbol, the first among equals."""
        return self.child[np.arange(self.n), np.argmax(self.law, axis=1)]

    def up(self, node: int, steps: int) -> int:
        """Return the prefix without its last `steps` symbols."""
        for _ in range(steps):
            node = int(self.parent[node])
        return node

    def strings(self, mass: Array, closed: Array | None = None) -> tuple[Array, float]:
        """Draw symbols from masses on prefixes up to whole strings or `closed` prefixes.

        Returns:
            The masses at the ends, and the mean number of drawn symbols.
        """
        mass, drawn = mass.astype(float).copy(), 0.0
        stays = self.whole if closed is None else self.whole | closed
        for s in range(self.n):  # children come after their prefix
            if mass[s] > 0 and not stays[s]:
                goes, mass[s] = mass[s], 0.0
                drawn += goes
                possible = self.law[s] > 0
                mass[self.child[s][possible]] += goes * self.law[s][possible]
        return mass, drawn


def prefix_tree(game: Game, named: Named, prompt: Array, erased: bool, what: str) -> PrefixTree:
    """Return the tree of all strings that begin with a prompt.

    If the sampler may erase symbols of the prompt, it is the tree of all strings.

    Args:
        game: the sampler's oracle, judge and rules.
        named: the names of oracle and judge in messages.
        prompt: codes of the prompt.
        erased: whether the sampler may erase symbols of the prompt.
        what: the name of the quantity in error messages.

    Raises:
        GmlmError: E601 for too many prefixes.
    """
    n, q, root = game.rules.n_cells, game.rules.n_values, 0 if erased else len(prompt)
    levels, narrowed = n - root, game.rules.top_k is not None or game.rules.top_p is not None
    count = sum(float(q) ** h for h in range(levels + 1))
    if count > MOST_NODES and narrowed and not erased:
        return _narrowed_tree(game, named, prompt, what)
    if count > MOST_NODES:
        raise _too_many(f"{what}: {count:.3g} prefixes of {levels} symbols of {q} values")
    codes, depth, parent, offset = _listed(prompt[:root], n, q)
    child = np.full((len(depth), q), -1)
    inner = depth < n
    child[inner] = 1 + q * np.arange(int(inner.sum()))[:, None] + np.arange(q)
    whole = _whole(game, codes, depth)
    law, value = _asked(game, codes, depth, whole, min(INPUTS_AT_ONCE, len(depth)))
    verify_laws(np.isnan(law).any(axis=1) & ~whole, codes, named.oracle)
    at = 0 if not erased else int(offset[len(prompt)] + (np.ravel_multi_index(tuple(prompt), (q,) * len(prompt)) if len(prompt) else 0))
    judged = _values(game, named, codes, depth, whole, value)
    return PrefixTree(codes, depth, law, judged, whole, parent, child, at)


def _narrowed_tree(game: Game, named: Named, prompt: Array, what: str) -> PrefixTree:
    """Return the tree of the prefixes that can be drawn under `top_k` or `top_p`.

    It is listed level by level. A prefix has children for the symbols of positive probability
    alone, and a whole string has none.

    Raises:
        GmlmError: E601 for too many prefixes, before the level that has too many is evaluated.
    """
    n, q = game.rules.n_cells, game.rules.n_values
    codes = np.full((1, n), -1, np.int32)
    codes[0, : len(prompt)] = prompt
    rows, laws, values, parents, children, total = [], [], [], [np.array([-1])], [], 1
    for at in range(len(prompt), n + 1):
        depth = np.full(len(codes), at)
        whole = _whole(game, codes, depth)
        law, value = _asked(game, codes, depth, whole, PREFIXES_AT_ONCE)
        verify_laws(np.isnan(law).any(axis=1) & ~whole, codes, named.oracle)
        law = np.where(whole[:, None], 0.0, law)
        rows, laws, values = [*rows, codes], [*laws, law], [*values, value]
        prefix, symbol = np.nonzero(law)
        child = np.full((len(codes), q), -1)
        child[prefix, symbol] = total + np.arange(len(prefix))
        children.append(child)
        if not len(prefix):
            break
        parents.append(total - len(codes) + prefix)
        total += len(prefix)
        if total > MOST_NODES:
            drawn = f"{at + 1 - len(prompt)} of {n - len(prompt)} symbols can be drawn"
            raise _too_many(f"{what}: {total:,} prefixes of up to {drawn}")
        codes = codes[prefix]
        codes[:, at] = symbol
    codes, law = np.concatenate(rows), np.concatenate(laws)
    depth = (codes >= 0).sum(axis=1)
    whole = _whole(game, codes, depth)
    value = None if values[0] is None else np.concatenate(values)
    judged = _values(game, named, codes, depth, whole, value)
    parent, child = np.concatenate(parents), np.concatenate(children)
    return PrefixTree(codes, depth, law, judged, whole, parent, child, 0)


def _too_many(found: str) -> Exception:
    message = f"{found}, more than the {MOST_NODES:,} that are listed"
    return fail("E601", message, help="shorter strings, or a longer prompt; `sample` draws")


def _whole(game: Game, codes: Array, depth: Array) -> Array:
    """Return which prefixes are whole strings."""
    last = codes[np.arange(len(depth)), np.maximum(depth - 1, 0)]
    return np.asarray(game.rules.whole(depth, last))


def _values(game: Game, named: Named, codes: Array, depth: Array, whole: Array, value: Array | None) -> Values:
    """Return log V of the prefixes, which the user's Python code computes only on request."""

    def ask(new: Array) -> Array:
        return _judged(game, codes[new], depth[new], whole[new])

    return Values(codes, ask if value is None else value.__getitem__, named)


def _listed(root: Array, n: int, q: int) -> tuple[Array, Array, Array, Array]:
    """Return codes, lengths and parents of all prefixes, and the first node of each length.

    Prefixes are ordered by length, and node k has the children from 1 + q k on.
    """
    rows, counts = [np.full((1, n), -1, np.int32)], [1]
    rows[0][0, : len(root)] = root
    for h in range(len(root), n):
        longer = np.repeat(rows[-1], q, axis=0)
        longer[:, h] = np.tile(np.arange(q), len(rows[-1]))
        rows.append(longer)
        counts.append(len(longer))
    depth = np.repeat(np.arange(len(root), n + 1), counts)
    parent = (np.arange(len(depth)) - 1) // q
    parent[0] = -1
    return np.concatenate(rows), depth, parent, np.concatenate([[0], np.cumsum(counts)])


def _asked(game: Game, codes: Array, depth: Array, whole: Array, many: int) -> tuple[Array, Array | None]:
    """Return the distribution after every prefix, and the values, of so many rows in one call.

    The values are None if the user's Python code gives them, which is called only on request.
    """
    laws, values = [], []
    hosted, own = is_host(game.oracle), Game(game.oracle, None, game.method, game.rules) if is_host(game.judge) else game
    many = min(many, max(1, int(BUDGET.bytes // max(1.0, getattr(game.oracle, "row_bytes", 1.0)))))
    for start in range(0, len(depth), many):
        rows = slice(start, start + many)
        piece, lengths, ends = codes[rows], depth[rows], whole[rows]
        short = many - len(piece)
        piece, lengths, ends = (
            np.pad(piece, ((0, short), (0, 0)), mode="edge"),
            np.pad(lengths, (0, short), mode="edge"),
            np.pad(ends, (0, short)),
        )
        asked = np.arange(len(piece)) < len(piece) - short
        law, value = (_of_prefixes if hosted else _compiled)(
            own, jnp.asarray(piece), jnp.asarray(lengths), jnp.asarray(ends), jnp.asarray(asked)
        )
        if hosted:
            verify_law(law, asked & ~ends)
        kept = len(piece) - short
        laws.append(np.exp(np.asarray(law, np.float64))[:kept])
        values.append(np.asarray(value, np.float64)[:kept])
    law, value = np.concatenate(laws), np.concatenate(values)
    return np.where((depth < codes.shape[1])[:, None], law, 0.0), None if is_host(game.judge) else value


def _judged(game: Game, codes: Array, depth: Array, whole: Array) -> Array:
    """Return log V of some prefixes from the user's Python code.

    The number of rows of a call is a power of two.
    """
    assert game.judge is not None
    short = (1 << (len(codes) - 1).bit_length()) - len(codes)
    codes, depth = np.pad(codes, ((0, short), (0, 0)), mode="edge"), np.pad(depth, (0, short), mode="edge")
    view = View(*(jnp.asarray(a) for a in (np.maximum(codes, 0), depth, np.pad(whole, (0, short)), np.arange(len(codes)) < len(whole))))
    start = game.oracle.start if is_host(game.oracle) else partial(_started, game.oracle)
    rows = jnp.asarray(codes)
    found = game.judge.values(_started(game.judge, rows), view, game.oracle, start(rows))
    return np.asarray(found, np.float64)[: len(whole)]


@bounded_jit
def _started(part: PyTree, codes: jax.Array) -> PyTree:
    return part.start(codes)


def _of_prefixes(game: Game, codes: jax.Array, lengths: jax.Array, whole: jax.Array, asked: jax.Array) -> tuple[jax.Array, jax.Array]:
    state = game.oracle.start(codes)
    law = game.oracle.next_log_probs(state)
    law = law if is_host(game.oracle) else game.rules.law(law)
    if game.judge is None:
        return law, jnp.zeros(len(codes), derive.float_type())
    view = View(jnp.maximum(codes, 0), lengths, whole, asked)
    return law, game.judge.values(game.judge.start(codes), view, game.oracle, state)


_compiled = bounded_jit(_of_prefixes)


class StringLaw(NamedTuple):
    """The distribution of strings, with mean costs of a draw.

    Attributes:
        mass: the probability of each node's string.
        fail: the probability of failure.
        calls: the mean number of calls of the oracle.
        checks: the mean number of evaluations of the verifier or value.
        runs: the mean number of runs of a walk.
    """

    mass: Array
    fail: float
    calls: float
    checks: float
    runs: float = 1.0


def string_law(tree: PrefixTree, method: AbstractMethod, looks_ahead: bool) -> StringLaw:
    """Return the distribution of a method's strings.

    Args:
        tree: the prefixes.
        method: a method of the package `guided`.
        looks_ahead: whether V = 0 of a prefix implies that V = 0 of every string that begins with
            it.
    """
    start = np.zeros(tree.n)
    start[tree.start] = 1.0
    if not tree.whole[tree.start] and not tree.law[tree.start].any() and not isinstance(method, Walk):
        # the oracle gives the prompt probability 0
        return StringLaw(np.zeros(tree.n), 1.0, 0.0, 0.0)
    return LAWS[type(method)](tree, method, start, looks_ahead)


def _plain(tree: PrefixTree, method: Plain, start: Array, looks_ahead: bool) -> StringLaw:
    if not method.greedy:
        mass, drawn = tree.strings(start)
        return StringLaw(mass, 0.0, drawn, 0.0)
    node = tree.start
    while not tree.whole[node]:
        node = int(tree.likeliest[node])
    return StringLaw(np.eye(1, tree.n, node)[0], 0.0, float(tree.depth[node] - tree.depth[tree.start]), 0.0)


def _rejection(tree: PrefixTree, method: Rejection, start: Array, looks_ahead: bool) -> StringLaw:
    """Return p(x | V = 1), by a geometric series over tries.

    Each try costs the symbols of its string.
    """
    # Nothing is drawn: the prompt is the string, and it is evaluated once.
    if tree.whole[tree.start]:
        good = float(tree.value[tree.start] > NEVER)
        return StringLaw(start * good, 1 - good, 0.0, 1.0)
    mass, drawn = tree.strings(start)
    good, ends = np.zeros(tree.n), np.flatnonzero(mass)
    good[ends] = np.where(tree.value[ends] > NEVER, mass[ends], 0.0)
    accepted = good.sum()
    if method.tries is None:
        if accepted > 0:
            return StringLaw(good / accepted, 0.0, drawn / accepted, 1 / accepted)
        # The prompt is evaluated, and nothing is drawn.
        known = looks_ahead and tree.value[tree.start] == NEVER
        return StringLaw(np.zeros(tree.n), 1.0, 0.0 if known else np.inf, 1.0 if known else np.inf)
    refused = max(0.0, 1 - accepted)
    tries = _tries(refused, method.tries)
    return StringLaw(good * tries, refused**method.tries, drawn * tries, tries)


def _tries(refused: float, most: int) -> float:
    """Return the mean number of tries if there are at most `most`.

    It is the sum of refused^k over k < most, with the probability `refused` of a rejection.
    """
    return float(most) if refused >= 1 else (1 - refused**most) / (1 - refused)


def _tokenwise(tree: PrefixTree, method: TokenwiseRejection, start: Array, looks_ahead: bool) -> StringLaw:
    """Return the distribution of strings whose symbols a have probability p(a) V(a) / sum.

    This holds at each prefix. The tries at a position are geometric, or end once every symbol has
    been rejected.
    """
    mass, failed, calls = start.copy(), 0.0, 0.0
    for s in range(tree.n):
        if mass[s] == 0 or tree.whole[s]:
            continue
        here, mass[s] = mass[s], 0.0
        possible = np.flatnonzero(tree.law[s])
        law, children = tree.law[s, possible], tree.child[s, possible]
        good = np.where(tree.value[children] > NEVER, law, 0.0)
        refused = max(0.0, 1 - good.sum())
        if method.tries is not None:
            tries = _tries(refused, method.tries)
            failed += here * refused**method.tries
        elif good.sum() > 0:
            tries = 1 / good.sum()
        else:
            tries = all_seen(law)
            failed += here
        calls += here * tries
        mass[children] += here * good * (tries if method.tries is not None or good.sum() > 0 else 0.0)
    return StringLaw(mass, failed, calls, calls)


def _by_value(tree: PrefixTree, method: TokenwiseByValue, start: Array, looks_ahead: bool) -> StringLaw:
    """Return the distribution of strings whose symbols a have probability p(a) V(a) / sum.

    This holds at each prefix. A drawn symbol is accepted with probability V(a) / (the largest V of
    any symbol).
    """
    mass, failed, calls, checks = start.copy(), 0.0, 0.0, 0.0
    for s in range(tree.n):
        if mass[s] == 0 or tree.whole[s]:
            continue
        here, mass[s] = mass[s], 0.0
        possible = np.flatnonzero(tree.law[s])
        law, children = tree.law[s, possible], tree.child[s, possible]
        most = tree.value[children].max()
        if most == NEVER:
            failed += here
            continue
        good = law * np.exp(np.minimum(tree.value[children] - most, 0))
        refused = max(0.0, 1 - good.sum())
        tries = 1 / good.sum() if method.tries is None else _tries(refused, method.tries)
        failed += 0.0 if method.tries is None else here * refused**method.tries
        calls, checks = calls + here * tries, checks + here * tree.law.shape[1]
        mass[children] += here * good * tries
    return StringLaw(mass, failed, calls, checks)


def all_seen(p: Array) -> float:
    """Return the mean number of draws of p until every value was drawn.

    It is the sum over sets of values of +-1 / p(set).
    """
    if len(p) <= LISTED_COUPONS:
        sets = (s for k in range(1, len(p) + 1) for s in combinations(p, k))
        return float(sum((-1) ** (len(s) + 1) / sum(s) for s in sets))
    integral: Callable[[float], float] = lambda t: float(1 - np.prod(1 - np.exp(-p * t)))  # noqa: E731 - quad takes a function
    return float(scipy.integrate.quad(integral, 0, np.inf, limit=500, epsabs=1e-11)[0])


def _backtracking(tree: PrefixTree, method: Backtracking, start: Array, looks_ahead: bool) -> StringLaw:
    """Return the distribution by dynamic programming over (prefix, quota).

    Prefixes grow while the quota is unchanged, and the quota falls when a prefix is rejected.
    """
    floor = 0 if method.erase_prompt else int(tree.depth[tree.start])
    mass, result, calls, checks = start.copy(), np.zeros(tree.n), 0.0, 0.0
    for quota in range(int(method.quota), -1, -1):
        after = np.zeros(tree.n)
        for s in range(tree.n):
            here = mass[s]
            if here == 0:
                continue
            if tree.whole[s]:
                result[s] += here
                continue
            calls += here
            checks += here * (quota > 0)
            for a in np.flatnonzero(tree.law[s]):
                child, goes = int(tree.child[s, a]), here * tree.law[s, a]
                if quota > 0 and tree.value[child] == NEVER:
                    back, made = _taken_back(tree, method, child, floor)
                    after[back] += goes
                    calls += goes * made
                else:
                    mass[child] += goes
        mass = after
    return StringLaw(result, 0.0, calls, checks)


def _taken_back(tree: PrefixTree, method: Backtracking, node: int, floor: int) -> tuple[int, int]:
    """Return the prefix that replaces a rejected one, and the number of regenerated symbols."""
    node, made = tree.up(node, min(int(method.stride), int(tree.depth[node]) - floor)), 0
    while method.regenerate and made < int(method.stride) and not tree.whole[node]:
        node, made = int(tree.likeliest[node]), made + 1
    return node, made


def _best(tree: PrefixTree, method: BlockBest, start: Array, looks_ahead: bool) -> StringLaw:
    """Return the distribution of strings whose blocks are each the best of n draws."""
    mass, calls, checks = start.copy(), 0.0, 0.0
    for s in range(tree.n):
        here = mass[s]
        if here == 0 or tree.whole[s]:
            continue
        mass[s] = 0.0
        closed = None if method.block is None else tree.depth >= tree.depth[s] + method.block
        ends, drawn = tree.strings(np.eye(1, tree.n, s)[0], closed)
        calls += here * method.n * drawn
        checks += here * method.n
        offered = np.flatnonzero(ends)
        mass[offered] += here * best_of(ends[offered], tree.value[offered], method.n)
    return StringLaw(mass, 0.0, calls, checks)


def best_of(p: Array, value: Array, n: int) -> Array:
    """Return the distribution of the best of n draws of p, by the highest log value.

    The first of equal draws is chosen. Values that differ by rounding count as equal.
    """
    out, below = np.zeros_like(p), 0.0
    order = [int(k) for k in np.argsort(value, kind="stable") if p[k] > 0]
    while order:
        top = value[order[0]]
        group = [k for k in order if value[k] == top or value[k] <= top + TIE * max(1.0, abs(value[k]))]
        order = order[len(group) :]
        share = p[group].sum()
        out[group] = p[group] / share * ((below + share) ** n - below**n)
        below += share
    return out


def _walk(tree: PrefixTree, method: Walk, start: Array, looks_ahead: bool) -> StringLaw:
    """Return the distribution by powers of the walk's matrix.

    A call is a node that the walk leaves for the first time.
    """
    if tree.whole[tree.start]:
        return StringLaw(start, 0.0, 0.0, 0.0)
    first, leaf, q = method.result == "first_leaf", tree.whole, tree.law.shape[1]
    moves = _moves(tree, first)
    if moves.nnz * method.steps > MOST_WALK_OPERATIONS:
        message = f"`steps = {method.steps}` of a walk on {tree.n:,} prefixes take {float(moves.nnz) * method.steps:.3g} operations"
        raise fail("E601", f"{message}, more than the limit of {MOST_WALK_OPERATIONS:.3g}", help="shorter strings, or fewer steps")
    here, mean = start, np.zeros(tree.n)
    for _ in range(method.steps):
        here = 0.5 * here + 0.5 * (moves.T @ here)
        mean += here / method.steps
    if method.result != "uniform_node":
        mass, calls = np.where(leaf, here, 0.0), _first_times(tree, moves, method.steps, ~leaf if first else np.ones_like(leaf))[-1]
        return StringLaw(mass, 1 - float(mass.sum()), calls, calls * (q + 1))
    mass = np.where(leaf, mean, 0.0)
    runs = mass.sum()
    if runs <= 0:
        stuck = moves[tree.start, tree.start] == 1  # the first step other than a lazy one fails
        calls = 1.0 if stuck else np.inf
        return StringLaw(np.zeros(tree.n), 1.0, calls, calls * (q + 1), 1.0 if stuck else np.inf)
    calls = float(_first_times(tree, moves, method.steps, np.ones_like(leaf)).mean() / runs)
    return StringLaw(mass / runs, 0.0, calls, calls * (q + 1), 1 / runs)


def _first_times(tree: PrefixTree, moves: scipy.sparse.csr_matrix, steps: int, counts: Array) -> Array:
    """Return the mean number of nodes that have been left after 1, 2, .. steps.

    Only the nodes of `counts` are counted. The result is nan if it is too costly to compute. Each
    node has its own walk, from which that node is removed when it is left: a row of `apart`.
    """
    if 2.0 * tree.n * moves.nnz * steps > MOST_WALK_OPERATIONS:
        return np.full(steps, np.nan)
    apart, left, found = np.eye(tree.n)[np.full(tree.n, tree.start)], 0.0, []
    for _ in range(steps):
        own = 0.5 * np.where(counts, np.diag(apart), 0.0)
        left += own.sum()
        found.append(left)
        apart = np.asarray(0.5 * apart + 0.5 * (moves.T @ apart.T).T - scipy.sparse.diags(own) @ moves)
    return np.array(found)


def _moves(tree: PrefixTree, first: bool) -> scipy.sparse.csr_matrix:
    """Return the matrix of the steps other than lazy ones; a node without an exit stays."""
    rows, columns, weights = [], [], []
    reached = np.zeros(tree.n, bool)
    reached[tree.start] = True
    for s in range(tree.n):  # children come after their prefix
        if not reached[s]:
            continue
        here: dict[int, float] = {}
        if s != tree.start and not (first and tree.whole[s]):
            here[int(tree.parent[s])] = float(tree.value[s])
        if not tree.whole[s]:
            possible = np.flatnonzero(tree.law[s])
            children = tree.child[s, possible]
            weights_below = np.log(tree.law[s, possible]) + tree.value[children]
            here.update(zip(children.tolist(), weights_below.tolist(), strict=True))
        most = max(here.values(), default=NEVER)
        here = {s: 0.0} if most == NEVER else {k: w - most for k, w in here.items() if w > NEVER}
        total = sum(np.exp(w) for w in here.values())
        here = {k: float(np.exp(w) / total) for k, w in here.items()}
        reached[list(here)] = True
        rows += [s] * len(here)
        columns += list(here)
        weights += list(here.values())
    return scipy.sparse.csr_matrix((weights, (rows, columns)), shape=(tree.n, tree.n))


LAWS: dict[type, Callable[[PrefixTree, Any, Array, bool], StringLaw]] = {
    Plain: _plain,
    Rejection: _rejection,
    TokenwiseRejection: _tokenwise,
    TokenwiseByValue: _by_value,
    Backtracking: _backtracking,
    BlockBest: _best,
    Walk: _walk,
}
