# The tables and the picture of Algorithm 2 in Lab E, from kept output.
from collections import Counter
from functools import partial

import walk_tables
from laboratory import markdown, spread, yes
from matplotlib.figure import Figure
from testcase_walks import BINS, DOUBTFUL, SAMPLERS, Size
from walk_tables import Results, column

WORDS = {  # of rows
    "exact": "rejection of whole answers by the truth: the restricted distribution itself",
    "plain": "nothing verified",
    "Algorithm 1": "Algorithm 1, Q = B = 4, the learnt verifier",
    "Algorithm 1, the truth": "Algorithm 1, the truth",
    "filter, the truth": "rejection of symbols by the truth",
    "symbols by value": "rejection of symbols by the learnt value",
    "first leaf": "Algorithm 2 by the learnt value: first whole answer",
    "walk": "Algorithm 2 by the learnt value: node after T steps",
}


def tables(results: Results, size: Size) -> dict[str, str]:
    made = {
        "model": partial(model_table, results, size),
        "exact": partial(walk_tables.exact_table, results, size, WORDS, size.left[0], "answer"),
        "verdicts": partial(walk_tables.verdicts_table, results, size, "answer"),
        "map": partial(map_table, results, size),
        "drawn": partial(walk_tables.drawn_table, results, size, WORDS, 10 * size.lab.times, "answer"),
        "wrong": partial(wrong_table, results, size),
    }
    return walk_tables.named("testcase_walks", made)


def model_table(results: Results, size: Size) -> str:
    kinds = sum((Counter(results[f"{k} model"]["kinds"]) for k in range(size.lab.seeds)), Counter[str]())
    rows = [
        ["answers without a mistake, names that were learnt, top_p = .95, %", spread(column(results, size, "model", "learnt"), 3, 100)],
        ["held-out prefixes that the verifier judges right, %", spread(column(results, size, "model", "probe"), 3, 100)],
        *([f"first mistakes: {kind}", count] for kind, count in sorted(kinds.items())),
    ]
    return markdown(["", "here"], rows)


def map_table(results: Results, size: Size) -> str:
    """By symbols left and share of wrong verdicts; paired over seeds."""
    heads = ["symbols left", "wrong about prefixes, %", "TV: plain", *(f"TV: {name}" for name in DOUBTFUL)]
    heads += [f"answers, %: {name}" for name in DOUBTFUL] + [f"{name} nearer than plain" for name in DOUBTFUL]
    rows = []
    for left in size.left:
        part = f"map {left}"
        plain = column(results, size, part, "none", "plain", "tv")
        for share in map(str, size.wrong):
            tv = {name: column(results, size, part, share, name, "tv") for name in DOUBTFUL}
            right = [spread(column(results, size, part, share, name, "words"), 3, 100) for name in DOUBTFUL]
            better = [yes(own, plain) for own in tv.values()]
            rows.append([left, f"{100 * float(share):g}", spread(plain), *map(spread, tv.values()), *right, *better])
    return markdown(heads, rows)


def wrong_table(results: Results, size: Size) -> str:
    names = {str(low): f"{low} to {high}" if high < 99 else f"{low} and more" for low, high in BINS}
    found = {k: [results[f"{s} drawn"]["judged wrong"].get(k) for s in range(size.lab.seeds)] for k in names}
    some = {k: [v for v in values if v is not None] for k, values in found.items()}
    cells = [spread(values, 3, 100) if values else "" for values in some.values()]
    return markdown(["symbols of the last case", *names.values()], [["judged wrong, %", *cells]])


def draw(results: Results, size: Size) -> dict[str, Figure]:
    return {"distance": walk_tables.distance_picture(results, size, list(SAMPLERS), size.left[0])}
