"""The `python` network: a user's class that is loaded, instantiated and checked."""

from __future__ import annotations

import importlib
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from .._diagnostics import fail
from ..graph import NetworkForm
from ._layers import wide
from ._network import AbstractLengthHead, AbstractNetwork, Attention


class Python(AbstractNetwork):
    """An Equinox module that is called as `module(seen, *given)`.

    `seen` has the declared width. It contains q for a hidden cell and q + 1 for padding. A given
    array contains one more than its number of values for padding; a real one contains 0.

    Attributes:
        module: the user's module.
        given: the number of entries and of values of each given variable; the latter is 0 for a
            real one.
    """

    module: eqx.Module
    n_cells: int = eqx.field(static=True)
    n_values: int = eqx.field(static=True)
    given: tuple[tuple[int, int], ...] = eqx.field(static=True)
    length_head: AbstractLengthHead | None
    length_weight: float = eqx.field(static=True)

    def __init__(self, module: eqx.Module, form: NetworkForm):
        self.module, self.n_cells, self.n_values = module, form.n_cells, form.n_values
        self.given = tuple((n, q) for _, n, q in form.given)
        self.length_head, self.length_weight = None, 0.0

    def encode(
        self, given: tuple[Array, ...], lengths: tuple[Int[Array, ""], ...], *, key: PRNGKeyArray | None = None
    ) -> tuple[Array, ...]:
        """Return the given arrays at their declared width, with padding marked."""
        padding = [(n, q + 1 if q else 0) for n, q in self.given]
        return tuple(_padded(g, length, n, fill) for g, length, (n, fill) in zip(given, lengths, padding, strict=True))

    def prepare(self, encoded: tuple[Array, ...], length: Int[Array, ""], n: int) -> None:
        """Return None, because nothing depends on the length alone."""

    def logits(
        self, encoded: tuple[Array, ...], prepared: None, seen: Int[Array, " n"], length: Int[Array, ""], *, key: PRNGKeyArray | None = None
    ) -> Array:
        """Return the output of the module for the cells of `seen`."""
        found = self.module(_padded(seen, length, self.n_cells, self.n_values + 1), *encoded)  # type: ignore[operator]
        return found[: seen.shape[0]].astype(wide(found.dtype))

    def attention(self, encoded: tuple[Array, ...], prepared: None, seen: Int[Array, " n"], length: Int[Array, ""]) -> Attention:
        """Return the result of the module's `attention` for the cells of `seen`.

        Raises:
            GmlmError: E738 for a class without such a method; E736 for a method that fails or
                returns another shape.
        """
        name, n, most = type(self.module).__name__, seen.shape[0], self.n_cells
        method: Any = getattr(self.module, "attention", None)
        help = f"return `{name}.attention(seen, *given)`: weights of shape (layers, heads, {most}, {most}), a row from each cell"
        if not callable(method):
            raise fail("E738", f"the `python` network `{name}` does not say what it attends to", help=help)
        try:
            found: Any = method(_padded(seen, length, most, self.n_values + 1), *encoded)
        except Exception as e:  # The method is the user's, and may fail in any way.
            raise fail("E736", f"`{name}.attention` cannot be called: {type(e).__name__}: {e}", help=help) from e
        shape = getattr(found, "shape", None)
        if shape is None or len(shape) != 4 or shape[2:] != (most, most) or not jnp.issubdtype(found.dtype, jnp.floating):
            raise fail("E736", f"`{name}.attention` must return float weights of (layers, heads, {most}, {most}), got {shape}", help=help)
        return Attention(found[:, :, :n, :n].astype(wide(found.dtype)))


def _padded(values: Array, length: Int[Array, ""], n: int, fill: int) -> Array:
    """Return a vector of n entries, with `fill` from `length` on."""
    shown = jnp.arange(values.shape[0], dtype=length.dtype) < length
    return jnp.pad(jnp.where(shown, values, fill), (0, n - values.shape[0]), constant_values=fill)


def python_network(form: NetworkForm, key: PRNGKeyArray) -> Python:
    """Import the class, instantiate it, and check the shape of its result without computing it.

    Raises:
        GmlmError: E735 if there is no such class, or if its instance is not a callable Equinox
            module; E736 if it returns another shape.
    """
    options = dict(form.options)
    target = str(options.pop("target"))
    made = _made(form, _class(form, target), target, options, key)
    network = Python(made, form)
    _verify_shape(form, network, target)
    return network


def _class(form: NetworkForm, target: str) -> type:
    module, _, name = target.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as e:  # Importing runs the user's module, which may fail in any way.
        help = 'name a class that Python can import, as "package.module:Class"; the module\'s folder must be on sys.path'
        raise fail("E735", f"`{target}` cannot be imported: {e}", form.span, "not found", help=help) from e
    if not isinstance(found, type) or not issubclass(found, eqx.Module) or not any("__call__" in vars(c) for c in found.__mro__):
        raise fail(
            "E735", f"`{target}` is not a class of Equinox modules with `__call__`", form.span, help="derive it from `equinox.Module`"
        )
    return found


def _made(form: NetworkForm, found: type, target: str, options: dict, key: PRNGKeyArray) -> eqx.Module:
    try:
        return found(key=key, n_cells=form.n_cells, n_values=form.n_values, given=form.given, **options)
    except Exception as e:
        help = f"its `__init__` takes `key`, `n_cells`, `n_values`, `given` and the options of the call: {', '.join(options) or 'none'}"
        raise fail("E735", f"`{target}` cannot be made: {type(e).__name__}: {e}", form.span, help=help) from e


def _verify_shape(form: NetworkForm, network: Python, target: str) -> None:
    seen = jnp.zeros(form.n_cells, jnp.int32)
    given = tuple(jnp.zeros(n, jnp.int32 if q else None) for _, n, q in form.given)
    lengths = tuple(jnp.asarray(n, jnp.int32) for _, n, _ in form.given)
    wanted = (form.n_cells, form.n_values)
    help = "return one row of logits for each cell, one column for each value"
    try:
        encoded = network.encode(given, lengths)
        found = eqx.filter_eval_shape(lambda net: net.module(seen, *encoded), network)
    except Exception as e:
        raise fail("E736", f"`{target}` cannot be called: {type(e).__name__}: {e}", form.span, help=help) from e
    shape = getattr(found, "shape", None)
    if shape != wanted or not jnp.issubdtype(found.dtype, jnp.floating):
        got = f"{found.dtype} of shape {shape}" if shape is not None else f"{type(found).__name__}"
        raise fail("E736", f"`{target}` must return float logits of shape {wanted}, returned {got}", form.span, help=help)
