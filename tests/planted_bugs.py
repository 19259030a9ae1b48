"""Bugs planted in the library one at a time, each with the check that must catch it.

`python tests/planted_bugs.py` prints the table of `docs/explanation/how-it-is-tested.md`; `--write` renews it there.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import jax
import pytest
from planted_cluster_bugs import CLUSTER_BUGS
from planted_guided_bugs import GUIDED_BUGS
from planted_model_bugs import MODEL_BUGS
from planted_network_bugs import NETWORK_BUGS
from planted_packed_bugs import PACKED_BUGS
from planted_search_bugs import SEARCH_BUGS
from planting import Bug, Found

from gmlmdsl.derive._bounded_jit import PROGRAMS
from gmlmdsl.evaluate import limits

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "how-it-is-tested.md"
BEGIN, END = "<!-- planted bugs: begin -->", "<!-- planted bugs: end -->"
BUGS = (*MODEL_BUGS, *CLUSTER_BUGS, *PACKED_BUGS, *NETWORK_BUGS, *SEARCH_BUGS, *GUIDED_BUGS)


def as_it_is(bug: Bug) -> Found:
    """What the check finds in the library as it is."""
    if bug.check_words not in _AS_IT_IS:  # several bugs have one check
        _AS_IT_IS[bug.check_words] = bug.check()
    return _AS_IT_IS[bug.check_words]


_AS_IT_IS: dict[str, Found] = {}


def with_the_bug(bug: Bug) -> Found:
    """What the check finds with the bug; functions that were compiled without it, or with it, are forgotten.

    Sums are compiled: tables that NumPy sums are kept, and were made without the bug.
    """
    _forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "HOST_SECONDS", -1.0)
        bug.plant(patch)
        found = bug.check()
    _forget()
    return found


def _forget() -> None:
    PROGRAMS.kept.clear()
    jax.clear_caches()


def row(bug: Bug) -> str:
    """A bug's row of the table."""
    right, wrong = as_it_is(bug), with_the_bug(bug)
    limit = f"{'above' if right.above else 'at most'} {right.limit:g}"
    return f"| {' | '.join((bug.name, f'`{bug.where}`', f'`{bug.check_words}`', right.words, wrong.words, limit))} |"


def table() -> str:
    """The Markdown table of all bugs."""
    lines = ["| bug | planted in | caught by | as it is | with the bug | limit |", "|---|---|---|---|---|---|"]
    for bug in BUGS:
        lines.append(row(bug))
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def main() -> None:
    """Prints the table; with `--write` renews it on its page."""
    found = table()
    print(found)
    if "--write" in sys.argv:
        text = PAGE.read_text()
        PAGE.write_text(text[: text.index(BEGIN) + len(BEGIN)] + "\n\n" + found + "\n\n" + text[text.index(END) :])


if __name__ == "__main__":
    main()
