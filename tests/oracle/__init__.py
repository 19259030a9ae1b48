"""The independent oracle: what a checked program means, by enumeration, in plain NumPy.

In: a checked `Program`, inputs, parameters. Out: float64 arrays over every configuration. Never: JAX, or any room
after `program`. It walks expressions cell by cell and shares no code with the compiler, so that a wrong sign, a
doubled edge or a dropped correction cannot hide in both.
"""

from ._chains import distances as distances
from ._chains import hitting_tails as hitting_tails
from ._chains import hitting_times as hitting_times
from ._chains import kl as kl
from ._chains import mixing_time as mixing_time
from ._chains import sampler_matrix as sampler_matrix
from ._chains import spectral_gap as spectral_gap
from ._chains import stationary_law as stationary_law
from ._information import Estimation as Estimation
from ._information import Moved as Moved
from ._information import estimation as estimation
from ._kernels import stationary as stationary
from ._kernels import total_variation as total_variation
from ._oracle import Oracle as Oracle
from ._oracle import numerical_gradient as numerical_gradient
from ._theory import Seen as Seen
from ._theory import block_dynamics as block_dynamics
from ._theory import channel as channel
from ._theory import conditional as conditional
from ._theory import dirichlet_form as dirichlet_form
from ._theory import entropy_tensorization as entropy_tensorization
from ._theory import plain_dynamics as plain_dynamics
from ._theory import poincare_constant as poincare_constant
from ._theory import product_gap as product_gap
from ._theory import seen as seen
from ._theory import tensorization_quotient as tensorization_quotient
from ._theory import visible as visible
from ._theory import visible_states as visible_states
