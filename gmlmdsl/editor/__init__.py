"""Editors: diagnostics, hover, names, completion, edits and highlighting of a text as it is written.

In: the text in an editor, and its path. Out: plain data, and a language server that speaks them.
Never: JAX, parameters, data.
"""

from ._completion import Completion, completions
from ._document import Document, Place
from ._edits import Edit, fixes, formatted, rename, renamed_place
from ._hover import hover
from ._outline import LEGEND, Symbol, outline, shapes, word_kinds
from ._words import word_lists


def serve() -> None:
    """Run the language server on the standard streams until the editor ends it.

    It needs pygls (`pip install 'gmlmdsl[editor]'`).
    """
    import logging
    import os

    from ._server import make_server

    logging.getLogger("pygls").setLevel(logging.CRITICAL)  # A refusal is an answer, not a fault of the server.
    search_less_garbage()
    # The server closes its streams, and those of the process are still needed at its end.
    with os.fdopen(os.dup(0), "rb") as asked, os.fdopen(os.dup(1), "wb") as answered:
        make_server().start_io(asked, answered)


def search_less_garbage() -> None:
    """Leave the package out of the searches for garbage, and make these rare: answers wait for them.

    By default the check of a text of 300 lines is interrupted 19 times. The server searches after
    it has sent the diagnostics of a text.
    """
    import gc

    gc.collect()
    gc.freeze()
    gc.set_threshold(1_000_000, 20, 100)
