"""In: handwritten digits. Out: fits, draws and a report of them. Never: anything but the public interface."""

from ._digits import MIN_ROWS as MIN_ROWS
from ._digits import Comparison as Comparison
from ._digits import Digits as Digits
from ._digits import Sampled as Sampled
from ._digits import compare as compare
from ._digits import load_images as load_images
from ._digits import program_path as program_path
from ._run import run as run
