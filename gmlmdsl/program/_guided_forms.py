"""The forms of guided generation (Li 2025, chapter 3).

These are verifiers and values of prefixes, and the samplers that evaluate them.
"""

from __future__ import annotations

from ._form import (
    BOOLEAN,
    CELL_VALUE,
    COUNTS,
    INTEGER,
    JUDGE,
    MODEL,
    NETWORK,
    NUMBER,
    PROBABILITIES,
    TEXT,
    WORD,
    Bounds,
    Form,
    Option,
    named,
)

_PROBE = Option("network", NETWORK, "the causal network of the model, one of whose layers is read at the last cell")
_LAYER = named("layer", INTEGER, "the layer that is read, 1 the first, with the network's last norm behind it", "last", words=("last",))
_TARGET = Option("target", TEXT, '"package.module:name" of `V(prefixes, lengths) -> rows`')

VERIFIERS = (
    Form(
        "verifier",
        "completable",
        (Option("model", MODEL, "a model of the same cells"),),
        "V(prefix) = 1 where some completion has p > 0 in that model, else 0; exact, by a backward pass.",
    ),
    Form(
        "verifier",
        "brackets",
        (
            Option(
                "kinds",
                INTEGER,
                "k: the values are open, close, open, close, .. of each kind; those behind the first 2 k are no brackets",
                bounds=COUNTS,
            ),
            named("depth", INTEGER, "the most brackets that are open at once", "none", words=("none",)),
            named("closed", BOOLEAN, "whether every bracket is closed where the string ends", "true"),
        ),
        "V(prefix) = 1 where brackets match and, if `closed`, those that are open can be closed in the cells left; by a stack.",
    ),
    Form(
        "verifier",
        "probe",
        (_PROBE, named("threshold", NUMBER, "the probability from which on V = 1", "0.5", bounds=PROBABILITIES), _LAYER),
        "A linear layer on the network's features, trained by `gm.train_probe`: V = 1 where its probability reaches `threshold`.",
    ),
    Form("verifier", "python", (_TARGET,), "A function of the user's, 0 or 1 for each row; runs only when the Python call allows it."),
)
VALUES = (
    Form(
        "value",
        "expected",
        (Option("model", MODEL, "a model of the same cells"),),
        "V(prefix) = E[exp(log_potential of that model) | prefix] under the sampled model; latents are summed out; exact.",
    ),
    Form(
        "value",
        "noisy",
        (Option("value", JUDGE, "a value", words=("value",)), named("sd", NUMBER, "s", required=True, bounds=Bounds(0))),
        "V exp(s e), e a standard normal that is a fixed function of the prefix and the seed of the call; none on whole strings.",
    ),
    Form("value", "probe", (_PROBE, _LAYER), "The probability of a linear layer on the network's features, trained by `gm.train_probe`."),
    Form("value", "python", (_TARGET,), "A function of the user's, at least 0 for each row; runs only when the Python call allows it."),
)

_VERIFIER = Option("verifier", JUDGE, "a verifier of the model", words=("verifier",))
_EITHER = Option("verifier", JUDGE, "a verifier of the model, or a value", words=("verifier", "value"))
_VALUE = Option("value", JUDGE, "a value of the model, or a verifier", words=("value", "verifier"))
_LAW = (
    named(
        "end", CELL_VALUE, "the value that ends a string, of which it is the last symbol; cells behind it hold it", "none", words=("none",)
    ),
    named("temperature", NUMBER, "of the oracle: its log probabilities are divided by it", "1", bounds=Bounds(0, open="low")),
    named("top_k", INTEGER, "of the oracle: among its k likeliest symbols only; all where there are no more", "none", words=("none",)),
    named(
        "top_p",
        NUMBER,
        "of the oracle: among its fewest symbols with this probability",
        "none",
        words=("none",),
        bounds=Bounds(0, 1, "low"),
    ),
)


def _tries(of: str) -> Option:
    return named("tries", INTEGER, f"how many {of} may be refused, after which the draw has failed", "none", words=("none",))


GUIDED = (
    Form(
        "sampler",
        "rejection",
        (_VERIFIER, _tries("strings"), *_LAW),
        "Whole strings from the model until the verifier takes one.",
    ),
    Form(
        "sampler",
        "tokenwise_rejection",
        (
            _EITHER,
            _tries("symbols of one position"),
            *_LAW,
        ),
        "Each symbol anew until the verifier takes the prefix that it ends (Li 2025, Definition 3.1.5); by a value with probability "
        "V(prefix and symbol) / the most of any symbol.",
    ),
    Form(
        "sampler",
        "backtracking",
        (
            _VERIFIER,
            named(
                "quota",
                INTEGER,
                "Q, how often a refused prefix is taken back; after that nothing is verified",
                required=True,
                bounds=Bounds(0),
            ),
            named("stride", INTEGER, "B, the symbols that are dropped then, or all that there are", required=True),
            named(
                "regenerate",
                WORD,
                "how B symbols are put in their place, unverified: each the likeliest",
                "argmax",
                words=("argmax", "none"),
            ),
            named("erase_prompt", BOOLEAN, "whether the B symbols may reach into the prompt", "false"),
            *_LAW,
        ),
        "Symbol by symbol; a refused prefix loses its last B symbols, Q times (Li 2025, Algorithm 1).",
    ),
    Form(
        "sampler",
        "value_guided",
        (
            _VALUE,
            named("steps", INTEGER, "T, the steps of the walk, those that stay among them", required=True),
            named(
                "result",
                WORD,
                "what is returned: the node after T steps, the node after a uniform number of them (again where it is not a whole string), "
                "or the first whole string",
                "last_node",
                words=("last_node", "uniform_node", "first_leaf"),
            ),
            named(
                "leaf",
                JUDGE,
                "a value or verifier of whole strings, where `value` is not to be trusted there",
                "none",
                words=("value", "verifier"),
            ),
            *_LAW,
        ),
        "A lazy random walk on the tree of prefixes: up with weight V(prefix), down with weight p(symbol | prefix) V(child) "
        "(Li 2025, Algorithm 2).",
    ),
    Form(
        "sampler",
        "best_of",
        (_VALUE, named("n", INTEGER, "strings that are drawn", required=True), *_LAW),
        "The string of the highest value among n, the first of equals.",
    ),
    Form(
        "sampler",
        "block_best_of",
        (
            _VALUE,
            named("n", INTEGER, "continuations that are drawn", required=True),
            named("block", INTEGER, "symbols of each", required=True),
            *_LAW,
        ),
        "Block after block, the continuation of the highest value among n, the first of equals.",
    ),
)
