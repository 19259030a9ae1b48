"""Parameters of networks as calls take them: verified against the declaration, array by array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._diagnostics import Span, fail
from ..graph import NetworkForm
from ..networks import AbstractCausalNetwork, Probe, network_shapes
from ..program import ir, refinement_options

Array = np.ndarray


def verified_params(form: NetworkForm, params: Any, decoder: ir.FormCall | None = None) -> dict[str, Any]:
    """A network's parameters: a dict with its Equinox module, of whose arrays alone anything depends; those of its probes are left out.

    With a decoder whose planner is a network, its module as well; those of other planners are left
    out too.

    Raises:
        GmlmError: E509 for anything else, or a module whose arrays have other shapes, or mean
            something else: of other heads, say; E504 for a NaN or inf among them.
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


def _verified(form: NetworkForm, network: Any) -> Any:
    """The module as the program declares it, with these arrays."""
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
    return jax.tree.unflatten(tree, leaves)  # dropout and the like are what this program says


def verified_probes(form: NetworkForm, params: Mapping[str, Any]) -> dict[str, Probe]:
    """The probes among a causal network's parameters.

    Raises:
        GmlmError: E509 for what is no probe of this network, E504 for a NaN or inf in one.
    """
    found, width = {}, network_shapes(form).start.shape[0]
    for name in (n for n in form.probes if n in params):
        probe = params[name]
        shapes = [np.shape(getattr(probe, part, 0)) for part in ("weight", "bias")]
        if not isinstance(probe, Probe) or shapes != [(width,), ()]:
            message = f"the probe `{name}` does not fit the network `{form.label}`, whose states have {width} features"
            raise fail("E509", message, form.span, help="train it: `gm.train_probe`")
        wrong = next((w for w in map(_wrong_number, (probe.weight, probe.bias)) if w), None)
        if wrong:
            raise fail("E504", f"the parameters of the probe `{name}` are numbers; found {wrong}", form.span)
        found[name] = probe
    return found


def read_layers(network: AbstractCausalNetwork, layer: Any, place: Span | None) -> AbstractCausalNetwork | None:
    """The network of the layers up to the one that is read; None where that is the last one.

    Raises:
        GmlmError: E409 where it has fewer.
    """
    if layer in ("last", network.n_layers):
        return None
    if int(layer) > network.n_layers:
        raise fail("E409", f"`layer` is at most {network.n_layers}, the layers of the network, found {layer}", place, "no such layer")
    return network.first_layers(int(layer))


def _wrong_number(leaf: Any) -> str | None:
    """What no parameter is: a NaN, or inf. -inf is the logarithm of 0, which a network of the user's own may hold.

    What is traced, or no array of numbers, passes.
    """
    if isinstance(leaf, jax.core.Tracer) or not eqx.is_inexact_array(leaf):  # pyright: ignore[reportAttributeAccessIssue]
        return None
    largest = np.asarray(leaf).max(initial=-np.inf)  # a NaN is the largest of what it is among
    return "a NaN" if np.isnan(largest) else "an infinity" if largest == np.inf else None


def _described(part: Any, path: str = "") -> dict[str, object]:
    """What a network's arrays are, by place, in the order in which its fields are declared: their shapes, and the static fields.

    Of these whole numbers say what arrays mean; fractions are left out, which training takes, as
    dropout is.
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
