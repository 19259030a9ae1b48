# The tables and the picture of Algorithm 2 in Lab A, from kept output.
from functools import partial

import walk_tables
from bracket_tables import least_nats
from bracket_walks import SAMPLERS, Size
from brackets import OPENS, RARE
from laboratory import markdown, spread
from matplotlib.figure import Figure
from walk_tables import Results, column

WORDS = {  # of rows
    "exact": "rejection of whole words by the truth: the restricted distribution itself",
    "plain": "nothing verified",
    "Algorithm 1": "Algorithm 1, Q = B = 4, the learnt verifier",
    "Algorithm 1, the truth": "Algorithm 1, the truth",
    "filter, the truth": "rejection of symbols by the truth",
    "symbols by value": "rejection of symbols by the learnt value",
    "first leaf": "Algorithm 2 by the learnt value: first whole word",
    "walk": "Algorithm 2 by the learnt value: node after T steps",
}


def tables(results: Results, size: Size) -> dict[str, str]:
    made = {
        "model": partial(model_table, results, size),
        "exact": partial(walk_tables.exact_table, results, size, WORDS, counted(size), "word"),
        "verdicts": partial(walk_tables.verdicts_table, results, size, "word"),
        "map": partial(walk_tables.map_table, results, size),
        "drawn": partial(walk_tables.drawn_table, results, size, WORDS, size.lab.unseen, "word"),
        "wrong": partial(walk_tables.wrong_table, results, size),
    }
    return walk_tables.named("bracket_walks", made)


def model_table(results: Results, size: Size) -> str:
    s = size.lab
    rows = [
        ["nats a symbol, words that were not learnt from", spread(column(results, size, "model", "nats"), 4)],
        ["the least of any model", f"{least_nats(s.length, RARE, OPENS):.4f}"],
        ["unlikely prompts completed to words, top_p = .9, %", spread(column(results, size, "model", "out"), 3, 100)],
    ]
    return markdown(["", "here"], rows)


def counted(size: Size) -> int:
    """The most symbols left at which calls of walks are summed."""
    return size.left[:2][-1]


def draw(results: Results, size: Size) -> dict[str, Figure]:
    return {"distance": walk_tables.distance_picture(results, size, list(SAMPLERS), counted(size))}
