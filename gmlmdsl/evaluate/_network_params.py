"""Parameters of networks in calls, verified against the declaration array by array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import numpy as np

from .._diagnostics import Span, fail
from ..graph import NetworkForm
from ..networks import AbstractCausalNetwork, Probe, network_shapes
from ..program import ir, refinement_options

if TYPE_CHECKING:
    from ..networks import AbstractNetwork

Array = np.ndarray


def verified_params(form: NetworkForm, params: object, decoder: ir.FormCall | None = None) -> dict[str, AbstractNetwork]:
    """Return a network's parameters: a dict with its Equinox module.

    Results depend only on the arrays of the module. Probes of the network are left out. For a
    decoder whose planner is a network, the dict holds the planner's module too; other planners are
    left out.

    Raises:
        GmlmError: E509 for anything else, and for a module whose arrays have different shapes or a
            different meaning, such as another number of heads. E504 for an array with a NaN or an
            infinite number.
    """
    example = f"`{{{form.label!r}: network}}`, as `init_params` and a fit's `params` are"
    others = {*form.probes, *(f.label for f in form.planners)} - {form.label}
    if not isinstance(params, Mapping) or set(params) - others != {form.label}:
        found = f"a dict of {sorted(params)}" if isinstance(params, Mapping) else type(params).__name__
        raise fail("E509", f"the parameters of this model are {example}; got {found}")
    out, wanted = {form.label: _verified(form, params[form.label])}, "none" if decoder is None else refinement_options(decoder)["planner"]
    for planner in (f for f in form.planners if f.label == wanted != form.label):
        if planner.label not in params:
            help = f"`{{**params, {planner.label!r}: network}}`, for example of the fit of a model with that network"
            raise fail("E509", f"network `{planner.label}` plans this decode, and the parameters lack it", planner.span, help=help)
        out[planner.label] = _verified(planner, params[planner.label])
    return out


def _verified(form: NetworkForm, network: object) -> AbstractNetwork:
    """Return the module that the program declares, with the arrays of the given module."""
    declared = network_shapes(form)
    wanted, here = (_described(n) for n in (declared, network))
    leaves, tree = jax.tree.leaves(network), jax.tree.structure(declared)
    if wanted != here or len(leaves) != tree.num_leaves:
        wrong = next((k for k in [*wanted, *here] if wanted.get(k) != here.get(k)), "")
        message = (
            f"the network `{form.label}` does not fit its declaration: {wrong or 'its class'} is {here.get(wrong)}, not {wanted.get(wrong)}"
        )
        raise fail("E509", message, form.span, help="were these parameters made for other sizes or options?")
    wrong = next((w for w in map(_wrong_number, leaves) if w), None)
    if wrong:
        raise fail(
            "E504", f"the parameters of the network `{form.label}` are numbers, and -inf where it is a log of 0; found {wrong}", form.span
        )
    return jax.tree.unflatten(tree, leaves)  # dropout and similar options come from the program


def verified_probes(form: NetworkForm, params: Mapping[str, object]) -> dict[str, Probe]:
    """Return the probes among a causal network's parameters.

    Raises:
        GmlmError: E509 for a probe that does not fit this network, E504 for a NaN or inf in one.
    """
    found = {}
    for name in (n for n in form.probes if n in params):
        probe, width = params[name], _width(form)
        shapes = [np.shape(getattr(probe, part, 0)) for part in ("weight", "bias")]
        if not isinstance(probe, Probe) or shapes != [(width,), ()]:
            message = f"the probe `{name}` does not fit the network `{form.label}`, whose states have {width} features"
            raise fail("E509", message, form.span, help="train it: `gm.train_probe`")
        wrong = next((w for w in map(_wrong_number, (probe.weight, probe.bias)) if w), None)
        if wrong:
            raise fail("E504", f"the parameters of the probe `{name}` are numbers; found {wrong}", form.span)
        found[name] = probe
    return found


def _width(form: NetworkForm) -> int:
    """Return the number of features of a state; only causal networks may have probes."""
    network = network_shapes(form)
    assert isinstance(network, AbstractCausalNetwork)
    return network.start.shape[0]


def read_layers(network: AbstractCausalNetwork, layer: int | str, place: Span | None) -> AbstractCausalNetwork | None:
    """Return the network of the layers up to the layer to read; None for the last layer.

    Raises:
        GmlmError: E409 if the network has fewer layers.
    """
    if layer in ("last", network.n_layers):
        return None
    if int(layer) > network.n_layers:
        raise fail("E409", f"`layer` is at most {network.n_layers}, the layers of the network, found {layer}", place, "no such layer")
    return network.first_layers(int(layer))


def _wrong_number(leaf: object) -> str | None:
    """Return a description of an invalid number in an array: a NaN, or inf; None without one.

    -inf is valid: it is the logarithm of 0, which a user's own network may hold. Traced arrays and
    objects other than arrays of numbers pass.
    """
    if isinstance(leaf, jax.core.Tracer) or not eqx.is_inexact_array(leaf):  # pyright: ignore[reportAttributeAccessIssue]
        return None
    largest = np.asarray(leaf).max(initial=-np.inf)  # the maximum of numbers with a NaN is NaN
    return "a NaN" if np.isnan(largest) else "an infinity" if largest == np.inf else None


def _described(part: object, path: str = "") -> dict[str, object]:
    """Return the shapes of a network's arrays and its static fields, by path.

    The fields are in the order of their declaration. Only integers are kept among the static
    fields, because they determine the meaning of arrays. Fractions such as dropout concern training
    and are left out.
    """
    found: dict[str, object] = {}
    if isinstance(part, eqx.Module):
        for f in fields(part):
            value, at = getattr(part, f.name), f"{path}.{f.name}"
            if f.metadata.get("static"):
                found |= {at: value} if isinstance(value, int) else {}
            else:
                found |= _described(value, at)
    elif isinstance(part, tuple | list):
        for k, member in enumerate(part):
            found |= _described(member, f"{path}[{k}]")
    else:
        leaves = jax.tree_util.tree_flatten_with_path(part)[0]
        found |= {path + jax.tree_util.keystr(p): tuple(x.shape) for p, x in leaves if hasattr(x, "shape")}
    return found
