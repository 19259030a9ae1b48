# The tables of the statements on trial, from kept output.
from collections.abc import Sequence
from typing import Any

import laboratory
import numpy as np
from laboratory import AGREE, DISAGREE, markdown, ordered, spread, together, yes

SHOWN = "coupled, J = 0.5, h = 0.5: one cell"  # whose best mask is printed
CERTAIN = 1e-3  # the share by which a certified bound must leave the other mask behind


def tables(results: laboratory.Results, size: Any) -> dict[str, str]:
    bounds: dict[str, dict[str, dict[str, Any]]] = {kind: {"rows": {}, "masks": {}, "constants": {}} for kind in ("bound", "votes")}
    adaptive: dict[str, Any] = {}
    for name, found in results.items():
        kind, _, of = name.partition(": ")
        if kind in bounds:
            bounds[kind] = {part: some | found[part] for part, some in bounds[kind].items()}
        elif kind == "mask":
            adaptive |= {f"{of}: {family}": row for family, row in found.items()}
    bound, votes = bounds["bound"], bounds["votes"]
    made = {
        "fits": fits_table(bound),
        "masks": masks_table(bound),
        "parts": parts_table(bound),
        "verdicts": verdict_table(bound),
        "votes": fits_table(votes),
        "votes-parts": parts_table(votes),
        "votes-verdicts": verdict_table(votes),
        "networks": networks_table({name.partition(": ")[2]: found for name, found in results.items() if name.startswith("network: ")}),
        "trace": adaptive_table(adaptive, "trace", "trace of Γ"),
        "constant": adaptive_table(adaptive, "constant", "Poincaré constant"),
        "seen": seen_table(adaptive),
        "hidden": hidden_table(results["hidden"]),
        "knapsack": knapsack_table(results["knapsack"]),
        "energies": energies_table(results["energies"]),
        "walk": walk_table(results["walk"]),
    }
    return {f"statements-{name}": table for name, table in made.items()}


def fits_table(bound: Any) -> str:
    heads = ["blocks", "n", "TV of fits", "√n × TV", "√(C_AT × excess / 2)", "largest KL / (C_AT × excess)", "bound of Theorem 4, m = 1"]
    rows = []
    for key, f in bound["rows"].items():
        mask, n = key.split()
        c = bound["constants"][key]
        tv = np.array(f["tv"])
        steps = np.sqrt(c["C_AT searched"] * np.array(f["excess"]) / 2)
        worst = float((np.array(f["kl"]) / (c["C_AT searched"] * np.array(f["excess"]))).max())
        cells = spread(tv), spread(np.sqrt(float(n)) * tv), spread(steps), f"{worst:.3f}", power(c["log10 bound"])
        rows.append([mask, f"{int(n):,}", *cells])
    return markdown(heads, rows)


def masks_table(bound: Any) -> str:
    numbers = list(dict.fromkeys(key.split()[1] for key in bound["masks"]))
    heads = ["blocks", *(f"TV, m = {m}" if m != "None" else "TV, all masks" for m in numbers)]
    masks = dict.fromkeys(key.split()[0] for key in bound["masks"])
    return markdown(heads, [[mask, *(spread(bound["masks"][f"{mask} {m}"]["tv"]) for m in numbers)] for mask in masks])


def parts_table(bound: Any) -> str:
    least = min(int(key.split()[1]) for key in bound["constants"])
    heads = [
        "blocks",
        "loss",
        "√(C_AT × loss / 2)",
        "C_AT, certified",
        "C_AT, searched",
        "ln 1/β",
        "C_ε",
        "B of masks, m = 1",
        f"B of rows, n = {least:,}",
        f"C' at n = {least:,}",
    ]
    heads += ["m at which the masks' part is 0.1", "n at which the rows' part is 0.1", "n at which C' is 0.1"]
    rows = []
    for key, c in bound["constants"].items():
        mask, n = key.split()
        if int(n) != least:
            continue
        alone = np.sqrt(c["C_AT"] * c["loss"] / 2)
        row = [mask, f"{c['loss']:.3g}", f"{alone:.3g}", *(f"{c[k]:.3g}" for k in ("C_AT", "C_AT searched", "ln 1/beta"))]
        row += [power(c["log10 C_eps"]), power(c["log10 masks"]), f"{c['rows']:.3g}", power(c["log10 C'"])]
        rows.append([*row, *(power(c[k]) for k in ("log10 m", "log10 n for rows", "log10 n for C'"))])
    return markdown(heads, rows)


