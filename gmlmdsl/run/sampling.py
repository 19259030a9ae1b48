"""Re-exports of `_sampling`."""

from ._sampling import SampleOptions as SampleOptions
from ._sampling import SamplingWarning as SamplingWarning
from ._sampling import draw_chains as draw_chains
from ._sampling import draw_exact as draw_exact
from ._starts import Annealed as Annealed
from ._starts import annealed as annealed
