"""Re-exports of `_parameters`, and of what `_convexity` says of trees in them."""

from ._convexity import degree as degree
from ._parameters import as_params as as_params
from ._parameters import entry_names as entry_names
from ._parameters import flatten as flatten
from ._parameters import init_params as init_params
from ._parameters import tangent as tangent
from ._parameters import unflatten as unflatten
