# The tables of the page beside it, from what `gmlm pipeline` leaves.
#
#   python examples/labs/translation/page.py NAME RUN     keeps the numbers and the logs of a run's folder, then writes the page
#   python examples/labs/translation/page.py rates RUNS   keeps the logs of trainings that are compared: `gmlm train --out RUNS/LABEL`
#   python examples/labs/translation/page.py starts RUNS  the same; `gmlm evaluate --json` of each may lie in RUNS/LABEL.json
#   python examples/labs/translation/page.py students TRIALS, or teachers, or schedules (of more steps): what `trials.py` made
#   python examples/labs/translation/page.py              writes the page from what is kept
#
# The text that a run translated is not kept: it may not be free to share.
import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student_t

from gmlmdsl.translation import claims as published

PAGE = Path(__file__).resolve().with_name("README.md")
KEPT = PAGE.parent / "kept"
OTHER_SCORES = ("BLEU intl", "length ratio", "brevity", "chrF++", "TER", "stutter")
LEAST_RUNS = 20  # that a 99th percentile is of; older reports have those of fewer
LEFT_OUT = ("examples",)
RERANKED = "-reranked"  # ends the names of samplers whose candidates the teacher orders
# Tables 4 and 5 of the paper: by quantity and summary over heads, of equal adjacent pieces and of others.
PRINTED = {
    ("self-attention", "min"): (0.0004, 0.0005),
    ("self-attention", "mean"): (0.032, 0.033),
    ("self-attention", "max"): (0.16, 0.17),
    ("in top 1", "share"): (0.20, 0.17),
    ("in top 2", "share"): (0.39, 0.37),
    ("cross-attention total variation", "min"): (0.06, 0.11),
    ("cross-attention total variation", "mean"): (0.13, 0.23),
    ("cross-attention total variation", "max"): (0.23, 0.35),
    ("cross-attention cosine distance", "min"): (0.01, 0.04),
    ("cross-attention cosine distance", "mean"): (0.10, 0.20),
    ("cross-attention cosine distance", "max"): (0.25, 0.38),
    ("cross-attention top 1 overlap", "share"): (0.57, 0.40),
    ("cross-attention top 2 overlap", "share"): (0.89, 0.81),
}
COMPARED = ("rates", "starts", "students", "teachers", "schedules")
SEEDED = {"students": "student", "teachers": "teacher", "schedules": "teacher"}  # of `trials.py`, and what the others are compared with
Report = dict[str, Any]


