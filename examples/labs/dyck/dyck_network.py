# Layers of one head of causal attention over brackets (Equations 2.42 to 2.46 of the thesis), behind a first layer that is learnt or fixed.
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from dyck_theory import MINIMAL, FirstLayer
from jaxtyping import Array, Bool, Float, Int

SMALL = 1e-6  # C of Equation 2.43, which the theorems have at 0


class Layer(eqx.Module):
    """LN(W_V X softmax((W_K X)' W_Q X)); with `inner` also X added to it, and a network of two layers behind, with a link around it."""

    key: Float[Array, "width width"]
    query: Float[Array, "width width"]
    value: Float[Array, "width width"]
    inner: tuple[Array, Array] | None  # of the network behind
    offsets: tuple[Array, Array] | None

    def __init__(self, width: int, feedforward: bool, *, key):
        k, q, v, a, b = (jax.random.normal(one, (width, width)) / np.sqrt(width) for one in jax.random.split(key, 5))
        self.key, self.query, self.value = k, q, v
        self.inner, self.offsets = ((a, b), (jnp.zeros(width), jnp.zeros(width))) if feedforward else (None, None)

    def __call__(
        self, x: Float[Array, "n width"], asking: Float[Array, "asked width"], allowed: Bool[Array, "asked n"], attends: bool
    ) -> tuple[Float[Array, "asked width"], Float[Array, "asked n"]]:
        """What the places that ask read of all, and their attention."""
        scores = (asking @ self.query.T) @ (x @ self.key.T).T if attends else jnp.zeros(allowed.shape)
        a = jax.nn.softmax(jnp.where(allowed, scores, -jnp.inf), axis=-1)
        y = normed((a @ x) @ self.value.T)
        if self.inner is None or self.offsets is None:
            return y, a
        y = y + asking
        return y + jax.nn.relu(y @ self.inner[0].T + self.offsets[0]) @ self.inner[1].T + self.offsets[1], a


def normed(rows: Float[Array, "*rows width"]) -> Float[Array, "*rows width"]:
    """The layer norm of Equation 2.43."""
    centred = rows - rows.mean(axis=-1, keepdims=True)
    square = (centred**2).sum(axis=-1, keepdims=True)  # no root of 0, which has no derivative
    return centred / jnp.sqrt(jnp.maximum(square, SMALL**2))


class BracketAttention(eqx.Module):
    """p(next bracket | prefix): a start token, a first layer, layers of attention, a linear head.

    Codes from 2 k on are padding, which may stand anywhere and is never attended.

    Attributes:
        embedding: of the types of brackets and of the start; None where the first layer is fixed.
        place: what i / n adds at place i; None without `places`.
        form: of a fixed first layer.
    """

    embedding: Float[Array, "types width"] | None
    place: Float[Array, " width"] | None
    layers: tuple[Layer, ...]
    head: Float[Array, "values width"]
    bias: Float[Array, " values"]
    form: str | None = eqx.field(static=True)
    kinds: int = eqx.field(static=True)
    deepest: int = eqx.field(static=True)
    trained_n: int = eqx.field(static=True)
    attends: bool = eqx.field(static=True)

    def __init__(self, *, key, n_cells, n_values, given, causal, kinds, deepest, width, layers, first, attends, places, feedforward):
        e, p, h, *keys = jax.random.split(key, 3 + layers)
        self.form = MINIMAL[first - 1] if first else None
        self.kinds, self.deepest, self.trained_n, self.attends = kinds, deepest, n_cells, bool(attends)
        self.embedding = None if first else jax.random.normal(e, (n_values + 1, width)) / np.sqrt(width)
        self.place = jax.random.normal(p, (width,)) / np.sqrt(width) if places else None
        self.layers = tuple(Layer(width, bool(feedforward), key=one) for one in keys)
        self.head, self.bias = jax.random.normal(h, (n_values, width)), jnp.zeros(n_values)

    def told(self, seen: Int[Array, " n"]) -> tuple[Float[Array, "places width"], Bool[Array, " places"]]:
        """The start and each bracket behind the first layer, and which of them are there."""
        types = 2 * self.kinds
        codes = jnp.concatenate([jnp.array([types], seen.dtype), seen])
        there = (codes < types).at[0].set(True)
        if self.embedding is None:
            depth = jnp.cumsum(jnp.where(codes < types, 1 - 2 * (codes % 2), 0))
            row = jnp.where(codes < types, codes * (self.deepest + 1) + jnp.clip(depth, 0, self.deepest), types * (self.deepest + 1))
            x = jnp.asarray(self.fixed)[row]
        else:
            x = self.embedding[jnp.minimum(codes, types)]
        if self.place is not None:
            x = x + (jnp.cumsum(there) - 1)[:, None] / self.trained_n * self.place
        return x, there

    @property
    def fixed(self) -> np.ndarray:
        """The vectors of a fixed first layer by type and depth, the start's behind them, with zeros up to the width."""
        first = FirstLayer(str(self.form), self.kinds, self.deepest)
        rows = [first(b, d) for b in range(2 * self.kinds) for d in range(self.deepest + 1)] + [first.start]
        return np.pad(np.array(rows, np.float32), ((0, 0), (0, self.head.shape[1] - first.width)))

    def read(self, seen: Int[Array, " n"]) -> tuple[Float[Array, "places values"], list[Float[Array, "places places"]]]:
        """Logits of what follows the start and each bracket, and the attention of each layer, a row from each place."""
        x, there = self.told(seen)
        allowed, found = self.allowed(there), []
        for layer in self.layers:
            x, a = layer(x, x, allowed, self.attends)
            found.append(a)
        return x @ self.head.T + self.bias, found

    def allowed(self, there: Bool[Array, " places"]) -> Bool[Array, "places places"]:
        """What each place may attend to: itself and what is there before it."""
        n = there.shape[0]
        return (there[None, :] & jnp.tri(n, dtype=bool)) | jnp.eye(n, dtype=bool)

    def behind(self, seen: Int[Array, " n"], length: Int[Array, ""]) -> Float[Array, " values"]:
        """Logits of what follows the first `length` brackets: as `read`, with the last layer at one place only."""
        x, there = self.told(seen)
        allowed = self.allowed(there)
        for layer in self.layers[:-1]:
            x, _ = layer(x, x, allowed, self.attends)
        x, _ = self.layers[-1](x, x[length][None], allowed[length][None], self.attends)
        return (x @ self.head.T + self.bias)[0]

    def __call__(self, seen: Int[Array, " n"]) -> Float[Array, "n values"]:
        return self.read(seen)[0][:-1]

    def attention(self, seen: Int[Array, " n"]) -> Float[Array, "layers 1 n n"]:
        """From the place before each cell, which is the start for the first, to such places."""
        return jnp.stack(self.read(seen)[1])[:, None, :-1, :-1]
