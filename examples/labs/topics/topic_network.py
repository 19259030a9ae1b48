# One head of attention over words without positions, no residual, no norm: f(X) = W_V X softmax((W_K X)' W_Q X / sqrt(d)) + b.
#
# Words that are equal attend and are attended alike, so that a document enters as the counts of its words, and every product is of types of
# words: what the formula says, at a cost that does not grow with the document. The masked word is a type of its own.
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class TopicAttention(eqx.Module):
    """The network of Li et al. 2023, Section 2: Equation 7 with one-hot words, Equation 6 with learnt, tied embeddings.

    Attributes:
        key, query: W_K and W_Q; where attention is uniform they have no part.
        value: W_V; of one-hot words from a type of words to scores of words, or its diagonal where it is held diagonal.
        bias: b of the scores, where it is `biased`.
        embedding: W_E; None of one-hot words.
    """

    key: Float[Array, "size width"]
    query: Float[Array, "size width"]
    value: Float[Array, "..."]
    bias: Float[Array, " words"]
    embedding: Float[Array, "width types"] | None
    attends: bool = eqx.field(static=True)
    diagonal: bool = eqx.field(static=True)
    biased: bool = eqx.field(static=True)

    def __init__(self, *, key, n_cells, n_values, given, attends, embedded, diagonal, biased, sd):
        k, q, v, e = jax.random.split(key, 4)
        types = n_values + 1
        width = n_values if embedded else types
        self.attends, self.diagonal, self.biased = bool(attends), bool(diagonal), bool(biased)
        self.key, self.query = (sd * jax.random.normal(one, (types, width)) for one in (k, q))
        shape = (n_values,) if diagonal else (width, width) if embedded else (n_values, types)
        self.value, self.bias = sd * jax.random.normal(v, shape), jnp.zeros(n_values)
        self.embedding = sd * jax.random.normal(e, (width, types)) if embedded else None

    @property
    def value_matrix(self) -> Float[Array, "rows types"]:
        """W_V, or with embeddings W_E' W_V W_E: from a type of words to scores of words."""
        words = self.bias.shape[0]
        if self.diagonal:
            return jnp.pad(jnp.diag(self.value), ((0, 0), (0, 1)))
        return self.value if self.embedding is None else self.embedding[:, :words].T @ self.value @ self.embedding

    def by_type(self, counts: Float[Array, " types"]) -> Float[Array, "types types"]:
        """What all words of a type (rows) get of the attention from one word of a type (columns)."""
        if not self.attends:
            return jnp.broadcast_to((counts / counts.sum())[:, None], (counts.shape[0],) * 2)
        keys, queries = (self.key, self.query) if self.embedding is None else (self.key @ self.embedding, self.query @ self.embedding)
        scores = keys.T @ queries / jnp.sqrt(self.key.shape[0])
        return jax.nn.softmax(jnp.where(counts[:, None] > 0, scores + jnp.log(jnp.maximum(counts, 1))[:, None], -jnp.inf), axis=0)

    def counts(self, seen: Int[Array, " n"]) -> Float[Array, " types"]:
        """How often each type stands in a document; padding is none."""
        return jnp.zeros(self.bias.shape[0] + 1).at[seen].add(1.0, mode="drop")

    def __call__(self, seen: Int[Array, " n"]) -> Float[Array, "n words"]:
        scores = self.value_matrix @ self.by_type(self.counts(seen)) + (self.bias[:, None] if self.biased else 0.0)
        return scores.T[jnp.minimum(seen, self.bias.shape[0])]

    def attention(self, seen: Int[Array, " n"]) -> Float[Array, "1 1 n n"]:
        """From each word (third axis) to each word."""
        counts, last = self.counts(seen), self.bias.shape[0]
        each = (self.by_type(counts) / jnp.maximum(counts, 1)[:, None]).T
        places = jnp.minimum(seen, last)
        return jnp.where(seen[None, :] <= last, each[places][:, places], 0.0)[None, None]