def verdict_table(bound: Any) -> str:
    rows, masks = bound["rows"], list(dict.fromkeys(key.split()[0] for key in bound["rows"]))
    ns = list(dict.fromkeys(key.split()[1] for key in rows))
    ms = list(dict.fromkeys(key.split()[1] for key in bound["masks"]))

    def tv(part: str, mask: str, at: str) -> Sequence[float]:
        return bound[part][f"{mask} {at}"]["tv"]

    more_rows = together([ordered(*(tv("rows", mask, n) for n in reversed(ns))) for mask in masks])
    larger = together([ordered(*(tv("rows", mask, n) for mask in reversed(masks))) for n in ns])
    more_masks = together([ordered(tv("masks", mask, ms[-1]), tv("masks", mask, ms[0])) for mask in masks[:-1]])
    inside = [
        f["kl"][k] <= bound["constants"][key]["C_AT"] * f["excess"][k] * (1 + 1e-6) for key, f in rows.items() for k in range(len(f["kl"]))
    ]
    slopes = [np.log(np.array(tv("rows", m, ns[0])) / tv("rows", m, ns[-1])) / np.log(int(ns[-1]) / int(ns[0])) for m in masks]
    away = max(max(f["away"]) for f in rows.values())
    kl = "KL(p, fit) is at most C_AT times the excess loss (Proposition 6, corrected)"
    return markdown(
        ["the theorem's content", "here", "verdict"],
        [
            ["TV falls with n", f"by n^-a, a = {', '.join(spread(s) for s in slopes)} for {', '.join(masks)} cells", more_rows],
            ["TV is less for masks of a smaller C_AT, at the same rows", f"{', '.join(masks)} cells, at each n", larger],
            ["TV is less with more masks a row", f"all masks beside one, at n = {int(ns[0]):,}", more_masks],
            [kl, f"{sum(inside):,} of {len(inside):,} fits", AGREE if all(inside) else DISAGREE],
            ["fits lie in the box, ± 0.5", f"largest error of a parameter {away:.2g}", AGREE if away <= 0.5 else DISAGREE],
        ],
    )  # fmt: skip


def adaptive_table(found: Any, goal: str, words: str) -> str:
    heads = [
        "model",
        "blocks",
        f"{words}: uniform",
        "best fixed",
        "best adaptive",
        "no adaptive mask is below",
        "adaptive below fixed, %",
        "of all cells",
        "",
    ]
    rows = []
    names = [name for name in found if not name.startswith("random")]
    for name in names:
        r = found[name][goal]
        model, _, family = name.partition(": ")
        cells = [f"{r[k]:.5g}" for k in ("uniform", "fixed", "adaptive", "adaptive bound")]
        rows.append([model, family, *cells, f"{100 * gain(r):.2f}", f"{r['limit']:.5g}", wins(r)])
    families = dict.fromkeys(name.partition(": ")[2] for name in found)
    for family in families:
        some = [found[name][goal] for name in found if name.startswith("random") and name.endswith(family)]
        won = f"{sum(wins(r) == 'wins' for r in some)} of {len(some)} win"
        rows.append([f"{len(some)} random ones", family, "", "", "", "", spread([gain(r) for r in some], 3, 100), "", won])
    return markdown(heads, rows)


def gain(r: Any) -> float:
    return 1 - r["adaptive"] / r["fixed"]


def wins(r: Any) -> str:
    """By the certified bounds alone: whether the best adaptive mask is below every fixed one, or no adaptive mask is, by a thousandth."""
    if r["adaptive"] < r["fixed bound"] * (1 - CERTAIN):
        return "wins"
    return "draws" if r["adaptive bound"] > r["fixed"] * (1 - CERTAIN) else "open"


