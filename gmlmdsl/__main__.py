"""`python -m gmlmdsl`: the command line."""

from .cli import main

main()
