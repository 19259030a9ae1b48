"""The command line.

In: the words of a command line. Out: the printed output of a command, its exit status.
Never: features that Python lacks.
"""

from ._main import main as main
