"""Decoding by iterative refinement: a fixed number of passes over all cells at once, as one step of a kernel.

A pass predicts the open cells from the tokens as they stand. Then it is decided which cells the
next pass predicts again:

    all               every cell, each pass
    linear, cosine    floor(n (T - t) / T), floor(n cos(pi t / 2T)) cells after pass t of T; counts: all but those it lists
    threshold         those less confident than the threshold, but at least one is kept at each pass
    easy_first        all but one more at each pass
    a mask            K drawn from it

Which of the open cells these are, `order` says: the least confident, any, or those on the right;
blocks are decoded one after another. A planner scores settled cells too, and hides those of low
score again. Under the rules of Wang et al. 2025 each open cell settles, and each settled one is
hidden again, with a probability of its own. What is open is shown as the start shows it: hidden, or
as a uniform value. Everything is per chain: candidate lengths and starts are chains that share one
encoding, and no array of (chains, cells, values) is carried from pass to pass.

Reference: Ghazvininejad et al. 2019 (mask-predict), Savinov et al. 2022 (SUNDAE), Wang et al. 2025
(ReMDM), Peng et al. 2025 (path planning), Li et al. 2024, Section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ..graph import Bound, Lowered, Passes, passes_of, refinement
from ..program import PUBLISHED, ir
from ._arrays import on_device
from ._decoded import AbstractDecoder, Decoded
from ._energy import Codes
from ._kernel import Info, State, Target
from ._mask_law import AbstractMaskLaw, mask_law
from ._membership import members, random_ranks
from ._network import NetworkGraph, encode, likeliest, network_graph
from ._network_kernels import Held, free_cells, least, ranks, unadapted
from ._picks import happens, pick_token, token_words, whole_below
from ._random import fold_apart, words_apart
from ._undefined import UNDEFINED

# probabilities, logits (in parts of themselves) and confidences that differ by less are equal: sums
# in single precision
ROUNDING = 1e-5
LEAST_SCORE = -1e4  # of a value of probability 0: -infinity marks cells that no pass predicted


@dataclass(frozen=True)
class Rules:
    """The options of `refinement`, see the language reference."""

    steps: int  # of all blocks
    start: str
    schedule: str  # a word, `counts` or `mask`
    order: str
    threshold: float
    confidence: str
    decode: str
    temperature: float
    top_k: int | None
    top_p: float | None
    remask: str
    eta: float
    stop: str
    planner: str  # `none`, `self`, or the name of a network


@dataclass(frozen=True)
class Readout:
    """What a pass makes of logits: the rules of a decoder that say it, and no others, so that decoders share programs."""

    decode: str
    temperature: float
    top_k: int | None
    top_p: float | None
    confidence: str
    planned: bool

    def __call__(self, logits: Float[Array, "chains cells values"]) -> tuple[Array, Array, Array]:
        """Of every value what `decode` gives of one: the probability that a pass takes it, its log p, and how sure a pass is of it."""
        total = jax.nn.logsumexp(logits, axis=-1)
        if self.decode == "argmax":
            p = jax.nn.one_hot(likeliest(jnp.moveaxis(logits, -1, 0))[1], logits.shape[-1], dtype=logits.dtype)
        else:
            p = jax.nn.softmax(narrow(logits / self.temperature, self.top_k, self.top_p), axis=-1)
        log_p = logits - total[..., None]
        sure = self.sure(logits, total, log_p)
        return p, log_p, jnp.broadcast_to(sure if sure.ndim == log_p.ndim else sure[..., None], log_p.shape)

    def sure(self, logits: Float[Array, "chains cells values"], total: Float[Array, "chains cells"], log_p: Array) -> Array:
        """Confidence: of tokens by their `log_p`, or of a cell whatever its token is; beside a planner that log p itself."""
        if self.planned:
            return jnp.maximum(log_p, LEAST_SCORE)
        match self.confidence:
            case "margin":
                two = jnp.exp(jax.lax.top_k(logits, min(2, logits.shape[-1]))[0] - total[..., None])
                return two[..., 0] - two[..., -1]
            case "entropy":
                p = jnp.exp(logits - total[..., None])
                nats = jnp.where(p > 0, -p * (logits - total[..., None]), 0.0).sum(axis=-1)
                return 1 - nats / jnp.log(max(logits.shape[-1], 2))
            case _:
                return jnp.exp(log_p)


class Hypothesis(NamedTuple):
    """Where a decode stands; chains are the last axis, behind cells.

    `log_p` and `confidence` are those of each token at the pass that last predicted it; `open` are
    the cells that the next pass predicts; `seen` is what the pass before saw, where passes are
    kept.
    """

    tokens: Codes
    seen: Codes
    log_p: Float[Array, "cells chains"]
    confidence: Float[Array, "cells chains"]
    open: Held
    moving: Bool[Array, " chains"]
    passes: Int[Array, " chains"]


class Plan(eqx.Module):
    """When cells settle, on the device; see `Passes`."""

    steps: int = eqx.field(static=True)
    block: int = eqx.field(static=True)
    open_after: Int[Array, "pools passes"] | None
    settles: Float[Array, " passes"] | None
    again: Float[Array, " passes"] | None

    def pool(self, free: Held, t: Array) -> tuple[Held, Int[Array, " chains"]]:
        """The block that pass `t` (from 1) is over, and how many of its cells are open after it."""
        assert self.open_after is not None
        t = jnp.asarray(t, jnp.int32)
        rank, number = jnp.cumsum(free, axis=0, dtype=jnp.int32) - 1, (t - 1) // self.steps
        here = free & (rank // self.block == number)
        return here, self.open_after[here.sum(axis=0, dtype=jnp.int32), t - number * self.steps]


def plan_of(passes: Passes) -> Plan:
    """The device form of passes."""
    real = (None if a is None else on_device(a) for a in (passes.settles, passes.again))
    table = None if passes.open_after is None else on_device(passes.open_after, np.int32)
    return Plan(passes.steps, passes.block, table, *real)


class RefinementKernel(AbstractDecoder):
    """One step is one decode, from the start to the last pass; it does not depend on the step before.

    `law` is that of the mask of the schedule, `plan` says when cells settle. With `draft`, tokens
    start where the chain started.
    """

    rules: Rules = eqx.field(static=True)
    law: AbstractMaskLaw | None
    plan: Plan
    draft: bool = eqx.field(static=True, default=False)
    trace: bool = eqx.field(static=True, default=False)

    @property
    def may_end(self) -> bool:
        """Whether passes may be left out, which takes a branch at each; a fixed number of them takes none."""
        return self.rules.stop == "fixed_point" or self.rules.schedule in ("threshold", "easy_first")

    @property
    def kept_passes(self) -> int:
        return self.rules.steps if self.trace else 0

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        free, draft = free_cells(target), state.memory.draft
        first, planner = self.begin(target, draft, free, fold_apart(keys, 0)), self._planner(target)

        def once(at: Hypothesis, t: Array) -> tuple[Hypothesis, Any]:
            def move(h: Hypothesis) -> Hypothesis:
                return self.one_pass(target, h, free, t, fold_apart(keys, t + 1), planner)

            at = jax.lax.cond(at.moving.any(), move, lambda h: h, at) if self.may_end else move(at)
            return at, jnp.where(at.open & (at.confidence == -jnp.inf), -1, at.tokens) if self.trace else None

        end, trace = jax.lax.scan(once, first, jnp.arange(self.rules.steps))
        # a mask may leave cells of a draft as they are
        count, predicted = free.sum(axis=0), free & (end.confidence > -jnp.inf)
        score = jnp.where(predicted, end.log_p, 0.0).sum(axis=0) / jnp.maximum(predicted.sum(axis=0), 1).astype(end.log_p.dtype)
        length = target.graph.lengths.reshape(-1).astype(jnp.int32)
        memory = Decoded(score, score, end.passes, state.memory.trace if trace is None else trace, self.kept(end.seen), draft, length)
        drawn = count.astype(jnp.int32) * self.rules.steps
        changed = (end.tokens != state.codes).sum(axis=0, dtype=jnp.int32)
        none = jnp.zeros((0, count.shape[0]), jnp.int32)
        return State(end.tokens, memory), Info(changed[None], drawn[None], none, none)

    def begin(self, target: Target, draft: Codes, free: Held, keys: PRNGKeyArray) -> Hypothesis:
        """What stands before the first pass: nothing, a uniform value in every free cell, or the draft.

        Under a mask's schedule what is no draft is open until it is predicted: the last pass
        settles what no K held.
        """
        zero = jnp.zeros(draft.shape)
        unsettled = not self.draft and (self.rules.start == "hide" or self.law is not None)
        hidden = free if unsettled else jnp.zeros_like(free)
        tokens = draft if self.draft else jnp.where(free, uniform_values(target, keys, draft), draft)
        chains = jnp.arange(draft.shape[1])
        return Hypothesis(tokens, tokens, zero, zero - jnp.inf, hidden, chains >= 0, jnp.zeros_like(chains, jnp.int32))

    def _planner(self, target: Target) -> NetworkGraph | None:
        """The network that plans, over the chains of the target; None where there is none, or the model plans itself."""
        name, graph = self.rules.planner, target.graph
        if name in ("none", "self"):
            return None
        network: Any = target.params[name]
        return network_graph(network, name, encode(network, (), (), graph.lengths.shape[0]), graph.lengths, graph.n_cells)

    def trusted(self, logits: Float[Array, "chains cells values"], tokens: Codes) -> Float[Array, "cells chains"]:
        """The planner's score of a settled cell: eta log p(its value), as open cells have log p. Reference: Peng et al. 2025."""
        log_p = jnp.take_along_axis(jax.nn.log_softmax(logits, axis=-1), jnp.maximum(tokens.T, 0)[..., None], axis=-1)[..., 0].T
        return self.rules.eta * jnp.maximum(log_p, LEAST_SCORE)

    def one_pass(
        self, target: Target, at: Hypothesis, free: Held, t: Array, keys: PRNGKeyArray, planner: NetworkGraph | None = None
    ) -> Hypothesis:
        """Predict, then decide what the next pass predicts. A chain that no longer moves stays as it is."""
        rules, graph = self.rules, target.graph
        last = t == rules.steps - 1
        if self.law is not None:
            chosen = members(self.law, at.tokens, fold_apart(keys, 0), graph.present) & free
            shown_open, predicted = at.open | chosen, chosen | (at.open & last)
        else:
            shown_open, predicted = at.open, free if rules.schedule == "all" else self._predicted(at, free, t)
        seen = jnp.where(shown_open, self._shown_value(target, at.tokens, fold_apart(keys, 1)), at.tokens)
        logits = graph.logits(target.params, jnp.where(graph.present, seen, graph.most_values))
        token, log_p, confidence = self.decode(logits, fold_apart(keys, 2))
        predicted = predicted & at.moving[None] & (at.tokens != UNDEFINED)
        new, log_p, confidence = (
            jnp.where(predicted, a, b) for a, b in ((token, at.tokens), (log_p, at.log_p), (confidence, at.confidence))
        )
        if rules.planner != "none":
            judged = logits if planner is None else planner.logits(target.params, jnp.where(graph.present, new, graph.most_values))
            confidence = jnp.where(predicted, confidence, self.trusted(judged, new))
        still = at.open & ~predicted if self.law is not None else at.open
        before = jnp.where(at.moving[None], jnp.where(seen == graph.most_values, -1, seen), at.seen) if self.trace else at.seen
        after = Hypothesis(new, before, log_p, confidence, still, at.moving, at.passes + at.moving.astype(at.passes.dtype))
        opened = jnp.where(last, jnp.zeros_like(free), self.reopened(after, free, graph.present, t + 1, fold_apart(keys, 3)))
        moving = at.moving
        if rules.schedule in ("threshold", "easy_first"):
            moving = moving & opened.any(axis=0)
        elif rules.stop == "fixed_point":
            moving = moving & ((new != at.tokens) | opened | at.open).any(axis=0)
        return after._replace(open=jnp.where(moving[None], opened, False), moving=moving)

    def _predicted(self, at: Hypothesis, free: Held, t: Array) -> Held:
        """The open cells; in the first pass over tokens that were never predicted, every one."""
        return jnp.where(t == 0, free, at.open)

    def _shown_value(self, target: Target, tokens: Codes, keys: PRNGKeyArray) -> Codes:
        if self.rules.start == "hide":
            return jnp.full_like(tokens, target.graph.most_values)
        return uniform_values(target, keys, tokens)

    def decode(self, logits: Float[Array, "chains cells values"], keys: PRNGKeyArray) -> tuple[Array, Array, Array]:
        """Tokens with their log p and how sure they are, cells first; log p is the network's own, whatever the temperature.

        Where the network gives no distribution the token is `UNDEFINED`, and stays so.
        """
        # as a network's product has them: nothing is transposed
        by_value = jnp.moveaxis(logits, -1, 0)
        total = jax.nn.logsumexp(by_value, axis=0)
        if self.rules.decode == "argmax":
            own, token = likeliest(by_value)
        else:
            narrowed = narrow(logits / self.rules.temperature, self.rules.top_k, self.rules.top_p)
            token = pick_token(narrowed, token_words(keys, *logits.shape[1:]).transposed)
            own = jnp.take_along_axis(logits, token[..., None], axis=-1)[..., 0]
        log_p, token = own - total, jnp.where(jnp.isfinite(total), token, UNDEFINED)
        return token.T, log_p.T, self._sure(logits, total, log_p).T

    @property
    def readout(self) -> Readout:
        """What a pass makes of logits."""
        r = self.rules
        return Readout(r.decode, r.temperature, r.top_k, r.top_p, r.confidence, r.planner != "none")

    def sureness(self, logits: Float[Array, "chains cells values"]) -> Float[Array, "cells chains"]:
        """Confidence in a cell whatever its value is; of the likeliest one where confidence is a probability."""
        total = jax.nn.logsumexp(logits, axis=-1)
        return self._sure(logits, total, logits.max(axis=-1) - total).T

    def log_p_of(self, logits: Float[Array, "chains cells values"], codes: Codes) -> Float[Array, "cells chains"]:
        """log of the probability with which a pass draws each cell's value."""
        drawn = jax.nn.log_softmax(narrow(logits / self.rules.temperature, self.rules.top_k, self.rules.top_p), axis=-1)
        return jnp.take_along_axis(drawn, jnp.maximum(codes.T, 0)[..., None], axis=-1)[..., 0].T

    def _sure(self, logits: Float[Array, "chains cells values"], total: Float[Array, "chains cells"], log_p: Array) -> Array:
        return self.readout.sure(logits, total, log_p)

    def reopened(self, after: Hypothesis, free: Held, present: Held, t: Array, keys: PRNGKeyArray) -> Held:
        """The cells that the next pass predicts (where it does not predict all), after `t` passes."""
        rules = self.rules
        # What the pass predicted is open until it is kept: in the first pass, all that is free.
        candidates = free if rules.remask == "least_confident" or rules.planner != "none" else jnp.where(t == 1, free, after.open)
        if rules.remask in PUBLISHED:
            settles, again = self.rates(after.confidence, free & ~candidates, t)
            chance = jnp.where(candidates, 1 - settles, again)
            return free & happens(chance, 1 - chance, words_apart(fold_apart(keys, 2), free.shape[0]))
        if rules.schedule == "all" or self.law is not None:
            found = after.open if self.law is not None else jnp.zeros_like(free)
        else:
            found = self.left_open(after.confidence, candidates, free, t, fold_apart(keys, 1))
        if rules.remask == "random":
            found = found | (free & ~found & happens(rules.eta, 1 - rules.eta, words_apart(keys, free.shape[0])))
        if rules.remask == "stutter":
            found = found | (free & stuttering(after.tokens, present))
        return found

    def rates(self, sure: Float[Array, "cells chains"], settled: Held, t: Array) -> tuple[Array, Float[Array, "cells chains"]]:
        """After `t` passes the probability that an open cell settles, and of each settled one that it is hidden again.

        Under `remdm_confidence` sigma of a settled cell is the share exp(-confidence) of it among
        the settled ones. Reference: Wang et al. 2025, Section 4.1, and their public code.
        """
        assert self.plan.settles is not None
        assert self.plan.again is not None
        again = jnp.broadcast_to(self.plan.again[t - 1], sure.shape)
        if self.rules.remask == "remdm_confidence":
            again = again * jnp.nan_to_num(jax.nn.softmax(jnp.where(settled, -sure, -jnp.inf), axis=0))
        return self.plan.settles[t - 1], again

    def left_open(self, sure: Float[Array, "cells chains"], candidates: Held, free: Held, t: Array, keys: PRNGKeyArray | None) -> Held:
        """The candidates that stay open after `t` passes, by the order and the schedule; all of later blocks.

        Of equally confident ones, those that rounding alone tells apart among them, the first
        settle; under `remask = least_confident` the first stay open. `keys` are of a random order.
        """
        pool, held = candidates, candidates.sum(axis=0, dtype=jnp.int32)
        if self.plan.open_after is not None:
            here, counts = self.plan.pool(free, t)
            pool, counts = candidates & here, counts.astype(held.dtype)
        elif self.rules.schedule == "threshold":
            counts = jnp.minimum((candidates & (sure < self.rules.threshold)).sum(axis=0, dtype=jnp.int32), held - 1)
        else:  # easy_first
            counts = held - 1
        if self.rules.remask == "least_confident":
            return least(jnp.where(candidates, sure, jnp.inf), jnp.minimum(counts, held)) & candidates
        match self.rules.order:
            case "confidence":
                place = ranks(jnp.where(pool, -jnp.round(sure / ROUNDING), jnp.inf))
            case "random" if keys is not None:
                place = random_ranks(keys, pool)
            case _:  # by their places, as also where a pass settles all of a pool, for which a random order takes no keys
                place = jnp.cumsum(pool, axis=0, dtype=jnp.int32) - 1
        settle = pool.sum(axis=0, dtype=jnp.int32) - counts
        return (pool & (place.astype(jnp.int32) >= settle[None])) | (candidates & ~pool)


