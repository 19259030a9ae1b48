"""Beam search over the strings of a model without a network.

The probabilities of prefixes are exact, but the beams may lose the beginning of the most probable
string.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from ..derive import AbstractPrefixes, BeamRows, BeamSearch, Search, SearchRules, bounded_jit, on_device
from ..plan import verify_held
from ._loop import Found
from .limits import MOST_ROWS, MOST_STATE_BYTES


class OraclePrefixes(AbstractPrefixes):
    """Prefixes of a compiled oracle, with the beams of a group as adjacent rows."""

    oracle: PyTree

    def begin(self, groups: int, beam: int, n_cells: int) -> PyTree:
        """Return the oracle's state of empty rows."""
        return self.oracle.start(jnp.full((groups * beam, n_cells), -1, jnp.int32))

    def logits(self, at: Search) -> tuple[Float[Array, "groups beam values"], PyTree]:
        """Append the last symbol of every row, and return log p of the next.

        A place without a beam has 0 for every symbol, because its row may be impossible.
        """
        last = jnp.where(at.t > 0, jnp.take(at.tokens, jnp.maximum(at.t - 1, 0), axis=2), -1)
        state = self.oracle.push(at.cache, last.reshape(-1))
        law = self.oracle.next_log_probs(state).reshape(*at.log_p.shape, -1)
        return jnp.where(at.log_p[..., None] > -jnp.inf, law, 0), state

    def reordered(self, cache: PyTree, beams: Int[Array, "groups beam"]) -> PyTree:
        """Return the states of the chosen rows."""
        groups, beam = beams.shape
        rows = (jnp.arange(groups, dtype=jnp.int32)[:, None] * beam + beams).reshape(-1)
        return jax.tree.map(lambda a: jnp.take(a, rows, axis=0), cache)


@dataclass(frozen=True)
class Beams:
    """A beam search for the string with the highest log p / n^a, where n is its number of predicted symbols.

    Attributes:
        oracle: the compiled oracle of a model without a network.
        rules: the options.
    """

    oracle: PyTree
    rules: SearchRules

    def strings(self, prompts: np.ndarray) -> tuple[Found, np.ndarray]:
        """Return the best string of each prompt, and its log p(string | prompt), or -infinity.

        Args:
            prompts: codes, shape (prompts, cells), padded with -1.

        Raises:
            GmlmError: E601 if the state of a row is too large.
        """
        size, parts = self._prompts_at_once(prompts), []
        for start in range(0, len(prompts), size):
            piece = prompts[start : start + size]
            parts.append(self._some(np.concatenate([piece, np.repeat(piece[:1], size - len(piece), axis=0)])))
        *found, log_p = (np.concatenate(a)[: len(prompts)] for a in zip(*parts, strict=True))
        return Found(*found), log_p

    def _prompts_at_once(self, prompts: np.ndarray) -> int:
        held = jax.eval_shape(self.oracle.start, jax.ShapeDtypeStruct((2, prompts.shape[1]), np.int32))
        each = sum(float(np.prod(a.shape)) * a.dtype.itemsize for a in jax.tree.leaves(held)) / 2
        each = self.rules.beam * (each + getattr(self.oracle, "row_bytes", 0.0))
        verify_held(3 * each, "the beams of one string", "a smaller `beam`, or a shorter string")
        most = min(MOST_ROWS // self.rules.beam, int(MOST_STATE_BYTES // max(each, 1.0)))
        return max(1, min(most, len(prompts)))

    def _some(self, prompts: np.ndarray) -> tuple[np.ndarray, ...]:
        end = _searched(BeamSearch(self.rules, OraclePrefixes(self.oracle)), on_device(prompts, np.int32))
        tokens, score, lengths = (np.asarray(a)[:, 0] for a in (end.finished.tokens, end.finished.score, end.finished.length))
        failed = score == -np.inf
        lengths = np.where(failed, 0, lengths)
        codes = np.where(np.arange(prompts.shape[1]) < lengths[:, None], tokens, -1)
        none = np.zeros_like(lengths)
        free = (prompts < 0) & (np.arange(prompts.shape[1]) < np.asarray(end.steps)[:, None])
        calls = self.rules.beam * free.sum(axis=1)
        predicted = np.maximum(lengths - (prompts >= 0).sum(axis=1), 1)
        log_p = score * predicted.astype(score.dtype) ** self.rules.length_penalty
        return codes, lengths, calls, none, np.zeros_like(codes), failed, ~failed, none, log_p


@bounded_jit
def _searched(search: BeamSearch, prompts: Int[Array, "groups cells"]) -> Search:
    free, (groups, n) = prompts < 0, prompts.shape
    held, lengths = (~free).sum(axis=1, dtype=jnp.int32), jnp.full(groups, n, jnp.int32)
    rows = BeamRows(jnp.maximum(prompts, 0), free, held, lengths, jax.random.split(jax.random.key(0), groups))
    return search.run(rows, search.begin(rows))