def keep(name: str, run: Path) -> None:
    """Copy the numbers of a run, and its logs."""
    if not (run / "report.json").is_file():
        sys.exit(f"{run} holds no report.json: `gmlm pipeline` writes it when the run is done")
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    folder = KEPT / name
    folder.mkdir(parents=True, exist_ok=True)
    plain = {k: v for k, v in report.items() if k not in LEFT_OUT}
    plain["command"] = re.sub(r"\S*/(?=\S)", "", plain["command"])  # files by their names: their folders are of one machine
    (folder / "report.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    for log in sorted(run.glob("*.jsonl")):
        shutil.copy(log, folder / log.name)


def keep_compared(name: str, runs: Path) -> None:
    """Copy the logs of trainings that differ in one choice, and their evaluations."""
    folders = sorted(p for p in runs.iterdir() if p.is_dir()) if runs.is_dir() else []
    if not folders:
        sys.exit(f"{runs} holds no trainings")
    for folder in folders:
        logs = list(folder.glob("*.jsonl"))
        if len(logs) != 1 or "validation_loss" not in logs[0].read_text(encoding="utf-8"):
            sys.exit(f"{folder} must hold one log of a training with validation, and holds {len(logs)} logs")
    (KEPT / name).mkdir(parents=True, exist_ok=True)
    for folder in folders:
        shutil.copy(next(folder.glob("*.jsonl")), KEPT / name / f"{folder.name}.jsonl")
        if (scores := runs / f"{folder.name}.json").exists():
            shutil.copy(scores, KEPT / name / scores.name)


def page(text: str) -> str:
    """The page with every part between its marks renewed."""

    def part(found: re.Match[str]) -> str:
        name, what = found[1], found[2]
        if name in SEEDED:
            made = over_seeds(KEPT / name, SEEDED[name])
        else:
            made = compared(KEPT / name) if name in COMPARED else PARTS[what](read(name))
        return f"<!-- run: {name} {what} -->\n{made}\n<!-- end -->"

    return re.sub(r"<!-- run: (\S+) (\w+) -->\n.*?<!-- end -->", part, text, flags=re.DOTALL)


def read(name: str) -> Report:
    """A kept report."""
    return json.loads((KEPT / name / "report.json").read_text(encoding="utf-8"))


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """As Markdown."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in lines)


def named(key: str) -> str:
    """`student.padir4` in words."""
    network, _, sampler = key.partition(".")
    return f"{network}, `{sampler}`"


def scores(report: Report) -> str:
    """Scores of every network and sampler, and their signatures."""
    rows, signatures = [], {}
    known = {s["name"] for notes in report["scores"].values() for s in notes["scores"]}
    others = [n for n in OTHER_SCORES if n in known]  # reports before brevity was kept have none
    for key, notes in report["scores"].items():
        by_name = {s["name"]: s for s in notes["scores"]}
        low, high = by_name["BLEU 13a"]["interval"]
        cells = [f"{by_name['BLEU 13a']['value']:.2f} ({low:.2f} to {high:.2f})"]
        cells += [f"{by_name[n]['value']:.2f}" for n in others]
        coverage, oracle = notes["length_coverage"] or {}, notes["oracle"]
        cells.append(f"{100 * coverage['1']:.0f} %" if "1" in coverage else "")
        cells.append(f"{oracle['scores'][0]['value']:.2f}" if oracle else "")
        rows.append([named(key), *cells])
        signatures |= {s["name"]: s["signature"] for s in notes["scores"]}
    headers = ["network, sampler", "BLEU 13a (95 %)", *others, "length right", "BLEU, true length"]
    said = "\n".join(f"- {name}: {signature}" for name, signature in signatures.items())
    return f"{table(headers, rows)}\n\n{said}"


def passes(report: Report) -> str:
    """BLEU and stutter by pass; older reports have the passes of another candidate of what was reranked, which are left out."""
    rows = []
    for key, notes in report["scores"].items():
        if len(notes["by_pass"]) > 1 and abs(notes["by_pass"][-1]["bleu"] - notes["scores"][0]["value"]) < 0.005:
            for p in notes["by_pass"]:
                last = notes["passes"].get(str(p["number"]), 0)
                rows.append(
                    [named(key), p["number"], f"{p['bleu']:.2f}", f"{p['stutter']:.2f}", f"{100 * last / notes['sentences']:.0f} %"]
                )
    return table(["network, sampler", "pass", "BLEU 13a", "stutter", "sentences that change here last"], rows)


def latency(report: Report) -> str:
    """Times of a batch."""
    rows = [
        [
            named(t["name"].replace(" ", ".", 1)),
            t["batch"],
            t["runs"],
            f"{t['median_ms']:.1f}",
            "" if t["p99_ms"] is None or t["runs"] < LEAST_RUNS else f"{t['p99_ms']:.1f}",
        ]
        for t in report["latency"]["timings"]
    ]
    s = report["latency"]["setting"]
    shown = {k: s[k] for k in ("device", "processor", "cores", "load_before", "load_after", "environment") if k in s}
    said = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in shown.items())
    timed = "Times are from text to text, without compilation. The setting was:"
    return f"{table(['network, sampler', 'batch', 'runs', 'median ms', 'p99 ms'], rows)}\n\n{timed} {said}."


def made(report: Report) -> str:
    """What was trained, for how long, and the command."""
    rows = [
        [
            name,
            f"{t['parameters']:,}",
            f"{t['rows']:,}",
            f"{t['steps']:,}",
            f"{t['seconds_of_training'] / 60:.1f}",
            f"{t['validation'][-1][1]:.3f}",
        ]
        for name, t in report["training"].items()
    ]
    stages = {name: s["seconds"] / 60 for name, s in report["stages"].items()}
    longest = ", ".join(f"{name} {m:.1f}" for name, m in stages.items() if m >= 0.5)
    headers = ["network", "parameters", "pairs", "batches", "minutes", "nats per scored piece, validation"]
    command = re.sub(r"\S*/(?=\S)", "", report["command"])
    return f"```text\n{command}\n```\n\n{table(headers, rows)}\n\nAll stages took {sum(stages.values()):.0f} minutes ({longest})."


def claims(report: Report) -> str:
    """The paper's claims, judged anew: kept reports hold the verdicts of the version that wrote them."""
    judged = published({k: v for k, v in report["scores"].items() if not k.endswith(RERANKED)}, report["latency"])
    return table(["claim", "here", "verdict"], [[c.claim, c.found, c.verdict] for c in judged])


def hypotheses(report: Report) -> str:
    """Tables 4 and 5: whether equal adjacent pieces of the student attend to each other more, and to the source more alike, than others.

    The paper finds the first unlikely and the second promising. A verdict is about the interval of the difference of means at 94 %:
    *agree* or *disagree* where it lies on one side of 0.
    """
    rows = []
    for key in (k for k in report["attention"] if k.startswith("student.")):
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for row in report["attention"][key]["adjacent"]:
            found.setdefault((row["quantity"], row["heads"]), {})[row["pairs"]] = row
        for (part, heads), (equal, other) in PRINTED.items():
            second = part.startswith("cross")
            sign = -1 if "overlap" in part else 1  # in print: not more attention, smaller distances, more overlap
            for quantity in (q for q, h in found if h == heads and (q == part if second else part in q and "cross" not in q)):
                kinds = found[quantity, heads]
                low, high = sorted(sign * kinds["difference"][k] for k in ("low", "high"))
                verdict = "agree" if high < 0 else "disagree" if low > 0 else "not testable here"
                between = "{mean:.3f} ({low:.3f} to {high:.3f})".format(**kinds["difference"])
                here = f"{kinds['stutter']['mean']:.3f}", f"{kinds['other']['mean']:.3f}"
                name = quantity if heads == "share" else f"{quantity}, {heads} over heads"
                rows.append([2 if second else 1, name, f"{equal:g}", f"{other:g}", *here, between, verdict])
    heads = ["hypothesis", "quantity", "equal, in print", "others, in print", "equal", "others", "difference (94 %)", "verdict"]
    return table(heads, rows)


def attention(report: Report) -> str:
    """Attention of equal pieces beside that of other pairs, averaged over heads, and of the difference the interval."""
    rows = []
    for key, tables in (report.get("attention") or {}).items():
        for apart in ("adjacent", "distant") if tables else ():
            found: dict[str, dict[str, Any]] = {}
            for row in tables[apart]:
                if row["heads"] in ("mean", "share"):
                    found.setdefault(row["quantity"], {})[row["pairs"]] = row
            for quantity, kinds in found.items():
                equal, other, apart_by = kinds.get("stutter") or kinds["repeat"], kinds["other"], kinds["difference"]
                if None not in (equal["mean"], other["mean"], apart_by["low"]):
                    between = f"{apart_by['mean']:.3f} ({apart_by['low']:.3f} to {apart_by['high']:.3f})"
                    rows.append([named(key), apart, quantity, f"{equal['mean']:.3f}", f"{other['mean']:.3f}", between, equal["count"]])
    return table(["network, sampler", "pairs", "quantity", "equal pieces", "others", "difference (94 %)", "equal pairs"], rows)


def compared(folder: Path) -> str:
    """The losses of validation along each training, by the name of its log, and BLEU of each sampler where it was measured."""
    found: dict[str, dict[int, float]] = {}
    for log in sorted(folder.glob("*.jsonl")):
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        found[log.stem] = {x["step"]: x["validation_loss"] for x in lines if "validation_loss" in x}
    steps = sorted(set().union(*found.values()))
    ordered = sorted(found, key=lambda name: found[name][max(found[name])])
    scored = {name: json.loads(p.read_text(encoding="utf-8")) for name in ordered if (p := folder / f"{name}.json").exists()}
    samplers = list(dict.fromkeys(s for scores in scored.values() for s in scores))
    rows = [
        [
            name,
            *(f"{found[name][k]:.3f}" if k in found[name] else "" for k in steps),
            *(f"{scored[name][s]['scores'][0]['value']:.2f}" if s in scored.get(name, {}) else "" for s in samplers),
        ]
        for name in ordered
    ]
    return table(["training", *(f"after {k} batches" for k in steps), *(f"BLEU of `{s}`" for s in samplers)], rows)


def over_seeds(folder: Path, plain: str) -> str:
    """Of each trial the mean over its seeds of BLEU by sampler, and of the difference from the plain trial at the same seed."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for path in sorted(folder.glob("*-seed*.json")):
        name, seed = path.stem.rsplit("-seed", 1)
        scored = json.loads(path.read_text(encoding="utf-8"))
        found.setdefault(name, {})[seed] = {sampler: notes["scores"][0]["value"] for sampler, notes in scored.items()}
    samplers = list(found[plain][min(found[plain])])
    rows = []
    for name in sorted(found, key=lambda n: (n != plain, n)):
        cells = []
        for sampler in samplers:
            values = {seed: by_sampler[sampler] for seed, by_sampler in found[name].items()}
            apart = [v - found[plain][seed][sampler] for seed, v in values.items() if seed in found[plain]]
            cells.append(f"{np.mean(list(values.values())):.2f}" + ("" if name == plain else f" ({difference(apart)})"))
        rows.append([name, len(found[name]), *cells])
    return table(["trial", "seeds", *(f"BLEU of `{s}`" for s in samplers)], rows)


def difference(values: Sequence[float]) -> str:
    """The mean with half the width of its interval at 95 %, by Student's t."""
    half = "" if len(values) < 2 else f" ± {student_t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5:.2f}"
    return f"{np.mean(values):+.2f}{half}"


PARTS = {
    "scores": scores,
    "passes": passes,
    "latency": latency,
    "made": made,
    "claims": claims,
    "attention": attention,
    "hypotheses": hypotheses,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the tables of the page on translation.")
    parser.add_argument("name", nargs="?", help="under which a run is kept")
    parser.add_argument("run", nargs="?", type=Path, help="the folder of `gmlm pipeline`")
    options = parser.parse_args()
    if options.name is not None and options.run is None:
        parser.error("name a run's folder as well")
    if options.name in COMPARED:
        keep_compared(options.name, options.run)
    elif options.name is not None:
        keep(options.name, options.run)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
