"""Re-exports of `_parameters`, and of what `_convexity` says of trees in them."""

from ._convexity import degree as degree
from ._parameters import as_params as as_params
from ._parameters import entry_names as entry_names
from ._parameters import flatten as flatten
from ._parameters import init_params as init_params
from ._parameters import known_params as known_params
from ._parameters import tangent as tangent
from ._parameters import unflatten as unflatten
from ._parameters import verified_answer as verified_answer
from ._traced import evaluated as evaluated
from ._traced import verify_untraced_leaves as verify_untraced_leaves