def refinement_kernel(lowered: Lowered, call: ir.FormCall, bound: Bound | None = None) -> RefinementKernel:
    """The kernel of `refinement` or of one of its presets; `bound`: the program that it is written in, where it is not the model's.

    Raises:
        GmlmError: E741 for a schedule's mask that looks at x.
    """
    found = refinement(call, lowered.bound if bound is None else bound)
    plan = plan_of(passes := passes_of(call, found, sum(v.size for v in lowered.graph.observed)))
    schedule, law = found["schedule"], None
    if isinstance(schedule, ir.Mask):
        law = mask_law(unadapted(lowered, schedule))
    kept = {name: found[name] for name in ("start", "order", "confidence", "decode", "remask", "stop", "planner")}
    kept |= {name: float(found[name]) for name in ("threshold", "temperature", "eta")}
    kept |= {"top_k": None if found["top_k"] == "none" else int(found["top_k"])}
    kept |= {"top_p": None if found["top_p"] == "none" else float(found["top_p"])}
    word = "mask" if law else schedule if isinstance(schedule, str) else "counts"
    return RefinementKernel(Rules(passes.total, schedule=word, **kept), law, plan)


def uniform_values(target: Target, keys: PRNGKeyArray, like: Codes) -> Codes:
    """Independent uniform values of the shape of `like`."""
    return whole_below(target.graph.most_values, words_apart(keys, like.shape[0])).astype(like.dtype)


