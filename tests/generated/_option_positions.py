"""The places in options: of networks, of what trains and decodes them, of verifiers, values and guided samplers.

Each has a model of its own beside the others; what an option comes to is compared with the oracle's number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._forms import BELOW_ONE, COUNT, NONNEGATIVE, POSITIVE, PROBABILITY, Want
from ._positions import NOTHING, Make, position
from ._world import WORD, Place

if TYPE_CHECKING:
    from ._world import World

SHARE = Want(0.25, 1)

# Of each place: the statement that holds the expression, behind `base` (below) with NAME replaced by a fresh name.
NETWORKS: dict[str, tuple[str, Want]] = {
    "layers of a transformer": ("transformer(layers = {0}, heads = 1, width = 2)", COUNT),
    "heads of a transformer": ("transformer(layers = 1, heads = {0}, width = 2)", COUNT),
    "width of a transformer": ("transformer(layers = 1, heads = 1, width = {0})", COUNT),
    "ffn of a transformer": ("transformer(layers = 1, heads = 1, width = 2, ffn = {0})", COUNT),
    "dropout of a transformer": ("transformer(layers = 1, heads = 1, width = 2, dropout = {0})", BELOW_ONE),
    "layers of an mlp": ("mlp(layers = {0}, width = 2)", COUNT),
    "width of an mlp": ("mlp(layers = 1, width = {0})", COUNT),
}
DECODERS: dict[str, tuple[str, Want]] = {
    "decoder layers": ("encoder_decoder(layers = 1, heads = 1, width = 2, decoder_layers = {0})", COUNT),
    "rows of positions": ("encoder_decoder(layers = 1, heads = 1, width = 2, positions = 2 + {0})", COUNT),
    "weight of the length": ("encoder_decoder(layers = 1, heads = 1, width = 2, length_weight = {0})", NONNEGATIVE),
}
TRAINED: dict[str, tuple[str, Want]] = {
    "noise that hides": ("mask M for text = everything(t, noise = {{hide: {0}, uniform: 1 - {0}}})", PROBABILITY),
    "noise that keeps": ("mask M for text = bernoulli(t, rate = 0.5, noise = {{keep: {0}, hide: 1 - {0}}})", PROBABILITY),
    "stages of a mask": ("mask M for text = everything(t, stages = {0})", COUNT),
    "rate of a mask with noise": ("mask M for text = bernoulli(t, rate = {0})", PROBABILITY),
    "count of least_confident": ("sampler M for text {{ update t[K] independently where K ~ least_confident(t, count = {0}) }}", COUNT),
    "steps of a refinement": ("sampler M for text = refinement(steps = {0})", COUNT),
    "starts of a refinement": ("sampler M for text = refinement(starts = {0}, start = uniform)", COUNT),
    "threshold of a refinement": ("sampler M for text = refinement(schedule = threshold, threshold = {0})", SHARE),
    "temperature of a refinement": ("sampler M for text = sundae(temperature = {0})", POSITIVE),
    "top_k of a refinement": ("sampler M for text = sundae(top_k = {0})", COUNT),
    "top_p of a refinement": ("sampler M for text = sundae(top_p = {0})", SHARE),
    "eta of a refinement": ("sampler M for text = remdm(eta = {0})", PROBABILITY),
}
CAUSAL: dict[str, tuple[str, Want]] = {
    "beam of a decoder": ("sampler M for text = autoregressive(beam = {0})", COUNT),
    "length penalty of a decoder": ("sampler M for text = autoregressive(beam = 2, length_penalty = {0})", NONNEGATIVE),
    "end of a decoder": ("sampler M for text = autoregressive(end = {0})", COUNT),
    "temperature of a decoder": ("sampler M for text = autoregressive(decode = sample, temperature = {0})", POSITIVE),
    "top_k of a decoder": ("sampler M for text = autoregressive(decode = sample, top_k = {0})", COUNT),
    "top_p of a decoder": ("sampler M for text = autoregressive(decode = sample, top_p = {0})", SHARE),
    "threshold of a probe": ("verifier M for text = probe(net, threshold = {0})", PROBABILITY),
    "layer of a probe": ("value M for text = probe(net, layer = {0})", Want(1, 1, True)),
}
GUIDED: dict[str, tuple[str, Want]] = {
    "kinds of brackets": ("verifier M for text = brackets({0})", COUNT),
    "depth of brackets": ("verifier M for text = brackets(1, depth = {0})", COUNT),
    "sd of a noisy value": ("value M for text = noisy(good, sd = {0})", NONNEGATIVE),
    "tries of a rejection": ("sampler M for text = rejection(can, tries = {0})", COUNT),
    "tries of a tokenwise rejection": ("sampler M for text = tokenwise_rejection(good, tries = {0})", COUNT),
    "quota of backtracking": ("sampler M for text = backtracking(can, quota = {0}, stride = 1)", COUNT),
    "stride of backtracking": ("sampler M for text = backtracking(can, quota = 1, stride = {0})", COUNT),
    "end of backtracking": ("sampler M for text = backtracking(can, quota = 1, stride = 1, end = {0})", COUNT),
    "steps of a guided walk": ("sampler M for text = value_guided(good, steps = {0})", COUNT),
    "n of best_of": ("sampler M for text = best_of(good, n = {0})", COUNT),
    "n of block_best_of": ("sampler M for text = block_best_of(good, n = {0}, block = 1)", COUNT),
    "block of block_best_of": ("sampler M for text = block_best_of(good, n = 2, block = {0})", COUNT),
    "temperature of an oracle": ("sampler M for text = rejection(can, temperature = {0})", POSITIVE),
    "top_k of an oracle": ("sampler M for text = rejection(can, top_k = {0})", COUNT),
    "top_p of an oracle": ("sampler M for text = rejection(can, top_p = {0})", SHARE),
}
TEXT = "model text {{ var t[i in range(3)] : range(4)  conditional t ~ net() }}"
STRINGS = "model text {{ var t[i in range(3)] : range(4)  t[i] ~ categorical([0.25, 0.125, 0.5, 0.125]) for i in range(3) }}"
TILT = "model tilt {{ var t[i in range(3)] : range(4)  factor 0.5 * t[i] for i in range(3)  require t[0] != 3 }}"


def _option(name: str, before: list[str], text: str, want: Want) -> None:
    @position(name, NOTHING, want, closed=True)
    def put(w: World, make: Make):
        own = {old: w.fresh(old) for old in ("net", "text", "tilt", "can", "good", "M")}

        def renamed(line: str) -> str:
            return WORD.sub(lambda word: own.get(word[0], word[0]), line)

        for line in before:
            w.add("others", renamed(line))
        w.add("others", renamed(text), make(want, Place(NOTHING)), position=name)
        if text.startswith("network"):
            w.add(
                "others",
                renamed(TEXT if "decoder" not in text else TEXT.replace("{{ var", "{{ given g : bit var").replace("net()", "net(g)")),
            )


def _each(options: dict[str, tuple[str, Want]], before: list[str], prefix: str = "") -> None:
    for name, (text, want) in options.items():
        _option(name, before, prefix + text, want)


_each(NETWORKS, [], "network net = ")
_each(DECODERS, [], "network net = ")
_each(TRAINED, ["network net = transformer(layers = 1, heads = 1, width = 2)", TEXT])
_each(CAUSAL, ["network net = transformer(layers = 1, heads = 1, width = 2, causal = true)", TEXT])
JUDGES = ["verifier can for text = completable(tilt)", "value good for text = expected(tilt)"]
_each(GUIDED, [STRINGS, TILT, *JUDGES])
