"""The output of an encoder, which all passes and candidates of one row share."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int


class Encoding(eqx.Module):
    """The encoded given arrays of one row.

    Attributes:
        states: the encoder's output at every given entry.
        shown: a mask of the entries that are not padding.
        length: the number of these entries.
        place: the output at an additional place before all entries, from which a classifier reads
            the length; None without a classifier.
        keys: the keys of cross-attention in every layer of the decoder.
        values: the values of cross-attention in every layer of the decoder.
    """

    states: Float[Array, "m width"]
    shown: Bool[Array, " m"]
    length: Int[Array, ""]
    place: Float[Array, " width"] | None
    keys: tuple[Float[Array, "heads size m"], ...]
    values: tuple[Float[Array, "heads m size"], ...]
