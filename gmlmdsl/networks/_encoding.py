"""What an encoder leaves for all passes and candidates of one row."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int


class Encoding(eqx.Module):
    """The encoded given arrays of one row.

    Attributes:
        states: the encoder's output at every given entry.
        shown: which entries are no padding.
        length: how many.
        place: the output at the place before all entries from which a classifier reads the length;
            None without one.
        keys, values: for the cross-attention of every layer of the decoder.
    """

    states: Float[Array, "m width"]
    shown: Bool[Array, " m"]
    length: Int[Array, ""]
    place: Float[Array, " width"] | None
    keys: tuple[Float[Array, "m heads size"], ...]
    values: tuple[Float[Array, "m heads size"], ...]
