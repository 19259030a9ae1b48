"""The lowered trees of factors, which the binder checks and the compiler evaluates."""

from ._index_check import numpy_leaves as numpy_leaves
from ._nodes import SINGULAR as SINGULAR
from ._nodes import Add as Add
from ._nodes import Apply as Apply
from ._nodes import CellValue as CellValue
from ._nodes import Column as Column
from ._nodes import Constant as Constant
from ._nodes import Gather as Gather
from ._nodes import If as If
from ._nodes import Leaves as Leaves
from ._nodes import Node as Node
from ._nodes import Pick as Pick
from ._nodes import evaluate as evaluate
from ._nodes import mapped as mapped
from ._nodes import nodes_in as nodes_in
from ._reductions import NEUTRAL as NEUTRAL
from ._reductions import reduced as reduced
