"""Decoding by iterative refinement: passes over all cells at once, as one step of a kernel.

The number of passes is fixed. A pass predicts the open cells from the present tokens. Then the
schedule decides which cells the next pass predicts again:

    all               every cell, each pass
    linear, cosine    floor(n (T - t) / T), floor(n cos(pi t / 2T)) cells after pass t of T
    counts            all but the number of cells that it lists
    threshold         cells less confident than the threshold; each pass settles at least one
    easy_first        all but one more at each pass
    a mask            K drawn from the mask

`order` decides which of the open cells these are: the least confident, any, or those on the right.
Blocks are decoded one after another. A planner scores settled cells too, and hides those of low
score again. Under the rules of Wang et al. 2025 each open cell settles, and each settled one is
hidden again, with a probability of its own. An open cell is shown as in the start: hidden, or as a
uniform value. All state is per chain: candidate lengths and starts are chains that share one
encoding, and no array of (chains, cells, values) is carried from pass to pass.

Reference: Ghazvininejad et al. 2019 (mask-predict), Savinov et al. 2022 (SUNDAE), Wang et al. 2025
(ReMDM), Peng et al. 2025 (path planning), Li et al. 2024, Section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from .._diagnostics import Span, fail
from ..graph import Bound, Lowered, Passes, passes_of, refinement, user_function
from ..networks import AbstractNetwork
from ..program import PUBLISHED, ir, is_function
from ._arrays import float_type, on_device
from ._energy import Codes
from ._kernel import Info, State, Target
from ._mask_law import AbstractMaskLaw, mask_law
from ._membership import members, random_ranks
from ._network import UNDEFINED, NetworkGraph, encode, likeliest, network_graph, reducible
from ._network_kernels import AbstractDecoder, Decoded, Held, free_cells, least, ranks, unadapted
from ._picks import happens, pick_token, token_words, whole_below
from ._random import fold_apart, words_apart
from .limits import LEAST_SCORE, TIE_ROUNDING, TRIED_LEADING

# how functions of the user's are called
CALLED = {
    "confidence": "`confidence(log_p)`: from log p of shape (.., values) to numbers of shape (..), by `jax.numpy`",
    "planner": "`planner(codes, log_p)`: from codes (.., cells) and log p (.., cells, values) to numbers of shape (.., cells)",
}


@dataclass(frozen=True)
class Rules:
    """Options of `refinement`, see the language reference."""

    steps: int  # passes over all blocks together
    start: str
    schedule: str  # a word, `counts` or `mask`
    order: str
    threshold: float
    confidence: str | Callable[[Array], Array]  # a word, or a function of the user's
    decode: str
    temperature: float
    top_k: int | None
    top_p: float | None
    remask: str
    eta: float
    stop: str
    planner: str | Callable[[Array, Array], Array]  # `none`, `self`, the name of a network, or a function of the user's


@dataclass(frozen=True)
class Readout:
    """Map from the logits of a pass to its predictions.

    It contains only the rules of a decoder that determine the map, so that decoders share programs.
    """

    decode: str
    temperature: float
    top_k: int | None
    top_p: float | None
    confidence: str | Callable[[Array], Array]
    planned: bool

    def __call__(self, logits: Float[Array, "chains cells values"]) -> tuple[Array, Array, Array]:
        """Return for every value the results that `decode` gives for one token.

        They are the probability that a pass takes the value, its log p, and the confidence of the
        pass in it.
        """
        total = jax.nn.logsumexp(logits, axis=-1)
        if self.decode == "argmax":
            p = jax.nn.one_hot(likeliest(logits)[1], logits.shape[-1], dtype=logits.dtype)
        else:
            p = jax.nn.softmax(narrow(logits / self.temperature, self.top_k, self.top_p), axis=-1)
        log_p = logits - total[..., None]
        sure = self.sure(logits, total, log_p)
        return p, log_p, jnp.broadcast_to(sure if sure.ndim == log_p.ndim else sure[..., None], log_p.shape)

    def sure(self, logits: Float[Array, "chains cells values"], total: Float[Array, "chains cells"], log_p: Array) -> Array:
        """Return the confidence in each value or in each cell.

        The method decides whether confidence depends on the `log_p` of a token or on the cell as a
        whole. With a planner the confidence is log p itself.
        """
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
            case "probability":
                return jnp.exp(log_p)
            case _:
                assert callable(self.confidence)
                found = self.confidence(logits - total[..., None])
                least = jnp.finfo(found.dtype).min  # -infinity marks cells that no pass predicted
                return jnp.nan_to_num(found, nan=least, neginf=least)


class Hypothesis(NamedTuple):
    """State of a decode; chains are the last axis, after cells.

    `log_p` and `confidence` are those of each token at the pass that last predicted it. `open` has
    the cells that the next pass predicts. `seen` has the tokens that the previous pass saw, if
    passes are recorded.
    """

    tokens: Codes
    seen: Codes
    log_p: Float[Array, "cells chains"]
    confidence: Float[Array, "cells chains"]
    open: Held
    moving: Bool[Array, " chains"]
    passes: Int[Array, " chains"]


class Plan(eqx.Module):
    """Times at which cells settle, on the device; see `Passes`."""

    steps: int = eqx.field(static=True)
    block: int = eqx.field(static=True)
    open_after: Int[Array, "pools passes"] | None
    settles: Float[Array, " passes"] | None
    again: Float[Array, " passes"] | None

    def pool(self, free: Held, t: Array) -> tuple[Held, Int[Array, " chains"]]:
        """Return the block of pass `t` (from 1), and the number of its open cells afterwards."""
        assert self.open_after is not None
        t = jnp.asarray(t, jnp.int32)
        rank, number = jnp.cumsum(free, axis=0, dtype=jnp.int32) - 1, (t - 1) // self.steps
        here = free & (rank // self.block == number)
        return here, self.open_after[here.sum(axis=0, dtype=jnp.int32), t - number * self.steps]


def plan_of(passes: Passes) -> Plan:
    """Return the device form of passes."""
    real = (None if a is None else on_device(a) for a in (passes.settles, passes.again))
    table = None if passes.open_after is None else on_device(passes.open_after, np.int32)
    return Plan(passes.steps, passes.block, table, *real)


class RefinementKernel(AbstractDecoder):
    """Kernel whose step is one decode, from the start to the last pass.

    A step does not depend on the step before. `law` is the distribution of the schedule's mask, and
    `plan` has the times at which cells settle. With `draft`, tokens start at the codes of the
    chain's start.
    """

    rules: Rules = eqx.field(static=True)
    law: AbstractMaskLaw | None
    plan: Plan
    draft: bool = eqx.field(static=True, default=False)
    trace: bool = eqx.field(static=True, default=False)

    @property
    def may_end(self) -> bool:
        """Whether passes may be skipped.

        Skipping takes a branch at each pass, whereas a fixed number of passes takes none.
        """
        return self.rules.stop == "fixed_point" or self.rules.schedule in ("threshold", "easy_first")

    @property
    def repeats(self) -> bool:
        """Whether a pass that leaves all tokens as they are is followed by equal passes.

        It is, if every pass predicts all cells from the tokens alone, without random numbers, and
        opened no cell again. Such passes are counted, and not computed.
        """
        r = self.rules
        return (r.schedule, r.decode) == ("all", "argmax") and not self.may_end

    @property
    def kept_passes(self) -> int:
        return self.rules.steps if self.trace else 0

    def step(self, target: Target, keys: PRNGKeyArray, state: State) -> tuple[State, Info]:
        free, draft = free_cells(target), state.memory.draft
        first, planner = self.begin(target, draft, free, fold_apart(keys, 0)), self._planner(target)

        def once(carried: tuple[Hypothesis, Array], t: Array) -> tuple[tuple[Hypothesis, Array], Array | None]:
            def move(h: Hypothesis) -> Hypothesis:
                return self.one_pass(target, h, free, t, fold_apart(keys, t + 1), planner)

            before, still = carried
            if self.may_end:
                at = jax.lax.cond(before.moving.any(), move, lambda h: h, before)
            elif self.repeats:
                at = jax.lax.cond(still, lambda h: h._replace(passes=h.passes + 1), move, before)
                still = still | ~(before.open | (at.tokens != before.tokens)).any()
            else:
                at = move(before)
            return (at, still), jnp.where(at.open & (at.confidence == -jnp.inf), -1, at.tokens) if self.trace else None

        (end, _), trace = jax.lax.scan(once, (first, jnp.asarray(False)), jnp.arange(self.rules.steps))
        # a mask may leave cells of a draft unpredicted
        count, predicted = free.sum(axis=0), free & (end.confidence > -jnp.inf)
        score = jnp.where(predicted, end.log_p, 0.0).sum(axis=0) / jnp.maximum(predicted.sum(axis=0), 1).astype(end.log_p.dtype)
        length = target.graph.lengths.reshape(-1).astype(jnp.int32)
        memory = Decoded(score, score, end.passes, state.memory.trace if trace is None else trace, self.kept(end.seen), draft, length)
        drawn = count.astype(jnp.int32) * self.rules.steps
        changed = (end.tokens != state.codes).sum(axis=0, dtype=jnp.int32)
        none = jnp.zeros((0, count.shape[0]), jnp.int32)
        return State(end.tokens, memory), Info(changed[None], drawn[None], none, none)

    def begin(self, target: Target, draft: Codes, free: Held, keys: PRNGKeyArray) -> Hypothesis:
        """Return the state before the first pass.

        Free cells are hidden, or have uniform values, or have the tokens of the draft. Under a
        mask's schedule, a cell that does not come from a draft is open until it is predicted: the
        last pass settles the cells that no K contained.

        Args:
            target: the network over some rows.
            draft: the codes of the chain's start, shape (cells, chains).
            free: the cells that may change.
            keys: a key for each chain.
        """
        zero = jnp.zeros(draft.shape)
        unsettled = not self.draft and (self.rules.start == "hide" or self.law is not None)
        hidden = free if unsettled else jnp.zeros_like(free)
        # Hidden cells need no values, and random ones would take as long as a layer.
        own = self.draft or self.rules.start == "hide"
        tokens = draft if own else jnp.where(free, uniform_values(target, keys, draft), draft)
        chains = jnp.arange(draft.shape[1])
        return Hypothesis(tokens, tokens, zero, zero - jnp.inf, hidden, chains >= 0, jnp.zeros_like(chains, jnp.int32))

    def _planner(self, target: Target) -> NetworkGraph | None:
        """Return the network that plans, over the chains of the target.

        The result is None if there is no planner or the model plans itself.
        """
        name, graph = self.rules.planner, target.graph
        if name in ("none", "self") or callable(name):
            return None
        network: AbstractNetwork = target.params[name]
        return network_graph(network, name, encode(network, (), (), graph.lengths.shape[0]), graph.lengths, graph.n_cells)

    def trusted(self, logits: Float[Array, "chains cells values"], tokens: Codes) -> Float[Array, "cells chains"]:
        """Return the planner's score of a settled cell, eta log p(its value).

        A planner of Python has its own number in place of log p. Open cells have the score log p.
        Reference: Peng et al. 2025.
        """
        log_p, codes = jax.nn.log_softmax(logits, axis=-1), jnp.maximum(tokens.T, 0)
        plans = self.rules.planner
        own = plans(codes, log_p) if callable(plans) else jnp.take_along_axis(log_p, codes[..., None], axis=-1)[..., 0]
        return self.rules.eta * jnp.maximum(own.T, LEAST_SCORE)

    def one_pass(
        self, target: Target, at: Hypothesis, free: Held, t: Array, keys: PRNGKeyArray, planner: NetworkGraph | None = None
    ) -> Hypothesis:
        """Predict the open cells, then determine the cells that the next pass predicts.

        A chain that has stopped stays as it is.

        Args:
            target: the network over some rows.
            at: the state before the pass.
            free: the cells that may change.
            t: the number of the pass, from 0.
            keys: a key for each chain.
            planner: the network that plans, or None.
        """
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
        """Return the open cells, or every free cell in the first pass.

        In the first pass no token has been predicted yet.
        """
        return jnp.where(t == 0, free, at.open)

    def _shown_value(self, target: Target, tokens: Codes, keys: PRNGKeyArray) -> Codes:
        if self.rules.start == "hide":
            return jnp.full_like(tokens, target.graph.most_values)
        return uniform_values(target, keys, tokens)

    def decode(self, logits: Float[Array, "chains cells values"], keys: PRNGKeyArray) -> tuple[Array, Array, Array]:
        """Return tokens with their log p and the confidence in them, cells first.

        log p is the network's own, whatever the temperature. If the network does not define a
        distribution, the token is `UNDEFINED`, and stays so.
        """
        values, axis = reducible(logits)
        total = jax.nn.logsumexp(values, axis=axis)
        if self.rules.decode == "argmax":
            own, token = likeliest(logits)
        else:
            narrowed = narrow(logits / self.rules.temperature, self.rules.top_k, self.rules.top_p)
            token = pick_token(narrowed, token_words(keys, *logits.shape[1:]).transposed)
            own = jnp.take_along_axis(logits, token[..., None], axis=-1)[..., 0]
        log_p, token = own - total, jnp.where(jnp.isfinite(total), token, UNDEFINED)
        return token.T, log_p.T, self._sure(logits, total, log_p).T

    @property
    def readout(self) -> Readout:
        """The map from the logits of a pass to its predictions."""
        r = self.rules
        return Readout(r.decode, r.temperature, r.top_k, r.top_p, r.confidence, r.planner != "none")

    def sureness(self, logits: Float[Array, "chains cells values"]) -> Float[Array, "cells chains"]:
        """Return the confidence in a cell whatever its value is.

        If confidence is a probability, it is that of the likeliest value.
        """
        total = jax.nn.logsumexp(logits, axis=-1)
        return self._sure(logits, total, logits.max(axis=-1) - total).T

    def log_p_of(self, logits: Float[Array, "chains cells values"], codes: Codes) -> Float[Array, "cells chains"]:
        """Return the log of the probability with which a pass draws each cell's value."""
        drawn = jax.nn.log_softmax(narrow(logits / self.rules.temperature, self.rules.top_k, self.rules.top_p), axis=-1)
        return jnp.take_along_axis(drawn, jnp.maximum(codes.T, 0)[..., None], axis=-1)[..., 0].T

    def _sure(self, logits: Float[Array, "chains cells values"], total: Float[Array, "chains cells"], log_p: Array) -> Array:
        return self.readout.sure(logits, total, log_p)

    def reopened(self, after: Hypothesis, free: Held, present: Held, t: Array, keys: PRNGKeyArray) -> Held:
        """Return the cells that the next pass predicts.

        It serves schedules that do not predict all cells at each pass.

        Args:
            after: the state after the pass.
            free: the cells that may change.
            present: the cells that are not padding.
            t: the number of passes so far.
            keys: a key for each chain.
        """
        rules = self.rules
        # A cell that the pass predicted is open until it is kept; in the first pass these are all
        # free cells.
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
        """Return two probabilities after `t` passes: of settling and of reopening.

        The first is the probability that an open cell settles. The second is the probability that a
        settled cell is hidden again. Under `remdm_confidence`, sigma of a settled cell is its share
        of exp(-confidence) among the settled cells. Reference: Wang et al. 2025, Section 4.1, and
        their public code.
        """
        assert self.plan.settles is not None
        assert self.plan.again is not None
        again = jnp.broadcast_to(self.plan.again[t - 1], sure.shape)
        if self.rules.remask == "remdm_confidence":
            again = again * jnp.nan_to_num(jax.nn.softmax(jnp.where(settled, -sure, -jnp.inf), axis=0))
        return self.plan.settles[t - 1], again

    def left_open(self, sure: Float[Array, "cells chains"], candidates: Held, free: Held, t: Array, keys: PRNGKeyArray | None) -> Held:
        """Return the candidates that stay open after `t` passes, by the order and the schedule.

        All candidates of later blocks stay open. Among equally confident cells, which may differ by
        rounding, the first settle. Under `remask = least_confident`, the first of equally confident
        cells stay open.

        Args:
            sure: the confidence in each cell.
            candidates: the cells that may stay open.
            free: the cells that may change.
            t: the number of passes so far.
            keys: a key for each chain, for a random order; or None.
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
                place = ranks(jnp.where(pool, -jnp.round(sure / TIE_ROUNDING), jnp.inf))
            case "random" if keys is not None:
                place = random_ranks(keys, pool)
            # Cells settle by their places. The same serves a pass that settles a whole pool, for
            # which a random order takes no keys.
            case _:
                place = jnp.cumsum(pool, axis=0, dtype=jnp.int32) - 1
        settle = pool.sum(axis=0, dtype=jnp.int32) - counts
        return (pool & (place.astype(jnp.int32) >= settle[None])) | (candidates & ~pool)


def refinement_kernel(lowered: Lowered, call: ir.FormCall, bound: Bound | None = None) -> RefinementKernel:
    """Return the kernel of `refinement` or of one of its presets.

    `bound` is the program that contains the call, if that is not the model's program.

    Raises:
        GmlmError: E741 for a data-dependent mask as the schedule; E744 for a confidence, planner or
            schedule of Python that cannot be used.
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
    sizes = sum(v.size for v in lowered.graph.observed), int(lowered.graph.sizes.max())
    kept |= {name: user_scores(name, str(kept[name]), call.span, *sizes) for name in CALLED if is_function(kept[name])}
    word = "mask" if law else schedule if isinstance(schedule, str) else "counts"
    return RefinementKernel(Rules(passes.total, schedule=word, **kept), law, plan)


