"""A causal language model of the Hugging Face library `transformers` as an oracle."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from .._diagnostics import GmlmError, fail
from .._optional import need

Array = np.ndarray


class _Prefixes(NamedTuple):
    codes: Array
    lengths: Array


class PretrainedOracle:
    """An oracle log p(next value | prefix) from a causal language model in a local folder.

    The model belongs to the library `transformers`. p is the model's distribution of the next token
    given the previous tokens, restricted to the tokens of values and normalised over them. Each
    call reads whole prefixes, without a cache of previous tokens. Nothing is downloaded;
    `save_pretrained` writes such a folder. The class needs `pip install "gmlmdsl[pretrained]"`.

    Args:
        path: the folder.
        tokens: the model's token for each value of the string, in the order of values. None maps
            value k to token k.
        before: tokens before every prefix, such as an instruction or the start of a text.

    Raises:
        GmlmError: E501 if the folder contains no such model; E507 if a token does not exist in the
            model or stands for two values; E561 if a library is missing.
    """

    def __init__(self, path: str | PathLike[str], tokens: Sequence[int] | None = None, before: Sequence[int] = ()):
        transformers = need("transformers", "a pretrained language model needs transformers", '"gmlmdsl[pretrained]"')
        self._torch = need("torch", "a pretrained language model needs PyTorch", '"gmlmdsl[pretrained]"')
        try:
            self.model = transformers.AutoModelForCausalLM.from_pretrained(path, local_files_only=True).eval()
        except (OSError, ValueError, KeyError) as error:
            help = "name a folder that `save_pretrained` of a causal language model wrote"
            raise fail("E501", f"{path} holds no causal language model: {error}", help=help) from error
        size = self.model.get_output_embeddings().weight.shape[0]
        self.tokens = np.arange(size) if tokens is None else _verified(tokens, "tokens", size)
        self.before = _verified(before, "before", size)
        if len(set(self.tokens.tolist())) < len(self.tokens):
            raise fail("E507", "tokens: a token stands for two values", help="name each token once")

    def start(self, prompts: Any) -> _Prefixes:
        """Return prefixes of codes, padded with -1."""
        codes = np.asarray(prompts)
        return _Prefixes(codes, (codes >= 0).sum(axis=1))

    def push(self, state: _Prefixes, symbols: Any) -> _Prefixes:
        """Append a symbol to each row whose symbol is not negative."""
        codes, lengths, symbols = state.codes.copy(), state.lengths, np.asarray(symbols)
        more = np.flatnonzero(symbols >= 0)
        codes[more, lengths[more]] = symbols[more]
        return _Prefixes(codes, lengths + (symbols >= 0))

    def pop(self, state: _Prefixes, n: Any) -> _Prefixes:
        """Remove the last n symbols of each row."""
        return _Prefixes(state.codes, state.lengths - np.asarray(n))

    def next_log_probs(self, state: _Prefixes) -> Array:
        """Return log p(next value | prefix), shape (rows, values).

        Raises:
            GmlmError: E507 for an empty prefix without `before`.
        """
        torch, (codes, lengths) = self._torch, state
        own, most = len(self.before), int(lengths.max(initial=0))
        if own + int(lengths.min(initial=0)) == 0:
            raise self._nothing()
        # Padding follows the tokens, so that no token attends to it.
        inside = np.arange(most) < lengths[:, None]
        read = np.where(inside, self.tokens[np.where(inside, codes[:, :most], 0)], 0)
        read = np.concatenate([np.tile(self.before, (len(read), 1)), read], axis=1).astype(np.int64)
        seen = np.concatenate([np.ones((len(read), own), bool), inside], axis=1).astype(np.int64)
        with torch.no_grad():
            logits = self.model(input_ids=torch.from_numpy(read), attention_mask=torch.from_numpy(seen)).logits
            last = logits[torch.arange(len(read)), torch.from_numpy(own + lengths - 1)].double()
            return torch.log_softmax(last[:, torch.from_numpy(self.tokens)], dim=-1).numpy()

    def _nothing(self) -> GmlmError:
        help = "give `before=` the token that begins a text, or prompts of at least one symbol"
        return fail("E507", "a pretrained model has no distribution of the first token of nothing", help=help)


def _verified(tokens: Sequence[int], name: str, size: int) -> Array:
    found = np.asarray(tokens)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu") or (found.size and not (0 <= found.min() <= found.max() < size)):
        raise fail("E507", f"{name}: must be tokens of the model, whole numbers from 0 to {size - 1}, got {tokens!r:.60}")
    return found.astype(np.int64)
