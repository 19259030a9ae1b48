"""Convexity of a fit's objective, which makes a stationary point a global minimum."""

from __future__ import annotations

from ..graph import FactorGraph
from ..graph.nodes import Add, Apply, Gather, If, Node, Pick, nodes_in
from ._priors import is_log_concave


def is_convex(graph: FactorGraph) -> bool:
    """Return whether log p is affine in the parameters, and every log prior concave.

    Then every weighted or adaptive pseudolikelihood is convex: it is log-sum-exp of affine
    functions minus an affine function. Such a model is an exponential family.

    Reference: Li et al. 2024, Proposition 11.
    """
    concave = all(is_log_concave(p) for p in graph.parameters)
    return is_affine(graph) and concave and not graph.hyperpriors


def is_affine(graph: FactorGraph) -> bool:
    """Return whether log p is affine in the parameters, and these are not on simplices.

    The parameters then fill a convex set with an interior.
    """
    if any(p.kind == "simplex" for p in graph.parameters):
        return False
    return all(degree(g.root) is not None for g in graph.groups)


def degree(node: Node) -> int | None:
    """Return 0 for a tree without parameters, 1 for one affine in them, and None otherwise."""
    if not any(isinstance(n, Gather) and n.name for n in nodes_in(node)):
        return 0
    match node:
        case Gather():
            return 1
        case Apply(operator="+" | "-" | "neg"):
            return _worst(*node.operands)
        case Apply(operator="*"):
            degrees = [degree(o) for o in node.operands]
            return 1 if None not in degrees and sum(d or 0 for d in degrees) <= 1 else None
        case Apply(operator="/"):
            return degree(node.operands[0]) if degree(node.operands[1]) == 0 else None
        case If():
            return _worst(node.yes, node.no) if degree(node.test) == 0 else None
        case Add(operator="+") | Pick():
            return degree(node.body)
    return None


def _worst(*nodes: Node) -> int | None:
    degrees = [degree(n) for n in nodes]
    return None if None in degrees else max(d for d in degrees if d is not None)