def user_scores(name: str, target: str, place: Span, n_cells: int, n_values: int) -> Callable[..., Array]:
    """Import a confidence or a planner: a function to a number for each cell.

    Args:
        name: `confidence` or `planner`.
        target: "package.module:name".
        place: where the program names it.
        n_cells: the number of cells.
        n_values: the number of values of a cell.

    Raises:
        GmlmError: E744 if it cannot be imported, JAX cannot trace it, its result has another shape,
            or it is NaN for cells whose value is certain.
    """
    found, called = user_function(target, place, CALLED[name]), CALLED[name]
    # One row alone, and many: a function that counts axes from the first fails for one of them.
    for cells in ((n_cells,), (*TRIED_LEADING, n_cells)):
        table = (*cells, n_values)
        codes = (jax.ShapeDtypeStruct(cells, np.int32),) if name == "planner" else ()
        try:
            result = jax.eval_shape(found, *codes, jax.ShapeDtypeStruct(table, float_type()))
            fits = getattr(result, "shape", None) == cells and jnp.issubdtype(result.dtype, jnp.floating)
        except Exception as error:  # The function is the user's, and may raise any exception.
            message = f"`{target}` cannot be called: {type(error).__name__}: {error}"
            raise fail("E744", message, place, "called here", help=called) from error
        if not fits:
            got = type(result).__name__
            if isinstance(result, jax.ShapeDtypeStruct):
                got = f"{result.dtype} of shape {result.shape}"
            message = f"`{target}` must return floats of shape {cells} for log p of shape {table}"
            raise fail("E744", f"{message}, got {got}", place, "called here", help=called)
    certain = jnp.where(jnp.arange(n_values) == 0, 0.0, jnp.full((n_cells, n_values), -jnp.inf))
    codes = (jnp.zeros(n_cells, np.int32),) if name == "planner" else ()
    if np.isnan(found(*codes, certain)).any():
        message, p = f"`{target}` returns NaN where a value has probability 1", "jnp.where(p > 0, p * log_p, 0)"
        raise fail("E744", message, place, "called here", help=f"log p of the other values is -infinity; write `{p}` for p log p")
    return found


