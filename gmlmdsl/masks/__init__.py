"""In: a lowered model and the masks of its program. Out: distributions over blocks of cells, as arrays. Never: JAX."""

from ._bernoulli import BernoulliMask as BernoulliMask
from ._block_terms import cells_of as cells_of
from ._block_terms import term_blocks as term_blocks
from ._independent import IndependentMask as IndependentMask
from ._listed import ListedMask as ListedMask
from ._listed import certain_mask as certain_mask
from ._lower import lower_body as lower_body
from ._lower import lower_clusters as lower_clusters
from ._lower import lower_mask as lower_mask
from ._mask import AbstractMask as AbstractMask
from ._mixture import MixtureMask as MixtureMask
from ._percolation import PercolationMask as PercolationMask
from ._subsets import SubsetMask as SubsetMask
from ._subsets import chance_among as chance_among
