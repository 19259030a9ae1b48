"""In: words of a command line. Out: what a command prints, its exit status. Never: what Python could not ask for too."""

from ._main import main as main
