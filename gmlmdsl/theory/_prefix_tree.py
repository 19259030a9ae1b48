"""The tree of all prefixes of short strings, from which output distributions are computed.

Each prefix has the distribution of its next symbol, and a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import derive
from .._diagnostics import fail
from ..derive import bounded_jit
from ..guided import Game, Named, View, is_host, verify_law, verify_laws, verify_values
from ..plan import BUDGET
from .limits import INPUTS_AT_ONCE, MOST_NODES

if TYPE_CHECKING:
    from jaxtyping import PyTree

Array = np.ndarray


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

    The tree also has prefixes that contain an `end` symbol, which no walk reaches.

    Attributes:
        codes: shape (nodes, cells), -1 after each prefix.
        depth: the number of symbols of each prefix.
        law: p(next symbol | prefix) from which the sampler draws, shape (nodes, values). It is 0
            throughout if there is no next symbol.
        value: log V of prefixes as `value[nodes]`, -inf if V is 0.
        whole: whether a prefix is a whole string.
        parent: the node of the prefix without its last symbol, -1 for the root.
        child: the nodes with one more symbol, shape (nodes, values), -1 if a string is full.
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
    levels = n - root
    count = sum(float(q) ** h for h in range(levels + 1))
    if count > MOST_NODES:
        message = f"{what}: {count:.3g} prefixes of {levels} symbols of {q} values, more than the {MOST_NODES:,} that are listed"
        raise fail("E601", message, help="shorter strings, or a longer prompt; `sample` draws")
    codes, depth, parent, offset = _listed(prompt[:root], n, q)
    child = np.full((len(depth), q), -1)
    inner = depth < n
    child[inner] = 1 + q * np.arange(int(inner.sum()))[:, None] + np.arange(q)
    last = codes[np.arange(len(depth)), np.maximum(depth - 1, 0)]
    whole = np.asarray(game.rules.whole(depth, last))
    law, value = _asked(game, codes, depth, whole)
    verify_laws(np.isnan(law).any(axis=1) & ~whole, codes, named.oracle)
    value = Values(codes, (lambda new: _judged(game, codes[new], depth[new], whole[new])) if value is None else value.__getitem__, named)
    at = 0 if not erased else int(offset[len(prompt)] + (np.ravel_multi_index(tuple(prompt), (q,) * len(prompt)) if len(prompt) else 0))
    return PrefixTree(codes, depth, law, value, whole, parent, child, at)


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


def _asked(game: Game, codes: Array, depth: Array, whole: Array) -> tuple[Array, Array | None]:
    """Return the distribution after every prefix, and the values.

    The values are None if the user's Python code gives them, which is called only on request.
    """
    laws, values = [], []
    hosted, own = is_host(game.oracle), Game(game.oracle, None, game.method, game.rules) if is_host(game.judge) else game
    many = min(INPUTS_AT_ONCE, len(depth), max(1, int(BUDGET.bytes // max(1.0, getattr(game.oracle, "row_bytes", 1.0)))))
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
