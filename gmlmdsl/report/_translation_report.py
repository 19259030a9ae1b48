"""The report of a pipeline: scores, passes, times, training, attention, text and provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from .._types import JsonObject
from ._document import Report
from ._palette import INK_IMAGE, LIGHT, MARKERS, SERIES, house_style, new_figure, plain
from ._picture_arguments import rows_of, verified_text, wrong
from .limits import FIGURE_WIDTH

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEEDED = ("direction", "cleaning", "text", "vocabulary", "versions", "scores", "latency", "claims", "training", "examples")
KINDS = {
    "positional": "Positional attention: queries and keys are positions, so that the weights depend on the length alone.",
    "cross": "Attention of the pieces of the translation to those of the source.",
    "self": "Attention of the pieces of the translation to one another.",
}
Points = Sequence[tuple[float, float]]


def translation_report(found: JsonObject, arrays: Mapping[str, np.ndarray], *, title: str = "") -> Report:
    """Return the report of a run of the pipeline as one HTML page.

    Args:
        found: the result of `Pipeline.run`, or its `report.json`.
        arrays: the arrays of `pictures.npz`: attention weights by head, with the subword tokens
            between which they act.
        title: the title of the page.

    Returns:
        A report; `.save(path)` writes it.

    Raises:
        GmlmError: E507 unless `found` and `arrays` are results of a pipeline.
    """
    _verify(found, arrays)
    title = verified_text("title", title)
    direction = f" {found['direction']}" if found["direction"] else ""
    kept = found["cleaning"]["text"]["train"]["kept"]
    subtitle = f"{kept:,} pairs to train on, {found['text']['test']:,} to score, a vocabulary of {found['vocabulary']['size']:,} pieces."
    versions = ", ".join(f"{k} {v}" for k, v in found["versions"].items())
    report = Report(title or f"Translation{direction}", subtitle, footer=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {versions}")
    _scores(report, found["scores"])
    _passes(report, found["scores"])
    _latency(report, found["latency"])
    _claims(report, found["claims"])
    _training(report, found["training"])
    _chosen(report, found.get("chosen") or {})
    _attention(report, arrays)
    _dependency(report, found.get("attention") or {})
    _examples(report, found["examples"])
    _text(report, found)
    _made(report, found)
    return report


def _verify(found: Any, arrays: Any) -> None:
    """Raise E507 unless the arguments are results of a pipeline.

    Raises:
        GmlmError: E507.
    """
    for name, given, needed in (("found", found, NEEDED), ("arrays", arrays, ())):
        if not isinstance(given, Mapping):
            raise wrong(f"{name} must be a dict, got {type(given).__name__}", "what `Pipeline.run` returns, and its `pictures.npz`")
        if lacking := [k for k in needed if k not in given]:
            raise wrong(f"{name} lacks `{lacking[0]}`", "pass what `Pipeline.run` returns, or its `report.json`")


def _scores(report: Report, scores: JsonObject) -> None:
    report.section("Scores")
    report.text("A row is a network and the sampler that decodes it: cased text, compared with one reference.")
    names = list(dict.fromkeys(s["name"] for notes in scores.values() for s in notes["scores"]))
    rows, ranges, signatures = [], [], {}
    for key, notes in scores.items():
        by_name = {s["name"]: s for s in notes["scores"]}
        rows.append([_named(key), *(by_name[n]["value"] if n in by_name else None for n in names)])
        for s in notes["scores"]:
            signatures.setdefault(f"{s['name']}: `{s['signature']}`" if "|" in s["signature"] else f"{s['name']}: {s['signature']}")
        first = notes["scores"][0]
        if first["interval"] is not None:
            ranges.append([_named(key), first["value"], *first["interval"]])
    report.table(["network, sampler", *names], rows, "Scores of the test text.", formats=[None, *[".2f"] * len(names)])
    report.items(*signatures)
    if ranges:
        report.table(
            ["network, sampler", "BLEU", "from", "to"],
            ranges,
            "95 % of resampled test texts lie between.",
            formats=[None, ".2f", ".2f", ".2f"],
        )
    lengths = [_lengths(key, n) for key, n in scores.items()]
    headers = ["network, sampler", "pieces per piece of the reference", "length right", "among 3", "among 5", "BLEU at the true length"]
    report.table(
        headers, lengths, "Lengths: of the translations, as predicted, and what would be if they were known.", formats=[None, *[".3f"] * 5]
    )


def _lengths(key: str, notes: JsonObject) -> list[Any]:
    coverage = notes.get("length_coverage") or {}
    oracle = notes.get("oracle")
    return [
        _named(key),
        notes.get("length_ratio"),
        *(coverage.get(k) for k in ("1", "3", "5")),
        None if oracle is None else oracle["scores"][0]["value"],
    ]


def _named(key: str) -> str:
    network, _, sampler = key.partition(".")
    return f"{network}, `{sampler}`"


def _passes(report: Report, scores: JsonObject) -> None:
    by_pass = {key: notes["by_pass"] for key, notes in scores.items() if notes.get("by_pass")}
    if not by_pass:
        return
    report.section("Passes")
    report.text("What stands after each pass of refinement. A sampler of one pass is one point.")
    for what, words in (("bleu", "BLEU"), ("stutter", "stutter per 1,000 words")):
        curves = {
            _named(k): [(p["number"], p[what]) for p in passes if p[what] is not None] for k, passes in by_pass.items() if len(passes) > 1
        }
        if any(curves.values()):  # stutter is not defined in a language without spaces
            figure = plot_curves({k.replace("`", ""): v for k, v in curves.items()}, x="pass", y=words, marks=True)
            report.figure(figure, alt=f"{words} after each pass, a line for each network and sampler.", caption=f"{words} by pass.")
    rows = [
        [_named(k), p["number"], p["bleu"], p["stutter"], p["repeats"], scores[k]["passes"].get(str(p["number"]), 0)]
        for k, passes in by_pass.items()
        for p in passes
    ]
    headers = ["network, sampler", "pass", "BLEU", "stutter per 1,000 words", "repeats per 1,000 pieces", "rows that changed last here"]
    report.table(headers, rows, "By pass.", formats=[None, None, ".2f", ".2f", ".2f", None])


def _latency(report: Report, found: JsonObject) -> None:
    timings = found["timings"]
    if not timings:
        return
    report.section("Latency")
    s = found["setting"]
    report.text(
        "From text to text, what is compiled left out, all under the same lines, rows and vocabulary. "
        + "; ".join(f"{k.replace('_', ' ')} {_shown(v)}" for k, v in s.items() if k not in ("versions", "counted_from"))
        + "."
    )
    rows = [[_spaced(t["name"]), t["batch"], t["runs"], t["median_ms"], t["p99_ms"], t["mean_ms"] / t["batch"]] for t in timings]
    headers = ["network, sampler", "batch", "runs", "median ms", "p99 ms", "ms a line"]
    report.table(
        headers, rows, "Time of one batch; fewer than 20 runs have no 99th percentile.", formats=[None, None, None, ".1f", ".1f", ".2f"]
    )
    curves = {t["name"]: [(b["pieces"], b["median_ms"]) for b in t["by_length"]] for t in timings if t["batch"] == 1}
    curves = {k: v for k, v in curves.items() if v}
    if curves:
        figure = plot_curves(curves, x="pieces of the source, at most", y="median ms at batch 1", marks=True)
        report.figure(figure, alt="Median latency by length of the source, a line for each translator.", caption="Latency by length.")


def _claims(report: Report, claims: list[Mapping[str, str]]) -> None:
    if claims:
        report.section("The paper's claims")
        report.text("Li et al. 2024, Section 3.3, of far larger networks and texts: what this run says of them.")
        report.table(["claim", "here", "verdict"], [[c["claim"], c["found"], c["verdict"]] for c in claims])


def _spaced(name: str) -> str:
    network, _, sampler = name.partition(" ")
    return f"{network}, `{sampler}`" if sampler else name


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _training(report: Report, training: JsonObject) -> None:
    report.section("Training")
    curves = {name: t["loss"] for name, t in training.items() if t["loss"]}
    measured = {name: [(v[0], v[1]) for v in t["validation"]] for name, t in training.items()}
    if curves:
        figure = plot_curves(curves, x="batch", y="nats per scored piece", dashed=measured)
        caption = "Loss by batch; dashed: of validation. A teacher sees all true pieces before each one, a student noise: no comparison."
        report.figure(figure, alt="The loss of each network over its training.", caption=caption)
    rows = []
    for name, t in training.items():
        last = t["validation"][-1][1] if t["validation"] else None
        rows.append([name, t["parameters"], t["rows"], t["steps"], t["seconds_of_training"], t["loss"][-1][1] if t["loss"] else None, last])
    headers = ["network", "parameters", "pairs", "batches", "seconds", "loss at the end", "of validation"]
    report.table(headers, rows, "Trainings.", formats=[None, ",.0f", ",.0f", ",.0f", ",.0f", ".3f", ".3f"])
    if starts := [t["start"] for t in training.values() if t.get("start")]:
        report.items(*starts)


def _chosen(report: Report, chosen: JsonObject) -> None:
    """Add how the minutes were split, and the samplers that were chosen on the validation text."""
    if split := chosen.get("split"):
        rows = [[name, s["seconds_per_batch"], s["batches"]] for name, s in split.items()]
        words = "What short trials say of the minutes of the run."
        report.table(["network", "seconds a batch", "batches in its share"], rows, words, formats=[None, ".3f", ",.0f"])
    words = {"distiller": "The teacher's sampler that distils", "choose-student": "The sampler that the student's bundle takes"}
    for name, caption in words.items():
        notes = chosen.get(name) or {}
        measure = next((what for what in notes if what.startswith("BLEU")), "BLEU")
        bleu, seconds = notes.get(measure) or {}, notes.get("seconds") or {}
        if not (bleu or seconds):
            continue
        rows = [[f"`{s}`", seconds.get(s), bleu.get(s), "chosen" if s == notes["sampler"] else ""] for s in [*(bleu | seconds)]]
        headers = ["sampler", "seconds for the training text, estimated", f"{measure} on validation text", ""]
        table = [headers, [None, ",.0f", ".2f", None], *rows]
        headers, formats, *rows = [[*compress(row, (True, seconds, bleu, True))] for row in table]
        report.table(headers, rows, f"{caption}.", formats=formats)


def _attention(report: Report, arrays: Mapping[str, np.ndarray]) -> None:
    if "source" not in arrays:
        return
    report.section("Attention")
    report.text(
        "The weights of the student's last layer, by head, over one sentence of the test text, in the last pass: it sees what the pass "
        "before left, hidden where it predicts anew."
    )
    source, target = ([str(p) for p in arrays[side]] for side in ("source", "target"))
    for kind, words in KINDS.items():
        if kind in arrays:
            columns = source if kind == "cross" else target
            figure = plot_attention(arrays[kind], target, columns)
            report.figure(figure, alt=f"{kind} attention of {len(arrays[kind])} heads over {len(target)} pieces.", caption=words)


def _dependency(report: Report, found: JsonObject) -> None:
    measured = {key: tables for key, tables in found.items() if tables}
    if not measured:
        return
    report.section("Attention of pieces that repeat one another")
    report.text(
        "Li et al. 2024, Tables 4 and 5, with intervals (94 %, resampled sentences): pairs of equal pieces beside all other pairs, "
        "adjacent ones and those further apart, by the last layer's attention in the last pass over all test lines. Pieces are "
        "compared, not words; of the teacher, which sees nothing behind a piece, there is no attention to what is next or later."
    )
    for key, tables in measured.items():
        for apart in ("adjacent", "distant"):
            rows: dict[tuple[str, str], dict[str, Any]] = {}
            for row in tables[apart]:
                rows.setdefault((row["quantity"], row["heads"]), {})[row["pairs"]] = row
            shown = []
            for (quantity, heads), by_kind in rows.items():
                equal = by_kind.get("stutter") or by_kind["repeat"]
                difference = by_kind["difference"]
                means = [k["mean"] for k in (equal, by_kind["other"], difference)]
                shown.append([quantity, heads, *means, difference["low"], difference["high"], equal["count"], by_kind["other"]["count"]])
            headers = ["quantity", "over heads", "equal", "other", "difference", "from", "to", "equal pairs", "other pairs"]
            left_out = {k: tables.get(k, 0) for k in ("unended", "looping")}
            caption = f"{_named(key)}: {apart} pairs, {tables['measured']:,} lines"
            caption += f", without {left_out['unended']:,} that do not end and {left_out['looping']:,} that loop."
            report.table(headers, shown, caption, formats=[None, None, *[".3f"] * 5, ",.0f", ",.0f"])


def _examples(report: Report, examples: list[Mapping[str, str]]) -> None:
    if not examples:
        return
    report.section("Examples")
    for k, lines in enumerate(examples, 1):
        rows = [[_named(name) if "." in name else name, text] for name, text in lines.items()]
        report.table(["", "text"], rows, f"Sentence {k}.")


def _text(report: Report, found: JsonObject) -> None:
    report.section("Text")
    named = {"training text": "train", "validation": "validation"}
    parts = {name: found["cleaning"]["text"].get(key) for name, key in named.items()}
    parts["the teacher's translations"] = found["cleaning"]["distilled"]["train"]
    parts["those of validation"] = found["cleaning"]["distilled"].get("validation")
    counts = {name: c for name, c in parts.items() if c}
    keys = list(next(iter(counts.values())))
    report.table(["", *(k.replace("_", " ") for k in keys)], [[n, *(c[k] for k in keys)] for n, c in counts.items()], "Cleaning, by pairs.")
    d = found["distilled"]
    if found["text"].get("overlap"):
        report.text(f"{found['text']['overlap']:,} pairs are not trained on, since their source is scored or validated on.")
    report.text(
        f"The teacher's sampler `{d['sampler']}` translated {d['lines']:,} training sources: {d['empty']:,} became nothing; "
        f"{d['unended']:,} without an end mark and {d.get('looping', 0):,} that loop are left out."
    )
    if d.get("warning"):
        report.warning("Translations that do not end, or loop", d["warning"])


def _made(report: Report, found: JsonObject) -> None:
    report.section("How it was made")
    if found.get("command"):
        report.code(found["command"])
    report.facts(found["machine"])
    rows = [[name, s["seconds"]] for name, s in found["stages"].items()]
    report.table(["stage", "seconds"], rows, "Stages; of one that was killed and went on, the last part.", formats=[None, ".1f"])
    recipes = found["recipes"]
    report.table(["option", *recipes], [[k, *(_plain(r[k]) for r in recipes.values())] for k in recipes["teacher"]], "Options of training.")
    for path, text in found["program"].items():
        report.subsection(path)
        report.code(text)


def _plain(value: Any) -> str:
    return "none" if value is None else str(value)


def plot_curves(
    curves: Mapping[str, Points], *, x: str, y: str, marks: bool = False, dashed: Mapping[str, Points] | None = None, log: bool = False
) -> Figure:
    """Plot lines by name over one pair of axes.

    Args:
        curves: points (x, y) by name.
        x: the label of the x axis.
        y: the label of the y axis.
        marks: whether points are marked.
        dashed: further points by the same names, joined by dashes of the same colour.
        log: whether x is on a log scale of base 2.
    """
    with house_style():
        figure = new_figure(2.6)
        axes = figure.subplots()
        for k, (name, points) in enumerate(curves.items()):
            colour = SERIES[k % len(SERIES)]
            at = np.array(points, float).reshape(-1, 2).T
            axes.plot(*at, color=colour, marker=MARKERS[k % len(MARKERS)] if marks else None, markersize=4, label=plain(name))
            other = np.array((dashed or {}).get(name, ()), float).reshape(-1, 2).T
            if other.size:
                axes.plot(*other, color=colour, linestyle=(0, (3, 1.6)), linewidth=1.1)
        if log:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(plain(x))
        axes.set_ylabel(plain(y))
        axes.margins(x=0.02)
        figure.legend(loc="outside upper left", ncols=2)
    return figure


def plot_attention(weights: np.ndarray, targets: Sequence[str], sources: Sequence[str]) -> Figure:
    """Plot attention weights of every head as a grid of maps, in which darker is more.

    Each row sums to 1.

    Args:
        weights: shape (heads, targets, sources).
        targets: the names of the rows.
        sources: the names of the columns.

    Raises:
        GmlmError: E507 for shapes that do not fit each other.
    """
    w = rows_of("weights", weights, "(heads, targets, sources)")
    if w.shape[1:] != (len(targets), len(sources)):
        raise wrong(f"`weights` must have shape (heads, {len(targets)}, {len(sources)}), got {w.shape}")
    heads = len(w)
    columns = 2 if heads > 1 else 1
    rows = -(-heads // columns)
    side = (FIGURE_WIDTH - 0.9) / columns
    with house_style():
        figure = new_figure(0.5 + rows * (0.55 + side * len(targets) / max(len(sources), 1)))
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for k, axes in enumerate(grid.flat):
            if k >= heads:
                axes.set_axis_off()
                continue
            density = np.round(255 * np.clip(w[k] / max(w[k].max(), 1e-9), 0, 1)).astype(np.uint8)
            # The image is dark grey with the weight as opacity, so that it is also legible when
            # inverted.
            ink = np.dstack([np.full_like(density, 28)] * 3 + [density])
            axes.imshow(ink, interpolation="none", aspect="auto").set_gid(f"{INK_IMAGE}{k}")
            axes.set_title(f"head {k + 1}, up to {w[k].max():.2f}")
            axes.grid(visible=False)
            axes.set_xticks(range(len(sources)), [plain(s) for s in sources], rotation=90)
            axes.set_yticks(range(len(targets)), [plain(t) for t in targets])
            axes.tick_params(length=0, labelsize=6.5, labelcolor=LIGHT["ink"])
    return figure
