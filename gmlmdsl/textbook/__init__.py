"""Programs whose text follows from a few numbers: `gm.examples`.

In: sizes and probabilities. Out: the text of a program. Never: models, numbers of their own, NumPy.
"""

from ._dyck import dyck as dyck
from ._pcfg import pcfg as pcfg
