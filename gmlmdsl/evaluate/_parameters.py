"""Parameters: initial values, flat vectors, bijections, gauges and tangent spaces.

Parameters of networks are verified against the declaration array by array.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._diagnostics import Span, fail, listed, unknown
from .._types import AnyArray, ParamsLike
from ..data import evaluated, generator, is_traced, verified_seed, verify_untraced
from ..derive import float_type, no_joint, on_device
from ..graph import STAYS_FINITE as FINITE
from ..graph import FactorGraph, NetworkForm, ParameterArray, by_name, undefined_at, untried
from ..networks import AbstractCausalNetwork, Probe, network_shapes
from ..program import ir, refinement_options
from ..read import has_labels, verify_unmasked
from ._magnitude import as_stated, oversized, rounded
from .limits import SIMPLEX_ERROR, START_NOISE

if TYPE_CHECKING:
    from numpyro.distributions.transforms import Transform

    from ..networks import AbstractNetwork


Array = np.ndarray
A = TypeVar("A", np.ndarray, jax.Array)  # of the host or of the device
T = TypeVar("T")
# kinds of parameters whose entries along the last axis move together
JOINT = ("simplex", "ordered")


def init_params(graph: FactorGraph, seed: int = 0, spread: float | None = None, number: int = 0) -> dict[str, Array]:
    """Return the initial parameters of a fit.

    Without latents they are

    - 0 for a real parameter, and 1 for a positive one,
    - uniform for a simplex,
    - the middle of two bounds, or a number next to the only bound.

    With latents, normal noise of standard deviation 0.01 is added. The scale is logarithmic for a
    parameter with one bound, logit for one with two bounds, and softmax for a simplex. The noise of
    an unbounded parameter is projected onto the gauge. With `spread`, the noise has that standard
    deviation, with and without latents, and `number` distinguishes several starts of one seed.
    """
    verified_seed(seed)
    if not graph.latents and spread is None:
        return {p.name: np.full(p.shape, p.middle) for p in graph.parameters}
    sd, numbers = (START_NOISE, ()) if spread is None else (spread, (number,))
    return {p.name: _noisy(p, generator(seed, k, *numbers).normal(0, sd, p.shape)) for k, p in enumerate(graph.parameters)}


def _noisy(p: ParameterArray, noise: Array) -> Array:
    """Return the initial value moved by noise."""
    if p.kind == "simplex":
        weights = np.exp(noise)
        return weights / weights.sum(axis=-1, keepdims=True)
    if p.kind == "ordered":
        return np.sort(p.middle + noise, axis=-1)
    low, high = math.isfinite(p.lower), math.isfinite(p.upper)
    if low and high:
        return p.lower + (p.upper - p.lower) / (1 + np.exp(-noise))
    if low:
        return p.lower + np.exp(noise)
    return p.upper - np.exp(noise) if high else on_gauge(p, noise)


def as_params(graph: FactorGraph, params: ParamsLike, what: str = "params", summed: bool = True) -> dict[str, jax.Array]:
    """Convert a user's parameters to arrays of the working float type; traced values pass.

    Args:
        graph: the factor graph.
        params: the user's parameters.
        what: the name of the parameters in messages.
        summed: whether factors are summed over configurations, see `oversized`.

    Raises:
        GmlmError: for an unknown or missing name or a shape that does not fit; E504 for a value
            that is not finite; E509 for an invalid simplex; E514 for a factor that is nan or +inf
            at these parameters for some values of its cells; E591 for a factor that is too large.
    """
    if graph.network is not None:
        raise no_joint(graph)
    verify_all(graph, params, what)
    arrays = given_params(graph, params, what)
    verify_defined(graph, arrays, summed)
    return arrays


def batched_params(graph: FactorGraph, params: ParamsLike, what: str = "params") -> tuple[dict[str, jax.Array], tuple[int, ...]]:
    """Return a user's parameters, and the shape of their batch.

    The shape of the batch is that of the axes before those of each parameter, broadcast.

    Raises:
        GmlmError: E507, E506, E501, E502 for a dict that does not fit; without a batch also the
            errors of `as_params`.
    """
    verify_all(graph, params, what)
    leads, arrays = {}, {}
    for p in graph.parameters:
        arrays[p.name] = _numbers(p, params[p.name], what)
        shape = arrays[p.name].shape
        leads[p.name] = shape[: len(shape) - len(p.shape)]
        if (*leads[p.name], *p.shape) != shape:
            raise fail("E501", f"{what}[{p.name!r}] must have shape {p.shape}, or a batch before it, got {shape}")
    if not any(leads.values()):
        return as_params(graph, arrays, what), ()
    try:
        return arrays, np.broadcast_shapes(*leads.values())
    except ValueError:
        raise fail("E501", f"the batches of {what} do not fit one another: {leads}", help="all alike, or of length 1") from None


def verify_all(graph: FactorGraph, params: ParamsLike, what: str) -> None:
    """Raise an error unless `params` is a dict with each parameter."""
    names = [p.name for p in graph.parameters]
    _verify_dict(names, params, what)
    lacking = [n for n in names if n not in params]
    if lacking:
        raise fail("E506", f"{what} lacks {listed(lacking)}", help="`model.init_params()` gives one of each")


def _verify_dict(names: list[str], params: ParamsLike, what: str) -> None:
    if not isinstance(params, Mapping):
        help = f"by name: {{{', '.join(f'{n!r}: ..' for n in names[:3])}}}"
        raise fail("E507", f"{what} must be a dict of arrays by parameter, got {type(params).__name__}", help=help)
    verify_names(params, names, what)


def given_params(graph: FactorGraph, params: ParamsLike, what: str = "params") -> dict[str, jax.Array]:
    """Convert a dict that may lack parameters to arrays of the working float type.

    A missing parameter is missing from the result too. The values of factors are not checked.

    Raises:
        GmlmError: as `as_params`, except E506 for a missing parameter and E514.
    """
    _verify_dict([p.name for p in graph.parameters], params, what)
    arrays = {p.name: _array(p, params[p.name], what) for p in graph.parameters if p.name in params}
    for p in graph.parameters:
        if p.kind in JOINT and not isinstance(arrays.get(p.name), jax.core.Tracer | None):  # pyright: ignore[reportAttributeAccessIssue]
            _verify_joint(p, np.asarray(arrays[p.name]), f"{what}[{p.name!r}]")
    return arrays


def _verify_joint(p: ParameterArray, value: np.ndarray, what: str) -> None:
    """Raise E509 unless entries along the last axis sum to 1, or increase."""
    # log Z of a product of distributions is 0 only if they are normalised.
    if p.kind == "simplex" and ((value < 0).any() or np.abs(value.sum(-1) - 1).max(initial=0.0) > SIMPLEX_ERROR):
        worst = value.sum(-1).ravel()[int(np.argmax(np.abs(value.sum(-1) - 1)))]
        message = f"{what} is a simplex: its last axis is not negative and sums to 1; found a sum of {worst:g}"
        raise fail("E509", message, help="divide by the sum over the last axis")
    if p.kind == "ordered" and (np.diff(value) <= 0).any():
        raise fail("E509", f"{what} is ordered: it increases along its last axis", help="sort it; no two entries are equal")


def known_params(graph: FactorGraph, params: ParamsLike, what: str = "params") -> dict[str, jax.Array]:
    """Convert a user's parameters as `as_params` does, without allowing traced values.

    Raises:
        GmlmError: E513 for a traced value; see `as_params`.
    """
    verify_untraced(params, what)
    with evaluated(params):
        return as_params(graph, params, what)


def verify_defined(graph: FactorGraph, arrays: Mapping[str, jax.Array], summed: bool = True) -> None:
    """Raise an error for parameters at which a factor has no value (E514) or is too large (E591).

    Traced parameters pass, and later results may then be nan.
    """
    if not any(isinstance(a, jax.core.Tracer) for a in arrays.values()):  # pyright: ignore[reportAttributeAccessIssue]
        known = {name: np.asarray(a) for name, a in arrays.items()}
        error = undefined_at(graph, known) or oversized(graph, known, np.dtype(float_type()), summed)
        if error is not None:
            raise error


def verified_answer(graph: FactorGraph, found: AnyArray, impossible: float) -> Any:
    """Return an answer, after a check of factors that could not be evaluated one by one.

    An answer of nan or of `impossible` shows that such a factor has no value. Traced answers pass.

    Raises:
        GmlmError: E514.
    """
    doubted = None if isinstance(found, jax.core.Tracer) else untried(graph)  # pyright: ignore[reportAttributeAccessIssue]
    if doubted is not None and bool((np.isnan(found) | (np.asarray(found) == impossible)).any()):
        message = "at these parameters this factor, or another with as many cells, is not a number or +inf"
        raise fail("E514", message, doubted.span, "may be infinite", help=FINITE)
    return found


def verify_names(given: Mapping[str, object], names: list[str], what: str) -> None:
    """Raise an error for a name of no parameter."""
    for name in given:
        if name not in names:
            raise unknown(f"{what}: the model has no parameter `{name}`", name, names)


def _numbers(p: ParameterArray, value: Any, what: str) -> jax.Array:
    """Return an array of the working float type and of any shape.

    An array with named axes is put in the order of the parameter's names.
    """
    what = f"{what}[{p.name!r}]"
    if p.edges or has_labels(value):  # Entries over edges may be named by pairs.
        value = by_name(value, p.edges, p.dims, p.coords, what)
    verify_unmasked(value, what)
    try:
        if isinstance(value, complex | np.ndarray | np.generic | jax.Array) and np.iscomplexobj(value):
            raise TypeError
        # Numbers of the host are converted on the host. A conversion on the device would compile a
        # program for every shape.
        of_host = isinstance(value, int | float | np.ndarray | np.generic)
        return jax.device_put(rounded(value, float_type())) if of_host else jnp.asarray(value, dtype=float_type())
    except (TypeError, ValueError):
        raise fail("E502", f"{what} is not an array of numbers") from None


def _array(p: ParameterArray, value: Any, what: str) -> jax.Array:
    array = _numbers(p, value, what)
    if array.shape != p.shape:
        raise fail("E501", f"{what}[{p.name!r}] must have shape {p.shape}, got {array.shape}")
    if not isinstance(array, jax.core.Tracer):  # pyright: ignore[reportAttributeAccessIssue]
        bad = ~np.isfinite(np.asarray(array))
        if bad.any():
            found = as_stated(value, np.asarray(array))[bad].ravel()[0]
            message = f"{what}[{p.name!r}] has a {'NaN' if np.isnan(found) else f'{found:+g}'}: parameters are finite numbers"
            message += f", in this type up to {float(np.finfo(array.dtype).max):.3g}" if np.isfinite(found) else ""
            raise fail("E504", message)
    return array


def in_support(p: ParameterArray, value: Array) -> str:
    """Return the fault of an initial or fixed value in words; empty if the value is valid."""
    if p.kind == "simplex":
        good = (value > 0).all() and np.abs(value.sum(-1) - 1).max() < 1e-5
        return "" if good else "must be above 0 with sum 1 over its last axis"
    if not np.isfinite(value).all():
        return "must be finite"
    if p.kind == "ordered" and (np.diff(value) <= 0).any():
        return "must increase along its last axis"
    if not ((value > p.lower) & (value < p.upper)).all():
        return f"must lie between {p.lower:g} and {p.upper:g}"
    return ""


class Unchanged:
    """The identity as a map of parameters."""

    def __call__(self, x: T) -> T:
        return x

    def inv(self, y: T) -> T:
        return y


def bijection(p: ParameterArray) -> Transform | Unchanged:
    """Return the map from unconstrained space onto the range of a parameter.

    The maps of bounded parameters are NumPyro's, which is imported only for them because its import
    takes long.
    """
    low, high = math.isfinite(p.lower), math.isfinite(p.upper)
    if p.kind not in JOINT and not low and not high:
        return Unchanged()
    from numpyro.distributions import biject_to, constraints

    if p.kind == "simplex":
        return biject_to(constraints.simplex)
    if p.kind == "ordered":
        return biject_to(constraints.ordered_vector)
    if low and high:
        return biject_to(constraints.interval(p.lower, p.upper))
    return biject_to(constraints.greater_than(p.lower) if low else constraints.less_than(p.upper))


def slopes(p: ParameterArray, free: jax.Array) -> Array:
    """Return the derivative of each entry by its own unconstrained entry, flat.

    Simplex and ordered parameters are not supported, because their entries move together.
    """
    if p.kind == "real":
        return np.ones(p.size)
    return np.asarray(jax.vmap(jax.grad(lambda u: bijection(p)(u)))(jnp.ravel(free)))


def unconstrained_moves(p: ParameterArray, free: jax.Array, moves: Array, least: float) -> Array:
    """Convert moves of a parameter to moves of its unconstrained array, to first order.

    A slope below `least` counts as `least`. A row of a simplex with derivative J = U diag(s) V' has
    the unconstrained moves V diag(1 / s) U' moves. J maps these to the part of the moves with sum
    zero. A row of an ordered parameter is treated in the same way.

    Args:
        p: the parameter.
        free: its unconstrained array.
        moves: moves of the parameter, shape (size, directions).
        least: the smallest slope.

    Returns:
        Moves of the flat unconstrained array at `free`, with one column for each direction.
    """
    if p.kind not in JOINT:
        slope = slopes(p, free)
        return moves / np.where(np.abs(slope) < least, least, slope)[:, None]
    rows, values = p.size // p.shape[-1], p.shape[-1]
    own = values - (p.kind == "simplex")
    # shape (rows, values, own)
    jacobian = np.asarray(jax.vmap(jax.jacobian(bijection(p)))(jnp.reshape(free, (rows, own))))
    left, size, right = np.linalg.svd(jacobian, full_matrices=False)
    mine = moves.reshape(rows, values, moves.shape[1])
    inverse = np.einsum("rvs,rs,rsk->rkv", left, 1 / np.maximum(size, least), right)
    return (inverse @ mine).reshape(rows * own, moves.shape[1])


def on_gauge(p: ParameterArray, value: Any) -> Any:
    """Return the projection onto the gauge, which has zero sums over each gauge axis."""
    for axis in p.gauge:
        value = value - value.mean(axis=axis, keepdims=True)
    return value


def flatten(graph: FactorGraph, params: Mapping[str, AnyArray]) -> jax.Array:
    """Return all parameters as one vector, in declaration order and row-major."""
    parts = [params[p.name] for p in graph.parameters]
    if is_traced(parts):
        return jnp.concatenate([jnp.ravel(a) for a in parts])
    return on_device(np.concatenate([np.ravel(a) for a in parts]) if parts else np.zeros(0))


def unflatten(graph: FactorGraph, vector: A) -> dict[str, A]:
    """Return the arrays of a flat vector, or of an array of such vectors along its last axis."""
    out, at = {}, 0
    for p in graph.parameters:
        out[p.name] = vector[..., at : at + p.size].reshape((*vector.shape[:-1], *p.shape))
        at += p.size
    return out


def tangent(graph: FactorGraph, fixed: frozenset[str]) -> Array:
    """Return an orthonormal basis of the directions in which the flat vector may move.

    Fixed parameters and fixed entries do not move; a gauge and a simplex move with zero sums.

    Returns:
        Array of shape (parameters, dimensions).
    """
    columns, at, size = [], 0, sum(p.size for p in graph.parameters)
    for p in graph.parameters:
        if p.name not in fixed:
            basis = free_basis(p)
            block = np.zeros((size, basis.shape[1]))
            block[at : at + p.size] = basis
            columns.append(block)
        at += p.size
    return np.concatenate(columns, axis=1) if columns else np.zeros((size, 0))


def free_basis(p: ParameterArray) -> Array:
    """Return an orthonormal basis of one parameter's free directions."""
    axes = (len(p.shape) - 1,) if p.kind == "simplex" else p.gauge
    basis = np.ones((1, 1))
    for k, n in enumerate(p.shape):
        part = _zero_sum_basis(n) if k in axes else np.eye(n)
        basis = np.kron(basis, part)
    return np.delete(basis, p.still, axis=1)


def _zero_sum_basis(n: int) -> Array:
    """Return Helmert's basis, whose orthonormal columns have sum zero."""
    k = np.arange(1, n)
    basis = np.where(np.arange(n)[:, None] < k, 1.0, 0.0)
    basis[k, k - 1] = -k
    return basis / np.sqrt(k * (k + 1))


def entry_names(graph: FactorGraph) -> list[str]:
    """Return the names of the flat vector's entries with coordinates, as `J[0, 1]` or `beta`."""
    names = []
    for p in graph.parameters:
        if not p.shape:
            names.append(p.name)
        for place in np.ndindex(*p.shape) if p.shape else ():
            inside = ", ".join(str(c[i]) for c, i in zip(p.coords, place, strict=True))
            names.append(f"{p.name}[{inside}]")
    return names


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
