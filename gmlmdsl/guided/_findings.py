"""Warnings about drawn strings: hopeless prompts, many failed draws, and no valid string."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..derive import bounded_jit, on_device
from ._judges import AbstractJudge, View
from ._loop import Found, Named
from ._methods import Backtracking, BlockBest, Rejection, TokenwiseByValue, TokenwiseRejection
from ._oracle import is_host
from ._run import Game, Rules
from ._walk import Walk
from .limits import MOST_NAMED_PROMPTS

Array = np.ndarray


def findings(game: Game, named: Named, prompts: Array, found: Found, prompted: bool) -> list[str]:
    """Return warnings about draws; there are none if most draws succeed and some are valid.

    Args:
        game: the game that drew the strings.
        named: the names of its judges, for messages.
        prompts: codes, shape (prompts, cells), padded with -1.
        found: the draws, with prompts as the fastest axis.
        prompted: whether the user gave the prompts.
    """
    texts, rows = [], len(prompts)
    if found.given_up.any():
        turns, count = int(found.given_up.max()), int((found.given_up > 0).sum())
        texts.append(f"{count:,} draws were given up after {turns:,} turns and count as failed: `tries =` in the program bounds them.")
    failed, valid = found.failed.reshape(-1, rows), found.valid.reshape(-1, rows)
    hopeless = _hopeless(game, prompts, np.asarray(~valid.any(axis=0)))
    if hopeless.any():
        texts.append(_never(named, hopeless, prompted, failed))
    failed, valid = failed[:, ~hopeless], valid[:, ~hopeless]
    if not failed.size or found.given_up.any():
        return texts
    lost = f"{int(failed.sum()):,} of {failed.size:,} draws"
    if failed.mean() > 0.5:
        texts.append(f"{lost} ({failed.mean():.3g} of them) failed and hold no string: {_cure(game)}.")
    elif failed.size > 1 and not valid.any():
        texts.append(f"No string of {failed.size:,} draws is valid: {_cure(game)}.")
    return texts


def impossible_prompts(failed: Array, prompted: bool) -> list[str]:
    """Return a warning if the model gives some prompts probability 0, so that a search fails.

    Args:
        failed: whether the search of each prompt failed.
        prompted: whether the user gave the prompts.
    """
    if not failed.any():
        return []
    if not prompted:
        return ["No string has a probability: the rows hold none. Look at what the model requires: `gmlm check`."]
    names = [f"prompt[{k}]" for k in np.flatnonzero(failed)[:MOST_NAMED_PROMPTS].tolist()]
    more = f" and {int(failed.sum()) - len(names):,} more of {len(failed):,}" if failed.sum() > len(names) else ""
    return [f"No string that begins with {', '.join(names)}{more} has a probability: their rows hold no string."]


def _hopeless(game: Game, prompts: Array, suspected: Array) -> Array:
    """Return which prompts without a valid string cannot have one.

    These are the prompts with V = 0 under a judge for which this excludes all their continuations.
    """
    judge, method = game.judge, game.method
    # Such a method may erase the prompt.
    erased = isinstance(method, Backtracking) and method.erase_prompt
    if not suspected.any() or judge is None or not judge.looks_ahead or is_host(judge) or erased:
        return np.zeros_like(suspected)
    # A judge that looks ahead does not call a user-defined oracle.
    oracle = None if is_host(game.oracle) else game.oracle
    return suspected & (np.asarray(_at_prompts(judge, oracle, game.rules, on_device(prompts, np.int32))) == -np.inf)


@bounded_jit
def _at_prompts(judge: AbstractJudge, oracle: Any, rules: Rules, prompts: jax.Array) -> jax.Array:
    """Return log V of prompts."""
    lengths = (prompts >= 0).sum(axis=1, dtype=jnp.int32)
    codes, rows = jnp.maximum(prompts, 0), jnp.arange(len(prompts))
    whole = rules.whole(lengths, codes[rows, jnp.maximum(lengths - 1, 0)])
    at = None if oracle is None else oracle.start(prompts)
    return judge.values(judge.start(prompts), View(codes, lengths, whole, jnp.ones_like(whole)), oracle, at)


def _never(named: Named, hopeless: Array, prompted: bool, failed: Array) -> str:
    assert named.judge is not None
    judge, count = f"{named.judge.kind} `{named.judge.name}`", int(hopeless.sum())
    if not prompted:
        return f"No string can be valid: {judge} is 0 of the empty prefix, so of every string. Look at what it asks for: `gmlm check`."
    names = [f"prompt[{k}]" for k in np.flatnonzero(hopeless)[:MOST_NAMED_PROMPTS].tolist()]
    more = f" and {count - len(names):,} more of {len(hopeless):,}" if count > len(names) else ""
    lost = "their draws failed" if failed[:, hopeless].all() else "no string of theirs is valid"
    return f"No string that begins with {', '.join(names)}{more} can be valid: {judge} is 0 there; {lost}. Cut what is wrong in them."


def _cure(game: Game) -> str:
    """Return a suggested change if most draws fail or no string is valid."""
    match game.method:
        case Walk(result="last_node"):
            return "the walk seldom ends at a whole string, however many its steps; `result = uniform_node` makes it again until it does"
        case Walk(result="first_leaf"):
            return f"the walk met no whole string in its {game.method.steps:,} steps; write more `steps`"
        case Walk():
            return "every value behind the prompt is 0"
        case Rejection(tries=None) | TokenwiseRejection(tries=None) | TokenwiseByValue(tries=None):
            return "at some symbol every continuation is refused; `completable` refuses only what no completion saves"
        case Rejection() | TokenwiseRejection() | TokenwiseByValue():
            return f"write more `tries` than {game.method.tries:,}, or draw with a constraint that is met more often"
        case Backtracking():
            return "write a larger `quota`, or another `stride`"
        case BlockBest():
            return f"the value is 0 of all {game.method.n:,} candidates; write a larger `n`"
        case _:
            return "the model gives no symbol a probability"
