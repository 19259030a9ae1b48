"""Distributions over blocks of cells.

In: a lowered model and the masks of its program. Out: distributions over blocks of cells, as
arrays. Never: JAX.
"""

from ._bernoulli import BernoulliMask
from ._block_terms import cells_of, term_blocks
from ._independent import IndependentMask
from ._listed import ListedMask, certain_mask
from ._lower import lower_body, lower_clusters, lower_mask
from ._mask import AbstractMask
from ._mixture import MixtureMask
from ._percolation import PercolationMask
from ._subsets import SubsetMask, chance_among
from ._visits import VisitMask, visits_of
