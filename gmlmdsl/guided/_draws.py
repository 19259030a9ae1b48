"""Draws of strings by the name of a sampler: checks of prompts and options, draws, and labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .._diagnostics import fail, tell, whole_number
from .._types import Draws, JsonObject, Prompt
from ..data import encode_prompts, keys_of
from ..graph import FactorGraph
from ..plan import verify_held
from ..program import ir
from ..sample import SamplingWarning, to_arviz
from ._build import Setting, beams_of, game_of, named_of
from ._findings import findings, impossible_prompts
from ._loop import Found, Named, play
from ._run import Game

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
    return to_arviz(posterior, dims, coords, kept, None, {**attrs, "distinct_strings": distinct}, guided_stats=stats)


def _distinct(codes: Array) -> int:
    return len(np.unique(codes, axis=0)) if len(codes) else 0


def _attributes(provenance: JsonObject, graph: FactorGraph) -> JsonObject:
    versions = ", ".join(f"{k} {v}" for k, v in provenance["versions"].items())
    labels = str({v.name: [str(x) for x in v.labels] for v in graph.observed if not v.ordered})
    return {"model": provenance["model"], "program_sha256": provenance["sha256"], "versions": versions, "labels": labels}