def networks_table(found: Any) -> str:
    """Where chains of networks settle, by the mask that they were trained under."""
    heads = ["model", "mask", "TV of its own dynamics", "of Gibbs sampling", "own dynamics nearer than uniform"]
    heads += ["Gibbs nearer than uniform", "TV where the mask is forgotten", "the same of exact conditionals"]
    rows = []
    for model, masks in found.items():
        base = masks["uniform"]
        for name, r in masks.items():
            better = ["", ""] if r is base else [yes(r[k], base[k]) for k in ("own", "gibbs")]
            ends = spread(r["forgets"]), f"{round(r['right']['forgets'], 9):.3g}"
            rows.append([model, name, spread(r["own"]), spread(r["gibbs"]), *better, *ends])
    return markdown(heads, rows)


def seen_table(found: Any) -> str:
    rows = []
    for x, chances in zip(np.ndindex(2, 2, 2), found[SHOWN]["trace"]["chances"], strict=True):
        rows.append([" ".join("+" if b else "−" for b in x), *(f"{c:.3f}" for c in chances)])
    return markdown(["x", *(f"hides cell {k}" for k in range(3))], rows)


def hidden_table(found: Any) -> str:
    heads = [
        "D",
        "calls of rejection, exact",
        "D 2^(D-1)",
        "least expected calls, (M + 1) / 2 - 1 / M, M = 2^(D-1)",
        "rejection of symbols fails, exact",
        "1 - 2^-(D-1)",
    ]
    rows = []
    for key, r in found.items():
        n = int(key)
        hidden = 2 ** (n - 1)  # strings that may be the hidden one
        rows.append(
            [
                n,
                f"{r['calls']:,.6g}",
                f"{n * 2 ** (n - 1):,}",
                f"{(hidden + 1) / 2 - 1 / hidden:,.6g}",
                f"{r['fails']:.6f}",
                f"{1 - 2.0 ** (1 - n):.6f}",
            ]
        )
    return markdown(heads, rows)


def knapsack_table(found: Any) -> str:
    heads = [
        "items",
        "largest weight",
        "c",
        "solutions by the plan",
        "by dynamic programming",
        "draws of the right sum, %",
        "calls of a draw",
    ]
    rows = []
    for key, r in found.items():
        n, top = map(int, key.split())
        if "refused" in r:
            rows.append([n, f"{top:,}", f"{r['c']:,}", f"refused ({r['refused']})", f"{r['summed']:,}", "", ""])
        else:
            rows.append(
                [n, f"{top:,}", f"{r['c']:,}", f"{r['counted']:,.10g}", f"{r['summed']:,}", f"{100 * r['right']:.0f}", f"{r['calls']:.1f}"]
            )
    return markdown(heads, rows)


def walk_table(found: Any) -> str:
    heads = [
        "H",
        "error of V",
        "relaxation time",
        "2 / (1 - cos(π / 2H))",
        "steps from the root to within 1/4",
        "mass of whole strings",
        "1 / 2H",
    ]
    rows = []
    for key, some in found.items():
        h, sd = key.split()
        horizon = int(h)
        cells = [spread([r[k] for r in some], 4) for k in ("relaxation", "mixing", "leaves")]
        cells.insert(1, f"{2 / (1 - np.cos(np.pi / (2 * horizon))):.4g}" if sd == "0" else "")
        rows.append([h, sd, *cells, f"{1 / (2 * horizon):.4g}" if sd == "0" else ""])
    return markdown(heads, rows)


def energies_table(found: Any) -> str:
    heads = ["J", "conditionals of p: TV of Gibbs", "of Metropolis-Hastings", "learnt: TV of Gibbs", "of Metropolis-Hastings"]
    heads += ["accepted flips, %", "is Metropolis-Hastings nearer to p"]
    rows = []
    for coupling, r in found.items():
        own, learnt = r["own"], r["learnt"]
        cells = [f"{own[k]:.3g}" if own[k] > 1e-9 else "0" for k in ("gibbs", "metropolis")]
        cells += [spread(learnt["gibbs"]), spread(learnt["metropolis"]), spread(learnt["accepted"], 3, 100)]
        rows.append([coupling, *cells, yes(learnt["metropolis"], learnt["gibbs"])])
    return markdown(heads, rows)


def power(log10: float) -> str:
    """A number by its logarithm."""
    return f"{10**log10:.3g}" if abs(log10) < 4 else f"10^{log10:.1f}"
