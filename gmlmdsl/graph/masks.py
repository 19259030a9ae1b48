"""Lowered masks."""

from ._masks import BernoulliMask as BernoulliMask
from ._masks import IndependentMask as IndependentMask
from ._masks import ListedMask as ListedMask
from ._masks import LoweredMask as LoweredMask
from ._masks import MixtureMask as MixtureMask
from ._masks import SubsetMask as SubsetMask
from ._masks import is_adaptive as is_adaptive
from ._masks import looked_at as looked_at
from ._masks import lower_body as lower_body
from ._masks import lower_mask as lower_mask
from ._masks import mask_with as mask_with
from ._masks import mentions_parameter as mentions_parameter
from ._masks import normalised as normalised
from ._masks import term_blocks as term_blocks
from ._masks import varies as varies
from ._masks import verify_mask as verify_mask
from ._support import blocks_of as blocks_of
from ._support import draws as draws
from ._support import largest_block as largest_block
from ._support import reach as reach
from ._support import size_probabilities as size_probabilities
from ._support import support_size as support_size
