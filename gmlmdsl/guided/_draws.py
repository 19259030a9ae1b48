"""Draws of strings by the name of a sampler: checks of prompts and options, draws, and labels.

Warnings concern hopeless prompts, many failed draws, and samplers without any valid string.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import fail, known, tell, whole_number
from .._types import Draws, JsonObject, ParamsLike, Prompt
from ..data import encode_prompts, keys_of, verified_seed
from ..derive import bounded_jit, on_device
from ..graph import FactorGraph, verify_is_model
from ..plan import verify_held
from ..program import ir
from ..sample import SamplingWarning, to_arviz
from ._build import Setting, beams_of, game_of, named_of
from ._judges import AbstractJudge, View
from ._loop import Found, Named, play, verify_values
from ._methods import Backtracking, BlockBest, Rejection, TokenwiseByValue, TokenwiseRejection
from ._oracle import is_host, refuse_given
from ._run import Game, Rules
from ._walk import Walk
from .limits import MOST_NAMED_PROMPTS, PREFIXES_AT_ONCE

if TYPE_CHECKING:
    from ._oracle import Oracle

Array = np.ndarray


@dataclass(frozen=True)
class GuidedOptions:
    """The sampler, the prompts and the numbers of strings to draw; see `Model.sample`."""

    sampler: str
    prompt: Prompt | None
    draws: int | None
    chains: int | None


def refuse_options(sampler: ir.Sampler, stated: Mapping[str, bool]) -> None:
    """Raise an error for options of chains and rows, since every string is drawn independently.

    Args:
        sampler: the sampler.
        stated: whether each option is given.

    Raises:
        GmlmError: E507.
    """
    for name, given in stated.items():
        if given:
            message = f"`{name}=` has no meaning for sampler `{sampler.name}`, which draws each string from its first symbol on"
            raise fail("E507", message, sampler.span, help="`prompt=` is what strings begin with")


def refuse_guided(**stated: object) -> None:
    """Raise an error for options of guided samplers, given to another sampler.

    Raises:
        GmlmError: E507.
    """
    for option, value in stated.items():
        if value is not None:
            message = f"`{option}=` is of guided samplers, which grow strings from their first symbol on"
            raise fail("E507", message, help="clamp cells: `clamp=`" if option == "prompt" else "")


def draw_guided(setting: Setting, call: ir.FormCall, options: GuidedOptions, provenance: JsonObject) -> Draws:
    """Draw strings of each prompt, and return them for ArviZ with the group `guided_stats`.

    Args:
        setting: the model, its parameters and the seed.
        call: the sampler's form.
        options: the number of strings to draw from each prompt.
        provenance: the program and its versions.

    Raises:
        GmlmError: for prompts and options that do not fit, and for errors of user-defined
            verifiers, values and oracles.
    """
    graph, prompt = setting.lowered.graph, options.prompt
    prompts = np.full((1, setting.string.size), -1, np.int32) if prompt is None else encode_prompts(graph, prompt).codes
    draws = whole_number("draws", options.draws if options.draws is not None else (1000 if prompt is None else 1), 1)
    chains = whole_number("chains", 1 if options.chains is None else options.chains, 1)
    cells, rows = prompts.shape[1], len(prompts)
    words = f"{draws:,} draws of {chains:,} chains for {rows:,} prompts of {cells:,} cells"
    verify_held(12.0 * chains * draws * rows * (cells + 8), words, "fewer `draws=` or prompts")
    beams = beams_of(setting, call)
    if beams is not None:
        verify_open(prompts, beams.rules.end)
        (best, log_p), end = beams.strings(prompts), beams.rules.end
        *every, log_p = (np.concatenate([a] * (chains * draws)) for a in (*best, log_p))
        found, exact = Found(*every), {"log_prob": log_p}
        told = impossible_prompts(best.failed, prompt is not None)
    else:
        game, exact = game_of(setting, call), {}
        verify_open(prompts, game.rules.end)
        named, end = named_of(setting, call, game), game.rules.end
        found = _played(game, named, prompts, (chains, draws), setting.seed)
        told = findings(game, named, prompts, found, prompt is not None)
    for text in told:
        tell(text, SamplingWarning)
    lead = (chains, draws) if prompt is None else (chains, draws, rows)
    attrs = {"sampler": options.sampler, "seed": setting.seed, "warnings": "\n".join(told), **_attributes(provenance, graph)}
    return _labelled(graph, found, exact, lead, end, attrs)


def _played(game: Game, named: Named, prompts: Array, lead: tuple[int, int], seed: int) -> Found:
    """Return draws in the order (chain, draw, prompt)."""
    counts = (*(np.arange(n) for n in lead), np.arange(len(prompts)))
    chain, draw, row = (a.ravel() for a in np.meshgrid(*counts, indexing="ij"))
    # Sorting by the length of the prompts lets strings that are drawn together end at about the
    # same iteration.
    order = np.argsort((prompts >= 0).sum(axis=1)[row], kind="stable")
    found = play(game, prompts[row[order]], keys_of(seed, chain[order], draw[order], row[order]), named)
    return Found(*(a[np.argsort(order)] for a in found))


def verify_open(prompts: Array, end: int | None) -> None:
    """Raise an error for prompts that continue after their end.

    Raises:
        GmlmError: E507.
    """
    if end is None:
        return
    over = (prompts[:, :-1] == end) & (prompts[:, 1:] >= 0)
    if over.any():
        r, cell = (int(i) for i in np.argwhere(over)[0])
        raise fail("E507", f"prompt[{r}] ends with the value at {cell}, which is `end`, and goes on", help="cut it there")


def _labelled(graph: FactorGraph, found: Found, exact: JsonObject, lead: tuple[int, ...], end: int | None, attrs: JsonObject) -> Draws:
    v = graph.observed[0]
    codes = found.codes
    if end is not None:
        codes = np.where((codes < 0) & ~found.failed[:, None], end, codes)
    values = np.where(codes < 0, v.padding, v.values_of(codes))
    rows = ["row"] * (len(lead) - 2)
    dims = {v.name: [*rows, *v.dims]}
    coords = {d: list(c) for d, c in zip(v.dims, v.coords, strict=True)}
    counts = exact | {
        "oracle_calls": found.calls,
        "verifier_calls": found.checks,
        "failed": found.failed,
        "valid": found.valid,
        "length": found.lengths,
        "backtracks": found.backs,
    }
    stats = {name: a.reshape(*lead, *a.shape[1:]) for name, a in counts.items()}
    dims |= {name: [*rows, *(["position"] if name == "backtracks" else [])] for name in stats}
    posterior = {v.name: values.astype(v.dtype).reshape(*lead, *v.shape)}
    kept = {name: stats[name] for name in (*exact, "failed", "valid", "length")}
    distinct = _distinct(codes[~found.failed])
    attrs = {**attrs, "distinct_strings": distinct}
    more = {"guided_stats": stats, "texts": graph.texts}
    return to_arviz(posterior, dims, coords, kept, None, attrs, **more)


def _distinct(codes: Array) -> int:
    return len(np.unique(codes, axis=0)) if len(codes) else 0


def _attributes(provenance: JsonObject, graph: FactorGraph) -> JsonObject:
    versions = ", ".join(f"{k} {v}" for k, v in provenance["versions"].items())
    labels = str(graph.texts)
    return {"model": provenance["model"], "program_sha256": provenance["sha256"], "versions": versions, "labels": labels}


def prefix_values(
    model: Any, params: ParamsLike, name: str, prefixes: Prompt, *, end: Any = None, seed: int = 0, oracle: Oracle | None = None
) -> Array:
    """Return V(prefix) of a verifier or value for many prefixes, as samplers evaluate it.

    Args:
        model: the model for which the file declares the verifier or value.
        params: its parameters, as in `Model.sample`.
        name: the name of the verifier or value.
        prefixes: a list of prefixes of any length, in the form of `prompt=` of `sample`; whole
            strings are allowed.
        end: the value that ends a string, if there is one.
        seed: the seed of the noise of `noisy` values, as in `Model.sample`.
        oracle: a `gm.Oracle` that replaces the model's own.

    Returns:
        One number for each prefix: 0 or 1 for a verifier, at least 0 for a value.

    Raises:
        GmlmError: E506 for an unknown name; E501, E502, E505, E507 for prefixes or parameters that
            do not fit; E510 for a network that reads given data; E745 for a result that is not a
            number of at least 0.
    """
    verify_is_model(model)
    judges = {n: j for n, j in model.program.checked.judges.items() if j.model == model.name}
    judge = judges[known(name, list(judges), f"verifier or value of model `{model.name}`")]
    if model.graph.network is not None:
        refuse_given(model.graph.network)
    setting = Setting(model.lowered, params, verified_seed(seed), model.program.allow_python, oracle)
    last = None if end is None else int(encode_prompts(model.graph, [[end]]).codes[0, 0])
    rules = Rules(setting.string.size, len(setting.string.labels), last)
    made, codes = setting.judge(judge, last), encode_prompts(model.graph, prefixes, "prefixes").codes
    parts = [codes[k : k + PREFIXES_AT_ONCE] for k in range(0, len(codes), PREFIXES_AT_ONCE)]
    found = [_some(made, setting.made_oracle, rules, part) for part in parts]
    values = np.concatenate(found)
    verify_values(values, np.ones(len(values), bool), codes, Named(judge, judge, rules))
    return np.exp(values)


def _some(judge: AbstractJudge, oracle: Any, rules: Rules, codes: Array) -> Array:
    """Return log V of some prefixes.

    Their number is padded to a power of two, so that few sizes are compiled.
    """
    rows = len(codes)
    filled = np.concatenate([codes, np.full(((1 << (rows - 1).bit_length()) - rows, codes.shape[1]), -1, codes.dtype)])
    call = _values if is_host(judge) or is_host(oracle) else _compiled
    return np.asarray(call(judge, oracle, rules, on_device(filled, np.int32), on_device(np.arange(len(filled)) < rows)))[:rows]


def _values(judge: AbstractJudge, oracle: Any, rules: Rules, codes: jax.Array, asked: jax.Array) -> jax.Array:
    lengths = (codes >= 0).sum(axis=1, dtype=np.int32)
    last = codes[np.arange(len(codes)), (lengths - 1).clip(0)]
    view = View(codes.clip(0), lengths, rules.whole(lengths, last), asked)
    return judge.values(judge.start(codes), view, oracle, oracle.start(codes))


_compiled = bounded_jit(_values)


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
