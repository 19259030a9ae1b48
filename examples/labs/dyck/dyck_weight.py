# The weight of Lab C's regulariser: the largest at which the task is still learnt, by a rule that sees words of the trained length alone.
# python examples/labs dyck_weight [--quick] [--out FOLDER] [--page]
#
# The weight grows by factors of about three until a network tells fewer than WELL of the last brackets of words of the trained length; the
# one before is taken. Seeds of networks and words are none that the laboratory has, and neither the balance nor long words are looked at.
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dyck
import laboratory
from dyck_tables import WELL

HERE = Path(__file__).resolve().parent
SEEDS = (100, 101)
WEIGHTS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SETTING = "one-hot, regularised"


@dataclass(frozen=True)
class Search:
    """The laboratory's size, and how many of the weights are tried at most."""

    lab: dyck.Size
    most: int = len(WEIGHTS)


def accuracy(search: Search, out: Path, weight: float) -> list[float]:
    """Last brackets told as the likeliest of all, of words of the trained length, seed by seed."""
    rows, lengths = dyck.closing(dyck.drawn(2, dyck.LENGTH, search.lab.unseen, 5), 2, dyck.LENGTH, 6)
    networks = [dyck.Trained(search.lab, out / f"{weight:g}", SETTING, seed, weight) for seed in SEEDS]
    return [dyck.accuracy(network.params["net"].module, rows, lengths)["all"] for network in networks]


def searched(search: Search, out: Path) -> dict[str, list[float]]:
    """By weight, in the order in which they were tried; trained weights are kept, so that a search that was killed goes on with them."""
    tried: dict[str, list[float]] = {}
    for weight in WEIGHTS[: search.most]:
        tried[f"{weight:g}"] = accuracy(search, out, weight)
        if min(tried[f"{weight:g}"]) < WELL:
            break
    return tried


def taken(tried: dict[str, list[float]]) -> str | None:
    """The largest weight at which every seed does well; None where none does."""
    return next((weight for weight, found in reversed(tried.items()) if min(found) >= WELL), None)


def parts(size: Search, out: Path) -> dict[str, Callable[[], Any]]:
    return {"search": partial(searched, size, out)}


def tables(results: laboratory.Results, size: Search) -> dict[str, str]:
    tried = results["search"]
    rows = [[k, *(f"{100 * a:.1f}" for a in found), "taken" if k == taken(tried) else ""] for k, found in tried.items()]
    return {"dyck_weight-tried": laboratory.markdown(["weight", *(f"last brackets told, seed {k}, %" for k in SEEDS), ""], rows)}


def lab() -> laboratory.Lab:
    sizes = {"quick": Search(dyck.QUICK, 2), "default": Search(dyck.Size())}
    plain = {k: v for k, v in dyck.SETTINGS[SETTING].items() if k != "contrast"}
    settings = {"seeds": SEEDS, "weights": WEIGHTS, "well": WELL, "setting": plain, "opens": dyck.OPENS, "length": dyck.LENGTH}
    return laboratory.Lab("dyck_weight", HERE, sizes, parts, tables, lambda results, size: {}, settings)
