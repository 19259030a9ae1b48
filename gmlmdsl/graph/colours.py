"""Colours of a sweep."""

from ._colours import colour as colour
from ._colours import has_inner_factor as has_inner_factor
