"""Re-exports of `_objective` and `_statistics`: losses over rows, and their second-order sums."""

from ._convexity import is_affine as is_affine
from ._objective import Frame as Frame
from ._objective import Objective as Objective
from ._objective import chunk_rows as chunk_rows
from ._objective import draw_masks as draw_masks
from ._objective import make_loss as make_loss
from ._objective import masks_per_row as masks_per_row
from ._objective import mean_block_size as mean_block_size
from ._statistics import colouring as colouring
from ._statistics import second_order as second_order
