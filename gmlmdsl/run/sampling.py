"""Re-exports of `_sampling`."""

from ._sampling import Options as Options
from ._sampling import SamplingWarning as SamplingWarning
from ._sampling import run as run
from ._sampling import run_exact as run_exact
from ._starts import Annealed as Annealed
from ._starts import annealed as annealed
