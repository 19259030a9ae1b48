"""Bound graphs."""

from ._graph_arrays import GraphArrays as GraphArrays