def stuttering(tokens: Codes, present: Held) -> Held:
    """The second and later tokens of a run of equal ones; the first cell has none before it."""
    again = (tokens[1:] == tokens[:-1]) & present[1:] & present[:-1]
    return jnp.concatenate([jnp.zeros_like(again[:1]), again])


def narrow(logits: Float[Array, "*shape values"], top_k: int | None, top_p: Any) -> Float[Array, "*shape values"]:
    """Logits with all but the `top_k` likeliest values, or all but the fewest that hold probability `top_p`, at -infinity.

    Of equal logits at the edge all stay. What rounding alone tells apart is equal, so that single
    and double precision keep the same values: 0.5 and 0.3 hold probability 0.8. Reference: Fan et
    al. 2018 (top-k), Holtzman et al. 2020 (top-p).
    """
    if top_k is not None and top_k < logits.shape[-1]:
        logits = _from_edge(logits, jax.lax.top_k(logits, top_k)[0][..., -1:])
    if top_p is not None and (isinstance(top_p, jax.Array) or top_p < 1):
        ordered = jnp.flip(jnp.sort(logits, axis=-1), axis=-1)
        p = jax.nn.softmax(ordered, axis=-1)
        # what stands before does not hold enough
        needed = jnp.cumsum(p, axis=-1) - p < top_p * (1 - ROUNDING)
        logits = _from_edge(logits, jnp.where(needed, ordered, jnp.inf).min(axis=-1, keepdims=True))
    return logits


def _from_edge(logits: Array, edge: Array) -> Array:
    return jnp.where(logits >= edge - ROUNDING * jnp.maximum(1, jnp.abs(edge)), logits, -jnp.inf)
