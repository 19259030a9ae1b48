"""The entry point of `python -m gmlmdsl`, which runs the command line."""

from .cli import main

main()
