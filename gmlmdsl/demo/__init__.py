"""The demo: a model of handwritten digits, fitted under two masks, sampled and diagnosed.

    gmlm demo --out demo-report

The result is one HTML page. The data are the 1797 images of 8 by 8 pixels that scikit-learn
contains (the `demo` extra). The program is `examples/digits.gmlm`.

In: handwritten digits. Out: fits, draws and a report of them. Never: mathematics of its own.
"""

from ._digits import MIN_ROWS as MIN_ROWS
from ._digits import Comparison as Comparison
from ._digits import Digits as Digits
from ._digits import Sampled as Sampled
from ._digits import compare as compare
from ._digits import load_images as load_images
from ._digits import program_path as program_path
from ._run import run as run
