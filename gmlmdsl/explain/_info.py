"""The contents of a program as plain data: models, masks, samplers, inputs and graphs.

With its inputs, shapes and counts are included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .._diagnostics import unknown
from .._types import JsonObject
from ..program import Program, ir

if TYPE_CHECKING:
    from ..graph import Bound, FactorGraph, Lowered


def known(name: str, names: Sequence[str], what: str) -> str:
    """Return `name` if it is one of `names`.

    Raises:
        GmlmError: E506 with the nearest name.
    """
    if name in names:
        return name
    raise unknown(f"the program has no {what} `{name}`", name, names)


def needed_inputs(program: Program, given: Mapping[str, object] | None = None) -> list[str]:
    """Return the inputs without a default that are not given."""
    return [d.name for d in program.inputs.values() if d.default is None and d.name not in (given or {})]


def axes_text(axes: Sequence[ir.Loop]) -> str:
    """Return `[i in site, (a, b) in G.edges]`; empty for a scalar."""

    def one(loop: ir.Loop) -> str:
        names = loop.names[0] if len(loop.names) == 1 else f"({', '.join(loop.names)})"
        return f"{names} in {loop.over.name}"

    return f"[{', '.join(one(a) for a in axes)}]" if axes else ""


def describe(program: Program, bound: Bound | None = None, allow_python: bool = False) -> JsonObject:
    """Describe the contents of a program.

    Args:
        program: a checked program.
        bound: the program with its inputs; None describes only what the text determines.
        allow_python: whether the class of a `python` network may be imported, to count its
            parameters.

    Returns:
        Data for `json.dumps`, with None for values that are unknown without inputs.
    """
    program = program if bound is None else bound.program
    return {
        "files": [s.path for s in program.sources],
        "bound": bound is not None,
        "inputs": {d.name: _input(d, bound) for d in program.inputs.values()},
        "graphs": {name: _graph(name, call, bound) for name, call in program.graphs.items()},
        "models": {name: _model(program, model, bound, allow_python) for name, model in program.models.items()},
        "warnings": [w.as_dict() for w in program.warnings],
    }


def _input(d: ir.Input, bound: Bound | None) -> JsonObject:
    value = None if bound is None else bound.inputs[d.name]
    return {
        "type": d.type.span.text,
        "axes": [a.span.text for a in d.axes],
        "default": None if d.default is None else d.default.span.text,
        "required": d.default is None,
        "shape": None if value is None else list(value.shape),
        "value": value.item() if value is not None and value.ndim == 0 else None,
    }


def _graph(name: str, call: ir.FormCall, bound: Bound | None) -> JsonObject:
    arrays = None if bound is None else bound.graphs[name]
    nodes = None if arrays is None else arrays.n + arrays.n_right if arrays.bipartite else arrays.n
    return {"form": call.span.text, "nodes": nodes, "edges": None if arrays is None else len(arrays.edges)}


def _model(program: Program, model: ir.Model, bound: Bound | None, allow_python: bool) -> JsonObject:
    lowered = lowered_if_bound(bound, model.name)
    graph = None if lowered is None else lowered.graph
    return {
        "variables": {name: _variable(v, graph) for name, v in model.variables.items()},
        "parameters": {name: _parameter(p, graph) for name, p in model.parameters.items()},
        "cells": None if graph is None else graph.n_random,
        "factors": None if graph is None else sum(g.n for g in graph.factors),
        "masks": {m.name: _mask(m, lowered) for m in program.masks.values() if m.model == model.name},
        "judges": {j.name: f"{j.kind}: {j.body.span.text}" for j in program.judges.values() if j.model == model.name},
        "samplers": {s.name: _sampler(s) for s in program.samplers.values() if s.model == model.name},
        "network": _network(program, model, lowered, allow_python),
    }


def _variable(v: ir.Variable, graph: FactorGraph | None) -> JsonObject:
    found = None if graph is None else graph.variable(v.name)
    labels = v.domain.labels if found is None else found.labels
    return {
        "role": v.role,
        "axes": axes_text(v.axes),
        "type": v.domain.name or v.domain.kind,
        "values": [x if isinstance(x, int) else str(x) for x in labels] or None,
        "shape": None if found is None else list(found.shape),
    }


def _parameter(p: ir.Parameter, graph: FactorGraph | None) -> JsonObject:
    array = None if graph is None else next(q for q in graph.parameters if q.name == p.name)
    return {
        "axes": axes_text(p.axes),
        "type": p.type.kind,
        "prior": None if p.prior is None else p.prior.span.text,
        "shape": None if array is None else list(array.shape),
        "count": None if array is None else array.size,
    }


def lowered_if_bound(bound: Bound | None, name: str) -> Lowered | None:
    """Return the lowered model; None without inputs."""
    if bound is None:
        return None
    from ..graph import lower_model

    return lower_model(bound, name)


def _network(program: Program, model: ir.Model, lowered: Lowered | None, allow_python: bool) -> JsonObject | None:
    """Return the network of a conditional with its parameters by part.

    Parameters are included if the network may be built. Counting them imports JAX but allocates no
    arrays.
    """
    if model.conditional is None:
        return None
    call = program.networks[model.conditional.network]
    out: JsonObject = {"name": model.conditional.network, "form": call.form.name, "given": list(model.conditional.given)}
    if lowered is None or lowered.graph.network is None:
        return out | {"options": None, "parameters": None, "count": None}
    form = lowered.graph.network
    out["options"] = dict(form.options)
    if form.name == "python" and not allow_python:
        return out | {"parameters": None, "count": None}
    from ..networks import network_shapes, parameter_counts

    counts = parameter_counts(network_shapes(form))
    return out | {"parameters": counts, "count": sum(counts.values())}


def _mask(mask: ir.Mask, lowered: Lowered | None) -> JsonObject:
    out: JsonObject = {
        "kind": mask.body.kind,
        "adaptive": mask.adaptive,
        "given": list(mask.given),
        "may_fit": not (mask.mentions_parameter or mask.body.has_least_confident or mask.body.is_percolation),
    }
    if lowered is None or mask.body.has_least_confident:
        return out | {"support": None, "reached": None}
    from ..masks import lower_mask

    found = lower_mask(lowered, mask)
    size = found.support_size
    return out | {
        "support": int(size) if size < 2**53 else size if size < float("inf") else None,
        "reached": len(found.reach),
    }


def _sampler(sampler: ir.Sampler) -> JsonObject:
    if isinstance(sampler.body, ir.FormCall):
        return {"updates": [sampler.body.span.text]}
    return {"updates": [update.span.text for update in ir.updates_in(sampler.body)]}
