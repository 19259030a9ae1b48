"""CTranslate2 as a reference for times: a translation engine with random weights of equal sizes.

Its translations are meaningless, but its times are valid. They depend only on sizes and lengths,
and the engine decodes a given number of subword tokens.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._diagnostics import counted, fail
from .._optional import need
from ..graph import NetworkForm
from ..networks.limits import MOST_DISTANCE, N_BUCKETS
from ._translator import Translator

if TYPE_CHECKING:
    from types import ModuleType


class Peer:
    """A Transformer of CTranslate2 with the sizes of a translator's network.

    It has the blocks of T5, with the layers, heads, widths and vocabulary of the network. It has no
    positional attention, and decodes token by token with a cache.

    Args:
        translator: the translator whose sizes and vocabulary are used.
        compute_type: the type of the weights, "float32" or "int8".
        threads: the number of threads of one decode.
        beam: the number of hypotheses.

    Raises:
        GmlmError: E561 if the library is not installed, E578 for a network without a counterpart in
            the library; E560 if its weights cannot be written.
    """

    def __init__(self, translator: Translator, compute_type: str = "float32", threads: int = 1, beam: int = 1):
        library = need("ctranslate2", "this peer is CTranslate2", "ctranslate2")
        form = translator.model.graph.network
        if form is None or form.name != "encoder_decoder":
            name = "no network" if form is None else f"a network `{form.name}`"
            raise fail("E578", f"CTranslate2 has encoders with decoders, and the translator has {name}")
        self.vocabulary, self.beam = translator.vocabulary, beam
        search = "greedy" if beam == 1 else f"beam {beam}"
        self.name = f"CTranslate2 {library.__version__} {compute_type}, {search}, {counted(threads, 'thread')}"
        try:
            with tempfile.TemporaryDirectory() as folder:
                _specification(library, form).save(folder)
                options = {"compute_type": compute_type, "inter_threads": 1, "intra_threads": threads}
                self._engine = library.Translator(folder, device="cpu", **options)
        except OSError as error:
            raise fail("E560", f"cannot write the weights of the peer: {error.strerror or error}") from None

    def decode(self, lines: Sequence[str], length: int) -> int:
        """Translate each line into `length` subword tokens.

        Return the total number of tokens.
        """
        tokens = [[token_of(code) for code in codes] for codes in self.vocabulary.encode(lines)]
        found = self._engine.translate_batch(
            tokens,
            max_batch_size=len(tokens),
            beam_size=self.beam,
            # With random weights, the end mark would come at any place.
            min_decoding_length=length,
            max_decoding_length=length,
        )
        codes = [[int(t[1:]) for t in f.hypotheses[0] if t[1:].isdigit()] for f in found]
        # The time includes decoding into text, as for the other translators.
        self.vocabulary.decode(codes)
        return sum(len(f.hypotheses[0]) for f in found)


def token_of(code: int) -> str:
    """Return the name of a code in the peer's vocabulary.

    The engine has fixed names for marks, and accepts any name for a subword token.
    """
    return {0: "<unk>", 1: "</s>"}.get(code, f"p{code}")


def _specification(library: ModuleType, form: NetworkForm) -> Any:
    """Return random weights under the engine's names, with tied embeddings as in this package."""
    o = form.options
    layers, heads, width, ffn = (int(o[k]) for k in ("layers", "heads", "width", "ffn"))  # pyright: ignore[reportArgumentType]
    decoder_layers = int(o["decoder_layers"])  # pyright: ignore[reportArgumentType]
    spec = library.specs.TransformerSpec.from_config(
        (layers, decoder_layers),
        num_heads=heads,
        pre_norm=True,
        activation=library.specs.common_spec.Activation.RELU,
        relative_attention_bias=True,
        rms_norm=True,
    )
    weights = _Weights(width, ffn, heads)
    # The table has one more row, for the start mark of decoding.
    table = weights.random(form.n_values + 1, width)
    for stack in (spec.encoder, spec.decoder):
        weights.fill(stack, table)
    spec.decoder.projection.weight = table
    spec.decoder.scale_outputs = np.float32(width**-0.5)
    tokens = [*map(token_of, range(form.n_values)), "<s>"]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.unk_token, spec.config.eos_token = token_of(0), token_of(1)
    spec.config.bos_token = spec.config.decoder_start_token = "<s>"
    spec.validate()
    spec.optimize(quantization=None)
    return spec


class _Weights:
    """Random arrays for the parts of a stack."""

    def __init__(self, width: int, ffn: int, heads: int):
        self.width, self.ffn, self.heads = width, ffn, heads
        self.rng = np.random.default_rng(0)

    def random(self, *shape: int) -> np.ndarray:
        """Return normal random numbers with variance 1 / (number of inputs)."""
        return (self.rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    def fill(self, stack: Any, table: np.ndarray) -> None:
        """Fill an encoder or a decoder."""
        self.norm(stack.layer_norm)
        (stack.embeddings[0] if isinstance(stack.embeddings, list) else stack.embeddings).weight = table
        stack.scale_embeddings = False
        biases = self.random(N_BUCKETS, self.heads)
        d = self.width
        for layer in stack.layer:
            self.attention(layer.self_attention, (3 * d, d))
            layer.self_attention.relative_attention_bias = biases
            layer.self_attention.relative_attention_max_distance = np.int32(MOST_DISTANCE)
            if hasattr(layer, "attention"):
                self.attention(layer.attention, (d, 2 * d, d))
            self.norm(layer.ffn.layer_norm)
            layer.ffn.linear_0.weight, layer.ffn.linear_1.weight = self.random(self.ffn, d), self.random(d, self.ffn)

    def norm(self, part: Any) -> None:
        """Fill a norm with scale 1."""
        part.gamma = np.ones(self.width, np.float32)

    def attention(self, part: Any, outputs: tuple[int, ...]) -> None:
        """Fill the projections of queries, keys and values, and the output projection.

        The engine joins the former into one or several arrays.
        """
        self.norm(part.layer_norm)
        for linear, n in zip(part.linear, outputs, strict=True):
            linear.weight = self.random(n, self.width)


def peers(translator: Translator, threads: int = 1) -> list[Peer]:
    """Return two greedy peers: float32, and int8, which is the usual type for such engines.

    Raises:
        GmlmError: the errors of `Peer`.
    """
    return [Peer(translator, kind, threads) for kind in ("float32", "int8")]
