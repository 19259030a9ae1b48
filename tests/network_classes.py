"""Classes that `python` networks of the tests name."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp


class Table(eqx.Module):
    """Logits of each cell: a row of a table for the code that is seen there, hidden and padding included, and the sum of what is given."""

    table: jax.Array
    scale: float = eqx.field(static=True)

    def __init__(self, *, key, n_cells, n_values, given, scale=1.0):
        self.table, self.scale = jax.random.normal(key, (n_values + 2, n_values)), scale

    def __call__(self, seen, *given):
        return self.scale * self.table[seen] + sum(g.sum().astype(self.table.dtype) for g in given)


class Transposed(Table):
    def __call__(self, seen, *given):
        return self.table[seen].T


class Whole(Table):
    def __call__(self, seen, *given):
        return self.table[seen].astype(jnp.int32)


class Deaf(Table):
    def __call__(self, seen):
        return self.table[seen]


class Pair(Table):
    def __call__(self, seen, *given):
        return self.table[seen], seen


class Silent(eqx.Module):
    def __init__(self, **options): ...


class Plain:
    def __init__(self, **options): ...

    def __call__(self, seen): ...


class Looking(Table):
    """Attends evenly to what is no padding."""

    def attention(self, seen, *given):
        shown = (seen <= self.table.shape[1]).astype(self.table.dtype)
        return jnp.broadcast_to(shown / shown.sum(), (2, 3, seen.shape[0], seen.shape[0]))


class Flat(Looking):
    def attention(self, seen, *given):
        return Looking.attention(self, seen, *given)[0, 0]


class Broken(Looking):
    def attention(self, seen):
        raise ValueError("no")
