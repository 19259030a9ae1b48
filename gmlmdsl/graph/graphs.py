"""Bound graphs."""

from ._graphs import GraphArrays as GraphArrays
