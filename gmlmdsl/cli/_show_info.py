"""The output of `gmlm info`."""

from __future__ import annotations

from collections.abc import Sequence

from .._diagnostics import counted, listed
from .._types import JsonObject
from ._console import note, print_table

REAL = ("real", "positive", "bounded")


def show_versions(as_json: bool) -> None:
    """Print the versions of this package, of Python, of the system and of the packages that results depend on."""
    import json
    import platform

    from ..graph import versions

    found = {"python": platform.python_version(), "system": platform.platform(), **versions()}
    print(json.dumps(found, indent=2) if as_json else "\n".join(f"{name} {version}" for name, version in found.items()))


def show_info(found: JsonObject) -> None:
    """Print the plain data of `describe` as tables."""
    if found["inputs"]:
        rows = []
        for name, d in found["inputs"].items():
            value = (
                d["value"]
                if d["value"] is not None
                else f"array {d['shape']}"
                if d["shape"] is not None
                else "needed"
                if d["required"]
                else d["default"]
            )
            rows.append(
                [name, f"{d['type']}{_brackets(d['axes'])}", d["default"] if d["default"] is not None else "none: needed", str(value)]
            )
        print_table(["input", "type", "default", "value"], rows)
    if found["graphs"]:
        rows = [[name, g["form"], _or_unknown(g["nodes"]), _or_unknown(g["edges"])] for name, g in found["graphs"].items()]
        print_table(["graph", "form", "nodes", "edges"], rows)
    for name, model in found["models"].items():
        _show_model(name, model)
    if not found["bound"]:
        lacking = [name for name, d in found["inputs"].items() if d["required"]]
        note(f"shapes and counts need {listed(lacking)}: give them with `--input` or `--inputs`")


def _brackets(axes: Sequence[str]) -> str:
    return f", axes [{', '.join(axes)}]" if axes else ""


def _or_unknown(value: object) -> str:
    return "?" if value is None else str(tuple(value) if isinstance(value, list) else value)


def _show_model(name: str, model: JsonObject) -> None:
    sizes = f": {counted(model['cells'], 'cell')}, {counted(model['factors'], 'factor')}" if model["cells"] is not None else ""
    print(f"model {name}{sizes if model['network'] is None else sizes.rpartition(',')[0]}")
    rows = [
        [f"{v['role']} {k}{v['axes']}", v["type"], _values(v["values"], v["type"]), _or_unknown(v["shape"])]
        for k, v in model["variables"].items()
    ]
    print_table(["variable", "type", "values", "shape"], rows)
    if model["parameters"]:
        rows = [
            [f"{k}{p['axes']}", p["type"], p["prior"] or "none", _or_unknown(p["shape"]), _or_unknown(p["count"])]
            for k, p in model["parameters"].items()
        ]
        print_table(["parameter", "type", "prior", "shape", "count"], rows)
    if model["network"] is not None:
        _show_network(model["network"])
    if model["masks"]:
        rows = [
            [k, m["kind"], "yes" if m["adaptive"] else "no", _or_unknown(m["support"]), _or_unknown(m["reached"])]
            for k, m in model["masks"].items()
        ]
        print_table(["mask", "kind", "adaptive", "distinct masks", "cells it reaches"], rows)
    if model["judges"]:
        print_table(["verifier or value", "form"], [[k, form] for k, form in model["judges"].items()])
    if model["samplers"]:
        print_table(["sampler", "updates"], [[k, "; ".join(s["updates"])] for k, s in model["samplers"].items()])


def _show_network(network: JsonObject) -> None:
    """Print the network's options, and its parameters by part."""
    options = network["options"]
    if options is not None:
        written = ", ".join(f"{k} = {str(v).lower() if isinstance(v, bool) else v}" for k, v in options.items())
        print(f"network {network['name']} = {network['form']}({written})")
    if network["parameters"] is not None:
        rows = [[part, f"{count:,}"] for part, count in network["parameters"].items()]
        print_table(["part", "parameters"], [*rows, ["total", f"{network['count']:,}"]])
    elif options is not None:
        note(f"network `{network['name']}` is a class of Python: counting its parameters runs it, which `--allow-python` allows")


def _values(values: Sequence[object] | None, type_: str) -> str:
    if values is None:
        return "numbers" if type_ in REAL else "?"
    return ", ".join(map(str, values)) if len(values) <= 6 else f"{', '.join(map(str, values[:3]))}, .. {values[-1]} ({len(values)})"
