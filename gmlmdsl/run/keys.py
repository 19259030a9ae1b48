"""Re-exports of `_keys`."""

from ._keys import MOST_SEED as MOST_SEED
from ._keys import generator as generator
from ._keys import random_key as random_key
from ._keys import verified_seed as verified_seed
