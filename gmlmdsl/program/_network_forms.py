"""The forms of networks, and of the options and samplers that train and decode them.

Each form has options with defaults and documentation.

The forms of guided generation (Li 2025, chapter 3) are verifiers and values of prefixes, and the
samplers that evaluate them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ._form import (
    BOOLEAN,
    CELL_VALUE,
    CONFIDENCE,
    COUNTS,
    INTEGER,
    JUDGE,
    MODEL,
    NETWORK,
    NOISE,
    NUMBER,
    PLANNER,
    PROBABILITIES,
    SCHEDULE,
    TEXT,
    WORD,
    Bounds,
    Form,
    Option,
    named,
)

_ROOMS = ("sampler", "network", "verifier", "value")
_sampler, _network, _verifier, _value = (partial(Form, room) for room in _ROOMS)
# These options determine a network's input under a mask. They exist only in models with a
# `conditional`.
SEEN = (
    named("noise", NOISE, "probabilities of the network's inputs in the cells of K, with sum 1", "{hide: 1}"),
    named(
        "stages",
        INTEGER,
        "number of losses per row and mask, of which the mean is taken; after the first, "
        "the network's input is its own prediction, through which no gradient passes",
        "1",
    ),
    named("stage_inputs", WORD, "values of that prediction: `argmax` or `sample`", "argmax", words=("argmax", "sample")),
)
# `PUBLISHED` lists the rules that hide each settled cell again independently of the others.
# `RENAMED` maps former words to their current names.
PUBLISHED = ("remdm_cap", "remdm_rescale", "remdm_confidence", "forward_backward", "dfm")
RENAMED = {"remdm": "random"}
_REFINEMENT = (
    named(
        "steps",
        INTEGER,
        "T, the number of passes, or of passes per block; `cells`: one pass for each cell. It is not "
        "allowed together with `counts`, whose list fixes T",
        "4",
        words=("cells",),
    ),
    named("lengths", INTEGER, "number of candidate lengths, the most probable first; 1 if the network predicts no length", "1"),
    named("starts", INTEGER, "number of candidates per length, each with its own start; only if `start` or `decode` is random", "1"),
    named("start", WORD, "the input of a cell before it is predicted, and when it is predicted again", "hide", words=("hide", "uniform")),
    named(
        "schedule",
        SCHEDULE,
        "the cells that the next pass predicts, after t passes over n cells. `all`: every cell. "
        "`linear`, `cosine`: the last cells by `order`, n (T - t) / T or n cos(pi t / 2 T) of them, "
        "rounded down. `counts([2, 3, 3])`: each pass settles its number of cells. The numbers may "
        'be an input, or the result of `python("package.module:name")` at n. `threshold`: the cells '
        "below `threshold`. `easy_first`: one cell fewer per pass. A mask: the cells of a draw. The "
        "last pass settles all. Default: `linear` if another option needs a schedule, else `all`",
        words=("all", "linear", "cosine", "threshold", "easy_first"),
    ),
    named(
        "order",
        WORD,
        "the open cells that a pass settles first. `confidence`: the most confident cells, and the "
        "first of equals. `random`: random cells, drawn again in each pass. `left_to_right`: the "
        "first cells. Default: `random` if `remask` settles cells at random, else `confidence`",
        words=("confidence", "random", "left_to_right"),
    ),
    named(
        "block",
        INTEGER,
        "number of cells of a block; blocks are decoded one after another from the left, each by all passes of the schedule",
        "none",
        words=("none",),
    ),
    named("threshold", NUMBER, "the confidence at which a cell is settled", "0.9", bounds=Bounds(0, 1, "low")),
    named(
        "confidence",
        CONFIDENCE,
        "the confidence of a token. `probability`: its probability. `margin`: the lead of the most "
        "probable value over the next one. `entropy`: 1 - entropy / log q, for q values. "
        '`python("package.module:name")`: a function of log p of the values. '
        "Default: `margin` if tokens are drawn, else `probability`",
        words=("probability", "margin", "entropy"),
    ),
    named("decode", WORD, "how a token is chosen from its distribution", "argmax", words=("argmax", "sample")),
    named("temperature", NUMBER, "for `sample`: log probabilities are divided by it", "1", bounds=Bounds(0, open="low")),
    named("top_k", INTEGER, "for `sample`: only the k most probable values, or all if there are fewer", "none", words=("none",)),
    named(
        "top_p", NUMBER, "for `sample`: the fewest values with this total probability", "none", words=("none",), bounds=Bounds(0, 1, "low")
    ),
    named(
        "remask",
        WORD,
        "the settled cells that are predicted again. `stutter`: all but the first of a run of equal "
        "tokens. `least_confident`: the least confident. `random`: each with probability `eta`. "
        "`remdm_cap`, `remdm_rescale`, `remdm_confidence` (Wang et al. 2025), `forward_backward` "
        "(Campbell et al. 2022), `dfm` (Gat et al. 2024): each with a probability from the paper, "
        "and open cells settle with a probability too",
        "none",
        words=("none", "stutter", "least_confident", "random", *PUBLISHED, *RENAMED),
    ),
    named(
        "planner",
        PLANNER,
        "path planning (Peng et al. 2025): the next pass predicts the cells of the lowest score, "
        "settled ones included; the schedule gives their number. An open cell's score is the "
        "probability of its drawn value, and a settled cell's score is the probability of its value "
        "to the power of `eta`. `self`: the model's conditional gives the probabilities. The name of "
        "a network: this network gives them, with weights among the parameters; it sees the whole "
        'row. `python("package.module:name")`: a function of the row and of log p of the pass. '
        "A planner replaces `order`, so `random_order` has no planner",
        "none",
        words=("none", "self"),
    ),
    named(
        "eta",
        NUMBER,
        "the probability that a settled cell is hidden again (`random`), its maximum (`remdm_cap`), "
        "or a factor of its maximum (`remdm_rescale`, `remdm_confidence`). With a `planner`, the power "
        "in the score; at 0 no settled cell is hidden again. Default: 1 with a `planner`, else 0.1",
        bounds=Bounds(0),
    ),
    named("from", NUMBER, "the share of the passes after which settled cells are hidden again", "0", bounds=PROBABILITIES),
    named("until", NUMBER, "the share of the passes after which no cell is hidden again", "1", bounds=PROBABILITIES),
    named(
        "loop",
        NUMBER,
        "the share of settled cells from `from` to `until`; each pass settles as many as it hides",
        "none",
        words=("none",),
        bounds=Bounds(0, 1, "both"),
    ),
    named("stop", WORD, "`fixed`: T passes; `fixed_point`: a row ends if a pass changes nothing", "fixed", words=("fixed", "fixed_point")),
)


REFINEMENT = _sampler(
    "refinement",
    _REFINEMENT,
    "Parallel decoding by iterative refinement; in a model with a joint distribution from its exact conditionals.",
)
_TOKENS = tuple(o for o in _REFINEMENT if o.name in ("decode", "temperature", "top_k", "top_p"))
AUTOREGRESSIVE = _sampler(
    "autoregressive",
    (
        named("end", CELL_VALUE, "the end value; it is the last cell of a row", "none", words=("none",)),
        named("beam", INTEGER, "beam width, the number of rows that are kept; 1 is greedy search", "1"),
        named("length_penalty", NUMBER, "a: rows are compared by log p / n^a, where n is the number of their cells", "1", bounds=Bounds(0)),
        *_TOKENS,
    ),
    "Beam search or draws, cell by cell from the first to the last. It needs a network with "
    "`causal = true`, or a model of one `var` without a network. In such a model p(next cell | cells "
    "before) is exact, and `log_prob` of a beam is its exact log p. A search may miss the most "
    "probable string; `model.map` finds a most probable configuration, latents included.",
)
_LAYERS = (
    named("layers", INTEGER, "number of blocks", "4"),
    named("heads", INTEGER, "number of attention heads; a divisor of the width", "8"),
    named("width", INTEGER, "model width", "256"),
    named("ffn", INTEGER, "inner width of the feed-forward part", "4 * width"),
    named("dropout", NUMBER, "share of activations that are dropped in training", "0", bounds=Bounds(0, 1, "high")),
)
_ADDED = named(
    "position_embeddings",
    BOOLEAN,
    "whether rows of the table of positions are added to the embeddings of cells and given values. "
    "Without them, a visible cell has the distances to other cells, but hardly its own position",
    "false",
)
_CAUSAL = named("causal", BOOLEAN, "whether each cell sees only the cells before it, as `autoregressive` needs", "false")
_DECODER = (
    _CAUSAL,
    named(
        "positional_attention",
        BOOLEAN,
        "whether blocks of the decoder attend by position alone as well; without effect if `causal`",
        "true",
    ),
    _ADDED,
    named("decoder_layers", INTEGER, "number of blocks of the decoder", "layers"),
    named(
        "positions",
        INTEGER,
        "number of rows of the table of positions, which a `causal` network lacks: the maximum "
        "length of the predicted array, and of the given arrays with `position_embeddings`",
        "256",
    ),
    named(
        "length",
        WORD,
        "prediction of the array's length. `classifier`: one class for each length. `affine`: a "
        "multiple of the given length plus a constant. `fertility`: a sum over given cells. `oracle`: none",
        "classifier",
        words=("classifier", "affine", "fertility", "oracle"),
    ),
    named("length_weight", NUMBER, "weight of the length loss of a row, relative to the loss of its cells", "0.1", bounds=Bounds(0)),
)
_CELLS = "whether a row of a table of positions is added to each embedding, and is the input if hidden"
PRETRAINED = _network(
    "pretrained",
    (Option("folder", TEXT, "a folder with `config.json`, `model.safetensors` and a vocabulary, seen from the file's own folder"),),
    "A published masked language model with its weights: BERT, RoBERTa, ALBERT or ESM-2. The values of a cell are tokens, by text or by "
    "id. Its probabilities are conditional on one of these tokens. Takes no `given`.",
)
NETWORKS = (
    PRETRAINED,
    _network(
        "transformer",
        (*_LAYERS, _CAUSAL, replace(_ADDED, doc=_CELLS)),
        "An encoder over the cells: blocks of T5 with relative position biases; with `causal = true` a language model. Takes no `given`.",
    ),
    _network(
        "encoder_decoder",
        _LAYERS + _DECODER,
        "An encoder of the `given` arrays and a decoder, bidirectional by default. Blocks of T5 (Raffel et al. 2020).",
    ),
    _network(
        "mlp",
        (named("layers", INTEGER, "hidden layers", "2"), named("width", INTEGER, "hidden width", "256")),
        "A perceptron on the one-hot cells and the given values. Real numbers are not encoded.",
    ),
    _network(
        "python",
        (Option("target", TEXT, '"package.module:Class"'),),
        "Your own class, called with the other options. Loaded only if the call allows Python code.",
        free=True,
    ),
)
_PROBE = Option("network", NETWORK, "the causal network of the model; the probe reads one of its layers at the last cell")
_LAYER = named("layer", INTEGER, "the layer that is read, from 1, after which the network's last norm is applied", "last", words=("last",))
_TARGET = Option("target", TEXT, '"package.module:name" of `V(prefixes, lengths) -> rows`')
VERIFIERS = (
    _verifier(
        "completable",
        (Option("model", MODEL, "a model of the same cells"),),
        "V(prefix) = 1 if some completion has p > 0 in that model, else 0. Exact, by a backward pass.",
    ),
    _verifier(
        "brackets",
        (
            Option(
                "kinds",
                INTEGER,
                "k: the first 2 k values are open, close, open, close, ..; later values are not brackets",
                bounds=COUNTS,
            ),
            named("depth", INTEGER, "maximum number of brackets that are open at once", "none", words=("none",)),
            named("closed", BOOLEAN, "whether every bracket must be closed at the end of the string", "true"),
        ),
        "V(prefix) = 1 if brackets match and, with `closed`, open brackets can be closed in the remaining cells. It uses a stack.",
    ),
    _verifier(
        "probe",
        (_PROBE, named("threshold", NUMBER, "the smallest probability with V = 1", "0.5", bounds=PROBABILITIES), _LAYER),
        "A linear layer on the network's features, trained by `gm.train_probe`. V = 1 if its probability is at least `threshold`.",
    ),
    _verifier("python", (_TARGET,), "Your own function, 0 or 1 for each row. Runs only if the call allows Python code."),
)
VALUES = (
    _value(
        "expected",
        (Option("model", MODEL, "a model of the same cells"),),
        "V(prefix) = E[exp(log_potential of that model) | prefix] under the sampled model, exactly. Latents are summed out.",
    ),
    _value(
        "noisy",
        (Option("value", JUDGE, "a value", words=("value",)), named("sd", NUMBER, "s", required=True, bounds=Bounds(0))),
        "V exp(s e) for prefixes, and V for whole strings. e is standard normal, a fixed function of the prefix and the seed of the call.",
    ),
    _value("probe", (_PROBE, _LAYER), "The probability of a linear layer on the network's features, trained by `gm.train_probe`."),
    _value("python", (_TARGET,), "Your own function, at least 0 for each row. Runs only if the call allows Python code."),
)
_VERIFIER = Option("verifier", JUDGE, "a verifier of the model", words=("verifier",))
_EITHER = Option("verifier", JUDGE, "a verifier of the model, or a value", words=("verifier", "value"))
_VALUE = Option("value", JUDGE, "a value of the model, or a verifier", words=("value", "verifier"))
_LAW = (
    named("end", CELL_VALUE, "the end value, the last symbol of a string; the cells after it have the same value", "none", words=("none",)),
    named("temperature", NUMBER, "for the oracle: its log probabilities are divided by it", "1", bounds=Bounds(0, open="low")),
    named("top_k", INTEGER, "for the oracle: only its k most probable symbols, or all if there are fewer", "none", words=("none",)),
    named(
        "top_p", NUMBER, "for the oracle: fewest symbols with this total probability", "none", words=("none",), bounds=Bounds(0, 1, "low")
    ),
)


def _preset(name: str, doc: str, defaults: dict[str, str], required: str = "") -> Form:
    """Return a preset of `refinement` with a name, defaults, and one required option of its own."""
    options = tuple(
        replace(o, default="" if o.name == required else defaults.get(o.name, o.default), required=o.name == required) for o in _REFINEMENT
    )
    return _sampler(name, options, doc, of=REFINEMENT)


SAMPLERS = (
    AUTOREGRESSIVE,
    REFINEMENT,
    _preset(
        "padir",
        "Predicts every token again in every pass, and repeated tokens from their start values (Li et al. 2024, Section 3.2).",
        {"steps": "4", "lengths": "5", "start": "uniform", "schedule": "all", "remask": "stutter"},
    ),
    _preset(
        "mask_predict",
        "Predicts the least confident tokens again, fewer in each pass (Ghazvininejad et al. 2019).",
        {"steps": "10", "lengths": "5", "start": "hide", "schedule": "linear", "remask": "least_confident"},
    ),
    _preset(
        "easy_first",
        "Predicts the least confident tokens again, but never settled ones (Chang et al. 2022).",
        {"steps": "10", "lengths": "5", "start": "hide", "schedule": "linear", "remask": "none"},
    ),
    _preset(
        "sundae",
        "Draws every token again in every pass, at a low temperature (Savinov et al. 2022).",
        {"steps": "10", "lengths": "5", "start": "uniform", "schedule": "all", "decode": "sample", "temperature": "0.5"},
    ),
    _preset(
        "remdm",
        "Draws the least confident tokens again, and hides settled ones again at a given rate (after Wang et al. 2025).",
        {"steps": "10", "lengths": "5", "start": "hide", "schedule": "linear", "decode": "sample", "remask": "random"},
    ),
    _preset(
        "random_order",
        "Draws every token once, in a random order of cells, one or more in each pass (Hoogeboom et al. 2022; Sahoo et al. 2024).",
        {"steps": "cells", "order": "random", "schedule": "linear", "decode": "sample"},
    ),
    _preset(
        "block_diffusion",
        "Decodes blocks from the left. In each block, draws every token once, in a random order (Arriola et al. 2025).",
        {"steps": "cells", "order": "random", "schedule": "linear", "decode": "sample"},
        "block",
    ),
)


def _tries(of: str) -> Option:
    return named("tries", INTEGER, f"maximum number of {of} that may be rejected; then the draw fails", "none", words=("none",))


GUIDED = (
    _sampler(
        "rejection",
        (_VERIFIER, _tries("strings"), *_LAW),
        "Draws whole strings from the model until the verifier accepts one.",
    ),
    _sampler(
        "tokenwise_rejection",
        (_EITHER, _tries("symbols of one position"), *_LAW),
        "Redraws each symbol until the verifier accepts the prefix with it (Li 2025, Definition 3.1.5). A value accepts with probability "
        "V(prefix and symbol) / the maximum over all symbols.",
    ),
    _sampler(
        "backtracking",
        (
            _VERIFIER,
            named(
                "quota",
                INTEGER,
                "Q, the maximum number of rejected prefixes; after Q rejections no prefix is verified",
                required=True,
                bounds=Bounds(0),
            ),
            named("stride", INTEGER, "B, the number of symbols that a rejection removes, or all if there are fewer", required=True),
            named(
                "regenerate",
                WORD,
                "`argmax`: B unverified symbols, the most probable ones, replace them; `none`: no symbol does",
                "argmax",
                words=("argmax", "none"),
            ),
            named("erase_prompt", BOOLEAN, "whether symbols of the prompt may be removed", "false"),
            *_LAW,
        ),
        "Draws symbol by symbol. A rejected prefix loses its last B symbols, at most Q times (Li 2025, Algorithm 1).",
    ),
    _sampler(
        "value_guided",
        (
            _VALUE,
            named("steps", INTEGER, "T, the number of steps of the walk, including steps that do not move", required=True),
            named(
                "result",
                WORD,
                "`last_node`: the node after T steps. `uniform_node`: the node after a uniform number of "
                "steps; the walk is repeated until it is a whole string. `first_leaf`: the first whole string",
                "last_node",
                words=("last_node", "uniform_node", "first_leaf"),
            ),
            named("leaf", JUDGE, "value or verifier of whole strings, if `value` is unreliable there", "none", words=("value", "verifier")),
            *_LAW,
        ),
        "A lazy random walk on the tree of prefixes: up with weight V(prefix), down with weight p(symbol | prefix) V(child) "
        "(Li 2025, Algorithm 2).",
    ),
    _sampler(
        "best_of",
        (_VALUE, named("n", INTEGER, "number of strings that are drawn", required=True), *_LAW),
        "The string of the highest value among n strings. Of equal values, the first is taken.",
    ),
    _sampler(
        "block_best_of",
        (
            _VALUE,
            named("n", INTEGER, "number of continuations that are drawn", required=True),
            named("block", INTEGER, "number of symbols of each continuation", required=True),
            *_LAW,
        ),
        "Appends blocks. Each is the continuation of the highest value among n; of equals, the first.",
    ),
)
