"""The independent oracle: what a checked program means, by enumeration, in plain NumPy.

In: a checked `Program`, inputs, parameters. Out: float64 arrays over every configuration. Never: JAX, or any room
after `program`. It walks expressions cell by cell and shares no code with the compiler, so that a wrong sign, a
doubled edge or a dropped correction cannot hide in both.
"""

from ._kernels import stationary as stationary
from ._kernels import total_variation as total_variation
from ._oracle import Oracle as Oracle
from ._oracle import numerical_gradient as numerical_gradient