def uniform_values(target: Target, keys: PRNGKeyArray, like: Codes) -> Codes:
    """Return independent uniform values in the shape of `like`."""
    return whole_below(target.graph.most_values, words_apart(keys, like.shape[0])).astype(like.dtype)


def stuttering(tokens: Codes, present: Held) -> Held:
    """Return the second and later tokens of each run of equal tokens.

    The first cell has no token before it.
    """
    again = (tokens[1:] == tokens[:-1]) & present[1:] & present[:-1]
    return jnp.concatenate([jnp.zeros_like(again[:1]), again])


def narrow(logits: Float[Array, "*shape values"], top_k: int | None, top_p: Array | float | None) -> Float[Array, "*shape values"]:
    """Return logits with all but the likeliest values set to -infinity.

    The `top_k` likeliest values remain, or the smallest set of values with total probability
    `top_p`. All equal logits at the edge remain. Logits that differ only by rounding count as
    equal, so that single and double precision keep the same values: 0.5 and 0.3 have total
    probability 0.8. Reference: Fan et al. 2018 (top-k), Holtzman et al. 2020 (top-p).
    """
    if top_k is not None and top_k < logits.shape[-1]:
        logits = _from_edge(logits, jax.lax.top_k(logits, top_k)[0][..., -1:])
    if top_p is not None and (isinstance(top_p, jax.Array) or top_p < 1):
        ordered = jnp.flip(jnp.sort(logits, axis=-1), axis=-1)
        p = jax.nn.softmax(ordered, axis=-1)
        # the values before this one do not reach the probability
        needed = jnp.cumsum(p, axis=-1) - p < top_p * (1 - TIE_ROUNDING)
        logits = _from_edge(logits, jnp.where(needed, ordered, jnp.inf).min(axis=-1, keepdims=True))
    return logits


def _from_edge(logits: Array, edge: Array) -> Array:
    slack = TIE_ROUNDING * jnp.maximum(1, jnp.abs(edge))
    return jnp.where(logits >= edge - slack, logits, -jnp.inf)
