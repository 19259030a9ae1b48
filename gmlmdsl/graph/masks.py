"""Lowered masks."""

from ._lower_masks import BernoulliMask as BernoulliMask
from ._lower_masks import IndependentMask as IndependentMask
from ._lower_masks import ListedMask as ListedMask
from ._lower_masks import LoweredMask as LoweredMask
from ._lower_masks import MixtureMask as MixtureMask
from ._lower_masks import PercolationMask as PercolationMask
from ._lower_masks import SubsetMask as SubsetMask
from ._lower_masks import lower_body as lower_body
from ._lower_masks import lower_mask as lower_mask
from ._lower_masks import mask_with as mask_with
from ._lower_masks import normalised as normalised
from ._lower_masks import term_blocks as term_blocks
from ._lower_masks import verify_mask as verify_mask
from ._mask_traits import is_adaptive as is_adaptive
from ._mask_traits import looked_at as looked_at
from ._mask_traits import mentions_parameter as mentions_parameter
from ._mask_traits import varies as varies
from ._support import blocks_of as blocks_of
from ._support import draws as draws
from ._support import largest_block as largest_block
from ._support import reach as reach
from ._support import size_probabilities as size_probabilities
from ._support import support_size as support_size
