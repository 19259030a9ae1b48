"""Re-exports of `_bootstrap`, `_profile` and `_wald`."""

from ._bootstrap import Bootstrap as Bootstrap
from ._profile import Profile as Profile
from ._wald import Contrast as Contrast
from ._wald import WaldTest as WaldTest
from ._wald import wald_test as wald_test
